//! What a program sees of calls that the host answers.

mod common;

use abi::{Errno, nr};
use common::{World, word};

/// `poll(2)` with a timeout of zero says EINTR if a tick is pending at the host: it is asked again.
#[test]
fn a_tick_in_the_first_try_does_not_show() {
    for (timeout, result) in [(1000, None), (0, Some(0))] {
        let (mut w, all) = World::with_threads(1);
        w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
        assert_eq!(w.call(all[0], nr::POLL, [word(0), 1, timeout, 0, 0, 0]), result);
        let waits: Vec<_> = w.waiting_on_host.iter().map(|(t, call)| (*t, call.nr, call.args[2])).collect();
        assert_eq!(waits, if result.is_none() { vec![(all[0], nr::POLL, timeout)] } else { vec![] });
    }
}

#[test]
fn a_tick_in_a_short_call_does_not_show() {
    let (mut w, all) = World::with_threads(1);
    w.kernel.m.state().host_answers.push(Errno::EINTR.to_ret());
    assert_eq!(w.call(all[0], nr::UNAME, [word(0), 0, 0, 0, 0, 0]), None);
    assert_eq!(w.waiting_on_host.len(), 1);
}

const STACK_SIZE: u64 = 8 << 20;
const DONTNEED: u64 = 4;

/// A world with a stack of ours: its address.
fn with_stack() -> (World, u64) {
    let (mut w, all) = World::with_threads(1);
    // The last is taken first: a page, a guard marker in it, the page unmapped, then the stack.
    w.kernel.m.state().host_answers.extend([0x7f00_0000_0000, 0, 0, 0x7e00_0000_0000]);
    let stack = w.call(all[0], nr::MMAP, [0, STACK_SIZE, 0, 0x20022, u64::MAX, 0]);
    (w, stack.expect("the host has memory") as u64)
}

/// A thread lives on the stack for so long, says as glibc does that the part below its stack pointer is unused, and ends:
/// whether the host was told.
fn live(w: &mut World, stack: u64, nanos: u64, unused: [u64; 2]) -> bool {
    let t = w.spawn_on(ids::ThreadIdx(0), stack, STACK_SIZE);
    w.kernel.m.state().contexts.get_mut(&t.0).unwrap().rsp = stack + STACK_SIZE - 0x200;
    w.advance(nanos);
    w.kernel.m.state().host_calls.clear();
    assert_eq!(w.call(t, nr::MADVISE, [unused[0], unused[1], DONTNEED, 0, 0, 0]), Some(0));
    let told = w.kernel.m.state().host_calls.iter().any(|call| call.nr == nr::MADVISE);
    w.call(t, nr::EXIT, [0; 6]);
    assert!(w.is_gone(t));
    told
}

#[test]
fn the_unused_part_of_a_stack_is_given_back_when_it_may_have_been_used() {
    let (mut w, stack) = with_stack();
    let unused = [stack, STACK_SIZE - 0x5000];
    assert!(live(&mut w, stack, 1_000, unused), "nothing is known of the stack");
    for _ in 0..5 {
        assert!(!live(&mut w, stack, 1_000, unused));
    }
    assert!(live(&mut w, stack, 100_000, unused), "this one had time to use much of it");
    assert!(!live(&mut w, stack, 1_000, unused));
    // Two times 40 µs are too long together.
    assert!(!live(&mut w, stack, 40_000, unused) && live(&mut w, stack, 40_000, unused));
}

#[test]
fn memory_that_is_not_the_unused_part_of_the_own_stack_is_given_back_at_once() {
    let (mut w, stack) = with_stack();
    let unused = [stack, STACK_SIZE - 0x5000];
    assert!(live(&mut w, stack, 1_000, unused) && !live(&mut w, stack, 1_000, unused));
    for other in
        [[stack + 0x1000, 0x1000], [stack - STACK_SIZE, STACK_SIZE], [stack, STACK_SIZE], [stack, 2 * STACK_SIZE]]
    {
        assert!(live(&mut w, stack, 1_000, other), "{other:x?}");
    }
    // Where the host refuses, because the memory is locked for example, it is asked each time.
    let refused = |w: &mut World| {
        let t = w.spawn_on(ids::ThreadIdx(0), stack, STACK_SIZE);
        w.kernel.m.state().contexts.get_mut(&t.0).unwrap().rsp = stack + STACK_SIZE - 0x200;
        w.advance(100_000);
        w.kernel.m.state().host_answers.push(Errno::EINVAL.to_ret());
        let result = w.call(t, nr::MADVISE, [stack, STACK_SIZE - 0x5000, DONTNEED, 0, 0, 0]);
        w.call(t, nr::EXIT, [0; 6]);
        result
    };
    assert_eq!([refused(&mut w), refused(&mut w)], [Some(Errno::EINVAL.to_ret()); 2]);
}

#[test]
fn arguments_of_clone_that_are_longer_than_ours_must_be_zero_there() {
    let (mut w, all) = World::with_threads(1);
    let flags = abi::clone_flags::VM | abi::clone_flags::SIGHAND | abi::clone_flags::THREAD;
    w.poke_u64(word(0), flags);
    let clone = |w: &mut World, size| w.call(all[0], nr::CLONE3, [word(0), size, 0, 0, 0, 0]);
    w.poke_u64(word(0) + 88, 1);
    assert_eq!(clone(&mut w, 96), Some(Errno::E2BIG.to_ret()));
    assert_eq!(clone(&mut w, 63), Some(Errno::EINVAL.to_ret()));
    assert_eq!(clone(&mut w, 4097), Some(Errno::E2BIG.to_ret()));
}
