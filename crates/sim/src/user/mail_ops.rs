//! Mailboxes as a careful C program uses them, whose descriptors others close and overwrite.

use super::TakeMessage;
use super::call::call;
use super::env::{Env, Micro};
use super::host_ops::BUFFER;
use crate::linux::timeval;
use abi::args::{F_DUPFD, POLLIN, POLLNVAL, SO_RCVTIMEO, SOL_SOCKET};
use abi::{Errno, nr};
use ids::Nanos;
use kernel::Machine;

const MESSAGE: u64 = 8;

#[derive(Debug)]
pub(crate) enum MailOp {
    Socket { messages: u64, within: Nanos, limit: Option<Nanos>, at: u64 },
    Limit { limit: Option<Nanos>, at: u64 },
    Duplicate { home: u64, at: u64 },
    Opened { home: u64, at: u64 },
    Begin(TakeMessage),
    Polled(TakeMessage, Nanos),
    Read(TakeMessage, u64, Nanos),
    Renumber { fd: u64, spare: u64, at_once: bool },
    Closed { fd: u64, spare: u64 },
    Renumbered { fd: u64 },
}

impl MailOp {
    pub(crate) fn open(messages: u64, within: Nanos, limit: Option<Nanos>, at: u64) -> MailOp {
        MailOp::Socket { messages, within, limit, at }
    }

    pub(crate) fn take(how: TakeMessage) -> MailOp {
        MailOp::Begin(how)
    }

    pub(crate) fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        let buffer = env.scratch + BUFFER;
        let (next, call) = match *self {
            MailOp::Socket { messages, within, limit, at } => {
                (MailOp::Limit { limit, at }, call(nr::SOCKET, &[1, 2, 0, messages, within.0]))
            }
            MailOp::Limit { .. } | MailOp::Duplicate { .. } if input < 0 => return env.wrong("socket", input),
            MailOp::Limit { limit: None, at } => {
                let home = input as u64;
                (MailOp::Opened { home, at }, call(nr::FCNTL, &[home, F_DUPFD, at]))
            }
            MailOp::Limit { limit: Some(limit), at } => {
                let home = input as u64;
                env.machine.write(buffer, &timeval(limit)).expect("the scratch memory is mapped");
                let set = call(nr::SETSOCKOPT, &[home, SOL_SOCKET, SO_RCVTIMEO, buffer, 16]);
                (MailOp::Duplicate { home, at }, set)
            }
            MailOp::Duplicate { home, at } => (MailOp::Opened { home, at }, call(nr::FCNTL, &[home, F_DUPFD, at])),
            MailOp::Opened { home, at } if input as u64 == at => return Micro::Done(home as isize),
            MailOp::Opened { .. } => return env.wrong("fcntl", input),
            MailOp::Begin(how) => begin(how, buffer, env),
            MailOp::Polled(how, began) => match polled(how, began, input, buffer, env) {
                Some(next) => next,
                None => return env.wrong("poll", input),
            },
            MailOp::Read(how, fd, began) => {
                let over = how.limit.is_some_and(|limit| env.machine.now().since(began) >= limit);
                match Errno::from_ret(input) {
                    Ok(n) if n as u64 == MESSAGE => return Micro::Done(0),
                    Err(Errno::EINTR) => begin(how, buffer, env),
                    Err(Errno::EAGAIN) if over => begin(how, buffer, env),
                    // It has just been closed.
                    Err(Errno::EBADF) if fd != how.spare => read(how, how.spare, buffer, env),
                    _ => return env.wrong("read of a message", input),
                }
            }
            MailOp::Renumber { fd, spare, at_once: true } => (MailOp::Renumbered { fd }, call(nr::DUP2, &[spare, fd])),
            MailOp::Renumber { fd, spare, at_once: false } => (MailOp::Closed { fd, spare }, call(nr::CLOSE, &[fd])),
            MailOp::Closed { fd, spare } if input == 0 => {
                (MailOp::Renumbered { fd }, call(nr::FCNTL, &[spare, F_DUPFD, fd]))
            }
            MailOp::Closed { .. } => return env.wrong("close", input),
            MailOp::Renumbered { fd } if input as u64 == fd => return Micro::Done(0),
            MailOp::Renumbered { .. } => return env.wrong("a duplicate", input),
        };
        *self = next;
        Micro::Call(call)
    }
}

type Next = (MailOp, kernel::Call);

/// It reads at once, or asks first which descriptor has something.
fn begin(how: TakeMessage, buffer: u64, env: &Env<'_>) -> Next {
    let Some(millis) = how.poll else { return read(how, how.fd, buffer, env) };
    for (i, fd) in [how.fd, how.spare].into_iter().enumerate() {
        let one = fd | POLLIN << 32;
        kernel::machine::put(env.machine, buffer + 8 * i as u64, one).expect("the scratch memory is mapped");
    }
    (MailOp::Polled(how, env.machine.now()), call(nr::POLL, &[buffer, 2, millis as u64]))
}

fn read(how: TakeMessage, fd: u64, buffer: u64, env: &Env<'_>) -> Next {
    (MailOp::Read(how, fd, env.machine.now()), call(nr::READ, &[fd, buffer, MESSAGE]))
}

/// `None`: this must not be.
fn polled(how: TakeMessage, began: Nanos, input: isize, buffer: u64, env: &Env<'_>) -> Option<Next> {
    let passed = env.machine.now().since(began);
    let limit = how.poll.and_then(|ms| u64::try_from(ms).ok()).map(Nanos::from_millis);
    let says = |i: u64| kernel::machine::get::<u64>(env.machine, buffer + 8 * i).map_or(0, |word| word >> 48);
    match input {
        0 if limit.is_some_and(|limit| passed >= limit) => Some(begin(how, buffer, env)),
        _ if input == Errno::EINTR.to_ret() => Some(begin(how, buffer, env)),
        1 | 2 if says(0) & POLLIN != 0 => Some(read(how, how.fd, buffer, env)),
        1 | 2 if says(1) & POLLIN != 0 => Some(read(how, how.spare, buffer, env)),
        1 if says(0) & POLLNVAL != 0 => Some(begin(how, buffer, env)),
        _ => None,
    }
}
