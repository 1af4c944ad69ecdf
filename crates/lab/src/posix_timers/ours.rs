//! Ours ([`time::posix`]), behind the laboratory's trait.

use crate::posix_timers::TimerIds;
use alloc::vec::Vec;
use ids::{CpuId, Nanos};
use time::OutOfMemory;
use time::posix::{Base, IdSearch, NotReserved, Notify, PosixTimers, Reserved, Timer};

/// A table per process.
#[derive(Debug)]
pub struct Ours {
    processes: Vec<PosixTimers>,
}

impl Ours {
    /// For this many processes on this many CPUs.
    pub fn new(processes: usize, cpus: usize) -> Result<Ours, OutOfMemory> {
        Ok(Ours { processes: (0..processes).map(|_| PosixTimers::new(cpus)).collect::<Result<_, _>>()? })
    }

    fn make(&self, process: usize, wanted: Option<u32>, cpu: CpuId) -> Option<u32> {
        let timers = &self.processes[process];
        let mut search = IdSearch::default();
        let reserved: Reserved = loop {
            match timers.table.reserve(wanted, cpu, &mut search) {
                Ok(reserved) => break reserved,
                Err(NotReserved::More) => {}
                Err(NotReserved::Refused(_)) => return None,
            }
        };
        let timer = Timer::new(Base::Monotonic, Notify::DEFAULT, 0, 1);
        timers.publish(reserved, timer, Nanos::ZERO).ok()?;
        Some(reserved.id)
    }
}

impl TimerIds for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn create(&self, process: usize, cpu: CpuId) -> Option<u32> {
        self.make(process, None, cpu)
    }

    fn create_exact(&self, process: usize, id: u32) -> Option<u32> {
        self.make(process, Some(id), CpuId(0))
    }

    fn look_up(&self, process: usize, id: u32) -> bool {
        self.processes[process].table.overrun(id as i32).is_ok()
    }

    fn delete(&self, process: usize, id: u32) -> bool {
        self.processes[process].delete(id as i32, None).is_ok()
    }

    fn index_bytes(&self) -> usize {
        self.processes.iter().map(|timers| timers.table.index_bytes()).sum()
    }
}
