//! The entities, in chunks that are allocated when first needed and never move.

use crate::OutOfMemory;
use crate::cpuset::try_boxed;
use crate::entity::Entity;
use crate::field::FieldU64;
use crate::planted::Fault;
use alloc::boxed::Box;
use ids::{CpuId, CpuMask, THREADS_MAX, ThreadIdx};
use once_cell::race::OnceBox;

/// Entities a chunk. A model checker's atomics are large: it gets few.
const CHUNK: usize = if cfg!(any(loom, shuttle)) { 4 } else { 256 };
const CHUNKS: usize = if cfg!(any(loom, shuttle)) { 4 } else { THREADS_MAX / CHUNK };
type Chunk = [Entity; CHUNK];
type Wide = [Box<[FieldU64]>; 1];

/// All entities of a scheduler.
#[derive(Debug)]
pub(crate) struct Table {
    chunks: Box<[OnceBox<Chunk>; CHUNKS]>,
    /// Mask words after the first, for machines of more than 64 CPUs.
    wide: Box<[OnceBox<Wide>]>,
    /// Mask words after the first.
    extra: usize,
    #[cfg(feature = "planted")]
    pub fault: Option<Fault>,
}

impl Table {
    pub(crate) fn new(cpus: usize) -> Result<Table, OutOfMemory> {
        let extra = cpus.div_ceil(64) - 1;
        Ok(Table {
            chunks: try_boxed(CHUNKS, |_| OnceBox::new())?.try_into().map_err(|_| OutOfMemory)?,
            wide: try_boxed(if extra == 0 { 0 } else { CHUNKS }, |_| OnceBox::new())?,
            extra,
            #[cfg(feature = "planted")]
            fault: None,
        })
    }

    /// Whether this fault is planted: see `planted.rs`. Here because everything has the table at hand.
    #[inline(always)]
    #[cfg_attr(not(feature = "planted"), allow(unused_variables, reason = "nothing is planted then"))]
    pub(crate) fn plants(&self, fault: Fault) -> bool {
        #[cfg(feature = "planted")]
        return self.fault == Some(fault);
        #[cfg(not(feature = "planted"))]
        false
    }

    /// Makes sure that `t` has an entity.
    pub(crate) fn reserve(&self, t: ThreadIdx) -> Result<(), OutOfMemory> {
        let i = t.index() / CHUNK;
        if self.chunks[i].get().is_none() {
            let base = (i * CHUNK) as u32;
            let chunk = try_boxed(CHUNK, |j| Entity::new(base + j as u32))?;
            let chunk: Box<Chunk> = chunk.try_into().map_err(|_| OutOfMemory)?;
            // Somebody else may have been faster; then theirs is as good.
            let _ = self.chunks[i].set(chunk);
        }
        if self.extra > 0 && self.wide[i].get().is_none() {
            let words = try_boxed(CHUNK * self.extra, |_| FieldU64::from(0))?;
            let mut words = Some(words);
            let wide = try_boxed(1, |_| words.take().unwrap_or_default())?;
            let wide: Box<Wide> = wide.try_into().map_err(|_| OutOfMemory)?;
            let _ = self.wide[i].set(wide);
        }
        Ok(())
    }

    /// The entity of `t`, which must have been attached.
    #[inline(always)]
    pub(crate) fn get(&self, t: ThreadIdx) -> &Entity {
        // The remainder saves a bounds check; ids are below THREADS_MAX.
        match self.chunks[t.index() / CHUNK % CHUNKS].get() {
            Some(c) => &c[t.index() % CHUNK],
            None => never_attached(t),
        }
    }

    /// The entity of `t` if its slot was ever attached.
    pub(crate) fn find(&self, t: ThreadIdx) -> Option<&Entity> {
        self.chunks.get(t.index() / CHUNK)?.get().map(|c| &c[t.index() % CHUNK])
    }

    fn extra_words(&self, t: ThreadIdx) -> &[FieldU64] {
        match self.wide.get(t.index() / CHUNK).and_then(|w| w.get()) {
            Some(w) => &w[0][t.index() % CHUNK * self.extra..][..self.extra],
            None => &[],
        }
    }

    /// Word `i` of the affinity mask of `t`.
    #[inline]
    pub(crate) fn mask_word(&self, t: ThreadIdx, e: &Entity, i: usize) -> u64 {
        if i == 0 { e.mask.get() } else { self.extra_words(t).get(i - 1).map_or(0, |w| w.get()) }
    }

    /// Whether `t` may run on `cpu`.
    #[inline]
    pub(crate) fn allows(&self, t: ThreadIdx, e: &Entity, cpu: CpuId) -> bool {
        self.mask_word(t, e, cpu.index() / 64) >> (cpu.index() % 64) & 1 != 0
    }

    /// The affinity mask folded into one word: bit `c % 64` for every CPU `c` of it. Exact up to 64 CPUs.
    #[inline]
    pub(crate) fn fold(&self, t: ThreadIdx, e: &Entity) -> u64 {
        let first = e.mask.get();
        if self.extra == 0 { first } else { self.extra_words(t).iter().fold(first, |m, w| m | w.get()) }
    }

    /// The affinity mask of `t`.
    pub(crate) fn mask(&self, t: ThreadIdx) -> CpuMask {
        let e = self.get(t);
        let mut m = CpuMask::empty();
        for i in 0..=self.extra {
            CpuMask::from_words(&[self.mask_word(t, e, i)]).iter().for_each(|c| m.insert(CpuId(c.0 + (i * 64) as u16)));
        }
        m
    }

    /// Replaces the affinity mask; the caller owns the entity, and it is in no queue.
    pub(crate) fn set_mask(&self, t: ThreadIdx, mask: &CpuMask) {
        let e = self.get(t);
        let word = |i: usize| mask.words().get(i).copied().unwrap_or(0);
        e.mask.set(word(0));
        self.extra_words(t).iter().enumerate().for_each(|(i, w)| w.set(word(i + 1)));
        e.movable.set(u8::from(mask.count() > 1));
    }
}

#[cold]
#[inline(never)]
fn never_attached(t: ThreadIdx) -> ! {
    panic!("{t:?} was never attached to the scheduler")
}
