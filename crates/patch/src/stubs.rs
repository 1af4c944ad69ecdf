//! The stubs of a piece of code, all together, and what leads to them.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::code::Code;
use crate::places::Places;
use crate::site::Site;
use crate::stub::{STUB_LEN_MAX, Slots, emit_jump, emit_stub};

/// Stubs begin at multiples of this.
const ALIGNMENT: usize = 16;
/// No site is longer.
pub const SITE_LEN_MAX: usize = 64;

/// All stubs of a piece of code, for an area of memory that begins with what the caller puts there.
#[derive(Debug)]
pub struct Stubs {
    /// The stubs: they follow the first bytes of the area.
    pub bytes: Vec<u8>,
    /// Which place of the program each byte of them is.
    pub places: Places,
    /// The sites that have a stub, and its address.
    pub jumps: Vec<(Site, u64)>,
}

impl Stubs {
    /// Writes a stub for each site that can have one. The area lies at `area`; its first `head` bytes, a multiple of 16,
    /// are the caller's. `library` is the number that the stubs pass on.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        code: &Code<'_>,
        sites: &[Site],
        (area, head): (u64, usize),
        slots: Slots,
        library: u32,
    ) -> Result<Stubs, TryReserveError> {
        let mut stubs =
            Stubs { bytes: Vec::new(), places: Places::new(code.address, area, sites.len())?, jumps: Vec::new() };
        stubs.bytes.try_reserve_exact(sites.len() * STUB_LEN_MAX)?;
        stubs.jumps.try_reserve_exact(sites.len())?;
        for site in sites {
            let mut bytes = [0u8; STUB_LEN_MAX];
            let at = area + (head + stubs.bytes.len()) as u64;
            let Ok(stub) = emit_stub(site, code, at, slots, library, &mut bytes) else { continue };
            let reachable = emit_jump(site, at, &mut [0; SITE_LEN_MAX]).is_ok();
            if reachable && stubs.places.add(site, at, &stub) {
                stubs.bytes.extend_from_slice(&bytes[..stub.len]);
                stubs.bytes.resize(stubs.bytes.len().next_multiple_of(ALIGNMENT), 0);
                stubs.jumps.push((*site, at));
            }
        }
        Ok(stubs)
    }

    /// The address of each site, and the bytes that replace it.
    pub fn replacements(&self) -> impl Iterator<Item = (u64, Replacement)> + Clone + '_ {
        self.jumps.iter().filter_map(|(site, stub)| {
            let mut replacement = Replacement { bytes: [0; SITE_LEN_MAX], len: site.len() };
            emit_jump(site, *stub, &mut replacement.bytes).ok()?;
            Some((site.address, replacement))
        })
    }
}

/// The bytes that replace a site's.
#[derive(Clone, Copy, Debug)]
pub struct Replacement {
    bytes: [u8; SITE_LEN_MAX],
    len: usize,
}

impl Replacement {
    /// These bytes, at most 64.
    #[must_use]
    pub fn of(these: &[u8]) -> Replacement {
        let mut bytes = [0; SITE_LEN_MAX];
        bytes[..these.len()].copy_from_slice(these);
        Replacement { bytes, len: these.len() }
    }
}

impl AsRef<[u8]> for Replacement {
    /// As many bytes as the site has.
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
