//! The load: one thread with an instance of epoll, and one request at a time on each connection: at once after the answer to the
//! one before, or after a pause ([`Pace`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// A server that sends nothing for this long is taken to hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// Events taken by one call.
const AT_ONCE: usize = 256;
/// Keys of the cache, which are all there before the first request.
const KEYS: usize = 1_000;
const VALUE: usize = 100;
/// One request in this many is a `set`.
const SETS: usize = 10;

/// A request, and the answer to it.
pub(super) struct Exchange {
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Exchange {
    /// 64 bytes that come back.
    pub(super) fn echo() -> Exchange {
        Exchange { request: vec![b'x'; 64], answer: vec![b'x'; 64] }
    }

    /// First a `set` for each key, then `get` for nine of ten.
    pub(super) fn cache() -> Vec<Exchange> {
        (0..KEYS)
            .map(Exchange::set)
            .chain((0..KEYS).map(|key| if key % SETS == 0 { Exchange::set(key) } else { Exchange::get(key) }))
            .collect()
    }

    fn set(key: usize) -> Exchange {
        let request = format!("set key{key:05} 0 0 {VALUE}\r\n{}\r\n", "v".repeat(VALUE));
        Exchange { request: request.into(), answer: b"STORED\r\n".into() }
    }

    fn get(key: usize) -> Exchange {
        let answer = format!("VALUE key{key:05} 0 {VALUE}\r\n{}\r\nEND\r\n", "v".repeat(VALUE));
        Exchange { request: format!("get key{key:05}\r\n").into(), answer: answer.into() }
    }
}

/// Opens this many connections.
pub(super) fn connect(port: u16, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    let one = |at| -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("connection {at}"))?;
        stream.set_nodelay(true)?;
        reset_when_closed(&stream);
        Ok(stream)
    };
    (0..count).map(one).collect()
}

/// One connection.
struct Client {
    stream: TcpStream,
    /// Which exchange is under way.
    at: usize,
    /// The number of bytes of the answer received so far.
    come: usize,
    sent: Instant,
}

/// Connections and what is asked.
pub(super) struct Load {
    poll: OwnedFd,
    clients: Vec<Client>,
    exchanges: Vec<Exchange>,
    /// `None`: without pauses.
    pace: Option<Pace>,
    /// Its first request has been sent.
    begun: bool,
}

/// Pauses between an answer and the next request: of random length, as of people who do not know of each other.
pub(super) struct Pace {
    mean: Duration,
    random: fastrand::Rng,
    /// The clients that pause, and until when.
    pausing: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Pace {
    /// Pauses that are exponentially distributed, the same in each run.
    pub(super) fn new(mean: Duration) -> Pace {
        Pace { mean, random: fastrand::Rng::with_seed(1), pausing: BinaryHeap::new() }
    }

    fn pause(&mut self, client: usize) {
        // 1 − x is never 0.
        let span = self.mean.mul_f64(-(1.0 - self.random.f64()).ln());
        self.pausing.push(Reverse((Instant::now() + span, client)));
    }

    /// A client whose pause is over.
    fn next_due(&mut self) -> Option<usize> {
        let Reverse((until, client)) = *self.pausing.peek()?;
        (until <= Instant::now()).then(|| {
            self.pausing.pop();
            client
        })
    }

    /// How long nobody's pause ends.
    fn left(&self) -> Option<Duration> {
        self.pausing.peek().map(|Reverse((until, _))| until.saturating_duration_since(Instant::now()))
    }
}

/// The outcome of a span.
pub(super) struct Outcome {
    pub(super) requests: u64,
    pub(super) took: Duration,
    latencies_ns: Vec<u32>,
}

impl Outcome {
    pub(super) fn percentile_us(&self, percent: usize) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        self.latencies_ns
            .get(self.latencies_ns.len() * percent / 100)
            .or(self.latencies_ns.get(last))
            .map_or(0.0, |&ns| f64::from(ns) / 1e3)
    }
}

impl Load {
    pub(super) fn new(streams: Vec<TcpStream>, exchanges: Vec<Exchange>, pace: Option<Pace>) -> anyhow::Result<Load> {
        // SAFETY: a new descriptor, which nobody else has.
        let poll = unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error().into()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        let mut clients = Vec::with_capacity(streams.len());
        for (number, stream) in streams.into_iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
            // SAFETY: both descriptors are open, and the event is read before the call returns.
            let added =
                unsafe { libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event) };
            ensure!(added == 0, io::Error::last_os_error());
            // Clients begin in different places.
            clients.push(Client { stream, at: number * 7 % exchanges.len(), come: 0, sent: Instant::now() });
        }
        Ok(Load { poll, clients, exchanges, pace, begun: false })
    }

    /// Makes requests for a span. At its end, requests are still under way.
    pub(super) fn run(&mut self, span: Duration) -> anyhow::Result<Outcome> {
        if !self.begun {
            self.begin()?;
        }
        let mut latencies_ns = Vec::new();
        let start = Instant::now();
        while start.elapsed() < span {
            self.round(&mut latencies_ns, true)?;
        }
        let took = start.elapsed();
        latencies_ns.sort_unstable();
        Ok(Outcome { requests: latencies_ns.len() as u64, took, latencies_ns })
    }

    /// Waits for all answers.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let (mut answers, all) = (Vec::new(), self.clients.len());
        while answers.len() < all {
            self.round(&mut answers, false)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.begun = true;
        // The server must be able to answer every request.
        let sets = self.exchanges.len() / 2;
        for exchange in &self.exchanges[..sets] {
            let stream = &mut self.clients[0].stream;
            stream.write_all(&exchange.request)?;
            stream.read_exact(&mut vec![0; exchange.answer.len()])?;
        }
        for client in 0..self.clients.len() {
            self.clients[client].stream.set_nonblocking(true)?;
            self.ask(client)?;
        }
        Ok(())
    }

    /// The client makes its next request: now, or after a pause.
    fn ask(&mut self, client: usize) -> anyhow::Result<()> {
        match &mut self.pace {
            Some(pace) => pace.pause(client),
            None => self.clients[client].send(&self.exchanges)?,
        }
        Ok(())
    }

    /// Takes what has come, and sends the next requests.
    fn round(&mut self, latencies_ns: &mut Vec<u32>, go_on: bool) -> anyhow::Result<()> {
        while let Some(client) = self.pace.as_mut().and_then(Pace::next_due) {
            self.clients[client].send(&self.exchanges)?;
        }
        let left = self.pace.as_ref().and_then(Pace::left).filter(|left| *left < PATIENCE);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        let found = wait(&self.poll, left.unwrap_or(PATIENCE), &mut events)?;
        if found == 0 && left.is_none() {
            bail!("no answer within {} s", PATIENCE.as_secs());
        }
        for event in &events[..found] {
            let number = event.u64 as usize;
            let client = &mut self.clients[number];
            if client.receive(&self.exchanges)? {
                latencies_ns.push(u32::try_from(client.sent.elapsed().as_nanos()).unwrap_or(u32::MAX));
                client.at = (client.at + 1) % self.exchanges.len();
                if go_on {
                    self.ask(number)?;
                }
            }
        }
        Ok(())
    }
}

impl Client {
    fn send(&mut self, exchanges: &[Exchange]) -> anyhow::Result<()> {
        (self.come, self.sent) = (0, Instant::now());
        // One request fits in every socket's buffer.
        Ok(self.stream.write_all(&exchanges[self.at].request)?)
    }

    /// Whether the answer is there.
    fn receive(&mut self, exchanges: &[Exchange]) -> anyhow::Result<bool> {
        let answer = &exchanges[self.at].answer;
        let mut bytes = [0; 4096];
        let n = match self.stream.read(&mut bytes) {
            Ok(n) => n,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(why) => return Err(why.into()),
        };
        ensure!(n > 0, "the server closed a connection");
        let expected = answer.get(self.come..self.come + n);
        ensure!(expected == Some(&bytes[..n]), "a wrong answer: {:?}", String::from_utf8_lossy(&bytes[..n]));
        self.come += n;
        Ok(self.come == answer.len())
    }
}

/// Waits for events at most for so long: how many there are. A signal ends it early.
fn wait(poll: &OwnedFd, left: Duration, events: &mut [libc::epoll_event; AT_ONCE]) -> io::Result<usize> {
    let left = libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
    // SAFETY: the host reads the time and writes at most that many events.
    let found = unsafe {
        libc::epoll_pwait2(poll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, &raw const left, ptr::null())
    };
    match found {
        0.. => Ok(found as usize),
        _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes with a reset: thousands of connections that linger would take the ports of the next load.
fn reset_when_closed(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: an open descriptor, and a structure of the size that is passed.
    unsafe {
        let size = size_of::<libc::linger>() as u32;
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, ptr::from_ref(&linger).cast(), size);
    }
}
