// Lock order by a temporary: the guard in the head of `while let` lives through the body, which takes another lock.
use std::sync::Mutex;
use std::thread;

static INBOX: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static OUTBOX: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn forward() {
    if cfg!(bug) {
        while let Some(letter) = INBOX.lock().unwrap().pop() {
            OUTBOX.lock().unwrap().push(letter);
        }
    } else {
        loop {
            let letter = INBOX.lock().unwrap().pop();
            let Some(letter) = letter else { break };
            OUTBOX.lock().unwrap().push(letter);
        }
    }
}

fn count() -> usize {
    let out = OUTBOX.lock().unwrap();
    let inside = INBOX.lock().unwrap();
    out.len() + inside.len()
}

fn main() {
    INBOX.lock().unwrap().extend([1, 2, 3]);
    let clerk = thread::spawn(forward);
    assert!(count() >= 2);
    clerk.join().unwrap();
    assert_eq!(count(), 3);
}
