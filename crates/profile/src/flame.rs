//! The profile as a flame graph: one picture for a browser, threads of the same name together.
//!
//! Drawn here, because the available libraries are under the CDDL, which asks more of distributors than our licence
//! does.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::collect::Profile;

/// The width of the picture, in pixels.
const WIDTH: f64 = 1200.0;
/// Left and right of the frames.
const MARGIN: f64 = 10.0;
/// Above them: the title.
const HEAD: usize = 40;
const ROW: usize = 17;
/// The least width of a frame to be visible, and to have its name in it.
const SEEN: f64 = 0.3;
const NAMED: f64 = 24.0;
/// A letter of this size.
const LETTER: f64 = 7.0;

/// A function, called in one way, and what it called.
#[derive(Default)]
struct Frame {
    /// Microseconds, those of its callees included.
    time: u64,
    callees: BTreeMap<String, Frame>,
}

/// Writes the picture, as SVG; microseconds of CPU time, or of wall time.
///
/// # Errors
/// Those of the stream.
pub fn write(profile: &Profile, mut to: impl Write) -> io::Result<()> {
    let all = tree(profile);
    let mut rows = Vec::new();
    draw("all", &all, 0, (MARGIN, all.time.max(1)), &mut rows);
    let depth = rows.iter().map(|row| row.0).max().unwrap_or(0) + 1;
    let height = HEAD + depth * ROW + MARGIN as usize;
    let title = if profile.wall { "Wall time of threads" } else { "CPU time" };
    writeln!(to, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        to,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">"#
    )?;
    writeln!(to, r#"<rect width="100%" height="100%" fill="white"/>"#)?;
    writeln!(to, r#"<text x="{}" y="24" font-size="16" text-anchor="middle">{title}</text>"#, WIDTH / 2.0)?;
    for (row, shape) in &rows {
        // The outermost function is at the bottom.
        let y = HEAD + (depth - 1 - row) * ROW;
        writeln!(to, r#"<g transform="translate(0,{y})">{shape}</g>"#)?;
    }
    writeln!(to, "</svg>")
}

/// The tree of all stacks: threads of one name, then functions, the outermost first.
fn tree(profile: &Profile) -> Frame {
    let mut all = Frame::default();
    for ((thread, stack), weight) in &profile.stacks {
        let nanoseconds = if profile.wall { weight.samples * profile.every } else { weight.cpu };
        let time = nanoseconds.div_ceil(1000);
        all.time += time;
        let functions = stack.iter().rev().flat_map(|&at| profile.locations[at].frames.iter().rev());
        let names = std::iter::once(&thread.name).chain(functions.map(|frame| &frame.function));
        let mut frame = &mut all;
        for name in names {
            frame = frame.callees.entry(name.clone()).or_default();
            frame.time += time;
        }
    }
    all
}

/// Adds a frame and all that it called, each with its row, from `x` on; `total` fills the picture.
fn draw(name: &str, frame: &Frame, row: usize, (x, total): (f64, u64), rows: &mut Vec<(usize, String)>) {
    let share = frame.time as f64 / total as f64;
    let width = share * (WIDTH - 2.0 * MARGIN);
    if width < SEEN {
        return;
    }
    let fits = (width / LETTER) as usize;
    let label: String = if width < NAMED { String::new() } else { name.chars().take(fits).collect() };
    rows.push((
        row,
        format!(
            r#"<title>{}: {} µs, {:.2}%</title><rect x="{x:.1}" width="{width:.1}" height="{}" rx="2" fill="{}"/><text x="{:.1}" y="12">{}</text>"#,
            escape(name),
            frame.time,
            share * 100.0,
            ROW - 1,
            color(name),
            x + 3.0,
            escape(&label),
        ),
    ));
    let mut at = x;
    for (name, callee) in &frame.callees {
        draw(name, callee, row + 1, (at, total), rows);
        at += callee.time as f64 / total as f64 * (WIDTH - 2.0 * MARGIN);
    }
}

/// A warm colour, the same for a name in every picture.
fn color(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, _] = hash.to_le_bytes().map(u32::from);
    format!("rgb({},{},{})", 205 + a * 50 / 255, 90 + b * 130 / 255, c * 55 / 255)
}

/// As text of an XML file, which cannot have all characters (XML 1.0, 2.2).
fn escape(text: &str) -> String {
    let is_text = |c: char| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\t' | '\n');
    let text = text.replace(|c| !is_text(c), "?");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\x1b[31m\u{ffff}\t\u{e9}"), "a&lt;b&gt;&amp;?[31m?\t\u{e9}");
    }
    use crate::collect::{Location, Thread, Weight};
    use crate::modules::Frame;

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

    fn picture(profile: &Profile) -> String {
        let mut picture = Vec::new();
        write(profile, &mut picture).expect("memory takes everything");
        String::from_utf8(picture).expect("it is text")
    }

    #[test]
    fn the_outermost_comes_first_and_equal_stacks_are_added() {
        let profile = profile(&[(&[0, 1], 3_000), (&[0, 1], 5_000), (&[1], 1)]);
        let all = tree(&profile);
        let of = |frame: &super::Frame, name: &str| frame.callees[name].time;
        let thread = &all.callees["a;b"];
        assert_eq!((all.time, thread.time, of(thread, "main")), (9, 9, 9));
        let outer = &thread.callees["main"].callees["outer"];
        assert_eq!((outer.time, of(outer, "inner")), (8, 8));
        let picture = picture(&profile);
        assert!(picture.contains("<title>inner: 8 µs, 88.89%</title>"), "{picture}");
        assert_eq!(picture.matches("<rect x=").count(), 5, "all, the thread and three functions");
    }

    #[test]
    fn names_are_escaped_and_what_is_too_thin_is_left_out() {
        let mut profile = profile(&[(&[0, 1], 10_000_000), (&[1], 1)]);
        profile.locations[0].frames[0].function = "a<b>&".to_owned();
        let picture = picture(&profile);
        assert!(picture.contains("a&lt;b&gt;&amp;") && !picture.contains("a<b>"), "{picture}");
        assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn nothing_makes_a_picture_too() {
        assert!(picture(&profile(&[])).contains("</svg>"));
    }
}
