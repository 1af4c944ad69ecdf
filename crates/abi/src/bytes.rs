//! Little-endian numbers in byte buffers: how structures are read and written here.
//!
//! Offsets are constants of the layouts in this crate, so an offset outside the buffer
//! is a bug and panics.

macro_rules! number {
    ($get:ident, $put:ident, $t:ty) => {
        #[doc = concat!("The `", stringify!($t), "` at offset `at`.")]
        #[inline]
        pub fn $get(b: &[u8], at: usize) -> $t {
            let mut n = [0; size_of::<$t>()];
            n.copy_from_slice(&b[at..at + size_of::<$t>()]);
            <$t>::from_le_bytes(n)
        }

        #[doc = concat!("Stores a `", stringify!($t), "` at offset `at`.")]
        #[inline]
        pub fn $put(b: &mut [u8], at: usize, v: $t) {
            b[at..at + size_of::<$t>()].copy_from_slice(&v.to_le_bytes());
        }
    };
}

number!(get_u16, put_u16, u16);
number!(get_i32, put_i32, i32);
number!(get_u32, put_u32, u32);
number!(get_i64, put_i64, i64);
number!(get_u64, put_u64, u64);
