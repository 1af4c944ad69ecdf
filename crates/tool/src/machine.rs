//! Checks of this machine: the kernel's version, and two abilities without which nothing works. One of them has two forms.

use std::ffi::CStr;
use std::fmt::{self, Display, Formatter};
use std::io;

use thiserror::Error;

use crate::quota::{self, Quota};

/// Syscall User Dispatch came with Linux 5.11.
const KERNEL_MIN: (u32, u32) = (5, 11);
/// [`KERNEL_MIN`] in words.
const KERNEL_MIN_NAME: &str = "5.11";
/// `PR_SET_SYSCALL_USER_DISPATCH` of linux/prctl.h.
const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
/// The image's answer to it, which no host gives.
const DISPATCH_IN_USE: i32 = libc::EALREADY;
/// The bit in the set of capabilities.
const CAP_SYS_ADMIN: u32 = 21;
/// `HWCAP2_FSGSBASE` of asm/hwcap2.h: user code may execute wrfsbase.
const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
/// The first of Entresol's private system calls: answers a version inside, ENOSYS outside.
const PRIVATE_VERSION: libc::c_long = 0x454e_0000;
/// The one that says how it catches, and an answer.
const PRIVATE_CATCH: libc::c_long = 0x454e_0001;
const CAUGHT_BY_FILTER: libc::c_long = 2;

/// Why nothing runs on this machine.
#[derive(Debug, Error)]
pub enum Lack {
    /// The kernel is too old.
    #[error("Linux {0} is too old: {KERNEL_MIN_NAME} or later is needed. Boot a newer kernel")]
    Kernel(String),
    /// gVisor answers in the kernel's place.
    #[error(
        "this is a sandbox of gVisor, in which Entresol has not been tried. Start the container with another runtime \
         (runc, crun, Kata)"
    )]
    GVisor,
    /// The prctl does not work.
    #[error(
        "{0}, by which Entresol was to catch system calls (--catch=sud). Use a kernel built with CONFIG_GENERIC_ENTRY, and \
         no sandbox that hides it, or --catch=seccomp"
    )]
    Dispatch(NoDispatch),
    /// Filters do not work.
    #[error(
        "there are no seccomp filters here (the kernel has none, or a sandbox refuses them), by which Entresol was to catch \
         system calls (--catch=seccomp)"
    )]
    Filter,
    /// Neither works.
    #[error(
        "{0}, and no seccomp filters, by one of which Entresol catches system calls. Use a kernel built with \
         CONFIG_GENERIC_ENTRY or CONFIG_SECCOMP_FILTER, and no sandbox that hides both"
    )]
    Catch(NoDispatch),
    /// A filter catches already, and is for good.
    #[error(
        "a filter catches the system calls of this process and of all that it executes (--catch=seccomp), so \
         --catch=sud is not to be had"
    )]
    Filtered,
    /// AT_HWCAP2 does not have the bit.
    #[error(
        "user programs may not set their FS base on this machine (FSGSBASE), so threads cannot be switched. It needs a \
         processor of 2012 or later and a kernel that is not started with nofsgsbase"
    )]
    FsGsBase,
}

/// How system calls are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Catch {
    /// By Syscall User Dispatch.
    Dispatch,
    /// By a seccomp filter.
    Filter {
        /// The Entresol around this process has put it there.
        is_there: bool,
    },
}

/// Why there is no Syscall User Dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDispatch {
    /// The kernel does not know it.
    Unknown,
    /// It is forbidden here.
    Forbidden,
}

impl Display for NoDispatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "this kernel does not offer Syscall User Dispatch",
            Self::Forbidden => {
                "Syscall User Dispatch is forbidden here (a sandbox, or sysctl kernel.syscall_user_dispatch=0)"
            }
        })
    }
}

/// Every ability that is needed, in the order in which a reader would ask; the first lack ends it.
pub fn check() -> Result<(), Lack> {
    check_for(None).map(|_| ())
}

/// The same for programs whose calls are caught in this way (`None`: any). Returns the way.
pub fn check_for(wish: Option<Wish>) -> Result<Catch, Lack> {
    check_release().1?;
    let catch = catch(wish)?;
    check_fsgsbase().1?;
    Ok(catch)
}

/// A way to catch that the user insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// By Syscall User Dispatch.
    Dispatch,
    /// By a seccomp filter.
    Filter,
}

/// The way in which system calls are caught. A filter takes rights away, so it is only the second choice.
pub fn catch(wish: Option<Wish>) -> Result<Catch, Lack> {
    let is_there = is_filtered();
    // Asked only where it matters: some sandboxes kill for the question.
    let filter = || offers_filter().then_some(Catch::Filter { is_there });
    match wish {
        Some(Wish::Dispatch) if is_there => Err(Lack::Filtered),
        Some(Wish::Dispatch) => dispatch().map(|()| Catch::Dispatch).map_err(Lack::Dispatch),
        Some(Wish::Filter) => filter().ok_or(Lack::Filter),
        None if is_there => Ok(Catch::Filter { is_there }),
        None => dispatch().map(|()| Catch::Dispatch).or_else(|why| filter().ok_or(Lack::Catch(why))),
    }
}

/// Every ability that is needed but to catch system calls, each with the words for "it is there".
pub fn checks() -> [(String, Result<(), Lack>); 2] {
    [check_release(), check_fsgsbase()]
}

fn check_release() -> (String, Result<(), Lack>) {
    let [release, version] = kernel_names();
    (format!("Linux {release} ({KERNEL_MIN_NAME} or later is needed)"), judge_kernel(&release, &version))
}

fn check_fsgsbase() -> (String, Result<(), Lack>) {
    let words = "programs may set their FS base (FSGSBASE)".into();
    (words, offers_fsgsbase().then_some(()).ok_or(Lack::FsGsBase))
}

/// The version of the Entresol that this process already runs in, if it does.
#[must_use]
pub fn inside() -> Option<u32> {
    // Inside, the calls below are the image's own to answer. Outside the second one is not tried: to filters it looks like
    // a call of the x32 interface, for which many of them kill.
    if switch_dispatch_off().err()?.raw_os_error() != Some(DISPATCH_IN_USE) {
        return None;
    }
    // SAFETY: Linux has no such system call and answers ENOSYS; Entresol's takes no arguments.
    let answer = unsafe { libc::syscall(PRIVATE_VERSION) };
    u32::try_from(answer).ok().filter(|&version| version >= 1)
}

/// Whether host threads may be bound to CPUs. For some filters (systemd's `SystemCallFilter=~@resources`) the attempt is
/// fatal, so where there are filters a child tries it first.
#[must_use]
pub fn may_bind() -> bool {
    const SECCOMP_MODE_FILTER: libc::c_int = 2;
    // SAFETY: only asks.
    if unsafe { libc::prctl(libc::PR_GET_SECCOMP) } != SECCOMP_MODE_FILTER {
        return true;
    }
    // SAFETY: a copy of this process that makes system calls only, about itself, and ends.
    unsafe {
        // Without a signal at its end, which the program could find pending, or have ignored.
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as libc::pid_t;
        if child == 0 {
            // It leaves no core.
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            let mut mask: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&mask), &mut mask);
            libc::sched_setaffinity(0, size_of_val(&mask), &mask);
            libc::_exit(0);
        }
        let mut status = 0;
        child > 0 && libc::waitpid(child, &raw mut status, libc::__WALL) == child && libc::WIFEXITED(status)
    }
}

/// Number of CPUs that this process may run on, as the image counts them; see [`default_cpus`] for quotas.
#[must_use]
pub fn host_cpus() -> usize {
    // SAFETY: the mask is a set of bits, which the host fills.
    let mask = unsafe {
        let mut mask: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of_val(&mask), &mut mask) == 0).then_some(mask)
    };
    // SAFETY: reads the mask.
    let count = mask.map_or(0, |mask| unsafe { libc::CPU_COUNT(&mask) });
    match usize::try_from(count) {
        Ok(cpus @ 1..) => cpus,
        // A machine with more CPUs than the mask has room for.
        _ => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

/// As many CPUs as a program is scheduled on by default, and the quota because of which these are fewer than the host's.
#[must_use]
pub fn default_cpus() -> (usize, Option<Quota>) {
    let all = host_cpus();
    // One is the least there can be.
    let quota = if all > 1 { quota::own() } else { None };
    match quota.filter(|quota| quota.cpus() < all) {
        Some(quota) => (quota.cpus(), Some(quota)),
        None => (all, None),
    }
}

/// The user whose files this command trusts and makes.
#[must_use]
pub fn user() -> u32 {
    // SAFETY: reads the process's own state.
    unsafe { libc::geteuid() }
}

/// The kernel's release and build, by `uname(2)`.
fn kernel_names() -> [String; 2] {
    // SAFETY: all-zero bytes are a valid utsname, which uname fills with strings that end with a zero byte.
    unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&mut names);
        [names.release.as_ptr(), names.version.as_ptr()].map(|name| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

fn judge_kernel(release: &str, version: &str) -> Result<(), Lack> {
    // gVisor's release has been 4.4.0 and 4.19.0-gvisor, with the same build ever since, which Linux never had under
    // another release. A newer kernel would not help there.
    const GVISOR: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
    if release.contains("gvisor") || version == GVISOR {
        return Err(Lack::GVisor);
    }
    let recent = parse_release(release).is_some_and(|version| version >= KERNEL_MIN);
    recent.then_some(()).ok_or_else(|| Lack::Kernel(release.to_owned()))
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Whether the Entresol around this process catches by a filter.
fn is_filtered() -> bool {
    // SAFETY: Linux has no such system call and answers ENOSYS; Entresol's takes no arguments.
    inside().is_some() && unsafe { libc::syscall(PRIVATE_CATCH) == CAUGHT_BY_FILTER }
}

/// Whether calls can be caught by dispatch, from here or already.
pub fn dispatch() -> Result<(), NoDispatch> {
    match switch_dispatch_off() {
        Ok(()) => Ok(()),
        // Dispatch is on for this thread, and switching it off is not ours to do.
        Err(error) if error.raw_os_error() == Some(DISPATCH_IN_USE) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(NoDispatch::Forbidden),
        Err(_) => Err(NoDispatch::Unknown),
    }
}

/// Switches dispatch off, which it is: the call fails only where the kernel does not know it or forbids it, and inside
/// Entresol.
fn switch_dispatch_off() -> io::Result<()> {
    // SAFETY: PR_SYS_DISPATCH_OFF (0) with zero arguments changes nothing.
    let answer = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process may set a filter without `no_new_privs` (`seccomp(2)`: CAP_SYS_ADMIN).
#[must_use]
pub fn filters_with_rights() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> CAP_SYS_ADMIN & 1 != 0)
}

/// Whether the kernel knows filters that send signals.
fn offers_filter() -> bool {
    let action: u32 = libc::SECCOMP_RET_TRAP;
    // SAFETY: only asks, about a word of ours.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

fn offers_fsgsbase() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_run_on_as_many_cpus_as_it_is_bound_to() {
        let all = host_cpus();
        let one = std::thread::spawn(|| {
            // SAFETY: binds this thread, which ends here, to the CPU that it runs on.
            unsafe {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(libc::sched_getcpu() as usize, &mut mask);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&mask), &mask), 0);
            }
            host_cpus()
        });
        assert_eq!(one.join().unwrap(), 1);
        assert_eq!(host_cpus(), all);
    }

    #[test]
    fn gvisor_is_refused_for_what_it_is() {
        let build = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
        for (release, version) in
            [("4.4.0", build), ("4.19.0-gvisor", build), ("6.1.0-gvisor", "#1 SMP"), ("6.6.0", build)]
        {
            let lack = judge_kernel(release, version).unwrap_err();
            assert!(matches!(lack, Lack::GVisor), "{release}");
            assert!(lack.to_string().contains("gVisor") && lack.to_string().contains("another runtime"));
        }
        assert!(matches!(judge_kernel("4.4.0-210-generic", "#242-Ubuntu SMP"), Err(Lack::Kernel(_))));
        assert!(judge_kernel("6.1.0-18-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1").is_ok());
    }

    #[test]
    fn kernel_releases_are_compared_as_numbers() {
        assert_eq!(parse_release("6.18.44-rc1"), Some((6, 18)));
        assert_eq!(parse_release("5.9.0"), Some((5, 9)));
        assert!(parse_release("5.9.0") < Some(KERNEL_MIN));
        assert_eq!(parse_release("5.11-generic"), Some((5, 11)));
        assert_eq!(parse_release("banana"), None);
        assert_eq!(parse_release("6"), None);
    }
}
