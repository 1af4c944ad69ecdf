//! Colours, only on a terminal: `anstream` strips them elsewhere and honours NO_COLOR.

use anstyle::{AnsiColor, Style};

/// Something is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Something to know.
pub const NOTE: Style = AnsiColor::Yellow.on_default();
/// Something does not work.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// One line on standard error, marked as ours.
pub fn complain(sentence: &str) {
    anstream::eprintln!("{BAD}entresol:{BAD:#} {sentence}");
}

/// One line on standard error that is no failure.
pub fn remark(sentence: &str) {
    anstream::eprintln!("{NOTE}entresol:{NOTE:#} {sentence}");
}

/// Shows progress in place of the previous message, on a terminal only.
pub fn progress(sentence: &str) {
    use std::io::{IsTerminal, Write};
    let mut stream = std::io::stderr();
    if stream.is_terminal() {
        // Moves to the start of the line and erases the rest.
        let _ = write!(stream, "\r\x1b[K{sentence}");
        let _ = stream.flush();
    }
}
