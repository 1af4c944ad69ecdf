//! Programs that Entresol cannot enter run natively when a program executes them, and that is said, counted, or refused.

mod executable;

use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SAID: &str = "runs natively, not under Entresol";
const REFUSED: &str = "is not executed (--require)";

/// A folder for the image, the programs `narrow` (of 32 bits) and `short` (its data are said to reach behind the file's end, which
/// Linux minds only when they are used), and what a test writes.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let exit = "mov $60, %eax\n mov $42, %edi\n syscall\n";
        let narrow = "mov $1, %eax\n mov $42, %ebx\n int $0x80\n";
        place.assemble("narrow", &["-m32"], &format!(".globl _start\n_start: {narrow}"));
        place.assemble("short", &[], &format!(".globl _start\n_start: {exit} .data\n .quad 1\n"));
        place.lengthen_data("short");
        place
    }

    /// A program without a library.
    fn assemble(&self, name: &str, options: &[&str], text: &str) {
        let source = self.path().join(format!("{name}.s"));
        fs::write(&source, text).unwrap();
        let compiled = Command::new("cc")
            .args(options)
            .args(["-static", "-nostdlib", "-o"])
            .arg(self.path().join(name))
            .arg(&source)
            .status();
        assert!(compiled.expect("a C compiler is there").success());
    }

    /// Makes the last segment of a program reach behind the file's end.
    fn lengthen_data(&self, name: &str) {
        const PT_LOAD: [u8; 4] = [1, 0, 0, 0];
        let path = self.path().join(name);
        let mut file = fs::read(&path).unwrap();
        let headers = (0..usize::from(file[56])).map(|index| 64 + 56 * index);
        let last = headers.rev().find(|&at| file[at..at + 4] == PT_LOAD).unwrap();
        for field in [32, 40] {
            file[last + field..last + field + 8].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        }
        executable::write(&path, file);
    }

    /// A copy of a program, with this mode.
    fn copy(&self, program: &str, name: &str, mode: u32) {
        let to = self.path().join(name);
        executable::write(&to, fs::read(program).unwrap());
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        command.arg("run").args(options).arg("--").args(program);
        command.current_dir(self.path()).env("XDG_CACHE_HOME", self.path());
        command
    }

    /// The streams that `sh -c SCRIPT` writes.
    fn shell(&self, options: &[&str], script: &str) -> (String, String) {
        let answer = self.command(options, &["sh", "-c", script]).output().expect("the command starts");
        texts(&answer)
    }

    /// The files that processes have left for each other.
    fn left(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path().join("entresol")).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("natives-")).collect()
    }
}

fn texts(answer: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&answer.stdout), text(&answer.stderr))
}

#[test]
fn it_is_said_once_for_all_that_descend_from_one_run() {
    let place = Place::new();
    let script = "./narrow; echo $?; ./narrow; sh -c './narrow; :'; env ./short; echo $?";
    let (out, error) = place.shell(&[], script);
    assert_eq!(out, "42\n42\n");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with(&format!("entresol: ./narrow {SAID}: 32-bit (")), "{error}");
    // Another run says it anew.
    assert_eq!(place.shell(&[], script).1, error);
    assert_eq!(place.shell(&["--no-note"], script), (out, String::new()));
    assert_eq!(place.left(), [""; 0].map(PathBuf::from), "nothing stays behind");
}

#[test]
fn a_program_that_becomes_another_says_so_too() {
    let place = Place::new();
    let (_, error) = place.shell(&[], "exec ./short");
    assert!(error.starts_with(&format!("entresol: ./short {SAID}: not a proper ELF program")), "{error}");
    assert_eq!(place.left(), [""; 0].map(PathBuf::from), "nothing stays behind");
}

#[test]
fn nothing_is_said_to_another_stream() {
    let place = Place::new();
    let (_, error) =
        place.shell(&[], "./narrow 2>file; ./narrow 2>&-; x=$(./narrow 2>&1); echo \"<$x>\" >>file; ./narrow; :");
    assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "<>\n");
    assert_eq!(error.matches(SAID).count(), 1, "the first that can: {error}");
    let mut command = place.command(&[], &["sh", "-c", "exec 2>file; ./narrow; :"]);
    assert_eq!(texts(&command.output().unwrap()).1, "");
    assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "");
}

#[test]
fn nothing_is_said_of_what_the_host_refuses() {
    let place = Place::new();
    fs::copy(place.path().join("narrow"), place.path().join("plain")).unwrap();
    fs::set_permissions(place.path().join("plain"), fs::Permissions::from_mode(0o644)).unwrap();
    for options in [&["--stats"][..], &["--stats", "--require"]] {
        let (out, error) = place.shell(options, "./missing; echo $?; ./plain; echo $?; ./plain/x; echo $?");
        assert_eq!(out, "127\n126\n127\n", "{error}");
        assert!(
            !error.contains("entresol: ./") && !error.contains("natively") && !error.contains("refused"),
            "{error}"
        );
    }
}

/// A pipe: its reading and its writing end.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (read.into(), write.into())
}

#[test]
fn an_error_stream_that_nobody_reads_neither_ends_nor_delays_the_program() {
    let place = Place::new();
    let (read, write) = pipe();
    drop(read);
    let program = ["sh", "-c", "trap 'echo PIPE' PIPE; ./narrow; echo $?; exec ./narrow"];
    let answer = place.command(&[], &program).stderr(write).output().unwrap();
    assert_eq!((answer.status.code(), texts(&answer).0.as_str()), (Some(42), "42\n"));

    let (read, write) = pipe();
    // SAFETY: a descriptor of this test's.
    unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let mut full = fs::File::from(write.try_clone().unwrap());
    while full.write(&[b'x'; 4096]).is_ok() {}
    // SAFETY: as above.
    unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, 0) };
    let answer = place.command(&[], &program).stderr(write).output().unwrap();
    assert_eq!((answer.status.code(), texts(&answer).0.as_str()), (Some(42), "42\n"));
    drop(read);
}

#[test]
fn the_summary_counts_them_with_reasons() {
    let place = Place::new();
    let script =
        "./narrow; ./narrow 2>/dev/null; sh -c './narrow; ./short; :'; ./narrow & wait; cp /bin/true copy; ./copy; :";
    let (_, error) = place.shell(&["--stats", "--no-note"], script);
    assert!(error.contains("\n  ran natively   4 32-bit; 1 not a proper ELF program\n"), "{error}");
    let (_, error) = place.shell(&["--stats"], "/bin/true; :");
    assert!(!error.contains("natively"), "{error}");
    let (_, error) = place.shell(&["--stats", "--require"], "./narrow; exec ./short");
    assert!(error.contains("\n  refused        1 32-bit; 1 not a proper ELF program\n"), "{error}");
}

#[test]
fn what_is_required_does_not_run_natively() {
    let place = Place::new();
    let (out, error) = place.shell(&["--require"], "./narrow; echo $?; env ./short; echo $?; /bin/echo in");
    assert_eq!(out, "126\n126\nin\n", "{error}");
    for (program, why) in [("./narrow", "32-bit"), ("./short", "not a proper ELF program")] {
        assert!(error.contains(&format!("entresol: {program} {REFUSED}: {why}\n")), "{error}");
    }
    // By its own exec, and by those that look for it on a path.
    fs::create_dir(place.path().join("folder")).unwrap();
    place.copy("/bin/true", "folder/narrow", 0o755);
    let (out, error) = place.shell(&["--require"], "PATH=$PWD:$PWD/folder:$PATH; env narrow; echo $?; exec ./narrow");
    assert_eq!(out, "126\n", "{error}");
    assert_eq!(error.matches(REFUSED).count(), 2, "{error}");

    let answer = place.command(&["--require"], &["./narrow"]).output().unwrap();
    assert_eq!(answer.status.code(), Some(125));
    assert!(texts(&answer).1.contains("32-bit"));
    let answer = place.command(&["--require", "--fallback=native"], &["./narrow"]).output().unwrap();
    assert_eq!(answer.status.code(), Some(125));
    assert!(texts(&answer).1.contains("cannot be used with"));
}

/// A file without a form is the shell's, as it is natively.
#[test]
fn what_is_required_may_be_a_script_without_a_first_line() {
    let place = Place::new();
    executable::write(
        &place.path().join("script"),
        "echo script; grep -c /libentresol- /proc/self/maps >/dev/null && echo in\n",
    );
    let (out, error) = place.shell(&["--require"], "env ./script");
    assert_eq!((out.as_str(), error.as_str()), ("script\nin\n", ""));
}

#[test]
fn posix_spawn_is_told() {
    let place = Place::new();
    let script = "import os\n\
        try: os.posix_spawn('./narrow', ['narrow'], os.environ)\n\
        except OSError as error: print(error.errno)\n\
        print(os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)[1])";
    let answer = place.command(&["--require"], &["python3", "-c", script]).output().unwrap();
    let (out, error) = texts(&answer);
    assert_eq!(out, format!("{}\n0\n", libc::EPERM), "{error}");
    assert!(error.contains(REFUSED), "{error}");
}

/// A mark counts where it changes something.
#[test]
fn set_id_programs_of_the_same_user_are_entered() {
    let place = Place::new();
    place.copy("/bin/cat", "marked", 0o4755);
    let (out, error) = place.shell(&[], "./marked /proc/self/maps | grep -c /libentresol- >/dev/null && echo in");
    assert_eq!((out.as_str(), error.as_str()), ("in\n", ""));
}

#[test]
fn a_program_by_a_descriptor_that_only_names_it_is_entered() {
    let place = Place::new();
    let script = |file: &str| {
        format!("import os; os.execve(os.open('{file}', os.O_PATH), ['cat', '/proc/self/maps'], os.environ)")
    };
    let answer = place.command(&[], &["python3", "-c", &script("/bin/cat")]).output().unwrap();
    let (out, error) = texts(&answer);
    assert!(out.contains("/libentresol-") && error.is_empty(), "{error}");
    let answer = place.command(&[], &["python3", "-c", &script("narrow")]).output().unwrap();
    let (_, error) = texts(&answer);
    let name = fs::canonicalize(place.path().join("narrow")).unwrap();
    assert!(error.contains(&format!("{} {SAID}", name.display())), "{error}");
}

/// `ps` removes what a killed process leaves.
#[test]
fn nothing_stays_behind_a_killed_program() {
    let place = Place::new();
    place.shell(&["--no-note"], "./narrow; sh -c 'kill -KILL $PPID'; :");
    assert_eq!(place.left().len(), 1);
    let answer =
        Command::new(env!("CARGO_BIN_EXE_entresol")).arg("ps").env("XDG_CACHE_HOME", place.path()).output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
    assert_eq!(place.left(), [""; 0].map(PathBuf::from));
}

/// The image is another user's then.
#[test]
fn after_a_change_of_user() {
    let place = Place::new();
    // SAFETY: has no effect.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'id -u'; echo $?";
    let (out, error) = place.shell(&[], script);
    assert_eq!(out, "65534\n0\n", "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(&format!("/sh {SAID}: Entresol's library may not be read or executed here")), "{error}");
    let (_, error) = place.shell(&["--stats"], script);
    assert!(error.contains("  changed user   1 process: what it executes runs natively and is not counted"), "{error}");
    let (_, error) = place.shell(&["--stats"], "setpriv --reuid=0 true; :");
    assert!(!error.contains("changed user"), "{error}");
    let (out, error) = place.shell(&["--require"], script);
    assert_eq!(out, "126\n", "{error}");
    assert!(error.contains(&format!("/sh {REFUSED}: Entresol's library may not be read or executed here")), "{error}");
}

/// A program that may read and execute what is in these folders only, under Landlock; it ends with 9 where the host has none.
const CONFINED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
  const char *allowed[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", "/dev", words[1]};
  __u64 rights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  struct landlock_ruleset_attr rules = {.handled_access_fs = rights};
  int ruleset = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (ruleset < 0) return 9;
  for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
    int folder = open(allowed[i], O_PATH | O_CLOEXEC);
    if (folder < 0) continue;
    struct landlock_path_beneath_attr beneath = {.allowed_access = rights, .parent_fd = folder};
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0)) return 10;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0)) return 11;
  execv(words[2], words + 2);
  return 12;
}"#;

/// The dynamic linker must not be told of an image that it cannot open, and what the image would load runs without it.
#[test]
fn under_rules_that_forbid_the_library() {
    let place = Place::new();
    let (source, inside) = (place.path().join("confined.c"), place.path().join("inside"));
    fs::write(&source, CONFINED).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(place.path().join("confined")).arg(&source).status();
    assert!(compiled.expect("a C compiler is there").success());
    fs::create_dir(&inside).unwrap();
    place.assemble("inside/still", &[], ".globl _start\n_start: mov $60, %eax\n mov $42, %edi\n syscall\n");
    let script = |program: &str| format!("./confined {} {program}; echo $?", inside.display());
    if Command::new(place.path().join("confined")).arg(&inside).arg("/bin/true").status().unwrap().code() == Some(9) {
        eprintln!("skipped: the host has no Landlock");
        return;
    }
    for (program, output) in [("/bin/echo dynamic", "dynamic\n0\n"), ("inside/still", "42\n")] {
        let (out, error) = place.shell(&[], &script(program));
        assert_eq!(out, output, "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("may not be read or executed here"), "{error}");
        let (out, error) = place.shell(&["--require"], &script(program));
        assert_eq!(out, "12\n", "{error}");
        assert!(error.contains(REFUSED), "{error}");
    }
}

#[test]
fn what_runs_natively_has_the_policy_and_the_cpus_of_its_thread() {
    let place = Place::new();
    let exit = "mov $60, %eax\n syscall\n .data\n .quad 1\n";
    let policy = format!("mov $145, %eax\n xor %edi, %edi\n syscall\n mov %eax, %edi\n {exit}");
    let cpus = "mov $204, %eax\n xor %edi, %edi\n mov $128, %esi\n lea -128(%rsp), %rdx\n movq $0, (%rdx)\n syscall\n";
    let cpus = format!("{cpus} popcnt -128(%rsp), %rdi\n {exit}");
    for (name, text) in [("policy", policy), ("cpus", cpus)] {
        place.assemble(name, &[], &format!(".globl _start\n_start: {text}"));
        place.lengthen_data(name);
    }
    let script = "chrt --batch 0 ./policy; echo policy $?; chrt --idle 0 ./policy; echo policy $?
        taskset -c 0 ./cpus; echo cpus $?; ./cpus; echo cpus $?; (exec chrt --batch 0 ./missing) || ./policy; echo policy $?";
    let native = Command::new("sh").args(["-c", script]).current_dir(place.path()).output().unwrap();
    let (ours, said) = place.shell(&["--no-note"], script);
    assert_eq!(ours, String::from_utf8_lossy(&native.stdout), "{said}");
    assert!(ours.starts_with("policy 3\npolicy 5\ncpus 1\n"), "{ours}");
}
