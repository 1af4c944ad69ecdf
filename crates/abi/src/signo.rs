use core::fmt;

/// A signal's number, 1 to 64. Number 0, "is it there at all" of `kill(2)`, is no signal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

macro_rules! signals {
    ($($name:ident = $n:literal),* $(,)?) => {
        impl Signal {
            $(
                #[doc = concat!("`SIG", stringify!($name), "`")]
                pub const $name: Signal = Signal($n);
            )*

            /// The name with `SIG`; real-time signals have none.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($n => Some(concat!("SIG", stringify!($name))),)*
                    _ => None,
                }
            }
        }
    };
}

signals! {
    HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9,
    USR1 = 10, SEGV = 11, USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15, STKFLT = 16, CHLD = 17,
    CONT = 18, STOP = 19, TSTP = 20, TTIN = 21, TTOU = 22, URG = 23, XCPU = 24, XFSZ = 25,
    VTALRM = 26, PROF = 27, WINCH = 28, IO = 29, PWR = 30, SYS = 31,
}

impl Signal {
    /// The highest number (`_NSIG`).
    pub const MAX: i32 = 64;
    /// The first real-time signal as the kernel counts (`SIGRTMIN` of the kernel; libc keeps 32 and 33).
    pub const RTMIN: Signal = Signal(32);
    /// The last real-time signal.
    pub const RTMAX: Signal = Signal(64);

    /// The signal with number `n`, if `n` is 1 to 64.
    #[inline]
    pub const fn from_raw(n: i32) -> Option<Signal> {
        if n >= 1 && n <= Signal::MAX { Some(Signal(n as u8)) } else { None }
    }

    /// The number.
    #[inline(always)]
    pub const fn raw(self) -> i32 {
        self.0 as i32
    }

    /// The number less one: the bit in a set and the place in a table of 64.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 - 1) as usize
    }

    /// Whether the signal is a real-time one: queued in order, never coalesced.
    #[inline(always)]
    pub const fn is_rt(self) -> bool {
        self.0 >= Signal::RTMIN.0
    }

    /// All signals in ascending order.
    pub fn all() -> impl Iterator<Item = Signal> {
        (1..=Signal::MAX as u8).map(Signal)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(n) => f.write_str(n),
            None => write!(f, "SIGRT{}", self.0),
        }
    }
}
