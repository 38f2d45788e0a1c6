//! Smaller campaigns that show the same.

use super::{Campaign, CampaignError, CampaignReport};

/// Reruns that shrinking may take.
const RERUNS_MAX: u32 = 12;

/// Runs of fewer transactions are crashed at every point.
const EVERY_POINT_UP_TO: u32 = 200;

impl CampaignReport {
    /// The smallest campaign found that still fails: the earliest crash point of its machine,
    /// and as few transactions as still lead there. It is replayed by its
    /// [`command`](Campaign::command). `None` when nothing failed.
    ///
    /// # Errors
    /// As [`Campaign::run`].
    pub fn shrink(&self) -> Result<Option<Campaign>, CampaignError> {
        let Some(mut best) = self.replay() else { return Ok(None) };
        if best.crash_at.is_none() {
            return Ok(Some(best));
        }
        // Fewer transactions: each rerun chooses crash points of its own.
        for _ in 0..RERUNS_MAX {
            let transactions = best.transactions / 2;
            if transactions < u32::from(best.lanes) {
                break;
            }
            let shorter = Campaign { transactions, crash_at: None, ..best.clone() };
            match shorter.run(&|_| {})?.replay() {
                Some(replay) => best = replay,
                None => break,
            }
        }
        // Every crash point of the shortest run, in ascending order: the first that fails.
        if best.transactions < EVERY_POINT_UP_TO {
            let every = Campaign { points: usize::MAX, crash_at: None, ..best.clone() };
            if let Some(replay) = every.run(&|_| {})?.replay() {
                best = Campaign { points: best.points, ..replay };
            }
        }
        Ok(Some(best))
    }
}
