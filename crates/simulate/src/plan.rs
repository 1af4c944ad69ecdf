//! Turns the request into one consistent plan, or into a sentence that says why that is impossible.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use sim::workload::Class;
use sim::workload::rtapp::Workload;
use sim::{Bug, Cost, Hardware, Options, Plant, Policy, Report, Scenario};

use super::args::Choice;

/// The default number of simulated CPUs.
const CPUS: usize = 4;

/// The machine without a model.
pub(super) const FLAT: &str = "flat";

/// The workload.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// One of the scenarios with names.
    Named(&'static Scenario),
    /// An rt-app file.
    File {
        /// Its path, as it was given.
        name: String,
        /// Its content.
        text: String,
        workload: Workload,
    },
}

/// The workload, and the machine it runs on.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub what: What,
    pub cpus: usize,
    pub options: Options,
}

impl Plan {
    /// The plan for these options.
    pub fn new(scenario: &str, choice: &Choice) -> anyhow::Result<Plan> {
        Plan::of(What::find(scenario)?, choice)
    }

    /// The plan for this workload with these options.
    pub fn of(what: What, choice: &Choice) -> anyhow::Result<Plan> {
        what.refuse(choice)?;
        let cost = cost(choice.costs.as_deref(), choice.scale)?;
        let plant = choice.plant.as_deref().map(plant).transpose()?;
        let hardware = choice.machine.as_deref().map(machine).transpose()?.flatten();
        let cpus = cpus(choice, hardware.as_ref())?;
        let options = Options {
            cost,
            hardware,
            threads: choice.threads.map(|n| n as usize),
            rounds: choice.rounds,
            length: u64::from(choice.length.unwrap_or(1)),
            policy: policy(choice.policy.as_deref())?,
            plant,
            ..Options::default()
        };
        Plan { what, cpus, options }.fit()
    }

    /// The plan, if the machine has all CPUs that a file names.
    pub fn fit(self) -> anyhow::Result<Plan> {
        if let What::File { name, workload, .. } = &self.what {
            workload.fits(self.cpus).map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"))?;
        }
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match &self.what {
            What::Named(scenario) => scenario.name,
            What::File { name, .. } => name,
        }
    }

    /// Whether the machine is chosen, and not drawn from the seed.
    pub fn has_machine(&self) -> bool {
        match &self.what {
            What::Named(scenario) => scenario.machine,
            What::File { .. } => true,
        }
    }

    /// Runs it with this seed.
    pub fn run(&self, seed: u64, record: bool) -> Report {
        let options = Options { record, ..self.options.clone() };
        match &self.what {
            What::Named(scenario) => (scenario.run)(seed, self.cpus, &options),
            What::File { name, workload, .. } => workload.run(name, seed, self.cpus, &options),
        }
    }
}

impl What {
    /// The scenario of that name, or the rt-app file.
    pub(super) fn find(name: &str) -> anyhow::Result<What> {
        if let Some(scenario) = sim::scenario(name) {
            return Ok(What::Named(scenario));
        }
        if !name.ends_with(".json") {
            let names: Vec<&str> = sim::scenarios().iter().map(|s| s.name).collect();
            bail!("there is no scenario '{name}': expected one of {}, or an rt-app file *.json", names.join(", "));
        }
        let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
        What::file(name, text)
    }

    /// An rt-app file with this text.
    pub(super) fn file(name: &str, text: String) -> anyhow::Result<What> {
        let workload = Workload::parse(&text).map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"))?;
        Ok(What::File { name: name.to_owned(), text, workload })
    }

    /// Notes about the things in an rt-app file that have no effect.
    pub(super) fn notes(&self) -> &[String] {
        match self {
            What::Named(_) => &[],
            What::File { workload, .. } => workload.notes(),
        }
    }

    /// Refuses options that this workload cannot follow: silently ignored, they would mislead.
    fn refuse(&self, choice: &Choice) -> anyhow::Result<()> {
        let s = match self {
            What::Named(scenario) => scenario,
            What::File { name, workload, .. } => {
                let said = [("--threads", choice.threads), ("--rounds", choice.rounds), ("--length", choice.length)];
                if let Some((option, _)) = said.iter().find(|(_, value)| value.is_some()) {
                    bail!("{option} contradicts {name}: the file says it");
                }
                let policy = policy(choice.policy.as_deref())?;
                let is_for_files = policy.class() != Some(Class::RealTime);
                ensure!(is_for_files, "--policy {} is for rt-migrate and rt-storm, not for {name}", policy.name());
                return choice.fits(workload.is_fair().then_some(Class::Fair), name);
            }
        };
        let (name, seeds) = (s.name, "they are the seed's");
        ensure!(s.machine || choice.cpus.is_none(), "--cpus contradicts the scenario '{name}': {seeds}");
        ensure!(s.machine || choice.costs.is_none(), "--costs contradicts the scenario '{name}': {seeds}");
        ensure!(s.machine || choice.scale.is_none(), "--scale contradicts the scenario '{name}': {seeds}");
        ensure!(s.threads.is_some() || choice.threads.is_none(), "the scenario '{name}' does not take --threads");
        ensure!(s.rounds.is_some() || choice.rounds.is_none(), "the scenario '{name}' does not take --rounds");
        ensure!(name == "swarm" || choice.length.is_none(), "--length is for the scenario 'swarm', not for '{name}'");
        choice.fits(s.class, &format!("the scenario '{name}'"))
    }
}

impl Choice {
    /// Its options as words of a command line, in one order.
    pub(super) fn words(&self) -> Vec<String> {
        let numbers = [
            ("--cpus", self.cpus),
            ("--threads", self.threads),
            ("--rounds", self.rounds),
            ("--length", self.length),
            ("--scale", self.scale),
        ];
        let names = [
            ("--machine", &self.machine),
            ("--costs", &self.costs),
            ("--policy", &self.policy),
            ("--plant", &self.plant),
        ];
        let numbers = numbers.into_iter().filter_map(|(option, n)| Some(format!("{option} {}", n?)));
        numbers
            .chain(names.into_iter().filter_map(|(option, name)| Some(format!("{option} {}", name.as_ref()?))))
            .collect()
    }

    /// Refuses a policy that does not know the threads of `what`, which are all of this class if it is one.
    fn fits(&self, class: Option<Class>, what: &str) -> anyhow::Result<()> {
        let policy = policy(self.policy.as_deref())?;
        let Some(known) = policy.class() else { return Ok(()) };
        let kind = match known {
            Class::RealTime => "real-time threads",
            Class::Fair => "fair threads, and mutexes without inheritance of priorities,",
        };
        let name = policy.name();
        ensure!(class == Some(known), "--policy {name} knows {kind} only: {what} has others");
        ensure!(
            self.machine.is_none(),
            "--machine contradicts --policy {name}: only Entresol's kernel runs on machines that are not flat"
        );
        ensure!(
            self.plant.is_none(),
            "--plant contradicts --policy {name}: bugs are planted in Entresol's machine only"
        );
        Ok(())
    }
}

/// The scheduler of that name; ours if no name is given.
pub(super) fn policy(name: Option<&str>) -> anyhow::Result<Policy> {
    let Some(name) = name else { return Ok(Policy::Entresol) };
    let policy = Policy::ALL.into_iter().find(|policy| policy.name() == name);
    policy.with_context(|| {
        format!("there is no policy '{name}': expected one of {}", Policy::ALL.map(Policy::name).join(", "))
    })
}

/// The machine's costs.
pub(super) fn cost(named: Option<&str>, scale: Option<u32>) -> anyhow::Result<Cost> {
    let cost = named.map_or_else(|| Ok(Cost::host()), named_cost)?;
    Ok(scale.map_or(cost.clone(), |percent| cost.scaled(u64::from(percent))))
}

/// A profile, a file, or `file:profile`.
pub(super) fn named_cost(named: &str) -> anyhow::Result<Cost> {
    if let Ok(cost) = Cost::profile(named) {
        return Ok(cost);
    }
    let (file, profile) = file_and_name(named);
    let text = std::fs::read_to_string(file).with_context(|| {
        let profiles = Cost::profiles().join(", ");
        format!("--costs {named}: expected one of {profiles}, or a cost file; cannot read {}", file.display())
    })?;
    Cost::parse(&text, profile.unwrap_or("host"))
        .map_err(|why| anyhow::anyhow!("{}: {}", file.display(), why.0.trim_end()))
}

/// A file, or `file:name` for one of the things in it.
fn file_and_name(named: &str) -> (&Path, Option<&str>) {
    let whole = Path::new(named);
    match named.rsplit_once(':') {
        Some((file, name)) if !whole.exists() => (Path::new(file), Some(name)),
        _ => (whole, None),
    }
}

/// The number of CPUs: the machine's, if it says one.
fn cpus(choice: &Choice, hardware: Option<&Hardware>) -> anyhow::Result<usize> {
    let Some(hardware) = hardware else { return Ok(choice.cpus.map_or(CPUS, |n| n as usize)) };
    agrees(choice.cpus, choice.machine.as_deref().unwrap_or_default(), hardware)?;
    Ok(hardware.cpus())
}

/// Refuses another number of CPUs than the machine's.
pub(super) fn agrees(said: Option<u32>, machine: &str, hardware: &Hardware) -> anyhow::Result<()> {
    let cpus = hardware.cpus();
    let other = said.filter(|&n| n as usize != cpus);
    other.map_or(Ok(()), |n| bail!("--cpus {n} contradicts --machine {machine}, which has {cpus}: leave --cpus out"))
}

/// A machine of the committed file, sockets and cores, a file, or `file:name`; `None`: the flat one.
pub(super) fn machine(named: &str) -> anyhow::Result<Option<Hardware>> {
    if named == FLAT {
        return Ok(None);
    }
    let wrong = |why: sim::hardware::BadMachine| anyhow::anyhow!("--machine {named}: {}", why.0);
    if let Some(hardware) = Hardware::named(named).map_err(wrong)? {
        return Ok(Some(hardware));
    }
    let (file, name) = file_and_name(named);
    let text = std::fs::read_to_string(file).with_context(|| {
        let machines: Vec<String> = Hardware::profiles().into_keys().collect();
        format!(
            "--machine {named}: expected {FLAT}, SOCKETSxCORES (like 2x8), one of {}, or a file of machines; cannot read {}",
            machines.join(", "),
            file.display()
        )
    })?;
    Hardware::parse(&text, name).map(Some).map_err(|why| anyhow::anyhow!("{}: {}", file.display(), why.0))
}

fn plant(name: &str) -> anyhow::Result<Plant> {
    let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
    Ok(Plant { bug: bug.with_context(|| format!("there is no bug '{name}'"))?, after: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(machine: &str, cpus: Option<u32>) -> Choice {
        Choice { machine: Some(machine.to_owned()), cpus, ..Choice::default() }
    }

    #[track_caller]
    fn refused(scenario: &str, choice: &Choice, words: &[&str]) {
        let why = format!("{:#}", Plan::new(scenario, choice).expect_err(scenario));
        words.iter().for_each(|word| assert!(why.contains(word), "'{word}' is not in: {why}"));
    }

    #[test]
    fn a_machine_says_the_number_of_cpus() {
        let cpus = |machine, cpus| Plan::new("schbench", &choice(machine, cpus)).unwrap().cpus;
        assert_eq!((cpus("2x8", None), cpus("2x8", Some(16)), cpus("hybrid", None)), (16, 16, 12));
        assert_eq!((cpus("flat", None), cpus("flat", Some(7))), (CPUS, 7));
        refused("schbench", &choice("2x8", Some(4)), &["--cpus 4 contradicts --machine 2x8, which has 16"]);
    }

    #[test]
    fn what_is_no_machine_is_refused_in_words() {
        refused("schbench", &choice("2x", None), &["--machine 2x", "like 2x8", "chiplets, cloud", "cannot read 2x"]);
        refused("schbench", &choice("0x4", None), &["--machine 0x4", "0 CPUs: expected 1 to 4096"]);
        let historic = Choice { policy: Some("2007-passive".to_owned()), ..choice("1x4", None) };
        refused("rt-migrate", &historic, &["--machine contradicts --policy"]);
    }

    #[test]
    fn a_file_of_machines_is_read_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machines.toml");
        std::fs::write(&file, "[small]\ncores = [{ count = 3 }]\n[big]\ncores = [{ count = 5, capacity = 0 }]\n")
            .unwrap();
        let named = |name: &str| format!("{}:{name}", file.display());
        assert_eq!(Plan::new("schbench", &choice(&named("small"), None)).unwrap().cpus, 3);
        refused("schbench", &choice(&named("big"), None), &["machines.toml: machine 'big': capacity = 0"]);
        refused("schbench", &choice(&file.to_string_lossy(), None), &["several machines", "big, small"]);
    }
}
