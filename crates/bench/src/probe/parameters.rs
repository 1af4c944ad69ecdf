//! Parameters of a probe on its command line: `NAME=VALUE`, all values numbers but one.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The values by name; each name is one that the probe knows.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Parses them, or says what is wrong.
    pub fn read(all: &[String], known: &[&str]) -> Result<Self, String> {
        let one = |word: &String| {
            let (name, value) = word.split_once('=').ok_or(format!("{word:?} is not NAME=VALUE"))?;
            if !known.contains(&name) {
                return Err(format!("this probe knows no {name:?}; it knows: {}", known.join(", ")));
            }
            Ok((name.to_owned(), value.to_owned()))
        };
        all.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// The value of this name, if it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of this name as a number, if it was given.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let read = |text: &str| text.parse().map_err(|_| format!("{name}={text} is no number for that"));
        self.text(name).map(read).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_taken() {
        let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let told = Parameters::read(&words(&["threads=8", "soft=0.5"]), &["threads", "soft", "hard"]).unwrap();
        assert_eq!((told.number("threads"), told.number("soft")), (Ok(Some(8)), Ok(Some(0.5))));
        assert_eq!(told.number::<u32>("hard"), Ok(None));
        assert!(told.number::<u32>("soft").is_err());
        assert!(Parameters::read(&words(&["threads"]), &["threads"]).is_err());
        let mistake = Parameters::read(&words(&["other=1"]), &["threads", "soft"]).unwrap_err();
        assert!(mistake.contains("threads, soft"), "{mistake}");
    }
}
