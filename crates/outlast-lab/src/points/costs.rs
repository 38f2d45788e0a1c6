//! How many cycles intervals may take, without timing them.
//!
//! Blocks do not tell which of like intervals miss. Functional warming does: it passes all of the trace in
//! a fraction of the time that a timed run takes, and counts what caches, TLBs and predictors miss.
//! Each miss at the price that the machine's parts say makes a cost. It need not be right, since windows
//! are timed: it says which intervals are alike.

use std::path::Path;

use outlast_sim::timed::{MachineConfig, Span, Warmed};

use super::vectors::Interval;
use crate::simulated::plain_machine;

/// Cycles of the core that events take.
struct Prices {
    second_level: f64,
    last_level: f64,
    /// A line that a load waits for.
    load_read: f64,
    /// A line that a store waits for, of which the store buffer hides about half.
    store_read: f64,
    /// A line written: its share of the banks' time.
    write: f64,
    mispredicted: f64,
    walk: f64,
}

impl Prices {
    fn of(machine: &MachineConfig) -> Self {
        let period = machine.core.clock.period_fs();
        let cycles = |span: &Span| span.cycles(period) as f64;
        let memory = &machine.memory;
        let banks = f64::from(memory.channels * memory.ranks * memory.groups * memory.banks);
        let read = cycles(&memory.path)
            + cycles(&memory.t_rcd)
            + cycles(&memory.t_cl)
            + cycles(&memory.t_burst);
        let write = cycles(&memory.t_rcd)
            + cycles(&memory.t_cwl)
            + cycles(&memory.t_burst)
            + cycles(&memory.t_wr);
        Self {
            second_level: cycles(&machine.l2.latency),
            last_level: cycles(&machine.llc.latency),
            load_read: read,
            store_read: read / 2.0,
            write: write / banks.max(1.0),
            mispredicted: cycles(&machine.core.mispredict_penalty),
            walk: cycles(&machine.tlb.walk_latency),
        }
    }

    fn cycles(&self, counted: &Warmed) -> f64 {
        let Warmed { instructions, mispredicted, walks, load_reads, caches, .. } = counted;
        let traffic = &caches.traffic;
        let writes = traffic.memory_evictions + traffic.memory_streams + traffic.memory_flushes;
        let priced = [
            (*instructions, 1.0),
            (caches.l1.misses, self.second_level),
            (caches.l2.misses, self.last_level),
            (*load_reads, self.load_read),
            (traffic.memory_reads.saturating_sub(*load_reads), self.store_read),
            (writes, self.write),
            (*mispredicted, self.mispredicted),
            (*walks, self.walk),
        ];
        priced.iter().map(|(count, price)| *count as f64 * price).sum()
    }
}

/// Gives intervals their costs on a machine.
///
/// # Errors
/// When the trace cannot be read, or no such machine can be built.
pub fn cost(
    intervals: &mut [Interval],
    trace: &Path,
    machine: &MachineConfig,
    seed: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut system = plain_machine(trace, machine, seed)?;
    let prices = Prices::of(machine);
    let mut last = 0.0;
    for interval in intervals {
        let from = system.passed();
        let counted = system.warm(interval.begins_at + interval.instructions, true)?;
        let passed = system.passed() - from;
        // The end of a trace may have passed with the interval before.
        if passed > 0 {
            last = prices.cycles(&counted) / passed as f64;
        }
        interval.cost = last;
    }
    Ok(())
}
