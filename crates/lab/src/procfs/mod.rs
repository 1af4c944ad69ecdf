//! Five ways to look a name up in `/proc`, and what the shared directory costs each.
//!
//! | | at `/proc` itself | a thread's liveness is asked | writes shared words |
//! |---|---|---|---|
//! | [`Design::Sleeping`] 4.14 | the directory's mutex, waited for asleep | under it | one lock a name |
//! | [`Design::References`] | a reference on each directory passed | by reference | two a name |
//! | [`Design::Before`] to 5.15 | RCU mode until a thread's directory comes | by reference, taken there and then | two on `/proc`, two further down |
//! | [`Design::Patched`] the seed | RCU mode | in RCU mode | the last reference only |
//! | [`Design::Ours`] | RCU mode | in RCU mode | none |
//!
//! The walks are all `procfs::Tree`'s, which has Linux's way between the modes; only the mutex of 4.14 stands before it
//! here. [`modelled`] has the machines that are larger than the one at hand.

pub mod modelled;
mod world;

pub use world::World;

use ::procfs::{Caller, Options, Policy, Tree, Want};

/// The designs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// 4.14: all look-ups of a directory, one after the other, the others asleep (`i_mutex`).
    Sleeping,
    /// Reference mode throughout: spinning on one lockref.
    References,
    /// Before the seed: RCU mode left where a thread must be asked whether it lives.
    Before,
    /// The seed.
    Patched,
    /// Ours: nothing is written, and names that are missing and the machine's files stay as well.
    Ours,
}

impl Design {
    /// All five.
    pub const ALL: [Design; 5] = [Design::Sleeping, Design::References, Design::Before, Design::Patched, Design::Ours];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Design::Sleeping => "4.14-mutex",
            Design::References => "references",
            Design::Before => "5.15-before",
            Design::Patched => "2021-patch",
            Design::Ours => "entresol",
        }
    }

    /// How its walks go.
    pub fn policy(self) -> Policy {
        match self {
            Design::Sleeping | Design::References => Policy::REFERENCES,
            Design::Before => Policy::BEFORE,
            Design::Patched => Policy::LINUX,
            Design::Ours => Policy::ENTRESOL,
        }
    }

    /// Whether walks exclude each other by a sleeping mutex. The caller that runs the walks holds it.
    pub fn sleeps(self) -> bool {
        self == Design::Sleeping
    }
}

/// A tree of one design over a world of threads, to be walked by this many readers at once.
#[derive(Debug)]
pub struct Walks {
    tree: Tree,
    world: World,
}

impl Walks {
    /// Over one process with this many threads.
    pub fn new(design: Design, readers: usize, threads: usize) -> Walks {
        let names = (threads * 3 + 64).min(1 << 16);
        Walks { tree: Tree::new(readers, names, Options::default(), design.policy()), world: World::new(threads) }
    }

    /// Looks up `self/task/TID/stat` of thread number `n`. Whether it was found.
    pub fn look_up(&self, reader: usize, n: usize) -> bool {
        let caller = Caller { process: world::PROCESS, thread: world::PROCESS, ..Caller::default() };
        let mut path = [0; 40];
        let path = self.world.path(n, &mut path);
        self.tree.walk(reader, &self.world, &caller, path, Want::default()).is_ok()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_design_finds_every_thread() {
        for design in Design::ALL {
            let walks = Walks::new(design, 1, 100);
            for n in (0..100).chain(0..100) {
                assert!(walks.look_up(0, n), "{design:?} {n}");
            }
            assert!(!walks.look_up(0, 100), "there is none");
        }
    }

    #[test]
    fn readers_side_by_side_find_everything() {
        for design in Design::ALL {
            let walks = Walks::new(design, 4, 50);
            std::thread::scope(|scope| {
                for reader in 0..4 {
                    let walks = &walks;
                    scope.spawn(move || (0..2000).for_each(|n| assert!(walks.look_up(reader, n * 7 % 50))));
                }
            });
        }
    }
}
