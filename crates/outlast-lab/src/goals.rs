//! The project's own goals, held against what was measured, and what makes a run a failure.

use std::hint::black_box;

use outlast::Scheme;
use outlast::scheme::Guarantee;

use crate::clock::ThreadStopwatch;
use crate::crash::RATE_SCOPE;
use crate::native::PEERS;
use crate::record::{Kind, Metric, Record, Verdict};

/// Whose goals these are.
pub const OURS: &str = "outlast";

/// On which workloads the cost of persistence has a goal.
pub(crate) const COST_WORKLOADS: [&str; 6] = ["ycsb-a", "ycsb-f", "sps1", "sps8", "hash", "btree"];

/// The cost of each scheme relative to the better peer, at most.
const COST_RATIOS_MAX: [(&str, f64); 2] = [("undo", 0.6), ("redo", 0.45)];

/// A cost that is no more than this over what its own flushes and fences take on this machine has reached
/// its goal as well: no scheme goes below the floor, which a slower machine has higher up.
const FLOOR_RATIO_MAX: f64 = 1.5;

/// Images recovered and judged for each page of 4 KiB that the same core sums byte by byte, at least: 300 000
/// a second where a core sums 190 000 pages.
const VERIFIED_OVER_PAGES_MIN: f64 = 1.6;

/// Each goal about which something was measured, as a judged claim.
pub fn judge(records: &[Record]) -> Vec<Record> {
    let mut goals = costs(records);
    goals.extend(rates(records));
    goals.extend(losses(records));
    goals.extend(planted(records));
    goals
}

fn costs(records: &[Record]) -> Vec<Record> {
    let metric = Metric::PERSISTENCE_COST_RATIO;
    let mut goals = Vec::new();
    for (scheme, most) in COST_RATIOS_MAX {
        for workload in COST_WORKLOADS {
            let claim = format!(
                "cost of persistence ≤ {most} × the better peer's, or {FLOOR_RATIO_MAX} × its floor here"
            );
            let goal = Record::claim(OURS, &claim, workload, scheme, metric);
            if let Some((record, value)) =
                measured(records, workload, scheme, metric).and_then(|r| Some((r, r.value?)))
            {
                let floor = floor_ratio(records, workload, scheme, value).unwrap_or(0.0);
                let allowed = most.max(FLOOR_RATIO_MAX * floor);
                let reason = missed_by(records, workload, scheme, allowed, value);
                let mut goal = goal.judged(allowed, value, value <= allowed, &reason);
                (goal.p25, goal.p75) = (record.p25, record.p75);
                (goal.rounds, goal.threads) = (record.rounds, record.threads);
                goals.push(goal);
            } else if peer_is_free(records, workload) {
                let mut goal = goal.verdict(Verdict::NotReached);
                goal.paper_value = Some(most);
                goals.push(goal.reason("the better peer took no longer than none"));
            }
        }
    }
    goals
}

/// What a scheme's own flushes and fences take on this machine, over the better peer's cost.
fn floor_ratio(records: &[Record], workload: &str, scheme: &str, ratio: f64) -> Option<f64> {
    let of = |metric| measured(records, workload, scheme, metric)?.value;
    Some(of(Metric::FLOOR_PREDICTED)? * ratio / of(Metric::PERSISTENCE_COST)?)
        .filter(|ratio| ratio.is_finite())
}

/// Why a cost misses its goal, as far as the measurements tell.
fn missed_by(records: &[Record], workload: &str, scheme: &str, most: f64, ratio: f64) -> String {
    let cost = |scheme| measured(records, workload, scheme, Metric::PERSISTENCE_COST)?.value;
    let floor = measured(records, workload, scheme, Metric::FLOOR_PREDICTED).and_then(|r| r.value);
    let (Some(cost), Some(floor)) = (cost(scheme), floor) else {
        return "the floor was not measured".to_owned();
    };
    let allowed = cost * most / ratio;
    let bound = if floor > allowed {
        "its flushes and fences alone take longer here"
    } else {
        "its flushes and fences alone would fit"
    };
    format!("{allowed:.0} ns were allowed; {bound}: {floor:.0} ns of {cost:.0}")
}

fn measured<'a>(
    records: &'a [Record],
    workload: &str,
    scheme: &str,
    metric: Metric,
) -> Option<&'a Record> {
    let wanted = |r: &&Record| {
        r.kind == Kind::Native && r.is(metric) && r.workload == workload && r.scheme == scheme
    };
    records.iter().find(wanted)
}

/// Whether a peer competed and had no cost that others could be related to.
fn peer_is_free(records: &[Record], workload: &str) -> bool {
    let cost = |peer| measured(records, workload, peer, Metric::PERSISTENCE_COST)?.value;
    PEERS.into_iter().filter_map(cost).any(|cost| cost <= 0.0)
}

fn rates(records: &[Record]) -> Vec<Record> {
    let metric = Metric::VERIFY_RATE;
    let on_words =
        |r: &&Record| r.kind == Kind::Crash && r.is(metric) && r.workload.starts_with(RATE_SCOPE);
    let pages = records.iter().find(|record| record.is(Metric::PAGES_SUMMED));
    let Some(pages) = pages.and_then(|record| record.value).filter(|pages| *pages > 0.0) else {
        return Vec::new();
    };
    let goal = |record: &Record| {
        let value = record.value? / pages;
        let claim =
            "images recovered and judged for each page of 4 KiB summed by the same core ≥ 1.6";
        let reason = format!("{:.0} images a second, {pages:.0} pages", record.value?);
        let metric = Metric::VERIFIED_OVER_PAGES;
        let goal = Record::claim(OURS, claim, &record.workload, &record.scheme, metric);
        let most = VERIFIED_OVER_PAGES_MIN;
        Some(goal.judged(most, value, value >= most, &reason))
    };
    records.iter().filter(on_words).filter_map(goal).collect()
}

/// Pages of 4 KiB that a core of this machine sums in a second, a byte at a time (FNV-1a): the yardstick of
/// the checker's rate, by the CPU time of this thread; the best of some rounds.
pub(crate) fn pages_summed() -> Option<Record> {
    const PAGE: [u8; 4096] = [0x5a; 4096];
    const PAGES: u32 = 200;
    let round = || {
        let watch = ThreadStopwatch::new();
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for _ in 0..PAGES {
            for byte in black_box(&PAGE) {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        black_box(sum);
        watch.elapsed().map(|time| f64::from(PAGES) / time.as_secs_f64().max(1e-9))
    };
    let best = (0..5).filter_map(|_| round()).max_by(f64::total_cmp)?;
    let (metric, kind) = (Metric::PAGES_SUMMED, Kind::Native);
    Some(Record::new(kind, "this machine", "fnv-1a", metric, best))
}

fn losses(records: &[Record]) -> Vec<Record> {
    let mut goals = Vec::new();
    for (metric, claim) in [
        (Metric::LOST, "no acknowledged transaction lost"),
        (Metric::TORN, "no transaction in part"),
        (Metric::UNCORRECTABLE, "every image recovered"),
    ] {
        for scheme in schemes(records, metric) {
            let mine = |r: &&Record| whole(r, metric) && r.scheme == scheme;
            let value: f64 = records.iter().filter(mine).filter_map(|r| r.value).sum();
            let images = records
                .iter()
                .filter(|r| whole(r, Metric::IMAGES_VERIFIED) && r.scheme == scheme)
                .filter_map(|r| r.value)
                .sum::<f64>();
            let work = format!("{} images", crate::format::grouped(images as u64));
            let goal = Record::claim(OURS, claim, &work, &scheme, metric);
            goals.push(goal.judged(0.0, value, value == 0.0, "see the crashes below"));
        }
    }
    goals
}

fn planted(records: &[Record]) -> Vec<Record> {
    let total = |metric, scheme: &str| {
        records.iter().find(|r| whole(r, metric) && r.scheme == scheme)?.value
    };
    let goal = |scheme: String| {
        let (killed, all) =
            (total(Metric::PLANTED_KILLED, &scheme)?, total(Metric::PLANTED_TOTAL, &scheme)?);
        let claim = "every planted bug caught";
        let goal = Record::claim(OURS, claim, "planted bugs", &scheme, Metric::PLANTED_KILLED);
        Some(goal.judged(all, killed, killed == all, "some survived; see the planted bugs below"))
    };
    schemes(records, Metric::PLANTED_TOTAL).into_iter().filter_map(goal).collect()
}

/// Whether this is a metric of a whole search or campaign, and not of a planted bug.
pub(crate) fn whole(record: &Record, metric: Metric) -> bool {
    record.kind == Kind::Crash && record.plant.is_none() && record.is(metric)
}

/// The durable schemes that have the metric, in order of appearance.
fn schemes(records: &[Record], metric: Metric) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for record in records.iter().filter(|r| whole(r, metric) && promises(r)) {
        if !names.contains(&record.scheme) {
            names.push(record.scheme.clone());
        }
    }
    names
}

/// Whether the record's scheme promises to lose nothing. What a paper claims is no promise of ours.
pub(crate) fn promises(record: &Record) -> bool {
    match &record.guarantee {
        Some(guarantee) => *guarantee == Guarantee::Durable.to_string(),
        None => {
            let scheme = record.scheme.parse::<Scheme>();
            !scheme.is_ok_and(|scheme| scheme.guarantee() != Guarantee::Durable)
        }
    }
}

/// What must not happen in any run, one line each: a scheme lost what it promised to keep, a
/// planted bug survived, a sound control was flagged.
pub fn faults(records: &[Record]) -> Vec<String> {
    let mut faults = Vec::new();
    for record in records.iter().filter(|r| r.kind == Kind::Crash) {
        let Record { scheme, workload, .. } = record;
        let value = record.value.unwrap_or(0.0);
        let reason = record.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        match &record.plant {
            None if Metric::HARM.iter().any(|m| record.is(*m))
                && value > 0.0
                && promises(record) =>
            {
                faults.push(format!("{scheme}, {workload}: {} {value}{reason}", record.metric));
            }
            Some(plant) if record.is(Metric::PLANTED_KILLED) && value == 0.0 => {
                faults.push(format!("{plant} survived in {scheme}"));
            }
            Some(plant) if record.is(Metric::CONTROL_FLAGGED) && value > 0.0 => {
                faults.push(format!("{plant} is sound and was flagged in {scheme}{reason}"));
            }
            _ => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(scheme: &str, metric: Metric, value: f64) -> Record {
        Record::new(Kind::Crash, "words", scheme, metric, value)
    }

    #[test]
    fn goals_are_judged_by_what_was_measured() {
        let cost = |scheme: &str, value| {
            let metric = Metric::PERSISTENCE_COST_RATIO;
            Record::new(Kind::Native, "sps1", scheme, metric, value)
        };
        let mut records = vec![
            cost("undo", 0.6),
            cost("redo", 0.46),
            crash("undo", Metric::VERIFY_RATE, 299_999.0),
            crash("undo", Metric::LOST, 0.0),
            crash("undo", Metric::PLANTED_KILLED, 5.0),
            crash("undo", Metric::PLANTED_TOTAL, 5.0),
        ];
        let verdicts = |records: &[Record]| -> Vec<bool> {
            judge(records).iter().map(|g| g.verdict == Some(Verdict::Reached)).collect()
        };
        assert_eq!(verdicts(&records), [true, false, true, true], "without a yardstick no rate");
        let pages = |value| Record::new(Kind::Native, "m", "s", Metric::PAGES_SUMMED, value);
        records.push(pages(200_000.0));
        assert_eq!(verdicts(&records), [true, false, false, true, true]);
        // On a machine of half the speed half of the rate is as good.
        *records.last_mut().unwrap() = pages(100_000.0);
        records[3].value = Some(1.0);
        records[4].value = Some(4.0);
        assert_eq!(verdicts(&records), [true, false, true, false, false]);
        assert!(judge(&[]).is_empty());
        let free = |ns| [Record::new(Kind::Native, "sps1", "pmdk", Metric::PERSISTENCE_COST, ns)];
        assert_eq!(verdicts(&free(-5.0)), [false, false], "nothing beats a peer without a cost");
        assert!(judge(&free(5.0)).is_empty());
    }

    /// A machine on which every flush takes twice as long turns no goal red: peer and scheme come nearer to
    /// each other, and the scheme is as near to its floor as before.
    #[test]
    fn a_slower_machine_misses_no_goal_that_a_faster_one_reaches() {
        let on = |flush: f64| {
            // The peer has 400 ns of instructions and one flush, the scheme 60 ns and one.
            let (peer, own) = (400.0 + flush, 60.0 + flush);
            let record = |metric, value| Record::new(Kind::Native, "sps1", "redo", metric, value);
            let records = [
                record(Metric::PERSISTENCE_COST, own),
                record(Metric::PERSISTENCE_COST_RATIO, own / peer),
                record(Metric::FLOOR_PREDICTED, flush),
            ];
            judge(&records)[0].verdict
        };
        for flush in [100.0, 200.0, 400.0, 1600.0] {
            assert_eq!(on(flush), Some(Verdict::Reached), "{flush} ns a flush");
        }
    }

    #[test]
    fn faults_are_losses_survivors_and_flagged_controls() {
        let sound = [
            crash("undo", Metric::LOST, 0.0),
            crash("none", Metric::LOST, 9.0),
            crash("undo", Metric::PLANTED_KILLED, 1.0).plant("skip"),
            crash("undo", Metric::CONTROL_FLAGGED, 0.0).plant("control"),
            // A planted bug makes the scheme lose, as it should.
            crash("undo", Metric::LOST, 3.0).plant("skip"),
        ];
        assert_eq!(faults(&sound), [""; 0]);
        let unsound = [
            crash("undo", Metric::TORN, 2.0).reason("half a word"),
            crash("redo", Metric::PLANTED_KILLED, 0.0).plant("skip"),
            crash("redo", Metric::CONTROL_FLAGGED, 1.0).plant("control"),
        ];
        assert_eq!(
            faults(&unsound),
            [
                "undo, words: torn 2: half a word",
                "skip survived in redo",
                "control is sound and was flagged in redo",
            ]
        );
    }
}
