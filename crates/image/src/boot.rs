//! Starts the kernel inside a program, before its libraries are mapped.

use crate::auxv::{self, Auxiliary};
use crate::chaos::Start;
use crate::loader::FILE;
use crate::options::Options;
use crate::stub_area::PAGE;
use crate::{libraries, options, plans, points, restart, summary};
use abi::{SigSet, Signal};
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use host::handover::Handover;
use host::natives::{Tree, Wishes};
use host::process::{Hooks, Host, Settings, found};
use host::report::Text;
use host::{catch, handlers, os, start};
use ids::{CPUS_MAX, CpuId, Pid};
use kernel::{Carried, Config, Kernel, Sampling};
use sync::atomic::{AtomicBool, Ordering::*};

/// Whether the kernel is up. Without our options in the environment the image does nothing.
static UP: AtomicBool = AtomicBool::new(false);

/// Whether the image has taken this process over.
pub fn is_up() -> bool {
    UP.load(Relaxed)
}

pub(crate) const OPTIONS: &[u8] = b"ENTRESOL_OPTIONS=";
pub(crate) const PRELOAD: &[u8] = b"LD_PRELOAD=";
const DOORS: [&[u8]; 2] = [b"LD_AUDIT=", PRELOAD];

/// Takes the process over if it was started by `entresol run`.
///
/// # Safety
/// Called once, on the only thread, with the process's arguments and environment, and with the program's path if the
/// image has loaded the program.
pub unsafe fn boot(argv: *const *const c_char, envp: *const *const c_char, executable: Option<Vec<u8>>) {
    // SAFETY: the environment is an array of strings up to a null, with the auxiliary vector behind it.
    unsafe {
        let Some(value) = find(envp, OPTIONS) else { return };
        let value = value.to_vec();
        let mut options = Options::parse(&value, os::getpid());
        let mut aux = auxv::read(envp);
        let door = DOORS.iter().find(|door| find(envp, door).is_some_and(|v| v.starts_with(options.image)));
        let Some(door) = door else { return };
        decide_control(&mut options, &aux);
        let tree = options.tree.unwrap_or_else(Tree::begin);
        let mut handover = handover(door, &options, &tree, &value);
        let by_linker = executable.is_none();
        handover.executable = executable.map(Into::into);
        hide(envp, door, &options);
        restart::begin(argv, envp, &aux, &options);
        if !by_linker {
            // The loader is not glibc's, and has not begun.
            aux.loader = 0;
        }
        libraries::find_text();
        catch::choose(options.by_filter);
        if options.is_unbound {
            host::os::leave_unbound();
        }
        plans::look_beside(options.image);
        bring_up(&options, &value, (handover, tree), &aux);
        // Linkers put the program headers behind the ELF header.
        points::begin(&options.chaos, aux.headers & !(PAGE - 1));
        options.chaos.set_random_bytes(aux.random);
        libraries::patch_early(&aux);
    }
}

/// Decides whether `entresol chaos` controls this process.
fn decide_control(options: &mut Options<'_>, aux: &Auxiliary) {
    let start = match (options.tree, options.reserve) {
        (None, _) => Start::First,
        (_, 0) => Start::Executed,
        _ => Start::Again,
    };
    // SAFETY: the host's string, or none.
    let path = unsafe { (aux.file as *const c_char).as_ref().map_or(&b""[..], |at| CStr::from_ptr(at).to_bytes()) };
    if options.chaos.decide(path, start).is_err() {
        host::report::fatal(format_args!("the log of a controlled run cannot be used"));
    }
}

fn handover(door: &[u8], options: &Options<'_>, tree: &Tree, value: &[u8]) -> Handover {
    let join = |name: &[u8], value: &[u8]| -> Vec<u8> { [name, value, &[0]].concat() };
    let mut handed_on = Vec::new();
    // Settings that concern only this process are not passed on.
    let own = |pair: &[u8]| {
        [&b"stats="[..], b"tree=", b"reserve=", b"name=", b"program=", b"thread=", b"ignored=", b"rate=", b"filter="]
            .iter()
            .any(|name| pair.starts_with(name))
    };
    for pair in value.split(|&b| b == b';').filter(|pair| !own(pair)) {
        handed_on.extend_from_slice(pair);
        handed_on.push(b';');
    }
    handed_on.extend_from_slice(options::write_tree(tree).as_bytes());
    if options.stats {
        let mut text = Text::<32>::default();
        let _ = write!(text, ";stats={}", os::getpid());
        handed_on.extend_from_slice(text.as_bytes());
    }
    Handover { loader: join(door, options.image), options: join(OPTIONS, &handed_on), executable: None }
}

unsafe fn bring_up(options: &Options<'_>, value: &[u8], (handover, tree): (Handover, Tree), aux: &Auxiliary) {
    sync::set_relax(os::relax);
    #[cfg(feature = "planted")]
    host::planted::plant(options.plant);
    let cpus = match options.cpus {
        0 => os::host_cpus().min(options.quota.unwrap_or(CPUS_MAX)),
        given => given,
    }
    .min(CPUS_MAX);
    let limits = crate::limits::parse(value).unwrap_or_else(|pair| {
        let pair = core::str::from_utf8(pair).unwrap_or("a limit");
        host::report::fatal(format_args!("the options have a limit that cannot be read: {pair}"))
    });
    let config = Config {
        cpus,
        at_once: os::host_cpus(),
        tick: options.tick,
        rt_host_rules: options.rt_host_rules,
        pid: Pid(os::getpid()),
        uid: os::getuid(),
        pending_unlimited: options.pending_unlimited,
        limits,
        mapped_guards: options.mapped_guards,
        // How late a sleep ends must not depend on when the host interrupts a controlled run.
        timer_slack: !options.chaos.is_on(),
        io: options.io,
        extended_state: host::extended_state,
        by_filter: options.by_filter,
        tracing: options.trace,
        sampling: options.sample.map(|every| Sampling { every, wall: options.sample_wall }),
    };
    let control = options.chaos.control();
    let settings = Settings {
        epoch: control.is_some().then_some(options.chaos.epoch),
        watchdog: options.watchdog.unwrap_or(WATCHDOG),
        check_order: options.check_order,
        ahead: options.ahead,
        summary: options.stats,
        natives: Wishes { tree, note: options.note, refuse: options.require, by_filter: options.by_filter },
        hooks: &HOOKS,
    };
    let blocked = SigSet(os::sigprocmask(0, 0));
    let ignored = options.ignored.map_or_else(ignored_signals, SigSet);
    let kernel = Host::new(cpus, options.runtime, options.rate, handover, settings)
        .and_then(|host| Kernel::new(host, config).ok());
    let Some(mut kernel) = kernel else {
        host::report::fatal(format_args!("no memory to start: {}", crate::shortage::Shortage));
    };
    if let Some(control) = control {
        points::choose(&control.log().chosen());
        kernel.control(control, options.chaos.seed);
    }
    #[cfg(feature = "planted")]
    host::planted::plant_in(&mut kernel.sched, options.plant);
    let k = found(kernel);
    summary::begin(options.stats);
    k.m.records.begin(k.config(), options.records);
    handlers::install();
    let carried = Carried::parse(options.thread);
    let cpu = carried.as_ref().map_or(CpuId(0), |carried| carried.first_cpu(k.config().cpus));
    let t = start::begin(k, cpu);
    // Reserved now, before the program limits its address space; if this fails, fork reports it.
    os::keep_room();
    k.set_initial_signals(t, blocked, ignored);
    linux::Linux(k).take_over_signals(cpu, t, blocked);
    start::open(k);
    linux::Linux(k).take_over_times(cpu, t);
    k.adopt_nice(cpu, os::nice());
    linux::Linux(k).adopt_io_priority(t);
    if let Some(carried) = carried {
        k.take_carried(t, &carried);
    }
    start::adopt_registrations(k, t, libraries::rseq_offset(aux));
    if options.chaos.is_on() {
        k.begin_to_choose(cpu);
    }
    UP.store(true, Relaxed);
}

/// Seconds without progress after which a process ends, by default.
const WATCHDOG: u32 = 10;

static HOOKS: Hooks = Hooks {
    at_exit: summary::print,
    in_child: || {
        summary::forget();
        crate::heap::begin_child();
    },
    with_allocator_held: crate::heap::hold,
    objects_changed: crate::objects::changed,
};

fn ignored_signals() -> SigSet {
    let mut set = SigSet::EMPTY;
    for signal in Signal::all() {
        if host::report::sigaction(signal.raw(), None).handler == abi::SIG_IGN {
            set.insert(signal);
        }
    }
    set
}

/// The value of a variable, by its name with the equals sign.
pub(crate) unsafe fn find(envp: *const *const c_char, name: &[u8]) -> Option<&'static [u8]> {
    let mut at = envp;
    // SAFETY: as in `boot`.
    unsafe {
        while !(*at).is_null() {
            // Most entries are others, whose ends need not be found.
            if (0..name.len()).all(|i| *(*at).add(i) as u8 == name[i]) {
                return Some(CStr::from_ptr((*at).add(name.len())).to_bytes());
            }
            at = at.add(1);
        }
    }
    None
}

/// Removes our variables from the program's environment, in place. From the loader's list, only our own entry is
/// removed.
unsafe fn hide(envp: *const *const c_char, door: &[u8], options: &Options<'_>) {
    let image = options.image;
    let mut from = envp.cast_mut();
    let mut to = from;
    // SAFETY: as in `boot`; the array is only shortened.
    unsafe {
        while !(*from).is_null() {
            let entry = CStr::from_ptr(*from).to_bytes();
            let keep = match entry.strip_prefix(door).and_then(|v| v.strip_prefix(image)) {
                Some(rest) if !rest.is_empty() => {
                    // The program's own list moves down over our path.
                    let list = (*from).cast_mut().add(door.len());
                    core::ptr::copy(list.add(image.len() + 1), list, rest.len());
                    list.add(rest.len()).write_bytes(0, image.len());
                    true
                }
                Some(_) => false,
                None => {
                    !entry.starts_with(OPTIONS)
                        && !entry.starts_with(FILE)
                        && own_tunables(*from, entry, options.reserve)
                }
            };
            // `/proc/PID/environ` shows the memory. A loaded program's name stays in use.
            if !keep && !entry.starts_with(FILE) && !entry.starts_with(restart::TUNABLES) {
                (*from).cast_mut().write_bytes(0, entry.len());
            }
            if keep {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null();
        // The auxiliary vector follows the old end, where the dynamic linker has found it, and does not move. Whoever looks
        // for it behind the new end finds entries to be ignored; an odd number of words cannot be entries.
        const AT_IGNORE: u64 = 1;
        let gap = core::slice::from_raw_parts_mut(to.add(1).cast::<u64>(), from.offset_from(to) as usize);
        let filler = if gap.len().is_multiple_of(2) { AT_IGNORE } else { 0 };
        for (i, word) in gap.iter_mut().enumerate() {
            *word = if i.is_multiple_of(2) { filler } else { 0 };
        }
    }
}

/// Whether any part of the entry is the program's own; cuts off what a restart has added.
unsafe fn own_tunables(at: *const c_char, entry: &[u8], reserve: u64) -> bool {
    let Some(value) = entry.strip_prefix(restart::TUNABLES).filter(|_| reserve > 0) else { return true };
    let own = restart::without_setting(value, reserve);
    if let Some(own) = own {
        // SAFETY: at most the entry's own final zero.
        unsafe { at.cast_mut().add(restart::TUNABLES.len() + own).write(0) };
    }
    own.is_some()
}
