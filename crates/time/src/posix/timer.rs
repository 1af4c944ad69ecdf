//! The life of one POSIX timer: setting, expiring, sending, delivering.
//!
//! ```text
//!            settime                 expires                  delivered
//!  Disarmed ─────────► Armed ──────────────────► RequeuePending ────────► Armed (next
//!     ▲                  │  periodic: its signal is on its way,             period after
//!     └──────────────────┘  nothing runs until it is delivered              now)
//!        once, or settime(0)
//! ```
//! A timer has one signal. It is nowhere, pending, or parked because the program ignores
//! it; two numbers say whether it still means anything: each setting, deletion and
//! periodic delivery raises `signal_seq`, sending copies it to `sent_seq`, and a signal
//! whose numbers differ at delivery is dropped silently (Linux 6.13).

use crate::cpu::itimer::ItimerValue;
use crate::planted::{self, Fault};
use crate::posix::{Base, Notify};
use ids::Nanos;

/// The latest point in time there is: KTIME_MAX.
const TIME_MAX: Nanos = Nanos(i64::MAX as u64);

/// Whether it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Not running.
    Disarmed,
    /// Waiting for its expiry.
    Armed,
    /// Expired, periodic, signal not yet delivered.
    RequeuePending,
}

/// Where its one signal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalAt {
    /// Nowhere.
    Nowhere,
    /// In a queue of pending signals.
    Pending,
    /// On the process's list of ignored timer signals.
    Ignored,
}

/// One POSIX timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// The clock it runs on.
    pub base: Base,
    /// The receiver of its signal.
    pub notify: Notify,
    /// `sigev_value`.
    pub value: u64,
    /// The clock's number, as `/proc/PID/timers` shows it.
    pub clock_raw: i32,
    interval: Nanos,
    /// When it expires, or expired last, on its base.
    expires: Nanos,
    /// Periods passed since the last delivery, less one: -1 when none was missed.
    overrun: i64,
    overrun_last: i64,
    signal_seq: u32,
    sent_seq: u32,
    status: Status,
    signal: SignalAt,
    sent_periodic: bool,
    /// An absolute CLOCK_REALTIME expiry; relative ones run on the monotonic clock.
    absolute: bool,
    deleted: bool,
}

/// The action that an expiry requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an expiry may be a signal"]
pub enum Fired {
    /// Nothing: the timer was set again, was deleted, or has no notification.
    Nothing,
    /// The timer's signal must be sent: see [`Timer::send`].
    Signal,
}

/// How the timer's signal is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the signal queues must follow"]
pub enum Sent {
    /// Nothing: the signal is where it belongs, or not wanted.
    Nothing,
    /// Put it into the target's queue; from [`SignalAt::Ignored`] it comes off that list.
    Queue,
    /// Put it onto the list of ignored signals.
    Park,
    /// Take it off the list of ignored signals.
    Unpark,
}

/// The meaning of a signal that reached its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a dropped signal is not delivered, a delivered one may re-arm"]
pub enum Delivered {
    /// The signal is stale: take the next one.
    Dropped {
        /// The timer was deleted and this was the last that held it.
        last: bool,
    },
    /// Deliver it.
    Signal {
        /// `si_overrun`.
        overrun: i32,
        /// The next expiry, for a periodic timer.
        rearm: Option<Nanos>,
    },
}

impl Timer {
    /// A disarmed timer.
    pub const fn new(base: Base, notify: Notify, value: u64, clock_raw: i32) -> Timer {
        Timer {
            base,
            notify,
            value,
            clock_raw,
            interval: Nanos::ZERO,
            expires: Nanos::ZERO,
            overrun: -1,
            overrun_last: 0,
            signal_seq: 0,
            sent_seq: 0,
            status: Status::Disarmed,
            signal: SignalAt::Nowhere,
            sent_periodic: false,
            absolute: false,
            deleted: false,
        }
    }

    /// `timer_settime(2)`, after the old setting was read with [`Self::get`] and the timer was taken out of its
    /// queue. `now` is its clock's reading. Returns when the timer is to expire; the caller fires a time in the past
    /// at once. A zero value disarms and forgets the interval. SIGEV_NONE timers never run.
    pub fn set(&mut self, new: ItimerValue, absolute: bool, now: Nanos) -> Option<Nanos> {
        self.signal_seq = self.signal_seq.wrapping_add(1);
        self.overrun = -1;
        self.overrun_last = 0;
        self.status = Status::Disarmed;
        self.interval = Nanos::ZERO;
        self.expires = Nanos::ZERO;
        if new.value == Nanos::ZERO {
            return None;
        }
        self.interval = new.interval;
        self.absolute = absolute;
        self.expires = if absolute { new.value } else { now + new.value }.min(TIME_MAX);
        if self.notify.is_none() {
            return None;
        }
        self.status = Status::Armed;
        Some(self.expires)
    }

    /// `timer_gettime(2)` when its clock reads `now`. For a periodic timer that is not
    /// running (signal on its way, or SIGEV_NONE) this moves the expiry past now and
    /// counts the periods, as Linux does.
    pub fn get(&mut self, now: Nanos) -> ItimerValue {
        let tells_nobody = self.notify.is_none();
        if self.interval == Nanos::ZERO && self.status == Status::Disarmed && !tells_nobody {
            return ItimerValue::default();
        }
        if self.interval != Nanos::ZERO && self.status != Status::Armed {
            self.forward(now);
        }
        let value = match self.expires.since(now) {
            Nanos::ZERO if tells_nobody => Nanos::ZERO,
            Nanos::ZERO => Nanos(1),
            left => left,
        };
        ItimerValue { value, interval: self.interval }
    }

    /// `timer_getoverrun(2)`: of the last delivered signal.
    #[inline(always)]
    pub fn overrun(&self) -> i32 {
        clamp(self.overrun_last)
    }

    /// Moves the expiry past `now` in whole periods and counts them
    /// (`hrtimer_forward`).
    fn forward(&mut self, now: Nanos) {
        if now < self.expires {
            return;
        }
        let periods = now.since(self.expires).0 / self.interval.0 + 1;
        self.expires = (self.expires + Nanos(periods.saturating_mul(self.interval.0))).min(TIME_MAX);
        let counted = if planted::strikes(Fault::LoseOverrun) { 1 } else { periods };
        self.overrun = self.overrun.saturating_add(counted as i64);
    }

    /// The timer left its queue because it was due. Nothing happens unless it still runs.
    pub fn fire(&mut self) -> Fired {
        if self.deleted || self.status != Status::Armed {
            return Fired::Nothing;
        }
        self.status = if self.interval == Nanos::ZERO { Status::Disarmed } else { Status::RequeuePending };
        if self.notify.is_none() { Fired::Nothing } else { Fired::Signal }
    }

    /// Sends its signal, right after [`Fired::Signal`] and under the same lock.
    /// `target_lives`: the thread it is for, if it is for one, has not exited. `ignored`:
    /// the program ignores this signal and does not block it.
    pub fn send(&mut self, target_lives: bool, ignored: bool) -> Sent {
        if !target_lives {
            return Sent::Nothing;
        }
        self.sent_seq = self.signal_seq;
        self.sent_periodic = self.status == Status::RequeuePending;
        let (at, to) = match (self.signal, ignored, self.sent_periodic) {
            (SignalAt::Pending, _, _) => (SignalAt::Pending, Sent::Nothing),
            (SignalAt::Nowhere, true, true) => (SignalAt::Ignored, Sent::Park),
            (SignalAt::Ignored, true, true) => (SignalAt::Ignored, Sent::Nothing),
            (SignalAt::Nowhere, true, false) => (SignalAt::Nowhere, Sent::Nothing),
            (SignalAt::Ignored, true, false) => (SignalAt::Nowhere, Sent::Unpark),
            (_, false, _) => (SignalAt::Pending, Sent::Queue),
        };
        self.signal = at;
        to
    }

    /// Its pending signal was dequeued for delivery when its clock read `now` (`posixtimer_deliver_signal`).
    ///
    /// `now` is a lower bound and may lie before the expiry that was seen. If [`Self::get`] has not counted that period
    /// yet, it counts as over; otherwise it would be reported twice.
    pub fn deliver(&mut self, now: Nanos) -> Delivered {
        self.signal = SignalAt::Nowhere;
        let is_stale = self.signal_seq != self.sent_seq && !planted::strikes(Fault::DeliverStale);
        if self.deleted || is_stale {
            return Delivered::Dropped { last: self.deleted };
        }
        if self.interval == Nanos::ZERO || self.status != Status::RequeuePending {
            return Delivered::Signal { overrun: self.overrun(), rearm: None };
        }
        let counted = self.overrun >= 0;
        self.forward(if counted { now } else { now.max(self.expires) });
        self.overrun_last = self.overrun;
        self.overrun = -1;
        self.signal_seq = self.signal_seq.wrapping_add(1);
        self.status = Status::Armed;
        Delivered::Signal { overrun: self.overrun(), rearm: Some(self.expires) }
    }

    /// The timer's pending signal is flushed because the program now ignores it. Returns true if the signal must be
    /// parked, because the timer is periodic; otherwise it is dropped.
    #[must_use = "the list of ignored signals must follow"]
    pub fn flushed(&mut self) -> bool {
        let park = self.sent_periodic && !self.deleted;
        self.signal = if park { SignalAt::Ignored } else { SignalAt::Nowhere };
        park
    }

    /// The timer's parked signal came off the list because the program no longer ignores it. Returns true if it must be
    /// queued, false if its target is gone and it is dropped.
    #[must_use = "the queue of pending signals must follow"]
    pub fn unignored(&mut self, target_lives: bool) -> bool {
        self.signal = if target_lives { SignalAt::Pending } else { SignalAt::Nowhere };
        target_lives
    }

    /// The timer's pending signal vanishes, because its queue is flushed with its thread or by exec. Returns true if
    /// the timer was deleted and nothing holds it any more.
    #[must_use = "whoever held it last frees it"]
    pub fn discarded(&mut self) -> bool {
        self.signal = SignalAt::Nowhere;
        self.deleted
    }

    /// `timer_delete(2)`: it does not fire or deliver any more. Off the ignored list its
    /// signal must be taken by the caller ([`Sent::Unpark`]); a pending one is dropped at
    /// delivery. True: nothing holds it any more.
    pub fn delete(&mut self) -> (Sent, bool) {
        self.signal_seq = self.signal_seq.wrapping_add(1);
        self.deleted = true;
        self.status = Status::Disarmed;
        match core::mem::replace(&mut self.signal, SignalAt::Nowhere) {
            SignalAt::Nowhere => (Sent::Nothing, true),
            SignalAt::Ignored => (Sent::Unpark, true),
            SignalAt::Pending => {
                self.signal = SignalAt::Pending;
                (Sent::Nothing, false)
            }
        }
    }

    /// Whether it runs.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Where its signal is.
    pub fn signal(&self) -> SignalAt {
        self.signal
    }

    /// The timer's period; zero for a one-shot timer.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// When it expires or expired last, on [`Self::queue_base`].
    pub fn expires(&self) -> Nanos {
        self.expires
    }

    /// The clock its present setting counts on: relative CLOCK_REALTIME expiries count on
    /// the monotonic clock, where steps do not matter.
    pub fn queue_base(&self) -> Base {
        match self.base {
            Base::Realtime if !self.absolute => Base::Monotonic,
            base => base,
        }
    }

    /// Whether the next setting, absolute or not, counts on this clock.
    pub fn base_for(&self, absolute: bool) -> Base {
        match self.base {
            Base::Realtime if !absolute => Base::Monotonic,
            base => base,
        }
    }

    /// Everything that a checkpoint must keep.
    pub fn dump(&self) -> TimerDump {
        let runs = self.status != Status::Disarmed || self.notify.is_none();
        TimerDump {
            interval: self.interval,
            expires: (runs && self.expires != Nanos::ZERO).then_some(self.expires),
            absolute: self.absolute,
            overrun: self.overrun,
            overrun_last: self.overrun_last,
            signal_pending: self.signal != SignalAt::Nowhere && self.signal_seq == self.sent_seq,
        }
    }

    /// Puts a fresh timer into a dumped state. The expiry is on the clock's own scale and
    /// may be past: the timer then expires at once and counts what it missed.
    pub fn restore(&mut self, dump: &TimerDump) -> Resumed {
        let resumed = match (dump.expires, dump.signal_pending) {
            (None, false) => Resumed::Idle,
            (expires, pending) => {
                let value = expires.unwrap_or(Nanos(1)).max(Nanos(1));
                match self.set(ItimerValue { value, interval: dump.interval }, true, Nanos::ZERO) {
                    Some(_) if pending => Resumed::Fire,
                    Some(at) => Resumed::Arm(at),
                    None => Resumed::Idle,
                }
            }
        };
        self.absolute = dump.absolute;
        self.overrun = dump.overrun;
        self.overrun_last = dump.overrun_last;
        resumed
    }
}

/// How a restored timer continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Resumed {
    /// The timer is disarmed.
    Idle,
    /// The timer expires at this time.
    Arm(Nanos),
    /// The timer's signal was on its way: fire at once, without a queue.
    Fire,
}

/// The state of a timer as it is dumped and restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerDump {
    /// The timer's period.
    pub interval: Nanos,
    /// The next expiry of an armed timer, on [`Timer::queue_base`].
    pub expires: Option<Nanos>,
    /// Set with TIMER_ABSTIME.
    pub absolute: bool,
    /// Periods counted towards the next signal, less one.
    pub overrun: i64,
    /// Overrun of the last delivered signal.
    pub overrun_last: i64,
    /// A signal that still means something was on its way.
    pub signal_pending: bool,
}

fn clamp(overrun: i64) -> i32 {
    overrun.clamp(0, i32::MAX as i64) as i32
}

#[cfg(test)]
mod tests;
