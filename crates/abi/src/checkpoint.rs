//! Private system calls about time beyond Linux, and their records. Outside Entresol the
//! calls return ENOSYS, like all unknown numbers.
//!
//! Records are words of 64 bits, or two halves of one. `docs/CHECKPOINT.md` has the JSON
//! form; a change here needs a new [`VERSION`].
//!
//! The header for C is generated from this file (`packaging/header`), comments included: those of the constants and of the
//! two records that it has are for readers of both languages.

use crate::bytes::layout;
use ids::Nanos;

/// The version of the records below.
pub const VERSION: u64 = 1;
/// The most records that one call handles.
pub const RECORDS_MAX: usize = 64;

/// The private calls' numbers.
pub mod call {
    /// (struct entresol_timer *timers, size_t count, uint64_t *cursor, int flags): copies up to count timers from *cursor
    /// on, which begins at 0 and ends as ENTRESOL_END. With ENTRESOL_TAKE the timers are deleted in the same step: a signal
    /// is either delivered before or in the record. Returns the number of timers; it may be 0 before the end.
    pub const TIMERS_COPY: usize = 0x0e57_0010;
    /// (const struct entresol_timer *timers, size_t count): makes timers with these ids, clocks and notifications,
    /// disarmed. Returns the number made, or the error of the first if that is 0.
    pub const TIMERS_MAKE: usize = 0x0e57_0011;
    /// (const struct entresol_timer *timers, size_t count): continues timers where they were. Returns the number.
    pub const TIMERS_START: usize = 0x0e57_0012;
    /// (id): the next timer's id.
    pub const TIMERS_NEXT_ID: usize = 0x0e57_0013;
    /// (struct entresol_process *process): copies what belongs to the process. Returns ENTRESOL_VERSION.
    pub const PROCESS_TIME: usize = 0x0e57_0014;
    /// The first and the last.
    pub const ALL: core::ops::RangeInclusive<usize> = TIMERS_COPY..=PROCESS_TIME;
}

/// To ENTRESOL_TIMERS_COPY: delete them.
pub const TAKE: u64 = 1;
/// The cursor at the end.
pub const END: u64 = u64::MAX;

/// Flags of a timer.
pub mod timer_flag {
    /// It runs: `expires` means something.
    pub const RUNS: u32 = 1;
    /// Its signal was on its way.
    pub const PENDING: u32 = 2;
    /// Set with TIMER_ABSTIME.
    pub const ABSOLUTE: u32 = 4;
}

/// One POSIX timer.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimerRecord {
    /// Its id.
    pub id: i32,
    /// Its clock, as `timer_create(2)` was given it.
    pub clock: i32,
    /// `sigev_notify`.
    pub notify: i32,
    /// `sigev_signo`.
    pub signo: i32,
    /// The thread that gets the signal, for SIGEV_THREAD_ID.
    pub tid: i32,
    /// RUNS, PENDING, ABSOLUTE.
    pub flags: u32,
    /// `sigev_value`.
    pub value: u64,
    /// Its period.
    pub interval: Nanos,
    /// When it expires, by its clock; relative CLOCK_REALTIME settings count on CLOCK_MONOTONIC.
    pub expires: Nanos,
    /// The clock's reading.
    pub now: Nanos,
    /// Periods counted towards the next signal, less one.
    pub overrun: i64,
    /// The answer of `timer_getoverrun(2)`.
    pub overrun_last: i64,
    /// When it was created, on a clock of Entresol's own: listings show the newest first.
    pub created: Nanos,
    /// The thread whose CPU clock it is on, or 0.
    pub clock_tid: i32,
}

layout!(TimerRecord: 88 {
    0 id, 4 clock, 8 notify, 12 signo, 16 tid, 20 flags, 24 value, 32 interval, 40 expires, 48 now, 56 overrun,
    64 overrun_last, 72 created, 80 clock_tid,
});

/// Time of the whole process.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProcessRecord {
    /// Its id.
    pub pid: i32,
    /// The id that the next timer gets.
    pub next_id: u32,
    /// Not 0: exact ids are asked for.
    pub restoring: u64,
    /// CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI.
    pub clocks: [Nanos; 4],
    /// CLOCK_PROCESS_CPUTIME_ID, user time, system time.
    pub cpu: [Nanos; 3],
    /// ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF: the remaining time and the period.
    pub itimers: [[Nanos; 2]; 3],
    /// RLIMIT_CPU (seconds), RLIMIT_RTTIME (microseconds), each soft and hard, as `getrlimit(2)` says.
    pub limits: [[u64; 2]; 2],
    /// The soft RLIMIT_SIGPENDING.
    pub sigpending: u64,
}

layout!(ProcessRecord: 160 {
    0 pid, 4 next_id, 8 restoring, 16 clocks, 48 cpu, 72 itimers, 120 limits, 152 sigpending,
});

// The generated header declares them by their fields.
const _: () = assert!(TimerRecord::IS_AS_IN_C && ProcessRecord::IS_AS_IN_C);

/// CPU time of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadRecord {
    /// Its id.
    pub tid: i32,
    /// CLOCK_THREAD_CPUTIME_ID, user time, system time.
    pub cpu: [Nanos; 3],
}

layout!(ThreadRecord: 32 { 0 tid, 8 cpu });

/// The protocol of a request to a process and of its answer: a signal that is ignored by default, with a value that
/// names a socket on which the requester listens. The process connects and sends the descriptor of a file. The file has
/// items, each a kind and a size in bytes (32 bits each), followed by that many bytes.
pub mod request {
    /// SIGURG.
    pub const SIGNAL: i32 = 23;
    const COOKIE: u64 = 0x454e_5452;

    /// The signal's value for an answer to the socket of this number.
    pub const fn value(number: u32) -> u64 {
        COOKIE << 32 | number as u64
    }

    /// The number that a value has, if it is a request.
    pub const fn number(value: u64) -> Option<u32> {
        if value >> 32 == COOKIE { Some(value as u32) } else { None }
    }

    /// Bytes of a socket's name.
    pub const NAME: usize = 23;

    /// The name of the socket at which the asker listens: an abstract one (`unix(7)`).
    pub const fn name(number: u32) -> [u8; NAME] {
        let mut name = *b"\0entresol-time-00000000";
        let mut i = 0;
        while i < 8 {
            name[NAME - 1 - i] = b"0123456789abcdef"[(number >> (4 * i)) as usize & 15];
            i += 1;
        }
        name
    }

    /// The kinds of items, in this order.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u32)]
    pub enum Item {
        /// [`super::VERSION`], a word. The first.
        Version = 1,
        /// A [`super::ProcessRecord`].
        Process = 2,
        /// A [`super::ThreadRecord`].
        Thread = 3,
        /// A [`super::TimerRecord`].
        Timer = 4,
        /// Nothing: the end.
        End = 5,
    }

    impl Item {
        /// The header before the item's bytes.
        pub const fn header(self, size: usize) -> [u8; 8] {
            (((size as u64) << 32) | self as u64).to_le_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let timer = TimerRecord {
            id: i32::MAX,
            clock: -6,
            notify: 4,
            signo: 64,
            tid: -1,
            flags: 7,
            value: u64::MAX,
            interval: Nanos(1),
            expires: Nanos(2),
            now: Nanos(3),
            overrun: -1,
            overrun_last: i64::MAX,
            created: Nanos(4),
            clock_tid: 9,
        };
        assert_eq!(TimerRecord::from_bytes(&timer.to_bytes()), timer);
        let n = Nanos;
        let process = ProcessRecord {
            pid: 7,
            next_id: 0x7fff_ffff,
            restoring: 1,
            clocks: [n(1), n(2), n(3), n(4)],
            cpu: [n(5), n(6), n(7)],
            itimers: [[n(8), n(9)], [n(10), n(11)], [n(12), n(13)]],
            limits: [[14, 15], [16, u64::MAX]],
            sigpending: 17,
        };
        assert_eq!(ProcessRecord::from_bytes(&process.to_bytes()), process);
        let thread = ThreadRecord { tid: 5, cpu: [n(1), n(2), n(3)] };
        assert_eq!(ThreadRecord::from_bytes(&thread.to_bytes()), thread);
    }

    #[test]
    fn a_request_names_a_socket() {
        assert_eq!(request::number(request::value(7)), Some(7));
        assert_eq!(request::number(7), None);
        assert_eq!(&request::name(0x0102_0abc), b"\0entresol-time-01020abc");
    }
}
