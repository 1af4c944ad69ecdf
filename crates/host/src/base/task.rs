//! Facts about one host thread, from `/proc/self/task`.

use crate::base::os;
use crate::base::report::Text;
use core::fmt::Write;
use ids::Nanos;

/// A file of `/proc/self/task/TID`; empty if it cannot be read.
pub(crate) fn read<'a>(tid: u32, file: &str, bytes: &'a mut [u8]) -> &'a [u8] {
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/self/task/{tid}/{file}\0");
    os::read_file(path.as_bytes(), bytes)
}

/// The part of a `stat` behind the name, which is in parentheses and may hold any bytes.
pub(crate) fn after_name(stat: &[u8]) -> Option<&str> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    Some(core::str::from_utf8(stat.get(end + 1..)?).ok()?.trim())
}

/// The part of a `status` line behind its label. A name may hold any bytes except a line end.
pub(crate) fn labelled<'a>(status: &'a [u8], label: &str) -> Option<&'a str> {
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(label.as_bytes()))?;
    Some(core::str::from_utf8(line).ok()?.trim())
}

/// How long this host thread waited for a processor (run delay, the second figure of `schedstat`).
pub(crate) fn run_delay(tid: u32) -> Nanos {
    let mut bytes = [0; 96];
    let text = core::str::from_utf8(read(tid, "schedstat", &mut bytes)).unwrap_or("");
    Nanos(text.split(' ').nth(1).and_then(|figure| figure.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = b"7 (a\xff) b) S 1 2 3\n";
        assert_eq!(after_name(stat), Some("S 1 2 3"));
        let status = b"Name:\t\xff\xfe\\nTracerPid:\t9\nState:\tR (running)\nTracerPid:\t12\n";
        assert_eq!((labelled(status, "TracerPid:"), labelled(status, "SigPnd:")), (Some("12"), None));
        assert_eq!((after_name(b""), labelled(b"", "TracerPid:")), (None, None));
    }
}
