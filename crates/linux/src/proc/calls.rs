//! Calls that name a path, answered in the trap by a walk that writes nothing shared.

use super::how::{self, CACHED, How, NO_MAGICLINKS, NO_SYMLINKS, WITHIN};
use super::path::{PATH_MAX, PATH_SHORT, ProcPath, first_names};
use super::view::View;
use super::{AT_FDCWD, STATX_SIZE, online};
use crate::machine::Arg::{In, Word};
use crate::{Host, Linux};
use abi::args::{AT_EACCESS, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_NOFOLLOW};
use abi::{Errno, nr};
use alloc::vec::Vec;
use ids::{CpuId, ThreadIdx};
use kernel::machine::Call;
use kernel::trap::Out;
use procfs::entries::{Is, S_IFLNK};
use procfs::node::{Dir, Place};
use procfs::walk::Within;
use procfs::{Caller, Mode, Node, Threads, Want, permission};
use sync::atomic::Ordering::Relaxed;

const STAT_SIZE: usize = 144;

/// The parts of a call that names a path.
pub(super) struct Asked {
    /// The index of the directory argument, if there is one, and of the path argument.
    dirfd: Option<usize>,
    path: usize,
    pub want: Want,
    pub what: What,
    /// RESOLVE_… of `openat2(2)`.
    resolve: u64,
}

/// What the call asks about the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// `struct stat`.
    Stat { to: u64 },
    /// `struct statx`.
    Statx { to: u64 },
    /// Whether the file may be accessed this way.
    Access { want: u16, real: bool },
    /// A link's text.
    Readlink { to: u64, len: u64 },
    /// A descriptor.
    Open { flags: u64 },
}

impl Asked {
    /// `None` if it is not one of these calls, or in a form that is left to the host.
    #[inline]
    fn of(call: &Call) -> Option<Asked> {
        /// `vfs_statx`: AT_NO_AUTOMOUNT and one of two ways to synchronise besides.
        const STAT_FLAGS: u64 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | 0x6800;
        const BOTH_WAYS: u64 = 0x6000;
        /// STATX__RESERVED is refused.
        const STATX_MASK: u64 = 0x7fff_ffff;
        /// `do_faccessat`.
        const ACCESS_FLAGS: u64 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EACCESS;
        let a = &call.args;
        let known = |flags: u64, all: u64| flags as u32 & !(all as u32) == 0;
        let follow = |flags: u64| Want { nofollow: flags & AT_SYMLINK_NOFOLLOW != 0, ..Want::default() };
        let link = Want { nofollow: true, ..Want::default() };
        let access = |mode: u64, real| What::Access { want: mode as u16 & 7, real };
        let (dirfd, path, want, what) = match call.nr {
            nr::STAT => (None, 0, Want::default(), What::Stat { to: a[1] }),
            nr::LSTAT => (None, 0, link, What::Stat { to: a[1] }),
            // With other flags the host refuses the call.
            nr::NEWFSTATAT if known(a[3], STAT_FLAGS) => (Some(0), 1, follow(a[3]), What::Stat { to: a[2] }),
            nr::STATX if known(a[2], STAT_FLAGS) && known(a[3], STATX_MASK) && a[2] & BOTH_WAYS != BOTH_WAYS => {
                (Some(0), 1, follow(a[2]), What::Statx { to: a[4] })
            }
            nr::ACCESS if a[1] <= 7 => (None, 0, Want::default(), access(a[1], true)),
            nr::FACCESSAT if a[2] <= 7 => (Some(0), 1, Want::default(), access(a[2], true)),
            nr::FACCESSAT2 if a[2] <= 7 && known(a[3], ACCESS_FLAGS) => {
                (Some(0), 1, follow(a[3]), access(a[2], a[3] & AT_EACCESS == 0))
            }
            nr::READLINK => (None, 0, link, What::Readlink { to: a[1], len: a[2] }),
            nr::READLINKAT => (Some(0), 1, link, What::Readlink { to: a[2], len: a[3] }),
            nr::OPEN => (None, 0, opens(a[1]), What::Open { flags: a[1] }),
            nr::OPENAT => (Some(0), 1, opens(a[2]), What::Open { flags: a[2] }),
            _ => return None,
        };
        Some(Asked { dirfd, path, want, what, resolve: 0 })
    }

    fn by(how: &How) -> Asked {
        let no_links = how.resolve & NO_SYMLINKS != 0;
        let want = Want { no_links, within: how.within(), ..opens(how.flags) };
        Asked { dirfd: Some(0), path: 1, want, what: What::Open { flags: how.flags }, resolve: how.resolve }
    }

    /// `access(2)` asks for the real user, all others for the effective one.
    fn by_real_ids(&self) -> bool {
        matches!(self.what, What::Access { real: true, .. })
    }

    /// Whether an absolute path is not ours to walk, because it leaves its starting point or starts elsewhere.
    fn leaves(&self, path: &ProcPath<'_>) -> bool {
        path.absolute && self.resolve & WITHIN != 0
    }
}

fn opens(flags: u64) -> Want {
    let (nofollow, directory) = (flags & O_NOFOLLOW != 0, flags & O_DIRECTORY != 0);
    Want { nofollow, directory, ..Want::default() }
}

impl<M: Host> Linux<'_, M> {
    /// Calls that name a path: of ours, or the host's.
    pub(crate) fn sys_path(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let asked = match call.nr {
            nr::OPENAT2 => match self.read_how(call) {
                Some(how) if how.must_wait() => return Errno::EAGAIN.into(),
                how => how.map(|how| Asked::by(&how)),
            },
            _ => Asked::of(call),
        };
        if let Some(asked) = asked {
            let dirfd = asked.dirfd.map_or(AT_FDCWD, |at| call.args[at]);
            let at = call.args[asked.path];
            if self.may_be_proc(at) {
                let mut short = [0; PATH_SHORT];
                let out = match self.copy_path(at, &mut short) {
                    Some(len) => self.proc_call_by(cpu, t, call, &asked, dirfd, &short[..len]),
                    None => self.proc_call_by_long(cpu, t, call, &asked, dirfd),
                };
                if let Some(out) = out {
                    return out;
                }
            }
            // Under another name, such as /dev/fd, the host would open what is behind a bare file.
            if matches!(asked.what, What::Open { .. }) {
                self.back_files();
            }
            if !self.state().proc.files.is_empty()
                && let Some(out) = self.proc_empty_path(call, &asked)
            {
                return out;
            }
        }
        self.pass(cpu, call)
    }

    #[cold]
    #[inline(never)]
    fn proc_call_by_long(&self, cpu: CpuId, t: ThreadIdx, call: &Call, asked: &Asked, dirfd: u64) -> Option<Out> {
        let mut bytes = [0; PATH_MAX];
        let len = self.copy_path(call.args[asked.path], &mut bytes)?;
        self.proc_call_by(cpu, t, call, asked, dirfd, &bytes[..len])
    }

    /// `None`: the path is not ours.
    #[inline]
    fn proc_call_by(
        &self,
        cpu: CpuId,
        t: ThreadIdx,
        call: &Call,
        asked: &Asked,
        dirfd: u64,
        path: &[u8],
    ) -> Option<Out> {
        if let What::Open { flags } = asked.what
            && path.first_chunk().copied().map(u64::from_le_bytes) == Some(online::BEGINNING)
            && asked.resolve == 0
        {
            return self.open_online(call, flags, path);
        }
        let path = self.proc_path(dirfd, path).filter(|path| !asked.leaves(path))?;
        Some(self.proc_call(cpu, t, call, asked, &path))
    }

    #[inline(never)]
    fn proc_call(&self, cpu: CpuId, t: ThreadIdx, call: &Call, asked: &Asked, path: &ProcPath<'_>) -> Out {
        let owner = self.proc_owner();
        let view = View { k: *self, owner };
        let caller = self.proc_caller(t, &owner, asked.by_real_ids());
        let walked = self.proc_tree().walk_from(cpu.index(), &view, &caller, path.from, path.rest, asked.want);
        match walked {
            Ok(walked) if is_hosts(&walked.node) => {
                // Not endlessly, and not for calls that restrict links.
                let goes_on = !path.by_link && asked.resolve == 0;
                let behind = goes_on.then(|| self.behind_link(&walked.node, &path.rest[walked.used..])).flatten();
                match behind {
                    Some(behind) => self.proc_call(cpu, t, call, asked, &behind),
                    None => self.proc_on_host(cpu, call, asked, &walked.node, path, walked.used),
                }
            }
            // The path went up and out again: the machine's files are the host's.
            Ok(walked) if !walked.node.is_of_thread() && !is_link(&walked.node) => self.pass(cpu, call),
            Ok(walked) if asked.resolve & CACHED != 0 && walked.mode == Mode::Reference => Errno::EAGAIN.into(),
            Ok(walked) => Out::Done(self.proc_answer(t, asked, &view, &caller, &walked.node)),
            // This host may have files that our list lacks; it answers for the process, and for paths that lead
            // outside.
            Err(Errno::ENOENT) if path.from == Node::ROOT && is_of_process(path.rest) || goes_up(path.rest) => {
                self.pass(cpu, call)
            }
            Err(e) => e.into(),
        }
    }

    /// `fstat(2)`, and calls that name a descriptor by an empty path.
    fn proc_empty_path(&self, call: &Call, asked: &Asked) -> Option<Out> {
        let flags = match call.nr {
            nr::NEWFSTATAT => call.args[3],
            nr::STATX => call.args[2],
            _ => return None,
        };
        if flags & AT_EMPTY_PATH == 0 {
            return None;
        }
        let mut first = [1];
        // Linux treats a null path as an empty one.
        let at = call.args[asked.path];
        if at != 0 && (self.m.read(at, &mut first).is_err() || first[0] != 0) {
            return None;
        }
        let file = self.state().proc.files.find(call.args[0] as i32)?;
        let view = View { k: *self, owner: self.proc_owner() };
        Some(Out::Done(self.proc_attributes(&view, &file.node, asked.what)))
    }

    /// `fstat(2)`.
    pub(crate) fn sys_fstat(&self, cpu: CpuId, call: &Call) -> Out {
        match self.state().proc.files.find(call.args[0] as i32) {
            Some(file) => {
                let view = View { k: *self, owner: self.proc_owner() };
                Out::Done(self.proc_attributes(&view, &file.node, What::Stat { to: call.args[1] }))
            }
            None => self.pass(cpu, call),
        }
    }

    fn proc_answer(&self, t: ThreadIdx, asked: &Asked, view: &View<'_, M>, caller: &Caller<'_>, node: &Node) -> isize {
        match asked.what {
            What::Readlink { to, len } => self.proc_readlink(t, node, to, len),
            What::Stat { .. } | What::Statx { .. } => self.proc_attributes(view, node, asked.what),
            What::Access { want, .. } => match caller.may_access(view, node, want) {
                Ok(()) => 0,
                Err(e) => e.to_ret(),
            },
            What::Open { flags } => self.proc_open(view, caller, node, flags),
        }
    }

    fn proc_readlink(&self, t: ThreadIdx, node: &Node, to: u64, len: u64) -> isize {
        if len as i32 <= 0 {
            return Errno::EINVAL.to_ret();
        }
        let is = match node.entry().map(|entry| entry.is) {
            is @ Some(Is::SelfLink | Is::ThreadSelfLink) => is,
            _ => return Errno::EINVAL.to_ret(),
        };
        let mut text = [0; 32];
        let caller = self.proc_caller(t, &procfs::Owner::default(), false);
        let text_len = procfs::walk::link_text(&caller, is, &mut text);
        self.answer_link(&text[..text_len], to, len)
    }

    fn proc_attributes(&self, view: &View<'_, M>, node: &Node, what: What) -> isize {
        let (mode, [uid, gid]) = permission::attributes(view, node);
        let links = permission::links(view, node);
        let known = &self.state().proc.statx;
        let low = |at: usize| known[at].load(Relaxed) & u64::from(u32::MAX);
        let high = |at: usize| known[at].load(Relaxed) >> 32;
        let written = match what {
            What::Statx { to } => {
                let mut all = [0; STATX_SIZE / 8];
                for (to, known) in all.iter_mut().zip(known) {
                    *to = known.load(Relaxed);
                }
                all[2] = u64::from(links as u32) | u64::from(uid) << 32;
                all[3] = u64::from(gid) | u64::from(mode) << 32;
                all[4] = node.inode();
                self.m.write(to, &bytes_of::<_, STATX_SIZE>(&all))
            }
            What::Stat { to } => {
                let (major, minor) = (low(17), high(17));
                let device = minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32;
                // Whole words, because a load that spans two smaller stores cannot be forwarded and stalls.
                let all = [
                    device,
                    node.inode(),
                    links,
                    u64::from(mode) | u64::from(uid) << 32,
                    gid.into(),
                    0,
                    0,
                    high(0),
                    0,
                    // Times of access, change of data, change of attributes: seconds and nanoseconds.
                    known[8].load(Relaxed),
                    low(9),
                    known[14].load(Relaxed),
                    low(15),
                    known[12].load(Relaxed),
                    low(13),
                    0,
                    0,
                    0,
                ];
                self.m.write(to, &bytes_of::<_, STAT_SIZE>(&all))
            }
            _ => Ok(()),
        };
        if written.is_err() { Errno::EFAULT.to_ret() } else { 0 }
    }

    /// Has the host answer for what all threads share: under its own name, or, where the host does not know the thread,
    /// under that of the process's first host thread, which lives as long as the process.
    fn proc_on_host(
        &self,
        cpu: CpuId,
        call: &Call,
        asked: &Asked,
        node: &Node,
        path: &ProcPath<'_>,
        used: usize,
    ) -> Out {
        let Place::Entry(dir, _) = node.place else { return self.pass(cpu, call) };
        self.back_files();
        let executable = self.executable_behind(asked, node, &path.rest[used..]);
        if let (Some(executable), What::Readlink { to, len }) = (executable, asked.what) {
            return Out::Done(self.answer_link(executable, to, len));
        }
        if executable.is_none() && path.absolute && is_of_process(path.rest) && dir == Dir::Process {
            return self.pass(cpu, call);
        }
        let text = match executable {
            Some(executable) => Ok([executable, &[0]].concat()),
            None => self.hosts_path(dir, node, &path.rest[used..]),
        };
        let Ok(text) = text else { return Errno::ENOMEM.into() };
        let mut args = call.args.map(Word);
        let how;
        if let (nr::OPENAT2, What::Open { flags }) = (call.nr, asked.what) {
            if asked.want.within != Within::Anywhere && goes_up(&path.rest[used..]) {
                // "Could not ensure that it did not escape": such a path does not allow that.
                return Errno::EAGAIN.into();
            }
            // A jumping link would leave the limits of the walk (`nd_jump_link`).
            if asked.resolve & WITHIN != 0 && !asked.want.nofollow && jumps(node, &path.rest[used..]) {
                return Errno::EXDEV.into();
            }
            // The host gets an absolute path, so confinement is checked here.
            how = [flags, 0, asked.resolve & (NO_MAGICLINKS | NO_SYMLINKS | CACHED)].map(u64::to_le_bytes);
            (args[2], args[3]) = (In(how.as_flattened()), Word(how::SIZE as u64));
        }
        if let Some(at) = asked.dirfd {
            args[at] = Word(AT_FDCWD);
        }
        args[asked.path] = In(&text);
        Out::Done(self.ask(call.nr, &mut args))
    }

    /// The file that the link `exe` leads to, if the host has another one for it and the call asks for the file or the
    /// link's text.
    fn executable_behind(&self, asked: &Asked, node: &Node, rest: &[u8]) -> Option<&[u8]> {
        let reads = matches!(asked.what, What::Readlink { .. });
        let follows = !asked.want.nofollow && asked.resolve & (NO_MAGICLINKS | NO_SYMLINKS) == 0;
        let is_exe = node.entry()?.name == "exe" && rest.is_empty() && (reads || follows);
        self.state().executable.as_deref().filter(|_| is_exe)
    }

    fn answer_link(&self, text: &[u8], to: u64, len: u64) -> isize {
        if len as i32 <= 0 {
            return Errno::EINVAL.to_ret();
        }
        let text = &text[..text.len().min(len as usize)];
        match self.m.write(to, text) {
            Ok(()) => text.len() as isize,
            Err(_) => Errno::EFAULT.to_ret(),
        }
    }

    pub(super) fn hosts_path(
        &self,
        dir: Dir,
        node: &Node,
        rest: &[u8],
    ) -> Result<Vec<u8>, alloc::collections::TryReserveError> {
        use core::fmt::Write;
        let mut text = Vec::new();
        text.try_reserve_exact(96 + rest.len())?;
        let mut head = [0; 96];
        let mut room = procfs::text::Room::new(&mut head);
        let (pid, name) = (self.config().pid.0, node.entry().map_or("", |entry| entry.name));
        // Three short names and two numbers fit.
        let _ = match dir {
            Dir::Thread => write!(room, "/proc/{pid}/task/{pid}/{name}"),
            _ => write!(room, "/proc/{pid}/{name}"),
        };
        text.extend_from_slice(room.text());
        text.extend_from_slice(rest);
        text.push(0);
        Ok(text)
    }
}

/// Whether the host answers: for its own files, and for its folders and links.
fn is_hosts(node: &Node) -> bool {
    node.entry().is_some_and(|entry| entry.is == Is::Hosts || entry.mode & 0o170_000 == S_IFLNK && node.is_of_thread())
}

/// Whether a path belongs to the process and to no thread, so that the host understands it.
fn is_of_process(rest: &[u8]) -> bool {
    let mut names = first_names(rest);
    names.next() == Some(b"self") && names.next().is_some_and(|name| name != b"task")
}

/// Whether a path contains "..".
fn goes_up(path: &[u8]) -> bool {
    first_names(path).any(|name| name == b"..")
}

/// Whether the rest of the path follows a link that is not a text: `exe`, `fd/1`, …
fn jumps(node: &Node, rest: &[u8]) -> bool {
    let is_folder_of_links = node.entry().is_some_and(|entry| matches!(entry.name, "fd" | "ns" | "map_files"));
    is_link(node) || is_folder_of_links && first_names(rest).next().is_some()
}

fn is_link(node: &Node) -> bool {
    node.entry().is_some_and(|entry| entry.mode & 0o170_000 == S_IFLNK)
}

fn bytes_of<const WORDS: usize, const BYTES: usize>(words: &[u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

// Guards the layouts above. A statx that grew would be written short, which Linux allows.
const _: () = assert!(STATX_SIZE == 256 && STAT_SIZE == 144);

impl<M: Host> Linux<'_, M> {
    /// Whether the thread or process of a node still lives.
    pub(super) fn proc_lives(&self, node: &Node) -> bool {
        !node.is_of_thread() || View { k: *self, owner: procfs::Owner::default() }.lives(node.thread)
    }
}
