//! Machines by name: profiles of the committed file, files of the same form, and `SOCKETSxCORES`.

use super::Hardware;
use ids::CPUS_MAX;
use std::collections::BTreeMap;

/// The committed file.
const FILE: &str = include_str!("../../machine.toml");

/// There is no such machine, or the file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMachine(pub String);

impl Hardware {
    /// The machines of the committed file.
    pub fn profiles() -> BTreeMap<String, Hardware> {
        toml::from_str(FILE).unwrap_or_default()
    }

    /// The machine of that name in the committed file, or the one that `2x8` (sockets and cores of each) or `2x8x2`
    /// (siblings of each core, too) stands for; `None` if it is neither.
    ///
    /// # Errors
    /// It has no CPU, or too many.
    pub fn named(name: &str) -> Result<Option<Hardware>, BadMachine> {
        let shape = |text: &str| text.split('x').map(|n| n.parse().ok()).collect::<Option<Vec<u32>>>();
        let (sockets, cores, siblings) = match shape(name).as_deref() {
            Some(&[sockets, cores]) => (sockets, cores, 1),
            Some(&[sockets, cores, siblings]) => (sockets, cores, siblings),
            _ => return Ok(Hardware::profiles().remove(name)),
        };
        // Before a list of so many sockets is made.
        if sockets as usize > CPUS_MAX {
            return Err(BadMachine(format!("machine '{name}': {sockets} sockets: expected at most {CPUS_MAX} CPUs")));
        }
        Hardware::sockets(sockets, cores, siblings).checked(name).map(Some)
    }

    /// A machine of a file: the one of that name, or the only one.
    ///
    /// # Errors
    /// The file has another form, a value makes no sense, or no machine is meant.
    pub fn parse(file: &str, name: Option<&str>) -> Result<Hardware, BadMachine> {
        let mut all: BTreeMap<String, Hardware> =
            toml::from_str(file).map_err(|why| BadMachine(why.to_string().trim_end().to_owned()))?;
        let names = all.keys().cloned().collect::<Vec<_>>().join(", ");
        let name = match name {
            Some(name) => name.to_owned(),
            None if all.len() == 1 => names.clone(),
            None if all.is_empty() => return Err(BadMachine("there is no machine: expected [NAME]".to_owned())),
            None => return Err(BadMachine(format!("several machines: expected FILE:NAME with one of {names}"))),
        };
        let found = all.remove(&name);
        found.ok_or_else(|| BadMachine(format!("no machine '{name}'; there are: {names}")))?.checked(&name)
    }

    fn checked(self, name: &str) -> Result<Hardware, BadMachine> {
        match self.fault() {
            Some(fault) => Err(BadMachine(format!("machine '{name}': {fault}"))),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, name: Option<&str>, words: &[&str]) {
        let BadMachine(why) = Hardware::parse(text, name).expect_err(text);
        words.iter().for_each(|word| assert!(why.contains(word), "'{word}' is not in: {why}"));
    }

    #[test]
    fn every_profile_of_the_file_can_be_read() {
        let all: BTreeMap<String, Hardware> = toml::from_str(FILE).unwrap();
        assert!(all.len() >= 6);
        for (name, hardware) in all {
            assert_eq!(hardware.fault(), None, "{name}");
            assert!(!hardware.about.is_empty(), "{name}");
            assert_eq!(Hardware::named(&name), Ok(Some(hardware)));
        }
        assert_eq!(Hardware::named("none"), Ok(None));
    }

    #[test]
    fn a_shape_is_sockets_cores_and_siblings() {
        let cpus = |name| Hardware::named(name).unwrap().unwrap().cpus();
        assert_eq!((cpus("2x8"), cpus("1x1"), cpus("2x3x2")), (16, 1, 12));
        assert!(Hardware::named("0x8").unwrap_err().0.contains("0 CPUs: expected 1 to 4096"));
        assert!(Hardware::named("2x4000").unwrap_err().0.contains("8000 CPUs: expected 1 to 4096"));
        assert!(Hardware::named("2x8x0").unwrap_err().0.contains("siblings = 0: expected 1 to 8"));
        assert_eq!(Hardware::named("2x8x2x2"), Ok(None));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        refused("[a]\ncores = [{ count = 2 }]\nfast = 3", None, &["line 3", "unknown field `fast`", "`ramp`"]);
        refused(
            "[a]\ncores = [{ count = 2, capacity = 0 }]",
            None,
            &["machine 'a'", "capacity = 0: expected 1 to 100"],
        );
        refused("[a]\nabout = \"\"", None, &["missing field `cores`"]);
        refused("[a]\ncores = []", None, &["0 CPUs: expected 1 to 4096"]);
        refused("[a]\ncores = [{ count = 1 }]\nstolen = { percent = 60, length = 5000 }", None, &["expected 1 to 50"]);
        refused(
            "[a]\ncores = [{ count = 1 }]\nmigration = { cache = 1 }",
            None,
            &["line 3", "missing field `sibling`"],
        );
        refused("", None, &["expected [NAME]"]);
        let two = "[a]\ncores = [{ count = 1 }]\n[b]\ncores = [{ count = 2 }]";
        refused(two, None, &["several machines", "a, b"]);
        refused(two, Some("c"), &["no machine 'c'; there are: a, b"]);
        assert_eq!(Hardware::parse(two, Some("b")).unwrap().cpus(), 2);
    }
}
