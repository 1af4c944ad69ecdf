//! Records written while a program runs: samples of its threads, and switches of its CPUs.
//!
//! CPUs write records to rings of their own and never wait. The service thread appends them to the process's file in
//! the folder that the command named, every `ROUND` and when a ring is half full; a thread that ends the process or
//! execs writes out the rest. The file is opened each time and no descriptor is kept, because programs close all
//! descriptors they find.
//!
//! With wall-clock sampling, the service thread samples waiting threads itself and asks CPUs to sample running ones.

use crate::base::contexts::Contexts;
use crate::base::os::{self, nr};
use crate::base::report::{self, Text};
use crate::base::sites;
use abi::args::{O_APPEND, O_CREAT, O_WRONLY, PR_GET_NAME};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::context::reg;
use arch::{syscall, user};
use core::fmt::Write;
use ids::{CpuId, Left, Nanos, Policy, ThreadIdx, Tid};
use kernel::{Config, Kernel, Machine};
use record::Ring;
use record::write::{self, Begin, End, Place, Sampled, Switched};
use sync::Lock;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// The time between two visits of the service thread.
const ROUND: Nanos = Nanos::from_millis(20);
/// Words of a ring: four mebibytes of address space; the host provides only the pages used.
const RING_WORDS: usize = 1 << 19;
/// Words written at a time.
const PIECE: usize = 1024;
/// How often a thread that must write checks whether the file is free: about two seconds in all.
const LOOKS_MAX: u32 = 100_000;

/// The records of one process.
#[derive(Debug)]
struct Recorder {
    folder: Vec<u8>,
    /// One for each CPU, and one for the service thread.
    rings: Vec<Ring>,
    /// Samples that were due, by ring.
    due: Vec<AtomicU64>,
    unsampled: AtomicU64,
    /// Switches that did not fit.
    switches_lost: AtomicU64,
    memory: *mut u8,
    /// Libraries were loaded or unloaded.
    code: AtomicBool,
    /// Some thread is writing records to the file.
    carrying: AtomicBool,
    /// The service thread has been called because a ring is half full.
    called: AtomicBool,
    /// Recording has ended: nothing is written any more.
    ended: AtomicBool,
    wall: Lock<Wall>,
}

// SAFETY: `memory` is only kept to be unmapped.
unsafe impl Sync for Recorder {}

/// The recorder of a process that has one.
#[derive(Debug, Default)]
pub struct Records(AtomicPtr<Recorder>);

impl Records {
    fn get(&self) -> Option<&Recorder> {
        // SAFETY: null, or complete and never freed.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Whether there is or was a recorder.
    pub(crate) fn are_made(&self) -> bool {
        self.get().is_some()
    }

    /// The recorder, until the process ends.
    #[inline]
    fn active(&self) -> Option<&Recorder> {
        self.get().filter(|r| !r.ended.load(Relaxed))
    }

    /// Starts recording, if a folder is named.
    pub fn begin(&self, config: &Config, folder: &[u8]) {
        if folder.is_empty() {
            return;
        }
        let rings = config.cpus + 1;
        let Some(memory) = os::map(rings * RING_WORDS * 8) else {
            return report::say(format_args!("no memory for records: there will be none"));
        };
        let recorder = Box::leak(Box::new(Recorder::new(folder, rings, memory)));
        let mut name = [0u8; 16];
        // SAFETY: the host fills sixteen bytes.
        unsafe { syscall!(nr::PRCTL, PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
        let name = name.as_chunks::<8>().0;
        let begin = Begin {
            pid: config.pid.0,
            cpus: config.cpus,
            at: os::clock_gettime(1),
            every: config.sampling.map_or(Nanos::ZERO, |s| s.every),
            wall: config.sampling.is_some_and(|s| s.wall),
            name: [u64::from_le_bytes(name[0]), u64::from_le_bytes(name[1])],
        };
        recorder.with_file(|file| file.write(&begin.words()));
        self.0.store(recorder, Release);
    }

    /// Starts recording in a forked child, with rings of its own; unmaps the parent's.
    pub(crate) fn begin_child(&self, config: &Config, parent: &Records) {
        let Some(old) = parent.get() else { return };
        // SAFETY: the child has only this thread, and the parent's kernel is not used here.
        unsafe { os::unmap(old.memory, old.rings.len() * RING_WORDS * 8) };
        self.begin(config, &old.folder);
    }

    /// Notes that libraries were loaded or unloaded.
    pub fn code_changed(&self) {
        if let Some(recorder) = self.get() {
            recorder.code.store(true, Release);
        }
    }

    /// Samples the current thread of `cpu`, which the calling carrier serves. True if the service thread must be
    /// called.
    pub(crate) fn sample<M: Machine>(
        &self,
        k: &Kernel<M>,
        cpu: CpuId,
        t: ThreadIdx,
        value: Nanos,
        place: Place,
    ) -> bool {
        self.active().is_some_and(|r| r.sample(k, cpu.index(), t, value, place, || true))
    }

    /// Records that `cpu`, which the calling carrier serves, switches to another thread. True if the service thread
    /// must be called.
    pub(crate) fn switched<M: Machine>(
        &self,
        k: &Kernel<M>,
        cpu: CpuId,
        to: Option<ThreadIdx>,
        left: Left,
        at: Nanos,
    ) -> bool {
        let Some(r) = self.active() else { return false };
        let to = match to {
            Some(t) => {
                let name = k.thread(t).name_words();
                Switched {
                    at,
                    tid: k.tid(t).0,
                    priority: priority(&k.sched.attr(t)),
                    name,
                    left,
                    woken: k.take_woken(t, at),
                }
            }
            None => Switched { at, tid: 0, priority: 120, name: [0; 2], left, woken: None },
        };
        if !write::switch(&r.rings[cpu.index()], cpu.0, &to) {
            r.switches_lost.fetch_add(1, Relaxed);
        }
        r.is_call_due(cpu.index())
    }

    /// Records that a thread ends with this much CPU time since its last sample; the calling carrier serves its CPU.
    pub(crate) fn unsampled(&self, cpu: CpuId, tid: Tid, value: Nanos) {
        if let Some(r) = self.active()
            && !r.again(cpu.index(), tid.0, 0, value)
        {
            r.unsampled.fetch_add(value.0, Relaxed);
        }
    }

    /// How long the service thread may sleep, if other tasks let it sleep for `other`.
    pub(crate) fn sooner(&self, config: &Config, other: Option<Nanos>) -> Option<Nanos> {
        let Some(r) = self.active() else { return other };
        let own = match config.sampling {
            Some(sampling) if sampling.wall => r.wall.lock().next.since(os::clock_gettime(1)).min(ROUND),
            _ => ROUND,
        };
        Some(other.map_or(own, |other| other.min(own)))
    }

    /// The service thread's part: takes samples that are due and writes records out.
    pub(crate) fn look<M: Machine>(&self, k: &Kernel<M>, contexts: &Contexts) {
        let Some(r) = self.active() else { return };
        if let Some(sampling) = k.config().sampling.filter(|s| s.wall) {
            r.sample_waiting(k, contexts, sampling.every);
        }
        r.carry();
    }

    /// Writes everything out, because the process may become another program.
    pub(crate) fn flush(&self) {
        if let Some(r) = self.get() {
            r.report_waiting();
            r.carry();
        }
    }

    /// Ends recording and writes everything out, because the process ends.
    pub(crate) fn end(&self) {
        self.get().into_iter().for_each(|r| r.end());
    }
}

impl Recorder {
    /// By itself, because its frame would be another page of stack at the end of each process.
    #[cold]
    #[inline(never)]
    fn end(&self) {
        if self.ended.swap(true, AcqRel) {
            return;
        }
        self.report_waiting();
        self.carry();
        let due = self.due.iter().map(|n| n.load(Relaxed)).sum();
        let end = End {
            due,
            unsampled: Nanos(self.unsampled.load(Relaxed)),
            switches_lost: self.switches_lost.load(Relaxed),
            at: os::clock_gettime(1),
        };
        self.with_file(|file| file.write(&end.words()));
    }
}

/// A priority as Linux's `sched_switch` event counts it.
fn priority(attr: &sched::Attr) -> i16 {
    match attr.policy {
        Policy::Fifo | Policy::RoundRobin => 99 - i16::from(attr.rt.0),
        Policy::Deadline => -1,
        _ => 120 + i16::from(attr.nice.0),
    }
}

/// The file, open for appending.
struct File(i32);

impl File {
    fn write(&self, words: &[u64]) {
        let (mut at, mut left) = (words.as_ptr().cast::<u8>(), size_of_val(words));
        while left > 0 {
            // SAFETY: within the words.
            let n = os::without_signals(|| unsafe { syscall!(nr::WRITE, self.0, at, left) });
            let Ok(n) = usize::try_from(n) else { return };
            if n == 0 {
                return;
            }
            // SAFETY: as above.
            at = unsafe { at.add(n) };
            left -= n;
        }
    }
}

impl Recorder {
    fn new(folder: &[u8], rings: usize, memory: *mut u8) -> Recorder {
        let ring = |i: usize| {
            let at = memory.cast::<AtomicU64>();
            // SAFETY: zeroed memory for `rings` rings, each of which gets its own part; it is unmapped when nobody uses
            // it.
            Ring::new(unsafe { core::slice::from_raw_parts(at.add(i * RING_WORDS), RING_WORDS) })
        };
        Recorder {
            folder: folder.to_vec(),
            rings: (0..rings).map(ring).collect(),
            due: (0..rings).map(|_| AtomicU64::new(0)).collect(),
            unsampled: AtomicU64::new(0),
            switches_lost: AtomicU64::new(0),
            memory,
            code: AtomicBool::new(true),
            carrying: AtomicBool::new(false),
            called: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            wall: Lock::new(Wall::default()),
        }
    }

    /// Writes a sample. True if the service thread must be called.
    fn sample<M: Machine>(
        &self,
        k: &Kernel<M>,
        ring: usize,
        t: ThreadIdx,
        value: Nanos,
        place: Place,
        still_there: impl Fn() -> bool,
    ) -> bool {
        let thread = k.thread(t);
        let due = &self.due[ring];
        due.store(due.load(Relaxed) + 1, Relaxed);
        let name = thread.name_words();
        let who = Sampled { tid: thread.tid.load(Relaxed), name, count: 1, value, at: k.now() };
        let load = |at| user::load_u64(at).ok();
        if !write::sample(&self.rings[ring], ring as u16, &who, place, load, still_there) {
            due.store(due.load(Relaxed) - 1, Relaxed);
        }
        self.is_call_due(ring)
    }

    fn is_call_due(&self, ring: usize) -> bool {
        self.rings[ring].is_half_full() && !self.called.swap(true, Relaxed)
    }

    /// Writes the rings' records to the file.
    fn carry(&self) {
        self.called.store(false, Relaxed);
        let code = self.code.load(Relaxed);
        if !code && self.rings.iter().all(Ring::is_empty) {
            return;
        }
        self.with_file(|file| {
            // Before the samples, which may lie in new code.
            if self.code.swap(false, AcqRel)
                && let Some(words) = code_lines().and_then(|text| write::maps(&text))
            {
                file.write(&words);
            }
            let mut piece = [0; PIECE];
            for ring in &self.rings {
                ring.drain(&mut piece, |words| file.write(words));
            }
        });
    }

    fn with_file(&self, f: impl FnOnce(&File)) {
        let mut round = 0;
        while self.carrying.swap(true, AcqRel) {
            round += 1;
            if round > LOOKS_MAX {
                return;
            }
            os::relax(round);
        }
        let mut path = Text::<4096>::default();
        let folder = core::str::from_utf8(&self.folder).unwrap_or("");
        let _ = write!(path, "{folder}/{}\0", os::getpid());
        if let Ok(fd) = os::open(path.as_bytes(), O_WRONLY | O_CREAT | O_APPEND, 0o600) {
            f(&File(fd));
            os::close(fd);
        }
        self.carrying.store(false, Release);
    }
}

/// The lines of the process's memory map that hold code.
fn code_lines() -> Option<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), [0u8; 4096]);
    let fd = os::open(c"/proc/self/maps".to_bytes_with_nul(), 0, 0).ok()?;
    // The beginning of a line whose end has not been read.
    let mut line = 0;
    loop {
        let n = os::read(fd, &mut chunk);
        if n == 0 {
            break;
        }
        for &byte in &chunk[..n] {
            if text.try_reserve(1).is_err() {
                break;
            }
            text.push(byte);
            if byte == b'\n' {
                let is_code = text[line..].split(|&b| b == b' ').nth(1).is_some_and(|access| access.contains(&b'x'));
                if !is_code {
                    text.truncate(line);
                }
                line = text.len();
            }
        }
    }
    os::close(fd);
    Some(text)
}

/// The service thread's record of waiting threads.
#[derive(Debug, Default)]
struct Wall {
    /// When the next samples are due.
    next: Nanos,
    seen: Vec<Seen>,
}

/// A thread at its last sample.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    tid: i32,
    /// Its CPU time at that sample.
    run: Nanos,
    /// How often it was found there again.
    again: u64,
}

impl Recorder {
    /// Samples all threads that wait, and asks CPUs to sample those that run.
    fn sample_waiting<M: Machine>(&self, k: &Kernel<M>, contexts: &Contexts, every: Nanos) {
        let now = os::clock_gettime(1);
        let mut wall = self.wall.lock();
        if now < wall.next {
            return;
        }
        // Skip moments that were slept through.
        wall.next = if wall.next + every > now { wall.next } else { now } + every;
        for t in k.threads().living() {
            if wall.seen.len() <= t.index() {
                if wall.seen.try_reserve(t.index() + 1).is_err() {
                    continue;
                }
                wall.seen.resize(t.index() + 1, Seen::default());
            }
            self.sample_if_waiting(k, contexts, t, &mut wall.seen[t.index()]);
            if self.rings[self.rings.len() - 1].is_half_full() {
                self.carry();
            }
        }
        drop(wall);
        for cpu in (0..k.config().cpus).map(|i| CpuId(i as u16)) {
            if k.sched.current(cpu).is_some() {
                k.ask_for_sample(cpu);
            }
        }
    }

    fn sample_if_waiting<M: Machine>(&self, k: &Kernel<M>, contexts: &Contexts, t: ThreadIdx, seen: &mut Seen) {
        let ring = self.rings.len() - 1;
        let context = contexts.get(t);
        // SAFETY: contexts live for ever; the claim is atomic.
        let claim = unsafe { &(*context).claim };
        let run = k.sched.runtime(t, Nanos::ZERO);
        let still_there = || claim.load(Acquire) == 0 && k.sched.runtime(t, Nanos::ZERO) == run;
        let tid = k.tid(t).0;
        if claim.load(Acquire) != 0 || tid == 0 {
            return;
        }
        if seen.tid == tid && seen.run == run {
            self.due[ring].fetch_add(1, Relaxed);
            seen.again += 1;
            return;
        }
        self.report(seen);
        *seen = Seen { tid, run, again: 0 };
        // SAFETY: nobody writes while the claim is free; if a carrier claims it, `still_there` discards the sample.
        let (r, rip) =
            unsafe { ((&raw const (*context).r).read_volatile(), (&raw const (*context).rip).read_volatile()) };
        let place = Place { rip: sites::seen(rip, r[reg::RCX]), rsp: r[reg::RSP], rbp: r[reg::RBP] };
        // The caller is the service thread, which checks its own ring: no need to call it.
        self.sample(k, ring, t, k.take_unsampled(t), place, still_there);
    }

    fn report(&self, seen: &mut Seen) {
        let again = core::mem::take(&mut seen.again);
        if again > 0 {
            // If they do not fit, the samples are counted as missing.
            self.again(self.rings.len() - 1, seen.tid, again, Nanos::ZERO);
        }
    }

    /// Repeats a thread's last sample; false if it does not fit.
    fn again(&self, ring: usize, tid: i32, count: u64, value: Nanos) -> bool {
        let words = write::again(tid, count, value);
        let writer = self.rings[ring].begin(words.len());
        let fits = writer.is_some();
        if let Some(mut writer) = writer {
            writer.push_all(&words);
            writer.commit();
        }
        fits
    }

    /// Records how often waiting threads were found where they were.
    fn report_waiting(&self) {
        let mut wall = self.wall.lock();
        for seen in &mut wall.seen {
            self.report(seen);
            if self.rings[self.rings.len() - 1].is_half_full() {
                self.carry();
            }
        }
    }
}
