//! `entresol doctor`: every check as one line with a plain sentence on what to do.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use crate::{install, program, unentered};
use patch::program::Door;
use tool::machine::Catch;
use tool::say;
use tool::style::{BAD, GOOD, NOTE};
use tool::{machine, resolve};

/// The result of one check.
enum Finding {
    Good(String),
    Note(String),
    Bad(String),
}

use Finding::{Bad, Good, Note};

/// Prints every finding and returns the exit status: 1 if something does not work.
///
/// # Errors
/// The host's, if a finding cannot be written.
pub fn doctor(program: Option<&OsStr>) -> anyhow::Result<i32> {
    let mut findings = examine_machine();
    if let Some(name) = program {
        findings.extend(examine_program(name));
    }
    let mut works = true;
    for finding in &findings {
        match finding {
            Good(sentence) => say!("{GOOD}ok{GOOD:#}    {sentence}")?,
            Note(sentence) => say!("{NOTE}note{NOTE:#}  {sentence}")?,
            Bad(sentence) => {
                works = false;
                say!("{BAD}bad{BAD:#}   {sentence}")?;
            }
        }
    }
    if !works {
        say!("      `entresol run --fallback=native` runs what Entresol cannot.")?;
    }
    Ok(i32::from(!works))
}

fn examine_machine() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (good, verdict) in machine::checks() {
        findings.push(match verdict {
            Ok(()) => Good(good),
            Err(lack) => Bad(lack.to_string()),
        });
    }
    findings.push(examine_catch());
    match install::install() {
        Ok(image) => {
            findings.push(Good(format!("the image lies in {}", image.display())));
            findings.push(Note(
                "only this user may read it: after a change of user (su, sudo, setpriv) a program executes others natively"
                    .into(),
            ));
            findings.push(examine_patching(&image));
        }
        Err(why) => findings.push(Bad(why.to_string())),
    }
    findings.push(examine_guards());
    findings.push(examine_waits());
    let (all, sentence) = unentered::on_path().sentence();
    findings.push(if all { Good(sentence) } else { Note(sentence) });
    findings.push(examine_cpus());
    if let Some(version) = machine::inside() {
        findings.push(Note(format!(
            "this command itself runs inside Entresol (interface version {version}): an inner `run` replaces the \
             outer one's options"
        )));
    }
    findings
}

/// The way in which system calls are caught, and the reason.
fn examine_catch() -> Finding {
    let rights =
        if machine::filters_with_rights() { "nothing that is executed gains rights" } else { "no_new_privs is set" };
    let filter = format!("{rights}, and what Entresol cannot enter fails with EPERM");
    match (machine::catch(None), machine::dispatch()) {
        (Ok(Catch::Dispatch), _) => Good(
            "system calls are caught by Syscall User Dispatch, which the kernel offers, unless --catch says otherwise"
                .into(),
        ),
        (Ok(Catch::Filter { .. }), Err(why)) => {
            Note(format!("system calls are caught by a seccomp filter, because {why}: {filter}"))
        }
        (Ok(Catch::Filter { .. }), Ok(())) => Note(format!(
            "system calls are caught by a seccomp filter, because the Entresol around this command does so: {filter}"
        )),
        (Err(lack), _) => Bad(lack.to_string()),
    }
}

/// The CPUs that a program has by default.
fn examine_cpus() -> Finding {
    let (cpus, quota) = machine::default_cpus();
    let words = if cpus == 1 { "CPU" } else { "CPUs" };
    let why = quota.map_or(String::new(), |quota| {
        let share = quota.micros as f64 / quota.period as f64;
        format!(" (the quota in {} pays for {share:.2} of {})", quota.file.display(), machine::host_cpus())
    });
    Good(format!("{cpus} {words} to schedule on, unless --cpus says otherwise{why}"))
}

/// The number of thread stacks that can have a guard, and the protection of the others.
fn examine_guards() -> Finding {
    if has_guard_markers() {
        return Good("stacks of threads have guards that need no mappings (MADV_GUARD_INSTALL)".into());
    }
    let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let mappings: u64 = mappings.and_then(|text| text.trim().parse().ok()).unwrap_or(65_530);
    Note(format!(
        "guards of stacks are mappings here (markers need Linux 6.13), of which vm.max_map_count allows {mappings}: \
         {} threads have one. From then on stacks lie apart: an overflow goes unnoticed for 256 KiB, and hits \
         another stack only beyond that",
        mappings / 16 * 5
    ))
}

fn has_guard_markers() -> bool {
    const LEN: usize = 4096;
    const MADV_GUARD_INSTALL: i32 = 102;
    // SAFETY: a new private mapping, advised and removed here only.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map = libc::mmap(ptr::null_mut(), LEN, libc::PROT_NONE, flags, -1, 0);
        if map == libc::MAP_FAILED {
            return false;
        }
        let has = libc::madvise(map, LEN, MADV_GUARD_INSTALL) == 0;
        libc::munmap(map, LEN);
        has
    }
}

/// How threads wait for descriptors.
fn examine_waits() -> Finding {
    // SAFETY: a new descriptor, closed here.
    let made = unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        fd >= 0 && libc::close(fd) == 0
    };
    if !made {
        let why = std::io::Error::last_os_error();
        return Note(format!(
            "threads that wait for descriptors take a host thread each here (--io=threads): no epoll instance is to be \
             had ({why})"
        ));
    }
    let pipes =
        if reads_pipes_at_once() { "" } else { ". Pipes are asked with poll(2) first (RWF_NOWAIT needs Linux 6.4)" };
    Good(format!(
        "threads wait for descriptors in one epoll instance once more than four do, unless --io says otherwise. io_uring is \
         not used{pipes}"
    ))
}

/// Whether a pipe can be read in a form that does not wait.
fn reads_pipes_at_once() -> bool {
    const RWF_NOWAIT: i32 = 8;
    let (mut ends, mut byte) = ([0; 2], 0_u8);
    // SAFETY: new descriptors, closed here, and a buffer of one byte that outlives the call.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return true;
        }
        let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let n = libc::preadv2(ends[0], &raw const part, 1, -1, RWF_NOWAIT);
        let again = n == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        libc::close(ends[0]);
        libc::close(ends[1]);
        again
    }
}

/// How text may be changed: in place, by a file that is mapped over it, or not at all.
fn examine_patching(image: &Path) -> Finding {
    if may_change_text(image) {
        Good("libraries' text may be patched, so that system calls of a program are cheap".into())
    } else if may_map_text() {
        Good(
            "this host makes no memory executable that was writable (PR_SET_MDWE, MemoryDenyWriteExecute, SELinux): \
             patched text comes from files, and system calls of a program are as cheap as elsewhere"
                .into(),
        )
    } else {
        Note(
            "this host makes no memory executable that was writable, nor a file without a name: the C library is \
             patched if it is this command's own, and any other system call that Entresol handles costs about a \
             microsecond more"
                .into(),
        )
    }
}

/// As the image does it first (`crates/image/src/text.rs`).
fn may_change_text(file: &Path) -> bool {
    const LEN: usize = 4096;
    let Ok(file) = File::open(file) else { return false };
    // SAFETY: a new private mapping, changed and removed here only; the file itself stays as it is.
    unsafe {
        let text = libc::PROT_READ | libc::PROT_EXEC;
        let map = libc::mmap(ptr::null_mut(), LEN, text, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if map == libc::MAP_FAILED {
            return false;
        }
        let mut changed = libc::mprotect(map, LEN, libc::PROT_READ | libc::PROT_WRITE) == 0;
        if changed {
            let byte = map.cast::<u8>();
            byte.write_volatile(byte.read_volatile() ^ 1);
            changed = libc::mprotect(map, LEN, text) == 0;
        }
        libc::munmap(map, LEN);
        changed
    }
}

/// As the image does it then.
fn may_map_text() -> bool {
    const LEN: usize = 4096;
    // Linux 6.3
    const MFD_NOEXEC_SEAL: u32 = 8;
    // SAFETY: a new descriptor, closed here, and a new mapping that is not accessed and removed here.
    unsafe {
        let mut fd = libc::memfd_create(c"entresol-text".as_ptr(), libc::MFD_CLOEXEC | MFD_NOEXEC_SEAL);
        if fd < 0 {
            fd = libc::memfd_create(c"entresol-text".as_ptr(), libc::MFD_CLOEXEC);
        }
        if fd < 0 {
            return false;
        }
        let text = libc::PROT_READ | libc::PROT_EXEC;
        let map = libc::mmap(ptr::null_mut(), LEN, text, libc::MAP_PRIVATE, fd, 0);
        libc::close(fd);
        map != libc::MAP_FAILED && libc::munmap(map, LEN) == 0
    }
}

fn examine_program(name: &OsStr) -> Vec<Finding> {
    let path = match resolve::resolve(name) {
        Ok(path) => path,
        Err(why) => return vec![Bad(why.to_string())],
    };
    let found = match program::inspect(&path) {
        Ok(found) => found,
        Err(why) => return vec![Bad(why.to_string())],
    };
    let mut findings = vec![Good(if found.by_shell {
        format!("{} has no known form, so it is run by /bin/sh, which Entresol can enter", path.display())
    } else if found.binary == path {
        let how = match found.door {
            Door::Linker => "loaded by glibc's dynamic linker",
            Door::Image => "loaded by Entresol itself",
        };
        format!("{} is a 64-bit program, which Entresol can enter: it is {how}", path.display())
    } else {
        format!("{} is run by {}, which Entresol can enter", path.display(), found.binary.display())
    })];
    if found.writable_text {
        findings.push(Note(format!(
            "{} has text that is writable while it runs: its own system calls are caught by dispatch and not patched",
            found.binary.display()
        )));
    }
    findings
}
