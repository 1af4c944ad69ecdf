//! The real C library, made ready: every jump leads to its stub, and nothing else differs.

use entresol_patch::elf::Object;
use entresol_patch::{Places, Ready, TRAILER_LEN, make_ready};

fn library() -> Option<(Vec<u8>, Vec<u8>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    // Under Entresol its code comes from the copy, the rest from the file.
    let path = paths.into_iter().find(|path| path.ends_with("/libc.so.6"))?;
    let file = std::fs::read(path).unwrap();
    let ready = make_ready(&file).unwrap()?;
    Some((file, ready))
}

fn read(file: &[u8], ready: &[u8]) -> Ready {
    let object = Object::of_file(file, 0).unwrap();
    let trailer = ready[ready.len() - TRAILER_LEN..].try_into().unwrap();
    Ready::read(trailer, object.build_id().unwrap(), ready.len() as u64).expect("what was just made fits")
}

#[test]
fn the_code_differs_at_sites_only_and_each_leads_to_a_stub() {
    let Some((file, ready)) = library() else {
        println!("skipped: no glibc with a build id");
        return;
    };
    let what = read(&file, &ready);
    let (text, stubs) = (what.text, what.stubs);
    let at = stubs.offset + what.records.0;
    let records = ready[at as usize..(at + what.records.1) as usize].to_vec().leak();
    let object = Object::of_file(&file, 0).unwrap();
    let code = object.code().next().unwrap().address;
    // As it lies in memory: the library's bias is large enough for the area below.
    const BIAS: u64 = 1 << 40;
    let area = BIAS.wrapping_add(stubs.address) - 4096;
    let places = Places::recorded(BIAS + code, area, records);

    let mut sites = 0;
    let mut from = 0;
    while let Some(differs) = (from..file.len()).find(|&i| file[i] != ready[i]) {
        let inside = (text.offset..text.offset + text.len).contains(&(differs as u64));
        assert!(inside && ready[differs] == 0xe9, "{differs:#x}");
        let displacement = i32::from_le_bytes(ready[differs + 1..differs + 5].try_into().unwrap());
        let address = BIAS + text.address + (differs as u64 - text.offset);
        let stub = (address + 5).wrapping_add_signed(i64::from(displacement));
        assert!((area + 4096..area + 4096 + what.records.0).contains(&stub), "{address:#x} leads to {stub:#x}");
        // Whatever stands first in the stub: behind it is the call, and the program sees it as its own.
        let seen = (stub..stub + 64).find_map(|at| places.seen(at)).unwrap();
        assert!((address..address + 64).contains(&seen), "{address:#x} is seen at {seen:#x}");
        sites += 1;
        // A jump, and int3 up to the end of the site.
        from = differs + 5 + ready[differs + 5..].iter().take_while(|&&byte| byte == 0xcc).count();
    }
    assert!(sites > 300, "{sites} sites");
    assert!(stubs.len >= what.records.0 + what.records.1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some((file, ready)) = library() else { return };
    let object = Object::of_file(&file, 0).unwrap();
    let build_id = object.build_id().unwrap();
    let whole: [u8; TRAILER_LEN] = ready[ready.len() - TRAILER_LEN..].try_into().unwrap();
    let len = ready.len() as u64;
    let mut other = build_id.to_vec();
    other[3] ^= 1;
    assert_eq!(Ready::read(&whole, &other, len), None);
    assert_eq!(Ready::read(&whole, b"", len), None);
    assert_eq!(Ready::read(&whole, build_id, len / 2), None, "parts behind the end");
    for at in 0..TRAILER_LEN {
        for byte in [0x00, 0x01, 0x80, 0xff] {
            let mut forged = whole;
            forged[at] = byte;
            // Whatever is said lies inside the file.
            if let Some(ready) = Ready::read(&forged, build_id, len) {
                for part in [ready.text, ready.stubs] {
                    assert!(part.len > 0 && part.offset + part.len <= len, "byte {at}");
                }
                assert!(ready.records.0 + ready.records.1 <= ready.stubs.len, "byte {at}");
            }
        }
    }
}
