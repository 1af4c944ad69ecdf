//! Experiments from the outside: what is refused, and that the parts of one are the whole.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const EXPERIMENT: &str = concat!(
    r#"
name = "small"
seeds = "0..6"

"#,
    include_str!("sweeps/rt-migrate.toml"),
    r#"
[[runs]]
scenario = "app.json"
cpus = 2

[[runs]]
scenario = "swarm"
"#
);

const APP: &str = r#"{ "global": { "duration": 0.1 }, "tasks": { "beat": { "policy": "SCHED_FIFO", "loop": -1,
    "run": 500, "timer": { "ref": "unique", "period": 5000 } } } }"#;

fn sim_in(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    // The tests themselves may be part of a job.
    for name in ["SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "JOB_COMPLETION_INDEX"] {
        command.env_remove(name);
    }
    command.current_dir(folder).arg("sim").args(arguments).envs(variables.iter().copied());
    command.output().expect("the command starts")
}

/// Standard output of a command that ends with this status.
#[track_caller]
fn ends(folder: &Path, status: i32, arguments: &[&str]) -> String {
    let answer = sim_in(folder, arguments, &[]);
    let error = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.code(), Some(status), "{arguments:?}: {error}");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

/// A folder with the experiment in it, in which only invariants count.
fn experiment() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), format!("fails = [\"invariant\"]\n{EXPERIMENT}")).unwrap();
    fs::write(folder.path().join("app.json"), APP).unwrap();
    folder
}

#[test]
fn a_plan_counts_what_a_sweep_runs() {
    let folder = experiment();
    let plan = ends(folder.path(), 0, &["plan", "small.toml", "--shards", "4"]);
    assert!(plan.contains("small: 36 runs of 6 configurations"), "{plan}");
    assert!(plan.contains("4 shards:") && plan.contains("Estimated from 6 runs just timed"), "{plan}");
    let counted = ends(folder.path(), 0, &["plan", "small.toml", "--sample", "0"]);
    assert!(!counted.contains("Estimated"), "{counted}");
}

#[test]
fn the_parts_are_the_whole_bit_for_bit() {
    let folder = experiment();
    let at = folder.path();
    let whole = ends(at, 0, &["sweep", "small.toml", "--shard", "0/1", "--out", "whole"]);
    assert!(whole.contains("0 of 36 runs failed"), "{whole}");
    for shard in ["2/5", "0/5", "4/5", "3/5"] {
        ends(at, 0, &["sweep", "small.toml", "--shard", shard, "--out", "parts", "--jobs", "1"]);
    }
    let status = ends(at, 2, &["status", "parts"]);
    assert!(status.contains("done 4") && status.contains("missing 1") && status.contains("shards 1"), "{status}");
    ends(at, 2, &["rows", "parts", "all.parquet"]);

    let array = [("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "1"), ("SLURM_ARRAY_TASK_MIN", "1")];
    let last = sim_in(at, &["sweep", "small.toml", "--shards", "5", "--out", "parts"], &array);
    assert_eq!(last.status.code(), Some(0), "{}", String::from_utf8_lossy(&last.stderr));
    assert!(ends(at, 0, &["status", "parts"]).contains("done 5 (with 0 failed runs), failed 0, missing 0"));
    ends(at, 0, &["rows", "parts", "all.parquet"]);
    let read = |name: &str| fs::read(at.join(name)).unwrap();
    assert!(read("all.parquet") == read("whole/shard-0-of-1.parquet"));
    assert!(read("all.parquet").starts_with(b"PAR1"));
}

#[test]
fn a_shard_that_runs_again_leaves_the_same_bytes() {
    let folder = experiment();
    let at = folder.path();
    let sweep = ["sweep", "small.toml", "--shard", "1/3", "--out", "r"];
    ends(at, 0, &sweep);
    let file = at.join("r/shard-1-of-3.parquet");
    let first = fs::read(&file).unwrap();
    assert!(ends(at, 0, &sweep).contains("done before"));
    fs::remove_file(&file).unwrap();
    // A process that died while it wrote leaves its temporary file.
    fs::write(at.join("r/.unfinished-x"), &first[..first.len() / 2]).unwrap();
    assert!(ends(at, 2, &["status", "r"]).contains("missing 3"));
    ends(at, 0, &sweep);
    assert!(fs::read(&file).unwrap() == first);
}

#[test]
fn a_killed_shard_leaves_nothing_that_counts() {
    let folder = experiment();
    let at = folder.path();
    let long = "name = \"long\"\nseeds = \"0..1000000\"\n[[runs]]\nscenario = \"rt-migrate\"\n";
    fs::write(at.join("long.toml"), long).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let mut child =
        command.current_dir(at).args(["sim", "sweep", "long.toml", "--shard", "0/2", "--out", "r"]).spawn().unwrap();
    while !at.join("r/_experiment.json").exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let names: Vec<_> = fs::read_dir(at.join("r")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["_experiment.json"]);
    assert!(ends(at, 2, &["status", "r"]).contains("done 0 (with 0 failed runs), failed 0, missing 2"));
}

#[test]
fn a_failure_is_told_with_its_command() {
    let folder = experiment();
    let at = folder.path();
    // The historic balance breaks rt-migrate's own rule.
    fs::write(at.join("small.toml"), EXPERIMENT.replace("rounds = 3", "rounds = 20")).unwrap();
    let answer = sim_in(at, &["sweep", "small.toml", "--out", "all"], &[]);
    let error = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.status.code(), Some(1), "{error}");
    let command = error.lines().find_map(|line| line.strip_prefix("  entresol ")).expect("a command");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(command.contains("--policy 2007-passive") && command.contains("--costs smp2007"), "{command}");
    ends(at, 1, &words);

    let first = sim_in(at, &["sweep", "small.toml", "--out", "fast", "--fail-fast", "--shard", "0/2"], &[]);
    assert_eq!(first.status.code(), Some(1));
    let status = ends(at, 1, &["status", "fast"]);
    assert!(status.contains("failed 1, missing 1") && status.contains("failed 0/2: run "), "{status}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let folder = experiment();
    let at = folder.path();
    let wrong = |name: &str, from: &str, to: &str| {
        fs::write(at.join(name), EXPERIMENT.replacen(from, to, 1)).unwrap();
    };
    wrong("key.toml", "cpus =", "cpu =");
    wrong("empty.toml", "cpus = [2, 3]", "cpus = []");
    wrong("seeds.toml", "0..6", "6..0");
    wrong("scenario.toml", "\"rt-migrate\"", "\"rt-emigrate\"");
    wrong("lines.toml", "name =", "name");
    ends(at, 0, &["sweep", "small.toml", "--out", "taken", "--shard", "0/9"]);
    for (arguments, word) in [
        (&["sweep", "key.toml"][..], "line 7"),
        (&["sweep", "empty.toml"], "cpus = []: nothing would be run"),
        (&["plan", "seeds.toml"], "line 3: seeds: no seed lies between 6 and 0"),
        (&["plan", "scenario.toml"], "line 5: there is no scenario 'rt-emigrate'"),
        (&["plan", "lines.toml"], "line 2"),
        (&["plan", "none.toml"], "cannot read none.toml"),
        (&["sweep", "small.toml", "--seeds", "0..3"], "--seeds contradicts small.toml"),
        (&["sweep", "small.toml", "--cpus", "3"], "--cpus 3 contradicts small.toml"),
        (&["sweep", "--seeds", "0..3", "--shard", "0/2"], "--shard is for an experiment"),
        (&["sweep", "small.toml", "--shard", "2/2"], "expected 0 to 1"),
        (&["sweep", "small.toml", "--shards", "2"], "expected --shard I/2"),
        (&["sweep", "small.toml", "--out", "taken", "--shard", "0/2"], "another number of shards"),
        (&["status", "nowhere"], "no results of `entresol sim sweep`"),
    ] {
        let answer = sim_in(at, arguments, &[]);
        let error = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(answer.stdout.is_empty() && error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn a_job_is_written_for_both_engines() {
    let folder = experiment();
    let at = folder.path();
    let said = ends(at, 0, &["submit", "small.toml", "--slurm", "--shards", "4", "--jobs", "2", "--fail-fast"]);
    assert!(said.contains("to submit it: sbatch small.sbatch"), "{said}");
    let job = fs::read_to_string(at.join("small.sbatch")).unwrap();
    assert!(job.contains("#SBATCH --array=0-3\n") && job.contains("--shards 4 --jobs 2 --fail-fast\n"), "{job}");
    // The script is what a task runs.
    let mut task = Command::new("sh");
    let task = task
        .arg(at.join("small.sbatch"))
        .current_dir("/")
        .env("SLURM_ARRAY_TASK_ID", "3")
        .env_remove("JOB_COMPLETION_INDEX");
    assert_eq!(task.output().unwrap().status.code(), Some(0));
    assert!(at.join("small.results/shard-3-of-4.parquet").exists());

    ends(at, 0, &["submit", "small.toml", "--kubernetes", "--shards", "4", "--image", "r/entresol:1"]);
    let job = fs::read_to_string(at.join("small.yaml")).unwrap();
    for line in ["completionMode: Indexed", "completions: 4", "image: \"r/entresol:1\"", "\"--shards\", \"4\""] {
        assert!(job.contains(line), "{line}: {job}");
    }
    for (arguments, word) in [
        (&["--shards", "4"][..], "--slurm|--kubernetes"),
        (&["--slurm", "--shards", "0"], "expected 1 to"),
        (&["--slurm", "--shards", "37"], "has 36 runs only"),
        (&["--kubernetes", "--shards", "4"], "needs --image"),
    ] {
        let answer = sim_in(at, &[&["submit", "small.toml"], arguments].concat(), &[]);
        let error = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.code() == Some(2) && error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn a_report_compares_policies_and_tells_the_worst_seeds() {
    let folder = experiment();
    let at = folder.path();
    ends(at, 0, &["sweep", "small.toml", "--shard", "0/2", "--out", "r"]);
    assert!(ends(at, 0, &["report", "r"]).contains("18 runs, 0 failed, 1 shards missing"));
    ends(at, 0, &["sweep", "small.toml", "--shard", "1/2", "--out", "r"]);
    assert!(ends(at, 0, &["report", "r", "--html", "page.html"]).contains("36 runs, 0 failed, 0 shards missing"));
    let page = fs::read_to_string(at.join("page.html")).unwrap();
    for part in ["<h2>rt-migrate, 2 cpus, 3 rounds, costs smp2007</h2>", "2007-passive", "Welch", "<svg"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        page.contains("entresol sim run rt-migrate --cpus 2 --rounds 3 --costs smp2007 --policy 2007-passive --seed ")
    );
    assert!(!page.contains("http://") && !page.contains("https://"), "it loads nothing");
}
