//! Reports of a process that cannot go on, and the means to print them.

use crate::base::os;
use core::fmt::{self, Write};
use sync::Lock;

/// Collects text and writes it in one call, so that lines of several carriers do not mix.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; 512],
    len: usize,
    fd: i32,
}

impl Default for Line {
    fn default() -> Line {
        Line { bytes: [0; 512], len: 0, fd: 2 }
    }
}

impl Line {
    /// Sends the text to `fd` instead of the standard error stream.
    pub fn to(fd: i32) -> Line {
        Line { fd, ..Line::default() }
    }

    /// Writes what was collected.
    pub fn flush(&mut self) {
        os::write(self.fd, &self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for chunk in s.as_bytes().chunks(512) {
            if self.len + chunk.len() > self.bytes.len() {
                self.flush();
            }
            self.bytes[self.len..self.len + chunk.len()].copy_from_slice(chunk);
            self.len += chunk.len();
        }
        Ok(())
    }
}

/// Text of at most `N` bytes; more is cut off.
#[derive(Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text { bytes: [0; N], len: 0 }
    }
}

impl<const N: usize> Text<N> {
    /// Adds a byte, if there is room.
    pub fn push(&mut self, byte: u8) {
        if self.len < N {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }

    /// The text so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(N - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Prints one line on the standard error stream.
pub fn say(args: fmt::Arguments<'_>) {
    let mut line = Line::default();
    let _ = writeln!(line, "entresol: {args}");
    line.flush();
}

/// Called by [`abort`] before the process ends.
static LAST_ACT: Lock<Option<fn()>> = Lock::new(None);

/// Sets the function that [`abort`] calls before the process ends.
pub(crate) fn set_last_act(act: fn()) {
    *LAST_ACT.lock() = Some(act);
}

/// Ends the process with a report and SIGABRT, so that there is a core where cores are enabled.
pub fn fatal(args: fmt::Arguments<'_>) -> ! {
    say(args);
    abort()
}

/// Ends the process by SIGABRT, whatever the program's disposition.
pub fn abort() -> ! {
    const SIGABRT: i32 = 6;
    let act = LAST_ACT.lock().take();
    if let Some(act) = act {
        act();
    }
    os::suffer(SIGABRT);
    os::exit_group(134)
}

/// Sets a host disposition; returns the old one. Ends the process if the host refuses, because signals cannot be
/// handled then.
pub fn sigaction(signal: i32, new: Option<&os::HostAction>) -> os::HostAction {
    os::try_sigaction(signal, new).unwrap_or_else(|error| {
        fatal(format_args!("the host refused the disposition of signal {signal} (error {error})"))
    })
}
