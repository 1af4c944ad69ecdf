//! Leaving the image by the host's `rt_sigreturn`: registers and mask change at once, so a signal that waits behind the
//! mask arrives in the program's code, with the program's registers.

use abi::bytes::{Plain, put_u64};
use abi::frame::{self as layout, Registers};
use arch::entry;

/// A signal frame in our memory.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Frame([u8; layout::SIZE]);

impl Default for Frame {
    fn default() -> Frame {
        Frame([0; layout::SIZE])
    }
}

impl Frame {
    /// Continues with these registers and this host mask. `state` is the extended state in the form that the host writes, and
    /// `stack` the carrier's signal stack.
    pub fn go(&mut self, registers: &Registers, state: u64, mask: u64, stack: [u64; 3]) -> ! {
        let bytes = &mut self.0;
        put_u64(
            bytes,
            layout::UC_FLAGS,
            layout::UC_FP_XSTATE | layout::UC_SIGCONTEXT_SS | layout::UC_STRICT_RESTORE_SS,
        );
        for (i, word) in stack.iter().enumerate() {
            put_u64(bytes, layout::UC_STACK + 8 * i, *word);
        }
        let registers = Registers { cs: layout::USER_CS, ss: layout::USER_SS, ..*registers };
        registers.put(&mut bytes[layout::UC_MCONTEXT..]);
        put_u64(bytes, layout::UC_MCONTEXT + layout::MC_FPSTATE, state);
        put_u64(bytes, layout::UC_SIGMASK, mask);
        // SAFETY: the frame is complete, and nothing of the image is needed any more.
        unsafe { entry::sigreturn(bytes.as_ptr()) }
    }
}
