//! State that exec must hand on.

use crate::base::report::Text;
use alloc::vec::Vec;
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
    /// The options, and what the thread that makes the exec keeps, with a final zero.
    pub(crate) fn options_for(&self, carried: &Carried) -> Vec<u8> {
        let mut options = self.options.clone();
        options.pop();
        options.extend_from_slice(b";thread=");
        let mut text = Text::<2048>::default();
        // If it does not fit, the other side does not read it.
        let _ = carried.write(&mut text);
        options.extend_from_slice(text.as_bytes());
        options.push(0);
        options
    }
}
