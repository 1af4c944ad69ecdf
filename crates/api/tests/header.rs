//! The header for C: it is what cbindgen makes of the records and numbers of `crates/abi`, and C compilers accept it.
//!
//! `packaging/header` runs this with ENTRESOL_HEADER=write, which writes the header instead of comparing it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use abi::checkpoint::{ProcessRecord, RECORDS_MAX, TAKE, TimerRecord, VERSION, call};

fn generated() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a valid cbindgen.toml");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("../abi/src/checkpoint.rs"))
        .generate()
        .expect("cbindgen reads the sources");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("text").trim_end().to_owned() + "\n"
}

#[test]
fn the_header_is_generated() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/entresol.h");
    let now = generated();
    if env::var_os("ENTRESOL_HEADER").is_some_and(|value| value == "write") {
        fs::write(&file, &now).expect("the checkout is writable");
        return;
    }
    let committed = fs::read_to_string(&file).expect("a header");
    assert!(committed == now, "include/entresol.h is not what cbindgen makes: run packaging/header. It makes\n{now}");
}

/// A program that knows the numbers from the Rust side; it is compiled only.
fn program() -> String {
    let mut text = String::from("#include <entresol.h>\n#include <stddef.h>\n");
    for (left, right) in [
        ("ENTRESOL_VERSION", VERSION as usize),
        ("ENTRESOL_RECORDS_MAX", RECORDS_MAX),
        ("ENTRESOL_TAKE", TAKE as usize),
        ("ENTRESOL_TIMERS_COPY", call::TIMERS_COPY),
        ("ENTRESOL_TIMERS_MAKE", call::TIMERS_MAKE),
        ("ENTRESOL_TIMERS_START", call::TIMERS_START),
        ("ENTRESOL_TIMERS_NEXT_ID", call::TIMERS_NEXT_ID),
        ("ENTRESOL_PROCESS_TIME", call::PROCESS_TIME),
        ("sizeof(struct entresol_timer)", TimerRecord::SIZE),
        ("offsetof(struct entresol_timer, clock_tid)", std::mem::offset_of!(TimerRecord, clock_tid)),
        ("sizeof(struct entresol_process)", ProcessRecord::SIZE),
        ("offsetof(struct entresol_process, sigpending)", std::mem::offset_of!(ProcessRecord, sigpending)),
    ] {
        text.push_str(&format!("static_assert({left} == {right}, \"\");\n"));
    }
    text + "uint64_t end = ENTRESOL_END;\n"
}

#[test]
fn compilers_accept_the_header_and_agree_on_its_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    for (compiler, standard, file) in [("cc", "-std=c11", "program.c"), ("c++", "-std=c++11", "program.cc")] {
        let source = folder.path().join(file);
        fs::write(&source, format!("#include <assert.h>\n{}", program())).expect("the folder is writable");
        let run = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
            .arg(&source)
            .output();
        match run {
            Ok(run) => assert!(run.status.success(), "{compiler}: {}", String::from_utf8_lossy(&run.stderr)),
            Err(error) => println!("SKIPPED: {compiler}: {error}"),
        }
    }
}
