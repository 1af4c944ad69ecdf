//! Open files.
//!
//! Our files are generated again whenever they are read from the beginning, as Linux's sequence files are. The rest
//! of a short read is kept for the next one, so a record is never composed of two.

use crate::caller::Asker;
use crate::node::Node;
use crate::tree::Tree;
use procfs::entries::File;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// An open file.
#[derive(Debug)]
pub struct Opened(What);

#[derive(Debug)]
enum What {
    Host(OwnedFd),
    Ours { file: File, text: Mutex<Option<Vec<u8>>> },
}

impl Opened {
    pub(crate) fn host(file: OwnedFd) -> Opened {
        Opened(What::Host(file))
    }

    pub(crate) fn ours(file: File) -> Opened {
        Opened(What::Ours { file, text: Mutex::default() })
    }

    /// At most `size` bytes from `offset` on.
    ///
    /// # Errors
    /// ESRCH if its thread or process is gone; the host's.
    pub fn read(&self, tree: &Tree, asker: &Asker, node: &Node, offset: u64, size: usize) -> Result<Vec<u8>, Errno> {
        match &self.0 {
            What::Host(file) => {
                let mut bytes = vec![0; size];
                // The host judges readers as well as openers.
                let read = tree.lend(asker, || match rustix::io::pread(file, &mut bytes, offset) {
                    // A file without offsets is read in order.
                    Err(Errno::SPIPE) => rustix::io::read(file, &mut bytes),
                    read => read,
                })?;
                bytes.truncate(read);
                Ok(bytes)
            }
            What::Ours { file, text } => {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                let whole = match text.take() {
                    Some(kept) if offset != 0 => kept,
                    _ => tree.text(asker, node, *file)?,
                };
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
                let to = from.saturating_add(size).min(whole.len());
                let part = whole.get(from..to).unwrap_or_default().to_vec();
                *text = Some(whole);
                Ok(part)
            }
        }
    }

    /// Writes; what of ours can be written natively by others than the process itself is let alone.
    ///
    /// # Errors
    /// EINVAL where Linux says so; the host's.
    pub fn write(&self, tree: &Tree, asker: &Asker, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        match &self.0 {
            What::Host(file) => tree.lend(asker, || match rustix::io::pwrite(file, bytes, offset) {
                Err(Errno::SPIPE) => rustix::io::write(file, bytes),
                written => written,
            }),
            // Writing here would reset the statistics of the host's thread.
            What::Ours { file: File::Sched, .. } => Ok(bytes.len()),
            What::Ours { .. } => Err(Errno::INVAL),
        }
    }
}
