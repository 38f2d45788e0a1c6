//! The answer that a report opens with: up to five sentences and one figure, from records alone.
//!
//! Terminal and page show the same [`Answer`]. A sentence whose values were not measured is left
//! out. Ratios are geometric means over the works that every scheme of the comparison ran, so that
//! no scheme is judged by work that another one was spared.
//!
//! - `advice` says which scheme suits which situation, by the same records.

mod advice;

pub use advice::Advice;

use outlast::Scheme;
use outlast_measure::middle;

use crate::compare::of_guarantee;
use crate::format::{grouped, significant};
use crate::goals::{self, OURS, promises};
use crate::native::PEERS;
use crate::papers;
use crate::pivot::{Grid, work};
use crate::plot::{Bar, Panel, bars, palette};
use crate::record::{Document, Kind, Metric, Record, Verdict};

/// What promises nothing on the real processor.
const UNPROTECTED: &str = "none";

/// The opening of a report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    /// Whole sentences; code words stand between backquotes.
    pub sentences: Vec<String>,
    /// The figure's bars, the fastest first.
    pub speeds: Vec<Speed>,
    /// The scheme whose speed is 1.
    pub base: String,
    /// Over how many works the means go.
    pub works: usize,
    /// Which scheme to choose for which situation.
    pub advice: Vec<Advice>,
}

/// A scheme's throughput over that of another one.
#[derive(Clone, PartialEq, Debug)]
pub struct Speed {
    /// The scheme.
    pub scheme: String,
    /// What it guarantees about a crash.
    pub guarantee: String,
    /// Geometric mean of the ratios.
    pub mean: f64,
    /// The lowest ratio and its work.
    pub lowest: (f64, String),
    /// The highest ratio and its work.
    pub highest: (f64, String),
}

impl Speed {
    fn is_durable(&self) -> bool {
        self.guarantee == "durable"
    }
}

impl Answer {
    /// The answer of a report's document.
    pub fn of(document: &Document) -> Self {
        let (papers, own) = papers::split(document);
        let papers: Vec<&Record> =
            papers.iter().flat_map(|(_, document)| &document.records).collect();
        let native = Grid::of_metric(&own.records, Kind::Native, Metric::THROUGHPUT);
        let base = PEERS.into_iter().chain([UNPROTECTED]).find(|name| has(&native, name));
        let base = base.unwrap_or_default().to_owned();
        let speeds = speeds(&native, &base, native_guarantee);
        let sentences = [
            fastest(&speeds, &base),
            cost(&own.records, &speeds, &native),
            hardware(&document.compared),
            crashes(&own.records),
            not_reached(own.records.iter().chain(papers.iter().copied())),
        ];
        let sentences = sentences.into_iter().flatten().collect();
        let works = shared_rows(&native).len();
        let advice = advice::of(document, &own.records, &speeds, &base);
        Self { sentences, speeds, base, works, advice }
    }

    /// The figure: one bar a scheme.
    pub fn figure(&self) -> String {
        if self.speeds.is_empty() {
            return String::new();
        }
        let bar = |speed: &Speed| Bar {
            label: format!("{} ({})", speed.scheme, speed.guarantee),
            segments: vec![(speed.mean, palette::scheme(&speed.scheme))],
            whisker: None,
        };
        let bars_of_all = self.speeds.iter().map(bar).collect();
        let panel = Panel { title: self.caption(), bars: bars_of_all };
        bars("Throughput by scheme, with its guarantee", "×", &[panel], &[])
    }

    /// What the figure shows, in one line.
    pub fn caption(&self) -> String {
        format!("Throughput, × {} (mean of {} works)", self.base, self.works)
    }
}

fn has(grid: &Grid<'_>, scheme: &str) -> bool {
    grid.columns.iter().any(|column| column == scheme)
}

/// What a scheme of the native competition guarantees. Peers are transactional and durable.
fn native_guarantee(scheme: &str) -> String {
    match scheme.parse::<Scheme>() {
        Ok(scheme) => scheme.guarantee().to_string(),
        Err(_) if PEERS.contains(&scheme) => "durable".to_owned(),
        Err(_) => "none".to_owned(),
    }
}

/// The rows in which every column has a value.
fn shared_rows<'g>(grid: &'g Grid<'_>) -> Vec<&'g String> {
    let whole = |row: &&String| grid.columns.iter().all(|name| grid.value(row, name).is_some());
    grid.rows.iter().filter(whole).collect()
}

/// Each column over the base, the fastest first.
fn speeds(grid: &Grid<'_>, base: &str, guarantee: impl Fn(&str) -> String) -> Vec<Speed> {
    let rows = shared_rows(grid);
    let of = |scheme: &String| {
        let ratio = |row: &&String| {
            let ratio = grid.value(row, scheme)? / grid.value(row, base)?;
            (ratio.is_finite() && ratio > 0.0).then(|| (ratio, (*row).clone()))
        };
        let ratios: Vec<(f64, String)> = rows.iter().filter_map(ratio).collect();
        let by = |a: &&(f64, String), b: &&(f64, String)| a.0.total_cmp(&b.0);
        Some(Speed {
            scheme: scheme.clone(),
            guarantee: guarantee(scheme),
            mean: geometric_mean(ratios.iter().map(|(ratio, _)| *ratio))?,
            lowest: ratios.iter().min_by(by)?.clone(),
            highest: ratios.iter().max_by(by)?.clone(),
        })
    };
    let mut speeds: Vec<Speed> = grid.columns.iter().filter_map(of).collect();
    speeds.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    speeds
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn fastest(speeds: &[Speed], base: &str) -> Option<String> {
    let best = speeds.iter().find(|speed| speed.is_durable() && !is_peer(&speed.scheme))?;
    let Speed { scheme, mean, lowest, highest, .. } = best;
    Some(format!(
        "Durable and fastest on this machine: `{scheme}`, {} times the throughput of `{base}` \
         ({} on {} to {} on {}).",
        significant(*mean),
        significant(lowest.0),
        lowest.1,
        significant(highest.0),
        highest.1,
    ))
}

fn is_peer(scheme: &str) -> bool {
    PEERS.contains(&scheme)
}

/// What the fastest durable scheme costs beyond no persistence.
fn cost(records: &[Record], speeds: &[Speed], native: &Grid<'_>) -> Option<String> {
    let best = speeds.iter().find(|speed| speed.is_durable() && !is_peer(&speed.scheme))?;
    let unprotected = Some(UNPROTECTED).filter(|name| has(native, name))?;
    let beside = speeds.iter().find(|speed| speed.scheme == unprotected)?;
    let costs = Grid::of_metric(records, Kind::Native, Metric::PERSISTENCE_COST);
    let mut costs: Vec<(f64, &String)> =
        costs.rows.iter().filter_map(|row| Some((costs.value(row, &best.scheme)?, row))).collect();
    let median = middle(&mut costs, |cost| cost.0).map(|cost| cost.0);
    let mut text = format!(
        "It keeps {:.0} % of the throughput of `{unprotected}`, which survives no crash",
        100.0 * best.mean / beside.mean
    );
    if let (Some(median), Some((most, work))) = (median, costs.last()) {
        text += &format!(
            "; a transaction takes {median:.0} ns more (median), {most:.0} at most ({work})"
        );
    }
    Some(text + ".")
}

/// What is compared of schemes of the timed machine, in the order in which it is told.
const GUARANTEES: [&str; 4] = ["durable", "epoch", "buffered", "replay"];

/// The families of the timed machine: of each guarantee the fastest.
fn hardware(compared: &[Record]) -> Option<String> {
    let of = |guarantee: &str| {
        let speeds = of_guarantee(compared, guarantee);
        let (best, scheme) = *speeds.first()?;
        let mut told = format!("{guarantee} {:.0} % (`{scheme}`", 100.0 * best);
        if let Some((least, slowest)) = speeds.last().filter(|_| speeds.len() > 2) {
            told +=
                &format!("; the slowest of {}, `{slowest}`, {:.0} %", speeds.len(), 100.0 * least);
        }
        Some(told + ")")
    };
    let told: Vec<String> = GUARANTEES.iter().filter_map(|guarantee| of(guarantee)).collect();
    let work = &compared.iter().find(|record| record.is(Metric::SPEED_OVER_PLAIN))?.workload;
    (!told.is_empty()).then(|| {
        format!(
            "Best simulated hardware per guarantee, throughput against plain memory on `{work}`: {}.",
            told.join(", ")
        )
    })
}

fn crashes(records: &[Record]) -> Option<String> {
    let durable = |metric| total(records.iter().filter(|r| promises(r)), metric);
    let (points, images) =
        (durable(Metric::CRASH_POINTS)?, durable(Metric::IMAGES_VERIFIED).unwrap_or(0));
    let count = |metric| durable(metric).unwrap_or(0);
    let mut text = format!(
        "{} images of {} crash points were recovered by the production code and judged: {} \
         acknowledged transactions lost, {} found in part, {} images beyond repair",
        grouped(images),
        grouped(points),
        grouped(count(Metric::LOST)),
        grouped(count(Metric::TORN)),
        grouped(count(Metric::UNCORRECTABLE)),
    );
    let all = |metric| total(records.iter(), metric);
    if let (Some(killed), Some(planted)) = (all(Metric::PLANTED_KILLED), all(Metric::PLANTED_TOTAL))
    {
        text += &format!("; {killed} of {planted} planted bugs were caught");
    }
    Some(text + ".")
}

fn not_reached<'a>(records: impl Iterator<Item = &'a Record>) -> Option<String> {
    let judged: Vec<&Record> = records
        .filter(|record| record.kind == Kind::Claim)
        .filter(|r| matches!(r.verdict, Some(Verdict::Reached | Verdict::NotReached)))
        .collect();
    let (own, papers): (Vec<&Record>, Vec<&Record>) = judged.iter().partition(|r| is_own(r));
    let part = |claims: &[&Record], what: &str| {
        let missed = claims.iter().filter(|r| r.verdict == Some(Verdict::NotReached)).count();
        (!claims.is_empty()).then(|| format!("{missed} of {} {what}", claims.len()))
    };
    let parts: Vec<String> = [part(&own, "own goals"), part(&papers, "claims of papers")]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        return None;
    }
    let missed = own.iter().filter(|r| r.verdict == Some(Verdict::NotReached));
    let far = |claim: &&&Record| {
        let ratio = claim.value? / claim.paper_value?;
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln().abs())
    };
    let farthest = missed.max_by(|a, b| far(a).unwrap_or(0.0).total_cmp(&far(b).unwrap_or(0.0)));
    let farthest = farthest.and_then(|claim| {
        let (value, goal) = (significant(claim.value?), significant(claim.paper_value?));
        let what = claim.claim.as_deref().unwrap_or(&claim.metric);
        Some(format!(
            "; farthest from its goal is `{}` on {} ({what}): {value} instead of {goal}",
            claim.scheme,
            work(claim),
        ))
    });
    Some(format!(
        "Not reached: {}{}. Check a scheme's own row before choosing it.",
        parts.join(" and "),
        farthest.unwrap_or_default()
    ))
}

/// Whether a claim is a goal of the project itself.
pub(crate) fn is_own(claim: &Record) -> bool {
    claim.paper.as_deref() == Some(OURS)
}

/// The sum of a metric over the crash records that stand for whole campaigns; of controls, over
/// each.
pub(crate) fn total<'a>(records: impl Iterator<Item = &'a Record>, metric: Metric) -> Option<u64> {
    let is_control = metric == Metric::CONTROL_FLAGGED;
    let mut values = records
        .filter(|r| goals::whole(r, metric) || (is_control && r.is(metric)))
        .filter_map(|r| r.value)
        .peekable();
    values.peek()?;
    Some(values.sum::<f64>() as u64)
}

#[cfg(test)]
mod tests;
