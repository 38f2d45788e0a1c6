use super::*;
use outlast_crash::runtime::campaign::ObjectCounts;

fn small(workload: &str, crashes: usize) -> Plan {
    let workloads = vec![self::workload(workload).unwrap()];
    Plan { workloads, crashes, ..Plan::new(Size::Quick, 1) }
}

fn sum(records: &[Record], metric: Metric) -> f64 {
    records.iter().filter(|r| is_ours(r) && r.is(metric)).filter_map(|r| r.value).sum()
}

#[test]
fn nothing_is_lost_and_the_log_repairs_what_is_stale() {
    let schemes = vec![Scheme::UndoArchapt, Scheme::RedoArchapt];
    let outcome = Plan { schemes, ..small("ycsb-a", 4) }.run(&mut |_| ()).unwrap();
    assert_eq!(outcome.failures, [""; 0]);
    let records = &outcome.records;
    let of = |metric| sum(records, metric);
    assert_eq!(of(Metric::CRASH_POINTS), 2.0 * 5.0 * 4.0);
    assert!(of(Metric::STALE_OBJECTS) > 1_000.0);
    assert_eq!(of(Metric::REPAIRED_BY_LOG), of(Metric::STALE_OBJECTS));
    assert_eq!(Metric::HARM.map(of), [0.0; 5]);
    assert_eq!(crate::goals::faults(records), [""; 0]);
    let claims: Vec<_> = records.iter().filter(|r| r.kind == Kind::Claim).collect();
    assert!(claims.len() == 2 && claims.iter().all(|c| c.verdict == Some(Verdict::Reached)));

    let lines = lines(records);
    assert_eq!(lines.len(), 2 * 5);
    assert_eq!(lines[0].heads(), ["Redis YCSB-A", "ycsb-a", "undo-archapt", "lru"]);
    assert_eq!(lines[3].published(), Some([1435, 1435, 0]));
    assert_eq!(lines[4].published(), None, "the paper has no adversary");
    let text = text(records);
    assert!(text.contains("ycsb-a, Redis YCSB-A") && text.contains("✓ redo-archapt"), "{text}");
    let mut document = crate::record::Document::new("0.0.0", "outlast reproduce", 1, None);
    document.records.clone_from(records);
    let page = crate::html::paper(&crate::papers::archapt::Archapt, &document);
    assert!(page.contains("<section id=\"table4\"") && page.contains("1\u{202f}435"), "{page}");
    assert!(page.contains("Not measured in this run:") && !page.contains("id=\"crash\""));
}

#[test]
fn planted_bugs_show_as_losses_with_the_command_that_replays_them() {
    let planted = |plant: &str, scheme| {
        let plant = Some(plant.parse().unwrap());
        let plan = Plan { schemes: vec![scheme], plant, ..small("ycsb-a", 20) };
        plan.run(&mut |_| ()).unwrap()
    };
    let aged = planted("pending-since-last", Scheme::UndoArchapt);
    let of = |metric| sum(&aged.records, metric);
    assert!(of(Metric::SILENTLY_WRONG) > 0.0 && of(Metric::TORN) + of(Metric::LOST) > 0.0);
    let repaired = of(Metric::STALE_OBJECTS) - of(Metric::INCONSISTENT_OBJECTS);
    assert_eq!(of(Metric::REPAIRED_BY_LOG), repaired);
    let [failure] = aged.failures.as_slice() else { panic!("{:?}", aged.failures) };
    for part in ["outlast crash ycsb-a --scheme undo-archapt", "--warm-up", "--crash-op"] {
        assert!(failure.contains(part), "{failure}");
    }
    assert!(aged.records.iter().any(|r| r.reason.as_ref().is_some_and(|r| failure.contains(r))));
    assert!(aged.records.iter().all(|r| r.kind == Kind::Crash && r.plant.is_some()));

    let toggled = planted("bits-toggled", Scheme::RedoArchapt);
    assert!(sum(&toggled.records, Metric::REFUSED) > 0.0);
    assert_eq!(toggled.failures.len(), 1);
}

/// A loss of the published protocol is a result.
#[test]
fn losses_of_the_literal_variants_are_counted_and_no_failures() {
    let of = |records: &[Record], scheme: Scheme, metric| -> f64 {
        let mine = records.iter().filter(|r| is_ours(r) && r.is(metric));
        mine.filter(|r| r.scheme == scheme.name()).filter_map(|r| r.value).sum()
    };
    let (undo, redo) = (Scheme::UndoArchaptLiteral, Scheme::RedoArchaptLiteral);
    let plan = Plan { schemes: vec![undo, redo], ..small("ycsb-a", 4) };
    let outcome = plan.run(&mut |_| ()).unwrap();
    let records = &outcome.records;
    assert_eq!(outcome.failures, [""; 0]);
    assert_eq!(crate::goals::faults(records), [""; 0]);
    // Redo loses no logical commit; what was dropped and is stale, checksums mostly correct.
    let inconsistent = of(records, redo, Metric::INCONSISTENT_OBJECTS);
    assert!(inconsistent > 0.0 && of(records, redo, Metric::CORRECTED) > inconsistent * 0.9);
    assert!(of(records, redo, Metric::REPAIRED_BY_LOG) > inconsistent);
    assert!(of(records, redo, Metric::DETECTED) >= of(records, redo, Metric::CORRECTED));
    // Undo takes back what it has answered: no crash is without a loss.
    let crashes = of(records, undo, Metric::CRASH_POINTS);
    let harmed: f64 = [Metric::LOST, Metric::TORN, Metric::REFUSED]
        .map(|metric| of(records, undo, metric))
        .iter()
        .sum();
    assert_eq!((crashes, harmed), (20.0, 20.0));
    let claims = records.iter().filter(|r| r.kind == Kind::Claim);
    assert!(claims.clone().count() == 2 && claims.clone().all(|c| c.verdict.is_some()));
    assert!(text(records).contains("redo-archapt:literal"));
}

#[test]
fn the_same_seed_gives_the_same_table_however_many_threads_judge() {
    let plan = Plan { schemes: vec![Scheme::UndoArchapt], ..small("ycsb-f", 4) };
    let [one, two] = [1, 2].map(|threads| {
        let plan = Plan { threads, ..plan.clone() };
        plan.run(&mut |_| ()).unwrap().records
    });
    assert_eq!(one, two);
    let other = Plan { seed: 2, ..plan }.run(&mut |_| ()).unwrap().records;
    assert!(sum(&other, Metric::STALE_OBJECTS) != sum(&one, Metric::STALE_OBJECTS));
}

#[test]
fn every_column_shows_its_own_count() {
    let objects = ObjectCounts {
        stale: 1000,
        repaired_by_log: 900,
        detected: 30,
        corrected: 20,
        uncorrectable: 10,
        silently_wrong: 70,
    };
    let counts = Counts {
        crash_points: 100,
        lost: 1,
        torn: 2,
        not_closed: 3,
        garbage: 4,
        refused: 5,
        unsound: 6,
        objects,
        ..Counts::default()
    };
    let shown = COLUMNS.map(|(metric, _)| value(&counts, metric));
    assert_eq!(shown, [1000, 900, 100, 30, 20, 10, 70, 1, 9, 11]);
    assert_eq!(value(&counts, Metric::CRASH_POINTS), 100);
}

/// Our rows stand beside the right ones of the paper's table.
#[test]
fn the_rows_are_the_papers_and_linkbench_as_published() {
    let beside: Vec<_> = ROWS.iter().filter_map(|row| row.published).collect();
    assert_eq!(beside, (0..PUBLISHED.len()).collect::<Vec<_>>());
    for row in ROWS {
        let known = workload(row.workload).unwrap();
        if let Some(published) = row.published.map(|at| PUBLISHED[at].workload.to_lowercase()) {
            let name = known.name.replace("tpcc", "tpc-c");
            assert!(name.contains(&published), "{name} beside {published}");
        }
    }
    for row in PUBLISHED {
        assert!(row.cells.iter().all(|c| c.detected == c.inconsistent && c.uncorrected == 0));
    }
    let totals: u32 = PUBLISHED.iter().map(|row| row.cells[0].inconsistent).sum();
    assert_eq!(totals, 539 + 901 + 29 + 782 + 605 + 45);
    assert!(workload("hash").unwrap_err().contains("ycsb-a"));
}

/// Caches that hold all the data would show nothing.
#[test]
fn data_is_larger_than_the_caches() {
    for row in ROWS {
        let plan = small(row.workload, 1);
        let campaign = plan.campaign(&row, Scheme::RedoArchapt);
        let short = Campaign { transactions: 2, warm_up: Some(1), ..campaign };
        let report = short.run(&|_| {}).unwrap();
        let last_level = short.caches[0].last_level_bytes();
        assert!(report.data_bytes > 2 * last_level, "{}: {}", row.workload, report.data_bytes);
    }
}
