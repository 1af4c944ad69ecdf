//! All carriers of a process: the table by number, the list of spares, and the blocks whose host threads have ended.

use crate::base::os;
use crate::carriers::carrier::{Carrier, END, RETIRE};
use crate::carriers::service_state::Service;
use ids::{CpuId, Nice};
use sync::Lock;
use sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// The most carriers of a process.
pub const CARRIERS_MAX: usize = 1 << 15;

/// All carriers of the process and the list of spares.
#[derive(Debug)]
pub struct Carriers {
    /// The process they belong to.
    process: AtomicPtr<()>,
    table: *mut AtomicPtr<Carrier>,
    count: AtomicU32,
    /// The first spare, plus one.
    spares: Lock<u32>,
    /// The first carrier whose host thread has ended or is about to, plus one.
    ended: Lock<u32>,
    /// Held while a host thread is cloned.
    cloning: Lock<()>,
}

// SAFETY: the table's entries are atomics, the memory lives as long as the process.
unsafe impl Sync for Carriers {}
// SAFETY: as above.
unsafe impl Send for Carriers {}

impl Carriers {
    /// An empty table; `None` without memory.
    pub fn new() -> Option<Carriers> {
        let table = os::map(CARRIERS_MAX * size_of::<AtomicPtr<Carrier>>())?.cast();
        Some(Carriers {
            process: AtomicPtr::new(core::ptr::null_mut()),
            table,
            count: AtomicU32::new(0),
            spares: Lock::new(0),
            ended: Lock::new(0),
            cloning: Lock::new(()),
        })
    }

    /// The process that new carriers belong to.
    pub(crate) fn process(&self) -> *const () {
        self.process.load(Acquire)
    }

    /// Held while a host thread is cloned.
    pub(super) fn lock_cloning(&self) -> impl Drop + '_ {
        self.cloning.lock()
    }

    /// Sets the nice value of all host threads, as far as the host allows. New ones inherit it.
    #[cold]
    pub(crate) fn set_nice(&self, service: &Service, nice: Nice) {
        let _guard = self.lock_cloning();
        let carriers = (0..self.count()).map(|i| self.get(i).tid.load(Acquire));
        let all = carriers.chain([service.tid() as u32]).filter(|&tid| tid != 0);
        all.for_each(|tid| os::set_nice(tid, nice));
    }

    /// Lets new carriers belong to `process`.
    pub(crate) fn belong_to(&self, process: *const ()) {
        self.process.store(process.cast_mut(), Release);
    }

    /// The carrier with that number.
    pub fn get(&self, number: u32) -> &'static Carrier {
        assert!(number < self.count.load(Acquire));
        // SAFETY: numbers below the count have been filled, and carriers are never freed.
        unsafe { &*(*self.table.add(number as usize)).load(Acquire) }
    }

    /// How many carriers there are.
    pub fn count(&self) -> u32 {
        self.count.load(Acquire)
    }

    /// Whether any carrier other than `than` has a host thread.
    pub(crate) fn has_others(&self, than: &Carrier) -> bool {
        (0..self.count()).map(|i| self.get(i)).any(|c| c.number != than.number && c.tid.load(Acquire) != 0)
    }

    /// Creates a carrier's block and enters it in the table.
    pub fn create(&self) -> Option<&'static Carrier> {
        // The lock also keeps numbers and the table in step.
        let _guard = self.spares.lock();
        let number = self.count.load(Relaxed);
        if number as usize == CARRIERS_MAX {
            return None;
        }
        let carrier = Carrier::map(number, self.process())?;
        // SAFETY: the layout of `Carrier::reserve`. Threads may keep the buffer, because this block, unlike a
        // borrower's, is never freed.
        unsafe { (*carrier).buffer.store(Carrier::buffer_of(carrier), Relaxed) };
        // SAFETY: within the table.
        unsafe { (*self.table.add(number as usize)).store(carrier, Release) };
        self.count.store(number + 1, Release);
        // SAFETY: just made; never freed.
        Some(unsafe { &*carrier })
    }

    /// Takes a spare that is asleep (or about to be).
    pub fn take_spare(&self) -> Option<&'static Carrier> {
        let mut first = self.spares.lock();
        let number = first.checked_sub(1)?;
        let carrier = self.get(number);
        *first = carrier.next.load(Relaxed);
        Some(carrier)
    }

    /// A spare, or a new carrier that will begin as one.
    pub fn spare_or_new(&self) -> Option<&'static Carrier> {
        self.take_spare().or_else(|| self.new_carrier())
    }

    /// A new carrier, with the caller's rights. A borrower must not make one: the host thread would belong to the
    /// borrower's process and end with it.
    pub(crate) fn new_carrier(&self) -> Option<&'static Carrier> {
        if Carrier::is_borrowers() {
            return None;
        }
        let carrier = self.take_ended().or_else(|| self.create())?;
        if !carrier.start(self) {
            self.give_ended(carrier);
            return None;
        }
        Some(carrier)
    }

    /// The block of a carrier whose host thread has ended.
    pub(crate) fn take_ended(&self) -> Option<&'static Carrier> {
        let mut first = self.ended.lock();
        let carrier = self.get(first.checked_sub(1)?);
        // The host clears the word when the stack is no longer in use.
        if carrier.tid.load(Acquire) != 0 {
            return None;
        }
        *first = carrier.next.load(Relaxed);
        Some(carrier)
    }

    /// Keeps the block of a carrier whose host thread has ended.
    pub(crate) fn give_ended(&self, carrier: &Carrier) {
        let mut first = self.ended.lock();
        carrier.next.store(*first, Relaxed);
        *first = carrier.number + 1;
    }

    /// The host threads with this identity at the moment.
    pub(crate) fn with_identity(&self, identity: u32) -> impl Iterator<Item = &'static Carrier> {
        (0..self.count()).map(|i| self.get(i)).filter(move |c| c.identity.load(SeqCst) == identity)
    }

    /// Whether there is a host thread with this identity. No host thread is being made meanwhile.
    pub(crate) fn has_identity(&self, identity: u32) -> bool {
        let _guard = self.cloning.lock();
        self.with_identity(identity).next().is_some()
    }

    /// Takes a spare of that identity off the list.
    pub(crate) fn take_spare_of(&self, identity: u32) -> Option<&'static Carrier> {
        self.take_spare_if(|c| c.identity.load(SeqCst) == identity)
    }

    /// Takes a spare that `fits` off the list.
    pub(crate) fn take_spare_if(&self, fits: impl Fn(&Carrier) -> bool) -> Option<&'static Carrier> {
        self.unlink(&mut self.spares.lock(), fits)
    }

    fn unlink(&self, first: &mut u32, fits: impl Fn(&Carrier) -> bool) -> Option<&'static Carrier> {
        let mut before: Option<&Carrier> = None;
        let mut at = *first;
        while at != 0 {
            let carrier = self.get(at - 1);
            let next = carrier.next.load(Relaxed);
            if fits(carrier) {
                match before {
                    Some(before) => before.next.store(next, Relaxed),
                    None => *first = next,
                }
                return Some(carrier);
            }
            (before, at) = (Some(carrier), next);
        }
        None
    }

    /// Whether there is a spare of that identity.
    pub(crate) fn has_spare(&self, identity: u32) -> bool {
        let first = self.spares.lock();
        let mut at = *first;
        while at != 0 && self.get(at - 1).identity.load(SeqCst) != identity {
            at = self.get(at - 1).next.load(Relaxed);
        }
        at != 0
    }

    /// Ends the spares of an identity that no thread has any more, unless they are needed.
    pub(crate) fn end_spares(&self, identity: u32) {
        self.end_all(RETIRE, |c| c.identity.load(SeqCst) == identity);
    }

    /// Ends the spares of all other identities, because all threads have this one.
    pub(crate) fn end_spares_but(&self, identity: u32) {
        self.end_all(END, |c| c.identity.load(SeqCst) != identity);
    }

    /// Ends all spares that fit, and carriers that were kept (`Tracing::kept`).
    fn end_all(&self, how: u32, fits: impl Fn(&Carrier) -> bool) {
        while let Some(spare) = self.take_spare_if(&fits) {
            spare.end(how);
        }
        (0..self.count()).map(|i| self.get(i)).filter(|c| c.tracing.let_go()).for_each(|c| c.end(how));
    }

    /// Puts a carrier on the list of spares, unless a seat waits for it.
    pub fn give_spare(&self, carrier: &Carrier) {
        let mut first = self.spares.lock();
        let owed = carrier.owed.swap(0, Relaxed);
        if owed != 0 {
            drop(first);
            carrier.assign(CpuId((owed - 1) as u16));
            return;
        }
        carrier.next.store(*first, Relaxed);
        *first = carrier.number + 1;
    }

    /// Gives the seat to this carrier: now if it is a spare, otherwise as soon as it becomes one.
    pub(crate) fn assign_when_free(&self, carrier: &Carrier, cpu: CpuId) {
        let mut first = self.spares.lock();
        if self.unlink(&mut first, |c| c.number == carrier.number).is_none() {
            carrier.owed.store(u32::from(cpu.0) + 1, Relaxed);
            return;
        }
        drop(first);
        carrier.assign(cpu);
    }
}
