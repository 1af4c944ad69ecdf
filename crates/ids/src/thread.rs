use core::fmt;

/// The most threads one process may have at a time (slots, not ids).
pub const THREADS_MAX: usize = 1 << 20;

/// The dense number of a thread's slot in the thread table: `0 .. THREADS_MAX`.
///
/// Slots are reused after a thread is gone; a [`Tid`] is what programs see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIdx(pub u32);

impl ThreadIdx {
    /// A value no thread has: the end of an index list.
    pub const NONE: ThreadIdx = ThreadIdx(u32::MAX);

    /// The slot as an array index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this names a slot at all.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        self.0 != u32::MAX
    }
}

impl fmt::Debug for ThreadIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_some() { write!(f, "t{}", self.0) } else { f.write_str("t-") }
    }
}

/// A thread id as programs see it (`gettid(2)`). The main thread's equals its [`Pid`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub i32);

/// A process id as programs see it (`getpid(2)`): the host's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pid(pub i32);
