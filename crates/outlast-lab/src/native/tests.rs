//! Real pools, a few hundred transactions: that it works, not how fast it is.

use std::time::Duration;

use super::*;
use crate::record::{Kind, Metric};

fn tiny(workloads: &[&str], directory: &std::path::Path) -> Setup {
    let workloads = workloads.iter().map(|name| Workload::named(name).unwrap()).collect();
    Setup {
        directory: directory.to_owned(),
        records: Some(200),
        rounds: 2,
        turn: Duration::from_millis(1),
        latency_transactions: 50,
        ..Setup::new(workloads, Size::Quick, 3)
    }
}

#[test]
fn every_workload_runs_under_every_scheme_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    let all = ["ycsb-a", "ycsb-d", "ycsb-e", "sps8", "hash", "btree"];
    let setup = tiny(&all, directory.path());
    let mut notes = Vec::new();
    let records = run(&setup, &mut |progress| {
        if let Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    })
    .unwrap();
    assert!(notes[0].starts_with("domain "), "{notes:?}");
    let value = |workload: &str, scheme: &str, metric| {
        let mine = |r: &&Record| r.is(metric) && r.workload == workload && r.scheme == scheme;
        records.iter().find(mine).unwrap_or_else(|| panic!("{workload} {scheme}")).value.unwrap()
    };
    for workload in all {
        for scheme in ["none", "undo", "redo"] {
            assert!(value(workload, scheme, Metric::THROUGHPUT) > 0.0);
            assert!(value(workload, scheme, Metric::LATENCY_P99) > 0.0);
            assert!(value(workload, scheme, Metric::TIME_REST) > 0.0);
        }
        for metric in [Metric::TIME_LOG, Metric::TIME_FLUSH, Metric::TIME_FENCE] {
            assert!(value(workload, "undo", metric) >= 0.0);
        }
        // Taking a new chunk into the heap is durable under every scheme, and rare.
        assert!(value(workload, "none", Metric::FENCES) < 0.01, "{workload}");
        assert!(value(workload, "undo", Metric::FENCES) > 0.0, "{workload}");
    }
    assert_eq!(value("sps8", "redo", Metric::FENCES).floor(), 1.0);
    assert!(records.iter().all(|r| r.kind == Kind::Native && r.domain.is_some()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn workloads_of_several_tables_run_on_two_threads() {
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    for (name, records) in [("tpcc", 1), ("linkbench", 200), ("oltp-ycsb", 200)] {
        let setup = Setup {
            records: Some(records),
            threads: 2,
            parts: false,
            counting: false,
            ..tiny(&[name], directory.path())
        };
        let records = run(&setup, &mut |_| ()).unwrap();
        for scheme in ["none", "undo", "redo"] {
            let mine = |r: &&Record| r.is(Metric::THROUGHPUT) && r.scheme == scheme;
            let throughput = records.iter().find(mine).and_then(|record| record.value);
            assert!(throughput.is_some_and(|value| value > 0.0), "{name} {scheme}");
        }
    }
}

#[test]
fn several_threads_a_slower_medium_and_no_bound() {
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    let setup = Setup {
        threads: 2,
        write_latency_ns: 100,
        contenders: vec![
            Contender::Own(Own::plain(outlast::Scheme::Redo)),
            "pmdk".parse().unwrap(),
        ],
        ..tiny(&["sps1"], directory.path())
    };
    let records = run(&setup, &mut |_| ()).unwrap();
    let throughput = records.iter().find(|r| r.is(Metric::THROUGHPUT)).unwrap();
    assert_eq!((throughput.scheme.as_str(), throughput.threads), ("redo", Some(2)));
    assert!(throughput.config.as_ref().unwrap().contains("100 ns added"));
    assert!(records.iter().all(|r| r.scheme == "redo" && !r.is(Metric::PERSISTENCE_COST)));
}

/// The loop without a runtime runs where words are swapped, and says what others are of it.
#[test]
fn the_bare_loops_compete_where_words_are_swapped() {
    let [bare, streamed] = BareLog::ALL.map(Contender::Bare);
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    let setup = Setup {
        contenders: vec![Contender::Own(Own::plain(outlast::Scheme::Swift)), bare, streamed],
        parts: false,
        ..tiny(&["sps1", "sps8", "hash"], directory.path())
    };
    let mut notes = Vec::new();
    let records = run(&setup, &mut |progress| {
        if let Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    })
    .unwrap();
    assert!(notes.iter().any(|note| note.starts_with("bare is left out of hash")), "{notes:?}");
    let value = |workload: &str, scheme: &str, metric| {
        let mine = |r: &&Record| r.is(metric) && r.workload == workload && r.scheme == scheme;
        records.iter().find(mine).and_then(|record| record.value)
    };
    for (workload, lines) in [("sps1", 1.0), ("sps8", 4.0)] {
        assert!(value(workload, "bare", Metric::THROUGHPUT_CPU) > Some(0.0));
        assert!(value(workload, "swift", Metric::RELATIVE_SPEED) > Some(0.0));
        assert!(value(workload, "bare", Metric::FLUSHED_LINES) > Some(lines));
        assert_eq!(value(workload, "bare-nt", Metric::STREAMED_LINES), Some(lines));
        for scheme in ["bare", "bare-nt"] {
            let fences = value(workload, scheme, Metric::FENCES).unwrap();
            assert!((1.0..1.01).contains(&fences), "{workload}, {scheme}: {fences}");
        }
    }
    assert_eq!(value("hash", "bare", Metric::THROUGHPUT), None);
}

#[test]
fn numbers_of_threads_are_related_to_the_first() {
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    let contenders = vec![
        Contender::Own(Own::plain(outlast::Scheme::Swift)),
        Contender::Own(Own::plain(outlast::Scheme::Undo)),
        Contender::Pmdk(Granularity::Range),
    ];
    let setup = Setup {
        contenders,
        sharing: Sharing::Apart,
        ..tiny(&["sps1", "btree", "hash"], directory.path())
    };
    let mut notes = Vec::new();
    let records = scaling::measure(&setup, &[1, 2, 3], &mut |progress| {
        if let Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    })
    .unwrap();
    assert!(notes[1].starts_with("peers and bare loops are left out"), "{notes:?}");
    let threads_of = |metric| {
        let told = records.iter().filter(move |record| record.is(metric));
        told.inspect(|record| assert!(record.value > Some(0.0)))
            .map(|record| record.threads.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(threads_of(Metric::THROUGHPUT), [1, 2, 3].repeat(3 * 2));
    assert_eq!(threads_of(Metric::SCALING), [2, 3].repeat(3 * 2));
    let shares: Vec<_> = records.iter().filter(|r| r.is(Metric::LEAST_SHARE)).collect();
    assert_eq!(shares.len(), 2 * 3 * 2);
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(&share.value.unwrap())));
    let too_many = scaling::measure(&setup, &[1, 65], &mut |_| ()).unwrap_err().to_string();
    assert_eq!(too_many, "threads: 1 to 64 are possible");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let directory = tempfile::tempdir_in(default_directory()).unwrap();
    let good = tiny(&["sps1"], directory.path());
    let cases = [
        Setup { rounds: 0, ..good.clone() },
        Setup { threads: 0, ..good.clone() },
        Setup { turn: Duration::ZERO, ..good.clone() },
        Setup { records: Some(1), ..good.clone() },
        Setup { directory: directory.path().join("absent"), ..good },
    ];
    for setup in cases {
        let error = run(&setup, &mut |_| ()).unwrap_err().to_string();
        assert!(!error.contains('\n') && !error.is_empty(), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn names_are_read_back_and_wrong_ones_told_the_right_ones() {
    for contender in Contender::all().into_iter().chain(Contender::on_request()) {
        assert_eq!(contender.name().parse(), Ok(contender));
    }
    let error = "redoo".parse::<Contender>().unwrap_err().to_string();
    assert_eq!(error, "no scheme is called 'redoo'; did you mean 'redo'?");
    let error = "mine".parse::<Contender>().unwrap_err().to_string();
    let known = "none, undo, redo, undo-archapt, redo-archapt, undo-archapt:literal, \
                 redo-archapt:literal, rollback, atlas, aof, swift, pmdk, pmdk-word, \
                 undo-archapt+sums, redo-archapt+sums, redo-async, redo-archapt-async, \
                 swift-async, redo-archapt-unswept, swift-streamed, swift-flushed, \
                 swift-locking, bare, bare-nt";
    assert_eq!(error, format!("no scheme is called 'mine'; there are {known}"));
}
