//! Task groups. There is no scheduling among groups here, so a file may have them where they make no difference.

use super::super::Task;
use super::super::json::Wrong;
use super::How;
use ids::Policy;
use std::collections::BTreeSet;

/// The group of a thread that names none.
const ROOT: &str = "/";

/// Policies and groups of a task: at its beginning, then from each phase on.
pub(super) struct Places(Vec<(Policy, Option<(String, usize)>)>);

impl Places {
    /// Those of a task and its phases, in their order.
    pub fn new<'a>(task: &Task, own: &How, phases: impl Iterator<Item = &'a How>) -> Places {
        let policies = task.phases.iter().map(|phase| phase.attr.map(|attr| attr.policy));
        let changes: Vec<_> = policies.zip(phases.map(|how| how.group.clone())).collect();
        let mut now = (task.attr.policy, own.group.clone());
        // Twice: a first phase that names no group has the last one's when it comes again.
        let all = changes.iter().chain(&changes).map(|(policy, group)| {
            now = (policy.unwrap_or(now.0), group.clone().or_else(|| now.1.clone()));
            now.clone()
        });
        let all: Vec<_> = all.collect();
        Places(if all.is_empty() { vec![now] } else { all })
    }

    /// Whether the task is ever in a group of that kind.
    pub fn are_named(&self) -> bool {
        self.0.iter().any(|(_, group)| group.as_ref().is_some_and(|(name, _)| name != ROOT))
    }

    fn fair(&self) -> impl Iterator<Item = &Option<(String, usize)>> {
        self.0.iter().filter(|(policy, _)| policy.is_fair()).map(|(_, group)| group)
    }
}

/// Refuses groups that would share the CPUs. `forked` are the names of the tasks that are.
pub(super) fn make_no_difference(tasks: &[Task], places: &[Places], forked: &[String]) -> Result<(), Wrong> {
    for (policy, group) in places.iter().flat_map(|task| &task.0) {
        if let Some((name, line)) = group.as_ref().filter(|_| !policy.is_fair()) {
            let expected = "expected SCHED_OTHER, SCHED_BATCH or SCHED_IDLE in a group";
            return Wrong::at(*line, format!("the group \"{name}\" with {policy:?}: {expected}"));
        }
    }
    let fair = tasks.iter().zip(places).filter(|(_, places)| places.fair().next().is_some());
    let threads: usize = fair.map(|(task, _)| task.instances + 2 * usize::from(forked.contains(&task.name))).sum();
    let groups: BTreeSet<&str> =
        places.iter().flat_map(Places::fair).map(|group| group.as_ref().map_or(ROOT, |(name, _)| name)).collect();
    let first = places.iter().flat_map(Places::fair).flatten().find(|(name, _)| name != ROOT);
    match first {
        Some((name, line)) if threads > 1 && groups.len() > 1 => {
            let why = format!("the group \"{name}\" would share CPUs with other groups, which is not built here");
            Wrong::at(*line, format!("{why}: expected the same \"taskgroup\" in all tasks of fair policies, or none"))
        }
        _ => Ok(()),
    }
}
