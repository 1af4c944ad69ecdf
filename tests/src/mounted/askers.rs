//! Every file of the mount, read and written by every kind of asker: what comes of it is what comes of it natively.

use super::room::{Room, succeeded};
use crate::outcome::diff;
use crate::places;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// As `asker.c` knows them.
const KINDS: [&str; 8] = [
    "root",
    "other-user",
    "same-user",
    "without-capabilities",
    "no-new-privileges",
    "user-namespace",
    "roots-user-namespace",
    "pid-namespace",
];

/// A process that sleeps until the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn start(words: &[&str]) -> Result<Sleeper, String> {
        let child = Command::new(words[0]).args(&words[1..]).args(["sleep", "600"]).stdin(Stdio::null()).spawn();
        child.map(Sleeper).map_err(|e| format!("{words:?}: {e}"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of root's, one of user nobody's, one that runs under Entresol, and the asker itself.
///
/// # Errors
/// What differs from the host's own `/proc`.
pub fn every_kind() -> Result<(), String> {
    let room = Room::new()?;
    let _mounted = room.mounted(&["--allow-other"])?;
    let program = room.start(&[])?;
    let (roots, nobodys) =
        (Sleeper::start(&["env"])?, Sleeper::start(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])?);
    let pids = [roots.0.id(), nobodys.0.id(), program.pid()].map(|pid| pid.to_string());
    let asker = asker()?;
    let (mut differences, mut tried) = (String::new(), 0);
    for kind in KINDS {
        let ask = |folder: &Path| {
            let output = Command::new(&asker).arg(kind).arg(folder).args(&pids).arg("self").output();
            succeeded(&[kind], output)
        };
        let (native, ours) = (ask(Path::new("/proc"))?, ask(&room.mount())?);
        tried += native.lines().count();
        if native != ours {
            differences +=
                &format!("{kind} (- natively, + on the mount):\n{}\n", diff(native.as_bytes(), ours.as_bytes()));
        }
    }
    println!("{tried} files and folders were tried");
    if differences.is_empty() { Ok(()) } else { Err(differences) }
}

fn asker() -> Result<PathBuf, String> {
    let program = places::scratch("asker").join("asker");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mounted/asker.c");
    succeeded(&["cc"], Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).output())?;
    places::public_copy(&program).map_err(|e| e.to_string())
}
