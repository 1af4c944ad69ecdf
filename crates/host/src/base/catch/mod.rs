//! Interception: how the host hands us the program's system calls.
//!
//! Patched sites need nothing of this. Whatever is left arrives as SIGSYS, and [`Catch`] is all that the image has to know
//! of why. A way to catch is one file here; docs/PORTING.md says what another processor needs.
//!
//! | | dispatch | seccomp |
//! |---|---|---|
//! | what the host looks at | a range that each host thread sets | a filter, which children and programs inherit |
//! | the image's own calls pass | by its range, wherever it lies | by a range that no exec can change ([`patch::FIXED_RANGE`]) |
//! | so a program is entered | by its dynamic linker, or by the image | by the image, which is executed in its place |
//! | a program that cannot be entered | runs natively | would end at its first call: is refused |

mod dispatch;
mod seccomp;

use crate::base::dispositions::HostInfo;
use arch::frame::HostFrame;
use sync::atomic::{AtomicBool, Ordering::*};

/// A way to catch system calls.
pub trait Catch: Sync {
    /// Has the host catch the calls of this process from now on, except for what it does by host threads. The program's
    /// code has not run, and there is one host thread.
    ///
    /// # Errors
    /// The host's.
    fn begin(&self) -> Result<(), isize>;

    /// The same for the calling host thread, at its beginning and in a child.
    fn begin_thread(&self);

    /// Whether this SIGSYS is a system call that was caught so.
    fn has_caught(&self, info: &HostInfo) -> bool;

    /// Whether this signal comes from a call that was not caught, because it must not be. The registers are then those
    /// of a call that is about to begin.
    fn has_let_through(&self, _info: &HostInfo, _frame: &mut HostFrame) -> bool {
        false
    }

    /// Whether it goes on in programs that are executed, before anything of them has run. The image must be what is
    /// executed then.
    fn outlives_exec(&self) -> bool;
}

/// Whether the filter catches and not dispatch; the same in every child.
static BY_FILTER: AtomicBool = AtomicBool::new(false);

/// Chooses a way for this process: the filter, or dispatch.
pub fn choose(by_filter: bool) {
    BY_FILTER.store(by_filter, Relaxed);
}

/// The way in which the calls of this process are caught.
pub fn way() -> &'static dyn Catch {
    if BY_FILTER.load(Relaxed) { &seccomp::Seccomp } else { &dispatch::Dispatch }
}
