//! Every workload on the reference runner: what its workers report is what happens, and what an
//! audit finds is what they left.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use outlast::collections::{FieldPlacement, Placement};
use outlast::{PoolOffset, Runner, Transact};
use outlast_workloads::{
    Facts, Keys, Layout, OpKind, Random, Scale, State, Structure, Version, Volatile, Workload,
    judged_workloads,
};

/// Workers move to their threads.
const _: fn() = || {
    fn sendable<T: Send>() {}
    sendable::<outlast_workloads::Worker>();
    sendable::<outlast_workloads::Loaded>();
};

type States = BTreeMap<u64, Version>;

fn small(workload: &Workload) -> Scale {
    match workload.name {
        "words" => Scale { records: 5, operations: 2_000, ..workload.scale() },
        "hash" | "btree" | "hash-bytes" | "btree-bytes" | "rbtree" | "btree-zipf"
        | "b-tree-zipf" | "rbtree-zipf" => {
            Scale { records: 300, operations: 2_000, ..workload.scale() }
        }
        "tatp" => Scale { records: 400, operations: 2_000, ..workload.scale() },
        _ => Scale { operations: 2_000, ..workload.scale_of(300) },
    }
}

/// Every workload at a small scale, and the variants that differ in more than size.
fn cases() -> Vec<(&'static Workload, Scale)> {
    let mut cases: Vec<_> = judged_workloads().map(|w| (w, small(w))).collect();
    let mut variant = |name, change: fn(&mut Scale)| {
        let workload = Workload::named(name).unwrap();
        let mut scale = small(workload);
        change(&mut scale);
        cases.push((workload, scale));
    };
    variant("ycsb-a", |s| s.structure = Structure::BTree);
    variant("ycsb-f", |s| s.placement = Placement::Apart);
    variant("ycsb-d", |s| (s.fields, s.field_bytes) = (1, 16));
    variant("hash", |s| s.value_bytes = 300);
    variant("btree", |s| s.placement = Placement::Apart);
    variant("rbtree", |s| s.value_bytes = 300);
    variant("b-tree-zipf", |s| s.value_bytes = 300);
    variant("queue", |s| s.value_bytes = 300);
    variant("queue", |s| s.records = 1);
    variant("words", |s| s.words_per_line = 1);
    variant("tpcc", |s| s.placement = Placement::Apart);
    variant("tpcc", |s| (s.records, s.districts) = (3, 2));
    variant("linkbench", |s| s.placement = Placement::Apart);
    variant("tatp", |s| s.placement = Placement::Apart);
    variant("array-random", |s| s.batch = s.records);
    variant("array-stream", |s| s.batch = 1);
    for layout in [Layout::Coalesced, Layout::Scattered] {
        for name in ["ycsb-a", "ycsb-e", "ycsb-f", "oltp-ycsb", "hash", "tpcc", "linkbench"] {
            let workload = Workload::named(name).unwrap();
            cases.push((workload, workload.laid_out(&small(workload), layout)));
        }
    }
    for name in ["hash", "btree-bytes"] {
        let workload = Workload::named(name).unwrap();
        for layout in [Layout::Plain, Layout::Inline] {
            cases.push((workload, workload.laid_out(&small(workload), layout)));
        }
    }
    let oltp = Workload::named("oltp-ycsb").unwrap();
    let fields_placed = Some(FieldPlacement::Together);
    cases.push((oltp, Scale { fields_placed, ..small(oltp) }));
    cases
}

fn audit(workload: &Workload, scale: &Scale, pool: &Volatile) -> Result<States, String> {
    let mut states = States::new();
    let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
    let visit = |key, version| assert!(states.insert(key, version).is_none(), "key {key} twice");
    let root = pool.root().ok_or("no root")?;
    workload.audit(scale, root, &mut read, visit).map_err(|damage| damage.to_string())?;
    Ok(states)
}

fn initial(workload: &Workload, scale: &Scale, seed: u64) -> States {
    let mut states = States::new();
    workload.initial(scale, seed, |key, state| match state {
        State::Holds(version) => assert!(states.insert(key, version).is_none()),
        State::Absent => unreachable!("only what is there is visited"),
    });
    states
}

fn state_of(states: &States, key: u64) -> State {
    states.get(&key).map_or(State::Absent, |&version| State::Holds(version))
}

/// Checks a transaction's facts against the states before it, and moves those on.
fn apply(states: &mut States, facts: &Facts) {
    let mut read = HashSet::new();
    for &(key, state) in &facts.reads {
        assert_eq!(state, state_of(states, key), "what was read of key {key}");
        assert!(read.insert(key), "key {key} reported twice");
    }
    for &(key, state) in &facts.writes {
        assert!(read.remove(&key), "key {key} was written but not read, or written twice");
        match state {
            State::Holds(version) => drop(states.insert(key, version)),
            State::Absent => drop(states.remove(&key)),
        }
    }
}

#[test]
fn facts_and_audits_agree_with_each_other_and_with_the_load() {
    for (workload, scale) in cases() {
        let mut pool = Volatile::checked(21, 3);
        let mut reports = Vec::new();
        let mut progress = |done, of| reports.push((done, of));
        let loaded = workload.load(&scale, 5, &mut pool, &mut progress).unwrap();
        assert_eq!(reports.last().map(|&(done, of)| done == of), Some(true), "{}", workload.name);
        let mut states = initial(workload, &scale, 5);
        assert_eq!(audit(workload, &scale, &pool).unwrap(), states, "{}", workload.name);

        let mut workers: Vec<_> =
            (1..=3).map(|id| workload.worker(&scale, &loaded, 9, id, 0)).collect();
        let mut facts = Facts::default();
        let mut written = HashSet::new();
        for round in 0..2_000 {
            let worker = &mut workers[round % 3];
            worker.step_with(&mut pool, &mut facts).unwrap();
            worker.draw();
            apply(&mut states, &facts);
            for write in &facts.writes {
                let repeated = !written.insert(*write);
                assert!(!repeated || write.1 == State::Absent, "{write:?} was written before");
            }
        }
        assert_eq!(audit(workload, &scale, &pool).unwrap(), states, "{}", workload.name);
        assert!(
            pool.len() <= workload.heap_bytes(&scale),
            "{}: {} bytes",
            workload.name,
            pool.len()
        );

        // A program that starts again finds everything and goes on with new versions.
        let again = workload.attach(&scale, &mut pool).unwrap();
        let used = workers[0].used_versions();
        let mut worker = workload.worker(&scale, &again, 10, 1, used);
        for _ in 0..300 {
            worker.step_with(&mut pool, &mut facts).unwrap();
            worker.draw();
            apply(&mut states, &facts);
            assert!(facts.writes.iter().all(|w| w.1 == State::Absent || written.insert(*w)));
        }
        assert_eq!(audit(workload, &scale, &pool).unwrap(), states, "{}", workload.name);
        assert_eq!(pool.take_footprint().unannounced_stores, 0, "{}", workload.name);
    }
}

#[test]
fn a_step_without_a_witness_does_the_same() {
    for (workload, scale) in cases() {
        let run = |watched: bool, conflicts| {
            let mut pool = Volatile::checked(3, conflicts);
            let loaded = workload.load(&scale, 5, &mut pool, &mut |_, _| {}).unwrap();
            let mut worker = workload.worker(&scale, &loaded, 9, 1, 0);
            let mut kinds = Vec::new();
            for _ in 0..1_000 {
                kinds.push(match watched {
                    true => worker.step_with(&mut pool, &mut Facts::default()).unwrap(),
                    false => worker.step(&mut pool).unwrap(),
                });
                worker.draw();
            }
            (kinds, audit(workload, &scale, &pool).unwrap())
        };
        assert_eq!(run(true, 5), run(false, 0), "{}", workload.name);
    }
}

#[test]
fn mixes_are_within_binomial_bounds() {
    use OpKind::{Add, Insert, Read, ReadModifyWrite, Remove, Scan, Swap, Update, Words};
    use OpKind::{Delivery, NewOrder, NewOrderCancelled, OrderStatus, Payment, StockLevel};
    use OpKind::{Dequeue, Enqueue};
    const STEPS: u64 = 20_000;
    let expected: [(&str, &[(OpKind, f64)]); 25] = [
        ("ycsb-a", &[(Read, 0.5), (Update, 0.5)]),
        ("ycsb-b", &[(Read, 0.95), (Update, 0.05)]),
        ("ycsb-c", &[(Read, 1.0)]),
        ("ycsb-d", &[(Read, 0.95), (Insert, 0.05)]),
        ("ycsb-e", &[(Scan, 0.95), (Insert, 0.05)]),
        ("ycsb-f", &[(Read, 0.5), (ReadModifyWrite, 0.5)]),
        (
            "oltp-ycsb",
            &[
                (Read, 0.5),
                (Update, 0.1),
                (ReadModifyWrite, 0.1),
                (Scan, 0.15),
                (Insert, 0.05),
                (OpKind::Delete, 0.1),
            ],
        ),
        ("sps1", &[(Swap, 1.0)]),
        ("sps8", &[(Swap, 1.0)]),
        ("hash", &[(Add, 0.5), (Remove, 0.5)]),
        ("btree", &[(Add, 0.5), (Remove, 0.5)]),
        ("hash-bytes", &[(Add, 0.5), (Remove, 0.5)]),
        ("btree-bytes", &[(Add, 0.5), (Remove, 0.5)]),
        ("rbtree", &[(Add, 0.5), (Remove, 0.5)]),
        ("btree-zipf", &[(Add, 0.5), (Remove, 0.5)]),
        ("b-tree-zipf", &[(Add, 0.5), (Remove, 0.5)]),
        ("rbtree-zipf", &[(Add, 0.5), (Remove, 0.5)]),
        ("array-stream", &[(OpKind::Overwrite, 1.0)]),
        ("array-random", &[(OpKind::Overwrite, 1.0)]),
        ("queue", &[(Enqueue, 0.5), (Dequeue, 0.5)]),
        ("words", &[(Words, 1.0)]),
        (
            "tpcc",
            &[
                (NewOrder, 0.4455),
                (NewOrderCancelled, 0.0045),
                (Payment, 0.43),
                (OrderStatus, 0.04),
                (Delivery, 0.04),
                (StockLevel, 0.04),
            ],
        ),
        (
            "tatp",
            &[
                (OpKind::GetSubscriberData, 0.35),
                (OpKind::GetNewDestination, 0.1),
                (OpKind::GetAccessData, 0.35),
                (OpKind::UpdateSubscriberData, 0.02 * 0.625),
                (OpKind::UpdateLocation, 0.14),
                (OpKind::InsertCallForwarding, 0.02 * 0.3125),
                (OpKind::DeleteCallForwarding, 0.02 * 0.3125),
                (OpKind::RolledBack, 0.02 * (0.375 + 2.0 * 0.6875)),
            ],
        ),
        (
            "linkbench",
            &[
                (OpKind::GetLinkList, 0.507_119_145),
                (OpKind::GetNode, 0.129_326_683),
                (OpKind::AddLink, 0.089_886_601),
                (OpKind::UpdateLink, 0.080_122_125),
                (OpKind::UpdateNode, 0.073_664_37),
                (OpKind::CountLinks, 0.048_863_567),
                (OpKind::DeleteLink, 0.029_907_664),
                (OpKind::AddNode, 0.025_732_789),
                (OpKind::DeleteNode, 0.010_115_914),
                (OpKind::GetLink, 0.005_261_142),
            ],
        ),
        (
            "linkbench-archapt",
            &[
                (OpKind::GetNode, 0.64 * 0.7049),
                (OpKind::CountLinks, 0.64 * 0.2664),
                (OpKind::GetLink, 0.64 * 0.0287),
                (OpKind::UpdateNode, 0.16 * 0.4790),
                (OpKind::UpdateLink, 0.16 * 0.5210),
                (OpKind::AddNode, 0.12 * 0.2226),
                (OpKind::AddLink, 0.12 * 0.7774),
                (OpKind::GetLinkList, 0.04),
                (OpKind::DeleteLink, 0.04 * 0.7473),
                (OpKind::DeleteNode, 0.04 * 0.2527),
            ],
        ),
    ];
    assert_eq!(judged_workloads().map(|w| w.name).collect::<Vec<_>>(), expected.map(|e| e.0));
    for (name, shares) in expected {
        let workload = Workload::named(name).unwrap();
        let scale = small(workload);
        let mut pool = Volatile::new();
        let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
        let mut worker = workload.worker(&scale, &loaded, 2, 1, 0);
        let mut counts = BTreeMap::<OpKind, u64>::new();
        for _ in 0..STEPS {
            *counts.entry(worker.step(&mut pool).unwrap()).or_default() += 1;
            worker.draw();
        }
        assert_eq!(counts.len(), shares.len(), "{name}: {counts:?}");
        for &(kind, share) in shares {
            let (n, mean) = (STEPS as f64, STEPS as f64 * share);
            let bound = 4.5 * (n * share * (1.0 - share)).sqrt();
            let off = (counts[&kind] as f64 - mean).abs();
            assert!(
                off <= bound,
                "{name}: {} of {kind:?}, {mean} ± {bound} expected",
                counts[&kind]
            );
        }
    }
}

#[test]
fn ycsb_reads_prefer_some_records_and_scans_take_up_to_a_hundred() {
    let run = |name: &str, steps: u64| {
        let workload = Workload::named(name).unwrap();
        let scale = Scale { records: 1_000, operations: steps, ..workload.scale() };
        let mut pool = Volatile::new();
        let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
        let mut worker = workload.worker(&scale, &loaded, 2, 1, 0);
        let mut facts = Facts::default();
        let mut read = Vec::new();
        for _ in 0..steps {
            worker.step_with(&mut pool, &mut facts).unwrap();
            worker.draw();
            let records: HashSet<_> = facts.reads.iter().map(|&(key, _)| key / 10).collect();
            if facts.writes.is_empty() {
                assert_eq!(facts.reads.len(), 10 * records.len(), "all fields of each record");
                read.push(records);
            }
        }
        read
    };
    let mut counts = BTreeMap::<u64, u64>::new();
    for record in run("ycsb-c", 20_000).into_iter().flatten() {
        *counts.entry(record).or_default() += 1;
    }
    // One in twenty-six goes to the first item, wherever the hash puts it.
    let top = *counts.values().max().unwrap();
    assert!((600..1000).contains(&top), "the most popular record was read {top} times");
    assert!(counts.len() > 900, "only {} records were ever read", counts.len());

    let lengths: Vec<_> = run("ycsb-e", 3_000).iter().map(HashSet::len).collect();
    assert!(lengths.iter().all(|n| (1..=100).contains(n)));
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    // Scans that start near the end find fewer; 50.5 without them.
    assert!((46.0..52.0).contains(&mean), "scans of {mean} records");
}

#[test]
fn audits_notice_any_flipped_bit_of_a_value() {
    for (workload, scale) in cases() {
        let mut pool = Volatile::new();
        let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
        let mut worker = workload.worker(&scale, &loaded, 2, 1, 0);
        for _ in 0..200 {
            worker.step(&mut pool).unwrap();
            worker.draw();
        }
        let whole = audit(workload, &scale, &pool).unwrap();
        let blocks: Vec<_> = pool.live_blocks().collect();
        let mut random = Random::new(4);
        let (mut noticed, mut silent) = (0, 0);
        for _ in 0..400 {
            let (at, bytes) = blocks[random.below(blocks.len() as u64) as usize];
            let flip = [(at.plus(random.below(bytes)), 1 << random.below(8))];
            pool.flip(&flip);
            match audit(workload, &scale, &pool) {
                Err(_) => noticed += 1,
                Ok(states) if states != whole => noticed += 1,
                Ok(_) => silent += 1,
            }
            pool.flip(&flip);
        }
        // Harmless are bytes that nothing uses: padding, free slots, reserved fields, words
        // between those in use, places for items that are yet to come.
        let enough = match workload.name {
            "words" => 1,
            "queue" if scale.records == 1 => 20,
            // Nodes of a B-tree have free places for values.
            "b-tree-zipf" => 150,
            _ if scale.records_are_values() => 250,
            _ => 100,
        };
        assert!(noticed >= enough, "{} {scale:?}: {noticed} noticed, {silent} not", workload.name);
    }
}

trait ValuesDominate {
    fn records_are_values(&self) -> bool;
}

impl ValuesDominate for Scale {
    fn records_are_values(&self) -> bool {
        self.value_bytes >= 100
    }
}

#[test]
fn a_torn_field_and_a_lost_swap_are_noticed() {
    let workload = Workload::named("ycsb-a").unwrap();
    let scale = small(workload);
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let before = pool.memory().to_vec();
    let mut worker = workload.worker(&scale, &loaded, 2, 1, 0);
    while worker.step(&mut pool).unwrap() != OpKind::Update {
        worker.draw();
    }
    let changed: Vec<_> = (0..before.len()).filter(|&i| before[i] != pool.memory()[i]).collect();
    let (first, last) = (changed[0], *changed.last().unwrap());
    let undo = |from: usize, to: usize| -> Vec<_> {
        let mask = |i: usize| before[i] ^ pool.memory()[i];
        (from..to).map(|i| (PoolOffset(i as u64), mask(i))).collect()
    };
    let half = undo(first, (first + last) / 2);
    pool.flip(&half);
    assert!(audit(workload, &scale, &pool).unwrap_err().contains("no version"));

    let workload = Workload::named("sps1").unwrap();
    let scale = small(workload);
    let mut pool = Volatile::new();
    workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let (root, _) = pool.root().unwrap();
    pool.run(|tx| {
        let word = tx.load_u64(root.plus(64))?;
        tx.store_u64(root.plus(72), word)
    })
    .unwrap();
    assert!(audit(workload, &scale, &pool).unwrap_err().contains("no permutation"));
}

#[test]
fn what_a_transaction_costs() {
    let names = [
        "ycsb-a",
        "ycsb-f",
        "sps1",
        "sps8",
        "hash",
        "btree",
        "hash-bytes",
        "btree-bytes",
        "b-tree-zipf",
        "rbtree",
        "queue",
        "words",
    ];
    for name in names {
        let workload = Workload::named(name).unwrap();
        let scale = Scale { records: small(workload).records.max(4) * 20, ..small(workload) };
        let mut pool = Volatile::checked(1, 0);
        let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
        let mut worker = workload.worker(&scale, &loaded, 2, 1, 0);
        pool.take_footprint();
        for _ in 0..5_000 {
            worker.step(&mut pool).unwrap();
            worker.draw();
        }
        let cost = pool.take_footprint();
        println!("{name}: {cost:?}");
        assert!(cost.announcements <= cost.runs, "{name} announces once");
        let (ranges, bytes) = match name {
            "ycsb-a" | "ycsb-f" => (0.52, 52.0),
            "sps1" => (2.0, 16.0),
            "sps8" => (16.0, 128.0),
            "hash" => (0.7, 12.6),
            "btree" => (1.05, 9.5),
            "hash-bytes" => (0.56, 4.5),
            "btree-bytes" => (0.95, 18.5),
            "b-tree-zipf" => (1.8, 30.0),
            "rbtree" => (2.0, 25.0),
            "queue" => (1.51, 12.1),
            _ => (2.1, 17.0),
        };
        let per = |n: u64| n as f64 / 5_000.0;
        assert!(per(cost.announced_ranges) <= ranges, "{name}: {}", per(cost.announced_ranges));
        assert!(per(cost.announced_bytes) <= bytes, "{name}: {}", per(cost.announced_bytes));
    }
}

#[test]
fn impossible_scales_are_refused_in_words() {
    let refuse = |name, change: fn(&mut Scale)| {
        let workload = Workload::named(name).unwrap();
        let mut scale = workload.scale();
        assert_eq!(workload.check(&scale), Ok(()));
        change(&mut scale);
        workload.check(&scale).unwrap_err().to_string()
    };
    assert_eq!(
        refuse("sps1", |s| s.records = 1),
        "sps1: records is 1; 2 to 16,777,216 words are possible"
    );
    assert!(refuse("ycsb-a", |s| s.fields = 0).contains("fields is 0"));
    assert!(refuse("ycsb-a", |s| s.field_bytes = 8).contains("field bytes is 8"));
    assert!(refuse("ycsb-e", |s| s.structure = Structure::HashMap).contains("B+tree"));
    assert!(refuse("hash", |s| s.value_bytes = 7).contains("value bytes is 7"));
    assert!(refuse("b-tree-zipf", |s| s.value_bytes = 1_025).contains("8 to 1,024"));
    assert!(refuse("rbtree", |s| s.value_bytes = 65_537).contains("value bytes is 65537"));
    assert!(refuse("queue", |s| s.value_bytes = 7).contains("value bytes is 7"));
    assert!(refuse("queue", |s| s.records = 0).contains("records is 0"));
    assert!(refuse("ycsb-a", |s| s.structure = Structure::RbTree).contains("red-black tree"));
    assert!(refuse("ycsb-a", |s| s.structure = Structure::ClrsTree).contains("B-tree"));
    assert!(refuse("words", |s| s.words_per_line = 3).contains("words per line is 3"));
    assert_eq!(refuse("tpcc", |s| s.districts = 11), "tpcc: districts is 11; 1 to 10 are possible");
    assert!(refuse("tpcc", |s| s.items = 9).contains("items is 9"));
    assert!(refuse("linkbench", |s| s.records = 7).contains("records is 7"));
    assert!(refuse("oltp-ycsb", |s| s.structure = Structure::HashMap).contains("B+tree"));
}

#[test]
fn attach_refuses_the_data_of_another_workload() {
    let sps = Workload::named("sps1").unwrap();
    let hash = Workload::named("hash").unwrap();
    let mut pool = Volatile::new();
    assert!(sps.attach(&small(sps), &mut pool).is_err());
    sps.load(&small(sps), 1, &mut pool, &mut |_, _| {}).unwrap();
    assert!(hash.attach(&small(hash), &mut pool).is_err());
    assert!(audit(hash, &small(hash), &pool).unwrap_err().contains("another workload"));

    let mut pool = Volatile::new();
    let [tpcc, linkbench] = ["tpcc", "linkbench"].map(|name| Workload::named(name).unwrap());
    tpcc.load(&small(tpcc), 1, &mut pool, &mut |_, _| {}).unwrap();
    assert!(linkbench.attach(&small(linkbench), &mut pool).is_err());
    assert!(audit(linkbench, &small(linkbench), &pool).is_err());
    let other = Scale { items: 31, ..small(tpcc) };
    assert!(audit(tpcc, &other, &pool).is_err());

    let mut pool = Volatile::new();
    hash.load(&small(hash), 1, &mut pool, &mut |_, _| {}).unwrap();
    let scans = Workload::named("ycsb-e").unwrap();
    assert!(scans.attach(&small(scans), &mut pool).is_err());
}

/// The keys that a worker's transactions read or write.
fn keys_met(workload: &Workload, keys: Keys, id: u8) -> BTreeSet<u64> {
    let scale = Scale { keys, ..small(workload) };
    workload.check(&scale).unwrap();
    let mut pool = Volatile::default();
    let loaded = workload.load(&scale, 5, &mut pool, &mut |_, _| {}).unwrap();
    let mut worker = workload.worker(&scale, &loaded, 9, id, 0);
    let (mut met, mut facts) = (BTreeSet::new(), Facts::default());
    for _ in 0..3_000 {
        worker.step_with(&mut pool, &mut facts).unwrap();
        worker.draw();
        met.extend(facts.reads.iter().map(|(key, _)| *key));
    }
    met
}

#[test]
fn workers_with_keys_apart_meet_all_keys_and_never_each_other() {
    for name in ["sps1", "sps8", "hash", "btree", "rbtree"] {
        let workload = Workload::named(name).unwrap();
        // Not a divisor of the keys. Later workers have the shares of earlier ones.
        let shares = 7;
        let mut of_anybody = BTreeSet::new();
        for id in 8..=14 {
            let met = keys_met(workload, Keys::Apart(shares), id);
            assert!(met.iter().all(|key| of_anybody.insert(*key)), "{name}, worker {id}");
        }
        assert!(of_anybody.into_iter().eq(0..small(workload).records), "{name}");
        let needed = if name.starts_with("sps") { 2 } else { 1 };
        assert!(keys_met(workload, Keys::One, 3).into_iter().eq(0..needed), "{name}");
        let common = keys_met(workload, Keys::Common, 3);
        assert!(common.into_iter().eq(0..small(workload).records), "{name}");
    }
}

#[test]
fn keys_that_a_workload_cannot_have_are_refused() {
    let refused = |name, keys| {
        let workload = Workload::named(name).unwrap();
        let scale = Scale { keys, ..small(workload) };
        workload.check(&scale).expect_err("it has them").to_string()
    };
    assert!(refused("ycsb-a", Keys::One).contains("sps1, sps8, hash"));
    assert!(refused("sps1", Keys::Apart(151)).contains("shares of the keys is 151"));
    assert!(refused("hash", Keys::Apart(0)).contains("shares of the keys is 0"));
}
