//! State that exec must hand on.

use crate::base::os;
use crate::base::report::Text;
use abi::SigSet;
use abi::args::AT_FDCWD;
use alloc::sync::Arc;
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
    /// The program's path, if the image was executed in its place; the host takes the image for the program then.
    pub executable: Option<Arc<[u8]>>,
}

impl Handover {
    /// The image's path, with a final zero.
    pub(crate) fn image(&self) -> &[u8] {
        let name = self.loader.iter().position(|&b| b == b'=').map_or(0, |at| at + 1);
        &self.loader[name..]
    }

    /// The program's path, with a final zero, if the image was executed in its place and the host means the image by this file,
    /// named as `newfstatat(2)` has it: `/proc/self/exe` leads there.
    pub(crate) fn behind(&self, dir: isize, path: *const u8, flags: u64) -> Option<Vec<u8>> {
        let executable = self.executable.as_ref()?;
        let file = os::file_at(dir, path, flags)?;
        // By the link, because the image's own path may have been given to another file, or lie where this user may not go.
        let image = os::file_at(AT_FDCWD as isize, c"/proc/self/exe".as_ptr().cast(), 0)?;
        (file == image).then(|| [&executable[..], &[0]].concat())
    }

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
