//! The tree against a sorted list.

use super::*;
use alloc::vec::Vec;
use ids::{CpuId, CpuMask};
use proptest::prelude::*;

/// A member as the model knows it: key, order of arrival, slot.
type Member = (i64, usize, u32);

fn at(table: &Table, n: u32) -> &Entity {
    table.get(ThreadIdx(n))
}

fn table(n: u32) -> Table {
    let table = Table::new(3).unwrap();
    for i in 0..n {
        table.reserve(ThreadIdx(i)).unwrap();
        table.set_mask(ThreadIdx(i), &CpuMask::only(CpuId((i % 3) as u16)));
    }
    table
}

fn members(tree: &Tree, table: &Table, bit: u64) -> Vec<u32> {
    let mut all = Vec::new();
    let _ = tree.find_allowed(table, bit, u32::MAX, |t, _| {
        all.push(t.0);
        false
    });
    all
}

fn agrees(tree: &Tree, table: &Table, model: &[Member]) -> Result<(), TestCaseError> {
    let slots = |want: &dyn Fn(u32) -> bool| model.iter().map(|m| m.2).filter(|&n| want(n)).collect::<Vec<_>>();
    prop_assert!(tree.is_sound(table));
    prop_assert_eq!(members(tree, table, 0), slots(&|_| true));
    prop_assert_eq!(members(tree, table, 1 << 1), slots(&|n| n % 3 == 1));
    prop_assert_eq!(tree.first(table), model.first().map(|m| ThreadIdx(m.2)));
    for bound in [-5, 0, 5] {
        let due = model.iter().find(|m| at(table, m.2).vruntime.get() <= bound).map(|m| ThreadIdx(m.2));
        prop_assert_eq!(tree.first_eligible(table, |v| v <= bound), due);
    }
    Ok(())
}

/// Candidates come in key order; no more are examined than requested, and only those with the bit count.
#[test]
fn looks_at_no_more_than_it_is_asked_for() {
    let (table, mut tree, mut model) = (table(40), Tree::new(), Vec::new());
    for n in 0..40 {
        turn(&mut tree, &table, &mut model, n as usize, (n, 40 - i64::from(n), 0));
    }
    for most in 0..9 {
        let mut seen = Vec::new();
        let found = tree.find_allowed(&table, 1 << 1, most, |t, _| {
            seen.push(t.0);
            false
        });
        let by_key: Vec<u32> = (0..40).rev().filter(|n| n % 3 == 1).take(most as usize).collect();
        assert_eq!((found, seen), (None, by_key));
    }
    assert_eq!(tree.find_allowed(&table, 0, 3, |t, _| t.0 == 37), Some(ThreadIdx(37)));
    assert_eq!(tree.find_allowed(&table, 0, 3, |t, _| t.0 == 36), None);
}

/// Inserts `slot` if it is no member, else removes it.
fn turn(
    tree: &mut Tree,
    table: &Table,
    model: &mut Vec<Member>,
    arrival: usize,
    (slot, key, vruntime): (u32, i64, i64),
) {
    if let Some(i) = model.iter().position(|m| m.2 == slot) {
        tree.remove(table, ThreadIdx(slot));
        model.remove(i);
    } else {
        at(table, slot).key.set(key);
        at(table, slot).vruntime.set(vruntime);
        tree.insert(table, ThreadIdx(slot), at(table, slot));
        model.push((key, arrival, slot));
        model.sort();
    }
}

proptest! {
    /// After random insertions and removals the tree equals a sorted list.
    #[test]
    fn agrees_with_a_sorted_list(steps in prop::collection::vec((0u32..24, -8i64..8, -8i64..8), 1..200)) {
        let table = table(24);
        let (mut tree, mut model) = (Tree::new(), Vec::new());
        for (arrival, step) in steps.into_iter().enumerate() {
            turn(&mut tree, &table, &mut model, arrival, step);
            agrees(&tree, &table, &model)?;
        }
    }

    /// The same with trees of several levels, filled and emptied in stretches, at the ends and in the middle.
    #[test]
    fn agrees_when_it_is_large(
        stretches in prop::collection::vec((0u32..1_000, 1u32..600, -9i64..9, 0i64..7), 1..16)
    ) {
        let table = table(1_000);
        let (mut tree, mut model) = (Tree::new(), Vec::new());
        let mut arrival = 0;
        for (from, count, rise, vruntime) in stretches {
            for i in 0..count {
                arrival += 1;
                let key = rise * i64::from(i) + vruntime;
                turn(&mut tree, &table, &mut model, arrival, ((from + i) % 1_000, key, (key + vruntime) % 13 - 6));
                if i % 64 == 0 {
                    prop_assert!(tree.is_sound(&table));
                }
            }
            agrees(&tree, &table, &model)?;
            let (used, n) = (table.nodes_used() - usize::from(tree.spare != NONE), model.len());
            prop_assert!(used * 100 <= 300 + 37 * n, "{used} nodes for {n} members");
        }
        let members: Vec<u32> = model.iter().map(|m| m.2).collect();
        members.into_iter().for_each(|n| tree.remove(&table, ThreadIdx(n)));
        prop_assert_eq!(table.nodes_used(), 1, "the spare");
    }
}
