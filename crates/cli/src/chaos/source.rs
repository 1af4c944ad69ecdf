//! Lines of source files, as far as the files can be read here.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Larger files are not read: they are hardly ever source.
const BYTES_MAX: u64 = 4 << 20;

/// Source files that have been read.
#[derive(Debug, Default)]
pub struct Sources(HashMap<String, Vec<String>>);

impl Sources {
    /// Up to this many lines before and after a line, each with its number. Empty if the file cannot be read or has no
    /// such line.
    pub fn around(&mut self, file: &str, line: u32, margin: u32) -> Vec<(u32, String)> {
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| read(Path::new(file)).unwrap_or_default());
        if line == 0 || line as usize > lines.len() {
            return vec![];
        }
        let range = line.saturating_sub(margin).max(1)..=line.saturating_add(margin).min(lines.len() as u32);
        range.map(|number| (number, lines[number as usize - 1].clone())).collect()
    }

    /// A line without the space around it.
    pub fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let (_, text) = self.around(file, line, 0).pop()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// The lines of a regular file; anything else could block or have no end.
fn read(file: &Path) -> Option<Vec<String>> {
    let found = fs::metadata(file).ok()?;
    if !found.is_file() || found.len() > BYTES_MAX {
        return None;
    }
    let text = fs::read(file).ok()?;
    Some(String::from_utf8_lossy(&text).lines().map(|line| line.replace('\t', "    ")).collect())
}

/// A path as one would write it in this folder.
pub fn near(file: &str) -> &str {
    let here = std::env::current_dir().ok();
    let inside = here.as_deref().and_then(|here| Path::new(file).strip_prefix(here).ok());
    inside.and_then(Path::to_str).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_a_line_end_where_the_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.c");
        fs::write(&file, "one\n\ttwo;\nthree\nfour\n").unwrap();
        let (file, mut sources) = (file.to_str().unwrap(), Sources::default());
        let numbers = |found: Vec<(u32, String)>| found.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers(sources.around(file, 1, 2)), [1, 2, 3]);
        assert_eq!(numbers(sources.around(file, 4, 1)), [3, 4]);
        assert_eq!(sources.line(file, 2).as_deref(), Some("two;"));
        for (file, line) in [(file, 0), (file, 5), ("/not/there.c", 1), ("/dev/zero", 1)] {
            assert!(sources.around(file, line, 2).is_empty(), "{file}:{line}");
        }
    }

    #[test]
    fn paths_in_this_folder_are_short() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(near(here.join("src/x.c").to_str().unwrap()), "src/x.c");
        assert_eq!(near("/elsewhere/x.c"), "/elsewhere/x.c");
    }
}
