//! `entresol run` from the outside: what it refuses, and that the program cannot tell the difference.

mod executable;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn entresol(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol"));
    command.args(arguments);
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// Exit status and standard error of `entresol run -- PROGRAM`.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let answer = output(entresol(&["run"]).args(arguments));
    (answer.status.code(), String::from_utf8(answer.stderr).unwrap())
}

/// A 32-bit program; exits with status 42.
fn narrow_program(folder: &Path) -> PathBuf {
    let source = folder.join("narrow.s");
    let program = folder.join("narrow");
    fs::write(&source, ".globl _start\n_start: mov $1, %eax\n mov $42, %ebx\n int $0x80\n").unwrap();
    let compiled = Command::new("cc").args(["-m32", "-static", "-nostdlib", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("a C compiler is there").success());
    program
}

#[test]
fn exit_status_and_streams_are_the_programs_own() {
    let script = "cat; echo error >&2; exit 7";
    let mut command = entresol(&["run", "--", "sh", "-c", script]);
    command.stdin(fs::File::open("/proc/sys/kernel/ostype").unwrap());
    let answer = output(&mut command);
    assert_eq!(answer.status.code(), Some(7));
    assert_eq!(answer.stdout, b"Linux\n");
    assert_eq!(answer.stderr, b"error\n");
}

#[test]
fn a_signal_that_ends_the_program_is_seen_outside() {
    let answer = output(&mut entresol(&["run", "--", "sh", "-c", "kill -TERM $$"]));
    assert_eq!(answer.status.signal(), Some(libc::SIGTERM));
}

#[test]
fn arguments_reach_the_program_untouched() {
    let answer = output(&mut entresol(&["run", "printf", "%s|", "-x", "--", "--help", "", "a b"]));
    assert_eq!(answer.stdout, b"-x|--|--help||a b|");
    let answer = output(&mut entresol(&["run", "--cpus", "1", "--hz", "500", "--rt=allow", "sh", "-c", "echo $0"]));
    assert_eq!(answer.stdout, b"sh\n");
}

#[test]
fn what_is_not_there_is_127() {
    for program in ["no-such-program-anywhere", "./no-such-program", "/bin/true/x", ""] {
        let (status, error) = refusal(&["--", program]);
        assert_eq!(status, Some(127), "{program:?}: {error}");
        assert!(error.starts_with("entresol: "), "{error}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("script");
    executable::write(&script, "#!/no/such/interpreter\n");
    let (status, error) = refusal(&[script.to_str().unwrap()]);
    assert_eq!(status, Some(127));
    assert!(error.contains("/no/such/interpreter"), "{error}");
}

#[test]
fn what_cannot_be_executed_is_126() {
    let scratch = tempfile::tempdir().unwrap();
    let plain = scratch.path().join("plain");
    fs::write(&plain, "text").unwrap();
    // Nobody writes to the pipe, so opening it would never end.
    let pipe = scratch.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let interpreted = [&pipe, Path::new("/dev/null"), Path::new("/tmp")].map(|interpreter| {
        let script = scratch.path().join(interpreter.file_name().unwrap()).with_extension("script");
        executable::write(&script, format!("#!{}\n", interpreter.display()));
        let (status, error) = refusal(&["--", script.to_str().unwrap()]);
        (status, error.contains("not a file that may be executed"))
    });
    assert_eq!(interpreted, [(Some(126), true); 3]);
    for program in [plain.to_str().unwrap(), "/"] {
        let (status, error) = refusal(&["--", program]);
        assert_eq!(status, Some(126), "{error}");
    }
}

#[test]
fn what_entresol_cannot_enter_is_125_with_the_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let program = narrow_program(scratch.path());
    let program = program.to_str().unwrap();
    let (status, error) = refusal(&["--", program]);
    assert_eq!(status, Some(125));
    assert!(error.contains("32-bit"), "{error}");

    let native = output(&mut entresol(&["run", "--fallback=native", "--", program]));
    assert_eq!(native.status.code(), Some(42));
    assert!(String::from_utf8_lossy(&native.stderr).contains("running natively"), "never silently");
}

#[test]
fn mistakes_in_our_own_options_are_125() {
    for arguments in [&["--no-such-option", "true"][..], &["--cpus", "0", "true"], &["--hz=fast", "true"], &[]] {
        assert_eq!(refusal(arguments).0, Some(125), "{arguments:?}");
    }
    assert_eq!(output(&mut entresol(&["no-such-task"])).status.code(), Some(2));
}

#[test]
fn a_file_without_a_form_is_run_by_the_shell_as_execvp_does() {
    let scratch = tempfile::tempdir().unwrap();
    let script = scratch.path().join("script");
    executable::write(&script, "echo \"$1\"; exit 3\n");
    let answer = output(&mut entresol(&["run", script.to_str().unwrap(), "word"]));
    assert_eq!((answer.status.code(), answer.stdout), (Some(3), b"word\n".to_vec()));
}

#[test]
fn the_program_inherits_signals_and_closed_streams_as_natively() {
    let script = "grep SigIgn /proc/self/status; test -e /proc/$$/fd/0; echo $?";
    let mut native = Command::new("sh");
    native.args(["-c", script]);
    let mut ours = entresol(&["run", "--", "sh", "-c", script]);
    let [native, ours] = [&mut native, &mut ours].map(|command| {
        // SAFETY: close, signal and the raw call are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                // Whatever this test was started with: signals 32 and 33 are the tick's own inside, and the
                // host's status shows that.
                for own in [32, 33] {
                    let default = [0u64; 4];
                    libc::syscall(libc::SYS_rt_sigaction, own, default.as_ptr(), 0, 8);
                }
                libc::close(0);
                Ok(())
            });
        }
        output(command).stdout
    });
    assert_eq!(String::from_utf8(ours).unwrap(), String::from_utf8(native).unwrap());
}

#[test]
fn it_works_inside_itself() {
    let own = env!("CARGO_BIN_EXE_entresol");
    let script = format!("{own} run --cpus 1 -- sh -c 'echo inner; exit 5'; echo $?");
    let answer = output(&mut entresol(&["run", "--cpus", "2", "--", "sh", "-c", &script]));
    assert_eq!(answer.stdout, b"inner\n5\n");
    assert_eq!(answer.status.code(), Some(0));
}

#[test]
fn a_home_that_is_not_there_does_not_matter() {
    let mut command = entresol(&["run", "--", "true"]);
    command.env("HOME", "/nonexistent").env_remove("XDG_CACHE_HOME").env_remove("XDG_RUNTIME_DIR");
    assert_eq!(output(&mut command).status.code(), Some(0));
}

#[test]
fn doctor_says_what_is_wrong_and_its_status_agrees() {
    let answer = output(&mut entresol(&["doctor", "true"]));
    let text = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(answer.status.code(), Some(0), "{text}");
    assert!(text.lines().all(|line| line.starts_with("ok ") || line.starts_with("note ")), "{text}");
    assert!(!text.contains('\x1b'), "colours are for terminals");

    let scratch = tempfile::tempdir().unwrap();
    let program = narrow_program(scratch.path());
    let answer = output(entresol(&["doctor"]).arg(program));
    assert_eq!(answer.status.code(), Some(1));
    assert!(String::from_utf8(answer.stdout).unwrap().contains("32-bit"));
}

/// Signals whose default action ends a process do nothing to the first one of a container (SIGNAL_UNKILLABLE).
#[test]
fn the_first_process_of_a_namespace_is_spared() {
    let script = "kill -TERM $$; kill -HUP $$; kill -USR1 $$; echo $$; sh -c 'kill -TERM $$'; echo $?";
    let run = |words: &[&str]| {
        let command = [words, &["sh", "-c", script]].concat();
        output(Command::new("unshare").args(["--user", "--pid", "--fork"]).args(command))
    };
    let native = run(&[]);
    if !native.status.success() {
        println!("skipped: this host lets nobody make a namespace of processes");
        return;
    }
    let ours = run(&[env!("CARGO_BIN_EXE_entresol"), "run", "--"]);
    assert_eq!(String::from_utf8(ours.stdout).unwrap(), String::from_utf8(native.stdout).unwrap());
    assert_eq!(ours.status, native.status);
}

/// Every write to `/dev/full` fails, as on a full disk.
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let commands = [
        (&["doctor"][..], 1),
        (&["sim", "list"], 2),
        (&["sim", "run", "periodic"], 2),
        (&["sim", "sweep", "--seeds", "0..1"], 2),
        (&["completions", "bash"], 1),
        (&["ps"], 1),
        (&["help"], 1),
        (&["--version"], 1),
        (&["run", "--help"], 1),
    ];
    for (arguments, status) in commands {
        let answer = output(entresol(arguments).stdout(full()));
        let error = String::from_utf8(answer.stderr).unwrap();
        assert_eq!(answer.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(error.contains("No space left on device"), "{arguments:?}: {error}");
        // Nobody can be told.
        let answer = output(entresol(arguments).stdout(full()).stderr(full()));
        assert_eq!(answer.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn doctor_says_which_programs_cannot_be_entered() {
    let scratch = tempfile::tempdir().unwrap();
    let good = scratch.path().join("good");
    fs::create_dir(&good).unwrap();
    fs::copy("/bin/true", good.join("true")).unwrap();
    fs::copy(narrow_program(scratch.path()), good.join("narrow")).unwrap();
    let doctor = |path: &Path| {
        let answer = output(entresol(&["doctor"]).env("PATH", path));
        String::from_utf8(answer.stdout).unwrap()
    };
    let text = doctor(&good);
    assert!(text.contains("note  of the 2 programs on the PATH 1 cannot be entered"), "{text}");
    assert!(text.contains("1 32-bit (narrow)."), "{text}");
    fs::remove_file(good.join("narrow")).unwrap();
    std::os::unix::fs::symlink("true", good.join("again")).unwrap();
    let text = doctor(&good);
    assert!(text.contains("ok    each of the 1 programs on the PATH can be entered"), "{text}");
}

/// The dynamic linker ignores what would load the image.
#[test]
fn an_effective_user_that_is_not_the_real_one_is_refused() {
    // SAFETY: has no effect.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = scratch.path().join("entresol");
    executable::write(&copy, fs::read(env!("CARGO_BIN_EXE_entresol")).unwrap());
    let mut command = Command::new(copy);
    command.args(["run", "--", "true"]);
    // SAFETY: the call is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::syscall(libc::SYS_setresuid, -1, 65534, -1);
            Ok(())
        });
    }
    let answer = output(&mut command);
    assert_eq!(answer.status.code(), Some(125), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.stderr).contains("effective user or group that is not the real one"));
}

#[test]
fn completions_know_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        let answer = output(&mut entresol(&["completions", shell]));
        let script = String::from_utf8(answer.stdout).unwrap();
        assert!(script.contains("doctor") && script.contains("fallback"), "{shell}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_that_help_lists() {
    let folder = tempfile::tempdir().unwrap();
    let man1 = folder.path().join("man/man1");
    assert!(output(entresol(&["manual"]).arg(&man1)).status.success());
    let page = |name: &str| fs::read_to_string(man1.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(page("entresol.1").contains("entresol\\-doctor(1)"));
    let run = page("entresol-run.1");
    assert!(run.contains("\\-\\-cpu\\-limit") && run.contains("Exit status"), "{run}");
    for task in ["ps", "top", "chaos", "lab", "sim-sweep"] {
        page(&format!("entresol-{task}.1"));
    }
    assert!(!man1.join("entresol-probe.1").exists(), "a hidden command");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = output(entresol(&["manual"]).arg(file.join("man1")));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot write the manual to"), "{refused:?}");
}

/// Runs the C compiler in that folder.
fn cc(folder: &Path, arguments: &[&str]) {
    let status = Command::new("cc").current_dir(folder).args(arguments).status();
    assert!(status.expect("a C compiler is there").success());
}

/// A program whose library needs 64 KiB of every thread's static block, in that folder. It prints its name, how it
/// was started, what it sees of the linker's variables, and whether the library's storage works in a thread.
fn greedy_program(folder: &Path) -> PathBuf {
    const LIBRARY: &str = "
        __thread char block[65536] __attribute__((tls_model(\"initial-exec\"))) = \"library\";
        char *storage(void) { return block; }
    ";
    const PROGRAM: &str = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/auxv.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        extern char *storage(void);
        static void *run(void *unused) { storage()[65535] = 1; return storage(); }
        int main(int count, char **arguments) {
            pthread_t thread;
            void *found;
            char name[16];
            for (char **e = environ; *e; e++)
                if (!strncmp(*e, "GLIBC_", 6) || !strncmp(*e, "LD_A", 4) || !strncmp(*e, "ENTRESOL_O", 10)) puts(*e);
            prctl(PR_GET_NAME, name);
            printf("%d %s %s %s\n", count, arguments[0], name, (char *)getauxval(AT_EXECFN));
            if (pthread_create(&thread, 0, run, 0) || pthread_join(thread, &found)) return 1;
            printf("%d %s\n", found != storage(), storage());
            return 9;
        }
    "#;
    let (library, program) = (folder.join("libgreedy.so"), folder.join("greedy"));
    fs::write(folder.join("library.c"), LIBRARY).unwrap();
    fs::write(folder.join("program.c"), PROGRAM).unwrap();
    cc(folder, &["-shared", "-fPIC", "-o", library.to_str().unwrap(), "library.c"]);
    cc(folder, &["-o", "greedy", "program.c", library.to_str().unwrap(), "-pthread"]);
    program
}

/// Natively the linker makes room for all libraries; under the audit it has a fixed reserve.
#[test]
fn a_library_with_much_static_storage_has_its_room_and_the_program_does_not_see_how() {
    let scratch = tempfile::tempdir().unwrap();
    let program = greedy_program(scratch.path());
    std::os::unix::fs::symlink("greedy", scratch.path().join("a;b=c")).unwrap();
    let script = scratch.path().join("script");
    executable::write(&script, format!("#!{} -x\n", program.display()));
    let own = ["", "glibc.malloc.check=0", "glibc.rtld.optional_static_tls=600"];
    for (name, own) in [("./greedy", own[0]), ("./a;b=c", own[1]), ("greedy", own[2]), ("/bin/sh", own[1])] {
        let [native, ours] = [Command::new(name), {
            let mut ours = entresol(&["run", "--cpus", "2", "--"]);
            ours.arg(name);
            ours
        }]
        .map(|mut command| {
            command.current_dir(scratch.path()).env("PATH", scratch.path());
            if name == "/bin/sh" {
                command.args(["-c", "./greedy; ./greedy y z"]);
            }
            if own.is_empty() {
                command.env_remove("GLIBC_TUNABLES");
            } else {
                command.env("GLIBC_TUNABLES", own);
            }
            output(&mut command)
        });
        assert_eq!(native.status.code(), Some(9), "{native:?}");
        assert_eq!(ours, native, "{name}");
    }
    // A script's own path is not the file to start over, so the auxiliary vector has another one.
    let ours = output(entresol(&["run", "--", script.to_str().unwrap()]).env_remove("GLIBC_TUNABLES"));
    let text = format!("3 {} script /proc/self/exe\n1 library\n", program.display());
    assert_eq!(String::from_utf8_lossy(&ours.stdout), text, "{ours:?}");
}

/// Under the audit, thread-local storage that a library does not declare comes from `malloc` when it is first used.
#[test]
fn a_library_that_provides_malloc_has_its_thread_local_storage() {
    const LIBRARY: &str = "
        #include <stddef.h>
        void *__libc_malloc(size_t);
        static __thread int inside;
        static _Atomic unsigned long count;
        unsigned long counted(void) { return count; }
        void *malloc(size_t size) {
            if (!inside) inside = 1, count++, inside = 0;
            return __libc_malloc(size);
        }";
    const PROGRAM: &str = "
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        extern __attribute__((weak)) unsigned long counted(void);
        static void *body(void *unused) { free(malloc(100)); return unused; }
        int main(int count, char **arguments) {
            for (int i = 0; i < 4; i++) {
                pthread_t thread;
                pthread_create(&thread, 0, body, 0), pthread_join(thread, 0);
            }
            printf(\"%s %d %s\\n\", arguments[0], count, counted && counted() >= 4 ? \"counted\" : \"not counted\");
            return system(\"echo child; exit 3\") >> 8;
        }";
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("library.c"), LIBRARY).unwrap();
    std::fs::write(folder.join("program.c"), PROGRAM).unwrap();
    cc(folder, &["-shared", "-fPIC", "-o", "libcount.so", "library.c"]);
    cc(folder, &["-o", "linked", "program.c", "./libcount.so", "-pthread"]);
    cc(folder, &["-o", "preloaded", "program.c", "-pthread"]);
    let library = folder.join("libcount.so");
    for (program, preload) in [("./linked", None), ("./preloaded", Some(&library)), ("./preloaded", None)] {
        let by_shell = preload.map(|library| format!("LD_PRELOAD={} {program} a b", library.display()));
        let script = by_shell.unwrap_or(format!("{program} a b"));
        let native = output(Command::new("sh").current_dir(folder).args(["-c", &script]));
        let ours = output(entresol(&["run", "--cpus", "2", "--", "sh", "-c", &script]).current_dir(folder));
        assert_eq!(native.status.code(), Some(3), "{native:?}");
        assert_eq!(ours, native, "{script}");
        let Some(library) = preload else { continue };
        let ours = entresol(&["run", "--", program, "a", "b"]).current_dir(folder).env("LD_PRELOAD", library).output();
        assert_eq!(ours.unwrap(), native);
    }
}

/// Another version of Entresol, say: the inner one brings its own image, and has the program for itself.
#[test]
fn run_within_run_with_another_image() {
    let caches = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let inner = caches[1].path().display();
    let entresol_here = env!("CARGO_BIN_EXE_entresol");
    let script = "nproc; (env; cat /proc/./self/maps) | grep -e LD_AUDIT -e libentresol";
    let line = format!("XDG_CACHE_HOME={inner} exec {entresol_here} run --cpus 1 -- sh -c 'exec sh -c \"{script}\"'");
    let mut command = entresol(&["run", "--cpus", "2", "--", "sh", "-c", &line]);
    let answer = output(command.env("XDG_CACHE_HOME", caches[0].path()));
    let text = String::from_utf8(answer.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1"), "{text}");
    assert!(lines.clone().next().is_some(), "no image");
    assert!(lines.all(|line| line.contains(&inner.to_string()) && !line.contains("LD_AUDIT")), "{text}");
}

#[test]
fn the_summary_is_printed_also_if_a_signal_ends_the_program() {
    // By the program itself, by another process, by a fault.
    for (script, signal) in [
        ("kill -TERM $$", libc::SIGTERM),
        ("(kill -USR1 $$) & while :; do :; done", libc::SIGUSR1),
        ("exec python3 -c 'import ctypes; ctypes.string_at(0)'", libc::SIGSEGV),
    ] {
        let answer = output(&mut entresol(&["run", "--stats", "--", "sh", "-c", script]));
        let said = String::from_utf8(answer.stderr).unwrap();
        assert_eq!(answer.status.signal(), Some(signal), "{script}: {said}");
        assert_eq!(said.matches("switches").count(), 1, "{script}: {said}");
    }
}

#[test]
fn the_plans_of_the_c_library_are_kept_and_damage_to_them_is_harmless() {
    let cache = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = entresol(&["run", "--stats", "--", "sh", "-c", "(echo in; exit 3) & wait $!"]);
        let answer = output(command.env("XDG_CACHE_HOME", cache.path()));
        assert_eq!((answer.status.code(), answer.stdout.as_slice()), (Some(3), &b"in\n"[..]));
        let stats = String::from_utf8(answer.stderr).unwrap();
        assert!(stats.contains("calls patched"), "{stats}");
    };
    let plans = || {
        let files = fs::read_dir(cache.path().join("entresol")).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "plan")).collect::<Vec<_>>()
    };
    run();
    assert!(!plans().is_empty());
    for damage in [|bytes: &mut Vec<u8>| bytes.truncate(100), |bytes: &mut Vec<u8>| bytes.fill(0xff)] {
        for plan in plans() {
            let mut bytes = fs::read(&plan).unwrap();
            damage(&mut bytes);
            fs::set_permissions(&plan, fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(&plan, bytes).unwrap();
        }
        run();
    }
}

/// Its code is mapped from a copy; one that is damaged is made anew, and without one the library is patched in memory.
#[test]
fn the_c_library_is_mapped_ready_made() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("entresol");
    let run = |before: &str| {
        // Stubs and code: two mappings.
        let script = format!("{before} grep -c '/entresol/.*[.]libc[.]so[.]6$' /proc/self/maps; true");
        let mut command = entresol(&["run", "--stats", "--", "sh", "-c", &script]);
        let answer = output(command.env("XDG_CACHE_HOME", cache.path()));
        let stats = String::from_utf8(answer.stderr).unwrap();
        assert!(answer.status.success(), "{stats}");
        assert!(stats.contains(" libc.so.6"), "the counts name it: {stats}");
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!(run(""), "2\n");
    let copies = || {
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.to_string_lossy().ends_with(".libc.so.6")).collect::<Vec<_>>()
    };
    let [copy] = &copies()[..] else { panic!("one copy: {:?}", copies()) };
    let whole = fs::read(copy).unwrap();
    fs::set_permissions(copy, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(copy, vec![0xcc; whole.len()]).unwrap();
    fs::set_permissions(copy, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(run(""), "2\n");
    assert!(fs::read(copy).unwrap() == whole, "it is made anew");
    assert_eq!(run(&format!("rm {};", copy.display())), "0\n");
    assert_eq!(run(""), "2\n");
    // A copy that is not as the command leaves it could be somebody else's, and is not taken.
    assert_eq!(run(&format!("chmod 755 {};", copy.display())), "0\n");
}

/// The command itself has a stack of its own where the program's is small.
#[test]
fn a_small_stack_is_enough_for_the_command() {
    let script = format!("ulimit -s 64; exec {} run -- ./no-such-program", env!("CARGO_BIN_EXE_entresol"));
    let output = output(Command::new("sh").args(["-c", &script]));
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-program"), "{output:?}");
}

#[test]
fn too_little_memory_is_said_with_the_limit() {
    for kib in [700, 4096] {
        let output = output(entresol(&["run", "--", "sh", "-c", &format!("ulimit -d {kib}; exec true")]).arg("sh"));
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("RLIMIT_DATA is {kib} KiB")) && text.contains("ulimit -d"), "{output:?}");
    }
}

/// Programs give children a folder for short-lived files of their own, and remove it afterwards.
#[test]
fn nothing_lies_in_a_runtime_folder_that_a_program_gives_its_child() {
    const SCRIPT: &str = "d=$(mktemp -d) && XDG_RUNTIME_DIR=$d sleep 0.05 && rmdir $d";
    let output = output(&mut entresol(&["run", "--", "sh", "-c", SCRIPT]));
    assert!(output.status.success(), "{output:?}");
}
