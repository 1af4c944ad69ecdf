//! `threads` and `ps` against what programs know of themselves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

/// A runtime folder for each test. Processes that others have started meanwhile may be seen beside its own.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Room {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Room(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        command.args(arguments).env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// What `threads PID --json` or `ps --json` says, which must succeed.
    fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let answer = self.ask(arguments);
        let complaint = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{arguments:?}: {complaint}");
        serde_json::from_slice(&answer.stdout).expect("JSON")
    }

    fn complaint(&self, arguments: &[&str]) -> String {
        let answer = self.ask(arguments);
        assert_eq!(answer.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(answer.stderr).unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(&["run", "--cpus", "2", "--"]);
        let mut child = command
            .arg(crowd())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut threads = vec![];
        // Each thread says what it is called, its id and what it is about to do; a dot ends it.
        for line in lines.by_ref() {
            let line = line.unwrap();
            let Some((tid, name)) = line.split_once(' ') else { break };
            threads.push((tid.parse().unwrap(), name.to_owned()));
        }
        assert!(!threads.is_empty());
        Running { child, threads }
    }

    fn page(&self, pid: u32) -> PathBuf {
        self.0.path().join(format!("entresol/state-{pid}"))
    }
}

/// A program that waits for the end of its input; it is ended with its test.
struct Running {
    child: Child,
    /// Ids and names, as its threads have told.
    threads: Vec<(i64, String)>,
}

impl Running {
    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program: threads that each wait for something else, or run; their number is its first argument.
fn crowd() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("crowd");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crowd.c");
        let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(compiled.expect("a C compiler is there").success());
        (folder, program)
    });
    path
}

fn find(rows: &[serde_json::Value], tid: i64) -> &serde_json::Value {
    rows.iter().find(|row| row["tid"] == tid).unwrap_or_else(|| panic!("no thread {tid} in {rows:?}"))
}

/// Asks until `holds`: a thread has told its name a moment before it waits.
fn eventually(ask: impl Fn() -> Vec<serde_json::Value>, holds: impl Fn(&[serde_json::Value]) -> bool) {
    let mut rows = ask();
    for _ in 0..200 {
        if holds(&rows) {
            return;
        }
        sleep(Duration::from_millis(10));
        rows = ask();
    }
    panic!("it never came to that: {rows:#?}");
}

#[test]
fn each_thread_is_shown_with_what_it_waits_for() {
    let room = Room::new();
    let program = room.start(&["1"]);
    let expected = |name: &str| match name {
        "futex" => ("S", "futex 0x"),
        "sleeper" => ("S", "sleep, 9"),
        "reader" => ("H", "read("),
        "sigwaiter" => ("S", "sigwait"),
        "main" => ("H", "read(0)"),
        "fifo" => ("S", "sigsuspend"),
        other => panic!("{other}"),
    };
    eventually(
        || room.json(&["threads", &program.pid(), "--json"]),
        |rows| {
            rows.len() == program.threads.len()
                && program.threads.iter().all(|(tid, name)| {
                    let row = find(rows, *tid);
                    let (state, wait) = expected(name);
                    row["name"] == *name && row["state"] == state && row["wait"].as_str().unwrap().starts_with(wait)
                })
        },
    );
    let rows = room.json(&["threads", &program.pid(), "--json"]);
    let fifo = program.threads.iter().find(|(_, name)| name == "fifo").unwrap().0;
    assert_eq!((&find(&rows, fifo)["policy"], &find(&rows, fifo)["pri"]), (&"FF".into(), &33.into()));
    assert_eq!(find(&rows, program.child.id().into())["name"], "main");
    // All block SIGUSR1; who waits for it lets it through.
    let rows = room.json(&["ps", "--json", "-o", "tid,pending,blocked", "-p", &program.pid()]);
    for (tid, name) in &program.threads {
        let row = find(&rows, *tid);
        let blocked = if name == "sigwaiter" { 0 } else { 1 << 9 };
        assert_eq!((&row["blocked"], &row["pending"]), (&blocked.into(), &0.into()), "{name}");
    }
    let answer = room.ask(&["ps", "-o", "name,blocked", "-p", &program.pid()]);
    let text = String::from_utf8(answer.stdout).unwrap();
    assert!(text.contains("fifo      0000000000000200\n"), "{text}");
    // The same for people.
    let answer = room.ask(&["threads", &program.pid()]);
    let text = String::from_utf8(answer.stdout).unwrap();
    assert!(text.starts_with(&format!("process {} (main): 6 threads on 2 CPUs, 0 queued\n", program.pid())), "{text}");
    assert_eq!(text.lines().count(), 2 + 6, "{text}");
    let page = room.page(program.child.id());
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    program.end();
    assert!(!page.exists(), "the page goes with its process");
}

#[test]
fn the_functions_are_shown_in_which_threads_wait() {
    let room = Room::new();
    let program = room.start(&["1"]);
    // Under each thread's line what it is in: the function that it began with is among that.
    let shown = |text: &str| {
        ["futex", "sleeper", "reader", "sigwaiter", "fifo", "main"].iter().all(|name| {
            let mut lines = text.lines().skip_while(|line| !line.split_whitespace().any(|word| word == *name)).skip(1);
            let stack = lines.by_ref().take_while(|line| line.starts_with("    ") && line.contains(" ("));
            stack.into_iter().any(|line| line.starts_with(&format!("    {name} + 0x")) && line.ends_with(" (crowd)"))
        })
    };
    let mut text = String::new();
    let found = (0..200).any(|_| {
        sleep(Duration::from_millis(10));
        text = String::from_utf8(room.ask(&["threads", &program.pid(), "--stack"]).stdout).unwrap();
        // The process's own line has its name, too.
        shown(text.split_once('\n').unwrap().1)
    });
    assert!(found, "{text}");
    program.end();
}

/// A signal that a program sends itself leaves a core file with the program's frames, not with the image's.
#[test]
fn a_core_file_shows_where_the_program_was() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let has_room =
        Command::new("sh").args(["-c", "ulimit -c unlimited"]).stderr(Stdio::null()).status().unwrap().success();
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err()
        || pattern.contains(['|', '/', '%'])
        || !has_room
    {
        eprintln!("skipped: needs gdb (Debian package gdb), and core files of any size in the working directory");
        return;
    }
    let room = Room::new();
    let folder = tempfile::tempdir().unwrap();
    for signal in ["ABRT", "XCPU"] {
        let script = format!("ulimit -c unlimited; exec \"$0\" run -- sh -c 'kill -{signal} $$'");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_entresol")]).current_dir(folder.path());
        let _ = shell.env("XDG_RUNTIME_DIR", room.0.path()).status().unwrap();
        let core = fs::read_dir(folder.path()).unwrap().next().expect("a core file").unwrap().path();
        let gdb = Command::new("gdb").args(["-nx", "-batch", "-ex", "bt", "/bin/sh"]).arg(&core).output().unwrap();
        let stack = String::from_utf8_lossy(&gdb.stdout);
        let frames: Vec<_> = stack.lines().filter(|line| line.starts_with('#')).collect();
        assert!(frames.iter().any(|frame| frame.contains("kill")), "{signal}: {stack}");
        assert!(frames.iter().all(|frame| !frame.contains("entresol")), "{signal}: {stack}");
        fs::remove_file(core).unwrap();
    }
}

#[test]
fn gdb_shows_the_functions_in_which_threads_wait() {
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: needs gdb (Debian package gdb)");
        return;
    }
    let room = Room::new();
    let program = room.start(&["1"]);
    let waits = |rows: &[serde_json::Value]| rows.iter().all(|row| row["state"] != "R" && row["state"] != "Q");
    eventually(|| room.json(&["threads", &program.pid(), "--json"]), waits);
    let (tid, _) = program.threads.iter().find(|(_, name)| name == "futex").expect("it is there");
    let (list, look) = ("entresol threads", format!("entresol thread {tid}"));
    let commands = [list, "entresol bt all", "echo looking\\n", &look, "bt", "entresol thread off", "info threads"];
    let mut arguments = vec!["gdb", "", "--", "-batch"];
    let pid = program.pid();
    arguments[1] = &pid;
    arguments.extend(commands.iter().flat_map(|command| ["-ex", command]));
    let answer = room.ask(&arguments);
    let text = String::from_utf8_lossy(&answer.stdout);
    let all = format!("{text}{}", String::from_utf8_lossy(&answer.stderr));
    let (before, after) = text.split_once("looking").expect(&all);
    for (tid, _) in &program.threads {
        assert!(before.lines().any(|line| line.starts_with(&format!("Thread {tid} \""))), "{tid}: {all}");
    }
    for name in ["futex", "sleeper", "sigwaiter", "fifo"] {
        assert!(before.lines().any(|line| line.starts_with('#') && line.contains(&format!(" in {name} ("))), "{all}");
    }
    assert!(after.lines().any(|line| line.starts_with('#') && line.contains(" in futex (")), "{all}");
    // It has done no harm.
    program.end();
}

#[test]
fn there_is_room_for_all_however_many_come() {
    let room = Room::new();
    let program = room.start(&["1"]);
    assert_eq!(room.json(&["threads", &program.pid(), "--json"]).len(), 6);
    program.end();
    let program = room.start(&["500"]);
    let rows = room.json(&["ps", "--json", "--sort", "-tid", "-p", &program.pid()]);
    assert_eq!(rows.len(), program.threads.len());
    let tids: Vec<i64> = rows.iter().map(|row| row["tid"].as_i64().unwrap()).collect();
    assert!(tids.is_sorted_by(|a, b| a > b));
    for (tid, name) in &program.threads {
        assert_eq!(find(&rows, *tid)["name"], *name);
    }
    program.end();
}

#[test]
fn all_processes_are_found_and_the_dead_are_forgotten() {
    let room = Room::new();
    let (one, other) = (room.start(&["1"]), room.start(&["1"]));
    let mut pids = [one.child.id(), other.child.id()];
    pids.sort_unstable();
    let found = |rows: &[serde_json::Value]| {
        let mut found: Vec<_> = rows.iter().map(|row| row["pid"].as_u64().unwrap() as u32).collect();
        found.dedup();
        found.retain(|pid| pids.contains(pid));
        found
    };
    assert_eq!(found(&room.json(&["ps", "--json"])), pids);
    let (page, pid, last) = (room.page(one.child.id()), one.pid(), other.child.id());
    let kept = fs::read(&page).unwrap();
    // Killed: nobody could take its page away, and who looks next does.
    drop(one);
    assert!(page.exists());
    assert_eq!(found(&room.json(&["ps", "--json"])), [other.child.id()]);
    assert!(!page.exists());
    // Somebody else's old page in the place of a living process's.
    let foreign =
        Command::new("sleep").arg("20").spawn().map(|mut child| (child.id(), child.kill(), child.wait())).unwrap().0;
    fs::write(room.page(foreign), &kept).unwrap();
    assert_eq!(found(&room.json(&["ps", "--json"])), [other.child.id()]);
    assert!(!room.page(foreign).exists());
    assert!(room.complaint(&["threads", &pid]).contains("there is no process"));
    other.end();
    assert!(found(&room.json(&["ps", "--json"])).is_empty());
    assert!(!room.page(last).exists());
}

#[test]
fn a_stopped_process_is_shown_as_it_was() {
    let room = Room::new();
    let program = room.start(&["1"]);
    let pid = i32::try_from(program.child.id()).unwrap();
    let signal = |signal| assert_eq!(unsafe_kill(pid, signal), 0);
    let before = room.json(&["threads", &program.pid(), "--json"]);
    signal(libc::SIGSTOP);
    // For a moment the snapshot from before is still as fresh as one gets.
    let text = (0..200).find_map(|_| {
        let text = String::from_utf8(room.ask(&["threads", &program.pid()]).stdout).unwrap();
        sleep(Duration::from_millis(5));
        text.contains("does not answer: this is how it was").then_some(text)
    });
    assert!(text.is_some(), "it was taken for a running one");
    assert_eq!(room.json(&["threads", &program.pid(), "--json"]).len(), before.len());
    signal(libc::SIGCONT);
    program.end();
}

fn unsafe_kill(pid: i32, signal: i32) -> i32 {
    // SAFETY: a signal to a child of ours.
    unsafe { libc::kill(pid, signal) }
}

/// Whether this test itself runs under Entresol: only there the kernel of threads answers this call.
fn is_under_entresol() -> bool {
    const PRIVATE_VERSION: libc::c_long = 0x454e_0000;
    // SAFETY: a private call that has no arguments; ENOSYS natively.
    unsafe { libc::syscall(PRIVATE_VERSION) >= 0 }
}

#[test]
fn what_cannot_be_shown_is_said_with_the_reason() {
    let room = Room::new();
    let mut native = Command::new("sleep").arg("20").spawn().unwrap();
    if is_under_entresol() {
        println!("a native process: skipped, because what a test under Entresol starts runs under it as well");
    } else {
        let complaint = room.complaint(&["threads", &native.id().to_string()]);
        assert!(complaint.contains("does not run under Entresol"), "{complaint}");
    }
    let program = room.start(&["1"]);
    let page = room.page(program.child.id());
    let mut bytes = fs::read(&page).unwrap();
    bytes[8] = 77;
    fs::write(&page, &bytes).unwrap();
    let complaint = room.complaint(&["threads", &program.pid()]);
    assert!(complaint.contains("version 77"), "{complaint}");
    fs::write(&page, b"entresol").unwrap();
    let complaint = room.complaint(&["threads", &program.pid()]);
    assert!(complaint.contains("is no state page"), "{complaint}");
    assert_eq!(room.ask(&["ps"]).status.code(), Some(0));
    fs::remove_file(&page).unwrap();
    let complaint = room.complaint(&["threads", &program.pid()]);
    assert!(complaint.contains("runs under Entresol, but there is no state page"), "{complaint}");
    native.kill().unwrap();
    native.wait().unwrap();
    program.end();
}

#[test]
fn a_forked_child_has_a_page_of_its_own() {
    let room = Room::new();
    let script = "import os,sys\nif os.fork() == 0:\n print(os.getpid(), flush=True)\nsys.stdin.read()";
    let mut child = room
        .command(&["run", "--", "python3", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut pids = [child.id(), line.trim().parse().unwrap()];
    pids.sort_unstable();
    // A process leaves its page when it is a few milliseconds old.
    eventually(
        || room.json(&["ps", "--json"]),
        |rows| {
            let mut found: Vec<u32> = rows.iter().map(|row| row["pid"].as_u64().unwrap() as u32).collect();
            found.retain(|pid| pids.contains(pid));
            found == pids
        },
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// The names in a folder of a process in `/proc`.
fn names(pid: u32, folder: &str) -> Vec<String> {
    let found = fs::read_dir(format!("/proc/{pid}/{folder}")).unwrap();
    let mut names: Vec<String> = found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_process_with_one_thread_has_one_host_thread_and_no_further_descriptor() {
    let room = Room::new();
    let natively = descriptors_of_a_shell();
    for signal in [libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1] {
        // It has handlers, and waits; the second one computes.
        let script = match signal {
            libc::SIGALRM => "while :; do :; done",
            _ => "trap : HUP WINCH; echo; read line",
        };
        let mut child = room
            .command(&["run", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (pid, page) = (child.id(), room.page(child.id()));
        while !page.exists() {
            sleep(Duration::from_millis(1));
        }
        if !is_under_entresol() {
            assert_eq!((names(pid, "task").len(), names(pid, "fd").len()), (1, natively));
        }
        let rows = room.json(&["ps", "--json"]);
        assert!(rows.iter().any(|row| row["pid"] == pid), "{rows:?}");
        // Open until it has ended: at the end of its input it would end by itself, before it has the signal (CAVEATS.md).
        let _input = child.stdin.take();
        assert_eq!(unsafe_kill(pid as i32, signal), 0);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert!(!page.exists(), "a process that a signal ends leaves nothing");
    }
}

/// How many descriptors a shell has natively: its three streams, and those that whoever runs this test has left open.
fn descriptors_of_a_shell() -> usize {
    let mut shell = Command::new("sh")
        .args(["-c", "echo; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Once it says something, the dynamic linker has closed the libraries.
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let count = names(shell.id(), "fd").len();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    count
}

#[test]
fn a_signal_ends_a_process_that_nobody_has_asked_for_and_it_leaves_nothing() {
    let room = Room::new();
    let mut child = room.command(&["run", "--", "sleep", "1000"]).spawn().unwrap();
    let page = room.page(child.id());
    while !page.exists() {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(unsafe_kill(child.id() as i32, libc::SIGTERM), 0);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert!(!page.exists());
}

#[test]
fn ten_thousand_processes_leave_nothing() {
    let room = Room::new();
    let script = "i=0; while [ $i -lt 5000 ]; do (:); (exit 3) & i=$((i + 1)); wait; done; \
        i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i + 1)); done; exec sleep 0.05";
    assert!(room.command(&["run", "--", "sh", "-c", script]).status().unwrap().success());
    let left: Vec<_> = fs::read_dir(room.0.path().join("entresol"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("state-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn figures_are_served_by_http() {
    use std::io::{Read, Write};
    let room = Room::new();
    let program = room.start(&["1"]);
    let mut server = room.command(&["export", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("entresol: http://").unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"), "{answer}");
    let started = format!("entresol_threads_started_total{{pid=\"{}\",process=\"main\"}} 6", program.pid());
    assert!(answer.contains(&started) && answer.ends_with("# EOF\n"), "{answer}");
    assert!(ask("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask("GET /metrics HTTP/1.1\r\nHost: evil.example.com\r\n\r\n").starts_with("HTTP/1.1 421 "));
    assert!(ask("?\r\n\r\n").starts_with("HTTP/1.1 400 "));
    server.kill().unwrap();
    server.wait().unwrap();
    program.end();
}

#[test]
fn who_runs_is_seen_by_its_cpu_time() {
    let room = Room::new();
    let script = "import threading,sys\n\
        def spin():\n while True: pass\n\
        threading.Thread(target=spin,daemon=True).start()\n\
        print(flush=True); sys.stdin.read()";
    let mut child = room
        .command(&["run", "--cpus", "1", "--", "python3", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let answer = room.ask(&["top", "--once", "--json", "--interval", "0.3", "-p", &child.id().to_string()]);
    let all: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let threads = all["threads"].as_array().unwrap();
    assert_eq!((threads.len(), all["processes"][0]["threads"].as_u64()), (2, Some(2)));
    // By CPU time: first the one that spins, then the one that waits.
    assert_eq!((&threads[0]["state"], &threads[1]["state"]), (&"R".into(), &"H".into()));
    assert!(threads[0]["cpu_percent"].as_f64() > threads[1]["cpu_percent"].as_f64(), "{all:#}");
    let answer = room.ask(&["top"]);
    assert_eq!(answer.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&answer.stderr).contains("no terminal"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn one_thread_has_at_most_all_of_the_time_since_its_process_began() {
    let room = Room::new();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo; while :; do :; done";
    let mut child = room.command(&["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let rows = room.json(&["ps", "--json", "-o", "pid,pcpu"]);
    let row = rows.iter().find(|row| row["pid"] == child.id()).expect("it is there");
    // The start of a process is known to a tick of 10 ms.
    let percent = row["pcpu"].as_f64().unwrap();
    assert!(percent > 0.0 && percent < 150.0, "{percent}");
    child.kill().unwrap();
    child.wait().unwrap();
}
