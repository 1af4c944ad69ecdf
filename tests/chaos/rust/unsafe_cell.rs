// Lost update: a cell is declared Sync though nothing orders its users.
use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::thread;

struct Statistics(UnsafeCell<[u64; 2]>);
// Each user is believed to hold the lock.
unsafe impl Sync for Statistics {}

static STATISTICS: Statistics = Statistics(UnsafeCell::new([0; 2]));
static LOCK: Mutex<()> = Mutex::new(());

fn record(bytes: u64) {
    let _guard = if cfg!(bug) { None } else { Some(LOCK.lock().unwrap()) };
    let numbers = STATISTICS.0.get();
    unsafe {
        let seen = numbers.read_volatile();
        numbers.write_volatile([seen[0] + 1, seen[1] + bytes]);
    }
}

fn main() {
    let other = thread::spawn(|| (0..3).for_each(|_| record(100)));
    (0..3).for_each(|_| record(10));
    other.join().unwrap();
    let [count, bytes] = unsafe { STATISTICS.0.get().read() };
    assert_eq!((count, bytes), (6, 330));
}
