//! What a reproduction is expected to take, stage by stage.

use super::{Part, Task, checksums, flushes, front_ends, memories, reuse, table4, timing};
use crate::native::Size;
use crate::progress::Phase;

/// Parts of which any is wanted, the stage that measures them, and its seconds on two processors at the quick
/// scale and at the full one.
const STAGES: [(&[Part], &str, f64, f64); 8] = [
    (&[Part::Fig1, Part::Fig2, Part::Fig7, Part::Fig8], timing::STAGE, 80.0, 3_600.0),
    (&[Part::Clwb], timing::FLUSH_KINDS, 15.0, 600.0),
    (&[Part::Fig6], checksums::STAGE, 20.0, 300.0),
    (&Part::COUNTED, flushes::STAGE, 60.0, 9_000.0),
    (&[Part::Fig3], reuse::STAGE, 5.0, 900.0),
    (&[Part::FrontEnds], front_ends::STAGE, 30.0, 600.0),
    (&[Part::Memories], memories::STAGE, 60.0, 9_000.0),
    (&[Part::Table4], table4::TABLE, 90.0, 3_600.0),
];

/// The stages of a task.
pub(super) fn of(task: &Task) -> Vec<Phase> {
    let wanted = STAGES.iter().filter(|(parts, ..)| task.wants(parts));
    let seconds = |(_, stage, quick, full): &(&[Part], &'static str, f64, f64)| {
        (*stage, if task.size == Size::Quick { *quick } else { *full })
    };
    wanted.map(seconds).collect()
}
