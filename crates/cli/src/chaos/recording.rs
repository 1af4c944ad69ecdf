//! The file that holds a schedule: what was run, and every choice that was not plain.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use chaos::races::Pair;
use chaos::{Expected, Switch};
use serde_json::{Value, json};

use super::attempt::{End, Outcome, Plan, Races};
use super::races::Seen;

/// The version of the form, and of what is a scheduling point: a schedule of another one would not be repeated.
const VERSION: u64 = 4;
/// A thread that computes in a repeated run is taken to spin only after a tenth of a second, which is 20 checks.
const PATIENCE: u64 = 20;

/// A schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The program's file, and a hash of its content.
    program: (PathBuf, u64),
    /// As in [`Plan`].
    pub seed: u64,
    /// As in [`Plan`].
    pub epoch: u64,
    /// As in [`Plan`].
    pub places: u16,
    /// As in [`Plan`].
    pub chosen: Vec<u64>,
    /// As in [`Plan`].
    pub pauses: bool,
    /// As in [`Plan`].
    pub fail_if: Option<String>,
    /// As in [`Plan`].
    pub only: Option<String>,
    /// How the run ended.
    pub end: End,
    /// The race that it is to show, if that is its end.
    pub race: Option<Pair>,
    /// The choices that were not plain.
    pub switches: Vec<Switch>,
}

impl Recording {
    /// The recording of a run.
    pub fn new(plan: &Plan<'_>, outcome: &Outcome) -> anyhow::Result<Recording> {
        Ok(Recording {
            command: plan.command.to_vec(),
            program: identify(plan.file().unwrap_or(&plan.command[0]))?,
            seed: plan.seed,
            epoch: plan.epoch,
            places: plan.places,
            chosen: plan.chosen.to_vec(),
            pauses: plan.pauses,
            fail_if: plan.fail_if.map(str::to_owned),
            only: plan.only.map(str::to_owned),
            end: outcome.end.clone(),
            race: None,
            switches: outcome.switches.clone(),
        })
    }

    /// The recording of a run up to a race. `None` if not all of its switches have been kept.
    pub fn up_to(plan: &Plan<'_>, outcome: &Outcome, seen: &Seen) -> anyhow::Result<Option<Recording>> {
        let Some(switches) = outcome.switches.get(..seen.switches) else { return Ok(None) };
        let (end, race, switches) = (End::Race, Some(seen.race.pair()), switches.to_vec());
        Ok(Some(Recording { end, race, switches, ..Recording::new(plan, outcome)? }))
    }

    /// The plan to repeat these switches of it.
    pub fn plan<'a>(&'a self, switches: &'a [Switch], timeout: u64) -> Plan<'a> {
        Plan {
            command: &self.command,
            strategy: None,
            switches,
            patience: PATIENCE,
            asks: false,
            stops: &[],
            seed: self.seed,
            expected: Expected::default(),
            epoch: self.epoch,
            places: self.places,
            chosen: &self.chosen,
            races: self.race.map_or(Races::Off, Races::Until),
            pauses: self.pauses,
            timeout: Duration::from_secs(timeout),
            fail_if: self.fail_if.as_deref(),
            only: self.only.as_deref(),
        }
    }

    /// From now on it is of the program that is there now, which may be another than was recorded: that is said.
    pub fn refresh(&mut self) -> anyhow::Result<Option<String>> {
        let plan = self.plan(&[], 1);
        let program = identify(plan.file().unwrap_or(&self.command[0]))?;
        let recorded = std::mem::replace(&mut self.program, program);
        let (path, hash) = &self.program;
        Ok((*hash != recorded.1).then(|| {
            format!("{} is not the file that was recorded: its schedule may not fit any more", path.display())
        }))
    }

    /// Writes it.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let command = words(&self.command)?;
        let value = json!({
            "entresol-chaos": VERSION,
            "command": command,
            "program": { "path": self.program.0.to_string_lossy(), "hash": format!("{:016x}", self.program.1) },
            "seed": self.seed,
            "epoch": self.epoch,
            "places": self.places,
            "chosen": self.chosen.iter().map(|place| format!("{place:#x}")).collect::<Vec<_>>(),
            "pauses": self.pauses,
            "fail_if": self.fail_if,
            "only": self.only,
            "end": write_end(&self.end),
            "race": self.race.map(|pair| pair.map(|place| format!("{place:#x}"))),
            "switches": self.switches.iter().map(write_switch).collect::<Vec<_>>(),
        });
        fs::write(file, format!("{value:#}\n")).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Reads one.
    pub fn read(file: &Path) -> anyhow::Result<Recording> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = parse(&value);
        found.with_context(|| {
            format!("{} is no schedule that this version of entresol chaos has written", file.display())
        })
    }
}

/// Whether a schedule of this command could be written to this file: asked before there is one.
pub fn check(command: &[OsString], file: &Path) -> anyhow::Result<()> {
    words(command)?;
    let mut options = fs::OpenOptions::new();
    let opened = match options.write(true).create_new(true).open(file) {
        Ok(_) => fs::remove_file(file),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => options.create_new(false).open(file).map(drop),
        Err(why) => Err(why),
    };
    opened.with_context(|| format!("cannot write {}", file.display()))
}

fn words(command: &[OsString]) -> anyhow::Result<Vec<&str>> {
    command
        .iter()
        .map(|word| word.to_str().with_context(|| format!("{} cannot be written to a file: not UTF-8", word.display())))
        .collect()
}

/// The fifth element of a switch whose thread spun.
const SPINS: &str = "spins";

fn write_switch(switch: &Switch) -> Value {
    let place = format!("{:#x}", switch.place);
    match switch.spins {
        true => json!([switch.last, switch.nth, switch.to, place, SPINS]),
        false => json!([switch.last, switch.nth, switch.to, place]),
    }
}

fn parse(value: &Value) -> Option<Recording> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64();
    let hex = |value: &Value| u64::from_str_radix(value.as_str()?.trim_start_matches("0x"), 16).ok();
    if number(&value["entresol-chaos"])? != VERSION {
        return None;
    }
    let switch = |value: &Value| {
        let small = |i: usize| number(&value[i]).and_then(|n| u32::try_from(n).ok());
        let spins = value.get(4).is_some_and(|word| word == SPINS);
        Some(Switch { last: small(0)?, nth: small(1)?, to: small(2)?, spins, place: hex(&value[3])? })
    };
    let command: Vec<OsString> =
        value["command"].as_array()?.iter().map(|w| text(w).map(Into::into)).collect::<Option<_>>()?;
    Some(Recording {
        command: (!command.is_empty()).then_some(command)?,
        program: (text(&value["program"]["path"])?.into(), hex(&value["program"]["hash"])?),
        seed: number(&value["seed"])?,
        epoch: number(&value["epoch"])?,
        places: number(&value["places"])?.try_into().ok()?,
        chosen: value["chosen"].as_array()?.iter().map(hex).collect::<Option<_>>()?,
        pauses: value["pauses"].as_bool()?,
        fail_if: text(&value["fail_if"]),
        only: text(&value["only"]),
        end: read_end(value["end"].as_str()?)?,
        race: hex(&value["race"][0]).zip(hex(&value["race"][1])).map(|(a, b)| [a, b]),
        switches: value["switches"].as_array()?.iter().map(switch).collect::<Option<_>>()?,
    })
}

/// The end as written in files.
pub fn write_end(end: &End) -> String {
    match end {
        End::Passed => "passed".to_owned(),
        End::Crash(signal) => format!("signal {signal}"),
        End::Status(status) => format!("status {status}"),
        End::Found => "found".to_owned(),
        End::Deadlock => "deadlock".to_owned(),
        End::Hang => "hang".to_owned(),
        End::Race => "race".to_owned(),
    }
}

fn read_end(text: &str) -> Option<End> {
    Some(match text.split_once(' ') {
        Some(("signal", n)) => End::Crash(n.parse().ok()?),
        Some(("status", n)) => End::Status(n.parse().ok()?),
        None if text == "passed" => End::Passed,
        None if text == "found" => End::Found,
        None if text == "deadlock" => End::Deadlock,
        None if text == "hang" => End::Hang,
        None if text == "race" => End::Race,
        _ => return None,
    })
}

/// The program's file and a hash of it, which tells versions apart and is not cryptographic.
fn identify(program: &OsStr) -> anyhow::Result<(PathBuf, u64)> {
    let path = tool::resolve::resolve(program)?;
    let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&content);
    Ok((path, hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_schedule_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.json");
        for end in [End::Crash(11), End::Status(3), End::Found, End::Deadlock, End::Hang, End::Race, End::Passed] {
            let race = (end == End::Race).then_some([0, u64::MAX]);
            let recording = Recording {
                command: vec!["/bin/true".into(), "-x".into()],
                program: identify("/bin/true".as_ref()).unwrap(),
                seed: u64::MAX,
                epoch: 5,
                places: 16,
                chosen: vec![1, u64::MAX],
                pauses: true,
                fail_if: Some("grep x".to_owned()),
                only: Some("a/b".to_owned()),
                end,
                race,
                switches: vec![Switch { last: 1, nth: u32::MAX, to: 2, spins: true, place: u64::MAX }],
            };
            recording.write(&file).unwrap();
            let mut read = Recording::read(&file).unwrap();
            assert_eq!(read, recording);
            assert_eq!(read.refresh().unwrap(), None);
        }
    }

    #[test]
    fn another_program_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let command = vec![file.clone().into_os_string()];
        let mut recording = Recording {
            program: identify(&command[0]).unwrap(),
            command,
            seed: 1,
            epoch: 1,
            places: 1,
            chosen: vec![],
            pauses: false,
            fail_if: None,
            only: None,
            end: End::Hang,
            race: None,
            switches: vec![],
        };
        fs::write(&file, "other").unwrap();
        assert!(recording.refresh().unwrap().unwrap().contains("is not the file that was recorded"));
        assert_eq!(recording.refresh().unwrap(), None);
    }

    #[test]
    fn what_cannot_be_written_is_found_before() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "kept").unwrap();
        assert!(check(&["x".into()], &new).is_ok() && !new.exists());
        assert!(check(&["x".into()], &old).is_ok() && fs::read(&old).unwrap() == b"kept");
        for file in [folder.path().to_path_buf(), folder.path().join("no/folder")] {
            assert!(format!("{:#}", check(&["x".into()], &file).unwrap_err()).contains("cannot write"));
        }
        let word = OsString::from_vec(vec![0xff]);
        assert!(check(&["x".into(), word], &new).unwrap_err().to_string().contains("not UTF-8"));
    }

    #[test]
    fn another_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.json");
        for text in ["", "{}", "[1, 2]", r#"{"entresol-chaos": 3}"#, r#"{"entresol-chaos": 1, "command": []}"#] {
            fs::write(&file, text).unwrap();
            let why = format!("{:#}", Recording::read(&file).unwrap_err());
            assert!(why.contains("x.json is no schedule"), "{why}");
        }
    }
}
