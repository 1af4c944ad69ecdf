//! A thread of the kernel, and the table of all threads.

use crate::futex::Node;
use crate::wait::WaitState;
use core::mem::offset_of;
use ids::{Nanos, THREADS_MAX, ThreadIdx, Tid};
use once_cell::race::OnceBox;
use signal::{Shown, ThreadSignals};
use sync::Lock;
use sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*, fence};

/// One thread. Unless a field says otherwise, only the CPU that runs the thread writes it.
#[derive(Debug, Default)]
pub struct Thread {
    /// The id that programs see; 0 while the slot is free. Readable by any CPU.
    pub tid: AtomicI32,
    /// Its wait.
    pub wait: WaitState,
    /// Its place in a futex queue: guarded by that queue's lock.
    pub node: Node,
    /// Bits of [`crate::hint`]: anybody sets them, the thread clears them on its way to user code.
    pub hint: AtomicU32,
    /// `set_tid_address(2)`.
    pub clear_child_tid: AtomicU64,
    /// `set_robust_list(2)`.
    pub robust_list: AtomicU64,
    /// `rseq(2)`: the area, 0 for none.
    pub rseq: AtomicU64,
    /// Its length, in bytes.
    pub rseq_len: AtomicU32,
    /// The signature that must stand before an abort handler.
    pub rseq_signature: AtomicU32,
    /// The CPU it was last resumed on, plus one; 0 after a preemption. If the next resume is on another, the rseq area
    /// is updated.
    pub rseq_cpu: AtomicU32,
    /// `ioprio_set(2)`: class and level as given, 0 for none. The personality's; written by any thread.
    pub io_priority: AtomicU32,
    /// `prctl(PR_SET_NAME)`: 15 bytes and a zero, as two words.
    pub name: [AtomicU64; 2],
    /// When it began, by the scheduler's clock; 0: with the process.
    pub begun: AtomicU64,
    /// The timer slack that the program has set, and the default, in nanoseconds.
    pub timer_slack: [AtomicU64; 2],
    /// Its signals. Taken after the process's.
    pub signals: SignalState,
    /// The mutex it waits for and those it holds with inheritance.
    pub pi: crate::futex::ThreadPi,
    /// Its CPU time apart from what the scheduler counts.
    pub(crate) time: crate::cputime::ThreadTime,
    /// Its place among the waiters for descriptors.
    pub parked: crate::parked::ThreadParked,
    /// Its limits.
    pub(crate) limits: crate::limits::ThreadLimits,
    /// For traces: what made it runnable.
    pub(crate) woken: crate::woken::ThreadWoken,
}

/// A thread's signals, under their lock.
#[derive(Debug)]
pub struct SignalState(pub Shown<ThreadSignals>);

impl Default for SignalState {
    fn default() -> SignalState {
        SignalState(Shown::new(ThreadSignals::new(abi::SigSet::EMPTY)))
    }
}

/// The default timer slack of a process.
pub const TIMER_SLACK: Nanos = Nanos(50_000);
/// Threads per chunk. A chunk is a few pages, which a process with a single thread must use.
const CHUNK: usize = 16;
const CHUNKS: usize = THREADS_MAX / CHUNK;

/// All threads by slot. Slots are made in chunks that never move and are never freed.
pub struct ThreadTable {
    chunks: alloc::boxed::Box<[OnceBox<[Thread; CHUNK]>; CHUNKS]>,
    slots: Lock<Slots>,
    ids: crate::tid::TidMap,
    /// The slot, plus one, of a main thread that exited before the others; 0: it lives.
    zombie: AtomicU32,
    /// How many threads live. This and the next two are written under the lock of the slots and read without it.
    live: AtomicU32,
    /// The most that lived at once.
    peak: AtomicU32,
    /// How many were ever started.
    started: AtomicU64,
}

/// The table's layout in memory, for a debugger that has stopped the process.
#[derive(Clone, Copy, Debug)]
pub struct TableLayout {
    /// The address of the pointers to chunks; null for chunks that were never made.
    pub chunks: u64,
    /// Threads in a chunk.
    pub chunk: u64,
    /// Bytes of a thread.
    pub size: u64,
    /// The offset of its id: 4 bytes, 0 if there is no such thread.
    pub tid: u64,
    /// The offset of its name: 16 bytes.
    pub name: u64,
    /// The offset of the kind of its wait: 4 bytes, [`Wait`](crate::wait::Wait).
    pub wait: u64,
}

impl core::fmt::Debug for ThreadTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ThreadTable").field("live", &self.live).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Slots {
    free: alloc::vec::Vec<u32>,
    /// Slots from here on were never used.
    fresh: u32,
}

impl ThreadTable {
    /// An empty table; `None` without memory.
    pub fn new() -> Option<ThreadTable> {
        Some(ThreadTable {
            chunks: sync::zeroed_slice(CHUNKS)?.try_into().ok()?,
            slots: Lock::new(Slots::default()),
            ids: crate::tid::TidMap::new(),
            zombie: AtomicU32::new(0),
            live: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            started: AtomicU64::new(0),
        })
    }

    /// How the table lies in memory.
    pub fn layout(&self) -> TableLayout {
        TableLayout {
            chunks: self.chunks.as_ptr() as u64,
            chunk: CHUNK as u64,
            size: size_of::<Thread>() as u64,
            tid: offset_of!(Thread, tid) as u64,
            name: offset_of!(Thread, name) as u64,
            wait: (offset_of!(Thread, wait) + crate::wait::WaitState::KIND) as u64,
        }
    }

    /// The thread in a slot that has been used.
    #[inline(always)]
    pub fn get(&self, t: ThreadIdx) -> &Thread {
        // The remainder saves a bounds check; slots are below THREADS_MAX.
        match self.chunks[t.index() / CHUNK % CHUNKS].get() {
            Some(chunk) => &chunk[t.index() % CHUNK],
            None => never_made(t),
        }
    }

    /// A free slot; its chunk exists. Give it back with [`ThreadTable::free`].
    pub fn allocate(&self) -> Option<ThreadIdx> {
        let t = {
            let mut slots = self.slots.lock();
            let t = match slots.free.pop() {
                Some(i) => i,
                None if (slots.fresh as usize) < THREADS_MAX => {
                    // Reserve room for every slot on the free list, so that `free` cannot fail.
                    let want = slots.fresh as usize + 1;
                    if slots.free.capacity() < want {
                        let more = want.next_power_of_two();
                        slots.free.try_reserve_exact(more).ok()?;
                    }
                    slots.fresh += 1;
                    slots.fresh - 1
                }
                None => return None,
            };
            let live = self.live.load(Relaxed) + 1;
            self.live.store(live, Relaxed);
            self.peak.store(live.max(self.peak.load(Relaxed)), Relaxed);
            self.started.store(self.started.load(Relaxed) + 1, Relaxed);
            t
        };
        let chunk = &self.chunks[t as usize / CHUNK];
        if chunk.get().is_none() {
            let made = sync::boxed_array(|_| Thread::default()).ok()?;
            let _ = chunk.set(made);
        }
        Some(ThreadIdx(t))
    }

    /// Frees a dead thread's slot.
    pub fn free(&self, t: ThreadIdx) {
        let mut slots = self.slots.lock();
        // First, so that nobody who misses its id still counts it (`__exit_signal`).
        self.live.store(self.live.load(Relaxed) - 1, Relaxed);
        self.ids.release(Tid(self.get(t).tid.swap(0, Release)));
        slots.free.push(t.0);
    }

    /// Keeps the main thread, which exited before the others, as a zombie. Its slot is not freed, because its id refers
    /// to it until the process ends (`delay_group_leader`).
    pub fn keep_zombie(&self, t: ThreadIdx) {
        let _slots = self.slots.lock();
        self.live.store(self.live.load(Relaxed) - 1, Relaxed);
        // Before the id goes, so that a reader that misses the living thread finds this.
        self.zombie.store(t.0 + 1, Release);
        self.ids.release(Tid(self.get(t).tid.swap(0, Release)));
    }

    /// The slot of a main thread that exited before the others.
    pub fn zombie(&self) -> Option<ThreadIdx> {
        self.zombie.load(Acquire).checked_sub(1).map(ThreadIdx)
    }

    /// Gives `t` an id of ours; `None` if a new block of ids was needed and refused.
    pub fn assign_tid(&self, t: ThreadIdx, claim_block: impl FnOnce() -> Option<i32>) -> Option<Tid> {
        let tid = self.ids.assign(t, claim_block)?;
        self.get(t).tid.store(tid.0, Release);
        Some(tid)
    }

    /// Gives `t` the id that the host gave it: the main thread's.
    pub fn adopt_tid(&self, t: ThreadIdx, tid: Tid) {
        self.ids.adopt(tid, t);
        self.get(t).tid.store(tid.0, Release);
    }

    /// The slot of a living thread with that id.
    pub fn find(&self, tid: Tid) -> Option<ThreadIdx> {
        let t = self.ids.find(tid)?;
        (self.get(t).tid.load(Acquire) == tid.0).then_some(t)
    }

    /// Like [`ThreadTable::find`], but also finds a zombie main thread.
    pub fn find_named(&self, tid: Tid) -> Option<ThreadIdx> {
        self.find(tid).or_else(|| self.zombie().filter(|_| self.ids.is_main(tid)))
    }

    /// The living thread with the lowest id above this one, except the main thread.
    pub fn next_id(&self, after: Tid) -> Option<(Tid, ThreadIdx)> {
        let mut after = after;
        loop {
            let (tid, t) = self.ids.next(after)?;
            if self.get(t).tid.load(Acquire) == tid.0 {
                return Some((tid, t));
            }
            after = tid;
        }
    }

    /// All slots that may hold a living thread.
    pub fn iter(&self) -> impl Iterator<Item = ThreadIdx> + '_ {
        let fresh = self.slots.lock().fresh;
        (0..fresh).map(ThreadIdx).filter(|&t| {
            self.chunks[t.index() / CHUNK].get().is_some_and(|c| c[t.index() % CHUNK].tid.load(Relaxed) != 0)
        })
    }

    /// The living threads, without a lock: for reports. May miss a slot in the making.
    pub fn living(&self) -> impl Iterator<Item = ThreadIdx> + '_ {
        let chunks = self.chunks.iter().map_while(|c| c.get()).enumerate();
        chunks.flat_map(|(i, chunk)| {
            let living = chunk.iter().enumerate().filter(|(_, t)| t.tid.load(Relaxed) != 0);
            living.map(move |(j, _)| ThreadIdx((i * CHUNK + j) as u32))
        })
    }

    /// How many slots were ever used: this many steps of [`ThreadTable::after`] visit all.
    pub fn slots(&self) -> usize {
        self.slots.lock().fresh as usize
    }

    /// The slot after `t`, wrapping around.
    pub fn after(&self, t: ThreadIdx) -> ThreadIdx {
        let fresh = self.slots.lock().fresh;
        ThreadIdx(if t.0 + 1 >= fresh { 0 } else { t.0 + 1 })
    }

    /// How many threads live.
    pub fn live(&self) -> u32 {
        self.live.load(Relaxed)
    }

    /// How many threads the process shows: the living, and a zombie main thread.
    pub fn shown(&self) -> u32 {
        self.live() + u32::from(self.zombie().is_some())
    }

    /// The most that lived at once, and how many were started in all.
    pub fn totals(&self) -> (u32, u64) {
        (self.peak.load(Relaxed), self.started.load(Relaxed))
    }
}

#[cold]
#[inline(never)]
fn never_made(t: ThreadIdx) -> ! {
    panic!("{t:?} is a slot that was never made")
}

impl Thread {
    /// Prepares a slot for a new thread with the given name.
    pub fn reset(&self, name: [u64; 2]) {
        // Pairs with `describe`: readers see that the id is gone before any field is reset.
        fence(Release);
        self.wait.renew();
        self.pi.reset();
        self.time.reset();
        self.limits.reset();
        self.hint.store(0, Relaxed);
        self.clear_child_tid.store(0, Relaxed);
        self.robust_list.store(0, Relaxed);
        self.rseq.store(0, Relaxed);
        self.rseq_cpu.store(0, Relaxed);
        self.io_priority.store(0, Relaxed);
        self.set_slacks([TIMER_SLACK.0; 2]);
        for (to, from) in self.name.iter().zip(name) {
            to.store(from, Relaxed);
        }
    }

    /// Its timer slack, and what that is reset to.
    pub fn slacks(&self) -> [u64; 2] {
        [self.timer_slack[0].load(Relaxed), self.timer_slack[1].load(Relaxed)]
    }

    /// Sets both.
    pub fn set_slacks(&self, [now, default]: [u64; 2]) {
        self.timer_slack[0].store(now, Relaxed);
        self.timer_slack[1].store(default, Relaxed);
    }

    /// `PR_SET_TIMERSLACK`: 0 resets it.
    pub fn set_slack(&self, slack: u64) {
        let default = self.timer_slack[1].load(Relaxed);
        self.timer_slack[0].store(if slack == 0 { default } else { slack }, Relaxed);
    }

    /// The name, padded with zeros.
    pub fn name_bytes(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.name[0].load(Relaxed).to_le_bytes());
        name[8..].copy_from_slice(&self.name[1].load(Relaxed).to_le_bytes());
        name
    }

    /// Sets the name: 15 bytes, or up to the first zero.
    pub fn set_name(&self, name: &[u8; 16]) {
        let len = name[..15].iter().position(|&b| b == 0).unwrap_or(15);
        let byte = |i: usize| if i < len { u64::from(name[i]) } else { 0 };
        for (half, word) in self.name.iter().enumerate() {
            word.store((0..8).fold(0, |n, i| n | byte(half * 8 + i) << (8 * i)), Relaxed);
        }
    }

    /// The name as two words.
    pub fn name_words(&self) -> [u64; 2] {
        [self.name[0].load(Relaxed), self.name[1].load(Relaxed)]
    }
}
