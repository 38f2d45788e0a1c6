//! What a competition found, and how it becomes records.

use std::time::Duration;

use super::cost::{Clock, Cost, costs};
use super::subject::Counters;
use crate::clock::Elapsed;
use crate::record::{Kind, Metric, Record};
use crate::stats::{Latencies, Spread};

/// One subject's turn in one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Transactions of all threads together.
    pub transactions: u64,
    /// Those of the thread that ran the fewest.
    pub fewest: u64,
    /// How long they took.
    pub elapsed: Elapsed,
}

impl Round {
    /// Nanoseconds of wall time per transaction: of all threads together, so that it is the
    /// inverse of throughput.
    pub fn tx_ns(&self) -> f64 {
        self.elapsed.wall.as_nanos() as f64 / self.transactions as f64
    }

    /// The same of CPU time, where the system tells.
    pub fn tx_cpu_ns(&self) -> Option<f64> {
        Some(self.elapsed.cpu?.as_nanos() as f64 / self.transactions as f64)
    }
}

/// What a subject does to its medium in one transaction, on average.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerTransaction {
    /// Lines flushed.
    pub flushed_lines: f64,
    /// Fences.
    pub fences: f64,
    /// Lines streamed past the caches.
    pub streamed_lines: f64,
}

impl PerTransaction {
    /// Counters of many transactions, per transaction.
    pub fn of(counters: Counters, transactions: u64) -> Self {
        let each = |count: u64| count as f64 / transactions as f64;
        Self {
            flushed_lines: each(counters.flushed_lines),
            fences: each(counters.fences),
            streamed_lines: each(counters.streamed_lines),
        }
    }
}

/// One subject's results.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Which scheme.
    pub scheme: String,
    /// Its turns; the n-th belongs to the same round as every other subject's n-th.
    pub rounds: Vec<Round>,
    /// Of the latency pass, if there was one.
    pub latencies: Option<Latencies>,
    /// The 99th percentile of each latency pass, in nanoseconds: how far it spreads.
    pub p99_ns: Vec<u64>,
    /// Of the open loop, if there was one.
    pub open: Option<OpenLoop>,
    /// Over all rounds, if the subject counts.
    pub counters: Option<PerTransaction>,
}

/// What an open loop found.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// Arrivals per second, of all threads together.
    pub arrivals_per_s: u64,
    /// From arrivals to answers.
    pub latencies: Latencies,
    /// From the first moment to the last answer.
    pub wall: Duration,
}

impl OpenLoop {
    /// Transactions answered per second.
    pub fn throughput(&self) -> f64 {
        self.latencies.len() as f64 / self.wall.as_secs_f64()
    }

    fn records(&self, workload: &str, scheme: &str) -> [Record; 3] {
        let nanos = |share| self.latencies.quantile_ns(share) as f64;
        [
            (Metric::OPEN_THROUGHPUT, self.throughput()),
            (Metric::OPEN_LATENCY_P50, nanos(0.5)),
            (Metric::OPEN_LATENCY_P99, nanos(0.99)),
        ]
        .map(|(metric, value)| {
            let record = Record::new(Kind::Native, workload, scheme, metric, value);
            record.arrivals_per_s(self.arrivals_per_s)
        })
    }
}

impl Timing {
    /// Transactions per second of wall time.
    pub fn throughput(&self) -> Spread {
        self.over_rounds(|round| round.transactions as f64 / round.elapsed.wall.as_secs_f64())
    }

    /// Transactions per CPU second of the process, where the system tells.
    pub fn throughput_cpu(&self) -> Option<Spread> {
        let rates = self.rounds.iter().map(|round| {
            let cpu = round.elapsed.cpu?.as_secs_f64();
            (cpu > 0.0).then(|| round.transactions as f64 / cpu)
        });
        Spread::of(rates.collect::<Option<Vec<f64>>>()?)
    }

    /// Nanoseconds of wall time per transaction.
    pub fn tx_ns(&self) -> Spread {
        self.over_rounds(Round::tx_ns)
    }

    fn over_rounds(&self, value: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(value)).expect("a competition has rounds")
    }
}

/// The results of all subjects.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Threads per subject.
    pub threads: u32,
    /// In the order in which the subjects were given.
    pub timings: Vec<Timing>,
}

impl Outcome {
    /// One scheme's results.
    pub fn of(&self, scheme: &str) -> Option<&Timing> {
        self.timings.iter().find(|timing| timing.scheme == scheme)
    }

    /// The same, in the order of these names.
    pub fn in_order_of(mut self, names: &[&str]) -> Self {
        let place = |timing: &Timing| names.iter().position(|name| *name == timing.scheme);
        self.timings.sort_by_key(place);
        self
    }

    /// Adds the rounds of another competition of the same subjects.
    ///
    /// # Panics
    /// When a subject is missing there.
    pub fn extend(&mut self, other: Self) {
        for timing in &mut self.timings {
            let more = other.of(&timing.scheme).expect("the same subjects");
            let (old, new) = (timing.rounds.len() as f64, more.rounds.len() as f64);
            timing.rounds.extend(&more.rounds);
            timing.p99_ns.extend(&more.p99_ns);
            if let (Some(all), Some(more)) = (&mut timing.latencies, &more.latencies) {
                all.merge(more);
            }
            if let (Some(all), Some(more)) = (&mut timing.open, &more.open) {
                all.latencies.merge(&more.latencies);
                all.wall += more.wall;
            }
            if let (Some(all), Some(more)) = (&mut timing.counters, more.counters) {
                let mean = |a: f64, b: f64| (a * old + b * new) / (old + new);
                *all = PerTransaction {
                    flushed_lines: mean(all.flushed_lines, more.flushed_lines),
                    fences: mean(all.fences, more.fences),
                    streamed_lines: mean(all.streamed_lines, more.streamed_lines),
                };
            }
        }
    }

    /// All results as records of kind `native`, with the costs of persistence beyond `bound`
    /// where that competed, related to the better of `peers` where any did.
    pub fn records(&self, workload: &str, bound: &str, peers: &[&str]) -> Vec<Record> {
        let mut records = Vec::new();
        for timing in &self.timings {
            let mut spread = |metric, spread| {
                records.push(Record::spread(
                    Kind::Native,
                    workload,
                    &timing.scheme,
                    metric,
                    spread,
                ));
            };
            spread(Metric::THROUGHPUT, timing.throughput());
            if let Some(throughput_cpu) = timing.throughput_cpu() {
                spread(Metric::THROUGHPUT_CPU, throughput_cpu);
            }
            spread(Metric::TX_TIME, timing.tx_ns());
            let mut single = |metric, value| {
                records.push(Record::new(Kind::Native, workload, &timing.scheme, metric, value));
            };
            if let Some(latencies) = timing.latencies.as_ref().filter(|l| !l.is_empty()) {
                single(Metric::LATENCY_P50, latencies.quantile_ns(0.5) as f64);
                records.push(p99_record(workload, timing, latencies));
            }
            let open = timing.open.as_ref().filter(|open| !open.latencies.is_empty());
            records.extend(open.iter().flat_map(|open| open.records(workload, &timing.scheme)));
            let mut single = |metric, value| {
                records.push(Record::new(Kind::Native, workload, &timing.scheme, metric, value));
            };
            if let Some(counters) = timing.counters {
                single(Metric::FLUSHED_LINES, counters.flushed_lines);
                single(Metric::FENCES, counters.fences);
                single(Metric::STREAMED_LINES, counters.streamed_lines);
            }
        }
        for clock in [Clock::Wall, Clock::Cpu] {
            for cost in costs(self, clock, bound, peers) {
                records.extend(cost_records(workload, clock, &cost));
            }
        }
        records.into_iter().map(|record| record.threads(self.threads)).collect()
    }
}

impl Outcome {
    /// The speed of all others as a multiple of `yardstick`'s, by CPU time, which other programs
    /// disturb less, and round by round; nothing if that did not compete or there is no such clock.
    pub fn speeds(&self, workload: &str, yardstick: &str) -> Vec<Record> {
        let Some(base) = self.of(yardstick) else { return Vec::new() };
        let others = self.timings.iter().filter(|timing| timing.scheme != yardstick);
        let speed = |timing: &Timing| {
            let pairs = timing.rounds.iter().zip(&base.rounds);
            let ratios = pairs.map(|(own, base)| {
                let own = own.tx_cpu_ns().filter(|ns| *ns > 0.0)?;
                Some(base.tx_cpu_ns()? / own)
            });
            let spread = Spread::of(ratios.collect::<Option<Vec<f64>>>()?)?;
            let metric = Metric::RELATIVE_SPEED;
            let record = Record::spread(Kind::Native, workload, &timing.scheme, metric, spread);
            Some(record.class(yardstick).threads(self.threads))
        };
        others.filter_map(speed).collect()
    }
}

/// The 99th percentile of all latency passes together, with the quartiles of the single ones.
fn p99_record(workload: &str, timing: &Timing, all: &Latencies) -> Record {
    let value = all.quantile_ns(0.99) as f64;
    let metric = Metric::LATENCY_P99;
    match Spread::of(timing.p99_ns.iter().map(|ns| *ns as f64)) {
        None => Record::new(Kind::Native, workload, &timing.scheme, metric, value),
        Some(passes) => {
            let spread = Spread { median: value, ..passes };
            Record::spread(Kind::Native, workload, &timing.scheme, metric, spread)
        }
    }
}

fn cost_records(workload: &str, clock: Clock, cost: &Cost) -> Vec<Record> {
    let (nanos, relative) = match clock {
        Clock::Wall => (Metric::PERSISTENCE_COST, Metric::PERSISTENCE_COST_RATIO),
        Clock::Cpu => (Metric::PERSISTENCE_COST_CPU, Metric::PERSISTENCE_COST_RATIO_CPU),
    };
    let record =
        |metric, spread| Record::spread(Kind::Native, workload, &cost.scheme, metric, spread);
    let mut records = vec![record(nanos, cost.nanos)];
    if let Some(ratio) = &cost.ratio {
        let config = format!("relative to {}", ratio.peer);
        records.push(record(relative, ratio.spread).config(&config));
    }
    records
}
