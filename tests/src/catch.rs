//! The way to catch system calls: `ENTRESOL_TESTS_CATCH=seccomp` does it to the whole corpus by a filter.

/// The options of `entresol run` by which the calls of all programs are caught as `ENTRESOL_TESTS_CATCH` says.
///
/// # Errors
/// Another value than `auto`, `sud` or `seccomp`.
pub fn options() -> Result<&'static [&'static str], String> {
    match std::env::var("ENTRESOL_TESTS_CATCH").as_deref() {
        Err(_) | Ok("auto") => Ok(&[]),
        Ok("sud") => Ok(&["--catch", "sud"]),
        Ok("seccomp") => Ok(&["--catch", "seccomp"]),
        Ok(other) => Err(format!("ENTRESOL_TESTS_CATCH={other}: not auto, sud or seccomp")),
    }
}
