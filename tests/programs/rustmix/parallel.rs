//! rayon: its global pool, pools of its own size, joins and scopes.

use rayon::prelude::*;

pub fn run() {
    iterators();
    joins();
    pools();
}

fn iterators() {
    let sum: u64 = (0..1_000_000u64).into_par_iter().map(|number| number * number % 7919).sum();
    println!("rayon: sum {sum}");
    let mut numbers: Vec<u64> =
        (0..200_000u64).map(|number| number.wrapping_mul(6_364_136_223_846_793_005) >> 40).collect();
    numbers.par_sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] <= pair[1]));
    println!("rayon: sorted {} {}", numbers[0], numbers[numbers.len() - 1]);
    let text: String = (0..1000).into_par_iter().map(|number| number.to_string()).collect();
    println!("rayon: text of {}", text.len());
    let found = (0..100_000u32).into_par_iter().find_first(|number| number % 777 == 776);
    println!("rayon: first {found:?}");
}

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

fn joins() {
    println!("rayon: fibonacci {}", fibonacci(22));
}

fn pools() {
    for threads in [1, 3, 16] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let (mut left, mut right) = (0, 0);
        pool.scope(|scope| {
            scope.spawn(|_| left = (0..50_000u64).filter(|number| number % 3 == 0).count());
            scope.spawn(|_| right = (0..50_000u64).into_par_iter().filter(|number| number % 5 == 0).count());
        });
        println!("rayon: pool of {threads}: {left} {right}, {}", pool.broadcast(|context| context.index()).len());
    }
}
