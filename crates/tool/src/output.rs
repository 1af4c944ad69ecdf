//! Answers of commands are written to standard output here, and a write that fails is an error like any other.
//!
//! `println!` would panic, as on a full disk.

use std::fmt::Arguments;
use std::io::{Error, Result, Write};

/// Writes a line, formatted as by [`format!`], to standard output: an [`std::io::Result`].
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(::core::format_args!($($words)*))
    };
}

/// See [`say!`](crate::say).
///
/// # Errors
/// The host's, with what could not be written to.
pub fn line(words: Arguments<'_>) -> Result<()> {
    named(writeln!(anstream::stdout().lock(), "{words}"))
}

/// Writes a text that has its own line ends.
///
/// # Errors
/// As [`line()`].
pub fn text(text: &str) -> Result<()> {
    let mut stream = anstream::stdout().lock();
    named(stream.write_all(text.as_bytes()).and_then(|()| stream.flush()))
}

fn named(written: Result<()>) -> Result<()> {
    written.map_err(|error| Error::new(error.kind(), format!("standard output: {error}")))
}
