// Missing signal: the condition is waited for without a look at what it stands for.
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

fn main() {
    let shared = Arc::new((Mutex::new(None), Condvar::new()));
    let theirs = Arc::clone(&shared);
    let sender = thread::spawn(move || {
        *theirs.0.lock().unwrap() = Some(7);
        theirs.1.notify_one();
    });
    let guard = shared.0.lock().unwrap();
    #[cfg(bug)]
    let guard = shared.1.wait(guard).unwrap();
    #[cfg(not(bug))]
    let guard = shared.1.wait_while(guard, |message| message.is_none()).unwrap();
    assert_eq!(*guard, Some(7));
    drop(guard);
    sender.join().unwrap();
}
