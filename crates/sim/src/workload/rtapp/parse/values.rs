//! Values of rt-app's JSON with their ranges.

use super::super::json::{Node, Value, Wrong};
use ids::{CPUS_MAX, Nanos};

/// No time in a file is longer: a day.
const TIME_MOST: f64 = 86_400e6;

pub(super) type Members<'a> = &'a [(String, Node)];

/// The members of an object, in which a key may be there twice.
pub(super) fn members<'a>(node: &'a Node, what: &str) -> Result<Members<'a>, Wrong> {
    match &node.value {
        Value::Object(members) => Ok(members),
        other => Wrong::at(node.line, format!("{} for {what}: expected an object", other.kind())),
    }
}

/// The members of an object, of which each is there once.
pub(super) fn object<'a>(node: &'a Node, what: &str) -> Result<Members<'a>, Wrong> {
    let members = members(node, what)?;
    once(members, |_| true)?;
    Ok(members)
}

/// Refuses a second member with the same key, where the key is one of these.
pub(super) fn once(members: Members<'_>, these: impl Fn(&str) -> bool) -> Result<(), Wrong> {
    for (number, (key, node)) in members.iter().enumerate() {
        let first = members[..number].iter().find(|(other, _)| other == key && these(key));
        if let Some((_, first)) = first {
            let what = format!("the key \"{key}\" is there twice (first in line {}): expected it once", first.line);
            return Wrong::at(node.line, what);
        }
    }
    Ok(())
}

pub(super) fn text(node: &Node) -> Result<&str, Wrong> {
    match &node.value {
        Value::Text(text) => Ok(text),
        other => Wrong::at(node.line, format!("{}: expected a name in quotes", other.kind())),
    }
}

pub(super) fn boolean(node: &Node) -> Result<bool, Wrong> {
    match node.value {
        Value::Bool(b) => Ok(b),
        ref other => Wrong::at(node.line, format!("{}: expected true or false", other.kind())),
    }
}

pub(super) fn whole(node: &Node, least: i64, most: i64) -> Result<i64, Wrong> {
    match node.value {
        Value::Number(n) if n.fract() == 0.0 && n >= least as f64 && n <= most as f64 => Ok(n as i64),
        ref other => Wrong::at(node.line, format!("{}: expected a whole number, {least} to {most}", other.kind())),
    }
}

/// A number of times; -1 is for ever.
pub(super) fn loops(node: &Node) -> Result<Option<u32>, Wrong> {
    match whole(node, -1, i64::from(u32::MAX))? {
        -1 => Ok(None),
        0 => Wrong::at(node.line, "0 loops: expected -1 or a number from 1"),
        n => Ok(Some(n as u32)),
    }
}

pub(super) fn micros(node: &Node) -> Result<Nanos, Wrong> {
    match node.value {
        Value::Number(n) if (0.0..=TIME_MOST).contains(&n) => Ok(Nanos((n * 1e3) as u64)),
        ref other => Wrong::at(node.line, format!("{}: expected microseconds, 0 to {TIME_MOST}", other.kind())),
    }
}

/// The length of the run; -1 is until all threads have ended.
pub(super) fn seconds(node: &Node) -> Result<Option<Nanos>, Wrong> {
    let most = TIME_MOST / 1e6;
    match node.value {
        Value::Number(-1.0) => Ok(None),
        Value::Number(n) if n > 0.0 && n <= most => Ok(Some(Nanos((n * 1e9) as u64))),
        ref other => Wrong::at(node.line, format!("{}: expected seconds up to {most}, or -1", other.kind())),
    }
}

/// CPUs, with the lines that name them.
pub(super) fn cpus(node: &Node) -> Result<Vec<(u16, usize)>, Wrong> {
    let items = list(node, "CPUs")?;
    if items.is_empty() {
        return Wrong::at(node.line, "an empty list: expected at least one CPU");
    }
    items.iter().map(|item| Ok((whole(item, 0, CPUS_MAX as i64 - 1)? as u16, item.line))).collect()
}

pub(super) fn list<'a>(node: &'a Node, of: &str) -> Result<&'a [Node], Wrong> {
    match &node.value {
        Value::List(items) => Ok(items),
        other => Wrong::at(node.line, format!("{}: expected a list of {of}", other.kind())),
    }
}

/// A name, or an object with a `ref` only.
pub(super) fn reference(node: &Node) -> Result<&str, Wrong> {
    match &node.value {
        Value::Object(members) => match members.as_slice() {
            [(key, value)] if key == "ref" => text(value),
            _ => Wrong::at(node.line, "an object: expected \"ref\" and nothing else"),
        },
        _ => text(node),
    }
}

pub(super) fn unknown<T>(key: &str, node: &Node, expected: &str) -> Result<T, Wrong> {
    Wrong::at(node.line, format!("\"{key}\" is not known: expected {expected}"))
}
