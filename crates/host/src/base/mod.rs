//! The lowest layer: typed host calls, and whatever needs neither carriers nor a kernel. It knows of no process.

pub(crate) mod bounds;
pub mod catch;
pub(crate) mod clock;
pub(crate) mod contexts;
pub mod dispositions;
pub mod handover;
pub(crate) mod ids_file;
pub mod natives;
pub(crate) mod neighbour;
pub mod os;
pub(crate) mod page;
pub mod points;
pub(crate) mod recorder;
pub mod report;
pub(crate) mod request;
pub mod sites;
pub(crate) mod socket;
pub(crate) mod task;
