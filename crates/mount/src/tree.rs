//! Names, attributes, links and listings: the host's, with threads where it has carriers.

use crate::caller::{self, Asker};
use crate::file::Opened;
use crate::host::{self, Host, Process};
use crate::node::{Node, Whose};
use crate::programs::{Program, Programs, Watch};
use crate::rights::Lender;
use crate::text::{self, Subject};
use procfs::entries::File;
use procfs::node::Dir;
use procfs::permission::Options;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Below the root.
const PID_MAX: &[u8] = b"sys/kernel/pid_max";

/// The tree.
#[derive(Debug)]
pub struct Tree {
    host: Host,
    programs: Programs,
    options: Options,
    lender: Lender,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: FileType,
    /// The number of its node.
    pub number: u64,
}

impl Tree {
    /// A tree of what the host shows and what is watched.
    pub fn new(host: Host, watch: impl Watch, options: Options) -> Tree {
        let lender = Lender::new(&host, None);
        Tree { host, programs: Programs::new(watch), options, lender }
    }

    /// The mount is used in the user namespace of that process, which the same user made for it.
    pub fn used_by(&mut self, pid: i32) {
        let number = self.host.number(format!("{pid}/ns/user").as_bytes()).ok();
        self.lender = Lender::new(&self.host, number);
    }

    /// Does something with the asker's rights ([`Lender::lend`]).
    pub(crate) fn lend<R>(&self, asker: &Asker, act: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        self.lender.lend(&self.host, asker, act)
    }

    /// Finds a name in a directory: what it is, and its attributes.
    ///
    /// # Errors
    /// ENOENT, and what the host or `hidepid` says.
    pub fn find(&self, asker: &Asker, parent: &Node, name: &[u8]) -> Result<(Node, Stat), Errno> {
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
            return Err(Errno::NOENT);
        }
        self.check(asker, parent, true)?;
        let node = self.child(parent, name)?;
        let attributes = self.attributes(asker, &node)?;
        Ok((node, attributes))
    }

    fn child(&self, parent: &Node, name: &[u8]) -> Result<Node, Errno> {
        let id = procfs::id_of(name);
        if *parent == Node::ROOT
            && let Some(id) = id
        {
            return self.process_or_thread(id).map(Node::top);
        }
        match (self.tasks_of(parent), parent.whose.process()) {
            (Some(program), Some(process)) => match id {
                Some(id) if id == process.pid || program.thread(id).is_some() => {
                    Ok(Node::top(Whose::Thread(process, id)))
                }
                _ => Err(Errno::NOENT),
            },
            _ => Ok(parent.below(name)),
        }
    }

    fn process_or_thread(&self, id: i32) -> Result<Whose, Errno> {
        match self.host.process(id) {
            Err(Errno::NOENT) if ids::Tid(id).is_ours() => {
                let owner = self.programs.owner(id, |pid| self.host.process(pid).ok());
                owner.map(|process| Whose::Top(process, id)).ok_or(Errno::NOENT)
            }
            found => found.map(Whose::Process),
        }
    }

    /// The program whose threads this directory lists.
    fn tasks_of(&self, node: &Node) -> Option<Arc<Program>> {
        match node.whose {
            Whose::Process(process) | Whose::Top(process, _) if node.path == b"task" => self.programs.find(process),
            _ => None,
        }
    }

    /// Whether what stands above it is there and not hidden.
    fn check(&self, asker: &Asker, node: &Node, inside: bool) -> Result<(), Errno> {
        let Some(process) = node.whose.process() else { return Ok(()) };
        let inside = inside || !node.path.is_empty() || matches!(node.whose, Whose::Thread(..));
        caller::check(&self.host, &self.lender, &self.options, asker, process, inside)?;
        if let Whose::Thread(_, tid) | Whose::Top(_, tid) = node.whose
            && tid != process.pid
        {
            let program = self.programs.find(process).ok_or(Errno::NOENT)?;
            program.thread(tid).ok_or(Errno::NOENT)?;
        }
        Ok(())
    }

    /// Its place in the host's tree, or the place that replaces it.
    fn place(node: &Node) -> (Option<Process>, Vec<u8>) {
        match node.whose {
            Whose::Thread(process, _) => {
                let mut path = format!("task/{}", process.pid).into_bytes();
                if !node.path.is_empty() {
                    path.push(b'/');
                    path.extend_from_slice(&node.path);
                }
                (Some(process), path)
            }
            whose => (whose.process(), node.path.clone()),
        }
    }

    /// Asks the host about a node's path, with the asker's rights.
    fn on_host<R>(
        &self,
        asker: &Asker,
        node: &Node,
        ask: impl FnOnce(BorrowedFd<'_>, &Path) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (process, path) = Tree::place(node);
        self.host.at(process, &path, |folder, path| self.lend(asker, || ask(folder, path)))
    }

    /// The result of `stat(2)`.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn attributes(&self, asker: &Asker, node: &Node) -> Result<Stat, Errno> {
        self.check(asker, node, false)?;
        let mut stat = self.on_host(asker, node, host::attributes)?;
        if let (Some(program), Some(process)) = (self.tasks_of(node), node.whose.process()) {
            stat.st_nlink = 2 + u64::from(program.count(process.pid));
        }
        Ok(stat)
    }

    /// A link's text; `self` and `thread-self` are the asker.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn link(&self, asker: &Asker, node: &Node) -> Result<Vec<u8>, Errno> {
        self.check(asker, node, false)?;
        match (node.whose, node.path.as_slice()) {
            (Whose::Machine, b"self") => Ok(asker.facts(&self.host)?.process.to_string().into_bytes()),
            (Whose::Machine, b"thread-self") => {
                let pid = asker.facts(&self.host)?.process;
                // It is unknown which thread a carrier runs at the moment: return the main thread.
                let program = self.host.process(pid).ok().and_then(|process| self.programs.find(process));
                let tid = if program.is_some() { pid } else { asker.tid };
                Ok(format!("{pid}/task/{tid}").into_bytes())
            }
            _ => self.on_host(asker, node, host::link),
        }
    }

    /// `access(2)`.
    ///
    /// # Errors
    /// As [`Tree::find`], and the host's refusal.
    pub fn access(&self, asker: &Asker, node: &Node, want: Access) -> Result<(), Errno> {
        self.check(asker, node, false)?;
        self.on_host(asker, node, |folder, path| rustix::fs::accessat(folder, path, want, AtFlags::EACCESS))
    }

    /// `chmod(2)` and `chown(2)`: the host decides who may, and for which files.
    ///
    /// # Errors
    /// As [`Tree::find`], and the host's refusal.
    pub fn change(&self, asker: &Asker, node: &Node, mode: Option<u32>, owner: [Option<u32>; 2]) -> Result<(), Errno> {
        self.check(asker, node, false)?;
        let [uid, gid] = owner;
        self.on_host(asker, node, |folder, path| {
            if let Some(mode) = mode {
                rustix::fs::chmodat(folder, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            if uid.or(gid).is_none() {
                return Ok(());
            }
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            rustix::fs::chownat(folder, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// All names in a directory.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn list(&self, asker: &Asker, node: &Node) -> Result<Vec<Listed>, Errno> {
        self.check(asker, node, true)?;
        let entries = self.on_host(asker, node, host::list)?;
        if let (Some(program), Some(process)) = (self.tasks_of(node), node.whose.process()) {
            let dots = [b".".as_slice(), b".."].map(|name| self.listed(node, name, FileType::Directory));
            let threads = program.tids(process.pid).map(|tid| Listed {
                name: tid.to_string().into_bytes(),
                kind: FileType::Directory,
                number: Node::top(Whose::Thread(process, tid)).number(),
            });
            return Ok(dots.into_iter().chain(threads).collect());
        }
        let is_root = *node == Node::ROOT;
        Ok(entries
            .into_iter()
            .filter(|entry| !is_root || self.shows(asker, &entry.name))
            .map(|entry| self.listed(node, &entry.name, entry.kind))
            .collect())
    }

    fn listed(&self, parent: &Node, name: &[u8], kind: FileType) -> Listed {
        let number = match name {
            b"." => parent.number(),
            b".." => Node::ROOT.number(),
            name => parent.below(name).number(),
        };
        Listed { name: name.to_vec(), kind, number }
    }

    fn shows(&self, asker: &Asker, name: &[u8]) -> bool {
        if self.options.hide == procfs::HidePid::Off {
            return true;
        }
        let Some(pid) = procfs::id_of(name) else { return true };
        let process = self.host.process(pid);
        process
            .is_ok_and(|process| caller::check(&self.host, &self.lender, &self.options, asker, process, false).is_ok())
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As [`Tree::find`], and the host's refusal.
    pub fn open(&self, asker: &Asker, node: &Node, flags: OFlags) -> Result<Opened, Errno> {
        self.check(asker, node, false)?;
        // The host's file of the same name decides who may open it, also for ours.
        let kept = OFlags::ACCMODE | OFlags::TRUNC | OFlags::APPEND;
        let file = self.on_host(asker, node, |folder, path| host::open(folder, path, flags & kept))?;
        Ok(match self.ours(node) {
            Some(file) => Opened::ours(file),
            None => Opened::host(file),
        })
    }

    /// The file of ours that it is.
    fn ours(&self, node: &Node) -> Option<File> {
        let dir = match node.whose {
            Whose::Machine => return (node.path == PID_MAX).then_some(File::PidMax),
            Whose::Process(_) | Whose::Top(..) => Dir::Process,
            Whose::Thread(..) => Dir::Thread,
        };
        let file = text::ours(dir, &node.path)?;
        self.programs.find(node.whose.process()?).map(|_| file)
    }

    /// The host's, or what is above all threads' ids: by its digits tools make their columns wide enough.
    fn pid_max(&self) -> Result<Vec<u8>, Errno> {
        let host = self.host.read(None, PID_MAX)?;
        let number: Option<i64> = str::from_utf8(&host).ok().and_then(|text| text.trim_end().parse().ok());
        let greatest = i64::from(self.programs.greatest(|pid| self.host.process(pid).ok()));
        match number {
            Some(number) if number <= greatest => Ok(format!("{}\n", ((greatest >> 27) + 1) << 27).into_bytes()),
            _ => Ok(host),
        }
    }

    /// The text of a file of ours, as of now.
    ///
    /// # Errors
    /// ESRCH if its thread or process is gone.
    pub fn text(&self, asker: &Asker, node: &Node, file: File) -> Result<Vec<u8>, Errno> {
        let (process, tid, whole) = match node.whose {
            Whose::Machine => return self.pid_max(),
            Whose::Process(process) => (process, process.pid, true),
            Whose::Top(process, tid) => (process, tid, true),
            Whose::Thread(process, tid) => (process, tid, false),
        };
        // A process that has ended, or become another program by exec, has no such threads any more.
        let program = self.programs.find(process).ok_or(Errno::SRCH)?;
        let below = |path: &[u8]| Node { whose: Whose::Process(process), path: path.to_vec() };
        if file == File::Stack {
            // The host decides who may read it.
            self.on_host(asker, &below(b"stack"), host::read)?;
        }
        // Following this link needs what knowing where a thread waits needs (PTRACE_MODE_READ).
        let traces = self.on_host(asker, &below(b"ns/user"), host::link).is_ok();
        let subject = Subject { process, tid, whole, traces };
        text::make(|path| self.on_host(asker, &below(path), host::read), &program, &subject, file)
    }
}
