//! Table IV: crash tests, as the records of a campaign tell.
//!
//! A record of such a campaign says in its `class` which row it is (`redis_ycsb_a`), has a policy, and counts objects over a hundred crashes: `inconsistent_objects`, `detected`,
//! `uncorrectable`. The paper does not say which of its schemes it crashed; here it is
//! `undo-archapt`. Fewer inconsistent objects meet the claim, and so does none: then there is
//! nothing to detect and nothing to correct.

use super::table4::{PUBLISHED, is_ours};
use crate::papers::claim::{Found, Judgement, Rule};
use crate::record::Record;

const SCHEME: &str = "undo-archapt";

/// Policies: in the names of claims, and as records call them.
const POLICIES: [(&str, &str); 4] =
    [("lru", "lru"), ("pseudo_lru", "plru"), ("bimodal_insertion", "bip"), ("random", "random")];

/// Columns: in the names of claims, and the metric.
const COLUMNS: [(&str, &str); 3] =
    [("i_obj", INCONSISTENT), ("di_obj", "detected"), ("cc_obj", "uncorrectable")];

const INCONSISTENT: &str = "inconsistent_objects";

const NOT_RUN: &str = "Table IV's crash tests did not run";

/// The judgement of a claim about crashes; `id` is without the paper's name.
pub(super) fn judge(id: &str, records: &[Record]) -> Judgement {
    let Some(cell) = id.strip_prefix("table4.") else { return over_all(id, records) };
    let mut parts = cell.split('.');
    let mut name = |table: &[(&str, &'static str)]| {
        let part = parts.next().unwrap_or_default();
        let row = table.iter().find(|(name, _)| *name == part);
        row.unwrap_or_else(|| unreachable!("{part} in the claim {id}")).1
    };
    let rows = PUBLISHED.map(|row| (row.key, row.key));
    let (row, policy, metric) = (name(&rows), name(&POLICIES), name(&COLUMNS));
    let count = |metric| sum(records, metric, |r| is_row(r, row, policy));
    let (Some(value), Some(inconsistent)) = (count(metric), count(INCONSISTENT)) else {
        return Judgement::NotTestable(NOT_RUN.to_owned());
    };
    match metric {
        // All that is inconsistent has to be detected, however little it is.
        "detected" => {
            let note = format!("{value} of {inconsistent} inconsistent objects were detected");
            Judgement::Compared(Found::of(inconsistent - value).noting(&note), Rule::Zero)
        }
        _ => Judgement::Compared(Found::of(value), Rule::AtMost),
    }
}

fn is_row(record: &Record, row: &str, policy: &str) -> bool {
    record.class.as_deref() == Some(row) && record.policy.as_deref() == Some(policy)
}

/// The sum over the chosen records; `None` where there are none.
fn sum(records: &[Record], metric: &str, chosen: impl Fn(&Record) -> bool) -> Option<f64> {
    let values: Vec<f64> = records
        .iter()
        .filter(|r| is_ours(r) && r.scheme == SCHEME && r.metric == metric)
        .filter(|r| r.plant.is_none() && chosen(r))
        .filter_map(|r| r.value)
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Claims about more than one cell.
fn over_all(id: &str, records: &[Record]) -> Judgement {
    let is_published =
        |r: &Record, row: &str| POLICIES.iter().any(|(_, policy)| is_row(r, row, policy));
    let total =
        |metric| sum(records, metric, |r| PUBLISHED.iter().any(|row| is_published(r, row.key)));
    let of_row = |row: &str| sum(records, INCONSISTENT, |r| is_published(r, row));
    let Some((inconsistent, crashes)) = total(INCONSISTENT).zip(total("crash_points")) else {
        return Judgement::NotTestable(NOT_RUN.to_owned());
    };
    let found = Found::of(inconsistent / crashes.max(1.0));
    let nothing = || Judgement::NotTestable("no crash left anything inconsistent".to_owned());
    let share = |metric| match inconsistent > 0.0 {
        true => {
            let share = 100.0 * total(metric).unwrap_or(0.0) / inconsistent;
            Judgement::Compared(Found::of(share), Rule::AtLeast)
        }
        false => nothing(),
    };
    let none = |row| match of_row(row) {
        Some(count) => Judgement::Compared(Found::of(count), Rule::AtMost),
        None => Judgement::NotTestable(NOT_RUN.to_owned()),
    };
    const TENS: &str = "at most a few tens in one section, at most hundreds in another";
    match id {
        "crash.inconsistent_per_crash.text" | "crash.inconsistent_per_crash.vb" => {
            Judgement::Contradictory(Some(found), TENS)
        }
        "crash.detected" => share("detected"),
        "crash.corrected" => share("corrected"),
        "crash.zero.ycsb_b" => none("redis_ycsb_b"),
        "crash.zero.ycsb_d" => none("redis_ycsb_d"),
        "crash.zero.ycsb_e" => none("redis_ycsb_e"),
        _ => unreachable!("no crash test stands for the claim {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::archapt::CLAIMS;
    use crate::record::{Kind, Metric, Verdict};

    fn cell(row: &str, metric: &'static str, value: f64) -> Record {
        let metric = Metric { name: metric, unit: "count" };
        let mut record = Record::new(Kind::Crash, "ycsb-a", SCHEME, metric, value).policy("lru");
        record.paper = Some("archapt".to_owned());
        record.class(row)
    }

    fn verdict(id: &str, records: &[Record]) -> Verdict {
        let claim = CLAIMS.iter().find(|claim| claim.id == format!("archapt.{id}")).unwrap();
        judge(id, records).record("archapt", claim).verdict.unwrap()
    }

    #[test]
    fn every_claim_of_the_table_is_looked_up_and_untested_without_crashes() {
        for claim in CLAIMS.iter().filter(|claim| claim.part == "table4") {
            let record = judge(claim.name(), &[]).record("archapt", claim);
            assert_eq!(record.verdict, Some(Verdict::NotTestable), "{}", claim.id);
        }
    }

    #[test]
    fn fewer_inconsistent_objects_and_all_of_them_detected_meet_the_claims() {
        let records = |inconsistent, detected, uncorrectable| {
            let row = "redis_ycsb_a";
            [
                cell(row, INCONSISTENT, inconsistent),
                cell(row, "detected", detected),
                cell(row, "uncorrectable", uncorrectable),
                cell(row, "corrected", detected - uncorrectable),
                cell(row, "crash_points", 100.0),
            ]
        };
        let verdicts = |records: &[Record]| {
            ["i_obj", "di_obj", "cc_obj"]
                .map(|column| verdict(&format!("table4.redis_ycsb_a.lru.{column}"), records))
        };
        use Verdict::{NotReached, Reached};
        assert_eq!(verdicts(&records(0.0, 0.0, 0.0)), [Reached; 3]);
        assert_eq!(verdicts(&records(901.0, 901.0, 0.0)), [Reached; 3]);
        assert_eq!(verdicts(&records(902.0, 800.0, 1.0)), [NotReached; 3]);
        assert_eq!(verdict("crash.corrected", &records(10.0, 10.0, 0.0)), Reached);
        assert_eq!(verdict("crash.corrected", &records(10.0, 10.0, 1.0)), NotReached);
        assert_eq!(verdict("crash.detected", &records(0.0, 0.0, 0.0)), Verdict::NotTestable);
    }
}
