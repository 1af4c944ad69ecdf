//! The cache of names: which node a name in a directory denotes.
//!
//! A bounded table of dentries, named by their numbers; chains by hash run through them. What a walk in RCU mode
//! touches of a dentry is its first cache line and is only read; the references are on another line.
//!
//! | word | written by |
//! |---|---|
//! | parent, hash, name, node | who makes the dentry, before it is in a chain |
//! | chain | who holds the lock |
//! | state: hashed or not | the same, and the sequence count moves with it (`__d_drop`) |
//! | references | anybody ([`LockRef`]); a child holds one on its parent |
//!
//! **Reclaim.** A dentry that nobody refers to may be taken out: it is marked dead under its lock, unhashed, and
//! goes to a [`Limbo`]; its number is used again when no reader can stand on it. One insertion looks at no more
//! than [`LOOKED_AT`] dentries; if it finds no room, the walk goes on without the cache.

use crate::name::{Name, WORDS};
use crate::node::{Node, ThreadId};
use alloc::boxed::Box;
use core::array;
use once_cell::race::OnceBox;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use sync::rcu::{Limbo, Rcu};
use sync::{Lock, LockRef, SeqCount};

/// A dentry's number; [`ROOT`] is the first.
pub type Number = u32;
/// `/proc`: always there.
pub const ROOT: Number = 0;
/// The number of dentries examined to reclaim one.
pub const LOOKED_AT: usize = 64;

const CHUNK: usize = if cfg!(shuttle) { 8 } else { 64 };
const UNHASHED: u32 = 0;
const HASHED: u32 = 1;

/// A cache line that is not its neighbour's.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line<T>(T);

#[derive(Debug, Default)]
struct Words {
    seq: SeqCount,
    parent: AtomicU32,
    hash: AtomicU32,
    /// The next of the chain, plus one.
    next: AtomicU32,
    len: AtomicU32,
    state: AtomicU32,
    tag: AtomicU32,
    slot: AtomicU32,
    id: AtomicU32,
    name: [AtomicU64; WORDS],
}

/// One name in one directory.
#[derive(Debug, Default)]
struct Dentry {
    words: Line<Words>,
    refs: Line<LockRef>,
}

/// A dentry as it was seen, and the count by which it can be validated later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Which.
    pub number: Number,
    /// Its sequence count before it was read.
    pub seq: u32,
    /// The node it named.
    pub node: Node,
}

/// The table has changed under the reader: what it saw cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed;

#[derive(Debug, Default)]
struct Writer {
    fresh: Number,
    limbo: Limbo,
    hand: Number,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    /// In chunks that are made when they are needed and never move.
    dentries: Box<[OnceBox<[Dentry; CHUNK]>]>,
    /// The first of each chain, plus one.
    heads: Box<[AtomicU32]>,
    writer: Lock<Writer>,
}

impl Cache {
    /// Reserves room for at least this many names.
    pub fn new(names: usize) -> Cache {
        let chunks = names.div_ceil(CHUNK).max(1);
        let cache = Cache {
            dentries: (0..chunks).map(|_| OnceBox::new()).collect(),
            heads: (0..(chunks * CHUNK).next_power_of_two()).map(|_| AtomicU32::new(0)).collect(),
            writer: Lock::default(),
        };
        {
            let mut writer = cache.writer.lock();
            writer.fresh = 1;
            cache.make(ROOT);
            // Every dentry waits there once at most.
            let _ = writer.limbo.reserve(chunks * CHUNK);
        }
        let root = cache.at(ROOT);
        root.tag.store(Node::ROOT.tag(), Relaxed);
        root.slot.store(ThreadId::NONE.slot, Relaxed);
        root.state.store(HASHED, Relaxed);
        cache.refs(ROOT).get_not_dead();
        cache
    }

    /// The chunk of this number is there from now on.
    fn make(&self, number: Number) {
        let _ = self.dentries[number as usize / CHUNK].get_or_init(|| Box::new(array::from_fn(|_| Dentry::default())));
    }

    #[inline]
    fn dentry(&self, number: Number) -> &Dentry {
        match self.dentries[number as usize / CHUNK].get() {
            Some(chunk) => &chunk[number as usize % CHUNK],
            None => never_made(number),
        }
    }

    #[inline]
    fn at(&self, number: Number) -> &Words {
        &self.dentry(number).words.0
    }

    /// A dentry's references.
    pub fn refs(&self, number: Number) -> &LockRef {
        &self.dentry(number).refs.0
    }

    /// How many have been made.
    pub fn made(&self) -> Number {
        self.writer.lock().fresh
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.dentries.len() * CHUNK
    }

    /// Whether a dentry is unchanged since it was seen with this count.
    pub fn holds(&self, number: Number, seq: u32) -> bool {
        self.at(number).seq.holds(seq)
    }

    /// The dentry's current state.
    pub fn look(&self, number: Number) -> Result<Seen, Changed> {
        let words = self.at(number);
        let seq = words.seq.begin();
        let node = words.node();
        match node.filter(|_| words.seq.holds(seq)) {
            Some(node) => Ok(Seen { number, seq, node }),
            None => Err(Changed),
        }
    }

    /// The directory above. Only ever written before the dentry can be found.
    pub fn parent(&self, number: Number) -> Number {
        self.at(number).parent.load(Relaxed)
    }

    /// The dentry of a name (`__d_lookup_rcu`). The caller is a reader, and writes nothing. It may miss one that is
    /// being put in or taken out: a miss says nothing.
    #[inline(always)]
    pub fn find(&self, parent: Number, name: &Name) -> Result<Option<Seen>, Changed> {
        let hash = name.hash(parent);
        let mut next = self.head(hash).load(Acquire);
        // A chain has each dentry once at most.
        for _ in 0..self.capacity() {
            let Some(number) = next.checked_sub(1) else { return Ok(None) };
            let words = self.at(number);
            // The count comes before the comparison: it vouches for it.
            let seq = words.seq.begin();
            if words.is(parent, hash, name) {
                let node = words.node();
                return match node.filter(|_| words.seq.holds(seq)) {
                    Some(node) => Ok(Some(Seen { number, seq, node })),
                    None => Err(Changed),
                };
            }
            next = words.next.load(Acquire);
        }
        Err(Changed)
    }

    fn head(&self, hash: u32) -> &AtomicU32 {
        &self.heads[hash as usize & (self.heads.len() - 1)]
    }

    /// Puts a name in, or finds that another walk has (`d_alloc_parallel`), and takes a reference. The caller has one
    /// on the parent. `None` if there is no room.
    pub fn insert(&self, rcu: &Rcu, parent: Number, name: &Name, node: &Node) -> Option<Seen> {
        let mut writer = self.writer.lock();
        // The lock keeps nodes from being reclaimed, so no read section is needed.
        if let Ok(Some(seen)) = self.find(parent, name)
            && seen.node == *node
            && self.refs(seen.number).get_not_dead()
        {
            return Some(seen);
        }
        let number = self.room(&mut writer, rcu)?;
        self.refs(parent).get();
        let (words, hash) = (self.at(number), name.hash(parent));
        {
            let _writing = words.seq.write();
            words.fill(parent, hash, name, node);
            // The count of a dead one is negative for all that may still try.
            let held = self.refs(number).lock();
            held.set(1);
        }
        let seq = words.seq.begin();
        let head = self.head(hash);
        words.next.store(head.load(Relaxed), Relaxed);
        head.store(number + 1, Release);
        Some(Seen { number, seq, node: *node })
    }

    /// A dentry for use: one whose readers are gone, or one that was never used; otherwise others are taken out for a
    /// later call.
    fn room(&self, writer: &mut Writer, rcu: &Rcu) -> Option<Number> {
        let has_fresh = (writer.fresh as usize) < self.capacity();
        // Asking whether readers are gone may interrupt all CPUs: once for many.
        if (!has_fresh || writer.limbo.len() >= LOOKED_AT)
            && let Some(number) = writer.limbo.take(rcu)
        {
            return Some(number);
        }
        if has_fresh {
            self.make(writer.fresh);
            writer.fresh += 1;
            return Some(writer.fresh - 1);
        }
        for _ in 0..LOOKED_AT {
            writer.hand = if writer.hand as usize + 1 >= self.capacity() { 1 } else { writer.hand + 1 };
            self.take_out(writer, rcu, writer.hand);
        }
        writer.limbo.take(rcu)
    }

    /// Takes a dentry out if it has no references.
    fn take_out(&self, writer: &mut Writer, rcu: &Rcu, number: Number) {
        let held = self.refs(number).lock();
        if held.count() != 0 {
            return;
        }
        held.mark_dead();
        drop(held);
        self.unhash(number);
        // The node held a reference to its parent, so the parent still exists.
        self.refs(self.parent(number)).put();
        writer.limbo.retire(rcu, number);
    }

    /// Invalidates a name (`d_invalidate`): walks no longer find it, and walks that stand on it notice.
    pub fn drop_name(&self, rcu: &Rcu, seen: &Seen) {
        let mut writer = self.writer.lock();
        if !self.holds(seen.number, seen.seq) {
            return;
        }
        self.unhash(seen.number);
        self.take_out(&mut writer, rcu, seen.number);
    }

    /// Takes it out of its chain, if it is in one. Its own link stays, because readers may be using it.
    fn unhash(&self, number: Number) {
        let words = self.at(number);
        if words.state.load(Relaxed) == UNHASHED {
            return;
        }
        let _writing = words.seq.write();
        words.state.store(UNHASHED, Relaxed);
        let after = words.next.load(Relaxed);
        let mut link = self.head(words.hash.load(Relaxed));
        loop {
            match link.load(Relaxed).checked_sub(1) {
                None => return,
                Some(at) if at == number => return link.store(after, Release),
                Some(at) => link = &self.at(at).next,
            }
        }
    }

    /// How many names are in it, and how many numbers wait for readers. For tests and reports.
    pub fn counts(&self) -> (usize, usize) {
        let writer = self.writer.lock();
        let hashed = (0..writer.fresh).filter(|&number| self.at(number).state.load(Relaxed) == HASHED).count();
        (hashed, writer.limbo.len())
    }
}

#[cold]
#[inline(never)]
fn never_made(number: Number) -> ! {
    panic!("dentry {number} was never made")
}

impl Words {
    fn fill(&self, parent: Number, hash: u32, name: &Name, node: &Node) {
        self.parent.store(parent, Relaxed);
        self.hash.store(hash, Relaxed);
        self.len.store(name.len(), Relaxed);
        for (to, word) in self.name.iter().zip(name.words()) {
            to.store(word, Relaxed);
        }
        self.tag.store(node.tag(), Relaxed);
        self.slot.store(node.thread.slot, Relaxed);
        self.id.store(node.thread.id as u32, Relaxed);
        self.state.store(HASHED, Relaxed);
    }

    fn is(&self, parent: Number, hash: u32, name: &Name) -> bool {
        self.hash.load(Relaxed) == hash
            && self.parent.load(Relaxed) == parent
            && self.state.load(Relaxed) == HASHED
            && self.len.load(Relaxed) == name.len()
            && self.name.iter().zip(name.words()).all(|(has, wants)| has.load(Relaxed) == wants)
    }

    fn node(&self) -> Option<Node> {
        let thread = ThreadId { slot: self.slot.load(Relaxed), id: self.id.load(Relaxed) as i32 };
        Node::from_tag(self.tag.load(Relaxed), thread)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::node::{Dir, Place};

    fn process(id: i32) -> Node {
        Node { place: Place::Dir(Dir::Process), thread: ThreadId { slot: id as u32, id } }
    }

    fn put(cache: &Cache, rcu: &Rcu, id: i32) -> Option<Seen> {
        let seen = cache.insert(rcu, ROOT, &Name::of_id(id), &process(id))?;
        cache.refs(seen.number).put();
        Some(seen)
    }

    #[test]
    fn a_dentry_has_a_line_to_be_read_and_one_to_be_written() {
        assert_eq!((size_of::<Words>() <= 64, size_of::<Dentry>()), (true, 128));
    }

    #[test]
    fn names_are_found_until_they_are_dropped() {
        let (cache, rcu) = (Cache::new(64), Rcu::new(1));
        let seven = put(&cache, &rcu, 7).unwrap();
        let found = cache.find(ROOT, &Name::of_id(7)).unwrap().unwrap();
        assert_eq!((found, found.node), (seven, process(7)));
        assert_eq!(cache.find(ROOT, &Name::of_id(8)), Ok(None));
        assert_eq!(cache.find(seven.number, &Name::of_id(7)), Ok(None), "in another directory");
        assert_eq!(put(&cache, &rcu, 7), Some(seven), "once");
        cache.drop_name(&rcu, &seven);
        assert_eq!(cache.find(ROOT, &Name::of_id(7)), Ok(None));
        assert!(!cache.holds(seven.number, seven.seq) && !cache.refs(seven.number).get_not_dead());
        assert_eq!(cache.refs(ROOT).count(), 1, "its reference on the parent is gone");
    }

    #[test]
    fn the_table_is_bounded_and_what_is_in_use_stays() {
        let (cache, rcu) = (Cache::new(64), Rcu::new(1));
        let kept = cache.insert(&rcu, ROOT, &Name::of_id(1), &process(1)).unwrap();
        for id in 2..2000 {
            put(&cache, &rcu, id).expect("others make room");
            assert!(cache.find(ROOT, &Name::of_id(id)).unwrap().is_some());
        }
        assert_eq!(cache.find(ROOT, &Name::of_id(1)), Ok(Some(kept)));
        assert!(cache.counts().0 <= 64);
    }

    #[test]
    fn nothing_is_used_again_under_a_reader() {
        let (cache, rcu) = (Cache::new(64), Rcu::new(1));
        let all: std::vec::Vec<Seen> = (1..64).map(|id| put(&cache, &rcu, id).unwrap()).collect();
        let reading = rcu.read(0);
        assert_eq!(put(&cache, &rcu, 100), None, "all are taken out, and all may have a reader");
        for seen in &all {
            let words = cache.at(seen.number);
            assert_eq!(words.node(), Some(seen.node), "still what the reader saw");
        }
        drop(reading);
        assert!(put(&cache, &rcu, 100).is_some());
    }

    #[test]
    fn a_directory_stays_while_something_in_it_is_referred_to() {
        let (cache, rcu) = (Cache::new(64), Rcu::new(1));
        let dir = put(&cache, &rcu, 7).unwrap();
        let node = Node { place: Place::Entry(Dir::Process, 3), thread: dir.node.thread };
        cache.refs(dir.number).get_not_dead();
        let file = cache.insert(&rcu, dir.number, &Name::new(b"stat"), &node).unwrap();
        cache.refs(dir.number).put();
        cache.drop_name(&rcu, &dir);
        assert_eq!(cache.refs(dir.number).count(), 1, "unhashed, but its child refers to it");
        cache.refs(file.number).put();
        for id in 100..400 {
            put(&cache, &rcu, id);
        }
        assert_eq!(cache.refs(ROOT).count() as usize, cache.counts().0, "each name in the root, and the root's own");
    }
}
