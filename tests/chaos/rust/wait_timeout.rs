// Timeout taken for success: wait_timeout_while returns after its time, and the caller unwraps an answer that is not there.
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

fn main() {
    let shared = Arc::new((Mutex::new(None::<u32>), Condvar::new(), Mutex::new(())));
    let (theirs, others) = (Arc::clone(&shared), Arc::clone(&shared));
    let server = thread::spawn(move || {
        while theirs.2.try_lock().is_err() {
            thread::sleep(Duration::from_millis(700));
        }
        *theirs.0.lock().unwrap() = Some(8);
        theirs.1.notify_one();
    });
    let user = thread::spawn(move || drop(others.2.lock().unwrap()));
    let guard = shared.0.lock().unwrap();
    let (guard, timeout) =
        shared.1.wait_timeout_while(guard, Duration::from_millis(500), |answer| answer.is_none()).unwrap();
    if cfg!(bug) || !timeout.timed_out() {
        assert_eq!(guard.unwrap(), 8);
    }
    drop(guard);
    server.join().unwrap();
    user.join().unwrap();
}
