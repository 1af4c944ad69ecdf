//! One CPU with a regular tick, on which a design decides, beside the ideal machine that serves all threads at once.

use super::{Fair, Share, Thread};
use alloc::vec::Vec;
use ids::Nanos;

/// Binary digits after the point of what the ideal machine has served.
const FRACTION: u32 = 32;

/// A thread computes for a time and then sleeps for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// CPU time; at least 1 ns.
    pub run: Nanos,
    /// From the end of that; at least 1 ns.
    pub sleep: Nanos,
}

/// A thread and what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// Its share.
    pub share: Share,
    /// When it first competes.
    pub begins: Nanos,
    /// Its bursts, repeated; without any it computes for ever.
    pub bursts: Vec<Burst>,
}

/// The service that one thread received.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Served {
    /// CPU time that it received.
    pub received: Nanos,
    /// CPU time that the ideal machine would have given it, while it wanted to run here.
    pub ideal: Nanos,
    /// The largest that `ideal` was ahead of `received` at any moment: time owed to it, in ns.
    pub owed: i64,
    /// The largest that `received` was ahead of `ideal`: time it had too early, in ns.
    pub ahead: i64,
    /// From each wake-up to the moment when it ran.
    pub waits: Vec<Nanos>,
}

/// The result of a run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// By thread.
    pub threads: Vec<Served>,
    /// How often another thread than before began to run.
    pub switches: u64,
}

/// A thread on its way.
struct State<'a> {
    load: &'a Load,
    weight: i128,
    /// The burst it is in.
    burst: usize,
    /// CPU time left of it; `None`: for ever.
    left: Option<Nanos>,
    /// When it wakes, while it sleeps.
    wakes: Option<Nanos>,
    /// When it was woken, until it runs.
    woken: Option<Nanos>,
    /// Service by the ideal machine, in 2^-[`FRACTION`] ns.
    ideal: i128,
    served: Served,
}

impl State<'_> {
    fn new(load: &Load) -> State<'_> {
        State {
            load,
            weight: i128::from(load.share.weight()),
            burst: 0,
            left: load.bursts.first().map(|burst| burst.run),
            wakes: Some(load.begins),
            woken: None,
            ideal: 0,
            served: Served::default(),
        }
    }

    /// Begins to sleep.
    fn sleep(&mut self, now: Nanos) {
        let bursts = &self.load.bursts;
        self.wakes = Some(Nanos(now.0 + bursts[self.burst].sleep.0));
        self.burst = (self.burst + 1) % bursts.len();
        self.left = Some(bursts[self.burst].run);
    }

    fn note_lag(&mut self) {
        let lag = (self.ideal >> FRACTION) as i64 - self.served.received.0 as i64;
        self.served.owed = self.served.owed.max(lag);
        self.served.ahead = self.served.ahead.max(-lag);
    }
}

/// The CPU.
struct Machine<'a> {
    threads: Vec<State<'a>>,
    running: Option<Thread>,
    now: Nanos,
    switches: u64,
}

/// Runs the threads of `loads` under a new `design` for a time, with a tick every `tick`, at least 1 ns.
pub fn run(design: &mut dyn Fair, loads: &[Load], tick: Nanos, time: Nanos) -> Outcome {
    for load in loads {
        design.attach(load.share);
    }
    let threads = loads.iter().map(State::new).collect();
    let mut machine = Machine { threads, running: None, now: Nanos::ZERO, switches: 0 };
    let mut next_tick = tick;
    loop {
        let alarm = design.alarm().unwrap_or(Nanos::MAX);
        let event = machine.next_event().min(next_tick).min(alarm).min(time).max(machine.now);
        machine.advance(event);
        if event == time {
            break;
        }
        machine.sleep_and_wake(design);
        let is_tick = event >= next_tick;
        if is_tick {
            next_tick = Nanos(next_tick.0 + tick.0);
        }
        if machine.running.is_some() && (is_tick || event >= alarm) {
            design.tick(event);
        }
        machine.choose(design);
    }
    let finish = |mut state: State<'_>| {
        state.served.ideal = Nanos((state.ideal >> FRACTION) as u64);
        state.served
    };
    Outcome { threads: machine.threads.into_iter().map(finish).collect(), switches: machine.switches }
}

impl Machine<'_> {
    /// When a sleeping thread wakes, or the running one ends its burst.
    fn next_event(&self) -> Nanos {
        let wakes = self.threads.iter().filter_map(|state| state.wakes);
        let end = self.running.and_then(|thread| self.threads[thread].left).map(|left| Nanos(self.now.0 + left.0));
        wakes.chain(end).min().unwrap_or(Nanos::MAX)
    }

    /// Lets time pass to `event`: the running thread receives all of it, on the ideal machine each that competes its part.
    fn advance(&mut self, event: Nanos) {
        let passed = event.0 - self.now.0;
        self.now = event;
        if let Some(thread) = self.running {
            let state = &mut self.threads[thread];
            state.served.received.0 += passed;
            state.left = state.left.map(|left| Nanos(left.0 - passed));
        }
        let competing = || self.threads.iter().filter(|state| state.wakes.is_none());
        let weight: i128 = competing().map(|state| state.weight).sum();
        for state in self.threads.iter_mut().filter(|state| state.wakes.is_none()) {
            state.ideal += (i128::from(passed) << FRACTION) * state.weight / weight;
            state.note_lag();
        }
    }

    fn sleep_and_wake(&mut self, design: &mut dyn Fair) {
        let now = self.now;
        if let Some(thread) = self.running.take_if(|thread| self.threads[*thread].left == Some(Nanos::ZERO)) {
            self.threads[thread].sleep(now);
            design.block(now);
        }
        for (thread, state) in self.threads.iter_mut().enumerate() {
            if state.wakes.take_if(|wakes| *wakes <= now).is_some() {
                state.woken = Some(now);
                design.wake(thread, now);
            }
        }
    }

    fn choose(&mut self, design: &mut dyn Fair) {
        let chosen = design.choose(self.now);
        if let Some(thread) = chosen {
            let state = &mut self.threads[thread];
            assert!(state.wakes.is_none(), "{}: {thread} sleeps", design.name());
            if let Some(woken) = state.woken.take() {
                state.served.waits.push(Nanos(self.now.0 - woken.0));
            }
        }
        self.switches += u64::from(chosen.is_some() && chosen != self.running);
        self.running = chosen;
    }
}
