//! Recovery of the software baselines, lane by lane.

use super::{Logging, SoftwareLog};
use crate::image::Image;
use crate::patch::{Patch, RecoveryError};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

/// What a recovery writes, in its order; all of it may be repeated.
///
/// - Undo: records of the transaction behind the last committed one are there in part or whole;
///   their old values are stored, and what its log did not contain was not stored to yet.
/// - Redo: a transaction whose records are all there has committed, and is stored again.
/// - Both: the same, with new values for the transaction that the header names, and old ones for
///   the one behind it.
///
/// Where a transaction was taken back its lane's header goes past it, so that its records mean nothing
/// to the next one.
///
/// # Errors
/// When the image is too short for the logs of `lanes` lanes, or a record is damaged.
pub fn recover(
    logging: Logging,
    log: SoftwareLog,
    lanes: u16,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(log.base, log.lines * u64::from(lanes))?;
    let (mut patches, mut headers) = (Vec::new(), Vec::new());
    for lane in (0..lanes).map(LaneId) {
        let header = log.header(lane);
        let record = |index: u64| header.plus(1 + index);
        let number_of = |line| image.word(line, 0) >> 8;
        let capacity = log.lines - 1;
        let of_tx =
            |number: u64| (0..capacity).map(record).filter(move |line| number_of(*line) == number);
        let is_whole = |number: u64| {
            let mut lines = of_tx(number);
            let first = lines.next().filter(|_| number > 0);
            first.is_some_and(|line| lines.count() as u64 + 1 >= image.word(line, 7))
        };
        let committed = image.word(header, 0);
        let mut taken_back = false;
        if logging != Logging::Undo {
            let youngest = || (0..capacity).map(|k| number_of(record(k))).max().unwrap_or(0);
            let number = if logging == Logging::Redo { youngest() } else { committed };
            if is_whole(number) {
                for line in of_tx(number) {
                    read(logging, true, image, line, &mut patches)?;
                }
            }
        }
        if logging != Logging::Redo {
            for line in of_tx(committed + 1) {
                read(logging, false, image, line, &mut patches)?;
                taken_back = true;
            }
        }
        if taken_back {
            // Redo reads the records of the transaction that the header names: of this one there are none.
            let past = committed + if logging == Logging::Undo { 1 } else { 2 };
            headers.push(Patch { at: header.start(), word: past.to_le_bytes() });
        }
    }
    patches.extend(headers);
    Ok(patches)
}

/// The number of a lane's last transaction in a log that recovery has left, or 0.
pub(super) fn last_number(log: SoftwareLog, lane: LaneId, memory: Image<'_>) -> u64 {
    let header = log.header(lane);
    let records = (1..log.lines).map(|k| memory.word_or_zero(header.plus(k), 0) >> 8);
    records.max().unwrap_or(0).max(memory.word_or_zero(header, 0))
}

fn read(
    logging: Logging,
    new: bool,
    image: Image<'_>,
    line: LineAddr,
    patches: &mut Vec<Patch>,
) -> Result<(), RecoveryError> {
    let words = image.word(line, 0) & 0xff;
    if words > logging.words_max() as u64 {
        return Err(RecoveryError::Damaged { line });
    }
    let (stride, value_at) = match logging {
        Logging::Undo | Logging::Redo => (2, 1),
        Logging::UndoRedo => (3, 1 + u64::from(new)),
    };
    for k in 0..words {
        let at = image.word(line, 1 + stride * k);
        if !at.is_multiple_of(8) || at >= image.len() {
            return Err(RecoveryError::Damaged { line });
        }
        let value = image.word(line, 1 + stride * k + value_at).to_le_bytes();
        patches.push(Patch { at: PoolOffset(at), word: value });
    }
    Ok(())
}
