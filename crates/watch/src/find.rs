//! Where the pages lie, whose they are, and whether their process lives.

use ids::Nanos;
use state::{Error, Header, Page, Source};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A page's file.
#[derive(Debug)]
pub struct PageFile(File);

impl Source for PageFile {
    fn words(&self) -> usize {
        self.0.metadata().map_or(0, |found| usize::try_from(found.len() / 8).unwrap_or(0))
    }

    /// By copying: a mapped file could be cut short at any time.
    fn read(&self, at: usize, to: &mut [u64]) -> bool {
        let mut bytes = vec![0; to.len() * 8];
        let Some(offset) = at.checked_mul(8).and_then(|at| u64::try_from(at).ok()) else { return false };
        if self.0.read_exact_at(&mut bytes, offset).is_err() {
            return false;
        }
        for (word, bytes) in to.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        true
    }
}

/// The folders in which the user's processes publish. One that others can write to says nothing of our processes.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    let shared: PathBuf = format!("/dev/shm/entresol-{}", tool::machine::user()).into();
    // If `/dev/shm` has no folder of ours, pages lie beside the image.
    let all = [shared].into_iter().chain(tool::folders::for_images());
    let mut folders: Vec<PathBuf> =
        all.filter_map(|folder| tool::folders::open(&folder, false).ok()).map(|folder| folder.path).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The page of a process, in one of the folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub pid: i32,
    /// The file.
    pub path: PathBuf,
}

/// All pages of the user, by process id. Those of processes that are known to be gone are removed on the way.
#[must_use]
pub fn all() -> Vec<Place> {
    let entries = folders().into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut places: Vec<Place> = entries
        .filter_map(|entry| {
            remove_tally(&entry);
            let pid = entry.file_name().to_str()?.strip_prefix("state-")?.trim_end_matches('~').parse().ok()?;
            Some(Place { pid, path: entry.path() })
        })
        .filter(lives)
        .filter(|place| !place.path.as_os_str().as_encoded_bytes().ends_with(b"~"))
        .collect();
    places.sort_by_key(|place| place.pid);
    places.dedup_by_key(|place| place.pid);
    places
}

/// A file in which a process and its descendants counted what ran natively (`host/src/base/natives.rs`) goes with the process,
/// unless that is killed.
fn remove_tally(entry: &fs::DirEntry) {
    let name = entry.file_name();
    let process = name.to_str().and_then(|name| name.strip_prefix("natives-")?.split('-').next());
    if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) && Path::new("/proc/self").exists() {
        let _ = fs::remove_file(entry.path());
    }
}

/// The page of one process.
#[must_use]
pub fn one(pid: i32) -> Option<Place> {
    let places = folders().into_iter().map(|folder| Place { pid, path: folder.join(format!("state-{pid}")) });
    places.filter(|place| place.path.exists()).find(lives)
}

/// Whether the process that made this page is there and still the same. If it is certain that it is gone, the file is
/// removed.
fn lives(place: &Place) -> bool {
    let Ok(page) = read(place) else {
        // Of another version, or damaged: reading it gives the reason. It is kept, because its process is not known for
        // certain.
        return Path::new(&format!("/proc/{}", place.pid)).exists();
    };
    // The name of the file, not the page itself, says which process the page belongs to.
    let fate = fate(&Header { pid: place.pid, ..*page.header() });
    if fate == Fate::Gone {
        let _ = fs::remove_file(&place.path);
    }
    fate == Fate::Lives
}

/// Opens a page and looks at its header.
///
/// # Errors
/// [`Error::NoPage`] also if the file is gone or somebody else's.
pub fn open(place: &Place) -> Result<Page<PageFile>, Error> {
    let page = read(place)?;
    if page.header().pid == place.pid { Ok(page) } else { Err(Error::Damaged("process id")) }
}

fn read(place: &Place) -> Result<Page<PageFile>, Error> {
    let file = || -> io::Result<Option<File>> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&place.path)?;
        let found = file.metadata()?;
        Ok((found.is_file() && found.uid() == tool::machine::user()).then_some(file))
    };
    let file = file().ok().flatten().ok_or(Error::NoPage)?;
    Page::open(PageFile(file))
}

/// The fate of the process that made a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Lives,
    /// Certainly gone.
    Gone,
    /// Its id means nothing here: it lives, or has lived, in another namespace, or `/proc` says nothing.
    Unknown,
}

/// Whether the process that made the page is the one that has its id now, and still runs the same program. Ids are
/// reused, and a program without Entresol may have come by exec, but none of them has the old service thread.
#[must_use]
pub fn fate(header: &Header) -> Fate {
    let Header { pid, service, .. } = *header;
    if Some(header.namespace) != namespace() {
        return Fate::Unknown;
    }
    let tick = 1_000_000_000 / clock_ticks();
    let same = match began(pid) {
        Ok(Some((began, is_zombie))) => {
            let same = began.0 <= header.created.0.saturating_add(tick);
            same && if service == 0 { !is_zombie } else { has_host_thread(pid, service) }
        }
        Ok(None) => return Fate::Unknown,
        // ESRCH: it has ended between open and read.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => false,
        Err(_) => return Fate::Unknown,
    };
    if same { Fate::Lives } else { Fate::Gone }
}

/// How long ago the process of this page began, to a tick of the host.
///
/// The page may be younger: a new one is made when another host thread becomes the service thread, or the rights have
/// changed.
#[must_use]
pub fn age(header: &Header) -> Nanos {
    let here = Some(header.namespace) == namespace();
    let began = if here { began(header.pid).ok().flatten() } else { None };
    crate::fetch::clock(libc::CLOCK_BOOTTIME).since(began.map_or(header.created, |(began, _)| began))
}

/// The namespace of process ids that this process has and its `/proc` shows.
fn namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino()).filter(|&number| number != 0)
}

/// Whether a process has that host thread. A mounted tree over /proc does not list it, and the host itself always knows.
fn has_host_thread(pid: i32, tid: i32) -> bool {
    // SAFETY: no signal is sent.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) == 0 };
    found || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// When a process began, by CLOCK_BOOTTIME, to a tick of the host (`proc_pid_stat(5)`, starttime), and whether it, or its main
/// thread, is a zombie. `None`: nobody understands what the host says.
fn began(pid: i32) -> io::Result<Option<(Nanos, bool)>> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    let fields = || {
        // The name, in parentheses, may hold any bytes.
        let end = text.windows(2).rposition(|end| end == b") ")?;
        let mut fields = str::from_utf8(&text[end + 2..]).ok()?.split(' ');
        let is_zombie = matches!(fields.next()?, "Z" | "X" | "x");
        let ticks: u64 = fields.nth(18)?.parse().ok()?;
        Some((Nanos(ticks.saturating_mul(1_000_000_000 / clock_ticks())), is_zombie))
    };
    Ok(fields())
}

fn clock_ticks() -> u64 {
    // SAFETY: asks for a constant.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}
