//! A search tree of entities: ordered by `key`, equal keys in order of arrival.
//!
//! It is a B+-tree (Bayer and McCreight 1972) of the nodes of `node.rs`: 100,000 threads are four or five levels. A
//! thread knows its leaf and a node its parent, so removal needs no search; insertion starts from where the last
//! search ended (`finger.rs`). Augmented with the smallest `vruntime` below each node, the tree finds the earliest
//! *eligible* deadline.
//!
//! With 100,000 threads each record is cold when it is needed. So taking the front prefetches the record of the fourth
//! thread behind it.
//!
//! The augmented values of each node, `low` and `masks`, are **bounds**. Insertion lowers them at once, as far up as
//! that changes anything. Removal leaves the bounds stale; a search that a stale bound has misled tightens it on its
//! way back. Each removal costs this at most once, and usually never, because its leaf is empty before a search reaches
//! it.
//!
//! # There are always enough nodes
//! A node that loses a slot and has at most eight left merges with a neighbour below the same parent if they have at
//! most twelve together. So two neighbours have at least thirteen, except after a split: a split makes eight and nine,
//! or twelve and five, depending on where the slot is inserted, and at the right end, where more will follow, sixteen
//! and one. That leaves nine per pair and fifteen per three in a row, five slots per node. A node without neighbours
//! exists only where its parent has neighbours with enough. (Inserting behind the last slot of a full leaf uses the
//! first place of the next leaf while that has room, which only makes nodes fuller.) The first leaf is excepted: it is
//! emptied from its front and freed when it is empty, because moving slots that are about to leave would be wasteful.
//! With it and the right end, a tree of n threads has at most 3 + 0.37 n nodes. It keeps one spare, the last it freed:
//! queues grow and shrink at their ends, so in the long run no CPU needs the shared free list. A scheduler allocates
//! four nodes for each tree, three trees for each CPU, and one node for every two threads.

use crate::entity::Entity;
use crate::finger::Finger;
use crate::node::{NONE, Node, Slot, WIDTH};
use crate::planted::Fault;
use crate::table::Table;
use ids::ThreadIdx;
use sync::prefetch;

/// Two neighbours with at most this many slots together are merged.
const JOINED_MOST: usize = WIDTH * 3 / 4;
/// A node with this many slots checks whether it fits into a neighbour.
const SMALL: usize = WIDTH / 2;

/// Prefetch distance. Four switches take longer than the slowest memory access, and fetching no further ahead evicts
/// nothing that is still needed.
const AHEAD: usize = 4;

/// A tree of entities. An entity can be in one tree at a time.
#[derive(Debug)]
pub(crate) struct Tree {
    root: u32,
    /// The leaf with the smallest keys.
    first: u32,
    /// The leaf with the greatest key.
    last: u32,
    len: u32,
    /// A node kept for the next time one is needed.
    spare: u32,
    finger: Finger,
}

impl Tree {
    pub(crate) const fn new() -> Tree {
        Tree { root: NONE, first: NONE, last: NONE, len: 0, spare: NONE, finger: Finger::new() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The member with the smallest key.
    #[inline]
    pub(crate) fn first(&self, table: &Table) -> Option<ThreadIdx> {
        (self.first != NONE).then(|| ThreadIdx(table.node(self.first).id(0)))
    }

    /// A superset of the members' masks, folded.
    pub(crate) fn allowed(&self, table: &Table) -> u64 {
        if self.root == NONE { 0 } else { table.node(self.root).masks.get() }
    }

    /// Adds `t`, whose `key` and `vruntime` are set.
    pub(crate) fn insert(&mut self, table: &Table, t: ThreadIdx, e: &Entity) {
        let slot = Slot { id: t.0, key: e.key.get(), low: e.vruntime.get() };
        if self.root == NONE {
            self.root = self.take_node(table, 0);
            (self.first, self.last) = (self.root, self.root);
        }
        self.len += 1;
        let (mut leaf, mut node) = self.finger.leaf_for(table, self.root, slot.key);
        let mut at = node.count_up_to(slot.key);
        if node.len() == WIDTH {
            let end = leaf == self.last;
            (leaf, at) = self.split(table, leaf, at, slot.key, end);
            node = table.node(leaf);
        }
        node.insert(at, slot);
        e.links.leaf.set(leaf);
        if !table.plants(Fault::StaleMinimum) {
            extend(table, (leaf, node), slot.low, table.fold(t, e));
        }
    }

    /// Removes `t`, a member.
    pub(crate) fn remove(&mut self, table: &Table, t: ThreadIdx) {
        self.len -= 1;
        let first = table.node(self.first);
        if first.id(0) == t.0 {
            return self.remove_first(table, first);
        }
        let leaf = table.get(t).links.leaf.get();
        let node = table.node(leaf);
        node.remove(node.find(t.0));
        let small = if node.above.get() == NONE { 0 } else { SMALL };
        if node.len() <= small {
            self.tidy(table, leaf);
        }
    }

    /// Removes the member with the smallest key, which is usually the one about to run. Does not read its record: with
    /// many threads that is a memory access for which a switch would wait.
    #[inline(always)]
    fn remove_first(&mut self, table: &Table, first: &Node) {
        first.remove(0);
        match first.len() {
            0 => self.drop_node(table, self.first),
            n if n > AHEAD => table.prefetch(ThreadIdx(first.id(AHEAD))),
            n => self.look_into_next(table, first, n),
        }
    }

    /// The first leaf has `left` slots, and the record to prefetch is in the next leaf.
    #[inline(always)]
    fn look_into_next(&self, table: &Table, first: &Node, left: usize) {
        let above = first.above.get();
        if above == NONE || table.node(above).len() < 2 {
            return;
        }
        let next = table.node(table.node(above).id(1));
        if left == AHEAD {
            prefetch(next, usize::MAX);
        } else if AHEAD - left < next.len() {
            table.prefetch(ThreadIdx(next.id(AHEAD - left)));
        }
    }

    /// The member with the smallest key whose `vruntime` is `eligible`, which must hold
    /// below some bound: Earliest *Eligible* Virtual Deadline First.
    #[inline(always)]
    pub(crate) fn first_eligible(&self, table: &Table, eligible: impl Fn(i64) -> bool) -> Option<ThreadIdx> {
        if self.first == NONE {
            return None;
        }
        let first = table.node(self.first);
        if eligible(first.low_of(0)) {
            return Some(ThreadIdx(first.id(0)));
        }
        first_eligible_below(table, self.root, &eligible)
    }

    /// Visits members whose folded mask meets `bit` (0 means all) by ascending key, until `visit` is
    /// true or `most` were seen; returns the one it was true for.
    pub(crate) fn find_allowed(
        &self,
        table: &Table,
        bit: u64,
        most: u32,
        mut visit: impl FnMut(ThreadIdx, &Entity) -> bool,
    ) -> Option<ThreadIdx> {
        let mut left = most;
        match self.root {
            NONE => None,
            root => find_below(table, root, bit, &mut left, &mut visit).unwrap_or(None),
        }
    }

    /// Visits every member.
    pub(crate) fn visit(&self, table: &Table, visit: &mut impl FnMut(ThreadIdx)) {
        if self.root != NONE {
            visit_below(table, self.root, visit);
        }
    }

    /// Whether order, links, ends and bounds are correct.
    pub(crate) fn is_sound(&self, table: &Table) -> bool {
        if self.root == NONE {
            return self.len == 0 && self.first == NONE && self.last == NONE;
        }
        let mut seen = Seen { from: i64::MIN, last_key: i64::MIN, members: 0 };
        let ends = self.end(table, false) == self.first && self.end(table, true) == self.last;
        let rooted = table.node(self.root).above.get() == NONE;
        rooted
            && ends
            && self.finger.is_sound(table, self.root)
            && seen.is_sound(table, self.root)
            && seen.members == self.len
    }

    /// Splits the full node `n`, into which a slot with `key` will be inserted before slot `at`; returns where it
    /// belongs now. At the right end of the tree (`end`) more slots will follow, so the left node stays full.
    #[cold]
    fn split(&mut self, table: &Table, n: u32, at: usize, key: i64, end: bool) -> (u32, usize) {
        let node = table.node(n);
        if at == WIDTH
            && !end
            && node.is_leaf()
            && let Some(r) = self.make_room_in_next(table, n, key)
        {
            return (r, 0);
        }
        let keep = if at == WIDTH && end { WIDTH } else { at.clamp(WIDTH / 2, WIDTH * 3 / 4) };
        let r = self.take_node(table, node.level());
        let right = table.node(r);
        let from = if keep < WIDTH { node.key(keep) } else { key };
        let leaf = node.is_leaf();
        node.move_behind(keep, right, |id| own(table, r, leaf, id));
        right.masks.set(if keep < WIDTH { node.masks.get() } else { 0 });
        if n == self.last {
            self.last = r;
        }
        self.add_behind(table, n, r, from, end);
        let to_right = at > keep || keep == WIDTH;
        self.finger.split(n, (r, from), to_right);
        if to_right { (r, at - keep) } else { (n, at) }
    }

    /// Inserts a slot that belongs behind the last one of the full leaf `n` at the front of the next leaf instead, if
    /// that has room and the same parent.
    #[inline(always)]
    fn make_room_in_next(&mut self, table: &Table, n: u32, key: i64) -> Option<u32> {
        let above = table.node(n).above.get();
        if above == NONE {
            return None;
        }
        let top = table.node(above);
        let next = top.find_below(n) + 1;
        if next == top.len() || table.node(top.id(next)).len() == WIDTH {
            return None;
        }
        let r = top.id(next);
        top.set_key(next, key);
        self.finger.split(n, (r, key), true);
        Some(r)
    }

    /// Adds node `r`, with keys from `from` on, behind node `n`.
    fn add_behind(&mut self, table: &Table, n: u32, r: u32, from: i64, end: bool) {
        let node = table.node(n);
        if node.above.get() == NONE {
            let root = self.take_node(table, node.level() + 1);
            let top = table.node(root);
            top.insert(0, Slot { id: n, key: node.key(0), low: node.low.get() });
            top.low.set(node.low.get());
            top.masks.set(node.masks.get());
            node.above.set(root);
            self.root = root;
        }
        let mut above = node.above.get();
        let mut at = table.node(above).find_below(n) + 1;
        if table.node(above).len() == WIDTH {
            (above, at) = self.split(table, above, at, from, end);
        }
        let (top, right) = (table.node(above), table.node(r));
        right.above.set(above);
        top.insert(at, Slot { id: r, key: from, low: right.low.get() });
        extend(table, (above, top), right.low.get(), right.masks.get());
    }

    /// Node `n` has lost slots: removes it if it is empty, or merges it with a neighbour if they fit into one.
    fn tidy(&mut self, table: &Table, n: u32) {
        let node = table.node(n);
        let above = node.above.get();
        if node.len() == 0 {
            return self.drop_node(table, n);
        }
        if above == NONE {
            return self.lower_root(table);
        }
        let top = table.node(above);
        let at = top.find_below(n);
        let fits = |i: usize| table.node(top.id(i)).len() + node.len() <= JOINED_MOST;
        if at > 0 && fits(at - 1) {
            self.join(table, top, at - 1);
        } else if at + 1 < top.len() && fits(at + 1) {
            self.join(table, top, at);
        }
    }

    /// Merges the node in slot `at` of `top` with the next: the smaller one's slots move.
    fn join(&mut self, table: &Table, top: &Node, at: usize) {
        let (l, r) = (top.id(at), top.id(at + 1));
        let (left, right) = (table.node(l), table.node(r));
        // The first key matters when the slot is not the first one.
        if !right.is_leaf() {
            right.set_key(0, top.key(at + 1));
        }
        let (low, masks) = (left.low.get().min(right.low.get()), left.masks.get() | right.masks.get());
        let (stays, goes) = if right.len() <= left.len() { (l, r) } else { (r, l) };
        let (to, from) = (table.node(stays), table.node(goes));
        let before = to.len();
        for i in 0..from.len() {
            to.insert(if stays == l { before + i } else { i }, from.slot(i));
            own(table, stays, from.is_leaf(), from.id(i));
        }
        from.clear();
        to.low.set(low);
        to.masks.set(masks);
        let slot = if stays == l { at } else { at + 1 };
        top.set_low(slot, low);
        if stays == r {
            top.set_key(at + 1, top.key(at));
        }
        self.drop_node(table, goes);
    }

    /// Removes node `n`, whose slots are obsolete, from the tree.
    fn drop_node(&mut self, table: &Table, n: u32) {
        let above = table.node(n).above.get();
        self.give_node(table, n);
        if above == NONE {
            (self.root, self.first, self.last) = (NONE, NONE, NONE);
            return;
        }
        let top = table.node(above);
        top.remove(top.find_below(n));
        let (was_first, was_last, left) = (n == self.first, n == self.last, top.len());
        if was_first && left > 0 {
            self.first = top.id(0);
        }
        if was_last && left > 0 {
            self.last = top.id(left - 1);
        }
        if left <= SMALL {
            self.tidy(table, above);
        }
        if left == 0 && self.root != NONE {
            if was_first {
                self.first = self.end(table, false);
            }
            if was_last {
                self.last = self.end(table, true);
            }
        }
    }

    /// Removes a root with a single node below.
    fn lower_root(&mut self, table: &Table) {
        loop {
            let root = table.node(self.root);
            if root.is_leaf() || root.len() > 1 {
                return;
            }
            let below = root.id(0);
            root.clear();
            self.give_node(table, self.root);
            table.node(below).above.set(NONE);
            self.root = below;
        }
    }

    /// An empty node.
    fn take_node(&mut self, table: &Table, level: u8) -> u32 {
        let n = if self.spare == NONE { table.take_node() } else { core::mem::replace(&mut self.spare, NONE) };
        table.node(n).reset(level, NONE);
        n
    }

    /// Frees a node that the tree does not need.
    fn give_node(&mut self, table: &Table, n: u32) {
        self.finger.forget(n);
        let before = core::mem::replace(&mut self.spare, n);
        if before != NONE {
            table.give_node(before);
        }
    }

    /// The leaf at the right or the left end.
    fn end(&self, table: &Table, right: bool) -> u32 {
        let mut n = self.root;
        loop {
            let node = table.node(n);
            if node.is_leaf() {
                return n;
            }
            n = node.id(if right { node.len() - 1 } else { 0 });
        }
    }
}

/// Updates the back pointer of the thread (in a leaf) or node that moved into a slot of node `n`.
#[inline(always)]
fn own(table: &Table, n: u32, leaf: bool, id: u32) {
    if leaf {
        table.get(ThreadIdx(id)).links.leaf.set(n);
    } else {
        table.node(id).above.set(n);
    }
}

/// Updates the bounds for a member with these values that was added to node `n`, which is `node`.
#[inline(always)]
fn extend(table: &Table, (mut n, mut node): (u32, &Node), vruntime: i64, masks: u64) {
    loop {
        let (low, had) = (node.low.get(), node.masks.get());
        if low <= vruntime && had & masks == masks {
            return;
        }
        let low = low.min(vruntime);
        node.low.set(low);
        node.masks.set(had | masks);
        let above = node.above.get();
        if above == NONE {
            return;
        }
        let top = table.node(above);
        top.set_low(top.find_below(n), low);
        (n, node) = (above, top);
    }
}

/// [`Tree::first_eligible`] below node `n`. If there is none, the bound is exact afterwards.
#[inline(never)]
fn first_eligible_below(table: &Table, n: u32, eligible: &impl Fn(i64) -> bool) -> Option<ThreadIdx> {
    let node = table.node(n);
    for i in (0..node.len()).filter(|&i| eligible(node.low_of(i))) {
        if node.is_leaf() {
            return Some(ThreadIdx(node.id(i)));
        }
        let found = first_eligible_below(table, node.id(i), eligible);
        if found.is_some() {
            return found;
        }
        node.set_low(i, table.node(node.id(i)).low.get());
    }
    node.low.set(node.lowest());
    None
}

fn visit_below(table: &Table, n: u32, visit: &mut impl FnMut(ThreadIdx)) {
    let node = table.node(n);
    for id in (0..node.len()).map(|i| node.id(i)) {
        if node.is_leaf() {
            visit(ThreadIdx(id));
        } else {
            visit_below(table, id, visit);
        }
    }
}

/// [`Tree::find_allowed`] below node `n`: `Some` ends the search; otherwise the bound is exact afterwards.
fn find_below(
    table: &Table,
    n: u32,
    bit: u64,
    left: &mut u32,
    visit: &mut impl FnMut(ThreadIdx, &Entity) -> bool,
) -> Option<Option<ThreadIdx>> {
    let node = table.node(n);
    let meets = |masks: u64| bit == 0 || masks & bit != 0;
    let mut all = 0;
    for i in 0..node.len() {
        let id = node.id(i);
        if !node.is_leaf() {
            if meets(table.node(id).masks.get())
                && let Some(end) = find_below(table, id, bit, left, visit)
            {
                return Some(end);
            }
            all |= table.node(id).masks.get();
            continue;
        }
        let (t, e) = (ThreadIdx(id), table.get(ThreadIdx(id)));
        let mask = table.fold(t, e);
        all |= mask;
        if meets(mask) {
            if *left == 0 {
                return Some(None);
            }
            *left -= 1;
            if visit(t, e) {
                return Some(Some(t));
            }
        }
    }
    node.masks.set(all);
    None
}

/// Totals of a walk through the whole tree.
struct Seen {
    /// The lower bound of the keys, according to the slots above.
    from: i64,
    last_key: i64,
    members: u32,
}

impl Seen {
    fn is_sound(&mut self, table: &Table, n: u32) -> bool {
        let node = table.node(n);
        (1..=WIDTH).contains(&node.len()) && (0..node.len()).all(|i| self.is_slot_sound(table, n, i))
    }

    fn is_slot_sound(&mut self, table: &Table, n: u32, i: usize) -> bool {
        let (node, slot) = (table.node(n), table.node(n).slot(i));
        if node.is_leaf() {
            let (t, e) = (ThreadIdx(slot.id), table.get(ThreadIdx(slot.id)));
            let as_is = slot.key == e.key.get() && slot.low == e.vruntime.get() && e.links.leaf.get() == n;
            let ordered = self.last_key.max(self.from) <= slot.key;
            (self.last_key, self.members) = (slot.key, self.members + 1);
            let mask = table.fold(t, e);
            return as_is && ordered && node.low.get() <= slot.low && mask & !node.masks.get() == 0;
        }
        let below = table.node(slot.id);
        let bounded = node.low.get() <= slot.low && slot.low <= below.low.get();
        let masked = below.masks.get() & !node.masks.get() == 0;
        // The subtrees before it end where this one starts.
        let apart = i == 0 || self.last_key <= slot.key;
        if i > 0 {
            self.from = slot.key;
        }
        below.above.get() == n && bounded && masked && apart && self.is_sound(table, slot.id)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
