//! Makes tests for libtest-mimic: ignored with a sentence when something is missing, alone when they must be.

use crate::known;
use std::collections::BTreeSet;
use std::sync::{Mutex, RwLock};

use libtest_mimic::{Failed, Trial};

use crate::requirement::Requirement;

/// Held for reading by every test and for writing by one that must run alone.
static ALONE: RwLock<()> = RwLock::new(());

/// What a test says about itself beside its name.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// What must be there.
    pub needs: Vec<Requirement>,
    /// No other test at the same time.
    pub alone: bool,
}

/// A test. When something that it needs is missing, it is ignored and the missing thing is named.
pub fn trial(
    name: impl Into<String>,
    conditions: &Conditions,
    body: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let (name, alone) = (name.into(), conditions.alone);
    let missing = conditions.needs.iter().find(|need| !need.is_met());
    if let Some(missing) = missing {
        say_once(&name, missing);
    }
    let known = known::difference(&name);
    if let Some(cause) = known {
        eprintln!("{name}: not run, known to differ: {cause}");
    }
    let test = move || {
        let _shared;
        let _exclusive;
        if alone {
            _exclusive = ALONE.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        } else {
            _shared = ALONE.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        body().map_err(Failed::from)
    };
    Trial::test(name, test).with_ignored_flag(missing.is_some() || known.is_some())
}

/// The cases of one file share a sentence.
fn say_once(name: &str, missing: &Requirement) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let file = name.split("::").next().unwrap_or(name);
    let sentence = format!("{file}: skipped: {missing}");
    let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if said.insert(sentence.clone()) {
        eprintln!("{sentence}");
    }
}
