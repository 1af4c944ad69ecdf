//! Patches the C library, the loader and the vDSO of this very process, and then uses
//! them. The entry passes every call on to the host and notes which site it came from.

use std::arch::global_asm;
use std::io::{Read, Seek, Write};
use std::process::Command;
use std::time::Duration;

use patch::elf::{Object, ProgramHeader, Segments, headers};
use patch::{STUB_LEN_MAX, Site, Slots, Trust, emit_jump, emit_stub, plan};

const SITES_MAX: usize = 2048;

unsafe extern "C" {
    fn patch_live_entry();
    static mut patch_live_hits: [u8; SITES_MAX];
}

// Neither flags nor registers change but rcx and r11. A real entry would not write to the
// program's stack; this one does, far below the red zone and any signal frame.
global_asm!(
    "
    .text
patch_live_entry:
    mov [rsp - 16384], rcx
    lea rcx, [rip + patch_live_hits]
    mov byte ptr [rcx + r11], 1
    syscall
    jmp [rsp - 16384]
    .bss
patch_live_hits: .zero 2048
    .text
    "
);

/// Calls after which two flows run on one stack, or one on another: clone, fork's cousins
/// and clone3. The entry above is not made for them.
const NEW_FLOW: [u32; 3] = [56, 58, 435];

/// The memory of an object of this process.
fn segments(base: u64) -> (Segments<'static>, &'static [u8]) {
    // SAFETY: the first page of a loaded object holds its headers.
    let first = unsafe { std::slice::from_raw_parts(base as *const u8, 4096) };
    let mut segments = Segments::new();
    for header in headers(first).unwrap().filter(|header| header.kind == ProgramHeader::LOAD) {
        // The slice of code is dropped before it is written, see `patch`. Writable
        // segments are left out: they change.
        if !header.allows(ProgramHeader::WRITE) {
            let start = (base + header.address) as *const u8;
            // SAFETY: mapped for as long as the process lives.
            segments.push(start as u64, unsafe { std::slice::from_raw_parts(start, header.file_len as usize) });
        }
    }
    (segments, first)
}

/// Pages within reach of `address`.
fn map_near(address: u64, len: usize) -> *mut u8 {
    for step in 1..1000 {
        for hint in [address - step * 0x10_0000, address + step * 0x10_0000] {
            let hint = (hint & !0xfff) as *mut libc::c_void;
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: replaces no mapping.
            let pages = unsafe { libc::mmap(hint, len, protection, flags, -1, 0) };
            if pages == hint {
                return pages.cast();
            }
        }
    }
    panic!("no room near {address:#x}");
}

/// Replaces every site of the object at `base`; the first gets this index.
fn patch(base: u64, first_index: usize) -> Vec<Site> {
    let (segments, first) = segments(base);
    let object = Object::new(base, first, segments).unwrap();
    let mut writes = Vec::new();
    let mut all = Vec::new();
    let mut pages = Vec::new();
    for code in object.code() {
        let mut sites = Vec::new();
        plan(&code, Trust::LibC, &mut sites).unwrap();
        sites.retain(|site| site.number.is_none_or(|number| !NEW_FLOW.contains(&number)));
        let len = 4096 + sites.len() * STUB_LEN_MAX;
        let stubs = map_near(code.address, len);
        // SAFETY: our fresh pages; the first word is the slot.
        let stubs = unsafe { std::slice::from_raw_parts_mut(stubs, len) };
        stubs[..8].copy_from_slice(&(patch_live_entry as *const () as u64).to_le_bytes());
        let slot = stubs.as_ptr() as u64;
        let slots = Slots { vectors_dead: slot, vectors_live: slot };
        for (site, stub) in sites.iter().zip(stubs[4096..].chunks_exact_mut(STUB_LEN_MAX)) {
            let stub_address = stub.as_ptr() as u64;
            let index = first_index + all.len();
            assert!(index < SITES_MAX);
            emit_stub(site, &code, stub_address, slots, index as u32, stub).unwrap();
            let mut jump = vec![0; site.len()];
            emit_jump(site, stub_address, &mut jump).unwrap();
            writes.push((site.address, jump));
            all.push(*site);
        }
        let start = code.address & !0xfff;
        pages.push((start, (code.address + code.bytes.len() as u64 - start) as usize));
    }
    // Whole segments: Linux refuses to split the vDSO's mapping.
    let protect = |protection| {
        for &(start, len) in &pages {
            // SAFETY: the object's code, which stays executable all the time.
            assert_eq!(unsafe { libc::mprotect(start as *mut libc::c_void, len, protection) }, 0);
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    for (address, bytes) in writes {
        // SAFETY: the planner says that these bytes may be replaced; there is one thread.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
    protect(libc::PROT_READ | libc::PROT_EXEC);
    all
}

/// The address where the object whose path contains `part` begins.
fn base(part: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(part)).unwrap();
    u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

fn files() {
    let path = std::env::temp_dir().join(format!("entresol-patch-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path).unwrap();
    file.write_all(b"one two three").unwrap();
    drop(file);
    let mut file = std::fs::File::open(&path).unwrap();
    file.seek(std::io::SeekFrom::Start(4)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "two three");
    assert_eq!(file.metadata().unwrap().len(), 13);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(std::fs::File::open(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

fn threads() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let (lock, changed) = (std::sync::Mutex::new(0u32), std::sync::Condvar::new());
    std::thread::scope(|scope| {
        for part in 0..8u64 {
            let (sender, lock, changed) = (sender.clone(), &lock, &changed);
            scope.spawn(move || {
                (0..100).for_each(|number| sender.send(part * 100 + number).unwrap());
                *lock.lock().unwrap() += 1;
                changed.notify_all();
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().sum::<u64>(), (0..800).sum());
        let mut done = lock.lock().unwrap();
        while *done < 8 {
            done = changed.wait(done).unwrap();
        }
    });
}

fn processes() {
    let output = Command::new("echo").arg("hello").output().unwrap();
    assert_eq!(output.stdout, b"hello\n");
    // SAFETY: the child does nothing but exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7);
}

fn signals() {
    static CAUGHT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    extern "C" fn catch(_: libc::c_int) {
        CAUGHT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    // SAFETY: the handler only counts.
    unsafe {
        libc::signal(libc::SIGUSR1, catch as *const () as libc::sighandler_t);
        assert_eq!(libc::raise(libc::SIGUSR1), 0);
        assert_eq!(libc::kill(libc::getpid(), libc::SIGUSR1), 0);
    }
    assert_eq!(CAUGHT.swap(0, std::sync::atomic::Ordering::Relaxed), 2);
}

fn clocks() {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    for clock in [libc::CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_MONOTONIC] {
        // SAFETY: writes to our structure.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
        assert!(time.tv_sec > 0 || time.tv_nsec > 0);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::clock_getres(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    std::thread::sleep(Duration::from_millis(1));
}

fn errors() {
    // SAFETY: calls without pointers, or with one that the kernel refuses.
    unsafe {
        assert_eq!(libc::close(-1), -1);
        assert_eq!(*libc::__errno_location(), libc::EBADF);
        assert_eq!(libc::syscall(libc::SYS_getpid), libc::getpid() as libc::c_long);
        assert_eq!(libc::syscall(0x7777), -1);
        assert_eq!(*libc::__errno_location(), libc::ENOSYS);
        assert_eq!(libc::pipe(std::ptr::without_provenance_mut(8)), -1);
        assert_eq!(*libc::__errno_location(), libc::EFAULT);
    }
}

fn main() {
    if std::fs::read_to_string("/proc/self/maps").unwrap().contains("/libentresol") {
        println!("SKIPPED: this process runs under Entresol, which has patched it already");
        return;
    }
    let objects = [base("/libc.so"), base("/ld-linux-x86-64.so"), base("[vdso]")];
    let mut sites = Vec::new();
    for base in objects {
        sites.extend(patch(base, sites.len()));
    }
    // Twice: what is set up on the first call must also work then.
    for _ in 0..2 {
        for exercise in [files, threads, processes, signals, clocks, errors] {
            exercise();
        }
    }
    // SAFETY: bytes that only go from 0 to 1.
    let hits = unsafe { patch_live_hits };
    let hit = sites.iter().zip(hits).filter(|(_, hit)| *hit != 0);
    let (mut count, mut vdso) = (0, 0);
    for (site, _) in hit {
        count += 1;
        vdso += (site.address >= objects[2] && site.address < objects[2] + 0x4000) as u32;
    }
    println!("{} sites patched in this process, {count} used, {vdso} of them in the vDSO", sites.len());
    assert!(count >= 30, "the patches are not used");
    assert!(vdso >= 1, "CPU clocks do not come through the patched vDSO");
}
