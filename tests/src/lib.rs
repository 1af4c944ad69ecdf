//! Whole-program tests: the same program natively and under `entresol run`.
