//! The primitive operations on this machine's own processor and memory, to stand beside the
//! model's: the same names, the same patterns, through the same trait as the runtime uses.

use std::hint::black_box;

use outlast_pmem::{Domain, MapOptions, Mapped, Medium, last_level_cache_bytes};
use outlast_trace::{LineAddr, PoolOffset};
use outlast_workloads::Random;

use crate::clock::{Stopwatch, ThreadStopwatch};
use crate::native::{ScratchDirectory, default_directory};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// How often each pattern is timed; the median counts.
const ROUNDS: usize = 7;
/// Lines of what is far away, at most: 256 MiB.
const FAR_LINES_MAX: u64 = 1 << 22;
/// Bytes of the last-level cache where the system does not say.
const LLC_BYTES: u64 = 32 << 20;

/// Measures every primitive here: records of kind `native`, with quartiles over the rounds.
///
/// # Errors
/// When there is no room for a file of 256 MiB where pools are made.
pub fn native_primitives(seed: u64) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let directory = ScratchDirectory::new_in(&default_directory())?;
    let map = MapOptions { domain: Some(Domain::Adr), prefault: true, ..MapOptions::default() };
    let medium = Mapped::create(directory.path().join("primitives"), FAR_LINES_MAX * 64, &map)?;
    let llc_lines = last_level_cache_bytes().unwrap_or(LLC_BYTES) / 64;
    let far = (16 * llc_lines).min(FAR_LINES_MAX);
    let mut bench = Bench { medium, random: Random::stream(seed, 0), records: Vec::new(), far };
    bench.chase("load_l1", 16, 200_000);
    bench.chase("load_llc", (llc_lines / 2).min(FAR_LINES_MAX), 100_000);
    bench.chase("load_memory", far, 100_000);
    bench.time("store_l1", 200_000, |b, k| b.medium.store_u64(LineAddr(k % 16).start(), k));
    bench.time("sfence", 20_000, |b, _| b.medium.fence());
    bench.time("clwb_clean", 20_000, |b, k| {
        b.medium.flush(LineAddr(k % 16));
        if k % 16 == 15 {
            b.medium.fence();
        }
    });
    bench.time("persist_1_resident", 10_000, |b, k| b.persist([k % 16].into_iter()));
    bench.time("persist_8_resident", 5_000, |b, k| b.persist((0..8).map(|n| 8 * (k % 2) + n)));
    bench.time("persist_8_scattered", 2_000, |b, _| {
        let lines: [u64; 8] = std::array::from_fn(|_| b.random.below(b.far));
        for line in lines {
            black_box(b.medium.load_u64(LineAddr(line).start()));
        }
        b.persist(lines.into_iter());
    });
    bench.time("stream_1", 10_000, |b, k| b.stream(k, 1));
    bench.time("stream_16", 2_000, |b, k| b.stream(k, 16));
    Ok(bench.records)
}

struct Bench {
    medium: Mapped,
    random: Random,
    records: Vec<Record>,
    /// Lines that do not fit into any cache.
    far: u64,
}

impl Bench {
    fn time(&mut self, name: &str, repetitions: u64, mut once: impl FnMut(&mut Self, u64)) {
        let ns = (0..ROUNDS).map(|_| {
            // This thread's own time: others may have the processor meanwhile.
            let (watch, wall) = (ThreadStopwatch::new(), Stopwatch::new());
            (0..repetitions).for_each(|k| once(self, k));
            let elapsed = watch.elapsed().unwrap_or(wall.elapsed().wall);
            elapsed.as_secs_f64() * 1e9 / repetitions as f64
        });
        let spread = Spread::of(ns).expect("there are rounds");
        let record = Record::spread(Kind::Native, name, "none", Metric::PRIMITIVE, spread);
        self.records.push(record.config("this machine, native").domain("adr"));
    }

    /// Loads whose addresses are what the load before found, round `lines` lines in random order.
    fn chase(&mut self, name: &str, lines: u64, repetitions: u64) {
        let mut order: Vec<u32> = (0..lines as u32).collect();
        self.random.shuffle(&mut order);
        for (at, line) in order.iter().enumerate() {
            let next = order[(at + 1) % order.len()];
            self.medium.store_u64(LineAddr((*line).into()).start(), u64::from(next) * 64);
        }
        let mut at = 0;
        self.time(name, repetitions, |b, _| at = b.medium.load_u64(PoolOffset(at)));
        black_box(at);
    }

    fn persist(&self, lines: impl Iterator<Item = u64> + Clone) {
        lines.clone().for_each(|line| self.medium.store_u64(LineAddr(line).start(), line));
        lines.for_each(|line| self.medium.flush(LineAddr(line)));
        self.medium.fence();
    }

    fn stream(&self, repetition: u64, lines: u64) {
        for line in 0..lines {
            let at = LineAddr((repetition * lines + line) % self.far);
            self.medium.store_nt(at.start(), &[9; 64]);
        }
        self.medium.fence();
    }
}

/// The model's primitives and this machine's, side by side: a line each.
pub fn primitive_table(records: &[Record]) -> String {
    let of = |kind| records.iter().filter(move |record| record.kind == kind);
    let mut machines: Vec<&str> = Vec::new();
    for config in of(Kind::Sim).filter_map(|record| record.config.as_deref()) {
        if !machines.contains(&config) {
            machines.push(config);
        }
    }
    let mut text = String::new();
    for machine in machines {
        text += &format!("primitives: the model of {machine}, and this machine natively\n");
        text += &format!("  {:<22} {:>12} {:>12}\n", "", "model, ns", "native, ns");
        for record in of(Kind::Sim).filter(|record| record.config.as_deref() == Some(machine)) {
            let native = of(Kind::Native).find(|native| native.workload == record.workload);
            let ns = |record: Option<&Record>| {
                let value = record.and_then(|record| record.value);
                value.map_or("-".to_owned(), |value| format!("{value:.1}"))
            };
            let (name, about) = (&record.workload, record.class.as_deref().unwrap_or_default());
            text += &format!("  {name:<22} {:>12} {:>12}  {about}\n", ns(Some(record)), ns(native));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_and_this_machine_stand_side_by_side() {
        let machine = outlast_sim::timed::MachineConfig::named("hwl").unwrap();
        let mut records = super::super::cost_table(&machine).unwrap();
        let names: Vec<String> = records.iter().map(|record| record.workload.clone()).collect();
        let native = native_primitives(1).unwrap();
        let measured: Vec<String> = native.iter().map(|record| record.workload.clone()).collect();
        assert_eq!(measured, names, "the same operations");
        assert!(native.iter().all(|record| record.value > Some(0.0)));
        records.extend(native);
        let table = primitive_table(&records);
        assert_eq!(table.lines().count(), 2 + names.len());
        assert!(!table.contains(" - "), "{table}");
    }
}
