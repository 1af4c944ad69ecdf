// Channel misused: try_recv fails also while the senders still work, not only when they have gone.
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel();
    let producers: Vec<_> = (1..=2)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(number).unwrap())
        })
        .collect();
    drop(sender);
    let mut sum = receiver.recv().unwrap();
    loop {
        match receiver.try_recv() {
            Ok(number) => sum += number,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) if cfg!(bug) => break,
            Err(TryRecvError::Empty) => thread::yield_now(),
        }
    }
    for producer in producers {
        producer.join().unwrap();
    }
    assert_eq!(sum, 3);
}
