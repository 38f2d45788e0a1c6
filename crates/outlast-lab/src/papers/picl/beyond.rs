//! Measurements beyond the paper's: lengths of epochs against recovery and lost work, how well undo
//! entries compress, and how memory wears.

use std::error::Error;

use outlast_schemes::{Image, MachineScheme, Prepared, apply, whole_image};
use outlast_sim::timed::{
    Cycle, Machine, MachineConfig, MemoryRequest, Setup, TimedJournal, replay,
};
use outlast_sim::{Domain, LineBytes};
use outlast_trace::LineAddr;

use super::measured::{self, Set};
use super::views::{BY_EPOCH, COMPRESSED, LOG_BY_EPOCH, LOST_WORK, RECOVERY, WEAR, point};
use super::works::{Chosen, Origin, Ready, Works};
use super::{EPOCH, IDEAL, PICL, Part, SCHEMES, Task};
use crate::compare::Wear;
use crate::native::Size;
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Record};

/// Instructions of an epoch, at the paper's scale.
const EPOCHS: [u64; 4] = [7_500_000, 30_000_000, 120_000_000, 500_000_000];
/// Those of which recovery is tried: the log of the others fills a host's memory.
const RECOVERED_MAX: u64 = 120_000_000;
/// The schemes of which lengths of epochs are varied.
const BY_LENGTH: [&str; 3] = [IDEAL, PICL, "frm"];
/// Crashes of each.
const CRASHES: u64 = 8;
/// Programs whose epochs are varied, whose undo entries are compressed and under which memory wears.
const PROGRAMS: [&str; 3] = ["bzip2", "gcc", "mcf"];

/// Lengths of epochs in milliseconds and their overhead in per cent; records.
type Found = (Vec<(f64, f64)>, Vec<Record>);

/// Measures what a task wants.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub(super) fn run(
    task: &Task,
    works: &Works,
    listen: &mut Listener<'_>,
) -> Result<Found, Box<dyn Error>> {
    let programs = programs(works);
    let mut records = Vec::new();
    let mut by_epoch = Vec::new();
    if task.wants(&[Part::Epochs]) {
        let (found, more) = lengths(task, works, programs[0], listen)?;
        by_epoch = found;
        records.extend(more);
    }
    if task.wants(&[Part::Compression]) {
        let run = |work: &&Chosen| compression(task, works, work);
        records.extend(in_parallel(&programs, usize::MAX, COMPRESSION, listen, run)?.concat());
    }
    if task.wants(&[Part::Wear]) {
        let jobs: Vec<(&Chosen, &str)> =
            programs.iter().flat_map(|work| SCHEMES.map(|scheme| (*work, scheme))).collect();
        let run = |(work, scheme): &(&Chosen, &'static str)| wear(task, works, work, scheme);
        records.extend(in_parallel(&jobs, usize::MAX, WEAR_STAGE, listen, run)?.concat());
    }
    Ok((by_epoch, records))
}

/// The programs, or synthetic work where there are none.
fn programs(works: &Works) -> Vec<&Chosen> {
    let programs: Vec<&Chosen> = PROGRAMS.iter().filter_map(|name| works.single(name)).collect();
    match programs.is_empty() {
        true => works.singles.iter().filter(|work| work.origin == Origin::Synthetic).collect(),
        false => programs,
    }
}

/// The stages of [`run`] in progress events.
const LENGTHS: &str = "lengths of epochs";
const RECOVERIES: &str = "recoveries";
const COMPRESSION: &str = "compression";
const WEAR_STAGE: &str = "wear";

/// The stages that a task has, with the instructions that each simulates.
pub(super) fn stages(
    task: &Task,
    works: &Works,
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let programs = programs(works).len() as u64;
    let recovered = EPOCHS.iter().filter(|epoch| **epoch <= RECOVERED_MAX);
    let lengths = BY_LENGTH.len() as u64;
    let all = [
        (Part::Epochs, LENGTHS, lengths * EPOCHS.iter().map(|e| counted(task, *e)).sum::<u64>()),
        (Part::Epochs, RECOVERIES, 2 * recovered.map(|e| until_crashes(task, *e)).sum::<u64>()),
        (Part::Compression, COMPRESSION, programs * until_crashes(task, EPOCH)),
        (Part::Wear, WEAR_STAGE, programs * SCHEMES.len() as u64 * task.window(task.single).1),
    ];
    let wanted =
        all.map(|(part, stage, instructions)| task.wants(&[part]).then_some((stage, instructions)));
    wanted.into_iter().flatten()
}

/// Instructions of a run whose epochs' length is varied: two epochs, or as many as single programs have.
fn counted(task: &Task, epoch: u64) -> u64 {
    (2 * epoch / task.divisor).max(task.window(task.single).1)
}

/// Instructions of a run that is crashed in its second half.
fn until_crashes(task: &Task, epoch: u64) -> u64 {
    7 * epoch / task.divisor
}

/// The results of a run with a journal.
struct Kept {
    prepared: Box<dyn Prepared>,
    /// The initial contents of memory, up to the end of the work's own lines.
    base: Vec<u8>,
    running: Box<dyn Machine>,
    machine: MachineConfig,
}

impl Kept {
    fn journal(&self) -> Result<&TimedJournal, &'static str> {
        self.running.journal().ok_or("the machine keeps a journal")
    }

    /// All of memory before the run.
    fn image(&self) -> Vec<u8> {
        whole_image(&self.base, self.prepared.lines())
    }
}

/// Runs a work with a journal.
fn keep(
    task: &Task,
    ready: &Ready,
    scheme: &'static str,
    set: Set,
    instructions: u64,
) -> Result<Kept, Box<dyn Error>> {
    let machine = task.machine(ready.cores(), set)?;
    let options = task.options(scheme, set);
    let of: MachineScheme = scheme.parse()?;
    let prepared = of.prepare(&ready.work(), &options, None)?;
    let base = ready.base();
    let setup = Setup {
        seed: task.seed,
        base: base.clone(),
        journal: Some(Domain::Adr),
        ..Setup::default()
    };
    let chosen = measured::Chosen {
        scheme,
        machine: &machine,
        options: &options,
        window: (0, instructions),
        until_all: false,
    };
    let mut running = measured::start(ready, &chosen, setup)?;
    running.run(instructions * u64::from(ready.cores()))?;
    Ok(Kept { prepared, base, running, machine })
}

fn lengths(
    task: &Task,
    works: &Works,
    work: &Chosen,
    listen: &mut Listener<'_>,
) -> Result<Found, Box<dyn Error>> {
    let jobs: Vec<(u64, &'static str)> =
        EPOCHS.iter().rev().flat_map(|epoch| BY_LENGTH.map(|scheme| (*epoch, scheme))).collect();
    let run = |(epoch, scheme): &(u64, &'static str)| -> Result<_, String> {
        let set = Set::Epoch(*epoch);
        let found = length(task, works, work, scheme, set, counted(task, *epoch));
        found.map_err(|error| format!("epochs of {epoch} under {scheme}: {error}"))
    };
    let rows = in_parallel(&jobs, usize::MAX, LENGTHS, listen, run)?;
    let crashes: Vec<(u64, &'static str)> = EPOCHS
        .iter()
        .filter(|epoch| **epoch <= RECOVERED_MAX)
        .flat_map(|epoch| [(*epoch, PICL), (*epoch, "frm")])
        .collect();
    let run = |(epoch, scheme): &(u64, &'static str)| -> Result<_, String> {
        let set = Set::Epoch(*epoch);
        let found = crashed(task, works, work, scheme, set, until_crashes(task, *epoch));
        found.map_err(|error| format!("crashes of epochs of {epoch}: {error}"))
    };
    // Whole logs are in the host's memory.
    let most = if task.size == Size::Quick { 2 } else { 1 };
    let crashed = in_parallel(&crashes, most, RECOVERIES, listen, run)?;
    let (mut by_epoch, mut records) = (Vec::new(), Vec::new());
    for epoch in EPOCHS {
        let of = |scheme: &str| {
            let at = jobs.iter().position(|job| *job == (epoch, scheme_named(scheme)));
            at.map(|at| rows[at])
        };
        let Some((ideal, _)) = of(IDEAL) else { continue };
        let millions = epoch as f64 / 1e6;
        for scheme in [PICL, "frm"] {
            let Some((cpi, _)) = of(scheme) else { continue };
            records.extend(point(BY_EPOCH, work.name, scheme, millions, cpi / ideal));
        }
        if let Some((cpi, clock_ns)) = of(PICL) {
            let milliseconds = epoch as f64 * cpi * clock_ns / 1e6;
            by_epoch.push((milliseconds, 100.0 * (cpi / ideal - 1.0)));
        }
    }
    for ((epoch, scheme), found) in crashes.iter().zip(crashed) {
        let millions = *epoch as f64 / 1e6;
        let scale = task.divisor as f64;
        let mut put =
            |lines, value: f64| records.extend(point(lines, work.name, scheme, millions, value));
        put(RECOVERY, scale * found.recovery_ms);
        put(LOST_WORK, scale * found.lost_ms);
        put(LOG_BY_EPOCH, scale * found.log_mb);
    }
    Ok((by_epoch, records))
}

fn scheme_named(name: &str) -> &'static str {
    BY_LENGTH.into_iter().find(|scheme| *scheme == name).unwrap_or(IDEAL)
}

/// Cycles of an instruction, and nanoseconds of a cycle.
fn length(
    task: &Task,
    works: &Works,
    work: &Chosen,
    scheme: &'static str,
    set: Set,
    counted: u64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let ready = works.ready(task, work, counted)?;
    let machine = task.machine(ready.cores(), set)?;
    let options = task.options(scheme, set);
    let chosen = measured::Chosen {
        scheme,
        machine: &machine,
        options: &options,
        window: (0, counted),
        until_all: false,
    };
    let counts = measured::measure(task, &ready, &chosen)?;
    let instructions: u64 = counts.instructions.iter().sum();
    let clock_ns = machine.core.clock.period_fs() as f64 / 1e6;
    Ok((counts.cycles as f64 / instructions.max(1) as f64, clock_ns))
}

/// Means over crashes.
#[derive(Clone, Copy, Debug, Default)]
struct Crashed {
    /// Reading the log and writing what it restores, in the machine's memory.
    recovery_ms: f64,
    /// From the end of the epoch that recovery names to the crash.
    lost_ms: f64,
    /// Blocks that recovery reads.
    log_mb: f64,
}

/// Crashes a run at evenly spread times of its second half, recovers each image and looks that a second
/// recovery finds nothing to do.
fn crashed(
    task: &Task,
    works: &Works,
    work: &Chosen,
    scheme: &'static str,
    set: Set,
    instructions: u64,
) -> Result<Crashed, Box<dyn Error>> {
    let ready = works.ready(task, work, instructions)?;
    let kept = keep(task, &ready, scheme, set, instructions)?;
    let Kept { prepared, machine, .. } = &kept;
    let (mut base, journal, end) = (kept.image(), kept.journal()?, kept.running.now());
    let cycle_ms = machine.core.clock.period_fs() as f64 / 1e12;
    let mut cursor = journal.journal().cursor();
    let mut sum = Crashed::default();
    for crash in 0..CRASHES {
        let at = Cycle(end.0 / 2 + (end.0 - end.0 / 2) * (2 * crash + 1) / (2 * CRASHES));
        cursor.advance_to_entry(journal.entries_by(at), &mut base, |_| {});
        let reads = prepared.reads_at_recovery(Image::new(&base));
        let patches = prepared.recover(Image::new(&base))?;
        let undo = apply(&patches, &mut base);
        if !prepared.recover(Image::new(&base))?.is_empty() {
            return Err("recovery has left something to do".into());
        }
        let epoch = prepared.epoch(Image::new(&base)).unwrap_or(0);
        apply(&undo, &mut base);
        let ended = journal.ended_epochs().iter().find(|end| end.epoch == epoch);
        let since = ended.map_or(Cycle(0), |end| end.at);
        sum.lost_ms += at.since(since) as f64 * cycle_ms;
        let written = patches.iter().map(|patch| patch.at.line());
        sum.recovery_ms += recovery_ms(machine, &reads, written);
        let lines: u64 = reads.iter().filter(|read| read.lines > 1).map(|read| read.lines).sum();
        sum.log_mb += 64.0 * lines as f64 / 1e6;
    }
    let mean = |value: f64| value / CRASHES as f64;
    Ok(Crashed {
        recovery_ms: mean(sum.recovery_ms),
        lost_ms: mean(sum.lost_ms),
        log_mb: mean(sum.log_mb),
    })
}

/// Milliseconds of the machine's memory for these reads and, behind them, these writes, as fast as it
/// takes them.
fn recovery_ms(
    machine: &MachineConfig,
    reads: &[outlast_schemes::LogRead],
    written: impl Iterator<Item = LineAddr>,
) -> f64 {
    let read = reads.iter().flat_map(|read| (0..read.lines).map(|line| read.line.plus(line)));
    let read = read.map(|line| MemoryRequest { line, write: false, at: 0 });
    let mut lines: Vec<LineAddr> = written.collect();
    lines.dedup();
    let written = lines.into_iter().map(|line| MemoryRequest { line, write: true, at: 0 });
    let requests: Vec<MemoryRequest> = read.chain(written).collect();
    if requests.is_empty() {
        return 0.0;
    }
    let replayed = replay(&machine.memory, &requests);
    replayed.clocks as f64 * machine.memory.clock.period_fs() as f64 / 1e12
}

/// How a line may be written in fewer bytes.
const CODES: [&str; 3] = ["zero words left out", "base and differences", "the better of both"];

/// Bytes of a line under each.
fn code_bytes(line: &LineBytes) -> [u64; 3] {
    let words = line.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let words: Vec<u64> = words.collect();
    // A byte says which words are there.
    let left_out = 1 + 8 * words.iter().filter(|word| **word != 0).count() as u64;
    let base = 1 + base_bytes(&words);
    [left_out.min(65), base.min(65), left_out.min(base).min(65)]
}

/// The first word, and the others' differences from it or from nought in 1, 2 or 4 bytes each.
fn base_bytes(words: &[u64]) -> u64 {
    let base = words.iter().copied().find(|word| *word != 0).unwrap_or(0);
    let fits = |bytes: u32, value: u64| {
        let signed = value as i64;
        let limit = 1i64 << (8 * bytes - 1);
        (-limit..limit).contains(&signed)
    };
    let all_fit = |bytes: u32| {
        words.iter().all(|word| fits(bytes, *word) || fits(bytes, word.wrapping_sub(base)))
    };
    match () {
        () if base == 0 => 0,
        () if words.iter().all(|word| *word == base) => 8,
        () => match [1, 2, 4].into_iter().find(|bytes| all_fit(*bytes)) {
            // The base, the differences, and a bit each that says from which.
            Some(bytes) => 8 + 8 * u64::from(bytes) + 1,
            None => 64,
        },
    }
}

/// Mean bytes of the undo entries that recovery would read at the end of a run.
fn compression(task: &Task, works: &Works, work: &Chosen) -> Result<Vec<Record>, String> {
    let run = || -> Result<Vec<Record>, Box<dyn Error>> {
        let instructions = until_crashes(task, EPOCH);
        let ready = works.ready(task, work, instructions)?;
        let kept = keep(task, &ready, PICL, Set::Taken, instructions)?;
        let (mut base, journal) = (kept.image(), kept.journal()?);
        let entries = journal.journal().len();
        journal.journal().cursor().advance_to_entry(entries, &mut base, |_| {});
        let reads = kept.prepared.reads_at_recovery(Image::new(&base));
        let lines: Vec<&LineBytes> = reads.iter().flat_map(|read| &read.entries).collect();
        let mut sums = [0u64; CODES.len()];
        for line in &lines {
            for (sum, bytes) in sums.iter_mut().zip(code_bytes(line)) {
                *sum += bytes;
            }
        }
        let record = |(code, sum): (&&str, &u64)| {
            let mean = *sum as f64 / lines.len().max(1) as f64;
            Record::new(Kind::Sim, work.name, PICL, COMPRESSED, mean).class(code)
        };
        Ok(CODES.iter().zip(&sums).map(record).collect())
    };
    run().map_err(|error| format!("{}: {error}", work.name))
}

/// Durable writes of each line.
fn wear(
    task: &Task,
    works: &Works,
    work: &Chosen,
    scheme: &'static str,
) -> Result<Vec<Record>, String> {
    let run = || -> Result<Vec<Record>, Box<dyn Error>> {
        let instructions = task.window(task.single).1;
        let ready = works.ready(task, work, instructions)?;
        let kept = keep(task, &ready, scheme, Set::Taken, instructions)?;
        let Some(wear) = Wear::of(kept.journal()?.journal(), 0) else { return Ok(Vec::new()) };
        let record = |metric, value| Record::new(Kind::Sim, work.name, scheme, metric, value);
        Ok(vec![record(WEAR[0], wear.max as f64), record(WEAR[1], wear.gini)])
    };
    run().map_err(|error| format!("{} under {scheme}: {error}", work.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: [u64; 8]) -> LineBytes {
        let mut line = [0; 64];
        for (place, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        line
    }

    #[test]
    fn a_line_takes_the_bytes_that_its_words_need() {
        assert_eq!(code_bytes(&line([0; 8])), [1, 1, 1]);
        assert_eq!(code_bytes(&line([7 << 40; 8])), [65, 9, 9]);
        assert_eq!(code_bytes(&line([7 << 40, 0, 0, 0, 0, 0, 0, 0])), [9, 18, 9]);
        let pointers = std::array::from_fn(|number| (1 << 44) + 300 * number as u64);
        assert_eq!(code_bytes(&line(pointers)), [65, 26, 26]);
        let noise =
            std::array::from_fn(|number| (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(code_bytes(&line(noise)), [65, 65, 65]);
    }
}
