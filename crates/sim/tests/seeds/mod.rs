//! The seeds of a sweep.

/// The first `count`, or those that ENTRESOL_SIM_SEEDS asks for (`FROM..TO`, or a count).
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("ENTRESOL_SIM_SEEDS") else { return 0..count };
    let number = |s: &str| s.trim().parse().unwrap_or_else(|_| panic!("ENTRESOL_SIM_SEEDS: '{s}' is not a number"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&text),
    }
}
