//! The receiver of a descriptor's signals (`F_SETOWN`, `F_SETOWN_EX`).
//!
//! The host does not know our threads. There, a descriptor owned by one of them belongs to the process, and its signals
//! are forwarded to the thread when they arrive. They name the descriptor if a signal was chosen (`F_SETSIG`). Plain
//! SIGIO does not: it goes to a thread if that is the only owner of anything, and to the process otherwise.

use crate::machine::Arg;
use crate::{Host, Linux};
use abi::args::{F_GETOWN, F_GETOWN_EX, F_GETSIG, F_NOTIFY, F_SETLEASE, F_SETOWN, F_SETOWN_EX};
use kernel::Call;
use kernel::trap::Out;

use abi::{Errno, SigInfo, SigSet, Signal, nr, si_code};
use alloc::vec::Vec;
use ids::{CpuId, Tid};
use sync::Lock;
use sync::atomic::{AtomicBool, Ordering::*};

/// Kinds of owners in `struct f_owner_ex`.
const F_OWNER_TID: u32 = 0;
const F_OWNER_PID: u32 = 1;
pub(crate) const F_OWNER_PGRP: u32 = 2;

/// The `ioctl(2)` that returns a socket's owner.
pub(crate) const FIOGETOWN: u64 = 0x8903;
pub(crate) const SIOCGPGRP: u64 = 0x8904;

/// Which thread owns which descriptor.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Some descriptor has had a thread as owner.
    used: AtomicBool,
    list: Lock<Vec<(i32, Tid)>>,
}

impl Owners {
    fn of(&self, fd: i32) -> Option<Tid> {
        if !self.used.load(Acquire) {
            return None;
        }
        self.list.lock().iter().find(|owned| owned.0 == fd).map(|owned| owned.1)
    }

    fn set(&self, fd: i32, owner: Option<Tid>) -> Result<(), Errno> {
        if owner.is_none() && !self.used.load(Acquire) {
            return Ok(());
        }
        let mut list = self.list.lock();
        list.retain(|owned| owned.0 != fd);
        if let Some(owner) = owner {
            list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            list.push((fd, owner));
            self.used.store(true, Release);
        }
        Ok(())
    }

    /// Descriptors in this range were closed: later ones with these numbers have no owner.
    pub(crate) fn forget(&self, first: i32, last: i32) {
        if self.used.load(Acquire) {
            self.list.lock().retain(|owned| owned.0 < first || owned.0 > last);
        }
    }

    /// The thread that owns all descriptors owned by threads.
    fn only(&self) -> Option<Tid> {
        let list = self.list.lock();
        let (_, first) = *list.first()?;
        list.iter().all(|owned| owned.1 == first).then_some(first)
    }
}

impl<M: Host> Linux<'_, M> {
    /// Whether some descriptor has had a thread as owner.
    pub(crate) fn has_owners(&self) -> bool {
        self.state().owners.used.load(Acquire)
    }

    /// The signals that descriptors owned by threads send.
    pub(crate) fn signals_of_owners(&self) -> SigSet {
        let fds: Vec<i32> = self.state().owners.list.lock().iter().map(|owned| owned.0).collect();
        let signal_of = |fd: i32| match self.ask(nr::FCNTL, &mut [Arg::Word(fd as u64), Arg::Word(F_GETSIG)]) {
            0 => Some(Signal::IO),
            signal => Signal::from_raw(signal as i32),
        };
        fds.into_iter().filter_map(signal_of).fold(SigSet::EMPTY, |all, signal| all | SigSet::only(signal))
    }

    /// Sends the signal to the thread that owns its descriptor; false if there is none.
    pub(crate) fn send_to_owner(&self, cpu: CpuId, info: SigInfo) -> bool {
        self.owner_for(&info).is_some_and(|owner| self.send_to_id(cpu, owner, info) != Err(Errno::ESRCH))
    }

    /// The thread of ours that gets a descriptor's signal.
    pub(crate) fn owner_for(&self, info: &SigInfo) -> Option<Tid> {
        if !self.has_owners() {
            return None;
        }
        if info.is_poll() {
            self.state().owners.of(info.fd())
        } else if info.signo() == Signal::IO.raw() && info.code() == si_code::KERNEL {
            self.state().owners.only()
        } else {
            None
        }
    }

    /// `fcntl(2)`.
    pub(crate) fn sys_fcntl(&self, cpu: CpuId, call: &Call) -> Out {
        let result = match call.args[1] {
            F_SETOWN => self.set_owner(call),
            F_GETOWN => self.owner(call),
            F_SETOWN_EX => self.set_owner_ex(call),
            F_GETOWN_EX => self.owner_ex(call),
            F_SETLEASE | F_NOTIFY => self.own_and_ask(call),
            _ => return self.sys_dup(cpu, call),
        };
        Out::Done(result.unwrap_or_else(|e| e.to_ret()))
    }

    fn set_owner(&self, call: &Call) -> Result<isize, Errno> {
        let mut call = *call;
        let id = call.args[2] as i32;
        if self.is_own(id.wrapping_neg()) {
            return self.ask_owner(call.args[0], F_OWNER_PGRP, 0, None);
        }
        call.args[2] = self.host_id(id) as u64;
        self.owned(call.args[0], self.host(&call), None)
    }

    /// `ioctl(2)` with FIOSETOWN or SIOCSPGRP, which sockets treat like F_SETOWN (`sock_ioctl`).
    pub(crate) fn sys_set_owner_of_socket(&self, call: &Call) -> Option<Out> {
        let id = self.load_u32(call.args[2]).ok()? as i32;
        let host_id = if self.is_own(id.wrapping_neg()) { 0 } else { self.host_id(id) };
        let (fd, command) = (call.args[0], call.args[1]);
        let result = self.ask(nr::IOCTL, &mut [Arg::Word(fd), Arg::Word(command), Arg::In(&host_id.to_le_bytes())]);
        let owned = match result {
            0 if host_id == 0 && id != 0 => self.ask_owner(fd, F_OWNER_PGRP, 0, None),
            _ => self.owned(fd, result, None),
        };
        Some(Out::Done(owned.unwrap_or_else(|e| e.to_ret())))
    }

    /// FIOGETOWN and SIOCGPGRP of a socket: like F_GETOWN.
    pub(crate) fn sys_owner_of_socket(&self, call: &Call) -> Option<Out> {
        let tid = self.state().owners.of(call.args[0] as i32)?;
        let result = self.host(call);
        let at = call.args[2];
        if result == 0
            && self.load_u32(at) == Ok(self.config().pid.0 as u32)
            && self.store_u32(at, tid.0 as u32).is_err()
        {
            return Some(Errno::EFAULT.into());
        }
        Some(Out::Done(result))
    }

    /// `fcntl(2)` with F_NOTIFY or F_SETLEASE: gives a file description without an owner the process as owner.
    ///
    /// The host would name the calling host thread (`fcntl_dirnotify`, `lease_setup`), which may end before the thread
    /// that asks.
    fn own_and_ask(&self, call: &Call) -> Result<isize, Errno> {
        let fd = call.args[0];
        let set = |owner: i32| self.ask(nr::FCNTL, &mut [Arg::Word(fd), Arg::Word(F_SETOWN), Arg::Word(owner as u64)]);
        let is_owned = self.ask(nr::FCNTL, &mut [Arg::Word(fd), Arg::Word(F_GETOWN)]) != 0;
        if !is_owned {
            set(self.config().pid.0);
        }
        let result = self.host(call);
        if !is_owned && result < 0 {
            set(0);
        }
        Ok(result)
    }

    /// Records the owner, if the host has agreed.
    fn owned(&self, fd: u64, result: isize, owner: Option<Tid>) -> Result<isize, Errno> {
        if result == 0 {
            self.state().owners.set(fd as i32, owner)?;
        }
        Ok(result)
    }

    fn owner(&self, call: &Call) -> Result<isize, Errno> {
        let result = self.host(call);
        let is_ours = result == self.config().pid.0 as isize;
        Ok(self.state().owners.of(call.args[0] as i32).filter(|_| is_ours).map_or(result, |tid| tid.0 as isize))
    }

    fn set_owner_ex(&self, call: &Call) -> Result<isize, Errno> {
        let at = call.args[2];
        let (Ok(kind), Ok(id)) = (self.load_u32(at), self.load_u32(at.wrapping_add(4))) else {
            return Ok(self.host(call));
        };
        let own = Some(Tid(id as i32)).filter(|&tid| id != 0 && self.threads().find(tid).is_some());
        let fd = call.args[0];
        if kind == F_OWNER_PGRP && self.is_own(id as i32) {
            return self.ask_owner(fd, F_OWNER_PGRP, 0, None);
        }
        if own.is_none() || kind > F_OWNER_PID {
            return self.owned(fd, self.host(call), None);
        }
        self.ask_owner(fd, F_OWNER_PID, self.config().pid.0, own.filter(|_| kind == F_OWNER_TID))
    }

    /// Sets this owner at the host. For a thread's id the host gets a group without members, as for 0.
    fn ask_owner(&self, fd: u64, kind: u32, id: i32, owner: Option<Tid>) -> Result<isize, Errno> {
        let words = [kind.to_le_bytes(), id.to_le_bytes()];
        let result = self.ask(nr::FCNTL, &mut [Arg::Word(fd), Arg::Word(F_SETOWN_EX), Arg::In(words.as_flattened())]);
        self.owned(fd, result, owner)
    }

    fn owner_ex(&self, call: &Call) -> Result<isize, Errno> {
        let result = self.host(call);
        let at = call.args[2];
        if result == 0
            && let Some(tid) = self.state().owners.of(call.args[0] as i32)
            && self.get::<u64>(at) == Ok(u64::from(F_OWNER_PID) | (self.config().pid.0 as u64) << 32)
        {
            self.put::<u64>(at, u64::from(F_OWNER_TID) | (tid.0 as u64) << 32)?;
        }
        Ok(result)
    }
}
