//! Tells dependents where the image's sources lie, so that they can build it as a library of its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::metadata=manifest_dir={folder}");
}
