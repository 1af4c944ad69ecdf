//! Signals as a kernel book would write them down: plain lists, searched from the front,
//! flushed from every thread at once. Slow and obvious; the machine must agree with it.

use abi::{SIG_DFL, SIG_IGN, SaFlags, SigAction, SigInfo, SigSet, Signal};

/// A queued signal and its timer, if one sent it.
pub type Queued = (SigInfo, Option<u64>);

/// One queue.
#[derive(Clone, Default, Debug)]
pub struct Queue {
    pub set: SigSet,
    pub list: Vec<Queued>,
}

impl Queue {
    fn push(&mut self, info: SigInfo, timer: Option<u64>) {
        self.set.insert(info.signal().unwrap());
        self.list.push((info, timer));
    }

    fn collect(&mut self, s: Signal) -> Queued {
        let found = self.list.iter().position(|e| e.0.signal() == Some(s));
        let taken = found.map_or((SigInfo::lost(s), None), |i| self.list.remove(i));
        if !self.list.iter().any(|e| e.0.signal() == Some(s)) {
            self.set.remove(s);
        }
        taken
    }

    fn flush(&mut self, set: SigSet) {
        self.list.retain(|e| !set.contains(e.0.signal().unwrap()));
        self.set = self.set.without(set);
    }

    fn next(&mut self, blocked: SigSet) -> Option<Queued> {
        let ready = self.set.without(blocked);
        let faults = ready & SigSet::SYNCHRONOUS;
        let s = if faults.is_empty() { ready.lowest()? } else { faults.lowest()? };
        Some(self.collect(s))
    }

    fn first_fault(&mut self, blocked: SigSet) -> Option<Queued> {
        let faults = SigSet::SYNCHRONOUS.without(blocked);
        let e = self.list.iter().find(|e| e.0.code() > 0 && faults.contains(e.0.signal().unwrap()))?;
        let s = e.0.signal().unwrap();
        Some(self.collect(s))
    }
}

/// One thread.
#[derive(Clone, Default, Debug)]
pub struct Thread {
    pub blocked: SigSet,
    pub saved: Option<SigSet>,
    pub awaiting: Option<SigSet>,
    pub own: Queue,
}

/// What sending came to.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Outcome {
    Refused,
    Ignored,
    Coalesced,
    Queued,
    WithoutInfo,
}

/// What delivering came to.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Act {
    None,
    Handler(SigInfo, SigAction, SigSet),
    Stop(Signal),
    End(SigInfo, bool),
}

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    pub actions: Vec<SigAction>,
    pub threads: Vec<Thread>,
    pub shared: Queue,
}

impl Process {
    pub fn new(threads: usize) -> Process {
        Process {
            actions: vec![SigAction::DEFAULT; 64],
            threads: vec![Thread::default(); threads],
            shared: Queue::default(),
        }
    }

    fn action(&self, s: Signal) -> &SigAction {
        &self.actions[s.index()]
    }

    pub fn ignores(&self, s: Signal) -> bool {
        let h = self.action(s).handler;
        h == SIG_IGN || (h == SIG_DFL && SigSet::IGNORED_BY_DEFAULT.contains(s))
    }

    pub fn flush_all(&mut self, set: SigSet) {
        self.shared.flush(set);
        for t in &mut self.threads {
            t.own.flush(set);
        }
    }

    fn prepare(&mut self, s: Signal, to: usize) -> bool {
        if SigSet::STOP.contains(s) {
            self.flush_all(SigSet::only(Signal::CONT));
        } else if s == Signal::CONT {
            self.flush_all(SigSet::STOP);
        }
        let t = &self.threads[to];
        let kept = t.blocked.contains(s) || t.awaiting.is_some_and(|m| m.contains(s));
        kept || !self.ignores(s)
    }

    fn queue(&mut self, to: usize, process_wide: bool) -> &mut Queue {
        if process_wide { &mut self.shared } else { &mut self.threads[to].own }
    }

    pub fn send(&mut self, to: usize, process_wide: bool, info: SigInfo, room: bool) -> Outcome {
        let s = info.signal().unwrap();
        if !self.prepare(s, to) {
            return Outcome::Ignored;
        }
        let q = self.queue(to, process_wide);
        if !s.is_rt() && q.set.contains(s) {
            return Outcome::Coalesced;
        }
        if s == Signal::KILL {
            q.set.insert(s);
            return Outcome::WithoutInfo;
        }
        if room || (!s.is_rt() && info.code() >= 0) {
            q.push(info, None);
            return Outcome::Queued;
        }
        if s.is_rt() && info.code() != 0 && info.code() != 0x80 {
            return Outcome::Refused;
        }
        q.set.insert(s);
        Outcome::WithoutInfo
    }

    pub fn send_timer(&mut self, to: usize, process_wide: bool, info: SigInfo, timer: u64) -> Outcome {
        if !self.prepare(info.signal().unwrap(), to) {
            return Outcome::Ignored;
        }
        self.queue(to, process_wide).push(info, Some(timer));
        Outcome::Queued
    }

    pub fn set_action(&mut self, s: Signal, a: SigAction) -> Option<SigAction> {
        if SigSet::UNBLOCKABLE.contains(s) {
            return None;
        }
        let old = self.actions[s.index()];
        self.actions[s.index()] = SigAction { flags: a.flags & SaFlags::KNOWN, mask: a.mask.blockable(), ..a };
        if self.ignores(s) {
            self.flush_all(SigSet::only(s));
        }
        Some(old)
    }

    pub fn force(&mut self, t: usize, info: SigInfo, default: bool) -> Outcome {
        let s = info.signal().unwrap();
        let blocked = self.threads[t].blocked.contains(s);
        if default || blocked || self.action(s).handler == SIG_IGN {
            self.actions[s.index()].handler = SIG_DFL;
            self.threads[t].blocked.remove(s);
        }
        self.send(t, false, info, true)
    }

    pub fn dequeue(&mut self, t: usize, blocked: SigSet, stale: &impl Fn(u64) -> bool) -> Option<SigInfo> {
        loop {
            let own = self.threads[t].own.next(blocked);
            let (info, timer) = own.or_else(|| self.shared.next(blocked))?;
            if !timer.is_some_and(stale) {
                return Some(info);
            }
        }
    }

    pub fn next_action(&mut self, t: usize, stale: &impl Fn(u64) -> bool) -> Act {
        loop {
            let blocked = self.threads[t].blocked;
            let fault = self.threads[t].own.first_fault(blocked).map(|e| e.0);
            let Some(info) = fault.or_else(|| self.dequeue(t, blocked, stale)) else {
                return Act::None;
            };
            let s = info.signal().unwrap();
            let action = *self.action(s);
            match action.handler {
                SIG_IGN => {}
                SIG_DFL if SigSet::IGNORED_BY_DEFAULT.contains(s) => {}
                SIG_DFL if SigSet::STOP.contains(s) => return Act::Stop(s),
                SIG_DFL => return Act::End(info, SigSet::CORE.contains(s)),
                _ => {
                    if action.flags.has(SaFlags::RESETHAND) {
                        self.actions[s.index()].handler = SIG_DFL;
                    }
                    let thread = &self.threads[t];
                    return Act::Handler(info, action, thread.saved.unwrap_or(thread.blocked));
                }
            }
        }
    }

    pub fn delivered(&mut self, t: usize, info: SigInfo, action: SigAction) {
        let thread = &mut self.threads[t];
        let mut mask = thread.blocked | action.mask;
        if !action.flags.has(SaFlags::NODEFER) {
            mask.insert(info.signal().unwrap());
        }
        thread.blocked = mask.blockable();
        thread.saved = None;
    }

    pub fn deliverable(&self, t: usize) -> SigSet {
        (self.threads[t].own.set | self.shared.set).without(self.threads[t].blocked)
    }

    /// Signals sent by programs and timers that are queued, without timers' entries.
    pub fn plain_entries(&self) -> u64 {
        let own = self.threads.iter().flat_map(|t| &t.own.list);
        own.chain(&self.shared.list).filter(|e| e.1.is_none()).count() as u64
    }

    /// Whether this timer's signal is queued anywhere.
    pub fn has_timer(&self, timer: u64) -> bool {
        let own = self.threads.iter().flat_map(|t| &t.own.list);
        own.chain(&self.shared.list).any(|e| e.1 == Some(timer))
    }
}
