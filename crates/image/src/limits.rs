//! Limits as `entresol run` writes them among the options. It has checked them; what is damaged is no limit.
//!
//! | option | value |
//! |---|---|
//! | `limit` | `SCOPE,soft,NS,SIGNAL`, `SCOPE,hard,NS` or `SCOPE,share,QUOTA,PERIOD`; SCOPE is `process` or `thread` |
//! | `group` | `NAME,QUOTA,PERIOD`; a quota of 0 is none |
//! | `cpuset` | `NAME,CPUS` or `NAME,CPUS,exclusive`, behind its group; CPUS are `0-2+5` |
//! | `member` | `NAME,PATTERN`, behind its group |

use crate::options::number;
use abi::Signal;
use alloc::vec::Vec;
use ids::{CPUS_MAX, CpuId, CpuMask, Nanos};
use kernel::limits::{GroupSpec, Limits, Share};

/// Reads them out of all options.
pub fn parse(options: &[u8]) -> Limits {
    let mut limits = Limits::default();
    for pair in options.split(|&b| b == b';') {
        let Some(at) = pair.iter().position(|&b| b == b'=') else { continue };
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        let fields: Vec<&[u8]> = value.split(|&b| b == b',').collect();
        // What cannot be read is no limit.
        let _ = match name {
            b"limit" => limit(&mut limits, &fields),
            b"group" => group(&mut limits, &fields),
            b"cpuset" => cpuset(&mut limits, &fields),
            b"member" => member(&mut limits, &fields),
            _ => None,
        };
    }
    limits
}

fn limit(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let (scope, fields) = fields.split_first()?;
    let to = if *scope == b"thread" { &mut limits.thread } else { &mut limits.process };
    match fields {
        [b"soft", ns, signal] => to.soft = Some((Nanos(number(ns)?), Signal::from_raw(number(signal)? as i32)?)),
        [b"hard", ns] => to.hard = Some(Nanos(number(ns)?)),
        [b"share", quota, period] => to.share = share(quota, period),
        _ => {}
    }
    Some(())
}

fn share(quota: &[u8], period: &[u8]) -> Option<Share> {
    let (quota, period) = (Nanos(number(quota)?), Nanos(number(period)?));
    (quota != Nanos::ZERO && period != Nanos::ZERO).then_some(Share { quota, period })
}

fn group(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let &[name, quota, period] = fields else { return None };
    limits.groups.push(GroupSpec {
        name: name.to_vec(),
        share: share(quota, period),
        cpus: None,
        exclusive: false,
        patterns: Vec::new(),
    });
    Some(())
}

fn cpuset(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let (&name, rest) = fields.split_first()?;
    let (&list, exclusive) = rest.split_first()?;
    let mut cpus = CpuMask::empty();
    for part in list.split(|&b| b == b'+') {
        let (from, to) = match part.iter().position(|&b| b == b'-') {
            Some(at) => (number(&part[..at])?, number(&part[at + 1..])?),
            None => (number(part)?, number(part)?),
        };
        (from..=to.min(CPUS_MAX as u64 - 1)).for_each(|cpu| cpus.insert(CpuId(cpu as u16)));
    }
    let group = limits.groups.iter_mut().find(|group| group.name == name)?;
    (group.cpus, group.exclusive) = (Some(cpus), !exclusive.is_empty());
    Some(())
}

fn member(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let &[name, pattern] = fields else { return None };
    limits.groups.iter_mut().find(|group| group.name == name)?.patterns.push(pattern.to_vec());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_the_command_writes_is_read() {
        let text = b"v=1;limit=process,soft,5,15;limit=thread,hard,7;limit=process,share,1,2;group=web,50,100;\
            group=all,0,0;cpuset=all,0-2+5,exclusive;cpuset=web,1;cpuset=web,x;member=web,w-*;member=web,x?;member=none,y;limit=process,soft;limit=;group=a;image=/i";
        let limits = parse(text);
        assert_eq!(limits.process.soft, Some((Nanos(5), Signal::TERM)));
        assert_eq!(limits.process.share, Some(Share { quota: Nanos(1), period: Nanos(2) }));
        assert_eq!((limits.thread.hard, limits.thread.soft), (Some(Nanos(7)), None));
        assert_eq!(limits.groups.len(), 2);
        assert_eq!(limits.groups[0].share, Some(Share { quota: Nanos(50), period: Nanos(100) }));
        assert_eq!(limits.groups[0].patterns, [b"w-*".to_vec(), b"x?".to_vec()]);
        assert_eq!(limits.groups[1].share, None);
        let cpus =
            |i: usize| limits.groups[i].cpus.as_ref().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect::<Vec<u16>>());
        assert_eq!((cpus(0), limits.groups[0].exclusive), (Some(vec![1]), false));
        assert_eq!((cpus(1), limits.groups[1].exclusive), (Some(vec![0, 1, 2, 5]), true));
        assert!(parse(b"v=1;image=/i").is_empty());
    }
}
