//! Seats: who serves which CPU.
//!
//! One word per CPU: a state in the low two bits, the carrier's number above.
//!
//! | state | meaning | who may leave it, how |
//! |---|---|---|
//! | `RUNNING(c)` | c serves the CPU | c alone, by store: to `PARKED(c)`, `HOST(c)` or `RUNNING(spare)`; while c is in a short host call, the watcher, which takes that right from c first (`takeover.rs`) |
//! | `PARKED(c)` | the CPU is idle and c sleeps on its word | anybody, by compare-exchange: c itself (it woke); a carrier that returns from a host call and takes the seat, which makes c a spare; or a carrier that gives c its own seat in exchange |
//! | `HOST(c)` | the CPU is idle and c is in a host call | anybody, by compare-exchange: c itself (it returned), or a kicker, which gives the seat to a spare; c then returns without a seat |
//! | `EMPTY` | no carrier has been needed yet, or the host gives us too few | a kicker, by compare-exchange, for a spare; a carrier that visits the CPU (`scarce.rs`) |
//!
//! **No kick is lost.** A kicker makes its reason visible (the run queue) and then reads the seat; a carrier stores
//! `PARKED` or `HOST` and then checks the run queue once more; both with a full barrier in between. So either the
//! carrier sees the reason or the kicker sees the new state: it wakes a `PARKED` carrier through its word and replaces
//! a `HOST` one. A `RUNNING` one gets a signal. If the signal finds it in the kernel, it sets `Gs::pending`, which the
//! carrier checks last before user code, and before sleeping.

use crate::base::os;
use crate::carriers::carrier::Carrier;
use crate::carriers::table::Carriers;
use ids::CpuId;
use sync::CachePadded;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};

const RUNNING: u32 = 0;
const PARKED: u32 = 1;
const HOST: u32 = 2;
const EMPTY: u32 = 3;

/// A seat's state, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// Its carrier serves the CPU.
    Running,
    /// Its carrier sleeps.
    Parked,
    /// Its carrier is in a host call.
    Host,
    /// It has no carrier yet.
    Empty,
}

fn word(state: u32, carrier: u32) -> u32 {
    carrier << 2 | state
}

/// The seats of all CPUs.
#[derive(Debug)]
pub struct Seats {
    words: alloc::boxed::Box<[CachePadded<AtomicU32>]>,
    pid: i32,
    /// How often a spare took a CPU over.
    takeovers: AtomicU64,
}

impl Seats {
    /// All seats are empty.
    pub fn new(cpus: usize, pid: i32) -> Seats {
        Seats {
            words: (0..cpus).map(|_| CachePadded(AtomicU32::new(word(EMPTY, 0)))).collect(),
            pid,
            takeovers: AtomicU64::new(0),
        }
    }

    fn of(&self, cpu: CpuId) -> &AtomicU32 {
        &self.words[cpu.index()]
    }

    /// The first carrier takes its seat.
    pub fn take_first(&self, cpu: CpuId, me: &Carrier) {
        me.cpu.store(u32::from(cpu.0) + 1, Relaxed);
        self.of(cpu).store(word(RUNNING, me.number), SeqCst);
    }

    /// Before its carrier sleeps, because the CPU is idle. A full barrier.
    pub fn park(&self, cpu: CpuId, me: &Carrier) {
        self.of(cpu).store(word(PARKED, me.number), SeqCst);
        fence(SeqCst);
    }

    /// After the sleep: whether the seat is still its own.
    pub fn unpark(&self, cpu: CpuId, me: &Carrier) -> bool {
        self.exchange(cpu, word(PARKED, me.number), word(RUNNING, me.number))
    }

    /// Before its carrier makes a host call, because the CPU is idle. A full barrier.
    pub fn leave_for_host(&self, cpu: CpuId, me: &Carrier) {
        self.of(cpu).store(word(HOST, me.number), SeqCst);
        fence(SeqCst);
    }

    /// After the host call: whether the seat is still its own.
    pub fn return_from_host(&self, cpu: CpuId, me: &Carrier) -> bool {
        self.exchange(cpu, word(HOST, me.number), word(RUNNING, me.number))
    }

    /// Takes the seat of a sleeping carrier, which becomes a spare.
    pub fn take_parked(&self, cpu: CpuId, me: &Carrier, all: &Carriers) -> bool {
        let now = self.of(cpu).load(Relaxed);
        if now & 3 != PARKED || !self.exchange(cpu, now, word(RUNNING, me.number)) {
            return false;
        }
        all.give_spare(all.get(now >> 2));
        me.cpu.store(u32::from(cpu.0) + 1, Relaxed);
        true
    }

    /// Takes the seat of `sleeper` for `me`, which gives it another one. False if it does not sleep there.
    pub(crate) fn exchange_parked(&self, cpu: CpuId, sleeper: &Carrier, me: &Carrier) -> bool {
        self.exchange(cpu, word(PARKED, sleeper.number), word(RUNNING, me.number))
    }

    /// Gives the CPU, whose seat the caller has, to a spare for good. False if there is no spare and no memory for a
    /// new carrier.
    pub fn hand_over(&self, cpu: CpuId, all: &Carriers) -> bool {
        let Some(spare) = all.spare_or_new() else { return false };
        self.of(cpu).store(word(RUNNING, spare.number), SeqCst);
        spare.assign(cpu);
        self.takeovers.fetch_add(1, Relaxed);
        true
    }

    /// Takes a seat that nobody has.
    pub(crate) fn take_empty(&self, cpu: CpuId, me: &Carrier) -> bool {
        let now = self.of(cpu).load(Relaxed);
        now & 3 == EMPTY && self.exchange(cpu, now, word(RUNNING, me.number))
    }

    /// The caller gives up its seat and leaves the CPU without a carrier. A full barrier.
    pub(crate) fn leave_empty(&self, cpu: CpuId) {
        self.of(cpu).store(word(EMPTY, 0), SeqCst);
        fence(SeqCst);
    }

    /// The caller gives its seat to a carrier with the rights of the chosen thread.
    pub(crate) fn pass_on(&self, cpu: CpuId, carrier: &Carrier) {
        self.of(cpu).store(word(RUNNING, carrier.number), SeqCst);
    }

    /// Gives the CPU to `spare`, after the watcher has taken it from its carrier.
    pub(crate) fn replace(&self, cpu: CpuId, spare: &Carrier) {
        self.of(cpu).store(word(RUNNING, spare.number), SeqCst);
        self.takeovers.fetch_add(1, Relaxed);
    }

    /// The numbers of the carriers that serve CPUs at the moment.
    pub(crate) fn running(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().map(|word| word.load(Relaxed)).filter(|word| word & 3 == RUNNING).map(|word| word >> 2)
    }

    /// The seat's state and its carrier, at the moment.
    pub fn look(&self, cpu: CpuId) -> (Seat, u32) {
        let now = self.of(cpu).load(SeqCst);
        let seat = match now & 3 {
            RUNNING => Seat::Running,
            PARKED => Seat::Parked,
            HOST => Seat::Host,
            _ => Seat::Empty,
        };
        (seat, now >> 2)
    }

    fn exchange(&self, cpu: CpuId, from: u32, to: u32) -> bool {
        self.of(cpu).compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// Makes `cpu` enter the kernel. False if no carrier serves it and none can be had.
    pub fn kick(&self, cpu: CpuId, all: &Carriers) -> bool {
        fence(SeqCst);
        loop {
            let now = self.of(cpu).load(SeqCst);
            match now & 3 {
                RUNNING => self.signal(all.get(now >> 2)),
                PARKED => all.get(now >> 2).wake(),
                _ => {
                    let Some(spare) = all.spare_or_new() else {
                        // The service thread will make one for a borrower.
                        if now & 3 == HOST && !Carrier::is_borrowers() {
                            let _ = all.get(now >> 2).recall(self.pid);
                        }
                        return false;
                    };
                    if !self.exchange(cpu, now, word(RUNNING, spare.number)) {
                        all.give_spare(spare);
                        continue;
                    }
                    // A CPU's first carrier is no takeover.
                    self.takeovers.fetch_add(u64::from(now & 3 == HOST), Relaxed);
                    spare.assign(cpu);
                }
            }
            return true;
        }
    }

    /// Sends a signal, unless one is on its way: one is enough until the receiver has looked.
    fn signal(&self, carrier: &Carrier) {
        let tid = carrier.tid.load(Acquire);
        if tid != 0 && !carrier.kicked.swap(true, AcqRel) && !os::signal_thread(self.pid, tid as i32, os::SIGNAL_TICK) {
            // That carrier has left the seat and ended. Its block may belong to another host thread by now.
            carrier.kicked.store(false, Release);
        }
    }
}

impl Seats {
    /// How often a spare took a CPU over.
    pub fn takeovers(&self) -> u64 {
        self.takeovers.load(Relaxed)
    }

    /// Whether the carrier still serves the CPU, because it could not give it away.
    pub fn is_mine(&self, cpu: CpuId, me: &Carrier) -> bool {
        self.of(cpu).load(Relaxed) == word(RUNNING, me.number)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::Barrier;

    const CPU: CpuId = CpuId(0);

    /// Carrier 0 serves the CPU; carriers 1 and 2 are there, and have no host thread, as the first has none.
    fn world() -> (Seats, Carriers, [&'static Carrier; 3]) {
        let (seats, all) = (Seats::new(1, 0), Carriers::new().unwrap());
        let three = [0; 3].map(|_| all.create().unwrap());
        seats.take_first(CPU, three[0]);
        (seats, all, three)
    }

    fn spares(all: &Carriers) -> std::vec::Vec<u32> {
        let mut numbers: std::vec::Vec<_> = core::iter::from_fn(|| all.take_spare()).map(|c| c.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn is_given(carrier: &Carrier) -> bool {
        carrier.assigned.load(SeqCst) == u32::from(CPU.0) + 1 && carrier.park.load(SeqCst) == 1
    }

    #[test]
    fn a_seat_that_nobody_has_had_goes_to_a_spare() {
        let (seats, all, three) = world();
        let empty = Seats::new(1, 0);
        assert_eq!(empty.look(CPU).0, Seat::Empty);
        all.give_spare(three[1]);
        empty.kick(CPU, &all);
        assert_eq!(empty.look(CPU), (Seat::Running, 1));
        assert!(is_given(three[1]) && spares(&all).is_empty());
        assert_eq!((empty.takeovers(), seats.look(CPU)), (0, (Seat::Running, 0)));
    }

    #[test]
    fn a_kick_wakes_a_parked_carrier_and_leaves_it_its_seat() {
        let (seats, all, three) = world();
        seats.park(CPU, three[0]);
        assert_eq!(seats.look(CPU), (Seat::Parked, 0));
        seats.kick(CPU, &all);
        assert_eq!((three[0].park.load(SeqCst), seats.look(CPU)), (1, (Seat::Parked, 0)));
        assert!(seats.unpark(CPU, three[0]));
        assert_eq!(seats.look(CPU), (Seat::Running, 0));
    }

    #[test]
    fn who_comes_back_takes_a_parked_carriers_seat() {
        let (seats, all, three) = world();
        // Not while it serves.
        assert!(!seats.take_parked(CPU, three[1], &all));
        seats.park(CPU, three[0]);
        assert!(seats.take_parked(CPU, three[1], &all));
        assert_eq!((seats.look(CPU), three[1].cpu()), ((Seat::Running, 1), CPU));
        // The other one finds that out when it wakes, and is a spare already.
        assert!(!seats.unpark(CPU, three[0]));
        assert_eq!(spares(&all), [0]);
    }

    #[test]
    fn a_kick_replaces_a_carrier_that_is_in_the_host() {
        let (seats, all, three) = world();
        all.give_spare(three[1]);
        seats.leave_for_host(CPU, three[0]);
        // The CPU was not needed: the seat is still its own.
        assert!(seats.return_from_host(CPU, three[0]));
        seats.leave_for_host(CPU, three[0]);
        seats.kick(CPU, &all);
        assert_eq!((seats.look(CPU), seats.takeovers()), ((Seat::Running, 1), 1));
        assert!(is_given(three[1]));
        assert!(!seats.return_from_host(CPU, three[0]) && !seats.is_mine(CPU, three[0]));
        // A second kick goes to the new one and takes no further spare.
        all.give_spare(three[2]);
        seats.kick(CPU, &all);
        assert_eq!((spares(&all), seats.takeovers()), (std::vec![2], 1));
    }

    #[test]
    fn a_busy_cpu_is_given_away_at_once() {
        let (seats, all, three) = world();
        all.give_spare(three[2]);
        assert!(seats.hand_over(CPU, &all));
        assert!(seats.is_mine(CPU, three[2]) && is_given(three[2]) && !seats.is_mine(CPU, three[0]));
        assert_eq!(seats.takeovers(), 1);
    }

    /// Two kickers, and the carrier comes back: it has the seat or one spare has, and no spare is lost.
    #[test]
    fn a_return_races_with_kicks() {
        let (seats, all, three) = world();
        let mut kept = 0;
        let rounds = 2_000;
        for _ in 0..rounds {
            three[1..].iter().for_each(|spare| {
                spare.assigned.store(0, SeqCst);
                spare.park.store(0, SeqCst);
                all.give_spare(spare);
            });
            seats.of(CPU).store(word(RUNNING, 0), SeqCst);
            seats.leave_for_host(CPU, three[0]);
            let start = Barrier::new(3);
            let back = std::thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        start.wait();
                        seats.kick(CPU, &all);
                    });
                }
                start.wait();
                seats.return_from_host(CPU, three[0])
            });
            let (seat, carrier) = seats.look(CPU);
            assert_eq!((seat, carrier == 0), (Seat::Running, back));
            let given: std::vec::Vec<_> = three[1..].iter().filter(|c| is_given(c)).map(|c| c.number).collect();
            let left = spares(&all);
            assert_eq!(given, if back { std::vec![] } else { std::vec![carrier] });
            assert_eq!(given.len() + left.len(), 2, "{given:?} {left:?}");
            kept += u64::from(back);
        }
        assert_eq!(kept + seats.takeovers(), rounds);
    }
}
