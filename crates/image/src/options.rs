//! The options that `entresol run` passes to the image: `ENTRESOL_OPTIONS=v=1;name=value;…`.

use core::fmt::Write;
use host::natives::Tree;
use host::report::Text;
use ids::Nanos;

/// The options, with their defaults filled in.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The number of CPUs; 0 means as many as the host lets us use, up to the quota.
    pub cpus: usize,
    /// The number of CPUs that the host's quota allows.
    pub quota: Option<usize>,
    /// The time between ticks.
    pub tick: Nanos,
    /// `--rt=host`.
    pub rt_host_rules: bool,
    /// `--pending-signals=unlimited`.
    pub pending_unlimited: bool,
    /// A filter around the process kills for `sched_setaffinity`.
    pub is_unbound: bool,
    /// `--guards=mappings`.
    pub mapped_guards: bool,
    /// `--io`.
    pub io: kernel::Io,
    /// `--stats`, for this process.
    pub stats: bool,
    /// The user is told of programs that run natively (not with `--no-note`).
    pub note: bool,
    /// `--require`.
    pub require: bool,
    /// System calls are caught by a filter (`--catch=seccomp`).
    pub by_filter: bool,
    /// The filter is not there yet.
    pub makes_filter: bool,
    /// The processes that descend from one `entresol run`; `None`: this is the first of them.
    pub tree: Option<Tree>,
    /// Seconds without progress of a CPU after which the process ends; 0: never.
    pub watchdog: Option<u32>,
    /// The longest lead before the end of a real-time thread's sleep (`--ahead`).
    pub ahead: Option<Nanos>,
    /// The order of real-time threads is checked by samples (`--check-order`).
    pub check_order: bool,
    /// Switches are recorded (`--trace`).
    pub trace: bool,
    /// The time between two samples (`entresol profile`).
    pub sample: Option<Nanos>,
    /// Samples are by the wall clock.
    pub sample_wall: bool,
    /// The folder that records go to.
    pub records: &'a [u8],
    /// The run is controlled (`entresol chaos`).
    pub chaos: crate::chaos::Settings<'a>,
    /// The fault to plant.
    #[cfg(feature = "planted")]
    pub plant: &'a [u8],
    /// The reserve of static thread-local storage that this start was given, in bytes; 0: glibc's own.
    pub reserve: u64,
    /// The program's name, if a restart has changed it.
    pub name: Option<[u8; 16]>,
    /// The descriptor of the program to load, if the image was executed in its place.
    pub program: Option<i32>,
    /// State passed on by the thread that made the exec ([`kernel::Carried`]).
    pub thread: &'a [u8],
    /// The signals that are ignored at the program's start, if the program that made the exec has passed them on.
    pub ignored: Option<u64>,
    /// The clock's rate, if the program that made the exec knew it.
    pub rate: Option<u64>,
    /// The folder for short-lived files of the user who gave the command (XDG_RUNTIME_DIR there), or empty.
    pub runtime: &'a [u8],
    /// The image's own path.
    pub image: &'a [u8],
}

/// The lowest and highest tick rate.
pub const HZ: core::ops::RangeInclusive<u64> = 1..=100_000;

/// The largest value of `--ahead`, in microseconds.
pub const AHEAD_MICROS_MAX: u64 = 100_000;

/// The most ranges of the program's own code in which places are drawn.
pub const OWN_CODE_MAX: usize = 32;

/// The largest value of the watchdog.
pub const SECONDS_MAX: u64 = 1_000_000;

impl<'a> Options<'a> {
    /// Reads the value for the process `pid`. Unknown names are for newer images and are skipped.
    pub fn parse(value: &'a [u8], pid: i32) -> Options<'a> {
        let mut o = Options {
            cpus: 0,
            quota: None,
            tick: Nanos::from_millis(1),
            rt_host_rules: false,
            pending_unlimited: false,
            is_unbound: false,
            mapped_guards: false,
            io: kernel::Io::Auto,
            stats: false,
            note: true,
            require: false,
            by_filter: false,
            makes_filter: false,
            tree: None,
            watchdog: None,
            ahead: None,
            check_order: false,
            trace: false,
            sample: None,
            sample_wall: false,
            records: b"",
            chaos: crate::chaos::Settings::default(),
            #[cfg(feature = "planted")]
            plant: b"",
            reserve: 0,
            name: None,
            program: None,
            thread: b"",
            ignored: None,
            rate: None,
            runtime: b"",
            image: b"",
        };
        for pair in value.split(|&b| b == b';') {
            let Some(at) = pair.iter().position(|&b| b == b'=') else { continue };
            let (name, value) = (&pair[..at], &pair[at + 1..]);
            match name {
                b"cpus" => o.cpus = number(value).unwrap_or(0) as usize,
                b"quota" => o.quota = number(value).filter(|&cpus| cpus > 0).map(|cpus| cpus as usize),
                b"hz" => {
                    if let Some(hz) = number(value).filter(|hz| HZ.contains(hz)) {
                        o.tick = Nanos(1_000_000_000 / hz);
                    }
                }
                b"pending" => o.pending_unlimited = value == b"unlimited",
                b"bind" => o.is_unbound = value == b"none",
                b"guards" => o.mapped_guards = value == b"mappings",
                b"io" => {
                    o.io = match value {
                        b"epoll" => kernel::Io::Poller,
                        b"threads" => kernel::Io::Threads,
                        _ => kernel::Io::Auto,
                    }
                }
                b"rt" => o.rt_host_rules = value == b"host",
                // The command writes 1; an exec passes on the id of the process that is meant.
                b"stats" => o.stats = value == b"1" || number(value) == u64::try_from(pid).ok(),
                b"note" => o.note = value != b"none",
                b"require" => o.require = value == b"1",
                b"catch" => o.by_filter = value == b"seccomp",
                b"filter" => o.makes_filter = value == b"1",
                b"tree" => o.tree = tree(value),
                b"watchdog" => o.watchdog = number(value).map(|s| s.min(SECONDS_MAX) as u32),
                b"ahead" => o.ahead = number(value).filter(|&us| us <= AHEAD_MICROS_MAX).map(Nanos::from_micros),
                b"sample" => o.sample = number(value).filter(|&ns| ns > 0).map(Nanos),
                b"order" => o.check_order = value == b"check",
                b"trace" => o.trace = value == b"1",
                b"clock" => o.sample_wall = value == b"wall",
                b"records" => o.records = value,
                b"chaos" | b"strategy" | b"seed" | b"epoch" | b"places" | b"own" | b"races" | b"pauses" | b"only"
                | b"run" => {
                    o.chaos.set(name, value);
                }
                #[cfg(feature = "planted")]
                b"plant" => o.plant = value,
                b"reserve" => o.reserve = number(value).unwrap_or(0),
                b"name" => o.name = Some(from_hex(value)),
                b"program" => o.program = number(value).and_then(|fd| i32::try_from(fd).ok()),
                b"thread" => o.thread = value,
                b"ignored" => o.ignored = number(value),
                b"rate" => o.rate = number(value),
                b"runtime" => o.runtime = value,
                b"image" => o.image = value,
                _ => {}
            }
        }
        o
    }
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads back what [`write_tree`] has written.
fn tree(text: &[u8]) -> Option<Tree> {
    let mut numbers = text.split(|&b| b == b',').map(number);
    let root = i32::try_from(numbers.next()??).ok()?;
    Some(Tree { root, began: numbers.next()??, stream: [numbers.next()??, numbers.next()??] })
}

/// Writes the tree's option for the programs that this one executes.
pub(crate) fn write_tree(tree: &Tree) -> Text<96> {
    let (mut text, [device, inode]) = (Text::default(), tree.stream);
    let _ = write!(text, "tree={},{},{device},{inode}", tree.root, tree.began);
    text
}

/// Decodes pairs of hexadecimal digits, as many as fit with a final zero.
fn from_hex(text: &[u8]) -> [u8; 16] {
    let digit = |d: u8| char::from(d).to_digit(16).unwrap_or(0) as u8;
    let mut bytes = [0; 16];
    for (to, pair) in bytes[..15].iter_mut().zip(text.chunks_exact(2)) {
        *to = digit(pair[0]) << 4 | digit(pair[1]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ahead_is_in_microseconds() {
        let ahead = |value: &[u8]| Options::parse(value, 5).ahead;
        assert_eq!([ahead(b"v=1;ahead=0"), ahead(b"v=1;ahead=700")], [Some(Nanos::ZERO), Some(Nanos(700_000))]);
        assert_eq!([ahead(b"v=1"), ahead(b"v=1;ahead=100001"), ahead(b"v=1;ahead=x")], [None; 3]);
    }

    #[test]
    fn a_quota_is_at_least_one_cpu() {
        let quota = |value: &[u8]| Options::parse(value, 5).quota;
        assert_eq!([quota(b"v=1;quota=1"), quota(b"v=1;quota=12")], [Some(1), Some(12)]);
        assert_eq!([quota(b"v=1"), quota(b"v=1;quota=0"), quota(b"v=1;quota=-1")], [None; 3]);
    }

    #[test]
    fn the_tree_is_handed_on() {
        let tree = Tree { root: 77, began: u64::MAX, stream: [u64::MAX, 5] };
        assert_eq!(Options::parse(write_tree(&tree).as_bytes(), 5).tree, Some(tree));
        for damaged in [&b"tree=7,8,9"[..], b"tree=-1,1,1,1", b"tree=", b"v=1"] {
            assert_eq!(Options::parse(damaged, 5).tree, None);
        }
        let o = Options::parse(b"v=1;note=none;require=1", 5);
        assert!(!o.note && o.require && Options::parse(b"v=1", 5).note);
    }

    #[test]
    fn what_a_second_start_is_told() {
        let o = Options::parse(b"v=1;reserve=786432;name=612d3d3b62;image=/i.so", 5);
        assert_eq!((o.reserve, o.name.as_ref().map(|n| &n[..6])), (786_432, Some(&b"a-=;b\0"[..])));
        assert_eq!(Options::parse(b"v=1;image=/i.so", 5).name, None);
        // Damaged and too long ones end somewhere.
        assert_eq!(from_hex(b"4"), [0; 16]);
        assert_eq!(from_hex(&[b'6'; 64])[15], 0);
    }
}
