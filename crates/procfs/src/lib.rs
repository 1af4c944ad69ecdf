//! The `/proc` tree.
#![no_std]
#![forbid(unsafe_code)]
