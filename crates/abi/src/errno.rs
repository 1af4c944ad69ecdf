use core::fmt;
use linux_raw_sys::errno as linux;

/// An error number of Linux: positive, as in `errno(3)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Errno = Errno(linux::$name as i32);
            )*

            /// The symbolic name, if it is one of the user-visible numbers or one of the restart codes.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    Errno::ERESTARTSYS => Some("ERESTARTSYS"),
                    Errno::ERESTARTNOINTR => Some("ERESTARTNOINTR"),
                    Errno::ERESTARTNOHAND => Some("ERESTARTNOHAND"),
                    Errno::ERESTART_RESTARTBLOCK => Some("ERESTART_RESTARTBLOCK"),
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM, ENOENT, ESRCH, EINTR, EIO, ENXIO, E2BIG, ENOEXEC, EBADF, ECHILD, EAGAIN, ENOMEM, EACCES, EFAULT,
    ENOTBLK, EBUSY, EEXIST, EXDEV, ENODEV, ENOTDIR, EISDIR, EINVAL, ENFILE, EMFILE, ENOTTY, ETXTBSY, EFBIG,
    ENOSPC, ESPIPE, EROFS, EMLINK, EPIPE, EDOM, ERANGE, EDEADLK, ENAMETOOLONG, ENOLCK, ENOSYS, ENOTEMPTY,
    ELOOP, ENOMSG, EIDRM, ECHRNG, EL2NSYNC, EL3HLT, EL3RST, ELNRNG, EUNATCH, ENOCSI, EL2HLT, EBADE, EBADR,
    EXFULL, ENOANO, EBADRQC, EBADSLT, EBFONT, ENOSTR, ENODATA, ETIME, ENOSR, ENONET, ENOPKG, EREMOTE,
    ENOLINK, EADV, ESRMNT, ECOMM, EPROTO, EMULTIHOP, EDOTDOT, EBADMSG, EOVERFLOW, ENOTUNIQ, EBADFD, EREMCHG,
    ELIBACC, ELIBBAD, ELIBSCN, ELIBMAX, ELIBEXEC, EILSEQ, ERESTART, ESTRPIPE, EUSERS, ENOTSOCK, EDESTADDRREQ,
    EMSGSIZE, EPROTOTYPE, ENOPROTOOPT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EOPNOTSUPP, EPFNOSUPPORT,
    EAFNOSUPPORT, EADDRINUSE, EADDRNOTAVAIL, ENETDOWN, ENETUNREACH, ENETRESET, ECONNABORTED, ECONNRESET,
    ENOBUFS, EISCONN, ENOTCONN, ESHUTDOWN, ETOOMANYREFS, ETIMEDOUT, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH,
    EALREADY, EINPROGRESS, ESTALE, EUCLEAN, ENOTNAM, ENAVAIL, EISNAM, EREMOTEIO, EDQUOT, ENOMEDIUM,
    EMEDIUMTYPE, ECANCELED, ENOKEY, EKEYEXPIRED, EKEYREVOKED, EKEYREJECTED, EOWNERDEAD, ENOTRECOVERABLE,
    ERFKILL, EHWPOISON,
}

impl Errno {
    /// Interrupted: restart if the handler has SA_RESTART, else EINTR (`linux/errno.h`). Never seen by a program.
    pub const ERESTARTSYS: Errno = Errno(512);
    /// Interrupted: always restart. Never seen by a program.
    pub const ERESTARTNOINTR: Errno = Errno(513);
    /// Interrupted: restart if no handler runs, else EINTR. Never seen by a program.
    pub const ERESTARTNOHAND: Errno = Errno(514);
    /// Interrupted: restart by `restart_syscall(2)` if no handler runs, else EINTR. Never seen by a program.
    pub const ERESTART_RESTARTBLOCK: Errno = Errno(516);

    /// The largest number a system call may return negated (`MAX_ERRNO`).
    pub const MAX: i32 = 4095;

    /// The return value of a system call with this error: the negated number.
    #[inline(always)]
    pub const fn to_ret(self) -> isize {
        -(self.0 as isize)
    }

    /// Splits a system call's return value: `-4095 ..= -1` are errors (`IS_ERR_VALUE`).
    #[inline]
    pub const fn from_ret(ret: isize) -> Result<usize, Errno> {
        if ret < 0 && ret >= -(Errno::MAX as isize) { Err(Errno(-ret as i32)) } else { Ok(ret as usize) }
    }

    /// Joins a result into what a system call returns.
    #[inline]
    pub const fn ret_of(result: Result<usize, Errno>) -> isize {
        match result {
            Ok(n) => n as isize,
            Err(e) => e.to_ret(),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(n) => f.write_str(n),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_values_split_and_join() {
        assert_eq!(Errno::EINVAL.to_ret(), -22);
        assert_eq!(Errno::from_ret(-22), Err(Errno::EINVAL));
        assert_eq!(Errno::from_ret(-4096), Ok(-4096isize as usize));
        assert_eq!(Errno::from_ret(0), Ok(0));
        assert_eq!(Errno::ret_of(Err(Errno::EAGAIN)), -11);
        assert_eq!(Errno::ret_of(Ok(7)), 7);
    }

    #[test]
    fn names_are_the_headers() {
        assert_eq!(Errno::EHWPOISON.name(), Some("EHWPOISON"));
        assert_eq!(Errno(41).name(), None);
    }
}
