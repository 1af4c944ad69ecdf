//! Pipes and children as a careful C program uses them: what is cut short is done again, and what comes is checked.

use super::call::call;
use super::env::{Env, Micro};
use abi::{Errno, nr};
use kernel::Machine;

/// Where the buffer lies in a thread's scratch memory, and how long it is.
pub(super) const BUFFER: u64 = 256;
const BUFFER_SIZE: u64 = 3000;
/// The period of the stream in bytes, which no length divides.
const PERIOD: u64 = 251;

#[derive(Debug)]
pub(crate) enum HostOp {
    Pipe,
    Piped,
    Send { fd: u64, seq: u64, left: u64, asked: u64 },
    Receive { fd: u64, seq: u64, len: u64, total: u64, asked: bool },
    Fork,
    Forked,
    Wait { child: isize },
}

fn stream(seq: u64, len: u64) -> Vec<u8> {
    (seq..seq + len).map(|i| (i % PERIOD) as u8).collect()
}

impl HostOp {
    pub(crate) fn advance(&mut self, input: isize, env: &mut Env<'_>) -> Micro {
        let interrupted = input == Errno::EINTR.to_ret();
        let buffer = env.scratch + BUFFER;
        match self {
            HostOp::Pipe => {
                *self = HostOp::Piped;
                Micro::Call(call(nr::PIPE2, &[buffer, 0]))
            }
            HostOp::Piped if input == 0 => {
                let [from, to] = [buffer, buffer + 4].map(|at| env.load(at) as isize);
                Micro::Done(from | to << 32)
            }
            HostOp::Piped => env.wrong("pipe2", input),
            HostOp::Send { fd, seq, left, asked } => {
                match input {
                    _ if *asked == 0 || interrupted => {}
                    1.. if input as u64 <= *asked => (*seq, *left) = (*seq + input as u64, *left - input as u64),
                    _ => return env.wrong("write", input),
                }
                if *left == 0 {
                    return Micro::Done(0);
                }
                *asked = (*left).min(BUFFER_SIZE);
                env.machine.write(buffer, &stream(*seq, *asked)).expect("the scratch memory is mapped");
                Micro::Call(call(nr::WRITE, &[*fd, buffer, *asked]))
            }
            HostOp::Receive { fd, len, asked, .. } if !*asked || interrupted => {
                *asked = true;
                Micro::Call(call(nr::READ, &[*fd, buffer, (*len).min(BUFFER_SIZE)]))
            }
            HostOp::Receive { len, .. } if input > (*len).min(BUFFER_SIZE) as isize => env.wrong("read", input),
            HostOp::Receive { seq, total, .. } => {
                let mut bytes = vec![0; usize::try_from(input).unwrap_or(0)];
                env.machine.read(buffer, &mut bytes).expect("the scratch memory is mapped");
                if input < 0 || bytes != stream(*seq, input as u64) || (input == 0) != (seq == total) {
                    return env.wrong("read", input);
                }
                Micro::Done(input)
            }
            HostOp::Fork => {
                *self = HostOp::Forked;
                Micro::Call(call(nr::FORK, &[]))
            }
            HostOp::Forked if input > 0 => {
                *self = HostOp::Wait { child: input };
                Micro::Call(call(nr::WAIT4, &[input as u64]))
            }
            // A SCHED_DEADLINE thread makes no process.
            HostOp::Forked if input == Errno::EAGAIN.to_ret() => Micro::Done(input),
            HostOp::Forked => env.wrong("fork", input),
            HostOp::Wait { child } if interrupted => Micro::Call(call(nr::WAIT4, &[*child as u64])),
            HostOp::Wait { child } if input == *child => Micro::Done(0),
            HostOp::Wait { .. } => env.wrong("wait4", input),
        }
    }
}

impl Env<'_> {
    /// The host's answer is not what it must be.
    pub(super) fn wrong(&mut self, what: &str, result: isize) -> Micro {
        self.owners.broken.get_or_insert(format!("thread {}: {what} says {result}", self.tid.0));
        Micro::Done(result)
    }
}
