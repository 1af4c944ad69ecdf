//! FUSE's own messages, over a socket in the place of `/dev/fuse`: what the kernel would ask, and what it is told.

use entresol_mount::{Host, Seen, Tree, Watch, serve};
use procfs::Options;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

struct Nobody;

impl Watch for Nobody {
    fn look(&self, _: i32) -> Seen {
        Seen::default()
    }

    fn pids(&self) -> Vec<i32> {
        vec![]
    }
}

/// The kernel's side.
struct Kernel {
    socket: UnixDatagram,
    unique: u64,
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const READLINK: u32 = 5;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const ROOT: u64 = 1;

/// Numbers of four and eight bytes, one after the other.
fn body(parts: &[(u64, usize)]) -> Vec<u8> {
    parts.iter().flat_map(|&(number, bytes)| number.to_ne_bytes()[..bytes].to_vec()).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Kernel {
    /// With its greeting sent: the tree is attached behind it.
    fn new() -> (Kernel, OwnedFd) {
        let (socket, theirs) = UnixDatagram::pair().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut kernel = Kernel { socket, unique: 0 };
        kernel.send(INIT, 0, &body(&[(7, 4), (31, 4), (128 << 10, 4), (0, 4)]));
        (kernel, theirs.into())
    }

    fn send(&mut self, operation: u32, node: u64, body: &[u8]) {
        self.unique += 2;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let len = 40 + body.len() as u64;
        let header = [(len, 4), (u64::from(operation), 4), (self.unique, 8), (node, 8)];
        let who = [(u64::from(uid), 4), (u64::from(gid), 4), (u64::from(std::process::id()), 4), (0, 4)];
        let header = [header.as_slice(), &who].concat();
        self.socket.send(&[self::body(&header), body.to_vec()].concat()).unwrap();
    }

    /// The answer to the last message: what follows its header, or the error.
    fn answer(&self) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; 1 << 20];
        let len = self.socket.recv(&mut bytes).unwrap();
        assert_eq!((word(&bytes, 0) as u32 as usize, word(&bytes, 8)), (len, self.unique));
        match (word(&bytes, 0) >> 32) as i32 {
            0 => Ok(bytes[16..len].to_vec()),
            error => Err(-error),
        }
    }

    fn ask(&mut self, operation: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        self.send(operation, node, body);
        self.answer()
    }

    fn walk(&mut self, path: &str) -> Result<u64, i32> {
        path.split('/').try_fold(ROOT, |node, name| {
            let name = [name.as_bytes(), &[0]].concat();
            self.ask(LOOKUP, node, &name).map(|entry| word(&entry, 0))
        })
    }

    fn read(&mut self, operation: u32, node: u64, handle: u64, offset: u64) -> Result<Vec<u8>, i32> {
        self.ask(operation, node, &body(&[(handle, 8), (offset, 8), (4096, 4), (0, 4), (0, 8), (0, 8)]))
    }
}

#[test]
fn the_kernel_is_told_what_the_host_says() {
    let (mut kernel, device) = Kernel::new();
    let tree = Tree::new(Host::open(Path::new("/proc")).unwrap(), Nobody, Options::default());
    let session = serve::attach(tree, &Options::default(), device).unwrap();
    assert_eq!(word(&kernel.answer().unwrap(), 0) as u32, 7, "the protocol's version");
    let served = session.spawn().unwrap();
    let own = std::process::id();
    // A name, its attributes and its text.
    let node = kernel.walk(&format!("{own}/comm")).unwrap();
    assert_eq!(kernel.walk(&format!("{own}/comm")), Ok(node), "the same number each time");
    let attributes = kernel.ask(GETATTR, node, &[0; 16]).unwrap();
    assert_eq!((word(&attributes, 16), word(&attributes, 16 + 60) as u32), (node, 0o100_644));
    let opened = kernel.ask(OPEN, node, &[0; 8]).unwrap();
    let (handle, flags) = (word(&opened, 0), word(&opened, 8) as u32);
    assert_eq!(flags & 1, 1, "a file of no length is read all the same");
    let text = std::fs::read("/proc/self/comm").unwrap();
    assert_eq!(kernel.read(READ, node, handle, 0), Ok(text.clone()));
    assert_eq!(kernel.read(READ, node, handle, 3), Ok(text[3..].to_vec()));
    assert_eq!(kernel.read(READ, node, handle, 1000), Ok(vec![]));
    let write = [body(&[(handle, 8), (0, 8), (1, 4), (0, 4), (0, 8), (0, 8)]), vec![b'x']].concat();
    assert_eq!(kernel.ask(WRITE, node, &write), Err(9), "it was opened for reading");
    assert_eq!(kernel.ask(RELEASE, node, &body(&[(handle, 8), (0, 8), (0, 8)])), Ok(vec![]));
    assert_eq!(kernel.read(READ, node, handle, 0), Err(9), "and is closed");
    // Links are of whoever asks.
    let link = kernel.walk("self").unwrap();
    assert_eq!(kernel.ask(READLINK, link, &[]), Ok(own.to_string().into_bytes()));
    // A listing, in as many parts as it takes.
    let folder = kernel.walk(&own.to_string()).unwrap();
    let opened = kernel.ask(OPENDIR, folder, &[0; 8]).unwrap();
    let (handle, mut names, mut offset) = (word(&opened, 0), vec![], 0);
    loop {
        let part = kernel.read(READDIR, folder, handle, offset).unwrap();
        if part.is_empty() {
            break;
        }
        let mut at = 0;
        while at < part.len() {
            let len = word(&part, at + 16) as u32 as usize;
            offset = word(&part, at + 8);
            names.push(String::from_utf8(part[at + 24..at + 24 + len].to_vec()).unwrap());
            at += (24 + len).next_multiple_of(8);
        }
    }
    let host = std::fs::read_dir("/proc/self").unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.split_off(2), host.collect::<Vec<_>>());
    assert_eq!(names, [".", ".."]);
    // What is not there, and what cannot be made or taken away.
    assert_eq!(kernel.walk("01"), Err(2));
    assert_eq!(kernel.ask(MKDIR, ROOT, b"\0\0\0\0\0\0\0\0new\0"), Err(2));
    assert_eq!(kernel.ask(UNLINK, folder, b"comm\0"), Err(1));
    // A number that the kernel has forgotten is nobody's. FORGET has no answer, and the session's other threads take what comes
    // after it meanwhile: the test asks until it is done.
    kernel.send(FORGET, link, &body(&[(1, 8)]));
    let until = Instant::now() + Duration::from_secs(10);
    let mut last = kernel.ask(READLINK, link, &[]);
    while last.is_ok() && Instant::now() < until {
        last = kernel.ask(READLINK, link, &[]);
    }
    assert_eq!(last, Err(116));
    // A socket of this kind has no end to hear of: what serves it ends with the test.
    drop(served);
}
