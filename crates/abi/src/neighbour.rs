//! How one process under Entresol makes a call about a thread of another one: the signal of
//! [`crate::checkpoint::request`], with its own value, names a socket on which the requester listens. The process
//! connects, receives the call and sends the result. The memory at the call's pointer travels with both.

use crate::bytes::layout;
use crate::nr;

/// The signal that asks: SIGURG, which is ignored by default.
pub const SIGNAL: i32 = crate::checkpoint::request::SIGNAL;
const COOKIE: u64 = 0x454e_5443;
/// The most bytes behind a pointer that travel: a mask of 4,096 CPUs.
pub const ROOM: usize = 512;
/// Bytes of a socket's name.
pub const NAME: usize = 23;

/// The signal's value for the socket of this number.
pub const fn value(number: u32) -> u64 {
    COOKIE << 32 | number as u64
}

/// The number that a value has, if it asks for this.
pub const fn number(value: u64) -> Option<u32> {
    if value >> 32 == COOKIE { Some(value as u32) } else { None }
}

/// The name of the socket, an abstract one (`unix(7)`).
pub const fn name(number: u32) -> [u8; NAME] {
    let mut name = crate::checkpoint::request::name(number);
    let kind = *b"call";
    let mut i = 0;
    while i < kind.len() {
        name[10 + i] = kind[i];
        i += 1;
    }
    name
}

/// Where a call about a thread, which its first argument names, has its pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The index of the pointer argument, and how many bytes it points to; `None`: there is none.
    pub pointer: Option<(usize, usize)>,
    /// The call writes to the pointer; otherwise it reads.
    pub answers: bool,
}

impl Shape {
    /// The shape of a call with these arguments; `None` if it is not a call about a thread, or if it has more than
    /// [`ROOM`] bytes. `size` is the first word at its pointer, if that is the size of a structure.
    pub fn of(call: usize, args: &[u64; 6], size: u32) -> Option<Shape> {
        let len = |at: usize| args[at] as u32 as usize;
        let (pointer, answers) = match call {
            nr::SCHED_SETSCHEDULER => (Some((2, 4)), false),
            nr::SCHED_SETPARAM => (Some((1, 4)), false),
            nr::SCHED_GETPARAM => (Some((1, 4)), true),
            nr::SCHED_SETATTR => (Some((1, (size as usize).max(4))), false),
            nr::SCHED_GETATTR => (Some((1, len(2))), true),
            nr::SCHED_RR_GET_INTERVAL => (Some((1, 16)), true),
            nr::SCHED_SETAFFINITY => (Some((2, len(1).min(ROOM))), false),
            nr::SCHED_GETAFFINITY => (Some((2, len(1).min(ROOM))), true),
            nr::SCHED_GETSCHEDULER => (None, false),
            _ => return None,
        };
        pointer.is_none_or(|(_, len)| len <= ROOM).then_some(Shape { pointer, answers })
    }
}

/// A call, as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number.
    pub nr: u64,
    /// Its arguments; the pointer means nothing to the other process.
    pub args: [u64; 6],
    /// The bytes at the pointer.
    pub bytes: [u8; ROOM],
}

layout!(Question: 568 { 0 nr, 8 args, 56 bytes });

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The call's result.
    pub result: i64,
    /// The bytes at the pointer.
    pub bytes: [u8; ROOM],
}

layout!(Answer: 520 { 0 result, 8 bytes });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let question = Question { nr: 203, args: [1, 2, 3, 4, 5, u64::MAX], bytes: [7; ROOM] };
        assert_eq!(Question::from_bytes(&question.to_bytes()), question);
        let answer = Answer { result: -3, bytes: [9; ROOM] };
        assert_eq!(Answer::from_bytes(&answer.to_bytes()), answer);
    }

    #[test]
    fn a_value_names_a_socket_of_its_own() {
        assert_eq!(number(value(7)), Some(7));
        assert_eq!(crate::checkpoint::request::number(value(7)), None);
        assert_eq!(&name(0x0102_0abc), b"\0entresol-call-01020abc");
    }

    #[test]
    fn only_what_fits_travels() {
        assert_eq!(Shape::of(nr::SCHED_GETATTR, &[1, 2, 4096, 0, 0, 0], 0), None);
        assert_eq!(
            Shape::of(nr::SCHED_SETAFFINITY, &[1, 8192, 2, 0, 0, 0], 0).and_then(|s| s.pointer),
            Some((2, ROOM))
        );
        assert_eq!(Shape::of(nr::KILL, &[0; 6], 0), None);
    }
}
