// Work-stealing deque: owner and thief do not agree by a compare-exchange who gets the last job.
use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering::SeqCst};
use std::thread;

const JOBS: usize = 3;
static TOP: AtomicIsize = AtomicIsize::new(0);
static BOTTOM: AtomicIsize = AtomicIsize::new(JOBS as isize);
static DONE: [AtomicU32; JOBS] = [const { AtomicU32::new(0) }; JOBS];

fn pop() -> Option<isize> {
    let at = BOTTOM.fetch_sub(1, SeqCst) - 1;
    let top = TOP.load(SeqCst);
    if at > top {
        return Some(at);
    }
    let got = at == top && TOP.compare_exchange(top, top + 1, SeqCst, SeqCst).is_ok();
    BOTTOM.store(at.max(top) + isize::from(at == top), SeqCst);
    got.then_some(at)
}

fn steal() -> Option<isize> {
    let top = TOP.load(SeqCst);
    if top >= BOTTOM.load(SeqCst) {
        return None;
    }
    if cfg!(bug) {
        TOP.store(top + 1, SeqCst);
        return Some(top);
    }
    TOP.compare_exchange(top, top + 1, SeqCst, SeqCst).is_ok().then_some(top)
}

fn run(job: Option<isize>) {
    if let Some(job) = job {
        assert_eq!(DONE[job as usize].fetch_add(1, SeqCst), 0, "done twice");
    }
}

fn main() {
    let thief = thread::spawn(|| (0..3).for_each(|_| run(steal())));
    (0..JOBS).for_each(|_| run(pop()));
    thief.join().unwrap();
}
