//! The critical path.

use super::{Action, Thread};
use ids::Nanos;
use std::collections::BTreeMap;

/// A thread while the path is followed.
#[derive(Clone, Default)]
struct Walker {
    /// The next action.
    at: usize,
    now: Nanos,
    /// When its waits end, as far as that is known.
    ends: BTreeMap<usize, Nanos>,
    /// The wait that it is in.
    waits: Option<usize>,
    done: bool,
}

/// How long the threads take, the first one being there at the beginning, if each has a CPU of its own and nothing has a
/// cost.
///
/// # Errors
/// The places of threads that would wait for ever.
pub(super) fn longest(threads: &[Thread]) -> Result<Nanos, Vec<usize>> {
    let mut walkers = vec![Walker::default(); threads.len()];
    let mut ready = vec![0];
    while let Some(me) = ready.pop() {
        walk(threads, me, &mut walkers, &mut ready);
    }
    let stuck: Vec<usize> = (0..threads.len()).filter(|&at| !walkers[at].done).collect();
    if stuck.is_empty() { Ok(walkers.iter().map(|walker| walker.now).max().unwrap_or_default()) } else { Err(stuck) }
}

/// One thread goes on as far as it can.
fn walk(threads: &[Thread], me: usize, walkers: &mut [Walker], ready: &mut Vec<usize>) {
    while let Some(&action) = threads[me].actions.get(walkers[me].at) {
        let now = walkers[me].now;
        match action {
            Action::Run(span) | Action::Sleep(span) => walkers[me].now += span,
            Action::Until(at) => walkers[me].now = now.max(at),
            Action::Priority(_) => {}
            Action::Create(child) => {
                walkers[child].now = now;
                ready.push(child);
            }
            Action::Wake(other, wait) => {
                let other_walker = &mut walkers[other];
                other_walker.ends.insert(wait, now);
                if other_walker.waits == Some(wait) {
                    other_walker.waits = None;
                    ready.push(other);
                }
            }
            Action::Wait(wait) => match walkers[me].ends.remove(&wait) {
                Some(end) => walkers[me].now = now.max(end),
                None => {
                    walkers[me].waits = Some(wait);
                    return;
                }
            },
        }
        walkers[me].at += 1;
    }
    walkers[me].done = true;
}
