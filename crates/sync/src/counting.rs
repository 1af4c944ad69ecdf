//! Atomics that note the address of every write, thread by thread: the counting build (`--cfg counting`), which
//! shows what a path through the code writes.

use std::cell::RefCell;
use std::vec::Vec;

pub use core::sync::atomic::{AtomicPtr, Ordering, fence};

std::thread_local! {
    static WRITES: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// Runs `run` and returns the addresses that this thread wrote in it, in order.
pub fn writes<T>(run: impl FnOnce() -> T) -> (T, Vec<usize>) {
    WRITES.with(|all| *all.borrow_mut() = Some(Vec::new()));
    let result = run();
    (result, WRITES.with(|all| all.borrow_mut().take()).unwrap_or_default())
}

fn note<T>(at: &T) {
    WRITES.with(|all| {
        if let Some(all) = all.borrow_mut().as_mut() {
            all.push(core::ptr::from_ref(at) as usize);
        }
    });
}

macro_rules! counted {
    ($($name:ident $value:ty { $($extra:ident),* })*) => {$(
        /// The processor's, with its writes noted.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(core::sync::atomic::$name);

        #[allow(missing_docs)]
        impl $name {
            pub const fn new(value: $value) -> $name {
                $name(core::sync::atomic::$name::new(value))
            }
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }
            pub fn store(&self, value: $value, order: Ordering) {
                note(self);
                self.0.store(value, order);
            }
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note(self);
                self.0.swap(value, order)
            }
            pub fn compare_exchange(&self, a: $value, b: $value, yes: Ordering, no: Ordering) -> Result<$value, $value> {
                note(self);
                self.0.compare_exchange(a, b, yes, no)
            }
            pub fn compare_exchange_weak(&self, a: $value, b: $value, yes: Ordering, no: Ordering) -> Result<$value, $value> {
                note(self);
                self.0.compare_exchange_weak(a, b, yes, no)
            }
            pub fn fetch_update(&self, yes: Ordering, no: Ordering, f: impl FnMut($value) -> Option<$value>) -> Result<$value, $value> {
                note(self);
                self.0.fetch_update(yes, no, f)
            }
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
            $(
                pub fn $extra(&self, value: $value, order: Ordering) -> $value {
                    note(self);
                    self.0.$extra(value, order)
                }
            )*
        }
    )*};
}

counted! {
    AtomicBool bool { fetch_and, fetch_or, fetch_xor }
    AtomicI32 i32 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicI64 i64 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicU8 u8 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicU16 u16 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicU32 u32 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicU64 u64 { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
    AtomicUsize usize { fetch_add, fetch_sub, fetch_and, fetch_or, fetch_min, fetch_max }
}
