//! The names of a file's variables, from its symbol table.

use std::collections::BTreeMap;
use std::fs;

use object::{Object, ObjectSymbol, SymbolKind};

/// The variables of one file.
#[derive(Debug, Default)]
pub struct Variables {
    /// Length and name by address.
    symbols: BTreeMap<u64, (u64, String)>,
}

impl Variables {
    /// Reads a file; `None` if it cannot be read.
    #[must_use]
    pub fn load(path: &str) -> Option<Variables> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let symbols = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), (symbol.size(), symbol.name().ok()?.to_owned()))))
            .collect();
        Some(Variables { symbols })
    }

    /// The variable at an address in the file's own terms, and how far from its beginning.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(String, u64)> {
        let (start, (size, name)) = self.symbols.range(..=address).next_back()?;
        let offset = address - start;
        (offset < (*size).max(1)).then(|| (crate::modules::readable(name), offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_reaches_as_far_as_it_is_long() {
        let symbols = [(100, (8, "table".to_owned())), (108, (0, "_ZN1a5countE".to_owned()))];
        let variables = Variables { symbols: symbols.into() };
        assert_eq!(variables.at(99), None);
        assert_eq!(variables.at(104), Some(("table".to_owned(), 4)));
        assert_eq!(variables.at(108), Some(("a::count".to_owned(), 0)));
        assert_eq!(variables.at(109), None);
    }

    #[test]
    fn a_file_that_is_not_there_has_none() {
        assert!(Variables::load("/no/such/file").is_none());
        assert!(Variables::load("/proc/version").is_none());
    }
}
