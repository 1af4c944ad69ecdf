//! State that exec must hand on.

use crate::base::report::Text;
use abi::SigSet;
use alloc::vec::Vec;
use core::fmt::Write;
use kernel::Carried;

/// The environment that starts the image in a new program.
#[derive(Debug, Clone, Default)]
pub struct Handover {
    /// `LD_AUDIT=` or `LD_PRELOAD=` and the image's path, with a final zero.
    pub loader: Vec<u8>,
    /// `ENTRESOL_OPTIONS=` and its value, with a final zero.
    pub options: Vec<u8>,
}

impl Handover {
    /// The options, what the thread that makes the exec keeps, and what the new program's kernel need not find out anew: which
    /// signals are ignored, and the rate of the clock. With a final zero.
    pub(crate) fn options_for(&self, carried: &Carried, ignored: SigSet, rate: Option<u64>) -> Vec<u8> {
        let mut options = self.options.clone();
        options.pop();
        let mut text = Text::<2048>::default();
        let _ = write!(text, ";ignored={}", ignored.0);
        if let Some(rate) = rate {
            let _ = write!(text, ";rate={rate}");
        }
        let _ = write!(text, ";thread=");
        // The next program ignores a text that was cut off.
        let _ = carried.write(&mut text);
        options.extend_from_slice(text.as_bytes());
        options.push(0);
        options
    }
}
