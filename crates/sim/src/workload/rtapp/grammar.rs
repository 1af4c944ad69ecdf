//! Tests of what rt-app's files may say beside the ordinary, each as rt-app's manual and source have it.

use super::script::{Action, Measured};
use super::*;
use ids::Policy;

fn parse(text: &str) -> Workload {
    Workload::parse(text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
}

fn run(text: &str, cpus: usize) -> Report {
    parse(text).run("test", 3, cpus, &Options::default())
}

/// When the last loop of a row's thread was over, in milliseconds.
fn ends(report: &Report, row: usize) -> f64 {
    report.tables[0].rows[row][7].parse().unwrap()
}

/// The actions of the first thread, which takes no time.
fn actions(text: &str) -> Vec<Action> {
    let mut script = parse(text).threads(4).swap_remove(0).script;
    let mut seen = Measured::default();
    std::iter::from_fn(|| Some(script.next(Nanos(1), &mut seen)).filter(|action| *action != Action::Exit)).collect()
}

#[test]
fn a_post_that_comes_before_a_wait_is_not_lost() {
    let report = run(
        r#"{ "tasks": {
            "poster": { "loop": 1, "sem_post": "s", "sem_post": "s" },
            "waiter": { "loop": 2, "delay": 5000, "sem_wait": "s", "run": 1000 } } }"#,
        2,
    );
    // Both posts were at 0; from 5 ms on, the waiter runs twice without waiting.
    assert_eq!(report.failure, None);
    assert!((7.0..7.1).contains(&ends(&report, 1)), "{}", ends(&report, 1));
}

#[test]
fn as_many_waiters_go_as_there_are_posts() {
    let report = run(
        r#"{ "global": { "duration": 0.02 }, "tasks": {
            "waiter": { "instance": 5, "loop": 1, "sem_wait": "s", "run": 100 },
            "poster": { "loop": 3, "sleep": 1000, "sem_post": "s" } } }"#,
        2,
    );
    let went = (0..5).filter(|&row| report.tables[0].rows[row][2] == "1").count();
    assert_eq!((report.failure.clone(), went), (None, 3), "two wait to the end");
}

#[test]
fn the_most_urgent_waiter_goes_first() {
    let report = run(
        r#"{ "global": { "default_policy": "SCHED_FIFO" }, "tasks": {
            "five": { "priority": 5, "loop": 1, "sem_wait": "s", "run": 1000 },
            "nine": { "priority": 9, "loop": 1, "sem_wait": "s", "run": 1000 },
            "seven": { "priority": 7, "loop": 1, "sem_wait": "s", "run": 1000 },
            "poster": { "priority": 1, "loop": 3, "sem_post": "s", "delay": 2000 } } }"#,
        1,
    );
    // Each is woken by a post at 2, 3 and 4 ms, and preempts the poster.
    assert_eq!(report.failure, None);
    let ends = [0, 1, 2].map(|row| ends(&report, row).round());
    assert_eq!(ends, [5.0, 3.0, 4.0]);
}

#[test]
fn a_pipeline_with_semaphores_loses_nothing_when_its_end_is_preempted() {
    let report = run(
        r#"{ "tasks": {
            "source": { "loop": 20, "run": 100, "sem_post": "full", "sem_wait": "empty" },
            "sink": { "loop": 20, "priority": 19, "sem_wait": "full", "run": 300, "sem_post": "empty" },
            "other": { "loop": 10, "run": 5000, "sleep": 100 } } }"#,
        1,
    );
    assert_eq!((report.failure.clone(), report.get("loops")), (None, Some(50.0)));
}

#[test]
fn a_key_of_an_event_task_or_phase_may_be_there_twice() {
    let twice = r#"{ "tasks": { "a": { "loop": 1, "phases": { "p": { "run": 1, "run": 2, "sem_post" : "s", "run": 3 },
                                                             "p": { "run": 4 } } },
                                "a": { "loop": 1, "run": 5 }, "a1": { "loop": 1, "yield", "run": 6, } } }"#;
    let run = |micros: u64| Action::Run(Nanos(micros * 1000));
    assert_eq!(actions(twice), [run(1), run(2), Action::SemaphorePost(0), run(3), run(4)]);
    let names: Vec<String> = parse(twice).rows().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a-0", "a1-0", "a11-0"]);
}

#[test]
fn a_phase_changes_what_it_names_and_leaves_the_rest() {
    let text = r#"{ "tasks": { "a": { "loop": 1, "priority": 3, "dl-runtime": 2000, "phases": {
        "nicer": { "priority": 4, "run": 1 }, "same": { "run": 1 }, "slice": { "dl-runtime": 9000, "run": 1 },
        "urgent": { "policy": "SCHED_RR", "run": 1 }, "more": { "priority": 12, "run": 1 },
        "reserved": { "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "run": 1 },
        "fair": { "policy": "SCHED_OTHER", "run": 1 } } } } }"#;
    let attrs: Vec<Attr> = actions(text)
        .into_iter()
        .filter_map(|action| match action {
            Action::SetPolicy(attr) => Some(attr),
            _ => None,
        })
        .collect();
    let slice = Nanos::from_millis(2);
    assert_eq!(parse(text).rows()[0].1, Attr { slice, ..Attr::fair(Policy::Other, 3) });
    let three = Nanos::from_millis(3);
    let whole = sched::DeadlineParams { runtime: three, deadline: three, period: three };
    // A slice alone changes nothing, as in rt-app.
    let expected = [
        Attr { slice, ..Attr::fair(Policy::Other, 4) },
        Attr::round_robin(10),
        Attr::round_robin(12),
        Attr::deadline(whole),
        Attr::fair(Policy::Other, 0),
    ];
    assert_eq!(attrs, expected);
}

#[test]
fn a_reservation_may_have_the_keys_of_older_files() {
    let attr = |task: &str| {
        let text = r#"{ "tasks": { "a": { "loop": 1, "policy": "SCHED_DEADLINE", TASK } } }"#.replace("TASK", task);
        parse(&text).rows()[0].1.deadline.map(|d| [d.runtime, d.deadline, d.period].map(|n| n.0 / 1000))
    };
    assert_eq!(attr(r#""runtime": 2000, "period": 9000"#), Some([2000, 9000, 9000]));
    assert_eq!(
        attr(r#""runtime": 2000, "deadline": 5000, "period": 9000, "phases": { "p": { "run": 1 } }"#),
        Some([2000, 5000, 9000])
    );
    assert_eq!(attr(r#""dl-runtime": 1000, "period": 9000, "runtime": 2000"#), Some([1000, 9000, 9000]));
    assert_eq!(attr(r#""dl-runtime": 1000, "run": 1"#), Some([1000, 1000, 1000]));
}

#[test]
fn sync_leaves_a_mutex_that_its_thread_holds() {
    let [signal, wait] = [Action::Signal(0), Action::Wait { cond: 0, mutex: 0 }];
    let (lock, unlock) = (Action::Lock(0), Action::Unlock(0));
    let sync = r#""sync": { "ref": "c", "mutex": "m" }"#;
    let alone = format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, {sync} }} }} }}"#);
    assert_eq!(actions(&alone), [lock.clone(), signal.clone(), wait.clone(), unlock.clone()]);
    let held = format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, "lock": "m", {sync}, "unlock": "m" }} }} }}"#);
    assert_eq!(actions(&held), [lock, signal, wait, unlock]);
}

#[test]
fn a_thread_suspends_with_its_tasks_name_or_with_the_given_one() {
    let text = r#"{ "tasks": {
        "a": { "loop": 1, "suspend" }, "b": { "loop": 1, "suspend": "" }, "c": { "loop": 1, "suspend": "both" },
        "alarm": { "loop": 1, "sleep": 1000, "resume": "a", "resume": "b", "resume": "both", "resume": "alarm" } } }"#;
    let report = run(text, 2);
    assert_eq!((report.failure.clone(), report.get("loops")), (None, Some(4.0)));
    let notes = parse(text).notes().join("\n");
    assert!(notes.contains("line 2: the name \"both\" of \"suspend\" counts"), "{notes}");
}

#[test]
fn a_timer_of_no_period_is_over_at_once_and_a_phase_may_never_end() {
    let report = run(
        r#"{ "global": { "duration": 0.01 }, "tasks": {
            "still": { "loop": 2, "run": 1000, "timer": { "ref": "unique", "period": 0 } },
            "for ever": { "loop": 1, "phases": { "p": { "loop": -1, "run": 500, "sleep": 500 }, "q": { "run": 1 } } } } }"#,
        2,
    );
    assert_eq!((report.failure.clone(), report.get("periods missed")), (None, Some(0.0)));
    assert!((2.0..2.1).contains(&ends(&report, 0)), "{}", ends(&report, 0));
    assert_eq!(report.tables[0].rows[1][2], "0", "its first phase is not over");
}

#[test]
fn one_event_makes_a_timer_absolute() {
    let text = r#"{ "tasks": { "a": { "loop": 1, "phases": {
        "p": { "run": 3000, "timer": { "ref": "unique", "period": 1000 } },
        "q": { "loop": 3, "timer": { "ref": "unique", "period": 1000, "mode": "absolute" } } } } } }"#;
    let report = run(text, 1);
    // Due at 1 ms and then at 2, 3 and 4: a relative timer would go on from 3 ms to 6.
    assert_eq!(report.failure, None);
    assert_eq!(ends(&report, 0).round(), 4.0);
}

#[test]
fn what_makes_no_difference_is_taken_and_told() {
    let notes = |global: &str, task: &str| {
        let text = format!("{{ \"resources\": {{ \"m\": {{ \"type\": \"mutex\" }} }}, \"global\": {{ {global} }},\n");
        parse(&format!("{text} \"tasks\": {{ \"a\": {{ \"loop\": 1, \"run\": 5,\n{task} }} }} }}")).notes().join("; ")
    };
    assert_eq!(notes(r#""cumulative_slack": true, "io_device": "/dev/sdb", "lock_pages": True"#, ""), "");
    for (task, expected) in [
        (r#""util_min": 100, "util_max": 1024"#, "line 3: \"util_min\" has no effect"),
        (r#""nodes_membind": [0, 1]"#, "line 3: \"nodes_membind\" has no effect"),
        (r#""taskgroup": "/tg1""#, "\"taskgroup\" has no effect"),
        (r#""dl-period": 5000"#, "SCHED_DEADLINE only"),
        (r#""policy": "SCHED_FIFO", "dl-runtime": 5000"#, "dl-runtime has no effect with SCHED_FIFO"),
        (r#""runtime": 5000"#, "rt-app asks for a slice"),
    ] {
        let notes = notes("", task);
        assert!(notes.contains(expected) && !notes.contains(';'), "{task}: {notes}");
    }
}

#[test]
fn task_groups_are_taken_where_no_two_compete() {
    let tasks = |a: &str, b: &str| {
        let text = r#"{ "global": { "duration": 1 }, "tasks": { "a": { A "run": 5 }, "b": { B "run": 5 } } }"#;
        Workload::parse(&text.replace('A', a).replace('B', b)).map(|workload| workload.notes().len())
    };
    let (one, two) = (r#""taskgroup": "/g","#, r#""taskgroup": "/h","#);
    let urgent = r#""policy": "SCHED_FIFO","#;
    assert_eq!(tasks(one, one), Ok(1), "the same group");
    assert_eq!(tasks(one, urgent), Ok(1), "the other one is in no group");
    assert_eq!(tasks(r#""taskgroup": "","#, r#""taskgroup": "/","#), Ok(0), "none");
    for (a, b) in [(one, two), (one, "")] {
        assert!(tasks(a, b).is_err_and(|wrong| wrong.what.contains("would share CPUs")));
    }
    // A thread alone may go where it likes.
    let alone = r#"{ "global": { "duration": 1 }, "tasks": { "a": { "phases": {
        "p": { "taskgroup": "/g/h", "run": 5 }, "q": { "taskgroup": "/", "run": 5 } } } } }"#;
    assert!(Workload::parse(alone).is_ok());
    assert!(Workload::parse(&alone.replace("\"phases\"", "\"instance\": 2, \"phases\"")).is_err());
}
