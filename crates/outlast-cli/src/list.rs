//! `outlast schemes` and `outlast workloads`.

use outlast::scheme::SCHEMES;
use outlast_peers::Pmdk;
use outlast_schemes::MachineScheme;
use outlast_workloads::{Workload, judged_workloads};
use serde_json::json;

use crate::say::outln;
use crate::{CommandResult, Verdict};

/// All schemes that can be asked for by name: ours, the peers', the machine's.
pub fn schemes(as_json: bool, seed: u64) -> CommandResult {
    let missing = Pmdk::available().err().map(|missing| missing.to_string());
    let peer = |name: &'static str, about: &str| {
        let about = match &missing {
            None => about.to_owned(),
            Some(why) => format!("{about} (not here: {why})"),
        };
        (name, "peer", "durable", about)
    };
    let runtime =
        SCHEMES.iter().map(|row| (row.name, "runtime", row.guarantee.name(), row.about.to_owned()));
    let peers = [
        peer("pmdk", "libpmemobj, announced ranges snapshotted: a peer"),
        peer("pmdk-word", "libpmemobj, each 8-byte word snapshotted: a peer"),
    ];
    let machine = MachineScheme::all().map(|scheme| {
        (scheme.name(), "machine", scheme.guarantee().name(), scheme.about().to_owned())
    });
    let rows = runtime.chain(peers).chain(machine);
    if as_json {
        let records: Vec<_> = rows
            .map(|(name, of, guarantee, about)| {
                json!({"scheme": name, "of": of, "guarantee": guarantee, "description": about})
            })
            .collect();
        outln!("{}", crate::document("schemes", seed, records));
    } else {
        for (name, of, guarantee, about) in rows {
            let note = if of == "machine" { " (on the machine)" } else { "" };
            outln!("{name:<20} {guarantee:<8} {about}{note}");
        }
    }
    Ok(Verdict::Good)
}

/// All workloads, each with the scale at which it was published; then those that stand alone.
pub fn workloads(as_json: bool, seed: u64) -> CommandResult {
    let alone = || {
        let rows = outlast_workloads::workloads().iter();
        rows.filter_map(|row| row.stands_alone().map(|why| (row, why)))
    };
    if as_json {
        let record = |workload: &Workload| {
            let published = workload.describe(&workload.scale());
            json!({"workload": workload.name, "of": "runtime", "description": workload.about, "scale": published})
        };
        let of_machine = |(workload, why): (&Workload, &str)| {
            let published = format!("{} MiB", workload.footprint() >> 20);
            json!({
                "workload": workload.name,
                "of": "machine",
                "description": workload.about,
                "scale": published,
                "stands_alone": why,
            })
        };
        let records = judged_workloads().map(record).chain(alone().map(of_machine)).collect();
        outln!("{}", crate::document("workloads", seed, records));
    } else {
        for workload in judged_workloads() {
            outln!("{:<18} {}", workload.name, workload.about);
        }
        let mut why = None;
        for (workload, reason) in alone() {
            if why.replace(reason) != Some(reason) {
                outln!(
                    "\nFor their stores alone, in `bench` and under schemes of the machine: {reason}"
                );
            }
            outln!("{:<18} {}", workload.name, workload.about);
        }
    }
    Ok(Verdict::Good)
}
