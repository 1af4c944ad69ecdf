//! EEVDF as its authors define it.
//!
//! A client asks for the CPU in requests. A request is eligible at the virtual time at which the ideal machine would have
//! served all before it, and its virtual deadline is when the ideal machine would have served it, too. At the end of each
//! quantum the eligible request with the earliest deadline gets the next one. A client that leaves with a lag shifts the
//! virtual time of the others by their part of it, and has that lag when it comes back (the paper's first strategy).
//!
//! Theorem 1 holds while clients only join and leave without lag: −r < lag < max(r, q), r being the client's
//! longest request and q the quantum.

use super::{Fair, Share, Thread};
use alloc::vec::Vec;
use ids::Nanos;

/// Binary digits after the point of virtual times. One unit of them is a nanosecond for a client of weight 1.
const FRACTION: u32 = 32;

#[derive(Debug)]
struct Client {
    weight: i128,
    /// The length of its requests, in ns.
    request: i128,
    /// Of its present request.
    eligible: i128,
    deadline: i128,
    /// CPU time that the present request has had, in ns.
    used: i128,
    /// While it is away: what it is owed, in 2^-[`FRACTION`] ns.
    lag: i128,
    competes: bool,
}

impl Client {
    /// Virtual time of so much service.
    fn virtual_time(&self, time: i128) -> i128 {
        (time << FRACTION) / self.weight
    }

    /// Its lag at virtual time `now`, in 2^-[`FRACTION`] ns.
    fn owed(&self, now: i128) -> i128 {
        self.weight * (now - self.eligible) - (self.used << FRACTION)
    }

    fn ask(&mut self, eligible: i128) {
        self.eligible = eligible;
        self.deadline = eligible + self.virtual_time(self.request);
    }
}

/// The design; see the module's source.
#[derive(Debug)]
pub struct Paper {
    clients: Vec<Client>,
    /// The sum of the competing clients' weights.
    weight: i128,
    /// Virtual time.
    virtual_now: i128,
    quantum: Nanos,
    running: Option<Thread>,
    /// The end of the running client's quantum.
    until: Nanos,
    advanced_until: Nanos,
}

impl Paper {
    /// With this quantum.
    #[must_use]
    pub fn new(quantum: Nanos) -> Paper {
        Paper {
            clients: Vec::new(),
            weight: 0,
            virtual_now: 0,
            quantum,
            running: None,
            until: Nanos::ZERO,
            advanced_until: Nanos::ZERO,
        }
    }

    fn advance(&mut self, now: Nanos) {
        let passed = i128::from(now.0 - self.advanced_until.0);
        self.advanced_until = now;
        if self.weight > 0 {
            self.virtual_now += (passed << FRACTION) / self.weight;
        }
        let Some(thread) = self.running else { return };
        let client = &mut self.clients[thread];
        client.used += passed;
        if client.used == client.request {
            client.used = 0;
            client.ask(client.deadline);
        }
    }

    fn pick(&self) -> Option<Thread> {
        let competing = || (0..self.clients.len()).filter(|&thread| self.clients[thread].competes);
        let eligible = competing().filter(|&thread| self.clients[thread].eligible <= self.virtual_now);
        let earliest = eligible.min_by_key(|&thread| self.clients[thread].deadline);
        // The lags' sum is zero, so one is eligible; rounding may make it so a moment later.
        earliest.or_else(|| competing().min_by_key(|&thread| self.clients[thread].eligible))
    }
}

impl Fair for Paper {
    fn name(&self) -> &'static str {
        "EEVDF, the paper of 1995"
    }

    fn attach(&mut self, share: Share) {
        let weight = i128::from(share.weight());
        let request = i128::from(share.slice.0);
        self.clients.push(Client { weight, request, eligible: 0, deadline: 0, used: 0, lag: 0, competes: false });
    }

    fn wake(&mut self, thread: Thread, now: Nanos) {
        self.advance(now);
        let client = &mut self.clients[thread];
        client.competes = true;
        // The others' lags sum to zero; from now on they must sum to minus this one's.
        let lag = if self.weight == 0 { 0 } else { client.lag };
        self.virtual_now -= if lag == 0 { 0 } else { lag / self.weight };
        self.weight += client.weight;
        client.ask(self.virtual_now - lag / client.weight);
    }

    fn block(&mut self, now: Nanos) {
        self.advance(now);
        let Some(thread) = self.running.take() else { return };
        let client = &mut self.clients[thread];
        client.lag = client.owed(self.virtual_now);
        client.competes = false;
        client.used = 0;
        self.weight -= client.weight;
        if self.weight > 0 {
            self.virtual_now += client.lag / self.weight;
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.advance(now);
    }

    fn choose(&mut self, now: Nanos) -> Option<Thread> {
        self.advance(now);
        if self.running.is_none() || now >= self.until {
            self.running = self.pick();
            if let Some(thread) = self.running {
                let client = &self.clients[thread];
                let length = (client.request - client.used).min(i128::from(self.quantum.0));
                self.until = Nanos(now.0 + length as u64);
            }
        }
        self.running
    }

    fn alarm(&self) -> Option<Nanos> {
        self.running.map(|_| self.until)
    }
}
