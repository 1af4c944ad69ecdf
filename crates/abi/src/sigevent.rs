use crate::bytes::layout;

/// `struct sigevent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigEvent {
    /// `sigev_value`.
    pub value: u64,
    /// `sigev_signo`.
    pub signo: i32,
    /// `sigev_notify`.
    pub notify: i32,
    /// `sigev_notify_thread_id`, the first word of the union.
    pub tid: i32,
}

layout!(SigEvent: 64 { 0 value, 8 signo, 12 notify, 16 tid });

impl SigEvent {
    /// `SIGEV_SIGNAL`.
    pub const SIGNAL: i32 = 0;
    /// `SIGEV_NONE`.
    pub const NONE: i32 = 1;
    /// `SIGEV_THREAD`.
    pub const THREAD: i32 = 2;
    /// `SIGEV_THREAD_ID`.
    pub const THREAD_ID: i32 = 4;
}
