//! The `entresol` command.

pub mod embedded;
