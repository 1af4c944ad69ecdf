//! The tree without FUSE: over the host's `/proc`, with a made-up snapshot of this very process.

use entresol_mount::node::{Node, Nodes, Whose};
use entresol_mount::{Asker, Errno, Host, Seen, Tree, Watch};
use ids::{Nanos, Policy, RtPriority};
use procfs::{HidePid, Options};
use rustix::fs::{Access, OFlags};
use state::{Cpu, Place, Process, Snapshot, Thread, Wait};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is seen of this process; of others nothing.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Option<Snapshot>>>);

impl Watch for Fake {
    fn look(&self, pid: i32) -> Seen {
        let snapshot = self.0.lock().unwrap().clone().filter(|_| pid == own());
        Seen { snapshot, lasts: Duration::ZERO }
    }

    fn pids(&self) -> Vec<i32> {
        vec![own()]
    }
}

fn own() -> i32 {
    std::process::id() as i32
}

const FIRST: i32 = 5_000_000;

fn thread(tid: i32, name: &str) -> Thread {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let (user, system) = (Nanos(1_239_000_000), Nanos(20_000_000));
    Thread { tid, name: bytes, user, system, mask: 1, allowed: 1, voluntary: 7, ..Thread::default() }
}

/// The main thread waits in a host call, one is queued, one waits for a futex, one is held back; not in order.
fn snapshot() -> Snapshot {
    let waiting = |wait| Thread { place: Place::Waiting, wait, ..thread(FIRST + 2, "waits) R (") };
    let fifo = (Policy::Fifo, RtPriority(33));
    let threads = vec![
        Thread { policy: fifo.0, rt: fifo.1, ..waiting(Wait::Futex) },
        Thread { place: Place::Queued, ..thread(FIRST, "queued") },
        Thread { tid: own(), pending: 1 << 9, blocked: 1 << 40 | 2, ..waiting(Wait::Host) },
        Thread { tid: FIRST + 3, ..waiting(Wait::Throttled) },
    ];
    let user = Nanos(9_000_000_000);
    let (pending, ignored, caught) = (1 << 10, 1 << 12, 1 << 14 | 1 << 50);
    let process = Process { user, threads: 4, living: 4, pending, ignored, caught, ..Process::default() };
    Snapshot { number: 1, process, cpus: vec![Cpu::default(); 2], threads }
}

fn tree(options: Options) -> (Tree, Fake) {
    let fake = Fake(Arc::new(Mutex::new(Some(snapshot()))));
    (Tree::new(Host::open(Path::new("/proc")).unwrap(), fake.clone(), options), fake)
}

fn me() -> Asker {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Asker { uid, gid, tid: own() }
}

fn walk(tree: &Tree, asker: &Asker, path: &str) -> Result<Node, Errno> {
    path.split('/')
        .filter(|name| !name.is_empty())
        .try_fold(Node::ROOT, |node, name| tree.find(asker, &node, name.as_bytes()).map(|(node, _)| node))
}

fn read(tree: &Tree, path: &str) -> Result<String, Errno> {
    let node = walk(tree, &me(), path)?;
    let file = tree.open(&me(), &node, OFlags::RDONLY)?;
    let mut text = vec![];
    loop {
        match file.read(tree, &me(), &node, text.len() as u64, 100)? {
            part if part.is_empty() => return Ok(String::from_utf8(text).unwrap()),
            part => text.extend(part),
        }
    }
}

fn names(tree: &Tree, asker: &Asker, path: &str) -> Result<Vec<String>, Errno> {
    let node = walk(tree, asker, path)?;
    Ok(tree.list(asker, &node)?.into_iter().map(|listed| String::from_utf8(listed.name).unwrap()).collect())
}

fn fields(stat: &str) -> Vec<&str> {
    stat.trim_end().rsplit_once(") ").unwrap().1.split(' ').collect()
}

#[test]
fn threads_are_listed_where_the_host_has_carriers() {
    let (tree, fake) = tree(Options::default());
    let task = format!("{}/task", own());
    let expected = [".".into(), "..".into(), own().to_string()];
    let expected = expected.into_iter().chain([FIRST, FIRST + 2, FIRST + 3].map(|tid| tid.to_string()));
    assert_eq!(names(&tree, &me(), &task), Ok(expected.collect()));
    let node = walk(&tree, &me(), &task).unwrap();
    assert_eq!(tree.attributes(&me(), &node).unwrap().st_nlink, 2 + 4);
    for (name, found) in [(FIRST, true), (FIRST + 1, false), (1, false)] {
        let found = if found { Ok(()) } else { Err(Errno::NOENT) };
        assert_eq!(walk(&tree, &me(), &format!("{task}/{name}")).map(|_| ()), found, "{name}");
        // By its own name it is found at the top, and not listed.
        if name >= FIRST {
            assert_eq!(walk(&tree, &me(), &name.to_string()).map(|_| ()), found);
        }
        assert!(!names(&tree, &me(), "/").unwrap().contains(&FIRST.to_string()));
    }
    assert_eq!(walk(&tree, &me(), &format!("{task}/0{FIRST}")), Err(Errno::NOENT));
    // A main thread that has exited before others is a zombie that shows.
    fake.0.lock().unwrap().as_mut().unwrap().threads.retain(|thread| thread.tid != own());
    std::thread::sleep(Duration::from_millis(15));
    let stat = read(&tree, &format!("{task}/{}/stat", own())).unwrap();
    assert_eq!((fields(&stat)[0], fields(&stat)[17]), ("Z", "4"), "{stat}");
}

#[test]
fn signal_sets_are_the_threads_own() {
    let (tree, _) = tree(Options::default());
    let sets = |path: &str| -> Vec<u64> {
        let text = read(&tree, &format!("{}/{path}status", own())).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("Sig") || line.starts_with("Shd"));
        lines.filter_map(|line| u64::from_str_radix(line.split_once(":\t")?.1, 16).ok()).collect()
    };
    let process = [1 << 12, 1 << 14 | 1 << 50];
    assert_eq!(sets(""), [&[1 << 9, 1 << 10, 1 << 40 | 2], &process[..]].concat());
    assert_eq!(sets(&format!("task/{FIRST}/")), [&[0, 1 << 10, 0], &process[..]].concat(), "another thread");
    let stat = read(&tree, &format!("{}/stat", own())).unwrap();
    let first = |at: usize| fields(&stat)[at - 3].parse::<u64>().unwrap();
    assert_eq!([31, 32, 33, 34].map(first), [1 << 9, 2, 1 << 12, 1 << 14], "its own, and of those the first 31");
}

#[test]
fn the_text_is_the_threads() {
    let (tree, _) = tree(Options::default());
    let of = |tid: i32, file: &str| read(&tree, &format!("{}/task/{tid}/{file}", own())).unwrap();
    let stat = of(FIRST + 2, "stat");
    assert!(stat.starts_with(&format!("{} (waits) R () S ", FIRST + 2)), "{stat}");
    let f = fields(&stat);
    let numbers = [14, 15, 18, 20, 35, 38, 40, 41].map(|field: usize| f[field - 3]);
    assert_eq!((f.len(), numbers), (50, ["123", "2", "-34", "4", "1", "-1", "33", "1"]));
    assert_eq!(fields(&of(FIRST, "stat"))[0], "R", "who is queued could run");
    assert_eq!(fields(&of(FIRST + 3, "stat"))[0], "R", "and who is held back");
    let whole = read(&tree, &format!("{}/stat", own())).unwrap();
    assert_eq!((fields(&whole)[11], fields(&whole)[35]), ("900", "17"), "the times of all, and what its parent hears");
    assert_eq!(of(FIRST, "comm"), "queued\n");
    assert_eq!((of(FIRST + 2, "wchan"), of(FIRST, "wchan")), ("futex_do_wait".into(), "0".into()));
    assert_eq!(of(FIRST + 2, "schedstat"), "1259000000 0 7\n");
    let status = of(FIRST + 2, "status");
    for line in
        ["Name:\twaits) R (", "State:\tS (sleeping)", "Threads:\t4", "Cpus_allowed:\t1", "voluntary_ctxt_switches:\t7"]
    {
        assert!(status.lines().any(|l| l == line), "{line}\n{status}");
    }
    let host = std::fs::read_to_string("/proc/self/limits").unwrap();
    assert_eq!(of(FIRST, "limits"), host, "what the page does not have is the host's");
    assert_eq!(of(FIRST, "cmdline"), std::fs::read_to_string("/proc/self/cmdline").unwrap());
}

#[test]
fn a_thread_that_ends_is_no_other() {
    let (tree, fake) = tree(Options::default());
    let path = format!("{}/task/{}/stat", own(), FIRST + 2);
    let node = walk(&tree, &me(), &path).unwrap();
    let file = tree.open(&me(), &node, OFlags::RDONLY).unwrap();
    let first = file.read(&tree, &me(), &node, 0, 20).unwrap();
    assert_eq!(first.len(), 20);
    fake.0.lock().unwrap().as_mut().unwrap().threads.retain(|thread| thread.tid != FIRST + 2);
    std::thread::sleep(Duration::from_millis(15));
    // A listing that was begun is finished with the state of the same moment.
    let rest = file.read(&tree, &me(), &node, 20, 4096).unwrap();
    assert!(rest.ends_with(b"\n"));
    assert_eq!(file.read(&tree, &me(), &node, 0, 4096), Err(Errno::SRCH));
    assert_eq!(walk(&tree, &me(), &path), Err(Errno::NOENT));
    assert_eq!(tree.attributes(&me(), &node).map(|_| ()), Err(Errno::NOENT));
    // No longer under Entresol at all: its own file, and the host's, are not mixed either.
    *fake.0.lock().unwrap() = None;
    std::thread::sleep(Duration::from_millis(15));
    assert_eq!(file.read(&tree, &me(), &node, 0, 4096), Err(Errno::SRCH));
    assert!(names(&tree, &me(), &format!("{}/task", own())).unwrap().len() > 2);
}

#[test]
fn an_id_that_is_given_again_is_somebody_else() {
    let (tree, _) = tree(Options::default());
    let node = walk(&tree, &me(), &format!("{}/comm", own())).unwrap();
    let Whose::Process(process) = node.whose else { panic!("{node:?}") };
    let before = Whose::Process(entresol_mount::host::Process { began: process.began - 1, ..process });
    let other = Node { whose: before, path: node.path.clone() };
    assert_eq!(tree.open(&me(), &other, OFlags::RDONLY).map(|_| ()), Err(Errno::SRCH));
    assert_eq!(tree.attributes(&me(), &other).map(|_| ()), Err(Errno::SRCH));
    let nodes = Nodes::default();
    assert_ne!(nodes.tell(node), nodes.tell(other));
}

#[test]
fn links_are_whoever_asks() {
    let (tree, fake) = tree(Options::default());
    let link = |path: &str| {
        let node = walk(&tree, &me(), path)?;
        tree.link(&me(), &node).map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(link("self"), Ok(own().to_string()));
    assert_eq!(link("thread-self"), Ok(format!("{0}/task/{0}", own())));
    assert_eq!(link("mounts"), Ok("self/mounts".into()));
    let exe = std::env::current_exe().unwrap();
    assert_eq!(link(&format!("{}/exe", own())), Ok(exe.to_str().unwrap().to_owned()));
    assert_eq!(link(&format!("{}/comm", own())), Err(Errno::INVAL));
    let gone = Asker { tid: i32::MAX, ..me() };
    let node = walk(&tree, &me(), "self").unwrap();
    assert_eq!(tree.link(&gone, &node), Err(Errno::NOENT), "of another pid namespace");
    drop(fake);
}

#[test]
fn nothing_is_written_but_what_the_host_lets() {
    let (tree, _) = tree(Options::default());
    let write = |path: &str| {
        let node = walk(&tree, &me(), path)?;
        tree.open(&me(), &node, OFlags::WRONLY)?.write(&tree, &me(), 0, b"x")
    };
    let own = own();
    assert_eq!(write(&format!("{own}/comm")), Err(Errno::INVAL));
    assert_eq!(write(&format!("{own}/task/{FIRST}/comm")), Err(Errno::INVAL));
    assert_eq!(write(&format!("{own}/sched")), Ok(1));
    assert!(write(&format!("{own}/oom_score_adj")).is_err());
    let node = walk(&tree, &me(), &format!("{own}/task/{FIRST}")).unwrap();
    assert_eq!(tree.open(&me(), &node, OFlags::WRONLY).map(|_| ()), Err(Errno::ISDIR));
    let stat = walk(&tree, &me(), &format!("{own}/stat")).unwrap();
    assert_eq!(tree.access(&me(), &stat, Access::READ_OK), Ok(()));
    assert_eq!(tree.access(&me(), &stat, Access::EXEC_OK), Err(Errno::ACCESS));
    assert_eq!(tree.list(&me(), &stat).map(|_| ()), Err(Errno::NOTDIR));
    for bad in ["", ".", "..", "a/b", "\n", "01", "+1", "4294967296"] {
        assert_eq!(tree.find(&me(), &Node::ROOT, bad.as_bytes()).map(|_| ()), Err(Errno::NOENT), "{bad:?}");
    }
}

/// A process of user nobody asks: only root can make one.
#[test]
fn hiding_is_by_who_asks() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut other = std::process::Command::new("sleep").arg("100").uid(65_534).gid(65_534).spawn().unwrap();
    let asker = Asker { uid: 65_534, gid: 65_534, tid: other.id() as i32 };
    let (pid, own) = (other.id().to_string(), own().to_string());
    for (hide, listed, folder, inside) in [
        (HidePid::Off, true, Ok(()), Ok(())),
        (HidePid::NoAccess, true, Ok(()), Err(Errno::PERM)),
        (HidePid::Invisible, false, Err(Errno::NOENT), Err(Errno::NOENT)),
        (HidePid::Ptraceable, false, Err(Errno::NOENT), Err(Errno::NOENT)),
    ] {
        let (tree, _) = tree(Options { hide, group: 0 });
        assert_eq!(names(&tree, &asker, "/").unwrap().contains(&own), listed, "{hide:?}");
        assert_eq!(walk(&tree, &asker, &own).map(|_| ()), folder, "{hide:?}");
        for path in ["stat", "task", &format!("task/{FIRST}/comm")] {
            assert_eq!(walk(&tree, &asker, &format!("{own}/{path}")).map(|_| ()), inside, "{hide:?} {path}");
        }
        // A node that somebody else has found is no way around it.
        let found = walk(&tree, &me(), &format!("{own}/stat")).unwrap();
        let opened = tree.open(&asker, &found, OFlags::RDONLY).map(|_| ());
        assert_eq!(opened, inside, "{hide:?}");
        assert_eq!(walk(&tree, &asker, &format!("{pid}/stat")).map(|_| ()), Ok(()), "its own");
        assert_eq!(walk(&tree, &me(), &format!("{own}/stat")).map(|_| ()), Ok(()), "root sees all");
        assert!(names(&tree, &me(), "/").unwrap().contains(&pid));
        let environ = walk(&tree, &me(), &format!("{own}/environ")).unwrap();
        let opened = tree.open(&asker, &environ, OFlags::RDONLY).map(|_| ());
        assert!(opened.is_err(), "its rights are its own: {hide:?}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Whatever a page says, the answer is a text or an error.
#[test]
fn a_page_that_makes_no_sense_harms_nobody() {
    let (tree, fake) = tree(Options::default());
    let odd = Thread { tid: i32::MAX, cpu: u16::MAX, allowed: u16::MAX, until: Nanos(u64::MAX), ..thread(1, "") };
    let times = Thread {
        tid: 1,
        user: Nanos(u64::MAX),
        system: Nanos(u64::MAX),
        voluntary: u64::MAX,
        involuntary: u64::MAX,
        ..odd
    };
    let threads = vec![odd, times, odd, Thread { tid: 2, name: *b"\n\\\xff)( \n)\n)))))))", ..odd }];
    *fake.0.lock().unwrap() = Some(Snapshot { threads, cpus: vec![], ..snapshot() });
    std::thread::sleep(Duration::from_millis(15));
    let task = format!("{}/task", own());
    assert_eq!(names(&tree, &me(), &task).unwrap().len(), 2 + 4, "nothing twice, and the main thread");
    for tid in [1, 2, i32::MAX, own()] {
        for file in ["stat", "status", "comm", "sched", "schedstat", "wchan", "stack"] {
            let node = walk(&tree, &me(), &format!("{task}/{tid}/{file}")).unwrap();
            let opened = tree.open(&me(), &node, OFlags::RDONLY);
            assert!(opened.unwrap().read(&tree, &me(), &node, 0, 65_536).is_ok(), "{tid} {file}");
        }
    }
}
