//! Fresh snapshots: requests them and waits for a limited time.

use crate::Watched;
use crate::find::{self, Place};
use ids::Nanos;
use state::{Error, Header};
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error as ThisError;

/// How long a process has to make a snapshot. One that is stopped makes none.
pub const PATIENCE: Duration = Duration::from_millis(250);
/// The first pause between two looks for an answer, and the longest.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(4);

/// Why there is nothing to say of a process.
#[derive(Debug, ThisError)]
pub enum FetchError {
    /// There is no such process.
    #[error("there is no process {0}")]
    Missing(i32),
    /// It has no page.
    #[error("process {0} does not run under Entresol; `entresol ps` lists those that do")]
    Foreign(i32),
    /// It has no page, but the image.
    #[error(
        "process {0} runs under Entresol, but there is no state page of it: it found no folder that only you can write to, or a \
         chroot or namespace hides it"
    )]
    Hidden(i32),
    /// It is not ours to watch.
    #[error("process {0} belongs to another user")]
    Denied(i32),
    /// Its page is not what it should be.
    #[error("process {pid}: {why}")]
    Page {
        /// The process.
        pid: i32,
        /// The fault.
        why: Error,
    },
    /// It was asked for a snapshot and has made none, now or before.
    #[error("process {0} does not answer and has never been looked at before: is it stopped?")]
    Silent(i32),
}

/// A snapshot of one process, as fresh as it gives one.
///
/// # Errors
/// The reason why there is none, for the user.
pub fn one(pid: i32) -> Result<Watched, FetchError> {
    let Some(place) = find_patiently(pid) else { return Err(why_none(pid)) };
    of(&place)
}

/// As [`one`], of the process whose page this is.
///
/// # Errors
/// As [`one`].
pub fn of(place: &Place) -> Result<Watched, FetchError> {
    let asked = ask(place);
    wait(place, asked, Instant::now() + PATIENCE)
}

/// A snapshot made after this call, of a process that runs by a virtual clock, so that the times in its page say nothing
/// about that; the last one there is if it does not answer.
///
/// # Errors
/// As [`one`].
pub fn anew(pid: i32) -> Result<Watched, FetchError> {
    let Some(place) = find_patiently(pid) else { return Err(why_none(pid)) };
    let number = || find::open(&place).map_or(0, |page| page.number());
    let (before, until) = (number(), Instant::now() + PATIENCE);
    request(&place);
    let mut pause = PAUSE;
    while number() == before && Instant::now() < until {
        sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    wait(&place, None, until)
}

/// A process publishes its page at the end of its start: a process that was started a moment ago has it soon.
fn find_patiently(pid: i32) -> Option<Place> {
    for _ in 0..10 {
        if let Some(place) = find::one(pid) {
            return Some(place);
        }
        if !carries_image(pid) {
            return None;
        }
        sleep(Duration::from_millis(5));
    }
    None
}

fn carries_image(pid: i32) -> bool {
    api::outside::has_image(pid).unwrap_or(false)
}

/// Snapshots of all processes of the user. Those that end meanwhile are left out; what is wrong with others is
/// in the second list.
#[must_use]
pub fn all() -> (Vec<Watched>, Vec<FetchError>) {
    let places = find::all();
    // All are asked before the first is waited for, and all have the same time.
    let asked: Vec<_> = places.iter().map(ask).collect();
    let until = Instant::now() + PATIENCE;
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for (place, asked) in places.iter().zip(asked) {
        match wait(place, asked, until) {
            Ok(watched) => found.push(watched),
            Err(_) if find::one(place.pid).is_none() => {}
            Err(error) => wrong.push(error),
        }
    }
    (found, wrong)
}

fn why_none(pid: i32) -> FetchError {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(format!("/proc/{pid}")) {
        Err(_) => FetchError::Missing(pid),
        Ok(found) if found.uid() != tool::machine::user() => FetchError::Denied(pid),
        Ok(_) if carries_image(pid) => FetchError::Hidden(pid),
        Ok(_) => FetchError::Foreign(pid),
    }
}

/// Asks for a snapshot unless the last one is as fresh as one gets. When.
fn ask(place: &Place) -> Option<Nanos> {
    let page = find::open(place).ok()?;
    let now = clock(libc::CLOCK_MONOTONIC);
    if page.process().is_ok_and(|process| now < process.next) {
        return None;
    }
    request(place).map(|()| now)
}

fn request(place: &Place) -> Option<()> {
    // The page may be made up: only a process that carries the image is asked.
    let target = api::outside::Target::open(place.pid).ok()?;
    target.send(Header::REQUEST).ok()
}

/// The snapshot that was asked for at that time, or the last one there is.
fn wait(place: &Place, asked: Option<Nanos>, until: Instant) -> Result<Watched, FetchError> {
    let pid = place.pid;
    let mut pause = PAUSE;
    loop {
        // By its path each time: a page that is too small is replaced.
        let page = find::open(place).map_err(|why| match why {
            Error::NoPage if !place.path.exists() => why_none(pid),
            why => FetchError::Page { pid, why },
        })?;
        let taken = page.process().map(|process| process.taken);
        let fresh = asked.is_none_or(|asked| taken.is_ok_and(|taken| taken >= asked));
        let left = until.saturating_duration_since(Instant::now());
        if fresh || left.is_zero() {
            return match page.snapshot() {
                Ok(snapshot) => {
                    let age = clock(libc::CLOCK_MONOTONIC).since(snapshot.process.taken);
                    // The process could not be asked, and the snapshot is older than one that needs no request.
                    let stale = !fresh || (asked.is_none() && clock(libc::CLOCK_MONOTONIC) > snapshot.process.next);
                    let stale = stale.then_some(Duration::from_nanos(age.0));
                    Ok(Watched { pid, age: find::age(page.header()), snapshot, stale })
                }
                Err(Error::Empty) => Err(FetchError::Silent(pid)),
                Err(why) => Err(FetchError::Page { pid, why }),
            };
        }
        sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A clock of the host.
#[must_use]
pub fn clock(which: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the host fills the time.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
