//! The message's cases, run as programs on Linux here and under Entresol, and what it says of them.

use std::io::{IsTerminal, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, mem, thread};

use anyhow::Context;

use super::live;
use super::page::{Cell, Row, Table};
use super::text::whole;

use bench::child::Side;
use bench::probe::primes::COUNTS;
use bench::probe::report::Line;
use bench::table::number;
use tool::style;

/// A case in its shorter form and as written, in this order where there are two values.
struct Case {
    title: &'static str,
    threads: [u32; 2],
    /// Each thread computes the primes up to this.
    upto: [u32; 2],
    /// ITIMER_PROF: first and interval, in seconds.
    timer: Option<(f64, f64)>,
    /// RLIMIT_CPU in seconds.
    soft: Option<[u32; 2]>,
    hard: Option<[u32; 2]>,
    before: Told,
    after: Told,
}

/// The message's figures, in seconds.
#[derive(Clone, Copy, Default)]
struct Told {
    wall: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    ticks: Option<f64>,
    per_tick: Option<f64>,
    words: &'static str,
}

const NOTHING: Told = Told { wall: None, user: None, system: None, ticks: None, per_tick: None, words: "" };
const PLAIN: Case = Case {
    title: "",
    threads: [8; 2],
    upto: [2_000_000, 25_000_000],
    timer: None,
    soft: None,
    hard: None,
    before: NOTHING,
    after: NOTHING,
};
const EVERY_10_MS: Option<(f64, f64)> = Some((0.01, 0.01));

const fn wall(seconds: f64) -> Told {
    Told { wall: Some(seconds), ..NOTHING }
}

const CASES: &[Case] = &[
    Case {
        title: "1: no timer",
        threads: [10_000, 100_000],
        upto: [3_000, 10_000],
        before: wall(915.5),
        after: Told { words: "513 s more, all in the system; twice as many switches", ..wall(1428.5) },
        ..PLAIN
    },
    Case {
        title: "2: 10 ms timer",
        threads: [4_000; 2],
        upto: [10_000; 2],
        timer: EVERY_10_MS,
        before: Told { per_tick: Some(0.023), ..wall(70.0) },
        after: Told { per_tick: Some(0.012), ..wall(5.8) },
        ..PLAIN
    },
    Case {
        title: "3: one tick at 10 ms, the next after 10,000 s",
        threads: [4_000; 2],
        upto: [10_000; 2],
        timer: Some((0.01, 10_000.0)),
        before: wall(5.5),
        after: wall(6.3),
        ..PLAIN
    },
    Case { title: "1 with eight threads", before: wall(5.8), after: wall(5.2), ..PLAIN },
    Case {
        title: "2 with eight threads",
        timer: EVERY_10_MS,
        before: Told { per_tick: Some(0.025), ..wall(5.4) },
        after: Told { per_tick: Some(0.013), ..wall(5.9) },
        ..PLAIN
    },
    Case {
        title: "4: hard limit, 10 ms timer",
        upto: [25_000_000; 2],
        timer: EVERY_10_MS,
        hard: Some([1, 20]),
        before: Told { system: Some(0.016), words: "killed at 20.001 s of CPU", ..wall(5.014) },
        after: Told { system: Some(0.003), words: "killed at 19.997 s of CPU", ..wall(5.002) },
        ..PLAIN
    },
    Case {
        title: "4 without timer",
        upto: [25_000_000; 2],
        hard: Some([1, 20]),
        before: Told { words: "essentially the same", ..NOTHING },
        after: Told { words: "essentially the same", ..NOTHING },
        ..PLAIN
    },
    Case {
        title: "5: soft limit, a hard one out of reach, 10 ms timer",
        upto: [4_000_000, 25_000_000],
        timer: EVERY_10_MS,
        soft: Some([1, 20]),
        hard: Some([100, 2_000]),
        before: Told { per_tick: Some(0.028), ..NOTHING },
        after: Told { per_tick: Some(0.050), ..NOTHING },
        ..PLAIN
    },
    Case {
        title: "5 without timer",
        upto: [4_000_000, 25_000_000],
        soft: Some([1, 20]),
        hard: Some([100, 2_000]),
        before: Told { words: "identical", ..NOTHING },
        after: Told { words: "identical", ..NOTHING },
        ..PLAIN
    },
    Case {
        title: "16 threads, primes to 25,000,000, 10 ms timer",
        threads: [16; 2],
        timer: EVERY_10_MS,
        before: Told {
            user: Some(3568.435),
            system: Some(1.556),
            ticks: Some(58_720.0),
            per_tick: Some(0.061),
            ..wall(3569.991)
        },
        after: Told { system: Some(0.007), ticks: Some(149_543.0), per_tick: Some(0.024), ..NOTHING },
        ..PLAIN
    },
    Case {
        title: "100,000 threads, primes to 10,000, 10 ms timer",
        threads: [10_000, 100_000],
        upto: [3_000, 10_000],
        timer: EVERY_10_MS,
        before: Told { words: "impossible", ..NOTHING },
        after: Told {
            user: Some(629.938),
            system: Some(1546.968),
            ticks: Some(147_651.0),
            per_tick: Some(0.015),
            words: "2176.906 s of CPU in all",
            ..NOTHING
        },
        ..PLAIN
    },
];

impl Case {
    fn parameters(&self, full: bool) -> Vec<String> {
        let at = usize::from(full);
        let mut all = vec![format!("threads={}", self.threads[at]), format!("upto={}", self.upto[at])];
        all.extend(self.timer.map(|(first, interval)| format!("first={first} interval={interval}")));
        all.extend(self.soft.map(|soft| format!("soft={}", soft[at])));
        all.extend(self.hard.map(|hard| format!("hard={}", hard[at])));
        all.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect()
    }
}

/// All cases: the message, Linux here, ours.
pub(super) fn table(full: bool) -> anyhow::Result<Table> {
    let mut table = Table {
        title: format!("The message's cases, live, {}", if full { "as written" } else { "in a shorter form" }),
        labels: vec!["case".to_owned(), String::new()],
        heads: ["wall s", "user s", "system s", "voluntary switches", "ticks", "s per tick", "host-stolen s", "end"]
            .map(str::to_owned)
            .into(),
        notes: vec![
            "Times and switches are the host's count of the whole process (wait4), also under Entresol, where the host \
             sees carriers and not threads. s per tick: the process's CPU time by that count for each \
             profiling tick it received. Where machines are shared, thousands of host threads are given more of one than two \
             carriers, so compare CPU time rather than wall time. host-stolen: how long \
             carriers waited for other programs; a program that is killed does not tell. The message's machines had two and four CPUs \
             of 2008, and how it computed primes is not told: here each odd number is divided by all smaller odd ones up \
             to its root."
                .to_owned(),
        ],
        ..Table::default()
    };
    table.notes.push(format!(
        "No run lasts longer than {} s: the longest here takes half a minute of two CPUs, so what is cut was \
         kept waiting, and says how far it came.",
        cut_after(full).as_secs()
    ));
    let obstacle = live::obstacle();
    table.notes.extend(obstacle.iter().map(|why| format!("not measured: {why}")));
    for case in CASES {
        for (who, told) in [("the message, before", case.before), ("the message, after", case.after)] {
            table.rows.push(Row { labels: vec![case.title.to_owned(), who.to_owned()], cells: told.cells() });
        }
        if obstacle.is_none() {
            for side in live::SIDES {
                let parameters = case.parameters(full);
                let what = format!("{}: case {}", live::name(side), case.title);
                let ran = run(side, &parameters, &Watch { what, threads: case.threads[usize::from(full)], full })?;
                let labels = vec![case.title.to_owned(), live::name(side)];
                table.rows.push(Row { labels, cells: ran.cells(side, &parameters) });
            }
        }
    }
    style::progress("");
    Ok(table)
}

impl Told {
    fn cells(&self) -> Vec<Cell> {
        let cell = |name, value: Option<f64>| value.map_or(Cell::default(), |value| Cell::figure(name, value));
        vec![
            cell("wall_s", self.wall),
            cell("user_s", self.user),
            cell("system_s", self.system),
            Cell::default(),
            self.ticks.map_or(Cell::default(), |ticks| Cell::figure("ticks", ticks).shown(whole(ticks))),
            cell("s_per_tick", self.per_tick),
            Cell::default(),
            Cell::words(self.words),
        ]
    }
}

/// The outcome of a program.
#[derive(Debug)]
struct Ran {
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    switches: f64,
    /// SIGPROF, SIGXCPU, threads that are through, primes.
    counts: [u64; COUNTS],
    /// Time that other programs took from the process's host threads, if it was reported.
    stolen_s: Option<f64>,
    end: String,
    refused: Option<String>,
}

impl Ran {
    fn cells(&self, side: Side, parameters: &[String]) -> Vec<Cell> {
        let command = format!("{}entresol probe primes {}", live::prefix(side), parameters.join(" "));
        if let Some(why) = &self.refused {
            let cannot = Cell::words(format!("cannot: {why}")).repeated_by(command);
            return std::iter::repeat_n(Cell::default(), 7).chain([cannot]).collect();
        }
        let [ticks, warnings, ..] = self.counts.map(|count| count as f64);
        let per_tick = (self.user_s + self.system_s) / ticks;
        let end = if warnings > 0.0 { format!("{} after {warnings} SIGXCPU", self.end) } else { self.end.clone() };
        vec![
            Cell::figure("wall_s", self.wall_s).repeated_by(command),
            Cell::figure("user_s", self.user_s),
            Cell::figure("system_s", self.system_s),
            Cell::figure("voluntary_switches", self.switches).shown(whole(self.switches)),
            Cell::figure("ticks", ticks).shown(whole(ticks)),
            if ticks > 0.0 { Cell::figure("s_per_tick", per_tick).shown(number(per_tick)) } else { Cell::default() },
            // On Linux the program's own threads wait for each other, which cannot be told from stolen time.
            match (side, self.stolen_s) {
                (Side::Entresol { .. }, Some(stolen)) => Cell::figure("stolen_s", stolen),
                _ => Cell::default(),
            },
            Cell::words(end),
        ]
    }
}

/// Progress of a run.
struct Watch {
    what: String,
    threads: u32,
    full: bool,
}

/// No run lasts longer: several times what the longest takes where nothing else runs.
fn cut_after(full: bool) -> Duration {
    Duration::from_secs(if full { 150 } else { 60 })
}

impl Watch {
    fn show(&self, ran: Duration, counts: &Path) {
        let [ticks, _, through, _] = read(&fs::read(counts).unwrap_or_default());
        let seconds = ran.as_secs();
        style::progress(&format!(
            "{}: {seconds} s, {through} of {} threads through, {ticks} ticks",
            self.what, self.threads
        ));
    }

    /// One line for a log; a terminal has seen it coming.
    fn over(&self, ran: &Ran) {
        if self.full && !std::io::stderr().is_terminal() {
            let end = ran.refused.as_ref().map_or(ran.end.clone(), |why| format!("cannot: {why}"));
            style::remark(&format!("{}: {:.1} s, {end}", self.what, ran.wall_s));
        }
    }
}

/// Runs the program once on one side; one that takes too long is cut.
fn run(side: Side, parameters: &[String], watch: &Watch) -> anyhow::Result<Ran> {
    let own = bench::own_path()?;
    let counts = tempfile::NamedTempFile::new().context("no folder for temporary files")?;
    let mut command = side.command(&own, &own);
    command.args(["probe", "primes"]).args(parameters).arg(format!("counts={}", counts.path().display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().context("a measuring process could not be started")?;
    let mut output = child.stdout.take().context("standard output is a pipe")?;
    let said = thread::spawn(move || {
        let mut text = String::new();
        let _ = output.read_to_string(&mut text);
        text
    });
    let (status, usage, cut) = wait(&child, watch, counts.path())?;
    let wall_s = start.elapsed().as_secs_f64();
    let said = said.join().unwrap_or_default();
    let lines = || said.lines().filter_map(Line::parse);
    let refused = lines().find_map(|line| if let Line::Refused(why) = line { Some(why) } else { None });
    let stolen_s = lines().find_map(|line| match line {
        Line::Figure { name, value, .. } if name == "stolen" => Some(value / 1e3),
        _ => None,
    });
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let counts = read(&fs::read(counts.path()).context("the program's counts cannot be read")?);
    let ran = Ran {
        wall_s,
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        switches: usage.ru_nvcsw as f64,
        counts,
        end: if cut { cut_off(watch, counts) } else { ending(status) },
        refused,
        stolen_s,
    };
    watch.over(&ran);
    Ok(ran)
}

/// Waits for the child's end: how it ended, what the host counted for it, and whether it was cut.
fn wait(child: &Child, watch: &Watch, counts: &Path) -> anyhow::Result<(ExitStatus, libc::rusage, bool)> {
    let (over, ended) = mpsc::channel::<()>();
    let pid = child.id() as libc::pid_t;
    thread::scope(|scope| {
        let watcher = scope.spawn(move || {
            let start = Instant::now();
            while ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                watch.show(start.elapsed(), counts);
                if start.elapsed() >= cut_after(watch.full) {
                    // SAFETY: it has not been waited for, so the number is still its own.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    return true;
                }
            }
            false
        });
        let mut status = 0;
        // SAFETY: our child; both places are writable; zeros are a usage.
        let (answer, usage) = unsafe {
            let mut usage: libc::rusage = mem::zeroed();
            (libc::wait4(pid, &mut status, 0, &mut usage), usage)
        };
        drop(over);
        let cut = watcher.join().unwrap_or(false);
        anyhow::ensure!(answer == pid, "a measuring process was lost: {}", std::io::Error::last_os_error());
        Ok((ExitStatus::from_raw(status), usage, cut))
    })
}

fn cut_off(watch: &Watch, [_, _, through, _]: [u64; COUNTS]) -> String {
    format!("cut after {} s, {through} of {} threads through", cut_after(watch.full).as_secs(), watch.threads)
}

fn read(bytes: &[u8]) -> [u64; COUNTS] {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGKILL), _) => "killed".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(0)) => "all primes".to_owned(),
        (None, code) => format!("status {}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_its_short_form_and_the_messages() {
        let hard = CASES.iter().find(|case| case.title.starts_with("4:")).unwrap();
        let words = |full| hard.parameters(full).join(" ");
        assert_eq!(words(false), "threads=8 upto=25000000 first=0.01 interval=0.01 hard=1");
        assert_eq!(words(true), "threads=8 upto=25000000 first=0.01 interval=0.01 hard=20");
        assert_eq!(CASES[0].parameters(true), ["threads=100000", "upto=10000"]);
    }

    /// Somebody who waits is told how far it came; who reads the page, why a row is not whole.
    #[test]
    fn what_was_cut_says_so() {
        let watch = |full| Watch { what: String::new(), threads: 16, full };
        assert_eq!(cut_off(&watch(true), [900, 0, 3, 9]), "cut after 150 s, 3 of 16 threads through");
        assert_eq!(cut_off(&watch(false), [0; COUNTS]), "cut after 60 s, 0 of 16 threads through");
    }

    #[test]
    fn counts_are_read_as_they_are_written() {
        assert_eq!(read(&[]), [0; COUNTS]);
        assert_eq!(read(&[7u64.to_ne_bytes(), 9u64.to_ne_bytes()].concat())[..3], [7, 9, 0]);
    }
}
