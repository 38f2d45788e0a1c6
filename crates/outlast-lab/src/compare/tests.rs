use super::*;
use crate::record::{Document, Kind};
use crate::simulated::settings;
use outlast_trace::write_trace;
use outlast_workloads::Workload;

fn comparison(schemes: &[&str], options: &[&str]) -> Comparison {
    let schemes: Vec<MachineScheme> = schemes.iter().map(|name| name.parse().unwrap()).collect();
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    let plan = Plan {
        workload: Workload::named("hash-toggle").unwrap(),
        footprint: 1 << 17,
        threads: 2,
        warm_up: 50,
        transactions: 200,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed: 3,
    };
    let settings = settings("hwl", None, &options, &schemes).unwrap();
    let (work, software) = (Compared::Program(plan), Vec::new());
    let indirection = Indirection::default();
    Comparison { work, settings, schemes, software, indirection, seed: 3 }
}

fn values(outcome: &Outcome, scheme: &str, metric: Metric) -> Vec<f64> {
    let of_scheme = |record: &&Record| record.scheme == scheme && record.is(metric);
    outcome
        .records
        .iter()
        .filter(of_scheme)
        .filter(|r| r.class.is_none())
        .filter_map(|r| r.value)
        .collect()
}

/// Schemes of epochs run the same work, and the oracle judges them by epochs.
#[test]
fn checkpoint_schemes_stand_beside_those_of_transactions() {
    let options = ["scheme.epoch=2_000", "scheme.log=1 MiB"];
    let outcome = comparison(&["non-pers", "frm", "picl"], &options).run(&mut |_| ()).unwrap();
    assert_eq!(outcome.left_out, [] as [&str; 0]);
    let rows = rows::Row::all(&outcome.records);
    for scheme in ["frm", "picl"] {
        let row = rows.iter().find(|row| row.scheme == scheme).unwrap();
        assert_eq!((row.claimed, row.seen().map(|seen| seen.0)), ("epoch", Some("epoch")));
        let ratio = values(&outcome, scheme, Metric::SPEED_OVER_PLAIN);
        assert!(ratio.iter().all(|ratio| *ratio > 0.0 && *ratio <= 1.0), "{scheme}: {ratio:?}");
    }
    assert!(
        values(&outcome, "picl", Metric::THROUGHPUT) > values(&outcome, "frm", Metric::THROUGHPUT)
    );
}

/// The published length of an epoch is longer than such a run: epochs are scaled to it, so that schemes of
/// epochs write and persist what they are ranked by.
#[test]
fn epochs_end_within_the_run_and_a_scheme_that_did_nothing_has_no_rank() {
    let schemes = ["non-pers", "fwb", "frm", "journaling", "shadow", "thynvm", "picl"];
    // A scan of the caches ends within an epoch.
    let outcome = comparison(&schemes, &["llc.size=128 KiB"]).run(&mut |_| ()).unwrap();
    assert_eq!(outcome.left_out, [] as [&str; 0]);
    let (ranked, others) = rows::ranked(rows::Row::all(&outcome.records));
    let others: Vec<&str> = others.iter().map(|(row, _)| row.scheme).collect();
    assert_eq!(others, ["non-pers"], "plain memory is a bound");
    for row in ranked.iter().filter(|row| row.claimed == "epoch") {
        let value = |metric| row.value(metric).unwrap();
        assert!(value(Metric::EPOCHS_PERSISTED) >= 3.0, "{}", row.scheme);
        assert!(value(Metric::MEMORY_WRITES_TX) > 0.0, "{}", row.scheme);
        assert!(value(Metric::SPEED_OVER_PLAIN) < 1.0, "{}", row.scheme);
        assert!(value(Metric::EPOCH_INSTRUCTIONS) < 30e6, "{}", row.scheme);
    }
    let table = table(&outcome.records);
    let (ranked, others) = table.split_once("not ranked").unwrap();
    assert!(ranked.contains("persisted") && ranked.contains("picl"), "{table}");
    assert!(others.contains("a bound") && !others.contains("picl"), "{table}");
    // As published none ends, and that is the reason beside the row.
    let outcome = comparison(&["frm"], &["scheme.epoch=30_000_000"]);
    let settings = outcome.settings.clone();
    let schemes = vec![MachineScheme::plain(), "frm".parse().unwrap()];
    let outcome = Comparison { settings, schemes, ..outcome }.run(&mut |_| ()).unwrap();
    let rows = rows::Row::all(&outcome.records);
    let frm = rows.iter().find(|row| row.scheme == "frm").unwrap();
    assert!(frm.unranked().is_some(), "{:?}", frm.value(Metric::MEMORY_WRITES_TX));
}

/// Address indirection is of the memory: all schemes pay for it, those of the runtime as well, or none does.
#[test]
fn address_indirection_is_charged_to_all_or_to_none() {
    let mut all = comparison(&["non-pers", "redo-clwb", "redu", "ssp", "ehou"], &[]);
    all.software = vec!["swift".parse().unwrap()];
    let Compared::Program(plan) = &mut all.work else { unreachable!("it is a program") };
    plan.threads = 1;
    plan.workload = Workload::named("hash").unwrap();
    let none = Comparison { indirection: Indirection::None, ..all.clone() };
    let (all, none) = (all.run(&mut |_| ()).unwrap(), none.run(&mut |_| ()).unwrap());
    assert_eq!(all.left_out, [] as [&str; 0]);
    assert!(none.left_out.iter().all(|why| why.contains("moves blocks by the AIT")), "{none:?}");
    let pays = |outcome: &Outcome| -> Vec<bool> {
        let rows = rows::Row::all(&outcome.records);
        rows.iter().map(|row| row.value(Metric::AIT_LOOKUPS) > Some(0.0)).collect()
    };
    assert_eq!((pays(&all), pays(&none)), (vec![true; 6], vec![false; 5]));
    let of = |scheme| values(&all, scheme, Metric::THROUGHPUT)[0];
    assert!(of("ehou") > of("redo-clwb"), "{} and {}", of("ehou"), of("redo-clwb"));
    // Rows of one table that differ in anything else than the scheme are refused.
    equal::check(&all.records).unwrap();
    let with = |change: fn(&mut Record)| {
        let mut records = all.records.clone();
        records.iter_mut().filter(|r| r.scheme == "ssp").for_each(change);
        equal::check(&records).unwrap_err()
    };
    let unequal = with(|record| record.transactions = Some(7));
    assert!(unequal.contains("ssp and non-pers") && unequal.contains("the work"), "{unequal}");
    let unequal = with(|record| record.metric = record.metric.replace("ait_lookups", "x"));
    assert!(unequal.contains("address indirection"), "{unequal}");
    let unequal = with(|record| record.config = Some("server (ooo), faster".to_owned()));
    assert!(unequal.contains("non-pers did not"), "{unequal}");
}

/// A transaction's time begins at its begin, under software logging as well: no scheme that adds to a
/// program takes less than the program alone.
#[test]
fn the_clock_of_a_transaction_begins_at_the_same_point_under_every_scheme() {
    let schemes = ["non-pers", "undo-clwb", "redo-clwb", "undo-redo-clwb", "unsafe-redo", "fwb"];
    let mut comparison = comparison(&schemes, &[]);
    comparison.software = ["none", "swift"].map(|name| name.parse().unwrap()).to_vec();
    let Compared::Program(plan) = &mut comparison.work else { unreachable!("it is a program") };
    // Of every two transactions one reads alone.
    plan.workload = Workload::named("ycsb-a").unwrap();
    plan.threads = 1;
    let outcome = comparison.run(&mut |_| ()).unwrap();
    assert_eq!(outcome.left_out, [] as [&str; 0]);
    for metric in [Metric::LATENCY_P50, Metric::LATENCY_P99] {
        let plain = values(&outcome, "non-pers", metric)[0];
        for row in rows::Row::all(&outcome.records) {
            let latency = row.value(metric).unwrap();
            assert!(latency >= plain, "{} of {}: {latency}, {plain}", metric.name, row.scheme);
        }
    }
}

/// The runtime's schemes run the program in a pool, and the oracle crashes that.
#[test]
fn schemes_of_the_runtime_stand_beside_those_of_the_machine() {
    let mut comparison = comparison(&["non-pers", "fwb"], &[]);
    comparison.software = ["swift", "undo", "none"].map(|name| name.parse().unwrap()).to_vec();
    let Compared::Program(plan) = &mut comparison.work else { unreachable!("it is a program") };
    plan.workload = Workload::named("hash").unwrap();
    let refused = comparison.run(&mut |_| ()).unwrap().left_out;
    assert_eq!(refused, ["the runtime's schemes: each thread of a program has data of its own"]);
    let Compared::Program(plan) = &mut comparison.work else { unreachable!("it is a program") };
    plan.threads = 1;
    let outcome = comparison.run(&mut |_| ()).unwrap();
    assert_eq!(outcome.left_out, [] as [&str; 0]);
    let rows = rows::Row::all(&outcome.records);
    let configs: Vec<_> = rows.iter().map(|row| row.config).collect();
    assert!(rows.len() == 5 && configs.iter().all(|config| *config == configs[0]), "{configs:?}");
    for (scheme, seen) in [("swift", "durable"), ("undo", "durable"), ("none", "none")] {
        let row = rows.iter().find(|row| row.scheme == scheme).unwrap();
        assert_eq!(row.seen().map(|seen| seen.0), Some(seen), "{scheme}");
        let ratio = row.value(Metric::SPEED_OVER_PLAIN).unwrap();
        assert!(ratio > 0.0 && ratio < 1.0, "{scheme}: {ratio}");
    }
    let of = |scheme| values(&outcome, scheme, Metric::THROUGHPUT)[0];
    assert!(of("none") > of("swift") && of("swift") > of("undo"));
}

#[test]
fn every_scheme_has_its_row_and_the_oracle_says_what_it_saw() {
    let comparison = comparison(&["non-pers", "redo-clwb", "fwb"], &["scheme.log_slots=512,4096"]);
    let outcome = comparison.run(&mut |_| ()).unwrap();
    assert_eq!(outcome.left_out, [] as [&str; 0]);
    assert_eq!(values(&outcome, "fwb", Metric::THROUGHPUT).len(), 2, "a row for each value");
    let plain = values(&outcome, "non-pers", Metric::SPEED_OVER_PLAIN);
    assert_eq!(plain, [1.0, 1.0]);
    let software = values(&outcome, "redo-clwb", Metric::SPEED_OVER_PLAIN);
    assert!(software.iter().all(|ratio| *ratio > 0.0 && *ratio < 1.0), "{software:?}");
    // A larger log may have more to read; there is always something.
    assert!(values(&outcome, "fwb", Metric::RECOVERY_READS).iter().all(|lines| *lines >= 1.0));
    assert!(values(&outcome, "fwb", Metric::RECOVERY_MEMORY_TIME).iter().all(|ns| *ns > 0.0));
    assert!(
        values(&outcome, "fwb", Metric::EXTRA_SPACE).iter().all(|bytes| *bytes >= 512.0 * 64.0)
    );
    assert_eq!(values(&outcome, "non-pers", Metric::RECOVERY_WRITES), [0.0, 0.0]);
    let rows = rows::Row::all(&outcome.records);
    let seen = |scheme: &str| rows.iter().find(|row| row.scheme == scheme).unwrap().seen();
    assert_eq!(seen("fwb").map(|seen| seen.0), Some("durable"));
    assert_eq!(seen("redo-clwb").map(|seen| seen.0), Some("durable"));
    assert_eq!(seen("non-pers").map(|seen| seen.0), Some("none"));
    let table = table(&outcome.records);
    assert!(table.contains("fwb, scheme.log_slots=4096") && table.contains("durable"), "{table}");
    let mut document = Document::new("1", "outlast compare hash-toggle --scheme fwb", 3, None);
    document.records = outcome.records;
    let page = page(&document, &["skeleton: why".to_owned()]);
    assert!(page.contains("outlast compare hash-toggle --scheme redo-clwb"), "commands of rows");
    assert!(page.contains("skeleton: why") && page.contains("hash-toggle, 131072 bytes"));
}

/// A machine whose residual energy is too little for what is kept does not get the verdict of one
/// that has enough.
#[test]
fn the_oracle_crashes_machines_that_persist_as_those_that_are_compared() {
    let schemes = ["non-pers", "fwb", "ehou-lazy"];
    let comparison = comparison(&schemes, &["adr.drain_lines=0,1", "core.rob=64,128"]);
    let outcome = comparison.run(&mut |_| ()).unwrap();
    let rows = rows::Row::all(&outcome.records);
    assert_eq!(rows.len(), 4 * schemes.len());
    for row in rows {
        let is_short = row.config.contains("adr.drain_lines=1");
        let seen = row.seen().unwrap().0;
        match (row.scheme, is_short) {
            ("ehou-lazy", true) => assert!(seen != "durable", "{}", row.config),
            ("non-pers", _) => {}
            (scheme, _) => assert_eq!(seen, "durable", "{scheme} on {}", row.config),
        }
    }
}

#[test]
fn a_trace_runs_under_every_scheme() {
    let schemes = ["non-pers", "fwb"];
    let of_program = comparison(&schemes, &[]);
    let Compared::Program(plan) = of_program.work else { panic!("a program") };
    let plan = Plan { threads: 1, warm_up: 0, transactions: 100, ..plan };
    let work = plan.record().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hash.otrace");
    write_trace(&path, &work.streams[0]).unwrap();
    let of_trace = Comparison { work: Compared::Trace(path), ..of_program };
    let outcome = of_trace.run(&mut |_| ()).unwrap();
    for scheme in schemes {
        assert_eq!(values(&outcome, scheme, Metric::THROUGHPUT).len(), 1, "{scheme}");
    }
    let counted = outcome.records.iter().find(|r| r.kind == Kind::Sim).unwrap().transactions;
    assert_eq!(counted, Some(75), "a quarter is warm-up");
}

#[test]
fn a_trace_without_transactions_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain.otrace");
    let mut log = outlast_trace::OpLog::default();
    outlast_trace::Sink::op(&mut log, outlast_trace::LaneId(0), outlast_trace::Op::Compute(5));
    write_trace(&path, &log).unwrap();
    let of_trace = Comparison { work: Compared::Trace(path), ..comparison(&["fwb"], &[]) };
    let error = of_trace.run(&mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("plain.otrace: a comparison is of transactions"), "{error}");
}
