//! The path of a tree's last search, so that the next one need not begin at the root: a *finger* (Guibas, McCreight,
//! Plass and Roberts 1977). With many threads, most are queued next to each other.

use crate::node::{self, NONE, Node};
use crate::table::Table;
use sync::prefetch;

/// The number of levels remembered, counted from the leaves.
const LEVELS: usize = 3;

/// A node, and a range of keys that belong below it: from the first, before the second. Cleared when the node leaves
/// the tree; other insertions and removals can only widen the node's real range.
#[derive(Clone, Copy, Debug)]
struct Range {
    node: u32,
    from: i64,
    until: i64,
}

impl Range {
    const NONE: Range = Range { node: NONE, from: i64::MAX, until: i64::MIN };

    /// All keys belong below the root.
    const fn all(root: u32) -> Range {
        Range { node: root, from: i64::MIN, until: i64::MAX }
    }

    #[inline(always)]
    fn has(&self, key: i64) -> bool {
        self.from <= key && key < self.until
    }
}

/// The nodes of the last search: the leaf, the node above it and so on.
#[derive(Debug)]
pub(crate) struct Finger {
    lately: [Range; LEVELS],
}

impl Finger {
    pub(crate) const fn new() -> Finger {
        Finger { lately: [Range::NONE; LEVELS] }
    }

    /// The leaf below `root` where a new member with this key belongs. The search begins at the lowest remembered node
    /// whose keys include the new one.
    #[inline(always)]
    pub(crate) fn leaf_for<'t>(&mut self, table: &'t Table, root: u32, key: i64) -> (u32, &'t Node) {
        let (top, level) = match self.lately.iter().position(|known| known.has(key)) {
            Some(level) => (self.lately[level], level),
            None => (Range::all(root), height(table, root)),
        };
        search(table, top, level, key, &mut self.lately)
    }

    /// Node `n` was split: its keys from `from` on are below `r` now. `to_right`: the search led there.
    pub(crate) fn split(&mut self, n: u32, (r, from): (u32, i64), to_right: bool) {
        if let Some(known) = self.lately.iter_mut().find(|known| known.node == n) {
            match to_right {
                true => (known.node, known.from) = (r, from),
                false => known.until = from,
            }
        }
    }

    /// Node `n` leaves the tree.
    pub(crate) fn forget(&mut self, n: u32) {
        if let Some(known) = self.lately.iter_mut().find(|known| known.node == n) {
            *known = Range::NONE;
        }
    }

    /// Whether a search from `root` leads to each remembered node, with the least and the greatest of its keys.
    pub(crate) fn is_sound(&self, table: &Table, root: u32) -> bool {
        let height = height(table, root);
        self.lately.iter().enumerate().filter(|(_, known)| known.from < known.until).all(|(level, known)| {
            [known.from, known.until - 1].into_iter().all(|key| {
                let mut seen = [Range::NONE; LEVELS];
                search(table, Range::all(root), height, key, &mut seen);
                known.node == if level == height { root } else { seen[level].node }
            })
        })
    }
}

/// The root's level.
fn height(table: &Table, root: u32) -> usize {
    usize::from(table.node(root).level())
}

/// The leaf for `key` below `top`, a node of this level; records the path. Because the level is known, the search need
/// not load a node to learn that it is a leaf.
#[inline(always)]
fn search<'t>(table: &'t Table, top: Range, level: usize, key: i64, seen: &mut [Range; LEVELS]) -> (u32, &'t Node) {
    let Range { node: mut n, mut from, mut until } = top;
    let mut node = table.node(n);
    for level in (0..level).rev() {
        n = node.below(key, (&mut from, &mut until));
        node = table.node(n);
        // Prefetch all key lines of the node, which would otherwise be loaded one after the other.
        prefetch(node, node::SEARCHED_LINES);
        if let Some(known) = seen.get_mut(level) {
            *known = Range { node: n, from, until };
        }
    }
    (n, node)
}
