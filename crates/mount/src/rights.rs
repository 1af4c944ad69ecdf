//! The asker's rights, taken on by the thread that serves it.
//!
//! The host judges the caller when a file is opened, and again when it is read or written. So each call for an asker
//! is made with the user, the groups and the capabilities that the asker has at that moment. Only the superuser can
//! serve other users; a server for its own user has those rights anyway, and gives up capabilities that the asker
//! lacks.
//!
//! Capabilities are relative to a user namespace. An asker in another one than the mount's is served by a process in
//! that namespace (`double.rs`), because only the host can tell what its capabilities are worth there, and what its
//! user id is towards processes outside. An asker whose namespace is unknown is refused.

use crate::caller::Asker;
use crate::double;
use crate::host::Host;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::os::fd::OwnedFd;

/// This process's own rights and namespace.
#[derive(Debug)]
pub struct Lender {
    /// The user.
    own: u32,
    /// This process's namespace of users, by its inode, and the one that the mount was made for.
    namespaces: [u64; 2],
}

/// One asker's rights.
#[derive(Debug)]
pub(crate) struct Rights {
    user: Uid,
    group: Gid,
    /// `None`: they are those of this process, which cannot change them.
    groups: Option<Vec<Gid>>,
    capabilities: CapabilitySet,
    /// Where the capabilities count, if not here.
    namespace: Option<OwnedFd>,
}

impl Lender {
    /// Lends the rights of this process, for a mount that is used in its own user namespace or in the one with this
    /// inode.
    #[must_use]
    pub fn new(host: &Host, used_in: Option<u64>) -> Lender {
        let here = host.number(b"self/ns/user").unwrap_or(0);
        Lender { own: rustix::process::geteuid().as_raw(), namespaces: [here, used_in.unwrap_or(here)] }
    }

    /// Does something with the asker's rights. It makes host calls and little else: it may run in another process.
    ///
    /// # Errors
    /// Those of `act`, or EACCES where the rights could not be taken.
    pub fn lend<R>(&self, host: &Host, asker: &Asker, act: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        let own = thread::capabilities(None)?;
        let rights = self.rights(host, asker)?;
        if rights.namespace.is_some() {
            return double::act(&rights, &own, act);
        }
        if rights.groups.is_none() && own.effective.difference(rights.capabilities).is_empty() {
            return act();
        }
        let _lent = Lent::take(&rights, &own)?;
        act()
    }

    /// Whether the asker may trace processes that are not its user's.
    ///
    /// # Errors
    /// As [`Lender::lend`].
    pub fn traces(&self, host: &Host, asker: &Asker) -> Result<bool, Errno> {
        let rights = self.rights(host, asker)?;
        Ok(rights.namespace.is_none() && rights.capabilities.contains(CapabilitySet::SYS_PTRACE))
    }

    fn rights(&self, host: &Host, asker: &Asker) -> Result<Rights, Errno> {
        // A thread in a PID namespace that is not visible here has no id.
        let thread = Pid::from_raw(asker.tid).ok_or(Errno::ACCESS)?;
        let namespace = self.namespace(host, asker)?;
        // In the namespace for which the mount was made, the capabilities of this process, which is outside of it, do
        // not count.
        let capabilities = match namespace {
            Where::UsedIn => CapabilitySet::empty(),
            _ => thread::capabilities(Some(thread)).map_err(|_| Errno::ACCESS)?.effective,
        };
        let same =
            asker.uid == self.own && (self.own != 0 || namespace == Where::Here && capabilities_are_all(capabilities)?);
        let groups = if same || self.own != 0 {
            None
        } else {
            Some(asker.facts(host)?.groups.into_iter().map(Gid::from_raw).collect())
        };
        let namespace = match namespace {
            Where::Elsewhere => {
                let path = format!("{}/ns/user", asker.tid);
                Some(host.at(None, path.as_bytes(), |folder, path| {
                    rustix::fs::openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())
                })?)
            }
            Where::Here | Where::UsedIn => None,
        };
        Ok(Rights { user: Uid::from_raw(asker.uid), group: Gid::from_raw(asker.gid), groups, capabilities, namespace })
    }

    fn namespace(&self, host: &Host, asker: &Asker) -> Result<Where, Errno> {
        let [here, used_in] = self.namespaces;
        match host.number(format!("{}/ns/user", asker.tid).as_bytes()) {
            Ok(number) if number == here => Ok(Where::Here),
            Ok(number) if number == used_in => Ok(Where::UsedIn),
            Ok(_) => Ok(Where::Elsewhere),
            // A process of the same user that may not be traced. A user's own namespaces map fewer ids.
            Err(Errno::ACCESS) if self.own != 0 => {
                let map = |of: &str| host.read(None, format!("{of}/uid_map").as_bytes());
                if map(&asker.tid.to_string())? == map("self")? { Ok(Where::Here) } else { Err(Errno::ACCESS) }
            }
            Err(_) => Err(Errno::ACCESS),
        }
    }
}

/// An asker's namespace of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Here,
    UsedIn,
    Elsewhere,
}

/// Whether nothing is missing that this process has.
fn capabilities_are_all(of: CapabilitySet) -> Result<bool, Errno> {
    Ok(thread::capabilities(None)?.permitted.difference(of).is_empty())
}

impl Rights {
    /// Takes the user and the groups on, not the capabilities. What counts for the way back stays.
    pub(crate) fn take_ids(&self) -> Result<(), Errno> {
        let Some(groups) = &self.groups else { return Ok(()) };
        thread::set_thread_groups(groups)?;
        thread::set_thread_res_gid(None, self.group, None)?;
        thread::set_thread_res_uid(None, self.user, None)
    }

    pub(crate) fn namespace(&self) -> Option<&OwnedFd> {
        self.namespace.as_ref()
    }

    pub(crate) fn capabilities(&self) -> CapabilitySet {
        self.capabilities
    }
}

/// This thread has somebody else's rights until it is dropped.
struct Lent {
    own: CapabilitySets,
    has_ids: bool,
}

impl Lent {
    fn take(rights: &Rights, own: &CapabilitySets) -> Result<Lent, Errno> {
        let lent = Lent { own: *own, has_ids: rights.groups.is_some() };
        rights.take_ids()?;
        let effective = own.effective.intersection(rights.capabilities);
        thread::set_capabilities(None, CapabilitySets { effective, ..*own })?;
        Ok(lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut back = thread::set_capabilities(None, self.own);
        if self.has_ids {
            back = back
                .and_then(|()| thread::set_thread_res_uid(None, Uid::ROOT, None))
                .and_then(|()| thread::set_thread_res_gid(None, Gid::ROOT, None))
                .and_then(|()| thread::set_thread_groups(&[]))
                .and_then(|()| thread::set_capabilities(None, self.own));
        }
        if back.is_err() {
            // Continuing would serve an asker with another's rights.
            std::process::abort();
        }
    }
}
