//! Lookups against exits and the reuse of ids and slots, on a model checker (`--cfg shuttle`).
#![cfg(shuttle)]

mod common;

use common::*;
use entresol_procfs::{Node, Options, Policy, ThreadId, Tree, Want};
use shuttle::thread;
use std::sync::Arc;

const ITERATIONS: usize = 1_500;

fn look(tree: &Tree, reader: usize, world: &World, path: &str) -> Option<Node> {
    tree.walk(reader, world, &ME, path.as_bytes(), Want::default()).ok().map(|walked| walked.node)
}

/// A reader never finds a thread that did not have this id in this slot at some time, and the cache, which is full
/// all the time, never mixes two names up.
fn race(policy: Policy) {
    shuttle::check_random(
        move || {
            let world = Arc::new(World::new());
            let tree = Arc::new(Tree::new(2, 1, Options::default(), policy));
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (world, tree) = (world.clone(), tree.clone());
                    thread::spawn(move || {
                        for id in [101, 102, 101, 103] {
                            let path = format!("self/task/{id}/stat");
                            if let Some(node) = look(&tree, reader, &world, &path) {
                                let thread = node.thread;
                                assert_eq!(thread.id, id, "another's");
                                assert!([2, 4].contains(&thread.slot), "{thread:?} never was");
                                assert_eq!(node.entry().unwrap().name, "stat");
                            }
                        }
                    })
                })
                .collect();
            // 101 dies and 102 gets its slot; then 101 is born again elsewhere.
            world.die(2);
            world.be_born(2, 102, 1);
            world.be_born(4, 101, 1);
            world.die(2);
            world.be_born(2, 103, 1);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            let last = look(&tree, 0, &world, "self/task/101/stat").unwrap();
            assert_eq!(last.thread, ThreadId { slot: 4, id: 101 });
        },
        ITERATIONS,
    );
}

#[test]
fn a_lookup_never_finds_a_foreign_thread() {
    race(Policy::ENTRESOL);
}

#[test]
fn nor_by_references() {
    race(Policy::REFERENCES);
}

#[test]
fn nor_on_the_way_from_one_to_the_other() {
    race(Policy::BEFORE);
}
