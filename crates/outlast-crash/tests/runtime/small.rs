//! Small campaigns: their recordings, reports, replays, counts and refusals.

use std::collections::HashMap;

use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::Site;
use outlast_crash::runtime::campaign::{
    Caches, Campaign, CampaignReport, Counts, CrashOp, Failure, ObjectCounts,
};
use outlast_crash::{History, Model};
use outlast_sim::{AtomicConfig, AtomicDriver, Policy};
use outlast_workloads::Workload;

fn small(name: &str, scheme: Scheme) -> Campaign {
    let workload = Workload::named(name).expect("the table has it");
    Campaign {
        keys: 64,
        transactions: 24,
        points: 80,
        threads: 2,
        ..Campaign::new(workload, scheme)
    }
}

/// Policy, caches, point and mistake of each failure that is kept, in the order of machines and points.
fn failures(report: &CampaignReport) -> Vec<(usize, usize, CrashOp, String)> {
    let place = |failure: &Failure| {
        let (policy, caches, at) = failure.crash()?;
        let policy = report.campaign.policies.iter().position(|known| *known == policy)?;
        let caches = report.campaign.caches.iter().position(|known| *known == caches)?;
        Some((policy, caches, at, failure.to_string()))
    };
    report.failures.iter().filter_map(place).collect()
}

#[test]
fn parts_of_a_campaign_are_together_the_whole() {
    for plant in [None, Some(Plant::SkipFlush(Site::UndoData))] {
        let whole = Campaign { plant, ..small("hash", Scheme::Undo) };
        let one = whole.run(&|_| {}).unwrap();
        assert_eq!(plant.is_some(), one.total().losses() > 0);
        for of in [1, 3] {
            let mut sums: Vec<Counts> = vec![Counts::default(); one.policies.len()];
            let mut found = Vec::new();
            for nth in 1..=of {
                let part = Some(format!("{nth}/{of}").parse().unwrap());
                let report = Campaign { part, ..whole.clone() }.run(&|_| {}).unwrap();
                for (sum, (_, counts)) in sums.iter_mut().zip(&report.policies) {
                    sum.add(counts);
                }
                found.extend(failures(&report));
            }
            found.sort();
            let expected: Vec<Counts> = one.policies.iter().map(|row| row.1).collect();
            assert_eq!(sums, expected, "{of} parts");
            // Of each machine the first 16 are kept.
            let mut kept: HashMap<(usize, usize), usize> = HashMap::new();
            found.retain(|failure| {
                let count = kept.entry((failure.0, failure.1)).or_default();
                *count += 1;
                *count <= 16
            });
            assert_eq!(found, failures(&one), "{of} parts");
        }
    }
}

#[test]
fn a_crash_is_laid_open() {
    let plant = Some(Plant::SkipFlush(Site::UndoData));
    let campaign = Campaign { plant, ..small("hash", Scheme::Undo) };
    let look = campaign.look().unwrap();
    let report = Campaign { until_failure: true, ..campaign.clone() }.run(&|_| {}).unwrap();
    let (first, shown) = (report.failure.unwrap(), look.failure.as_ref().unwrap());
    assert_eq!((first.crash(), &first.violation), (shown.crash(), &shown.violation));
    // The image is the base with the entries that survive.
    let mut image = look.base.clone();
    image.resize(look.image.len(), 0);
    look.journal.cursor().advance_to_entry(look.entries, &mut image, |_| {});
    assert!(image == look.image);
    assert_ne!(look.image, look.recovered, "a recovery writes");
    let told = look.explain();
    assert_eq!(told.runs[0].crash_at as usize, look.crash_op());
    assert!(
        told.runs[0].lines.iter().any(|line| line.fate != outlast_crash::explain::Fate::Durable)
    );
    assert!(told.verdict.contains(&shown.violation.detail));

    let sound = small("hash", Scheme::Undo);
    let refused = sound.look().err().unwrap().to_string();
    assert!(refused.contains("--crash-op"), "{refused}");
    let at = Some("40".parse().unwrap());
    let look = Campaign { crash_at: at, ..sound }.look().unwrap();
    assert!(look.failure.is_none() && look.crash_op() == 40);
    assert_eq!(look.transactions().count(), 24);
}

/// What any cache of the emulator leaves of the runtime's work, the fault model allows: the two
/// were written apart from each other.
#[test]
fn every_image_of_every_cache_is_one_that_any_eviction_allows() {
    for (name, scheme) in [("hash", Scheme::Undo), ("words", Scheme::Redo)] {
        let campaign = small(name, scheme);
        let (base, log) = campaign.recording().unwrap();
        for (policy, _, _) in Policy::ALL {
            for (caches, _) in Caches::ALL {
                let (hierarchy, completion) = caches.hierarchy();
                let hierarchy = hierarchy.with_lanes(campaign.lanes).with_policy(policy);
                let config = AtomicConfig { completion, ..AtomicConfig::from(hierarchy) };
                let driver = AtomicDriver::new(&config, 5, &base).unwrap();
                let journal = driver.play(&log);
                let mut history = History::new(&base, Model::default());
                let (mut image, mut cursor) = (base.clone(), journal.cursor());
                for (at, (lane, op)) in log.iter().enumerate() {
                    history.step(lane, &op);
                    if at % 61 == 0 || at + 1 == log.len() {
                        cursor.advance_to(at + 1, &mut image, |_| {});
                        if let Err(refused) = history.check_image(&image) {
                            panic!("{name} {scheme} {policy} {caches}, {at}: {refused}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report_however_many_threads_judge() {
    let campaign = small("hash", Scheme::Redo);
    let plant = Some(Plant::FlushBeforeStore);
    for campaign in [campaign.clone(), Campaign { plant, until_failure: true, ..campaign }] {
        let reports = [1, 2].map(|threads| {
            let report = Campaign { threads, ..campaign.clone() }.run(&|_| {}).unwrap();
            (report.policies, report.failure.and_then(|failure| failure.crash()))
        });
        assert_eq!(reports[0], reports[1]);
    }
}

#[test]
fn a_failure_is_replayed_by_its_crash_point_and_shrinks() {
    let plant = Some(Plant::SkipFlush(Site::UndoData));
    let campaign = Campaign { plant, until_failure: true, ..small("hash", Scheme::Undo) };
    let report = campaign.run(&|_| {}).unwrap();
    let violation = &report.failure.as_ref().expect("the bug shows").violation;
    let replay = report.replay().unwrap();
    assert!(replay.command().contains("--crash-op"), "{}", replay.command());
    let again = replay.run(&|_| {}).unwrap();
    assert_eq!(again.failure.as_ref().map(|failure| &failure.violation), Some(violation));
    let smallest = report.shrink().unwrap().unwrap();
    assert!(smallest.transactions <= replay.transactions);
    assert!(smallest.run(&|_| {}).unwrap().failure.is_some(), "{}", smallest.command());
}

/// A run after a warm-up, on caches of which `keys` records of a kilobyte are several times more.
fn warm(name: &str, scheme: Scheme) -> Campaign {
    Campaign {
        caches: vec![Caches::Small],
        lanes: 1,
        lane_bytes: 64 << 10,
        keys: 1_000,
        transactions: 2_000,
        warm_up: Some(1_000),
        points: 20,
        second_crash: false,
        ..small(name, scheme)
    }
}

#[test]
fn after_a_warm_up_stale_objects_are_counted_and_repaired() {
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt, Scheme::Redo] {
        let report = warm("ycsb-a", scheme).run(&|_| {}).unwrap();
        assert!(report.failure.is_none(), "{scheme}: {:?}", report.failure);
        assert!(report.data_bytes > 4 * Caches::Small.last_level_bytes());
        let objects = report.total().objects;
        assert!(objects.stale > 20, "{scheme}: {objects:?}");
        let expected = ObjectCounts { stale: objects.stale, ..ObjectCounts::default() };
        assert_eq!(objects, ObjectCounts { repaired_by_log: objects.stale, ..expected });
    }
    // Data flushed at the commit is never stale, and without a log there is no repair.
    let report = warm("ycsb-a", Scheme::Undo).run(&|_| {}).unwrap();
    assert_eq!(report.total().objects, ObjectCounts::default());
    let objects = warm("ycsb-a", Scheme::None).run(&|_| {}).unwrap().total().objects;
    assert!(objects.silently_wrong > 100, "{objects:?}");
}

#[test]
fn what_cannot_be_run_is_named() {
    let campaign = small("hash", Scheme::Undo);
    let refusal = |campaign: Campaign| campaign.run(&|_| {}).err().map(|e| e.to_string());
    let error = refusal(Campaign { lanes: 2, ..warm("ycsb-a", Scheme::Redo) });
    assert!(error.unwrap().contains("--lanes 1"));
    let error = refusal(Campaign { warm_up: Some(2_000), ..warm("ycsb-a", Scheme::Redo) });
    let expected = "transactions of the warm-up: 2000 is out of range; 1 to 1999 are possible";
    assert_eq!(error.as_deref(), Some(expected));
    let error = refusal(Campaign { lanes: 9, ..campaign.clone() });
    assert_eq!(error.as_deref(), Some("lanes: 9 is out of range; 1 to 8 are possible"));
    assert!(refusal(Campaign { policies: Vec::new(), ..campaign.clone() }).is_some());
    assert!(refusal(Campaign { lane_bytes: 100, ..campaign }).unwrap().contains("a lane's log"));
    assert_eq!("12+3".parse(), Ok(CrashOp { ops: 12, entries: 3 }));
    assert_eq!(CrashOp { ops: 12, entries: 0 }.to_string(), "12");
    assert!("1-2".parse::<CrashOp>().is_err());
}
