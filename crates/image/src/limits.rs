//! Limits in the options that `entresol run` writes. The command has checked them, so an unreadable one is an error and
//! must not be taken for "no limit".
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

/// Reads the limits from all options.
///
/// # Errors
/// The first option about limits that cannot be read.
pub fn parse(options: &[u8]) -> Result<Limits, &[u8]> {
    let mut limits = Limits::default();
    for pair in options.split(|&b| b == b';') {
        let Some(at) = pair.iter().position(|&b| b == b'=') else { continue };
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        let fields: Vec<&[u8]> = value.split(|&b| b == b',').collect();
        let read = match name {
            b"limit" => limit(&mut limits, &fields),
            b"group" => group(&mut limits, &fields),
            b"cpuset" => cpuset(&mut limits, &fields),
            b"member" => member(&mut limits, &fields),
            _ => Some(()),
        };
        read.ok_or(pair)?;
    }
    Ok(limits)
}

fn limit(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let (scope, fields) = fields.split_first()?;
    let to = match *scope {
        b"thread" => &mut limits.thread,
        b"process" => &mut limits.process,
        _ => return None,
    };
    match fields {
        [b"soft", ns, signal] => to.soft = Some((Nanos(number(ns)?), Signal::from_raw(number(signal)? as i32)?)),
        [b"hard", ns] => to.hard = Some(Nanos(number(ns)?)),
        [b"share", quota, period] => to.share = share(quota, period)?,
        _ => return None,
    }
    Some(())
}

/// A share; `Some(None)` for a quota of 0.
fn share(quota: &[u8], period: &[u8]) -> Option<Option<Share>> {
    let (quota, period) = (Nanos(number(quota)?), Nanos(number(period)?));
    Some((quota != Nanos::ZERO && period != Nanos::ZERO).then_some(Share { quota, period }))
}

fn group(limits: &mut Limits, fields: &[&[u8]]) -> Option<()> {
    let &[name, quota, period] = fields else { return None };
    limits.groups.push(GroupSpec {
        name: name.to_vec(),
        share: share(quota, period)?,
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
        if from > to || to >= CPUS_MAX as u64 {
            return None;
        }
        (from..=to).for_each(|cpu| cpus.insert(CpuId(cpu as u16)));
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
            group=all,0,0;cpuset=all,0-2+5,exclusive;cpuset=web,1;member=web,w-*;member=web,x?;image=/i";
        let limits = parse(text).unwrap();
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
        assert!(parse(b"v=1;image=/i").unwrap().is_empty());
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        for damaged in [
            "limit=",
            "limit=process,soft",
            "limit=process,soft,5",
            "limit=process,soft,x,15",
            "limit=process,soft,5,65",
            "limit=all,hard,7",
            "limit=thread,share,1",
            "group=a",
            "group=a,1,x",
            "cpuset=web,x",
            "cpuset=web,2-1",
            "cpuset=web,4096",
            "cpuset=none,1",
            "member=none,y",
            "member=web",
        ] {
            let text = alloc::format!("v=1;group=web,1,2;{damaged};image=/i");
            assert_eq!(parse(text.as_bytes()).err(), Some(damaged.as_bytes()));
        }
    }
}
