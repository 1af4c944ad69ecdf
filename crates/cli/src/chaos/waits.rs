//! Which thread each thread of a process waits for, as far as the C library's structures show it: the owner of a mutex,
//! or a thread that is joined.

use std::fs::File;
use std::os::unix::fs::FileExt;

use watch::Watched;

/// Where glibc keeps the owner of a mutex (`__owner` of `struct __pthread_mutex_s`); the futex is the first word.
const OWNER_AT: u64 = 8;

/// What one thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// A mutex that this thread holds.
    Mutex(i32),
    /// The end of this thread.
    End(i32),
}

impl On {
    /// The thread that is waited for.
    pub fn tid(self) -> i32 {
        match self {
            On::Mutex(tid) | On::End(tid) => tid,
        }
    }
}

/// For each thread of the snapshot what it waits for.
pub fn of(watched: &Watched) -> Vec<Option<On>> {
    let memory = File::open(format!("/proc/{}/mem", watched.pid)).ok();
    let word = |at: u64| {
        let mut bytes = [0; 4];
        memory.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        Some(i32::from_le_bytes(bytes))
    };
    let threads = &watched.snapshot.threads;
    let lives = |tid: i32| threads.iter().any(|thread| thread.tid == tid);
    let on = |thread: &state::Thread| {
        if !matches!(thread.wait, state::Wait::Futex | state::Wait::PiMutex) {
            return None;
        }
        // The word of a condition or a semaphore is a count, and what lies behind it hardly ever the id of a living thread.
        let (value, owner) = (word(thread.address)?, word(thread.address + OWNER_AT)?);
        match value {
            tid if tid != thread.tid && lives(tid) => Some(On::End(tid)),
            _ if value != 0 && lives(owner) => Some(On::Mutex(owner)),
            _ => None,
        }
    };
    threads.iter().map(on).collect()
}

/// Threads that wait for each other in a circle, each for the next and the last for the first. `waits` names for each
/// thread the one that it waits for.
pub fn circle(waits: &[(i32, Option<i32>)]) -> Option<Vec<i32>> {
    let next = |tid: i32| waits.iter().find(|(thread, _)| *thread == tid)?.1;
    waits.iter().find_map(|&(first, _)| {
        let mut circle = vec![first];
        let mut at = next(first)?;
        while at != first {
            if circle.contains(&at) {
                return None;
            }
            circle.push(at);
            at = next(at)?;
        }
        Some(circle)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_wherever_one_begins() {
        let waits = [(1, Some(2)), (2, Some(3)), (3, Some(4)), (4, Some(2))];
        assert_eq!(circle(&waits), Some(vec![2, 3, 4]));
        assert_eq!(circle(&[(1, Some(1))]), Some(vec![1]), "a thread that waits for itself");
        assert_eq!(circle(&[(1, Some(2)), (2, None)]), None);
        assert_eq!(circle(&[(1, Some(9))]), None);
    }
}
