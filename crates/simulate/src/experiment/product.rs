//! The product of all values of a case's options.

use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use anyhow::{Context, ensure};
use sim::{Cost, Hardware};

use super::file::Case;
use super::list::List;
use super::{CONFIGURATIONS_MAX, Configuration, short_hash};
use crate::args::Choice;
use crate::plan::{FLAT, Plan, What};

/// Puts a value into the options.
type Put<T> = fn(&mut Choice, T);

/// Adds the configurations of this case; the last option changes fastest.
pub(super) fn multiply(
    case: &Case,
    seeds: &Range<u64>,
    folder: &Path,
    to: &mut Vec<Configuration>,
) -> anyhow::Result<()> {
    let choices = choices(case)?;
    for scenario in checked("scenario", Some(&case.scenario), |_: &String| None)? {
        let what = What::find(&in_folder(folder, scenario))?;
        for choice in &choices {
            ensure!(
                to.len() < CONFIGURATIONS_MAX,
                "more than {CONFIGURATIONS_MAX} combinations: expected fewer values"
            );
            let mut plan = Plan::of(what.clone(), &found(choice, folder)).with_context(|| words(scenario, choice))?;
            ensure!(case.check || choice.plant.is_none(), "plant contradicts check = false: nobody would look for it");
            plan.options.check = case.check;
            to.push(Configuration {
                scenario: scenario.clone(),
                choice: choice.clone(),
                check: case.check,
                hash: hash(scenario, &plan)?,
                plan,
                seeds: seeds.clone(),
                first: 0,
            });
        }
    }
    Ok(())
}

fn choices(case: &Case) -> anyhow::Result<Vec<Choice>> {
    let mut all = vec![Choice::default()];
    times(&mut all, "cpus", case.cpus.as_ref(), within(1..=ids::CPUS_MAX as u32), |c, n| c.cpus = Some(n))?;
    times(&mut all, "machine", case.machine.as_ref(), |_| None, |c, name| c.machine = Some(name))?;
    times(&mut all, "costs", case.costs.as_ref(), |_| None, |c, name| c.costs = Some(name))?;
    times(&mut all, "scale", case.scale.as_ref(), within(1..=10_000), |c, n| c.scale = Some(n))?;
    times(&mut all, "policy", case.policy.as_ref(), |_| None, |c, name| c.policy = Some(name))?;
    times(&mut all, "threads", case.threads.as_ref(), within(1..=1_000_000), |c, n| c.threads = Some(n))?;
    times(&mut all, "rounds", case.rounds.as_ref(), within(1..=1_000_000), |c, n| c.rounds = Some(n))?;
    times(&mut all, "length", case.length.as_ref(), within(1..=10_000), |c, n| c.length = Some(n))?;
    times(&mut all, "plant", case.plant.as_ref(), |_| None, |c, name| c.plant = Some(name))?;
    Ok(all)
}

/// Replaces each choice by one for each value.
fn times<T: Clone + PartialEq + Debug>(
    all: &mut Vec<Choice>,
    option: &str,
    values: Option<&List<T>>,
    fault: impl Fn(&T) -> Option<String>,
    put: Put<T>,
) -> anyhow::Result<()> {
    let values = checked(option, values, fault)?;
    if values.is_empty() {
        return Ok(());
    }
    let count = all.len().saturating_mul(values.len());
    ensure!(count <= CONFIGURATIONS_MAX, "more than {CONFIGURATIONS_MAX} combinations: expected fewer values");
    let with = |choice: &Choice, value: &T| {
        let mut choice = choice.clone();
        put(&mut choice, value.clone());
        choice
    };
    *all = all.iter().flat_map(|choice| values.iter().map(move |value| with(choice, value))).collect();
    Ok(())
}

/// The values, each of which must be valid and occur once; none if the option is missing.
fn checked<'a, T: PartialEq + Debug>(
    option: &str,
    values: Option<&'a List<T>>,
    fault: impl Fn(&T) -> Option<String>,
) -> anyhow::Result<&'a [T]> {
    let Some(List(values)) = values else { return Ok(&[]) };
    ensure!(!values.is_empty(), "{option} = []: nothing would be run; expected at least one value, or no '{option}'");
    for (at, value) in values.iter().enumerate() {
        if let Some(expected) = fault(value) {
            anyhow::bail!("{option}: {value:?}: expected {expected}");
        }
        ensure!(!values[..at].contains(value), "{option}: {value:?} is there twice");
    }
    Ok(values)
}

fn within(range: RangeInclusive<u32>) -> impl Fn(&u32) -> Option<String> {
    move |n| (!range.contains(n)).then(|| format!("{} to {}", range.start(), range.end()))
}

/// The choice with the paths of files as seen from here.
fn found(choice: &Choice, folder: &Path) -> Choice {
    let found = |named: &String, is_name: bool| match is_name {
        true => named.clone(),
        false => folder.join(named).to_string_lossy().into_owned(),
    };
    let costs = choice.costs.as_ref().map(|named| found(named, Cost::profile(named).is_ok()));
    // What is wrong with a name is said where it is read.
    let is_machine = |named: &String| named == FLAT || !matches!(Hardware::named(named), Ok(None));
    let machine = choice.machine.as_ref().map(|named| found(named, is_machine(named)));
    Choice { costs, machine, ..choice.clone() }
}

/// A scenario's name, or the path of a file as seen from here.
fn in_folder(folder: &Path, scenario: &str) -> String {
    if scenario.ends_with(".json") { folder.join(scenario).to_string_lossy().into_owned() } else { scenario.to_owned() }
}

/// For a message about what contradicts what.
fn words(scenario: &str, choice: &Choice) -> String {
    let words = choice.words();
    if words.is_empty() {
        format!("scenario '{scenario}'")
    } else {
        format!("scenario '{scenario}' with {}", words.join(" "))
    }
}

/// A file counts by its content, its name only as what tables call it.
fn hash(scenario: &str, plan: &Plan) -> anyhow::Result<String> {
    let text = match &plan.what {
        What::Named(_) => None,
        What::File { text, .. } => Some(text),
    };
    let o = &plan.options;
    let plant = o.plant.map(|plant| plant.bug.name());
    let all = (scenario, text, plan.cpus, &o.cost, o.threads, o.rounds, o.length, o.policy.name(), plant, o.check);
    let mut all = serde_json::to_vec(&all)?;
    // A run on a flat machine depends on nothing more.
    if let Some(hardware) = &o.hardware {
        all.extend(serde_json::to_vec(hardware)?);
    }
    Ok(short_hash(&all))
}
