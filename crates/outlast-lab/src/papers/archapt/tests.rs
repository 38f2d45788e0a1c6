//! The whole path with tiny sizes: that it works, not what comes out.

use std::collections::HashMap;

use super::*;
use crate::record::{Kind, Record, Verdict};

fn tiny(parts: &[Part], directory: &std::path::Path) -> Task {
    Task {
        threads: vec![1, 2],
        directory: directory.to_owned(),
        amount: Amount {
            keys: Some(200),
            warm_up: 150,
            transactions: 150,
            scans_part: 1,
            lane_bytes: 512 << 10,
            cache_bytes: 11 * 64 * 16,
            simulated: 50,
            simulated_keys: 200,
            rounds: 2,
            turn_ms: 1,
            latency_transactions: 50,
            objects: 300,
            object_bytes: 64 << 10,
        },
        ..Task::new(parts, Size::Quick, 3)
    }
}

/// The verdicts by claim.
fn verdicts(records: &[Record]) -> HashMap<&str, Vec<Verdict>> {
    let mut found: HashMap<&str, Vec<Verdict>> = HashMap::new();
    for record in records.iter().filter(|r| r.kind == Kind::Claim) {
        if record.paper.as_deref() == Some(ARCHAPT) {
            found.entry(&record.metric).or_default().extend(record.verdict);
        }
    }
    found
}

#[test]
fn all_workloads_but_one_store_something() {
    let storing = WORKLOADS.into_iter().filter(|name| *name != READ_ONLY);
    assert_eq!(storing.collect::<Vec<_>>(), STORING);
}

#[test]
fn flushes_of_some_are_counted_and_no_claim_is_judged_by_them() {
    let directory = tempfile::tempdir_in(crate::native::default_directory()).unwrap();
    let mut task = tiny(&[Part::Fig9], directory.path());
    task.count_only(&["ycsb-a".to_owned()], &[Scheme::RedoArchapt]).unwrap();
    let records = run(&task, &mut |_| ()).unwrap().records;
    let expected = ["undo", "undo+unaligned", "redo-archapt", "redo-archapt+sums"];
    for record in &records {
        assert_eq!(record.workload, "ycsb-a");
        assert_eq!(record.kind, Kind::Sim, "{}", record.metric);
        assert!(expected.contains(&record.scheme.as_str()), "{}", record.scheme);
    }
    let counted = |scheme: &&str| records.iter().any(|record| record.scheme == **scheme);
    assert!(expected.iter().all(counted));
}

#[test]
fn every_claim_gets_one_verdict_and_every_measured_part_its_records() {
    let directory = tempfile::tempdir_in(crate::native::default_directory()).unwrap();
    let records = run(&tiny(&Part::ALL, directory.path()), &mut |_| ()).unwrap().records;
    let found = verdicts(&records);
    let claims = &*CLAIMS;
    assert_eq!(found.len(), claims.len());
    for claim in claims {
        assert_eq!(found[claim.id].len(), 1, "{}", claim.id);
    }
    // What is measured is compared; what is not says why.
    let judged = |id: &str| {
        let verdict = found[id][0];
        assert!(matches!(verdict, Verdict::Reached | Verdict::NotReached), "{id}: {verdict:?}");
    };
    for id in [
        "archapt.logging.throughput_loss.range",
        "archapt.front_ends.throughput.avg",
        "archapt.fig3.reuse.once_or_twice",
        "archapt.table1.dirtiness.redis_ycsb_a",
        "archapt.table1.dirtiness.bound",
        "archapt.fig6.create.128",
        "archapt.fig6.update.2048",
        "archapt.matrix.flushes.data.max",
        "archapt.throughput.vs_undo.avg",
        "archapt.throughput.ycsb_c.loss",
        "archapt.p99.vs_redo",
        "archapt.headline.flush_reduction",
        "archapt.fig10.dirtiness.gain",
        "archapt.order.coalescing.sqlite",
        "archapt.memory.footprint",
    ] {
        judged(id);
    }
    for record in records.iter().filter(|r| r.kind == Kind::Claim) {
        let untested = matches!(record.verdict, Some(Verdict::NotTestable));
        assert!(!untested || record.reason.is_some(), "{}", record.metric);
        assert_eq!(record.value.is_none(), untested, "{}", record.metric);
    }
    let mut document = crate::record::Document::new("0.0.0", "outlast reproduce", 3, None);
    document.records.clone_from(&records);
    let page = crate::html::paper(&Archapt, &document);
    let text = crate::table::paper(&Archapt, &document);
    for view in views::ALL {
        // Half of the processors lack one of the two instructions; no crash test was asked for.
        if !matches!(view.id, "clwb" | "table4") {
            assert!(page.contains(&format!("id=\"{}\"", view.id)), "{}", view.title);
            // Behind the title comes the unit.
            let title = format!("{}, ", view.title);
            let is_shown = text.lines().any(|line| line == view.title || line.starts_with(&title));
            assert_eq!(is_shown, view.on_terminal, "{}", view.title);
        }
    }
    assert!(text.contains("  – 115 claims: Table IV's crash tests did not run"), "{text}");
    assert!(page.matches("<svg").count() >= 9, "a figure for each section");

    let ours = records.iter().filter(|r| r.paper.as_deref() == Some("outlast")).count();
    // Six about time, two with each memory of the timed machine, three about checksums; of flushes
    // the sound expectations, and the paper's figure under four counts without checksums and six with
    // them, against two baselines.
    let of_literal = match "undo-archapt:literal".parse::<Scheme>() {
        Ok(_) => 3 + 6 * 2,
        Err(_) => 0,
    };
    assert_eq!(ours, 6 + 2 * memories::MEMORIES.len() + 3 + 4 + 4 * 2 + 6 * 2 + of_literal);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_part_alone_measures_and_judges_nothing_else() {
    let directory = tempfile::tempdir_in(crate::native::default_directory()).unwrap();
    let records = run(&tiny(&[Part::Fig3], directory.path()), &mut |_| ()).unwrap().records;
    assert_eq!(verdicts(&records).len(), 2);
    assert!(records.iter().all(|r| r.kind == Kind::Claim || r.metric == "reuse"));
}

#[test]
fn parts_are_named_as_figures_are_and_have_claims() {
    for part in Part::ALL {
        assert_eq!(part.name().parse(), Ok(part));
    }
    let error = "11".parse::<Part>().unwrap_err().to_string();
    assert!(error.contains("'11'") && error.contains("table1"), "{error}");
    let claims = &*CLAIMS;
    for claim in claims {
        let part = Part::ALL.into_iter().find(|part| part.claims_name() == claim.part);
        assert!(part.is_some() || claim.part == "text", "{}", claim.id);
    }
    for part in Part::ALL.into_iter().filter(|part| *part != Part::Memories) {
        assert!(claims.iter().any(|claim| claim.part == part.claims_name()), "{part:?}");
    }
}

#[test]
fn schemes_that_do_not_exist_are_left_out_with_a_word() {
    let mut notes = Vec::new();
    let found = available(&["undo", "no-such-scheme"], &mut |progress| {
        if let Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    });
    assert_eq!(found, [Scheme::Undo]);
    assert_eq!(notes, ["left out, not built yet: no-such-scheme"]);
}
