//! What the hardware allows: the cost of making a few lines durable, by the best means there
//! are and by the ones that programs fall into.
//!
//! Every logging scheme is a choice among these patterns, so each result can be read as a
//! distance from this floor. The patterns take turns within a round, so that a change in the
//! machine's mood meets all of them; what is reported are medians with their quartiles.
//!
//! A sample ends when its lines are durable, not when the fence instruction retires. The two are
//! far apart: `sfence` holds back later *stores* only, so the processor goes on to the clock
//! while the write-backs are still under way. Each sample therefore ends with a full fence, after
//! which an acknowledgement could become visible; what a full fence takes when nothing is under
//! way is subtracted together with the clock.

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use outlast_measure::Spread;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset, Random};

use crate::medium::Medium;

/// How lines are stored and made durable before one fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pattern {
    /// Consecutive lines streamed past the caches.
    Streamed,
    /// Consecutive lines that were fetched for ownership before the clock started (a log that
    /// is prefetched), stored whole and flushed in one batch.
    Resident,
    /// Random lines far apart: one word of each is stored (the store misses) and the line flushed
    /// before the next.
    ScatteredAlternate,
    /// Random lines far apart: a word of each stored, then all flushed.
    ScatteredBatch,
    /// Random lines far apart that were loaded before the clock started, as a transaction reads
    /// before it writes: a word of each stored, then all flushed.
    ScatteredLoaded,
}

impl Pattern {
    /// Every pattern, in the order of the report.
    pub const ALL: [Self; 5] = [
        Self::Streamed,
        Self::Resident,
        Self::ScatteredAlternate,
        Self::ScatteredBatch,
        Self::ScatteredLoaded,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Resident => "resident",
            Self::ScatteredAlternate => "scattered-alternate",
            Self::ScatteredBatch => "scattered-batch",
            Self::ScatteredLoaded => "scattered-loaded",
        }
    }

    /// One line for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Streamed => "consecutive lines streamed past the caches",
            Self::Resident => "prefetched log lines stored and flushed in one batch",
            Self::ScatteredAlternate => "far lines, each missed by its store and flushed at once",
            Self::ScatteredBatch => "far lines, all stored to, then all flushed",
            Self::ScatteredLoaded => "far lines loaded before, all stored to, then all flushed",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Lines before one fence: 1 to this many.
pub const FLOOR_LINES_MAX: usize = 16;

/// Bytes at the start of the medium that stand for logs: one half is stored to and one streamed,
/// since a line that is streamed while it is cached costs an eviction that no log would pay.
/// More than the first-level cache, less than the second.
const LOGS_BYTES: u64 = 512 << 10;

/// Lines of one of the two logs.
const LOG_LINES: u64 = LOGS_BYTES / 2 / LINE_BYTES;

/// Times that one pattern runs in a row, so that its code is in the instruction cache.
const BURST: usize = 8;

/// How to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloorOptions {
    /// Rounds; each adds eight samples to each pattern and number of lines.
    pub rounds: usize,
    /// Seed of the scattered lines.
    pub seed: u64,
}

impl Default for FloorOptions {
    fn default() -> Self {
        Self { rounds: 250, seed: 1 }
    }
}

/// One measured value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloorRow {
    /// How.
    pub pattern: Pattern,
    /// How many lines before the fence.
    pub lines: usize,
    /// Nanoseconds: lower quartile.
    pub p25_ns: u64,
    /// Nanoseconds: median.
    pub p50_ns: u64,
    /// Nanoseconds: upper quartile.
    pub p75_ns: u64,
}

/// What [`measure_floor`] found.
#[derive(Clone, PartialEq, Debug)]
pub struct FloorReport {
    /// By pattern, then by lines.
    pub rows: Vec<FloorRow>,
    /// Samples behind each row.
    pub samples: usize,
    /// Nanoseconds that the clock and an idle full fence take, subtracted from every sample.
    pub clock_ns: u64,
    /// Bytes that the scattered lines lie in.
    pub scattered_bytes: u64,
}

impl FloorReport {
    /// The row of a pattern and a number of lines, 1 to [`FLOOR_LINES_MAX`].
    pub fn row(&self, pattern: Pattern, lines: usize) -> Option<&FloorRow> {
        self.rows.iter().find(|row| row.pattern == pattern && row.lines == lines)
    }
}

/// Measures every pattern with 1 to [`FLOOR_LINES_MAX`] lines and **overwrites the medium**.
///
/// The medium should be far larger than the second-level cache, 256 MiB or more, or scattered
/// lines are not far. `progress` is told `(rounds done, rounds)`.
///
/// # Panics
/// When the medium has less than 1 MiB.
pub fn measure_floor<M: Medium>(
    medium: &M,
    options: &FloorOptions,
    mut progress: impl FnMut(usize, usize),
) -> FloorReport {
    assert!(medium.len() >= 2 * LOGS_BYTES, "the floor needs a medium of at least 1 MiB");
    // Pages are faulted in before anything is timed.
    for page in (0..medium.len()).step_by(4096) {
        medium.store_u64(PoolOffset(page), 1);
    }
    let clock_ns = clock_ns();
    let mut bench =
        Bench { medium, random: Random::from_state(options.seed), log_next: 0, value: 0 };
    let mut samples = vec![Vec::new(); CELLS];
    for round in 0..options.rounds {
        progress(round, options.rounds);
        for (cell, samples) in samples.iter_mut().enumerate() {
            let (pattern, lines) = cell_of(cell);
            for _ in 0..BURST {
                samples.push(bench.sample(pattern, lines).saturating_sub(clock_ns));
            }
        }
    }
    progress(options.rounds, options.rounds);
    let rows = samples.into_iter().enumerate().map(|(cell, samples)| {
        let (pattern, lines) = cell_of(cell);
        let [p25_ns, p50_ns, p75_ns] = quartiles(samples);
        FloorRow { pattern, lines, p25_ns, p50_ns, p75_ns }
    });
    FloorReport {
        rows: rows.collect(),
        samples: options.rounds * BURST,
        clock_ns,
        scattered_bytes: medium.len() - LOGS_BYTES,
    }
}

const CELLS: usize = Pattern::ALL.len() * FLOOR_LINES_MAX;

fn cell_of(cell: usize) -> (Pattern, usize) {
    (Pattern::ALL[cell / FLOOR_LINES_MAX], cell % FLOOR_LINES_MAX + 1)
}

/// The median of what two readings of the clock are apart when nothing happens in between.
fn clock_ns() -> u64 {
    let apart = (0..1001).map(|_| {
        fence(Ordering::SeqCst);
        let start = Instant::now();
        fence(Ordering::SeqCst);
        start.elapsed().as_nanos() as u64
    });
    quartiles(apart.collect())[1]
}

/// The quartiles of samples in nanoseconds; 0 of none.
fn quartiles(samples: Vec<u64>) -> [u64; 3] {
    let spread = Spread::of(samples.into_iter().map(|ns| ns as f64));
    spread.map_or([0; 3], |Spread { p25, median, p75, .. }| [p25, median, p75].map(|ns| ns as u64))
}

struct Bench<'m, M> {
    medium: &'m M,
    random: Random,
    /// Line of its log that either pattern writes next.
    log_next: u64,
    /// Stored values differ, so that no layer can leave a store out.
    value: u64,
}

impl<M: Medium> Bench<'_, M> {
    /// Runs a pattern once; nanoseconds, those of the clock included.
    fn sample(&mut self, pattern: Pattern, lines: usize) -> u64 {
        self.value += 1;
        let mut targets = [LineAddr(0); FLOOR_LINES_MAX];
        let targets = &mut targets[..lines];
        match pattern {
            Pattern::Streamed => self.next_in_log(targets, 0),
            Pattern::Resident => self.next_in_log(targets, LOG_LINES),
            _ => targets.iter_mut().for_each(|line| *line = self.far_line()),
        }
        // What happens before the clock starts.
        match pattern {
            Pattern::Resident => {
                targets.iter().for_each(|line| self.medium.prefetch_write(*line));
                self.load(targets);
            }
            Pattern::ScatteredLoaded => self.load(targets),
            _ => {}
        }
        // No store of the sample before may still be under way.
        self.medium.fence();
        fence(Ordering::SeqCst);
        let start = Instant::now();
        self.run(pattern, targets);
        self.medium.fence();
        fence(Ordering::SeqCst);
        start.elapsed().as_nanos() as u64
    }

    fn run(&self, pattern: Pattern, targets: &[LineAddr]) {
        let (medium, bytes) = (self.medium, [self.value as u8; LINE_BYTES as usize]);
        match pattern {
            Pattern::Streamed => {
                targets.iter().for_each(|line| medium.store_nt(line.start(), &bytes));
            }
            Pattern::Resident => {
                targets.iter().for_each(|line| medium.store(line.start(), &bytes));
                targets.iter().for_each(|line| medium.flush(*line));
            }
            Pattern::ScatteredAlternate => {
                for line in targets {
                    medium.store_u64(line.start(), self.value);
                    medium.flush(*line);
                }
            }
            Pattern::ScatteredBatch | Pattern::ScatteredLoaded => {
                targets.iter().for_each(|line| medium.store_u64(line.start(), self.value));
                targets.iter().for_each(|line| medium.flush(*line));
            }
        }
    }

    /// Waits until every line is in the first-level cache.
    fn load(&self, targets: &[LineAddr]) {
        let sum = targets
            .iter()
            .fold(0u64, |sum, line| sum.wrapping_add(self.medium.load_u64(line.start())));
        std::hint::black_box(sum);
    }

    fn next_in_log(&mut self, targets: &mut [LineAddr], log_start: u64) {
        for line in targets {
            *line = LineAddr(log_start + self.log_next);
            self.log_next = (self.log_next + 1) % LOG_LINES;
        }
    }

    /// A random line behind the log.
    fn far_line(&mut self) -> LineAddr {
        let lines = (self.medium.len() - LOGS_BYTES) / LINE_BYTES;
        LineAddr(2 * LOG_LINES + self.random.below(lines))
    }
}

// A medium of megabytes is too large for an interpreter.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Counted, Heap};

    #[test]
    fn every_pattern_makes_its_lines_durable_with_one_fence() {
        let medium = Counted::new(Heap::new(2 << 20));
        let mut bench =
            Bench { medium: &medium, random: Random::from_state(1), log_next: 0, value: 0 };
        for pattern in Pattern::ALL {
            let before = medium.counters();
            bench.sample(pattern, 5);
            let did = medium.counters() - before;
            let durable = did.flushed_lines + did.streamed_lines;
            assert_eq!((durable, did.clean_flushes), (5, 0), "{pattern}");
            // The first fence ends the sample before.
            assert_eq!(did.fences, 2, "{pattern}");
        }
    }

    #[test]
    fn the_report_has_every_row_with_its_quartiles_in_order() {
        let medium = Heap::new(2 << 20);
        let mut told = Vec::new();
        let options = FloorOptions { rounds: 2, seed: 7 };
        let report = measure_floor(&medium, &options, |done, of| told.push((done, of)));
        assert_eq!(told, [(0, 2), (1, 2), (2, 2)]);
        assert_eq!(report.rows.len(), 80);
        for pattern in Pattern::ALL {
            for lines in 1..=FLOOR_LINES_MAX {
                let row = report.row(pattern, lines).unwrap();
                assert!(row.p25_ns <= row.p50_ns && row.p50_ns <= row.p75_ns);
            }
        }
    }
}
