//! Memory for stubs, within reach of the code that jumps to them.

use abi::args::{MAP_FIXED_NOREPLACE, MAP_PRIVATE_ANONYMOUS, PROT_READ_WRITE};
use arch::{entry, syscall};
use core::ops::Range;
use host::os;
use patch::{Code, STUB_LEN_MAX, Slots};

pub(crate) const PAGE: u64 = 4096;
/// The bytes before the first stub.
const HEAD: u64 = 64;
/// A jump reaches 2 GiB; the lengths of code and stubs are less than the difference.
const REACH: u64 = 1 << 30;

/// Writes the entries' addresses for stubs; first the entry that does not save vector registers.
///
/// # Safety
/// Two words there are the caller's to write.
pub(crate) unsafe fn write_slots(at: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        (at as *mut u64).write(entry::entresol_entry_call as *const () as u64);
        (at as *mut u64).add(1).write(entry::entresol_entry_vectors as *const () as u64);
    }
}

/// Pages within reach of one or more pieces of code: two words with the entries' addresses, then stubs. They are writable
/// until [`crate::text::change`] makes them executable, and go when they are dropped and no code leads there.
pub(crate) struct StubArea {
    base: u64,
    len: u64,
    used: u64,
    /// Whether the pages are executable already.
    pub(crate) is_sealed: bool,
    /// Whether any code leads to the stubs.
    pub(crate) is_led_to: bool,
}

impl Drop for StubArea {
    fn drop(&mut self) {
        if !self.is_led_to {
            // SAFETY: nothing leads there.
            unsafe { os::unmap(self.base as *mut u8, self.len as usize) };
        }
    }
}

impl StubArea {
    pub(crate) fn near(code: &Code<'_>, stubs: usize) -> Option<StubArea> {
        let len = (HEAD + (stubs * STUB_LEN_MAX) as u64).next_multiple_of(PAGE);
        // The host maps from the top down, so its choice is nearly always near enough.
        let chosen = Self::map(0, len, 0).filter(|&base| {
            let near = base.abs_diff(code.address) < REACH;
            if !near {
                // SAFETY: mapped just now.
                unsafe { os::unmap(base as *mut u8, len as usize) };
            }
            near
        });
        let base = chosen.or_else(|| Self::search(code, len))?;
        // SAFETY: fresh pages.
        unsafe { write_slots(base) };
        Some(StubArea { base, len, used: HEAD, is_sealed: false, is_led_to: false })
    }

    /// Whether a jump from this code reaches the area, and so many more stubs fit.
    pub(crate) fn serves(&self, code: &Code<'_>, stubs: usize) -> bool {
        self.base.abs_diff(code.address) < REACH && self.used + (stubs * STUB_LEN_MAX) as u64 <= self.len
    }

    /// The nearest free place, below if possible: above a program, its heap grows.
    #[cold]
    fn search(code: &Code<'_>, len: u64) -> Option<u64> {
        let below = code.address & !(PAGE - 1);
        let above = (code.address + code.bytes.len() as u64).next_multiple_of(PAGE);
        let steps = || (1..4096u64).map(|i| i * 64 * 1024);
        let mut places =
            steps().map_while(|step| below.checked_sub(step + len)).chain(steps().map(|step| above + step));
        places.find(|&base| match Self::map(base, len, MAP_FIXED_NOREPLACE) {
            Some(at) if at == base => true,
            // An old host ignores the flag and maps elsewhere.
            Some(other) => {
                // SAFETY: mapped just now.
                unsafe { os::unmap(other as *mut u8, len as usize) };
                false
            }
            None => false,
        })
    }

    fn map(at: u64, len: u64, flag: u64) -> Option<u64> {
        let flags = MAP_PRIVATE_ANONYMOUS | flag;
        // SAFETY: only takes a place that is free.
        let p = unsafe { syscall!(abi::nr::MMAP, at, len, PROT_READ_WRITE, flags, usize::MAX, 0) };
        u64::try_from(p).ok()
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The range of its pages.
    pub(crate) fn pages(&self) -> Range<u64> {
        self.base..self.base + self.len
    }

    /// How many of its bytes are in use.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn slots(&self) -> Slots {
        Slots { vectors_dead: self.base, vectors_live: self.base + 8 }
    }

    /// The address of the next stub.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.used
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        assert!(self.used + bytes.len() as u64 <= self.len);
        // SAFETY: within the area, which is writable until it is made executable.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next() as *mut u8, bytes.len()) };
        self.used = (self.used + bytes.len() as u64).next_multiple_of(16);
    }
}
