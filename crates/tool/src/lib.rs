//! Shared by the command and the crates of its subcommands: messages on the terminal ([`style`]), what this machine
//! allows ([`machine`]), folders that nobody else can write to ([`folders`]), and the search of PATH ([`resolve`]). It knows nothing of the kernel.

pub mod folders;
pub mod machine;
pub mod resolve;
pub mod style;
