//! The state of a process: one structure, which start-up and fork make anew.
//!
//! [`Process`] is the kernel with the machine beneath it, [`Host`]; nothing that belongs to a process lies anywhere
//! else. Each carrier, the service thread and each borrower has a pointer to its process in its block, which is as
//! cheap to follow as a global. A forked child creates another process out of its parent's and then never reads that
//! again, so nothing has to be reset.
//!
//! Statics hold only the image's own state: its text and patched code, its address space, the functions that it calls,
//! and signals that arrive while there is no carrier (`outside`).

pub(crate) mod debugger;
pub(crate) mod end;
pub(crate) mod order;
pub(crate) mod states;
pub(crate) mod survey;

use crate::base::bounds::Bounds;
use crate::base::clock::Clock;
use crate::base::contexts::{Contexts, StateBuffers};
use crate::base::dispositions::Caught;
use crate::base::handover::Handover;
use crate::base::ids_file::IdsFile;
use crate::base::natives::{Natives, Wishes};
use crate::base::os::{self, nr};
use crate::base::page::Page;
use crate::base::recorder::Records;
use crate::base::{sites, task};
use crate::carriers::ahead::Ahead;
use crate::carriers::carrier::Carrier;
use crate::carriers::identities::Identities;
use crate::carriers::lent::Lent;
use crate::carriers::place::Places;
use crate::carriers::poller::Poller;
use crate::carriers::receive::Receiving;
use crate::carriers::seat::Seats;
use crate::carriers::service_state::Service;
use crate::carriers::table::Carriers;
use abi::{Errno, SigInfo, Signal};
use alloc::boxed::Box;
use arch::context::{Trapped, reg};
use arch::{Context, syscall};
use ids::{CpuId, Nanos, ThreadIdx};
use kernel::Kernel;
use sync::Lock;
use sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// A process: its kernel, with the machine's state in [`Kernel::m`].
pub type Process = Kernel<Host>;

/// The machine of a process.
#[derive(Debug)]
pub struct Host {
    pub(crate) contexts: Contexts,
    pub(crate) buffers: StateBuffers,
    pub(crate) carriers: Carriers,
    pub(crate) seats: Seats,
    /// The host CPUs of carriers.
    pub places: Places,
    pub(crate) clock: Clock,
    pub(crate) bounds: Bounds,
    /// The process's id.
    pub pid: i32,
    pub(crate) ids: IdsFile,
    pub(crate) identities: Identities,
    pub(crate) service: Service,
    pub(crate) receiving: Receiving,
    /// Wakes idle CPUs before a real-time thread's sleep ends.
    pub(crate) ahead: Ahead,
    /// State that exec must hand on.
    pub handover: Handover,
    /// Counts the programs that run natively.
    pub natives: Natives,
    pub(crate) caught: Caught,
    /// The blocks of borrowers.
    pub(crate) lent: Lock<Lent>,
    pub(crate) page: Page,
    pub(crate) poller: Poller,
    /// The samples and switches that are recorded, if the command asked for them.
    pub records: Records,
    pub(crate) settings: Settings,
    /// The thread whose fault is being handled, plus one, and the signal.
    pub(crate) faulting: AtomicU64,
    /// The address of the instruction that faulted.
    pub(crate) faulting_at: AtomicU64,
}

/// Settings of the machine, from the command or the image.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seconds without progress after which the process ends; 0: never.
    pub watchdog: u32,
    /// Whether the watcher checks for threads that wait unjustly (`order`).
    pub check_order: bool,
    /// The longest lead before the end of a real-time thread's sleep; `None`: the default.
    pub ahead: Option<Nanos>,
    /// For controlled runs: time is virtual and begins at this time of CLOCK_REALTIME.
    pub epoch: Option<Nanos>,
    /// [`Hooks::at_exit`] must be called however the process ends, unless the host kills it.
    pub summary: bool,
    /// How the user wants programs that run natively to be treated.
    pub natives: Wishes,
    /// Callbacks by which the image follows the life of the process.
    pub hooks: &'static Hooks,
}

/// Hooks by which the image learns of the life of the process.
#[derive(Debug)]
pub struct Hooks {
    /// The process ends, perhaps by a signal: prints the summary.
    pub at_exit: fn(&Process),
    /// A forked child begins.
    pub in_child: fn(),
    /// Runs its argument with the allocator's lock held, so that a child finds the allocator consistent.
    pub with_allocator_held: fn(&mut dyn FnMut()),
    /// The program's dynamic linker has loaded objects or removed some.
    pub objects_changed: fn(),
}

impl Carrier {
    /// The process it belongs to.
    #[inline(always)]
    pub fn process(&self) -> &'static Process {
        // SAFETY: set by `found` before the block was made; never freed.
        unsafe { &*self.process_address().cast() }
    }

    /// Called by the carrier that takes the seat of `cpu`.
    pub(crate) fn sit_down(&self, cpu: CpuId) {
        self.cpu.store(u32::from(cpu.0) + 1, Relaxed);
        self.ran_on.store(0, Relaxed);
        self.find_place(cpu);
    }

    /// Moves the calling carrier, which has the seat of `cpu`, to the host CPU of that seat.
    pub(crate) fn find_place(&self, cpu: CpuId) {
        let k = self.process();
        let free = k.parked.is_waited_for() && !self.is_urgent(cpu);
        k.m.places.take(&k.m.seats, &k.m.carriers, self, free, || k.sched.core(cpu));
    }

    /// Called by the carrier with the seat of `cpu`: moves it off a host CPU that it shares with another carrier while
    /// both are unbound ([`Places::part`]).
    pub(crate) fn part(&self, cpu: CpuId) {
        let k = self.process();
        if k.parked.is_any() {
            k.m.places.part(&k.m.seats, &k.m.carriers, self, k.m.clock.now(), !self.is_urgent(cpu));
        }
    }

    /// Whether real-time threads run on `cpu`, or wait for descriptors.
    fn is_urgent(&self, cpu: CpuId) -> bool {
        let k = self.process();
        k.parked.is_urgent() || k.sched.was_urgent(cpu)
    }

    /// The process of the carrier that runs this code: `me().process()` without the load of `me`.
    #[inline(always)]
    pub fn my_process() -> &'static Process {
        // SAFETY: as above.
        unsafe { &*Carrier::my_process_address().cast() }
    }
}

/// Makes a process of a complete kernel. It is never freed.
pub fn found(mut kernel: Box<Kernel<Host>>) -> &'static Process {
    kernel.personality.executable = kernel.m.handover.executable.clone();
    let k: &'static Process = Box::leak(kernel);
    k.m.carriers.belong_to(core::ptr::from_ref(k).cast());
    k
}

impl Host {
    /// Publishes the page that was withdrawn. The service thread answers, or the only carrier.
    pub(crate) fn announce_again(&self) {
        self.page.announce(if self.service.is_alone() { self.pid } else { self.service.tid() });
    }

    /// The machine of a new program; `runtime` is the user's runtime folder, `rate` the clock's rate if known. `None`
    /// without memory.
    pub fn new(cpus: usize, runtime: &[u8], rate: Option<u64>, handover: Handover, settings: Settings) -> Option<Host> {
        let page = Page::new(os::getpid(), cpus, runtime, &handover.loader);
        let ahead = Ahead::default();
        if let Some(most) = settings.ahead {
            ahead.set_most(most);
        }
        let clock = settings.epoch.map_or_else(|| Clock::new(rate), Clock::standing);
        Host::with(cpus, (Places::new(cpus), IdsFile::default(), page, ahead, clock), handover, settings)
    }

    /// The machine of a child forked from this process; `clock` was made before the fork. `None` without memory.
    pub(crate) fn for_child(&self, cpus: usize, clock: Clock) -> Option<Host> {
        let pid = os::getpid();
        let inherited =
            (self.places.for_child(), self.ids.for_child(), self.page.for_child(pid), self.ahead.for_child(), clock);
        Host::with(cpus, inherited, self.handover.clone(), self.settings.clone())
    }

    fn with(
        cpus: usize,
        (places, ids, page, ahead, clock): (Places, IdsFile, Page, Ahead, Clock),
        handover: Handover,
        settings: Settings,
    ) -> Option<Host> {
        let pid = os::getpid();
        Some(Host {
            contexts: Contexts::new()?,
            buffers: StateBuffers::default(),
            carriers: Carriers::new()?,
            seats: Seats::new(cpus, pid),
            places,
            clock,
            bounds: Bounds::default(),
            pid,
            ids,
            identities: Identities::default(),
            service: Service::new(pid),
            receiving: Receiving::default(),
            ahead,
            natives: Natives::new(settings.natives, &handover.loader),
            handover,
            caught: Caught::default(),
            lent: Lock::default(),
            page,
            poller: Poller::default(),
            records: Records::default(),
            settings,
            faulting: AtomicU64::new(0),
            faulting_at: AtomicU64::new(0),
        })
    }

    /// How often carriers woke up early for a real-time thread, and how long they polled.
    pub fn awaited(&self) -> (u64, Nanos) {
        self.ahead.count()
    }

    /// How many carriers there are.
    pub fn carriers(&self) -> u32 {
        self.carriers.count()
    }

    /// How long our host threads waited for a processor, in all.
    pub fn stolen(&self) -> Nanos {
        let tids = (0..self.carriers.count()).map(|i| self.carriers.get(i).tid.load(Relaxed));
        tids.filter(|&tid| tid != 0).fold(Nanos::ZERO, |sum, tid| sum + task::run_delay(tid))
    }

    /// The identity of a thread (`identity`).
    pub(crate) fn identity_of(&self, t: ThreadIdx) -> u32 {
        // SAFETY: contexts live for ever; only the thread's own carrier writes this word.
        unsafe { (*self.contexts.get(t)).identity.load(Relaxed) }
    }

    /// Where a thread without a CPU will continue: instruction, stack and frame pointer. Meaningless if it is resumed
    /// meanwhile.
    pub(crate) fn position(&self, t: ThreadIdx) -> [u64; 3] {
        let c = self.contexts.get(t);
        // SAFETY: contexts live for ever; the words may be written meanwhile, and mean nothing then.
        let [ip, cx, sp, bp] = unsafe {
            let r = (&raw const (*c).r).cast::<u64>();
            let words = [&raw const (*c).rip, r.add(reg::RCX), r.add(reg::RSP), r.add(reg::RBP)];
            words.map(|word| word.read_volatile())
        };
        [sites::seen(ip, cx), sp, bp]
    }

    /// The carrier that makes a host call for `t`, plus one.
    pub(crate) fn host_carrier(&self, t: ThreadIdx) -> &AtomicU32 {
        // SAFETY: contexts live for ever; this word is atomic.
        unsafe { &(*self.contexts.get(t)).host_carrier }
    }

    /// How often a spare took a CPU over.
    pub fn takeovers(&self) -> u64 {
        self.seats.takeovers()
    }

    /// Calls `f` with the state of a thread. Nobody else accesses it: contexts live for ever, the kernel asks only for
    /// threads that the calling CPU owns (current, new, or taken out of a queue), and the reference ends with `f`,
    /// which asks for no other thread's state but a child's.
    #[inline(always)]
    pub(crate) fn with_context<R>(&self, t: ThreadIdx, f: impl FnOnce(&mut Context) -> R) -> R {
        // SAFETY: as above; `run` keeps no reference across a call of the kernel.
        f(unsafe { &mut *self.contexts.get(t) })
    }

    /// The claim of a thread that any CPU may own.
    pub(crate) fn claim(&self, t: ThreadIdx) -> &AtomicU32 {
        // SAFETY: contexts live for ever, and this field is an atomic.
        unsafe { &(*self.contexts.get(t)).claim }
    }

    /// Records a fault of the thread, whose signal may be fatal.
    pub(crate) fn note_fault(&self, t: ThreadIdx, info: &SigInfo, trapped: Trapped) {
        self.contexts.set_trapped(t, trapped);
        self.faulting_at.store(kernel::Machine::registers(self, t).rip, Relaxed);
        self.faulting.store(u64::from(t.0 + 1) << 32 | info.signo() as u64, Relaxed);
    }

    /// If a call failed with an error that may come with a signal to the calling host thread, makes it the thread's
    /// signal.
    #[inline]
    pub(crate) fn accompany(&self, t: ThreadIdx, result: isize) -> isize {
        if result == Errno::EPIPE.to_ret() || result == Errno::EFBIG.to_ret() {
            self.accompany_slow(t);
        }
        result
    }

    #[cold]
    pub(crate) fn accompany_slow(&self, t: ThreadIdx) {
        let set = 1u64 << (Signal::PIPE.raw() - 1) | 1 << (Signal::XFSZ.raw() - 1);
        let now = [0u64; 2];
        // Try once: a signal that a descriptor is to read goes back to the host, where a second call would find it
        // again. The host returns signals for the thread first.
        // SAFETY: set and time are ours.
        let r = unsafe { syscall!(nr::RT_SIGTIMEDWAIT, &raw const set, 0, now.as_ptr(), 8) };
        if let Some(signal) = Signal::from_raw(r as i32).filter(|_| r > 0) {
            let k = Carrier::my_process();
            k.host_signal(t, SigInfo::user(signal, self.pid, k.process().uid()));
        }
    }
}
