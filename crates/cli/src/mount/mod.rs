//! `entresol mount` and `entresol proc`: the tree of crate `mount`, served from this process.
//!
//! [`watch`] supplies its snapshots; [`refusal`] says why it cannot be mounted, and what to do. [`command`] runs a command with
//! the tree over its own `/proc`, in namespaces that [`namespace`] makes.

pub mod command;
pub mod namespace;
pub mod refusal;
pub mod watch;

use anyhow::{Context, bail};
use clap::Args;
use mount::{Host, Mounted, Tree};
use procfs::{HidePid, Options};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use tool::style;

/// `entresol mount`.
#[derive(Debug, Args)]
#[command(
    after_help = "It serves until it is unmounted (fusermount3 -u DIR), or ends by SIGTERM, and with --foreground by Ctrl-C.\n\
        Exit status: 0, or 1 if it cannot be mounted.\n\n\
        Examples:\n  \
        entresol mount /tmp/proc                  cat /tmp/proc/1234/task/*/comm\n  \
        entresol mount /tmp/proc --hidepid 2      other users' processes do not show\n  \
        sudo entresol mount /srv/proc --allow-other --hidepid noaccess --gid 4\n  \
        entresol proc -- ps -eLf                  without a folder: for one command"
)]
pub struct MountArguments {
    /// An empty folder
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Known gaps.
    #[command(flatten)]
    pub hiding: Hiding,
    /// Stay in the foreground
    #[arg(long)]
    pub foreground: bool,
    /// For all users, each with his own rights; root only
    #[arg(long)]
    pub allow_other: bool,
}

/// Visibility of others' processes, in the options of the host's own /proc.
#[derive(Debug, Args)]
pub struct Hiding {
    /// Hide other users' processes: 1 or noaccess what is in their folders, 2 or invisible the folders, 4 or ptraceable all that
    /// the reader could not trace [default: 0, nothing]
    #[arg(long, value_name = "HOW", value_parser = hide)]
    pub hidepid: Option<HidePid>,
    /// Members of this group see everything, but for ptraceable
    #[arg(long, value_name = "GID", default_value = "0", hide_default_value = true)]
    pub gid: u32,
}

impl Hiding {
    fn options(&self) -> Options {
        Options { hide: self.hidepid.unwrap_or_default(), group: self.gid }
    }
}

/// `entresol proc`.
#[derive(Debug, Args)]
#[command(
    override_usage = "entresol proc [OPTIONS] [--] COMMAND [ARGS]...",
    after_help = "The command has namespaces of its own, for users (but root's) and for mounts; everything else is as ever.\n\
        Exit status: the command's own. 127 if there is no such command, 126 if it cannot be executed, 125 if it cannot have such a \
        /proc (the reason is printed).\n\n\
        Examples:\n  \
        entresol proc -- ps -eLf\n  \
        entresol proc -- htop\n  \
        entresol proc -- top -H -p 1234\n  \
        entresol proc --hidepid 2 -- pgrep -l worker"
)]
pub struct ProcArguments {
    /// Known gaps.
    #[command(flatten)]
    pub hiding: Hiding,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

fn hide(word: &str) -> Result<HidePid, String> {
    HidePid::parse(word).map_err(|_| "0 or off, 1 or noaccess, 2 or invisible, 4 or ptraceable".to_owned())
}

/// Mounts, and serves until the end.
///
/// # Errors
/// The reason why it cannot be mounted, and what to do.
pub fn mount(request: &MountArguments) -> anyhow::Result<i32> {
    let folder = folder(&request.folder)?;
    // SAFETY: asks for a number.
    let user = unsafe { libc::geteuid() };
    if request.allow_other && user != 0 {
        bail!("--allow-other is root's: only root can let each reader see what his own rights allow");
    }
    let options = request.hiding.options();
    let tree = tree(options)?;
    refusal::look(user)?;
    let name = folder.display();
    if folder.read_dir().with_context(|| format!("cannot look into {name}"))?.next().is_some() {
        bail!("cannot mount on {name}: it is not empty, and the mount would hide what is there");
    }
    let ends = block_ends();
    let mounted = Mounted::new(tree, &options, &folder, request.allow_other)
        .map_err(|error| refusal::explain(&error, &folder))?;
    let Some(mounted) = mounted else { return Ok(0) };
    if !request.foreground {
        into_background()?;
    }
    serve(mounted, ends)
}

/// The host's tree with the watched processes. Opened now, so that it stays the host's even if something is mounted
/// over it later.
fn tree(options: Options) -> anyhow::Result<Tree> {
    let host = Host::open(Path::new("/proc")).context("cannot open the host's /proc")?;
    Ok(Tree::new(host, watch::Pages, options))
}

fn folder(named: &Path) -> anyhow::Result<PathBuf> {
    let name = named.display();
    let folder = named.canonicalize().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => anyhow::anyhow!(
            "whoever served {name} has ended without unmounting it: `fusermount3 -u {name}`, then try again"
        ),
        _ => anyhow::Error::from(error).context(format!("cannot mount on {name}")),
    })?;
    if folder.starts_with("/proc") || folder == Path::new("/") {
        bail!(
            "not over {name}: this command itself needs the host's; `entresol proc -- COMMAND` runs a command with the tree there"
        );
    }
    if !folder.is_dir() {
        bail!("cannot mount on {name}: it is no folder");
    }
    Ok(folder)
}

/// Continues in a child with its own session. For the caller the command ends, and the mount exists.
fn into_background() -> anyhow::Result<()> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot go into the background"),
        0 => {
            let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
            // SAFETY: our own descriptors; no working directory is kept busy.
            unsafe {
                libc::setsid();
                libc::chdir(c"/".as_ptr());
                for stream in 0..3 {
                    libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), stream);
                }
            }
            Ok(())
        }
        // Nothing is cleaned up: the mount is the child's.
        // SAFETY: ends this process.
        _ => unsafe { libc::_exit(0) },
    }
}

/// Blocks the signals that ask for the end, before the mount exists. A signal in between would leave a mount without
/// a server, or be lost if we inherited it as ignored. All later threads have the mask.
fn block_ends() -> libc::sigset_t {
    // SAFETY: an empty set, and signals that exist.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

/// Serves until the tree is unmounted or a signal of `ends` arrives.
fn serve(mounted: Mounted, ends: libc::sigset_t) -> anyhow::Result<i32> {
    let unmounter = mounted.unmounter().context("cannot keep a way to unmount")?;
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: our own words.
        unsafe { libc::sigwait(&raw const ends, &raw mut signal) };
        // The connection ends with the process, even if processes are still inside.
        std::process::exit(match unmounter.unmount() {
            Ok(()) => 0,
            Err(error) => {
                style::complain(&format!("cannot unmount: {error}"));
                1
            }
        });
    });
    mounted.serve().context("the kernel ended the connection")?;
    Ok(0)
}
