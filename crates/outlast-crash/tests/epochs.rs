//! Checkpoint schemes, crashed after every entry of small runs, in their recoveries, and again when the
//! program has gone on.

#![cfg(not(miri))]

use outlast_crash::machine::{Campaign, Report};
use outlast_schemes::{MachineScheme, plants};

fn run(campaign: &Campaign) -> Report {
    campaign.run().unwrap_or_else(|error| panic!("{}: {error}", campaign.command(None)))
}

#[test]
fn tmp_small() {
    let names = std::env::var("S").unwrap_or("picl".into());
    for name in names.split(',') {
        let scheme: MachineScheme = name.parse().unwrap();
        for bench in ["hash-toggle", "rbtree-toggle", "sps-string"] {
            let campaign = Campaign::small(scheme, bench, 1);
            let at = std::time::Instant::now();
            let report = run(&campaign);
            println!("{scheme} {bench} {report:?} {:?}", at.elapsed());
        }
    }
}

#[test]
fn tmp_plants() {
    let names = std::env::var("P").unwrap();
    for plant in plants() {
        if !names.split(',').any(|name| plant.name == name) {
            continue;
        }
        for seed in 1..4 {
            let mut campaign = Campaign::showing(plant, seed);
            if let Ok(set) = std::env::var("O") {
                for (key, value) in set.split(',').map(|pair| pair.split_once('=').unwrap()) {
                    campaign.options.put(key.to_owned().leak(), value.parse().unwrap());
                }
            }
            let at = std::time::Instant::now();
            let report = run(&campaign);
            println!("{} {seed} {:?} {:?}", plant.name, report, at.elapsed());
            let clean = Campaign { plant: None, second_crash: false, ..campaign };
            let report = run(&clean);
            assert!(!report.is_guilty(), "{} {report:?}", plant.name);
        }
    }
}
