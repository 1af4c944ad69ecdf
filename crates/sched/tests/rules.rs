//! What the scheduler does, step by step. One program: each would compile a scheduler of its own.

#[path = "support/scene.rs"]
mod scene;
mod support;

mod at_once;
mod basic;
mod counts;
mod deadlines;
mod domains;
mod elect;
mod helping;
mod order;
mod places;
mod pushing;
mod ranks;
mod waking;
