//! Timers that continue where others were dumped, and the changes of a CPU's expiry that follow.

use super::*;
use std::vec::Vec;

const C0: CpuId = CpuId(0);

fn timer(base: Base) -> Timer {
    Timer::new(base, Notify::Process { signo: 10, thread: false }, 7, 1)
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn at(n: u64) -> WallClocks {
    WallClocks { monotonic: ms(n), realtime: ms(1_000_000 + n), boottime: ms(n + 5), tai: ms(n + 9) }
}

/// A CPU clock that remembers what was armed on it.
#[derive(Default)]
struct Clock(Vec<(TimerKey, Nanos)>);

impl CpuClocks for Clock {
    fn read(&self, _: Base) -> Option<Nanos> {
        Some(ms(3))
    }
    fn arm(&mut self, _: Base, key: TimerKey, at: Nanos) {
        self.0.push((key, at));
    }
    fn disarm(&mut self, _: Base, key: TimerKey) {
        self.0.retain(|(armed, _)| *armed != key);
    }
}

fn create(t: &PosixTimers, base: Base) -> i32 {
    t.create(None, timer(base), C0, Nanos(0)).unwrap() as i32
}

/// The same state in a timer of another process.
fn resumed(dump: &TimerDump, base: Base, cpu: &mut Clock) -> (PosixTimers, (TellCpu, Option<TimerKey>)) {
    let t = PosixTimers::new(1).unwrap();
    let id = create(&t, base);
    let told = t.resume(id, dump, cpu).unwrap();
    (t, told)
}

fn dump(t: &PosixTimers, id: i32) -> TimerDump {
    t.table.look(id, Timer::dump).unwrap()
}

#[test]
fn what_runs_goes_on_on_its_own_clock() {
    let t = PosixTimers::new(1).unwrap();
    for (base, absolute, counts_on) in [
        (Base::Monotonic, false, Base::Monotonic),
        (Base::Realtime, true, Base::Realtime),
        (Base::Realtime, false, Base::Monotonic),
        (Base::Tai, false, Base::Tai),
    ] {
        let id = create(&t, base);
        let setting = ItimerValue { value: ms(2_000_000), interval: ms(30) };
        let _ = t.settime(id, setting, false, absolute, &at(1), None).unwrap();
        let (dump, mut cpu) = (dump(&t, id), Clock::default());
        let (other, told) = resumed(&dump, base, &mut cpu);
        let expires = dump.expires.unwrap();
        assert_eq!(told, (Some(First { cpu: C0, base: counts_on, at: expires }), None), "{base:?}");
        assert_eq!(other.gettime(0, &at(1), None), t.gettime(id, &at(1), None));
        assert!(cpu.0.is_empty());
    }
}

#[test]
fn a_timer_on_cpu_time_goes_on_there() {
    let dump = TimerDump {
        interval: ms(4),
        expires: Some(ms(11)),
        absolute: false,
        overrun: 2,
        overrun_last: 6,
        signal_pending: false,
    };
    for base in [Base::ProcessCpu(crate::CpuClock::Sched), Base::ThreadCpu(crate::CpuClock::Prof, 9)] {
        let mut cpu = Clock::default();
        let (other, told) = resumed(&dump, base, &mut cpu);
        assert_eq!(told, (None, None));
        assert_eq!(cpu.0.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [ms(11)]);
        assert_eq!(other.table.overrun(0), Ok(6));
    }
}

#[test]
fn what_was_on_its_way_is_fired_and_what_stood_still_stands_still() {
    let idle = TimerDump {
        interval: ms(0),
        expires: None,
        absolute: false,
        overrun: -1,
        overrun_last: 0,
        signal_pending: false,
    };
    let mut cpu = Clock::default();
    assert_eq!(resumed(&idle, Base::Monotonic, &mut cpu).1, (None, None));
    let pending = TimerDump { signal_pending: true, interval: ms(5), expires: Some(ms(20)), overrun: 3, ..idle };
    let (t, (tell, key)) = resumed(&pending, Base::Monotonic, &mut cpu);
    assert_eq!(tell, None);
    let signal = t.fire(key.unwrap(), &mut IgnoredTimers::new(), |_| true, |_| false).unwrap();
    assert_eq!((signal.id, signal.value), (0, 7));
    let delivery = t.deliver(signal.key, &at(31), &mut cpu);
    let tell = Some(First { cpu: C0, base: Base::Monotonic, at: ms(35) });
    assert_eq!(delivery, Delivery::Signal { overrun: 6, tell }, "three before, and those at 20, 25 and 30");
    assert_eq!(t.resume(5, &idle, &mut cpu).unwrap_err(), Error::Invalid);
}

/// A timer on CLOCK_REALTIME moves between two clocks: its remaining time is shown on one and its expiry comes by the
/// other.
#[test]
fn a_relative_time_after_an_absolute_one_counts_on_the_monotonic_clock() {
    let t = PosixTimers::new(1).unwrap();
    let id = create(&t, Base::Realtime);
    let span = |n| ItimerValue { value: ms(n), interval: ms(0) };
    let _ = t.settime(id, span(1_000_100), true, true, &at(0), None).unwrap();
    let (old, tell) = t.settime(id, span(50), true, false, &at(20), None).unwrap();
    assert_eq!((old, tell), (span(80), Some(First { cpu: C0, base: Base::Monotonic, at: ms(70) })));
    let (old, tell) = t.settime(id, span(30), true, false, &at(30), None).unwrap();
    assert_eq!((old, tell), (span(40), Some(First { cpu: C0, base: Base::Monotonic, at: ms(60) })));
}

/// Counts how often it is read.
struct Counted(WallClocks, core::cell::Cell<u32>);

impl ReadClock for Counted {
    fn read(&self, base: Base) -> Option<Nanos> {
        self.1.set(self.1.get() + 1);
        self.0.read(base)
    }
}

/// Clocks are read only where a relative value needs them.
#[test]
fn who_does_not_want_the_old_setting_gets_the_same_new_one() {
    let t = PosixTimers::new(1).unwrap();
    for (absolute, value, expires) in [(false, 50, Some(70)), (true, 50, Some(50)), (false, 0, None), (true, 0, None)] {
        let id = create(&t, Base::Boottime);
        let new = ItimerValue { value: ms(value), interval: ms(1) };
        let now = Counted(WallClocks { boottime: ms(20), ..at(0) }, Default::default());
        let (old, tell) = t.settime(id, new, false, absolute, &now, None).unwrap();
        assert_eq!(now.1.get(), u32::from(value != 0 && !absolute));
        assert_eq!(old, ItimerValue::default());
        assert_eq!(tell, expires.map(|n| First { cpu: C0, base: Base::Boottime, at: ms(n) }), "{absolute} {value}");
        assert_eq!(t.table.look(id, Timer::expires), Ok(ms(expires.unwrap_or(0))));
        t.delete(id, None).unwrap();
    }
}

#[test]
fn a_clock_whose_thread_is_gone_reads_nothing() {
    let t = PosixTimers::new(1).unwrap();
    let id = create(&t, Base::ThreadCpu(crate::CpuClock::Sched, 9));
    let new = ItimerValue { value: ms(5), interval: ms(5) };
    let refused = t.settime(id, new, true, false, &at(1), Some(&mut NoCpuClocks)).unwrap_err();
    assert_eq!(refused, Refused::Error(Error::NoSuchProcess));
    assert_eq!(t.settime(id, new, true, false, &at(1), None).unwrap_err(), Refused::NeedsProcess);
    assert_eq!(t.gettime(id, &at(1), Some(&mut NoCpuClocks)), Ok(ItimerValue::default()));
}

#[test]
fn who_takes_a_timer_is_told_what_it_was() {
    let t = PosixTimers::new(1).unwrap();
    let id = t.create(None, timer(Base::Monotonic), C0, ms(77)).unwrap() as i32;
    let setting = ItimerValue { value: ms(40), interval: ms(6) };
    let _ = t.settime(id, setting, false, false, &at(2), None).unwrap();
    let taken = t.take(id, None).unwrap();
    assert_eq!((taken.listed.id as i32, taken.listed.created, taken.queued), (id, ms(77), false));
    assert_eq!((taken.listed.timer.interval(), taken.listed.timer.expires()), (ms(6), ms(42)));
}

#[test]
fn a_cpu_is_used_while_a_timer_has_its_home_there() {
    let t = PosixTimers::new(2).unwrap();
    assert!(!t.queues.is_used(C0));
    for base in [Base::Monotonic, Base::Realtime, Base::Boottime, Base::Tai] {
        let ids = [create(&t, base), create(&t, base)];
        for id in ids {
            assert!(t.queues.is_used(C0) && !t.queues.is_used(CpuId(1)), "{base:?}");
            t.delete(id, None).unwrap();
        }
        assert!(!t.queues.is_used(C0), "{base:?}");
    }
}

/// The second call counts: the timer is in its queue once.
#[test]
fn what_is_resumed_twice_is_armed_once() {
    let (t, mut cpu) = (PosixTimers::new(1).unwrap(), Clock::default());
    let id = create(&t, Base::Monotonic);
    let _ = t.settime(id, ItimerValue { value: ms(5), interval: ms(0) }, false, false, &at(0), None).unwrap();
    for expires in [20, 10, 30] {
        let dump = TimerDump { interval: ms(0), expires: Some(ms(expires)), ..dump(&t, id) };
        let _ = t.resume(id, &dump, &mut cpu).unwrap();
    }
    assert_eq!(t.pop_due(C0, &at(29)), None);
    assert!(t.pop_due(C0, &at(30)).is_some());
    assert_eq!(t.pop_due(C0, &at(60)), None);
}
