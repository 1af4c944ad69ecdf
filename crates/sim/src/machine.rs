//! The machine under the kernel: [`kernel::Machine`] in virtual time.
//!
//! It answers the kernel at once and only records what has consequences (kicks, timers, new
//! contexts). After each trap the world (`world/`) turns these records into events. Nothing here
//! decides anything about scheduling.

use crate::linux::{DESCRIPTOR, SmallLinux};
use crate::memory::Memory;
use crate::rng::Rng;
use abi::epoll::Readiness;
use abi::frame::Registers;
use abi::{Errno, SigInfo};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::{Access, Call, Clock, Fault, Kernel, Machine, NoMemory, Raise, Resume, Transfer};
use linux::{Arg, Ends, Linux};
use signal::frame::ExtendedState;
use std::sync::{OnceLock, Weak};
use sync::Lock;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Real time runs this far ahead of the monotonic clock.
pub const REALTIME_AHEAD: Nanos = Nanos::from_secs(1_700_000_000);

/// Where user code of every thread "is" while it is not in a handler.
pub(crate) const USER_RIP: u64 = 0x40_0002;
/// The instruction that makes the system call lies just before.
pub(crate) const CALL_RIP: u64 = USER_RIP - 2;
/// The program's signal handler.
pub(crate) const HANDLER_RIP: u64 = 0x50_0000;
/// The return address of a handler.
pub(crate) const RESTORER_RIP: u64 = 0x50_1000;

/// A thread's registers, and the CPU that has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub regs: Registers,
    /// The CPU that runs the thread, until its state is saved (law 2).
    pub claim: Option<CpuId>,
    /// The number of its last system call.
    pub call: usize,
    /// The time of that call, or of the kernel's last check whether to try it again.
    pub tried: Nanos,
}

/// Requests that the kernel made during a trap.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub kicks: Vec<CpuId>,
    pub timers: Vec<(CpuId, Nanos)>,
    pub interrupts: Vec<ThreadIdx>,
    /// New contexts and their stacks.
    pub births: Vec<(ThreadIdx, u64)>,
    /// A signal that ends or stops the process.
    pub fatal: Option<(ThreadIdx, i32, Raise)>,
    /// A law that was broken during the trap.
    pub broken: Option<String>,
}

impl Notes {
    pub(crate) fn clear(&mut self) {
        self.kicks.clear();
        self.timers.clear();
        self.interrupts.clear();
        self.births.clear();
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub memory: Memory,
    pub contexts: Vec<Context>,
    pub notes: Notes,
    pub linux: SmallLinux,
    next_id: i32,
}

/// The simulated machine.
#[derive(Debug)]
pub struct SimMachine {
    now: AtomicU64,
    /// Added to every clock but scheduling time: a planted fault, else 0.
    pub(crate) skew: AtomicU64,
    /// How many exchanges falsely report that they stored: a planted fault, else 0.
    pub(crate) lying_cas: AtomicU64,
    pub(crate) inner: Lock<Inner>,
    /// The kernel on it, for what another CPU does to it in the midst of a trap.
    pub(crate) kernel: OnceLock<Weak<Kernel<SimMachine>>>,
}

impl SimMachine {
    pub(crate) fn new(seed: &Rng) -> SimMachine {
        let inner = Inner {
            memory: Memory::new(),
            contexts: Vec::new(),
            notes: Notes::default(),
            linux: SmallLinux::new(seed.fork(4)),
            next_id: 100_000,
        };
        SimMachine {
            now: AtomicU64::new(0),
            skew: AtomicU64::new(0),
            lying_cas: AtomicU64::new(0),
            inner: Lock::new(inner),
            kernel: OnceLock::new(),
        }
    }

    /// Scheduling time.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.now.load(Relaxed))
    }

    /// Moves the clock.
    pub(crate) fn set_now(&self, now: Nanos) {
        self.now.store(now.0, Relaxed);
    }

    pub(crate) fn with<R>(&self, t: ThreadIdx, f: impl FnOnce(&mut Context) -> R) -> R {
        f(&mut self.inner.lock().contexts[t.index()])
    }

    /// Asks the small Linux something. The kernel is told of CPUs that leave its poller by that.
    pub(crate) fn with_linux<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let (answer, woken) = {
            let inner = &mut *self.inner.lock();
            (f(inner), std::mem::take(&mut inner.linux.poller.woken))
        };
        if woken > 0
            && let Some(kernel) = self.kernel.get().and_then(Weak::upgrade)
        {
            (0..woken).for_each(|_| kernel.parked.end_sleep());
        }
        answer
    }

    /// The first law that was broken counts.
    fn broken(&self, what: String) {
        self.inner.lock().notes.broken.get_or_insert(what);
    }
}

impl linux::Host for SimMachine {
    fn host_call(&self, nr: usize, args: &mut [Arg<'_>], _ends: Ends) -> isize {
        match (nr, args) {
            // Every capability.
            (abi::nr::CAPGET, [_, Arg::Out(data)]) => {
                data.fill(u8::MAX);
                0
            }
            (abi::nr::PREADV2 | abi::nr::PWRITEV2, [Arg::Word(fd), Arg::In(vector), ..]) => {
                let [addr, len] = [0, 8].map(|at| abi::bytes::get_u64(vector, at));
                self.transfer(*fd, addr, len, nr == abi::nr::PWRITEV2)
            }
            (abi::nr::GETSOCKOPT, [Arg::Word(fd), _, Arg::Word(option), Arg::Out(value), _]) => {
                self.inner.lock().linux.tell_limit(*fd, *option, value)
            }
            (abi::nr::EPOLL_CREATE1, _) => DESCRIPTOR as isize,
            (abi::nr::EPOLL_CTL, [_, Arg::Word(op), Arg::Word(fd), Arg::In(event)]) => {
                let event = event.first_chunk().map_or(Readiness::default(), Readiness::from_bytes);
                self.with_linux(|inner| inner.linux.control(*op, *fd, event))
            }
            (abi::nr::EPOLL_WAIT, [_, Arg::Out(to), Arg::Word(most), _]) => {
                let events = self.inner.lock().linux.events(*most as usize);
                for (to, event) in to.chunks_exact_mut(Readiness::SIZE).zip(&events) {
                    to.copy_from_slice(&event.to_bytes());
                }
                events.len() as isize
            }
            // The small Linux knows no addresses but the program's.
            (_, args) if args.iter().all(|arg| matches!(arg, Arg::Word(_))) => {
                let call = Call { nr, args: Arg::words(args) };
                self.with_linux(|Inner { linux, memory, .. }| linux.call(&call, memory))
            }
            _ => Errno::ENOSYS.to_ret(),
        }
    }
}

impl SimMachine {
    /// Makes a context for the thread in slot `t`.
    pub(crate) fn reserve_context(&self, t: ThreadIdx) {
        let contexts = &mut self.inner.lock().contexts;
        if contexts.len() <= t.index() {
            contexts.resize(t.index() + 1, Context::default());
        }
        contexts[t.index()] = Context::default();
    }

    fn transfer(&self, fd: u64, addr: u64, len: u64, writes: bool) -> isize {
        let (result, events) = self.with_linux(|Inner { linux, memory, .. }| {
            let result = linux.transfer(fd, addr, len, writes, memory);
            let nothing = result == Errno::EAGAIN.to_ret();
            (result, if nothing { linux.hurry(fd) } else { Vec::new() })
        });
        if !events.is_empty()
            && let Some(kernel) = self.kernel.get().and_then(Weak::upgrade)
        {
            // A carrier reports them that lost its CPU while it slept in the poller.
            Linux(&*kernel).descriptors_ready(CpuId::NONE, &events);
        }
        result
    }
}

impl Machine for SimMachine {
    type Personality = linux::State;

    fn clock(&self, clock: Clock) -> Nanos {
        let now = self.now() + Nanos(self.skew.load(Relaxed));
        match clock {
            Clock::Scheduling => self.now(),
            Clock::Monotonic | Clock::MonotonicFloor | Clock::MonotonicCeiling | Clock::Boottime => now,
            Clock::Realtime => now + REALTIME_AHEAD,
            Clock::Tai => now + REALTIME_AHEAD + Nanos::from_secs(37),
            Clock::Carrier => Nanos::ZERO,
        }
    }

    fn kick(&self, cpu: CpuId) {
        self.inner.lock().notes.kicks.push(cpu);
    }

    fn arm(&self, cpu: CpuId, at: Nanos, _then: Option<Nanos>) {
        self.inner.lock().notes.timers.push((cpu, at));
    }

    fn claim_ids(&self, n: i32) -> Option<i32> {
        let mut inner = self.inner.lock();
        let first = inner.next_id;
        inner.next_id = first.checked_add(n)?;
        Some(first)
    }

    fn word(&self, addr: u64, access: Access) -> Result<u32, Fault> {
        let memory = &mut self.inner.lock().memory;
        let found = memory.load_u32(addr)?;
        match access {
            Access::Store(value) => memory.store_u32(addr, value)?,
            Access::CompareExchange { old, new } if found == old => memory.store_u32(addr, new)?,
            Access::Load | Access::CompareExchange { .. } => {}
        }
        Ok(found)
    }

    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        self.inner.lock().memory.read(addr, to)
    }

    fn write(&self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        self.inner.lock().memory.write(addr, from)
    }

    fn clone_context(
        &self,
        parent: ThreadIdx,
        child: ThreadIdx,
        stack: u64,
        _tls: Option<u64>,
    ) -> Result<(), NoMemory> {
        self.reserve_context(child);
        let mut inner = self.inner.lock();
        let from = inner.contexts[parent.index()].clone();
        let rsp = if stack == 0 { from.regs.rsp } else { stack };
        inner.contexts[child.index()] = Context {
            regs: Registers { rax: 0, rsp, rip: USER_RIP, ..from.regs },
            claim: None,
            call: from.call,
            tried: Nanos::ZERO,
        };
        inner.notes.births.push((child, rsp));
        Ok(())
    }

    fn save(&self, t: ThreadIdx) {
        let claim = self.with(t, |c| c.claim.take());
        if claim.is_none() {
            self.broken(format!("{t:?} is saved, but no CPU has it"));
        }
    }

    fn keep(&self, cpu: CpuId, t: ThreadIdx) {
        let claim = self.with(t, |c| c.claim.replace(cpu));
        if let Some(owner) = claim {
            self.broken(format!("{cpu:?} takes the save of {t:?} back, but {owner:?} has it"));
        }
    }

    fn set_resume(&self, t: ThreadIdx, how: Resume<'_>) {
        self.with(t, |c| match how {
            Resume::Result(value) => c.regs.rax = value as u64,
            Resume::Call(instead) => {
                c.regs.rip = CALL_RIP;
                c.regs.rax = instead.unwrap_or(c.call) as u64;
            }
            Resume::Registers(r) => c.regs = *r,
        });
    }

    fn registers(&self, t: ThreadIdx) -> Registers {
        self.with(t, |c| {
            c.tried = self.now();
            c.regs
        })
    }

    fn call_arguments(&self, t: ThreadIdx) -> Option<[u64; 6]> {
        self.with(t, |c| {
            c.tried = self.now();
            let r = &c.regs;
            // Programs of a simulation have no code of their own between calls.
            (r.rip == USER_RIP).then_some([r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
        })
    }

    fn move_extended_state(&self, _t: ThreadIdx, how: Transfer<'_>) -> Result<(), Fault> {
        match how {
            Transfer::ToFrame(place) => {
                let at = place(ExtendedState::Fxsave).ok_or(Fault)?;
                self.write(at, &[0; abi::frame::FXSAVE_SIZE])
            }
            Transfer::FromFrame(..) | Transfer::Initial => Ok(()),
        }
    }

    fn interrupt(&self, t: ThreadIdx) {
        self.inner.lock().notes.interrupts.push(t);
    }

    fn raise(&self, t: ThreadIdx, info: &SigInfo, why: Raise) -> bool {
        if why != Raise::Show {
            self.inner.lock().notes.fatal.get_or_insert((t, info.signo(), why));
        }
        true
    }
}
