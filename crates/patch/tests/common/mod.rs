//! What the tests know about the machine that they run on.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Seek, SeekFrom};
use std::process::Command;

/// The path of the loaded object whose path contains `part`.
pub fn loaded(part: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.into_iter().find(|path| path.contains(part)).unwrap_or_else(|| panic!("{part} is not loaded")).to_owned()
}

/// The addresses of the `syscall` instructions that objdump lists.
pub fn disassembled_syscalls(path: &str) -> Option<Vec<u64>> {
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn", path]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let lines = text.lines().filter(|line| line.ends_with("\tsyscall") || line.contains("\tsyscall "));
    let addresses = lines.map(|line| u64::from_str_radix(line.trim_start().split(':').next().unwrap(), 16).unwrap());
    output.status.success().then(|| addresses.collect())
}

/// Address and contents of the vDSO.
pub fn vdso() -> (u64, Vec<u8>) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, rest) = line.split_once('-').unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = (number(start), number(rest.split_once(' ').unwrap().0));
    let mut bytes = vec![0; (end - start) as usize];
    let mut memory = std::fs::File::open("/proc/self/mem").unwrap();
    memory.seek(SeekFrom::Start(start)).unwrap();
    memory.read_exact(&mut bytes).unwrap();
    (start, bytes)
}
