//! Where slots come from, and what a listing and the counts of memory say.

use super::*;
use std::vec::Vec;

fn made(table: &TimerTable, home: u16) -> Reserved {
    let reserved = table.reserve(None, CpuId(home), &mut IdSearch::default()).unwrap();
    let timer = Timer::new(crate::posix::Base::Monotonic, crate::posix::Notify::None { signo: 0 }, 0, 1);
    table.publish(reserved, timer, Nanos(u64::from(home)));
    reserved
}

#[test]
fn each_cpu_has_a_pool() {
    let table = TimerTable::new().unwrap();
    for home in [0, 1, 7, 15, 16, 18, 300] {
        table.prepare(CpuId(home)).unwrap();
        let pool = usize::from(home) % POOLS;
        assert!(table.pools[pool].slots.get(0).is_some(), "{home}");
        let key = made(&table, home).key;
        assert_eq!((key.pool(), table.slot(key).home()), (pool, CpuId(home)));
    }
    assert!(table.pools[3].slots.get(0).is_none());
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    let table = TimerTable::new().unwrap();
    let homes = [0, 0, 0, 1, 5, 5, 15];
    let ids: Vec<u32> = homes.iter().map(|home| made(&table, *home).id).collect();
    let gone = table.reserve(None, CpuId(5), &mut IdSearch::default()).unwrap();
    for most in 1..=9 {
        let (mut seen, mut from, mut steps) = (Vec::new(), Some(0), 0);
        while let Some(cursor) = from {
            from = table.list(cursor, most, |listed| seen.push((listed.id, listed.created.0 as u16)));
            steps += 1;
            assert!(steps < 20);
        }
        assert_eq!(seen, ids.iter().copied().zip(homes).collect::<Vec<_>>(), "{most} at a time");
        assert!(steps >= 8usize.div_ceil(most as usize));
    }
    table.abandon(gone);
}

#[test]
fn memory_is_counted() {
    let table = TimerTable::new().unwrap();
    assert_eq!((table.usage(), table.index_bytes()), ((0, 0), 0));
    let made = |home| table.reserve(None, CpuId(home), &mut IdSearch::default()).unwrap();
    let first = made(2);
    assert_eq!(table.usage(), (1, size_of::<Slot>()), "one id needs no node");
    let (second, third) = (made(2), made(4));
    assert_eq!(table.index_bytes(), Trie::NODE_BYTES, "three of one shard need one");
    assert_eq!(table.usage(), (3, 3 * size_of::<Slot>() + Trie::NODE_BYTES));
    [first, second, third].into_iter().for_each(|reserved| table.abandon(reserved));
    assert_eq!((table.usage(), table.index_bytes()), ((0, 3 * size_of::<Slot>()), 0), "slots are kept");
}

/// Linux gives up after as many tries as there are ids.
#[test]
fn a_search_ends_when_every_id_was_tried() {
    let table = TimerTable::new().unwrap();
    let taken: Vec<Reserved> =
        (0..6).map(|_| table.reserve(None, CpuId(0), &mut IdSearch::default()).unwrap()).collect();
    table.set_next_id(0);
    let mut search = IdSearch { left: 4, maker: 0 };
    let found = table.reserve(None, CpuId(0), &mut search);
    assert_eq!((found, table.next_id()), (Err(NotReserved::Refused(Error::Again)), 4));
    let mut search = IdSearch { left: 3, maker: 0 };
    let found = table.reserve(None, CpuId(0), &mut search).unwrap();
    assert_eq!((found.id, search.left), (6, 0));
    taken.into_iter().chain([found]).for_each(|reserved| table.abandon(reserved));
}
