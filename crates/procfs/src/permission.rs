//! Permissions: modes, and what the mount hides (`fs/proc/base.c`).

use crate::entries::{S_IFDIR, S_IFLNK};
use crate::node::{Dir, Node, Place};
use crate::{ThreadId, Threads};
use abi::Errno;

/// How much a mount hides of processes that the reader may not trace (`hidepid=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HidePid {
    /// 0, off: nothing.
    #[default]
    Off,
    /// 1, noaccess: what is inside their directories.
    NoAccess,
    /// 2, invisible: the directories, too.
    Invisible,
    /// 4, ptraceable: applies to everybody; [`Options::group`] is no exemption.
    Ptraceable,
}

impl HidePid {
    /// Parses the mount option's value; 3 does not exist (EINVAL).
    pub fn parse(word: &str) -> Result<HidePid, Errno> {
        match word {
            "0" | "off" => Ok(HidePid::Off),
            "1" | "noaccess" => Ok(HidePid::NoAccess),
            "2" | "invisible" => Ok(HidePid::Invisible),
            "4" | "ptraceable" => Ok(HidePid::Ptraceable),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// How a tree was mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// `hidepid=`.
    pub hide: HidePid,
    /// `gid=`: members see everything, but for [`HidePid::Ptraceable`]. The superuser's without the option.
    pub group: u32,
}

/// A thread's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// Real, effective and saved user id.
    pub uids: [u32; 3],
    /// The same three ids of the group.
    pub gids: [u32; 3],
    /// Whether others of the same user may look into it (`PR_SET_DUMPABLE`).
    pub dumpable: bool,
}

/// The asker's credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The process, and the thread in it.
    pub process: i32,
    /// The thread.
    pub thread: i32,
    /// User id for files.
    pub fsuid: u32,
    /// Group id for files.
    pub fsgid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// CAP_SYS_PTRACE.
    pub traces: bool,
    /// CAP_DAC_OVERRIDE.
    pub overrides: bool,
}

/// Read.
pub const MAY_READ: u16 = 4;
/// Write.
pub const MAY_WRITE: u16 = 2;
/// Execute, or search.
pub const MAY_EXEC: u16 = 1;

impl Caller<'_> {
    fn in_group(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.contains(&gid)
    }

    /// `ptrace_may_access(PTRACE_MODE_READ_FSCREDS)`: reads what does not change while a thread lives, and
    /// takes no reference. (The seed's note 1 was about auditing here; there is none.)
    pub fn may_trace(&self, threads: &impl Threads, thread: ThreadId) -> bool {
        if threads.leader(thread).is_some_and(|leader| leader.id == self.process) {
            return true;
        }
        let Some(owner) = threads.owner(thread) else { return false };
        let same = owner.uids == [self.fsuid; 3] && owner.gids == [self.fsgid; 3];
        self.traces || same && owner.dumpable
    }

    /// `has_pid_permissions`: whether the mount lets it, if it hides as much as `least`.
    fn is_shown(&self, threads: &impl Threads, options: &Options, thread: ThreadId, least: HidePid) -> bool {
        let hides = |level: HidePid| level as u8;
        if options.hide != HidePid::Ptraceable && (hides(options.hide) < hides(least) || self.in_group(options.group)) {
            return true;
        }
        self.may_trace(threads, thread)
    }

    /// Whether a process shows in listings and has attributes.
    pub fn sees(&self, threads: &impl Threads, options: &Options, thread: ThreadId) -> bool {
        self.is_shown(threads, options, thread, HidePid::Invisible)
    }

    /// Whether a directory may be searched. `Ptraceable` hides as well what somebody else has put into the cache:
    /// permission is asked at every look-up, not when a name is first found.
    pub fn may_search(&self, threads: &impl Threads, options: &Options, node: &Node) -> Result<(), Errno> {
        // The hook is that of /proc/PID and of its task directory (`proc_pid_permission`).
        if !matches!(node.dir(), Some(Dir::Process | Dir::Tasks)) {
            return Ok(());
        }
        if !threads.lives(node.thread) {
            return Err(Errno::ESRCH);
        }
        match self.is_shown(threads, options, node.thread, HidePid::NoAccess) {
            true => Ok(()),
            false if options.hide == HidePid::NoAccess => Err(Errno::EPERM),
            false => Err(Errno::ENOENT),
        }
    }

    /// Whether the name of this process may be found at all (`proc_pid_lookup`).
    pub fn may_find(&self, threads: &impl Threads, options: &Options, thread: ThreadId) -> bool {
        options.hide != HidePid::Ptraceable || self.may_trace(threads, thread)
    }

    /// `generic_permission`, by owner, group and others. `comm` of one's own process may always be
    /// written (`proc_tid_comm_permission`); no link is ever asked for here.
    pub fn may_access(&self, threads: &impl Threads, node: &Node, want: u16) -> Result<(), Errno> {
        let (mode, [uid, gid]) = attributes(threads, node);
        if mode & 0o170_000 == S_IFLNK {
            return Ok(());
        }
        let bits = match () {
            () if uid == self.fsuid => mode >> 6,
            () if self.in_group(gid) => mode >> 3,
            () => mode,
        };
        let is_dir = mode & 0o170_000 == S_IFDIR;
        let overridden = self.overrides && (is_dir || want & MAY_EXEC == 0 || mode & 0o111 != 0);
        if bits & 7 & want == want || overridden || self.is_own_comm(threads, node) && want & MAY_EXEC == 0 {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// A thread may write the names of all threads of its process (`proc_tid_comm_permission`), in the directories of threads.
    fn is_own_comm(&self, threads: &impl Threads, node: &Node) -> bool {
        matches!(node.place, Place::Entry(Dir::Thread, _))
            && node.entry().is_some_and(|entry| entry.name == "comm")
            && threads.leader(node.thread).is_some_and(|leader| leader.id == self.process)
    }
}

/// A node's mode and its owner (`task_dump_owner`): the thread's effective ids, or the superuser's for what is
/// inside a thread that may not be looked into. Directories with mode 0555 are exempt.
pub fn attributes(threads: &impl Threads, node: &Node) -> (u16, [u32; 2]) {
    let mode = node.entry().map_or(S_IFDIR | 0o555, |entry| entry.mode);
    let owner = threads.owner(node.thread).filter(|owner| owner.dumpable || mode == S_IFDIR | 0o555);
    (mode, owner.map_or([0, 0], |owner| [owner.uids[1], owner.gids[1]]))
}

/// How many links `stat(2)` tells.
pub fn links(threads: &impl Threads, node: &Node) -> u64 {
    let folders = |dir| crate::entries::of(dir).iter().filter(|entry| entry.mode & 0o170_000 == S_IFDIR).count() as u64;
    match node.dir() {
        None if node.entry().is_some_and(|entry| entry.mode & 0o170_000 == S_IFDIR) => 2,
        None => 1,
        Some(Dir::Tasks) => 2 + u64::from(threads.count(node.thread)),
        // `attr` is counted, `.` is not the parent's.
        Some(Dir::Process) => 2 + folders(Dir::Process),
        Some(Dir::Thread) => 2 + folders(Dir::Thread),
        Some(_) => 2,
    }
}
