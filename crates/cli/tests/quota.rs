//! Quotas of control groups, on hosts where root may make groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A group with a quota of half a CPU, which is removed with this.
struct Group(PathBuf);

impl Group {
    /// One below the tree that is mounted in its usual place; none where that cannot be made.
    fn new() -> Option<Group> {
        let name = format!("entresol-test-{}", std::process::id());
        let (one, two) = (Path::new("/sys/fs/cgroup/cpu").join(&name), Path::new("/sys/fs/cgroup").join(&name));
        let made = |folder: &Path, file: &str, text: &str| {
            let made = fs::create_dir(folder).is_ok() && fs::write(folder.join(file), text).is_ok();
            if !made {
                let _ = fs::remove_dir(folder);
            }
            made
        };
        if made(&one, "cpu.cfs_quota_us", "50000") {
            return Some(Group(one));
        }
        made(&two, "cpu.max", "50000 100000").then_some(Group(two))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).expect("nobody is in the group any more");
    }
}

/// The output of the command with these arguments in the group.
fn said_in(group: &Group, words: &str) -> String {
    let script = format!("echo $$ >{}/cgroup.procs && exec \"$0\" {words}", group.0.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_entresol")]).stdin(Stdio::null());
    String::from_utf8(command.output().expect("a shell").stdout).unwrap()
}

#[test]
fn a_program_has_the_cpus_that_its_quota_pays_for() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let Some(group) = Group::new().filter(|_| processors > 1) else {
        println!("skipped: 1 (needs root, control groups for CPUs, and two CPUs)");
        return;
    };
    // `nproc` asks sched_getaffinity.
    assert_eq!(said_in(&group, "run -- sh -c 'nproc; exec nproc'"), "1\n1\n");
    assert_eq!(said_in(&group, "run --cpus 2 -- nproc"), "2\n");
    // The number that glibc gives `std::thread::hardware_concurrency`.
    assert_eq!(said_in(&group, "run -- getconf _NPROCESSORS_ONLN"), "1\n");
    let doctor = said_in(&group, "doctor");
    assert!(doctor.contains("1 CPU to schedule on") && doctor.contains("pays for 0.50 of"), "{doctor}");
}

#[test]
fn sysconf_and_affinity_say_the_same() {
    for cpus in ["1", "2", "3", "12"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        let script = "nproc; getconf _NPROCESSORS_ONLN; wc -l </sys/devices/system/cpu/online";
        command.args(["run", "--cpus", cpus, "--", "sh", "-c", script]).stdin(Stdio::null());
        let said = String::from_utf8(command.output().expect("the command starts").stdout).unwrap();
        assert_eq!(said, format!("{cpus}\n{cpus}\n1\n"));
    }
}
