//! `entresol mount` and `entresol proc`, live: beside the host's own `/proc` for what is the host's, and beside `entresol ps`
//! for threads under Entresol.
//!
//! * [`room`]: a folder to mount on, a program to look at, and what `entresol ps` says of it.
//! * [`tools`]: `ps`, `top`, `pgrep` and `htop` over the mount say what `entresol ps` says.
//! * [`oracle`]: a table of names, errors and texts, natively and on the mount.
//! * [`hiding`]: `hidepid` and `gid` beside a native `/proc` that is mounted with them; other users.
//! * [`askers`]: every file, read and written by every kind of asker, as natively.
//! * [`forged`]: state pages that are made up.
//! * [`ends`]: threads and processes that die while they are read, unmounting, and machines without FUSE.

pub mod askers;
pub mod ends;
pub mod forged;
pub mod hiding;
pub mod oracle;
pub mod room;
pub mod tools;

use crate::requirement::Requirement;
use crate::trial::{Conditions, trial};
use libtest_mimic::Trial;

/// All of them. Without `/dev/fuse` they are ignored.
#[must_use]
pub fn trials() -> Vec<Trial> {
    let package = Requirement::package;
    let (fuse, root) = (Requirement::Fuse, Requirement::Root);
    let procps = package("procps", "ps");
    let util = package("util-linux", "setpriv");
    type Body = fn() -> Result<(), String>;
    let spaces = Requirement::Namespaces;
    let all: [(&str, Vec<Requirement>, Body); 16] = [
        ("mount/ps", vec![fuse.clone(), spaces.clone(), procps.clone()], tools::ps),
        ("mount/top", vec![fuse.clone(), spaces.clone(), procps.clone()], tools::top),
        ("mount/pgrep", vec![fuse.clone(), spaces.clone(), procps], tools::pgrep),
        (
            "mount/htop",
            vec![fuse.clone(), spaces.clone(), package("htop", "htop"), package("tmux", "tmux")],
            tools::htop,
        ),
        ("mount/host-is-passed-on", vec![fuse.clone()], oracle::host),
        ("mount/files-of-threads", vec![fuse.clone()], oracle::threads),
        ("mount/hidepid", vec![fuse.clone(), spaces.clone(), root.clone(), util.clone()], hiding::hidepid),
        ("mount/users", vec![fuse.clone(), root.clone(), util.clone()], hiding::users),
        (
            "mount/without-privilege",
            vec![fuse.clone(), spaces.clone(), root.clone(), util.clone()],
            hiding::unprivileged,
        ),
        ("mount/askers", vec![fuse.clone(), spaces.clone(), root.clone(), util.clone()], askers::every_kind),
        ("mount/forged-pages", vec![fuse.clone()], forged::pages),
        ("mount/the-dead", vec![fuse.clone()], ends::dead),
        ("mount/unmounting", vec![fuse.clone(), spaces.clone()], ends::unmounting),
        ("mount/unmounted-at-once", vec![fuse.clone(), root.clone()], ends::unmounted_at_once),
        ("mount/mounted-again", vec![fuse, root.clone()], ends::mounted_again),
        ("mount/without-fuse", vec![spaces, root, util], ends::without_fuse),
    ];
    // pgrep would find the programs of other tests.
    let alone = |name| name == "mount/pgrep";
    all.into_iter().map(|(name, needs, body)| trial(name, &Conditions { needs, alone: alone(name) }, body)).collect()
}
