// Dining philosophers: each of three has one fork and waits for its neighbour's.
use std::sync::Mutex;
use std::thread;

const SEATS: usize = 3;
static FORKS: [Mutex<u32>; SEATS] = [const { Mutex::new(0) }; SEATS];

fn dine(seat: usize) {
    let (left, right) = (seat, (seat + 1) % SEATS);
    let (first, second) = if cfg!(bug) || left < right { (left, right) } else { (right, left) };
    let mut one = FORKS[first].lock().unwrap();
    let mut other = FORKS[second].lock().unwrap();
    *one += 1;
    *other += 1;
}

fn main() {
    let threads: Vec<_> = (0..SEATS).map(|seat| thread::spawn(move || dine(seat))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(FORKS.iter().all(|fork| *fork.lock().unwrap() == 2));
}
