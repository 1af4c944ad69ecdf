//! What a program of the corpus says about itself in its first lines.
//!
//! | line | meaning |
//! |---|---|
//! | `//@ flags: -fsanitize=address` | added to the compiler's arguments |
//! | `//@ libs: -ldl` | added after the source |
//! | `//@ shared: late.c` | also built, as a shared library; the variable `LIBRARY` holds its path |
//! | `//@ needs: libasan8 libasan.so` | a Debian package, and the command or library that shows it is there |
//! | `//@ privileged` | natively as root, under Entresol as nobody: what Linux allows root, Entresol allows all |
//! | `//@ options: --rt=host` | how `entresol run` is told to run it |
//! | `//@ root` | needs root both natively and under Entresol: it gives rights up |
//! | `//@ status: any` | may natively end otherwise than with status 0 |
//! | `//@ stderr: ignore` | holds addresses or process ids |
//! | `//@ cpus: default` | not run again with other numbers of CPUs |
//! | `//@ engines` | run again with each way of waiting for descriptors (`--io`) |
//! | `//@ forms: static musl` | run again, whole, linked in these ways (`form.rs`) |
//! | `//@ hardened` | run again on hosts that make no memory executable that was writable (`hardened.rs`) |
//! | `//@ alone` | runs while no other test does |
//! | `//@ seconds: 120` | the longest time it may take |
//! | `//@ table` | its lines belong in the table of calls (`table.rs`) |
//! | `//@ by: torture` | the module that runs it; its output is no matter for comparison |

use std::time::Duration;

use crate::form::Form;
use crate::requirement::Requirement;

/// How a program is built, run and compared.
#[derive(Clone, Debug)]
pub struct Directives {
    /// Compiler flags beyond the usual ones.
    pub flags: Vec<String>,
    /// What follows the source on the compiler's command line.
    pub libs: Vec<String>,
    /// Source of a shared library to build beside the program.
    pub shared: Option<String>,
    /// Options of `entresol run`.
    pub options: Vec<String>,
    /// What must be installed.
    pub needs: Vec<Requirement>,
    /// Natively as root, under Entresol as user nobody.
    pub privileged: bool,
    /// As root both ways.
    pub root: bool,
    /// A native end other than status 0 is no fault of the program.
    pub any_status: bool,
    /// The error stream is compared too.
    pub compare_stderr: bool,
    /// Run with the default number of CPUs only.
    pub default_cpus_only: bool,
    /// Run with each `--io`, too.
    pub engines: bool,
    /// Run when linked in these ways, too.
    pub forms: Vec<Form>,
    /// Run on hardened hosts, too.
    pub hardened: bool,
    /// No other test at the same time.
    pub alone: bool,
    /// Its lines are rows of the table of calls.
    pub table: bool,
    /// The module that runs it, when that is not the corpus.
    pub by: Option<String>,
    /// After this the program counts as hung. Far more than any takes: in debug, beside another one, on a host that is busy itself,
    /// one of ten seconds took sixty.
    pub timeout: Duration,
}

impl Default for Directives {
    fn default() -> Self {
        Self {
            flags: Vec::new(),
            libs: Vec::new(),
            options: Vec::new(),
            shared: None,
            needs: Vec::new(),
            privileged: false,
            root: false,
            any_status: false,
            compare_stderr: true,
            default_cpus_only: false,
            engines: false,
            forms: Vec::new(),
            hardened: false,
            alone: false,
            table: false,
            by: None,
            timeout: Duration::from_secs(180),
        }
    }
}

impl Directives {
    /// Reads the `//@` lines of a source.
    ///
    /// # Errors
    /// A line that is none of the table above, so that a slip of the pen is not silently a weaker test.
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut directives = Self::default();
        for line in source.lines().filter_map(|line| line.strip_prefix("//@")) {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            directives.apply(key.trim(), value.trim()).map_err(|reason| format!("`//@{line}`: {reason}"))?;
        }
        Ok(directives)
    }

    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned);
        match (key, value) {
            ("flags", _) => self.flags.extend(words()),
            ("libs", _) => self.libs.extend(words()),
            ("options", _) => self.options.extend(words()),
            ("shared", _) => self.shared = Some(value.to_owned()),
            ("by", _) => self.by = Some(value.to_owned()),
            ("needs", _) => self.needs.push(Requirement::parse(value)?),
            ("privileged", "") => self.privileged = true,
            ("root", "") => self.root = true,
            ("status", "any") => self.any_status = true,
            ("stderr", "ignore") => self.compare_stderr = false,
            ("cpus", "default") => self.default_cpus_only = true,
            ("forms", _) => {
                let forms: Result<Vec<Form>, String> = value.split_whitespace().map(Form::parse).collect();
                self.forms.extend(forms?);
            }
            ("engines", "") => self.engines = true,
            ("hardened", "") => self.hardened = true,
            ("alone", "") => self.alone = true,
            ("table", "") => self.table = true,
            ("seconds", _) => {
                self.timeout = Duration::from_secs(value.parse().map_err(|error| format!("{error}"))?);
            }
            _ => return Err("unknown".to_owned()),
        }
        Ok(())
    }
}
