//! Recoveries that are executed, and drains: what they read and write, and how long memory takes for that.

use std::time::Duration;

use outlast_schemes::{Image, LinesRead, Prepared, apply};
use outlast_sim::timed::{MachineConfig, MemoryRequest, TimedJournal, replay};

use outlast_trace::LineAddr;

use crate::clock::ThreadStopwatch;

/// One recovery.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Recovery {
    /// Lines read.
    pub reads: u64,
    /// Lines written, each once where it is written in one go.
    pub writes: u64,
    /// Time of the machine's memory for all of them, as fast as it takes requests.
    pub memory_ns: f64,
    /// CPU time of the host that executed it, where the system tells.
    pub host: Option<Duration>,
}

/// Recoveries of crashes at equal distances behind an entry of a journal, over the image that it
/// began with.
///
/// # Errors
/// When an image cannot be recovered or its account does not add up.
pub(super) fn recoveries(
    machine: &MachineConfig,
    prepared: &dyn Prepared,
    journal: &TimedJournal,
    image: &mut [u8],
    (from, count): (usize, usize),
) -> Result<Vec<Recovery>, Box<dyn std::error::Error>> {
    let entries = journal.journal().len();
    let mut cursor = journal.journal().cursor();
    let mut found = Vec::with_capacity(count);
    for number in 1..=count {
        let point = from + (entries - from) * number / count;
        cursor.advance_to_entry(point, image, |_| {});
        let read = LinesRead::default();
        let watch = ThreadStopwatch::new();
        let patches = prepared.recover(Image::noting(image, &read))?;
        let host = watch.elapsed();
        let undo = apply(&patches, image);
        prepared.audit(Image::new(image))?;
        apply(&undo, image);
        let mut requests: Vec<MemoryRequest> = Vec::new();
        let request = |line, write| MemoryRequest { line, write, at: 0 };
        requests.extend(read.into_lines().into_iter().map(|line| request(line, false)));
        let reads = requests.len() as u64;
        let mut last = None;
        for patch in &patches {
            let line = patch.at.line();
            if last != Some(line) {
                requests.push(request(line, true));
                last = Some(line);
            }
        }
        let writes = requests.len() as u64 - reads;
        let memory_ns = memory_ns(machine, &requests);
        found.push(Recovery { reads, writes, memory_ns, host });
    }
    Ok(found)
}

/// How long residual energy has to last: the time of the machine's memory for the lines that it writes at a
/// crash, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DrainTime {
    /// Over crashes at equal distances.
    pub mean: f64,
    /// At the crash with the most lines.
    pub max: f64,
}

/// Crashes over which a drain's mean time is taken.
const DRAINS: usize = 64;

/// The drains of crashes behind an entry of a journal; `None` where no line is ever kept.
pub(super) fn drain_time(
    machine: &MachineConfig,
    journal: &TimedJournal,
    from: usize,
) -> Option<DrainTime> {
    let entries = journal.journal().len();
    let mut drains = journal.drains();
    let mut most: Vec<LineAddr> = Vec::new();
    let (mut total, mut taken) = (0.0, 0);
    let time = |lines: &[LineAddr]| {
        let write = |line: &LineAddr| MemoryRequest { line: *line, write: true, at: 0 };
        memory_ns(machine, &lines.iter().map(write).collect::<Vec<_>>())
    };
    for point in from..=entries {
        drains.advance_to_entry(point);
        let is_sampled = (point - from) * DRAINS / (entries - from + 1) == taken;
        if !is_sampled && drains.lines().len() <= most.len() {
            continue;
        }
        let lines: Vec<LineAddr> = drains.lines().collect();
        if is_sampled {
            total += time(&lines);
            taken += 1;
        }
        if lines.len() > most.len() {
            most = lines;
        }
    }
    (!most.is_empty()).then(|| DrainTime { mean: total / taken.max(1) as f64, max: time(&most) })
}

/// The time of a machine's memory for requests, as fast as it takes them.
fn memory_ns(machine: &MachineConfig, requests: &[MemoryRequest]) -> f64 {
    if requests.is_empty() {
        return 0.0;
    }
    let clocks = replay(&machine.memory, requests).clocks as f64;
    clocks * machine.memory.clock.period_fs() as f64 / 1e6
}
