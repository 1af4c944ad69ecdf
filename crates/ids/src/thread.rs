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

impl Tid {
    /// The ids of threads that the host does not know. They lie above every id the host gives (PID_MAX_LIMIT, 2^22) and
    /// below what an encoded CPU clock has room for (2^28, `MAKE_THREAD_CPUCLOCK` of the C library and the host), which is
    /// also below the bits that futex words keep for themselves (2^30).
    pub const OURS: core::ops::Range<i32> = 1 << 22..1 << 28;

    /// Whether the host does not know this id, so that it does not notice when the thread ends.
    pub fn is_ours(self) -> bool {
        Tid::OURS.contains(&self.0)
    }
}

/// A process id as programs see it (`getpid(2)`): the host's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pid(pub i32);
