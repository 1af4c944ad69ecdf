//! `--cpu-limit` and `--group`: what they say, and what of it makes no sense.

use std::str::FromStr;

/// The shortest period of a share, nanoseconds: a usual tick.
const PERIOD_MIN: u64 = 1_000_000;
/// The longest.
const PERIOD_MAX: u64 = 60_000_000_000;
/// A period that is not named.
const PERIOD_USUAL: u64 = 100_000_000;
/// The smallest quota.
const QUOTA_MIN: u64 = 1_000;

/// The scope of a limit on CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All threads together.
    Process,
    /// Each thread.
    Thread,
}

/// The effect of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// This signal, once, after this many nanoseconds.
    Soft(u64, i32),
    /// The end, after this many nanoseconds.
    Hard(u64),
    /// Throttling beyond a quota per period, in nanoseconds.
    Share(u64, u64),
}

/// One `--cpu-limit`; times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    /// Its scope.
    pub scope: Scope,
    /// Its effect.
    pub act: Act,
}

impl FromStr for CpuLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuLimit, String> {
        let (scope, rest) = match text.strip_prefix("thread:") {
            Some(rest) => (Scope::Thread, rest),
            None => (Scope::Process, text.strip_prefix("process:").unwrap_or(text)),
        };
        let (amount, act) = rest.split_once(':').unwrap_or((rest, "hard"));
        let act = match (act, act.strip_prefix("soft=")) {
            ("hard", _) => Act::Hard(positive(amount)?),
            ("soft", _) => Act::Soft(positive(amount)?, libc::SIGXCPU),
            ("throttle", _) if amount.contains('/') => {
                let (quota, period) = share(amount)?;
                Act::Share(quota, period)
            }
            ("throttle", _) => {
                return Err(format!("throttling needs a period: {amount}/1s:throttle is {amount} in every second"));
            }
            (_, Some(name)) => Act::Soft(positive(amount)?, signal(name)?),
            _ => return Err(format!("{act:?} is none of hard, soft, soft=SIGNAL, throttle")),
        };
        Ok(CpuLimit { scope, act })
    }
}

/// One `--group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOption {
    /// The group's name.
    pub name: String,
    /// The rule for it.
    pub rule: GroupRule,
}

/// A rule for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRule {
    /// The group exists, and its CPU time is counted.
    Count,
    /// At most a quota of CPU time per period, in nanoseconds.
    Share(u64, u64),
    /// Threads with such names belong to it.
    Match(String),
}

impl FromStr for GroupOption {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupOption, String> {
        let (name, rule) = if let Some((name, rule)) = text.split_once(":match=") {
            (name, GroupRule::Match(pattern(rule)?))
        } else if let Some((name, rule)) = text.split_once("=cpu.max:") {
            let (quota, period) = share(rule)?;
            (name, GroupRule::Share(quota, period))
        } else if text.contains(['=', ':']) {
            return Err("what is known of groups is NAME, NAME=cpu.max:SHARE and NAME:match=PATTERN".to_owned());
        } else {
            (text, GroupRule::Count)
        };
        check_name(name)?;
        Ok(GroupOption { name: name.to_owned(), rule })
    }
}

/// One `--cpuset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusetOption {
    /// The group that it is for.
    pub name: String,
    /// The CPUs, each once, ascending.
    pub cpus: Vec<u16>,
    /// No other thread may use them.
    pub exclusive: bool,
}

impl FromStr for CpusetOption {
    type Err = String;

    fn from_str(text: &str) -> Result<CpusetOption, String> {
        let (name, list) = text.split_once('=').ok_or("a set of CPUs is NAME=LIST, as in rt=0-1,3")?;
        check_name(name)?;
        let (list, exclusive) = match list.split_once(':') {
            None => (list, false),
            Some((list, "exclusive")) => (list, true),
            Some((_, word)) => return Err(format!("{word:?} is not exclusive")),
        };
        let number = |text: &str| -> Result<u16, String> {
            let cpu = text.parse().ok().filter(|&cpu: &u16| usize::from(cpu) < ids::CPUS_MAX);
            cpu.ok_or_else(|| format!("{text:?} is no number of a CPU"))
        };
        let mut cpus = Vec::new();
        for part in list.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(format!("{part:?} ends before it begins"));
            }
            cpus.extend(from..=to);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(CpusetOption { name: name.to_owned(), cpus, exclusive })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
        return Err(format!("{name:?} is no name: 1 to 63 of letters, digits, '.', '_' and '-'"));
    }
    Ok(())
}

fn pattern(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([',', ';']) {
        return Err("a pattern has at least one character, and neither comma nor semicolon".to_owned());
    }
    // A name has at most 15 characters, so a pattern must not need more.
    if text.bytes().filter(|&b| b != b'*').count() > 15 {
        return Err(format!("{text:?} matches nothing: names of threads have 15 characters at most"));
    }
    Ok(text.to_owned())
}

/// A signal by its name or number.
fn signal(text: &str) -> Result<i32, String> {
    const NAMES: [(&str, i32); 10] = [
        ("XCPU", libc::SIGXCPU),
        ("TERM", libc::SIGTERM),
        ("INT", libc::SIGINT),
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("ABRT", libc::SIGABRT),
        ("ALRM", libc::SIGALRM),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("PROF", libc::SIGPROF),
    ];
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let number =
        || text.parse().ok().filter(|n| (1..=64).contains(n) && ![32, 33, libc::SIGKILL, libc::SIGSTOP].contains(n));
    named.or_else(number).ok_or_else(|| {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("{text:?} is no signal that can warn: a number or one of {}", known.join(", "))
    })
}

/// A share: `50%` of a CPU, or `QUOTA/PERIOD`, or `PERCENT/PERIOD`.
fn share(text: &str) -> Result<(u64, u64), String> {
    let (amount, period) = match text.split_once('/') {
        Some((amount, period)) => (amount, positive(period)?),
        None => (text, PERIOD_USUAL),
    };
    if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
        return Err("a period has 1ms to 60s".to_owned());
    }
    let quota = match amount.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent
                .parse()
                .ok()
                .filter(|p: &f64| p.is_finite() && *p > 0.0)
                .ok_or_else(|| format!("{amount:?} is no share of a CPU"))?;
            (period as f64 * percent / 100.0) as u64
        }
        None if text.contains('/') => positive(amount)?,
        None => return Err(format!("{text:?} is no share: 50%, or 20ms/100ms")),
    };
    if quota < QUOTA_MIN {
        return Err(format!("{text:?} is less than a microsecond in each period"));
    }
    Ok((quota, period))
}

/// A time in nanoseconds, not zero: a number with its unit.
fn positive(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "" => return Err(format!("{text:?} lacks a unit: ns, us, ms, s, m, h")),
        _ => return Err(format!("{unit:?} is no unit of time: ns, us, ms, s, m, h")),
    };
    let ns = number.parse::<f64>().map_err(|_| format!("{text:?} is no time"))? * factor;
    if ns < 1.0 || ns > i64::MAX as f64 {
        return Err(format!("{text:?} is no time that can be consumed"));
    }
    Ok(ns as u64)
}

/// All options as the image reads them: names and values. `cpus` is the number of CPUs there will be.
pub fn options(
    limits: &[CpuLimit],
    groups: &[GroupOption],
    sets: &[CpusetOption],
    cpus: usize,
) -> Result<Vec<(&'static str, String)>, String> {
    let mut written = Vec::new();
    for (scope, name) in [(Scope::Process, "process"), (Scope::Thread, "thread")] {
        let acts: Vec<Act> = limits.iter().filter(|limit| limit.scope == scope).map(|limit| limit.act).collect();
        check_acts(name, &acts, if scope == Scope::Process { cpus } else { 1 })?;
        written.extend(acts.iter().map(|act| {
            let value = match act {
                Act::Soft(at, signal) => format!("{name},soft,{at},{signal}"),
                Act::Hard(at) => format!("{name},hard,{at}"),
                Act::Share(quota, period) => format!("{name},share,{quota},{period}"),
            };
            ("limit", value)
        }));
    }
    written.extend(group_options(groups, sets, cpus)?);
    written.extend(set_options(sets, cpus)?);
    Ok(written)
}

fn check_acts(name: &str, acts: &[Act], cpus: usize) -> Result<(), String> {
    let kinds = [
        acts.iter().filter(|act| matches!(act, Act::Soft(..))).count(),
        acts.iter().filter(|act| matches!(act, Act::Hard(_))).count(),
        acts.iter().filter(|act| matches!(act, Act::Share(..))).count(),
    ];
    if kinds.iter().any(|&n| n > 1) {
        return Err(format!("--cpu-limit: two limits of one kind for each {name}"));
    }
    let soft = acts.iter().find_map(|act| if let Act::Soft(at, _) = act { Some(*at) } else { None });
    let hard = acts.iter().find_map(|act| if let Act::Hard(at) = act { Some(*at) } else { None });
    if let (Some(soft), Some(hard)) = (soft, hard)
        && soft >= hard
    {
        return Err(format!("--cpu-limit: the {name} would end before or when it is warned"));
    }
    acts.iter().try_for_each(|act| match act {
        Act::Share(quota, period) => check_share("--cpu-limit", *quota, *period, cpus),
        _ => Ok(()),
    })
}

fn check_share(option: &str, quota: u64, period: u64, cpus: usize) -> Result<(), String> {
    if u128::from(quota) > u128::from(period) * cpus as u128 {
        let percent = u128::from(quota) * 100 / u128::from(period);
        return Err(format!("{option}: {percent}% of a CPU limits nothing where there are {cpus}"));
    }
    Ok(())
}

fn set_options(sets: &[CpusetOption], cpus: usize) -> Result<Vec<(&'static str, String)>, String> {
    let mut taken = vec![0; cpus];
    for set in sets {
        if let Some(cpu) = set.cpus.iter().find(|&&cpu| usize::from(cpu) >= cpus) {
            return Err(format!("--cpuset {}: there is no CPU {cpu}, only 0 to {}", set.name, cpus - 1));
        }
        if sets.iter().filter(|other| other.name == set.name).count() > 1 {
            return Err(format!("--cpuset {}: two sets of one name", set.name));
        }
        set.cpus.iter().for_each(|&cpu| taken[usize::from(cpu)] += 1);
    }
    let exclusive = |cpu: usize| sets.iter().any(|set| set.exclusive && set.cpus.contains(&(cpu as u16)));
    if let Some(cpu) = (0..cpus).find(|&cpu| taken[cpu] > 1 && exclusive(cpu)) {
        return Err(format!("--cpuset: CPU {cpu} is to be exclusive, and in two sets"));
    }
    if !sets.is_empty() && (0..cpus).all(exclusive) {
        return Err("--cpuset: every CPU is exclusive, so nothing is left for the program's first thread".to_owned());
    }
    Ok(sets
        .iter()
        .map(|set| {
            let list: Vec<String> = set.cpus.iter().map(u16::to_string).collect();
            ("cpuset", format!("{},{}{}", set.name, list.join("+"), if set.exclusive { ",exclusive" } else { "" }))
        })
        .collect())
}

fn group_options(
    groups: &[GroupOption],
    sets: &[CpusetOption],
    cpus: usize,
) -> Result<Vec<(&'static str, String)>, String> {
    let mut names: Vec<&str> = Vec::new();
    for name in groups.iter().map(|group| group.name.as_str()).chain(sets.iter().map(|set| set.name.as_str())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut written = Vec::new();
    for name in names {
        let rules: Vec<&GroupRule> = groups.iter().filter(|g| g.name == name).map(|g| &g.rule).collect();
        let shares = rules.iter().filter(|rule| matches!(rule, GroupRule::Share(..))).count();
        if shares > 1 {
            return Err(format!("--group: {name} has two shares"));
        }
        let (mut quota, mut period) = (0, 0);
        for rule in &rules {
            if let GroupRule::Share(q, p) = rule {
                check_share(&format!("--group {name}"), *q, *p, cpus)?;
                (quota, period) = (*q, *p);
            }
        }
        written.push(("group", format!("{name},{quota},{period}")));
        for rule in rules {
            if let GroupRule::Match(pattern) = rule {
                written.push(("member", format!("{name},{pattern}")));
            }
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> CpuLimit {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    fn group(text: &str) -> GroupOption {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn what_can_be_said() {
        let own = |scope, act| CpuLimit { scope, act };
        assert_eq!(limit("500ms"), own(Scope::Process, Act::Hard(500_000_000)));
        assert_eq!(limit("process:1.5s:soft"), own(Scope::Process, Act::Soft(1_500_000_000, libc::SIGXCPU)));
        assert_eq!(limit("thread:2s:soft=SIGTERM"), own(Scope::Thread, Act::Soft(2_000_000_000, libc::SIGTERM)));
        assert_eq!(limit("thread:20ms/1s:throttle"), own(Scope::Thread, Act::Share(20_000_000, 1_000_000_000)));
        assert_eq!(limit("1m:soft=34"), own(Scope::Process, Act::Soft(60_000_000_000, 34)));
        assert_eq!(group("web=cpu.max:50%").rule, GroupRule::Share(50_000_000, 100_000_000));
        assert_eq!(group("web=cpu.max:12.5%/10ms").rule, GroupRule::Share(1_250_000, 10_000_000));
        assert_eq!(group("web=cpu.max:5ms/20ms").rule, GroupRule::Share(5_000_000, 20_000_000));
        assert_eq!(group("web:match=w-*").rule, GroupRule::Match("w-*".to_owned()));
        assert_eq!(group("web"), GroupOption { name: "web".to_owned(), rule: GroupRule::Count });
    }

    #[test]
    fn what_is_refused_and_why() {
        for (text, reason) in [
            ("", "lacks a unit"),
            ("500", "lacks a unit"),
            ("0ms", "can be consumed"),
            ("-1s", "no unit"),
            ("1y", "no unit"),
            ("1e9s", "no unit"),
            ("500ms:later", "none of hard"),
            ("500ms:throttle", "needs a period"),
            ("1ms/0s:throttle", "can be consumed"),
            ("1ms/2h:throttle", "1ms to 60s"),
            ("500ms:soft=KILL", "no signal that can warn"),
            ("500ms:soft=9", "no signal that can warn"),
            ("500ms:soft=65", "no signal that can warn"),
            ("99999999999h", "can be consumed"),
        ] {
            let why = text.parse::<CpuLimit>().expect_err(text);
            assert!(why.contains(reason), "{text}: {why}");
        }
        for (text, reason) in [
            ("", "no name"),
            ("a b", "no name"),
            ("web=cpu.max:", "no share"),
            ("web=cpu.max:0%", "no share"),
            ("web=cpu.max:NaN%", "no share"),
            ("web=cpu.max:50", "no share"),
            ("web=cpu.max:0.00001%", "less than a microsecond"),
            ("web=memory.max:5", "what is known"),
            ("web:match=", "at least one"),
            ("web:match=a;b", "neither comma"),
            ("web:match=sixteen-and-more!", "matches nothing"),
        ] {
            let why = text.parse::<GroupOption>().expect_err(text);
            assert!(why.contains(reason), "{text}: {why}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |limits: &[&str], groups: &[&str], reason: &str| {
            let limits: Vec<CpuLimit> = limits.iter().map(|text| limit(text)).collect();
            let groups: Vec<GroupOption> = groups.iter().map(|text| group(text)).collect();
            let why = options(&limits, &groups, &[], 2).expect_err(reason);
            assert!(why.contains(reason), "{why}");
        };
        refused(&["1s", "2s"], &[], "two limits of one kind");
        refused(&["1s", "1s:soft"], &[], "before or when it is warned");
        refused(&["3s/1s:throttle"], &[], "limits nothing");
        refused(&["thread:2s/1s:throttle"], &[], "limits nothing where there are 1");
        refused(&[], &["web=cpu.max:201%"], "201% of a CPU limits nothing where there are 2");
        refused(&[], &["web=cpu.max:20%", "web=cpu.max:30%"], "two shares");
        let limits = [limit("1s"), limit("thread:1s:soft")];
        let groups = [group("web:match=a*"), group("web=cpu.max:200%"), group("io")];
        let expected = [
            ("limit", "process,hard,1000000000".to_owned()),
            ("limit", format!("thread,soft,1000000000,{}", libc::SIGXCPU)),
            ("group", "web,200000000,100000000".to_owned()),
            ("member", "web,a*".to_owned()),
            ("group", "io,0,0".to_owned()),
        ];
        assert_eq!(options(&limits, &groups, &[], 2).expect("it makes sense"), expected);
    }

    #[test]
    fn sets_of_cpus() {
        let set = |text: &str| text.parse::<CpusetOption>();
        let ours = set("rt=3,0-1,1:exclusive").expect("it makes sense");
        assert_eq!((ours.cpus.as_slice(), ours.exclusive), (&[0, 1, 3][..], true));
        for (text, reason) in [
            ("rt", "NAME=LIST"),
            ("=0", "no name"),
            ("rt=", "no number"),
            ("rt=2-1", "ends before"),
            ("rt=99999", "no number"),
            ("rt=0:shared", "not exclusive"),
        ] {
            let why = set(text).expect_err(text);
            assert!(why.contains(reason), "{text}: {why}");
        }
        let written = options(&[], &[], std::slice::from_ref(&ours), 5).expect("it makes sense");
        assert_eq!(written, [("group", "rt,0,0".to_owned()), ("cpuset", "rt,0+1+3,exclusive".to_owned())]);
        let refused = |sets: &[&str], reason: &str| {
            let sets: Vec<CpusetOption> = sets.iter().map(|text| set(text).expect(text)).collect();
            let why = options(&[], &[], &sets, 2).expect_err(reason);
            assert!(why.contains(reason), "{why}");
        };
        refused(&["rt=2"], "no CPU 2");
        refused(&["rt=0", "rt=1"], "two sets of one name");
        refused(&["rt=0:exclusive", "io=0-1"], "CPU 0 is to be exclusive");
        refused(&["rt=0:exclusive", "io=1:exclusive"], "nothing is left");
    }
}
