//! Threads on a test machine, driven by hand: a test says which thread makes which call
//! next, and everything else follows until nothing moves any more.

pub mod machine;

use abi::{Errno, SigAction, nr};
use entresol_kernel::{self as kernel, Call, Config, Kernel, Next, Trap, Wanted};
use ids::{CpuId, Nanos, Pid, ThreadIdx};
use machine::{AFTER, CALL, HANDLER, TestMachine};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Memory that every test has: words from here on.
pub const WORDS: u64 = 0x10_0000;
const STACKS: u64 = 0x100_0000;
const STACK: u64 = 0x4000;
const SCRATCH: u64 = 0x20_0000;

/// A word by number, each in a place of its own.
pub fn word(i: u64) -> u64 {
    WORDS + 64 * i
}

/// What a thread is doing.
#[derive(Default)]
struct Script {
    calls: VecDeque<Call>,
    /// A call is being made.
    busy: bool,
    results: Vec<isize>,
    gone: bool,
}

pub struct World {
    pub kernel: Arc<Kernel<TestMachine>>,
    cpus: usize,
    running: Vec<Option<ThreadIdx>>,
    scripts: BTreeMap<u32, Script>,
    /// Threads in the order in which their calls returned, with the results.
    pub log: Vec<(ThreadIdx, isize)>,
    /// Host calls that must wait, by thread.
    pub waiting_on_host: Vec<(ThreadIdx, Call)>,
    /// When the CPU of the last of them was wanted.
    pub wanted: Option<Wanted>,
    /// Handlers that have run, by thread.
    pub handled: Vec<ThreadIdx>,
    /// Times that a thread with nothing to do gave way since somebody did something.
    yields: usize,
    /// CPUs whose carriers the host keeps waiting: nothing reaches them.
    stalled: Vec<usize>,
}

impl World {
    /// A world with one thread, the main one.
    pub fn new(cpus: usize) -> World {
        World::with(cpus, |_| {})
    }

    /// The same, set up differently.
    pub fn with(cpus: usize, change: impl FnOnce(&mut Config)) -> World {
        let mut config = Config {
            cpus,
            tick: Nanos::from_millis(1),
            at_once: 0,
            rt_host_rules: false,
            pid: Pid(500),
            uid: 1000,
            pending_unlimited: false,
            sampling: None,
            limits: kernel::limits::Limits::default(),
            mapped_guards: false,
            timer_slack: false,
            io: entresol_kernel::Io::Auto,
            extended_state: || signal::frame::ExtendedState::Fxsave,
            by_filter: false,
            tracing: false,
        };
        change(&mut config);
        let kernel = Arc::<Kernel<TestMachine>>::from(Kernel::new(TestMachine::default(), config).unwrap());
        {
            let mut s = kernel.m.state();
            s.now = 1_000_000_000;
            s.realtime_offset = 1_700_000_000_000_000_000;
            s.map(WORDS, 0x8_0000);
            s.map(SCRATCH, 0x4000);
            s.map(STACKS, 0x40_0000);
            s.contexts.insert(0, machine::fresh(STACKS + STACK));
        }
        let main = kernel.adopt_main(CpuId(0)).unwrap();
        assert_eq!(main, ThreadIdx(0));
        let mut running = vec![None; cpus];
        running[0] = Some(main);
        let scripts = BTreeMap::from([(0, Script::default())]);
        World {
            kernel,
            cpus,
            running,
            scripts,
            log: Vec::new(),
            waiting_on_host: Vec::new(),
            wanted: None,
            handled: Vec::new(),
            yields: 0,
            stalled: Vec::new(),
        }
    }

    /// `n` threads, the main one among them, each pinned to a CPU of its own.
    pub fn with_threads(n: usize) -> (World, Vec<ThreadIdx>) {
        let mut w = World::new(n);
        let mut all = vec![ThreadIdx(0)];
        w.pin(all[0], 0);
        for cpu in 1..n {
            let t = w.spawn(all[0]);
            w.pin(t, cpu);
            all.push(t);
        }
        (w, all)
    }

    /// A new thread, made by `by`.
    pub fn spawn(&mut self, by: ThreadIdx) -> ThreadIdx {
        let top = STACKS + STACK * (2 + self.scripts.len() as u64 % 200);
        let flags = abi::clone_flags::VM | abi::clone_flags::SIGHAND | abi::clone_flags::THREAD;
        let tid = self.call(by, nr::CLONE, [flags, top, 0, 0, 0, 0]);
        let tid = tid.expect("clone waits for nobody");
        let t = self.kernel.threads().find(ids::Tid(tid as i32)).expect("no such thread");
        self.scripts.insert(t.0, Script::default());
        t
    }

    pub fn pin(&mut self, t: ThreadIdx, cpu: usize) {
        self.poke_u64(SCRATCH, 1 << cpu);
        let tid = self.tid(t) as u64;
        let by = self.anybody();
        assert_eq!(self.call(by, nr::SCHED_SETAFFINITY, [tid, 8, SCRATCH, 0, 0, 0]), Some(0));
        self.settle();
    }

    /// Makes `t` a FIFO thread, or a fair one with priority 0; any thread may do that for it.
    pub fn set_priority(&mut self, by: ThreadIdx, t: ThreadIdx, priority: u32) {
        self.poke(SCRATCH, priority);
        let (tid, policy) = (self.tid(t) as u64, u64::from(priority > 0));
        assert_eq!(self.call(by, nr::SCHED_SETSCHEDULER, [tid, policy, SCRATCH, 0, 0, 0]), Some(0));
    }

    fn anybody(&self) -> ThreadIdx {
        self.running.iter().flatten().copied().find(|t| !self.scripts[&t.0].busy).expect("nobody runs")
    }

    pub fn tid(&self, t: ThreadIdx) -> u32 {
        self.kernel.tid(t).0 as u32
    }

    pub fn poke(&self, addr: u64, value: u32) {
        self.kernel.store_u32(addr, value).unwrap();
    }

    pub fn poke_u64(&self, addr: u64, value: u64) {
        kernel::machine::put(&self.kernel.m, addr, value).unwrap();
    }

    pub fn peek(&self, addr: u64) -> u32 {
        self.kernel.load_u32(addr).unwrap()
    }

    /// `t` makes a call as soon as it runs. Its result, unless it waits.
    pub fn call(&mut self, t: ThreadIdx, nr: usize, args: [u64; 6]) -> Option<isize> {
        let before = self.scripts[&t.0].results.len();
        self.scripts.get_mut(&t.0).unwrap().calls.push_back(Call { nr, args });
        self.settle();
        self.scripts[&t.0].results.get(before).copied()
    }

    /// The same, to be done when its turn comes: nothing moves yet.
    pub fn later(&mut self, t: ThreadIdx, nr: usize, args: [u64; 6]) {
        self.scripts.get_mut(&t.0).unwrap().calls.push_back(Call { nr, args });
    }

    /// `futex(2)`.
    pub fn futex(&mut self, t: ThreadIdx, op: u32, a: [u64; 5]) -> Option<isize> {
        self.call(t, nr::FUTEX, [a[0], u64::from(op), a[1], a[2], a[3], a[4]])
    }

    /// The results of `t`'s calls so far.
    pub fn results(&self, t: ThreadIdx) -> &[isize] {
        &self.scripts[&t.0].results
    }

    /// The result of the call that `t` made last, unless it is still in it.
    pub fn result(&self, t: ThreadIdx) -> Option<isize> {
        let s = &self.scripts[&t.0];
        if s.busy || !s.calls.is_empty() { None } else { s.results.last().copied() }
    }

    pub fn is_waiting(&self, t: ThreadIdx) -> bool {
        self.scripts[&t.0].busy && !self.running.contains(&Some(t))
    }

    pub fn is_gone(&self, t: ThreadIdx) -> bool {
        self.scripts[&t.0].gone
    }

    /// The thread that has a CPU.
    pub fn on(&self, cpu: usize) -> Option<ThreadIdx> {
        self.running[cpu]
    }

    /// Writes a timespec and gives its address.
    pub fn timespec(&self, nanos: u64) -> u64 {
        self.poke_u64(SCRATCH + 64, nanos / 1_000_000_000);
        self.poke_u64(SCRATCH + 72, nanos % 1_000_000_000);
        SCRATCH + 64
    }

    pub fn now(&self) -> u64 {
        self.kernel.m.state().now
    }

    /// Lets time pass, serving every timer on the way.
    pub fn advance(&mut self, nanos: u64) {
        let end = self.now() + nanos;
        loop {
            let due = {
                let s = self.kernel.m.state();
                let served = s.timers.iter().filter(|(cpu, _)| !self.stalled.contains(&usize::from(**cpu)));
                served.map(|(cpu, at)| (*at, *cpu)).min().filter(|(at, _)| *at <= end)
            };
            let Some((at, cpu)) = due else { break };
            {
                let mut s = self.kernel.m.state();
                s.now = s.now.max(at);
                s.timers.remove(&cpu);
            }
            self.trap(cpu as usize, Trap::Interrupt { timer: true, kick: false });
            self.settle();
        }
        self.kernel.m.state().now = end;
        self.settle();
    }

    /// Lets time pass in which the host gives the processors of these CPUs to others.
    pub fn stall(&mut self, cpus: &[usize], nanos: u64) {
        self.stalled = cpus.to_vec();
        self.advance(nanos);
        self.stalled.clear();
        let mut s = self.kernel.m.state();
        cpus.iter().for_each(|cpu| *s.stolen.entry(*cpu as u16).or_default() += nanos);
    }

    /// A handler for a signal, with these flags besides SA_RESTORER.
    pub fn handle(&mut self, by: ThreadIdx, signal: u64, flags: u64) {
        let action = SigAction {
            handler: HANDLER,
            flags: abi::SaFlags(abi::SaFlags::RESTORER.0 | flags),
            restorer: HANDLER + 16,
            ..SigAction::DEFAULT
        };
        kernel::Machine::write(&self.kernel.m, SCRATCH, &action.to_bytes()).unwrap();
        assert_eq!(self.call(by, nr::RT_SIGACTION, [signal, SCRATCH, 0, 8, 0, 0]), Some(0));
    }

    pub fn signal(&mut self, by: ThreadIdx, to: ThreadIdx, signal: u64) {
        let tid = u64::from(self.tid(to));
        assert_eq!(self.call(by, nr::TGKILL, [500, tid, signal, 0, 0, 0]), Some(0));
    }

    /// Does everything that can be done without the passing of time.
    pub fn settle(&mut self) {
        self.yields = 0;
        for _ in 0..100_000 {
            let moved = (0..self.cpus).fold(false, |moved, cpu| self.step(cpu) | moved);
            if !moved {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn step(&mut self, cpu: usize) -> bool {
        if self.stalled.contains(&cpu) {
            return false;
        }
        self.kernel.m.state().at_work = cpu as u16;
        if self.kernel.m.state().kicked.remove(&(cpu as u16)) {
            self.trap(cpu, Trap::Interrupt { timer: false, kick: true });
            return true;
        }
        let id = CpuId(cpu as u16);
        let Some(t) = self.running[cpu] else {
            if self.kernel.sched.need_resched(id) {
                self.trap(cpu, Trap::Interrupt { timer: false, kick: true });
                return true;
            }
            let Some(next) = self.kernel.idle_look(id) else { return false };
            self.obey(cpu, next);
            return true;
        };
        self.run(cpu, t)
    }

    /// The thread goes on from where its registers say.
    fn run(&mut self, cpu: usize, t: ThreadIdx) -> bool {
        let r = self.kernel.m.state().contexts[&t.0];
        let args = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        match r.rip {
            CALL => {
                self.kernel.m.state().contexts.get_mut(&t.0).unwrap().rip = AFTER;
                self.trap(cpu, Trap::Call(Call { nr: r.rax as usize, args }));
                return true;
            }
            HANDLER => {
                self.handled.push(t);
                // It returns at once: the return address is popped, the restorer calls.
                self.kernel.m.state().contexts.get_mut(&t.0).unwrap().rsp += 8;
                self.trap(cpu, Trap::Call(Call { nr: nr::RT_SIGRETURN, args: [0; 6] }));
                return true;
            }
            _ => {}
        }
        let others = self.others_have_work(t);
        let script = self.scripts.entry(t.0).or_default();
        if script.busy {
            self.yields = 0;
            script.busy = false;
            script.results.push(r.rax as isize);
            self.log.push((t, r.rax as isize));
            return true;
        }
        match script.calls.pop_front() {
            Some(call) => {
                self.yields = 0;
                script.busy = true;
                let a = call.args;
                let mut s = self.kernel.m.state();
                let r = s.contexts.get_mut(&t.0).unwrap();
                (r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9) = (a[0], a[1], a[2], a[3], a[4], a[5]);
                (r.rip, r.rax, r.r15) = (CALL, call.nr as u64, call.nr as u64);
                true
            }
            // It computes; if others wait for the CPU it lets them have it, until everybody has had
            // a turn and nobody has done anything with it.
            None if self.kernel.sched.queued(CpuId(cpu as u16)) > 0 && others && self.yields < self.yields_max() => {
                self.yields += 1;
                self.trap(cpu, Trap::Call(Call { nr: nr::SCHED_YIELD, args: [0; 6] }));
                true
            }
            None => false,
        }
    }

    fn yields_max(&self) -> usize {
        4 * self.scripts.len() + 4
    }

    fn others_have_work(&self, t: ThreadIdx) -> bool {
        self.scripts.iter().any(|(i, s)| *i != t.0 && (s.busy || !s.calls.is_empty()))
    }

    /// Does what the kernel has decided for `cpu`, and all that follows.
    pub fn follow(&mut self, cpu: usize, next: Next) {
        self.obey(cpu, next);
        self.settle();
    }

    fn trap(&mut self, cpu: usize, trap: Trap) {
        self.kernel.m.state().at_work = cpu as u16;
        let next = self.kernel.trap(CpuId(cpu as u16), trap);
        self.obey(cpu, next);
    }

    fn obey(&mut self, cpu: usize, next: Next) {
        let before = self.running[cpu];
        self.running[cpu] = match next {
            Next::Run(t) => {
                let twice = self.running.iter().enumerate().any(|(c, r)| c != cpu && *r == Some(t));
                assert!(!twice, "{t:?} runs twice");
                Some(t)
            }
            Next::Idle { until } => {
                if let Some(until) = until {
                    let timers = &mut self.kernel.m.state().timers;
                    let at = timers.entry(cpu as u16).or_insert(until.0);
                    *at = until.0.min(*at);
                }
                None
            }
            Next::Host { thread, call, wanted } => {
                self.waiting_on_host.push((thread, call));
                self.wanted = Some(wanted);
                let id = CpuId(cpu as u16);
                assert_ne!(self.kernel.sched.current(id), Some(thread));
                if wanted != Wanted::Never {
                    let next = self.kernel.resched(id);
                    return self.obey(cpu, next);
                }
                None
            }
            Next::Inline { thread, call } => {
                let result = linux::host(&self.kernel.m, &call);
                let next = linux::Linux(&*self.kernel).inline_done(CpuId(cpu as u16), thread, call, result);
                return self.obey(cpu, next);
            }
            Next::Process(p) => panic!("{p:?}"),
        };
        if let Some(t) = before
            && self.running[cpu] != Some(t)
            && self.kernel.tid(t).0 == 0
        {
            let script = self.scripts.get_mut(&t.0).unwrap();
            (script.gone, script.busy) = (true, false);
        }
    }
}

/// What a call returns for an error.
pub fn err(e: Errno) -> Option<isize> {
    Some(e.to_ret())
}

/// A small generator of random numbers (`xorshift64*`).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }
}
