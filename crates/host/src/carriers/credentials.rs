//! One host thread's credentials as the host knows them, and the calls that change them.

use crate::base::os::nr;
use abi::args::{
    PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_GET_SECUREBITS,
    PR_GET_SPECULATION_CTRL, PR_MCE_KILL_GET,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arch::{syscall, user};
use kernel::Call;

/// The largest number of groups that is compared; with more, credentials are unlike all others.
const GROUPS_MAX: usize = 1024;
/// `NGROUPS_MAX` of Linux.
const NGROUPS_MAX: u64 = 65_536;
const CAPABILITIES_MAX: usize = 64;
/// Store bypass, indirect branches, flushing of the first-level cache.
const SPECULATION_KINDS: usize = 3;
const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

/// The rights of a host thread, by value (`struct cred`, and what goes with it per thread).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credentials {
    /// Real, effective, saved and file system user.
    pub users: [u32; 4],
    groups: [u32; 4],
    supplementary: (usize, u64),
    capabilities: [u32; 6],
    bounding: u64,
    ambient: u64,
    secure_bits: u32,
    no_new_privileges: bool,
    personality: u32,
    /// The policy for broken memory (`PR_MCE_KILL`).
    machine_checks: i32,
    /// Speculation allowed to the processor, by kind (`PR_SET_SPECULATION_CTRL`).
    speculation: [i32; SPECULATION_KINDS],
    /// Distinguishes what no value shows: 0, or a number of its own.
    opaque: u32,
}

impl Credentials {
    /// Reads the credentials of the calling host thread. `opaque` stands for what cannot be read.
    pub fn mine(opaque: u32) -> Credentials {
        let mut c = Credentials { opaque, ..Credentials::default() };
        let version = [VERSION_3, 0];
        let mut list = [0u32; GROUPS_MAX];
        // SAFETY: the host fills words of ours; an id of -1 changes nothing and returns the present one.
        unsafe {
            let [r, e, s, f] = &mut c.users;
            syscall!(nr::GETRESUID, &raw mut *r, &raw mut *e, &raw mut *s);
            *f = syscall!(nr::SETFSUID, u32::MAX) as u32;
            let [r, e, s, f] = &mut c.groups;
            syscall!(nr::GETRESGID, &raw mut *r, &raw mut *e, &raw mut *s);
            *f = syscall!(nr::SETFSGID, u32::MAX) as u32;
            let count = syscall!(nr::GETGROUPS, GROUPS_MAX, list.as_mut_ptr());
            syscall!(nr::CAPGET, version.as_ptr(), c.capabilities.as_mut_ptr());
            c.secure_bits = syscall!(nr::PRCTL, PR_GET_SECUREBITS, 0, 0, 0, 0) as u32;
            c.no_new_privileges = syscall!(nr::PRCTL, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
            c.personality = syscall!(nr::PERSONALITY, u32::MAX) as u32;
            c.machine_checks = syscall!(nr::PRCTL, PR_MCE_KILL_GET, 0, 0, 0, 0) as i32;
            for (kind, word) in c.speculation.iter_mut().enumerate() {
                *word = syscall!(nr::PRCTL, PR_GET_SPECULATION_CTRL, kind, 0, 0, 0) as i32;
            }
            // EINVAL: there are more.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let known = list.get(..count).unwrap_or_default();
            c.supplementary =
                (count, known.iter().fold(0, |h, &g| h.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(g) + 1)));
        }
        let inheritable = [c.capabilities[2], c.capabilities[5]];
        for bit in 0..CAPABILITIES_MAX {
            // SAFETY: both only ask. EINVAL follows the last capability of this host.
            let bound = unsafe { syscall!(nr::PRCTL, PR_CAPBSET_READ, bit, 0, 0, 0) };
            if bound < 0 {
                break;
            }
            c.bounding |= (bound as u64) << bit;
            // Only inheritable capabilities can be ambient.
            if inheritable[bit / 32] >> (bit % 32) & 1 != 0 {
                // SAFETY: as above.
                let ambient = unsafe { syscall!(nr::PRCTL, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, bit, 0, 0) };
                c.ambient |= u64::from(ambient == 1) << bit;
            }
        }
        c
    }

    /// Whether the values suffice to compare these credentials with others.
    pub fn comparable(&self) -> bool {
        self.supplementary.0 <= GROUPS_MAX
    }

    /// The part that cannot be read.
    pub fn opaque(&self) -> u32 {
        self.opaque
    }
}

/// A call that changes the credentials of the host thread that makes it, with a copy of the memory it names, so that
/// other host threads can repeat it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    call: Call,
    /// Which argument is an address, and the memory there.
    memory: Option<(usize, Box<[u32]>)>,
    /// The second such argument.
    more: Option<(usize, Box<[u32]>)>,
}

impl Change {
    /// The change that a call of the thread `tid` asks for; [`NotCopied`] if only the host can say what is wrong with
    /// the call.
    pub fn new(call: &Call, tid: i32) -> Result<Change, NotCopied> {
        let mut change = Change { call: *call, memory: None, more: None };
        let a = call.args;
        match call.nr {
            nr::SETGROUPS if a[0] as i32 != 0 => {
                if u64::from(a[0] as u32) > NGROUPS_MAX {
                    return Err(NotCopied);
                }
                change.memory = Some((1, words(a[1], a[0] as usize & 0xffff_ffff)?));
            }
            nr::CAPSET => {
                let mut header = words(a[0], 2)?;
                let size = match header[0] {
                    VERSION_1 => 3,
                    VERSION_2 | VERSION_3 => 6,
                    _ => return Err(NotCopied),
                };
                if header[1] == tid as u32 {
                    header[1] = 0;
                }
                change.memory = Some((0, header));
                change.more = Some((1, words(a[1], size)?));
            }
            _ => {}
        }
        for (i, _) in change.memory.iter().chain(&change.more) {
            change.call.args[*i] = 0;
        }
        Ok(change)
    }

    /// Makes the change on the calling host thread.
    pub fn make(&self) -> isize {
        let mut args = self.call.args;
        for (i, words) in self.memory.iter().chain(&self.more) {
            args[*i] = words.as_ptr() as u64;
        }
        make(&Call { args, ..self.call })
    }

    /// Whether the call does more than [`Credentials`] shows.
    pub fn is_opaque(&self) -> bool {
        self.call.nr == nr::LANDLOCK_RESTRICT_SELF
    }
}

/// The call names memory that cannot be copied, or more than Linux takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCopied;

/// Makes the program's call unchanged.
pub fn make(call: &Call) -> isize {
    // SAFETY: it changes the rights of this host thread only.
    unsafe { arch::raw::syscall(call.nr, call.args.map(|a| a as usize)) }
}

fn words(at: u64, count: usize) -> Result<Box<[u32]>, NotCopied> {
    let mut words = Vec::new();
    words.try_reserve_exact(count).map_err(|_| NotCopied)?;
    for i in 0..count as u64 {
        words.push(user::load_u32(at.wrapping_add(4 * i)).map_err(|_| NotCopied)?);
    }
    Ok(words.into_boxed_slice())
}
