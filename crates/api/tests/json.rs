//! What is written is read, and what is not whole is refused with its place.

use entresol_api::{
    Checkpoint, Clocks, CpuTime, FORMAT, ITimers, Limit, Limits, Notify, Setting, ThreadTime, TimerState, VERSION,
};

fn timer(id: i32) -> TimerState {
    TimerState {
        id,
        clock: 1,
        clock_tid: 0,
        notify: Notify::Signal,
        signal: 40,
        tid: 0,
        value: u64::MAX - id as u64,
        interval: 10,
        expires: Some(1_000_000_007),
        now: 5,
        absolute: true,
        pending: false,
        overrun: -1,
        overrun_last: 3,
        created: 100 + id as u64,
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        format: FORMAT.to_owned(),
        version: VERSION,
        sum: None,
        pid: 4711,
        boot: "here".to_owned(),
        clocks: Clocks { monotonic: 1, realtime: u64::MAX >> 1, boottime: 2, tai: 3 },
        cpu: CpuTime { total: 3, user: 2, system: 1 },
        threads: vec![ThreadTime { tid: 4711, cpu: CpuTime::default() }],
        itimers: ITimers { prof: Setting { value: 1, interval: 2 }, ..ITimers::default() },
        limits: Limits { cpu: Limit { soft: Some(1), hard: None }, ..Limits::default() },
        next_id: 3,
        restoring_ids: false,
        timers: vec![timer(2), timer(0)],
    }
}

fn refused(text: &str) -> (String, String) {
    let damaged = Checkpoint::from_json(text).expect_err("it is damaged");
    (damaged.at, damaged.what)
}

/// With one timer changed.
fn with(change: impl FnOnce(&mut TimerState)) -> (String, String) {
    let mut changed = checkpoint();
    change(&mut changed.timers[1]);
    refused(&changed.to_json())
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(Checkpoint::from_json(&checkpoint().to_json()), Ok(checkpoint()));
    let odd = Checkpoint { timers: Vec::new(), threads: Vec::new(), ..checkpoint() };
    assert_eq!(Checkpoint::from_json(&odd.to_json()), Ok(odd));
}

#[test]
fn the_future_and_other_files_are_refused() {
    let future = checkpoint().to_json().replace("\"version\": 1", "\"version\": 2").replace("pid", "pid_of_v2");
    assert_eq!(refused(&future), ("version".to_owned(), "2 is from the future: this reads 1".to_owned()));
    assert_eq!(refused("{}").0, "format");
    assert_eq!(refused("[1]").0, "format");
    assert_eq!(refused(&checkpoint().to_json().replace("\"version\": 1,", "")).0, "version");
}

#[test]
fn a_place_is_named() {
    assert_eq!(refused("{\n  \"format\" 1}").0, "line 2, column 12");
    let text = checkpoint().to_json();
    assert_eq!(refused(&text.replace("\"interval\":10,", "\"interval\":-1,")).0.split(',').next(), Some("line 16"));
    assert!(refused(&text.replace("\"next_id\"", "\"next\"")).1.contains("unknown field `next`"));
    assert_eq!(with(|t| t.id = 2), ("timers[1].id".to_owned(), "2 is that of timers[0], too".to_owned()));
    assert_eq!(with(|t| t.id = -1).0, "timers[1].id");
    assert_eq!(with(|t| t.clock = 10).0, "timers[1].clock");
    assert_eq!(with(|t| t.clock = 3).0, "timers[1].clock_tid");
    assert_eq!(with(|t| t.signal = 65).0, "timers[1].signal");
    assert_eq!(with(|t| t.notify = Notify::ThreadId).0, "timers[1].tid");
    assert_eq!(with(|t| t.expires = Some(u64::MAX)).0, "timers[1].expires");
    assert_eq!(with(|t| t.expires = Some(0)).0, "timers[1].expires");
    assert_eq!(with(|t| t.overrun = -2).0, "timers[1].overrun");
    assert_eq!(with(|t| (t.notify, t.pending) = (Notify::None, true)).0, "timers[1].pending");
}

#[test]
fn no_cut_and_no_change_of_a_byte_gets_through() {
    let whole = Checkpoint { sum: Some(String::new()), ..checkpoint() };
    let told = refused(&whole.to_json());
    assert_eq!(told.0, "sum");
    let whole = Checkpoint { sum: Some(checkpoint().sum()), ..checkpoint() };
    let text = whole.to_json();
    assert_eq!(Checkpoint::from_json(&text), Ok(whole.clone()));
    let end = text.trim_end().len();
    for at in 0..end {
        let cut = &text[..at];
        assert!(Checkpoint::from_json(cut).is_err(), "cut at {at}");
        for other in [b'7', b'}', b'"', b' '] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = other;
            // Another byte may be blank for blank; then nothing was changed.
            if let Ok(read) =
                String::from_utf8(bytes).map_err(|_| ()).and_then(|t| Checkpoint::from_json(&t).map_err(|_| ()))
            {
                assert_eq!(read, whole, "byte {at} became {}", char::from(other));
            }
        }
    }
}

#[test]
fn outside_entresol_everything_says_so() {
    if entresol_api::is_available() {
        println!("SKIPPED: this process runs under Entresol");
        return;
    }
    assert_eq!(entresol_api::restart::save(), Err(entresol_api::Unavailable));
    let error = entresol_api::restart::restore(&checkpoint(), Some).expect_err("there is nobody to ask");
    assert_eq!(error.to_string(), "this program does not run under Entresol");
    let own = std::process::id() as i32;
    let error = entresol_api::outside::ask(own).expect_err("it is not ours");
    assert_eq!(error.to_string(), format!("process {own} does not run under Entresol"));
}
