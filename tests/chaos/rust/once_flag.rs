// Once misused: a compare-exchange decides who initialises, and the others go on without waiting.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::Once;
use std::thread;

static BEGUN: AtomicBool = AtomicBool::new(false);
static ONCE: Once = Once::new();
static LIMIT: AtomicU32 = AtomicU32::new(0);

fn limit() -> u32 {
    let initialise = || LIMIT.store(64, SeqCst);
    if cfg!(bug) {
        if BEGUN.compare_exchange(false, true, SeqCst, SeqCst).is_ok() {
            initialise();
        }
    } else {
        ONCE.call_once(initialise);
    }
    LIMIT.load(SeqCst)
}

fn main() {
    let other = thread::spawn(limit);
    assert_eq!(limit(), 64);
    assert_eq!(other.join().unwrap(), 64);
}
