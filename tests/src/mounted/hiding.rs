//! Who sees what: `hidepid` and `gid` beside a native `/proc` that is mounted with them, and other users.

use super::room::{Room, succeeded, watched};
use crate::outcome::diff;
use crate::places;
use std::process::Command;

/// What nobody may find out, each line with its outcome. The folder is the first argument.
const LOOKS: &str = r#"
say() { echo "$1: $(eval "$2" 2>&1 | sed 's/^[^ ]*: //' | head -c 300) $?"; }
cd "$1" || exit 1
say listed 'ls -d 1'
say among 'ls | grep -cx 1'
say folder 'stat -c "%A %U %h" 1'
say inside 'head -c 3 1/stat'
say status 'head -n1 1/status'
say task 'ls 1/task'
say thread 'head -c 3 1/task/1/stat'
say missing 'stat -c %A 99999999'
say environ 'head -c 1 1/environ'
say fd 'ls 1/fd'
say exe 'readlink 1/exe'
say maps 'head -c 1 1/maps'
say addresses 'cut -d" " -f26-30 1/stat'
say access 'test -r 1/stat && echo yes'
say own 'cut -d" " -f2 self/stat'
say self-folder 'stat -c %A self/task'
say uptime 'test -s uptime && echo yes'
say write 'echo 1 > sys/kernel/panic'
"#;

fn as_nobody(groups: &str) -> Vec<String> {
    ["setpriv", "--reuid=65534", "--regid=65534", groups].map(str::to_owned).to_vec()
}

/// Runs the looks as user nobody, after `before` as root in mounts of their own.
fn look(room: &Room, before: &str, groups: &str) -> Result<String, String> {
    let script = room.file("looks");
    std::fs::write(&script, LOOKS).map_err(|e| e.to_string())?;
    let (folder, script) = (room.mount().display().to_string(), script.display().to_string());
    let inner = as_nobody(groups).join(" ");
    let all = format!("{before} {inner} sh {script} {folder}");
    let output = Command::new("unshare").args(["-m", "sh", "-c", &all]).output();
    succeeded(&["unshare", &all], output)
}

/// Every level, with a reader in the group and without.
///
/// # Errors
/// What differs from a native mount.
pub fn hidepid() -> Result<(), String> {
    let room = Room::new()?;
    let folder = room.mount().display().to_string();
    for level in ["0", "1", "2", "4"] {
        for groups in ["--clear-groups", "--groups=65533"] {
            let native = format!("mount -t proc -o hidepid={level},gid=65533 proc {folder} &&");
            let native = look(&room, &native, groups)?;
            let _mounted = room.mounted(&["--allow-other", "--hidepid", level, "--gid", "65533"])?;
            let ours = look(&room, "", groups)?;
            if native != ours {
                let difference = diff(native.as_bytes(), ours.as_bytes());
                return Err(format!("hidepid={level} {groups} (- natively, + on the mount):\n{difference}"));
            }
        }
    }
    let refused =
        room.entresol()?.args(["mount", "--hidepid", "3"]).arg(room.mount()).output().map_err(|e| e.to_string())?;
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    if refused.status.code() == Some(2) && complaint.contains("4 or ptraceable") { Ok(()) } else { Err(complaint) }
}

/// Without --allow-other nobody else comes in, and only root may let others in.
///
/// # Errors
/// What differs.
pub fn users() -> Result<(), String> {
    let room = Room::new()?;
    let mounted = room.mounted(&[])?;
    let nobody = |command: &[&str]| {
        let words = as_nobody("--clear-groups");
        let output =
            Command::new(&words[0]).args(&words[1..]).args(command).env("XDG_RUNTIME_DIR", room.file("none")).output();
        output.map_err(|e| e.to_string())
    };
    let path = room.mount().join("1/comm").display().to_string();
    let output = nobody(&["cat", &path])?;
    if output.status.success() {
        return Err("nobody has read root's mount".to_owned());
    }
    drop(mounted);
    let command = places::public_copy(crate::entresol::command()?).map_err(|e| e.to_string())?;
    let folder = room.mount().display().to_string();
    let output = nobody(&[&command.display().to_string(), "mount", "--allow-other", &folder])?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = output.status.code() == Some(1) && complaint.contains("--allow-other is root's");
    if refused { Ok(()) } else { Err(format!("{}: {complaint}", output.status)) }
}

/// A user without any privilege: namespaces of his own, and `fusermount3` where it is installed. The device may be closed on this machine,
/// so there is one that is open to all, in mounts of the test's own.
///
/// # Errors
/// What fails.
pub fn unprivileged() -> Result<(), String> {
    let room = Room::new()?;
    let command = places::public_copy(crate::entresol::command()?).map_err(|e| e.to_string())?;
    let (command, device) = (command.display().to_string(), room.file("device").display().to_string());
    let home = room.file("home").display().to_string();
    let open = format!(
        "mkdir {device} {home} {home}/proc && mount -t tmpfs none {device} && mknod -m 666 {device}/fuse c 10 229 && \
         mount --bind {device}/fuse /dev/fuse && chown -R 65534:65534 {home} && chmod 700 {home} && export XDG_RUNTIME_DIR={home} && "
    );
    let inner = as_nobody("--clear-groups").join(" ");
    let as_user = |script: &str| {
        let all = format!(
            "{open} {inner} sh -c '{script}'; status=$?; rm -rf {home}; umount {device}; rmdir {device}; exit $status"
        );
        succeeded(&["unshare", &all], Command::new("unshare").args(["-m", "sh", "-c", &all]).output())
    };
    // Namespaces may be forbidden to users; then the sentence says so.
    let script =
        format!("{command} proc -- sh -c \"id -u; cut -d\\\\  -f1-2 /proc/self/stat; grep -c ^ /proc/mounts\"");
    match as_user(&script) {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            if lines.len() != 3 || lines[0] != "65534" || !lines[1].ends_with("(cut)") {
                return Err(text);
            }
        }
        Err(why) if why.contains("gives users no namespaces") => eprintln!("not tried further: {why}"),
        Err(why) => return Err(why),
    }
    // Its own program, by threads.
    let program = places::public_copy(watched()?).map_err(|e| e.to_string())?;
    let script = format!(
        "mkfifo {home}/in && exec 3<>{home}/in && {command} run -- {} quiet <{home}/in >{home}/out & \
         for i in $(seq 300); do grep -qx . {home}/out && break; sleep 0.1; done; \
         {command} proc -- ps -L -p $! -o comm=; kill $!",
        program.display()
    );
    match as_user(&script) {
        Ok(text) => {
            let mut names: Vec<&str> = text.lines().collect();
            names.sort_unstable();
            if names != ["brief", "burnt", "fifo", "odd) S 1 (name", "watched"] {
                return Err(text);
            }
        }
        Err(why) if why.contains("gives users no namespaces") => {}
        Err(why) => return Err(why),
    }
    // With the helper that mounts for users, where it is installed; without, the sentence that says so.
    let script = format!("{command} mount {home}/proc && cat {home}/proc/self/comm && fusermount3 -u {home}/proc");
    match as_user(&script) {
        Ok(text) if text == "cat\n" => Ok(()),
        Err(why) if why.contains("fusermount3 is missing") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
