//! Random crash campaigns, as records: pools of real size, each replacement policy, crash points
//! by seed.

use std::sync::mpsc;
use std::thread;

use outlast::Scheme;
use outlast_crash::runtime::campaign::{Campaign, CampaignError, CampaignReport, Counts, Failure};
use outlast_workloads::{Layout, Workload};

use crate::native::Size;
use crate::record::{FailedPoint, Kind, Metric, Record};

/// What runs, on how many lanes, and how many first crash points each policy gets in the quick
/// scale: 2,100 in all. A lane that is alone commits in another way than those that share.
const WORKLOADS: [(&str, u16, usize); 5] =
    [("hash", 2, 200), ("btree", 1, 150), ("ycsb-a", 2, 40), ("ycsb-f", 1, 40), ("sps8", 1, 1_670)];

/// Crash points of the other schemes for each of a baseline.
const BASELINE_SHARE: usize = 5;

/// What the full scale runs besides: transactions of many rows, over several trees, and of other
/// structures.
const FULL_WORKLOADS: [(&str, u16, usize); 9] = [
    ("tpcc", 2, 50),
    ("tatp", 2, 50),
    ("array-random", 2, 50),
    ("linkbench", 2, 50),
    ("linkbench-archapt", 1, 50),
    ("oltp-ycsb", 2, 50),
    ("rbtree", 2, 50),
    ("b-tree-zipf", 2, 50),
    ("queue", 2, 50),
];

/// Crash points of the full scale over those of the quick one: 175,000 for each policy and scheme,
/// and with those of recoveries more than a million for each scheme.
const FULL_POINTS: usize = 70;
/// Its windows over those of the quick one: longer windows have more different images.
const FULL_TRANSACTIONS: u32 = 10;

/// The campaigns of these schemes: each workload under each policy, at least 2,000 crash points for
/// each policy and scheme, 100,000 in the full scale, on pools of 10,000 keys. For baselines it is a fifth
/// of that.
pub fn all(schemes: impl Iterator<Item = Scheme>, size: Size, seed: u64) -> Vec<Campaign> {
    let (more_works, more_points, longer) = match size {
        Size::Quick => (&[][..], 1, 1),
        Size::Full => (&FULL_WORKLOADS[..], FULL_POINTS, FULL_TRANSACTIONS),
    };
    let works = || WORKLOADS.iter().chain(more_works);
    schemes
        .flat_map(|scheme| works().map(move |work| planned(*work, scheme, seed)))
        .map(|campaign| Campaign {
            points: campaign.points * more_points,
            transactions: campaign.transactions * longer,
            ..campaign
        })
        .collect()
}

fn planned((name, lanes, points): (&str, u16, usize), scheme: Scheme, seed: u64) -> Campaign {
    let workload = Workload::named(name).expect("a workload of the table");
    let points = if scheme.is_baseline() { points / BASELINE_SHARE } else { points };
    Campaign { lanes, points, seed, ..Campaign::new(workload, scheme) }
}

/// Runs a campaign on other threads and tells on this one how far it is.
///
/// # Errors
/// As [`Campaign::run`].
pub fn run(
    campaign: &Campaign,
    progress: &mut dyn FnMut(u64),
) -> Result<CampaignReport, CampaignError> {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            campaign.run(&|done| {
                // One progress event in sixteen is enough.
                if done.is_multiple_of(16) {
                    let _ = sender.send(done);
                }
            })
        });
        let mut most = 0;
        for done in receiver {
            most = most.max(done);
            progress(most);
        }
        running.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

/// A campaign's counts for each policy. The first failure stands as the reason, with the command
/// that replays it, at the policy where it happened.
pub fn report_records(report: &CampaignReport) -> Vec<Record> {
    let mut records = Vec::new();
    let failed_under = report.failure.as_ref().and_then(Failure::crash).map(|crash| crash.0);
    for (nth, (policy, counts)) in report.policies.iter().enumerate() {
        let mut counts = *counts;
        if nth == 0 {
            counts.add(&report.uncrashed);
        }
        let guilty_here = failed_under.map_or(nth == 0, |under| under == *policy);
        let reason = guilty_here.then(|| reason(report)).flatten();
        let campaign = &report.campaign;
        // Nothing was tried after the first failure, so there is nothing to count.
        let was_run = counts != Counts::default() || report.campaign.part.is_some();
        let metrics = if was_run { 0..5 } else { 0..1 };
        for (metric, value) in values(&counts)[metrics].iter().copied() {
            let record = Record::new(
                Kind::Crash,
                campaign.workload.name,
                campaign.scheme.name(),
                metric,
                value as f64,
            );
            let mut record = record
                .policy(&policy.to_string())
                .threads(u32::from(campaign.lanes))
                .domain(campaign.domain.name())
                .ack(campaign.ack.name())
                .guarantee(&campaign.scheme.guarantee().to_string())
                .config(&config(report));
            record.plant = campaign.plant.map(|plant| plant.to_string());
            if !was_run {
                record = record.class("not run");
            }
            if let Some(reason) = reason.as_ref().filter(|_| metric.is_harm() && value > 0) {
                record = record.reason(reason);
            }
            records.push(record);
        }
    }
    records
}

/// The crash points after which something was wrong.
pub fn failed_points(report: &CampaignReport) -> Vec<FailedPoint> {
    let point = |failure: &Failure| {
        let crash = failure.crash();
        FailedPoint {
            workload: report.campaign.workload.name.to_owned(),
            scheme: report.campaign.scheme.name().to_owned(),
            policy: crash.map(|crash| crash.0.to_string()),
            caches: crash.map(|crash| crash.1.to_string()),
            machine: None,
            crash_op: crash.map(|crash| crash.2.to_string()),
            crash_entry: None,
            resume_entry: None,
            wrong: failure.to_string(),
            replay: report.replay_of(failure).command(),
        }
    };
    report.failures.iter().map(point).collect()
}

/// What went wrong first, and the command that shows it again.
pub fn reason(report: &CampaignReport) -> Option<String> {
    let (failure, replay) = (report.failure.as_ref()?, report.replay()?);
    Some(format!("{failure}; replay: {}", replay.command()))
}

fn values(counts: &Counts) -> [(Metric, u64); 5] {
    [
        (Metric::CRASH_POINTS, counts.crash_points),
        // At every crash point recovery ran on the image, and every key was judged.
        (Metric::IMAGES_VERIFIED, counts.crash_points),
        (Metric::LOST, counts.lost),
        (Metric::TORN, counts.torn + counts.not_closed + counts.garbage),
        (Metric::UNCORRECTABLE, counts.refused + counts.unsound),
    ]
}

fn config(report: &CampaignReport) -> String {
    let Campaign { keys, lanes, transactions, lane_bytes, layout, .. } = &report.campaign;
    let layout = match layout {
        Layout::Plain => String::new(),
        layout => format!(", {layout}"),
    };
    format!(
        "{keys} keys{layout}, {lanes} lanes with {lane_bytes} bytes of log each, {transactions} \
         transactions"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::lab::Plant;
    use outlast::scheme::Site;

    #[test]
    fn a_loss_names_the_command_that_replays_it_where_it_happened() {
        let small = |plant| Campaign {
            keys: 100,
            transactions: 40,
            plant,
            until_failure: plant.is_some(),
            ..planned(("hash", 2, 40), Scheme::Undo, 3)
        };
        let mut told = 0;
        let report = run(&small(None), &mut |done| told = done).unwrap();
        assert!(told > 0);
        let records = report_records(&report);
        assert_eq!(records.len(), 5 * 5);
        assert!(records.iter().all(|r| r.reason.is_none() && r.guarantee.is_some()));
        let plant = Some(Plant::SkipFlush(Site::UndoData));
        let records = report_records(&run(&small(plant), &mut |_| ()).unwrap());
        let reasons: Vec<_> = records.iter().filter_map(|r| r.reason.as_ref()).collect();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        // The failure is under `lru`, the first; nothing is counted of the others.
        let not_run: Vec<_> = records.iter().filter(|r| r.class.is_some()).collect();
        assert_eq!((records.len(), not_run.len()), (5 + 4, 4));
        assert!(not_run.iter().all(|r| r.class.as_deref() == Some("not run")));
        assert!(reasons[0].contains("outlast crash hash --scheme undo --policy lru"));
        assert!(reasons[0].contains("--crash-op"));
    }

    #[test]
    fn the_quick_scale_keeps_its_promise() {
        assert!(WORKLOADS.iter().map(|row| row.2).sum::<usize>() >= 2_000);
    }
}
