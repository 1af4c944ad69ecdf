//! A search tree of entities, linked by their indices: ordered by `key`, equal keys in
//! the order of arrival.
//!
//! It is a treap (Seidel and Aragon 1996): a heap by the entities' fixed mixed `rank`s,
//! so its shape depends on the members only and is balanced in expectation, O(log n).
//! Two things make it fast here. Both ends are remembered, and inserting at the right
//! end, the commonest insertion of a scheduler, takes a constant number of steps on
//! average. And a change of the two values that are kept per subtree, `min_vruntime` and
//! `subtree_mask`, stops climbing where it makes no difference.

use crate::entity::Entity;
use crate::planted::Fault;
use crate::table::Table;
use ids::ThreadIdx;

const NONE: u32 = ThreadIdx::NONE.0;

/// A tree of entities. An entity can be in one tree at a time.
#[derive(Debug)]
pub(crate) struct Tree {
    root: u32,
    first: u32,
    last: u32,
    len: u32,
}

impl Tree {
    pub(crate) const fn new() -> Tree {
        Tree { root: NONE, first: NONE, last: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The member with the smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<ThreadIdx> {
        (self.first != NONE).then_some(ThreadIdx(self.first))
    }

    /// The union of the members' masks, folded.
    pub(crate) fn allowed(&self, table: &Table) -> u64 {
        if self.root == NONE { 0 } else { at(table, self.root).subtree_mask.get() }
    }

    /// Adds `t`, whose `key` and `vruntime` are set.
    pub(crate) fn insert(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        let (key, rank) = (e.key.get(), e.rank.get());
        self.len += 1;
        let at_end = self.last == NONE || at(table, self.last).key.get() <= key;
        let (parent, child) = if at_end { self.above_right_end(table, rank) } else { self.descend(table, key, rank) };
        let (left, right) = if at_end { (child, NONE) } else { split(table, child, key) };
        e.links.left.set(left);
        e.links.right.set(right);
        e.links.parent.set(parent);
        adopt(table, left, t.0);
        adopt(table, right, t.0);
        if parent == NONE {
            self.root = t.0;
        } else if at_end || at(table, parent).key.get() <= key {
            at(table, parent).links.right.set(t.0);
        } else {
            at(table, parent).links.left.set(t.0);
        }
        if at_end {
            self.last = t.0;
        }
        if self.first == NONE || (!at_end && key < at(table, self.first).key.get()) {
            self.first = t.0;
        }
        refresh(table, t.0);
        extend(table, parent, e.vruntime.get(), table.fold(t, e));
    }

    /// Removes `t`, a member.
    #[inline(never)]
    pub(crate) fn remove(&mut self, table: &Table, t: ThreadIdx) {
        let e = table.get(t);
        self.len -= 1;
        if self.first == t.0 {
            self.first = next(table, t.0);
        }
        if self.last == t.0 {
            self.last = previous(table, t.0);
        }
        let parent = e.links.parent.get();
        let below = join(table, e.links.left.get(), e.links.right.get());
        adopt(table, below, parent);
        if parent == NONE {
            self.root = below;
            return;
        }
        let p = at(table, parent);
        if p.links.left.get() == t.0 {
            p.links.left.set(below);
        } else {
            p.links.right.set(below);
        }
        if table.plants(Fault::StaleMinimum) {
            return;
        }
        shrink(table, parent, e.vruntime.get(), table.fold(t, e));
    }

    /// The member with the smallest key whose `vruntime` is `eligible`, which must hold
    /// below some bound: Earliest *Eligible* Virtual Deadline First.
    pub(crate) fn first_eligible(&self, table: &Table, eligible: impl Fn(i64) -> bool) -> Option<ThreadIdx> {
        if self.first != NONE && eligible(at(table, self.first).vruntime.get()) {
            return Some(ThreadIdx(self.first));
        }
        let mut n = self.root;
        while n != NONE {
            let e = at(table, n);
            let left = e.links.left.get();
            if left != NONE && eligible(at(table, left).min_vruntime.get()) {
                n = left;
            } else if eligible(e.vruntime.get()) {
                return Some(ThreadIdx(n));
            } else {
                n = e.links.right.get();
            }
        }
        None
    }

    /// Visits members whose folded mask meets `bit` by ascending key, until `visit` is
    /// true or `most` were seen; returns the one it was true for.
    pub(crate) fn find_allowed(
        &self,
        table: &Table,
        bit: u64,
        most: u32,
        mut visit: impl FnMut(ThreadIdx, &Entity) -> bool,
    ) -> Option<ThreadIdx> {
        let mut n = first_in(table, self.root, bit);
        for _ in 0..most {
            if n == NONE {
                return None;
            }
            if visit(ThreadIdx(n), at(table, n)) {
                return Some(ThreadIdx(n));
            }
            n = next_in(table, n, bit);
        }
        None
    }

    /// Whether order, heap, links, ends and what is kept per subtree are as they should be.
    pub(crate) fn is_sound(&self, table: &Table) -> bool {
        let mut seen = 0;
        let mut last = (NONE, i64::MIN);
        let mut sound = self.root == NONE || at(table, self.root).links.parent.get() == NONE;
        let _ = self.find_allowed(table, 0, self.len + 1, |t, e| {
            let mut min = e.vruntime.get();
            let mut mask = table.fold(t, e);
            for child in [e.links.left.get(), e.links.right.get()] {
                if child != NONE {
                    let c = at(table, child);
                    sound &= c.links.parent.get() == t.0 && c.rank.get() < e.rank.get();
                    min = min.min(c.min_vruntime.get());
                    mask |= c.subtree_mask.get();
                }
            }
            sound &= last.1 <= e.key.get() && (seen > 0 || self.first == t.0);
            sound &= min == e.min_vruntime.get() && mask == e.subtree_mask.get();
            last = (t.0, e.key.get());
            seen += 1;
            false
        });
        sound && seen == self.len && self.last == last.0
    }

    /// Where a new rightmost member belongs: its parent, and the subtree that becomes its left child.
    fn above_right_end(&self, table: &Table, rank: u32) -> (u32, u32) {
        let (mut parent, mut child) = (self.last, NONE);
        while parent != NONE && at(table, parent).rank.get() < rank {
            child = parent;
            parent = at(table, parent).links.parent.get();
        }
        (parent, child)
    }

    /// Where a new member belongs: its parent, and the subtree that is split below it.
    fn descend(&self, table: &Table, key: i64, rank: u32) -> (u32, u32) {
        let (mut parent, mut child) = (NONE, self.root);
        while child != NONE {
            let c = at(table, child);
            if c.rank.get() < rank {
                break;
            }
            parent = child;
            child = if c.key.get() <= key { c.links.right.get() } else { c.links.left.get() };
        }
        (parent, child)
    }
}

#[inline(always)]
fn at(table: &Table, n: u32) -> &Entity {
    table.get(ThreadIdx(n))
}

fn adopt(table: &Table, child: u32, parent: u32) {
    if child != NONE {
        at(table, child).links.parent.set(parent);
    }
}

/// Recomputes what is kept for the subtree of `n`; says whether it changed.
#[inline]
fn refresh(table: &Table, n: u32) -> bool {
    let e = at(table, n);
    let mut min = e.vruntime.get();
    let mut mask = table.fold(ThreadIdx(n), e);
    for child in [e.links.left.get(), e.links.right.get()] {
        if child != NONE {
            let c = at(table, child);
            min = min.min(c.min_vruntime.get());
            mask |= c.subtree_mask.get();
        }
    }
    let changed = min != e.min_vruntime.get() || mask != e.subtree_mask.get();
    e.min_vruntime.set(min);
    e.subtree_mask.set(mask);
    changed
}

/// A member with these values came into the subtree of `n`.
fn extend(table: &Table, mut n: u32, vruntime: i64, mask: u64) {
    while n != NONE {
        let e = at(table, n);
        let (min, masks) = (e.min_vruntime.get(), e.subtree_mask.get());
        if min <= vruntime && masks & mask == mask {
            return;
        }
        e.min_vruntime.set(min.min(vruntime));
        e.subtree_mask.set(masks | mask);
        n = e.links.parent.get();
    }
}

/// A member with these values left the subtree of `n`.
fn shrink(table: &Table, mut n: u32, vruntime: i64, mask: u64) {
    while n != NONE {
        let e = at(table, n);
        let made_no_difference = vruntime > e.min_vruntime.get() && mask & !table.fold(ThreadIdx(n), e) == 0;
        if made_no_difference || !refresh(table, n) {
            return;
        }
        n = e.links.parent.get();
    }
}

/// Splits the subtree `n` into members with keys up to `key` and the others.
fn split(table: &Table, mut n: u32, key: i64) -> (u32, u32) {
    let (mut low, mut high) = (NONE, NONE); // the trees that grow
    let (mut low_end, mut high_end) = (NONE, NONE); // where they grow next
    while n != NONE {
        let e = at(table, n);
        if e.key.get() <= key {
            if low_end == NONE {
                low = n
            } else {
                at(table, low_end).links.right.set(n)
            }
            e.links.parent.set(low_end);
            low_end = n;
            n = e.links.right.get();
        } else {
            if high_end == NONE {
                high = n
            } else {
                at(table, high_end).links.left.set(n)
            }
            e.links.parent.set(high_end);
            high_end = n;
            n = e.links.left.get();
        }
    }
    if low_end != NONE {
        at(table, low_end).links.right.set(NONE);
    }
    if high_end != NONE {
        at(table, high_end).links.left.set(NONE);
    }
    refresh_path(table, low_end);
    refresh_path(table, high_end);
    (low, high)
}

/// Joins two subtrees, all keys of `a` before those of `b`. Parents of the result's root are left to the caller.
fn join(table: &Table, mut a: u32, mut b: u32) -> u32 {
    let mut root = NONE;
    let mut end = NONE; // the last node placed
    let mut end_right = false; // whether the next goes to its right
    loop {
        let take = match (a, b) {
            (NONE, n) | (n, NONE) => n,
            _ if at(table, a).rank.get() > at(table, b).rank.get() => a,
            _ => b,
        };
        if end == NONE {
            root = take;
        } else if end_right {
            at(table, end).links.right.set(take);
        } else {
            at(table, end).links.left.set(take);
        }
        adopt(table, take, end);
        if a == NONE || b == NONE {
            break;
        }
        end = take;
        end_right = take == a;
        if end_right {
            a = at(table, take).links.right.get();
        } else {
            b = at(table, take).links.left.get();
        }
    }
    refresh_path(table, end);
    root
}

/// Recomputes from `n` to the top of its (still detached) subtree.
fn refresh_path(table: &Table, mut n: u32) {
    while n != NONE {
        refresh(table, n);
        n = at(table, n).links.parent.get();
    }
}

fn next(table: &Table, n: u32) -> u32 {
    next_in(table, n, 0)
}

/// The first member of subtree `n` by key whose mask meets `bit`; 0 means all.
fn first_in(table: &Table, mut n: u32, bit: u64) -> u32 {
    if n == NONE || !meets(at(table, n).subtree_mask.get(), bit) {
        return NONE;
    }
    loop {
        let e = at(table, n);
        let left = e.links.left.get();
        if left != NONE && meets(at(table, left).subtree_mask.get(), bit) {
            n = left;
        } else if meets(table.fold(ThreadIdx(n), e), bit) {
            return n;
        } else {
            n = e.links.right.get();
        }
    }
}

#[inline(always)]
fn meets(mask: u64, bit: u64) -> bool {
    bit == 0 || mask & bit != 0
}

/// The next member after `n` whose mask meets `bit`.
fn next_in(table: &Table, mut n: u32, bit: u64) -> u32 {
    let below = first_in(table, at(table, n).links.right.get(), bit);
    if below != NONE {
        return below;
    }
    loop {
        let parent = at(table, n).links.parent.get();
        if parent == NONE {
            return NONE;
        }
        let p = at(table, parent);
        if p.links.left.get() == n {
            if meets(table.fold(ThreadIdx(parent), p), bit) {
                return parent;
            }
            let below = first_in(table, p.links.right.get(), bit);
            if below != NONE {
                return below;
            }
        }
        n = parent;
    }
}

/// The member before `n`.
fn previous(table: &Table, mut n: u32) -> u32 {
    let mut below = at(table, n).links.left.get();
    if below != NONE {
        loop {
            let right = at(table, below).links.right.get();
            if right == NONE {
                return below;
            }
            below = right;
        }
    }
    loop {
        let parent = at(table, n).links.parent.get();
        if parent == NONE || at(table, parent).links.right.get() == n {
            return parent;
        }
        n = parent;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use ids::{CpuId, CpuMask};
    use proptest::prelude::*;

    /// A member as the model knows it: key, order of arrival, slot.
    type Member = (i64, usize, u32);

    fn table(n: u32) -> Table {
        let table = Table::new(3).unwrap();
        for i in 0..n {
            table.reserve(ThreadIdx(i)).unwrap();
            table.set_mask(ThreadIdx(i), &CpuMask::only(CpuId((i % 3) as u16)));
        }
        table
    }

    fn members(tree: &Tree, table: &Table, bit: u64) -> Vec<u32> {
        let mut all = Vec::new();
        let _ = tree.find_allowed(table, bit, u32::MAX, |t, _| {
            all.push(t.0);
            false
        });
        all
    }

    fn agrees(tree: &Tree, table: &Table, model: &[Member]) -> Result<(), TestCaseError> {
        let slots = |want: &dyn Fn(u32) -> bool| model.iter().map(|m| m.2).filter(|&n| want(n)).collect::<Vec<_>>();
        prop_assert!(tree.is_sound(table));
        prop_assert_eq!(members(tree, table, 0), slots(&|_| true));
        prop_assert_eq!(members(tree, table, 1 << 1), slots(&|n| n % 3 == 1));
        prop_assert_eq!(tree.first(), model.first().map(|m| ThreadIdx(m.2)));
        for bound in [-5, 0, 5] {
            let due = model.iter().find(|m| at(table, m.2).vruntime.get() <= bound).map(|m| ThreadIdx(m.2));
            prop_assert_eq!(tree.first_eligible(table, |v| v <= bound), due);
        }
        Ok(())
    }

    proptest! {
        /// Any insertions and removals: the same members in the same order as in a sorted list.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0u32..24, -8i64..8, -8i64..8), 1..200)) {
            let table = table(24);
            let mut tree = Tree::new();
            let mut model: Vec<Member> = Vec::new();
            for (arrival, (slot, key, vruntime)) in steps.into_iter().enumerate() {
                if let Some(i) = model.iter().position(|m| m.2 == slot) {
                    tree.remove(&table, ThreadIdx(slot));
                    model.remove(i);
                } else {
                    at(&table, slot).key.set(key);
                    at(&table, slot).vruntime.set(vruntime);
                    tree.insert(&table, ThreadIdx(slot));
                    model.push((key, arrival, slot));
                    model.sort();
                }
                agrees(&tree, &table, &model)?;
            }
        }
    }

    /// The depth stays logarithmic when threads of consecutive numbers come in order: 2 ln n on average,
    /// here never above 5 log2 n.
    #[test]
    fn is_balanced_for_the_commonest_order() {
        let n = 10_000;
        let table = table(n);
        let mut tree = Tree::new();
        for i in 0..n {
            at(&table, i).key.set(i64::from(i));
            tree.insert(&table, ThreadIdx(i));
        }
        let depth = |mut i: u32| {
            let mut d = 0;
            while i != NONE {
                i = at(&table, i).links.parent.get();
                d += 1;
            }
            d
        };
        let deepest = (0..n).map(depth).max().unwrap();
        assert!(deepest <= 5 * n.ilog2(), "{deepest}");
    }
}
