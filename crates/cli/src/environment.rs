//! The environment that the program starts with: the program's own, the image's place and our options.
//!
//! Taken from C's `environ` and not from Rust's view of it, so that entries without an equals sign and entries
//! that occur twice reach the program as they would natively.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tool::machine;

use crate::args::{Enter, Guards, Io, PendingSignals, RealTime, RunArguments};

/// The variable that carries the options of `run` to the image.
pub const OPTIONS: &str = "ENTRESOL_OPTIONS";
/// Version of the form of [`OPTIONS`].
const OPTIONS_VERSION: u32 = 1;

/// The default tick rate.
const USUAL_HZ: u32 = 1000;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The options as the image reads them: `name=value` with semicolons between, only those that were given.
#[must_use]
pub fn options(
    request: &RunArguments,
    quota: Option<usize>,
    limits: &[(&'static str, String)],
    runtime: Option<&OsStr>,
    image: &Path,
    command: Option<&Path>,
) -> Vec<u8> {
    let mut text = format!("v={OPTIONS_VERSION}").into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        text.extend(format!(";{name}=").bytes());
        text.extend(value);
    };
    if let Some(cpus) = request.cpus {
        add("cpus", cpus.to_string().as_bytes());
    }
    if let Some(cpus) = quota {
        add("quota", cpus.to_string().as_bytes());
    }
    match request.sampling {
        Some(sampling) => {
            // Samples are taken at ticks, so ticks must be as frequent.
            if sampling.hz > USUAL_HZ && !sampling.wall {
                add("hz", sampling.hz.to_string().as_bytes());
            }
            add("sample", (1_000_000_000 / u64::from(sampling.hz)).to_string().as_bytes());
            add("clock", if sampling.wall { b"wall" } else { b"cpu" });
        }
        None => {
            if let Some(hz) = request.hz {
                add("hz", hz.to_string().as_bytes());
            }
        }
    }
    if request.trace.is_some() {
        add("trace", b"1");
    }
    if let Some(folder) = &request.records {
        add("records", folder.as_os_str().as_bytes());
    }
    if let Some(run) = &request.controlled {
        add("chaos", run.log.as_os_str().as_bytes());
        add("strategy", run.strategy.map_or("replay".to_owned(), |spec| spec.to_string()).as_bytes());
        for (name, value) in [("seed", run.seed), ("epoch", run.epoch), ("places", run.places.into())] {
            add(name, value.to_string().as_bytes());
        }
        if !run.own_code.is_empty() {
            let ranges: Vec<String> = run.own_code.iter().map(|code| format!("{},{}", code.start, code.end)).collect();
            add("own", ranges.join(",").as_bytes());
        }
        if run.races {
            add("races", b"1");
        }
        if run.pauses {
            add("pauses", b"1");
        }
        add("run", run.run.to_string().as_bytes());
        if let Some(only) = &run.only {
            add("only", only.as_bytes());
        }
    }
    match request.rt {
        Some(RealTime::Allow) => add("rt", b"allow"),
        Some(RealTime::Host) => add("rt", b"host"),
        None => {}
    }
    if let Some(seconds) = request.watchdog {
        add("watchdog", seconds.to_string().as_bytes());
    }
    if let Some(micros) = request.ahead {
        add("ahead", micros.to_string().as_bytes());
    }
    if request.check_order {
        add("order", b"check");
    }
    if request.pending_signals == Some(PendingSignals::Unlimited) {
        add("pending", b"unlimited");
    }
    if request.guards == Some(Guards::Mappings) {
        add("guards", b"mappings");
    }
    if let Some(folder) = runtime.filter(|folder| !folder.as_bytes().contains(&b';')) {
        add("runtime", folder.as_bytes());
    }
    if !machine::may_bind() {
        add("bind", b"none");
    }
    match request.io {
        Some(Io::Epoll) => add("io", b"epoll"),
        Some(Io::Threads) => add("io", b"threads"),
        Some(Io::Auto) | None => {}
    }
    #[cfg(feature = "planted")]
    if let Some(fault) = std::env::var_os("ENTRESOL_PLANT") {
        add("plant", fault.as_bytes());
    }
    for (name, value) in limits {
        add(name, value.as_bytes());
    }
    if request.no_note {
        add("note", b"none");
    }
    if request.require {
        add("require", b"1");
    }
    if request.stats {
        add("stats", b"1");
    }
    add("image", image.as_os_str().as_bytes());
    if let Some(command) = command.filter(|path| !path.as_os_str().as_bytes().contains(&b';')) {
        add("cli", command.as_os_str().as_bytes());
    }
    text
}

/// This process's environment as it was at the start.
#[must_use]
pub fn current() -> Vec<CString> {
    let mut entries = Vec::new();
    // SAFETY: C keeps `environ` as an array of strings that ends with null, and nothing in this command changes it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// Adds the image and the options to an environment.
#[must_use]
pub fn with_image(mut entries: Vec<CString>, enter: Enter, image: &Path, options: &[u8]) -> Vec<CString> {
    let door = match enter {
        Enter::Audit => "LD_AUDIT",
        Enter::Preload => "LD_PRELOAD",
    };
    let mut list = image.as_os_str().as_bytes().to_owned();
    let others = take(&mut entries, door).unwrap_or_default();
    // Existing entries stay, after ours. Ours is not repeated if this command runs inside its own program.
    for other in others.split(|&byte| byte == b':').filter(|&other| !other.is_empty() && other != list_head(image)) {
        list.push(b':');
        list.extend(other);
    }
    take(&mut entries, OPTIONS);
    entries.push(entry(door, &list));
    entries.push(entry(OPTIONS, options));
    entries
}

fn list_head(image: &Path) -> &[u8] {
    image.as_os_str().as_bytes()
}

/// Removes every entry of that name and returns the value of the first, which is the one that counts.
fn take(entries: &mut Vec<CString>, name: &str) -> Option<Vec<u8>> {
    let mut first = None;
    entries.retain(|entry| match value(entry, name) {
        Some(value) => {
            first.get_or_insert_with(|| value.to_owned());
            false
        }
        None => true,
    });
    first
}

fn value<'a>(entry: &'a CStr, name: &str) -> Option<&'a [u8]> {
    entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

fn entry(name: &str, value: &[u8]) -> CString {
    let mut bytes = name.as_bytes().to_owned();
    bytes.push(b'=');
    bytes.extend(value);
    CString::new(bytes).expect("paths and options have no zero byte")
}

/// A C string of an argument.
#[must_use]
pub fn c_string(text: &OsStr) -> CString {
    CString::new(text.as_bytes()).expect("arguments have no zero byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RunArguments {
        RunArguments { cpus: None, watchdog: None, no_note: false, ..RunArguments::one_cpu(vec!["true".into()]) }
    }

    fn list(entries: &[&str]) -> Vec<CString> {
        entries.iter().map(|&entry| CString::new(entry).unwrap()).collect()
    }

    #[test]
    fn only_given_options_are_passed() {
        let image = Path::new("/c/i.so");
        assert_eq!(options(&request(), None, &[], None, image, None), b"v=1;image=/c/i.so");
        assert_eq!(options(&request(), Some(3), &[], None, image, None), b"v=1;quota=3;image=/c/i.so");
        let all = RunArguments { cpus: Some(4), hz: Some(250), rt: Some(RealTime::Host), stats: true, ..request() };
        let all = RunArguments { watchdog: Some(0), pending_signals: Some(PendingSignals::Unlimited), ..all };
        let all = RunArguments { guards: Some(Guards::Mappings), io: Some(Io::Epoll), ..all };
        let all = RunArguments { require: true, no_note: true, ..all };
        let text = options(
            &all,
            None,
            &[("limit", "process,hard,5".to_owned())],
            Some(OsStr::new("/run/1")),
            image,
            Some(Path::new("/bin/entresol")),
        );
        assert_eq!(
            text,
            b"v=1;cpus=4;hz=250;rt=host;watchdog=0;pending=unlimited;guards=mappings;runtime=/run/1;io=epoll;limit=process,hard,5;note=none;require=1;stats=1;image=/c/i.so;cli=/bin/entresol"
        );
        assert_eq!(options(&request(), None, &[], None, image, Some(Path::new("/odd;name"))), b"v=1;image=/c/i.so");
    }

    #[test]
    fn other_entries_stay_as_they_are() {
        let before = list(&["A=1", "NOEQUALS", "A=2", "LD_AUDIT_NOT=x", "ENTRESOL_OPTIONS=v=1;cpus=9"]);
        let after = with_image(before, Enter::Audit, Path::new("/i.so"), b"v=1");
        assert_eq!(
            after,
            list(&["A=1", "NOEQUALS", "A=2", "LD_AUDIT_NOT=x", "LD_AUDIT=/i.so", "ENTRESOL_OPTIONS=v=1"])
        );
    }

    #[test]
    fn libraries_that_were_there_stay_and_ours_comes_once() {
        let before = list(&["LD_AUDIT=/other.so:/i.so::/third.so", "LD_PRELOAD=/p.so"]);
        let after = with_image(before.clone(), Enter::Audit, Path::new("/i.so"), b"v=1");
        assert!(after.contains(&CString::new("LD_AUDIT=/i.so:/other.so:/third.so").unwrap()));
        assert!(after.contains(&CString::new("LD_PRELOAD=/p.so").unwrap()));
        let after = with_image(before, Enter::Preload, Path::new("/i.so"), b"v=1");
        assert!(after.contains(&CString::new("LD_PRELOAD=/i.so:/p.so").unwrap()));
    }
}
