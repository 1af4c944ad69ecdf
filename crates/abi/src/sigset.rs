use crate::bytes::plain_number;
use crate::{Errno, Signal};
use core::fmt;
use core::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not};

/// A set of signals: the kernel's `sigset_t`, bit `n - 1` for signal `n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SigSet(pub u64);

plain_number!(SigSet);

impl SigSet {
    /// No signal.
    pub const EMPTY: SigSet = SigSet(0);
    /// Every signal.
    pub const ALL: SigSet = SigSet(!0);
    /// The two that can be neither blocked nor handled: SIGKILL and SIGSTOP (`sig_kernel_only`).
    pub const UNBLOCKABLE: SigSet = SigSet::of(&[Signal::KILL, Signal::STOP]);
    /// Signals that a faulting instruction raises (`SYNCHRONOUS_MASK`): delivered before all others.
    pub const SYNCHRONOUS: SigSet =
        SigSet::of(&[Signal::SEGV, Signal::BUS, Signal::ILL, Signal::TRAP, Signal::FPE, Signal::SYS]);
    /// Signals whose default action stops the process (`SIG_KERNEL_STOP_MASK`).
    pub const STOP: SigSet = SigSet::of(&[Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU]);
    /// Signals whose default action writes a core (`SIG_KERNEL_COREDUMP_MASK`).
    pub const CORE: SigSet = SigSet::of(&[
        Signal::QUIT,
        Signal::ILL,
        Signal::TRAP,
        Signal::ABRT,
        Signal::FPE,
        Signal::SEGV,
        Signal::BUS,
        Signal::SYS,
        Signal::XCPU,
        Signal::XFSZ,
    ]);
    /// Signals whose default action is to do nothing (`SIG_KERNEL_IGNORE_MASK`).
    pub const IGNORED_BY_DEFAULT: SigSet = SigSet::of(&[Signal::CONT, Signal::CHLD, Signal::WINCH, Signal::URG]);

    /// The size every call with a set must name (`sizeof(sigset_t)` of the kernel).
    pub const SIZE: usize = 8;

    /// The set of these signals.
    pub const fn of(signals: &[Signal]) -> SigSet {
        let mut bits = 0;
        let mut i = 0;
        while i < signals.len() {
            bits |= 1 << signals[i].index();
            i += 1;
        }
        SigSet(bits)
    }

    /// The set of one signal.
    #[inline(always)]
    pub const fn only(s: Signal) -> SigSet {
        SigSet(1 << s.index())
    }

    /// Checks the size argument of a system call: EINVAL unless it is [`SigSet::SIZE`].
    pub const fn check_size(size: usize) -> Result<(), Errno> {
        if size == SigSet::SIZE { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Whether `s` is in the set.
    #[inline(always)]
    pub const fn contains(self, s: Signal) -> bool {
        self.0 >> s.index() & 1 != 0
    }

    /// Adds `s`.
    #[inline(always)]
    pub const fn insert(&mut self, s: Signal) {
        self.0 |= 1 << s.index();
    }

    /// Removes `s`.
    #[inline(always)]
    pub const fn remove(&mut self, s: Signal) {
        self.0 &= !(1 << s.index());
    }

    /// The signals of `self` that are not in `other`.
    #[inline(always)]
    pub const fn without(self, other: SigSet) -> SigSet {
        SigSet(self.0 & !other.0)
    }

    /// The set as a thread may block it: without SIGKILL and SIGSTOP.
    #[inline(always)]
    pub const fn blockable(self) -> SigSet {
        self.without(SigSet::UNBLOCKABLE)
    }

    /// Whether the set is empty.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two have a signal in common.
    #[inline(always)]
    pub const fn intersects(self, other: SigSet) -> bool {
        self.0 & other.0 != 0
    }

    /// How many signals are in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The lowest signal of the set.
    #[inline]
    pub const fn lowest(self) -> Option<Signal> {
        if self.0 == 0 { None } else { Signal::from_raw(self.0.trailing_zeros() as i32 + 1) }
    }

    /// The signals in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        let mut left = self;
        core::iter::from_fn(move || {
            let s = left.lowest()?;
            left.remove(s);
            Some(s)
        })
    }
}

impl BitOr for SigSet {
    type Output = SigSet;
    #[inline(always)]
    fn bitor(self, o: SigSet) -> SigSet {
        SigSet(self.0 | o.0)
    }
}

impl BitAnd for SigSet {
    type Output = SigSet;
    #[inline(always)]
    fn bitand(self, o: SigSet) -> SigSet {
        SigSet(self.0 & o.0)
    }
}

impl Not for SigSet {
    type Output = SigSet;
    #[inline(always)]
    fn not(self) -> SigSet {
        SigSet(!self.0)
    }
}

impl BitOrAssign for SigSet {
    #[inline(always)]
    fn bitor_assign(&mut self, o: SigSet) {
        self.0 |= o.0;
    }
}

impl BitAndAssign for SigSet {
    #[inline(always)]
    fn bitand_assign(&mut self, o: SigSet) {
        self.0 &= o.0;
    }
}

impl FromIterator<Signal> for SigSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SigSet {
        let mut set = SigSet::EMPTY;
        for s in signals {
            set.insert(s);
        }
        set
    }
}

impl fmt::Debug for SigSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_kernels() {
        assert_eq!(SigSet::only(Signal::HUP).0, 1);
        assert_eq!(SigSet::only(Signal::RTMAX).0, 1 << 63);
        assert_eq!(SigSet::UNBLOCKABLE.0, 0x4_0100);
        assert_eq!(SigSet::ALL.blockable().len(), 62);
        assert_eq!(SigSet::ALL.iter().count(), 64);
        assert_eq!(SigSet::EMPTY.lowest(), None);
    }

    #[test]
    fn signals_go_in_and_out() {
        let mut s: SigSet = [Signal::SEGV, Signal::RTMIN].into_iter().collect();
        assert!(s.contains(Signal::SEGV) && !s.contains(Signal::BUS));
        assert_eq!(s.lowest(), Some(Signal::SEGV));
        s.remove(Signal::SEGV);
        assert_eq!(s, SigSet::only(Signal::RTMIN));
        assert_eq!(SigSet::check_size(16), Err(Errno::EINVAL));
    }
}
