//! Setting a world up.

use super::patience::Patience;
use super::{Mode, SimCpu, SimThread, Work, World};
use crate::check::Checker;
use crate::config::{Bug, Config, Plant};
use crate::event::Events;
use crate::hardware;
use crate::machine::{SimMachine, USER_RIP};
use crate::memory::Map;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::user::env::{Children, Owners, STACK};
use crate::user::{Barrier, Cond, Mutex, Program, Semaphore, Step, View, after};
use ids::{CpuId, Nanos, Pid, ThreadIdx, Tid};
use kernel::Kernel;
use sched::Idle;
use std::collections::VecDeque;
use std::sync::Arc;

/// The simulated process's id.
pub(crate) const PID: i32 = 4242;

/// The stream of random numbers that says when CPUs are taken away.
const STOLEN: u64 = 5;

/// Memory for programs that do not exist yet.
#[derive(Debug)]
pub struct Setup {
    machine: SimMachine,
    config: Config,
}

impl Setup {
    /// A machine without a program.
    pub fn new(config: Config) -> Setup {
        Setup { machine: SimMachine::new(&Rng::new(config.seed)), config }
    }

    /// Allocates `n` zeroed words on cache lines of their own.
    pub fn words(&mut self, n: u64) -> u64 {
        self.machine.inner.lock().memory.allocate(n * 4)
    }

    /// A free mutex.
    pub fn mutex(&mut self) -> Mutex {
        Mutex(self.words(1))
    }

    /// A condition variable.
    pub fn cond(&mut self) -> Cond {
        Cond(self.words(1))
    }

    /// A barrier.
    pub fn barrier(&mut self, parties: u32) -> Barrier {
        Barrier { addr: self.words(2), parties }
    }

    /// The machine that is set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn into_parts(self) -> (SimMachine, Config) {
        (self.machine, self.config)
    }

    /// A semaphore of value zero.
    pub fn semaphore(&mut self) -> Semaphore {
        Semaphore(self.words(2))
    }

    /// A world whose main thread starts these threads, joins them and exits.
    pub fn threads(self, programs: Vec<Box<dyn Program>>) -> World {
        self.main(start_and_join(programs))
    }

    /// A world whose main thread has this program. It runs on CPU 0; all others are idle.
    pub fn main(self, program: Box<dyn Program>) -> World {
        let Setup { machine, config } = self;
        let hardware = config.hardware.as_ref();
        assert!(
            hardware.is_none_or(|h| h.cpus() == config.cpus),
            "the machine's model has other CPUs than the machine"
        );
        let seed = Rng::new(config.seed);
        let stack = machine.inner.lock().memory.allocate(STACK);
        let how = kernel::Config {
            cpus: config.cpus,
            tick: config.tick,
            at_once: 0,
            rt_host_rules: false,
            pid: Pid(PID),
            uid: 65534,
            pending_unlimited: false,
            sampling: None,
            limits: kernel::limits::Limits::default(),
            mapped_guards: false,
            timer_slack: config.timer_slack,
            io: config.io,
            extended_state: || signal::frame::ExtendedState::Fxsave,
            by_filter: false,
            tracing: false,
        };
        let kernel = Kernel::new(machine, how).unwrap_or_else(|e| panic!("no kernel of {} CPUs: {e:?}", config.cpus));
        let kernel = Arc::<Kernel<_>>::from(kernel);
        let _ = kernel.m.kernel.set(Arc::downgrade(&kernel));
        if let Some(Plant { bug: Bug::Linux(fault), after }) = config.plant {
            kernel.personality.planted.plant(fault, after);
        }
        let cpu = |_| SimCpu {
            mode: Mode::Parked,
            thread: None,
            since: Nanos::ZERO,
            last: None,
            generation: 0,
            kick_flying: false,
            kick_generation: 0,
            kick_pending: false,
            deaf: false,
            timer_pending: false,
            timer_generation: 0,
            poll_generation: 0,
            called: false,
            idle: Nanos::ZERO,
        };
        let hardware = hardware::State::new(hardware, &seed.fork(STOLEN), config.limit);
        let checker = Checker::new(&config);
        let patience = Patience::new(&config, checker.bounds, &seed.fork(STOLEN));
        let mut world = World {
            kernel,
            now: Nanos::ZERO,
            events: Events::new(seed.fork(1)),
            cpus: (0..config.cpus).map(cpu).collect(),
            threads: Vec::new(),
            children: Children { nursery: Map::default(), words: Map::default(), stacks: Vec::new() },
            owners: Owners::default(),
            rng: seed.fork(2),
            user_rng: seed.fork(3),
            trace: Trace::new(config.record),
            checker,
            hardware,
            patience,
            handled: 0,
            plant_left: config.plant.map(|p| (p.bug, p.after)),
            planted: false,
            end: None,
            broken: None,
            config,
        };
        world.boot(program, stack);
        world
    }
}

impl World {
    fn boot(&mut self, program: Box<dyn Program>, stack: u64) {
        for cpu in (1..self.config.cpus).map(|c| CpuId(c as u16)) {
            self.kernel.sched.idle_state(cpu, Idle::Parked);
        }
        let cpu = CpuId(0);
        let t = self.kernel.adopt_main(cpu).expect("the first thread finds room");
        self.kernel.m.reserve_context(t);
        self.kernel.m.with(t, |c| {
            c.regs.rip = USER_RIP;
            c.regs.rsp = stack + STACK - 64;
            c.claim = Some(cpu);
        });
        self.add_thread(t, Tid(PID), program, stack);
        self.cpu(cpu).thread = Some(t);
        self.cpu(cpu).last = Some(t);
        self.resume(cpu, t);
    }

    pub(crate) fn add_thread(&mut self, t: ThreadIdx, tid: Tid, program: Box<dyn Program>, scratch: u64) {
        if self.threads.len() <= t.index() {
            self.threads.resize_with(t.index() + 1, || None);
        }
        self.threads[t.index()] = Some(SimThread {
            tid,
            program,
            op: None,
            work: Work::Next(0),
            result: 0,
            frames: Vec::new(),
            scratch,
            used: Nanos::ZERO,
            on_cpu: Nanos::ZERO,
            debt: 0,
            last_cpu: CpuId::NONE,
            host: None,
            host_generation: 0,
            waiting: None,
        });
    }
}

/// A program that starts all of these, then waits for each and exits.
pub fn start_and_join(programs: Vec<Box<dyn Program>>) -> Box<dyn Program> {
    let mut to_start: VecDeque<_> = programs.into();
    let mut started = VecDeque::new();
    let mut starting = false;
    let body = move |view: &mut View<'_>| {
        if std::mem::take(&mut starting) {
            assert!(view.result > 0, "no thread could be started: {}", view.result);
            started.push_back(Tid(view.result as i32));
        }
        if let Some(program) = to_start.pop_front() {
            starting = true;
            return Step::Clone(program);
        }
        started.pop_front().map_or(Step::Exit, Step::Join)
    };
    after([], Box::new(body))
}
