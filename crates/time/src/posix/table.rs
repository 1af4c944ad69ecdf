//! The timers of a process: ids, slots, and who may access them.
//!
//! Ids are found through sixteen shards, 32 ids in a row in one and the next 32 in the next:
//! threads that meet while they create timers get blocks of ids ([`IdCounter`]) and so do not
//! meet in a shard. A shard has a lock for creating and deleting and a [`Trie`] from ids to
//! slots that is read without it. Slots come from pools by the home CPU, so that a CPU uses again what it has in its
//! cache. A slot has its own lock; its holder checks that the slot still is the timer
//! that was looked up.
//!
//! Locks, in this order: the process lock (signals, CPU timers), a slot, then one of: a
//! CPU's expiry queue, a shard, a pool. No two slots at once.
//!
//! | a slot is | in the trie | answers calls | freed by |
//! |---|---|---|---|
//! | free | no | no | |
//! | free, but taken: being made | yes: the id is taken | no | [`TimerTable::abandon`] |
//! | live | yes | yes | |
//! | dead: deleted, its signal still queued | no | no | the receiver of the signal |

use crate::planted::{self, Fault};
use crate::posix::Timer;
use crate::posix::arena::Arena;
use crate::posix::ids::{BLOCK_BITS, ID_MASK, IdCounter};
use crate::posix::trie::{FreeNodes, Insert, Trie};
use crate::{Error, Heap, OutOfMemory, Places};
use alloc::boxed::Box;
use ids::{CpuId, Nanos};
use sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use sync::boxed_array;
use sync::{CachePadded, Guard, Lock};

const SHARD_BITS: u32 = 4;
const SHARDS: usize = 1 << SHARD_BITS;
const POOL_BITS: u32 = 4;
const POOLS: usize = 1 << POOL_BITS;
/// Taken ids that are skipped before the CPU is offered to other threads.
const TRIES_PER_STEP: u32 = 64;

/// Which shard has an id.
#[inline(always)]
fn shard_of(id: u32) -> usize {
    (id >> BLOCK_BITS) as usize % SHARDS
}

/// The id within its shard, without the shard's number.
#[inline(always)]
fn key_in_shard(id: u32) -> u32 {
    id >> (BLOCK_BITS + SHARD_BITS) << BLOCK_BITS | id & ((1 << BLOCK_BITS) - 1)
}

/// The number of a timer's slot: what queues hold. Reused after the timer is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerKey(pub u32);

impl TimerKey {
    fn new(pool: usize, slot: u32) -> TimerKey {
        TimerKey(slot << POOL_BITS | pool as u32)
    }
    #[inline(always)]
    fn pool(self) -> usize {
        self.0 as usize % POOLS
    }
    #[inline(always)]
    fn slot(self) -> u32 {
        self.0 >> POOL_BITS
    }
}

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Free,
    Live,
    Dead,
}

/// The data under a slot's lock.
#[derive(Debug)]
pub(super) struct State {
    life: Life,
    id: u32,
    created: Nanos,
    pub timer: Timer,
}

/// One slot: two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    /// The id, for readers without the lock; written under the shard's lock.
    id: AtomicU32,
    /// Place in an expiry queue; written under the queue's lock.
    pub place: AtomicU32,
    /// The CPU whose expiry queue it uses; written before the slot is published.
    home: AtomicU32,
    /// Neighbours on the list of ignored signals, under the process lock; for a free slot
    /// `next` is the next free one, under the pool's lock.
    pub next: AtomicU32,
    pub previous: AtomicU32,
    state: Lock<State>,
}

const _: () = assert!(size_of::<Slot>() == 128 || cfg!(any(loom, shuttle)));

impl Default for Slot {
    fn default() -> Slot {
        let timer = Timer::new(crate::posix::Base::Monotonic, crate::posix::Notify::None { signo: 0 }, 0, 0);
        Slot {
            id: AtomicU32::new(0),
            place: AtomicU32::new(Heap::ABSENT),
            home: AtomicU32::new(0),
            next: AtomicU32::new(0),
            previous: AtomicU32::new(0),
            state: Lock::new(State { life: Life::Free, id: 0, created: Nanos::ZERO, timer }),
        }
    }
}

/// From some of the ids to their slots.
#[derive(Debug, Default)]
struct Shard {
    free: Lock<FreeNodes>,
    trie: Trie,
}

/// The data under a pool's lock.
#[derive(Debug, Default)]
struct FreeSlots {
    /// A list through `next`: 0 ends it, else the number plus one.
    head: u32,
    /// How many were ever used, and how many of them are free.
    used: u32,
    free: u32,
}

/// The slots of the timers of some CPUs.
#[derive(Debug, Default)]
struct Pool {
    free: Lock<FreeSlots>,
    slots: Arena<Slot>,
}

/// A claimed id that is not visible yet. [`TimerTable::publish`] or [`TimerTable::abandon`] ends the claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a reserved id must be published or abandoned"]
pub struct Reserved {
    /// The id.
    pub id: u32,
    /// The timer's slot.
    pub key: TimerKey,
}

/// A search for a free id that may take several steps.
#[derive(Clone, Copy, Debug)]
pub struct IdSearch {
    left: u32,
    maker: u32,
}

impl Default for IdSearch {
    fn default() -> IdSearch {
        IdSearch::by(0)
    }
}

impl IdSearch {
    /// A search by the thread with this number.
    pub fn by(maker: u32) -> IdSearch {
        IdSearch { left: ID_MASK, maker }
    }
}

/// Why no id was reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReserved {
    /// EAGAIN, EBUSY.
    Refused(Error),
    /// Sixty-four ids in a row were taken: offer the CPU and call again with the same
    /// search (the seed's `cond_resched`).
    More,
}

impl From<OutOfMemory> for NotReserved {
    fn from(_: OutOfMemory) -> NotReserved {
        NotReserved::Refused(Error::Again)
    }
}

/// A timer as a listing shows it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The timer's id.
    pub id: u32,
    /// When it was created: listings show the newest first.
    pub created: Nanos,
    /// The timer.
    pub timer: Timer,
}

/// All timers of one process.
#[derive(Debug)]
pub struct TimerTable {
    shards: Box<[CachePadded<Shard>; SHARDS]>,
    pools: Box<[CachePadded<Pool>; POOLS]>,
    ids: IdCounter,
    restoring: AtomicBool,
}

impl TimerTable {
    /// No timers; ids begin at 0. (Shards and pools lie apart: a kernel that is being built is moved on a small stack.)
    pub fn new() -> Result<TimerTable, OutOfMemory> {
        Ok(TimerTable {
            shards: boxed_array(|_| CachePadded::<Shard>::default())?,
            pools: boxed_array(|_| CachePadded::<Pool>::default())?,
            ids: IdCounter::new(),
            restoring: AtomicBool::new(false),
        })
    }

    /// Makes what the first timer with this home needs, so that it costs little more than the next ones.
    pub(super) fn prepare(&self, home: CpuId) -> Result<(), OutOfMemory> {
        self.pools[home.index() % POOLS].slots.ensure(0)
    }

    /// Whether `timer_create(2)` takes wanted ids: `PR_TIMER_CREATE_RESTORE_IDS`.
    pub fn is_restoring(&self) -> bool {
        self.restoring.load(Relaxed)
    }

    /// `prctl(PR_TIMER_CREATE_RESTORE_IDS, op, 0, 0, 0)`: off 0, on 1, get 2; EINVAL for
    /// anything else.
    pub fn restore_ids(&self, op: u64, rest: [u64; 3]) -> Result<i32, Error> {
        match op {
            _ if rest != [0; 3] => Err(Error::Invalid),
            0 | 1 => {
                self.restoring.store(op == 1, Relaxed);
                Ok(0)
            }
            2 => Ok(self.is_restoring() as i32),
            _ => Err(Error::Invalid),
        }
    }

    /// The id that the next creation tries first. It survives exec; a fork's child begins
    /// at 0.
    pub fn next_id(&self) -> u32 {
        self.ids.get()
    }

    /// Sets the id that the next creation tries first.
    pub fn set_next_id(&self, id: u32) {
        self.ids.set(id);
    }

    /// Reserves an id and a slot for a timer whose expiries are looked after by `home`: the
    /// `wanted` id (EBUSY if it is taken, even by a timer
    /// that is being made; the counter goes to the one after it, up or down), or the first
    /// free one from the counter on (EAGAIN after 2^31 tries).
    pub fn reserve(&self, wanted: Option<u32>, home: CpuId, search: &mut IdSearch) -> Result<Reserved, NotReserved> {
        if let Some(id) = wanted {
            let reserved = self.try_reserve(id & ID_MASK, home)?.ok_or(NotReserved::Refused(Error::Busy))?;
            self.set_next_id(id.wrapping_add(1));
            return Ok(reserved);
        }
        for _ in 0..TRIES_PER_STEP {
            if search.left == 0 {
                return Err(NotReserved::Refused(Error::Again));
            }
            search.left -= 1;
            let id = self.ids.take(home, search.maker);
            if let Some(reserved) = self.try_reserve(id, home)? {
                return Ok(reserved);
            }
        }
        Err(NotReserved::More)
    }

    fn try_reserve(&self, id: u32, home: CpuId) -> Result<Option<Reserved>, OutOfMemory> {
        let shard = &self.shards[shard_of(id)];
        let pool = home.index() % POOLS;
        let key = TimerKey::new(pool, self.pools[pool].take()?);
        let slot = self.slot(key);
        slot.id.store(id, Relaxed);
        slot.home.store(home.0 as u32, Relaxed);
        let key_of = |slot: u32| key_in_shard(self.slot(TimerKey(slot)).id.load(Relaxed));
        let inserted = shard.trie.insert(key_in_shard(id), key.0, &mut shard.free.lock(), key_of);
        if inserted == Ok(Insert::Done) || planted::strikes(Fault::DuplicateId) {
            return Ok(Some(Reserved { id, key }));
        }
        self.free(key);
        inserted.map(|_| None)
    }

    /// Makes the reserved timer known.
    pub fn publish(&self, reserved: Reserved, timer: Timer, now: Nanos) {
        let mut state = self.slot(reserved.key).state.lock();
        *state = State { life: Life::Live, id: reserved.id, created: now, timer };
    }

    /// Releases a reserved id. The counter stays, so the id is not tried again soon.
    pub fn abandon(&self, reserved: Reserved) {
        self.forget(reserved.id);
        self.free(reserved.key);
    }

    /// Looks the timer up and locks it: EINVAL if there is none.
    #[inline]
    pub(super) fn lock(&self, id: i32) -> Result<(TimerKey, &Slot, Guard<'_, State>), Error> {
        let id = u32::try_from(id).map_err(|_| Error::Invalid)?;
        let found = self.shards[shard_of(id)].trie.find(key_in_shard(id)).and_then(|key| {
            let key = TimerKey(key);
            let slot = self.pools[key.pool()].slots.get(key.slot())?;
            Some((key, slot, slot.state.lock()))
        });
        found.filter(|(_, _, state)| state.life == Life::Live && state.id == id).ok_or(Error::Invalid)
    }

    /// Looks at a timer: EINVAL if there is none.
    pub fn look<R>(&self, id: i32, look: impl FnOnce(&Timer) -> R) -> Result<R, Error> {
        self.lock(id).map(|(_, _, state)| look(&state.timer))
    }

    /// `timer_getoverrun(2)`.
    #[inline]
    pub fn overrun(&self, id: i32) -> Result<i32, Error> {
        self.look(id, Timer::overrun)
    }

    /// Where the timer is in an expiry queue; under the queue's lock.
    pub fn place(&self, key: TimerKey) -> u32 {
        self.slot(key).place.load(Relaxed)
    }

    /// The timer is at this place of its queue, or [`Heap::ABSENT`]; under the queue's lock.
    pub fn set_place(&self, key: TimerKey, place: u32) {
        self.slot(key).place.store(place, Relaxed);
    }

    #[inline(always)]
    pub(super) fn slot(&self, key: TimerKey) -> &Slot {
        self.pools[key.pool()].slots.get(key.slot()).expect("a key names a slot")
    }

    /// The timer with this locked state no longer accepts calls, and its id is free. `last`: nothing refers to it, so
    /// its slot is free too.
    pub(super) fn bury(&self, key: TimerKey, mut state: Guard<'_, State>, last: bool) {
        state.life = if last { Life::Free } else { Life::Dead };
        let id = state.id;
        drop(state);
        self.forget(id);
        if last {
            self.free(key);
        }
    }

    /// Frees the slot of a dead timer that nothing holds any more. The caller has locked its state.
    pub(super) fn release(&self, key: TimerKey, mut state: Guard<'_, State>) {
        let before = core::mem::replace(&mut state.life, Life::Free);
        assert_eq!(before, Life::Dead, "{key:?} is freed twice or alive");
        drop(state);
        self.free(key);
    }

    fn forget(&self, id: u32) {
        let shard = &self.shards[shard_of(id)];
        shard.trie.remove(key_in_shard(id), &mut shard.free.lock());
    }

    fn free(&self, key: TimerKey) {
        self.pools[key.pool()].give(key.slot());
    }

    /// Lists up to `most` slots from cursor `from` on, and returns where to continue; `None` at the end. Start at 0.
    /// Creating and deleting do not wait for it: it holds one timer while it copies it, and a pool while it reads how
    /// many of its slots were ever used.
    pub fn list(&self, from: u64, most: u32, mut show: impl FnMut(Listed)) -> Option<u64> {
        let (mut number, mut slot) = ((from >> 32) as usize, from as u32);
        let used_of = |number: usize| self.pools.get(number).map_or(0, |pool| pool.free.lock().used);
        let mut used = used_of(number);
        for _ in 0..most {
            let found = loop {
                if number >= POOLS {
                    return None;
                }
                match self.pools[number].slots.get(slot).filter(|_| slot < used) {
                    Some(found) => break found,
                    None => {
                        (number, slot) = (number + 1, 0);
                        used = used_of(number);
                    }
                }
            };
            let state = found.state.lock();
            if state.life == Life::Live {
                show(Listed { id: state.id, created: state.created, timer: state.timer });
            }
            slot += 1;
        }
        Some((number as u64) << 32 | slot as u64)
    }

    /// How many slots are in use, and the bytes of all slots and of the index.
    pub fn usage(&self) -> (usize, usize) {
        self.pools.iter().fold((0, self.index_bytes()), |(timers, bytes), pool| {
            let free = pool.free.lock();
            (timers + (free.used - free.free) as usize, bytes + free.used as usize * size_of::<Slot>())
        })
    }

    /// The bytes of the index: what finding timers by their ids takes.
    pub fn index_bytes(&self) -> usize {
        let nodes = |shard: &CachePadded<Shard>| shard.free.lock().in_use() as usize * Trie::NODE_BYTES;
        self.shards.iter().map(nodes).sum()
    }
}

impl Pool {
    fn take(&self) -> Result<u32, OutOfMemory> {
        let mut free = self.free.lock();
        if let Some(slot) = free.head.checked_sub(1) {
            free.head = self.slots.get(slot).map_or(0, |slot| slot.next.load(Relaxed));
            free.free -= 1;
            return Ok(slot);
        }
        self.slots.ensure(free.used)?;
        free.used += 1;
        Ok(free.used - 1)
    }

    fn give(&self, slot: u32) {
        let mut free = self.free.lock();
        if let Some(given) = self.slots.get(slot) {
            given.next.store(free.head, Relaxed);
            free.head = slot + 1;
            free.free += 1;
        }
    }
}

/// Expiry queues keep a timer's place in its slot.
impl Places for &TimerTable {
    #[inline(always)]
    fn set_place(&mut self, item: u32, place: u32) {
        TimerTable::set_place(self, TimerKey(item), place);
    }
}

impl State {
    pub fn id(&self) -> u32 {
        self.id
    }
    pub fn created(&self) -> Nanos {
        self.created
    }
}

impl Slot {
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
    }

    #[inline(always)]
    pub fn home(&self) -> CpuId {
        CpuId(self.home.load(Relaxed) as u16)
    }
}

#[cfg(test)]
mod tests;
