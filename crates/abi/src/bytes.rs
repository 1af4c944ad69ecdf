//! Plain data in bytes: little-endian numbers, and arrays and structures of them.
//!
//! Offsets are constants of the layouts in this crate, so an offset outside the buffer is a bug and panics.

/// A value with one form in memory.
pub trait Plain: Copy {
    /// Its length in bytes.
    const LEN: usize;

    /// Reads the value that `b` begins with.
    fn get(b: &[u8]) -> Self;

    /// Writes it to where `b` begins. What belongs to no field stays.
    fn put(self, b: &mut [u8]);

    /// Reads it from a buffer of its length, which `fill` fills.
    fn fetch<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E>;

    /// Gives its bytes to `to`.
    fn give<R>(self, to: impl FnOnce(&[u8]) -> R) -> R;
}

/// The two functions that need a buffer of the value's own length.
macro_rules! buffered {
    ($size:expr) => {
        #[inline]
        fn fetch<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
            let mut b = [0; $size];
            fill(&mut b)?;
            Ok(crate::bytes::Plain::get(&b))
        }

        #[inline]
        fn give<R>(self, to: impl FnOnce(&[u8]) -> R) -> R {
            let mut b = [0; $size];
            crate::bytes::Plain::put(self, &mut b);
            to(&b)
        }
    };
}

macro_rules! numbers {
    ($($t:ty)*) => {
        $(impl Plain for $t {
            const LEN: usize = size_of::<$t>();

            #[inline]
            fn get(b: &[u8]) -> $t {
                let mut n = [0; size_of::<$t>()];
                n.copy_from_slice(&b[..size_of::<$t>()]);
                <$t>::from_le_bytes(n)
            }

            #[inline]
            fn put(self, b: &mut [u8]) {
                b[..size_of::<$t>()].copy_from_slice(&self.to_le_bytes());
            }

            buffered!(size_of::<$t>());
        })*
    };
}

numbers!(u8 u16 i32 u32 i64 u64);

/// Arrays that are passed alone are no longer.
const ARRAY_MAX: usize = 64;

impl<T: Plain, const N: usize> Plain for [T; N] {
    const LEN: usize = N * T::LEN;

    #[inline]
    fn get(b: &[u8]) -> [T; N] {
        core::array::from_fn(|i| T::get(&b[i * T::LEN..]))
    }

    #[inline]
    fn put(self, b: &mut [u8]) {
        for (i, value) in self.into_iter().enumerate() {
            value.put(&mut b[i * T::LEN..]);
        }
    }

    #[inline]
    fn fetch<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut b = [0; ARRAY_MAX];
        fill(&mut b[..Self::LEN])?;
        Ok(Self::get(&b))
    }

    #[inline]
    fn give<R>(self, to: impl FnOnce(&[u8]) -> R) -> R {
        let mut b = [0; ARRAY_MAX];
        self.put(&mut b);
        to(&b[..Self::LEN])
    }
}

/// The number at offset `at`.
#[inline]
pub fn get_u32(b: &[u8], at: usize) -> u32 {
    u32::get(&b[at..])
}

/// The number at offset `at`.
#[inline]
pub fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::get(&b[at..])
}

/// Stores a number at offset `at`.
#[inline]
pub fn put_u64(b: &mut [u8], at: usize, v: u64) {
    v.put(&mut b[at..]);
}

/// The layout of a structure: its size in memory, and the offset of each field. What belongs to no field is written as
/// zero.
macro_rules! layout {
    ($name:ident: $size:literal { $($at:literal $field:ident),* $(,)? }) => {
        impl $name {
            /// The size in memory.
            pub const SIZE: usize = $size;
            /// Whether it lies in memory as it does in bytes, which only `repr(C)` promises.
            pub const IS_AS_IN_C: bool =
                size_of::<$name>() == $size $(&& core::mem::offset_of!($name, $field) == $at)*;

            /// Reads the structure.
            pub fn from_bytes(b: &[u8; $size]) -> $name {
                crate::bytes::Plain::get(b)
            }

            /// Writes the structure.
            pub fn to_bytes(&self) -> [u8; $size] {
                let mut b = [0; $size];
                crate::bytes::Plain::put(*self, &mut b);
                b
            }
        }

        impl crate::bytes::Plain for $name {
            const LEN: usize = $size;

            #[inline]
            fn get(b: &[u8]) -> $name {
                $name { $($field: crate::bytes::Plain::get(&b[$at..])),* }
            }

            #[inline]
            fn put(self, b: &mut [u8]) {
                $(crate::bytes::Plain::put(self.$field, &mut b[$at..]);)*
            }

            crate::bytes::buffered!($size);
        }
    };
}

/// A number with a type of its own.
macro_rules! plain_number {
    ($name:ident) => {
        impl crate::bytes::Plain for $name {
            const LEN: usize = 8;

            #[inline]
            fn get(b: &[u8]) -> $name {
                $name(crate::bytes::Plain::get(b))
            }

            #[inline]
            fn put(self, b: &mut [u8]) {
                crate::bytes::Plain::put(self.0, b);
            }

            crate::bytes::buffered!(8);
        }
    };
}

use ids::Nanos;
plain_number!(Nanos);

pub(crate) use {buffered, layout, plain_number};
