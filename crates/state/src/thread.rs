//! A snapshot's record of a thread.

use crate::error::Error;
use crate::layout::{RECORD_WORDS, halves, id, pair};
use ids::{CPUS_MAX, Nanos, Nice, Policy, RtPriority};

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Place {
    /// It has a CPU.
    #[default]
    Running = 0,
    /// It waits for a CPU.
    Queued = 1,
    /// It waits for something else: see [`Wait`].
    Waiting = 2,
}

impl Place {
    fn from_raw(raw: u8) -> Option<Place> {
        [Place::Running, Place::Queued, Place::Waiting].into_iter().find(|&place| place as u8 == raw)
    }
}

/// The reason that a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Wait {
    /// Nothing.
    #[default]
    None = 0,
    /// A futex: a mutex, a condition, a join.
    Futex = 1,
    /// Several futexes.
    Futexes = 2,
    /// A mutex with priority inheritance.
    PiMutex = 3,
    /// The end of a span of time.
    Sleep = 4,
    /// A host call.
    Host = 5,
    /// A signal (`sigwait(3)`).
    Signal = 6,
    /// A signal handler (`sigsuspend(2)`, `pause(2)`).
    Suspend = 7,
    /// That CPU time is consumed (`clock_nanosleep(2)`).
    CpuTime = 8,
    /// That its group's or process's share of CPU time comes round again.
    Throttled = 9,
}

impl Wait {
    /// All of them.
    pub const ALL: [Wait; 10] = [
        Wait::None,
        Wait::Futex,
        Wait::Futexes,
        Wait::PiMutex,
        Wait::Sleep,
        Wait::Host,
        Wait::Signal,
        Wait::Suspend,
        Wait::CpuTime,
        Wait::Throttled,
    ];

    fn from_raw(raw: u8) -> Option<Wait> {
        Wait::ALL.get(usize::from(raw)).copied()
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Wait::None => "-",
            Wait::Futex => "futex",
            Wait::Futexes => "futexes",
            Wait::PiMutex => "pi-mutex",
            Wait::Sleep => "sleep",
            Wait::Host => "host",
            Wait::Signal => "sigwait",
            Wait::Suspend => "sigsuspend",
            Wait::CpuTime => "cpu-time",
            Wait::Throttled => "throttled",
        }
    }

    /// The function of Linux 6.18 in which such a wait sleeps, as `wchan` shows it. A thread that waits for its share
    /// of CPU time is in none: to Linux it is runnable (`throttle_cfs_rq`).
    pub fn function(self) -> Option<&'static str> {
        Some(match self {
            Wait::None | Wait::Throttled => return None,
            Wait::Futex => "futex_do_wait",
            Wait::Futexes => "futex_wait_multiple",
            Wait::PiMutex => "rt_mutex_slowlock",
            Wait::Sleep => "hrtimer_nanosleep",
            Wait::CpuTime => "do_cpu_nanosleep",
            Wait::Signal => "do_sigtimedwait",
            Wait::Suspend => "sigsuspend",
            Wait::Host => "wait_woken",
        })
    }
}

/// A thread at the moment of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its id.
    pub tid: i32,
    /// `prctl(PR_SET_NAME)`: up to the first zero, any bytes.
    pub name: [u8; 16],
    /// Where it is.
    pub place: Place,
    /// Its scheduling policy.
    pub policy: Policy,
    /// Its nice value.
    pub nice: Nice,
    /// Its real-time priority; 0 without such a policy.
    pub rt: RtPriority,
    /// The CPU that it is on, or was on last.
    pub cpu: u16,
    /// On how many CPUs it may run.
    pub allowed: u16,
    /// The first 64 CPUs of its affinity mask.
    pub mask: u64,
    /// The reason that it waits.
    pub wait: Wait,
    /// The system call in which it waits, for [`Wait::Host`].
    pub call: u16,
    /// The futex's address, for those; that call's first argument, for [`Wait::Host`].
    pub address: u64,
    /// The latest end of its wait, by CLOCK_MONOTONIC; zero: no limit.
    pub until: Nanos,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// How long it has waited for a CPU.
    pub queued: Nanos,
    /// Signals sent to it alone that it has not received, a bit each.
    pub pending: u64,
    /// Signals that it blocks.
    pub blocked: u64,
    /// How often it left its CPU to wait.
    pub voluntary: u64,
    /// How often it left its CPU while runnable: preempted, or by `sched_yield(2)`.
    pub involuntary: u64,
    /// How often it went from one CPU to another.
    pub migrations: u64,
    /// Where it continues if it has no CPU: instruction, stack and frame pointer; zeros if it has one.
    pub parked: [u64; 3],
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            tid: 1,
            name: [0; 16],
            place: Place::Running,
            policy: Policy::Other,
            nice: Nice(0),
            rt: RtPriority(0),
            cpu: 0,
            allowed: 0,
            mask: 0,
            wait: Wait::None,
            call: 0,
            address: 0,
            until: Nanos::ZERO,
            user: Nanos::ZERO,
            system: Nanos::ZERO,
            queued: Nanos::ZERO,
            pending: 0,
            blocked: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            parked: [0; 3],
        }
    }
}

impl Thread {
    /// The name without what follows its end.
    pub fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        &self.name[..end]
    }

    /// CPU time, user and system.
    pub fn cpu_time(&self) -> Nanos {
        Nanos(self.user.0.saturating_add(self.system.0))
    }

    /// As a letter: `R` runs, `Q` is queued for a CPU, `H` waits in a host call, `S` waits for anything else.
    pub fn letter(&self) -> char {
        match (self.place, self.wait) {
            (Place::Running, _) => 'R',
            (Place::Queued, _) => 'Q',
            (Place::Waiting, Wait::Host) => 'H',
            (Place::Waiting, _) => 'S',
        }
    }

    pub(crate) fn encode(&self) -> [u64; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        let bytes = [self.place as u8, self.policy as u8, self.nice.0 as u8, self.rt.0];
        words[0] = pair(self.tid as u32, u32::from_le_bytes(bytes));
        for (word, half) in words[1..3].iter_mut().zip(self.name.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*half);
        }
        let shorts = [self.cpu, self.allowed, self.wait as u16, self.call];
        words[3] = shorts.iter().rev().fold(0, |word, &short| word << 16 | u64::from(short));
        words[13..16].copy_from_slice(&self.parked);
        words[16..18].copy_from_slice(&[self.pending, self.blocked]);
        words[4..13].copy_from_slice(&[
            self.address,
            self.until.0,
            self.user.0,
            self.system.0,
            self.queued.0,
            self.voluntary,
            self.involuntary,
            self.migrations,
            self.mask,
        ]);
        words
    }

    pub(crate) fn decode(words: &[u64; RECORD_WORDS]) -> Result<Thread, Error> {
        let (tid, bytes) = halves(words[0]);
        let [place, policy, nice, rt] = bytes.to_le_bytes();
        let [cpu, allowed, wait, call] = [0, 16, 32, 48].map(|shift| (words[3] >> shift) as u16);
        let nice = Nice(nice as i8);
        let mut name = [0; 16];
        name[..8].copy_from_slice(&words[1].to_le_bytes());
        name[8..].copy_from_slice(&words[2].to_le_bytes());
        let known = |holds: bool, what| if holds { Ok(()) } else { Err(Error::Damaged(what)) };
        known((-20..=19).contains(&nice.0), "nice value")?;
        known(rt <= 99, "real-time priority")?;
        known(usize::from(cpu) < CPUS_MAX, "CPU")?;
        known(usize::from(allowed) <= CPUS_MAX, "affinity")?;
        Ok(Thread {
            tid: id(tid).ok_or(Error::Damaged("thread id"))?,
            name,
            place: Place::from_raw(place).ok_or(Error::Damaged("place of a thread"))?,
            policy: Policy::from_raw(u32::from(policy)).ok_or(Error::Damaged("policy"))?,
            nice,
            rt: RtPriority(rt),
            cpu,
            allowed,
            mask: words[12],
            wait: u8::try_from(wait).ok().and_then(Wait::from_raw).ok_or(Error::Damaged("reason of a wait"))?,
            call,
            address: words[4],
            until: Nanos(words[5]),
            user: Nanos(words[6]),
            system: Nanos(words[7]),
            queued: Nanos(words[8]),
            pending: words[16],
            blocked: words[17],
            voluntary: words[9],
            involuntary: words[10],
            migrations: words[11],
            parked: [words[13], words[14], words[15]],
        })
    }
}
