//! What a test needs of the machine, and the sentence that says so when it is missing.

use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

/// Something that must be there for a test to mean anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A Debian package, known by a command on the search path or a library of the C compiler.
    Package {
        /// Debian's name.
        name: String,
        /// A file of it.
        file: String,
    },
    /// This version of Linux or a later one.
    Linux(u32, u32),
    /// The rights of root, natively: the reference run uses them.
    Root,
    /// FUSE, to mount file systems.
    Fuse,
    /// Mounts of one's own, and for others than root a namespace of users.
    Namespaces,
}

impl Requirement {
    /// A package and a command or library that comes with it.
    #[must_use]
    pub fn package(name: &str, file: &str) -> Self {
        Self::Package { name: name.to_owned(), file: file.to_owned() }
    }

    /// Reads `PACKAGE FILE`.
    ///
    /// # Errors
    /// When either is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(' ') {
            Some((name, file)) => Ok(Self::package(name, file.trim())),
            None => Err("wants a package and a file of it".to_owned()),
        }
    }

    /// Whether this machine has it.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self {
            Self::Package { file, .. } => on_search_path(file) || known_to_compiler(file),
            Self::Linux(major, minor) => linux_version().is_some_and(|found| found >= (*major, *minor)),
            Self::Root => rustix::process::geteuid().is_root(),
            Self::Fuse => {
                let may_mount = rustix::process::geteuid().is_root() || on_search_path("fusermount3");
                may_mount && OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
            }
            Self::Namespaces => {
                let how = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
                let tried = Command::new("unshare").args([how, "mount", "-t", "tmpfs", "none", "/mnt"]).output();
                tried.is_ok_and(|output| output.status.success())
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package { name, .. } => write!(out, "needs package {name}"),
            Self::Linux(major, minor) => write!(out, "needs Linux {major}.{minor}"),
            Self::Root => write!(out, "needs root"),
            Self::Fuse => write!(out, "needs /dev/fuse, to be opened by this user, and but for root package fuse3"),
            Self::Namespaces => write!(out, "needs namespaces, which this machine does not give"),
        }
    }
}

fn linux_version() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn on_search_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(command).is_file())
}

/// `cc -print-file-name` answers with a full path for a library that it has, and with the bare name otherwise.
fn known_to_compiler(library: &str) -> bool {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output();
    answer.is_ok_and(|answer| Path::new(String::from_utf8_lossy(&answer.stdout).trim()).is_absolute())
}
