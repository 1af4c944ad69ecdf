//! The host CPU that a carrier runs on.
//!
//! The host sometimes puts two carriers on one of its CPUs while another is idle. A real-time thread of ours then waits
//! for milliseconds. So if we have as many CPUs as the host lets us use, each seat has a host CPU of its own, and a
//! carrier that takes the seat moves there. With fewer CPUs the host chooses. With more, the host chooses as well,
//! except for CPUs that run real-time threads: the scheduler divides the host's CPUs among them
//! (`sched/src/few_cores.rs`).
//!
//! The host also chooses while only one seat is in use. When a second seat is taken, the host CPU on which its carrier
//! runs then determines the places of all seats, because the host knows of other processes and we do not. If the first
//! seat always had the first host CPU, all single-threaded programs would run there.
//!
//! The host chooses as well while threads wait for descriptors, unless there are real-time threads. A sender wakes the
//! carrier that waits for its message; a bound carrier could take the sender's host CPU while another is idle.
//!
//! The program never sees this: the kernel answers affinity calls, and a new program starts with the process's own
//! mask.

use crate::base::os::{self, CpuSet};
use crate::carriers::carrier::Carrier;
use crate::carriers::seat::{Seat, Seats};
use crate::carriers::table::Carriers;
use ids::{CpuId, CpuMask, Nanos};
use sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// The places of a process's carriers.
#[derive(Debug)]
pub struct Places {
    /// The host CPUs that the program had when it began. A carrier may be bound to one of them.
    all: CpuSet,
    /// The host gave the program as many CPUs as we have.
    fixed: bool,
    /// The number of the CPU of the process's first seat.
    first: AtomicU32,
    /// One more than the offset from a seat's number to its place among the host's CPUs; 0: no second seat has been in
    /// use.
    shift: AtomicU32,
    /// With more seats than host CPUs, some carrier has been bound for real-time threads.
    shared: AtomicBool,
}

impl Places {
    /// The places of a process that begins with `cpus` CPUs of ours.
    pub(crate) fn new(cpus: usize) -> Places {
        let all = os::affinity();
        let fixed = count(&all) == cpus && cpus > 1;
        Places { all, fixed, first: AtomicU32::new(0), shift: AtomicU32::new(0), shared: AtomicBool::new(false) }
    }

    /// The process's first seat is that of this CPU.
    pub(crate) fn begin_on(&self, cpu: CpuId) {
        self.first.store(u32::from(cpu.0), Relaxed);
    }

    fn first(&self) -> CpuId {
        CpuId(self.first.load(Relaxed) as u16)
    }

    /// The places of a forked child, whose carrier gives up its place in the parent.
    pub(crate) fn for_child(&self) -> Places {
        self.release();
        Places { first: AtomicU32::new(0), shift: AtomicU32::new(0), shared: AtomicBool::new(false), ..*self }
    }

    /// How many host CPUs the program had when it began.
    pub fn host_cpus(&self) -> usize {
        count(&self.all)
    }

    /// The host CPUs that these CPUs of ours stand for, of `cpus`; `None` if the host has fewer or more.
    pub(crate) fn host_set(&self, mask: &CpuMask, cpus: usize) -> Option<CpuSet> {
        if self.host_cpus() != cpus {
            return None;
        }
        let mut set: CpuSet = [0; 128];
        for number in (0..cpus).filter(|&number| mask.contains(CpuId(number as u16))) {
            set.iter_mut().zip(self.of(number, 0)).for_each(|(word, bits)| *word |= bits);
        }
        Some(set)
    }

    /// The calling carrier takes the seat of `cpu`, to which the scheduler has given the host CPU `core`. If `free`,
    /// the host chooses.
    pub(crate) fn take(
        &self,
        seats: &Seats,
        all: &Carriers,
        me: &Carrier,
        free: bool,
        core: impl FnOnce() -> Option<usize>,
    ) {
        let cpu = me.cpu();
        if !self.fixed {
            // A new carrier has inherited its creator's mask.
            if self.shared.load(SeqCst) {
                me.placed.store(u32::MAX, Relaxed);
                self.share(me, core());
            }
            return;
        }
        if free {
            return self.leave(me);
        }
        let shift = match self.shift.load(SeqCst) {
            0 if self.first() == cpu => return,
            0 => self.spread(seats, all, cpu),
            shift => shift - 1,
        };
        if !is_bound(me, cpu) {
            os::set_affinity(0, &self.of(cpu.index(), shift));
        }
    }

    /// With more seats than host CPUs: binds the calling carrier to the host CPU `core` of its real-time threads, or
    /// lets it run on any.
    pub(crate) fn share(&self, me: &Carrier, core: Option<usize>) {
        let wanted = core.map_or(0, |core| core as u32 + 1);
        if me.placed.swap(wanted, Relaxed) != wanted {
            self.shared.store(true, SeqCst);
            os::set_affinity(0, &core.map_or(self.all, |core| self.of(core, 0)));
            Places::settle(me, wanted);
        }
    }

    /// A carrier and its waker may bind it at the same time. If so, it is unknown which was last, and the carrier binds
    /// itself again.
    fn settle(carrier: &Carrier, wanted: u32) {
        if carrier.placed.load(SeqCst) != wanted {
            carrier.placed.store(u32::MAX, SeqCst);
        }
    }

    /// Binds a parked carrier before it is woken for a CPU with the host CPU `core`. If the carrier only bound itself,
    /// it would first wait where the host puts it.
    pub(crate) fn prepare(&self, carrier: &Carrier, core: usize) {
        let (wanted, tid) = (core as u32 + 1, carrier.tid.load(Acquire));
        if tid != 0 && carrier.placed.swap(wanted, Relaxed) != wanted {
            self.shared.store(true, SeqCst);
            os::set_affinity(tid, &self.of(core, 0));
            Places::settle(carrier, wanted);
        }
    }

    /// A second seat is in use: chooses the shift, and binds the carrier of the first seat.
    #[cold]
    fn spread(&self, seats: &Seats, all: &Carriers, cpu: CpuId) -> u32 {
        let here = os::host_cpu() as usize;
        let below = |i: usize| match (here / 64).cmp(&i) {
            core::cmp::Ordering::Less => 0,
            core::cmp::Ordering::Equal => (1u64 << (here % 64)) - 1,
            core::cmp::Ordering::Greater => u64::MAX,
        };
        let place: u32 = self.all.iter().enumerate().map(|(i, word)| (word & below(i)).count_ones()).sum();
        let count = self.host_cpus() as u32;
        let shift = (place + count - u32::from(cpu.0) % count) % count;
        if let Err(others) = self.shift.compare_exchange(0, shift + 1, SeqCst, SeqCst) {
            return others - 1;
        }
        // A carrier that takes that seat from now on binds itself.
        let (seat, carrier) = seats.look(self.first());
        let carrier = (seat != Seat::Empty).then(|| all.get(carrier));
        if let Some(tid) = carrier.map(|c| c.tid.load(Acquire)).filter(|&tid| tid != 0)
            && carrier.is_some_and(|c| !is_bound(c, self.first()))
        {
            os::set_affinity(tid, &self.of(self.first().index(), shift));
        }
        shift
    }

    /// The calling carrier runs where the host has put it. If another carrier runs there too while some host CPU has
    /// none, it moves there, if it `may`. It checks when the host has moved it, and otherwise about once in a tick.
    ///
    /// The host may leave both there for milliseconds: a CPU whose tasks sleep only microseconds at a time is too
    /// rarely idle for its balancer (`sched_balance_newidle`).
    pub(crate) fn part(&self, seats: &Seats, all: &Carriers, me: &Carrier, now: Nanos, may: bool) {
        const ONCE_IN: Nanos = Nanos::from_micros(900);
        if !self.fixed {
            return;
        }
        let here = os::host_cpu();
        let has_moved = me.ran_on.swap(here + 1, Relaxed) != here + 1;
        let lately = now.since(Nanos(me.looked_at.load(Relaxed))) < ONCE_IN;
        if !may || me.placed.load(Relaxed) != 0 || (lately && !has_moved) {
            return;
        }
        me.looked_at.store(now.0, Relaxed);
        let (mut free, mut is_shared) = (self.all, false);
        for other in seats.running().filter(|&carrier| carrier != me.number).map(|carrier| all.get(carrier)) {
            if let Some(there) = other.ran_on.load(Relaxed).checked_sub(1) {
                is_shared |= there == here;
                free[there as usize / 64] &= !(1 << (there % 64));
            }
        }
        let (places, here) = (64 * free.len(), here as usize);
        let place =
            (here..here + places).map(|place| place % places).find(|place| free[place / 64] & 1 << (place % 64) != 0);
        if let Some(place) = place.filter(|_| is_shared && os::affinity() == self.all) {
            let mut only: CpuSet = [0; 128];
            only[place / 64] = 1 << (place % 64);
            os::set_affinity(0, &only);
            os::set_affinity(0, &self.all);
            Places::settle(me, 0);
            me.ran_on.store(os::host_cpu() + 1, Relaxed);
        }
    }

    /// The host CPU of a seat's number, among those of the process and counted from `shift` on.
    fn of(&self, number: usize, shift: u32) -> CpuSet {
        let mut left = (number + shift as usize) % self.host_cpus();
        let mut mask: CpuSet = [0; 128];
        for (word, mut bits) in mask.iter_mut().zip(self.all) {
            while bits != 0 && left > 0 {
                bits &= bits - 1;
                left -= 1;
            }
            if bits != 0 {
                *word = bits & bits.wrapping_neg();
                break;
            }
        }
        mask
    }

    /// Lets the calling carrier wake up wherever a host CPU is free.
    pub(crate) fn leave(&self, me: &Carrier) {
        if me.placed.load(Relaxed) != 0 {
            me.placed.store(0, Relaxed);
            self.release();
        }
    }

    /// Restores the process's own mask: before a new program, and for carriers without a seat.
    pub(crate) fn release(&self) {
        if self.shift.load(SeqCst) != 0 || self.shared.load(SeqCst) {
            os::set_affinity(0, &self.all);
        }
    }
}

/// Whether a carrier is bound to that seat's host CPU; counts it as bound from now on.
fn is_bound(carrier: &Carrier, cpu: CpuId) -> bool {
    let wanted = u32::from(cpu.0) + 1;
    carrier.placed.load(Relaxed) == wanted || carrier.placed.swap(wanted, Relaxed) == wanted
}

fn count(set: &CpuSet) -> usize {
    set.iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1)
}
