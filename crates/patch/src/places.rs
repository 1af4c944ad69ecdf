//! Where a patched call is: addresses in the program and in the stubs, both ways.
//!
//! A program may inspect where it was interrupted: unwinders search the function's frame description, and newer C
//! libraries check whether a cancelled thread is before or after its `syscall`. So signal frames show the corresponding
//! address in the program's own code, and on the way back that is translated into the stub's again.
//!
//! ```text
//!   program                          stub
//!     instructions before  ◄──────►    the same, moved
//!     syscall              ◄──────►    mov $library, %r11d … jmp *slot(%rip), any of them
//!     instruction after    ◄──────►    back: (only if instructions after it moved)
//! ```
//!
//! Inside the moved instructions behind `back` there is no correspondence: no thread waits there.

use crate::site::{SYSCALL_LEN, Site};
use crate::stub::Stub;
use alloc::borrow::Cow;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// The patched sites of one piece of code, in the order of addresses, which is that of their stubs too.
#[derive(Debug)]
pub struct Places {
    text: u64,
    stubs: u64,
    list: Cow<'static, [Record]>,
}

/// A place as it is kept, in memory and in files: its fields in their order, little-endian. Five hundred take 6 KiB.
type Record = [u8; RECORD_LEN];
/// Bytes of a record.
pub const RECORD_LEN: usize = 12;

/// Offsets from the beginning of the code and of the stubs.
#[derive(Clone, Copy, Debug)]
struct Place {
    syscall: u32,
    stub: u32,
    /// Lengths: what is replaced before the `syscall`, and behind it.
    before: u8,
    after: u8,
    /// Within the stub: the part that enters the kernel, the way back, the end. Without
    /// moved instructions the way back is the end.
    call: u8,
    len: u8,
}

impl Place {
    fn of(record: &Record) -> Place {
        let [a, b, c, d, e, f, g, h, before, after, call, len] = *record;
        let (syscall, stub) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        Place { syscall, stub, before, after, call, len }
    }

    fn record(self) -> Record {
        let ([a, b, c, d], [e, f, g, h]) = (self.syscall.to_le_bytes(), self.stub.to_le_bytes());
        [a, b, c, d, e, f, g, h, self.before, self.after, self.call, self.len]
    }
}

impl Places {
    /// Reads what [`Places::records`] wrote, for code and stubs that begin at these addresses, in the same order.
    #[must_use]
    pub fn recorded(text: u64, stubs: u64, records: &'static [u8]) -> Places {
        Places { text, stubs, list: Cow::Borrowed(records.as_chunks().0) }
    }

    /// All places as bytes, independent of the addresses of code and stubs.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        self.list.as_flattened()
    }

    /// None yet, for code and stubs that begin at these addresses.
    ///
    /// # Errors
    /// No memory for that many.
    pub fn new(text: u64, stubs: u64, sites: usize) -> Result<Places, TryReserveError> {
        let mut list = Vec::new();
        list.try_reserve_exact(sites)?;
        Ok(Places { text, stubs, list: Cow::Owned(list) })
    }

    /// For debuggers: where the code and the stubs begin, where the list lies, and how long it is. The list is complete.
    #[must_use]
    pub fn raw(&self) -> [u64; 4] {
        [self.text, self.stubs, self.list.as_ptr() as u64, self.list.len() as u64]
    }

    /// Adds the next site, whose stub has been written to `stub`. False if it lies out of reach or order.
    #[must_use]
    pub fn add(&mut self, site: &Site, stub: u64, written: &Stub) -> bool {
        let offset = |address: u64, base: u64| address.checked_sub(base).and_then(|at| u32::try_from(at).ok());
        let (Some(syscall), Some(at)) = (offset(site.syscall_at(), self.text), offset(stub, self.stubs)) else {
            return false;
        };
        let ordered = self.list.last().map(Place::of).is_none_or(|last| last.syscall < syscall && last.stub < at);
        let Cow::Owned(list) = &mut self.list else { return false };
        if ordered && list.len() < list.capacity() {
            let (call, len) = (written.call as u8, written.back as u8);
            list.push(Place { syscall, stub: at, before: site.before, after: site.after, call, len }.record());
        }
        ordered
    }

    /// The program's place for an address in a stub; `None` for all other addresses.
    pub fn seen(&self, address: u64) -> Option<u64> {
        let at = u32::try_from(address.checked_sub(self.stubs)?).ok()?;
        let place = Place::of(self.list[..self.list.partition_point(|p| Place::of(p).stub <= at)].last()?);
        let (syscall, inside) = (self.text + u64::from(place.syscall), at - place.stub);
        if inside < u32::from(place.call) {
            // Moved instructions before the call keep their lengths.
            (place.call == place.before).then(|| syscall - u64::from(place.before) + u64::from(inside))
        } else if inside < u32::from(place.len) {
            Some(syscall)
        } else {
            (inside == u32::from(place.len) && place.after > 0).then(|| syscall + SYSCALL_LEN as u64)
        }
    }

    /// The address of the `syscall` of the call that returns to `return_to`.
    pub fn call_before(&self, return_to: u64) -> Option<u64> {
        if let Some(behind) = self.seen(return_to) {
            return Some(behind - SYSCALL_LEN as u64);
        }
        let syscall = return_to.checked_sub(SYSCALL_LEN as u64)?;
        self.at(syscall).filter(|place| place.after == 0).map(|_| syscall)
    }

    /// Where to continue if `address` is in program code whose bytes have been replaced; `None` for all other
    /// addresses.
    pub fn real(&self, address: u64) -> Option<u64> {
        if let Some(place) = self.at(address) {
            return Some(self.stubs + u64::from(place.stub) + u64::from(place.call));
        }
        let behind = self.at(address.checked_sub(SYSCALL_LEN as u64)?).filter(|place| place.after > 0);
        if let Some(place) = behind {
            return Some(self.stubs + u64::from(place.stub) + u64::from(place.len));
        }
        let at = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let place = Place::of(self.list.get(self.list.partition_point(|p| Place::of(p).syscall < at))?);
        let to_go = place.syscall - at;
        let inside = to_go <= u32::from(place.before) && place.call == place.before;
        inside.then(|| self.stubs + u64::from(place.stub + u32::from(place.before) - to_go))
    }

    fn at(&self, syscall: u64) -> Option<Place> {
        let at = u32::try_from(syscall.checked_sub(self.text)?).ok()?;
        self.list
            .binary_search_by_key(&at, |place| Place::of(place).syscall)
            .ok()
            .map(|index| Place::of(&self.list[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::site::Form;
    use crate::stub::{STUB_LEN_MAX, Slots, emit_stub};

    const TEXT: u64 = 0x40_0000;
    const STUBS: u64 = 0x50_0000;

    /// `mov $0,%eax; syscall; ret`, and `syscall; cmp $-4095,%rax; ret` a hundred bytes on.
    fn places() -> (Places, [Stub; 2]) {
        let mut bytes = [0x90; 200];
        bytes[..8].copy_from_slice(&[0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        bytes[100..109].copy_from_slice(&[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3]);
        let code =
            Code { address: TEXT, bytes: &bytes, functions: &[TEXT..TEXT + 8, TEXT + 100..TEXT + 109], data: &[] };
        let slots = Slots { vectors_dead: STUBS, vectors_live: STUBS + 8 };
        let site = |at: u64, before, after, form| Site {
            address: TEXT + at,
            before,
            after,
            form,
            vectors_dead: true,
            number: None,
        };
        let mut places = Places::new(TEXT, STUBS, 2).unwrap();
        let mut written = Vec::new();
        for (i, site) in [site(0, 5, 0, Form::Number), site(100, 0, 6, Form::After)].iter().enumerate() {
            let at = STUBS + 64 + 64 * i as u64;
            let stub = emit_stub(site, &code, at, slots, 1, &mut [0; STUB_LEN_MAX]).unwrap();
            assert!(places.add(site, at, &stub));
            written.push(stub);
        }
        (places, [written[0], written[1]])
    }

    #[test]
    fn every_place_that_a_frame_shows_leads_back() {
        let (places, _) = places();
        for stub in STUBS..STUBS + 300 {
            let Some(seen) = places.seen(stub) else { continue };
            let back = places.real(seen).expect("a shown place is known");
            // Setting r11 and rcx is simply done again.
            assert!(back <= stub && places.seen(back) == Some(seen), "{stub:#x} {seen:#x} {back:#x}");
        }
    }

    #[test]
    fn calls_are_seen_where_the_program_has_them() {
        let (places, [number, after]) = places();
        let (first, second) = (STUBS + 64, STUBS + 128);
        // Within the moved instruction, at the call, and at its last instruction.
        assert_eq!(places.seen(first), Some(TEXT));
        assert_eq!(places.seen(first + 5), Some(TEXT + 5));
        assert_eq!(places.seen(first + number.len as u64 - 6), Some(TEXT + 5));
        assert_eq!(places.seen(second), Some(TEXT + 100));
        // The way back, where instructions have moved behind the call.
        assert_eq!(places.seen(after.return_to), Some(TEXT + 102));
        assert_eq!(places.real(TEXT + 102), Some(after.return_to));
        // Interrupted, and to start over.
        assert_eq!(number.return_to, TEXT + 7);
        assert_eq!(places.call_before(number.return_to), Some(TEXT + 5));
        assert_eq!(places.call_before(after.return_to), Some(TEXT + 100));
        assert_eq!(places.real(TEXT + 100), Some(second));
    }

    #[test]
    fn records_hold_wherever_code_and_stubs_are() {
        let (places, _) = places();
        let records: &'static [u8] = places.records().to_vec().leak();
        let moved = Places::recorded(TEXT + 0x7000, STUBS + 0x7000, records);
        let seen = |places: &Places, by: u64| {
            (STUBS..STUBS + 300)
                .map(|stub| places.seen(stub + by).map(|place| (place - by, places.real(place).map(|back| back - by))))
                .collect::<Vec<_>>()
        };
        assert!(seen(&places, 0).iter().flatten().count() > 40);
        assert_eq!(seen(&moved, 0x7000), seen(&places, 0));
    }

    #[test]
    fn other_addresses_are_nobodys() {
        let (places, [number, after]) = places();
        for address in [0, TEXT - 1, TEXT + 7, TEXT + 99, TEXT + 103, TEXT + 108, STUBS - 1, u64::MAX] {
            assert_eq!((places.seen(address), places.real(address)), (None, None), "{address:#x}");
            assert_eq!(places.call_before(address).filter(|_| address != number.return_to), None, "{address:#x}");
        }
        // Behind the stubs, and among moved instructions.
        assert_eq!(places.seen(STUBS + 64 + number.len as u64), None);
        assert_eq!(places.seen(after.return_to + 1), None);
        assert_eq!(places.seen(STUBS), None);
    }
}
