//! The tree behind `/dev/fuse`.

use crate::caller::Asker;
use crate::file::Opened;
use crate::node::{Node, Nodes, Whose};
use crate::tree::{Listed, Tree};
use fuser::{
    AccessFlags, BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use procfs::HidePid;
use rustix::fs::{Access, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub use fuser::Session;

/// Names come and go with threads and processes: the kernel asks each time.
const NEVER: Duration = Duration::ZERO;
/// The names of a process's files stay for as long as the process lives.
const LASTING: Duration = Duration::from_secs(1);
/// How long attributes may be cached: a tick of Linux.
const ATTRIBUTES: Duration = Duration::from_millis(10);
/// Requests that are served at once: one may wait for a program that does not answer.
const THREADS: usize = 4;
const WRITE_MAX: u32 = 128 << 10;

/// The file system.
#[derive(Debug)]
pub struct FileSystem {
    tree: Tree,
    nodes: Nodes,
    files: Handles<Opened>,
    /// With whether they have been read.
    listings: Handles<Mutex<(bool, Vec<Listed>)>>,
    /// How long the kernel may keep the names of a process's files.
    lasting: Duration,
}

/// Open files, by the handle that the kernel has.
#[derive(Debug)]
struct Handles<T> {
    open: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Handles<T> {
    fn new() -> Handles<T> {
        Handles { open: Mutex::default(), next: AtomicU64::new(1) }
    }

    fn add(&self, what: T) -> FileHandle {
        let number = self.next.fetch_add(1, Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(what));
        FileHandle(number)
    }

    fn find(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    fn remove(&self, handle: FileHandle) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
    }
}

/// Mounts the tree there, for [`Mounted`](crate::Mounted).
pub(crate) fn mount(
    tree: Tree,
    options: &procfs::Options,
    to: &Path,
    all_users: bool,
) -> io::Result<Session<FileSystem>> {
    forbid_tracing()?;
    Session::new(FileSystem::new(tree, options), to, &config(all_users))
}

/// Serves a mount that another process has made, by its descriptor of `/dev/fuse`.
///
/// # Errors
/// The kernel speaks another protocol, or is gone.
pub fn attach(tree: Tree, options: &procfs::Options, device: OwnedFd) -> io::Result<Session<FileSystem>> {
    forbid_tracing()?;
    Session::from_fd(FileSystem::new(tree, options), device, SessionACL::All, config(false))
}

/// A process that lends rights must not be looked into by those that it lends them from.
fn forbid_tracing() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn config(all_users: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("entresol".to_owned()),
        MountOption::Subtype("proc".to_owned()),
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
    ];
    config.acl = if all_users { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

fn asker(request: &Request) -> Asker {
    Asker { uid: request.uid(), gid: request.gid(), tid: request.pid() as i32 }
}

fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

fn kind(of: rustix::fs::FileType) -> FileType {
    match of {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(number: u64, stat: &Stat) -> FileAttr {
    let time = |seconds: i64, ns: u64| {
        SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(ns).unwrap_or(0))
    };
    FileAttr {
        ino: INodeNo(number),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: u32::try_from(stat.st_blksize).unwrap_or(1024),
        flags: 0,
    }
}

impl FileSystem {
    fn new(tree: Tree, options: &procfs::Options) -> FileSystem {
        // With `hidepid`, visibility depends on the asker, so it is checked each time.
        let lasting = if options.hide == HidePid::Off { LASTING } else { NEVER };
        FileSystem { tree, nodes: Nodes::default(), files: Handles::new(), listings: Handles::new(), lasting }
    }

    fn node(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        self.nodes.find(number.0).ok_or(Errno::STALE)
    }

    /// How long the kernel may keep a name: those of a process's own files last as long as it does.
    fn lasts(&self, node: &Node) -> Duration {
        let is_file = !node.path.is_empty() && !node.path.contains(&b'/') && node.whose != Whose::Machine;
        if is_file { self.lasting } else { NEVER }
    }

    fn attributes_of(&self, request: &Request, number: INodeNo) -> Result<FileAttr, Errno> {
        let stat = self.tree.attributes(&asker(request), &*self.node(number)?)?;
        Ok(attributes(number.0, &stat))
    }

    fn list(&self, request: &Request, number: INodeNo) -> Result<Vec<Listed>, Errno> {
        self.tree.list(&asker(request), &*self.node(number)?)
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // These change only the speed, or who notices a truncation; a kernel without them works as well.
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.node(parent).and_then(|parent| self.tree.find(&asker(request), &parent, name.as_bytes()));
        match found {
            Ok((node, stat)) => {
                let lasts = self.lasts(&node);
                let number = self.nodes.tell(node);
                reply.entry_with_ttls(&ATTRIBUTES, &lasts, &attributes(number, &stat), Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.forget(number.0, times);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes_of(request, number) {
            Ok(attributes) => reply.attr(&ATTRIBUTES, &attributes),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// No file has a length to change. The host decides what else can be set (`proc_setattr`); times cannot be set
    /// here.
    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let others = size.is_some() || mode.or(uid).or(gid).is_some();
        let times = atime.or(mtime).is_some() && !others;
        let changed = if times { Err(Errno::PERM) } else { self.node(number) };
        let changed = changed.and_then(|node| self.tree.change(&asker(request), &node, mode, [uid, gid]));
        match changed.and_then(|()| self.attributes_of(request, number)) {
            Ok(attributes) => reply.attr(&ATTRIBUTES, &attributes),
            Err(error) => reply.error(errno(error)),
        }
    }

    // Files cannot be made or removed here. The errors are those of Linux.

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    fn rename(&self, _: &Request, _: INodeNo, _: &OsStr, _: INodeNo, _: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOENT);
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        match self.node(number).and_then(|node| self.tree.link(&asker(request), &node)) {
            Ok(text) => reply.data(&text),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let want = Access::from_bits_truncate(mask.bits() as u32);
        match self.node(number).and_then(|node| self.tree.access(&asker(request), &node, want)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        match self.node(number).and_then(|node| self.tree.open(&asker(request), &node, flags)) {
            // These files report a size of 0, so a read takes whatever comes.
            Ok(file) => reply.opened(self.files.add(file), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self
            .node(number)
            .and_then(|node| self.files.find(handle)?.read(&self.tree, &asker(request), &node, offset, size as usize));
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.files.find(handle).and_then(|file| file.write(&self.tree, &asker(request), offset, bytes)) {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(handle);
        reply.ok();
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(request, number) {
            Ok(listing) => reply.opened(self.listings.add(Mutex::new((false, listing))), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// A listing has every entry that lives throughout, and none twice. Rewinding starts a new one.
    fn readdir(&self, request: &Request, number: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listing = match self.listings.find(handle) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(error)),
        };
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 && listing.0 {
            match self.list(request, number) {
                Ok(anew) => listing.1 = anew,
                Err(error) => return reply.error(errno(error)),
            }
        }
        listing.0 = true;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, listed) in listing.1.iter().enumerate().skip(from) {
            let name = OsStr::from_bytes(&listed.name);
            if reply.add(INodeNo(listed.number), i as u64 + 1, kind(listed.kind), name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.remove(handle);
        reply.ok();
    }
}
