//! `entresol sim submit`: the job that runs an experiment on a fleet, for Slurm or Kubernetes.
//!
//! The job needs nothing but this command, the experiment and a folder that all machines see. It names the number of
//! shards itself: what the engine counts is wrong when some tasks are run again.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::shard::Shard;
use crate::args::SubmitArguments;
use crate::experiment::Experiment;
use tool::say;

/// Writes the job, and hands it over if that was asked for; returns the exit status.
pub(crate) fn submit(request: &SubmitArguments) -> anyhow::Result<i32> {
    let experiment = Experiment::read(&request.file)?;
    let shards = Shard { index: 0, of: request.shards }.checked()?.of;
    ensure!(
        shards <= experiment.runs(),
        "--shards {shards}: the experiment has {} runs only, expected at most as many shards",
        experiment.runs()
    );
    let sweep = sweep_words(request)?;
    let (text, ending, client, words) = if request.slurm {
        (slurm(&experiment.name, shards, &sweep), "sbatch", "sbatch", &[][..])
    } else {
        let image = request.image.as_deref().context("--kubernetes needs --image IMAGE, which has this command")?;
        (kubernetes(request, &experiment.name, shards, image, &sweep), "yaml", "kubectl", &["apply", "-f"][..])
    };
    let file = request.job.clone().unwrap_or_else(|| format!("{}.{ending}", experiment.name).into());
    super::folder::write_whole(&file, |to| Ok(to.write_all(text.as_bytes())?))?;
    say!("{}: {} runs in {shards} shards", file.display(), experiment.runs())?;
    if !request.now {
        say!("to submit it: {client} {}", [words, &[&file.to_string_lossy()]].concat().join(" "))?;
        return Ok(0);
    }
    hand_over(client, words, &file)
}

fn hand_over(client: &str, words: &[&str], file: &Path) -> anyhow::Result<i32> {
    match Command::new(client).args(words).arg(file).status() {
        Ok(status) if status.success() => Ok(0),
        Ok(status) => bail!("{client} refused {}: {status}", file.display()),
        Err(why) => bail!("--now needs {client}, which cannot be run ({why}); {} is written", file.display()),
    }
}

/// The command of one task, without what names its shard. Paths are absolute: a task starts anywhere.
fn sweep_words(request: &SubmitArguments) -> anyhow::Result<Vec<String>> {
    let absolute = |path: &Path| -> anyhow::Result<String> {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        Ok(path.to_str().with_context(|| format!("{}: expected a path in UTF-8", path.display()))?.to_owned())
    };
    let out = super::out(request.out.as_deref(), &request.file);
    let mut words = vec!["sim".to_owned(), "sweep".to_owned(), absolute(&request.file)?];
    words.extend(["--out".to_owned(), absolute(&out)?, "--shards".to_owned(), request.shards.to_string()]);
    words.extend(["--jobs".to_owned(), request.jobs.to_string()]);
    words.extend(request.fail_fast.then(|| "--fail-fast".to_owned()));
    Ok(words)
}

fn slurm(name: &str, shards: u64, sweep: &[String]) -> String {
    let own = std::env::current_exe().map_or("entresol".into(), |path| path.to_string_lossy().into_owned());
    let jobs = sweep.iter().skip_while(|word| *word != "--jobs").nth(1).map_or("1", String::as_str);
    let command: Vec<String> = std::iter::once(&own).chain(sweep).map(|word| quoted(word)).collect();
    format!(
        "#!/bin/sh\n\
         #SBATCH --job-name={name}\n\
         #SBATCH --array=0-{}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task={jobs}\n\
         #SBATCH --requeue\n\
         # A task that died is run again with: sbatch --array=INDEX THIS-FILE\n\
         exec {}\n",
        shards - 1,
        command.join(" ")
    )
}

fn kubernetes(request: &SubmitArguments, name: &str, shards: u64, image: &str, sweep: &[String]) -> String {
    // Names of objects know small letters and hyphens only.
    let name = name.to_lowercase().replace('_', "-");
    let words: Vec<String> = sweep.iter().map(|word| yaml(word)).collect();
    let parallel = request.parallel.unwrap_or(shards);
    let folder = std::path::absolute(own_folder(&request.file)).unwrap_or_default();
    let claim = request.claim.as_deref().unwrap_or("entresol");
    format!(
        "apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n  \
           name: {name}\n\
         spec:\n  \
           completionMode: Indexed\n  \
           completions: {shards}\n  \
           parallelism: {parallel}\n  \
           backoffLimitPerIndex: 3\n  \
           podFailurePolicy:\n    \
             rules:\n      \
               # A failed run or a wrong file stays what it is; only a pod that died is started again.\n      \
               - action: FailIndex\n        \
                 onExitCodes:\n          \
                   operator: In\n          \
                   values: [1, 2]\n  \
           template:\n    \
             spec:\n      \
               restartPolicy: Never\n      \
               containers:\n        \
                 - name: sweep\n          \
                   image: {}\n          \
                   command: [entresol]\n          \
                   args: [{}]\n          \
                   resources:\n            \
                     requests:\n              \
                       cpu: \"{}\"\n          \
                   volumeMounts:\n            \
                     - name: experiment\n              \
                       mountPath: {}\n      \
               volumes:\n        \
                 - name: experiment\n          \
                   persistentVolumeClaim:\n            \
                     claimName: {}\n",
        yaml(image),
        words.join(", "),
        request.jobs,
        yaml(&folder.to_string_lossy()),
        yaml(claim),
    )
}

/// The folder of a file; of one without, the current one.
fn own_folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A word quoted for the shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A string of YAML: JSON's are.
fn yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted("/a/b-1.toml"), "/a/b-1.toml");
        assert_eq!(quoted("it's a file"), "'it'\\''s a file'");
        assert_eq!(yaml("a \"b\""), "\"a \\\"b\\\"\"");
    }

    #[test]
    fn a_task_says_of_how_many_it_is() {
        let sweep = ["sim", "sweep", "/x.toml", "--shards", "8", "--jobs", "2"].map(str::to_owned);
        let job = slurm("x", 8, &sweep);
        assert!(job.starts_with("#!/bin/sh\n#SBATCH --job-name=x\n#SBATCH --array=0-7\n"), "{job}");
        assert!(
            job.contains("--cpus-per-task=2\n") && job.ends_with("sim sweep /x.toml --shards 8 --jobs 2\n"),
            "{job}"
        );
    }
}
