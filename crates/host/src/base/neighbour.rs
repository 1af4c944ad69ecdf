//! `sched_*(2)` on threads of another process under Entresol (`abi::neighbour`).
//!
//! The asker proves by the process's mappings that it carries the image, and signals it through a pidfd. The asked
//! process learns from the host who asks, and applies Linux's rule for that user (`check_same_owner`). If it
//! is stopped, or does not answer in time, the host makes the call, as it does for a native process.

use crate::base::os::{self, nr};
use crate::base::socket::{Peer, Socket};
use abi::args::CAP_SYS_NICE;
use abi::neighbour::{self, Answer, Question, ROOM, Shape};
use abi::{Errno, SigInfo, si_code};
use arch::{base, syscall, user};
use kernel::{Call, ELSEWHERE, Kernel, Machine};

/// How long one side waits before it looks whether the other one can run at all, in milliseconds.
const WAIT: u32 = 50;
/// How often the asker waits: a busy host may not run the asked process for seconds.
const WAITS: u32 = 200;
/// How often the asked process's service thread does, which has other work. The asker has its question ready.
const WAITS_OF_ASKED: u32 = 20;

/// Makes the current thread's call about a thread of another process. `owner` says which process has taken an id.
#[cold]
pub(crate) fn call<M: Machine>(machine: &M, owner: impl Fn(u32) -> Option<u32>, call: &Call) -> isize {
    let call = Call { nr: call.nr & !ELSEWHERE, args: call.args };
    ask(machine, owner, &call).unwrap_or_else(|| {
        // SAFETY: the program's own call on its behalf.
        unsafe { arch::raw::syscall(call.nr, call.args.map(|a| a as usize)) }
    })
}

/// The answer of the process that has the thread; `None` if it does not run under Entresol, or the program's memory is
/// not accessible.
fn ask<M: Machine>(machine: &M, owner: impl Fn(u32) -> Option<u32>, call: &Call) -> Option<isize> {
    let size = if call.nr == nr::SCHED_SETATTR { user::load_u32(call.args[1]).ok()? } else { 0 };
    let shape = Shape::of(call.nr, &call.args, size)?;
    let thread = u32::try_from(call.args[0] as i32).ok().filter(|&thread| thread != 0)?;
    let process = if ids::Tid(thread as i32).is_ours() { owner(thread)? } else { thread };
    let mut question = Question { nr: call.nr as u64, args: call.args, bytes: [0; ROOM] };
    if let Some((at, len)) = shape.pointer.filter(|_| !shape.answers) {
        machine.read(call.args[at], &mut question.bytes[..len]).ok()?;
    }
    let answer = Asked::open(process)?.answer(&question)?;
    let result = answer.result as isize;
    match shape.pointer.filter(|_| shape.answers && result >= 0) {
        // The result of `sched_getaffinity` is the length of the mask.
        Some((at, len)) => {
            let len = if call.nr == nr::SCHED_GETAFFINITY { len.min(result as usize) } else { len };
            let written = machine.write(call.args[at], &answer.bytes[..len]);
            Some(if written.is_err() { Errno::EFAULT.to_ret() } else { result })
        }
        None => Some(result),
    }
}

/// A process that carries the image, by its pidfd.
struct Asked {
    process: u32,
    fd: i32,
}

impl Asked {
    fn open(process: u32) -> Option<Asked> {
        // SAFETY: a new descriptor.
        let fd = unsafe { syscall!(nr::PIDFD_OPEN, process, 0) };
        let asked = (fd >= 0).then_some(Asked { process, fd: fd as i32 });
        // If the id has been reused since, the pidfd refers to a process that is gone, and no signal arrives.
        asked.filter(|_| has_image(process))
    }

    fn answer(&self, question: &Question) -> Option<Answer> {
        let number = (base::tsc() as u32).wrapping_mul(0x9e37_79b9) ^ self.process;
        let (number, listener) = (0..8).find_map(|more| {
            let number = number.wrapping_add(more);
            Some((number, Socket::listen(&neighbour::name(number))?))
        })?;
        self.signal(neighbour::value(number)).then_some(())?;
        let socket = patiently(self.process, WAITS, || listener.accept(WAIT))?;
        // Any process can connect.
        let is_it = socket.peer().is_some_and(|peer| peer.process == self.process as i32);
        (is_it && socket.send(&question.to_bytes())).then_some(())?;
        let mut bytes = [0; Answer::SIZE];
        patiently(self.process, WAITS, || socket.receive(&mut bytes, WAIT).then_some(()))?;
        Some(Answer::from_bytes(&bytes))
    }

    fn signal(&self, value: u64) -> bool {
        let mut info = [0u8; 128];
        info[0..4].copy_from_slice(&neighbour::SIGNAL.to_ne_bytes());
        info[8..12].copy_from_slice(&si_code::QUEUE.to_ne_bytes());
        info[24..32].copy_from_slice(&value.to_ne_bytes());
        // SAFETY: the host copies the information.
        unsafe { syscall!(nr::PIDFD_SEND_SIGNAL, self.fd, neighbour::SIGNAL, info.as_ptr(), 0) == 0 }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        os::close(self.fd);
    }
}

/// Repeats `attempt` until it yields something, at most `attempts` times. Gives up when the process is stopped or gone.
fn patiently<T>(process: u32, attempts: u32, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..attempts).map_while(|number| (number == 0 || may_run(process)).then(&mut attempt)).find_map(|got| got)
}

/// Whether that process is neither stopped nor gone.
fn may_run(process: u32) -> bool {
    let mut stat = [0; 512];
    let stat = os::read_file(&path(process, b"stat"), &mut stat);
    // The command's name stands in parentheses, and may contain some.
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
    state.is_some_and(|state| !b"TtZX".contains(state))
}

/// Whether that process has the image's code mapped.
fn has_image(process: u32) -> bool {
    /// How many pieces of the file are searched.
    const PARTS_MAX: usize = 4096;
    const NAME: &[u8] = b"/libentresol-";
    let Ok(fd) = os::open(&path(process, b"maps"), 0, 0) else { return false };
    let (mut bytes, mut kept) = ([0u8; 4096], 0);
    let found = (0..PARTS_MAX).find_map(|_| {
        let len = os::read(fd, &mut bytes[kept..]);
        let all = &bytes[..kept + len];
        if all.windows(NAME.len()).any(|part| part == NAME) {
            return Some(true);
        }
        // The name may be split between two pieces: keep the tail.
        kept = all.len().min(NAME.len() - 1);
        let from = all.len() - kept;
        bytes.copy_within(from..from + kept, 0);
        (len == 0).then_some(false)
    });
    os::close(fd);
    found == Some(true)
}

/// Answers if the signal is about such a call.
pub(crate) fn serve<M: Machine>(kernel: &Kernel<M>, info: &SigInfo) -> bool {
    let is_one = info.signo() == neighbour::SIGNAL && info.code() == si_code::QUEUE;
    let Some(number) = Some(info.value()).filter(|_| is_one).and_then(neighbour::number) else { return false };
    if let Some(socket) = Socket::connect(&neighbour::name(number)) {
        answer(kernel, &socket);
    }
    true
}

fn answer<M: Machine>(kernel: &Kernel<M>, socket: &Socket) -> Option<()> {
    let peer = socket.peer()?;
    let privileged = may_set_priorities(peer.process);
    if !privileged && !is_owner(&peer) {
        let refused = Answer { result: Errno::EPERM.to_ret() as i64, bytes: [0; ROOM] };
        return socket.send(&refused.to_bytes()).then_some(());
    }
    let mut bytes = [0; Question::SIZE];
    let asker = u32::try_from(peer.process).ok()?;
    patiently(asker, WAITS_OF_ASKED, || socket.receive(&mut bytes, WAIT).then_some(()))?;
    let mut question = Question::from_bytes(&bytes);
    let size = u32::from_ne_bytes([question.bytes[0], question.bytes[1], question.bytes[2], question.bytes[3]]);
    let shape = Shape::of(question.nr as usize, &question.args, size)?;
    // The kernel finds the bytes here, and no more of them than there are.
    if matches!(question.nr as usize, nr::SCHED_SETAFFINITY | nr::SCHED_GETAFFINITY) {
        question.args[1] = question.args[1].min(ROOM as u64);
    }
    if let Some((at, _)) = shape.pointer {
        question.args[at] = if question.args[at] == 0 { 0 } else { question.bytes.as_mut_ptr() as u64 };
    }
    let call = Call { nr: question.nr as usize, args: question.args };
    let result = kernel.for_neighbour(&call, privileged) as i64;
    socket.send(&Answer { result, bytes: question.bytes }.to_bytes()).then_some(())
}

/// Whether the asker's user is this process's, real or effective.
fn is_owner(peer: &Peer) -> bool {
    // SAFETY: only ask.
    let mine = unsafe { [syscall!(nr::GETUID) as u32, syscall!(nr::GETEUID) as u32] };
    mine.contains(&peer.user)
}

/// Whether that process has CAP_SYS_NICE in this user namespace: in one of its own it would have another map of users.
fn may_set_priorities(process: i32) -> bool {
    let (mut mine, mut theirs) = ([0; 512], [0; 512]);
    let Ok(process @ 1..) = u32::try_from(process) else { return false };
    let same =
        os::read_file(b"/proc/self/uid_map\0", &mut mine) == os::read_file(&path(process, b"uid_map"), &mut theirs);
    let mut status = [0; 4096];
    let lines = os::read_file(&path(process, b"status"), &mut status).split(|&b| b == b'\n');
    let mut effective = lines.filter_map(|line| core::str::from_utf8(line.strip_prefix(b"CapEff:")?).ok());
    let set = effective.next().and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    same && set >> CAP_SYS_NICE & 1 != 0
}

/// `/proc/PROCESS/FILE` with a final zero. Repeated slashes count as one.
fn path(process: u32, file: &[u8]) -> [u8; 40] {
    let mut path = [b'/'; 40];
    path[..5].copy_from_slice(b"/proc");
    let mut left = process;
    let digits = process.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in path[6..6 + digits].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let end = path.len() - 1;
    path[end - file.len()..end].copy_from_slice(file);
    path[end] = 0;
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_of_a_process() {
        let (short, long) = (path(1, b"maps"), path(4_194_304, b"uid_map"));
        assert!(short.starts_with(b"/proc/1/") && short.ends_with(b"/maps\0"));
        assert!(long.starts_with(b"/proc/4194304/") && long.ends_with(b"/uid_map\0"));
    }
}
