//! Helpers that the command and the crates of its subcommands share.
//!
//! | module | subject |
//! |---|---|
//! | [`style`] | messages on the terminal |
//! | [`output`] | answers on standard output |
//! | [`html`] | pages for a browser |
//! | [`machine`] | what this machine allows |
//! | [`quota`] | what its control groups pay for |
//! | [`folders`] | folders that nobody else can write to |
//! | [`resolve`] | the search of PATH, as execvp does it |
//!
//! **May touch:** the terminal, `/proc`, control groups, and the user's own folders. It knows nothing of the kernel.
//!
//! **Start reading at** [`machine`].

pub mod folders;
pub mod html;
pub mod machine;
pub mod output;
pub mod quota;
pub mod resolve;
pub mod style;
