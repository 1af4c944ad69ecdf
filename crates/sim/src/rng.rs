//! Randomness from one seed: SplitMix64 (Steele, Lea, Flood 2014). Small, stable, and good
//! enough to draw delays and mixes.

/// A stream of numbers that depends on its seed only.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Another stream, independent of how far this one is read.
    pub fn fork(&self, label: u64) -> Rng {
        let mut r = Rng(self.0 ^ label.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Rng(r.bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0 .. n`; 0 for `n` 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low ..= high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `n` of 1,000 cases.
    pub fn permille(&mut self, n: u32) -> bool {
        self.below(1000) < u64::from(n)
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_stable() {
        // The reference values of SplitMix64 for seed 1234567.
        let mut r = Rng::new(1_234_567);
        assert_eq!(r.bits(), 6_457_827_717_110_365_317);
        assert_eq!(r.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ranges_are_closed() {
        let mut r = Rng::new(7);
        let mut seen = [false; 3];
        (0..100).for_each(|_| seen[(r.between(5, 7) - 5) as usize] = true);
        assert_eq!(seen, [true; 3]);
        assert_eq!(r.between(9, 9), 9);
    }
}
