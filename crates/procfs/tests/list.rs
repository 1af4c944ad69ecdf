//! Listings by cursor, with births and deaths between.

mod common;

use abi::Errno;
use common::*;
use entresol_procfs::list::{END, list};
use entresol_procfs::{HidePid, Options, Policy, Want};

/// The names from a cursor on, `by` at a time; `between` happens after each part.
fn names(world: &World, path: &str, options: Options, by: usize, mut between: impl FnMut(usize)) -> Vec<String> {
    let folder = node(&tree(Policy::ENTRESOL), world, path);
    let (mut all, mut cursor, mut part) = (Vec::new(), 0, 0);
    while cursor != END {
        let told = list(world, &OTHER, &options, &folder, cursor, by, |listed| {
            all.push(String::from_utf8(listed.name.to_vec()).unwrap());
            true
        });
        cursor = told.unwrap();
        part += 1;
        between(part);
        assert!(part < 1000, "it comes to an end");
    }
    all
}

const SHOWN: Options = Options { hide: HidePid::Off, group: 0 };

#[test]
fn the_root_lists_processes_and_not_threads() {
    let world = World::new();
    for by in [1, 2, 3, 64] {
        let all = names(&world, "", SHOWN, by, |_| {});
        assert_eq!(all, [".", "..", "stat", "uptime", "loadavg", "sys", "self", "thread-self", "1", "100"]);
    }
}

#[test]
fn threads_come_by_id_after_the_first() {
    let world = World::new();
    // Ids wrap round: some are below their leader's.
    for (slot, id) in [(9, 50), (10, 99)] {
        world.be_born(slot, id, 1);
    }
    for by in [1, 2, 64] {
        let all = names(&world, "100/task", SHOWN, by, |_| {});
        assert_eq!(all, [".", "..", "100", "50", "99", "101", "5000000"], "{by} at a time");
    }
}

#[test]
fn a_thread_has_the_names_of_a_thread() {
    let all = names(&World::new(), "100/task/101", SHOWN, 7, |_| {});
    assert!(all.contains(&"children".into()) && !all.contains(&"task".into()));
    assert_eq!(all.len(), 2 + entresol_procfs::entries::of(entresol_procfs::node::Dir::Thread).len());
}

#[test]
fn what_lives_throughout_is_told_once_whatever_else_happens() {
    let world = World::new();
    for slot in 10..40 {
        world.be_born(slot, 1000 + slot as i32, 1);
    }
    // Even ones die and others are born while the listing goes on.
    let all = names(&world, "100/task", SHOWN, 3, |part| {
        let slot = 10 + part * 2 % 30;
        world.die(slot);
        world.be_born(slot, 2000 + part as i32, 1);
    });
    for slot in (11..40).step_by(2) {
        let name = (1000 + slot).to_string();
        assert_eq!(all.iter().filter(|n| **n == name).count(), 1, "{name} in {all:?}");
    }
    let mut once = all.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), all.len(), "nothing twice");
}

#[test]
fn a_listing_ends_where_it_is_told_to_and_goes_on_there() {
    let world = World::new();
    let folder = node(&tree(Policy::ENTRESOL), &world, "100/task");
    let mut told = Vec::new();
    let cursor = list(&world, &ME, &SHOWN, &folder, 0, 64, |listed| {
        told.push(listed.name.to_vec());
        told.len() < 4
    });
    let again = list(&world, &ME, &SHOWN, &folder, cursor.unwrap(), 1, |listed| {
        assert_eq!(listed.name, b"101", "the one that was not taken comes again");
        true
    });
    assert!(again.is_ok());
}

#[test]
fn invisible_processes_are_not_listed() {
    let world = World::new();
    let all = |hide| names(&world, "", Options { hide, group: 0 }, 5, |_| {}).into_iter().skip(8).collect::<Vec<_>>();
    assert_eq!(all(HidePid::NoAccess), ["1", "100"]);
    assert_eq!(all(HidePid::Invisible), [""; 0]);
    assert_eq!(all(HidePid::Ptraceable), [""; 0]);
}

#[test]
fn a_folder_of_the_dead_cannot_be_listed() {
    let world = World::new();
    let folder = node(&tree(Policy::ENTRESOL), &world, "100/task/101");
    world.die(2);
    assert_eq!(list(&world, &ME, &SHOWN, &folder, 0, 9, |_| true), Err(Errno::ENOENT));
    let file = node(&tree(Policy::ENTRESOL), &world, "100/stat");
    assert_eq!(list(&world, &ME, &SHOWN, &file, 0, 9, |_| true), Err(Errno::ENOTDIR));
}

/// What a listing says of a name is what a walk finds there: inode and kind, `.` and `..` included.
#[test]
fn inodes_and_kinds_are_those_of_the_nodes() {
    let world = World::new();
    let tree = tree(Policy::ENTRESOL);
    for folder in ["", "100", "100/task", "100/task/101", "sys", "sys/kernel"] {
        let from = node(&tree, &world, folder);
        let mut told = 0;
        list(&world, &SUPER, &SHOWN, &from, 0, 1000, |listed| {
            let path = std::str::from_utf8(listed.name).unwrap();
            let want = Want { nofollow: true, ..Want::default() };
            let found = tree.walk_from(0, &world, &SUPER, from, path.as_bytes(), want).unwrap().node;
            assert_eq!(listed.inode, found.inode(), "{folder}/{path}");
            let kind = found.entry().map_or(4, |entry| entry.mode >> 12);
            assert_eq!(u16::from(listed.kind), kind, "{folder}/{path}");
            told += 1;
            assert_ne!(listed.next, 0);
            true
        })
        .unwrap();
        assert!(told > 2);
    }
}

#[test]
fn a_listing_ends_where_it_is_told_to() {
    let world = World::new();
    let folder = node(&tree(Policy::ENTRESOL), &world, "100/task");
    let mut seen = 0;
    let cursor = list(&world, &ME, &SHOWN, &folder, 0, 1000, |_| {
        seen += 1;
        seen < 3
    });
    assert_eq!(seen, 3);
    // The one that was not taken comes again.
    let mut first = Vec::new();
    list(&world, &ME, &SHOWN, &folder, cursor.unwrap(), 1, |listed| {
        first = listed.name.to_vec();
        true
    })
    .unwrap();
    assert_eq!(first, b"100");
    // A cursor that nobody was told begins nowhere in particular, and ends.
    for cursor in [END, END + 1, u64::MAX, 1 << 40] {
        assert_eq!(list(&world, &ME, &SHOWN, &folder, cursor, 1000, |_| true), Ok(END), "{cursor}");
    }
    let file = node(&tree(Policy::ENTRESOL), &world, "100/stat");
    assert_eq!(list(&world, &ME, &SHOWN, &file, 0, 9, |_| true), Err(Errno::ENOTDIR));
}
