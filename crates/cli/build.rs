//! Builds the image as a library of its own and hands its path to the sources, which embed it.
//!
//! The image needs other settings than this command: no standard library, a fixed processor, its own
//! panic handler. So it is built by a nested cargo, in a three-line crate of type cdylib that invokes
//! `entresol_image::image!`. docs/HACKING.md tells the story.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest, Sha256};

/// Prefixes of variables that speak of the outer build and must not reach the nested one.
const FOREIGN_PREFIXES: &[&str] =
    &["CARGO_PROFILE_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "CARGO_BUILD_", "CARGO_TARGET_", "DEP_"];
/// Single variables of the same kind. `RUSTC_WORKSPACE_WRAPPER` is how clippy would leak in.
const FOREIGN: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_LINKER",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PRIMARY_PACKAGE",
    "TARGET",
    "HOST",
    "OUT_DIR",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "NUM_JOBS",
];

/// The link to the image's sources, in the wrapper's folder.
const SOURCES: &str = "entresol";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    let out = PathBuf::from(variable("OUT_DIR"));
    let embedded = out.join("libentresol.so");
    if env::var_os("DOCS_RS").is_some() {
        fs::write(&embedded, b"").expect("OUT_DIR is writable");
        println!("cargo::rustc-env=ENTRESOL_IMAGE_HASH=none");
        return;
    }
    if variable("TARGET") != "x86_64-unknown-linux-gnu" {
        panic!("Entresol runs on x86_64-unknown-linux-gnu only, not on {}", variable("TARGET").display());
    }

    link_unwinder();
    let wrapper = out.join("image");
    let sources = PathBuf::from(variable("DEP_ENTRESOL_IMAGE_MANIFEST_DIR"));
    write_wrapper(&wrapper, &link_sources(&wrapper, &sources));
    let built = build(&wrapper, &out.join("image-target"));
    let bytes = fs::read(&built).expect("the library was just built");
    write_if_changed(&embedded, &bytes);
    // The installed file is named by its content, so that builds of different versions never meet.
    println!("cargo::rustc-env=ENTRESOL_IMAGE_HASH={}", short_hash(&bytes));
    watch_sources(&built.with_extension("d"));
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name} for build scripts"))
}

/// Links the unwinder that the standard library needs, where the C compiler has it as an archive: as a shared library it
/// takes a tenth of a millisecond of each start, half of it for questions about a processor that nobody asks.
fn link_unwinder() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    // Without one, the answer is the bare name.
    if archive.is_ok_and(|answer| answer.stdout.contains(&b'/')) {
        println!("cargo::rustc-link-lib=gcc_eh");
    }
}

/// Links the image's sources into the wrapper's folder, with the workspace that they inherit from if there is one, and answers
/// where the crate is below it. What lies in cargo's workspace is named by relative paths, in symbols and in messages: this way
/// the image has the same bytes wherever the checkout lies.
fn link_sources(folder: &Path, image: &Path) -> PathBuf {
    let (root, below) = match image.ancestors().nth(2).filter(|root| image.starts_with(root.join("crates"))) {
        Some(root) if root.join("Cargo.toml").exists() => (root, image.strip_prefix(root).expect("it is above")),
        _ => (image, Path::new("")),
    };
    fs::create_dir_all(folder).expect("OUT_DIR is writable");
    let link = folder.join(SOURCES);
    if fs::read_link(&link).ok().as_deref() != Some(root) {
        let _ = fs::remove_file(&link);
        symlink(root, &link).expect("OUT_DIR takes symbolic links");
    }
    Path::new(SOURCES).join(below)
}

/// Writes the three-line crate, with the outer lock file so that both builds use the same versions.
fn write_wrapper(folder: &Path, image: &Path) {
    let features = if env::var_os("CARGO_FEATURE_PLANTED").is_some() { r#", features = ["planted"]"# } else { "" };
    let manifest = format!(
        r#"[package]
name = "libentresol"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
name = "entresol"
crate-type = ["cdylib"]
path = "lib.rs"
test = false
doctest = false
bench = false

[dependencies]
entresol-image = {{ path = {image:?}{features} }}

[profile.dev]
panic = "abort"
opt-level = 1
debug = "line-tables-only"

[profile.release]
panic = "abort"
opt-level = 3
lto = "fat"
codegen-units = 1
debug = "line-tables-only"
strip = "debuginfo"

[workspace]
exclude = [{SOURCES:?}]
"#
    );
    write_if_changed(&folder.join("Cargo.toml"), manifest.as_bytes());
    write_if_changed(&folder.join("lib.rs"), b"#![no_std]\nentresol_image::image!();\n");
    if let Some(lock) = outer_lock() {
        println!("cargo::rerun-if-changed={}", lock.display());
        fs::copy(lock, folder.join("Cargo.lock")).expect("the lock file can be copied");
    }
}

/// The nearest Cargo.lock at or above this crate: the workspace's, or the package's own when installed.
fn outer_lock() -> Option<PathBuf> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|folder| folder.join("Cargo.lock")).find(|file| file.exists())
}

/// Builds the wrapper crate and answers where the library lies.
fn build(wrapper: &Path, target_dir: &Path) -> PathBuf {
    let release = variable("PROFILE") == "release";
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["rustc", "--offline", "--lib", "--target", "x86_64-unknown-linux-gnu", "--manifest-path"]);
    cargo.arg(wrapper.join("Cargo.toml")).arg("--target-dir").arg(target_dir);
    if release {
        cargo.arg("--release");
    }
    // `-z defs` turns any reference to libc into a link error; `-Bsymbolic` and `now` leave nothing to bind later.
    cargo.args(["--", "-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles", "-Clink-arg=-Wl,-z,defs"]);
    cargo.args([
        "-Clink-arg=-Wl,-z,start-stop-visibility=hidden",
        "-Clink-arg=-Wl,-z,now",
        "-Clink-arg=-Wl,-Bsymbolic",
        // Where a program begins that the image loads itself.
        "-Clink-arg=-Wl,-e,entresol_start",
        "-Clink-arg=-Wl,-soname,libentresol.so",
    ]);
    cargo.arg("-Clink-arg=-Wl,--build-id");
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.contains(&&*text) || FOREIGN_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-cpu=x86-64");
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the image does not build: see cargo's messages above");
    let profile = if release { "release" } else { "debug" };
    target_dir.join("x86_64-unknown-linux-gnu").join(profile).join("libentresol.so")
}

/// Has this script run again when one of the image's sources changes: the names come from cargo's dependency file.
fn watch_sources(dependencies: &Path) {
    let text = fs::read_to_string(dependencies).expect("cargo writes a dependency file beside the library");
    let (_, sources) = text.split_once(": ").expect("a dependency file is a makefile rule");
    // A space inside a path is written as backslash and space.
    let mut path = String::new();
    for part in sources.trim_end().split(' ') {
        path.push_str(part);
        if path.ends_with('\\') {
            path.pop();
            path.push(' ');
            continue;
        }
        println!("cargo::rerun-if-changed={path}");
        path.clear();
    }
}

fn write_if_changed(path: &Path, bytes: &[u8]) {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).expect("OUT_DIR is writable");
    }
}

fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
