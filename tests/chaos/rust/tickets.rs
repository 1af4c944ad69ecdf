// Check then act: each buyer sees that a ticket is left, and takes it in a second step.
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

static LEFT: AtomicUsize = AtomicUsize::new(2);

fn buy() -> bool {
    if cfg!(bug) {
        let left = LEFT.load(SeqCst) > 0;
        if left {
            LEFT.fetch_sub(1, SeqCst);
        }
        left
    } else {
        LEFT.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

fn main() {
    let buyers: Vec<_> = (0..3).map(|_| thread::spawn(buy)).collect();
    let sold = buyers.into_iter().map(|buyer| buyer.join().unwrap()).filter(|&sold| sold).count();
    assert_eq!(sold, 2);
}
