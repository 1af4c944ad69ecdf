//! The private system calls.

use std::io;

use abi::checkpoint::{END, ProcessRecord, RECORDS_MAX, TAKE, TimerRecord, VERSION, call};

use crate::Unavailable;

const SIZE: usize = TimerRecord::SIZE;

/// One system call; the arguments are addresses of buffers that the caller has, or numbers.
fn ask(number: usize, args: [u64; 4]) -> io::Result<usize> {
    // SAFETY: outside Entresol there is no such call; inside, each of them writes to the buffers named only.
    let answer = unsafe { libc::syscall(number as libc::c_long, args[0], args[1], args[2], args[3]) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Whether this process runs under Entresol.
#[must_use]
pub fn is_available() -> bool {
    process().is_ok()
}

/// The process's own clocks, limits and interval timers.
pub fn process() -> Result<ProcessRecord, Unavailable> {
    let mut bytes = [0; ProcessRecord::SIZE];
    match ask(call::PROCESS_TIME, [bytes.as_mut_ptr() as u64, 0, 0, 0]) {
        Ok(version) if version as u64 == VERSION => Ok(ProcessRecord::from_bytes(&bytes)),
        _ => Err(Unavailable),
    }
}

/// All timers; `take`: they are deleted by the same act.
pub fn copy_timers(take: bool) -> Result<Vec<TimerRecord>, Unavailable> {
    let mut timers = Vec::new();
    let mut cursor = 0u64;
    let mut buffer = [[0u8; SIZE]; RECORDS_MAX];
    while cursor != END {
        let args =
            [buffer.as_mut_ptr() as u64, RECORDS_MAX as u64, &raw mut cursor as u64, if take { TAKE } else { 0 }];
        let count = ask(call::TIMERS_COPY, args).map_err(|_| Unavailable)?;
        timers.extend(buffer[..count].iter().map(TimerRecord::from_bytes));
    }
    Ok(timers)
}

/// A timer that could not be made, by its place in the list.
pub struct NotMade {
    pub at: usize,
    pub error: io::Error,
}

/// Makes all timers, disarmed, or none.
pub fn make_timers(timers: &[TimerRecord]) -> Result<(), NotMade> {
    in_rounds(call::TIMERS_MAKE, timers).inspect_err(|failed| {
        for made in &timers[..failed.at] {
            // SAFETY: about a timer of ours.
            unsafe { libc::syscall(libc::SYS_timer_delete, made.id) };
        }
    })
}

/// Continues the timers where they were.
pub fn start_timers(timers: &[TimerRecord]) -> Result<(), NotMade> {
    in_rounds(call::TIMERS_START, timers)
}

fn in_rounds(number: usize, timers: &[TimerRecord]) -> Result<(), NotMade> {
    let mut at = 0;
    while at < timers.len() {
        let round = &timers[at..timers.len().min(at + RECORDS_MAX)];
        let records: Vec<[u8; SIZE]> = round.iter().map(TimerRecord::to_bytes).collect();
        match ask(number, [records.as_ptr() as u64, records.len() as u64, 0, 0]) {
            Ok(done) => at += done,
            Err(error) => return Err(NotMade { at, error }),
        }
    }
    Ok(())
}

/// The id that the next timer gets.
pub fn set_next_id(id: u32) -> Result<(), Unavailable> {
    ask(call::TIMERS_NEXT_ID, [u64::from(id), 0, 0, 0]).map(|_| ()).map_err(|_| Unavailable)
}
