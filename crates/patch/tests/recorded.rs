//! Plans in files: the C library's own, and damaged ones.

mod common;

use entresol_patch::elf::Object;
use entresol_patch::{Code, Site, Trust, plan, recall, record};
use proptest::prelude::*;
use std::sync::LazyLock;

const BIAS: u64 = 0x7f00_0000_0000;

/// A C library as a file.
static LIBRARY: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read(common::loaded("/libc.so")).unwrap());
/// The plan of it, made at another address.
static FILE: LazyLock<Vec<u8>> =
    LazyLock::new(|| record(&Object::of_file(&LIBRARY, 0).unwrap(), Trust::LibC).unwrap().expect("a build id"));

fn object() -> Object<'static> {
    Object::of_file(&LIBRARY, BIAS).unwrap()
}

fn recalled(file: &[u8], build_id: &[u8], code: &Code<'_>) -> Option<Vec<Site>> {
    let mut sites = Vec::new();
    recall(file, build_id, BIAS, code, &mut sites).unwrap().map(|()| sites)
}

#[test]
fn what_is_recalled_is_what_was_planned() {
    let object = object();
    for code in object.code() {
        let mut planned = Vec::new();
        plan(&code, Trust::LibC, &mut planned).unwrap();
        assert!(planned.len() > 100);
        assert_eq!(recalled(&FILE, object.build_id().unwrap(), &code), Some(planned));
    }
}

#[test]
fn another_object_and_another_length_are_refused() {
    let object = object();
    let code = object.code().next().unwrap();
    assert_eq!(recalled(&FILE, b"another", &code), None);
    let shorter = Code { bytes: &code.bytes[..code.bytes.len() - 1], ..code };
    assert_eq!(recalled(&FILE, object.build_id().unwrap(), &shorter), None);
    assert_eq!(recalled(&[], object.build_id().unwrap(), &code), None);
}

#[test]
fn a_site_whose_bytes_have_changed_is_left_out() {
    let object = object();
    let code = object.code().next().unwrap();
    let build_id = object.build_id().unwrap();
    let sites = recalled(&FILE, build_id, &code).unwrap();
    let mut bytes = code.bytes.to_vec();
    // As a breakpoint does.
    bytes[(sites[7].address - code.address) as usize] = 0xcc;
    let mut expected = sites.clone();
    expected.remove(7);
    assert_eq!(recalled(&FILE, build_id, &Code { bytes: &bytes, ..code }), Some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever stands in the file, what comes back are sites that can be replaced, in order.
    #[test]
    fn damage_gives_nothing_that_is_not_there(
        flips in prop::collection::vec((0..100_000usize, any::<u8>()), 1..8),
        cut in prop::option::of(0..100_000usize),
    ) {
        let object = object();
        let code = object.code().next().unwrap();
        let mut file = FILE.clone();
        for (at, value) in flips {
            let at = at % file.len();
            file[at] = value;
        }
        if let Some(cut) = cut {
            file.truncate(cut % file.len());
        }
        for site in recalled(&file, object.build_id().unwrap(), &code).unwrap_or_default() {
            prop_assert!(site.len() >= 5 && site.address >= code.address);
            prop_assert!(site.end() <= code.address + code.bytes.len() as u64);
        }
    }
}
