//! How a program of the corpus is linked. All but the first are loaded by the image, not by glibc's dynamic linker.

use crate::requirement::Requirement;

/// The C library, and how it gets into the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// glibc, as a library.
    #[default]
    Dynamic,
    /// glibc, in a program at fixed addresses.
    Static,
    /// glibc, in a program that can lie anywhere.
    StaticPie,
    /// musl, as a library.
    Musl,
    /// musl, in the program.
    MuslStatic,
}

impl Form {
    /// Reads a word of the `forms` directive.
    ///
    /// # Errors
    /// Another word.
    pub fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "dynamic" => Self::Dynamic,
            "static" => Self::Static,
            "static-pie" => Self::StaticPie,
            "musl" => Self::Musl,
            "musl-static" => Self::MuslStatic,
            _ => return Err(format!("{word}: no form of linking")),
        })
    }

    /// The form of all programs that have no other, by `ENTRESOL_TESTS_FORM`.
    ///
    /// # Errors
    /// As [`Form::parse`].
    pub fn wanted() -> Result<Self, String> {
        std::env::var("ENTRESOL_TESTS_FORM").map_or(Ok(Self::Dynamic), |word| Self::parse(&word))
    }

    /// What is added to a test's name.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Dynamic => "",
            Self::Static => "@static",
            Self::StaticPie => "@static-pie",
            Self::Musl => "@musl",
            Self::MuslStatic => "@musl-static",
        }
    }

    /// The C compiler, if it is another than the usual one.
    #[must_use]
    pub fn compiler(self) -> Option<&'static str> {
        matches!(self, Self::Musl | Self::MuslStatic).then_some("musl-gcc")
    }

    /// The compiler's additional argument.
    #[must_use]
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::Static | Self::MuslStatic => Some("-static"),
            Self::StaticPie => Some("-static-pie"),
            Self::Dynamic | Self::Musl => None,
        }
    }

    /// What must be installed for it.
    #[must_use]
    pub fn needs(self) -> Option<Requirement> {
        self.compiler().map(|compiler| Requirement::package("musl-tools", compiler))
    }
}
