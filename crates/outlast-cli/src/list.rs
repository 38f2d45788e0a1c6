//! `outlast schemes` and `outlast workloads`.

use outlast::SCHEMES;
use outlast_peers::Pmdk;
use outlast_schemes::MachineScheme;
use outlast_workloads::Workload;
use outlast_workloads::machine::{BareWorkload, bare_workloads};
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

/// All workloads, each with the scale at which it was published; then those that only the machine
/// runs.
pub fn workloads(as_json: bool, seed: u64) -> CommandResult {
    let rows = outlast_workloads::workloads();
    let of_machine = || bare_workloads().iter().filter(|row| Workload::named(row.name).is_none());
    if as_json {
        let record = |workload: &Workload| {
            let published = workload.describe(&workload.scale());
            json!({"workload": workload.name, "of": "runtime", "description": workload.about, "scale": published})
        };
        let bare = |workload: &BareWorkload| {
            let published = format!("{} MiB", workload.footprint >> 20);
            json!({"workload": workload.name, "of": "machine", "description": workload.about, "scale": published})
        };
        let records = rows.iter().map(record).chain(of_machine().map(bare)).collect();
        outln!("{}", crate::document("workloads", seed, records));
    } else {
        for workload in rows {
            outln!("{:<18} {}", workload.name, workload.about);
        }
        for workload in of_machine() {
            outln!("{:<18} {} (on the machine)", workload.name, workload.about);
        }
    }
    Ok(Verdict::Good)
}
