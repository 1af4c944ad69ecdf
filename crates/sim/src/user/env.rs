//! The interface of a step under way: requests to the kernel, and the memory it may touch.

use super::Program;
use crate::hardware;
use crate::machine::SimMachine;
use crate::memory::Map;
use ids::{CpuId, Nanos, Tid};
use kernel::{Access, Call, Machine};

/// The next thing a thread does in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Micro {
    /// Uses the CPU for this long.
    Run(Nanos),
    /// Uses the CPU until then.
    Until(Nanos),
    /// Makes a system call; its result is the next input.
    Call(Call),
    /// The step is done, with this result.
    Done(isize),
}

/// The state that a step in progress may touch.
pub(crate) struct Env<'a> {
    pub machine: &'a SimMachine,
    pub tid: Tid,
    pub pid: i32,
    pub cpu: CpuId,
    pub scratch: u64,
    /// CPU time of this thread so far.
    pub used: Nanos,
    /// The cost of the memory accesses so far.
    pub debt: u64,
    pub costs: (u64, u64),
    pub hardware: &'a hardware::State,
    pub children: &'a mut Children,
    pub owners: &'a mut Owners,
}

/// Programs of threads that are about to be made, by stack top; words of joiners by id.
#[derive(Default)]
pub(crate) struct Children {
    pub nursery: Map<u64, Box<dyn Program>>,
    pub words: Map<i32, u64>,
    /// Stacks of dead threads.
    pub stacks: Vec<(u64, u64)>,
}

/// Which thread is inside which mutex, as the programs see it.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    held: Map<u64, Tid>,
    /// The first time two threads were inside one mutex.
    pub broken: Option<String>,
}

impl Owners {
    pub(crate) fn enter(&mut self, mutex: u64, tid: Tid) {
        if let Some(other) = self.held.insert(mutex, tid) {
            self.broken.get_or_insert(format!("threads {} and {} are both in mutex {mutex:#x}", other.0, tid.0));
        }
    }

    pub(crate) fn leave(&mut self, mutex: u64, tid: Tid) {
        if self.held.remove(&mutex) != Some(tid) {
            self.broken.get_or_insert(format!("thread {} leaves mutex {mutex:#x}, which it is not in", tid.0));
        }
    }
}

/// The size of a simulated thread's stack; its low end is scratch memory for arguments.
pub(crate) const STACK: u64 = 16 << 10;

impl Env<'_> {
    pub(crate) fn load(&mut self, addr: u64) -> u32 {
        self.machine.word(addr, Access::Load).unwrap_or_else(|_| panic!("{addr:#x} is not mapped"))
    }

    /// An atomic read-modify-write by user code; gives the old value.
    pub(crate) fn update(&mut self, addr: u64, new: impl FnOnce(u32) -> Option<u32>) -> u32 {
        let mut inner = self.machine.inner.lock();
        let before = inner.memory.take_line(addr, self.cpu);
        let (atomic, line) = self.costs;
        self.debt += atomic + before.map_or(0, |before| self.hardware.line(before, self.cpu, line));
        let old = inner.memory.load_u32(addr).unwrap_or_else(|_| panic!("{addr:#x} is not mapped"));
        if let Some(new) = new(old) {
            let lie = self.machine.lying_cas.load(sync::atomic::Ordering::Relaxed);
            if lie > 0 {
                self.machine.lying_cas.store(lie - 1, sync::atomic::Ordering::Relaxed);
            } else {
                inner.memory.store_u32(addr, new).expect("just loaded from there");
            }
        }
        old
    }
}
