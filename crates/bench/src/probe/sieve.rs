//! Every CPU sieves primes: a program that computes and does nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::clock::now_ns;
use super::{Measured, pthread, report};

/// Odd numbers in one segment, one byte each: fits a first-level cache.
const SEGMENT: u64 = 32 << 10;

/// Milliseconds of wall time.
pub(super) fn measure(quick: bool) -> Measured {
    let cpus = pthread::cpus().len();
    let limit = if quick { 300_000_000 } else { 1_000_000_000 } * cpus as u64;
    let start = now_ns();
    let primes = count_primes(limit, cpus);
    report::figure("cpu_bound", "ms", (now_ns() - start) as f64 / 1e6);
    std::hint::black_box(primes);
    Ok(())
}

/// The number of primes below `limit`, by a segmented sieve of Eratosthenes over odd numbers; threads take the next
/// segment from a counter.
fn count_primes(limit: u64, threads: usize) -> u64 {
    let root = limit.isqrt() + 1;
    let small = small_odd_primes(root);
    let next = AtomicU64::new(0);
    let total = AtomicU64::new(u64::from(limit > 2));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut composite = vec![false; SEGMENT as usize];
                let mut found = 0;
                loop {
                    let low = next.fetch_add(1, Ordering::Relaxed) * 2 * SEGMENT + 1;
                    if low >= limit {
                        break;
                    }
                    found += sieve_segment(low, limit, &small, &mut composite);
                }
                total.fetch_add(found, Ordering::Relaxed);
            });
        }
    });
    total.into_inner()
}

/// Odd primes below `limit`, by trial division by those found so far.
fn small_odd_primes(limit: u64) -> Vec<u64> {
    let mut primes: Vec<u64> = Vec::new();
    for number in (3..limit).step_by(2) {
        if primes.iter().take_while(|&&prime| prime * prime <= number).all(|prime| number % prime != 0) {
            primes.push(number);
        }
    }
    primes
}

/// Counts the odd primes of `low..` that lie in one segment and below `limit`; `low` is odd.
fn sieve_segment(low: u64, limit: u64, small: &[u64], composite: &mut [bool]) -> u64 {
    composite.fill(false);
    // One is no prime.
    composite[0] = low == 1;
    let high = (low + 2 * SEGMENT).min(limit);
    for &prime in small.iter().take_while(|&&prime| prime * prime < high) {
        // The first odd multiple in the segment that no smaller prime crosses out.
        let first = (prime * prime).max(low.next_multiple_of(prime));
        let first = if first % 2 == 0 { first + prime } else { first };
        for at in ((first - low) / 2..SEGMENT).step_by(prime as usize) {
            composite[at as usize] = true;
        }
    }
    let odd_numbers = (high - low).div_ceil(2) as usize;
    composite[..odd_numbers].iter().filter(|&&crossed| !crossed).count() as u64
}

#[cfg(test)]
mod tests {
    use super::count_primes;

    #[test]
    fn counts_as_many_primes_as_there_are() {
        let known =
            [(2, 0), (3, 1), (4, 2), (10, 4), (100, 25), (65_537, 6_542), (65_538, 6_543), (10_000_000, 664_579)];
        for (limit, primes) in known {
            for threads in [1, 3] {
                assert_eq!(count_primes(limit, threads), primes, "below {limit} with {threads} threads");
            }
        }
    }
}
