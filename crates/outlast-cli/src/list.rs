//! `outlast schemes` and `outlast workloads`.

use outlast::SCHEMES;
use outlast_peers::Pmdk;
use serde_json::json;

use crate::say::outln;
use crate::{CommandResult, Verdict};

/// All schemes that can be asked for by name, ours and the peers'.
pub fn schemes(as_json: bool, seed: u64) -> CommandResult {
    let missing = Pmdk::available().err().map(|missing| missing.to_string());
    let peer = |name: &str, line: &str| {
        let line = match &missing {
            None => line.to_owned(),
            Some(why) => format!("{line} (not here: {why})"),
        };
        (name.to_owned(), "durable".to_owned(), line)
    };
    let mut rows: Vec<(String, String, String)> = SCHEMES
        .iter()
        .map(|row| (row.name.to_owned(), row.guarantee.to_string(), row.about.to_owned()))
        .collect();
    rows.push(peer("pmdk", "libpmemobj, announced ranges snapshotted: a peer"));
    rows.push(peer("pmdk-word", "libpmemobj, each 8-byte word snapshotted: a peer"));
    if as_json {
        let records: Vec<_> = rows
            .iter()
            .map(|(name, guarantee, line)| {
                json!({"scheme": name, "guarantee": guarantee, "description": line})
            })
            .collect();
        outln!("{}", crate::document("schemes", seed, records));
    } else {
        for (name, guarantee, line) in rows {
            outln!("{name:<20} {guarantee:<8} {line}");
        }
    }
    Ok(Verdict::Good)
}

/// All workloads, each with the scale at which it was published.
pub fn workloads(as_json: bool, seed: u64) -> CommandResult {
    let rows = outlast_workloads::workloads();
    if as_json {
        let record = |workload: &outlast_workloads::Workload| {
            let published = workload.describe(&workload.scale());
            json!({"workload": workload.name, "description": workload.about, "scale": published})
        };
        outln!("{}", crate::document("workloads", seed, rows.iter().map(record).collect()));
    } else {
        for workload in rows {
            outln!("{:<18} {}", workload.name, workload.about);
        }
    }
    Ok(Verdict::Good)
}
