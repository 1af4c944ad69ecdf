//! ELF objects (64-bit, little-endian, x86-64), in memory or in a file.
//!
//! [`headers`] reads the program headers of an object; the caller turns them into
//! [`Segments`], slices of memory at run-time addresses; an [`Object`] answers questions
//! about them.
//!
//! Every read is checked against the slices: a hostile file gives wrong answers or errors,
//! never a panic, and no loop is longer than its input.
//!
//! Formats: the System V ABI, its x86-64 supplement, the Linux Standard Base (for the
//! exception frames), and Go's runtime/symtab.go.

mod go;
mod header;
mod object;
mod read;
mod segments;
mod symbols;
mod unwind;

pub use go::GoFunctions;
pub use header::{BadElf, ProgramHeader, headers};
pub use object::{Object, build_id};
pub use segments::Segments;
pub use symbols::Symbol;
pub use unwind::{FunctionTable, search_table};
