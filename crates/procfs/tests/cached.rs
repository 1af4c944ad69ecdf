//! The host's own walk as the oracle: `openat2` with `RESOLVE_CACHED` answers EAGAIN exactly where a walk would leave
//! RCU mode, so the seed's table can be asked of the kernel at hand and compared with [`Policy::LINUX`].

mod common;

use common::*;
use entresol_procfs::Policy;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Whether the host opens a path without leaving RCU mode; `None` if it has no such question or path.
fn host_stays(path: &str) -> Option<bool> {
    let open = |resolve| openat2(CWD, path, OFlags::RDONLY | OFlags::PATH, Mode::empty(), resolve);
    // The cache is warm after the first.
    open(ResolveFlags::empty()).ok()?;
    match open(ResolveFlags::CACHED) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

fn is_procs_own(path: &str) -> bool {
    let device = |path: &str| std::fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::dev(&meta)).ok();
    device(path) == device("/proc")
}

#[test]
fn linux_stays_where_the_table_says() {
    // Kernels before 5.16 lack the patch.
    let policy = if host_stays("/proc/1/status") == Some(true) { Policy::LINUX } else { Policy::BEFORE };
    let (world, tree) = (World::new(), tree(policy));
    let mut asked = 0;
    for (theirs, ours) in [
        ("/proc/1", "1"),
        ("/proc/1/stat", "1/stat"),
        ("/proc/1/status", "1/status"),
        ("/proc/1/comm", "1/comm"),
        ("/proc/1/task", "1/task"),
        ("/proc/1/task/1", "1/task/1"),
        ("/proc/1/task/1/stat", "1/task/1/stat"),
        ("/proc/self/stat", "self/stat"),
        ("/proc/self/task", "self/task"),
        ("/proc/self/../1/stat", "self/../1/stat"),
        ("/proc/thread-self/comm", "thread-self/comm"),
        ("/proc/stat", "stat"),
        ("/proc/uptime", "uptime"),
        ("/proc/loadavg", "loadavg"),
        ("/proc/sys/kernel/pid_max", "sys/kernel/pid_max"),
    ] {
        // Some containers mount files of their own over the machine's.
        let Some(host) = host_stays(theirs).filter(|_| is_procs_own(theirs)) else {
            println!("{theirs}: this host does not say");
            continue;
        };
        assert_eq!(stays(&tree, &world, ours), host, "{theirs}");
        asked += 1;
    }
    println!("{asked} paths asked");
}
