//! Expected durations of a reproduction, stage by stage.

use super::{Part, Task, checksums, flushes, front_ends, memories, reuse, table4, timing};
use crate::native::Size;
use crate::progress::Phase;

/// Parts of which any is wanted, the stage that measures them, and its seconds on two processors: where all
/// parts run at the quick scale, where the part is asked for by name there, and at the full scale. Estimates
/// by what a report's runs took.
const STAGES: [(&[Part], &str, [f64; 3]); 8] = [
    (&[Part::Fig1, Part::Fig2, Part::Fig7, Part::Fig8], timing::STAGE, [80.0, 240.0, 3_600.0]),
    (&[Part::Clwb], timing::FLUSH_KINDS, [15.0, 45.0, 600.0]),
    (&[Part::Fig6], checksums::STAGE, [20.0, 30.0, 300.0]),
    (&Part::COUNTED, flushes::STAGE, [60.0, 700.0, 9_000.0]),
    (&[Part::Fig3], reuse::STAGE, [5.0, 60.0, 900.0]),
    (&[Part::FrontEnds], front_ends::STAGE, [25.0, 120.0, 600.0]),
    (&[Part::Memories], memories::STAGE, [50.0, 1_200.0, 9_000.0]),
    (&[Part::Table4], table4::TABLE, [90.0, 90.0, 3_600.0]),
];

/// The stages of a task.
pub(super) fn of(task: &Task) -> Vec<Phase> {
    let amount = match task.size {
        Size::Quick if task.wants_all() => 0,
        Size::Quick => 1,
        Size::Full => 2,
    };
    let wanted = STAGES.iter().filter(|(parts, ..)| task.wants(parts));
    wanted.map(|(_, stage, seconds)| (*stage, seconds[amount])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part has a stage, and all of them at the quick scale are told to end within six minutes.
    #[test]
    fn every_part_announces_its_time() {
        let of = |parts: &[Part]| super::of(&Task::new(parts, Size::Quick, 1));
        let sum = |parts: &[Part]| of(parts).iter().map(|stage| stage.1).sum::<f64>();
        assert!(sum(&Part::ALL) <= 360.0, "{}", sum(&Part::ALL));
        for part in Part::ALL {
            assert_eq!(of(&[part]).len(), 1, "{part:?}");
        }
        let amount = Task::new(&Part::ALL, Size::Quick, 1).amount;
        assert!(amount.transactions < Task::new(&[Part::Fig9], Size::Quick, 1).amount.transactions);
    }
}
