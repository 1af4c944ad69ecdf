//! Colours, only on a terminal: `anstream` strips them elsewhere and honours NO_COLOR.

use anstyle::{AnsiColor, Style};
use std::io::{IsTerminal, Write};

/// Something is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Something to know.
pub const NOTE: Style = AnsiColor::Yellow.on_default();
/// Something does not work.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// One line on standard error, marked as ours. Errors are ignored, as they cannot be reported.
pub fn complain(sentence: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{BAD}entresol:{BAD:#} {sentence}");
}

/// One line on standard error that is no failure.
pub fn remark(sentence: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{NOTE}entresol:{NOTE:#} {sentence}");
}

/// A text on standard error as it is.
pub fn detail(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Shows progress in place of the previous message, on a terminal only.
pub fn progress(sentence: &str) {
    let mut stream = std::io::stderr();
    if stream.is_terminal() {
        // Moves to the start of the line and erases the rest.
        let _ = write!(stream, "\r\x1b[K{sentence}");
        let _ = stream.flush();
    }
}
