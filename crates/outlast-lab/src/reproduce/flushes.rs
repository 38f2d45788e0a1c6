//! Figures 9 and 10 and table I: flushes, and how dirty the flushed lines are.
//!
//! Counted on an emulated cache. Reductions are counted in several ways (data as issued, data that
//! was still dirty, both with the log), since the paper does not say which it counted, and against
//! aligned, batched undo logging. What coalescing saves is undo logging with keys and values in
//! one block against the same with a block each.

use std::panic::resume_unwind;
use std::thread;

use outlast::Scheme;
use outlast::collections::Placement;
use outlast_sim::CacheConfig;
use outlast_trace::FlushKind;
use outlast_workloads::Scale;

use super::{CACHE_WAYS, READ_ONLY, Request, SCHEMES, WORKLOADS, available, workload};
use crate::emulated::{Emulation, EmulationError, FlushCounts};
use crate::news::{Listener, News};
use crate::record::{Kind, Metric, Record};

/// What is emulated for one workload.
#[derive(Clone, Copy, Debug)]
struct Variant {
    scheme: Scheme,
    placement: Placement,
}

fn emulation(name: &str, variant: Variant, request: &Request) -> Emulation {
    let workload = workload(name);
    let amount = &request.amount;
    // TPC-C's transactions are some fifty statements each.
    let share = if name == "tpcc" { 10 } else { 1 };
    let (warm_up, transactions) = (amount.warm_up / share, amount.transactions / share);
    let scale = request.counted_scale(workload, warm_up + transactions);
    Emulation {
        workload,
        scheme: variant.scheme,
        scale: Scale { placement: variant.placement, ..scale },
        warm_up,
        transactions,
        cache: CacheConfig::new(amount.cache_bytes, CACHE_WAYS),
        reckoned_bytes: amount.cache_bytes,
        lane_bytes: amount.lane_bytes,
        flush: FlushKind::Clwb,
        seed: request.seed,
    }
}

/// Flushes per transaction and dirtiness under each scheme, and the reductions.
///
/// # Errors
/// What could not be run.
pub fn measure(
    request: &Request,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, EmulationError> {
    let stage = "flushes on an emulated cache";
    let mut variants: Vec<Variant> = available(&SCHEMES, listen)
        .into_iter()
        .map(|scheme| Variant { scheme, placement: Placement::Together })
        .collect();
    variants.push(Variant { scheme: Scheme::Undo, placement: Placement::Apart });
    let names: Vec<&str> = WORKLOADS.into_iter().filter(|name| *name != READ_ONLY).collect();
    let all: Vec<_> = names
        .iter()
        .flat_map(|name| variants.iter().map(|variant| emulation(name, *variant, request)))
        .collect();
    let mut counts = Vec::new();
    let total = all.len() as u64;
    for pair in all.chunks(2) {
        listen(News::Step { stage, done: counts.len() as u64, total });
        counts.extend(run_pair(pair)?);
    }
    listen(News::Step { stage, done: total, total });
    let mut records = Vec::new();
    for (emulations, counts) in all.chunks(variants.len()).zip(counts.chunks(variants.len())) {
        let undo = &counts[0];
        for ((emulation, variant), counted) in emulations.iter().zip(&variants).zip(counts) {
            records.extend(match variant.placement {
                Placement::Together => together(emulation, undo, counted),
                Placement::Apart => vec![coalescing(emulation, undo, counted)],
            });
        }
    }
    Ok(records)
}

/// Two at a time: each needs memory for its pool.
fn run_pair(pair: &[Emulation]) -> Result<Vec<FlushCounts>, EmulationError> {
    thread::scope(|scope| {
        let running: Vec<_> =
            pair.iter().map(|emulation| scope.spawn(|| emulation.run())).collect();
        running.into_iter().map(|run| run.join().unwrap_or_else(|p| resume_unwind(p))).collect()
    })
}

/// How many fewer flushes than undo logging, in percent, under each count.
fn reduction(undo: &FlushCounts, counts: &FlushCounts) -> [(Metric, f64); 4] {
    let saved = |of: fn(&FlushCounts) -> u64| saved(of(undo), of(counts));
    [
        (Metric::DATA_FLUSHES_SAVED, saved(|c| c.data.issued)),
        (Metric::DIRTY_DATA_FLUSHES_SAVED, saved(|c| c.data.dirty)),
        (Metric::ALL_FLUSHES_SAVED, saved(FlushCounts::all_issued)),
        (Metric::ALL_DIRTY_FLUSHES_SAVED, saved(FlushCounts::all_dirty)),
    ]
}

fn saved(before: u64, after: u64) -> f64 {
    if before == 0 { 0.0 } else { 100.0 * (1.0 - after as f64 / before as f64) }
}

fn together(emulation: &Emulation, undo: &FlushCounts, counts: &FlushCounts) -> Vec<Record> {
    let per_tx = |count: u64| count as f64 / emulation.transactions as f64;
    let mut values = vec![
        (Metric::DATA_FLUSHES, per_tx(counts.data.issued)),
        (Metric::DIRTY_DATA_FLUSHES, per_tx(counts.data.dirty)),
        (Metric::LOG_FLUSHES, per_tx(counts.log.issued)),
        (Metric::DATA_EVICTIONS, per_tx(counts.data_evicted)),
        (Metric::FENCES, per_tx(counts.fences)),
        (Metric::HISTORY_BYTES, counts.history_bytes as f64),
    ];
    if emulation.scheme != Scheme::Undo {
        values.extend(reduction(undo, counts));
    }
    values.extend(counts.data.dirtiness().map(|share| (Metric::DIRTINESS, share)));
    values.extend(counts.data.dirtiness_found().map(|share| (Metric::DIRTINESS_FOUND, share)));
    let (data, log) = (counts.data, counts.log);
    if data.issued + log.issued > 0 {
        let bytes = (64 * (data.issued + log.issued)) as f64;
        values.push((Metric::DIRTINESS_ALL, (data.stored_bytes + log.stored_bytes) as f64 / bytes));
    }
    let mut records: Vec<_> =
        values.into_iter().map(|(metric, value)| record(emulation, metric, value)).collect();
    for (words, count) in counts.data.by_words.iter().enumerate().filter(|_| data.issued > 0) {
        let share = 100.0 * *count as f64 / data.issued as f64;
        let of_words = record(emulation, Metric::FLUSHES_BY_WORDS, share);
        records.push(of_words.class(&words.to_string()));
    }
    records
}

fn coalescing(emulation: &Emulation, together: &FlushCounts, apart: &FlushCounts) -> Record {
    let saved = saved(apart.data.issued, together.data.issued);
    record(emulation, Metric::COALESCING_SAVED, saved)
}

fn record(emulation: &Emulation, metric: Metric, value: f64) -> Record {
    let (name, scheme) = (emulation.workload.name, emulation.scheme.name());
    Record::new(Kind::Sim, name, scheme, metric, value).config(&config(emulation))
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
        let flushes = |issued, dirty| Flushes { issued, dirty, ..Flushes::default() };
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
