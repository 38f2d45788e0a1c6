//! The papers' figures again: what each claims, beside what was measured here.
//!
//! So far Archapt's figure 9, the reduction of cache-line flushes. It is counted three ways (data
//! as issued, data that was still dirty, both with the log), since the paper does not say which it
//! counted, and against aligned, batched undo logging.

use std::panic::resume_unwind;
use std::thread;

use outlast::Scheme;
use outlast_sim::CacheConfig;
use outlast_workloads::{Scale, Workload};

use crate::emulated::{Emulation, EmulationError, FlushCounts};
use crate::native::Size;
use crate::news::{Listener, News};
use crate::record::{Kind, Metric, Record};

/// What claims of the paper are filed under.
pub const ARCHAPT: &str = "archapt";

/// The paper's nine workloads, LinkBench in its own mix as well as in the paper's.
const WORKLOADS: [&str; 9] = [
    "ycsb-a",
    "ycsb-b",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "tpcc",
    "linkbench",
    "linkbench-archapt",
    "oltp-ycsb",
];

/// The last-level cache of the paper's machine, and its ways.
const CACHE_BYTES: u64 = 19_712 << 10;
const CACHE_WAYS: u32 = 11;

/// How many fewer flushes the paper has with Archapt on undo logging, in percent.
const REDUCTION_CLAIMED: f64 = 66.0;

const SCHEMES: [Scheme; 4] = [Scheme::Undo, Scheme::UndoArchapt, Scheme::Redo, Scheme::RedoArchapt];

/// How much of it: transactions before the count, counted ones, bytes of log.
fn amount(size: Size) -> (u64, u64, u64) {
    match size {
        Size::Quick => (200_000, 200_000, 16 << 20),
        Size::Full => (1_000_000, 2_000_000, 64 << 20),
    }
}

fn emulation(name: &str, scheme: Scheme, size: Size, seed: u64) -> Emulation {
    let workload = Workload::named(name).expect("a workload of the table");
    let (warm_up, transactions, lane_bytes) = amount(size);
    // TPC-C's transactions are some fifty statements each.
    let share = if name == "tpcc" { 10 } else { 1 };
    let (warm_up, transactions) = (warm_up / share, transactions / share);
    let published = workload.scale();
    let records = match size {
        Size::Full => published.records,
        Size::Quick if name == "tpcc" => published.records,
        Size::Quick => published.records.min(100_000),
    };
    Emulation {
        workload,
        scheme,
        scale: Scale { records, operations: warm_up + transactions, ..published },
        warm_up,
        transactions,
        cache: CacheConfig::new(CACHE_BYTES, CACHE_WAYS),
        reckoned_bytes: CACHE_BYTES,
        lane_bytes,
        seed,
    }
}

/// Archapt's figure 9: flushes per transaction under each scheme, and the reductions.
///
/// # Errors
/// What could not be run.
pub fn archapt_flushes(
    size: Size,
    seed: u64,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, EmulationError> {
    let total = (WORKLOADS.len() * SCHEMES.len()) as u64;
    let mut records = Vec::new();
    let mut reductions: Vec<(Scheme, [f64; 4])> = Vec::new();
    for (nth, name) in WORKLOADS.iter().enumerate() {
        let done = (nth * SCHEMES.len()) as u64;
        listen(News::Step { stage: "flushes on an emulated cache", done, total });
        let emulations = SCHEMES.map(|scheme| emulation(name, scheme, size, seed));
        let counts = run_in_pairs(&emulations)?;
        for (emulation, counted) in emulations.iter().zip(&counts) {
            let scheme = emulation.scheme;
            records.extend(count_records(emulation, counted));
            for (metric, value) in reduction(&counts[0], counted) {
                let record = Record::new(Kind::Sim, name, scheme.name(), metric, value);
                records.push(record.config(&config(emulation)));
            }
            reductions.push((scheme, reduction(&counts[0], counted).map(|(_, value)| value)));
        }
    }
    listen(News::Step { stage: "flushes on an emulated cache", done: total, total });
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        let mine: Vec<_> = reductions.iter().filter(|(s, _)| *s == scheme).collect();
        for (i, metric) in REDUCTIONS.into_iter().enumerate() {
            let mean = mine.iter().map(|(_, values)| values[i]).sum::<f64>() / mine.len() as f64;
            let claim = "reduction of cache-line flushes, average";
            let claim = Record::claim(ARCHAPT, claim, "nine workloads", scheme.name(), metric);
            let holds = mean >= REDUCTION_CLAIMED;
            records.push(claim.judged(REDUCTION_CLAIMED, mean, holds, SOUND_COSTS));
        }
    }
    Ok(records)
}

const REDUCTIONS: [Metric; 4] = [
    Metric::DATA_FLUSHES_SAVED,
    Metric::DIRTY_DATA_FLUSHES_SAVED,
    Metric::ALL_FLUSHES_SAVED,
    Metric::ALL_DIRTY_FLUSHES_SAVED,
];

/// What keeps a sound variant from the paper's figure.
const SOUND_COSTS: &str = "each line is flushed before its log is dropped, contents of new blocks \
                           above 256 bytes before their record; undo logging here aligns and \
                           batches, which the paper's did not";

/// Two at a time: each needs memory for its pool.
fn run_in_pairs(emulations: &[Emulation]) -> Result<Vec<FlushCounts>, EmulationError> {
    let mut counts = Vec::new();
    for pair in emulations.chunks(2) {
        let done: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> =
                pair.iter().map(|emulation| scope.spawn(|| emulation.run(|_, _| ()))).collect();
            running.into_iter().map(|run| run.join().unwrap_or_else(|p| resume_unwind(p))).collect()
        });
        counts.extend(done.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(counts)
}

/// How many fewer flushes than undo logging, in percent, under each count.
fn reduction(undo: &FlushCounts, counts: &FlushCounts) -> [(Metric, f64); 4] {
    let saved = |of: fn(&FlushCounts) -> u64| {
        let before = of(undo) as f64;
        if before == 0.0 { 0.0 } else { 100.0 * (1.0 - of(counts) as f64 / before) }
    };
    let values = [
        saved(|c| c.data.issued),
        saved(|c| c.data.dirty),
        saved(|c| c.data.issued + c.log.issued + c.header.issued),
        saved(|c| c.data.dirty + c.log.dirty + c.header.dirty),
    ];
    let mut out = REDUCTIONS.map(|metric| (metric, 0.0));
    out.iter_mut().zip(values).for_each(|((_, slot), value)| *slot = value);
    out
}

fn count_records(emulation: &Emulation, counts: &FlushCounts) -> Vec<Record> {
    let per_tx = |count: u64| count as f64 / emulation.transactions as f64;
    let values = [
        (Metric::DATA_FLUSHES, counts.data.issued),
        (Metric::DIRTY_DATA_FLUSHES, counts.data.dirty),
        (Metric::LOG_FLUSHES, counts.log.issued),
        (Metric::DATA_EVICTIONS, counts.data_evicted),
        (Metric::FENCES, counts.fences),
    ];
    let record = |(metric, count)| {
        let (name, scheme) = (emulation.workload.name, emulation.scheme.name());
        Record::new(Kind::Sim, name, scheme, metric, per_tx(count)).config(&config(emulation))
    };
    values.map(record).into()
}

fn config(emulation: &Emulation) -> String {
    let Emulation { workload, scale, lane_bytes, cache, warm_up, transactions, .. } = emulation;
    format!(
        "{}; cache of {} bytes and {} ways, LRU; {lane_bytes} bytes of log; {transactions} \
         transactions after {warm_up}",
        workload.describe(scale),
        cache.size_bytes,
        cache.ways
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Flushes;

    #[test]
    fn reductions_are_against_undo_and_count_what_they_say() {
        let flushes = |issued, dirty| Flushes { issued, dirty };
        let undo = FlushCounts {
            data: flushes(100, 100),
            log: flushes(100, 100),
            ..FlushCounts::default()
        };
        let aged =
            FlushCounts { data: flushes(60, 10), log: flushes(80, 80), ..FlushCounts::default() };
        let values = reduction(&undo, &aged).map(|(_, value)| value.round());
        assert_eq!(values, [40.0, 90.0, 30.0, 55.0]);
        assert_eq!(reduction(&FlushCounts::default(), &aged)[0].1, 0.0);
    }
}
