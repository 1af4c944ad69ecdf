//! Programs that glibc's dynamic linker cannot bring under Entresol are loaded by the image, from `run` and from other programs.
#![forbid(unsafe_code)]

mod executable;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says where it is, what it was given and which thread it is, then ends with status 42.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(int count, char **words, char **variables) {
  char text[4096], ours = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(text, sizeof text, maps)) ours |= strstr(text, "/libentresol-") != NULL;
  printf("under=%d", ours);
  for (int i = 0; i < count; i++) printf(" %s", words[i]);
  long len = readlink("/proc/self/exe", text, sizeof text - 1);
  text[len > 0 ? len : 0] = 0;
  printf("\nexe %s\nfile %s\n", text, (char *)getauxval(AT_EXECFN));
  fgets(text, sizeof text, fopen("/proc/self/comm", "r"));
  printf("comm %slowest descriptor %d\n", text, dup(0));
  for (int i = 0; variables[i]; i++)
    if (!strncmp(variables[i], "ENTRESOL_", 9) || !strncmp(variables[i], "LD_", 3)) puts(variables[i]);
  fflush(stdout);
  const char *how = count > 1 ? words[1] : "";
  for (int i = 0; i < 20000 && !strcmp(how, "calls"); i++) getppid();
  if (!strcmp(how, "gone")) unlink(words[0]);
  if (!strcmp(how, "other")) rename("other", words[0]);
  if (!strcmp(how, "again") || !strcmp(how, "gone") || !strcmp(how, "other"))
    execl("/proc/self/exe", "second", (char *)0);
  return 42;
}
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path().join("program.c"), PROGRAM).unwrap();
        place.compile("fixed", &["-static"]);
        place.compile("anywhere", &["-static-pie"]);
        place
    }

    fn compile(&self, name: &str, options: &[&str]) {
        let (source, program) = (self.path().join("program.c"), self.path().join(name));
        let compiled = Command::new("cc").args(options).arg("-o").arg(program).arg(source).status();
        assert!(compiled.expect("a C compiler is there").success());
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        executable::write(&path, content);
        path
    }

    fn run(&self, program: &[&str]) -> Output {
        self.run_with(&[], program)
    }

    fn run_with(&self, options: &[&str], program: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
        command.arg("run").args(options).arg("--").args(program);
        command.current_dir(self.path()).env("XDG_CACHE_HOME", self.path()).output().expect("the command starts")
    }

    /// Expects the program to say the same as natively, but for the first word, and to end in the same way.
    fn compare(&self, program: &[&str]) {
        let native = Command::new(program[0]).args(&program[1..]).current_dir(self.path()).output().unwrap();
        let ours = self.run(program);
        let said = String::from_utf8_lossy(&ours.stdout).into_owned();
        assert!(said.starts_with("under=1"), "{program:?}: {ours:?}");
        assert_eq!(said.replace("under=1", "under=0"), String::from_utf8_lossy(&native.stdout), "{program:?}");
        assert_eq!((ours.status, ours.stderr), (native.status, native.stderr), "{program:?}");
    }
}

#[test]
fn it_is_entered_and_sees_itself() {
    let place = Place::new();
    for program in ["./fixed", "./anywhere"] {
        place.compare(&[program, "a", "b c", ""]);
    }
}

/// Exception frames tell where its functions are, also those that only a section header names.
#[test]
fn its_system_calls_are_patched() {
    let place = Place::new();
    for program in ["fixed", "anywhere"] {
        let answer = place.run_with(&["--stats"], &[&format!("./{program}"), "calls"]);
        let text = String::from_utf8_lossy(&answer.stderr);
        let count = |name: &str| {
            let mut lines = text.lines().filter(|line| line.trim_start().starts_with("calls") && line.ends_with(name));
            lines.next().and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok())).unwrap_or(0)
        };
        assert!(count(program) >= 20_000, "{text}");
        assert!(count("by dispatch") < 1000, "{text}");
    }
}

#[test]
fn its_own_link_leads_to_itself() {
    let place = Place::new();
    place.compare(&["./fixed", "again"]);
    place.compare(&["./anywhere", "again"]);
}

/// Its link means its file by name (CAVEATS): without that, or with another file of that name, the image is not executed instead.
#[test]
fn its_own_link_never_leads_to_the_image() {
    let place = Place::new();
    place.write("other", b"#!/bin/sh\nexit 43\n");
    let ends = |program: &[&str]| {
        let answer = place.run(program);
        (answer.status.code(), String::from_utf8_lossy(&answer.stderr).into_owned())
    };
    assert_eq!(ends(&["./anywhere", "gone"]), (Some(42), String::new()));
    assert_eq!(ends(&["./fixed", "other"]), (Some(43), String::new()));
}

#[test]
fn what_executes_it_has_it_entered() {
    let place = Place::new();
    let here = place.path().display();
    place.write("script", format!("#! {here}/fixed -x  y \nrest\n").as_bytes());
    place.write("indirect", format!("#!{here}/script two\n").as_bytes());
    for command in ["./fixed", "exec ./anywhere 1 2", "./script a", "exec ./indirect a b", "env ./fixed; exit 42"] {
        place.compare(&["sh", "-c", command]);
    }
    for script in ["./script", "./indirect"] {
        place.compare(&[script, "word"]);
    }
    let by_descriptor = "import os; os.execve(os.open('fixed', os.O_RDONLY), ['name', 'x'], os.environ)";
    let answer = place.run(&["python3", "-c", by_descriptor]);
    assert!(answer.stdout.starts_with(b"under=1 name x\n"), "{answer:?}");
    let nested = format!("{} run -- ./fixed inner", env!("CARGO_BIN_EXE_entresol"));
    let answer = place.run(&["sh", "-c", &nested]);
    assert!(answer.stdout.starts_with(b"under=1 ./fixed inner\n"), "{answer:?}");
}

#[test]
fn what_may_not_be_executed_is_not() {
    let place = Place::new();
    let mode = |mode| fs::set_permissions(place.path().join("fixed"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    place.write("script", format!("#!{}/fixed\n", place.path().display()).as_bytes());
    let answer = place.run(&["sh", "-c", "./fixed; echo $?; ./script; echo $?; ./missing; echo $?"]);
    assert_eq!(answer.stdout, b"126\n126\n127\n", "{answer:?}");
    assert_eq!(place.run(&["./script"]).status.code(), Some(126));
    mode(0o755);
    place.write("script", format!("#!{}/fixed\n", place.path().display()).as_bytes());
    fs::set_permissions(place.path().join("script"), fs::Permissions::from_mode(0o644)).unwrap();
    let answer = place.run(&["sh", "-c", "./script; echo $?"]);
    assert_eq!(answer.stdout, b"126\n", "{answer:?}");
}

/// Fields of program headers and of the ELF header with values of all kinds: what is refused is refused with a sentence, and what
/// is loaded ends as it does natively.
#[test]
fn damaged_programs_end_as_natively_or_are_refused() {
    let place = Place::new();
    let whole = fs::read(place.path().join("fixed")).unwrap();
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let (headers, count) = (number(32), usize::from(whole[56]));
    let loads: Vec<usize> =
        (0..count).map(|i| headers + i * 56).filter(|&at| whole[at..at + 4] == [1, 0, 0, 0]).collect();
    let mut damaged: Vec<Vec<u8>> = [64, 100, 500, 5000, whole.len() / 2].map(|len| whole[..len].to_vec()).to_vec();
    let mut change = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        damaged.push(file);
    };
    const VALUES: [u64; 7] = [0, 1, 4096, 1 << 40, (1 << 47) - 1, 1 << 63, u64::MAX];
    for value in VALUES {
        // The entry point and the program headers' place; then of two segments: offset, address, lengths, alignment.
        for at in [24, 32] {
            change(at, &value.to_le_bytes());
        }
        for &load in [loads.first(), loads.last()].into_iter().flatten() {
            for field in [8, 16, 32, 40, 48] {
                change(load + field, &value.to_le_bytes());
            }
        }
    }
    for kind in [0_u16, 1, 4, 0xffff] {
        change(16, &kind.to_le_bytes());
        change(56, &kind.to_le_bytes());
    }
    for file in damaged {
        let path = place.write("damaged", &file);
        let native = Command::new(&path).output();
        let ours = place.run(&["./damaged"]);
        let error = String::from_utf8_lossy(&ours.stderr);
        if ours.status.code() == Some(125) {
            assert!(error.starts_with("entresol: "), "{error}");
        } else {
            let native = native.expect("what is loaded under Entresol is loaded by Linux");
            assert_eq!(ours.status, native.status, "{error}");
            assert!(!error.contains("internal"), "{error}");
        }
    }
}
