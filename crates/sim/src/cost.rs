//! The costs of operations: the committed file `cost.toml`, and scaled copies of it.

use ids::Nanos;
use serde::{Deserialize, Serialize};

/// The committed file.
const FILE: &str = include_str!("../cost.toml");

/// The costs of one machine, nanoseconds. The file says what each means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "cost.toml says what each means")]
pub struct Cost {
    pub atomic: u64,
    pub line: u64,
    pub call: u64,
    pub interrupt: u64,
    pub tick: u64,
    pub switch: u64,
    pub migration: u64,
    pub lock: u64,
    pub kick_send: u64,
    pub kick: [u64; 2],
    pub kick_parked: [u64; 2],
    pub look: u64,
    /// A count, not a time.
    pub looks: u32,
    pub seat: u64,
    pub timer: [u64; 2],
    pub memory: u64,
}

/// There is no such profile, or the file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadCosts(pub String);

impl Cost {
    /// The profile of that name in the committed file.
    pub fn profile(name: &str) -> Result<Cost, BadCosts> {
        Cost::parse(FILE, name)
    }

    /// The names of the profiles in the committed file.
    pub fn profiles() -> Vec<String> {
        toml::from_str::<std::collections::BTreeMap<String, Cost>>(FILE)
            .map(|all| all.into_keys().collect())
            .unwrap_or_default()
    }

    /// The committed file with the values of this cost in place of those of `profile`; comments and other profiles
    /// stay. `None`: there is no such profile.
    pub fn write_into_file(&self, profile: &str) -> Option<String> {
        let serde_json::Value::Object(values) = serde_json::to_value(self).ok()? else { return None };
        let (mut inside, mut found) = (false, false);
        let mut text = String::new();
        for line in FILE.lines() {
            if let Some(name) = line.strip_prefix('[') {
                inside = name.trim_end_matches(']') == profile;
                found |= inside;
            }
            let value = line.split_once(" = ").filter(|_| inside).and_then(|(name, _)| Some((name, values.get(name)?)));
            match value {
                Some((name, value)) => {
                    let comment = line.find('#').map_or("", |at| &line[at..]);
                    let value = value.to_string().replace(',', ", ");
                    text.push_str(format!("{:<23} {comment}", format!("{name} = {value}")).trim_end());
                }
                None => text.push_str(line),
            }
            text.push('\n');
        }
        found.then_some(text)
    }

    /// The profile of that name in a file of the same form.
    pub fn parse(file: &str, name: &str) -> Result<Cost, BadCosts> {
        let mut all: std::collections::BTreeMap<String, Cost> =
            toml::from_str(file).map_err(|e| BadCosts(e.to_string()))?;
        let names = all.keys().cloned().collect::<Vec<_>>().join(", ");
        all.remove(name).ok_or_else(|| BadCosts(format!("no cost profile '{name}'; there are: {names}")))
    }

    /// The machine that Entresol is developed on.
    pub fn host() -> Cost {
        Cost::profile("host").expect("the committed file has it: tested")
    }

    /// The names of the costs in the file.
    pub const NAMES: [&'static str; 16] = [
        "atomic",
        "line",
        "call",
        "interrupt",
        "tick",
        "switch",
        "migration",
        "lock",
        "kick_send",
        "kick",
        "kick_parked",
        "look",
        "looks",
        "seat",
        "timer",
        "memory",
    ];

    /// The lesser of both values of each cost: of two measurements, the one that was disturbed less.
    pub fn least(&self, other: &Cost) -> Cost {
        let pair = |a: [u64; 2], b: [u64; 2]| [a[0].min(b[0]), a[1].min(b[1])];
        Cost {
            atomic: self.atomic.min(other.atomic),
            line: self.line.min(other.line),
            call: self.call.min(other.call),
            interrupt: self.interrupt.min(other.interrupt),
            tick: self.tick.min(other.tick),
            switch: self.switch.min(other.switch),
            migration: self.migration.min(other.migration),
            lock: self.lock.min(other.lock),
            kick_send: self.kick_send.min(other.kick_send),
            kick: pair(self.kick, other.kick),
            kick_parked: pair(self.kick_parked, other.kick_parked),
            look: self.look.min(other.look),
            looks: self.looks.min(other.looks),
            seat: self.seat.min(other.seat),
            timer: pair(self.timer, other.timer),
            memory: self.memory.min(other.memory),
        }
    }

    /// Each cost with its value, as the file has them: `[least, most]` for a range.
    pub fn in_words(&self) -> Vec<(&'static str, String)> {
        let all = serde_json::to_value(self).unwrap_or_default();
        Cost::NAMES.into_iter().map(|name| (name, all[name].to_string().replace(',', ", "))).collect()
    }

    /// The cost of that name scaled to a percentage, at least 1; `None` if there is no such cost.
    pub fn with_one_scaled(&self, name: &str, percent: u64) -> Option<Cost> {
        let mut all = serde_json::to_value(self).ok()?;
        let scale = |n: &serde_json::Value| Some(serde_json::Value::from((n.as_u64()? * percent / 100).max(1)));
        let one = all.get_mut(name)?;
        *one = match &*one {
            serde_json::Value::Array(pair) => pair.iter().map(scale).collect::<Option<Vec<_>>>()?.into(),
            number => scale(number)?,
        };
        serde_json::from_value(all).ok()
    }

    /// Every time multiplied by `by` percent.
    pub fn scaled(&self, by: u64) -> Cost {
        let s = |n: u64| n * by / 100;
        let pair = |p: [u64; 2]| [s(p[0]), s(p[1])];
        Cost {
            atomic: s(self.atomic).max(1),
            line: s(self.line),
            call: s(self.call),
            interrupt: s(self.interrupt),
            tick: s(self.tick),
            switch: s(self.switch),
            migration: s(self.migration),
            lock: s(self.lock),
            kick_send: s(self.kick_send),
            kick: pair(self.kick),
            kick_parked: pair(self.kick_parked),
            look: s(self.look).max(1),
            looks: self.looks,
            seat: s(self.seat),
            timer: pair(self.timer),
            memory: s(self.memory),
        }
    }

    /// The longest way of a kick.
    pub fn kick_most(&self) -> Nanos {
        Nanos(self.kick[1].max(self.kick_parked[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_of_the_file_can_be_read() {
        let all: std::collections::BTreeMap<String, Cost> = toml::from_str(FILE).unwrap();
        assert!(all.contains_key("host") && all.contains_key("smp2007"));
        assert!(all.values().all(|c| c.kick[0] <= c.kick[1] && c.timer[0] <= c.timer[1] && c.atomic > 0));
        assert!(Cost::profile("none").is_err());
    }

    #[test]
    fn a_profile_is_written_into_the_file_and_read_back() {
        let mut other = Cost::host().scaled(300);
        other.looks = 7;
        let text = other.write_into_file("host").unwrap();
        assert_eq!(Cost::parse(&text, "host"), Ok(other));
        assert_eq!(Cost::parse(&text, "smp2007"), Cost::profile("smp2007"));
        assert_eq!(text.matches(" # ").count(), FILE.matches(" # ").count(), "the comments stay");
        assert_eq!(Cost::host().write_into_file("host").as_deref(), Some(FILE), "the file is as it is written");
        assert_eq!(Cost::host().write_into_file("none"), None);
    }

    #[test]
    fn every_cost_can_be_scaled_alone() {
        let all = serde_json::to_value(Cost::host()).unwrap();
        assert_eq!(all.as_object().unwrap().len(), Cost::NAMES.len());
        for name in Cost::NAMES {
            let other = Cost::host().with_one_scaled(name, 200).unwrap();
            let changed = serde_json::to_value(&other).unwrap();
            let differ: Vec<_> = Cost::NAMES.into_iter().filter(|n| changed[n] != all[n]).collect();
            assert_eq!(differ, [name]);
        }
        assert_eq!(Cost::host().with_one_scaled("none", 200), None);
    }

    #[test]
    fn every_cost_has_words() {
        let all = Cost::host().in_words();
        assert!(
            all.contains(&("atomic", "5".to_owned())) && all.contains(&("timer", "[0, 4000]".to_owned())),
            "{all:?}"
        );
        assert_eq!(all.len(), Cost::NAMES.len());
    }

    #[test]
    fn the_least_of_two_measurements_is_taken_cost_by_cost() {
        let host = Cost::host();
        for name in Cost::NAMES {
            let more = host.with_one_scaled(name, 300).unwrap();
            assert_eq!((host.least(&more), more.least(&host)), (host.clone(), host.clone()), "{name}");
        }
    }

    #[test]
    fn scaling_is_linear() {
        let c = Cost::host();
        assert_eq!(c.scaled(100), c);
        assert_eq!(c.scaled(200).migration, 2 * c.migration);
    }
}
