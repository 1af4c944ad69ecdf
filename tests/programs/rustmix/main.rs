//! A Rust program of many threads: std, `parking_lot`, crossbeam and rayon. What it prints is always the same.

mod channels;
mod locks;
mod parallel;
mod standard;

fn main() {
    standard::run();
    locks::run();
    channels::run();
    parallel::run();
}
