//! One run, and what figures say of it.

use std::collections::BTreeMap;
use std::error::Error;

use outlast_crash::machine::with_cores;
use outlast_schemes::{MachineScheme, Options};
use outlast_sim::timed::{Ended, Lost, Machine, MachineConfig, RunStats, Setup};

use super::works::{Origin, Ready};
use super::{EPOCH, IDEAL, LONG_EPOCH, PICL, Task};

/// The parameter that is varied, and its value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Set {
    /// As published.
    Taken,
    /// Megabytes of the last level for each core.
    Llc(f64),
    /// Nanoseconds of a row's write.
    Write(f64),
    /// Gigabytes per second of the link.
    Link(f64),
    /// Epochs that the scan stays behind.
    Gap(u64),
    /// Long epochs.
    Long,
    /// Instructions of an epoch, at the paper's scale.
    Epoch(u64),
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) cycles: u64,
    /// Of each core.
    pub(super) instructions: Vec<u64>,
    /// In which a scheme let no core begin, of each core.
    pub(super) stop_cycles: u64,
    reads: BTreeMap<&'static str, u64>,
    writes: BTreeMap<&'static str, u64>,
    counters: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(super) fn of(stats: &RunStats) -> Self {
        let mut counts = Self::default();
        counts.add(stats);
        counts
    }

    fn add(&mut self, stats: &RunStats) {
        self.cycles += stats.cycles;
        self.instructions.resize(stats.cores.len(), 0);
        for (sum, core) in self.instructions.iter_mut().zip(&stats.cores) {
            *sum += core.instructions;
        }
        self.stop_cycles += stats.cores.iter().map(|core| core.lost.of(Lost::Stop)).sum::<u64>();
        for (_, name, count) in stats.reads.each() {
            *self.reads.entry(name).or_default() += count;
        }
        for (_, name, count) in stats.writes.each() {
            *self.writes.entry(name).or_default() += count;
        }
        for counter in &stats.counters {
            let value = counter.value as u64;
            let sum = self.counters.entry(counter.name).or_default();
            *sum = if counter.name.ends_with("_max") { value.max(*sum) } else { *sum + value };
        }
    }

    pub(super) fn reads(&self, name: &str) -> u64 {
        self.reads.get(name).copied().unwrap_or(0)
    }

    pub(super) fn writes(&self, name: &str) -> u64 {
        self.writes.get(name).copied().unwrap_or(0)
    }

    /// One of the scheme's own; nothing where it has none of that name.
    pub(super) fn counter(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }

    fn own(&self, name: &str) -> u64 {
        self.counter(name).unwrap_or(0)
    }

    fn all_instructions(&self) -> u64 {
        self.instructions.iter().sum()
    }
}

/// Operations of the memory by kind, as figure 12 has them: a block or a page counts as one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Operations {
    /// Blocks and pages.
    pub(super) sequential: f64,
    /// Single lines that no eviction has written.
    pub(super) random: f64,
    /// Evictions.
    pub(super) write_back: f64,
}

impl Operations {
    pub(super) fn total(self) -> f64 {
        self.sequential + self.random + self.write_back
    }
}

/// A run of a work under a scheme.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) work: &'static str,
    pub(super) origin: Origin,
    pub(super) scheme: &'static str,
    pub(super) set: Set,
    pub(super) counts: Counts,
}

impl Row {
    /// Cycles of each core's instruction; of all, where they are threads of one program.
    fn cpi(&self) -> impl Iterator<Item = f64> {
        let cycles = self.counts.cycles as f64;
        let counts = match self.origin {
            Origin::Program => vec![self.counts.all_instructions()],
            _ => self.counts.instructions.clone(),
        };
        counts.into_iter().map(move |count| cycles / count.max(1) as f64)
    }

    /// Time over that of another run: the mean over the cores of the time of an instruction.
    pub(super) fn slowdown(&self, ideal: &Self) -> f64 {
        let ratios: Vec<f64> =
            self.cpi().zip(ideal.cpi()).map(|(own, ideal)| own / ideal).collect();
        ratios.iter().sum::<f64>() / ratios.len().max(1) as f64
    }

    /// Epochs that ended in as many instructions as one is to have.
    pub(super) fn commits(&self, divisor: u64) -> f64 {
        let cores = self.counts.instructions.len() as u64;
        let wanted =
            self.counts.all_instructions() as f64 / (EPOCH / divisor * cores.max(1)) as f64;
        self.counts.own("epochs") as f64 / wanted
    }

    /// Instructions of an epoch that was to have [`LONG_EPOCH`], at the paper's scale.
    pub(super) fn effective_epoch(&self, divisor: u64) -> f64 {
        let all = (divisor * self.counts.all_instructions()) as f64;
        match self.counts.own("epochs_early") {
            0 => LONG_EPOCH as f64,
            early => (all / early as f64).min(LONG_EPOCH as f64),
        }
    }

    /// Megabytes of undo blocks written, at the paper's scale.
    pub(super) fn log_mb(&self, divisor: u64) -> f64 {
        (divisor * self.counts.own("log_bytes")) as f64 / 1e6
    }

    /// Lines that the asynchronous scan has written in place.
    pub(super) fn scanned(&self) -> u64 {
        self.counts.writes("cache scan")
    }

    /// Operations of the memory.
    pub(super) fn operations(&self) -> Operations {
        let counts = &self.counts;
        let written = |name| counts.writes(name) as f64;
        let own = |name| counts.own(name) as f64;
        let write_back = written("evicted") + written("flushed") + written("streamed");
        let (sequential, random) = match self.scheme {
            IDEAL => (0.0, 0.0),
            PICL => {
                let header = written("persisted epoch") + written("log growth");
                let random = written("cache scan") + header + counts.reads("streamed") as f64;
                (own("undo_blocks"), random)
            }
            "frm" => {
                let entries = counts.reads("old lines") as f64 + own("undo_entries");
                (0.0, entries + written("epoch flush") + written("commit record"))
            }
            _ => {
                let lines = 2.0 * (own("lines_copied_home") + own("lines_copied_on_write"));
                (
                    own("block_operations"),
                    lines + written("epoch flushes") + written("commit records"),
                )
            }
        };
        Operations { sequential, random, write_back }
    }
}

/// Inputs of a run besides the work.
#[derive(Clone, Debug)]
pub(super) struct Chosen<'a> {
    pub(super) scheme: &'static str,
    pub(super) machine: &'a MachineConfig,
    pub(super) options: &'a Options,
    /// Instructions of each core: before counting starts, and those that count.
    pub(super) window: (u64, u64),
    /// Whether the run goes on until every core has executed its part.
    pub(super) until_all: bool,
}

/// Pieces of a run of several cores after which it is looked whether all have executed their part.
const PIECES: u64 = 32;

/// Runs it.
///
/// # Errors
/// When the machine cannot be built or comes to a stop, or the scheme cannot take the work.
pub(super) fn measure(
    task: &Task,
    ready: &Ready,
    chosen: &Chosen<'_>,
) -> Result<Counts, Box<dyn Error>> {
    let setup = Setup { seed: task.seed, base: ready.base(), ..Setup::default() };
    let mut machine = start(ready, chosen, setup)?;
    let (warm_up, counted) = chosen.window;
    let cores = u64::from(ready.cores());
    machine.run(warm_up * cores)?;
    machine.take_stats();
    let none = || Err("the work ends before anything counts".into());
    let mut counts = Counts::default();
    if !chosen.until_all {
        machine.run(counted * cores)?;
        counts.add(&machine.take_stats());
        return if counts.cycles > 0 { Ok(counts) } else { none() };
    }
    loop {
        let ended = machine.run((counted * cores).div_ceil(PIECES))?;
        counts.add(&machine.take_stats());
        let have_all = counts.instructions.iter().all(|count| *count >= counted);
        if have_all || ended == Ended::Finished {
            return if counts.cycles > 0 { Ok(counts) } else { none() };
        }
    }
}

/// The machine at its begin.
pub(super) fn start(
    ready: &Ready,
    chosen: &Chosen<'_>,
    setup: Setup,
) -> Result<Box<dyn Machine>, Box<dyn Error>> {
    let scheme: MachineScheme = chosen.scheme.parse()?;
    let prepared = scheme.prepare(&ready.work(), chosen.options, None)?;
    let sources = ready.sources(prepared.as_ref());
    let machine = with_cores(chosen.machine, ready.cores());
    Ok(prepared.machine(&machine, setup, sources)?)
}
