//! `/sys/devices/system/cpu/online`, which glibc reads for `sysconf(_SC_NPROCESSORS_ONLN)` and
//! `std::thread::hardware_concurrency`: the CPUs that `sched_getaffinity(2)` reports, too, so that a program starts as
//! many threads as the quota of its control group, or `--cpus`, has CPUs for. It is not in `/proc`, but its text is put
//! before the program in the same way.

use crate::machine::Arg::Word;
use crate::{Host, Linux, facts};
use abi::args::{O_ACCMODE, O_CLOEXEC, O_DIRECTORY, O_PATH};
use abi::nr;
use core::fmt::Write;
use kernel::machine::Call;
use kernel::trap::Out;
use procfs::text::Room;

const PATH: &[u8] = b"/sys/devices/system/cpu/online";
/// The beginning of [`PATH`], as one word.
pub(super) const BEGINNING: u64 = u64::from_le_bytes(*b"/sys/dev");

impl<M: Host> Linux<'_, M> {
    /// Opens the file for reading. `None`: it is another file, or the host's has to do.
    #[cold]
    #[inline(never)]
    pub(super) fn open_online(&self, call: &Call, flags: u64, path: &[u8]) -> Option<Out> {
        if path != PATH || flags & (O_ACCMODE | O_PATH | O_DIRECTORY) != 0 {
            return None;
        }
        // The host says whether the caller may, and whether there is such a file: a container may lack `/sys`.
        let hosts = self.host(call);
        if hosts < 0 {
            return Some(Out::Done(hosts));
        }
        let mut bytes = [0; 16];
        let mut text = Room::new(&mut bytes);
        // A number of a CPU has at most four digits.
        let _ = match self.config().cpus.max(1) - 1 {
            0 => writeln!(text, "0"),
            last => writeln!(text, "0-{last}"),
        };
        let ours = self.host_memory_file(true);
        let is_written = ours >= 0 && self.write_host(ours as u64, text.text()).is_ok();
        if is_written {
            self.ask(nr::DUP3, &mut [Word(ours as u64), Word(hosts as u64), Word(flags & O_CLOEXEC)]);
        }
        if ours >= 0 {
            facts::close(&self.m, ours as u64);
        }
        Some(Out::Done(hosts))
    }
}
