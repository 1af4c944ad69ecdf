// Timeout taken for the end: a producer that has to try again later is taken for one that has gone.
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn main() {
    let (sender, receiver) = mpsc::channel();
    let line = Arc::new(Mutex::new(()));
    let theirs = Arc::clone(&line);
    let producer = thread::spawn(move || {
        for number in 1..=3 {
            while theirs.try_lock().is_err() {
                thread::sleep(Duration::from_secs(2));
            }
            if sender.send(number).is_err() {
                return;
            }
        }
    });
    let other = thread::spawn(move || drop(line.lock().unwrap()));
    let mut sum = 0;
    loop {
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(number) => sum += number,
            Err(RecvTimeoutError::Timeout) if !cfg!(bug) => continue,
            Err(_) => break,
        }
    }
    drop(receiver);
    producer.join().unwrap();
    other.join().unwrap();
    assert_eq!(sum, 6);
}
