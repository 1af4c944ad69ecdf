//! `execve(2)`: the new program runs under Entresol, too.
//!
//! The program's environment does not show us; exec adds the two variables that load the image to what the program
//! gave. For a program that glibc's linker does not load, exec opens the file and executes the image in its place
//! (`entrance::Load`). A file that the image cannot enter (`entrance`) gets nothing added and runs natively, or is
//! refused (`base/natives.rs`). Pending signals go to the host (`linux/src/exec.rs`).

use crate::base::clock::Clock;
use crate::base::dispositions::{self, CLONING_MASK, FAULTS};
use crate::base::handover::Handover;
use crate::base::natives::Reason;
use crate::base::os::{self, nr};
use crate::base::report::Text;
use crate::carriers::carrier::Carrier;
use crate::carriers::outside;
use crate::process::Process;
use crate::services::entrance::{self, File, Load, Obstacle, Way};
use crate::services::{alone, caught, lent_scheduling};
use abi::args::{F_SETFD, FD_CLOEXEC};
use abi::{Errno, SigSet};
use alloc::vec::Vec;
use arch::context::pending;
use arch::{syscall, user};
use core::fmt::Write;
use ids::ThreadIdx;
use kernel::machine::Times;
use kernel::{Call, Carried};
use linux::{Inheritance, Linux};
use sync::atomic::Ordering::*;

/// The most bytes of the loader's list that are read: the image's path.
const PREFIX_MAX: usize = 512;
const OPTIONS: &[u8] = b"ENTRESOL_OPTIONS=";
/// The variable with the name of a program that the image loads.
const FILE: &[u8] = b"ENTRESOL_FILE=";
/// The most strings in an environment.
const STRINGS_MAX: usize = 1 << 20;

/// Memory that a call needs until it has succeeded or failed.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    options: Vec<u8>,
    environment: Environment,
    /// The program's path, if the call names the image.
    path: Vec<u8>,
    /// For a program that the image loads: its name, and its arguments if they are not those of the call.
    file: Vec<u8>,
    words: Vec<Vec<u8>>,
    arguments: Vec<u64>,
}

/// The state that a new program inherits.
struct Inherited {
    carried: Carried,
    ignored: SigSet,
    /// The clock's rate, if it is known well enough.
    rate: Option<u64>,
    /// The mask for the call itself, if it is not set yet.
    mask: Option<u64>,
    /// The timer slack for the call itself, in nanoseconds, if it is not set yet. Not earlier: with a long one the host
    /// may never end our own short sleeps.
    slack: Option<u64>,
    /// Signals whose handlers the rest of the process needs until the call succeeds.
    needed: u64,
}

/// Makes the call; returns only if it failed. If the host takes the file for the image, the program's own file is
/// executed, under the name that the call has.
fn exec(handover: &Handover, call: &Call, inherited: &Inherited, lent: &mut Lent) -> isize {
    let named = File::of(call);
    if named.is_for_host() {
        return host(call, inherited);
    }
    match named.behind(handover) {
        // An inner `entresol run` executes the image around it, which is its own.
        Some(_) if is_from_inner_run(strings(call)[1]) => host(call, inherited),
        Some(path) => {
            lent.path = path;
            let [argv, envp] = strings(call);
            let args = [lent.path.as_ptr() as u64, argv, envp, 0, 0, 0];
            exec_file(handover, &Call { nr: nr::EXECVE, args }, &named, inherited, lent)
        }
        _ => exec_file(handover, call, &named, inherited, lent),
    }
}

/// The addresses of arguments and environment.
fn strings(call: &Call) -> [u64; 2] {
    if call.nr == nr::EXECVE { [1, 2] } else { [2, 3] }.map(|at| call.args[at])
}

fn exec_file(handover: &Handover, call: &Call, named: &File, inherited: &Inherited, lent: &mut Lent) -> isize {
    let required = Carrier::my_process().m.natives.are_refused();
    match entrance::look(handover, &File::of(call)) {
        Way::Around(obstacle) => natively(call, inherited, obstacle),
        Way::Unknown(error) | Way::Unseen(error) if required => error.to_ret(),
        Way::Load(load) => {
            let fd = load.fd;
            let result = self::load(handover, call, named, inherited, lent, load);
            os::close(fd);
            result
        }
        Way::In | Way::Unseen(_) => enter(handover, call, inherited, lent),
        Way::Nowhere | Way::Unknown(_) => host(call, inherited),
    }
}

/// Executes the program with the image, if the image can enter it.
fn enter(handover: &Handover, call: &Call, inherited: &Inherited, lent: &mut Lent) -> isize {
    let envp_at = if call.nr == nr::EXECVE { 2 } else { 3 };
    let mut args = call.args;
    lent.options = handover.options_for(&inherited.carried, inherited.ignored, inherited.rate);
    match environment(handover, &lent.options, args[envp_at]) {
        Ok(environment) => {
            lent.environment = environment;
            args[envp_at] = lent.environment.pointers.as_ptr() as u64;
            host(&Call { args, ..*call }, inherited)
        }
        // The host checks the path first, and finds the same error.
        Err(_) => host(call, inherited),
    }
}

/// Executes the image in the program's place.
fn load(handover: &Handover, call: &Call, named: &File, inherited: &Inherited, lent: &mut Lent, load: Load) -> isize {
    let [argv, envp] = strings(call);
    // An inner `entresol run` executes its own image, with all that this one would add.
    if is_from_inner_run(envp) {
        return host(call, inherited);
    }
    lent.options = handover.options_for(&inherited.carried, inherited.ignored, inherited.rate);
    lent.options.pop();
    let mut text = Text::<96>::default();
    let _ = write!(text, ";program={};name=", load.fd);
    for byte in named.process_name() {
        let _ = write!(text, "{byte:02x}");
    }
    lent.options.extend_from_slice(text.as_bytes());
    lent.options.push(0);
    lent.file = [FILE, &named.whole_name(false).unwrap_or_default()].concat();
    lent.words = load.words;
    let prepared = environment(handover, &lent.options, envp).and_then(|mut environment| {
        // Behind the program's own strings, which follow its arguments in memory; a null ends them.
        environment.pointers.insert(environment.pointers.len() - 1, lent.file.as_ptr() as u64);
        lent.environment = environment;
        arguments(&lent.words, argv)
    });
    match prepared {
        Ok(arguments) => lent.arguments = arguments,
        // The host finds the same error.
        Err(_) => return host(call, inherited),
    }
    let argv = if lent.words.is_empty() { argv } else { lent.arguments.as_ptr() as u64 };
    // SAFETY: changes a flag of a descriptor of ours.
    let survive =
        |survives: bool| unsafe { syscall!(nr::FCNTL, load.fd, F_SETFD, if survives { 0 } else { FD_CLOEXEC }) };
    survive(true);
    let args = [entrance::executed(handover).as_ptr() as u64, argv, lent.environment.pointers.as_ptr() as u64, 0, 0, 0];
    let result = host(&Call { nr: nr::EXECVE, args }, inherited);
    if result != Errno::EACCES.to_ret() {
        return result;
    }
    // The program itself may be executed, but not the image: a rule of Landlock, for one.
    survive(false);
    natively(call, inherited, Obstacle { reason: Reason::ImageForbidden, file: named.name() })
}

/// The arguments of a script's interpreter: these words, in reverse order, in place of the first argument. Empty
/// without words.
fn arguments(words: &[Vec<u8>], argv: u64) -> Result<Vec<u64>, Errno> {
    let mut pointers: Vec<u64> = words.iter().rev().map(|word| word.as_ptr() as u64).collect();
    let mut index = 0;
    while !words.is_empty() && argv != 0 {
        let string = user::load_u64(argv + index * 8).map_err(|_| Errno::EFAULT)?;
        if string == 0 {
            break;
        }
        if index > 0 {
            pointers.push(string);
        }
        index += 1;
        if pointers.len() > STRINGS_MAX {
            return Err(Errno::E2BIG);
        }
    }
    pointers.push(0);
    Ok(pointers)
}

/// Whether the command has made this environment for the image that it executes: programs do not see these variables.
fn is_from_inner_run(envp: u64) -> bool {
    has_entry(envp, FILE) && has_entry(envp, OPTIONS)
}

/// Whether an environment has a variable, by its name with the equals sign.
fn has_entry(envp: u64, name: &[u8]) -> bool {
    let mut at = envp;
    while envp != 0
        && let Ok(string @ 1..) = user::load_u64(at)
    {
        let mut start = [0; 32];
        let seen = read_prefix(string, &mut start[..name.len()]);
        if &start[..seen] == name {
            return true;
        }
        at += 8;
    }
    false
}

/// Executes a program that the image cannot enter. The user is told, or has forbidden it: then EPERM, after which no
/// caller tries another file of that name, nor takes this one for a script.
fn natively(call: &Call, inherited: &Inherited, Obstacle { reason, file }: Obstacle) -> isize {
    let k = Carrier::my_process();
    let natives = &k.m.natives;
    natives.add(reason, &file);
    // If a borrower succeeds, its memory would leak.
    drop(file);
    if natives.are_refused() {
        return Errno::EPERM.to_ret();
    }
    if !Carrier::is_borrowed() {
        natives.end();
    }
    let before = lent_scheduling::lend(k, &inherited.carried);
    let result = host(call, inherited);
    before.restore();
    natives.take_back(reason);
    result
}

/// Makes the call; ERESTARTNOINTR if a signal arrived before it began.
fn host(call: &Call, inherited: &Inherited) -> isize {
    let handed_back = dispositions::hand_back(inherited.ignored, inherited.needed);
    // The call only returns on failure, with nothing changed.
    let before = inherited.mask.map(|mask| os::sigprocmask(2, mask));
    inherited.slack.into_iter().for_each(os::set_timer_slack);
    let result = os::interruptible(call);
    if inherited.slack.is_some() {
        os::set_timer_slack(os::FINEST);
    }
    if let Some(before) = before {
        os::sigprocmask(2, before);
    }
    if handed_back.restore() && !Carrier::is_borrowed() {
        recover_dropped();
    }
    result
}

/// Repeats signals of our own that the host may have dropped while it ignored them: a tick of this carrier, a call of
/// the service thread. One too many is harmless.
fn recover_dropped() {
    let me = Carrier::me();
    me.alarms.forget();
    me.gs.pending.fetch_or(pending::TIMER, AcqRel);
    me.process().m.service.call();
}

#[derive(Debug, Default)]
struct Environment {
    pointers: Vec<u64>,
    /// Keeps a joined loader string alive until the call.
    _joined: Option<Vec<u8>>,
}

/// The program's environment with ours. Strings are not copied, only their addresses.
fn environment(handover: &Handover, options: &[u8], envp: u64) -> Result<Environment, Errno> {
    let mut pointers = Vec::new();
    let mut joined = None;
    // A program that sets these variables itself is an inner `entresol run`: its options win.
    let mut own_options = None;
    let mut own_loader = None;
    let mut other_loader = None;
    let name = handover.loader.iter().position(|&b| b == b'=').map_or(0, |i| i + 1);
    let mut at = envp;
    loop {
        if envp == 0 {
            break;
        }
        let string = user::load_u64(at).map_err(|_| Errno::EFAULT)?;
        if string == 0 {
            break;
        }
        if begins_with(string, &handover.loader[..handover.loader.len() - 1]) {
            own_loader = Some(string);
        } else if begins_with(string, &handover.loader[..name]) {
            other_loader = Some(string);
        } else if begins_with(string, OPTIONS) {
            own_options = Some(string);
        } else if !begins_with(string, FILE) {
            pointers.push(string);
        }
        if pointers.len() > STRINGS_MAX {
            return Err(Errno::E2BIG);
        }
        at += 8;
    }
    if let Some(other) = other_loader {
        let value = other + name as u64;
        match own_options.filter(|&options| is_image(value, options)) {
            Some(_) => own_loader = Some(other),
            None => joined = Some(join(&handover.loader, value)),
        }
    }
    let ours = joined.as_ref().unwrap_or(&handover.loader).as_ptr() as u64;
    pointers.push(own_loader.unwrap_or(ours));
    pointers.push(own_options.filter(|_| own_loader.is_some()).unwrap_or(options.as_ptr() as u64));
    pointers.push(0);
    Ok(Environment { pointers, _joined: joined })
}

/// Whether the string begins with `beginning`; reads no more of it than necessary. False if it cannot be read.
fn begins_with(string: u64, beginning: &[u8]) -> bool {
    let mut byte = [0];
    beginning.iter().zip(string..).all(|(&wanted, at)| user::read(at, &mut byte).is_ok() && byte[0] == wanted)
}

fn read_prefix(at: u64, to: &mut [u8]) -> usize {
    for i in 0..to.len() {
        if user::read(at + i as u64, &mut to[i..=i]).is_err() || to[i] == 0 {
            return i;
        }
    }
    to.len()
}

/// Whether the loader's list begins with the image that these options name: an inner `entresol run` has brought another
/// one.
fn is_image(list: u64, options: u64) -> bool {
    let (mut path, mut text) = ([0; PREFIX_MAX], [0; HEAD]);
    let (in_path, in_text) = (read_prefix(list, &mut path), read_prefix(options, &mut text));
    let (path, text) = (&path[..in_path], &text[..in_text]);
    let image = text.split(|&b| b == b';').find_map(|pair| pair.strip_prefix(b"image="));
    image.is_some_and(|image| !image.is_empty() && path.starts_with(image))
}

/// Our loader string followed by the program's own list.
fn join(loader: &[u8], mut rest: u64) -> Vec<u8> {
    let mut all = loader[..loader.len() - 1].to_vec();
    all.push(b':');
    let mut byte = [0];
    while user::read(rest, &mut byte).is_ok() && byte[0] != 0 && all.len() < 4096 {
        all.push(byte[0]);
        rest += 1;
    }
    all.push(0);
    all
}

/// The most bytes of our options that are read.
const HEAD: usize = 4096;

/// Executes a program for the thread `t`, which is current on the caller's CPU. Returns only on failure.
pub fn by_thread(handover: &Handover, t: ThreadIdx, call: &Call) -> isize {
    if let Some(error) = File::of(call).missing() {
        return error;
    }
    let me = Carrier::me();
    loop {
        let result = attempt(me, handover, t, call);
        // A tick may also end an attempt. No handler runs then, and only this loop makes the call again.
        if result != Errno::ERESTARTNOINTR.to_ret() || me.process().interrupted(t) {
            return result;
        }
        me.gs.interrupt.store(0, SeqCst);
    }
}

/// One attempt; on return everything is as before. ERESTARTNOINTR if it was ended before the host began the call.
fn attempt(me: &'static Carrier, handover: &Handover, t: ThreadIdx, call: &Call) -> isize {
    let k = me.process();
    k.join_pending(t);
    if alone::close(k) {
        return Errno::ERESTARTNOINTR.to_ret();
    }
    let mask = k.blocked(t);
    if !can_be_read(mask, call) {
        return os::interruptible(call);
    }
    Linux(k).hand_on_times(&k.times_to_hand_on(false), false);
    me.alarms.refuse_rings();
    me.refuse_kicks();
    // A program that ends at once publishes no page, and would leave this one behind.
    let had_page = k.m.page.withdraw();
    let mut signals = None;
    let result = caught::with_handlers_caught(me, || {
        with_mask(me, mask.0, || {
            signals = Some(Linux(k).hand_on_signals(t));
            // The new program would not get a signal that is with the kernel already.
            if k.interrupted(t) {
                return Errno::ERESTARTNOINTR.to_ret();
            }
            k.m.clock.keep();
            let (carried, ignored, needed) = (k.carried(t), k.ignored(), needed_by_others(me));
            let slack = Some(k.thread(t).slacks()[0]);
            let inherited = Inherited { carried, ignored, rate: k.m.clock.rate(), mask: None, slack, needed };
            exec(handover, call, &inherited, &mut Lent::default())
        })
    });
    me.accept_kicks();
    if let Some(signals) = signals {
        Linux(k).take_signals_back(me.cpu(), t, signals);
    }
    caught::hand_in(me);
    Linux(k).keep_times();
    alone::reinstall(k, !0);
    if had_page {
        k.m.announce_again();
    }
    // If a signal arrived before the call, its handler runs first, and then the call is made.
    result
}

/// The signals that other host threads of the process may get while this carrier executes a program.
fn needed_by_others(me: &Carrier) -> u64 {
    let k = me.process();
    match () {
        () if k.threads().live() > 1 => dispositions::NEEDED_BY_THREADS,
        () if k.m.carriers.has_others(me) => dispositions::NEEDED_BY_CARRIERS,
        () => 0,
    }
}

/// What a program inherits from the thread whose borrower executes it. It has no CPU timers.
#[derive(Debug, Clone)]
pub(crate) struct HandedDown {
    carried: Carried,
    times: Times,
    rate: Option<u64>,
}

impl HandedDown {
    /// Collects it from the thread `from`.
    pub(crate) fn by(k: &Process, from: ThreadIdx) -> HandedDown {
        HandedDown { carried: k.carried(from), times: k.times_to_hand_on(true), rate: k.m.clock.rate() }
    }
}

/// Executes a program for a borrower. On success nobody returns to what `lent` holds: that is freed with the borrower.
/// `down` is called while no signal can end the borrower, which would leave our locks held.
pub(crate) fn by_borrower(
    down: impl FnOnce() -> HandedDown,
    mask: u64,
    ignored: SigSet,
    lent: &mut Lent,
    call: &Call,
) -> isize {
    if let Some(error) = File::of(call).missing() {
        return error;
    }
    let k = Carrier::my_process();
    with_mask(Carrier::me(), CLONING_MASK, || {
        let HandedDown { carried, times, rate } = down();
        Linux(k).hand_on_times(&times, true);
        let slacks = os::reset_timer_slack();
        let carried = carried.by_child(slacks);
        let (mask, slack) = (Some(mask), Some(slacks[0]));
        let result = exec(&k.m.handover, call, &Inherited { carried, ignored, rate, mask, slack, needed: 0 }, lent);
        os::set_timer_slack(slacks[0]);
        result
    })
}

/// Executes a program for a forked child that has no kernel yet, if the image can enter it. Returns the host's error if
/// there is no such file. If it returns otherwise, nothing has changed except that a signal may have been caught
/// ([`caught::hand_in`]), and the child's kernel makes the call again.
pub(crate) fn by_unborn(me: &Carrier, clock: &Clock, from: &Inheritance, call: &Call) -> Option<isize> {
    let file = File::of(call);
    let missing = file.missing();
    if missing.is_none() {
        try_by_unborn(me, clock, from, call, &file);
    }
    missing
}

fn try_by_unborn(me: &Carrier, clock: &Clock, from: &Inheritance, call: &Call, file: &File) {
    let k = me.process();
    if file.is_for_host() || file.behind(&k.m.handover).is_some() {
        return;
    }
    match entrance::look(&k.m.handover, file) {
        Way::In => {}
        // The child's kernel opens the file again.
        Way::Load(load) => return os::close(load.fd),
        _ => return,
    }
    let (mask, actions) = (from.kernel().blocked(), from.kernel().actions());
    if !can_be_read(mask, call) {
        return;
    }
    let carried = from.kernel().carried(k.config().cpus);
    clock.keep();
    let ignored = actions.ignored();
    // The child's host thread has its parent's slack, because nothing has set another.
    let inherited = Inherited { carried, ignored, rate: clock.rate(), mask: None, slack: None, needed: 0 };
    Linux(k).hand_on_times(&from.kernel().times(), false);
    caught::with_caught(me, actions.caught().without(mask), || {
        // A signal noted before this check is for the child's kernel; one noted from now on interrupts the call.
        if me.gs.pending.load(SeqCst) != 0 || outside::is_due(os::getpid()) {
            return Errno::ERESTARTNOINTR.to_ret();
        }
        with_mask(me, mask.0, || enter(&k.m.handover, call, &inherited, &mut Lent::default()))
    });
    Linux(k).keep_times();
}

/// Whether path, arguments and environment can be read with this mask, as far as this module reads them: a fault whose
/// signal is blocked ends the process. If not, the host refuses the call.
fn can_be_read(mask: SigSet, call: &Call) -> bool {
    if mask.0 & FAULTS == 0 {
        return true;
    }
    let path = call.args[usize::from(call.nr != nr::EXECVE)];
    let of_list = |list: u64| {
        let strings = (0..STRINGS_MAX as u64).map(|i| user::load_u64(list + i * 8));
        list == 0 || strings.take_while(|string| *string != Ok(0)).all(|string| string.is_ok_and(can_read_string))
    };
    can_read_string(path) && strings(call).into_iter().all(of_list)
}

fn can_read_string(at: u64) -> bool {
    let byte = |at| {
        let mut byte = [0];
        user::read(at, &mut byte).is_ok().then_some(byte[0])
    };
    // Unreadable memory is only allowed behind the end of a string.
    let ends = || (at..).map(byte).find(|byte| !matches!(byte, Some(1..))) == Some(Some(0));
    user::read(at, &mut [0; PREFIX_MAX]).is_ok() || ends()
}

/// Sets this host thread's mask for the new program, makes the call, and restores the mask on failure.
fn with_mask<T>(me: &Carrier, mask: u64, call: impl FnOnce() -> T) -> T {
    let (k, before) = (me.process(), os::sigprocmask(2, mask));
    k.m.places.release();
    let result = call();
    if me.gs.borrowed == 0 && me.cpu.load(Relaxed) != 0 {
        me.placed.store(0, Relaxed);
        me.find_place(me.cpu());
    }
    os::sigprocmask(2, before);
    result
}
