//! rt-migrate-test itself: on Linux here, and under Entresol.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::page::{Lines, Part};
use bench::table::number;
use tool::{machine, resolve, style};

const PROGRAM: &str = "rt-migrate-test";
/// Lines of rounds that are shown.
const LINES_SHOWN: usize = 6;

/// The outcome of a live run.
#[derive(Debug, Default)]
struct Live {
    /// Where it ran.
    title: String,
    command: String,
    /// Why there is nothing to show.
    missing: Option<String>,
    /// The program's own verdict.
    passed: Option<bool>,
    /// The first rounds, as it prints them.
    lines: Vec<String>,
    /// When the top threads began, from the parent's time.
    mean_us: Option<f64>,
    worst_us: Option<f64>,
    /// Time that the host took from the carriers during the run.
    stolen: Option<String>,
}

impl From<Live> for Part {
    fn from(live: Live) -> Part {
        let mut lines = live.lines;
        if let (Some(mean), Some(worst)) = (live.mean_us, live.worst_us) {
            lines.push(format!(
                "the top threads began after {} µs on average, {} at worst",
                number(mean),
                number(worst)
            ));
        }
        lines.extend(live.stolen.map(|words| format!("the host took {words} meanwhile")));
        lines.extend(live.missing.map(|why| format!("not measured: {why}")));
        let figures = [("mean_us", live.mean_us), ("worst_us", live.worst_us)];
        Part::Lines(Lines {
            title: format!("Live: {}", live.title),
            lines,
            command: Some(live.command),
            passed: live.passed,
            figures: figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        })
    }
}

/// On Linux, then under Entresol, each with one thread more than the host lets us use CPUs.
pub(super) fn both(rounds: u32) -> anyhow::Result<Vec<Part>> {
    let cpus = machine::host_cpus();
    let arguments = ["-c".to_owned(), "-l".to_owned(), rounds.to_string(), (cpus + 1).to_string()];
    let told = format!("{PROGRAM} {}", arguments.join(" "));
    let linux = Live { title: format!("Linux here, {cpus} CPUs, as root"), command: told.clone(), ..Live::default() };
    let ours = Live {
        title: format!("Entresol here, {cpus} CPUs, no privilege needed"),
        command: format!("entresol run -- {told}"),
        ..Live::default()
    };
    let program = match resolve::resolve(Path::new(PROGRAM).as_os_str()) {
        Ok(program) => program,
        Err(why) => {
            let missing = || Some(format!("{why}; Debian has it in the package rt-tests"));
            return Ok([linux, ours].map(|live| Live { missing: missing(), ..live }.into()).into());
        }
    };
    Ok(vec![on_linux(linux, &program, &arguments)?.into(), under_entresol(ours, &program, &arguments)?.into()])
}

fn on_linux(live: Live, program: &PathBuf, arguments: &[String]) -> anyhow::Result<Live> {
    // SAFETY: it takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        let missing = Some("Linux gives real-time policies to root only: run this as root to compare".to_owned());
        return Ok(Live { missing, ..live });
    }
    if machine::inside().is_some() {
        return Ok(Live { missing: Some("this command itself runs inside Entresol".to_owned()), ..live });
    }
    run(live, Command::new(program).args(arguments))
}

fn under_entresol(live: Live, program: &PathBuf, arguments: &[String]) -> anyhow::Result<Live> {
    if let Err(lack) = machine::check() {
        return Ok(Live { missing: Some(lack.to_string()), ..live });
    }
    run(live, Command::new(bench::own_path()?).args(["run", "--stats", "--"]).arg(program).args(arguments))
}

fn run(live: Live, command: &mut Command) -> anyhow::Result<Live> {
    style::progress(&format!("running {}", live.command));
    let answer = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", live.command))?;
    style::progress("");
    let (out, err) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
    Ok(read(live, &out, &err))
}

/// Understands what the program prints.
fn read(live: Live, out: &str, err: &str) -> Live {
    let all = rounds(out);
    let starts: Vec<Vec<f64>> = all.iter().filter(|l| is_start(l)).map(|line| numbers(line)).collect();
    // One thread more than CPUs: all but the least urgent are top threads.
    let top: Vec<f64> = starts.iter().flat_map(|row| row.iter().skip(1)).copied().collect();
    let stolen = err.lines().find_map(|line| line.trim().strip_prefix("stolen by host"));
    let verdict = out.lines().rev().find_map(|line| match line.trim() {
        "Passed!" => Some(true),
        "Failed!" => Some(false),
        _ => None,
    });
    Live {
        passed: verdict,
        missing: verdict.is_none().then(|| format!("it did not come to an end: {}", last_words(err))),
        lines: all.into_iter().take(LINES_SHOWN).map(str::to_owned).collect(),
        mean_us: (!top.is_empty()).then(|| top.iter().sum::<f64>() / top.len() as f64),
        worst_us: top.iter().copied().reduce(f64::max),
        stolen: stolen.map(|words| words.trim().to_owned()),
        ..live
    }
}

/// Lines of rounds: the number, `len:` and `loops:`.
fn rounds(out: &str) -> Vec<&str> {
    let body = out.lines().skip_while(|line| !line.starts_with("Iter:")).skip(1);
    let of_rounds = |line: &&str| is_start(line) || ["len:", "loops:"].iter().any(|w| line.trim().starts_with(w));
    body.take_while(|line| !line.starts_with("Parent")).filter(of_rounds).collect()
}

fn is_start(line: &str) -> bool {
    line.split_once(':').is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok())
}

fn numbers(line: &str) -> Vec<f64> {
    let (_, rest) = line.split_once(':').unwrap_or_default();
    rest.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

fn last_words(err: &str) -> &str {
    err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "Iter:      0       1       2  \n   0:    20038      31      28  \n len:    40038   20031   \
        20028  \n loops: 770368  773566  767401  \n\n   1:       40      48      44  \n len:    20040   20048   20044  \n \
        loops:     28  770887  775464  \n\nParent pid: 20308\n Task 0 (prio 2) (pid 20309):\n   Max: 20038 us\n\n Passed!\n";

    #[test]
    fn what_the_program_prints_is_understood() {
        let live = read(Live::default(), OUT, "  stolen by host 0.1 s over 3 carriers\n");
        assert_eq!((live.passed, live.missing.clone()), (Some(true), None));
        assert_eq!(live.lines.len(), 6);
        assert_eq!(live.lines[0].trim(), "0:    20038      31      28");
        assert_eq!((live.mean_us, live.worst_us), (Some((31.0 + 28.0 + 48.0 + 44.0) / 4.0), Some(48.0)));
        assert_eq!(live.stolen.as_deref(), Some("0.1 s over 3 carriers"));
        assert_eq!(read(Live::default(), &OUT.replace("Passed", "Failed"), "").passed, Some(false));
    }

    #[test]
    fn a_run_that_ends_early_is_no_result() {
        let live = read(Live::default(), "", "cannot set policy\n");
        assert_eq!((live.passed, live.worst_us), (None, None));
        assert!(live.missing.is_some_and(|words| words.contains("cannot set policy")));
    }
}
