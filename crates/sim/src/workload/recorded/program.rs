//! A thread of a recording as a simulated program.

use super::{Action, Recording};
use crate::report::Samples;
use crate::user::{Program, Step, View, Who};
use ids::Nanos;
use sched::Attr;
use std::cell::RefCell;
use std::rc::Rc;

/// What all threads of a replay share.
pub(super) struct Shared {
    recording: Rc<Recording>,
    /// By thread: a word that changes when the thread is woken.
    words: Vec<u64>,
    /// Whether priorities are those of the recording.
    priorities: bool,
    threads: RefCell<Vec<State>>,
    pub latency: RefCell<Samples>,
}

/// What is known of a thread while it is replayed.
#[derive(Clone, Default)]
pub(super) struct State {
    /// By number of the wait: when it was ended.
    ended: Vec<Option<Nanos>>,
    /// The wait that it is in.
    waits: Option<usize>,
    /// How long it has run in user mode, once it is done.
    pub run: Nanos,
}

impl Shared {
    pub fn new(recording: Rc<Recording>, words: Vec<u64>, priorities: bool) -> Rc<Shared> {
        let state = |thread: &super::Thread| State { ended: vec![None; thread.waits().by_threads], ..State::default() };
        let threads = RefCell::new(recording.threads.iter().map(state).collect());
        Rc::new(Shared { recording, words, priorities, threads, latency: RefCell::default() })
    }

    /// How long each thread has run.
    pub fn runs(&self) -> Vec<Nanos> {
        self.threads.borrow().iter().map(|state| state.run).collect()
    }
}

/// One thread.
pub(super) struct Replayed {
    me: usize,
    /// The next action.
    at: usize,
    /// How long it is to have run so far.
    run: Nanos,
    /// It was made runnable then, and has not had a CPU since.
    woken: Option<Nanos>,
    /// It has begun to wait for another thread then.
    since: Option<Nanos>,
    /// The last step made a thread.
    has_made: bool,
    shared: Rc<Shared>,
}

impl Replayed {
    pub fn new(me: usize, woken: Option<Nanos>, shared: Rc<Shared>) -> Box<Replayed> {
        Box::new(Replayed { me, at: 0, run: Nanos::ZERO, woken, since: None, has_made: false, shared })
    }

    /// The step that an action takes; `None`: it takes none.
    fn begin(&mut self, action: Action, view: &View<'_>) -> Option<Step> {
        let now = view.now();
        match action {
            Action::Run(span) => {
                self.run += span;
                let left = self.run.since(view.run_time());
                return (left > Nanos::ZERO).then_some(Step::Compute(left));
            }
            Action::Priority(priority) if self.shared.priorities => {
                return Some(Step::SetPolicy(Who::Me, attr(priority)));
            }
            Action::Priority(_) => {}
            Action::Create(child) => {
                self.has_made = true;
                return Some(Step::Clone(Replayed::new(child, Some(now), self.shared.clone())));
            }
            Action::Wake(other, wait) => {
                let state = &mut self.shared.threads.borrow_mut()[other];
                state.ended[wait] = Some(now);
                if state.waits == Some(wait) {
                    state.waits = None;
                    let word = self.shared.words[other];
                    view.store(word, view.load(word).wrapping_add(1));
                    return Some(Step::FutexWake { addr: word, count: 1 });
                }
            }
            Action::Sleep(span) if span > Nanos::ZERO => {
                self.woken = Some(now + span);
                return Some(Step::Sleep(span));
            }
            Action::Until(at) if at > now => {
                self.woken = Some(at);
                return Some(Step::SleepUntil(at));
            }
            Action::Sleep(_) | Action::Until(_) => {}
            Action::Wait(wait) => return self.wait(wait, view),
        }
        None
    }

    /// Waits for another thread, unless it has come by already.
    fn wait(&mut self, wait: usize, view: &View<'_>) -> Option<Step> {
        let state = &mut self.shared.threads.borrow_mut()[self.me];
        if let Some(ended) = state.ended[wait] {
            if let Some(since) = self.since.take() {
                self.shared.latency.borrow_mut().add(view.now().since(ended.max(since)).0);
            }
            return None;
        }
        self.since.get_or_insert(view.now());
        state.waits = Some(wait);
        // It looks again afterwards.
        self.at -= 1;
        let addr = self.shared.words[self.me];
        Some(Step::FutexWait { addr, value: view.load(addr), timeout: None })
    }
}

impl Program for Replayed {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        assert!(!std::mem::take(&mut self.has_made) || view.result > 0, "no thread could be made: {}", view.result);
        if let Some(woken) = self.woken.take() {
            self.shared.latency.borrow_mut().add(view.now().since(woken).0);
        }
        let recording = self.shared.recording.clone();
        while let Some(&action) = recording.threads[self.me].actions.get(self.at) {
            self.at += 1;
            if let Some(step) = self.begin(action, view) {
                return step;
            }
        }
        self.shared.threads.borrow_mut()[self.me].run = view.run_time();
        Step::Exit
    }
}

/// The attributes that give a thread this priority.
fn attr(priority: i16) -> Attr {
    match priority {
        100.. => Attr::fair(ids::Policy::Other, (priority - 120).clamp(-20, 19) as i8),
        // A deadline comes before every real-time priority; its reservation is not known.
        _ => Attr::fifo((99 - priority).clamp(1, 99) as u8),
    }
}
