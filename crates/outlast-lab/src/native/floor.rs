//! The floor of this machine, and how far from it each scheme stands.
//!
//! A transaction that flushes `L` lines, streams `S` and fences `N` times, all on average, waits
//! `N` times for `L / N` and `S / N` lines. The floor's prediction is
//! `N · max(f(L / N), s(S / N))`, where `s(n)` is the median time of `n` streamed lines and one
//! fence, and `f(n)` that of `n` flushed lines by the pattern that is cheapest for them:
//! `f(0) = 0`, straight lines between whole numbers, and beyond the largest number measured as
//! much for each further line as for the last ones. The distance is the measured cost of
//! persistence divided by the prediction. The cost also holds what the floor knows nothing of: making log records,
//! locks, looking things up; and the prediction does not know which lines were cached.

use outlast_pmem::{FLOOR_LINES_MAX, FloorOptions, FloorReport, FloorRow, Pattern, measure_floor};

use super::directory::PoolDirectory;
use super::{NativeError, Setup, Size};
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};

/// Far larger than caches, so that far lines are far.
const MEDIUM_BYTES: u64 = 256 << 20;

/// How often every pattern runs with every number of lines.
pub fn options(size: Size, seed: u64) -> FloorOptions {
    FloorOptions { rounds: if size == Size::Quick { 250 } else { 1000 }, seed }
}

/// Measures the floor where the setup's pools would lie.
///
/// # Errors
/// When there is no room for the medium.
pub fn measure(
    setup: &Setup,
    options: &FloorOptions,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let directory = PoolDirectory::new(setup)?;
    listen(Progress::Note(&format!("floor: domain {}", directory.description())));
    let medium = directory.mapped("floor", MEDIUM_BYTES)?;
    let report = measure_floor(&medium, options, |done, total| {
        listen(Progress::Step { stage: "floor", done: done as u64, total: total as u64 });
    });
    Ok(records(&report, directory.short_description()))
}

fn records(report: &FloorReport, domain: &str) -> Vec<Record> {
    let config = format!("{} samples each", report.samples);
    let record = |row: &FloorRow| {
        let name = row.pattern.name();
        let mut record = Record::new(Kind::Native, "floor", name, Metric::FLOOR, row.p50_ns as f64)
            .lines(row.lines as u32)
            .domain(domain)
            .config(&config);
        record.p25 = Some(row.p25_ns as f64);
        record.p75 = Some(row.p75_ns as f64);
        record
    };
    report.rows.iter().map(record).collect()
}

/// What the floor predicts for each workload and scheme that was counted, and how far its cost
/// is from that; of records of [`measure`] and of [`run`](super::run).
pub fn distances(records: &[Record]) -> Vec<Record> {
    let Some(floor) = Floor::of(records) else { return Vec::new() };
    let counted = records.iter().filter(|record| record.is(Metric::FENCES));
    counted.flat_map(|fences| distance(records, &floor, fences)).collect()
}

fn distance(records: &[Record], floor: &Floor, fences: &Record) -> Vec<Record> {
    let of = |metric| {
        let mine = |r: &&Record| {
            r.is(metric) && r.workload == fences.workload && r.scheme == fences.scheme
        };
        records.iter().find(mine)?.value
    };
    let lines = |metric| of(metric).unwrap_or(0.0);
    let (flushed, streamed) = (lines(Metric::FLUSHED_LINES), lines(Metric::STREAMED_LINES));
    let predicted = floor.predict(flushed, streamed, fences.value.unwrap_or(0.0));
    // A workload that only reads has nothing to make durable.
    if predicted < 1.0 {
        return Vec::new();
    }
    let record = |metric, value| {
        let mut record = Record::new(Kind::Native, &fences.workload, &fences.scheme, metric, value);
        (record.domain, record.threads) = (fences.domain.clone(), fences.threads);
        record
    };
    let mut found = vec![record(Metric::FLOOR_PREDICTED, predicted)];
    // A cost that is lost in the noise is at no distance from anything.
    if let Some(cost) = of(Metric::PERSISTENCE_COST).filter(|cost| *cost > 0.0) {
        found.push(record(Metric::FLOOR_DISTANCE, cost / predicted));
    }
    found
}

/// What lines and one fence take.
struct Floor {
    flushed: Curve,
    streamed: Curve,
}

impl Floor {
    fn of(records: &[Record]) -> Option<Self> {
        let streams = |row: &Record| row.scheme == Pattern::Streamed.name();
        Some(Self {
            flushed: Curve::of(records, |row| !streams(row))?,
            streamed: Curve::of(records, streams)?,
        })
    }

    fn predict(&self, flushed: f64, streamed: f64, fences: f64) -> f64 {
        if fences <= 0.0 {
            return 0.0;
        }
        fences * self.flushed.at(flushed / fences).max(self.streamed.at(streamed / fences))
    }
}

/// The cheapest time of 0, 1, 2, … lines and one fence, in nanoseconds.
struct Curve {
    ns: Vec<f64>,
}

impl Curve {
    fn of(records: &[Record], wanted: impl Fn(&Record) -> bool) -> Option<Self> {
        let mut ns = vec![0.0];
        for lines in 1..=FLOOR_LINES_MAX as u32 {
            let rows = records.iter().filter(|r| r.is(Metric::FLOOR) && r.lines == Some(lines));
            let values = rows.filter(|row| wanted(row)).filter_map(|row| row.value);
            // A slow moment must not make more lines cheaper than fewer.
            ns.push(values.min_by(f64::total_cmp)?.max(ns[ns.len() - 1]));
        }
        Some(Self { ns })
    }

    fn at(&self, lines: f64) -> f64 {
        let last = self.ns.len() - 1;
        let below = (lines as usize).min(last - 1);
        // The last four rows give a steadier slope than the last two.
        let beyond = (self.ns[last] - self.ns[last - 4]) / 4.0;
        match lines > last as f64 {
            true => self.ns[last] + beyond * (lines - last as f64),
            false => {
                self.ns[below] + (self.ns[below + 1] - self.ns[below]) * (lines - below as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Record> {
        let row = |pattern: &str, lines: u32, ns: f64| {
            Record::new(Kind::Native, "floor", pattern, Metric::FLOOR, ns).lines(lines)
        };
        let all = 1..=FLOOR_LINES_MAX as u32;
        all.flat_map(|n| {
            let n_ns = f64::from(n);
            [row("dear", n, 500.0), row("cheap", n, 100.0 + 10.0 * n_ns), row("streamed", n, 90.0)]
        })
        .collect()
    }

    #[test]
    fn predictions_follow_the_cheapest_pattern() {
        let floor = Floor::of(&rows()).unwrap();
        assert_eq!(floor.predict(2.0, 0.0, 1.0), 120.0);
        assert_eq!(floor.predict(5.0, 0.0, 2.0), 2.0 * 125.0, "half-way between two rows");
        assert_eq!(floor.predict(0.5, 0.0, 1.0), 55.0);
        assert_eq!(floor.predict(20.0, 0.0, 1.0), 300.0, "beyond the rows");
        assert_eq!(floor.predict(3.0, 0.0, 0.0), 0.0, "nothing waits without a fence");
        assert_eq!(floor.predict(0.0, 2.0, 1.0), 90.0, "streamed only");
        assert_eq!(floor.predict(1.0, 2.0, 1.0), 110.0, "what takes longer decides");
    }

    #[test]
    fn distances_are_costs_over_predictions_and_need_a_floor() {
        let of = |metric, value| Record::new(Kind::Native, "sps1", "undo", metric, value);
        let measured = [
            of(Metric::FENCES, 1.0),
            of(Metric::FLUSHED_LINES, 2.0),
            of(Metric::STREAMED_LINES, 1.0),
            of(Metric::PERSISTENCE_COST, 300.0),
        ];
        assert_eq!(distances(&measured), []);
        let all: Vec<_> = rows().into_iter().chain(measured).collect();
        let found = distances(&all);
        assert_eq!(found[0].value, Some(120.0));
        assert_eq!((found[1].metric.as_str(), found[1].value), ("floor_distance", Some(2.5)));
    }
}
