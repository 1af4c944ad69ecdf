//! The names in each directory, in the order in which Linux lists them (`tgid_base_stuff`, `tid_base_stuff`), with
//! their types and modes.

use crate::name::Name;
use crate::node::Dir;

/// Directory.
pub const S_IFDIR: u16 = 0o040_000;
/// Regular file.
pub const S_IFREG: u16 = 0o100_000;
/// Symbolic link.
pub const S_IFLNK: u16 = 0o120_000;

/// A file whose text is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// `stat`.
    Stat,
    /// `status`.
    Status,
    /// `comm`: also written.
    Comm,
    /// `sched`.
    Sched,
    /// `schedstat`.
    Schedstat,
    /// `wchan`.
    Wchan,
    /// `stack`.
    Stack,
    /// `timers`.
    Timers,
    /// `limits`.
    Limits,
    /// `timerslack_ns`: also written.
    TimerSlack,
    /// `/proc/stat`.
    Machine,
    /// `/proc/uptime`.
    Uptime,
    /// `/proc/loadavg`.
    Loadavg,
    /// `/proc/sys/kernel/pid_max`.
    PidMax,
    /// `/proc/sys/kernel/threads-max`.
    ThreadsMax,
}

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    /// A file of ours.
    Ours(File),
    /// A directory of ours.
    Dir(Dir),
    /// `self`.
    SelfLink,
    /// `thread-self`.
    ThreadSelfLink,
    /// Shared by all threads of a process, or known to the host only: the host answers, under the process's own id.
    Hosts,
}

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// Type and permissions.
    pub mode: u16,
    /// Its kind.
    pub is: Is,
}

const fn entry(name: &'static str, mode: u16, is: Is) -> Entry {
    Entry { name, mode, is }
}

const fn ours(name: &'static str, mode: u16, file: File) -> Entry {
    entry(name, S_IFREG | mode, Is::Ours(file))
}

const fn hosts(name: &'static str, mode: u16) -> Entry {
    entry(name, S_IFREG | mode, Is::Hosts)
}

const fn hosts_dir(name: &'static str, mode: u16) -> Entry {
    entry(name, S_IFDIR | mode, Is::Hosts)
}

const fn hosts_link(name: &'static str) -> Entry {
    entry(name, S_IFLNK | 0o777, Is::Hosts)
}

const fn dir(name: &'static str, dir: Dir) -> Entry {
    entry(name, S_IFDIR | 0o555, Is::Dir(dir))
}

const fn root_link(name: &'static str, is: Is) -> Entry {
    entry(name, S_IFLNK | 0o777, is)
}

static ROOT: [Entry; 6] = [
    ours("stat", 0o444, File::Machine),
    ours("uptime", 0o444, File::Uptime),
    ours("loadavg", 0o444, File::Loadavg),
    dir("sys", Dir::Sys),
    root_link("self", Is::SelfLink),
    root_link("thread-self", Is::ThreadSelfLink),
];

static PROCESS: [Entry; 54] = [
    dir("task", Dir::Tasks),
    hosts_dir("fd", 0o500),
    hosts_dir("map_files", 0o500),
    hosts_dir("fdinfo", 0o555),
    hosts_dir("ns", 0o511),
    hosts_dir("net", 0o555),
    hosts("environ", 0o400),
    hosts("auxv", 0o400),
    ours("status", 0o444, File::Status),
    hosts("personality", 0o400),
    ours("limits", 0o444, File::Limits),
    ours("sched", 0o644, File::Sched),
    hosts("autogroup", 0o644),
    hosts("timens_offsets", 0o644),
    ours("comm", 0o644, File::Comm),
    hosts("syscall", 0o400),
    hosts("cmdline", 0o444),
    ours("stat", 0o444, File::Stat),
    hosts("statm", 0o444),
    hosts("maps", 0o444),
    hosts("numa_maps", 0o444),
    hosts("mem", 0o600),
    hosts_link("cwd"),
    hosts_link("root"),
    hosts_link("exe"),
    hosts("mounts", 0o444),
    hosts("mountinfo", 0o444),
    hosts("mountstats", 0o400),
    hosts("clear_refs", 0o200),
    hosts("smaps", 0o444),
    hosts("smaps_rollup", 0o444),
    hosts("pagemap", 0o400),
    hosts_dir("attr", 0o555),
    ours("wchan", 0o444, File::Wchan),
    ours("stack", 0o400, File::Stack),
    ours("schedstat", 0o444, File::Schedstat),
    hosts("cpuset", 0o444),
    hosts("cgroup", 0o444),
    hosts("oom_score", 0o444),
    hosts("oom_adj", 0o644),
    hosts("oom_score_adj", 0o644),
    hosts("loginuid", 0o644),
    hosts("sessionid", 0o444),
    hosts("coredump_filter", 0o644),
    hosts("io", 0o400),
    hosts("uid_map", 0o644),
    hosts("gid_map", 0o644),
    hosts("projid_map", 0o644),
    hosts("setgroups", 0o644),
    ours("timers", 0o444, File::Timers),
    ours("timerslack_ns", 0o666, File::TimerSlack),
    hosts("arch_status", 0o444),
    hosts("ksm_merging_pages", 0o400),
    hosts("ksm_stat", 0o400),
];

static THREAD: [Entry; 47] = [
    hosts_dir("fd", 0o500),
    hosts_dir("fdinfo", 0o555),
    hosts_dir("ns", 0o511),
    hosts_dir("net", 0o555),
    hosts("environ", 0o400),
    hosts("auxv", 0o400),
    ours("status", 0o444, File::Status),
    hosts("personality", 0o400),
    ours("limits", 0o444, File::Limits),
    ours("sched", 0o644, File::Sched),
    ours("comm", 0o644, File::Comm),
    hosts("syscall", 0o400),
    hosts("cmdline", 0o444),
    ours("stat", 0o444, File::Stat),
    hosts("statm", 0o444),
    hosts("maps", 0o444),
    hosts("children", 0o444),
    hosts("numa_maps", 0o444),
    hosts("mem", 0o600),
    hosts_link("cwd"),
    hosts_link("root"),
    hosts_link("exe"),
    hosts("mounts", 0o444),
    hosts("mountinfo", 0o444),
    hosts("clear_refs", 0o200),
    hosts("smaps", 0o444),
    hosts("smaps_rollup", 0o444),
    hosts("pagemap", 0o400),
    hosts_dir("attr", 0o555),
    ours("wchan", 0o444, File::Wchan),
    ours("stack", 0o400, File::Stack),
    ours("schedstat", 0o444, File::Schedstat),
    hosts("cpuset", 0o444),
    hosts("cgroup", 0o444),
    hosts("oom_score", 0o444),
    hosts("oom_adj", 0o644),
    hosts("oom_score_adj", 0o644),
    hosts("loginuid", 0o644),
    hosts("sessionid", 0o444),
    hosts("io", 0o400),
    hosts("uid_map", 0o644),
    hosts("gid_map", 0o644),
    hosts("projid_map", 0o644),
    hosts("setgroups", 0o644),
    hosts("arch_status", 0o444),
    hosts("ksm_merging_pages", 0o400),
    hosts("ksm_stat", 0o400),
];

static SYS: [Entry; 1] = [dir("kernel", Dir::SysKernel)];

static SYS_KERNEL: [Entry; 2] = [ours("pid_max", 0o644, File::PidMax), ours("threads-max", 0o644, File::ThreadsMax)];

/// The names that a directory always has. [`Dir::Root`] and [`Dir::Tasks`] have those of threads in addition.
pub fn of(dir: Dir) -> &'static [Entry] {
    match dir {
        Dir::Root => &ROOT,
        Dir::Process => &PROCESS,
        Dir::Tasks => &[],
        Dir::Thread => &THREAD,
        Dir::Sys => &SYS,
        Dir::SysKernel => &SYS_KERNEL,
    }
}

/// The entry with this name, and its number.
pub fn find(dir: Dir, name: &Name) -> Option<(u8, &'static Entry)> {
    let at = of(dir).iter().position(|entry| name.is(entry.name.as_bytes()))?;
    Some((at as u8, &of(dir)[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;
    use std::string::{String, ToString};
    use std::vec::Vec;

    const ALL: [Dir; 6] = [Dir::Root, Dir::Process, Dir::Tasks, Dir::Thread, Dir::Sys, Dir::SysKernel];

    #[test]
    fn every_name_is_found_and_there_once() {
        for dir in ALL {
            let names: BTreeSet<&str> = of(dir).iter().map(|entry| entry.name).collect();
            assert_eq!(names.len(), of(dir).len());
            for (i, entry) in of(dir).iter().enumerate() {
                let name = Name::new(entry.name.as_bytes());
                assert_eq!(find(dir, &name), Some((i as u8, entry)));
            }
        }
        assert_eq!(find(Dir::Thread, &Name::new(b"task")), None);
    }

    /// This host lists the names that it shares with us in our order and with our modes; the rest depends on its build.
    #[test]
    fn as_this_host_lists_them() {
        let folders = [(Dir::Process, "/proc/self".to_string()), (Dir::Thread, "/proc/thread-self".to_string())];
        for (dir, folder) in folders {
            let listed: Vec<String> = std::fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| of(dir).iter().any(|entry| entry.name == name))
                .collect();
            let ours: Vec<&str> =
                of(dir).iter().map(|entry| entry.name).filter(|name| listed.iter().any(|l| l == name)).collect();
            assert!(listed.len() > 30, "{listed:?}");
            assert_eq!(ours, listed);
            for entry in of(dir).iter().filter(|entry| listed.iter().any(|l| l == entry.name)) {
                let meta = std::fs::symlink_metadata(std::format!("{folder}/{}", entry.name)).unwrap();
                assert_eq!(meta.permissions().mode(), u32::from(entry.mode), "{}", entry.name);
            }
        }
    }
}
