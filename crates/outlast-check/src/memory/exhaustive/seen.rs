//! Images and crash points that need not be verified again.

use rustc_hash::{FxHashMap, FxHashSet};

/// Fingerprints of verified states: recoveries whose own crashes were enumerated, and crash points
/// of which every image was in order.
///
/// A crash point is what is durable there, what is open, and what a judge is told; a judge answers
/// by nothing else. So schedules that differ only later on have their first crash points in common.
#[derive(Debug, Default)]
pub struct Seen {
    recoveries: FxHashSet<u128>,
    /// With the executions that they took; `None` where crash points are not remembered.
    points: Option<FxHashMap<u128, u64>>,
}

impl Seen {
    /// Crash points are remembered, too.
    pub fn with_points() -> Self {
        Self { points: Some(FxHashMap::default()), ..Self::default() }
    }

    /// Notes a recovery. Returns whether there was none like it.
    pub fn is_new_recovery(&mut self, print: u128) -> bool {
        self.recoveries.insert(print)
    }

    /// Not all of its crashes were enumerated.
    pub fn forget_recovery(&mut self, print: u128) {
        self.recoveries.remove(&print);
    }

    /// The executions that an equal crash point took.
    pub fn images_at(&self, print: u128) -> Option<u64> {
        self.points.as_ref()?.get(&print).copied()
    }

    /// Notes a crash point of which every image was in order.
    pub fn note_point(&mut self, print: u128, images: u64) {
        if let Some(points) = &mut self.points {
            points.insert(print, images);
        }
    }
}
