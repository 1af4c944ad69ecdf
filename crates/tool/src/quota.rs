//! How many CPUs the quotas of this process's control groups pay for (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1;
//! `cgroups(7)`, `cpu.cfs` in the kernel's documentation).
//!
//! A quota holds for a group and all below it, so those of all ancestors that can be seen count. What cannot be read sets no
//! limit.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// A quota and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Microseconds of CPU time in each period.
    pub micros: u64,
    /// The period in microseconds, not 0.
    pub period: u64,
    /// The file that says so.
    pub file: PathBuf,
}

impl Quota {
    /// As many CPUs as it pays for, rounded up.
    #[must_use]
    pub fn cpus(&self) -> usize {
        usize::try_from(self.micros.div_ceil(self.period)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether it allows less than the other.
    fn is_below(&self, other: &Quota) -> bool {
        u128::from(self.micros) * u128::from(other.period) < u128::from(other.micros) * u128::from(self.period)
    }
}

/// The smallest quota that holds for this process.
#[must_use]
pub fn own() -> Option<Quota> {
    below(Path::new("/"))
}

/// As [`own`], with the files below this folder.
fn below(root: &Path) -> Option<Quota> {
    let groups = memberships(&contents(&root.join("proc/self/cgroup"))?);
    if groups.is_empty() {
        return None;
    }
    let mounts = mounts(&contents(&root.join("proc/self/mountinfo"))?);
    let mut least: Option<Quota> = None;
    for group in groups {
        // A later mount may hide an earlier one.
        let Some(mount) = mounts.iter().rev().find(|mount| mount.version == group.version) else { continue };
        for folder in folders(&group.path, mount) {
            let folder = root.join(folder.strip_prefix("/").unwrap_or(&folder));
            if let Some(quota) = read(&folder, group.version)
                && least.as_ref().is_none_or(|least| quota.is_below(least))
            {
                least = Some(quota);
            }
        }
    }
    least
}

/// The content of a host file. Such files report no length, and this runs at each start, so the buffer is large from
/// the beginning.
fn contents(file: &Path) -> Option<Vec<u8>> {
    const USUAL: usize = 16 << 10;
    const LEN_MAX: u64 = 4 << 20;
    let mut bytes = Vec::with_capacity(USUAL);
    File::open(file).ok()?.take(LEN_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The version of control groups that has the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// A group that the process is in.
#[derive(PartialEq, Eq, Debug)]
struct Membership {
    version: Version,
    path: PathBuf,
}

/// The groups in the text of `/proc/self/cgroup`: lines of `ID:CONTROLLERS:PATH`.
fn memberships(text: &[u8]) -> Vec<Membership> {
    let membership = |line: &[u8]| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let version = match (id, controllers) {
            (b"0", b"") => Version::Two,
            (_, controllers) if has_cpu(controllers) => Version::One,
            _ => return None,
        };
        Some(Membership { version, path: OsStr::from_bytes(path).into() })
    };
    text.split(|&byte| byte == b'\n').filter_map(membership).collect()
}

fn has_cpu(list: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|word| word == b"cpu")
}

/// A tree of groups among the files.
#[derive(PartialEq, Eq, Debug)]
struct Mount {
    version: Version,
    /// The group that lies at the mount point.
    group: PathBuf,
    point: PathBuf,
}

/// The trees of groups in the text of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
fn mounts(text: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let (group, point) = (fields.nth(3)?, fields.next()?);
        // Optional fields end at a dash.
        fields.find(|&field| field == b"-")?;
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let version = match kind {
            b"cgroup2" => Version::Two,
            b"cgroup" if has_cpu(options) => Version::One,
            _ => return None,
        };
        Some(Mount { version, group: unescaped(group).into(), point: unescaped(point).into() })
    };
    text.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Spaces, tabs, line ends and backslashes are written as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'\\').then(|| behind.first_chunk::<3>()).flatten().and_then(octal);
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    u8::from_str_radix(digits, 8).ok()
}

/// The folders of a group and its ancestors, as far as the mount shows them. Of a group outside it (another namespace's) only
/// what lies at the mount point is known.
fn folders(group: &Path, mount: &Mount) -> Vec<PathBuf> {
    let inside = group.strip_prefix(&mount.group).unwrap_or(Path::new(""));
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    let inside = if is_plain { inside } else { Path::new("") };
    inside.ancestors().map(|part| mount.point.join(part)).collect()
}

/// The limits in a group's own files.
fn read(folder: &Path, version: Version) -> Option<Quota> {
    let text = |name: &str| String::from_utf8(contents(&folder.join(name))?).ok();
    match version {
        Version::Two => {
            let (micros, period) = cpu_max(&text("cpu.max")?)?;
            Some(Quota { micros, period, file: folder.join("cpu.max") })
        }
        Version::One => {
            // -1: none.
            let micros = text("cpu.cfs_quota_us")?.trim().parse().ok()?;
            let period = text("cpu.cfs_period_us")?.trim().parse().ok().filter(|&period| period > 0)?;
            Some(Quota { micros, period, file: folder.join("cpu.cfs_quota_us") })
        }
    }
}

/// Quota and period of `cpu.max`: two numbers, or `max` and a number.
fn cpu_max(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    let (micros, period) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (period > 0).then_some((micros, period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn quota(micros: u64, period: u64) -> Quota {
        Quota { micros, period, file: PathBuf::new() }
    }

    #[test]
    fn parts_of_cpus_are_rounded_up() {
        let cpus = |micros| quota(micros, 100_000).cpus();
        assert_eq!([1_000, 50_000, 100_000, 100_001, 250_000].map(cpus), [1, 1, 1, 2, 3]);
        assert_eq!([quota(0, 1).cpus(), quota(u64::MAX, 1).cpus()], [1, usize::MAX]);
        assert!(quota(1, 3).is_below(&quota(u64::MAX, u64::MAX - 1)));
        assert!(!quota(50_000, 100_000).is_below(&quota(25_000, 50_000)));
    }

    #[test]
    fn what_cpu_max_says() {
        assert_eq!(cpu_max("50000 100000\n"), Some((50_000, 100_000)));
        for text in ["max 100000\n", "", "\n", "50000", "50000 0", "-1 100000", "5e4 100000", "99999999999999999999 1"]
        {
            assert_eq!(cpu_max(text), None, "{text:?}");
        }
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let text = b"12:cpuset:/a\n4:cpu,cpuacct:/with:colon\n1:name=systemd:/b\n0::/c d\n";
        let found = [(Version::One, "/with:colon"), (Version::Two, "/c d")];
        let found = found.map(|(version, path)| Membership { version, path: path.into() });
        assert_eq!(memberships(text), found);
        for text in [&b""[..], b"0:", b"0::", b"::", b"\n\n", b"4:cpu", b"\xff\xfe:cpu:\xff", b"0:cpuset:/"] {
            assert!(memberships(text).len() <= 1, "{text:?}");
        }
        assert!(memberships(b"4:cpuacct:/a\n5:ncpu:/b\n").is_empty());
    }

    #[test]
    fn mounts_of_groups_are_found() {
        let text = b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 /docker/1 /sys/fs/cgroup/cpu,cpuacct ro master:7 shared:1 - cgroup cgroup rw,cpu,cpuacct\n\
            33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            41 31 0:38 /../.. /with\\040space\\134 rw,relatime - cgroup2 none rw\n";
        let found =
            [(Version::One, "/docker/1", "/sys/fs/cgroup/cpu,cpuacct"), (Version::Two, "/../..", "/with space\\")];
        let found = found.map(|(version, group, point)| Mount { version, group: group.into(), point: point.into() });
        assert_eq!(mounts(text), found);
        let damaged = [&b"1 2 3 / /x rw - cgroup2"[..], b"- - - - -", b"1 2 3 4 5 6 cgroup2 x rw", b"\xff \\0", b""];
        assert!(damaged.iter().all(|text| mounts(text).is_empty()));
        assert_eq!(unescaped(b"a\\04\\999\\777\\"), "a\\04\\999\\777\\");
    }

    #[test]
    fn a_group_and_its_ancestors_have_folders() {
        let at = |group: &str, of: &str| {
            let mount = Mount { version: Version::Two, group: of.into(), point: "/m".into() };
            folders(Path::new(group), &mount)
        };
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(at("/a/b", "/"), paths(&["/m/a/b", "/m/a", "/m/"]));
        assert_eq!(at("/a/b", "/a"), paths(&["/m/b", "/m/"]));
        assert_eq!(at("/a", "/a"), paths(&["/m/"]));
        // Of the group itself nothing is to be seen, and nothing outside the mount is looked at.
        for outside in ["/../other", "/abc", "", "relative"] {
            assert_eq!(at(outside, "/a"), paths(&["/m/"]), "{outside}");
        }
        assert_eq!(at("/a/../../../etc", "/a"), paths(&["/m/"]));
    }

    /// A folder with these files, as the root of all.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const SECOND: (&str, &str) = ("proc/self/mountinfo", "41 31 0:38 / /groups rw - cgroup2 none rw\n");

    #[test]
    fn the_least_of_a_group_and_its_ancestors_counts() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let root = root(&[
            SECOND,
            group,
            ("groups/a/b/cpu.max", "max 100000\n"),
            ("groups/a/cpu.max", "150000 100000\n"),
            ("groups/cpu.max", "400000 100000\n"),
        ]);
        let found = below(root.path()).unwrap();
        assert_eq!((found.cpus(), found.file), (2, root.path().join("groups/a/cpu.max")));
        fs::write(root.path().join("groups/a/b/cpu.max"), "5000 10000\n").unwrap();
        assert_eq!(below(root.path()).unwrap().cpus(), 1);
    }

    #[test]
    fn version_one_has_two_files() {
        let mount = "32 31 0:29 / /groups rw - cgroup cgroup rw,cpu\n";
        let files = [("proc/self/mountinfo", mount), ("proc/self/cgroup", "1:cpu:/a\n0::/\n")];
        let quota = [("groups/a/cpu.cfs_quota_us", "250000\n"), ("groups/a/cpu.cfs_period_us", "100000\n")];
        let root = root(&[files, quota].concat());
        assert_eq!(below(root.path()).unwrap().cpus(), 3);
        fs::write(root.path().join("groups/a/cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(below(root.path()), None);
        fs::write(root.path().join("groups/a/cpu.cfs_quota_us"), "1000\n").unwrap();
        fs::write(root.path().join("groups/a/cpu.cfs_period_us"), "0\n").unwrap();
        assert_eq!(below(root.path()), None);
    }

    #[test]
    fn what_is_not_there_sets_no_limit() {
        assert_eq!(below(Path::new("/nowhere")), None);
        let group = ("proc/self/cgroup", "0::/a\n");
        assert_eq!(below(root(&[group]).path()), None, "no mounts");
        assert_eq!(below(root(&[group, ("proc/self/mountinfo", "")]).path()), None, "no groups among them");
        assert_eq!(below(root(&[group, SECOND]).path()), None, "no files");
        assert_eq!(
            below(root(&[group, SECOND, ("groups/a/cpu.max/x", "")]).path()),
            None,
            "a folder in the file's place"
        );
    }
}
