//! Random machines, for swarms.

use super::{ByDistance, Cores, Hardware, Ramp, Stolen};
use crate::rng::Rng;

impl Hardware {
    /// The machine of a seed: up to two sockets, caches that are shared or not, fast and small cores, siblings, a ramp
    /// and stolen time, each as likely as not.
    pub fn random(seed: u64) -> Hardware {
        let mut r = Rng::new(seed).fork(79);
        let sockets = r.between(1, 2) as u32;
        let mut cores = Vec::new();
        for socket in 0..sockets {
            for _ in 0..r.between(1, 2) {
                cores.push(Cores {
                    count: r.between(1, 3) as u32,
                    siblings: r.between(1, 2) as u32,
                    capacity: *r.pick(&[100, 100, 45, 30]),
                    socket,
                    cache: r.below(2) as u32,
                });
            }
        }
        let stolen = Stolen { percent: *r.pick(&[1, 5, 20, 50]), length: *r.pick(&[50_000, 2_000_000, 10_000_000]) };
        let ramp = Ramp { from: *r.pick(&[10, 50]), length: *r.pick(&[500_000, 74_000_000]) };
        Hardware {
            about: format!("random, from seed {seed}"),
            migration: *r.pick(&[ByDistance::migration(), ByDistance { across: 3_000, ..ByDistance::migration() }]),
            line: ByDistance::line(),
            kick: *r.pick(&[ByDistance::kick(), ByDistance { across: 300, ..ByDistance::kick() }]),
            stolen: r.permille(500).then_some(stolen),
            ramp: r.permille(500).then_some(ramp),
            cores,
        }
    }
}
