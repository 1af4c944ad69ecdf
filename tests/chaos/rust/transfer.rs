// Lock order: a transfer locks the account that pays first, whichever it is.
use std::sync::Mutex;
use std::thread;

static ACCOUNTS: [Mutex<i64>; 2] = [Mutex::new(100), Mutex::new(100)];

fn transfer(from: usize, to: usize, amount: i64) {
    let (first, second) = if cfg!(bug) { (from, to) } else { (from.min(to), from.max(to)) };
    let mut a = ACCOUNTS[first].lock().unwrap();
    let mut b = ACCOUNTS[second].lock().unwrap();
    let amount = if first == from { amount } else { -amount };
    *a -= amount;
    *b += amount;
}

fn main() {
    let other = thread::spawn(|| (0..3).for_each(|_| transfer(0, 1, 10)));
    (0..3).for_each(|_| transfer(1, 0, 20));
    other.join().unwrap();
    assert_eq!(*ACCOUNTS[0].lock().unwrap(), 130);
}
