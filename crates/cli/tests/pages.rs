//! Every page for a browser, opened in headless Chromium: no errors, readable text, nothing wider than the window, narrow
//! and wide, light and dark; lanes can be zoomed, dragged and asked.
//!
//! Without Chromium nothing is opened, and the test says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Widths of the window, in pixels.
const WIDTHS: [u64; 2] = [400, 1600];
/// How much time the page has, in its own milliseconds.
const PATIENCE: &str = "10000";

const BEFORE: &str = include_str!("pages/before.js");
const AFTER: &str = include_str!("pages/after.js");

/// A page and the command that writes it, after the option `--html`.
const PAGES: [(&str, &[&str]); 10] = [
    ("run", &["sim", "run", "periodic", "--cpus", "4"]),
    ("many-cpus", &["sim", "run", "hackbench", "--cpus", "128"]),
    ("lab-rt-migrate", &["lab", "rt-migrate", "--cpus", "2,4"]),
    ("lab-cputimer", &["lab", "cputimer", "--cpus", "1", "--no-live"]),
    ("lab-itimer", &["lab", "itimer", "--no-live"]),
    ("lab-posix-timers", &["lab", "posix-timers", "--no-live"]),
    ("lab-procfs", &["lab", "procfs", "--no-live"]),
    ("lab-fair", &["lab", "fair"]),
    ("compare", &["compare", "hackbench", "--rounds", "5", "--runs", "1"]),
    ("report", &["sim", "report", "results"]),
];

/// Runs with failures, which the report shows.
const EXPERIMENT: &str = concat!("name = \"results\"\nseeds = \"0..20\"\n", include_str!("sweeps/rt-migrate.toml"));

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders).flat_map(|at| names.map(|name| at.join(name))).find(|file| file.is_file())
}

fn entresol(folder: &Path, status: i32, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    let answer = command.args(arguments).current_dir(folder).output().expect("the command starts");
    assert_eq!(answer.status.code(), Some(status), "{arguments:?}: {}", String::from_utf8_lossy(&answer.stderr));
}

/// The page with the two scripts, and one around it that shows it in each width and keeps the answers as its text.
fn prepare(folder: &Path, name: &str) -> PathBuf {
    let page = fs::read_to_string(folder.join(format!("{name}.html"))).expect("the page was written");
    let page = page.replacen("<head>", &format!("<head><script>{BEFORE}</script>"), 1);
    let (body, end) = page.rsplit_once("</body>").expect("a page has a body");
    let inside = format!("{name}-inside.html");
    fs::write(folder.join(&inside), format!("{body}<script>{AFTER}</script></body>{end}")).expect("it can be written");
    let frames = WIDTHS
        .map(|width| format!(r#"<iframe src="{inside}" style="width:{width}px;height:900px;border:0"></iframe>"#));
    let around = format!(
        r#"<!doctype html><meta charset="utf-8"><style>:root {{ color-scheme: light dark }}</style><pre id="answers"></pre>
        <script>const all = []; onmessage = event => {{ all.push(event.data);
        document.getElementById("answers").textContent = JSON.stringify(all); }};</script>{}"#,
        frames.concat()
    );
    let file = folder.join(format!("{name}-around.html"));
    fs::write(&file, around).expect("it can be written");
    file
}

/// The answers of the page (`pages/after.js`), one for each width.
fn open(chromium: &Path, folder: &Path, page: &Path, dark: bool) -> Vec<Value> {
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .args([&scheme, &profile, "--dump-dom", &format!("--virtual-time-budget={PATIENCE}")])
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("chromium starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = dom.split_once(r#"<pre id="answers">"#).and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((text, _)) = text else { panic!("{}: {}", page.display(), String::from_utf8_lossy(&output.stderr)) };
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}: {text}", page.display()))
}

#[test]
fn pages_are_readable_and_can_be_used() {
    let Some(chromium) = chromium() else {
        println!("skipped: {} pages (no chromium in PATH)", PAGES.len());
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    fs::write(at.join("results.toml"), EXPERIMENT).expect("it can be written");
    entresol(at, 1, &["sim", "sweep", "results.toml", "--shard", "0/1", "--out", "results"]);
    let mut wrong = Vec::new();
    for (name, command) in PAGES {
        let file = format!("{name}.html");
        entresol(at, 0, &[command, &["--html", &file]].concat());
        let page = prepare(at, name);
        for dark in [false, true] {
            let answers = open(&chromium, at, &page, dark);
            let mut widths: Vec<u64> = answers.iter().filter_map(|answer| answer["width"].as_u64()).collect();
            widths.sort_unstable();
            assert_eq!(widths, WIDTHS, "{name}: a page has not answered");
            for answer in answers {
                assert_eq!(answer["dark"], dark, "{name}: the other colours");
                let scheme = if dark { "dark" } else { "light" };
                let faults = answer["faults"].as_array().expect("a list").iter();
                wrong.extend(faults.map(|fault| format!("{name}, {} px, {scheme}: {fault}", answer["width"])));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
