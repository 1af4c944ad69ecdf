//! The meaning of files, and what is refused.

use super::*;

fn run(text: &str, cpus: usize) -> Report {
    let workload = Workload::parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
    workload.fits(cpus).unwrap_or_else(|wrong| panic!("{wrong}"));
    workload.run("test", 3, cpus, &Options::default())
}

/// How long it took from the moment at which all threads began.
fn span(report: &Report) -> u64 {
    report.time_ns - super::thread::BEGIN.0
}

fn cell(report: &Report, row: usize, column: usize) -> f64 {
    report.tables[0].rows[row][column].parse().unwrap()
}

#[test]
fn periodic_tasks_run_once_a_period_until_the_end() {
    let report = run(
        r#"{ "global": { "duration": 1, "default_policy": "SCHED_FIFO", "calibration": "CPU0", "logdir": "/tmp" },
             "tasks": { "a": { "instance": 2, "loop": -1, "run": 2000,
                               "timer": { "ref": "unique", "period": 10000, "mode": "absolute" } } } }"#,
        2,
    );
    assert_eq!(report.failure, None);
    for row in 0..2 {
        assert!((99.0..=101.0).contains(&cell(&report, row, 2)), "a loop each 10 ms for a second");
        assert_eq!(cell(&report, row, 6), 0.0, "none is missed");
        assert!(cell(&report, row, 5) < 100.0, "a CPU each");
    }
    assert_eq!(report.tables[0].rows[0][1], "Fifo 10");
}

#[test]
fn phases_loop_and_move() {
    let report = run(
        r#"{ "tasks": { "walker": { "loop": 3, "cpus": [0, 1], "phases": {
                "here": { "loop": 2, "cpus": [0], "run": 1000, "sleep": 500 },
                "there": { "cpus": [1], "runtime": 1000, "yield": "" } } } } }"#,
        2,
    );
    assert_eq!(report.failure, None);
    assert_eq!(cell(&report, 0, 2), 3.0);
    // Three rounds of two runs with sleeps, and one run.
    assert!((12_000_000..12_500_000).contains(&span(&report)), "{}", span(&report));
    assert!(report.get("migrations").is_some_and(|n| n >= 5.0), "there and back, and there at the end");
}

#[test]
fn locks_conditions_barriers_and_suspended_threads_meet() {
    let report = run(
        r#"{ "tasks": {
            "waiter": { "loop": 5, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "barrier": "b" },
            "caller": { "loop": 5, "sleep": 1000, "lock": "m", "signal": "c", "unlock": "m", "barrier": "b" },
            "asleep": { "loop": 2, "suspend": "asleep", "run": 10 },
            "alarm": { "loop": 2, "sleep": 2000, "resume": "asleep" } } }"#,
        2,
    );
    assert_eq!(report.failure, None);
    assert_eq!(report.get("loops"), Some(14.0));
}

#[test]
fn with_inheritance_an_owner_is_not_held_up_by_others() {
    let high_ends = |pi: &str| {
        let report = run(
            &r#"{ "global": { "pi_enabled": PI, "default_policy": "SCHED_FIFO" }, "tasks": {
                "low": { "loop": 1, "priority": 1, "delay": 2000, "lock": "m", "run": 3000, "unlock": "m" },
                "high": { "loop": 1, "priority": 9, "delay": 3000, "lock": "m", "run": 10, "unlock": "m" },
                "middle": { "loop": 1, "priority": 5, "delay": 3000, "run": 9000 } } }"#
                .replace("PI", pi),
            1,
        );
        assert_eq!((report.failure.clone(), report.get("loops")), (None, Some(3.0)));
        cell(&report, 1, 7)
    };
    assert!((5.0..6.0).contains(&high_ends("true")), "{}", high_ends("true"));
    assert!(high_ends("false") > 13.0, "the middle one runs first: {}", high_ends("false"));
}

#[test]
fn unique_timers_of_different_names_are_different_timers() {
    let report = run(
        r#"{ "tasks": { "a": { "loop": 1, "phases": {
            "light": { "loop": 10, "run": 1000, "timer": { "ref": "uniqueA", "period": 3000 } },
            "heavy": { "loop": 10, "run": 2000, "timer": { "ref": "uniqueB", "period": 5000 } } } } } }"#,
        1,
    );
    // The second timer counts from the beginning as well: its first period is over when it is first used. So ten times
    // 3 ms, once 2 ms, nine times 5 ms.
    assert_eq!((report.failure.clone(), report.get("periods missed")), (None, Some(1.0)));
    assert!((77.0..78.0).contains(&cell(&report, 0, 7)), "ten of each: {}", cell(&report, 0, 7));
}

#[test]
fn a_relative_timer_starts_over_after_a_miss_and_an_absolute_one_catches_up() {
    // The example of rt-app's tutorial: 10 of 20 ms, but 30 the third time.
    let ends = |mode: &str| {
        let phase = |name: &str, n: u32, ms: u32| {
            format!(
                r#""{name}": {{ "loop": {n}, "run": {}, "timer": {{ "ref": "unique", "period": 20000, "mode": "{mode}" }} }}"#,
                ms * 1000
            )
        };
        let phases = [phase("p", 2, 10), phase("q", 1, 30), phase("r", 2, 10)].join(", ");
        let report = run(&format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, "phases": {{ {phases} }} }} }} }}"#), 1);
        (cell(&report, 0, 6), cell(&report, 0, 7).round())
    };
    assert_eq!(ends("relative"), (1.0, 110.0));
    assert_eq!(ends("absolute"), (2.0, 100.0));
}

#[test]
fn sync_wakes_one_and_waits() {
    let report = run(
        r#"{ "tasks": {
            "a": { "loop": 3, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 100,
                   "sleep": 500, "signal": "c" },
            "b": { "loop": 3, "sleep": 2000, "sync": { "ref": "c", "mutex": "m" } } } }"#,
        2,
    );
    assert_eq!((report.failure.clone(), report.get("loops")), (None, Some(6.0)));
}

#[test]
fn phases_change_the_policy_and_a_refusal_is_a_failure() {
    let policies = |second: &str| {
        let text = r#"{ "tasks": { "a": { "loop": 1, "phases": {
            "first": { "run": 100 }, "second": { SECOND, "run": 100 } } } } }"#;
        run(&text.replace("SECOND", second), 1)
    };
    assert_eq!(policies(r#""policy": "SCHED_FIFO", "priority": 7"#).failure, None);
    let whole = r#""policy": "SCHED_DEADLINE", "dl-runtime": 10000, "dl-period": 10000"#;
    let failure = policies(whole).failure.expect("a whole CPU is not to be had");
    assert!(failure.contains("refused with error 16"), "EBUSY: {failure}");
}

#[test]
fn a_workload_that_hangs_is_a_failure() {
    let report = run(r#"{ "tasks": { "a": { "loop": 1, "suspend": "a" } } }"#, 1);
    assert!(report.failure.is_some_and(|f| f.contains("not all threads have ended")));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let task = |inside: &str| format!("{{\"tasks\": {{\"a\": {{\"loop\": 1,\n{inside}\n}}}}}}");
    for (text, line, expected) in [
        ("{}".to_owned(), 1, "no tasks"),
        (r#"{"tasks": []}"#.to_owned(), 1, "a list for \"tasks\": expected an object"),
        (r#"{"tusks": {}}"#.to_owned(), 1, "\"tusks\" is not known: expected tasks, global or resources"),
        ("{\"global\": {\n\"duration\": 0}}".to_owned(), 2, "expected seconds"),
        (
            "{\"global\": {\n\"io_device\": \"x\"}, \"tasks\": {\"a\": {\"loop\": 1, \"iorun\": 1}}}".to_owned(),
            2,
            "\"x\": expected \"/dev/null\"",
        ),
        (
            "{\"resources\": {\n\"s\": {\"type\": \"semaphore\"}}}".to_owned(),
            2,
            "a resource of type \"semaphore\": expected one of mutex",
        ),
        (r#"{"tasks": {"a": {"run": 10}}}"#.to_owned(), 1, "never ends"),
        (r#"{"tasks": {"a": {"loop": 1}}}"#.to_owned(), 1, "does nothing: expected events"),
        (task("\"util_min\": 1025"), 2, "1025: expected a whole number, -1 to 1024"),
        (task("\"memrun\": {}"), 2, "\"memrun\" is not built here, because"),
        (task("\"sem_post\": 1"), 2, "1: expected a name in quotes"),
        (task("\"run\": 1, \"taskgroup\": \"g\""), 2, "the group \"g\": expected a name that begins with /"),
        (
            task("\"run\": 1, \"taskgroup\": \"/g\", \"policy\": \"SCHED_FIFO\""),
            2,
            "the group \"/g\" with Fifo: expected SCHED_OTHER",
        ),
        (task("\"run\": 1, \"instance\": 2}, \"b\": {\n\"loop\": 1, \"run\": 1, \"taskgroup\": \"/g\""), 3, "the group \"/g\" would share"),
        (task("\"mem\": -1"), 2, "-1: expected a whole number"),
        (task("\"fork\": \"b\""), 2, "no task is called \"b\""),
        (task("\"fork\": \"a\""), 2, "the task \"a\" forks itself: expected an end"),
        (
            "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1,\n\"fork\": \"b\"}, \"b\": {\"loop\": 1, \"barrier\": \"x\"}}}"
                .to_owned(),
            2,
            "the task \"b\" has a barrier: expected none",
        ),
        (task("\"dance\": 10"), 2, "\"dance\" is not known"),
        (task("\"run\": \"x\""), 2, "\"x\": expected microseconds"),
        (task("\"run\": -5"), 2, "-5: expected microseconds"),
        (task("\"run\": 5, \"loop\": 6"), 2, "the key \"loop\" is there twice (first in line 1): expected it once"),
        (task("\"run\": 5, \"cpus\""), 2, "null: expected a list of CPUs"),
        (task("\"run\": 5, \"policy\": \"FIFO\""), 2, "expected SCHED_OTHER"),
        (task("\"run\": 5, \"policy\": \"SCHED_FIFO\", \"priority\": 0"), 2, "priority 0 with Fifo: expected 1 to 99"),
        (task("\"run\": 5, \"priority\": 50"), 2, "expected -20 to 19"),
        (task("\"run\": 5, \"policy\": \"SCHED_DEADLINE\""), 1, "expected \"dl-runtime\""),
        (task("\"run\": 5, \"cpus\": []"), 2, "at least one CPU"),
        (task("\"run\": 5, \"instance\": 1.5"), 2, "1.5: expected a whole number"),
        (task("\"timer\": {\"ref\": \"t\"}"), 2, "incomplete timer"),
        (task("\"wait\": {\"ref\": \"c\"}"), 2, "incomplete wait"),
        (task("\"barrier0\": \"b\", \"barrier1\": \"b\""), 1, "the barrier \"b\" twice"),
        (task("\"suspend\": \"b\""), 2, "nothing resumes \"b\""),
        (task("\"resume\": \"b\""), 2, "no task is called \"b\""),
        (task("\"phases\": {\"p\": {\"loop\": -1, \"run\": 1}}"), 1, "the task \"a\" never ends"),
        (task("\"run\": 1, \"phases\": {}"), 2, "inside of a phase"),
    ] {
        let wrong = Workload::parse(&text).expect_err(&text);
        assert_eq!(wrong.line, line, "{text}: {wrong}");
        assert!(wrong.what.contains(expected), "{text}: {wrong}");
    }
    let four = Workload::parse(&task("\"run\": 1,\n\"cpus\": [3]")).unwrap();
    assert_eq!(four.fits(4), Ok(()));
    let wrong = four.fits(2).unwrap_err();
    assert_eq!((wrong.line, wrong.what.as_str()), (3, "CPU 3: expected one of 0 to 1 (--cpus)"));
}

#[test]
fn memory_takes_time_and_the_null_device_hardly_any() {
    let report = run(
        r#"{ "global": { "mem_buffer_size": 1048576, "io_device": "/dev/null" },
             "tasks": { "writer": { "loop": 2, "mem": 10485760, "iorun": 10485760 } } }"#,
        1,
    );
    assert_eq!(report.failure, None);
    // Twice ten thousand KiB, and twenty calls.
    let cost = Options::default().cost;
    let expected = 2 * (10_240 * cost.memory + 10 * cost.call);
    assert!((expected..expected + 1_000_000).contains(&span(&report)), "{} of {expected}", span(&report));
}

#[test]
fn forked_threads_run_beside_and_are_measured_together() {
    let of = |worker: &str| {
        let text = r#"{ "tasks": {
            "listener": { "loop": 4, "sleep": 1000, "fork": "worker", "cpus": [0], "policy": "SCHED_FIFO", "priority": 9 },
            "other": { "loop": 1, "run": 10, "fork": "worker" },
            "worker": { "instance": 0, "loop": 3, "policy": "SCHED_FIFO", "priority": 5, WORKER "run": 2000, "sleep": 100 } } }"#;
        run(&text.replace("WORKER", worker), 6)
    };
    let free = of(r#""cpus": [0, 1, 2, 3, 4, 5],"#);
    assert_eq!(free.failure, None);
    let rows = &free.tables[0].rows;
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["listener-0", "other-0", "worker, forked"]);
    assert_eq!(rows[2][1], "Fifo 5");
    assert_eq!(cell(&free, 2, 2), 15.0, "five threads, three loops each");
    // The last one begins at 4 ms.
    assert!((10_000_000..10_800_000).contains(&span(&free)), "{}", span(&free));
    // Four of them share the CPU to which their creator is bound.
    let bound = of("");
    assert_eq!((bound.failure.clone(), cell(&bound, 2, 2)), (None, 15.0));
    assert!((24_000_000..26_500_000).contains(&span(&bound)), "{}", span(&bound));
}

#[test]
fn a_thread_that_forks_without_end_is_a_failure() {
    let report = run(
        r#"{ "global": { "duration": 0.01 }, "tasks": {
            "bomb": { "loop": -1, "fork": "splinter" }, "splinter": { "instance": 0, "loop": 1, "run": 1 } } }"#,
        2,
    );
    assert!(report.failure.is_some_and(|f| f.contains("could not be forked: error 11")), "EAGAIN");
}

#[test]
fn conditions_work_with_mutexes_that_inherit() {
    let report = run(
        r#"{ "global": { "pi_enabled": true },
             "tasks": {
            "waiter": { "instance": 2, "loop": 5, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m" },
            "caller": { "loop": 5, "sleep": 1000, "lock": "m", "broad": "c", "run": 100, "unlock": "m" } } }"#,
        2,
    );
    assert_eq!(report.failure, None);
    assert_eq!(report.get("loops"), Some(15.0));
}
