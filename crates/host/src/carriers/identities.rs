//! The tables of identities of a process, and the order to change the base.

use super::credentials::{Change, Credentials};
use crate::carriers::carrier::Carrier;
use alloc::vec::Vec;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use sync::{Guard, Lock};

/// The identities of a process.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    pub table: Lock<Table>,
    /// The identity of all threads that are in none of `others`.
    pub base: AtomicU32,
    /// Some thread may have another identity than `base`.
    pub mixed: AtomicBool,
    /// There is no spare with the base identity.
    pub missing: AtomicBool,
    /// How often the host has refused the service thread a carrier.
    pub refused: AtomicU32,
    pub order: AtomicPtr<Order>,
    /// The base that the current order replaces, plus one; 0: there has been no order.
    pub left: AtomicU32,
    /// How many host threads have followed orders.
    pub followed: AtomicU32,
}

impl Identities {
    /// The table's lock. A carrier that changes the base holds it and waits for all host threads. So only carriers may
    /// take it, because they follow the change while they wait. The service thread must not (`adopt`).
    pub fn lock(&self) -> Guard<'_, Table> {
        assert!(Carrier::me().gs.borrowed == 0, "the service thread must not wait for the table of identities");
        self.table.lock()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The base's credentials, once they were needed.
    pub base: Option<Credentials>,
    pub others: Vec<Identity>,
    /// The last number given out.
    pub last: u32,
    pub opaque: u32,
}

/// An identity other than the base.
#[derive(Debug)]
pub(crate) struct Identity {
    pub number: u32,
    pub credentials: Credentials,
    /// The identity that this one was derived from, by which change, and what that call returned. Without a change this
    /// identity differs from the other only in its number, and belongs to one carrier.
    pub from: u32,
    pub change: Option<Change>,
    pub result: isize,
    /// How many threads have it.
    pub threads: u32,
}

impl Table {
    pub fn get(&mut self, number: u32) -> Option<&mut Identity> {
        self.others.iter_mut().find(|i| i.number == number)
    }

    /// Forgets identities that no thread has, unless another identity was derived from them.
    pub fn forget_unused(&mut self) {
        let used: Vec<u32> = self.others.iter().map(|i| i.from).collect();
        self.others.retain(|i| i.threads > 0 || used.contains(&i.number));
    }

    /// If `number` is the identity of a thread tied to its carrier: the identity that the thread would have otherwise.
    pub fn untied(&self, number: u32) -> Option<u32> {
        self.others.iter().find(|i| i.number == number && i.change.is_none()).map(|i| i.from)
    }

    /// Reads all credentials again: a call that is not a [`Change`] has changed the rights of the calling host thread,
    /// the only one of the process, so every identity that it had or may have has changed, too.
    pub fn look_again(&mut self) {
        let now = |before: &Credentials| Credentials::mine(before.opaque());
        self.base = self.base.as_ref().map(now);
        for identity in &mut self.others {
            identity.credentials = now(&identity.credentials);
        }
    }

    /// The changes that lead from `base` to `to`.
    pub fn path(&self, base: u32, to: u32) -> Option<Vec<Change>> {
        let mut path = Vec::new();
        let mut at = to;
        while at != base {
            let identity = self.others.iter().find(|i| i.number == at)?;
            path.push(identity.change.clone()?);
            at = identity.from;
        }
        path.reverse();
        Some(path)
    }
}

/// The changes that each host thread must make.
#[derive(Debug)]
pub(crate) struct Order {
    pub to: u32,
    pub path: Vec<Change>,
    pub credentials: Credentials,
}
