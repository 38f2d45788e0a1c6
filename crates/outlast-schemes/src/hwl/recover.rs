//! Recovery of hardware undo+redo logging.
//!
//! It reads records from the head on, until the numbers stop. A transaction is the records of
//! one transaction number from one that is its first to its commit. Then, in this order:
//!
//! 1. what committed transactions stored is stored again, oldest record first;
//! 2. what the others stored is taken back, newest record first;
//! 3. the head moves behind every record that a slot holds, and the log is empty.
//!
//! The paper compares logged values with memory to find out what committed (HWL-2); under
//! steal-but-no-force that comparison says nothing. Everything before step 3 may be repeated, so
//! a crash in between harms nothing. Step 2 after step 1 is right where a transaction stores to
//! nothing that another has stored to and not yet ended (HWL-12): isolation is the program's
//! business, and it must last to the end of the transaction.

use super::{
    config::{Fault, Faults, GROWTHS_MAX, LogPlace, Values},
    record::{Change, Record},
};
use crate::image::Image;
use crate::patch::{Patch, RecoveryError};
use outlast_trace::LineAddr;

/// What a recovery writes, in its order.
///
/// # Errors
/// When the image is too short for the log, or a record is damaged.
pub fn recover(log: LogPlace, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
    recover_as(log, Values::Both, Faults::NONE, image)
}

/// The same for a log of other values, or one that a mechanism with faults has left.
///
/// # Errors
/// As [`recover`].
pub fn recover_as(
    log: LogPlace,
    values: Values,
    faults: Faults,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(log.base, log.lines())?;
    let starts: [u64; GROWTHS_MAX as usize] =
        std::array::from_fn(|k| image.word(log.base, 1 + k as u64));
    let head = if faults.has(Fault::Overwrite) {
        oldest(log, image)
    } else {
        image.word(log.base, 0).max(1)
    };
    let mut records = Vec::new();
    let mut number = head;
    while number < head + log.lines() {
        let slot = log.slot(number, &starts);
        if image.word(slot, 0) >> 16 != number {
            break;
        }
        records.push(read(image, slot)?);
        number += 1;
    }
    let committed = committed(&records, values, faults, image);
    let mut patches = Vec::new();
    if values != Values::Undo {
        for (record, _) in records.iter().zip(&committed).filter(|(_, done)| **done) {
            patches.extend(changes(record, false));
        }
    }
    if values != Values::Redo {
        for (record, _) in records.iter().zip(&committed).rev().filter(|(_, done)| !**done) {
            patches.extend(changes(record, true));
        }
    }
    // Records are on their way together: one that no head will pass may lie behind a gap.
    let next = number.max(youngest(log, &starts, image) + 1);
    if next > head && !faults.has(Fault::Overwrite) {
        patches.push(Patch { at: log.base.start(), word: next.to_le_bytes() });
    }
    Ok(patches)
}

/// The largest number of a record in the log's regions.
pub(super) fn youngest(
    log: LogPlace,
    starts: &[u64; GROWTHS_MAX as usize],
    memory: Image<'_>,
) -> u64 {
    let regions = starts.iter().take_while(|start| **start != 0).count();
    let slots = log.slots * ((2 << regions) - 1);
    let number = |slot| memory.word_or_zero(log.base.plus(1 + slot), 0) >> 16;
    (0..slots).map(number).max().unwrap_or(0)
}

fn read(image: Image<'_>, slot: LineAddr) -> Result<Record, RecoveryError> {
    let (bytes, lines) = (image.line(slot), image.lines());
    let inside = |record: &Record| record.changes().iter().all(|change| change.line.0 < lines);
    Record::decode(bytes).filter(inside).ok_or(RecoveryError::Damaged { line: slot })
}

/// The first of the records without a gap before the youngest one: where a log begins that was
/// written round and round without a head being noted.
fn oldest(log: LogPlace, image: Image<'_>) -> u64 {
    let number = |slot: u64| image.word(log.base.plus(1 + slot), 0) >> 16;
    let youngest = youngest(log, &[0; GROWTHS_MAX as usize], image);
    let mut first = youngest;
    while first > 1
        && youngest - first + 1 < log.slots
        && number((first - 1) % log.slots) == first - 1
    {
        first -= 1;
    }
    first.max(1)
}

/// Of each record, whether its transaction's commit is in the log.
fn committed(records: &[Record], values: Values, faults: Faults, image: Image<'_>) -> Vec<bool> {
    if faults.has(Fault::Mismatch) {
        return by_mismatch(records, image);
    }
    if faults.has(Fault::NoCommit) {
        return vec![values != Values::Undo; records.len()];
    }
    let mut open = [false; 256];
    let mut committed = vec![false; records.len()];
    for (index, record) in records.iter().enumerate().rev() {
        let tx = usize::from(record.tx);
        open[tx] |= record.commit;
        committed[index] = open[tx];
        if record.first {
            open[tx] = false; // What comes before belongs to an earlier transaction.
        }
    }
    committed
}

/// The paper's rule: a transaction with a record whose new value is not in memory has not
/// committed.
fn by_mismatch(records: &[Record], image: Image<'_>) -> Vec<bool> {
    let in_memory = |change: &Change| image.word(change.line, u64::from(change.word)) == change.new;
    let mut of_tx: Vec<usize> = Vec::with_capacity(records.len());
    let mut current = [usize::MAX; 256];
    for (index, record) in records.iter().enumerate() {
        let tx = usize::from(record.tx);
        if record.first || current[tx] == usize::MAX {
            current[tx] = index;
        }
        of_tx.push(current[tx]);
    }
    let mut matches = vec![true; records.len()];
    for (record, first) in records.iter().zip(&of_tx) {
        matches[*first] &= record.changes().iter().all(in_memory);
    }
    of_tx.iter().map(|first| matches[*first]).collect()
}

fn changes(record: &Record, take_back: bool) -> impl Iterator<Item = Patch> + '_ {
    record.changes().iter().map(move |change| Patch {
        at: change.line.start().plus(8 * u64::from(change.word)),
        word: if take_back { change.old } else { change.new }.to_le_bytes(),
    })
}
