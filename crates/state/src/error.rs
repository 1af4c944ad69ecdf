//! Why a page cannot be read.

/// Why a page says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// It is no state page.
    NoPage,
    /// It is one of another version.
    Version(u64),
    /// It is shorter than it says, or what stands there cannot be.
    Damaged(&'static str),
    /// No snapshot has been made yet.
    Empty,
    /// Newer snapshots came faster than they could be read.
    Overtaken,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::NoPage => write!(f, "it is no state page"),
            Error::Version(n) => {
                write!(f, "its state page has version {n}, and this command reads version {}", crate::layout::VERSION)
            }
            Error::Damaged(what) => write!(f, "its state page is damaged: {what}"),
            Error::Empty => write!(f, "it has published nothing yet"),
            Error::Overtaken => write!(f, "its state changes faster than it can be read"),
        }
    }
}

impl core::error::Error for Error {}
