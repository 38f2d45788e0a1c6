//! Random campaigns: the runtime survives them, planted bugs do not.

use outlast::lab::Plant;
use outlast::scheme::Site;
use outlast::{Ack, Scheme};
use outlast_crash::runtime::campaign::Campaign;
use outlast_sim::Domain;
use outlast_workloads::{Layout, Workload};

fn campaign(name: &str, scheme: Scheme) -> Campaign {
    let workload = Workload::named(name).expect("the table has it");
    Campaign { keys: 500, transactions: 200, points: 100, ..Campaign::new(workload, scheme) }
}

#[test]
fn every_workload_survives_under_every_policy() {
    let names = ["ycsb-a", "ycsb-d", "ycsb-e", "ycsb-f", "oltp-ycsb", "sps1", "sps8"];
    let more = ["hash", "btree", "b-tree-zipf", "rbtree", "queue", "words", "array-random"];
    let names = names.into_iter().chain(more);
    for name in names {
        for scheme in [Scheme::Undo, Scheme::Redo] {
            let report = campaign(name, scheme).run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            let total = report.total();
            assert!(total.crash_points > 500 && total.in_recovery > 0 && total.later > 0);
            assert!(report.policies.iter().all(|row| row.1.crash_points >= 100));
        }
    }
}

#[test]
fn other_domains_and_more_lanes_survive_too() {
    for scheme in [Scheme::Undo, Scheme::Redo] {
        for (domain, lanes) in [(Domain::Eadr, 2), (Domain::Process, 2), (Domain::Adr, 4)] {
            let report = Campaign { domain, lanes, ..campaign("hash", scheme) }.run(&|_| {});
            let report = report.unwrap();
            assert!(report.failure.is_none(), "{:?}", report.failure);
        }
    }
}

/// Pools with checksums lose nothing, and no crash leaves a line that disagrees with them.
#[test]
fn checksums_agree_after_every_crash() {
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        for (name, lanes) in [("ycsb-a", 2), ("hash", 2), ("btree", 1)] {
            let plain = Campaign { lanes, checksums: true, ..campaign(name, scheme) };
            let report = plain.run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            assert!(report.total().crash_points > 500);
        }
        // So long that the floor has passed what was left out.
        let (plant, transactions) = (Some(Plant::SumsMissUpdates), 800);
        let plain = campaign("ycsb-a", scheme);
        let broken = Campaign { checksums: true, plant, transactions, ..plain };
        assert!(broken.run(&|_| {}).unwrap().failure.is_some(), "{scheme}");
    }
}

/// Fields beside their values, and apart from them; commits answered when they are physical.
#[test]
fn layouts_and_acknowledgements_lose_nothing() {
    let cases = [
        ("ycsb-a", Layout::Coalesced, Ack::Logical),
        ("ycsb-f", Layout::Coalesced, Ack::Physical),
        ("ycsb-d", Layout::Coalesced, Ack::Logical),
        ("ycsb-a", Layout::Scattered, Ack::Physical),
        ("hash", Layout::Scattered, Ack::Logical),
    ];
    for scheme in [Scheme::Undo, Scheme::UndoArchapt, Scheme::RedoArchapt] {
        for (name, layout, ack) in cases {
            let laid_out = Campaign { layout, ack, ..campaign(name, scheme) };
            let report = laid_out.run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            assert!(report.total().crash_points > 300, "{name}, {scheme}");
        }
    }
    // Pairs in the nodes, under every scheme that brings them back.
    for scheme in Scheme::durable() {
        for (name, lanes) in [("hash", 2), ("btree", 1)] {
            let inline = Campaign { layout: Layout::Inline, lanes, ..campaign(name, scheme) };
            let report = inline.run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            let total = report.total();
            assert!(total.crash_points > 300 && total.in_recovery > 0, "{name}, {scheme}");
        }
    }
    // A tree's lines are stored to so often that these few points miss an unflushed one, in either layout.
    let (both, map): (&[_], &[_]) = (&["hash", "btree"], &["hash"]);
    for (scheme, plant, names) in [
        (Scheme::Swift, Plant::SkipFence(Site::RedoRecord), both),
        (Scheme::Swift, Plant::InstallBeforeFence, both),
        (Scheme::Undo, Plant::SkipFlush(Site::UndoData), both),
        (Scheme::Redo, Plant::SkipFlush(Site::SweepData), map),
    ] {
        for name in names {
            let (layout, plant) = (Layout::Inline, Some(plant));
            let (lane_bytes, transactions) = (8 << 10, 1000);
            let broken = campaign(name, scheme);
            let broken = Campaign { layout, plant, lane_bytes, transactions, ..broken };
            let report = broken.run(&|_| {}).unwrap();
            assert!(report.failure.is_some(), "{plant:?} under {scheme}, {name}");
            let replay = report.replay().expect("a failure has its replay").command();
            assert!(replay.contains("--layout inline"), "{replay}");
        }
    }
    for (scheme, plant) in [
        (Scheme::RedoArchapt, Plant::AgedOutUnflushed),
        (Scheme::UndoArchapt, Plant::AgedOutUnflushed),
        (Scheme::Undo, Plant::SkipFlush(Site::UndoData)),
    ] {
        // In a ring as short as the others hardly anything ages before it must be flushed.
        let (lane_bytes, transactions) = (8 << 10, 1000);
        let (layout, plant) = (Layout::Coalesced, Some(plant));
        let broken = campaign("ycsb-a", scheme);
        let broken = Campaign { layout, lane_bytes, transactions, plant, ..broken };
        let report = broken.run(&|_| {}).unwrap();
        assert!(report.failure.is_some(), "{scheme}");
        let replay = report.replay().expect("a failure has its replay").command();
        assert!(replay.contains("--layout coalesced"), "{replay}");
    }
}

/// Asynchronous commits: whole batches may be missing, and nothing that was waited for.
#[test]
fn asynchronous_commits_lose_nothing_that_is_acknowledged() {
    let later = |name, scheme, lanes, sync_every| {
        let lane_bytes = 8 << 10;
        Campaign { lanes, lane_bytes, sync_every: Some(sync_every), ..campaign(name, scheme) }
    };
    for scheme in [Scheme::Swift, Scheme::Redo, Scheme::RedoArchapt] {
        for (name, lanes, sync_every) in [
            ("ycsb-a", 2, 16),
            ("ycsb-f", 1, 64),
            ("hash", 3, 8),
            ("btree", 2, 16),
            ("queue", 2, 5),
        ] {
            let report = later(name, scheme, lanes, sync_every).run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            assert!(report.total().crash_points > 300, "{name}, {scheme}");
        }
        for plant in [Plant::AsyncInPlace, Plant::SkipFence(Site::RedoRecord)] {
            let broken = Campaign { plant: Some(plant), ..later("ycsb-a", scheme, 2, 16) };
            let report = broken.run(&|_| {}).unwrap();
            assert!(report.failure.is_some(), "{plant} under {scheme}");
            let replay = report.replay().expect("a failure has its replay").command();
            assert!(replay.contains("--sync-every 16"), "{replay}");
        }
    }
}

/// Baselines too, on a lane alone and on two.
#[test]
fn baselines_survive_under_every_policy() {
    for scheme in Scheme::durable().filter(|scheme| scheme.is_baseline()) {
        for (name, lanes) in [("ycsb-a", 2), ("hash", 2), ("btree", 1), ("words", 3)] {
            let report = Campaign { lanes, ..campaign(name, scheme) }.run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            let total = report.total();
            assert!(total.crash_points > 500 && total.in_recovery > 0 && total.later > 0);
        }
        let tables = Campaign { keys: 1_000, points: 20, ..campaign("tpcc", scheme) };
        let report = tables.run(&|_| {}).unwrap();
        assert!(report.failure.is_none(), "{scheme}: {:?}", report.failure);
    }
}

/// Transactions of many rows over several trees: what takes a table's rows along, allocates and
/// frees for many at once, is cancelled half-way.
#[test]
fn tables_survive_under_every_policy() {
    for name in ["tpcc", "tatp", "linkbench", "linkbench-archapt"] {
        for scheme in [Scheme::Undo, Scheme::Redo] {
            let campaign = Campaign { keys: 1_000, ..campaign(name, scheme) };
            let report = campaign.run(&|_| {}).unwrap();
            if let (Some(failure), Some(replay)) = (&report.failure, report.replay()) {
                panic!("{failure}; replay: {}", replay.command());
            }
            println!("{name} {scheme}: {:?} in {:?}", report.total(), report.elapsed);
            let total = report.total();
            assert!(total.crash_points > 500 && total.in_recovery > 0 && total.later > 0);
        }
    }
}

/// The judge is not blind: what promises nothing keeps nothing, and is not called guilty.
#[test]
fn without_a_log_things_are_lost() {
    quietly(|| {
        let report = campaign("words", Scheme::None).run(&|_| {}).unwrap();
        assert!(report.total().lost > 100, "{:?}", report.total());
        assert!(!report.is_guilty());
    });
}

/// Bugs of every part: records, marks, data, sweeping, allocation, isolation, recovery.
#[test]
fn planted_bugs_are_noticed() {
    let bugs = [
        (Plant::RecordFirstLineUnflushed, Scheme::Undo, "hash"),
        (Plant::RecordLastLineUnflushed, Scheme::Redo, "hash"),
        (Plant::FlushBeforeStore, Scheme::Undo, "hash"),
        (Plant::FlushWrongAddress, Scheme::Redo, "hash"),
        (Plant::MarkInHalves, Scheme::Undo, "hash"),
        (Plant::MarkWithData, Scheme::Undo, "hash"),
        (Plant::ContinuationsBelieved, Scheme::Redo, "hash"),
        (Plant::RingOverwritesLive, Scheme::Redo, "hash"),
        (Plant::RecycleByOwnLane, Scheme::Redo, "hash"),
        (Plant::AllocationNotLogged, Scheme::Redo, "hash"),
        (Plant::AllocationEager, Scheme::Redo, "hash"),
        (Plant::FreedAtOnce, Scheme::Undo, "hash"),
        (Plant::FreshUnflushed, Scheme::Undo, "hash"),
        (Plant::EarlyRelease, Scheme::Redo, "words"),
        (Plant::GenerationNotBumped, Scheme::Redo, "hash"),
        (Plant::FloorBeforeApplying, Scheme::Redo, "hash"),
        (Plant::OtherLanesDropped, Scheme::Undo, "hash"),
        (Plant::BitsToggled, Scheme::Undo, "hash"),
        (Plant::RedoLaneByLane, Scheme::Redo, "hash"),
        (Plant::SkipFence(Site::UndoRecord), Scheme::Undo, "hash"),
        (Plant::SkipFlush(Site::UndoData), Scheme::Undo, "hash"),
        (Plant::SkipFence(Site::UndoMark), Scheme::Undo, "hash"),
        (Plant::SkipFence(Site::RedoRecord), Scheme::Redo, "hash"),
        (Plant::SkipFlush(Site::RecoverData), Scheme::Redo, "hash"),
        (Plant::JournalHeaderFirst, Scheme::Rollback, "hash"),
        (Plant::SkipFlush(Site::JournalHeader), Scheme::Rollback, "hash"),
        (Plant::SkipFlush(Site::JournalData), Scheme::Rollback, "btree"),
        (Plant::StoreBeforeLog, Scheme::Atlas, "hash"),
        (Plant::SkipFlush(Site::UndoData), Scheme::Atlas, "btree"),
        (Plant::SkipFence(Site::Command), Scheme::Aof, "hash"),
        (Plant::RedoNewestFirst, Scheme::Aof, "hash"),
        // Pairs of words in a bucket's line, leaves of short keys: reached by the short way.
        (Plant::WordInPlaceAtOnce, Scheme::Redo, "hash"),
        (Plant::WordInPlaceAtOnce, Scheme::Swift, "hash"),
        (Plant::WordInPlaceAtOnce, Scheme::Redo, "btree"),
        (Plant::WordInPlaceAtOnce, Scheme::Swift, "btree"),
        (Plant::SkipFlush(Site::UndoData), Scheme::Undo, "tpcc"),
        (Plant::RecordLastLineUnflushed, Scheme::Redo, "tpcc"),
        (Plant::FreedAtOnce, Scheme::Undo, "linkbench"),
        (Plant::AllocationNotLogged, Scheme::Redo, "tpcc"),
    ];
    let mut survivors = Vec::new();
    quietly(|| {
        for (plant, scheme, name) in bugs {
            let plain = campaign(name, scheme);
            // Few words, so that lanes meet.
            let keys = if name == "words" { 50 } else { plain.keys };
            let planted =
                Campaign { plant: Some(plant), until_failure: true, points: 200, keys, ..plain };
            if !planted.run(&|_| {}).unwrap().is_guilty() {
                survivors.push(planted.command());
            }
        }
    });
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// Runs `body` without a word about the panics that broken code ends in.
fn quietly(body: impl FnOnce()) {
    // The hook is the whole process's: one test at a time may have it.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    std::panic::set_hook(hook);
    if let Err(payload) = result {
        std::panic::resume_unwind(payload);
    }
}
