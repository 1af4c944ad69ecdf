//! The host as the oracle: the same sequence on Linux and on the machine. Signals are sent
//! to the test's own thread, which blocks them, so nothing else in the test binary sees any.

use abi::frame::{self as layout, FpSwBytes, Registers};
use abi::{SaFlags, SigAction, SigInfo, SigSet, Signal, StackT};
use entresol_arch::xstate;
use ids::ThreadIdx;
use signal::frame::{ExtendedState, Restorable, read, restorable};
use signal::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Dispositions belong to the whole test process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn raw(nr: i64, a: [u64; 4]) -> Result<u64, i32> {
    // SAFETY: every caller below passes pointers to live buffers of the size that the call
    // names, or numbers.
    let r = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3]) };
    if r < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(r as u64) }
}

fn ids() -> (u64, u64, u32) {
    let (pid, tid) = (raw(libc::SYS_getpid, [0; 4]).unwrap(), raw(libc::SYS_gettid, [0; 4]).unwrap());
    (pid, tid, raw(libc::SYS_getuid, [0; 4]).unwrap() as u32)
}

fn set_host_mask(mask: SigSet) -> SigSet {
    let mut old = 0u64;
    let args = [libc::SIG_SETMASK as u64, &raw const mask.0 as u64, &raw mut old as u64, 8];
    raw(libc::SYS_rt_sigprocmask, args).unwrap();
    SigSet(old)
}

fn host_action(signal: Signal, new: Option<SigAction>) -> Result<SigAction, i32> {
    let new = new.map(|a| a.to_bytes());
    let mut old = [0u8; SigAction::SIZE];
    let new = new.as_ref().map_or(0, |b| b.as_ptr() as u64);
    raw(libc::SYS_rt_sigaction, [signal.raw() as u64, new, old.as_mut_ptr() as u64, 8])?;
    Ok(SigAction::from_bytes(&old))
}

/// One thread on both sides.
struct Both {
    process: ProcessSignals,
    thread: ThreadSignals,
    pid: u64,
    tid: u64,
    uid: u32,
}

impl Both {
    fn new() -> Both {
        let (pid, tid, uid) = ids();
        set_host_mask(SigSet::ALL);
        let process = ProcessSignals::new(Dispositions::DEFAULT);
        Both { process, thread: ThreadSignals::new(SigSet::ALL), pid, tid, uid }
    }

    fn send(&mut self, signal: Signal, value: Option<u64>) {
        let info = match value {
            None => {
                raw(libc::SYS_tgkill, [self.pid, self.tid, signal.raw() as u64, 0]).unwrap();
                SigInfo::tkill(signal, self.pid as i32, self.uid)
            }
            Some(v) => {
                let info = SigInfo::queue(signal, self.pid as i32, self.uid, v);
                let b = info.to_bytes();
                let args = [self.pid, self.tid, signal.raw() as u64, b.as_ptr() as u64];
                raw(libc::SYS_rt_tgsigqueueinfo, args).unwrap();
                info
            }
        };
        let state =
            ThreadState { thread: ThreadIdx(0), running: true, exiting: false, stopped: false, notified: false };
        let c = self.thread.candidate(state);
        let sent = self.process.send(Target::Thread(&mut self.thread, c), info, Quota::UNLIMITED).unwrap();
        assert_eq!(sent.wake, Wake::Nobody, "every signal is blocked");
    }

    fn take(&mut self, set: SigSet) -> bool {
        let (zero, mut b) = ([0u64; 2], [0u8; 128]);
        let args = [&raw const set.0 as u64, b.as_mut_ptr() as u64, zero.as_ptr() as u64, 8];
        let host = match raw(libc::SYS_rt_sigtimedwait, args) {
            Ok(_) => Taken::Signal(SigInfo::read(&b).unwrap()),
            Err(e) => {
                assert_eq!(e, libc::EAGAIN);
                Taken::Nothing
            }
        };
        assert_eq!(self.process.take(&mut self.thread, set, &mut NoTimers), host);
        host != Taken::Nothing
    }

    fn compare_pending(&self) {
        let mut set = 0u64;
        raw(libc::SYS_rt_sigpending, [&raw mut set as u64, 8, 0, 0]).unwrap();
        assert_eq!(self.process.pending(&self.thread), SigSet(set));
    }
}

#[test]
fn queues_behave_as_the_hosts() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::spawn(|| {
        let mut both = Both::new();
        let mut x = 0x1234_5678_9ABC_DEF1u64;
        for _ in 0..4000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let signal = Signal::from_raw((x >> 8) as i32 % 64 + 1)
                .or(Signal::from_raw((x >> 20) as i32 & 31 | 32))
                .filter(|&s| !SigSet::UNBLOCKABLE.contains(s))
                .unwrap_or(Signal::CONT);
            match x % 8 {
                0..3 => both.send(signal, Some(x)),
                3 => both.send(signal, None),
                4 => drop(both.take(SigSet(x.rotate_left(17)))),
                5 => both.compare_pending(),
                6 if x >> 40 & 7 == 0 => while both.take(SigSet::ALL) {},
                _ => both.send([Signal::TSTP, Signal::CONT, Signal::TTIN][(x >> 50) as usize % 3], None),
            }
        }
        while both.take(SigSet::ALL) {}
        both.compare_pending();
    })
    .join()
    .unwrap();
}

#[test]
fn actions_are_kept_as_the_host_keeps_them() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::spawn(|| {
        let mut both = Both::new();
        let signal = Signal::from_raw(50).unwrap();
        // A handler is never called: every signal is blocked.
        let odd = SigAction { handler: 0x1000, flags: SaFlags(!0), restorer: 0x2000, mask: SigSet::ALL };
        let ignore = SigAction { handler: abi::SIG_IGN, ..SigAction::DEFAULT };
        for action in [odd, ignore, SigAction::DEFAULT, odd, SigAction::DEFAULT] {
            both.send(signal, Some(7));
            let old = host_action(signal, Some(action)).unwrap();
            let change = both.process.set_action(signal, action).unwrap();
            assert_eq!(change.old, old);
            assert_eq!(both.process.actions().get(signal), host_action(signal, None).unwrap());
            both.compare_pending();
        }
        while both.take(SigSet::ALL) {}
        for s in [Signal::KILL, Signal::STOP] {
            assert_eq!(host_action(s, Some(ignore)), Err(libc::EINVAL));
            assert_eq!(both.process.set_action(s, ignore).unwrap_err().0, libc::EINVAL);
            assert_eq!(both.process.actions().get(s), host_action(s, None).unwrap());
        }
    })
    .join()
    .unwrap();
}

fn host_altstack(new: Option<StackT>) -> Result<StackT, i32> {
    let new = new.map(|s| s.to_bytes());
    let mut old = [0u8; StackT::SIZE];
    let new = new.as_ref().map_or(0, |b| b.as_ptr() as u64);
    raw(libc::SYS_sigaltstack, [new, old.as_mut_ptr() as u64, 0, 0])?;
    Ok(StackT::from_bytes(&old))
}

#[test]
fn alternate_stacks_are_set_as_on_the_host() {
    std::thread::spawn(|| {
        let here = 0u8;
        let sp = &raw const here as u64;
        let mut ours = AltStack::NONE;
        host_altstack(Some(StackT { sp: 0, flags: abi::SS_DISABLE, size: 0 })).unwrap();
        let auto = abi::SS_AUTODISARM;
        for (flags, size) in [
            (0, 2047),
            (0, 2048),
            (1, 8192),
            (1 | auto, 8192),
            (2, 0),
            (2 | auto, 9),
            (3, 8192),
            (4, 8192),
            (auto, 100),
            (auto, 4096),
            (2, 77),
            (0, 0),
        ] {
            let new = StackT { sp: 0x7000_0000, flags, size };
            let (before, reported) = (ours.report(sp), host_altstack(Some(new)));
            let result = ours.set(new, sp, AltStack::MIN_SIZE);
            assert_eq!(result.map_err(|e| e.0), reported.map(|old| assert_eq!(old, before)), "{new:?}");
            assert_eq!(ours.report(sp), host_altstack(None).unwrap(), "after {new:?}");
        }
    })
    .join()
    .unwrap();
}

/// What the handler saw: the frame, the extended state's words about itself, its end.
static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
static NESTED: AtomicU64 = AtomicU64::new(0);

struct Seen {
    at: u64,
    bytes: [u8; layout::SIZE],
    sw: FpSwBytes,
    magic2: u32,
    altstack: StackT,
    set_while_on_it: Option<i32>,
    entry_rdi: i32,
    entry_rsi: u64,
}

extern "C" fn handler(signo: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let at = context as u64 - layout::UCONTEXT as u64;
    // SAFETY: the kernel passed the context inside a whole frame, whose first word is eight
    // bytes below it; the state it points to is as long as it says.
    let (bytes, sw, magic2) = unsafe {
        let bytes: [u8; layout::SIZE] = std::ptr::read_unaligned(at as *const _);
        let state = abi::bytes::get_u64(&bytes, layout::UC_MCONTEXT + layout::MC_FPSTATE);
        let sw = std::ptr::read_unaligned((state + layout::SW_RESERVED as u64) as *const [u8; FpSwBytes::SIZE]);
        let sw = FpSwBytes::from_bytes(&sw);
        (bytes, sw, std::ptr::read_unaligned((state + u64::from(sw.xstate_size)) as *const u32))
    };
    let altstack = host_altstack(None).unwrap();
    let set_while_on_it = host_altstack(Some(altstack)).err();
    let seen = Seen { at, bytes, sw, magic2, altstack, set_while_on_it, entry_rdi: signo, entry_rsi: info as u64 };
    SEEN.lock().unwrap().push(seen);
    if NESTED.swap(0, SeqCst) != 0 {
        let (pid, tid, _) = ids();
        raw(libc::SYS_tgkill, [pid, tid, Signal::USR2.raw() as u64, 0]).unwrap();
    }
}

/// Places and builds the frame that the host built, and compares.
fn check_frame(seen: &Seen, action: SigAction, alt: AltStack) {
    let info = SigInfo::read(seen.bytes[layout::SIGINFO..].try_into().unwrap()).unwrap();
    let returned = read(&seen.bytes, 0).unwrap();
    let interrupted = <Registers as abi::bytes::Plain>::get(&seen.bytes[layout::UC_MCONTEXT..]);
    let delivery = Delivery { info, action, old_mask: returned.mask, altstack: alt };
    let state = ExtendedState::Xsave { size: seen.sw.xstate_size, features: seen.sw.xfeatures };
    let plan = FramePlan::new(&delivery, interrupted.rsp, state).unwrap();
    assert_eq!(plan.frame, seen.at);
    assert_eq!(plan.fpstate, returned.fpstate);

    let (mut ours, mut hosts) = (plan.bytes(&delivery, &interrupted), seen.bytes);
    for b in [&mut ours, &mut hosts] {
        // The host leaves what lay on the stack in padding and reserved words.
        b[layout::UC_STACK + 12..layout::UC_STACK + 16].fill(0);
        b[layout::UC_MCONTEXT + layout::MC_FPSTATE + 8..layout::UC_SIGMASK].fill(0);
    }
    assert_eq!(ours, hosts);

    let entry = plan.entry(&delivery, &interrupted);
    assert_eq!((entry.rdi, entry.rsi, entry.rsp), (seen.entry_rdi as u64, seen.entry_rsi, seen.at));
    assert_eq!(state.sw_bytes(), seen.sw);
    // No test has asked for tiles.
    assert_eq!(seen.sw.xstate_size as usize, xstate::length(false));
    assert_eq!(seen.sw.xfeatures, xstate::features() & !xstate::ON_REQUEST);
    assert_eq!(state.magic2().unwrap().1, seen.magic2.to_le_bytes());
    let whole = restorable(state, plan.fpstate, &seen.sw, |_| Some(seen.magic2)).unwrap();
    assert_eq!(whole, Restorable::Xsave { size: seen.sw.xstate_size, features: seen.sw.xfeatures });
}

#[test]
fn frames_are_the_hosts() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::spawn(|| {
        let stack = vec![0u8; 1 << 18];
        let (pid, tid, _) = ids();
        for (name, sa_flags, stack_flags, nested) in [
            ("own stack", 0, None, 0),
            ("alternate stack", libc::SA_ONSTACK, Some(0), 0),
            ("nested on the alternate stack", libc::SA_ONSTACK, Some(0), 1),
            ("alternate stack there, not asked for", 0, Some(0), 0),
            ("alternate stack that disarms", libc::SA_ONSTACK, Some(abi::SS_AUTODISARM), 1),
        ] {
            for signo in [libc::SIGUSR1, libc::SIGUSR2] {
                // SAFETY: a zeroed sigaction is a valid one, and the handler touches only its
                // arguments, a mutex that the interrupted code does not hold, and the heap
                // outside of any allocation (the signals below are synchronous).
                unsafe {
                    let mut sa: libc::sigaction = std::mem::zeroed();
                    sa.sa_sigaction = handler as *const () as usize;
                    sa.sa_flags = libc::SA_SIGINFO | sa_flags;
                    assert_eq!(libc::sigaction(signo, &sa, std::ptr::null_mut()), 0);
                }
            }
            let top = stack.as_ptr() as u64;
            let mut alt = AltStack::NONE;
            let none = StackT { sp: 0, flags: abi::SS_DISABLE, size: 0 };
            let new = stack_flags.map_or(none, |flags| StackT { sp: top, flags, size: stack.len() as u64 });
            alt.set(new, 0, AltStack::MIN_SIZE).unwrap();
            host_altstack(Some(new)).unwrap();

            NESTED.store(nested, SeqCst);
            raw(libc::SYS_tgkill, [pid, tid, Signal::USR1.raw() as u64, 0]).unwrap();

            let seen = std::mem::take(&mut *SEEN.lock().unwrap());
            assert_eq!(seen.len(), 1 + nested as usize, "{name}");
            for (i, s) in seen.iter().enumerate() {
                let signal = [Signal::USR1, Signal::USR2][i];
                let action = host_action(signal, None).unwrap();
                // While a disarming stack is in use, there is none.
                let alt = if i == 1 && alt.disarms() { AltStack::NONE } else { alt };
                check_frame(s, action, alt);
                let after = if alt.disarms() { AltStack::NONE } else { alt };
                assert_eq!(s.altstack, after.report(s.at), "{name}");
                let set = { after }.set(s.altstack, s.at, AltStack::MIN_SIZE);
                assert_eq!(set.err().map(|e| e.0), s.set_while_on_it, "{name}");
            }
            assert_eq!(host_altstack(None).unwrap(), alt.report(0), "{name}: sigreturn gives it back");
        }
        host_altstack(Some(StackT { sp: 0, flags: abi::SS_DISABLE, size: 0 })).unwrap();
    })
    .join()
    .unwrap();
}
