//! What is found in one look the walk finds, too.

mod common;

use common::*;
use entresol_procfs::walk::Within;
use entresol_procfs::{HidePid, Options, Policy, Tree, Want};

const NOFOLLOW: Want = Want { nofollow: true, directory: false, no_links: false, within: Within::Anywhere };

#[test]
fn plain_paths_need_no_walk() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    world.be_born(4, 219_004_928, 1);
    world.be_born(5, 12_345_678, 1);
    for path in [
        "self/task/101/stat",
        "self/task/219004928/stat",
        "219004928",
        "12345678/task/219004928",
        "self/task/12345678/comm",
        "self/task/5000000/comm",
        "self/task/100",
        "self/task",
        "self/sched",
        "self",
        "thread-self",
        "thread-self/status",
        "101/stat",
        "101/stack",
        "1/comm",
        "1",
        "1/task/1/stat",
        "5000000/task/101/limits",
        "101/task",
    ] {
        for want in [Want::default(), NOFOLLOW] {
            let walked = tree.walk(0, &world, &ME, path.as_bytes(), want).map(|w| (w.node, w.used));
            for behind in [0, b'/', b'1', 0xff] {
                let found = leap(&tree, &world, path, behind, want);
                assert_eq!(found.map(|node| Ok((node, path.len()))), Some(walked), "{path}");
            }
        }
    }
}

#[test]
fn nothing_is_found_that_the_walk_does_not_find() {
    const PARTS: [&str; 35] = [
        "self",
        "thread-self",
        "selfs",
        "sel",
        "thread-sel",
        "thread-selfs",
        "task",
        "tasks",
        "tas",
        "100",
        "101",
        "1",
        "7",
        "5000000",
        "0",
        "0101",
        "+1",
        "1x",
        "12345678",
        "219004928",
        "4294967396",
        "stat",
        "stats",
        "sta",
        "status",
        "comm",
        "fd",
        "schedstat",
        "timers",
        "exe",
        ".",
        "..",
        "",
        "sys",
        "uptime",
    ];
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    world.be_born(4, 12_345_678, 1);
    world.be_born(5, 219_004_928, 1);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut found = 0;
    for round in 0..40_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let parts: Vec<&str> =
            (0..1 + state % 5).map(|i| PARTS[(state >> (8 * i + 8)) as usize % PARTS.len()]).collect();
        let path = parts.join("/");
        let want = if round % 2 == 0 { Want::default() } else { NOFOLLOW };
        if let Some(node) = leap(&tree, &world, &path, state as u8, want) {
            let walked = tree.walk(0, &world, &ME, path.as_bytes(), want).map(|w| (w.node, w.used));
            assert_eq!(Ok((node, path.len())), walked, "{path}");
            found += 1;
        }
    }
    assert!(found > 1000, "{found}");
}

#[test]
fn the_dead_are_not_found() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    let find = |path| leap(&tree, &world, path, 0, Want::default());
    let before = find("self/task/5000000/stat").unwrap();
    world.die(3);
    assert_eq!((find("self/task/5000000/stat"), find("5000000/stat")), (None, None));
    world.be_born(4, 5_000_000, 1);
    let after = find("self/task/5000000/stat").unwrap();
    assert_eq!((before.thread.slot, after.thread.slot), (3, 4), "another one with its id");
    world.die(2);
    assert_eq!((find("thread-self/stat"), find("thread-self")), (None, None));
}

#[test]
fn what_is_not_plain_is_walked() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    let all = |tree: &Tree, want| leap(tree, &world, "self/task/101/stat", 0, want);
    assert!(all(&tree, Want::default()).is_some());
    for want in [Want { directory: true, ..Want::default() }, Want { no_links: true, ..Want::default() }] {
        assert_eq!(all(&tree, want), None);
    }
    for hide in [HidePid::NoAccess, HidePid::Invisible, HidePid::Ptraceable] {
        let options = Options { hide, ..Options::default() };
        assert_eq!(all(&Tree::new(1, 64, options, Policy::ENTRESOL), Want::default()), None);
    }
    for policy in [Policy::LINUX, Policy::BEFORE, Policy::REFERENCES] {
        assert_eq!(all(&Tree::new(1, 64, Options::default(), policy), Want::default()), None);
    }
    for path in [
        "self/",
        "self//stat",
        "self/task/101/",
        "self/stat/",
        "self/./stat",
        "stat",
        "sys",
        "",
        "self/schedstat",
        "self/exe",
        "thread-self/fd",
    ] {
        assert_eq!(leap(&tree, &world, path, 0, Want::default()), None, "{path}");
    }
}
