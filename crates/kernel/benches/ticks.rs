//! What a tick costs in instructions, beside many threads that wait and many timers on CPU time that do not expire:
//! `.ci/check-tick-cost` counts them (callgrind).
//!
//! `ticks THREADS TIMERS TICKS` makes so many threads, all but one of which wait, arms so many timers and ticks so often.

#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../tests/common/machine.rs"]
mod machine;

use abi::nr;
use entresol_kernel::{Call, Config, Kernel, Trap, limits::Limits};
use ids::{CpuId, Nanos, Pid, ThreadIdx};
use machine::{TestMachine, fresh};

const CPU: CpuId = CpuId(0);
const MAIN: ThreadIdx = ThreadIdx(0);
const TICK: Nanos = Nanos::from_millis(1);
/// Memory of the program.
const WORD: u64 = 0x10_0000;
const SETTING: u64 = WORD + 64;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [threads, timers, ticks] = numbers[..] else {
        println!("counted by .ci/check-tick-cost");
        return;
    };
    let kernel = kernel();
    (1..threads).for_each(|_| make_one_that_waits(&kernel));
    // Far away, and what makes the CPU tick.
    [0, 2].into_iter().for_each(|word| poke(&kernel, SETTING + 8 * word, 10_000));
    call(&kernel, nr::SETITIMER, [2, SETTING, 0, 0, 0, 0]);
    for _ in 0..timers {
        call(&kernel, nr::TIMER_CREATE, [2, 0, WORD, 0, 0, 0]);
        let id = u64::from(kernel.load_u32(WORD).expect("mapped"));
        call(&kernel, nr::TIMER_SETTIME, [id, 0, SETTING, 0, 0, 0]);
    }
    for _ in 0..ticks {
        {
            let mut state = kernel.m.state();
            state.now += TICK.0;
            state.saved.clear();
        }
        let _ = kernel.trap(CPU, Trap::Interrupt { timer: true, kick: false });
    }
    assert!(kernel.m.state().timers.contains_key(&CPU.0), "it ticks");
    assert_eq!(kernel.sched.current(CPU), Some(MAIN));
}

fn kernel() -> Box<Kernel<TestMachine>> {
    let config = Config {
        cpus: 1,
        tick: TICK,
        at_once: 0,
        rt_host_rules: false,
        pid: Pid(500),
        uid: 1000,
        pending_unlimited: true,
        mapped_guards: false,
        timer_slack: false,
        io: entresol_kernel::Io::Auto,
        extended_state: || signal::frame::ExtendedState::Fxsave,
        sampling: None,
        limits: Limits::default(),
        by_filter: false,
        tracing: false,
    };
    let kernel = Kernel::new(TestMachine::default(), config).expect("memory");
    {
        let mut state = kernel.m.state();
        state.now = 1_000_000_000;
        state.map(WORD, 4096);
        state.contexts.insert(MAIN.0, fresh(WORD));
    }
    kernel.adopt_main(CPU).expect("the first thread");
    kernel
}

fn poke(kernel: &Kernel<TestMachine>, addr: u64, value: u64) {
    entresol_kernel::machine::put(&kernel.m, addr, value).expect("mapped");
}

/// The current thread makes a call.
fn call(kernel: &Kernel<TestMachine>, nr: usize, args: [u64; 6]) {
    let _ = kernel.trap(CPU, Trap::Call(Call { nr, args }));
}

fn make_one_that_waits(kernel: &Kernel<TestMachine>) {
    let flags = abi::clone_flags::VM | abi::clone_flags::SIGHAND | abi::clone_flags::THREAD;
    call(kernel, nr::CLONE, [flags, WORD + 2048, 0, 0, 0, 0]);
    while kernel.sched.current(CPU) == Some(MAIN) {
        call(kernel, nr::SCHED_YIELD, [0; 6]);
    }
    // FUTEX_WAIT_PRIVATE, for good.
    call(kernel, nr::FUTEX, [WORD, 128, 0, 0, 0, 0]);
    assert_eq!(kernel.sched.current(CPU), Some(MAIN));
}
