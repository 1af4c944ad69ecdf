//! Swarm testing (Groce et al. 2012): each seed draws its own machine, its own disturbances
//! and its own selection of features, and a program of random threads that use them.
//!
//! Every program ends by construction: mutexes are released, waits that no other thread ends have
//! timeouts, all members meet at their barriers the same number of times. So the kernel has lost
//! every thread that remains at the end.

use crate::config::{Config, Faults, Plant};
use crate::cost::Cost;
use crate::hardware::Hardware;
use crate::rng::Rng;
use crate::user::{Barrier, Cond, Mutex, Program, Step, TakeMessage, View, Who, after};
use crate::world::{Setup, World, start_and_join};
use ids::{CpuId, CpuMask, Nanos, Policy, Tid};
use kernel::Io;
use sched::{Attr, DeadlineParams};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The signal that swarm programs send each other.
const SIGNAL: i32 = 10;

/// Mailboxes have descriptors of their own from here on, which nothing else gets in a moment in which they are closed.
const MAILBOXES_FROM: u64 = 2000;

/// The features that a seed may use.
#[derive(Clone, Debug)]
struct Mix {
    rt: bool,
    round_robin: bool,
    deadline: bool,
    nice: bool,
    policy_changes: bool,
    affinity: bool,
    mask_changes: bool,
    mutexes: bool,
    pi: bool,
    conds: bool,
    sleeps: bool,
    yields: bool,
    host: bool,
    futexes: bool,
    clones: bool,
    signals: bool,
    storms: bool,
    long: bool,
    pipes: bool,
    children: bool,
    mail: bool,
}

impl Mix {
    fn draw(r: &mut Rng) -> Mix {
        let mut yes = |permille| r.permille(permille);
        Mix {
            rt: yes(750),
            round_robin: yes(300),
            deadline: yes(150),
            nice: yes(400),
            policy_changes: yes(400),
            affinity: yes(600),
            mask_changes: yes(400),
            mutexes: yes(700),
            pi: yes(400),
            conds: yes(400),
            sleeps: yes(800),
            yields: yes(500),
            host: yes(500),
            futexes: yes(600),
            clones: yes(300),
            signals: yes(400),
            storms: yes(250),
            long: yes(250),
            pipes: yes(400),
            children: yes(300),
            mail: yes(500),
        }
    }
}

/// One thing a swarm thread does.
#[derive(Clone, Debug)]
enum Act {
    Compute(u64),
    Sleep(u64),
    Yield,
    Mutex(usize, u64),
    Pi(usize, u64),
    Notify(usize),
    Await(usize, u64),
    Wait(usize, u64),
    Wake(usize),
    Host(u64),
    Policy(usize, Attr),
    /// Many changes at once.
    Storm(Vec<(usize, Attr, CpuMask)>),
    Nice(i8),
    Affinity(usize, CpuMask),
    Clone(Vec<Act>),
    Signal,
    Barrier,
    /// A thread writes pieces of these lengths into a pipe, another reads from it so.
    Pump(Vec<u64>, Reading),
    Child,
    /// Threads take messages out of a mailbox.
    Mail(Mail),
}

/// A mailbox and its threads.
#[derive(Clone, Debug)]
struct Mail {
    /// How many messages each thread takes.
    quotas: Vec<u64>,
    /// In how many nanoseconds all of them come.
    within: u64,
    /// The socket's time limit.
    limit: Option<Nanos>,
    /// The number of threads that ask `poll(2)` first.
    polling: usize,
    /// Pauses between changes of the descriptor, and whether they are made by `dup2(2)`.
    changes: Vec<(u64, bool)>,
}

/// How a stream is read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The most bytes at a time.
    at_once: u64,
    /// The pause before each read.
    pause: u64,
    /// A signal is sent before each pause to the writer, which may be waiting then.
    signals: bool,
}

/// State shared by the threads of one swarm.
struct Shared {
    mutexes: Vec<Mutex>,
    pi: Vec<Mutex>,
    /// Mutex, condition, word that says whether something is there.
    conds: Vec<(Mutex, Cond, u64)>,
    words: Vec<u64>,
    barrier: Barrier,
    /// How many mailboxes there were.
    mailboxes: Cell<u64>,
    /// The living threads, as far as the program knows.
    tids: RefCell<Vec<Tid>>,
}

/// The world of a seed: some 1,500 events on average.
pub fn swarm(seed: u64) -> World {
    Swarm { seed, length: 1, plant: None, hardware: None }.world()
}

/// A swarm to be made.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Everything random comes from it.
    pub seed: u64,
    /// How long the programs are: 1 for some 1,500 events on average, and in proportion.
    pub length: u64,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// The machine in place of a flat one with as many CPUs as the seed says.
    pub hardware: Option<Hardware>,
}

impl Swarm {
    /// Its world.
    pub fn world(self) -> World {
        let mut r = Rng::new(self.seed).fork(77);
        let mut config = Config { plant: self.plant, ..draw_config(self.seed, &mut r) };
        config.io = *Rng::new(self.seed).fork(78).pick(&[Io::Auto, Io::Poller, Io::Poller, Io::Threads]);
        config.timer_slack = Rng::new(self.seed).fork(79).permille(500);
        config.limit = Nanos(self.length * 4_000_000_000);
        if let Some(hardware) = self.hardware {
            config.cpus = hardware.cpus();
            // Its CPUs may be slow, and away for half of the time.
            config.limit = Nanos(config.limit.0 * 8);
            config.hardware = Some(hardware);
        }
        swarm_of(config, r, self.length)
    }
}

fn swarm_of(config: Config, mut r: Rng, length: u64) -> World {
    let mix = Mix::draw(&mut r);
    let cpus = config.cpus;
    let threads = r.between(1, 2 + 3 * cpus as u64).min(24) as usize;
    let rounds = if r.permille(300) { r.between(1, 3) as usize } else { 0 };
    let mut setup = Setup::new(config);
    let shared = Rc::new(Shared {
        mutexes: (0..3).map(|_| setup.mutex()).collect(),
        pi: (0..3).map(|_| setup.mutex()).collect(),
        conds: (0..2).map(|_| (setup.mutex(), setup.cond(), setup.words(1))).collect(),
        words: (0..4).map(|_| setup.words(1)).collect(),
        barrier: setup.barrier(threads as u32),
        mailboxes: Cell::new(0),
        tids: RefCell::default(),
    });
    let programs = (0..threads).map(|_| {
        let mut acts = draw_acts(&mut r, &mix, cpus, threads, length);
        for i in 0..rounds {
            let at = acts.len() * (i + 1) / (rounds + 1);
            acts.insert(at, Act::Barrier);
        }
        let first = draw_start(&mut r, &mix, cpus);
        after(first, thread(shared.clone(), acts))
    });
    let programs = programs.collect();
    setup.main(after([Step::Handle { signal: SIGNAL, restart: r.permille(500) }], start_and_join(programs)))
}

fn draw_config(seed: u64, r: &mut Rng) -> Config {
    let cpus = *r.pick(&[1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 8, 8, 13, 70]);
    let mut cost = Cost::host().scaled(*r.pick(&[25, 100, 100, 300]));
    cost.looks = *r.pick(&[0, 2, 5]);
    let faults = Faults {
        kick_late: *r.pick(&[0, 0, 20_000, 300_000]),
        kick_lost: *r.pick(&[0, 0, 300, 1000]),
        timer_late: *r.pick(&[0, 0, 100_000]),
    };
    let tick = Nanos(*r.pick(&[1_000_000, 1_000_000, 250_000, 4_000_000]));
    Config { tick, cost, faults, ..Config::new(seed, cpus) }
}

fn draw_span(r: &mut Rng, mix: &Mix) -> u64 {
    let most = if mix.long { 3_000_000 } else { 300_000 };
    // Short spans are as likely as long ones: uniform in the exponent.
    let bits = r.between(9, 63 - u64::from(u64::leading_zeros(most)));
    r.between(1 << (bits - 1), 1 << bits).min(most)
}

fn draw_attr(r: &mut Rng, mix: &Mix) -> Attr {
    let priority = if r.permille(500) { r.between(1, 4) } else { r.between(1, 99) } as u8;
    match r.below(10) {
        0..3 if mix.rt => Attr::fifo(priority),
        3..5 if mix.rt && mix.round_robin => Attr::round_robin(priority),
        5 if mix.deadline => {
            let period = r.between(2, 20) * 1_000_000;
            let runtime = r.between(period / 50, period / 4);
            Attr::deadline(DeadlineParams { runtime: Nanos(runtime), deadline: Nanos(period), period: Nanos(period) })
        }
        6 if mix.nice => Attr::fair(Policy::Batch, 0),
        7 if mix.nice => Attr::fair(Policy::Idle, 0),
        _ if mix.nice => Attr::fair(Policy::Other, r.between(0, 39) as i8 - 20),
        _ => Attr::DEFAULT,
    }
}

fn draw_mask(r: &mut Rng, cpus: usize) -> CpuMask {
    if r.permille(300) {
        return CpuMask::only(CpuId(r.below(cpus as u64) as u16));
    }
    let mask = CpuMask::from_words(&[r.bits(), r.bits()]).and(&CpuMask::first(cpus));
    if mask.is_empty() { CpuMask::first(cpus) } else { mask }
}

fn draw_start(r: &mut Rng, mix: &Mix, cpus: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    if mix.affinity && r.permille(500) {
        steps.push(Step::SetAffinity(Who::Me, draw_mask(r, cpus)));
    }
    if r.permille(700) {
        steps.push(Step::SetPolicy(Who::Me, draw_attr(r, mix)));
    }
    steps
}

fn draw_acts(r: &mut Rng, mix: &Mix, cpus: usize, threads: usize, length: u64) -> Vec<Act> {
    let n = r.between(10 * length, 160 * length);
    (0..n).map(|_| draw_act(r, mix, cpus, threads, 0)).collect()
}

fn draw_act(r: &mut Rng, mix: &Mix, cpus: usize, threads: usize, depth: u32) -> Act {
    loop {
        let span = draw_span(r, mix);
        let who = r.below(threads as u64 + 1) as usize;
        let act = match r.below(24) {
            0..6 => Act::Compute(span),
            6 | 7 if mix.sleeps => Act::Sleep(span),
            8 if mix.yields => Act::Yield,
            9 | 10 if mix.mutexes => Act::Mutex(r.below(3) as usize, span / 2),
            11 if mix.pi => Act::Pi(r.below(3) as usize, span / 2),
            12 if mix.conds => Act::Notify(r.below(2) as usize),
            13 if mix.conds => Act::Await(r.below(2) as usize, span),
            14 if mix.futexes => Act::Wait(r.below(4) as usize, span),
            15 if mix.futexes => Act::Wake(r.below(4) as usize),
            16 if mix.host => Act::Host(span),
            17 if mix.policy_changes => Act::Policy(who, draw_attr(r, mix)),
            18 if mix.storms && r.permille(300) => {
                let n = r.between(3, 12);
                let change =
                    |r: &mut Rng| (r.below(threads as u64 + 1) as usize, draw_attr(r, mix), draw_mask(r, cpus));
                Act::Storm((0..n).map(|_| change(r)).collect())
            }
            18 if mix.nice => Act::Nice(r.between(0, 39) as i8 - 20),
            19 if mix.mask_changes => Act::Affinity(who, draw_mask(r, cpus)),
            20 if mix.clones && depth < 2 => {
                let n = r.between(1, 8);
                Act::Clone((0..n).map(|_| draw_act(r, mix, cpus, threads, depth + 1)).collect())
            }
            21 if mix.signals => Act::Signal,
            22 if mix.pipes && r.permille(60) => {
                let pieces = (0..r.between(1, 6)).map(|_| r.between(1, 6_000)).collect();
                let pause = if r.permille(300) { span / 8 } else { 0 };
                Act::Pump(
                    pieces,
                    Reading { at_once: r.between(1, 3_000), pause, signals: mix.signals && r.permille(500) },
                )
            }
            22 if mix.mail && r.permille(40) => Act::Mail(draw_mail(r, span)),
            23 if mix.children && r.permille(100) => Act::Child,
            _ => continue,
        };
        return act;
    }
}

fn draw_mail(r: &mut Rng, span: u64) -> Mail {
    let readers = r.between(1, 8);
    let changes = if r.permille(500) { r.between(1, 4) } else { 0 };
    Mail {
        quotas: (0..readers).map(|_| r.between(1, 4)).collect(),
        within: span,
        limit: r.permille(300).then(|| Nanos(r.between(1, 400) * 1000)),
        polling: if r.permille(300) { r.below(readers + 1) as usize } else { 0 },
        changes: (0..changes).map(|_| (span / 8, r.permille(500))).collect(),
    }
}

/// A thread that others know as long as it lives.
fn known(shared: Rc<Shared>, mut program: impl FnMut(&mut View<'_>) -> Step + 'static) -> Box<dyn Program> {
    let mut begun = false;
    Box::new(move |v: &mut View<'_>| {
        if !std::mem::replace(&mut begun, true) {
            shared.tids.borrow_mut().push(v.tid);
        }
        let step = program(v);
        if matches!(step, Step::Exit) {
            shared.tids.borrow_mut().retain(|t| *t != v.tid);
        }
        step
    })
}

/// A swarm thread: does its acts, and exits.
fn thread(shared: Rc<Shared>, acts: Vec<Act>) -> Box<dyn Program> {
    let mut acts: std::collections::VecDeque<Act> = acts.into();
    let mut steps: std::collections::VecDeque<Step> = Default::default();
    let mut got = None;
    known(shared.clone(), move |v| {
        if let Some((mutex, entered)) = got.take() {
            // The mutex with inheritance may have been refused; then there is nothing to release.
            if v.result == 0 {
                steps.push_front(Step::UnlockPi(mutex));
                steps.push_front(Step::Compute(entered));
            }
        }
        loop {
            if let Some(step) = steps.pop_front() {
                return step;
            }
            let Some(act) = acts.pop_front() else { return Step::Exit };
            if let Act::Pi(i, n) = act {
                got = Some((shared.pi[i], Nanos(n)));
                return Step::LockPi(shared.pi[i]);
            }
            expand(&shared, act, v, &mut steps);
        }
    })
}

/// Makes a pipe and a thread that reads from it, and writes all pieces into it.
fn pump(shared: Rc<Shared>, pieces: Vec<u64>, how: Reading) -> Box<dyn Program> {
    let total = pieces.iter().sum();
    let mut pieces: std::collections::VecDeque<u64> = pieces.into();
    let (mut made, mut to, mut seq, mut closed) = (0, 0, 0, false);
    known(shared.clone(), move |v| {
        made += 1;
        match made {
            1 => return Step::Pipe,
            2 => {
                to = v.result as u64 >> 32;
                return Step::Clone(reader(shared.clone(), (v.result as u64 & 0xffff_ffff, v.tid), how, total));
            }
            // There is no reader: no thread could be made.
            3 if v.result <= 0 => pieces.clear(),
            _ => {}
        }
        if let Some(len) = pieces.pop_front() {
            seq += len;
            return Step::Send { fd: to, seq: seq - len, len };
        }
        if std::mem::replace(&mut closed, true) { Step::Exit } else { Step::Close(to) }
    })
}

/// Reads a stream to its end.
fn reader(shared: Rc<Shared>, (fd, writer): (u64, Tid), how: Reading, total: u64) -> Box<dyn Program> {
    let (mut seq, mut begun, mut over) = (0, false, false);
    let (mut before, mut resting) = (Vec::new(), false);
    known(shared, move |v| {
        if over {
            return Step::Exit;
        }
        if let Some(step) = before.pop() {
            return step;
        }
        if !std::mem::replace(&mut resting, true) {
            if std::mem::replace(&mut begun, true) {
                seq += v.result.max(0) as u64;
                if v.result <= 0 {
                    over = true;
                    return Step::Close(fd);
                }
            }
            if how.pause != 0 {
                before.push(Step::Sleep(Nanos(how.pause)));
                return if how.signals { Step::Signal(writer, SIGNAL) } else { before.remove(0) };
            }
        }
        resting = false;
        Step::Receive { fd, seq, len: how.at_once, total }
    })
}

/// Makes a mailbox and threads that take its messages, and changes its descriptor.
fn post_office(shared: Rc<Shared>, mail: Mail) -> Box<dyn Program> {
    let at = MAILBOXES_FROM + shared.mailboxes.replace(shared.mailboxes.get() + 1);
    let Mail { quotas, within, limit, polling, changes } = mail;
    let messages = quotas.iter().sum();
    let mut readers = quotas.into_iter().enumerate();
    let mut changes = changes.into_iter();
    let (mut spare, mut change) = (None, None);
    let mut begun = false;
    known(shared.clone(), move |v| {
        if !std::mem::replace(&mut begun, true) {
            return Step::Mailbox { messages, within: Nanos(within), limit, at };
        }
        let spare = *spare.get_or_insert(v.result as u64);
        if let Some((i, quota)) = readers.next() {
            let poll = (i < polling).then_some(if i % 2 == 0 { -1 } else { 1 });
            return Step::Clone(addressee(shared.clone(), TakeMessage { fd: at, spare, limit, poll }, quota));
        }
        if let Some(at_once) = change.take() {
            return Step::Renumber { fd: at, spare, at_once };
        }
        let Some((pause, at_once)) = changes.next() else { return Step::Exit };
        change = Some(at_once);
        Step::Sleep(Nanos(pause))
    })
}

/// Receives this many messages.
fn addressee(shared: Rc<Shared>, how: TakeMessage, mut quota: u64) -> Box<dyn Program> {
    known(shared, move |_| {
        if quota == 0 {
            return Step::Exit;
        }
        quota -= 1;
        Step::Message(how)
    })
}

fn expand(shared: &Rc<Shared>, act: Act, v: &mut View<'_>, steps: &mut std::collections::VecDeque<Step>) {
    let who = |i: usize| shared.tids.borrow().get(i).map_or(Who::Me, |&t| Who::Tid(t));
    match act {
        Act::Compute(n) => steps.push_back(Step::Compute(Nanos(n))),
        Act::Sleep(n) => steps.push_back(Step::Sleep(Nanos(n))),
        Act::Yield => steps.push_back(Step::Yield),
        Act::Mutex(i, n) => {
            let m = shared.mutexes[i];
            steps.extend([Step::Lock(m), Step::Compute(Nanos(n)), Step::Unlock(m)]);
        }
        Act::Pi(..) => {}
        Act::Notify(i) => {
            let (m, c, word) = shared.conds[i];
            v.store(word, 1);
            let tell = if v.rng.permille(500) { Step::CondSignal(c) } else { Step::CondBroadcast(c) };
            steps.extend([Step::Lock(m), tell, Step::Unlock(m)]);
        }
        Act::Await(i, n) => {
            let (m, _, word) = shared.conds[i];
            let timeout = Some(Nanos(n));
            steps.extend([Step::Lock(m), Step::Unlock(m), Step::FutexWait { addr: word, value: 0, timeout }]);
            v.store(word, 0);
        }
        Act::Wait(i, n) => {
            let addr = shared.words[i];
            steps.push_back(Step::FutexWait { addr, value: v.load(addr), timeout: Some(Nanos(n)) });
        }
        Act::Wake(i) => {
            let addr = shared.words[i];
            v.store(addr, v.load(addr).wrapping_add(1));
            steps.push_back(Step::FutexWake { addr, count: v.rng.between(1, 3) as u32 });
        }
        Act::Host(n) => steps.push_back(Step::Host(Nanos(n))),
        Act::Policy(i, attr) => steps.push_back(Step::SetPolicy(who(i), attr)),
        Act::Storm(changes) => {
            for (i, attr, mask) in changes {
                steps.extend([Step::SetPolicy(who(i), attr), Step::SetAffinity(who(i), mask)]);
            }
        }
        Act::Nice(n) => steps.push_back(Step::SetNice(Who::Me, n)),
        Act::Affinity(i, mask) => steps.push_back(Step::SetAffinity(who(i), mask)),
        Act::Clone(acts) => steps.push_back(Step::Clone(thread(shared.clone(), acts))),
        Act::Signal => {
            let tids = shared.tids.borrow();
            if !tids.is_empty() {
                steps.push_back(Step::Signal(*v.rng.pick(&tids), SIGNAL));
            }
        }
        Act::Pump(pieces, how) => steps.push_back(Step::Clone(pump(shared.clone(), pieces, how))),
        Act::Mail(mail) => steps.push_back(Step::Clone(post_office(shared.clone(), mail))),
        Act::Child => steps.push_back(Step::Child),
        Act::Barrier => steps.push_back(Step::Barrier(shared.barrier)),
    }
}
