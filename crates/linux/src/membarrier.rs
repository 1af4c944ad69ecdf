//! `membarrier(2)`. The host makes the barriers, but registrations are kept here: the machine has registered the
//! process for its own barrier, which the program must not notice.

use crate::{Host, Linux};
use abi::Errno;
use kernel::machine::Call;
use kernel::trap::Out;
use sync::atomic::{AtomicU32, Ordering::*};

const PRIVATE_EXPEDITED: u32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
const REGISTER_SYNC_CORE: u32 = 1 << 6;
const REGISTER_RSEQ: u32 = 1 << 8;
const GET_REGISTRATIONS: u32 = 1 << 9;
/// Registering for one kind requires the state of the first (`membarrier_register_private_expedited`).
const REGISTER_ANY: u32 = REGISTER_PRIVATE_EXPEDITED | REGISTER_SYNC_CORE | REGISTER_RSEQ;

/// The commands by which the program has registered.
#[derive(Debug, Default)]
pub(crate) struct Registrations(AtomicU32);

impl Registrations {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Adds registrations; a forked child inherits its parent's.
    pub(crate) fn add(&self, commands: u32) {
        self.0.fetch_or(commands, Relaxed);
    }
}

impl<M: Host> Linux<'_, M> {
    pub(crate) fn sys_membarrier(&self, call: &Call) -> Out {
        let (command, flags) = (call.args[0] as u32, call.args[1] as u32);
        let registered = &self.state().registrations;
        if command == PRIVATE_EXPEDITED && flags == 0 && registered.get() & REGISTER_PRIVATE_EXPEDITED == 0 {
            return Errno::EPERM.into();
        }
        let result = self.host(call);
        match command {
            command if command.is_power_of_two() && command & REGISTER_ANY != 0 && result == 0 => {
                registered.add(command);
                Out::Done(result)
            }
            GET_REGISTRATIONS if result >= 0 && registered.get() == 0 => {
                Out::Done(result & !(REGISTER_PRIVATE_EXPEDITED as isize))
            }
            _ => Out::Done(result),
        }
    }
}
