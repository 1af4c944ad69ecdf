//! A panic of the kernel ends the whole sweep: it must name the run in which it happened.

use std::cell::RefCell;
use std::sync::Once;

use tool::style;

thread_local! {
    /// The seed that this worker runs, and the command that repeats it.
    static RUNNING: RefCell<Option<(u64, String)>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Does one run; `command` repeats it.
pub(super) fn during<T>(seed: u64, command: String, run: impl FnOnce() -> T) -> T {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            RUNNING.with_borrow(|running| {
                if let Some((seed, command)) = running {
                    style::complain(&format!("panic in seed {seed}: {command}"));
                }
            });
            before(info);
        }));
    });
    RUNNING.set(Some((seed, command)));
    let result = run();
    RUNNING.set(None);
    result
}
