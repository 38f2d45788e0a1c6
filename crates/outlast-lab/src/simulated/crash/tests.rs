//! Every scheme, plant and control, crashed small and large.

use super::plants::At;
use super::*;

const SEEDS: std::ops::Range<u64> = 1..4;

fn run(campaign: &Campaign) -> Report {
    campaign.run().unwrap_or_else(|error| panic!("{}: {error}", campaign.command(None)))
}

#[test]
fn what_promises_something_keeps_it_at_every_entry_and_in_every_second_crash() {
    for (scheme, _, guarantee, _) in SimScheme::ALL {
        if guarantee == "none" {
            continue;
        }
        for bench in ["hash", "rbtree", "sps-string"] {
            let campaign = Campaign::small(scheme, bench, 1);
            let report = run(&campaign);
            assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
            assert!(report.entries > 100 && report.images > 200, "{scheme} {report:?}");
        }
    }
}

#[test]
fn what_promises_nothing_is_found_guilty() {
    for (scheme, _, guarantee, _) in SimScheme::ALL {
        if guarantee == "none" {
            let guilty = SEEDS
                .map(|seed| Campaign::small(scheme, "hash", seed))
                .any(|campaign| run(&campaign).is_guilty(scheme));
            assert!(guilty, "{scheme} loses nothing");
        }
    }
}

#[test]
fn where_queues_are_volatile_nothing_is_lost_either() {
    for (scheme, _, guarantee, _) in SimScheme::ALL {
        for row_durable in ["true", "false"] {
            let mut campaign = Campaign::small(scheme, "hash", 2);
            campaign.machine.set_option("memory.adr", "false").unwrap();
            campaign.machine.set_option("memory.row_durable", row_durable).unwrap();
            let report = run(&campaign);
            let what = format!("{scheme}, rows durable {row_durable}: {report:?}");
            assert!(guarantee == "none" || !report.is_guilty(scheme), "{what}");
            assert!(report.entries > 100, "{what}");
        }
    }
}

#[test]
fn a_buffered_commit_is_lost_and_never_torn() {
    let reports = SEEDS.map(|seed| run(&Campaign::small(SimScheme::FwbBuffered, "hash", seed)));
    let (torn, lost) = reports.fold((0, 0), |sum, r| (sum.0 + r.torn, sum.1 + r.lost));
    assert_eq!(torn, 0);
    assert!(lost > 0, "HWL-4 shows in no image");
}

#[test]
fn every_plant_is_killed_and_every_control_is_silent() {
    for plant in PLANTS {
        let guilty = SEEDS
            .map(|seed| plant.campaign(seed))
            .find(|campaign| run(campaign).is_guilty(campaign.scheme));
        assert_eq!(guilty.is_none(), plant.is_control, "{}", plant.name);
    }
}

#[test]
fn without_its_plant_every_campaign_is_silent() {
    for plant in PLANTS.iter().filter(|plant| plant.at != At::Undeclared) {
        let campaign = Campaign { plant: None, second_crash: false, ..plant.campaign(1) };
        let report = run(&campaign);
        assert!(!report.is_guilty(campaign.scheme), "{}: {report:?}", plant.name);
    }
}

#[test]
fn context_switches_inside_transactions_and_growing_logs_lose_nothing() {
    for (scheme, switch_every, growths, slots) in
        [(SimScheme::Fwb, 3, 0, 256), (SimScheme::Hwl, 2, 0, 256), (SimScheme::Fwb, 0, 4, 4)]
    {
        let mut campaign = Campaign::small(scheme, "hash", 1);
        campaign.plan.switch_every = switch_every;
        campaign.options.growths = growths;
        campaign.options.slots = slots;
        campaign.options.tx_records_max = (growths > 0).then_some(2);
        let report = run(&campaign);
        assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
        assert!(report.images > 200);
    }
}

#[test]
fn large_runs_at_a_thousand_points_lose_nothing() {
    for scheme in [SimScheme::Fwb, SimScheme::Hwl, SimScheme::RedoRing] {
        let mut campaign = Campaign::small(scheme, "btree", 1);
        campaign.machine = MachineConfig::named("hwl").unwrap();
        campaign.machine.set_option("llc.size", "32 KiB").unwrap();
        campaign.machine.set_option("l1.size", "8 KiB").unwrap();
        campaign.plan.footprint = 1 << 18;
        campaign.plan.threads = 4;
        campaign.plan.transactions = 2000;
        campaign.options = LogOptions { slots: 1024, ..LogOptions::scaled(64) };
        campaign.points = Points::Some(1000);
        campaign.second_crash = false;
        let report = run(&campaign);
        assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
        assert!(report.images >= 1000 && report.entries > 5000, "{report:?}");
    }
}
