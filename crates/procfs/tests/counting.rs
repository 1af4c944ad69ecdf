//! The counting build (`--cfg counting`): what a lookup writes.
#![cfg(counting)]

mod common;

use common::*;
use entresol_procfs::Policy;
use sync::counting::writes;

const PATHS: [&str; 9] = [
    "self/task/101/stat",
    "self/task/5000000/comm",
    "thread-self/status",
    "100/stat",
    "1/comm",
    "self/task",
    "stat",
    "self/nothing",
    "self/task/7/stat",
];

#[test]
fn a_lookup_writes_its_readers_word_and_nothing_else() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    for path in PATHS {
        let cold = walk(&tree, &world, &ME, path);
        let (warm, written) = writes(|| walk(&tree, &world, &ME, path));
        assert_eq!(cold.map(|w| w.node), warm.map(|w| w.node));
        assert_eq!(written.len(), 2, "{path}: the section's begin and end");
        assert!(written.iter().all(|&word| tree.rcu().owns(word)), "{path}: the walker's own");
    }
}

#[test]
fn what_there_was_before_writes_to_words_that_all_share() {
    let world = World::new();
    let shared = |policy| {
        let tree = tree(policy);
        PATHS[..6]
            .iter()
            .map(|path| {
                let _ = walk(&tree, &world, &ME, path);
                let (_, written) = writes(|| walk(&tree, &world, &ME, path));
                written.iter().filter(|&&word| !tree.rcu().owns(word)).count()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(shared(Policy::LINUX), [0; 6], "the seed's patch, as far as the last reference");
    assert!(shared(Policy::BEFORE).iter().all(|&n| n >= 4), "{:?}", shared(Policy::BEFORE));
    assert!(shared(Policy::REFERENCES).iter().all(|&n| n >= 4));
}
