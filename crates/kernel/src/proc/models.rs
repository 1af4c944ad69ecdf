//! Descriptors by many threads at once, on a model checker (`--cfg shuttle`), over a host of a few numbers: whoever opens
//! gets no number above one that was free throughout. The steps are those of [`super::bare`] and [`super::open`].

extern crate std;

use super::files::{Closed, OpenFile, OpenFiles};
use super::table::Returned;
use alloc::vec::Vec;
use procfs::Node;
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use sync::atomic::AtomicU32;

const BLANK: i32 = 1000;
const ITERATIONS: usize = 4_000;

/// Somebody opened, or closed, this number between two moments.
#[derive(Clone, Copy, Debug)]
struct Step {
    opens: bool,
    fd: i32,
    begin: usize,
    end: usize,
}

#[derive(Default)]
struct World {
    files: OpenFiles,
    /// The host's descriptors, a bit each.
    host: AtomicU32,
    /// Not the model's: nobody waits with these.
    time: AtomicUsize,
    steps: Mutex<Vec<Step>>,
}

impl World {
    fn new() -> World {
        let world = World::default();
        world.files.set_blank(Some(BLANK));
        world
    }

    fn host_open(&self) -> i32 {
        let take = |bits: u32| Some(bits | bits + 1);
        self.host.fetch_update(SeqCst, SeqCst, take).unwrap().trailing_ones() as i32
    }

    fn host_close(&self, fd: i32) {
        let before = self.host.fetch_and(!(1 << fd), SeqCst);
        assert!(before >> fd & 1 != 0, "{fd} was not open");
    }

    /// `Kernel::open_bare`.
    fn open(&self) -> i32 {
        let file = OpenFile::new(Node::ROOT, true, false, false);
        self.noted(true, || {
            self.files.reuse(&file).unwrap_or_else(|| {
                let since = self.files.moment();
                let fd = self.host_open();
                self.files.insert_new(fd, file.clone(), since);
                fd
            })
        })
    }

    /// Something that the host opens: `Kernel::sys_path`.
    fn open_other(&self) -> i32 {
        self.noted(true, || {
            if self.files.has_bare() {
                self.close_vacant(self.files.take_vacant(0, i32::MAX));
                self.files.await_given_back();
            }
            self.host_open()
        })
    }

    /// `Kernel::read_bare`.
    fn read(&self, fd: i32) {
        let file = self.files.hold(fd).expect("it is open and bare");
        self.files.put(fd, file);
    }

    /// `Kernel::close_one`.
    fn close(&self, fd: i32) {
        self.noted(false, || {
            if self.files.close(fd) != Closed::Kept {
                self.host_close(fd);
                if let Some(above) = self.files.freed(fd) {
                    self.close_vacant(above);
                }
            }
            fd
        });
    }

    /// `Kernel::close_vacant`.
    fn close_vacant(&self, first: Returned<'_>) {
        self.files.give_back(first, |fd| self.host_close(fd));
    }

    fn noted(&self, opens: bool, step: impl FnOnce() -> i32) -> i32 {
        let now = || self.time.fetch_add(1, SeqCst);
        let begin = now();
        let fd = step();
        self.steps.lock().unwrap().push(Step { opens, fd, begin, end: now() });
        fd
    }

    /// Openings and closings of a number, in turns: it is somebody's from when his open is over until his close begins.
    fn turns(&self, fd: i32) -> Vec<Step> {
        let mut turns: Vec<Step> = self.steps.lock().unwrap().iter().filter(|step| step.fd == fd).copied().collect();
        turns.sort_by_key(|step| if step.opens { step.end } else { step.begin });
        assert!(turns.iter().enumerate().all(|(at, step)| step.opens == (at % 2 == 0)), "{fd}: {turns:#?}");
        turns
    }

    /// No number below one that was given out was free from before until after, and none was given out twice.
    fn judge(&self) {
        let all: Vec<Vec<Step>> = (0..8).map(|fd| self.turns(fd)).collect();
        for given in all.iter().flatten().filter(|step| step.opens) {
            for below in &all[..given.fd as usize] {
                // The first opening that is not known to be undone before.
                let closed = below.iter().rposition(|step| !step.opens && step.end < given.begin);
                let next = below.get(closed.map_or(0, |at| at + 1));
                assert!(next.is_some_and(|next| next.begin < given.end), "{given:?}, but {below:#?}");
            }
        }
    }

    /// Nothing is open: the host has what is kept, and no more once that is given back.
    fn at_last(&self) {
        assert_eq!(self.open(), 0);
        self.close(0);
        assert!(!self.files.has_bare() || self.files.is_vacant(0));
        let first = self.open_other();
        assert_eq!((first, self.host.load(SeqCst)), (0, 1));
        assert!(!self.files.has_bare() && self.files.is_empty());
    }
}

/// Each of these at the same time, often.
fn at_once(works: &'static [fn(&World)]) {
    shuttle::check_random(
        || {
            let world = Arc::new(World::new());
            let threads: Vec<_> = works
                .iter()
                .map(|work| {
                    let world = world.clone();
                    thread::spawn(move || work(&world))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            world.at_last();
            world.judge();
        },
        ITERATIONS,
    );
}

fn one_by_one(world: &World) {
    for _ in 0..3 {
        let fd = world.open();
        world.read(fd);
        world.close(fd);
    }
}

fn two_at_a_time(world: &World) {
    for _ in 0..2 {
        let (low, high) = (world.open(), world.open());
        world.close(low);
        world.close(high);
    }
}

fn others(world: &World) {
    for _ in 0..2 {
        let fd = world.open_other();
        world.close(fd);
    }
}

fn between(world: &World) {
    let (low, high) = (world.open_other(), world.open());
    world.close(low);
    world.close(high);
    world.close(world.open());
}

#[test]
fn kept_numbers_alone() {
    at_once(&[one_by_one, two_at_a_time, one_by_one]);
}

#[test]
fn beside_numbers_that_are_freed() {
    at_once(&[one_by_one, two_at_a_time, others]);
}

#[test]
fn beside_numbers_that_are_freed_below() {
    at_once(&[between, two_at_a_time, one_by_one]);
    at_once(&[between, between]);
}
