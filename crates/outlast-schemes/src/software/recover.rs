//! Recovery of the software baselines, lane by lane.

use super::{Logging, SoftwareLog, WORDS_MAX};
use crate::patch::{Patch, RecoveryError, check_length, word};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

/// What a recovery writes, in its order; all of it may be repeated.
///
/// - Undo: records of the transaction behind the last committed one are there in part or whole;
///   their old values are stored, and what its log did not contain was not stored to yet.
/// - Redo: a transaction whose records are all there has committed, and is stored again.
///
/// # Errors
/// When the image is too short for the logs of so many lanes, or a record is damaged.
pub fn recover(
    logging: Logging,
    log: SoftwareLog,
    lanes: u16,
    image: &[u8],
) -> Result<Vec<Patch>, RecoveryError> {
    check_length(image, log.base, log.lines * u64::from(lanes))?;
    let mut patches = Vec::new();
    for lane in (0..lanes).map(LaneId) {
        let header = log.header(lane);
        let record = |index: u64| header.plus(1 + index);
        let number_of = |line| word(image, line, 0) >> 8;
        let capacity = log.lines - 1;
        let of_tx = |number: u64| {
            (0..capacity).map(record).take_while(move |line| number_of(*line) == number)
        };
        match logging {
            Logging::Undo => {
                let undone = word(image, header, 0) + 1;
                for line in of_tx(undone) {
                    read(image, line, &mut patches)?;
                }
            }
            Logging::Redo if capacity > 0 => {
                let (number, lines) = (number_of(record(0)), word(image, record(0), 7));
                if number > 0 && lines <= capacity && of_tx(number).count() as u64 >= lines {
                    for line in of_tx(number).take(lines as usize) {
                        read(image, line, &mut patches)?;
                    }
                }
            }
            Logging::Redo => {}
        }
    }
    Ok(patches)
}

fn read(image: &[u8], line: LineAddr, patches: &mut Vec<Patch>) -> Result<(), RecoveryError> {
    let words = word(image, line, 0) & 0xff;
    if words > WORDS_MAX as u64 {
        return Err(RecoveryError::Damaged { line });
    }
    for k in 0..words {
        let at = word(image, line, 1 + 2 * k);
        if !at.is_multiple_of(8) || at >= image.len() as u64 {
            return Err(RecoveryError::Damaged { line });
        }
        let value = word(image, line, 2 + 2 * k).to_le_bytes();
        patches.push(Patch { at: PoolOffset(at), word: value });
    }
    Ok(())
}
