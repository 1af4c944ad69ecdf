//! The profile as a flame graph: one picture that a browser shows, threads of one name together.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use super::collect::Profile;

/// Writes the picture; microseconds of CPU time, or of wall time.
pub fn write(profile: &Profile, to: impl Write) -> io::Result<()> {
    let lines = lines(profile);
    let mut options = Options::default();
    options.count_name = "µs".to_owned();
    options.title = if profile.wall { "Wall time of threads" } else { "CPU time" }.to_owned();
    if lines.is_empty() {
        // The library calls it an error that nothing was sampled.
        return flamegraph::from_lines(&mut options, ["nothing 1"], to);
    }
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), to)
}

/// Stacks as the library reads them: outermost first, then a number.
fn lines(profile: &Profile) -> Vec<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for ((thread, stack), weight) in &profile.stacks {
        let mut line = clean(&thread.name);
        let frames = stack.iter().rev().flat_map(|&at| profile.locations[at].frames.iter().rev());
        for frame in frames {
            line.push(';');
            line.push_str(&clean(&frame.function));
        }
        let time = if profile.wall { weight.samples * profile.every } else { weight.cpu };
        *sums.entry(line).or_default() += time;
    }
    sums.into_iter().map(|(line, time)| format!("{line} {}", time.div_ceil(1000))).collect()
}

/// Without what has a meaning in that form.
fn clean(name: &str) -> String {
    name.replace([';', '\n'], ":")
}

#[cfg(test)]
mod tests {
    use super::super::collect::{Location, Thread, Weight};
    use super::super::modules::Frame;
    use super::*;

    fn profile(stacks: &[(&[usize], u64)]) -> Profile {
        let frame = |name: &str| Frame { function: name.to_owned(), file: String::new(), line: 0 };
        let place =
            |frames: &[&str]| Location { file: None, address: 0, frames: frames.iter().map(|n| frame(n)).collect() };
        let thread = |tid| Thread { pid: 1, tid, name: "a;b".to_owned() };
        Profile {
            every: 1_000_000,
            wall: false,
            files: Vec::new(),
            locations: vec![place(&["inner", "outer"]), place(&["main"])],
            stacks: stacks
                .iter()
                .zip(1..)
                .map(|(&(stack, cpu), tid)| ((thread(tid), stack.to_vec()), Weight { samples: 1, cpu }))
                .collect(),
            lost: 0,
            unsampled: 0,
            processes: 1,
            unfinished: 0,
        }
    }

    #[test]
    fn the_outermost_comes_first_and_equal_stacks_are_added() {
        let profile = profile(&[(&[0, 1], 3_000), (&[0, 1], 5_000), (&[1], 1)]);
        assert_eq!(lines(&profile), ["a:b;main 1", "a:b;main;outer;inner 8"]);
        let mut picture = Vec::new();
        write(&profile, &mut picture).expect("memory takes everything");
        let picture = String::from_utf8(picture).expect("it is text");
        assert!(picture.contains("<svg") && picture.contains("inner"), "{picture}");
    }

    #[test]
    fn nothing_makes_a_picture_too() {
        let mut picture = Vec::new();
        write(&profile(&[]), &mut picture).expect("memory takes everything");
        assert!(picture.starts_with(b"<?xml"));
    }
}
