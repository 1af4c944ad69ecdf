//! `parking_lot`, which makes its futex calls by libc's `syscall`.

use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, FairMutex, Mutex, Once, ReentrantMutex, RwLock};

pub fn run() {
    mutexes();
    condvar();
    read_write_lock();
    reentrant();
    once();
}

fn mutexes() {
    let (mutex, fair) = (Mutex::new(0u64), FairMutex::new(0u64));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..3000 {
                    *mutex.lock() += 1;
                }
                for _ in 0..300 {
                    *fair.lock() += 1;
                }
            });
        }
    });
    println!("parking_lot: {} {}", mutex.lock(), fair.lock());
    let held = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| println!("parking_lot: timeout {}", mutex.try_lock_for(Duration::from_millis(20)).is_none()));
    });
    drop(held);
}

fn condvar() {
    let (mutex, condvar) = (Mutex::new(0u32), Condvar::new());
    thread::scope(|scope| {
        for i in 0..3 {
            let (mutex, condvar) = (&mutex, &condvar);
            scope.spawn(move || {
                for _ in 0..500 {
                    let mut turn = mutex.lock();
                    condvar.wait_while(&mut turn, |turn| *turn % 3 != i);
                    *turn += 1;
                    condvar.notify_all();
                }
            });
        }
    });
    println!("parking_lot: turns {}", mutex.lock());
    let mut guard = mutex.lock();
    println!("parking_lot: timed out {}", condvar.wait_for(&mut guard, Duration::from_millis(10)).timed_out());
}

fn read_write_lock() {
    let lock = RwLock::new([0u64; 8]);
    thread::scope(|scope| {
        for i in 0..8 {
            let lock = &lock;
            scope.spawn(move || {
                for j in 0..1000 {
                    if (i + j) % 4 == 0 {
                        lock.write().iter_mut().for_each(|word| *word += 1);
                    } else {
                        let words = lock.read();
                        assert!(words.iter().all(|word| *word == words[0]));
                    }
                }
            });
        }
    });
    println!("parking_lot: writes {}", lock.read()[7]);
}

fn reentrant() {
    let mutex = ReentrantMutex::new(5);
    let (first, second) = (mutex.lock(), mutex.lock());
    println!("parking_lot: reentrant {}", *first + *second);
}

fn once() {
    static ONCE: Once = Once::new();
    let runs = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ONCE.call_once(|| *runs.lock() += 1));
        }
    });
    println!("parking_lot: once {}", runs.lock());
}
