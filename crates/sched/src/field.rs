//! Fields with one writer at a time and any number of readers.
//!
//! `entity.rs` says who owns an entity's fields. The owner's lock orders the accesses, so each is a relaxed atomic: a
//! plain load or store for the processor.

use sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

macro_rules! field {
    ($name:ident, $atomic:ty, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name($atomic);

        impl $name {
            #[inline(always)]
            pub(crate) fn get(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }
            #[inline(always)]
            pub(crate) fn set(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> $name {
                $name(<$atomic>::new(value))
            }
        }
    };
}

field!(FieldU8, AtomicU8, u8);
field!(FieldU32, AtomicU32, u32);
field!(FieldU64, AtomicU64, u64);
field!(FieldI64, AtomicI64, i64);

impl FieldU32 {
    /// Adds one, as the owner: not atomic.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.set(self.get().wrapping_add(1));
    }
}

impl FieldU64 {
    /// Adds, as the owner: not atomic.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
}
