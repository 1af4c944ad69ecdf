//! Random programs: a tree of operations, as the interpreter reads them and as the shrinker takes them apart.

use std::fmt::Write as _;

/// An operation that the interpreter knows: `interpreter --ops` lists them.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// How often it is drawn.
    pub weight: u64,
    /// Opens a child process, whose steps follow.
    pub opens: bool,
    /// How many values each argument has.
    pub ranges: Vec<u64>,
}

const OPENS: u32 = 1;
/// The slots of threads, as in `core.h`.
const WORKERS: u64 = 5;
const DEPTH_MAX: usize = 3;

/// Reads what `interpreter --ops` prints.
///
/// # Errors
/// The line that is none.
pub fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    text.lines().map(|line| kind(line).ok_or_else(|| format!("not an operation: {line}"))).collect()
}

fn kind(line: &str) -> Option<Kind> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let weight = words.next()?.parse().ok()?;
    let flags: u32 = words.next()?.parse().ok()?;
    let ranges = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(Kind { name, weight, opens: flags & OPENS != 0, ranges })
}

/// One operation, and what the child does that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The slot of the thread that does it.
    pub who: u64,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<u64>,
    /// The steps of a child process.
    pub child: Option<Vec<Op>>,
}

/// A generator of random numbers that is the same everywhere (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// The program of this seed.
#[must_use]
pub fn random(kinds: &[Kind], seed: u64) -> Vec<Op> {
    let mut random = Random(seed);
    let length = 8 + random.below(60);
    // Each program prefers some operations, so that they meet each other more often than by chance.
    let weights: Vec<u64> = kinds.iter().map(|k| k.weight * [0, 1, 1, 4][random.below(4) as usize]).collect();
    steps(kinds, &weights, &mut random, length, 0)
}

fn steps(kinds: &[Kind], weights: &[u64], random: &mut Random, length: u64, depth: usize) -> Vec<Op> {
    let total: u64 = weights.iter().sum();
    let mut all = Vec::new();
    for _ in 0..length {
        let mut at = random.below(total);
        let chosen = weights.iter().position(|&weight| {
            let here = at < weight;
            at = at.wrapping_sub(weight);
            here
        });
        let kind = &kinds[chosen.unwrap_or(0)];
        if kind.opens && depth == DEPTH_MAX {
            continue;
        }
        // Most is done by the first thread, since it alone always exists.
        let who = if depth == 0 && random.below(3) == 0 { random.below(WORKERS) } else { 0 };
        let args = kind.ranges.iter().map(|&range| random.below(range)).collect();
        let inner = 1 + random.below(8);
        let child = kind.opens.then(|| steps(kinds, weights, random, inner, depth + 1));
        all.push(Op { who, name: kind.name.clone(), args, child });
    }
    all
}

/// As the interpreter reads it.
#[must_use]
pub fn text(program: &[Op]) -> String {
    let mut out = String::new();
    write_steps(program, 0, &mut out);
    out
}

fn write_steps(steps: &[Op], depth: usize, out: &mut String) {
    for op in steps {
        let _ = write!(out, "{:indent$}{} {}", "", op.who, op.name, indent = 2 * depth);
        for arg in &op.args {
            let _ = write!(out, " {arg}");
        }
        out.push('\n');
        if let Some(child) = &op.child {
            write_steps(child, depth + 1, out);
            let _ = writeln!(out, "{:indent$}0 end", "", indent = 2 * depth);
        }
    }
}

/// Reads a program back.
///
/// # Errors
/// The line that is no operation.
pub fn parse(text: &str, kinds: &[Kind]) -> Result<Vec<Op>, String> {
    let mut open: Vec<Vec<Op>> = vec![Vec::new()];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let who = words.next().and_then(|word| word.parse().ok());
        let (Some(who), Some(name)) = (who, words.next()) else { return Err(format!("not an operation: {line}")) };
        if name == "end" {
            let child = if open.len() > 1 { open.pop() } else { None };
            let opener = open.last_mut().and_then(|steps| steps.last_mut());
            opener.ok_or("an end without a beginning")?.child = child;
            continue;
        }
        let kind = kinds.iter().find(|kind| kind.name == name).ok_or_else(|| format!("no operation {name}"))?;
        let args = words.map(|word| word.parse().map_err(|_| format!("not a number: {line}")));
        let op = Op { who, name: name.to_owned(), args: args.collect::<Result<_, _>>()?, child: None };
        open.last_mut().ok_or("no steps")?.push(op);
        if kind.opens {
            open.push(Vec::new());
        }
    }
    if open.len() == 1 { Ok(open.remove(0)) } else { Err("a child without an end".into()) }
}

/// How many operations there are, those of children included.
#[must_use]
pub fn size(steps: &[Op]) -> usize {
    steps.iter().map(|op| 1 + op.child.as_deref().map_or(0, size)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_kinds() -> Vec<Kind> {
        kinds("fork 3 1 8 6\nraise 5 0 64\nnothing 1 0").unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for seed in 0..200 {
            let program = random(&some_kinds(), seed);
            assert_eq!(parse(&text(&program), &some_kinds()).unwrap(), program);
        }
    }

    #[test]
    fn a_seed_is_a_program() {
        assert_eq!(random(&some_kinds(), 7), random(&some_kinds(), 7));
        assert_ne!(random(&some_kinds(), 7), random(&some_kinds(), 8));
    }
}
