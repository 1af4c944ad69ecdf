//! The dynamic section and the dynamic symbols.

use super::read;
use super::segments::Segments;

/// A defined symbol of the dynamic symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'a> {
    /// The symbol's name, without version.
    pub name: &'a [u8],
    /// The symbol's run-time address.
    pub address: u64,
    /// The symbol's length in bytes, 0 if unknown.
    pub len: u64,
    /// The symbol names code.
    pub is_function: bool,
}

/// Run-time addresses out of the dynamic section; 0 where it has none.
#[derive(Clone, Copy, Default)]
pub(super) struct Dynamic {
    symbols: u64,
    strings: u64,
    gnu_hash: u64,
    hash: u64,
    soname: u64,
    has_soname: bool,
}

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

const SYMBOL_LEN: u64 = 24;
/// Symbols with longer names are left out, so that damaged tables cost no time.
const NAME_LEN_MAX: usize = 1 << 16;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const STT_FUNC: u8 = 2;
const STT_TLS: u8 = 6;
const STT_GNU_IFUNC: u8 = 10;

impl Dynamic {
    pub fn read(segments: &Segments<'_>, address: u64, bias: u64) -> Self {
        let mut dynamic = Self::default();
        let bytes = segments.from(address).unwrap_or(&[]);
        for entry in bytes.chunks_exact(16) {
            let (Some(tag), Some(value)) = (read::u64(entry, 0), read::u64(entry, 8)) else { break };
            let at = match tag {
                0 => break,
                DT_HASH => &mut dynamic.hash,
                DT_STRTAB => &mut dynamic.strings,
                DT_SYMTAB => &mut dynamic.symbols,
                DT_GNU_HASH => &mut dynamic.gnu_hash,
                DT_SONAME => {
                    dynamic.soname = value;
                    dynamic.has_soname = true;
                    continue;
                }
                _ => continue,
            };
            // glibc before 2.35 writes the run-time addresses into the section when it has loaded the object; for the
            // vDSO no one does.
            *at = if segments.from(value).is_some() { value } else { bias.wrapping_add(value) };
        }
        dynamic
    }

    pub fn soname<'a>(&self, segments: &Segments<'a>) -> Option<&'a [u8]> {
        if self.has_soname {
            read::string(segments.from(self.strings)?, usize::try_from(self.soname).ok()?)
        } else {
            None
        }
    }

    /// The defined symbol with this index.
    fn symbol<'a>(&self, segments: &Segments<'a>, bias: u64, index: u64) -> Option<Symbol<'a>> {
        let bytes = segments.from(self.symbols.checked_add(index.checked_mul(SYMBOL_LEN)?)?)?;
        let kind = bytes.get(4)? & 0xf;
        let section = read::u16(bytes, 6)?;
        if section == SHN_UNDEF || kind == STT_TLS {
            return None;
        }
        let name_at = read::u32(bytes, 0)? as usize;
        let strings = segments.from(self.strings)?;
        let value = read::u64(bytes, 8)?;
        Some(Symbol {
            name: read::string(strings.get(..strings.len().min(name_at.saturating_add(NAME_LEN_MAX)))?, name_at)?,
            address: if section == SHN_ABS { value } else { bias.wrapping_add(value) },
            len: read::u64(bytes, 16)?,
            is_function: matches!(kind, STT_FUNC | STT_GNU_IFUNC),
        })
    }

    pub fn symbols<'s, 'a>(
        &self,
        segments: &'s Segments<'a>,
        bias: u64,
    ) -> impl Iterator<Item = Symbol<'a>> + use<'s, 'a> {
        let this = *self;
        // Not more than fit into the memory behind the table.
        let room = segments.from(this.symbols).map_or(0, |bytes| bytes.len() as u64 / SYMBOL_LEN);
        let count = this.count(segments).unwrap_or(0).min(room);
        (0..count).filter_map(move |index| this.symbol(segments, bias, index))
    }

    pub fn find<'a>(&self, segments: &Segments<'a>, bias: u64, name: &[u8]) -> Option<Symbol<'a>> {
        if self.gnu_hash == 0 {
            return self.symbols(segments, bias).find(|symbol| symbol.name == name);
        }
        let table = GnuHash::new(segments, self.gnu_hash)?;
        let hash = gnu_hash(name);
        let mut index = table.first(hash)?;
        loop {
            let link = table.link(index)?;
            if link | 1 == hash | 1 {
                let symbol = self.symbol(segments, bias, index as u64);
                if symbol.is_some_and(|symbol| symbol.name == name) {
                    return symbol;
                }
            }
            if link & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }

    /// How many symbols there are: only the hash tables know.
    fn count(&self, segments: &Segments<'_>) -> Option<u64> {
        if self.gnu_hash == 0 {
            return (self.hash != 0).then(|| read::u32(segments.from(self.hash)?, 4))?.map(u64::from);
        }
        let table = GnuHash::new(segments, self.gnu_hash)?;
        let Some(mut index) = table.buckets().max().filter(|&last| last >= table.first_symbol) else {
            return Some(table.first_symbol as u64);
        };
        while table.link(index)? & 1 == 0 {
            index += 1;
        }
        Some(index as u64 + 1)
    }
}

/// `DT_GNU_HASH`: buckets of chains of symbols, a chain's last link having bit 0 set.
struct GnuHash<'a> {
    first_symbol: u32,
    buckets: &'a [u8],
    chains: &'a [u8],
}

impl<'a> GnuHash<'a> {
    fn new(segments: &Segments<'a>, address: u64) -> Option<Self> {
        let bytes = segments.from(address)?;
        let (bucket_count, first_symbol) = (read::u32(bytes, 0)? as usize, read::u32(bytes, 4)?);
        let buckets_at = (read::u32(bytes, 8)? as usize).checked_mul(8)?.checked_add(16)?;
        let chains_at = buckets_at.checked_add(bucket_count.checked_mul(4)?)?;
        Some(Self { first_symbol, buckets: bytes.get(buckets_at..chains_at)?, chains: bytes.get(chains_at..)? })
    }

    fn buckets(&self) -> impl Iterator<Item = u32> {
        self.buckets.chunks_exact(4).filter_map(|bucket| read::u32(bucket, 0))
    }

    fn first(&self, hash: u32) -> Option<u32> {
        let bucket = (hash as usize).checked_rem(self.buckets.len() / 4)?;
        read::u32(self.buckets, bucket * 4).filter(|&index| index >= self.first_symbol)
    }

    fn link(&self, index: u32) -> Option<u32> {
        read::u32(self.chains, index.checked_sub(self.first_symbol)? as usize * 4)
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte as u32))
}
