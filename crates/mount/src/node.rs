//! Inode numbers.
//!
//! A number is computed from what it names, so a file has the same one as long as it exists, even if the kernel
//! forgets it meanwhile, and a later process has others.

use crate::host::Process;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Below what a node's path begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Whose {
    /// `/proc`.
    Machine,
    /// `/proc/PID`.
    Process(Process),
    /// `/proc/PID/task/TID`, of a process under Entresol.
    Thread(Process, i32),
    /// `/proc/TID`, of a thread under Entresol: it can be opened, but is not listed.
    Top(Process, i32),
}

impl Whose {
    /// The process, if it is below one.
    pub fn process(self) -> Option<Process> {
        match self {
            Whose::Machine => None,
            Whose::Process(process) | Whose::Thread(process, _) | Whose::Top(process, _) => Some(process),
        }
    }
}

/// A file or directory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Where its path begins.
    pub whose: Whose,
    /// The rest; empty for that directory itself.
    pub path: Vec<u8>,
}

impl Node {
    /// `/proc`.
    pub const ROOT: Node = Node { whose: Whose::Machine, path: Vec::new() };

    /// That directory itself.
    pub fn top(whose: Whose) -> Node {
        Node { whose, path: Vec::new() }
    }

    /// A name in it.
    pub fn below(&self, name: &[u8]) -> Node {
        let mut path = self.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Node { whose: self.whose, path }
    }

    /// Its number, not looking at what others have.
    pub fn number(&self) -> u64 {
        if *self == Node::ROOT {
            return ROOT;
        }
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish().max(FIRST)
    }
}

/// The root's.
pub const ROOT: u64 = 1;
/// The first of the others.
const FIRST: u64 = 2;

/// The nodes that the kernel knows by number, and how often it was given each.
#[derive(Debug, Default)]
pub struct Nodes(Mutex<HashMap<u64, (Arc<Node>, u64)>>);

impl Nodes {
    /// Tells the kernel this one: its number.
    pub fn tell(&self, node: Node) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = node.number();
        // Two nodes have the same number once in many thousand million.
        while known.get(&number).is_some_and(|(other, _)| **other != node) {
            number = number.wrapping_add(1).max(FIRST);
        }
        known.entry(number).or_insert_with(|| (Arc::new(node), 0)).1 += 1;
        number
    }

    /// The node of a number, unless the kernel has forgotten it.
    pub fn find(&self, number: u64) -> Option<Arc<Node>> {
        if number == ROOT {
            return Some(Arc::new(Node::ROOT));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&number).map(|(node, _)| node.clone())
    }

    /// The kernel drops this many of its references.
    pub fn forget(&self, number: u64, times: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, told)) = known.get_mut(&number) {
            *told = told.saturating_sub(times);
            if *told == 0 {
                known.remove(&number);
            }
        }
    }

    /// How many the kernel has.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_and_forgotten() {
        let nodes = Nodes::default();
        let process = |began| Node::top(Whose::Process(Process { pid: 7, began }));
        let (old, new) = (nodes.tell(process(1)), nodes.tell(process(2)));
        assert_ne!(old, new, "the id was given again");
        assert_eq!(nodes.tell(process(1)), old);
        nodes.forget(old, 1);
        assert_eq!(*nodes.find(old).unwrap(), process(1));
        nodes.forget(old, 1);
        assert!(nodes.find(old).is_none() && nodes.len() == 1);
        nodes.forget(old, 1);
        assert_eq!(nodes.tell(process(1)), old, "the same again");
        assert_eq!(*nodes.find(ROOT).unwrap(), Node::ROOT);
        let stat = process(1).below(b"task").below(b"7");
        assert_eq!(stat.path, b"task/7");
    }
}
