//! A controlled run (`entresol chaos`): the command's settings, and the words shared with the command.

use crate::options::number;
use abi::args::{MAP_SHARED, O_RDWR, PROT_READ_WRITE};
use arch::syscall;
use chaos::{Control, Log, Pauses, Races, Rng, Spec, Torn};
use host::os;
use ids::Nanos;
use sync::atomic::AtomicU64;

/// How a program was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// By the command.
    First,
    /// Once more, by [`restart`](crate::restart).
    Again,
    /// By another program.
    Executed,
}

/// The options of a controlled run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// The file with the words; empty: the run is not controlled.
    pub log: &'a [u8],
    /// `None`: repeat the switches in the log.
    pub strategy: Option<Spec>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The time at which the run begins.
    pub epoch: Nanos,
    /// How many places in the program's own code become scheduling points.
    pub places: usize,
    /// The code in which most of these are, as numbers with commas between them: where each range begins and ends in the
    /// program's file. Empty: anywhere.
    pub own_code: &'a [u8],
    /// Whether it looks for races.
    pub races: bool,
    /// Whether more than the order of threads is drawn from the seed: pauses, the pace of time, torn updates.
    pub pauses: bool,
    /// The number of the run, of those that share the file.
    pub run: u32,
    /// The program that is controlled, by the end of its path, with those that it executes in its place; empty: the one
    /// that the command starts.
    pub only: &'a [u8],
    /// The words, once this process is the controlled one.
    mapped: Option<Log<'static>>,
}

impl<'a> Settings<'a> {
    /// Sets an option.
    pub(crate) fn set(&mut self, name: &[u8], value: &'a [u8]) {
        let n = number(value).unwrap_or(0);
        match name {
            b"chaos" => self.log = value,
            b"strategy" => self.strategy = core::str::from_utf8(value).ok().and_then(Spec::parse),
            b"seed" => self.seed = n,
            b"epoch" => self.epoch = Nanos(n),
            b"places" => self.places = n as usize,
            b"own" => self.own_code = value,
            b"races" => self.races = n != 0,
            b"pauses" => self.pauses = n != 0,
            b"only" => self.only = value,
            b"run" => self.run = n as u32,
            _ => {}
        }
    }

    /// Decides whether this process is the controlled one; before, it is not. `path` is the executed program, which may
    /// be a script.
    ///
    /// # Errors
    /// The command has started it, and it cannot use the log. A process with other rights may not, and is not
    /// controlled.
    pub(crate) fn decide(&mut self, path: &[u8], start: Start) -> Result<(), ()> {
        let words = self.map();
        let Some(log) = words.and_then(Log::new).filter(Log::is_ready) else {
            return if start == Start::First && !self.log.is_empty() { Err(()) } else { Ok(()) };
        };
        let is_named = self.only.is_empty() || ends_with(path, self.only);
        // In another namespace of process ids, neither side could name the other.
        let sees_command = os::is_there(log.command() as i32);
        if !sees_command || !log.claim(self.run, os::getpid(), is_named) {
            if start != Start::Again {
                log.count_other(self.run);
            }
            let words = words.unwrap_or_default();
            // SAFETY: nobody else has seen this mapping, and nothing uses it from here on.
            unsafe { os::unmap(words.as_ptr() as *mut u8, size_of_val(words)) };
            return Ok(());
        }
        self.mapped = Some(log);
        if start == Start::Executed && (self.only.is_empty() || !is_named) {
            // The ranges are of another file.
            self.own_code = b"";
        }
        Ok(())
    }

    /// Whether the run is controlled.
    pub(crate) fn is_on(&self) -> bool {
        self.mapped.is_some()
    }

    /// In a controlled run, derives the random bytes that Linux gives a program at this address (AT_RANDOM) from the
    /// seed as well. The dynamic linker has taken its canaries from them before.
    ///
    /// # Safety
    /// The address is that of the auxiliary vector, or 0; the process has one thread.
    pub(crate) unsafe fn set_random_bytes(&self, at: u64) {
        // Numbers different from those of `getrandom`.
        let mut rng = Rng::new(!self.seed);
        if self.is_on() && at != 0 {
            // SAFETY: sixteen bytes on the stack that nothing else reads now.
            unsafe { (at as *mut [u64; 2]).write_unaligned([rng.next_u64(), rng.next_u64()]) };
        }
    }

    /// The object that makes the choices, if the run is controlled.
    pub(crate) fn control(&self) -> Option<Control> {
        let log = self.mapped?;
        let strategy = match self.strategy {
            Some(spec) => spec.strategy(self.seed, &log.expected()),
            None => Spec::replay(log.planned(), log.patience()),
        };
        let mut control = Control::new(strategy, log);
        if self.pauses {
            control.pause(Pauses::new(self.seed));
            control.tear(Torn::new(self.seed));
        }
        if self.races {
            let races = Races::new(Rng::new(self.seed ^ 0x4ace), log.known());
            control.watch(races, self.strategy.is_some());
        }
        Some(control)
    }

    /// Maps the words. `None` if there are none, or the host does not let this process use them.
    fn map(&self) -> Option<&'static [AtomicU64]> {
        if self.log.is_empty() {
            return None;
        }
        let path = [self.log, &[0]].concat();
        let fd = os::open(&path, O_RDWR, 0).ok()?;
        let len = os::len(fd).unwrap_or(0) as usize;
        // SAFETY: a new mapping harms nobody.
        let at = unsafe { syscall!(abi::nr::MMAP, 0, len, PROT_READ_WRITE, MAP_SHARED, fd, 0) };
        os::close(fd);
        if at <= 0 {
            return None;
        }
        // SAFETY: mapped just now, aligned, of this length; whoever unmaps it uses it no more; all accesses are atomic.
        Some(unsafe { core::slice::from_raw_parts(at as *const AtomicU64, len / 8) })
    }
}

/// Whether these are the last components of the path.
fn ends_with(path: &[u8], components: &[u8]) -> bool {
    path.strip_suffix(components).is_some_and(|rest| rest.last().is_none_or(|&byte| byte == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn what_the_command_says_is_read() {
        let o = Options::parse(b"v=1;chaos=/tmp/x;strategy=pct:2;seed=7;epoch=5;places=3;races=1;pauses=1", 5).chaos;
        assert_eq!((o.log, o.strategy, o.seed), (&b"/tmp/x"[..], Some(Spec::Pct(2)), 7));
        assert_eq!((o.epoch, o.places, o.races, o.pauses), (Nanos(5), 3, true, true));
        assert!(!o.is_on() && o.only.is_empty());
        let o = Options::parse(b"chaos=x;strategy=replay;only=a/b", 5).chaos;
        assert_eq!((o.strategy, o.races, o.pauses, o.only), (None, false, false, &b"a/b"[..]));
    }

    #[test]
    fn programs_are_named_by_the_end_of_their_path() {
        for (path, name) in [("/usr/bin/test", "test"), ("test", "test"), ("./a/b", "a/b"), ("/a/b", "/a/b")] {
            assert!(ends_with(path.as_bytes(), name.as_bytes()), "{path} {name}");
        }
        for (path, name) in [("/usr/bin/mytest", "test"), ("test", "./test"), ("/a/b/c", "b"), ("", "b")] {
            assert!(!ends_with(path.as_bytes(), name.as_bytes()), "{path} {name}");
        }
    }

    #[test]
    fn without_a_log_nothing_is_controlled() {
        let decided = |options: &'static [u8], start| {
            let mut settings = Options::parse(options, 5).chaos;
            (settings.decide(b"/bin/x", start), settings.is_on())
        };
        assert_eq!(decided(b"v=1", Start::First), (Ok(()), false));
        assert_eq!(decided(b"v=1;chaos=/nowhere", Start::First), (Err(()), false));
        assert_eq!(decided(b"v=1;chaos=/nowhere", Start::Executed), (Ok(()), false));
    }
}
