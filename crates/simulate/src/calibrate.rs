//! `entresol sim calibrate`: the cost file, with this machine's values in it.

use anyhow::Context;
use sim::Cost;

use super::args::CalibrateArguments;
use super::measure;
use bench::child::{Outcome, Side, run_probe};
use bench::probe::Probe;
use tool::machine;
use tool::style;

/// The profile that is this machine's.
const PROFILE: &str = "host";

/// Measures and writes; returns the exit status.
pub(super) fn calibrate(request: &CalibrateArguments) -> anyhow::Result<i32> {
    anyhow::ensure!(
        machine::inside().is_none(),
        "calibrate measures the host, so it cannot itself run inside Entresol"
    );
    if let Some(file) = &request.write {
        super::create(file)?;
    }
    let mut kept = Vec::new();
    let cost = measured(request.quick, &mut kept)?;
    let text = cost.write_into_file(PROFILE).context("the committed cost file has no such profile")?;
    match &request.write {
        Some(file) => super::write(file, text)?,
        None => tool::output::text(&text)?,
    }
    style::remark(&format!("not measured, but kept from the committed file: {}", kept.join("; ")));
    Ok(0)
}

/// The committed costs, with what can be measured in their place.
pub(super) fn measured(quick: bool, kept: &mut Vec<String>) -> anyhow::Result<Cost> {
    let (batches, samples) = if quick { (5, 200) } else { (21, 2_000) };
    let ns = |value: f64| value.round().max(1.0) as u64;
    let range = |r: measure::Range| [ns(r.least), ns(r.most).max(ns(r.least))];
    let mut cost = Cost::host();
    cost.atomic = ns(measure::atomic(batches));
    cost.memory = ns(measure::memory(batches));
    cost.interrupt = ns(measure::interrupt(batches));
    cost.timer = range(measure::timer(samples / 4));
    let (switch, tick) = measure::scheduler(batches)?;
    (cost.switch, cost.tick) = (ns(switch), ns(tick + measure::set_timer(batches)));
    if let (Some(line), Some(migration)) = (measure::line(batches), measure::migration(batches * 4)) {
        // Passing a lock on takes one transfer of its line.
        (cost.line, cost.lock, cost.migration) = (ns(line), ns(line), ns(migration));
    } else {
        kept.push("line, lock, migration (this process may use one CPU only)".to_owned());
    }
    if let (Some((send, arrive)), Some(wake)) = (measure::kick(samples), measure::wake_sleeper(samples)) {
        (cost.kick_send, cost.kick, cost.kick_parked) = (ns(send), range(arrive), range(wake));
        // A spare is a sleeping carrier, too.
        cost.seat = ns(wake.median);
    } else {
        kept.push("kick_send, kick, kick_parked, seat (this process may use one CPU only)".to_owned());
    }
    match own_call(switch) {
        Ok(call) => cost.call = ns(call),
        Err(why) => kept.push(format!("call ({why})")),
    }
    kept.push("look, looks (they are the code's, not the machine's)".to_owned());
    Ok(cost)
}

/// A system call that Entresol answers: a yield to another thread under `entresol run`, without the switch.
fn own_call(switch: f64) -> Result<f64, String> {
    let side = Side::Entresol { cpus: Some(1) };
    match run_probe(side, Probe::Yield, &[], true, &mut |_, _, _| ()).map_err(|why| format!("{why:#}"))? {
        Outcome::Figures(figures) => {
            let both = figures.get("yield_same_cpu").ok_or("the probe printed no figure")?;
            Ok((both - switch).max(1.0))
        }
        Outcome::Refused(why) | Outcome::Failed(why) => Err(why),
    }
}
