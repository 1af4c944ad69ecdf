//! The process that asks.

use crate::host::{Host, Process};
use crate::rights::Lender;
use procfs::node::{Dir, Place};
use procfs::permission::{Caller, Options, Owner};
use procfs::{HidePid, Node as Shown, ThreadId, Threads};
use rustix::io::Errno;

/// The thread that makes a request, as the kernel names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Its user id for files.
    pub uid: u32,
    /// Its group id for files.
    pub gid: u32,
    /// The host thread.
    pub tid: i32,
}

/// The host's facts about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Its process.
    pub process: i32,
    /// Its further groups.
    pub groups: Vec<u32>,
}

impl Asker {
    /// The host's facts about it.
    ///
    /// # Errors
    /// ENOENT if it is gone, or in another pid namespace.
    pub fn facts(&self, host: &Host) -> Result<Facts, Errno> {
        let text = host.read(None, format!("{}/status", self.tid).as_bytes())?;
        let mut facts = Facts::default();
        for (key, value) in lines(&text) {
            match key {
                "Tgid" => facts.process = value.parse().map_err(|_| Errno::NOENT)?,
                "Groups" => facts.groups = value.split_ascii_whitespace().flat_map(str::parse).collect(),
                _ => {}
            }
        }
        Ok(facts)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    // A name may be any bytes; lines with numbers are text.
    text.split(|&byte| byte == b'\n')
        .filter_map(|line| str::from_utf8(line).ok()?.split_once(':'))
        .map(|(key, value)| (key, value.trim()))
}

/// One process, for the rules of `procfs::permission`.
struct One(Owner);

impl Threads for One {
    fn find(&self, id: i32) -> Option<ThreadId> {
        Some(ThreadId { slot: 0, id })
    }

    fn lives(&self, _: ThreadId) -> bool {
        true
    }

    fn leader(&self, thread: ThreadId) -> Option<ThreadId> {
        Some(thread)
    }

    fn owner(&self, _: ThreadId) -> Option<Owner> {
        Some(self.0)
    }

    fn next_process(&self, _: i32) -> Option<ThreadId> {
        None
    }

    fn next_thread(&self, _: ThreadId, _: i32) -> Option<ThreadId> {
        None
    }

    fn count(&self, _: ThreadId) -> u32 {
        1
    }
}

/// A process's owner. Files of a process that its own user may not trace belong to the superuser (`task_dump_owner`).
fn owner(host: &Host, process: Process) -> Result<Owner, Errno> {
    let text = host.read(Some(process), b"status")?;
    let mut owner = Owner::default();
    for (key, value) in lines(&text) {
        let ids = match key {
            "Uid" => &mut owner.uids,
            "Gid" => &mut owner.gids,
            _ => continue,
        };
        for (id, word) in ids.iter_mut().zip(value.split_ascii_whitespace()) {
            *id = word.parse().map_err(|_| Errno::IO)?;
        }
    }
    owner.dumpable = host.attributes(Some(process), b"stat")?.st_uid == owner.uids[1];
    Ok(owner)
}

/// Whether a process is visible to the asker, or, if `inside`, whether the asker may access its files.
///
/// # Errors
/// ENOENT or EPERM, as the mount hides.
pub fn check(
    host: &Host,
    lender: &Lender,
    options: &Options,
    asker: &Asker,
    process: Process,
    inside: bool,
) -> Result<(), Errno> {
    if options.hide == HidePid::Off {
        return Ok(());
    }
    let (facts, threads) = (asker.facts(host)?, One(owner(host, process)?));
    let caller = Caller {
        process: facts.process,
        thread: asker.tid,
        fsuid: asker.uid,
        fsgid: asker.gid,
        groups: &facts.groups,
        traces: lender.traces(host, asker)?,
        overrides: false,
    };
    let thread = ThreadId { slot: 0, id: process.pid };
    if !caller.may_find(&threads, options, thread) || !caller.sees(&threads, options, thread) {
        return Err(Errno::NOENT);
    }
    if inside {
        let folder = Shown { place: Place::Dir(Dir::Process), thread };
        caller.may_search(&threads, options, &folder).map_err(|e| Errno::from_raw_os_error(e.0))?;
    }
    Ok(())
}
