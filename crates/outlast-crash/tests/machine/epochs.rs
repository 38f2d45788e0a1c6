//! Checkpoint schemes, crashed after every entry of small runs and gone on from there, on more machines
//! and programs than all schemes have to pass.

use outlast_crash::machine::{Campaign, Report};
use outlast_crash::runtime::campaign::Points;
use outlast_schemes::MachineScheme;
use outlast_sim::timed::MachineConfig;
use outlast_trace::Guarantee;

fn schemes() -> impl Iterator<Item = MachineScheme> {
    MachineScheme::all().filter(|scheme| scheme.guarantee() == Guarantee::Epoch)
}

fn silent(campaign: &Campaign) -> Report {
    let report =
        campaign.run().unwrap_or_else(|error| panic!("{}: {error}", campaign.command(None)));
    assert!(!report.is_guilty(), "{}: {report:?}", campaign.command(report.first_entry()));
    report
}

/// PICL-8: recovered at every entry, the program goes on, and crashes at every entry again.
#[test]
fn a_short_program_goes_on_from_every_crash_and_crashes_at_every_entry_again() {
    for scheme in schemes() {
        let mut campaign = Campaign::small(scheme, "hash-toggle", 5);
        campaign.plan.transactions = 10;
        campaign.second_crash = false;
        campaign.resumes = usize::MAX;
        campaign.resumed_points = Points::All;
        let report = silent(&campaign);
        assert!(report.entries > 30 && report.resumed > 30, "{scheme}: {report:?}");
        assert!(report.images > 500, "{scheme}: {report:?}");
    }
}

#[test]
fn programs_without_transactions_of_their_own_kind_and_other_machines_lose_nothing() {
    for scheme in schemes() {
        for (program, switch_every, machine) in [
            ("btree", 0, &[("core.threads", "1"), ("core.kind", "inorder")][..]),
            ("array-stream", 0, &[("memory.channels", "2")]),
            ("hash", 3, &[("caches.inclusion", "exclusive")]),
            ("tatp", 0, &[("tlb.page", "4 KiB")]),
        ] {
            let mut campaign = Campaign::small(scheme, program, 2);
            campaign.plan.footprint = 1 << 13;
            campaign.plan.switch_every = switch_every;
            campaign.plan.transactions = 30;
            for (key, value) in machine {
                campaign.machine.set_option(key, value).unwrap();
            }
            campaign.points = Points::Some(120);
            let report = silent(&campaign);
            assert!(report.images > 120 && report.resumed > 0, "{scheme} {program}: {report:?}");
        }
    }
}

/// With few epochs between a line's stores, and with more than tags can tell.
#[test]
fn quarters_of_lines_with_epochs_of_their_own_lose_nothing() {
    let scheme = MachineScheme::all().find(|scheme| scheme.name() == "picl").unwrap();
    for (program, gap, epoch) in [("hash-toggle", 1, 60), ("btree", 0, 10), ("hash", 3, 20)] {
        let mut campaign = Campaign::small(scheme, program, 4);
        campaign.options.put("quarters", 1);
        campaign.options.put("acs_gap", gap);
        campaign.options.put("epoch", epoch);
        campaign.points = Points::Some(150);
        let report = silent(&campaign);
        assert!(report.images > 150 && report.resumed > 0, "{program}: {report:?}");
    }
}

/// A DRAM buffer in front of memory loses what it has in a crash. Behind it undo entries still come before
/// in-place writes, and an epoch's lines before its commit.
#[test]
fn behind_a_dram_buffer_epochs_are_whole_too() {
    for scheme in schemes() {
        for (mode, size, program, changed) in [
            ("write-through", "2 KiB", "hash-toggle", &[][..]),
            ("write-back", "2 KiB", "hash-toggle", &[]),
            ("write-back", "16 KiB", "btree", &[("core.threads", "1"), ("core.kind", "inorder")]),
            ("write-back", "4 KiB", "rbtree-toggle", &[("caches.inclusion", "exclusive")]),
            (
                "write-back",
                "4 KiB",
                "array-stream",
                &[("memory.adr", "false"), ("memory.channels", "2")],
            ),
        ] {
            let mut campaign = Campaign::small(scheme, program, 6);
            campaign.plan.transactions = 40;
            let buffer = [
                ("dram.preset", "ddr4-3200"),
                ("buffer.mode", mode),
                ("buffer.size", size),
                ("buffer.ways", "4"),
            ];
            for (key, value) in buffer.iter().chain(changed) {
                campaign.machine.set_option(key, value).unwrap();
            }
            campaign.points = Points::Some(150);
            let report = silent(&campaign);
            let of = format!("{scheme}, {mode} of {size}, {program}: {report:?}");
            assert!(report.images > 150 && report.resumed > 0, "{of}");
        }
    }
}

#[test]
fn on_address_indirection_epochs_are_whole_too() {
    for scheme in schemes() {
        let mut campaign = Campaign::small(scheme, "hash-toggle", 3);
        campaign.options.put("ait.sets", 1);
        campaign.options.put("ait.ways", 4);
        campaign.points = Points::Some(120);
        let report = silent(&campaign);
        assert!(report.images > 120, "{scheme}: {report:?}");
    }
}

#[test]
fn large_runs_at_a_thousand_points_lose_nothing() {
    for scheme in schemes() {
        let mut campaign = Campaign::small(scheme, "btree-toggle", 1);
        campaign.machine = MachineConfig::named("picl").unwrap();
        for (key, value) in [("llc.size", "32 KiB"), ("l2.size", "16 KiB"), ("l1.size", "8 KiB")] {
            campaign.machine.set_option(key, value).unwrap();
        }
        campaign.plan.footprint = 1 << 18;
        campaign.plan.threads = 2;
        campaign.plan.transactions = 1500;
        campaign.options = scheme.small();
        campaign.options.put("epoch", 2000);
        campaign.options.put("log", 1 << 20);
        campaign.points = Points::Some(1000);
        campaign.second_crash = false;
        campaign.resumes = 1;
        campaign.resumed_points = Points::Some(100);
        let report = silent(&campaign);
        assert!(report.images >= 1000 && report.entries > 5000, "{scheme}: {report:?}");
    }
}
