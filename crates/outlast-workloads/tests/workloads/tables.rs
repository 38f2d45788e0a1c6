//! TPC-C and LinkBench on the reference runner: what must hold of their tables holds after
//! thousands of transactions, conflicts and cancellations, and at the scale of the specification.

use std::collections::BTreeMap;

use outlast::PoolOffset;
use outlast_workloads::{Facts, Footprint, OpKind, Scale, Statements, Volatile, Worker, Workload};

fn load(name: &str, keys: u64, pool: &mut Volatile) -> (&'static Workload, Scale, Vec<Worker>) {
    let workload = Workload::named(name).unwrap();
    let scale = Scale { operations: 20_000, ..workload.scale_of(keys) };
    let loaded = workload.load(&scale, 5, pool, &mut |_, _| {}).unwrap();
    workload.check_consistency(&scale, &loaded, pool).unwrap();
    let workers = (1..=2).map(|id| workload.worker(&scale, &loaded, 9, id, 0)).collect();
    (workload, scale, workers)
}

fn check(workload: &Workload, scale: &Scale, pool: &mut Volatile) -> u64 {
    let loaded = workload.attach(scale, pool).unwrap();
    workload.check_consistency(scale, &loaded, pool).unwrap();
    let mut rows = 0;
    let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
    let root = pool.root().unwrap();
    workload.audit(scale, root, &mut read, |_, _| rows += 1).unwrap();
    rows
}

fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[test]
fn tables_are_consistent_after_conflicts_and_cancellations() {
    for name in ["tpcc", "linkbench", "linkbench-archapt"] {
        let mut pool = Volatile::checked(3, 2);
        let (workload, scale, mut workers) = load(name, 3_000, &mut pool);
        pool.take_footprint();
        let mut kinds = BTreeMap::<OpKind, u64>::new();
        for step in 0..10_000 {
            let worker = &mut workers[step % 2];
            *kinds.entry(worker.step(&mut pool).unwrap()).or_default() += 1;
            worker.draw();
            if step % 2_500 == 0 {
                check(workload, &scale, &mut pool);
            }
        }
        let Footprint { runs, unannounced_stores, .. } = pool.take_footprint();
        assert!(runs > 10_200, "{name}: no conflicts in {runs} runs");
        assert_eq!(unannounced_stores, 0, "{name}");
        assert!(name != "tpcc" || kinds[&OpKind::NewOrderCancelled] > 20, "{kinds:?}");
        check(workload, &scale, &mut pool);
    }
}

#[test]
fn an_order_that_is_cancelled_leaves_nothing() {
    let mut pool = Volatile::checked(3, 0);
    let (_, _, mut workers) = load("tpcc", 1_000, &mut pool);
    let (worker, mut facts) = (&mut workers[0], Facts::default());
    let mut cancelled = 0;
    while cancelled < 20 {
        let before = pool.memory().to_vec();
        let blocks: Vec<_> = pool.live_blocks().collect();
        pool.take_footprint();
        if worker.step_with(&mut pool, &mut facts).unwrap() == OpKind::NewOrderCancelled {
            cancelled += 1;
            assert_eq!(facts, Facts::default());
            assert!(pool.live_blocks().eq(blocks.iter().copied()));
            let same = |(at, bytes): &(PoolOffset, u64)| {
                let place = at.0 as usize..(at.0 + bytes) as usize;
                pool.memory()[place.clone()] == before[place]
            };
            assert!(blocks.iter().all(same));
            // It did its work before: every line but the last was there.
            let done = pool.take_footprint();
            assert!(done.allocations >= 3 + 4 && done.stored_bytes > 100, "{done:?}");
        }
        worker.draw();
    }
}

#[test]
fn a_seed_decides_everything() {
    for name in ["tpcc", "linkbench", "oltp-ycsb"] {
        let run = |seed| {
            let workload = Workload::named(name).unwrap();
            let scale = workload.scale_of(600);
            let mut pool = Volatile::new();
            let loaded = workload.load(&scale, seed, &mut pool, &mut |_, _| {}).unwrap();
            let mut worker = workload.worker(&scale, &loaded, seed, 1, 0);
            for _ in 0..500 {
                worker.step(&mut pool).unwrap();
                worker.draw();
            }
            pool.memory().to_vec()
        };
        let first = run(1);
        assert!(first == run(1), "{name}");
        assert!(first != run(2), "{name}");
    }
}

/// The shares that the paper on Archapt gives are those of the transactions: what only reads,
/// what updates, what inserts. The statements are others.
#[test]
fn the_papers_shares_of_tpcc_are_of_transactions_not_of_statements() {
    let mut pool = Volatile::new();
    let (_, _, mut workers) = load("tpcc", 20_000, &mut pool);
    let worker = &mut workers[0];
    let mut of_kind = BTreeMap::<OpKind, (u64, Statements)>::new();
    let mut classes = [0u64; 3];
    for _ in 0..20_000 {
        let before = worker.statements().unwrap();
        let kind = worker.step(&mut pool).unwrap();
        worker.draw();
        let after = worker.statements().unwrap();
        let (count, sum) = of_kind.entry(kind).or_default();
        *count += 1;
        *sum += Statements {
            reads: after.reads - before.reads,
            updates: after.updates - before.updates,
            inserts: after.inserts - before.inserts,
            deletes: after.deletes - before.deletes,
        };
        classes[match kind {
            OpKind::OrderStatus | OpKind::StockLevel => 0,
            OpKind::Payment | OpKind::Delivery => 1,
            _ => 2,
        }] += 1;
    }
    let classes = classes.map(|class| share(class, 20_000));
    println!("transactions that read, update, insert: {classes:.1?} % (the paper: 8, 47, 45)");
    for (class, paper) in classes.into_iter().zip([8.0, 47.0, 45.0]) {
        assert!((class - paper).abs() < 1.6, "{class} instead of {paper}");
    }

    for (kind, (count, sum)) in &of_kind {
        let per = |n: u64| n as f64 / *count as f64;
        println!(
            "{kind:?}: {:.1} reads, {:.1} updates, {:.1} insertions, {:.1} deletions",
            per(sum.reads),
            per(sum.updates),
            per(sum.inserts),
            per(sum.deletes)
        );
    }
    let Statements { reads, updates, inserts, deletes } = worker.statements().unwrap();
    let all = reads + updates + inserts + deletes;
    let shares = [reads, updates, inserts, deletes].map(|n| share(n, all));
    println!("statements: {shares:.1?} %, {:.1} per transaction", all as f64 / 20_000.0);
    // A transaction reads what it updates, so reads are most. Nothing like 8, 47 and 45 %.
    assert!((50.0..75.0).contains(&shares[0]), "{shares:?}");
    assert!((15.0..30.0).contains(&shares[1]), "{shares:?}");
    assert!((10.0..25.0).contains(&shares[2]), "{shares:?}");
}

#[test]
fn a_transaction_announces_its_updates_together() {
    for (name, most) in [("tpcc", 4.8), ("linkbench", 0.9), ("oltp-ycsb", 0.4)] {
        let mut pool = Volatile::checked(1, 0);
        let (_, _, mut workers) = load(name, 20_000, &mut pool);
        pool.take_footprint();
        for _ in 0..5_000 {
            workers[0].step(&mut pool).unwrap();
            workers[0].draw();
        }
        let cost = pool.take_footprint();
        println!("{name}: {cost:?}");
        let per = cost.announcements as f64 / 5_000.0;
        assert!(per <= most, "{name} announces {per} times");
    }
}

#[test]
fn a_warehouse_of_the_specification_has_its_rows() {
    let workload = Workload::named("tpcc").unwrap();
    let scale = Scale { operations: 1_000, ..workload.scale() };
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let rows = check(workload, &scale, &mut pool);
    // Items, stocks, warehouse, districts, customers, history, orders, new orders; then lines.
    let certain = 100_000 + 100_000 + 1 + 10 + 30_000 + 30_000 + 30_000 + 9_000;
    assert!((295_000..305_000).contains(&(rows - certain)), "{rows} rows");
    assert!(pool.len() <= workload.heap_bytes(&scale), "{} bytes", pool.len());
    println!("{} MB of {} MB", pool.len() >> 20, workload.heap_bytes(&scale) >> 20);

    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    let start = std::time::Instant::now();
    for _ in 0..5_000 {
        worker.step(&mut pool).unwrap();
        worker.draw();
    }
    println!("{:.0} transactions/s", 5_000.0 / start.elapsed().as_secs_f64());
    check(workload, &scale, &mut pool);
}

#[test]
fn a_graph_of_a_hundred_thousand_nodes_is_consistent() {
    let workload = Workload::named("linkbench").unwrap();
    let scale = Scale { records: 100_000, operations: 20_000, ..workload.scale() };
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let rows = check(workload, &scale, &mut pool);
    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    let start = std::time::Instant::now();
    for _ in 0..20_000 {
        worker.step(&mut pool).unwrap();
        worker.draw();
    }
    println!("{rows} rows, {:.0} transactions/s", 20_000.0 / start.elapsed().as_secs_f64());
    check(workload, &scale, &mut pool);
    assert!(pool.len() <= workload.heap_bytes(&scale), "{} bytes", pool.len());
    println!("{} MB of {} MB", pool.len() >> 20, workload.heap_bytes(&scale) >> 20);
}
