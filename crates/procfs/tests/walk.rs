//! Walks over a small world.

mod common;

use abi::Errno;
use common::*;
use entresol_procfs::node::{Dir, Place};
use entresol_procfs::walk::Within;
use entresol_procfs::{HidePid, Mode, Options, Policy, ThreadId, Tree, Want};

const POLICIES: [Policy; 4] = [Policy::ENTRESOL, Policy::LINUX, Policy::BEFORE, Policy::REFERENCES];

#[test]
fn every_policy_finds_the_same() {
    let world = World::new();
    for policy in POLICIES {
        let tree = tree(policy);
        for _ in 0..3 {
            for (path, dir, id) in [
                ("", Dir::Root, 0),
                ("self", Dir::Process, 100),
                ("self/", Dir::Process, 100),
                ("thread-self", Dir::Thread, 101),
                ("100/task", Dir::Tasks, 100),
                ("//100//task/./101/", Dir::Thread, 101),
                ("5000000", Dir::Process, 5_000_000),
                ("self/task/5000000", Dir::Thread, 5_000_000),
                ("self/task/5000000/..", Dir::Tasks, 100),
                ("self/task/../task/..", Dir::Process, 100),
                ("self/../100/../sys/kernel/..", Dir::Sys, 0),
                ("..", Dir::Root, 0),
            ] {
                let node = node(&tree, &world, path);
                assert_eq!((node.dir(), node.thread.id), (Some(dir), id), "{path} {policy:?}");
            }
            for (path, name) in
                [("self/stat", "stat"), ("100/task/101/comm", "comm"), ("sys/kernel/pid_max", "pid_max")]
            {
                assert_eq!(node(&tree, &world, path).entry().unwrap().name, name);
            }
        }
    }
}

#[test]
fn every_policy_refuses_the_same() {
    let world = World::new();
    let long = format!("self/{}", "x".repeat(300));
    for policy in POLICIES {
        let tree = tree(policy);
        for _ in 0..3 {
            for (path, errno) in [
                ("7", Errno::ENOENT),
                ("0", Errno::ENOENT),
                ("0100", Errno::ENOENT),
                ("+100", Errno::ENOENT),
                ("-1", Errno::ENOENT),
                ("4294967396", Errno::ENOENT),
                ("100/task/1", Errno::ENOENT),
                ("1/task/101", Errno::ENOENT),
                ("100/tasks", Errno::ENOENT),
                ("self/stat/", Errno::ENOTDIR),
                ("self/stat/x", Errno::ENOTDIR),
                ("self/stat/..", Errno::ENOTDIR),
                ("self/comm/.", Errno::ENOTDIR),
                ("100/task/101/task", Errno::ENOENT),
                (long.as_str(), Errno::ENOENT),
            ] {
                assert_eq!(walk(&tree, &world, &ME, path).map(|w| w.node), Err(errno), "{path} {policy:?}");
            }
        }
    }
}

#[test]
fn a_link_at_the_end_is_followed_or_not() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    let nofollow = Want { nofollow: true, ..Want::default() };
    let at = |path: &str, want| tree.walk(0, &world, &ME, path.as_bytes(), want).map(|w| w.node);
    assert!(matches!(at("self", nofollow).unwrap().place, Place::Entry(Dir::Root, _)));
    assert_eq!(at("self/", nofollow).unwrap().dir(), Some(Dir::Process), "a slash follows it");
    let directory = Want { directory: true, ..nofollow };
    assert_eq!(at("self", directory), Err(Errno::ENOTDIR));
    let mut text = [0; 32];
    let entry = at("thread-self", nofollow).unwrap().entry().unwrap();
    let len = entresol_procfs::walk::link_text(&ME, Some(entry.is), &mut text);
    assert_eq!(&text[..len], b"100/task/101");
}

#[test]
fn what_the_host_alone_knows_says_how_far_we_came() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    for (path, name, used) in
        [("self/fd/3", "fd", 7), ("thread-self/exe", "exe", 15), ("100/task/101/ns/net/x", "ns", 15)]
    {
        let walked = walk(&tree, &world, &ME, path).unwrap();
        assert_eq!((walked.node.entry().unwrap().name, walked.used), (name, used));
    }
}

#[test]
fn the_dead_are_not_found_and_their_successors_are() {
    for policy in POLICIES {
        let (world, tree) = (World::new(), tree(policy));
        let old = node(&tree, &world, "self/task/101/stat");
        world.die(2);
        assert_eq!(walk(&tree, &world, &ME, "self/task/101/stat").map(|w| w.node), Err(Errno::ENOENT));
        // The same slot, another id; then the same id in another slot.
        world.be_born(2, 102, 1);
        assert_eq!(walk(&tree, &world, &ME, "self/task/101").map(|w| w.node), Err(Errno::ENOENT));
        assert_eq!(node(&tree, &world, "self/task/102/stat").thread, ThreadId { slot: 2, id: 102 });
        world.be_born(5, 101, 1);
        let new = node(&tree, &world, "self/task/101/stat");
        assert_eq!(new.thread, ThreadId { slot: 5, id: 101 });
        assert_ne!(new, old);
    }
}

#[test]
fn a_directory_kept_open_notices_that_its_thread_is_gone() {
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    world.be_born(8, 300, 8);
    let (process, thread) = (node(&tree, &world, "300"), node(&tree, &world, "300/task/300"));
    let from =
        |node, path: &str| tree.walk_from(0, &world, &ME, node, path.as_bytes(), Want::default()).map(|w| w.node);
    assert_eq!(from(process, "stat").unwrap(), node(&tree, &world, "300/stat"));
    assert_eq!(from(thread, "../../stat").unwrap(), node(&tree, &world, "300/stat"));
    assert_eq!(from(process, "../self").unwrap().thread.id, 100);
    world.die(8);
    assert_eq!(from(process, "stat"), Err(Errno::ESRCH));
    assert_eq!(from(thread, "stat"), Err(Errno::ENOENT));
    assert!(from(process, "").is_ok(), "the directory itself");
}

/// Who stays in RCU mode and who bails out, as the seed's analysis lists them and as `RESOLVE_CACHED` shows on
/// Linux today (`tests/cached.rs` asks this host); and what is better here.
#[test]
fn who_stays_and_who_bails_out() {
    let world = World::new();
    let staying = |policy| {
        let tree = tree(policy);
        let paths = [
            // pid_revalidate
            "1",
            "1/stat",
            "100/task/101/stat",
            // proc_self_get_link, proc_thread_self_get_link: the seed's "RCU safe", atomic allocation
            "self",
            "self/stat",
            "thread-self/comm",
            // proc_pid_permission, proc_tid_comm_permission (notes 1 and 2: no audit here, and no reference to put)
            "1/task",
            "1/comm",
            // proc_misc_d_revalidate and proc_sys_revalidate: bail out
            "stat",
            "uptime",
            "loadavg",
            "sys/kernel/pid_max",
        ];
        paths.map(|path| stays(&tree, &world, path))
    };
    let (yes, no) = (true, false);
    assert_eq!(staying(Policy::LINUX), [yes, yes, yes, yes, yes, yes, yes, yes, no, no, no, no]);
    assert_eq!(staying(Policy::BEFORE), [no; 12]);
    assert_eq!(staying(Policy::REFERENCES), [no; 12]);
    assert_eq!(staying(Policy::ENTRESOL), [yes; 12], "nobody bails out here");
}

/// A missing name leaves RCU mode on Linux, because procfs keeps no negative dentries; ours is known to be missing.
#[test]
fn a_missing_name_stays_in_rcu_mode() {
    let world = World::new();
    let cached = |policy| Policy { cached: true, ..policy };
    for path in ["self/nothing", "7", "self/task/7", "nothing"] {
        let (ours, linux) = (tree(cached(Policy::ENTRESOL)), tree(cached(Policy::LINUX)));
        // The names before it must be in the cache.
        for tree in [&ours, &linux] {
            let warm = Tree::new(1, 64, Options::default(), Policy::REFERENCES);
            let _ = (walk(&warm, &world, &ME, path), walk(tree, &world, &ME, "self"));
        }
        assert!(matches!(walk(&linux, &world, &ME, path), Err(Errno::EAGAIN)), "{path}");
    }
    let ours = tree(Policy::ENTRESOL);
    for path in ["self/nothing", "7", "self/task/7", "nothing"] {
        let _ = walk(&ours, &world, &ME, "self/task");
        let before = ours.cache().counts();
        assert!(matches!(walk(&ours, &world, &ME, path), Err(Errno::ENOENT)), "{path}");
        assert_eq!(ours.cache().counts(), before, "and nothing is remembered of it");
    }
}

#[test]
fn references_balance() {
    for policy in POLICIES {
        let (world, tree) = (World::new(), tree(policy));
        for path in ["self/stat", "self/task/101/..", "7", "self/stat/", "thread-self/fd/3", "stat", "self/task/x", "."]
        {
            for _ in 0..3 {
                let _ = walk(&tree, &world, &ME, path);
            }
        }
        world.die(2);
        let _ = walk(&tree, &world, &ME, "self/task/101/stat");
        let names_in_root = (1..tree.cache().made())
            .filter(|&n| tree.cache().refs(n).count() >= 0 && tree.cache().look(n).is_ok_and(|s| s.seq != 0))
            .filter(|&n| tree.cache().parent(n) == entresol_procfs::dentry::ROOT)
            .count();
        assert_eq!(tree.cache().refs(entresol_procfs::dentry::ROOT).count() as usize, 1 + names_in_root, "{policy:?}");
    }
}

#[test]
fn a_cache_that_is_too_small_still_answers() {
    let world = World::new();
    for policy in POLICIES {
        let tree = Tree::new(1, 1, Options::default(), policy);
        for slot in 8..60 {
            world.be_born(slot, 1000 + slot as i32, 1);
        }
        for round in 0..3 {
            for slot in 8..60 {
                let path = format!("self/task/{}/stat", 1000 + slot);
                assert_eq!(node(&tree, &world, &path).thread.slot, slot as u32, "{round} {path}");
            }
        }
    }
}

fn hidden(hide: HidePid, group: u32) -> Tree {
    Tree::new(1, 256, Options { hide, group }, Policy::ENTRESOL)
}

#[test]
fn hidepid_hides_what_it_says() {
    let world = World::new();
    let ask = |tree: &Tree, caller, path: &str| walk(tree, &world, caller, path).map(|_| ());
    for (hide, inside, folder) in [
        (HidePid::Off, Ok(()), Ok(())),
        (HidePid::NoAccess, Err(Errno::EPERM), Ok(())),
        (HidePid::Invisible, Err(Errno::ENOENT), Ok(())),
        (HidePid::Ptraceable, Err(Errno::ENOENT), Err(Errno::ENOENT)),
    ] {
        let tree = hidden(hide, 0);
        assert_eq!(ask(&tree, &OTHER, "1"), folder, "{hide:?}, before anybody has looked");
        for _ in 0..2 {
            // An entry that root has put into the cache is still hidden from others.
            assert_eq!(ask(&tree, &SUPER, "1/stat"), Ok(()));
            assert_eq!(ask(&tree, &SUPER, "100/stat"), Ok(()));
            assert_eq!(ask(&tree, &OTHER, "1/stat"), inside, "{hide:?}");
            assert_eq!(ask(&tree, &OTHER, "100/stat"), inside, "{hide:?}");
            assert_eq!(ask(&tree, &ME, "self/stat"), Ok(()), "one's own");
        }
        let seen = OTHER.sees(&world, tree.options(), ThreadId { slot: 0, id: 1 });
        assert_eq!(seen, matches!(hide, HidePid::Off | HidePid::NoAccess), "listed, and has attributes");
    }
}

#[test]
fn the_group_is_exempt_but_for_ptraceable() {
    let world = World::new();
    let member = entresol_procfs::Caller { groups: &[4], ..OTHER };
    for (hide, expected) in
        [(HidePid::NoAccess, Ok(())), (HidePid::Invisible, Ok(())), (HidePid::Ptraceable, Err(Errno::ENOENT))]
    {
        let tree = hidden(hide, 4);
        assert_eq!(walk(&tree, &world, &member, "1/stat").map(|_| ()), expected, "{hide:?}");
    }
}

#[test]
fn a_process_that_may_not_be_looked_into_is_not_traced_by_its_user() {
    let mut world = World::new();
    let same_user = entresol_procfs::Caller { process: 7, thread: 7, ..ME };
    let tree = hidden(HidePid::NoAccess, 0);
    assert!(walk(&tree, &world, &same_user, "100/stat").is_ok());
    world.owners[1].dumpable = false;
    assert_eq!(walk(&tree, &world, &same_user, "100/stat").map(|_| ()), Err(Errno::EPERM));
    let stat = node(&tree, &world, "self/stat");
    let folder = node(&tree, &world, "self");
    assert_eq!(entresol_procfs::permission::attributes(&world, &stat), (0o100_444, [0, 0]));
    assert_eq!(
        entresol_procfs::permission::attributes(&world, &folder),
        (0o040_555, [1000, 100]),
        "0555 folders are exempt"
    );
}

#[test]
fn hidepid_has_four_values_under_eight_words() {
    let parse = |word| HidePid::parse(word);
    assert_eq!(
        [parse("0"), parse("noaccess"), parse("2"), parse("ptraceable")].map(Result::unwrap),
        [HidePid::Off, HidePid::NoAccess, HidePid::Invisible, HidePid::Ptraceable]
    );
    assert_eq!(["3", "5", "", "on", "-1", "04"].map(|w| parse(w).unwrap_err()), [Errno::EINVAL; 6]);
}

#[test]
fn modes_are_for_owner_group_and_others() {
    use entresol_procfs::permission::{MAY_EXEC, MAY_READ, MAY_WRITE};
    let (world, tree) = (World::new(), tree(Policy::ENTRESOL));
    let may = |caller: &entresol_procfs::Caller<'_>, path: &str, want| {
        caller.may_access(&world, &node(&tree, &world, path), want)
    };
    assert_eq!(may(&ME, "self/environ", MAY_READ), Ok(()));
    assert_eq!(may(&OTHER, "100/environ", MAY_READ), Err(Errno::EACCES));
    assert_eq!(may(&SUPER, "100/environ", MAY_READ | MAY_WRITE), Ok(()), "root overrides");
    assert_eq!(may(&SUPER, "100/environ", MAY_EXEC), Err(Errno::EACCES), "but makes no file executable");
    assert_eq!(may(&ME, "self/stat", MAY_WRITE), Err(Errno::EACCES));
    assert_eq!(may(&OTHER, "100", MAY_READ | MAY_EXEC), Ok(()));
    assert_eq!(may(&OTHER, "100/comm", MAY_WRITE), Err(Errno::EACCES));
    assert_eq!(may(&ME, "1/comm", MAY_WRITE), Err(Errno::EACCES));
    let in_the_group = entresol_procfs::Caller { process: 100, ..OTHER };
    assert_eq!(may(&in_the_group, "100/task/101/comm", MAY_WRITE), Ok(()), "proc_tid_comm_permission");
    assert_eq!(may(&in_the_group, "100/comm", MAY_WRITE), Err(Errno::EACCES), "which the process's directory has not");
}

#[test]
fn a_walk_by_references_ends_so() {
    let (world, tree) = (World::new(), tree(Policy::REFERENCES));
    assert_eq!(walk(&tree, &world, &ME, "self/stat").unwrap().mode, Mode::Reference);
}

#[test]
fn a_way_can_be_kept_within_a_directory_and_free_of_links() {
    let world = World::new();
    for policy in POLICIES {
        let tree = tree(policy);
        let tasks = node(&tree, &world, "100/task");
        for (path, beneath, root, links) in [
            ("101/stat", Ok(()), Ok(()), Ok(())),
            ("101/../101/stat", Ok(()), Ok(()), Ok(())),
            (".", Ok(()), Ok(()), Ok(())),
            ("..", Err(Errno::EXDEV), Ok(()), Ok(())),
            ("../task/101/stat", Err(Errno::EXDEV), Err(Errno::ENOENT), Ok(())),
            ("101/../../task", Err(Errno::EXDEV), Err(Errno::ENOENT), Ok(())),
            ("../../self/stat", Err(Errno::EXDEV), Err(Errno::ENOENT), Err(Errno::ELOOP)),
            ("../../thread-self", Err(Errno::EXDEV), Err(Errno::ENOENT), Err(Errno::ELOOP)),
        ] {
            let walk = |want| tree.walk_from(0, &world, &ME, tasks, path.as_bytes(), want).map(drop);
            let within = |within| Want { within, ..Want::default() };
            assert_eq!(walk(within(Within::Anywhere)), Ok(()), "{path} {policy:?}");
            assert_eq!(walk(within(Within::Beneath)), beneath, "{path} {policy:?}");
            assert_eq!(walk(within(Within::Root)), root, "{path} {policy:?}");
            assert_eq!(walk(Want { no_links: true, ..Want::default() }), links, "{path} {policy:?}");
        }
        // A link that is not followed is no link on the way.
        let want = Want { no_links: true, nofollow: true, ..Want::default() };
        assert!(tree.walk(0, &world, &ME, b"self", want).is_ok());
        assert_eq!(tree.walk(0, &world, &ME, b"self/stat", want).map(|w| w.node), Err(Errno::ELOOP));
    }
}

/// The folders above each folder, in both modes, from the cache and from outside it.
#[test]
fn up_is_where_it_came_from() {
    let world = World::new();
    for policy in POLICIES {
        let tree = tree(policy);
        for path in ["100/task/101", "100/task", "100", "sys/kernel", "sys"] {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            for _ in 0..2 {
                let (below, above) = (node(&tree, &world, path), node(&tree, &world, above));
                assert_eq!(node(&tree, &world, &format!("{path}/..")), above, "{path} {policy:?}");
                let outside = tree.walk_from(0, &world, &ME, below, b"..", Want::default()).unwrap();
                assert_eq!(outside.node, above, "{path} {policy:?}");
                let further = tree.walk_from(0, &world, &ME, below, b"../../../../self/stat", Want::default()).unwrap();
                assert_eq!(further.node.thread.id, 100, "{path} {policy:?}");
            }
        }
    }
}

/// Whatever bytes a path is made of: an answer, the same from all designs, and no reference is left behind.
#[test]
fn any_bytes_are_a_path() {
    let world = World::new();
    let trees = POLICIES.map(tree);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % below
    };
    let parts: [&[u8]; 22] = [
        b"self",
        b"thread-self",
        b"100",
        b"101",
        b"5000000",
        b"1",
        b"task",
        b"stat",
        b"comm",
        b"..",
        b".",
        b"",
        b"/",
        b"fd",
        b"exe",
        b"sys",
        b"kernel",
        b"pid_max",
        b"0100",
        b"4294967396",
        b"\xff\xfe",
        b"an entry whose name is longer than most",
    ];
    let rounds = std::env::var("ENTRESOL_PATHS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    for round in 0..rounds {
        let mut path = Vec::new();
        for _ in 0..next(9) {
            match next(12) {
                0 => path.extend((0..next(300)).map(|_| next(256) as u8)),
                1 => path.push(next(256) as u8),
                _ => path.extend_from_slice(parts[next(parts.len() as u64) as usize]),
            }
            path.extend(std::iter::repeat_n(b'/', next(3) as usize));
        }
        let mut want = Want { nofollow: next(2) == 0, directory: next(4) == 0, ..Want::default() };
        want.no_links = next(8) == 0;
        want.within = [Within::Anywhere, Within::Anywhere, Within::Beneath, Within::Root][next(4) as usize];
        let from = ["", "100", "100/task", "100/task/101"][next(4) as usize];
        let caller = [&ME, &SUPER, &OTHER][next(3) as usize];
        let from = node(&trees[0], &world, from);
        let answers: Vec<_> = trees
            .iter()
            .map(|tree| tree.walk_from(0, &world, caller, from, &path, want).map(|w| (w.node, w.used)))
            .collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{round}: {path:?} {want:?} {answers:?}");
    }
}
