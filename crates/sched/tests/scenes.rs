//! Promises about time, with no fault planted.

mod support;

use entresol_sched::Config;
use support::scenes::SCENES;

#[test]
fn every_scene_holds() {
    let failed: Vec<String> = SCENES
        .iter()
        .filter_map(|(name, play)| play(&Config::default()).err().map(|v| format!("{name}: {}", v.0)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
