//! What a set of values looks like, and how much two sets differ.

/// A set of values, in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub count: usize,
    pub mean: f64,
    /// The sample variance (divided by count − 1); 0 for a single value.
    pub variance: f64,
    pub least: f64,
    pub quarter: f64,
    pub median: f64,
    pub three_quarters: f64,
    pub p99: f64,
    pub most: f64,
}

/// The difference of two means, with the interval that has the true one in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Summary {
    /// The summary of these values; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Summary> {
        values.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let at = |permille: usize| values[(count * permille).div_ceil(1000).max(1) - 1];
        Some(Summary {
            count,
            mean,
            variance: squares / (count - 1).max(1) as f64,
            least,
            quarter: at(250),
            median: at(500),
            three_quarters: at(750),
            p99: at(990),
            most,
        })
    }

    /// How much more this is than `base`, by Welch's interval: B. L. Welch, "The generalization of 'Student's' problem
    /// when several different population variances are involved", Biometrika 34 (1947). `None`: a side has one value.
    pub fn minus(&self, base: &Summary) -> Option<Difference> {
        if self.count < 2 || base.count < 2 {
            return None;
        }
        let (a, b) = (self.variance / self.count as f64, base.variance / base.count as f64);
        let mean = self.mean - base.mean;
        if a + b == 0.0 {
            return Some(Difference { mean, low: mean, high: mean });
        }
        let degrees = (a + b).powi(2) / (a.powi(2) / (self.count - 1) as f64 + b.powi(2) / (base.count - 1) as f64);
        let half = t_quantile_975(degrees) * (a + b).sqrt();
        Some(Difference { mean, low: mean - half, high: mean + half })
    }
}

impl Difference {
    /// Whether the interval leaves no doubt of the sign.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0 || (self.low == self.high && self.mean != 0.0)
    }
}

/// The value that Student's t with this many degrees of freedom, at least 1, does not exceed in 975 of 1,000 cases:
/// exact for 1 and 2, beyond by the expansion 26.7.5 of Abramowitz and Stegun, "Handbook of Mathematical Functions"
/// (1964).
fn t_quantile_975(degrees: f64) -> f64 {
    const X: f64 = 1.959_963_984_540_054;
    if degrees < 3.0 {
        // Between the exact values for 1, 2 and 3; rounding up would only make the interval wider.
        let (from, to) = if degrees < 2.0 { (12.706_205, 4.302_653) } else { (4.302_653, 3.182_446) };
        return from + (to - from) * (degrees.max(1.0) - degrees.max(1.0).floor());
    }
    let x2 = X * X;
    let terms = [
        X * (x2 + 1.0) / 4.0,
        X * ((5.0 * x2 + 16.0) * x2 + 3.0) / 96.0,
        X * (((3.0 * x2 + 19.0) * x2 + 17.0) * x2 - 15.0) / 384.0,
        X * ((((79.0 * x2 + 776.0) * x2 + 1482.0) * x2 - 1920.0) * x2 - 945.0) / 92_160.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees) + X
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_the_one_of_the_tables() {
        for (degrees, expected) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (1e6, 1.960)]
        {
            assert!((t_quantile_975(degrees) - expected).abs() < 0.01, "{degrees}: {}", t_quantile_975(degrees));
        }
    }

    #[test]
    fn a_summary_has_values_of_the_set() {
        let summary = Summary::of((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((summary.least, summary.median, summary.p99, summary.most), (1.0, 50.0, 99.0, 100.0));
        assert!((summary.variance - 841.666_666).abs() < 1e-3);
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn the_interval_is_welchs() {
        let of = |values: &[f64]| Summary::of(values.to_vec()).unwrap();
        // R: t.test(c(1, 2, 3, 4, 5), c(2, 4, 6, 8, 10)): 5.8824 degrees, −6.8889 to 0.8889.
        let difference = of(&[1.0, 2.0, 3.0, 4.0, 5.0]).minus(&of(&[2.0, 4.0, 6.0, 8.0, 10.0])).unwrap();
        assert_eq!(difference.mean, -3.0);
        assert!((difference.low + 6.8889).abs() < 0.02 && (difference.high - 0.8889).abs() < 0.02, "{difference:?}");
        assert!(!difference.is_clear());
        let same = of(&[1.0, 1.0]).minus(&of(&[2.0, 2.0])).unwrap();
        assert_eq!((same.low, same.high, same.is_clear()), (-1.0, -1.0, true));
        assert_eq!(of(&[1.0]).minus(&of(&[2.0, 3.0])), None);
    }
}
