//! The programs of this machine that Entresol cannot enter, for `entresol doctor`: a program that it has entered runs them
//! natively.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::program;

/// The largest number of files that are inspected.
const FILES_MAX: usize = 20_000;
/// The number of programs of a kind that are named.
const NAMED: usize = 3;

/// The programs in the folders of PATH.
#[derive(Debug, Default)]
pub struct Found {
    /// All programs.
    programs: usize,
    /// Names of those that cannot be entered, by the reason.
    others: BTreeMap<&'static str, Vec<String>>,
}

/// Looks at every program that PATH leads to; at a file with several names once.
#[must_use]
pub fn on_path() -> Found {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = Found::default();
    let mut seen = HashSet::new();
    let entries = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    for file in entries.map(|entry| entry.path()).take(FILES_MAX) {
        let Ok(status) = fs::metadata(&file) else { continue };
        let is_program = status.is_file() && status.permissions().mode() & 0o111 != 0;
        if is_program && seen.insert((status.dev(), status.ino())) {
            found.add(&file);
        }
    }
    found
}

impl Found {
    fn add(&mut self, file: &Path) {
        self.programs += 1;
        if let Err(why) = program::inspect(file)
            && let Some(reason) = why.reason()
        {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.others.entry(reason.words()).or_default().push(name);
        }
    }

    /// In a sentence; whether there is nothing to note.
    #[must_use]
    pub fn sentence(mut self) -> (bool, String) {
        let number: usize = self.others.values().map(Vec::len).sum();
        if number == 0 {
            return (true, format!("each of the {} programs on the PATH can be entered", self.programs));
        }
        let kinds: Vec<String> = self
            .others
            .iter_mut()
            .map(|(kind, names)| {
                names.sort();
                let more = if names.len() > NAMED { ", …" } else { "" };
                let some = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("{} {kind} ({some}{more})", names.len())
            })
            .collect();
        let text = format!(
            "of the {} programs on the PATH {number} cannot be entered: {}. `run` refuses them; one that another program executes \
             runs natively, and `run` says so (--require refuses that, too)",
            self.programs,
            kinds.join("; ")
        );
        (false, text)
    }
}
