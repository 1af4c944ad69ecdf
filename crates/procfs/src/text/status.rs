//! `/proc/PID/status`, `limits`: `Key:\tvalue` and a table. The host's text with our lines in it.

use super::{Room, State};
use core::fmt::{self, Write};

/// The fields that are ours.
#[derive(Clone, Copy, Debug)]
pub struct Ours<'a> {
    /// Name, not escaped.
    pub name: &'a [u8],
    /// State.
    pub state: State,
    /// The process.
    pub tgid: i32,
    /// The thread.
    pub pid: i32,
    /// How many threads the process has.
    pub threads: u32,
    /// Signals pending for the thread, for the process, blocked, ignored, caught; bit 0 is signal 1.
    pub signals: [u64; 5],
    /// CPUs it may run on, lowest first.
    pub cpus: &'a [u32],
    /// The number of CPUs, which is the number of bits written.
    pub cpus_possible: u32,
    /// Voluntary and involuntary context switches.
    pub switches: [u64; 2],
}

/// The host's text as this thread's: our lines are replaced, all others copied.
pub fn write(host: &[u8], ours: &Ours<'_>, to: &mut Room<'_>) -> fmt::Result {
    for line in host.split_inclusive(|&byte| byte == b'\n') {
        let key = line.split(|&byte| byte == b':').next().unwrap_or_default();
        if !ours.line(key, to)? {
            to.raw(line)?;
        }
    }
    Ok(())
}

impl Ours<'_> {
    fn line(&self, key: &[u8], to: &mut Room<'_>) -> Result<bool, fmt::Error> {
        let [pending, shared, blocked, ignored, caught] = self.signals;
        match key {
            b"Name" => {
                to.write_str("Name:\t")?;
                to.escaped(self.name)?;
                to.write_str("\n")
            }
            b"State" => writeln!(to, "State:\t{}", self.state.words()),
            b"Tgid" => writeln!(to, "Tgid:\t{}", self.tgid),
            b"Pid" => writeln!(to, "Pid:\t{}", self.pid),
            b"NStgid" => writeln!(to, "NStgid:\t{}", self.tgid),
            b"NSpid" => writeln!(to, "NSpid:\t{}", self.pid),
            b"Threads" => writeln!(to, "Threads:\t{}", self.threads),
            b"SigPnd" => writeln!(to, "SigPnd:\t{pending:016x}"),
            b"ShdPnd" => writeln!(to, "ShdPnd:\t{shared:016x}"),
            b"SigBlk" => writeln!(to, "SigBlk:\t{blocked:016x}"),
            b"SigIgn" => writeln!(to, "SigIgn:\t{ignored:016x}"),
            b"SigCgt" => writeln!(to, "SigCgt:\t{caught:016x}"),
            b"Cpus_allowed" => self.mask(to),
            b"Cpus_allowed_list" => self.ranges(to),
            b"voluntary_ctxt_switches" => writeln!(to, "voluntary_ctxt_switches:\t{}", self.switches[0]),
            b"nonvoluntary_ctxt_switches" => writeln!(to, "nonvoluntary_ctxt_switches:\t{}", self.switches[1]),
            _ => return Ok(false),
        }?;
        Ok(true)
    }

    /// Words of 32 bits, the highest first and only as wide as it needs to be (`%*pb`).
    fn mask(&self, to: &mut Room<'_>) -> fmt::Result {
        to.write_str("Cpus_allowed:\t")?;
        let bits = self.cpus_possible.max(1);
        for word in (0..bits.div_ceil(32)).rev() {
            let set = self.cpus.iter().filter(|&&cpu| cpu / 32 == word).fold(0_u32, |set, cpu| set | 1 << (cpu % 32));
            let is_first = word == bits.div_ceil(32) - 1;
            let digits = if is_first { ((bits - 1) % 32 / 4 + 1) as usize } else { 8 };
            write!(to, "{}{set:0digits$x}", if is_first { "" } else { "," })?;
        }
        to.write_str("\n")
    }

    /// `0-3,5` (`%*pbl`).
    fn ranges(&self, to: &mut Room<'_>) -> fmt::Result {
        to.write_str("Cpus_allowed_list:\t")?;
        let mut rest = self.cpus;
        while let Some(&first) = rest.first() {
            let more = rest.windows(2).take_while(|two| two[1] == two[0] + 1).count();
            let comma = if rest.len() == self.cpus.len() { "" } else { "," };
            match more {
                0 => write!(to, "{comma}{first}")?,
                _ => write!(to, "{comma}{first}-{}", rest[more])?,
            }
            rest = &rest[more + 1..];
        }
        to.write_str("\n")
    }
}

/// A row of `limits`: name, soft, hard, unit (`proc_pid_limits`). `u64::MAX` is unlimited.
pub fn limit_row(name: &str, soft: u64, hard: u64, unit: &str, to: &mut Room<'_>) -> fmt::Result {
    write!(to, "{name:<25} ")?;
    for limit in [soft, hard] {
        match limit {
            u64::MAX => write!(to, "{:<20} ", "unlimited")?,
            n => write!(to, "{n:<20} ")?,
        }
    }
    match unit {
        "" => to.write_str("\n"),
        unit => writeln!(to, "{unit:<10}"),
    }
}

/// The host's `limits`, with our rows in place of its rows of the same name.
pub fn write_limits(host: &[u8], ours: &[(&str, [u64; 2], &str)], to: &mut Room<'_>) -> fmt::Result {
    for line in host.split_inclusive(|&byte| byte == b'\n') {
        let row =
            ours.iter().find(|(name, ..)| line.starts_with(name.as_bytes()) && line.get(name.len()) == Some(&b' '));
        match row {
            Some((name, [soft, hard], unit)) => limit_row(name, *soft, *hard, unit, to)?,
            None => to.raw(line)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const OURS: Ours<'_> = Ours {
        name: b"a b\n)",
        state: State::Sleeping,
        tgid: 7,
        pid: 4_194_400,
        threads: 100_000,
        signals: [1, 2, 4, 8, 16],
        cpus: &[0, 1, 2, 5],
        cpus_possible: 6,
        switches: [11, 12],
    };

    fn text(run: impl FnOnce(&mut Room<'_>) -> fmt::Result) -> String {
        let mut bytes = [0; 8192];
        let mut room = Room::new(&mut bytes);
        run(&mut room).unwrap();
        String::from_utf8(room.text().to_vec()).unwrap()
    }

    #[test]
    fn the_hosts_text_keeps_its_shape() {
        let host = std::fs::read("/proc/self/status").unwrap();
        let ours = text(|to| write(&host, &OURS, to));
        let host = String::from_utf8(host).unwrap();
        let keys =
            |text: &str| text.lines().map(|l| l.split(':').next().unwrap().into()).collect::<std::vec::Vec<String>>();
        assert_eq!(keys(&ours), keys(&host));
        for line in [
            "Name:\ta b\\n)",
            "Pid:\t4194400",
            "NSpid:\t4194400",
            "Tgid:\t7",
            "Threads:\t100000",
            "SigPnd:\t0000000000000001",
            "ShdPnd:\t0000000000000002",
            "SigBlk:\t0000000000000004",
            "SigIgn:\t0000000000000008",
            "SigCgt:\t0000000000000010",
            "NStgid:\t7",
            "voluntary_ctxt_switches:\t11",
            "Cpus_allowed:\t27",
            "Cpus_allowed_list:\t0-2,5",
            "nonvoluntary_ctxt_switches:\t12",
            "State:\tS (sleeping)",
        ] {
            assert!(ours.lines().any(|l| l == line), "{line} in {ours}");
        }
        let uid = host.lines().find(|l| l.starts_with("Uid:")).unwrap();
        assert!(ours.contains(uid), "credentials are the host's");
    }

    #[test]
    fn the_state_is_ours_whatever_the_host_says() {
        let host = b"State:\tR (running)\nUmask:\t0022\n";
        assert_eq!(text(|to| write(host, &OURS, to)), "State:\tS (sleeping)\nUmask:\t0022\n");
    }

    #[test]
    fn masks_are_as_wide_as_the_machine() {
        let of = |cpus_possible, cpus: &[u32]| text(|to| Ours { cpus, cpus_possible, ..OURS }.mask(to));
        assert_eq!(of(2, &[0, 1]), "Cpus_allowed:\t3\n");
        assert_eq!(of(64, &[0, 63]), "Cpus_allowed:\t80000000,00000001\n");
        assert_eq!(of(36, &[35]), "Cpus_allowed:\t8,00000000\n");
        assert_eq!(of(33, &[0, 31, 32]), "Cpus_allowed:\t1,80000001\n");
        assert_eq!(of(5, &[4]), "Cpus_allowed:\t10\n");
        assert_eq!(of(8, &[1, 7]), "Cpus_allowed:\t82\n");
        assert_eq!(of(96, &[64]), "Cpus_allowed:\t00000001,00000000,00000000\n");
    }

    #[test]
    fn limits_are_rewritten_to_the_byte() {
        let host = std::fs::read("/proc/self/limits").unwrap();
        let lines = String::from_utf8(host.clone()).unwrap();
        let row = lines.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
        let mut words = row["Max cpu time".len()..].split_whitespace();
        let mut limit = || words.next().map(|w| w.parse().unwrap_or(u64::MAX)).unwrap();
        let both = [limit(), limit()];
        assert_eq!(text(|to| write_limits(&host, &[("Max cpu time", both, "seconds")], to)), lines);
        // A row is replaced by its whole name, and one without a unit ends after its numbers.
        let host = b"Max cpu time              1\nMax cpu times             2\nMax nice priority         3\n";
        let rows = [("Max cpu time", [5, 6], "seconds"), ("Max nice priority", [7, 8], "")];
        assert_eq!(
            text(|to| write_limits(host, &rows, to)),
            "Max cpu time              5                    6                    seconds   \n\
             Max cpu times             2\n\
             Max nice priority         7                    8                    \n"
        );
        assert_eq!(
            text(|to| limit_row("Max nice priority", 0, u64::MAX, "", to)),
            "Max nice priority         0                    unlimited            \n"
        );
    }
}
