//! `outlast pool stats`: how full a pool is and what it does, once or again and again.

use std::time::Duration;

use outlast::stats::{Stats, Value};
use serde_json::json;

use super::{FileArgs, StatsArgs, info_of};
use crate::say::{OutputFailed, outln};
use crate::{CommandResult, Verdict};

pub(super) fn stats(args: &StatsArgs, as_json: bool, seed: u64) -> CommandResult {
    loop {
        let (stats, detected) = read(&args.file)?;
        if args.prometheus {
            outln!("{}", stats.to_prometheus().trim_end());
        } else if as_json {
            outln!("{}", crate::document("pool stats", seed, vec![record(&stats, &detected)]));
        } else {
            print(&stats, detected.as_deref())?;
        }
        match args.watch {
            None => return Ok(Verdict::Good),
            Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
        }
        if !as_json {
            outln!("");
        }
    }
}

/// What is known of a pool, and how its domain was detected.
fn read(args: &FileArgs) -> Result<(Stats, Option<String>), Box<dyn std::error::Error>> {
    let (info, recovered) = info_of(args)?;
    let (space, domain) = match &recovered {
        Some(recovered) => (Some(recovered.space), Some(recovered.domain)),
        None => (None, None),
    };
    let mut stats = info.stats(space, domain);
    stats.counters = recovered.as_ref().and_then(|recovered| recovered.counters);
    Ok((stats, recovered.map(|recovered| recovered.detected)))
}

fn print(stats: &Stats, detected: Option<&str>) -> Result<(), OutputFailed> {
    if let Some(detected) = detected {
        outln!("detected        {detected}");
    }
    outln!("{}", stats.to_text().trim_end());
    Ok(())
}

/// Values that have labels are members of one object.
fn record(stats: &Stats, detected: &Option<String>) -> serde_json::Value {
    let mut record = json!({
        "domain": stats.domain.map(|domain| domain.to_string()),
        "promise": stats.domain.map(|domain| domain.promise()),
        "detected": detected,
        "generation": stats.generation,
        "scheme": stats.counters.and_then(|counters| counters.scheme).map(|scheme| scheme.to_string()),
        "space_is_known": stats.space.is_some(),
        "counters_are_known": stats.counters.is_some(),
    });
    for row in stats.rows() {
        let value = match row.value {
            Value::Whole(number) => json!(number),
            Value::Real(number) => json!(number),
        };
        match row.label {
            Some((_, label)) => record[row.name][label] = value,
            None => record[row.name] = value,
        }
    }
    record
}
