//! Recovery of hardware undo+redo logging.
//!
//! It reads records from the head on, until the numbers stop. A transaction is a lane's records
//! from one that is its first to its commit. Then, in this order:
//!
//! 1. what committed transactions stored is stored again, oldest record first;
//! 2. what the others stored is taken back, newest record first;
//! 3. the head moves behind the last record, and the log is empty.
//!
//! The paper compares logged values with memory to find out what committed (HWL-2); under
//! steal-but-no-force that comparison says nothing. Everything before step 3 may be repeated, so
//! a crash in between harms nothing.

use super::{LogPlace, record::Record};
use crate::patch::{Patch, RecoveryError, check_length, word};

/// What a recovery writes, in its order.
///
/// # Errors
/// When the image is too short for the log, or a record is damaged.
pub fn recover(log: LogPlace, image: &[u8]) -> Result<Vec<Patch>, RecoveryError> {
    check_length(image, log.base, log.slots + 1)?;
    let head = word(image, log.base, 0).max(1);
    let mut records = Vec::new();
    let mut number = head;
    while number < head + log.slots {
        let slot = log.slot(number);
        if word(image, slot, 0) >> 16 != number {
            break;
        }
        let bytes = image[slot.start().0 as usize..].first_chunk().expect("the length was checked");
        let record = Record::decode(bytes).filter(|record| record.line.0 < image.len() as u64 / 64);
        records.push(record.ok_or(RecoveryError::Damaged { line: slot })?);
        number += 1;
    }
    let committed = committed(&records);
    let mut patches = Vec::new();
    let done = |index: &usize| committed[*index];
    for index in (0..records.len()).filter(done) {
        patches.extend(changes(&records[index], false));
    }
    for index in (0..records.len()).rev().filter(|index| !done(index)) {
        patches.extend(changes(&records[index], true));
    }
    if !records.is_empty() {
        patches.push(Patch { at: log.base.start(), word: number.to_le_bytes() });
    }
    Ok(patches)
}

/// Of each record, whether its transaction's commit is in the log.
fn committed(records: &[Record]) -> Vec<bool> {
    let mut open = [false; 256];
    let mut committed = vec![false; records.len()];
    for (index, record) in records.iter().enumerate().rev() {
        let lane = usize::from(record.lane);
        open[lane] |= record.commit;
        committed[index] = open[lane];
        if record.first {
            open[lane] = false; // What comes before belongs to an earlier transaction.
        }
    }
    committed
}

fn changes(record: &Record, take_back: bool) -> impl Iterator<Item = Patch> + '_ {
    record.changes().iter().map(move |change| Patch {
        at: record.line.start().plus(8 * u64::from(change.word)),
        word: if take_back { change.old } else { change.new }.to_le_bytes(),
    })
}
