use super::*;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

const C0: CpuId = CpuId(0);

fn all(timers: usize) -> Vec<Box<dyn TimerIds>> {
    vec![
        Box::new(Hash::global(2, timers)),
        Box::new(Hash::double_walk(2, timers)),
        Box::new(Hash::scaled(2, timers, 2)),
        Box::new(Xarray::new(2, timers)),
        Box::new(Ours::new(2, 2).unwrap()),
    ]
}

#[test]
fn all_designs_agree() {
    for d in all(3_000) {
        let name = d.name();
        assert!((0..1_000).all(|id| d.create(0, C0) == Some(id)), "{name}");
        assert_eq!(d.create(1, C0), Some(0), "{name}: ids are per process");
        assert!(d.look_up(0, 999) && !d.look_up(0, 1_000) && !d.look_up(1, 1), "{name}");
        assert!(d.delete(0, 500) && !d.delete(0, 500) && !d.look_up(0, 500), "{name}");
        assert_eq!(d.create(0, C0), Some(1_000), "{name}: an id is not used again");
        assert_eq!(d.create_exact(0, 5_000), Some(5_000), "{name}");
        assert_eq!(d.create_exact(0, 5_000), None, "{name}: taken");
        assert_eq!(d.create_exact(0, 500), Some(500), "{name}");
        assert!(d.look_up(0, 500) && d.look_up(0, 5_000) && d.look_up(0, 0), "{name}");
    }
}

#[test]
fn ids_are_unique_under_two_threads() {
    for d in all(20_000) {
        let d = &*d;
        let ids: Vec<u32> = std::thread::scope(|s| {
            let one = |cpu| {
                move || {
                    let mut mine = vec![];
                    for i in 0..4_000 {
                        let id = d.create(0, cpu).unwrap();
                        assert!(d.look_up(0, id));
                        mine.push(id);
                        if i % 3 == 0 {
                            assert!(d.delete(0, id));
                        }
                    }
                    mine
                }
            };
            let hands = [s.spawn(one(CpuId(0))), s.spawn(one(CpuId(1)))];
            hands.into_iter().flat_map(|h| h.join().unwrap()).collect()
        });
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 8_000, "{}", d.name());
    }
}

/// The seed: 2,048 timers at a stride of 512 take more than a megabyte in an xarray.
#[test]
fn sparse_ids_cost_an_xarray_a_megabyte_and_us_ten_kilobytes() {
    let (xarray, ours) = (Xarray::new(1, 2_048), Ours::new(1, 2).unwrap());
    for i in 0..2_048 {
        assert!(xarray.create_exact(0, i * 512).is_some() && ours.create_exact(0, i * 512).is_some());
    }
    assert!(xarray.index_bytes() > 1_000_000, "{}", xarray.index_bytes());
    assert!(ours.index_bytes() < 12_000, "{}", ours.index_bytes());
}
