//! The tests of the kernel, as one program: each program would compile a kernel of its own.

mod common;

mod arrivals;
mod cpu_sleep;
mod cputime;
mod describe;
mod first_timer;
mod futex_pi;
mod futex_plain;
mod futex_random;
mod futex_robust;
mod futex_vector;
mod host_calls;
mod limits;
mod outside;
mod parked;
mod posix_timers;
mod profile;
mod put_off;
mod sleep;
