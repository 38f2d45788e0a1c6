//! The mix is the published one, transactions fail as often as published, and the books notice
//! whatever does not fit.

use std::collections::HashMap;

use super::tables::{Row, RowKey, TYPES, digits, each_first_row, first_rows};
use super::*;
use crate::rows::STAMP_BYTES;
use crate::{Scale, Volatile, VolatileTx, Workload};

fn scale(subscribers: u64) -> Scale {
    Scale { records: subscribers, ..Workload::named("tatp").unwrap().scale() }
}

#[test]
fn shares_and_failures_are_those_that_are_published() {
    let workload = Workload::named("tatp").unwrap();
    let scale = scale(2_000);
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    let mut counts: HashMap<OpKind, u32> = HashMap::new();
    const TRANSACTIONS: u32 = 100_000;
    for _ in 0..TRANSACTIONS {
        *counts.entry(worker.step(&mut pool).unwrap()).or_default() += 1;
        worker.draw();
    }
    let share = |kind| f64::from(counts[&kind]) / f64::from(TRANSACTIONS) * 100.0;
    let near = |what: f64, expected: f64| (what - expected).abs() < 0.5;
    assert!(near(share(OpKind::GetSubscriberData), 35.0), "{counts:?}");
    assert!(near(share(OpKind::GetNewDestination), 10.0), "{counts:?}");
    assert!(near(share(OpKind::GetAccessData), 35.0), "{counts:?}");
    assert!(near(share(OpKind::UpdateLocation), 14.0), "{counts:?}");
    // Of six in a hundred: 62.5 % of updates succeed, 31.25 % of insertions and of deletions.
    assert!(near(share(OpKind::UpdateSubscriberData), 2.0 * 0.625), "{counts:?}");
    assert!(near(share(OpKind::InsertCallForwarding), 2.0 * 0.3125), "{counts:?}");
    assert!(near(share(OpKind::DeleteCallForwarding), 2.0 * 0.3125), "{counts:?}");
    assert!(near(share(OpKind::RolledBack), 0.75 + 2.0 * 1.375), "{counts:?}");
    workload.check_consistency(&scale, &loaded, &mut pool).unwrap();
}

#[test]
fn some_subscribers_are_asked_for_far_more_often() {
    let mut random = Random::new(3);
    let subscribers = 100_000;
    let mut times = vec![0u32; subscribers as usize];
    for _ in 0..1_000_000 {
        times[draw::subscriber(&mut random, subscribers) as usize - 1] += 1;
    }
    times.sort_unstable_by(|a, b| b.cmp(a));
    // Evenly drawn, the first tenth would be asked for hardly more than a tenth of the time.
    let first: u32 = times[..10_000].iter().sum();
    assert!((400_000..900_000).contains(&first), "{first}");
}

#[test]
fn rows_at_first_are_as_many_as_published() {
    let (mut access, mut facilities, mut forwardings) = (0, 0, 0);
    const SUBSCRIBERS: u64 = 20_000;
    for s in 1..=SUBSCRIBERS {
        let mut rows = 0;
        each_first_row(s, |_| rows += 1);
        let (a, f, c) = first_rows(s);
        let calls: u32 = c.iter().map(|mask| mask.count_ones()).sum();
        assert_eq!(rows, 1 + a.count_ones() + f.count_ones() + calls);
        (access, facilities) = (access + a.count_ones(), facilities + f.count_ones());
        forwardings += calls;
    }
    let mean = |sum: u32| f64::from(sum) / SUBSCRIBERS as f64;
    for (what, expected) in [(access, 2.5), (facilities, 2.5), (forwardings, 3.75)] {
        assert!((mean(what) - expected).abs() < 0.05, "{} and not {expected}", mean(what));
    }
}

type Change = fn(&mut VolatileTx, &Tables, u64) -> Result<bool, Abort>;

/// Replaces a row by one with another number behind its stamp, stamped as it should be.
fn replace(tx: &mut VolatileTx, tables: &Tables, key: RowKey, at: usize) -> Result<bool, Abort> {
    let mut row: Row = key.loaded();
    row.numbers()[at] ^= 1;
    row.stamp(key, Version(9));
    tables.of(key.table).insert(tx, &key.bytes(), row.value())
}

const CHANGES: [(&str, Change); 7] = [
    ("not what was loaded", |tx, tables, s| replace(tx, tables, RowKey::subscriber(s), 5)),
    ("no version of it", |tx, tables, s| {
        let place = tables.of(Table::Subscriber).find(tx, &RowKey::subscriber(s).bytes())?.unwrap();
        tx.store(place.at.plus(STAMP_BYTES as u64), &[1, 2, 3, 4]).map(|()| true)
    }),
    ("a subscriber is missing", |tx, tables, s| {
        tables.of(Table::Subscriber).remove(tx, &RowKey::subscriber(s).bytes())
    }),
    ("a subscriber is missing", |tx, tables, s| tables.of(Table::Numbers).remove(tx, &digits(s))),
    ("a number of another subscriber", |tx, tables, s| {
        tables.of(Table::Numbers).insert(tx, &digits(s), &(s + 1).to_be_bytes())
    }),
    ("access or facilities are not those", |tx, tables, s| {
        let kind = (1..=TYPES).find(|kind| first_rows(s).0 >> (kind - 1) & 1 == 1).unwrap();
        tables.of(Table::Access).remove(tx, &RowKey::access(s, kind).bytes())
    }),
    ("for a facility that is not there", |tx, tables, s| {
        let kind = (1..=TYPES).find(|kind| first_rows(s).1 >> (kind - 1) & 1 == 0).unwrap();
        let key = RowKey::forwarding(s, kind, 8);
        tables.of(Table::Forwarding).add(tx, &key.bytes(), key.loaded().value())
    }),
];

#[test]
fn rows_that_do_not_fit_are_noticed() {
    let workload = Workload::named("tatp").unwrap();
    // One that lacks a facility.
    let s = (1..40).find(|s| first_rows(*s).1.count_ones() < 4).unwrap();
    for (what, change) in CHANGES {
        let mut pool = Volatile::new();
        workload.load(&scale(40), 1, &mut pool, &mut |_, _| {}).unwrap();
        let (root, _) = pool.root().unwrap();
        let tables = pool.run(|tx| Tables::open(tx, root)).unwrap().unwrap();
        pool.run(|tx| check(40, &tables, tx)).unwrap();
        assert!(pool.run(|tx| change(tx, &tables, s)).unwrap(), "{what}");
        let found = pool.run(|tx| check(40, &tables, tx)).expect_err(what).to_string();
        assert!(found.contains(what), "{found} instead of {what}");
        let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
        let found = audit(40, root, &mut read, &mut |_, _| ()).unwrap_err();
        assert!(found.what.contains(what), "{found:?}");
    }
}
