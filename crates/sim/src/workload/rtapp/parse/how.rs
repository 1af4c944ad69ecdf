//! How a task or a phase runs: policy, priority, reservation, group.

use super::super::json::{Node, Wrong};
use super::Reading;
use super::values::{list, micros, text, whole};
use ids::{Nanos, Policy};
use sched::{Attr, DeadlineParams};

/// The real-time priority of a thread that does not say (rt-app's `DEFAULT_THREAD_PRIORITY`).
const RT_PRIORITY: i64 = 10;
/// The capacity of a CPU: no clamp is above it.
const CAPACITY: i64 = 1024;

/// The attributes that a task or a phase names. A phase changes only what it names.
#[derive(Default)]
pub(super) struct How {
    pub policy: Option<Policy>,
    /// With its line.
    priority: Option<(i64, usize)>,
    reservation: Reservation,
    /// The keys of a reservation in rt-app's older files, which only a task has.
    pub old: Reservation,
    /// A task group, with its line.
    pub group: Option<(String, usize)>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Reservation {
    pub runtime: Option<Nanos>,
    pub deadline: Option<Nanos>,
    pub period: Option<Nanos>,
}

impl Reservation {
    /// This one; the attributes that it does not name are those of the other one.
    fn or(self, other: Reservation) -> Reservation {
        Reservation {
            runtime: self.runtime.or(other.runtime),
            deadline: self.deadline.or(other.deadline),
            period: self.period.or(other.period),
        }
    }
}

impl How {
    /// Whether the key was one of these.
    pub fn takes(&mut self, key: &str, value: &Node, reading: &mut Reading) -> Result<bool, Wrong> {
        match key {
            "policy" => self.policy = Some(policy(value)?),
            "priority" => self.priority = Some((whole(value, -20, 99)?, value.line)),
            "dl-runtime" => self.reservation.runtime = Some(micros(value)?),
            "dl-deadline" => self.reservation.deadline = Some(micros(value)?),
            "dl-period" => self.reservation.period = Some(micros(value)?),
            "util_min" | "util_max" => {
                whole(value, -1, CAPACITY)?;
                reading.note("util", value.line, &format!("\"{key}\" has no effect, as CPUs have one frequency"));
            }
            "nodes_membind" => {
                list(value, "nodes")?.iter().try_for_each(|node| whole(node, 0, i64::from(u16::MAX)).map(drop))?;
                reading.note(key, value.line, "\"nodes_membind\" has no effect, as all memory costs the same");
            }
            "taskgroup" => {
                let name = text(value)?;
                if !name.is_empty() && !name.starts_with('/') {
                    return Wrong::at(value.line, format!("the group \"{name}\": expected a name that begins with /"));
                }
                self.group = Some((name.to_owned(), value.line)).filter(|(name, _)| !name.is_empty());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The attributes of a task.
    pub fn of_task(&self, default: Policy, line: usize, reading: &mut Reading) -> Result<Attr, Wrong> {
        let all = self.reservation.or(self.old);
        let kind = self.policy.unwrap_or(default);
        let reservation = if kind == Policy::Deadline { all } else { self.reservation };
        if kind != Policy::Deadline && (self.old.deadline.is_some() || self.old.period.is_some()) {
            reading.note("dl", line, "\"deadline\" and \"period\" have an effect with SCHED_DEADLINE only");
        }
        if kind.is_fair() && self.old.runtime.is_some() && self.reservation.runtime.is_none() {
            let what = "\"runtime\" is an event only, and rt-app asks for a slice of this length as well";
            reading.note("runtime", line, what);
        }
        self.attr(kind, reservation, Nanos::ZERO, line, reading)
    }

    /// The attributes of a thread from a phase on, if they change; before it they are these.
    pub fn of_phase(&self, before: Attr, line: usize, reading: &mut Reading) -> Result<Option<Attr>, Wrong> {
        let kind = self.policy.unwrap_or(before.policy);
        let Reservation { runtime, deadline, period } = self.reservation;
        let reserves = [runtime, deadline, period].iter().any(Option::is_some);
        // As in rt-app, a fair thread asks for a slice together with a policy or a priority only.
        let changes = self.policy.is_some() || self.priority.is_some() || reserves && kind == Policy::Deadline;
        changes.then(|| self.attr(kind, self.reservation, before.slice, line, reading)).transpose()
    }

    fn attr(
        &self,
        kind: Policy,
        asked: Reservation,
        slice: Nanos,
        line: usize,
        reading: &mut Reading,
    ) -> Result<Attr, Wrong> {
        let within = |default: i64, least: i64, most: i64| match self.priority {
            Some((n, line)) if !(least..=most).contains(&n) => {
                Wrong::at(line, format!("priority {n} with {kind:?}: expected {least} to {most}"))
            }
            other => Ok(other.map_or(default, |p| p.0)),
        };
        if kind != Policy::Deadline && (asked.deadline.is_some() || asked.period.is_some()) {
            reading.note("dl", line, "dl-deadline and dl-period have an effect with SCHED_DEADLINE only");
        }
        if kind.is_rt() && asked.runtime.is_some() {
            reading.note("dl-runtime", line, "dl-runtime has no effect with SCHED_FIFO and SCHED_RR");
        }
        let attr = match kind {
            Policy::Fifo => Attr::fifo(within(RT_PRIORITY, 1, 99)? as u8),
            Policy::RoundRobin => Attr::round_robin(within(RT_PRIORITY, 1, 99)? as u8),
            Policy::Deadline => {
                let Some(runtime) = asked.runtime else {
                    return Wrong::at(line, "SCHED_DEADLINE: expected \"dl-runtime\"");
                };
                let period = asked.period.unwrap_or(runtime);
                Attr::deadline(DeadlineParams { runtime, deadline: asked.deadline.unwrap_or(period), period })
            }
            // Linux 6.12 takes the runtime of a fair thread as the slice that it asks for.
            fair => Attr { slice: asked.runtime.unwrap_or(slice), ..Attr::fair(fair, within(0, -20, 19)? as i8) },
        };
        if attr.is_valid() {
            Ok(attr)
        } else {
            Wrong::at(line, "expected dl-runtime ≤ dl-deadline ≤ dl-period, as sched(7)")
        }
    }
}

pub(super) fn policy(node: &Node) -> Result<Policy, Wrong> {
    Ok(match text(node)? {
        "SCHED_OTHER" => Policy::Other,
        "SCHED_BATCH" => Policy::Batch,
        "SCHED_IDLE" => Policy::Idle,
        "SCHED_FIFO" => Policy::Fifo,
        "SCHED_RR" => Policy::RoundRobin,
        "SCHED_DEADLINE" => Policy::Deadline,
        other => {
            let expected = "SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE";
            return Wrong::at(node.line, format!("\"{other}\": expected {expected}"));
        }
    })
}
