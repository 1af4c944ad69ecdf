//! A machine for tests: memory is a map of pages, contexts are registers, time stands still
//! until it is told to go on.

use abi::frame::Registers;
use abi::{Errno, SigInfo, Signal};
use entresol_kernel::machine::Received;
use entresol_kernel::{Access, Call, Clock, Event, Fault, Machine, NoMemory, Raise, Resume, Transfer};
use ids::{CpuId, Nanos, ThreadIdx};
use linux::{Arg, Ends};
use signal::frame::ExtendedState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Where a thread's system call instruction is, and what comes after it.
pub const CALL: u64 = 0x1000;
pub const AFTER: u64 = CALL + 2;
/// A signal handler.
pub const HANDLER: u64 = 0x2000;

const PAGE: u64 = 4096;

/// The registers of a thread that has just come back from a call.
pub fn fresh(rsp: u64) -> Registers {
    let (cs, ss) = (abi::frame::USER_CS, abi::frame::USER_SS);
    Registers { rsp, rip: AFTER, cs, ss, ..Registers::default() }
}

#[derive(Default)]
pub struct State {
    /// Threads that were sampled, and the CPU time that each sample stands for.
    pub samples: Vec<(ThreadIdx, Nanos)>,
    /// CPU time that ended without a sample.
    pub unsampled: Nanos,
    pub now: u64,
    /// CLOCK_REALTIME is ahead of CLOCK_MONOTONIC by this.
    pub realtime_offset: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    pub contexts: BTreeMap<u32, Registers>,
    pub kicked: BTreeSet<u16>,
    pub timers: BTreeMap<u16, u64>,
    /// Threads whose state was saved, in that order.
    pub saved: Vec<ThreadIdx>,
    pub host_calls: Vec<Call>,
    /// Answers to host calls to come.
    pub host_answers: Vec<isize>,
    /// How often what has arrived was asked for, and which signal was awaited.
    pub received: Vec<Option<Signal>>,
    /// The next compare-and-exchange of this word finds this instead.
    pub interference: Option<(u64, u32)>,
    /// How much of each 100 ns the host gives to a carrier, if it counts.
    pub given_percent: Option<u64>,
    /// What the host has given to the carriers, if it is told.
    pub given: Option<Nanos>,
    /// How often the host was asked for that.
    pub asked: usize,
    /// The host takes its time to end the process.
    pub dies_slowly: bool,
    /// What the host has taken from each CPU's carrier, if it counts; else they have had all the time.
    pub stolen: BTreeMap<u16, u64>,
    /// The CPU whose carrier is at work.
    pub at_work: u16,
    /// What every resource is limited to, if not to a mebi.
    pub soft_limit: Option<u64>,
    /// The owner of every descriptor (F_GETOWN).
    pub owner: isize,
    /// It has a poller.
    pub polls: bool,
    /// Time that the host gives to others at the end of each `getrusage(2)` that the kernel makes.
    pub given_away: u64,
    /// What happens elsewhere while the host answers the next `fcntl(2)`.
    pub meanwhile: Option<Box<dyn FnOnce() + Send>>,
    next_id: i32,
}

impl State {
    fn copy(&mut self, addr: u64, len: usize, mut f: impl FnMut(&mut u8, usize)) -> Result<(), Fault> {
        for i in 0..len {
            let at = addr.checked_add(i as u64).ok_or(Fault)?;
            let page = self.pages.get_mut(&(at / PAGE)).ok_or(Fault)?;
            f(&mut page[(at % PAGE) as usize], i);
        }
        Ok(())
    }

    /// CPU time that the host has given to the current carrier; `None` if the test does not count it.
    fn carrier_time(&self) -> Option<Nanos> {
        let stolen = (!self.stolen.is_empty()).then(|| Nanos(self.now - self.stolen.get(&self.at_work).unwrap_or(&0)));
        self.given.or(self.given_percent.map(|percent| Nanos(self.now / 100 * percent))).or(stolen)
    }

    pub fn map(&mut self, addr: u64, len: u64) {
        for page in addr / PAGE..(addr + len).div_ceil(PAGE) {
            self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
        }
    }

    pub fn unmap(&mut self, addr: u64) {
        self.pages.remove(&(addr / PAGE));
    }

    fn load<const N: usize>(&mut self, addr: u64) -> Result<[u8; N], Fault> {
        let mut b = [0; N];
        self.copy(addr, N, |byte, i| b[i] = *byte)?;
        Ok(b)
    }

    fn store(&mut self, addr: u64, b: &[u8]) -> Result<(), Fault> {
        self.copy(addr, b.len(), |byte, i| *byte = b[i])
    }
}

#[derive(Default)]
pub struct TestMachine(pub Mutex<State>);

impl TestMachine {
    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl linux::Host for TestMachine {
    fn host_call(&self, nr: usize, args: &mut [Arg<'_>], _ends: Ends) -> isize {
        match (nr, args) {
            (abi::nr::EPOLL_CREATE1, _) if self.state().polls => 1000,
            (abi::nr::EPOLL_CTL, _) => 0,
            (abi::nr::FCNTL, [_, Arg::Word(abi::args::F_GETOWN)]) => self.state().owner,
            // Every capability.
            (abi::nr::CAPGET, [_, Arg::Out(data)]) => {
                data.fill(u8::MAX);
                0
            }
            (abi::nr::PRLIMIT64, [_, _, _, Arg::Out(old)]) => {
                let limit = self.state().soft_limit.unwrap_or(1 << 20).to_le_bytes();
                old.copy_from_slice([limit; 2].as_flattened());
                0
            }
            (abi::nr::GETRUSAGE, [_, Arg::Out(_)]) => {
                let mut s = self.state();
                s.now += s.given_away;
                0
            }
            (_, args) if args.iter().all(|arg| matches!(arg, Arg::Word(_))) => {
                self.program_call(Call { nr, args: Arg::words(args) })
            }
            _ => Errno::ENOSYS.to_ret(),
        }
    }
}

impl TestMachine {
    fn program_call(&self, call: Call) -> isize {
        let meanwhile = {
            let mut s = self.state();
            s.host_calls.push(call);
            if call.nr == abi::nr::FCNTL { s.meanwhile.take() } else { None }
        };
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.state().host_answers.pop().unwrap_or(0)
    }
}

impl Machine for TestMachine {
    type Personality = linux::State;

    fn clock(&self, clock: Clock) -> Nanos {
        let mut s = self.state();
        match clock {
            Clock::Realtime => Nanos(s.now + s.realtime_offset),
            Clock::Carrier => {
                s.asked += 1;
                s.carrier_time().unwrap_or(Nanos::ZERO)
            }
            _ => Nanos(s.now),
        }
    }
    fn kick(&self, cpu: CpuId) {
        self.state().kicked.insert(cpu.0);
    }
    fn arm(&self, cpu: CpuId, at: Nanos, _then: Option<Nanos>) {
        self.state().timers.insert(cpu.0, at.0);
    }
    fn receive(&self, what: Received) {
        let awaited = if let Received::One(signal) = what { Some(signal) } else { None };
        self.state().received.push(awaited);
    }
    fn claim_ids(&self, n: i32) -> Option<i32> {
        let mut s = self.state();
        s.next_id += n;
        Some(1_000_000 + s.next_id)
    }

    fn word(&self, addr: u64, access: Access) -> Result<u32, Fault> {
        let mut s = self.state();
        let interference = match access {
            Access::CompareExchange { .. } => s.interference.take_if(|i| i.0 == addr),
            _ => None,
        };
        if let Some((at, value)) = interference {
            s.store(at, &value.to_le_bytes())?;
        }
        let found = u32::from_le_bytes(s.load(addr)?);
        match access {
            Access::Store(value) => s.store(addr, &value.to_le_bytes())?,
            Access::CompareExchange { old, new } if found == old => s.store(addr, &new.to_le_bytes())?,
            Access::Load | Access::CompareExchange { .. } => {}
        }
        Ok(found)
    }
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        let len = to.len();
        self.state().copy(addr, len, |byte, i| to[i] = *byte)
    }
    fn write(&self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        self.state().store(addr, from)
    }

    fn clone_context(
        &self,
        _parent: ThreadIdx,
        child: ThreadIdx,
        stack: u64,
        _tls: Option<u64>,
    ) -> Result<(), NoMemory> {
        self.state().contexts.insert(child.0, fresh(stack));
        Ok(())
    }
    fn save(&self, t: ThreadIdx) {
        self.state().saved.push(t);
    }
    fn keep(&self, _cpu: CpuId, t: ThreadIdx) {
        assert_eq!(self.state().saved.pop(), Some(t));
    }
    fn set_resume(&self, t: ThreadIdx, how: Resume<'_>) {
        let mut s = self.state();
        let r = s.contexts.get_mut(&t.0).expect("a thread that was made");
        match how {
            Resume::Result(value) => r.rax = value as u64,
            Resume::Call(instead) => {
                assert_eq!(r.rip, AFTER);
                // The number of the call it makes is kept in a register that nothing else uses.
                (r.rip, r.rax) = (CALL, instead.map_or(r.r15, |nr| nr as u64));
            }
            Resume::Registers(new) => *r = *new,
        }
    }
    fn registers(&self, t: ThreadIdx) -> Registers {
        self.state().contexts[&t.0]
    }
    fn call_arguments(&self, t: ThreadIdx) -> Option<[u64; 6]> {
        let r = self.state().contexts[&t.0];
        (r.rip == AFTER).then_some([r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
    }
    fn move_extended_state(&self, _t: ThreadIdx, how: Transfer<'_>) -> Result<(), Fault> {
        match how {
            Transfer::ToFrame(place) => place(ExtendedState::Fxsave).map(drop).ok_or(Fault),
            Transfer::FromFrame(..) | Transfer::Initial => Ok(()),
        }
    }

    fn interrupt(&self, _t: ThreadIdx) {}
    fn raise(&self, t: ThreadIdx, info: &SigInfo, why: Raise) -> bool {
        let is_shown = why == Raise::Show;
        assert!(is_shown || self.state().dies_slowly, "{why:?} of {t:?} by signal {}", info.signo());
        true
    }
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Sample(_, t, value) => self.state().samples.push((t, value)),
            Event::Unsampled(_, _, value) => self.state().unsampled += value,
            _ => {}
        }
    }
}
