//! Hosts that make no memory executable that was writable. A program is started on one natively and under Entresol.
//!
//! `ENTRESOL_TESTS_ON=mdwe` (or `seccomp`) does it to the whole corpus.

use std::path::PathBuf;

use crate::compile::compile;
use crate::directives::Directives;
use crate::form::Form;
use crate::places;

/// What makes a host so hard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hardening {
    /// `PR_SET_MDWE`.
    Mdwe,
    /// The filter of systemd's MemoryDenyWriteExecute.
    Seccomp,
}

impl Hardening {
    /// The name by which the launcher knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mdwe => "mdwe",
            Self::Seccomp => "seccomp",
        }
    }

    /// The one that `ENTRESOL_TESTS_ON` names.
    ///
    /// # Errors
    /// Another value.
    pub fn wanted() -> Result<Option<Self>, String> {
        match std::env::var("ENTRESOL_TESTS_ON").as_deref() {
            Err(_) => Ok(None),
            Ok("mdwe") => Ok(Some(Self::Mdwe)),
            Ok("seccomp") => Ok(Some(Self::Seccomp)),
            Ok(other) => Err(format!("ENTRESOL_TESTS_ON={other}: not mdwe or seccomp")),
        }
    }

    /// The program that executes another one on such a host, when told [`Hardening::name`] and the other one's words.
    ///
    /// # Errors
    /// The compiler's words: it is a C program.
    pub(crate) fn launcher() -> Result<PathBuf, String> {
        let source = places::programs().join("hardened/launcher.c");
        let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        // Statically, so that it starts beside any C library.
        Ok(compile(&source, &Directives::parse(&text)?, Form::Static)?.program)
    }
}
