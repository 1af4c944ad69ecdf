// Barrier reused: who arrives last resets the count, and a thread may come round again before another has seen that.
use std::sync::{Condvar, Mutex};
use std::thread;

const THREADS: usize = 3;

struct Barrier {
    state: Mutex<(usize, usize)>,
    all_here: Condvar,
}

static BARRIER: Barrier = Barrier { state: Mutex::new((0, 0)), all_here: Condvar::new() };

impl Barrier {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        let generation = state.1;
        state.0 += 1;
        if state.0 == THREADS {
            *state = (0, generation + 1);
            self.all_here.notify_all();
            return;
        }
        let waits = |state: &mut (usize, usize)| if cfg!(bug) { state.0 != 0 } else { state.1 == generation };
        drop(self.all_here.wait_while(state, waits).unwrap());
    }
}

fn main() {
    let threads: Vec<_> = (0..THREADS).map(|_| thread::spawn(|| (0..2).for_each(|_| BARRIER.wait()))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(BARRIER.state.lock().unwrap().1, 2);
}
