//! Recovery, and what can be said of an image that it has left.
//!
//! Of each lane one transaction at most is under way: the one behind the last that has ended. Its
//! commit is durable if the header says that it has begun. Then what its records say is done again:
//! the spare block's word names the superseded block, and behind that the map names the new one.
//! Else its records' new blocks are free again. Last, the header counts it as ended. All of it may be
//! repeated, and it reads headers, reclaim lists and logs, and of the map what these name.

use outlast_trace::LineAddr;

use super::config::{Fault, Faults};
use super::layout::{Layout, RECORDS, Record, TAKEN, WORDS};
use crate::{Image, Patch, RecoveryError};

/// What recovery writes, in its order.
pub(super) fn recover(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(LineAddr(0), layout.lines())?;
    let mut patches = Vec::new();
    for lane in 0..layout.lanes {
        let header = layout.header(lane);
        let (begun, ended) = (image.word(header, 0), image.word(header, 1));
        let running = ended + 1;
        let records = records(layout, faults, image, lane, running)?;
        let is_committed = begun == running;
        for record in &records {
            let (block, slot) = (u64::from(record.block), layout.blocks + u64::from(record.slot));
            let new = u64::from(record.new);
            let (old, free) = (word(layout, image, block) ^ block, slot ^ new);
            if !is_committed {
                if !faults.has(Fault::ReclaimLost) {
                    patches.push(patch(layout, slot, free));
                }
            } else if old != new {
                patches.push(patch(layout, slot, slot ^ old));
                patches.push(patch(layout, block, block ^ new));
            }
        }
        if is_committed || !records.is_empty() {
            patches.push(Patch { at: header.start().plus(8), word: running.to_le_bytes() });
        }
    }
    Ok(patches)
}

/// What the transaction that runs on a lane has put where.
fn records(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
    lane: u64,
    running: u64,
) -> Result<Vec<Record>, RecoveryError> {
    let mut found = Vec::new();
    let mut take = |line: LineAddr, number: u64| {
        let first = 2 * (number % RECORDS);
        let words = [image.word(line, first), image.word(line, first + 1)];
        let record = Record::from_words(words);
        let is_live = match faults.has(Fault::ReclaimLate) {
            true => words != [0, 0],
            false => record.tx == running as u32,
        };
        let fits = u64::from(record.block) < layout.blocks
            && u64::from(record.slot) < layout.spares
            && u64::from(record.new) < layout.all();
        if is_live && !fits {
            return Err(RecoveryError::Damaged { line });
        }
        if is_live {
            found.push(record);
        }
        Ok(is_live)
    };
    for number in 0..layout.reclaimed {
        take(layout.reclaim_line(lane, number), number)?;
    }
    for number in 0..layout.logged {
        // A log has no gaps.
        if !take(layout.log_line(lane, number), number)? {
            break;
        }
    }
    Ok(found)
}

fn word(layout: Layout, image: Image<'_>, block: u64) -> u64 {
    image.word(layout.map_line(block), block % WORDS)
}

fn patch(layout: Layout, block: u64, word: u64) -> Patch {
    let at = layout.map_line(block).start().plus(8 * (block % WORDS));
    Patch { at, word: word.to_le_bytes() }
}

/// Where a program's line lies in a recovered image.
pub(super) fn locate(layout: Layout, image: Image<'_>, line: LineAddr) -> LineAddr {
    let block = layout.block_of(line);
    if line >= layout.end || layout.lines() > image.lines() {
        return line;
    }
    match word(layout, image, block) ^ block {
        place if place < layout.all() => layout.line_in(place, line),
        _ => line,
    }
}

/// Whether a recovered image's map has every block once, mapped or free.
pub(super) fn audit(layout: Layout, image: Image<'_>) -> Result<(), String> {
    image.check_length(LineAddr(0), layout.lines()).map_err(|error| error.to_string())?;
    let (mut moved, mut named) = (Vec::new(), Vec::new());
    for first in (0..layout.all()).step_by(WORDS as usize) {
        let line = image.line(layout.map_line(first));
        if *line == [0; 64] {
            continue; // All at home.
        }
        for (block, word) in (first..).zip(line.as_chunks::<8>().0) {
            let word = u64::from_le_bytes(*word);
            if word == TAKEN {
                return Err(format!("what spare block {block} named is neither mapped nor free"));
            }
            if word != 0 {
                moved.push(block);
                named.push(block ^ word);
            }
        }
    }
    named.sort_unstable();
    if moved == named {
        return Ok(());
    }
    let twice = named.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let lost = moved.iter().find(|block| named.binary_search(block).is_err());
    Err(match (twice, lost) {
        (Some(twice), _) => format!("block {twice} is mapped or free twice"),
        (None, Some(lost)) => format!("block {lost} is neither mapped nor free"),
        (None, None) => "a block is named that is at home as well".to_owned(),
    })
}
