//! The rules of the scheduler, step by step. The files are one program because each program would compile a scheduler of its own.

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
