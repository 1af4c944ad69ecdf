//! The corpus of C and C++ programs as tests.
//!
//! A file with `CASE`s becomes one test for each of them (`futex/wake_op::add`), and one for the whole file on
//! a single CPU and on four CPUs with a fast tick (`futex/wake_op@1`, `futex/wake_op@4`): cases share a process
//! there, and what one leaves behind meets the next. With the directive `engines` it is run whole with each way of waiting for
//! descriptors, too (`descriptors/readers@threads`), with `hardened` on hosts that are so (`signals/handlers@mdwe`), with `forms` linked otherwise (`threads/mutex@static`). A file without cases is run whole in all three ways.
//!
//! `ENTRESOL_CORPUS=whole` runs every file whole, once, on four CPUs, and in the ways that its directives name: all that is
//! compared, in less time, but a difference is told of the file and not of the case. `ENTRESOL_CORPUS=compile` only compiles for
//! that: the build folder, copied along with the test and the corpus, serves a machine without a compiler.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libtest_mimic::Trial;

use crate::compile::{Compiled, compile};
use crate::directives::Directives;
use crate::form::Form;
use crate::hardened::Hardening;
use crate::outcome::{Outcome, compare};
use crate::places;
use crate::requirement::Requirement;
use crate::run::Run;
use crate::trial::{Conditions, trial};

/// A way to run under Entresol.
#[derive(Clone, Copy)]
struct Way {
    /// What is added to the test's name.
    name: &'static str,
    options: &'static [&'static str],
    hardening: Option<Hardening>,
    form: Form,
}

const fn way(name: &'static str, options: &'static [&'static str]) -> Way {
    Way { name, options, hardening: None, form: Form::Dynamic }
}

const DEFAULT: Way = way("", &[]);
const ONE_CPU: Way = way("@1", &["--cpus", "1"]);
const EPOLL: Way = way("@epoll", &["--io", "epoll"]);
const THREADS: Way = way("@threads", &["--io", "threads"]);
const FOUR_CPUS: Way = way("@4", &["--cpus", "4", "--hz", "20000"]);
const MDWE: Way = Way { hardening: Some(Hardening::Mdwe), ..way("@mdwe", &["--cpus", "4"]) };
const SECCOMP: Way = Way { hardening: Some(Hardening::Seccomp), ..way("@seccomp", &["--cpus", "4"]) };

/// The part of the corpus that is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Each case, and each file.
    All,
    /// Each file, once.
    Whole,
    /// That each file be compiled.
    Compile,
}

/// One source file.
#[derive(Clone, Debug)]
struct Program {
    /// Path below `programs/`, without extension.
    name: String,
    source: PathBuf,
    directives: Directives,
    cases: Vec<String>,
    /// How the whole program ends natively, for all ways that differ only in how it runs under Entresol.
    native: Arc<OnceLock<Result<Outcome, String>>>,
}

/// All tests of the corpus.
///
/// # Errors
/// An unreadable file or a wrong directive.
pub fn trials() -> Result<Vec<Trial>, String> {
    let extent = Extent::wanted()?;
    let mut trials = Vec::new();
    for program in find(&places::programs())? {
        trials.extend(program.trials(extent));
    }
    Ok(trials)
}

impl Extent {
    /// By `ENTRESOL_CORPUS`.
    fn wanted() -> Result<Self, String> {
        match std::env::var("ENTRESOL_CORPUS").as_deref() {
            Err(_) | Ok("all") => Ok(Self::All),
            Ok("whole") => Ok(Self::Whole),
            Ok("compile") => Ok(Self::Compile),
            Ok(other) => Err(format!("ENTRESOL_CORPUS={other}: all, whole or compile")),
        }
    }
}

/// The sources of all programs, with what they say about themselves.
///
/// # Errors
/// As [`trials`].
pub fn sources() -> Result<Vec<(PathBuf, Directives)>, String> {
    Ok(find(&places::programs())?.into_iter().map(|program| (program.source, program.directives)).collect())
}

impl Program {
    fn read(source: PathBuf) -> Result<Self, String> {
        let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let directives = Directives::parse(&text).map_err(|error| format!("{}: {error}", source.display()))?;
        let case_name = |line: &str| line.strip_prefix("CASE(")?.split_once(')').map(|(name, _)| name.to_owned());
        let cases = text.lines().filter_map(case_name).collect();
        let name = source.strip_prefix(places::programs()).unwrap_or(&source).with_extension("");
        Ok(Self { name: name.to_string_lossy().into_owned(), source, directives, cases, native: Arc::default() })
    }

    fn trials(&self, extent: Extent) -> Vec<Trial> {
        let by_case = extent == Extent::All;
        let mut trials = Vec::new();
        if by_case {
            for case in &self.cases {
                trials.push(self.trial(format!("{}::{case}", self.name), Some(case.clone()), DEFAULT, extent));
            }
        }
        let numbers = if self.directives.default_cpus_only { &[][..] } else { &[ONE_CPU, FOUR_CPUS] };
        let mut ways = match by_case {
            true if self.cases.is_empty() => vec![DEFAULT],
            true => vec![],
            false => vec![*numbers.last().unwrap_or(&DEFAULT)],
        };
        if by_case {
            ways.extend(numbers);
        }
        if self.directives.engines {
            ways.extend([EPOLL, THREADS]);
        }
        if self.directives.hardened {
            ways.extend([MDWE, SECCOMP]);
        }
        ways.extend(self.directives.forms.iter().map(|&form| Way { form, ..way(form.suffix(), &["--cpus", "4"]) }));
        for way in ways {
            trials.push(self.trial(format!("{}{}", self.name, way.name), None, way, extent));
        }
        trials
    }

    fn trial(&self, name: String, case: Option<String>, way: Way, extent: Extent) -> Trial {
        let mut needs = self.directives.needs.clone();
        needs.extend((self.directives.privileged || self.directives.root).then_some(Requirement::Root));
        needs.extend(way.form.needs());
        needs.extend((way.hardening == Some(Hardening::Mdwe)).then_some(Requirement::Linux(6, 3)));
        if self.source.extension().is_some_and(|extension| extension == "cc") {
            needs.push(Requirement::package("g++", "c++"));
        }
        let conditions = Conditions { needs, alone: self.directives.alone };
        let program = self.clone();
        trial(name, &conditions, move || match extent {
            Extent::Compile => {
                way.hardening.map_or(Ok(()), |_| Hardening::launcher().map(drop))?;
                program.compiled(way).map(drop)
            }
            Extent::All | Extent::Whole => program.check(case, way),
        })
    }

    fn compiled(&self, way: Way) -> Result<Compiled, String> {
        let form = if way.form == Form::Dynamic { Form::wanted()? } else { way.form };
        compile(&self.source, &self.directives, form)
    }

    /// Runs the program both ways and compares.
    fn check(&self, case: Option<String>, way: Way) -> Result<(), String> {
        let compiled = self.compiled(way)?;
        let mut run = Run::new(compiled.program).args(case).timeout(self.directives.timeout);
        run.hardening = way.hardening.or(Hardening::wanted()?);
        run.env.extend(compiled.library.map(|library| ("LIBRARY".into(), library.into())));
        let shared = run.args.is_empty() && way.hardening.is_none() && way.form == Form::Dynamic;
        let native = if shared { self.native.get_or_init(|| run.natively()).clone()? } else { run.natively()? };
        if !self.directives.any_status && !native.succeeded() {
            return Err(format!("fails natively: {}", native.describe()));
        }
        let options: Vec<&str> =
            way.options.iter().copied().chain(self.directives.options.iter().map(String::as_str)).collect();
        let ours = match self.directives.privileged {
            true => run.under_entresol_as_nobody(&options)?,
            false => run.under_entresol(&options)?,
        };
        compare(&native, &ours, self.directives.compare_stderr)
    }
}

/// Every program of a folder and the folders in it, in the order of their names. A source that another file
/// names as its shared library, and one that another module runs, are none.
fn find(dir: &Path) -> Result<Vec<Program>, String> {
    let listing = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths: Vec<PathBuf> = listing.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    let mut programs = Vec::new();
    for path in paths {
        if path.is_dir() {
            programs.extend(find(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "c" || extension == "cc") {
            programs.push(Program::read(path)?);
        }
    }
    let libraries: Vec<PathBuf> = programs
        .iter()
        .filter_map(|program| Some(program.source.with_file_name(program.directives.shared.as_ref()?)))
        .collect();
    programs.retain(|program| program.directives.by.is_none() && !libraries.contains(&program.source));
    Ok(programs)
}
