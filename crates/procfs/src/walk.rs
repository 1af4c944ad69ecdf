//! From a path to a node (`fs/namei.c`, as far as `/proc` needs it).
//!
//! ```text
//!            ┌── a name at a time ──────────────────────────────────────────────┐
//!  RCU mode  │ may search? ► name in the cache? ► parent as it was? ► lives? ──►│──► found: nothing was written
//!            └──────┬──────────────┬───────────────────┬─────────────┬──────────┘
//!      hard error:  │   not there: │         changed:  │        died:│
//!      unlazy, then │   unlazy,    │         ECHILD    │        unlazy with the child, drop
//!      say it       ▼   look it up ▼                   ▼        its name, look it up
//!   Reference mode: each step takes a reference ◄── the whole walk again
//! ```
//!
//! *Unlazy* (`try_to_unlazy`) is the way from RCU to reference mode in the middle of a walk: take a reference where
//! the walk stands, then look whether that dentry is still what it was; if not, ECHILD, and the walk begins
//! again in reference mode. ESTALE, the third beginning of Linux, is for file systems on other machines.
//!
//! **What stays in RCU mode** is a matter of [`Policy`]: before the seed not even a living thread's directory; on
//! Linux since, no missing name and no file of the machine (`stat`, `uptime`, `loadavg`); with us both, because the
//! tree itself can say what it has without waiting.

use crate::Threads;
use crate::dentry::{Cache, Changed, Number, ROOT, Seen};
use crate::entries::{self, Is, S_IFDIR, S_IFLNK};
use crate::name::Name;
use crate::node::{Dir, Node, Place, ThreadId};
use crate::permission::{Caller, Options};
use crate::policy::{Mode, Policy};
pub use crate::way::link_text;
use crate::way::{LINK_MAX, Way};
use abi::Errno;
use sync::rcu::{Barrier, Rcu, Reading};

/// The request for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Want {
    /// A link at the end is not followed.
    pub nofollow: bool,
    /// The target must be a directory.
    pub directory: bool,
    /// No link may be on the way, or followed at the end (`RESOLVE_NO_SYMLINKS`): ELOOP.
    pub no_links: bool,
    /// Whether the way may lead out of the directory in which it begins.
    pub within: Within,
}

/// The meaning of ".." in the directory in which a walk begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Within {
    /// `..` at the root of the tree leads out of it.
    #[default]
    Anywhere,
    /// EXDEV (`RESOLVE_BENEATH`).
    Beneath,
    /// `..` stays, as in a root (`RESOLVE_IN_ROOT`).
    Root,
}

/// Where a walk came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// The target.
    pub node: Node,
    /// How much of the path was used up: all of it, unless the node is a directory or link of the host's.
    pub used: usize,
    /// How the walk ended.
    pub mode: Mode,
}

/// The tree: the cache, its readers, and its mount options. The living threads are passed to each call.
#[derive(Debug)]
pub struct Tree {
    cache: Cache,
    rcu: Rcu,
    options: Options,
    policy: Policy,
}

/// Why a walk goes no further.
enum Stop {
    Errno(Errno),
    /// The question cannot be answered in RCU mode (ECHILD).
    Child,
}

impl From<Errno> for Stop {
    fn from(e: Errno) -> Stop {
        Stop::Errno(e)
    }
}

impl From<Changed> for Stop {
    fn from(_: Changed) -> Stop {
        Stop::Child
    }
}

type Step<T> = Result<T, Stop>;

/// Links in a path, as there (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;
/// PATH_MAX.
const PATH_MAX: usize = 4096;

impl Tree {
    /// A tree for readers `0 .. readers` with a cache of this many names.
    pub fn new(readers: usize, names: usize, options: Options, policy: Policy) -> Tree {
        Tree { cache: Cache::new(names), rcu: Rcu::new(readers), options, policy }
    }

    /// As above, with readers that need no fence ([`Rcu::with_barrier`]).
    pub fn with_barrier(self, barrier: Option<Barrier>) -> Tree {
        Tree { rcu: self.rcu.with_barrier(barrier), ..self }
    }

    /// How it was mounted.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The steps allowed in RCU mode.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Its readers.
    pub fn rcu(&self) -> &Rcu {
        &self.rcu
    }

    /// Walks a path, relative to `/proc`, as `reader`, which has no other walk in progress.
    pub fn walk<T: Threads>(
        &self,
        reader: usize,
        threads: &T,
        caller: &Caller<'_>,
        path: &[u8],
        want: Want,
    ) -> Result<Walked, Errno> {
        self.walk_from(reader, threads, caller, Node::ROOT, path, want)
    }

    /// As [`Tree::walk`] from a directory that the caller has open. A directory other than the root begins outside the
    /// cache, as names below it are not cached: each of its names is looked up afresh.
    pub fn walk_from<T: Threads>(
        &self,
        reader: usize,
        threads: &T,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        want: Want,
    ) -> Result<Walked, Errno> {
        if path.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let mut mode = self.policy.begins;
        loop {
            let mut walk = Walk {
                tree: self,
                threads,
                caller,
                reader,
                mode,
                reading: None,
                from,
                at: At { number: (from == Node::ROOT).then_some(ROOT), seq: 0, node: from },
                way: Way { path, used: 0, link: [0; LINK_MAX], link_len: 0, link_used: 0, links: 0 },
                want,
            };
            match walk.run() {
                Ok(walked) => return Ok(walked),
                Err(Stop::Errno(e)) => return Err(e),
                Err(Stop::Child) if self.policy.cached => return Err(Errno::EAGAIN),
                Err(Stop::Child) => mode = Mode::Reference,
            }
        }
    }
}

/// The position of a walk. Without a number the cache was full.
#[derive(Clone, Copy)]
struct At {
    number: Option<Number>,
    seq: u32,
    node: Node,
}

struct Walk<'a, 'c, T> {
    tree: &'a Tree,
    threads: &'a T,
    caller: &'a Caller<'c>,
    reader: usize,
    mode: Mode,
    /// In RCU mode.
    reading: Option<Reading<'a>>,
    /// Where it began.
    from: Node,
    /// In reference mode a reference is held on its number.
    at: At,
    way: Way<'a>,
    want: Want,
}

impl<T: Threads> Walk<'_, '_, T> {
    fn run(&mut self) -> Step<Walked> {
        match self.mode {
            Mode::Rcu => {
                self.reading = Some(self.tree.rcu.read(self.reader));
                if self.at.number.is_some() {
                    self.at.seq = self.tree.cache.look(ROOT)?.seq;
                }
            }
            // The root is never reclaimed.
            Mode::Reference => self.at.number.into_iter().for_each(|root| self.tree.cache.refs(root).get()),
        }
        while let Some(name) = self.way.next() {
            self.may_search()?;
            match name {
                name if name.is_dot() => {}
                name if name.is_dot_dot() => self.dot_dot()?,
                name => self.down(&name)?,
            }
            if self.is_hosts_folder() {
                return self.arrived();
            }
            if !self.way.is_last() && self.at.node.dir().is_none() {
                return self.fail(Errno::ENOTDIR);
            }
        }
        let must_be_folder = self.want.directory || self.way.has_trailing_slash();
        if must_be_folder && self.at.node.dir().is_none() {
            return self.fail(Errno::ENOTDIR);
        }
        self.arrived()
    }

    /// A folder or link of the host's, which alone knows what follows.
    fn is_hosts_folder(&self) -> bool {
        self.at.node.entry().is_some_and(|entry| {
            let kind = entry.mode & 0o170_000;
            entry.is == Is::Hosts && (kind == S_IFDIR || kind == S_IFLNK)
        })
    }

    /// `complete_walk`: the results of the walk were all true at one moment. In RCU mode one check of a sequence count
    /// shows that. Linux takes a reference here, which every open needs; we need none.
    fn arrived(&mut self) -> Step<Walked> {
        if self.mode == Mode::Rcu
            && let Some(number) = self.at.number
            && !self.tree.cache.holds(number, self.at.seq)
        {
            return Err(Stop::Child);
        }
        Ok(Walked { node: self.at.node, used: self.way.used, mode: self.mode })
    }

    /// `may_lookup`: an error counts only if the directory is certain.
    fn may_search(&mut self) -> Step<()> {
        match self.caller.may_search(self.threads, &self.tree.options, &self.at.node) {
            Ok(()) => Ok(()),
            Err(e) => self.fail(e),
        }
    }

    /// Fails the walk with `e`. In RCU mode one check that the directory still exists suffices, so no reference is taken.
    fn fail<R>(&mut self, e: Errno) -> Step<R> {
        self.arrived()?;
        Err(e.into())
    }

    /// `handle_dots`.
    fn dot_dot(&mut self) -> Step<()> {
        match self.want.within {
            Within::Beneath if self.at.node == self.from => self.fail(Errno::EXDEV),
            Within::Root if self.at.node == self.from => Ok(()),
            _ => self.up(),
        }
    }

    fn up(&mut self) -> Step<()> {
        let thread = self.at.node.thread;
        let above = match self.at.node.dir() {
            Some(Dir::Tasks) => Node { place: Place::Dir(Dir::Process), thread },
            Some(Dir::Thread) => {
                let leader = self.threads.leader(thread).ok_or(Errno::ENOENT)?;
                Node { place: Place::Dir(Dir::Tasks), thread: leader }
            }
            Some(Dir::SysKernel) => Node { place: Place::Dir(Dir::Sys), thread },
            _ => Node::ROOT,
        };
        let Some(number) = self.at.number else {
            let number = (above == Node::ROOT).then_some(ROOT);
            return self.step_to(At { number, seq: 0, node: above }, false);
        };
        let parent = self.tree.cache.parent(number);
        let seen = self.tree.cache.look(parent);
        if self.mode == Mode::Rcu {
            let seen = seen?;
            // The child's count, checked after the parent's, proves "is its parent".
            if !self.tree.cache.holds(number, self.at.seq) {
                return Err(Stop::Child);
            }
            self.at = At { number: Some(parent), seq: seen.seq, node: seen.node };
            return Ok(());
        }
        // The child refers to its parent, so it is there as long as we refer to the child.
        self.step_to(At { number: Some(parent), seq: 0, node: self.tree.at_rest(parent) }, false)
    }

    fn down(&mut self, name: &Name) -> Step<()> {
        let child = match self.look_up_fast(name)? {
            Some(child) => child,
            None => self.look_up_slow(name)?,
        };
        match child.node.entry().map(|entry| entry.is) {
            Some(Is::SelfLink | Is::ThreadSelfLink) if self.follows() => self.follow(child),
            _ => self.step_to(child, true),
        }
    }

    fn follows(&self) -> bool {
        !self.way.is_last() || !self.want.nofollow || self.way.has_trailing_slash()
    }

    /// `self` and `thread-self`: no memory is needed for their text (`proc_self_get_link` allocates it).
    fn follow(&mut self, link: At) -> Step<()> {
        // The links are in the root, where their texts start: only the link must be released.
        self.release(&link);
        self.way.links += 1;
        if self.way.links > LINKS_MAX || self.want.no_links {
            return self.fail(Errno::ELOOP);
        }
        self.way.link_used = 0;
        self.way.link_len = link_text(self.caller, link.node.entry().map(|e| e.is), &mut self.way.link);
        Ok(())
    }

    /// `lookup_fast`: by the cache. `None`: it must be looked up, by references now.
    fn look_up_fast(&mut self, name: &Name) -> Step<Option<At>> {
        let Some(parent) = self.at.number else {
            if self.mode == Mode::Rcu {
                // Outside the cache: the tree is asked at once.
                return self.child(name).map(|node| node.map(|node| At { number: None, seq: 0, node })).and_then(
                    |at| match at {
                        None => self.fail(Errno::ENOENT),
                        at => Ok(at),
                    },
                );
            }
            return Ok(None);
        };
        match self.mode {
            Mode::Rcu => self.look_up_rcu(parent, name),
            Mode::Reference => {
                let seen = self.find_and_get(parent, name);
                match seen {
                    None => Ok(None),
                    Some(seen) if self.revalidate(&seen.node) => Ok(Some(seen.into())),
                    Some(seen) => {
                        self.tree.cache.refs(seen.number).put();
                        self.tree.cache.drop_name(&self.tree.rcu, &seen);
                        Ok(None)
                    }
                }
            }
        }
    }

    fn look_up_rcu(&mut self, parent: Number, name: &Name) -> Step<Option<At>> {
        let seen = self.tree.cache.find(parent, name)?;
        if !self.tree.cache.holds(parent, self.at.seq) {
            return Err(Stop::Child);
        }
        let Some(seen) = seen else {
            if self.tree.policy.misses && self.child(name)?.is_none() {
                return self.fail(Errno::ENOENT);
            }
            self.unlazy()?;
            return Ok(None);
        };
        if !self.may_stay(&seen.node) {
            // `try_to_unlazy_next`, then the same question again by references.
            self.unlazy_with(&seen)?;
            if self.revalidate(&seen.node) {
                return Ok(Some(seen.into()));
            }
            self.tree.cache.refs(seen.number).put();
            self.tree.cache.drop_name(&self.tree.rcu, &seen);
            return Ok(None);
        }
        if self.revalidate(&seen.node) {
            return Ok(Some(seen.into()));
        }
        // Dead: not an error, but a name to drop and look up again.
        self.unlazy_with(&seen)?;
        self.tree.cache.refs(seen.number).put();
        self.tree.cache.drop_name(&self.tree.rcu, &seen);
        Ok(None)
    }

    /// Whether this node can be asked in RCU mode.
    fn may_stay(&self, node: &Node) -> bool {
        let policy = &self.tree.policy;
        match node.is_of_thread() {
            true => policy.revalidates,
            // The links are of the file system's own making; the rest is `proc_misc_d_revalidate`'s.
            false => policy.permanent || node.entry().is_some_and(|e| e.mode & 0o170_000 == S_IFLNK),
        }
    }

    /// `pid_revalidate`.
    fn revalidate(&self, node: &Node) -> bool {
        !node.is_of_thread() || self.threads.lives(node.thread)
    }

    /// `lookup_slow`, in reference mode: the tree is asked, and the answer cached if there is room.
    fn look_up_slow(&mut self, name: &Name) -> Step<At> {
        let node = self.child(name)?.ok_or(Errno::ENOENT)?;
        let seen = self.at.number.and_then(|parent| self.tree.cache.insert(&self.tree.rcu, parent, name, &node));
        Ok(seen.map_or(At { number: None, seq: 0, node }, At::from))
    }

    /// The child of a directory by name, from the tree itself: nothing is written and nothing waits.
    fn child(&self, name: &Name) -> Step<Option<Node>> {
        let at = self.at.node;
        let Some(dir) = at.dir() else { return Ok(None) };
        if at.is_of_thread() && !self.threads.lives(at.thread) {
            return Ok(None);
        }
        if let Some((index, entry)) = entries::find(dir, name) {
            let place = match entry.is {
                Is::Dir(dir) => Place::Dir(dir),
                _ => Place::Entry(dir, index),
            };
            return Ok(Some(Node { place, thread: at.thread }));
        }
        let thread = match dir {
            Dir::Root | Dir::Tasks => name.id().and_then(|id| self.threads.find(id)),
            _ => None,
        };
        let node = thread.and_then(|thread| self.directory_of(dir, thread));
        Ok(node)
    }

    fn directory_of(&self, dir: Dir, thread: ThreadId) -> Option<Node> {
        if dir == Dir::Root {
            let shown = self.caller.may_find(self.threads, &self.tree.options, thread);
            return shown.then_some(Node { place: Place::Dir(Dir::Process), thread });
        }
        let of_the_group = self.threads.leader(thread) == self.threads.leader(self.at.node.thread);
        of_the_group.then_some(Node { place: Place::Dir(Dir::Thread), thread })
    }

    fn find_and_get(&self, parent: Number, name: &Name) -> Option<Seen> {
        let cache = &self.tree.cache;
        let _reading = self.tree.rcu.read(self.reader);
        let seen = cache.find(parent, name).ok()??;
        if !cache.refs(seen.number).get_not_dead() {
            return None;
        }
        if cache.holds(seen.number, seen.seq) {
            return Some(seen);
        }
        cache.refs(seen.number).put();
        None
    }

    /// Steps on: in reference mode from one reference to the next.
    fn step_to(&mut self, to: At, has_reference: bool) -> Step<()> {
        if self.mode == Mode::Reference {
            if !has_reference && let Some(number) = to.number {
                self.tree.cache.refs(number).get();
            }
            self.release(&self.at);
        }
        self.at = to;
        Ok(())
    }

    fn release(&self, at: &At) {
        if self.mode == Mode::Reference
            && let Some(number) = at.number
        {
            self.tree.cache.refs(number).put();
        }
    }

    /// `try_to_unlazy`: a reference on where the walk stands, which must be what it was afterwards.
    fn unlazy(&mut self) -> Step<()> {
        if self.tree.policy.cached {
            return Err(Stop::Child);
        }
        if let Some(number) = self.at.number {
            let refs = self.tree.cache.refs(number);
            if !refs.get_not_dead() {
                return Err(Stop::Child);
            }
            if !self.tree.cache.holds(number, self.at.seq) {
                refs.put();
                return Err(Stop::Child);
            }
        }
        self.mode = Mode::Reference;
        self.reading = None;
        Ok(())
    }

    /// `try_to_unlazy_next`: on the parent and on the child. Only the child's count is checked again: it was sampled
    /// after the parent's, and proves both.
    fn unlazy_with(&mut self, child: &Seen) -> Step<()> {
        if self.tree.policy.cached {
            return Err(Stop::Child);
        }
        let cache = &self.tree.cache;
        let parent = self.at.number.map(|number| cache.refs(number));
        if parent.is_some_and(|parent| !parent.get_not_dead()) {
            return Err(Stop::Child);
        }
        let got = cache.refs(child.number).get_not_dead();
        if got && cache.holds(child.number, child.seq) {
            self.mode = Mode::Reference;
            self.reading = None;
            return Ok(());
        }
        if got {
            cache.refs(child.number).put();
        }
        parent.into_iter().for_each(|parent| parent.put());
        Err(Stop::Child)
    }
}

impl<T> Drop for Walk<'_, '_, T> {
    fn drop(&mut self) {
        if self.mode == Mode::Reference
            && let Some(number) = self.at.number
        {
            self.tree.cache.refs(number).put();
        }
    }
}

impl From<Seen> for At {
    fn from(seen: Seen) -> At {
        At { number: Some(seen.number), seq: seen.seq, node: seen.node }
    }
}

impl Tree {
    /// The node of a dentry that has a reference.
    fn at_rest(&self, number: Number) -> Node {
        loop {
            if let Ok(seen) = self.cache.look(number) {
                return seen.node;
            }
            // The node is being unlinked from its chain, which takes a few stores.
            sync::atomic::spin_hint();
        }
    }
}
