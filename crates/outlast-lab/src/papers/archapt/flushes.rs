//! Figures 9 and 10 and table I: flushes, and how dirty the flushed lines are.
//!
//! Counted on an emulated cache. The paper does not say what it counts, so reductions are counted
//! in several ways (`Count`), and against two baselines: undo logging that batches, on data laid
//! out as for Archapt (*aligned*), and the same on data as a general allocator lays it out
//! (*unaligned*). Against the second, what coalescing saves and what skipping saves add up.

use outlast::Scheme;
use outlast_sim::CacheConfig;
use outlast_trace::FlushKind;
use outlast_workloads::Layout;

use super::{CACHE_WAYS, SCHEMES, STORING, Task, available, workload};
use crate::emulated::{Emulation, EmulationError, FlushCounts};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};

/// The variants of Archapt as the paper has it, if there are any: their checksums belong to them.
const LITERAL: [&str; 2] = ["undo-archapt:literal", "redo-archapt:literal"];

/// Those that may keep checksums, and are counted with and without.
const SUMMED: [&str; 2] = ["undo-archapt", "redo-archapt"];

/// Whose flushes are counted: those of the paper, and the paper's own.
pub(super) fn schemes_counted() -> impl Iterator<Item = &'static str> {
    SCHEMES.into_iter().chain(LITERAL)
}

/// The name of undo logging on data as a general allocator lays it out.
pub(super) const UNALIGNED: &str = "undo+unaligned";

/// As which class a value stands that is against [`UNALIGNED`].
pub(super) const AGAINST_UNALIGNED: &str = "undo+unaligned";

/// Room in a log that nothing shortens, for each transaction.
const LOG_BYTES_PER_TRANSACTION: u64 = 1 << 10;

/// Each needs memory for its pool.
const AT_ONCE_MAX: usize = 4;

/// Which flushes are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// In words, as the class of a record.
    pub name: &'static str,
    /// The metric of what is saved.
    pub saved: Metric,
    of: fn(&FlushCounts) -> u64,
    /// Whether it counts checksums, which only some pools have.
    pub with_sums: bool,
}

/// All of them.
pub(super) const COUNTS: [Count; 6] = [
    Count {
        name: "data",
        saved: Metric::DATA_FLUSHES_SAVED,
        of: |counts| counts.data.issued,
        with_sums: false,
    },
    Count {
        name: "data, dirty",
        saved: Metric::DIRTY_DATA_FLUSHES_SAVED,
        of: |counts| counts.data.dirty,
        with_sums: false,
    },
    Count {
        name: "data + checksums",
        saved: Metric::SUMMED_FLUSHES_SAVED,
        of: FlushCounts::summed_issued,
        with_sums: true,
    },
    Count {
        name: "data + checksums, dirty",
        saved: Metric::DIRTY_SUMMED_FLUSHES_SAVED,
        of: FlushCounts::summed_dirty,
        with_sums: true,
    },
    Count {
        name: "with the log",
        saved: Metric::ALL_FLUSHES_SAVED,
        of: FlushCounts::all_issued,
        with_sums: false,
    },
    Count {
        name: "with the log, dirty",
        saved: Metric::ALL_DIRTY_FLUSHES_SAVED,
        of: FlushCounts::all_dirty,
        with_sums: false,
    },
];

/// The emulated counts of one workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Variant {
    scheme: Scheme,
    layout: Layout,
    checksums: bool,
}

impl Variant {
    /// The name that results use.
    fn name(self) -> String {
        let name = self.scheme.name();
        match (self.layout, self.checksums) {
            (Layout::Scattered, _) => format!("{name}+unaligned"),
            (_, true) if !LITERAL.contains(&name) => format!("{name}+sums"),
            _ => name.to_owned(),
        }
    }

    /// The two baselines, then all others that exist.
    fn all(task: &Task, listen: &mut Listener<'_>) -> Vec<Self> {
        let on = |scheme, layout| Self { scheme, layout, checksums: false };
        let mut all =
            vec![on(Scheme::Undo, Layout::Coalesced), on(Scheme::Undo, Layout::Scattered)];
        let named: Vec<&str> = schemes_counted().filter(|name| task.counts_scheme(name)).collect();
        for scheme in available(&named, listen) {
            let is_published = LITERAL.contains(&scheme.name());
            let plain = Self { checksums: is_published, ..on(scheme, Layout::Coalesced) };
            if !all.contains(&plain) {
                all.push(plain);
            }
            if SUMMED.contains(&scheme.name()) {
                all.push(Self { checksums: true, ..plain });
            }
        }
        all
    }
}

fn emulation(name: &str, variant: Variant, task: &Task) -> Emulation {
    let workload = workload(name);
    let amount = &task.amount;
    // TPC-C's transactions are some fifty statements each, a scan reads some fifty records.
    let share = match name {
        "tpcc" => 10,
        "ycsb-e" => amount.scans_part,
        _ => 1,
    };
    let (warm_up, transactions) = (amount.warm_up / share, amount.transactions / share);
    let scale = task.counted_scale(workload, warm_up + transactions);
    let lane_bytes = match variant.scheme {
        Scheme::Aof => (amount.warm_up + amount.transactions) * LOG_BYTES_PER_TRANSACTION,
        _ => 0,
    };
    Emulation {
        workload,
        scheme: variant.scheme,
        checksums: variant.checksums,
        scale: workload.laid_out(&scale, variant.layout),
        warm_up,
        transactions,
        cache: CacheConfig::new(amount.cache_bytes, CACHE_WAYS),
        reckoned_bytes: amount.cache_bytes,
        lane_bytes: lane_bytes.max(amount.lane_bytes),
        flush: FlushKind::Clwb,
        seed: task.seed,
    }
}

/// The stage of [`measure`] in progress events.
pub(super) const STAGE: &str = "flushes on an emulated cache";

/// Flushes per transaction and dirtiness under each scheme, and the reductions.
///
/// # Errors
/// A workload that cannot be run.
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, EmulationError> {
    let stage = STAGE;
    let variants = Variant::all(task, listen);
    let is_asked_for = |name: &&str| task.counted_on.is_empty() || task.counted_on.contains(name);
    let names: Vec<&str> = STORING.into_iter().filter(is_asked_for).collect();
    let all: Vec<_> = names
        .iter()
        .flat_map(|name| variants.iter().map(|variant| emulation(name, *variant, task)))
        .collect();
    let counts = in_parallel(&all, AT_ONCE_MAX, stage, listen, Emulation::run)?;
    let mut records = Vec::new();
    for (emulations, counts) in all.chunks(variants.len()).zip(counts.chunks(variants.len())) {
        let baselines = Baselines { aligned: counts[0], unaligned: counts[1] };
        for ((emulation, variant), counted) in emulations.iter().zip(&variants).zip(counts) {
            let run = Run { emulation, variant: *variant, counts: counted };
            records.extend(run.flushes());
            records.extend(run.dirtiness());
            records.extend(run.saved(&baselines));
        }
    }
    Ok(records)
}

/// Undo logging on both layouts.
struct Baselines {
    aligned: FlushCounts,
    unaligned: FlushCounts,
}

impl Baselines {
    /// The unaligned baseline's flushes that a scheme saves, in percent: by the layout, and by
    /// skipped flushes on the same layout. `None` where there is nothing to save.
    fn split(&self, count: &Count, counts: &FlushCounts) -> Option<(f64, f64)> {
        let [before, aligned, after] =
            [&self.unaligned, &self.aligned, counts].map(|counts| (count.of)(counts) as f64);
        let share = |lines: f64| 100.0 * lines / before;
        (before > 0.0).then(|| (share(before - aligned), share(aligned - after)))
    }
}

fn saved(before: u64, after: u64) -> f64 {
    if before == 0 { 0.0 } else { 100.0 * (1.0 - after as f64 / before as f64) }
}

/// One emulation and what came of it.
struct Run<'e> {
    emulation: &'e Emulation,
    variant: Variant,
    counts: &'e FlushCounts,
}

impl Run<'_> {
    fn flushes(&self) -> Vec<Record> {
        let counts = self.counts;
        let per_tx = |count: u64| count as f64 / self.emulation.transactions as f64;
        let mut values = vec![
            (Metric::DATA_FLUSHES, per_tx(counts.data.issued)),
            (Metric::DIRTY_DATA_FLUSHES, per_tx(counts.data.dirty)),
            (Metric::LOG_FLUSHES, per_tx(counts.log.issued)),
            (Metric::DATA_EVICTIONS, per_tx(counts.data_evicted)),
            (Metric::FENCES, per_tx(counts.fences)),
            (Metric::HISTORY_BYTES, counts.history_bytes as f64),
        ];
        if self.variant.checksums {
            values.push((Metric::SUMS_FLUSHES, per_tx(counts.sums.issued)));
            values.push((Metric::DIRTY_SUMS_FLUSHES, per_tx(counts.sums.dirty)));
        }
        values.into_iter().map(|(metric, value)| self.record(metric, value)).collect()
    }

    /// Of data alone: where there are checksums, these bytes are theirs as well.
    fn dirtiness(&self) -> Vec<Record> {
        let (data, log) = (self.counts.data, self.counts.log);
        if self.variant.checksums || data.issued + log.issued == 0 {
            return Vec::new();
        }
        let mut values = Vec::new();
        values.extend(data.dirtiness().map(|share| (Metric::DIRTINESS, share)));
        values.extend(data.dirtiness_found().map(|share| (Metric::DIRTINESS_FOUND, share)));
        let bytes = (64 * (data.issued + log.issued)) as f64;
        values.push((Metric::DIRTINESS_ALL, (data.stored_bytes + log.stored_bytes) as f64 / bytes));
        let mut records: Vec<_> =
            values.into_iter().map(|(metric, value)| self.record(metric, value)).collect();
        for (words, count) in data.by_words.iter().enumerate().filter(|_| data.issued > 0) {
            let share = 100.0 * *count as f64 / data.issued as f64;
            let of_words = self.record(Metric::FLUSHES_BY_WORDS, share);
            records.push(of_words.class(&words.to_string()));
        }
        records
    }

    /// How many fewer flushes than both baselines, under each count, and by what.
    fn saved(&self, baselines: &Baselines) -> Vec<Record> {
        let mut records = Vec::new();
        if self.variant.layout == Layout::Scattered {
            return records;
        }
        for count in COUNTS.iter().filter(|count| !count.with_sums || self.variant.checksums) {
            let mine = (count.of)(self.counts);
            let Some((coalescing, skipping)) = baselines.split(count, self.counts) else {
                continue;
            };
            let unaligned = saved((count.of)(&baselines.unaligned), mine);
            let against = self.record(count.saved, unaligned).class(AGAINST_UNALIGNED);
            if self.variant.scheme == Scheme::Undo {
                // All of it is coalescing.
                if count.name == "data" {
                    records.push(self.record(Metric::COALESCING_SAVED, coalescing));
                }
                records.push(against);
                continue;
            }
            records.push(self.record(count.saved, saved((count.of)(&baselines.aligned), mine)));
            records.push(against);
            let by = |metric, value| self.record(metric, value).class(count.name);
            records.push(by(Metric::SAVED_BY_COALESCING, coalescing));
            records.push(by(Metric::SAVED_BY_SKIPPING, skipping));
        }
        records
    }

    fn record(&self, metric: Metric, value: f64) -> Record {
        let name = self.emulation.workload.name;
        let record = Record::new(Kind::Sim, name, &self.variant.name(), metric, value);
        record.config(&config(self.emulation))
    }
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

    fn counts(data: (u64, u64), sums: (u64, u64), log: (u64, u64)) -> FlushCounts {
        let flushes = |(issued, dirty)| Flushes { issued, dirty, ..Flushes::default() };
        let (data, sums, log) = (flushes(data), flushes(sums), flushes(log));
        FlushCounts { data, sums, log, ..FlushCounts::default() }
    }

    #[test]
    fn reductions_are_against_undo_and_count_what_they_say() {
        let undo = counts((100, 100), (0, 0), (100, 100));
        let aged = counts((60, 10), (30, 20), (80, 80));
        let values = COUNTS.map(|count| saved((count.of)(&undo), (count.of)(&aged)).round());
        assert_eq!(values, [40.0, 90.0, 10.0, 70.0, 15.0, 45.0]);
        assert_eq!(saved(0, 60), 0.0);
    }

    #[test]
    fn coalescing_and_skipping_add_up_to_what_is_saved_of_the_unaligned_baseline() {
        let unaligned = counts((200, 200), (0, 0), (100, 100));
        let aligned = counts((100, 100), (0, 0), (100, 100));
        let baselines = Baselines { aligned, unaligned };
        let aged = counts((60, 10), (30, 20), (150, 150));
        for count in &COUNTS {
            let (coalescing, skipping) = baselines.split(count, &aged).unwrap();
            let all = saved((count.of)(&unaligned), (count.of)(&aged));
            assert!((coalescing + skipping - all).abs() < 1e-9, "{}", count.name);
        }
        assert_eq!(baselines.split(&COUNTS[0], &aged), Some((50.0, 20.0)));
        // Flushes on top of the aligned baseline's count against skipping.
        let (_, skipping) = baselines.split(&COUNTS[4], &aged).unwrap();
        assert!(skipping < 0.0, "{skipping}");
        let nothing = Baselines { aligned, unaligned: FlushCounts::default() };
        assert_eq!(nothing.split(&COUNTS[0], &aged), None);
    }
}
