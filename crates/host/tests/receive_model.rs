//! The protocol of `receive.rs`, every interleaving of it: two signals, the service thread, and two carriers whose calls
//! return. When one returns, every signal that had arrived when it began is with the kernel.
//!
//! The model says what the host does as `receive.rs` states it: it wakes the service thread when it queues a signal, and
//! that thread takes a signal or goes to sleep in one step, under the host's lock.

use std::collections::HashMap;

/// One of each kind: carriers take the first, and leave the second to the service thread.
const STANDARD: usize = 0;
const REAL_TIME: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Nowhere,
    Host,
    /// In the hands of the service thread.
    Service,
    /// In the hands of a carrier.
    Carrier(usize),
    Kernel,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Service {
    Elsewhere,
    /// About to ask.
    Asks,
    Asleep,
    /// Woken, and has not looked yet.
    Woken,
    /// Back from the host, with a signal or without; its state still says that it asks.
    Back,
    Delivers,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Carrier {
    InCall,
    WantsTurn,
    Takes,
    Holds,
    /// Reads the state before it asks the host about the service thread; false: for a round to end.
    Looks(bool),
    /// It asked while the state was this: what the host says.
    AsksHost(bool, u8),
    /// The host said so.
    Heard(bool, u8, bool),
    /// Nothing said that the service thread sleeps: is anything pending?
    IsDue,
    NotesRound,
    IsOver,
    Returned,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    signals: [At; 2],
    service: Service,
    /// The round, above two bits: elsewhere, asking, delivering.
    state: u8,
    turn: Option<usize>,
    carriers: [Carrier; 2],
    /// What had arrived when the call of each carrier returned.
    arrived: [[bool; 2]; 2],
    /// The round that each carrier waits for.
    noted: [u8; 2],
}

/// What a wrong protocol leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Signals are taken without the turn.
    NoTurn,
    /// The state is not looked at again after the host was asked.
    NoSecondLook,
    /// That nothing is pending is thought to be enough.
    NoRound,
    /// The service thread says that it delivers no more before it has.
    EndsEarly,
}

impl World {
    fn new() -> World {
        World {
            signals: [At::Nowhere; 2],
            service: Service::Elsewhere,
            state: 0,
            turn: None,
            carriers: [Carrier::InCall; 2],
            arrived: [[false; 2]; 2],
            noted: [0; 2],
        }
    }

    /// All states that one step of somebody leads to.
    fn steps(&self, fault: Fault) -> Vec<World> {
        let mut next = Vec::new();
        for signal in 0..2 {
            if self.signals[signal] == At::Nowhere {
                next.push(self.arrives(signal));
            }
        }
        next.extend(self.service_steps(fault));
        for me in 0..2 {
            next.extend(self.carrier_step(me, fault));
        }
        next
    }

    fn arrives(&self, signal: usize) -> World {
        let mut w = self.clone();
        w.signals[signal] = At::Host;
        if w.service == Service::Asleep {
            w.service = Service::Woken;
        }
        w
    }

    /// The service thread takes a signal if there is one: which, is the host's choice.
    fn takes(&self, otherwise: Service) -> Vec<World> {
        let pending = (0..2).filter(|&s| self.signals[s] == At::Host);
        let mut next: Vec<World> = pending
            .map(|s| {
                let mut w = self.clone();
                w.signals[s] = At::Service;
                w.service = Service::Back;
                w
            })
            .collect();
        if next.is_empty() {
            next.push(World { service: otherwise, ..self.clone() });
        }
        next
    }

    fn service_steps(&self, fault: Fault) -> Vec<World> {
        let mut w = self.clone();
        match self.service {
            Service::Elsewhere => {
                w.state |= 1;
                w.service = Service::Asks;
            }
            Service::Asks => return self.takes(Service::Asleep),
            Service::Asleep => return Vec::new(),
            Service::Woken => return self.takes(Service::Back),
            Service::Back => {
                w.state = if fault == Fault::EndsEarly { (w.state | 3) + 1 } else { w.state & !3 | 2 };
                w.service = Service::Delivers;
            }
            Service::Delivers => {
                for at in w.signals.iter_mut().filter(|at| **at == At::Service) {
                    *at = At::Kernel;
                }
                if fault != Fault::EndsEarly {
                    w.state = (w.state | 3) + 1;
                }
                w.service = Service::Elsewhere;
            }
        }
        vec![w]
    }

    fn carrier_step(&self, me: usize, fault: Fault) -> Option<World> {
        let mut w = self.clone();
        let asking = |state: u8| state & 3 == 1;
        w.carriers[me] = match self.carriers[me] {
            Carrier::InCall => {
                w.arrived[me] = self.signals.map(|at| at != At::Nowhere);
                Carrier::WantsTurn
            }
            Carrier::WantsTurn if fault == Fault::NoTurn => Carrier::Takes,
            Carrier::WantsTurn if self.turn.is_some() => return None,
            Carrier::WantsTurn => {
                w.turn = Some(me);
                Carrier::Takes
            }
            Carrier::Takes if self.signals[STANDARD] == At::Host => {
                w.signals[STANDARD] = At::Carrier(me);
                Carrier::Holds
            }
            Carrier::Takes => {
                if w.turn == Some(me) {
                    w.turn = None;
                }
                Carrier::Looks(true)
            }
            Carrier::Holds => {
                w.signals[STANDARD] = At::Kernel;
                Carrier::Takes
            }
            Carrier::Looks(first) if asking(self.state) => Carrier::AsksHost(first, self.state),
            Carrier::Looks(true) => Carrier::IsDue,
            Carrier::Looks(false) => Carrier::IsOver,
            Carrier::AsksHost(first, state) => {
                // Delivering, it may sleep as well: for a lock.
                Carrier::Heard(first, state, matches!(self.service, Service::Asleep | Service::Delivers))
            }
            Carrier::Heard(_, state, true) if self.state == state || fault == Fault::NoSecondLook => Carrier::Returned,
            Carrier::Heard(true, ..) => Carrier::IsDue,
            Carrier::Heard(false, ..) => Carrier::IsOver,
            Carrier::IsDue if self.signals.contains(&At::Host) => Carrier::Looks(true),
            Carrier::IsDue if fault == Fault::NoRound => Carrier::Returned,
            Carrier::IsDue => Carrier::NotesRound,
            Carrier::NotesRound => {
                w.noted[me] = self.state;
                Carrier::IsOver
            }
            Carrier::IsOver if self.noted[me] & 3 == 0 || self.state / 4 != self.noted[me] / 4 => Carrier::Returned,
            Carrier::IsOver => Carrier::Looks(false),
            Carrier::Returned => return None,
        };
        (w != *self).then_some(w)
    }

    /// A carrier has returned, and something that had arrived before is not with the kernel.
    fn is_wrong(&self) -> bool {
        (0..2).any(|me| {
            let late = |signal: usize| self.arrived[me][signal] && self.signals[signal] != At::Kernel;
            self.carriers[me] == Carrier::Returned && (late(STANDARD) || late(REAL_TIME))
        })
    }
}

/// Every state that can be reached, and from which others each can be; up to a wrong one, if there is one.
fn explore(fault: Fault) -> Result<(Vec<World>, Vec<Vec<u32>>), World> {
    let first = World::new();
    let mut numbers = HashMap::from([(first.clone(), 0)]);
    let (mut all, mut before) = (vec![first], vec![Vec::new()]);
    let mut at = 0;
    while at < all.len() {
        for next in all[at].steps(fault) {
            if next.is_wrong() {
                return Err(next);
            }
            let number = *numbers.entry(next).or_insert_with_key(|next| {
                all.push(next.clone());
                before.push(Vec::new());
                all.len() - 1
            });
            before[number].push(at as u32);
        }
        at += 1;
    }
    Ok((all, before))
}

#[test]
fn nothing_is_late_and_nobody_waits_for_ever() {
    let (all, before) = explore(Fault::None).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    // From every state both can return.
    let mut open: Vec<usize> = (0..all.len()).filter(|&i| all[i].carriers == [Carrier::Returned; 2]).collect();
    let mut can_end = vec![false; all.len()];
    while let Some(i) = open.pop() {
        if !std::mem::replace(&mut can_end[i], true) {
            open.extend(before[i].iter().map(|&i| i as usize));
        }
    }
    let stuck = can_end.iter().position(|can| !can);
    assert!(all.len() > 10_000 && stuck.is_none(), "{} states, {:#?}", all.len(), stuck.map(|i| &all[i]));
}

#[test]
fn all_that_the_protocol_asks_for_is_needed() {
    for fault in [Fault::NoTurn, Fault::NoSecondLook, Fault::NoRound, Fault::EndsEarly] {
        assert!(explore(fault).is_err(), "{fault:?} is not noticed");
    }
}
