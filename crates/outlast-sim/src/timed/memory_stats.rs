//! Counts of the memory beyond plain numbers: durations of requests, occupancy of its queues,
//! and energy.

use super::causes::{WritesByCause, place};
use super::config::MemoryConfig;
use super::stats::MemoryStats;
use crate::hierarchy::Cause;
use hdrhistogram::Histogram;
use outlast_trace::LINE_BYTES;
use std::fmt;

/// Spans of time in core cycles, each within 1 %.
#[derive(Clone, PartialEq)]
pub struct CycleHistogram {
    histogram: Histogram<u64>,
    sum: u64,
}

impl Eq for CycleHistogram {}

impl Default for CycleHistogram {
    fn default() -> Self {
        Self { histogram: Histogram::new(2).expect("two digits are possible"), sum: 0 }
    }
}

impl fmt::Debug for CycleHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, mean, max) = (self.count(), self.mean(), self.max());
        write!(f, "{count} of {mean} on average, {max} at most")
    }
}

impl CycleHistogram {
    /// Adds one.
    #[inline]
    pub(crate) fn record(&mut self, cycles: u64) {
        self.histogram.record(cycles).expect("it grows with its values");
        self.sum += cycles;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean; exact, and 0 when there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The time that a share of them does not exceed; 0 when there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    /// The longest; 0 when there are none.
    pub fn max(&self) -> u64 {
        self.histogram.max()
    }
}

/// How full a queue was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueStats {
    /// Sum over cycles of the requests that waited, of all channels.
    pub request_cycles: u64,
    /// The most that waited in one channel.
    pub max: u64,
    /// Cycles in which a channel's queue took no more, of all channels.
    pub full_cycles: u64,
}

impl QueueStats {
    /// `waiting` requests waited for `cycles` cycles.
    #[inline]
    pub(crate) fn pass(&mut self, waiting: usize, full: bool, cycles: u64) {
        self.request_cycles += waiting as u64 * cycles;
        self.full_cycles += u64::from(full) * cycles;
    }
}

/// For each cause of writes, the time from a line's leaving the caches, or the scheme, until it
/// was durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PersistTimes {
    times: Vec<CycleHistogram>,
}

impl Default for PersistTimes {
    fn default() -> Self {
        Self { times: vec![CycleHistogram::default(); WritesByCause::CAUSES.len()] }
    }
}

impl PersistTimes {
    /// Adds one.
    #[inline]
    pub(crate) fn record(&mut self, cause: Cause, cycles: u64) {
        let Some(at) = place(cause) else { return };
        if at >= self.times.len() {
            self.times.resize_with(at + 1, CycleHistogram::default);
        }
        self.times[at].record(cycles);
    }

    /// Those of one cause; `None` for a cause that did not occur.
    pub fn of(&self, cause: Cause) -> Option<&CycleHistogram> {
        self.times.get(place(cause)?)
    }

    /// Those of all causes together.
    pub fn all(&self) -> CycleHistogram {
        let mut all = CycleHistogram::default();
        for times in &self.times {
            all.histogram.add(&times.histogram).expect("it grows with its values");
            all.sum += times.sum;
        }
        all
    }
}

/// Dynamic energy of a memory, in picojoule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryEnergy {
    /// Lines read from row buffers.
    pub row_read: f64,
    /// Lines written to row buffers.
    pub row_write: f64,
    /// Rows read from the array when they were opened.
    pub array_read: f64,
    /// Lines written to the array.
    pub array_write: f64,
}

impl MemoryEnergy {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.row_read + self.row_write + self.array_read + self.array_write
    }

    /// The parts, with their names in results.
    pub fn parts(&self) -> [(&'static str, f64); 4] {
        [
            ("row buffer read", self.row_read),
            ("row buffer write", self.row_write),
            ("array read", self.array_read),
            ("array write", self.array_write),
        ]
    }
}

impl MemoryStats {
    /// The energy of what was counted, where the memory's energies are given: each column
    /// command moves a line between row buffer and bus, each write changes a line of the array,
    /// each activate reads a whole row from it.
    pub fn energy(&self, memory: &MemoryConfig) -> Option<MemoryEnergy> {
        let line_bits = 8.0 * LINE_BYTES as f64;
        let row_bits = 8.0 * memory.row.0 as f64;
        let of = |count: u64, bits: f64, per_bit: Option<f64>| Some(count as f64 * bits * per_bit?);
        let (reads, writes) = (self.read_times.count(), self.write_times.count());
        Some(MemoryEnergy {
            row_read: of(reads, line_bits, memory.row_read.picojoule())?,
            row_write: of(writes, line_bits, memory.row_write.picojoule())?,
            array_read: of(self.activates, row_bits, memory.array_read.picojoule())?,
            array_write: of(writes, line_bits, memory.array_write.picojoule())?,
        })
    }
}

impl MemoryConfig {
    /// The energy that residual energy takes to write a line at a crash, in nanojoule, where the
    /// memory's energies are given. Each line opens its row, as scattered ones do.
    pub fn drain_line_nj(&self) -> Option<f64> {
        let line_bits = 8.0 * LINE_BYTES as f64;
        let row_bits = 8.0 * self.row.0 as f64;
        let a_bit = self.row_write.picojoule()? + self.array_write.picojoule()?;
        Some((line_bits * a_bit + row_bits * self.array_read.picojoule()?) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use crate::timed::config::MachineConfig;
    use crate::timed::{MemoryRequest, replay};
    use outlast_trace::LineAddr;

    #[test]
    fn energy_is_lines_and_rows_times_the_bits_energy() {
        let memory = MachineConfig::named("hwl").unwrap().memory;
        // One row: eight lines read, later eight written; far apart, so that all are served.
        let requests: Vec<_> = (0..16)
            .map(|k| MemoryRequest { line: LineAddr(k % 8), write: k >= 8, at: 1000 * k })
            .collect();
        let stats = replay(&memory, &requests).stats;
        assert_eq!((stats.activates, stats.row_hits), (1, 15));
        let energy = stats.energy(&memory).unwrap();
        let expected =
            [8.0 * 512.0 * 0.93, 8.0 * 512.0 * 1.02, 16384.0 * 2.47, 8.0 * 512.0 * 16.82];
        for ((part, value), expected) in energy.parts().into_iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{part}: {value}, not {expected}");
        }
        assert!((energy.total() - expected.iter().sum::<f64>()).abs() < 1e-6);
        let dram = MachineConfig::named("server").unwrap().memory;
        assert_eq!(stats.energy(&dram), None, "no source gives one");
    }

    #[test]
    fn a_drained_line_takes_its_bits_and_its_rows() {
        let memory = MachineConfig::named("hwl").unwrap().memory;
        let expected = (512.0 * (1.02 + 16.82) + 16384.0 * 2.47) / 1e3;
        assert!((memory.drain_line_nj().unwrap() - expected).abs() < 1e-9);
        assert_eq!(MachineConfig::named("server").unwrap().memory.drain_line_nj(), None);
    }

    #[test]
    fn rows_are_found_open_closed_or_other() {
        let memory = MachineConfig::named("hwl").unwrap().memory;
        let lines = [0, 1, 32 * 8, 2, 32]; // Bank 0's row 0 twice, its row 1, row 0; bank 1.
        let requests: Vec<_> = (0..5)
            .map(|k| MemoryRequest { line: LineAddr(lines[k]), write: false, at: 1000 * k as u64 })
            .collect();
        let stats = replay(&memory, &requests).stats;
        assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), (1, 2, 2));
    }

    #[test]
    fn queues_are_measured_in_time() {
        let mut machine = MachineConfig::named("hwl").unwrap();
        machine.set_option("memory.read_queue", "2").unwrap();
        // Three rows of one bank at clocks 0, 1 and 2. The first leaves at its column command,
        // tRCD = 64 ns or 103 clocks after its activate; the third comes in a clock later. The
        // second leaves after tRTP = 4, its precharge, and its own tRCD.
        let requests: Vec<_> = (0..3)
            .map(|k| MemoryRequest { line: LineAddr(256 * k), write: false, at: k })
            .collect();
        let stats = replay(&machine.memory, &requests).stats;
        assert_eq!(stats.read_queue.max, 2);
        let first = 103;
        let second = first + 4 + 1 + first;
        assert_eq!(stats.read_queue.full_cycles, (first - 1) + (second - first - 1), "{stats:?}");
        // CL = 54 and the burst = 4 clocks behind the column command.
        let times = &stats.read_times;
        assert_eq!((times.count(), times.quantile(0.0)), (3, first + 58));
        assert!((times.quantile(0.5) as f64 / (second - 1 + 58) as f64 - 1.0).abs() < 0.01);
    }
}
