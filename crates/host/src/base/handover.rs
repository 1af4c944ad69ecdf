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
    /// The program's path, if the image was executed in its place, so that the host takes the image for the program.
    pub executable: Option<Arc<[u8]>>,
}

impl Handover {
    /// The image's path, with a final zero.
    pub fn image(&self) -> &[u8] {
        let name = self.loader.iter().position(|&b| b == b'=').map_or(0, |at| at + 1);
        &self.loader[name..]
    }

    /// The program's path, with a final zero, if the image was executed in its place and `dir`, `path` and `flags` (as
    /// in `newfstatat(2)`) name the image: `/proc/self/exe` leads there.
    pub(crate) fn behind(&self, dir: isize, path: *const u8, flags: u64) -> Option<Vec<u8>> {
        let executable = self.executable.as_ref()?;
        let file = os::file_at(dir, path, flags)?;
        // Use the link: the image's own path may name another file by now, or lie where this user may not go.
        let image = os::file_at(AT_FDCWD as isize, c"/proc/self/exe".as_ptr().cast(), 0)?;
        (file == image).then(|| [&executable[..], &[0]].concat())
    }

    /// The options for the new program, with a final zero: what the thread that makes the exec keeps, and what the new
    /// kernel need not find out again (ignored signals, the clock's rate).
    pub(crate) fn options_for(&self, carried: &Carried, ignored: SigSet, rate: Option<u64>) -> Vec<u8> {
        let mut options = self.options.clone();
        options.pop();
        let mut text = Text::<2048>::default();
        let _ = write!(text, ";ignored={}", ignored.0);
        if let Some(rate) = rate {
            let _ = write!(text, ";rate={rate}");
        }
        let _ = write!(text, ";thread=");
        // If the text was cut off, the next program ignores it.
        let _ = carried.write(&mut text);
        options.extend_from_slice(text.as_bytes());
        options.push(0);
        options
    }
}
