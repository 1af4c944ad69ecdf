//! The code to be patched, and what is known about it.

use core::ops::Range;

/// Addresses of one function's code.
pub type Function = Range<u64>;

/// Where functions begin and end. Decoding starts only there: at any other byte it might
/// see instructions that do not exist.
pub trait Functions {
    /// The last function that begins at or before `address`, and the address where the
    /// next one begins (`u64::MAX` if there is none).
    fn last_from(&self, address: u64) -> Option<(Function, u64)>;

    /// Visits addresses that other objects may jump to: the exported functions.
    fn entries(&self, visit: &mut dyn FnMut(u64));
}

/// Functions in the order of their addresses, all of them exported.
impl Functions for [Function] {
    fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        let after = self.partition_point(|function| function.start <= address);
        let function = self.get(after.checked_sub(1)?)?.clone();
        Some((function, self.get(after).map_or(u64::MAX, |next| next.start)))
    }

    fn entries(&self, visit: &mut dyn FnMut(u64)) {
        self.iter().for_each(|function| visit(function.start));
    }
}

impl<const N: usize> Functions for [Function; N] {
    fn last_from(&self, address: u64) -> Option<(Function, u64)> {
        self.as_slice().last_from(address)
    }

    fn entries(&self, visit: &mut dyn FnMut(u64)) {
        self.as_slice().entries(visit);
    }
}

/// One executable segment as it lies in memory.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The run-time address of the first of them.
    pub address: u64,
    /// The functions in them.
    pub functions: &'a dyn Functions,
    /// The object's read-only data, where compilers put the tables of `switch`: run-time
    /// address and bytes of each segment.
    pub data: &'a [(u64, &'a [u8])],
}

impl<'a> Code<'a> {
    /// Offset of `address` into the bytes.
    pub(crate) fn offset(&self, address: u64) -> Option<usize> {
        let offset = address.checked_sub(self.address)?;
        (offset < self.bytes.len() as u64).then_some(offset as usize)
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.offset(address).is_some()
    }

    /// The bytes from `address` to the end of the segment.
    pub(crate) fn from(&self, address: u64) -> Option<&'a [u8]> {
        self.bytes.get(self.offset(address)?..)
    }

    /// A signed 32-bit number in the read-only data.
    pub(crate) fn data_i32(&self, address: u64) -> Option<i32> {
        self.data.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            Some(i32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
        })
    }
}

/// Facts about the code that follows a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// A C library or dynamic loader: a function that makes a system call passes no
    /// vector register on to a function that it calls, and returns none.
    LibC,
    /// Anything: beyond a call, a return or an indirect jump the registers count as read, and a function with an indirect jump
    /// is left alone, because its tables may be of any kind.
    Unknown,
}
