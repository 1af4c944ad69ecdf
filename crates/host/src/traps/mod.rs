//! The highest layer: from the host's signals and the entries to the kernel, from its decisions to a resumed thread,
//! and what the kernel asks of the machine.

mod controlled;
pub mod handlers;
mod machine;
mod run;
#[cfg(feature = "planted")]
mod twist;
