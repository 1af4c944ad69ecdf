//! Why a thread must enter the slow path before it returns to user code: bits of [`Thread::hint`](crate::thread::Thread::hint).

/// A signal may be deliverable.
pub const SIGNAL: u32 = 1;
/// The process is ending: the thread must not continue.
pub const EXIT: u32 = 2;
/// Signals may have arrived that the thread must receive first.
pub const ARRIVALS: u32 = 4;
/// A signal has arrived that the thread blocks and that its descriptors may read: a wait for descriptors starts over.
pub const FOR_DESCRIPTORS: u32 = 8;
/// The result of a call says how to restart, though nobody may have sent the thread a signal. Without [`SIGNAL`] it takes
/// none that is pending for the process: another thread has been notified of it.
pub const RESTART: u32 = 16;
