//! The standard library.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub fn run() {
    spawn_and_join();
    scoped();
    channels();
    mutex_and_condvar();
    read_write_lock();
    park_and_unpark();
    panics();
    thread_locals();
    once();
    sleeps();
    command();
}

fn spawn_and_join() {
    let threads: Vec<_> = (0..500u64).map(|i| thread::spawn(move || i * i)).collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    println!("std: sum of squares {sum}");
    let named = thread::Builder::new().name("entresol".into()).stack_size(256 * 1024);
    let name = named.spawn(|| thread::current().name().map(str::to_owned)).expect("a thread").join();
    println!("std: name {:?}", name.expect("no panic"));
}

fn scoped() {
    let mut numbers: Vec<u64> = (0..100_000).collect();
    thread::scope(|scope| {
        for part in numbers.chunks_mut(7000) {
            scope.spawn(move || part.iter_mut().for_each(|number| *number = number.wrapping_mul(31) % 1009));
        }
    });
    println!("std: scoped {}", numbers.iter().sum::<u64>());
}

fn channels() {
    let (sender, receiver) = mpsc::sync_channel::<u64>(4);
    let senders: Vec<_> = (0..8)
        .map(|i| {
            let sender = sender.clone();
            thread::spawn(move || (0..500).for_each(|j| sender.send(i * 1000 + j).expect("a receiver")))
        })
        .collect();
    drop(sender);
    let sum: u64 = receiver.iter().sum();
    senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
    println!("std: channel {sum}");
    let (_kept, empty) = mpsc::channel::<()>();
    println!("std: timeout {:?}", empty.recv_timeout(Duration::from_millis(20)));
}

fn mutex_and_condvar() {
    let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
    let threads: Vec<_> = (0..4u32)
        .map(|i| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..500 {
                    let guard = shared.0.lock().expect("not poisoned");
                    let mut turn = shared.1.wait_while(guard, |turn| *turn % 4 != i).expect("not poisoned");
                    *turn += 1;
                    shared.1.notify_all();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    println!("std: turns {}", shared.0.lock().expect("not poisoned"));
}

fn read_write_lock() {
    let lock = RwLock::new((0u64, 0u64));
    thread::scope(|scope| {
        for i in 0..6 {
            let lock = &lock;
            scope.spawn(move || {
                for _ in 0..1000 {
                    if i % 3 == 0 {
                        let mut pair = lock.write().expect("not poisoned");
                        pair.0 += 1;
                        pair.1 += 1;
                    } else {
                        let pair = lock.read().expect("not poisoned");
                        assert_eq!(pair.0, pair.1);
                    }
                }
            });
        }
    });
    println!("std: writes {}", lock.read().expect("not poisoned").0);
}

fn park_and_unpark() {
    let steps = Arc::new(AtomicU64::new(0));
    let parked = {
        let steps = Arc::clone(&steps);
        thread::spawn(move || {
            while steps.load(Ordering::Acquire) < 1000 {
                thread::park();
            }
        })
    };
    for _ in 0..1000 {
        steps.fetch_add(1, Ordering::Release);
        parked.thread().unpark();
    }
    parked.join().expect("no panic");
    // It may come back early, on a token that is left over.
    let before = Instant::now();
    while let Some(left) = Duration::from_millis(10).checked_sub(before.elapsed()) {
        thread::park_timeout(left);
    }
    println!("std: parked");
}

fn panics() {
    std::panic::set_hook(Box::new(|_| {}));
    let mutex = Arc::new(Mutex::new(1));
    let poisoner = {
        let mutex = Arc::clone(&mutex);
        thread::spawn(move || {
            let _guard = mutex.lock();
            panic!("on purpose");
        })
    };
    println!("std: panicked {}, poisoned {}", poisoner.join().is_err(), mutex.is_poisoned());
    let caught = (0..50).map(|i| thread::spawn(move || assert!(i % 2 == 0))).filter_map(|thread| thread.join().err());
    println!("std: caught {}", caught.count());
    drop(std::panic::take_hook());
}

fn thread_locals() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    struct Counted(u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(self.0, Ordering::Relaxed);
        }
    }
    thread_local!(static LOCAL: RefCell<Counted> = const { RefCell::new(Counted(0)) });
    let threads: Vec<_> = (0..50)
        .map(|i| {
            thread::spawn(move || {
                for _ in 0..100 {
                    LOCAL.with_borrow_mut(|local| local.0 += i);
                    thread::yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    println!("std: dropped {}", DROPPED.load(Ordering::Relaxed));
}

fn once() {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u64> = OnceLock::new();
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for i in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                ONCE.call_once(|| {
                    thread::sleep(Duration::from_millis(5));
                    RUNS.fetch_add(1, Ordering::Relaxed);
                });
                CELL.get_or_init(|| i);
            });
        }
    });
    println!("std: once {}, cell {}", RUNS.load(Ordering::Relaxed), CELL.get().is_some());
}

fn sleeps() {
    thread::scope(|scope| {
        for i in 0..20 {
            scope.spawn(move || {
                let (time, before) = (Duration::from_micros(i * 500), Instant::now());
                thread::sleep(time);
                assert!(before.elapsed() >= time);
            });
        }
    });
    println!("std: slept");
}

fn command() {
    let output = std::process::Command::new("sh").args(["-c", "echo from a child; exit 3"]).output().expect("a shell");
    println!("std: {:?} {:?}", String::from_utf8_lossy(&output.stdout), output.status.code());
}
