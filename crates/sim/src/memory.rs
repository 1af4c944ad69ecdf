//! The simulated program's memory: pages that exist where something was mapped, and the
//! CPU that each cache line was written by last.

use ids::CpuId;
use kernel::Fault;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const PAGE: u64 = 4096;
/// Where allocation begins: address 0 and its neighbours are never mapped.
const HEAP: u64 = 0x10_0000;

/// Fibonacci hashing: the same in every run, unlike the standard one.
#[derive(Default, Debug)]
pub(crate) struct Fixed(u64);

impl Hasher for Fixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_i32(&mut self, n: i32) {
        self.write_u64(n as u64);
    }
}

/// A map whose order must not matter.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fixed>>;

/// The address space.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Map<u64, Box<[u8; PAGE as usize]>>,
    lines: Map<u64, CpuId>,
    next: u64,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { pages: Map::default(), lines: Map::default(), next: HEAP }
    }

    /// `len` zero bytes at an address that nobody had before, aligned to a cache line.
    pub(crate) fn allocate(&mut self, len: u64) -> u64 {
        let at = self.next;
        self.next += len.next_multiple_of(64);
        for page in at / PAGE..=(self.next - 1) / PAGE {
            self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
        }
        at
    }

    pub(crate) fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        for (i, byte) in to.iter_mut().enumerate() {
            let at = addr.checked_add(i as u64).ok_or(Fault)?;
            *byte = self.pages.get(&(at / PAGE)).ok_or(Fault)?[(at % PAGE) as usize];
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        for (i, &byte) in from.iter().enumerate() {
            let at = addr.checked_add(i as u64).ok_or(Fault)?;
            self.pages.get_mut(&(at / PAGE)).ok_or(Fault)?[(at % PAGE) as usize] = byte;
        }
        Ok(())
    }

    pub(crate) fn load_u32(&self, addr: u64) -> Result<u32, Fault> {
        if !addr.is_multiple_of(4) {
            let mut b = [0; 4];
            self.read(addr, &mut b)?;
            return Ok(u32::from_le_bytes(b));
        }
        let page = self.pages.get(&(addr / PAGE)).ok_or(Fault)?;
        let i = (addr % PAGE) as usize;
        Ok(u32::from_le_bytes([page[i], page[i + 1], page[i + 2], page[i + 3]]))
    }

    pub(crate) fn store_u32(&mut self, addr: u64, value: u32) -> Result<(), Fault> {
        self.write(addr, &value.to_le_bytes())
    }

    /// `cpu` writes the line of `addr`; returns the other CPU that had it.
    pub(crate) fn take_line(&mut self, addr: u64, cpu: CpuId) -> Option<CpuId> {
        self.lines.insert(addr / 64, cpu).filter(|before| *before != cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_mapped_faults() {
        let mut m = Memory::new();
        let a = m.allocate(8192);
        assert_eq!(m.load_u32(0), Err(Fault));
        assert_eq!(m.store_u32(a + 4094, 0x0403_0201), Ok(()));
        assert_eq!(m.load_u32(a + 4094), Ok(0x0403_0201));
        assert_eq!(m.read(u64::MAX, &mut [0; 2]), Err(Fault));
    }

    #[test]
    fn a_line_moves_between_writers() {
        let mut m = Memory::new();
        assert_eq!(m.take_line(64, CpuId(0)), None);
        assert_eq!(m.take_line(100, CpuId(0)), None);
        assert_eq!(m.take_line(127, CpuId(1)), Some(CpuId(0)));
    }
}
