//! From the host's signals and the entries to the kernel, and from its decisions to a resumed thread; what the kernel asks
//! of the machine. Nothing is above.

mod controlled;
pub mod handlers;
mod machine;
mod run;
#[cfg(feature = "planted")]
mod twist;
