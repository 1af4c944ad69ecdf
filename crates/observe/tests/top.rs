//! The screen of `top`, drawn into memory, and the figures of `export`, from processes that are made up.

use entresol_observe::export;
use entresol_observe::top::draw::draw;
use entresol_observe::top::rates::Rates;
use entresol_observe::top::view::{After, Group, Key, View};
use ids::{Nanos, Nice, Policy, RtPriority};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use state::{Cpu, Place, Process, Snapshot, Thread, Wait};
use watch::Watched;

const SECOND: u64 = 1_000_000_000;

fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// At second `n` of a program with a thread that runs, one that is queued and one that waits.
fn program(pid: i32, n: u64) -> Watched {
    let busy = Thread {
        tid: pid,
        name: name("busy"),
        user: Nanos(n * SECOND),
        involuntary: 40 * n,
        migrations: 2 * n,
        ..Thread::default()
    };
    let queued = Thread {
        tid: pid + 1,
        name: name("queued"),
        place: Place::Queued,
        nice: Nice(5),
        queued: Nanos(n * SECOND / 2),
        ..busy
    };
    let queued = Thread { user: Nanos(n * SECOND / 2), ..queued };
    let waiting = Thread {
        tid: pid + 2,
        name: name("evil\x1b[2J"),
        place: Place::Waiting,
        policy: Policy::Fifo,
        rt: RtPriority(42),
        wait: Wait::Futex,
        address: 0x1000,
        user: Nanos::ZERO,
        involuntary: 0,
        migrations: 0,
        ..busy
    };
    let cpu = Cpu { current: pid, queued: 1, busy: Nanos(n * SECOND), switches: 7, ..Cpu::default() };
    let idle = Cpu { busy: Nanos(n * SECOND / 4), ..Cpu::default() };
    let process = Process {
        taken: Nanos((100 + n) * SECOND),
        threads: 3,
        living: 3,
        started: 9,
        user: Nanos(n * SECOND * 3 / 2),
        ..Process::default()
    };
    let snapshot = Snapshot { number: n, process, cpus: vec![cpu, idle], threads: vec![busy, queued, waiting] };
    Watched { pid, age: Nanos(n * SECOND), snapshot, stale: None }
}

fn rates(pids: &[i32]) -> Rates {
    let mut rates = Rates::default();
    rates.look(pids.iter().map(|&pid| program(pid, 1)).collect());
    assert!(!rates.has_speed());
    rates.look(pids.iter().map(|&pid| program(pid, 3)).collect());
    rates
}

fn screen(view: &View, rates: &Rates, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, rates)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn press(view: &mut View, rates: &Rates, keys: &str) {
    for key in keys.chars() {
        assert_eq!(view.press(KeyCode::Char(key), KeyModifiers::NONE, rates), After::Go);
    }
}

fn view() -> View {
    View::new(Key::Cpu, String::new())
}

fn tids(view: &View, rates: &Rates) -> Vec<i32> {
    view.lines(rates).iter().map(|line| line.thread.map_or(-line.process.watched.pid, |thread| thread.tid)).collect()
}

#[test]
fn eighty_columns_and_24_lines_are_enough() {
    let rates = rates(&[1000]);
    let lines = screen(&view(), &rates, 80, 24);
    assert_eq!(lines[0], "entresol: 1 process, 3 threads: 1 running, 1 queued, 1 waiting");
    assert_eq!(lines[1], "  0 [|||||||||||||||||] 100% 1 queued    1 [||||             ]  25% 0 queued");
    assert_eq!(lines[2], "CPUs of process 1000 (busy)");
    let expected = [
        "    PID       TID S  PRI CPU  %CPU  %QUE   SW/s     TIME NAME       WAITS FOR",
        "   1000      1000 R    0   0 100.0   0.0     40    3.000 busy       -",
        "   1000      1001 Q    5   0  50.0  50.0     40    1.500 queued     -",
        "   1000      1002 S FF42   0   0.0   0.0      0    0.000 evil?[2J   futex 0x1000",
    ];
    for (line, start) in lines[3..].iter().zip(expected) {
        assert!(line.starts_with(start), "{line:?}\n{start:?}");
    }
    assert_eq!(lines[23], "threads by %CPU, every 1.0 s   h help  q leave");
}

#[test]
fn no_size_is_too_small() {
    let rates = rates(&[1000, 2000]);
    for (width, height) in [(1, 1), (10, 3), (40, 5), (79, 6), (300, 80)] {
        for group in [Group::Threads, Group::Tree, Group::Processes] {
            let mut view = view();
            view.group = group;
            assert_eq!(screen(&view, &rates, width, height).len(), usize::from(height));
            press(&mut view, &rates, "h");
            screen(&view, &rates, width, height);
        }
        screen(&view(), &Rates::default(), width, height);
    }
    assert!(screen(&view(), &Rates::default(), 80, 24)[2].contains("no process runs under Entresol"));
}

#[test]
fn keys_sort_group_and_filter() {
    let rates = rates(&[1000, 2000]);
    let mut view = view();
    assert_eq!(tids(&view, &rates), [1000, 2000, 1001, 2001, 1002, 2002]);
    press(&mut view, &rates, "r");
    assert_eq!(tids(&view, &rates), [2002, 1002, 2001, 1001, 2000, 1000]);
    press(&mut view, &rates, "rs");
    assert_eq!((view.key, tids(&view, &rates)[0]), (Key::Queued, 1001));
    press(&mut view, &rates, "ssss");
    assert_eq!((view.key, tids(&view, &rates)[0]), (Key::Priority, 1002));
    press(&mut view, &rates, "SSSSS/QUEU");
    assert_eq!((view.key, tids(&view, &rates)), (Key::Cpu, vec![1001, 2001]));
    view.press(KeyCode::Enter, KeyModifiers::NONE, &rates);
    press(&mut view, &rates, "g");
    assert_eq!(tids(&view, &rates), [-1000, 1001, -2000, 2001]);
    press(&mut view, &rates, "/");
    view.press(KeyCode::Esc, KeyModifiers::NONE, &rates);
    assert_eq!(tids(&view, &rates), [-1000, 1000, 1001, 1002, -2000, 2000, 2001, 2002]);
    press(&mut view, &rates, "g");
    assert_eq!((view.group, tids(&view, &rates)), (Group::Processes, vec![-1000, -2000]));
    assert_eq!(view.lines(&rates)[0].speed.cpu, 150.0);
    assert_eq!(view.press(KeyCode::Char('q'), KeyModifiers::NONE, &rates), After::Leave);
}

#[test]
fn the_marked_line_stays_on_the_screen() {
    let rates = rates(&(0..20).map(|i| 1000 * (i + 1)).collect::<Vec<_>>());
    let mut view = view();
    view.press(KeyCode::End, KeyModifiers::NONE, &rates);
    assert_eq!(view.marked, 59);
    let lines = screen(&view, &rates, 80, 24);
    assert!(lines[22].contains("20002"), "{lines:#?}");
    press(&mut view, &rates, "jjj");
    assert_eq!(view.marked, 59);
    view.press(KeyCode::Home, KeyModifiers::NONE, &rates);
    assert_eq!(view.marked, 0);
}

#[test]
fn a_process_that_does_not_answer_has_no_speed() {
    let mut rates = Rates::default();
    rates.look(vec![program(1000, 5)]);
    let silent = Watched { stale: Some(std::time::Duration::from_secs(9)), ..program(1000, 5) };
    rates.look(vec![silent]);
    assert_eq!(view().lines(&rates)[0].speed.cpu, 0.0);
    assert!(screen(&view(), &rates, 80, 24)[2].contains("does not answer, this is how it was 9 s ago"));
}

#[test]
fn figures_are_in_the_format_of_openmetrics() {
    let text = export::text(vec![program(1000, 3)], false).unwrap();
    let labels = r#"pid="1000",process="busy""#;
    for line in [
        "# TYPE entresol_threads gauge".to_owned(),
        format!(r#"entresol_threads{{{labels},state="queued"}} 1"#),
        format!("entresol_threads_started_total{{{labels}}} 9"),
        format!(r#"entresol_process_cpu_seconds_total{{{labels},mode="user"}} 4.5"#),
        format!(r#"entresol_cpu_busy_seconds_total{{{labels},cpu="1"}} 0.75"#),
        format!(r#"entresol_cpu_switches_total{{{labels},cpu="0"}} 7"#),
        format!(r#"entresol_thread_cpu_seconds_total{{{labels},tid="1000",thread="busy",mode="user"}} 3.0"#),
        format!(r#"entresol_thread_preemptions_total{{{labels},tid="1001",thread="queued"}} 120"#),
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains('\x1b'));
    let without = export::text(vec![program(1000, 3)], true).unwrap();
    assert!(!without.contains("entresol_thread_") && without.contains("entresol_cpu_"));
}
