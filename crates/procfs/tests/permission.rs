//! Who may do what with which file, by owner, group and others; and what attributes say.

mod common;

use abi::Errno;
use common::*;
use entresol_procfs::permission::{MAY_EXEC, MAY_READ, MAY_WRITE, attributes, links};
use entresol_procfs::{Caller, Node, Options, Owner, Policy};

fn at(world: &World, path: &str) -> Node {
    // Root finds everything.
    walk(&tree(Policy::ENTRESOL), world, &SUPER, path).unwrap_or_else(|e| panic!("{path}: {e:?}")).node
}

/// For read, write and execute: a letter, or a hyphen if it is refused.
fn rights(world: &World, caller: &Caller<'_>, path: &str) -> String {
    let node = at(world, path);
    let may = |want| caller.may_access(world, &node, want);
    let letters = [(MAY_READ, 'r'), (MAY_WRITE, 'w'), (MAY_EXEC, 'x')];
    for (want, _) in letters {
        assert!(matches!(may(want), Ok(()) | Err(Errno::EACCES)));
        // Two at once are each of them.
        for (other, _) in letters {
            assert_eq!(may(want | other).is_ok(), may(want).is_ok() && may(other).is_ok(), "{path} {want} {other}");
        }
    }
    assert_eq!(may(0), Ok(()), "that it is there anybody may know");
    letters.map(|(want, letter)| if may(want).is_ok() { letter } else { '-' }).iter().collect()
}

/// Shares the owner's group, by the file group or by another.
const MATE: Caller<'static> = Caller { fsgid: USER.gids[0], ..OTHER };
const MEMBER: Caller<'static> = Caller { groups: &[7, USER.gids[0]], ..OTHER };
/// Another process of the owner's.
const SAME: Caller<'static> = Caller { process: 999, thread: 999, ..ME };

#[test]
fn modes_are_of_owner_group_and_others() {
    let world = World::new();
    for (path, of_owner, of_others, of_root) in [
        ("100/stat", "r--", "r--", "rw-"),
        ("100/environ", "r--", "---", "rw-"),
        ("100/mem", "rw-", "---", "rw-"),
        ("100/clear_refs", "-w-", "---", "rw-"),
        ("100/timerslack_ns", "rw-", "rw-", "rw-"),
        ("100/sched", "rw-", "r--", "rw-"),
        ("100/comm", "rw-", "r--", "rw-"),
        ("100/fd", "r-x", "---", "rwx"),
        ("100/ns", "r-x", "--x", "rwx"),
        ("100/task", "r-x", "r-x", "rwx"),
        ("100/task/101", "r-x", "r-x", "rwx"),
        ("100/task/101/stack", "r--", "---", "rw-"),
        ("sys/kernel/pid_max", "r--", "r--", "rw-"),
    ] {
        assert_eq!(rights(&world, &SAME, path), of_owner, "{path}");
        assert_eq!(rights(&world, &OTHER, path), of_others, "{path}");
        assert_eq!(rights(&world, &MATE, path), of_others, "{path}");
        assert_eq!(rights(&world, &SUPER, path), of_root, "{path}");
    }
    // Nobody is asked about a link, and a thread's name may be set by its own process.
    let link = Node { place: entresol_procfs::Place::Entry(entresol_procfs::node::Dir::Root, 4), ..Node::ROOT };
    assert_eq!(link.entry().unwrap().name, "self");
    assert_eq!(OTHER.may_access(&world, &link, MAY_READ | MAY_WRITE | MAY_EXEC), Ok(()));
    let own = Caller { fsuid: 5, fsgid: 5, ..ME };
    let names = ["100/task/101/comm", "100/comm", "1/comm"].map(|path| rights(&world, &own, path));
    assert_eq!(names, ["rw-", "r--", "r--"]);
}

/// The tree has no file that lets its group do what it lets others not, so one is made: whoever is in the group of
/// a file is judged by its middle bits, whatever others may.
#[test]
fn who_is_in_the_group_is_judged_by_the_group() {
    let mut world = World::new();
    for (gids, mate, expected) in [([100; 3], &MATE, "r--"), ([100; 3], &MEMBER, "r--"), ([300; 3], &MATE, "r--")] {
        world.owners[1] = Owner { gids, ..USER };
        assert_eq!(rights(&world, mate, "100/timerslack_ns").replace('w', "-"), expected);
    }
    // Of `ns` others may search and not list; of `fd` neither: the group has the same in both.
    assert_eq!(rights(&world, &MATE, "100/ns"), "--x");
}

#[test]
fn tracing_is_for_the_same_user_and_group_while_it_is_dumpable() {
    let mut world = World::new();
    let of = |world: &World, caller: &Caller<'_>| caller.may_trace(world, at(world, "100").thread);
    assert!(of(&world, &ME) && of(&world, &SAME) && of(&world, &SUPER));
    for caller in [OTHER, MATE, MEMBER, Caller { fsgid: 5, ..SAME }, Caller { fsuid: 5, ..SAME }] {
        assert!(!of(&world, &caller), "{caller:?}");
        assert!(of(&world, &Caller { traces: true, ..caller }));
    }
    for (uids, gids) in [([1000, 1000, 0], [100; 3]), ([1000; 3], [100, 0, 100])] {
        world.owners[1] = Owner { uids, gids, dumpable: true };
        assert!(!of(&world, &SAME), "{uids:?} {gids:?}");
    }
    world.owners[1] = Owner { dumpable: false, ..USER };
    assert!(!of(&world, &SAME) && of(&world, &SUPER) && of(&world, &ME));
}

#[test]
fn owners_are_the_effective_ids() {
    let mut world = World::new();
    world.owners[1] = Owner { uids: [1, 2, 3], gids: [4, 5, 6], dumpable: true };
    for (path, mode, owner) in [
        ("100", 0o040_555, [2, 5]),
        ("100/task", 0o040_555, [2, 5]),
        ("100/stat", 0o100_444, [2, 5]),
        ("100/fd", 0o040_500, [2, 5]),
        ("sys", 0o040_555, [0, 0]),
    ] {
        assert_eq!(attributes(&world, &at(&world, path)), (mode, owner), "{path}");
    }
    world.owners[1].dumpable = false;
    assert_eq!(attributes(&world, &at(&world, "100")), (0o040_555, [2, 5]), "such folders are exempt");
    assert_eq!(attributes(&world, &at(&world, "100/fd")), (0o040_500, [0, 0]));
    assert_eq!(attributes(&world, &at(&world, "100/stat")), (0o100_444, [0, 0]));
}

/// As `stat -c %h` says on Linux 6.18.
#[test]
fn links_are_counted_as_there() {
    let world = World::new();
    for (path, count) in [
        ("100", 9),
        ("100/task", 5),
        ("1/task", 3),
        ("100/task/101", 7),
        ("100/stat", 1),
        ("100/fd", 2),
        ("100/exe", 1),
        ("sys", 2),
    ] {
        assert_eq!(links(&world, &at(&world, path)), count, "{path}");
    }
    let Ok(meta) = std::fs::metadata("/proc/self") else { return };
    println!("this host: {} for a process", std::os::unix::fs::MetadataExt::nlink(&meta));
}

/// The table of hidepid: who may search and who is seen, for each way to hide and each caller.
#[test]
fn hiding_has_four_strengths_and_an_exempt_group() {
    use entresol_procfs::HidePid::*;
    let world = World::new();
    let process = at(&world, "100");
    for (hide, search, sees, finds) in [
        (Off, Ok(()), true, true),
        (NoAccess, Err(Errno::EPERM), true, true),
        (Invisible, Err(Errno::ENOENT), false, true),
        (Ptraceable, Err(Errno::ENOENT), false, false),
    ] {
        let options = Options { hide, group: 7 };
        let of = |caller: &Caller<'_>| {
            let searches = caller.may_search(&world, &options, &process);
            (searches, caller.sees(&world, &options, process.thread), caller.may_find(&world, &options, process.thread))
        };
        assert_eq!(of(&OTHER), (search, sees, finds), "{hide:?}");
        for caller in [ME, SAME, SUPER] {
            assert_eq!(of(&caller), (Ok(()), true, true), "{hide:?} {caller:?}");
        }
        let exempt = if hide == Ptraceable { (search, sees, finds) } else { (Ok(()), true, true) };
        assert_eq!(of(&MEMBER), exempt, "{hide:?}");
        // Files of no process are for all.
        assert_eq!(OTHER.may_search(&world, &options, &Node::ROOT), Ok(()));
    }
}
