//! The commands `ps`, `threads`, `top`, `export` and `timers`, which show what processes under Entresol do.
//!
//! - [`ps`] and [`threads`] print threads once, [`mod@top`] shows them again and again, [`mod@export`] writes figures for
//!   Prometheus. Crate `watch` reads what the processes publish.
//! - [`timers`] asks a process for its timers.
//!
//! **May touch:** the terminal, the file and the socket that the user names, and what `watch` and `api::outside` touch.
//!
//! **Start reading at** [`args`], then [`ps`].

pub mod args;
pub mod export;
pub mod ps;
pub mod threads;
pub mod timers;
pub mod top;
