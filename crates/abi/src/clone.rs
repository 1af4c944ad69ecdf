use crate::Errno;
use crate::bytes::{Plain, layout};

/// Flags of `clone(2)` and `clone3(2)`, all as 64 bits.
pub mod clone_flags {
    use linux_raw_sys::general as linux;

    macro_rules! flags {
        ($($name:ident = $raw:ident),* $(,)?) => {
            $(
                #[doc = concat!("`", stringify!($raw), "`")]
                pub const $name: u64 = linux::$raw as u64;
            )*
        };
    }

    flags! {
        VM = CLONE_VM,
        FS = CLONE_FS,
        FILES = CLONE_FILES,
        SIGHAND = CLONE_SIGHAND,
        PIDFD = CLONE_PIDFD,
        PTRACE = CLONE_PTRACE,
        VFORK = CLONE_VFORK,
        PARENT = CLONE_PARENT,
        THREAD = CLONE_THREAD,
        NEWNS = CLONE_NEWNS,
        SYSVSEM = CLONE_SYSVSEM,
        SETTLS = CLONE_SETTLS,
        PARENT_SETTID = CLONE_PARENT_SETTID,
        CHILD_CLEARTID = CLONE_CHILD_CLEARTID,
        DETACHED = CLONE_DETACHED,
        UNTRACED = CLONE_UNTRACED,
        CHILD_SETTID = CLONE_CHILD_SETTID,
        NEWCGROUP = CLONE_NEWCGROUP,
        NEWUTS = CLONE_NEWUTS,
        NEWIPC = CLONE_NEWIPC,
        NEWUSER = CLONE_NEWUSER,
        NEWPID = CLONE_NEWPID,
        NEWNET = CLONE_NEWNET,
        IO = CLONE_IO,
        CLEAR_SIGHAND = CLONE_CLEAR_SIGHAND,
        INTO_CGROUP = CLONE_INTO_CGROUP,
        NEWTIME = CLONE_NEWTIME,
    }

    /// The bits of the old call that hold the exit signal (`CSIGNAL`).
    pub const CSIGNAL: u64 = 0xFF;
    /// All namespace flags.
    pub const NAMESPACES: u64 = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME;
}

/// `struct clone_args` of `clone3(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CloneArgs {
    /// [`clone_flags`], without a signal.
    pub flags: u64,
    /// Where to store a pid file descriptor.
    pub pidfd: u64,
    /// Where to store the child's tid in the child.
    pub child_tid: u64,
    /// Where to store the child's tid in the parent.
    pub parent_tid: u64,
    /// Signal to the parent at exit.
    pub exit_signal: u64,
    /// Lowest address of the stack.
    pub stack: u64,
    /// Length of the stack in bytes.
    pub stack_size: u64,
    /// The new FS base.
    pub tls: u64,
    /// Address of an array of wanted pids.
    pub set_tid: u64,
    /// Length of that array.
    pub set_tid_size: u64,
    /// Descriptor of the cgroup to enter.
    pub cgroup: u64,
}

layout!(CloneArgs: 88 {
    0 flags, 8 pidfd, 16 child_tid, 24 parent_tid, 32 exit_signal, 40 stack, 48 stack_size, 56 tls, 64 set_tid,
    72 set_tid_size, 80 cgroup,
});

impl CloneArgs {
    /// Sizes of the three published versions.
    pub const SIZES: [usize; 3] = [64, 80, 88];
    /// Checks the size argument before anything is read (`copy_clone_args_from_user`):
    /// E2BIG above a page, EINVAL below the first version.
    pub const fn check_size(size: usize) -> Result<(), Errno> {
        match size {
            0..64 => Err(Errno::EINVAL),
            64..=4096 => Ok(()),
            _ => Err(Errno::E2BIG),
        }
    }

    /// Reads a structure of any version; E2BIG if something is set behind what is known
    /// (`copy_struct_from_user`). `b.len()` passed [`CloneArgs::check_size`].
    pub fn read(b: &[u8]) -> Result<CloneArgs, Errno> {
        CloneArgs::check_size(b.len())?;
        if b.iter().skip(CloneArgs::SIZE).any(|&x| x != 0) {
            return Err(Errno::E2BIG);
        }
        let mut known = [0; CloneArgs::SIZE];
        let len = b.len().min(CloneArgs::SIZE);
        known[..len].copy_from_slice(&b[..len]);
        Ok(CloneArgs::get(&known))
    }

    /// The arguments of the old `clone(2)` in x86-64's order; its stack is given by the
    /// highest address, which goes to `stack` with size 0. Unlike `clone3(2)`, it ignores the exit signal of a
    /// thread and of a sibling, which has the caller's (`copy_process`), and CLONE_DETACHED.
    pub const fn from_clone(flags: u64, stack: u64, parent_tid: u64, child_tid: u64, tls: u64) -> CloneArgs {
        let has_signal = flags & (clone_flags::THREAD | clone_flags::PARENT) == 0;
        // Linux sends the parent nothing for a number above all signals (`do_notify_parent`). It is an error there.
        let signal = flags & clone_flags::CSIGNAL;
        let signal = if signal > 64 { 0 } else { signal };
        // With a pid file descriptor it is an error there, too.
        let ignored = if flags & clone_flags::PIDFD == 0 { clone_flags::DETACHED } else { 0 };
        CloneArgs {
            flags: flags & 0xFFFF_FFFF & !clone_flags::CSIGNAL & !ignored,
            pidfd: parent_tid,
            child_tid,
            parent_tid,
            exit_signal: if has_signal { signal } else { 0 },
            stack,
            stack_size: 0,
            tls,
            set_tid: 0,
            set_tid_size: 0,
            cgroup: 0,
        }
    }

    /// The same as arguments of the old `clone(2)` in x86-64's order, if that can say it.
    pub fn to_clone(&self) -> Option<[u64; 5]> {
        const NEW: u64 = !0xFFFF_FFFF | clone_flags::CSIGNAL | clone_flags::DETACHED;
        const SIGNAL_MAX: u64 = 64;
        let says_more = self.flags & NEW != 0 || self.exit_signal > SIGNAL_MAX || self.set_tid_size != 0;
        // The old call has one argument for both.
        let both = clone_flags::PIDFD | clone_flags::PARENT_SETTID;
        if says_more || self.flags & both == both {
            return None;
        }
        let parent = if self.flags & clone_flags::PIDFD != 0 { self.pidfd } else { self.parent_tid };
        let top = self.stack.checked_add(self.stack_size)?;
        Some([self.flags | self.exit_signal, top, parent, self.child_tid, self.tls])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_read() {
        let mut b = [0u8; 96];
        b[0] = 1;
        b[80] = 9;
        assert_eq!(CloneArgs::read(&b[..64]).unwrap().cgroup, 0);
        assert_eq!(CloneArgs::read(&b[..88]).unwrap().cgroup, 9);
        assert!(CloneArgs::read(&b).is_ok());
        b[90] = 1;
        assert_eq!(CloneArgs::read(&b), Err(Errno::E2BIG));
        assert_eq!(CloneArgs::read(&b[..63]), Err(Errno::EINVAL));
        assert_eq!(CloneArgs::check_size(4097), Err(Errno::E2BIG));
    }

    #[test]
    fn the_old_call_carries_its_signal_in_the_flags() {
        let a = CloneArgs::from_clone(clone_flags::VM | 17, 0x1000, 1, 2, 3);
        assert_eq!((a.flags, a.exit_signal, a.parent_tid, a.child_tid, a.tls), (clone_flags::VM, 17, 1, 2, 3));
    }

    #[test]
    fn what_the_old_call_can_say_is_said_by_it() {
        use clone_flags as cf;
        let fork = CloneArgs { flags: cf::CHILD_SETTID, child_tid: 2, exit_signal: 17, tls: 3, ..CloneArgs::default() };
        assert_eq!(fork.to_clone(), Some([cf::CHILD_SETTID | 17, 0, 0, 2, 3]));
        let parent = CloneArgs { flags: cf::PARENT_SETTID, parent_tid: 5, pidfd: 6, ..fork };
        let pidfd = CloneArgs { flags: cf::PIDFD, ..parent };
        assert_eq!([parent, pidfd].map(|args| args.to_clone().map(|a| a[2])), [Some(5), Some(6)]);
        let lent = CloneArgs { flags: cf::VM | cf::VFORK, stack: 0x1000, stack_size: 0x2000, ..fork };
        assert_eq!(lent.to_clone(), Some([cf::VM | cf::VFORK | 17, 0x3000, 0, 2, 3]));
        for args in [
            CloneArgs { flags: cf::PIDFD | cf::PARENT_SETTID, ..fork },
            CloneArgs { flags: cf::INTO_CGROUP, ..fork },
            CloneArgs { flags: cf::NEWTIME, ..fork },
            CloneArgs { set_tid_size: 1, ..fork },
            CloneArgs { exit_signal: 65, ..fork },
        ] {
            assert_eq!(args.to_clone(), None, "{args:?}");
        }
    }
}
