//! Membership in groups: by name, by inheritance, by request.

use super::GroupStats;
use crate::machine::Machine;
use crate::trap::Out;
use crate::{Kernel, ThreadIdx};
use abi::Errno;
use ids::{CpuId, CpuMask, Nanos};
use sync::atomic::Ordering::*;

/// The longest name of a group.
const NAME_MAX: usize = 64;

/// Whether a name matches a pattern, in which `*` stands for any characters and `?` for one.
#[must_use]
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to continue if the last star has to match one more character.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((after, at)) => {
                    retry = Some((after, at + 1));
                    (p, n) = (after, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

impl<M: Machine> Kernel<M> {
    /// A new thread belongs to its creator's group.
    pub(crate) fn inherit_group(&self, parent: ThreadIdx, child: ThreadIdx) {
        if !self.limits.groups.is_empty() {
            self.enter(child, self.group_number(parent));
        }
    }

    /// The place of a thread's group in the list, plus one; 0 for none.
    pub(crate) fn group_number(&self, t: ThreadIdx) -> u32 {
        self.thread(t).limits.group.load(Relaxed)
    }

    /// A thread has been named: moves it to the first group that the name matches, if any.
    pub fn named(&self, t: ThreadIdx) {
        let name = self.thread(t).name_bytes();
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        let fits = |group: &super::Group| group.spec.patterns.iter().any(|pattern| matches(pattern, name));
        if let Some(place) = self.limits.groups.iter().position(fits) {
            let _ = self.move_to(t, place as u32 + 1);
        }
    }

    /// Puts the process's first thread into its group: it has a name already, and may not use other groups' exclusive
    /// CPUs.
    pub fn begin_groups(&self, t: ThreadIdx) {
        self.named(t);
        if self.group_number(t) == 0 && self.limits.has_cpusets {
            // The thread keeps its initial mask as far as the group allows.
            let (now, own) = (self.now(), self.sched.affinity(t).and(&self.limits.common));
            let mask = if own.is_empty() { self.limits.common.clone() } else { own };
            let _ = self.sched.set_affinity(t, mask, now, &mut self.kicks(CpuId::NONE));
        }
    }

    /// Moves a thread to a group, and to that group's CPUs. EBUSY for a deadline thread, which cannot be confined.
    fn move_to(&self, t: ThreadIdx, group: u32) -> Result<(), Errno> {
        let old = self.group_number(t);
        if old == group {
            return Ok(());
        }
        self.enter(t, group);
        if !self.limits.has_cpusets {
            return Ok(());
        }
        self.confine(t).inspect_err(|_| self.enter(t, old))
    }

    /// The thread gets all CPUs that its group has (`cpuset_attach`).
    fn confine(&self, t: ThreadIdx) -> Result<(), Errno> {
        let now = self.now();
        // Kick every CPU that must reschedule, whichever CPU calls.
        let changed = self.sched.set_affinity(t, self.cpus_of(t).clone(), now, &mut self.kicks(CpuId::NONE));
        changed.map_err(|_| Errno::EBUSY)
    }

    /// The CPUs that a thread may ask for.
    pub(crate) fn cpus_of(&self, t: ThreadIdx) -> &CpuMask {
        let place = self.group_number(t) as usize;
        let own = place.checked_sub(1).and_then(|i| self.limits.groups.get(i)?.spec.cpus.as_ref());
        own.unwrap_or(&self.limits.common)
    }

    pub(crate) fn enter(&self, t: ThreadIdx, group: u32) {
        self.count(t, self.now());
        let old = self.thread(t).limits.group.swap(group, AcqRel);
        for (place, change) in [(old, u32::MAX), (group, 1)] {
            if let Some(group) = (place as usize).checked_sub(1).and_then(|i| self.limits.groups.get(i)) {
                group.threads.fetch_add(change, Relaxed);
            }
        }
    }

    /// Counts a thread that ends out of its group.
    pub(crate) fn leave_group(&self, t: ThreadIdx) {
        if !self.limits.groups.is_empty() {
            self.enter(t, 0);
        }
    }

    /// The private call by which a thread joins a group: its id or 0 for the caller, the group's name. ENOSYS without groups,
    /// ESRCH without such a thread, EFAULT, EINVAL without such a group, EBUSY for a deadline thread and a group with CPUs.
    pub(crate) fn sys_join_group(&self, t: ThreadIdx, args: &[u64; 6]) -> Out {
        if self.limits.groups.is_empty() {
            return Errno::ENOSYS.into();
        }
        let Some(target) = self.thread_or_self(t, args[0] as i32) else { return Errno::ESRCH.into() };
        let (mut name, mut len) = ([0; NAME_MAX], 0);
        while len < NAME_MAX {
            if self.m.read(args[1].wrapping_add(len as u64), &mut name[len..=len]).is_err() {
                return Errno::EFAULT.into();
            }
            if name[len] == 0 {
                break;
            }
            len += 1;
        }
        match self.limits.groups.iter().position(|group| group.spec.name == name[..len]) {
            Some(place) => match self.move_to(target, place as u32 + 1) {
                Ok(()) => Out::Done(0),
                Err(busy) => busy.into(),
            },
            None => Errno::EINVAL.into(),
        }
    }

    /// Every group, in order.
    pub fn groups(&self) -> impl Iterator<Item = GroupStats<'_>> {
        self.limits.groups.iter().map(|group| GroupStats {
            name: &group.spec.name,
            consumed: Nanos(group.consumed.load(Relaxed)),
            threads: group.threads.load(Relaxed),
            throttled: group.meter.throttled.load(Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("web-*", "web-12", true),
            ("web-*", "web", false),
            ("*-io", "a-io-io", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXXbYbYc", true),
            ("a*b*c", "aXXcYbY", false),
            ("**a", "bba", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
