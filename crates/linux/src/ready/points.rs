//! Which descriptors a call waits for, in which direction, and for how long.

use crate::Host;
use abi::args::MSG_PEEK;
use abi::epoll::Readiness;
use abi::{Errno, Timespec, Timeval, nr};
use alloc::vec::Vec;
use ids::Nanos;
use kernel::wait::Deadline;
use kernel::{Call, Clock};

/// The most descriptors that one call waits for here, as many as `select(2)` allows; the host waits for more.
const POINTS_MAX: usize = 1024;
/// This many descriptors need no allocation.
const FEW: usize = 4;

/// A descriptor and a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Point {
    pub(super) fd: u32,
    /// The wait is for writing; else for reading.
    pub(super) out: bool,
}

impl Point {
    /// The events that the poller must report for the point.
    pub(super) fn events(self) -> u32 {
        Readiness::EDGES
            | if self.out { Readiness::OUT } else { Readiness::IN | Readiness::URGENT | Readiness::PEER_CLOSED }
    }

    /// The key of its queue, which differs from all words of the program.
    pub(super) fn key(self) -> u64 {
        1 << 63 | u64::from(self.fd) << 3 | u64::from(self.out) << 2
    }

    /// The point with this key.
    pub(super) fn of_key(key: u64) -> Point {
        Point { fd: (key >> 3) as u32, out: key >> 2 & 1 != 0 }
    }
}

/// The descriptors that a call waits for.
#[derive(Debug)]
pub(crate) struct Points {
    few: [Point; FEW],
    /// The points beyond the first ones.
    more: Vec<Point>,
    len: usize,
    /// An event is for one exclusive waiter (read, write, accept), not for all (poll, select).
    pub(super) exclusive: bool,
    /// The call does not consume what has arrived (MSG_PEEK).
    pub(super) peeks: bool,
}

impl Points {
    fn new(exclusive: bool) -> Points {
        Points { few: [Point::default(); FEW], more: Vec::new(), len: 0, exclusive, peeks: false }
    }

    fn one(fd: u64, out: bool) -> Option<Points> {
        let mut points = Points::new(true);
        points.add(fd as u32, out)?;
        Some(points)
    }

    fn of_receiver(fd: u64, flags: u64) -> Option<Points> {
        Some(Points { peeks: flags & MSG_PEEK != 0, ..Points::one(fd, false)? })
    }

    fn add(&mut self, fd: u32, out: bool) -> Option<()> {
        let point = Point { fd, out };
        match self.few.get_mut(self.len) {
            Some(place) => *place = point,
            None if self.len == POINTS_MAX => return None,
            None => {
                self.more.try_reserve(1).ok()?;
                self.more.push(point);
            }
        }
        self.len += 1;
        Some(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.few.iter().take(self.len).chain(&self.more).copied()
    }

    /// The one descriptor of a call that moves data or accepts.
    pub(super) fn one_of(&self) -> Option<Point> {
        self.exclusive.then_some(self.few[0])
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The descriptors that the call waits for; `None` if the host must wait for them.
    pub(crate) fn of(m: &impl Host, call: &Call) -> Option<Points> {
        let a = &call.args;
        match call.nr {
            nr::READ | nr::READV | nr::ACCEPT | nr::ACCEPT4 | nr::MQ_TIMEDRECEIVE => Points::one(a[0], false),
            nr::RECVFROM | nr::RECVMMSG => Points::of_receiver(a[0], a[3]),
            nr::RECVMSG => Points::of_receiver(a[0], a[2]),
            nr::MQ_TIMEDSEND | nr::CONNECT => Points::one(a[0], true),
            nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => Points::one(a[0], false),
            nr::WRITE | nr::SENDTO | nr::WRITEV | nr::SENDMSG => Points::one(a[0], true),
            nr::POLL | nr::PPOLL => Points::of_poll(m, a[0], a[1]),
            nr::SELECT | nr::PSELECT6 => Points::of_select(m, a[0], &a[1..4]),
            _ => None,
        }
    }

    fn of_poll(m: &impl Host, at: u64, count: u64) -> Option<Points> {
        let mut points = Points::new(false);
        for i in 0..(count <= POINTS_MAX as u64).then_some(count)? {
            // struct pollfd: descriptor, events, and what the host answers.
            let word = kernel::machine::get::<u64>(m, at.wrapping_add(i * 8)).ok()?;
            let (fd, events) = (word as u32, (word >> 32) as u16);
            if fd as i32 >= 0 {
                // A wait without events waits for errors, which both queues report.
                points.add_both(
                    fd,
                    events & Readiness::POLL_OUT == 0 || events & !Readiness::POLL_OUT != 0,
                    events & Readiness::POLL_OUT != 0,
                )?;
            }
        }
        Some(points)
    }

    fn of_select(m: &impl Host, count: u64, sets: &[u64]) -> Option<Points> {
        const BITS_MAX: usize = 1024;
        let bits = usize::try_from(count as i32).ok().filter(|&bits| bits <= BITS_MAX)?;
        let mut points = Points::new(false);
        for word in 0..bits.div_ceil(64) {
            let mut found = [0; 3];
            for (found, &set) in found.iter_mut().zip(sets) {
                if set != 0 {
                    *found = kernel::machine::get::<u64>(m, set.wrapping_add(word as u64 * 8)).ok()?;
                }
            }
            let [read, write, except] = found;
            for bit in (0..64).filter(|bit| (read | write | except) >> bit & 1 != 0) {
                let fd = word * 64 + bit;
                if fd < bits {
                    points.add_both(fd as u32, (read | except) >> bit & 1 != 0, write >> bit & 1 != 0)?;
                }
            }
        }
        Some(points)
    }

    fn add_both(&mut self, fd: u32, read: bool, write: bool) -> Option<()> {
        if read {
            self.add(fd, false)?;
        }
        if write {
            self.add(fd, true)?;
        }
        Some(())
    }
}

/// When the call ends by itself; `Ok(None)`: never.
pub(super) fn deadline(m: &impl Host, call: &Call) -> Result<Option<Deadline>, Errno> {
    let a = &call.args;
    let of_millis = |ms: u64| Ok(u64::try_from(ms as i32).ok().map(|ms| after(m, Nanos::from_millis(ms))));
    match call.nr {
        nr::POLL => of_millis(a[2]),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT => of_millis(a[3]),
        _ => match limit_of(call) {
            None => Ok(None),
            Some(at) => {
                let time = read_time(m, call.nr, at)?;
                let is_moment = matches!(call.nr, nr::MQ_TIMEDRECEIVE | nr::MQ_TIMEDSEND);
                Ok(Some(if is_moment { Deadline { at: time, clock: Clock::Realtime } } else { after(m, time) }))
            }
        },
    }
}

/// The end of a span that begins now.
pub(crate) fn after(m: &impl Host, span: Nanos) -> Deadline {
    // The ceiling, so that it is never early.
    Deadline { at: m.clock(Clock::MonotonicCeiling) + span, clock: Clock::Monotonic }
}

/// A time limit in memory. That of `select(2)` may have more than a second of microseconds (`kern_select`).
pub(crate) fn read_time(m: &impl Host, nr: usize, at: u64) -> Result<Nanos, Errno> {
    if nr != nr::SELECT {
        return kernel::machine::read_timespec(m, at);
    }
    let Timeval { sec, usec } = kernel::machine::get(m, at)?;
    Timespec { sec: sec.wrapping_add(usec / 1_000_000), nsec: usec % 1_000_000 * 1_000 }.to_nanos()
}

/// The address of the time limit, if it is in memory.
fn limit_of(call: &Call) -> Option<u64> {
    let at = match call.nr {
        nr::PPOLL => call.args[2],
        nr::EPOLL_PWAIT2 => call.args[3],
        nr::SELECT | nr::PSELECT6 | nr::MQ_TIMEDRECEIVE | nr::MQ_TIMEDSEND => call.args[4],
        _ => 0,
    };
    (at != 0).then_some(at)
}

/// The address to which the call writes the remaining time (`poll_select_finish`).
pub(super) fn time_left_at(call: &Call) -> Option<u64> {
    limit_of(call).filter(|_| tells_time_left(call.nr))
}

/// Whether the call reports the remaining time.
pub(crate) fn tells_time_left(nr: usize) -> bool {
    matches!(nr, nr::PPOLL | nr::SELECT | nr::PSELECT6)
}
