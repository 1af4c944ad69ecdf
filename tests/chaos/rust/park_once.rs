// Park tokens misused: two tasks unpark the thread, which parks once for each, but two tokens are one.
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;

fn main() {
    let done = Arc::new(AtomicUsize::new(0));
    let main = thread::current();
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (done, main) = (Arc::clone(&done), main.clone());
            thread::spawn(move || {
                done.fetch_add(1, SeqCst);
                main.unpark();
            })
        })
        .collect();
    if cfg!(bug) {
        for _ in 0..2 {
            thread::park();
        }
    } else {
        while done.load(SeqCst) < 2 {
            thread::park();
        }
    }
    for task in tasks {
        task.join().unwrap();
    }
}
