//! Every scheme, plant and control, crashed small and large.

#![cfg(not(miri))]

mod epochs;
mod explained;
mod kept;

use std::collections::HashSet;

use outlast_crash::machine::{Campaign, Report};
use outlast_crash::runtime::campaign::Points;
use outlast_schemes::{MachineScheme, Options, Plant, UNORDERED, plants};
use outlast_sim::timed::MachineConfig;
use outlast_trace::Guarantee;

const SEEDS: std::ops::Range<u64> = 1..4;

fn named(name: &str) -> MachineScheme {
    name.parse().unwrap()
}

fn run(campaign: &Campaign) -> Report {
    campaign.run().unwrap_or_else(|error| panic!("{}: {error}", campaign.command(None)))
}

/// Whether lanes may store to the same data under a scheme.
fn may_share(scheme: MachineScheme) -> bool {
    !scheme.name().contains("redo-clwb")
}

/// Demands that nothing is wrong; a failure prints the command that replays it.
fn assert_silent(campaign: &Campaign, report: &Report) {
    let command = || campaign.command(report.first_entry());
    assert!(!report.is_guilty(), "{}: {report:?}", command());
}

#[test]
fn parts_of_a_campaign_are_together_the_whole() {
    let plant = plants().find(|plant| plant.name == "skeleton-unordered").unwrap();
    let sound = Campaign::small(named("picl"), "hash", 1);
    for whole in [Campaign::showing(plant, 1), sound] {
        let whole = Campaign { points: Points::Some(40), ..whole };
        let one = run(&whole);
        let (mut sum, mut failures) = (Report::default(), Vec::new());
        for nth in 1..=3 {
            let part =
                run(&Campaign { part: Some(format!("{nth}/3").parse().unwrap()), ..whole.clone() });
            sum.images += part.images;
            sum.resumed += part.resumed;
            sum.broken += part.broken;
            sum.lost += part.lost;
            sum.torn += part.torn;
            failures.extend(part.failures);
        }
        let counts = |report: &Report| {
            (report.images, report.resumed, report.broken, report.lost, report.torn)
        };
        assert_eq!(counts(&sum), counts(&one));
        failures.sort_by_key(|(at, _)| at.entry);
        failures.truncate(one.failures.len());
        assert_eq!(failures, one.failures);
        assert_eq!(one.failures.is_empty(), whole.plant.is_none());
    }
}

#[test]
fn what_promises_something_keeps_it_at_every_entry_and_in_every_second_crash() {
    for scheme in MachineScheme::all() {
        if scheme.guarantee() == Guarantee::None {
            continue;
        }
        for bench in ["hash-toggle", "rbtree-toggle", "sps-string", "b-tree-zipf"] {
            let campaign = Campaign::small(scheme, bench, 1);
            let report = run(&campaign);
            assert_silent(&campaign, &report);
            assert!(report.entries > 100 && report.images > 200, "{scheme} {report:?}");
            assert!(report.resumed > 0, "{scheme} {report:?}");
        }
    }
}

#[test]
fn what_promises_nothing_is_found_guilty() {
    for scheme in MachineScheme::all() {
        if scheme.guarantee() == Guarantee::None {
            let guilty = SEEDS
                .map(|seed| Campaign::small(scheme, "hash-toggle", seed))
                .any(|campaign| run(&campaign).is_guilty());
            assert!(guilty, "{scheme} loses nothing");
        }
    }
}

#[test]
fn where_queues_are_volatile_nothing_is_lost_either() {
    for scheme in MachineScheme::all() {
        for row_durable in ["true", "false"] {
            let mut campaign = Campaign::small(scheme, "hash-toggle", 2);
            campaign.machine.set_option("memory.adr", "false").unwrap();
            campaign.machine.set_option("memory.row_durable", row_durable).unwrap();
            let report = run(&campaign);
            let what = format!("{scheme}, rows durable {row_durable}: {report:?}");
            assert!(scheme.guarantee() == Guarantee::None || !report.is_guilty(), "{what}");
            assert!(report.entries > 100, "{what}");
        }
    }
}

/// A rule that one write waits for another can only be missed where the machine does not keep it anyway.
#[test]
fn where_writes_become_durable_in_any_order_nothing_is_lost_either() {
    for scheme in MachineScheme::all().filter(|scheme| scheme.guarantee() != Guarantee::None) {
        for adr in ["true", "false"] {
            let mut campaign = Campaign::small(scheme, "hash-toggle", 2);
            for (key, value) in UNORDERED {
                campaign.machine.set_option(key, value).unwrap();
            }
            campaign.machine.set_option("memory.adr", adr).unwrap();
            let report = run(&campaign);
            assert_silent(&campaign, &report);
            assert!(report.images > 200 && report.resumed > 0, "{scheme} {report:?}");
        }
    }
}

#[test]
fn one_channel_keeps_an_order_that_two_do_not() {
    let plant = plants().find(|plant| plant.name == "skeleton-record-early").unwrap();
    for adr in ["true", "false"] {
        let mut campaign = Campaign { resumes: 0, ..Campaign::showing(plant, 1) };
        campaign.machine = MachineConfig::named("tiny").unwrap();
        campaign.machine.set_option("memory.adr", adr).unwrap();
        let report = run(&campaign);
        assert!(!report.is_guilty() && report.images > 200, "adr {adr}: {report:?}");
    }
    for seed in SEEDS {
        assert!(run(&Campaign::showing(plant, seed)).is_guilty(), "seed {seed}");
    }
}

#[test]
fn a_campaign_that_notices_is_found_for_every_seed() {
    let plant = plants().find(|plant| plant.name == "skeleton-counts-anew").unwrap();
    for seed in [1, 2, u64::MAX] {
        let campaign = Campaign::noticing(plant, seed).unwrap().expect("one does");
        assert!(run(&campaign).is_guilty(), "{}", campaign.command(None));
    }
    let control = plants().find(|plant| plant.is_control()).unwrap();
    assert_eq!(Campaign::noticing(control, 1).unwrap(), None);
}

#[test]
fn a_buffered_commit_is_lost_and_never_torn() {
    let reports =
        SEEDS.map(|seed| run(&Campaign::small(named("fwb:buffered"), "hash-toggle", seed)));
    let (torn, lost) = reports.fold((0, 0), |sum, r| (sum.0 + r.torn, sum.1 + r.lost));
    assert_eq!(torn, 0);
    assert!(lost > 0, "HWL-4 shows in no image");
}

#[test]
fn every_plant_is_killed_and_every_control_is_silent() {
    let plants: Vec<_> = plants().collect();
    let each = |plants: &[&'static Plant]| {
        for plant in plants {
            let guilty = SEEDS
                .map(|seed| Campaign::showing(plant, seed))
                .find(|campaign| run(campaign).is_guilty());
            assert_eq!(guilty.is_none(), plant.is_control(), "{}", plant.name);
        }
    };
    std::thread::scope(|scope| {
        plants.chunks(8).for_each(|plants| {
            scope.spawn(move || each(plants));
        });
    });
}

#[test]
fn without_its_plant_every_campaign_is_silent() {
    let fits = |options: &[(&str, u64)]| !options.contains(&("fit_log", 0));
    // Many a plant shows in the same work.
    let mut ran = HashSet::new();
    for plant in plants().filter(|plant| fits(plant.shown_by.options)) {
        let campaign = Campaign { plant: None, second_crash: false, ..Campaign::showing(plant, 1) };
        if !ran.insert(campaign.command(None)) {
            continue;
        }
        let report = run(&campaign);
        assert_silent(&campaign, &report);
    }
}

#[test]
fn context_switches_inside_transactions_and_growing_logs_lose_nothing() {
    for (scheme, switch_every, growths, slots) in
        [("fwb", 3, 0, 256), ("hwl", 2, 0, 256), ("fwb", 0, 4, 4)]
    {
        let scheme = named(scheme);
        let mut campaign = Campaign::small(scheme, "hash-toggle", 1);
        campaign.plan.switch_every = switch_every;
        campaign.options.put("log_growths", growths);
        campaign.options.put("log_slots", slots);
        campaign.options.put("tx_records", if growths > 0 { 2 } else { 0 });
        let report = run(&campaign);
        assert_silent(&campaign, &report);
        assert!(report.images > 200);
    }
}

#[test]
fn transactions_that_abort_leave_nothing_behind() {
    for scheme in MachineScheme::all() {
        if scheme.guarantee() == Guarantee::None {
            continue;
        }
        for (program, footprint, shared) in
            [("hash-toggle", 2048, false), ("sps-string", 1 << 14, true), ("tatp", 1 << 14, false)]
        {
            let mut campaign = Campaign::small(scheme, program, 1);
            campaign.plan.footprint = footprint;
            campaign.plan.shared = shared && may_share(scheme);
            campaign.plan.abort_every = 3;
            let report = run(&campaign);
            assert_silent(&campaign, &report);
            assert!(report.images > 100 && report.resumed > 0, "{scheme} {report:?}");
        }
    }
}

#[test]
fn what_goes_on_from_any_recovered_image_loses_nothing_either() {
    for scheme in MachineScheme::all().filter(|scheme| scheme.guarantee() != Guarantee::None) {
        for (shared, second_crash) in [(false, true), (true, false)] {
            let mut campaign = Campaign::small(scheme, "hash-toggle", 3);
            campaign.plan.shared = shared && may_share(scheme);
            campaign.plan.abort_every = if second_crash { 0 } else { 5 };
            campaign.plan.transactions = 40;
            campaign.second_crash = second_crash;
            (campaign.points, campaign.resumes) = (Points::Some(40), 40);
            campaign.resumed_points = Points::Some(20);
            let report = run(&campaign);
            assert_silent(&campaign, &report);
            assert!(report.resumed >= 40, "{scheme}: {report:?}");
        }
    }
}

#[test]
fn a_drain_that_exceeds_its_budget_loses_what_is_left() {
    let mut campaign = Campaign::small(kept::scheme(), "hash-toggle", 1);
    campaign.plan.transactions = 30;
    let report = run(&campaign);
    assert_silent(&campaign, &report);
    assert!(report.entries > 100 && report.resumed > 0, "{report:?}");
    campaign.machine.set_option("adr.drain_lines", "4").unwrap();
    assert!(run(&campaign).is_guilty(), "four lines hold all that is kept");
}

#[test]
fn redo_of_each_lane_by_itself_refuses_shared_data() {
    let mut campaign = Campaign::small(named("redo-clwb"), "hash-toggle", 3);
    campaign.plan.shared = true;
    let error = campaign.run().unwrap_err().to_string();
    assert!(error.contains("redo-clwb: lanes 0 and 1 store to"), "{error}");
}

#[test]
fn a_failure_after_resuming_is_replayed_by_its_command() {
    let plant = plants().find(|plant| plant.name == "skeleton-counts-anew").unwrap();
    let campaign = Campaign { second_crash: false, resumes: 40, ..Campaign::showing(plant, 1) };
    let report = run(&campaign);
    let at = report.first_entry().expect("the plant shows");
    let entry = at.resumed.expect("nothing is wrong before the first crash");
    let command = campaign.command(Some(at));
    assert!(command.ends_with(&format!("--crash-entry {} --resume-entry {entry}", at.entry)));
    let replay = Campaign {
        points: Points::One(at.entry),
        resumed_points: Points::One(entry),
        resumes: 1,
        ..campaign
    };
    assert_eq!(run(&replay).first, report.first);
    let behind = Campaign { resumed_points: Points::One(1_000_000), ..replay };
    let error = behind.run().unwrap_err().to_string();
    assert!(error.contains("--resume-entry 1000000: the run's journal has"), "{error}");
}

#[test]
fn large_runs_at_a_thousand_points_lose_nothing() {
    for scheme in ["fwb", "hwl", "redo-clwb:ring"].map(named) {
        let mut campaign = Campaign::small(scheme, "btree-toggle", 1);
        campaign.machine = MachineConfig::named("hwl").unwrap();
        campaign.machine.set_option("llc.size", "32 KiB").unwrap();
        campaign.machine.set_option("l1.size", "8 KiB").unwrap();
        campaign.plan.footprint = 1 << 18;
        campaign.plan.threads = 4;
        campaign.plan.transactions = 2000;
        campaign.options =
            Options::default().with("log_slots", 1024).with("scan_period", 3_000_000 / 64);
        campaign.points = Points::Some(1000);
        campaign.second_crash = false;
        campaign.resumes = 1;
        campaign.resumed_points = Points::Some(100);
        let report = run(&campaign);
        assert_silent(&campaign, &report);
        assert!(report.images >= 1000 && report.entries > 5000, "{report:?}");
    }
}
