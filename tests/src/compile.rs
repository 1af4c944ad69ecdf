//! Compiles a program of the corpus once: the result's name holds a hash of everything that went into it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use crate::directives::Directives;
use crate::form::Form;
use crate::places;

/// What every program is compiled with. No reordering: the cases of a file run in the order of the text.
const COMMON_FLAGS: &[&str] = &["-O2", "-g", "-pthread", "-fno-toplevel-reorder", "-Wall", "-Werror"];

/// Libraries of their own until glibc 2.34. They are empty since, and in musl.
const COMMON_LIBS: &[&str] = &["-lrt", "-ldl", "-lutil"];

/// A compiled program, and the library that it asked for.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The executable.
    pub program: PathBuf,
    /// The shared library of its `shared` directive.
    pub library: Option<PathBuf>,
}

/// Compiles `source` as its directives say and linked in this way, unless that was done before.
///
/// # Errors
/// The compiler's own words.
pub fn compile(source: &Path, directives: &Directives, form: Form) -> Result<Compiled, String> {
    // One lock a source, so that the many cases of a file wait for one compilation.
    type Locks = Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>;
    static LOCKS: OnceLock<Locks> = OnceLock::new();
    let lock = {
        let mut locks = LOCKS.get_or_init(Locks::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(locks.entry(source.to_owned()).or_default())
    };
    let _one_at_a_time = lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());

    let library = match &directives.shared {
        Some(name) => {
            let flags = [&["-shared".to_owned(), "-fPIC".to_owned()], &directives.flags[..]].concat();
            // A program that loads a library has the same C library.
            let form = if form == Form::Musl { Form::Musl } else { Form::Dynamic };
            Some(build(&source.with_file_name(name), ".so", &flags, &[], form)?)
        }
        None => None,
    };
    Ok(Compiled { program: build(source, "", &directives.flags, &directives.libs, form)?, library })
}

fn build(source: &Path, suffix: &str, flags: &[String], libs: &[String], form: Form) -> Result<PathBuf, String> {
    let usual = if source.extension().is_some_and(|extension| extension == "cc") { "c++" } else { "cc" };
    let compiler = form.compiler().unwrap_or(usual);
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let hash = content_hash(source, flags, libs, form)?;
    let target = places::build_dir().join(format!("{stem}-{hash:016x}{suffix}"));
    if target.exists() {
        return Ok(target);
    }
    let part = target.with_extension("part");
    let answer = Command::new(compiler)
        .args(COMMON_FLAGS)
        .args(form.flag())
        .args(flags)
        .arg("-I")
        .arg(places::programs())
        .arg("-o")
        .arg(&part)
        .arg(source)
        .args(libs)
        .args(COMMON_LIBS)
        .output()
        .map_err(|error| format!("cannot run {compiler}: {error}"))?;
    if !answer.status.success() {
        return Err(format!("{compiler} {}:\n{}", source.display(), String::from_utf8_lossy(&answer.stderr)));
    }
    std::fs::rename(&part, &target).map_err(|error| format!("cannot keep {}: {error}", target.display()))?;
    Ok(target)
}

/// Covers the source, every header of the corpus (few and small) and the flags.
fn content_hash(source: &Path, flags: &[String], libs: &[String], form: Form) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    (COMMON_FLAGS, COMMON_LIBS, flags, libs, form).hash(&mut hasher);
    let mut inputs = headers(&places::programs())?;
    inputs.push(source.to_owned());
    for input in inputs {
        std::fs::read(&input).map_err(|error| format!("{}: {error}", input.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn headers(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            found.extend(headers(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "h" || extension == "hpp") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
