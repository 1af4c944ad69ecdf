//! How the functions of a thread are shown in a few lines: with source lines, and without those that are the same everywhere.

use super::source::{Sources, near};

/// The number of functions that are shown.
const SHOWN_MAX: usize = 8;
/// The number of characters of a source line that are shown.
const SOURCE_MAX: usize = 60;

/// A function on a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its name, how far in it the thread is, and the name of its file.
    pub function: String,
    /// The source file and the line in it, if the file has debug information.
    pub source: Option<(String, u32)>,
}

impl Frame {
    /// The function's name alone.
    pub fn name(&self) -> &str {
        self.function.rsplit_once(" + ").map_or(&*self.function, |(name, _)| name)
    }

    /// The library or program that it is in.
    fn file(&self) -> &str {
        self.function.rsplit_once('(').map_or("", |(_, file)| file)
    }

    /// One line about it.
    pub fn line(&self, sources: &mut Sources) -> String {
        let Some((file, line)) = &self.source else { return self.function.clone() };
        let text = sources.line(file, *line).map_or_else(String::new, |text| format!(":  {}", shortened(&text)));
        format!("{} at {}:{line}{text}", self.name(), near(file))
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SOURCE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The innermost place in the program's source.
pub fn place(frames: &[Frame]) -> Option<&Frame> {
    own(frames).iter().find(|frame| frame.source.is_some())
}

/// The frames above those with which every thread begins. Empty for a thread that has only begun.
pub fn own(frames: &[Frame]) -> &[Frame] {
    const BEGIN: [&str; 8] = [
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "__libc_start_call_main",
        "__libc_start_main",
        "_start",
    ];
    let is_begin = |frame: &Frame| BEGIN.contains(&frame.name().split('@').next().unwrap_or_default());
    let len = frames.iter().rposition(|frame| !is_begin(frame)).map_or(0, |last| last + 1);
    &frames[..len]
}

/// The frames worth a line: without the inner functions of a library that the program's source has called.
fn essential(frames: &[Frame]) -> &[Frame] {
    let frames = own(frames);
    let inner = frames.iter().position(|frame| frame.source.is_some()).unwrap_or(0);
    let from = match inner.checked_sub(1) {
        Some(called) if frames[..called].iter().all(|frame| frame.file() == frames[called].file()) => called,
        _ => 0,
    };
    &frames[from..]
}

/// A line for each of them.
pub fn lines(frames: &[Frame], sources: &mut Sources) -> Vec<String> {
    let frames = essential(frames);
    let mut lines: Vec<String> = frames.iter().take(SHOWN_MAX).map(|frame| frame.line(sources)).collect();
    if frames.len() > SHOWN_MAX {
        lines.push(format!("… and {} more", frames.len() - SHOWN_MAX));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame {
        Frame { function: function.to_owned(), source: (line > 0).then(|| ("/not/there.c".to_owned(), line)) }
    }

    fn shown(frames: &[Frame]) -> Vec<String> {
        lines(frames, &mut Sources::default())
    }

    #[test]
    fn what_the_program_called_is_enough_of_a_library() {
        let frames = [
            frame("lll_lock_wait + 0x2b (libc.so.6)", 0),
            frame("pthread_mutex_lock + 0x111 (libc.so.6)", 0),
            frame("a::operator+ + 0x18 (order)", 8),
            frame("start_thread + 0x304 (libc.so.6)", 0),
            frame("clone3 + 0x2b (libc.so.6)", 0),
        ];
        assert_eq!(shown(&frames), ["pthread_mutex_lock + 0x111 (libc.so.6)", "a::operator+ at /not/there.c:8"]);
        assert_eq!(shown(&frames[3..]), [""; 0]);
        // What another library did may matter.
        let frames = [frame("read + 0x1 (libc.so.6)", 0), frame("load + 0x2 (libz.so)", 0), frame("f + 0x3 (a)", 7)];
        assert_eq!(shown(&frames).len(), 3);
        // Without source lines nobody knows what is the program's own.
        assert_eq!(shown(&frames[..2]), ["read + 0x1 (libc.so.6)", "load + 0x2 (libz.so)"]);
    }

    #[test]
    fn long_source_lines_are_cut() {
        assert_eq!(shortened("a = b;"), "a = b;");
        assert_eq!(shortened(&"é".repeat(SOURCE_MAX)), "é".repeat(SOURCE_MAX));
        assert_eq!(shortened(&"é".repeat(SOURCE_MAX + 1)), "é".repeat(SOURCE_MAX) + "…");
    }

    #[test]
    fn deep_stacks_are_cut() {
        let lines = shown(&[(); 20].map(|()| frame("f + 0x1 (a)", 3)));
        assert_eq!((lines.len(), &*lines[SHOWN_MAX]), (SHOWN_MAX + 1, "… and 12 more"));
    }
}
