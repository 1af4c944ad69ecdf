//! `ioprio_get(2)` and `ioprio_set(2)`: a thread's priority for I/O on disks.
//!
//! Each thread has its own, which its children and the programs that it executes inherit. The host knows carriers only:
//! the one whose thread gives itself a priority gets it, too, so that it has effect while the thread is there.

use crate::machine::Arg::Word;
use crate::machine::ask;
use crate::{Host, Linux};
use abi::nr;
use ids::{CpuId, ThreadIdx};
use kernel::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicBool, Ordering::*};

/// The first argument: the second one is the id of a thread (IOPRIO_WHO_PROCESS), of a process group or of a user. Id 0
/// is the caller's.
const OF_THREAD: u64 = 1;
const OF_GROUP: u64 = 2;
const OF_USER: u64 = 3;

/// Where the class begins; class 0 is IOPRIO_CLASS_NONE.
const CLASS_SHIFT: u32 = 13;

/// Whether the program has given a thread a priority, and with it a carrier.
#[derive(Debug, Default)]
pub(crate) struct Given(AtomicBool);

impl<M: Host> Linux<'_, M> {
    /// The thread of ours that such a call means.
    fn thread_for_io(&self, t: ThreadIdx, call: &Call) -> Option<ThreadIdx> {
        (call.args[0] == OF_THREAD).then(|| self.named_or_self(t, call.args[1] as i32))?
    }

    pub(crate) fn sys_ioprio_get(&self, t: ThreadIdx, call: &Call) -> Out {
        let Some(of) = self.thread_for_io(t, call) else { return Out::Done(self.host(call)) };
        let own = self.thread(of).io_priority.load(Relaxed);
        if own != 0 || self.state().io.0.load(Relaxed) {
            return Out::Done(own as isize);
        }
        // The thread was given none, and neither was its carrier: the host's default (`get_task_raw_ioprio`).
        Out::Done(self.io_priority_of_carrier())
    }

    /// The host checks the value and the caller's right to it by giving it to the calling carrier, which keeps it if the
    /// caller means itself.
    pub(crate) fn sys_ioprio_set(&self, t: ThreadIdx, call: &Call) -> Out {
        let of = self.thread_for_io(t, call);
        let mut asked = *call;
        if of.is_some() {
            asked.args[1] = 0;
        }
        let result = self.host(&asked);
        if result == 0 {
            let value = u32::from(call.args[2] as u16);
            let give = |t: ThreadIdx| self.thread(t).io_priority.store(value, Relaxed);
            match of {
                Some(of) => give(of),
                None if self.is_among(call) => self.threads().living().for_each(give),
                None => return Out::Done(result),
            }
            self.state().io.0.store(true, Relaxed);
            if of.is_some_and(|of| of != t) {
                self.give_to_carrier(t);
            }
        }
        Out::Done(result)
    }

    /// Whether the call means the group or the user of this process.
    fn is_among(&self, call: &Call) -> bool {
        let own = match call.args[0] {
            OF_GROUP => self.ask(nr::GETPGID, &mut [Word(0)]),
            OF_USER => self.ask(nr::GETUID, &mut []),
            _ => return false,
        };
        matches!(call.args[1] as i32, id if id == 0 || id as isize == own)
    }

    fn give_to_carrier(&self, t: ThreadIdx) {
        let own = self.thread(t).io_priority.load(Relaxed);
        self.ask(nr::IOPRIO_SET, &mut [Word(OF_THREAD), Word(0), Word(own.into())]);
    }

    /// Gives the carrier the priority of its current thread, so that a child or a new program begins with it.
    pub(crate) fn hand_on_io_priority(&self, cpu: CpuId) {
        if self.state().io.0.load(Relaxed) {
            self.give_to_carrier(self.current(cpu));
        }
    }

    /// Gives the main thread the priority that the host thread was given before the program began (`ionice(1)`).
    pub fn adopt_io_priority(&self, t: ThreadIdx) {
        let given = self.io_priority_of_carrier();
        if given > 0 && given >> CLASS_SHIFT != 0 {
            self.thread(t).io_priority.store(given as u32, Relaxed);
        }
    }

    fn io_priority_of_carrier(&self) -> isize {
        ask(&self.m, nr::IOPRIO_GET, &mut [Word(OF_THREAD), Word(0)])
    }
}
