//! The system calls of the C library, the dynamic loader and the vDSO of this machine.

mod common;

use std::collections::BTreeMap;
use std::time::Instant;

use entresol_patch::elf::Object;
use entresol_patch::{Census, Form, Site, Trust, plan};

/// Plans every executable segment of an object.
fn sites(object: &Object<'_>, trust: Trust) -> (Vec<Site>, Census) {
    let (mut sites, mut sum) = (Vec::new(), Census::default());
    for code in object.code() {
        let census = plan(&code, trust, &mut sites).unwrap();
        sum.pairs += census.pairs;
        sum.syscalls += census.syscalls;
        sum.sites += census.sites;
        sum.unknown += census.unknown;
        sum.no_room += census.no_room;
        sum.restorers += census.restorers;
    }
    (sites, sum)
}

fn print(name: &str, object: &Object<'_>, trust: Trust) -> (Vec<Site>, Census) {
    let mut best = u128::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        std::hint::black_box(sites(object, trust));
        best = best.min(start.elapsed().as_micros());
    }
    let (sites, census) = sites(object, trust);
    let mut forms = BTreeMap::new();
    for site in &sites {
        *forms.entry(format!("{:?}", site.form)).or_insert(0) += 1;
    }
    let dead = sites.iter().filter(|site| site.vectors_dead).count();
    let numbered = sites.iter().filter(|site| site.number.is_some()).count();
    println!("{name}: {census:?}");
    println!("  forms {forms:?}, vectors dead {dead}, number known {numbered}; {best} us at best");
    for site in sites.iter().filter(|site| !site.vectors_dead) {
        println!("  vectors live at {:#x}", site.syscall_at());
    }
    (sites, census)
}

/// What must hold for every plan, whatever the code.
fn check(object: &Object<'_>, sites: &[Site], census: Census) {
    assert_eq!(sites.len(), census.sites as usize);
    assert_eq!(census.syscalls, census.sites + census.no_room);
    assert!(sites.windows(2).all(|pair| pair[0].end() <= pair[1].address), "sites overlap");
    for site in sites {
        assert!(site.len() >= 5);
        assert!(object.segments().from(site.syscall_at()).unwrap().starts_with(&[0x0f, 0x05]));
        if site.form == Form::Number {
            assert_eq!((site.before, site.after), (5, 0));
            assert!(site.number.is_some());
        }
    }
}

#[test]
fn c_library_and_loader() {
    for path in [common::loaded("/libc.so"), common::loaded("/ld-linux-x86-64.so")] {
        let file = std::fs::read(&path).unwrap();
        let object = Object::of_file(&file, 0x7f00_0000_0000).unwrap();
        let (sites, census) = print(&path, &object, Trust::LibC);
        check(&object, &sites, census);
        // Compilers differ, but these are the rule everywhere.
        assert!(census.sites * 100 >= census.pairs * 95, "{path}: too few sites");
        let dead = sites.iter().filter(|site| site.vectors_dead).count();
        assert!(dead * 100 >= sites.len() * 95, "{path}: too many vector registers in use");

        match common::disassembled_syscalls(&path) {
            None => println!("  SKIPPED: no objdump to compare with"),
            Some(listed) => {
                let bias = object.bias();
                let listed: Vec<u64> = listed.into_iter().map(|address| address + bias).collect();
                let missing: Vec<&u64> =
                    listed.iter().filter(|at| !sites.iter().any(|site| site.syscall_at() == **at)).collect();
                println!("  objdump lists {}; not patched: {missing:x?}", listed.len());
                assert!(
                    sites.iter().all(|site| listed.contains(&site.syscall_at())),
                    "not a syscall in objdump's eyes"
                );
                assert_eq!(listed.len(), (census.syscalls + census.restorers + census.unknown) as usize);
            }
        }
    }
}

#[test]
fn vdso() {
    if std::fs::read_to_string("/proc/self/maps").unwrap().contains("/libentresol") {
        println!("  SKIPPED: this process runs under Entresol, which has patched its vDSO");
        return;
    }
    let (base, bytes) = common::vdso();
    let object = Object::new(base, &bytes, {
        let mut segments = entresol_patch::elf::Segments::new();
        segments.push(base, &bytes);
        segments
    })
    .unwrap();
    let (sites, census) = print("vDSO", &object, Trust::LibC);
    check(&object, &sites, census);
    assert!(census.sites > 0, "CPU clocks make system calls");
    assert_eq!(census.unknown, 0);
}
