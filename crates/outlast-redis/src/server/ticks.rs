//! Work without a client: keys expire, discarded blocks are freed.

use std::time::Instant;

use outlast::Abort;

use super::group::PoolLane;
use super::state::{State, TICK};
use crate::store::garbage;
use crate::store::mem::Mem;
use crate::store::{DATABASES, Keys};

/// Buckets of keys that one transaction looks at.
const BUCKETS_A_STEP: usize = 128;
/// Buckets that a tick looks at, when it finds little.
const BUCKETS_A_TICK: usize = 2048;
/// Expired keys that a step must find for the tick to go on, for a quarter of its time at most.
const FINDS_TO_GO_ON: usize = 8;

impl State {
    pub fn tick(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        self.end_waits();
        self.end_pause();
        if self.may_have_garbage {
            let root = self.root;
            self.may_have_garbage = match self.run_or_free(lane, |_, tx| garbage::step(tx, &root)) {
                Ok(is_left) => is_left,
                Err(abort @ Abort::Damaged(_)) => return Err(abort),
                Err(_) => {
                    self.has_garbage_left = true;
                    false
                }
            };
        }
        if self.last_tick.elapsed() < TICK {
            return Ok(());
        }
        // A step that failed is tried again.
        self.may_have_garbage |= std::mem::take(&mut self.has_garbage_left);
        self.last_tick = Instant::now();
        if self.expires_actively {
            self.expire_some(lane)?;
        }
        self.after_changes(lane)
    }

    fn expire_some(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        let began = Instant::now();
        let mut buckets = 0;
        loop {
            let (cursor, database) = (self.expiry_cursor, self.expiry_database);
            let step = self.run_or_free(lane, |state, tx| {
                state.changes.forget();
                (state.expiry_cursor, state.expiry_database) = (cursor, database);
                state.expire_step(tx)
            });
            let Ok((seen, found)) = step else { return Ok(()) };
            buckets += seen;
            self.mark_all_watchers();
            self.after_changes(lane)?;
            let goes_on = found >= FINDS_TO_GO_ON && began.elapsed() < TICK / 4;
            if !goes_on && (buckets >= BUCKETS_A_TICK || seen == 0) {
                return Ok(());
            }
        }
    }

    /// Looks at some buckets. Returns how many, and how many keys had expired.
    fn expire_step(&mut self, tx: &mut Mem<'_>) -> Result<(usize, usize), Abort> {
        let (mut seen, mut found) = (0, 0);
        for _ in 0..DATABASES {
            let mut keys = Keys {
                mem: &mut *tx,
                root: self.root,
                database: self.expiry_database,
                now: self.now,
                changes: &mut self.changes,
                random: &mut self.random,
            };
            if keys.expiring()? > 0
                && let Some(table) = keys.table()?
            {
                while seen < BUCKETS_A_STEP {
                    let mut expired = Vec::new();
                    let now = keys.now;
                    self.expiry_cursor =
                        table.scan(keys.mem, self.expiry_cursor, &mut |mem, place| {
                            let deadline = place.entry.deadline(mem)?;
                            if deadline.is_some_and(|deadline| deadline <= now) {
                                expired.push(place.entry.key(mem)?);
                            }
                            Ok(())
                        })?;
                    seen += 1;
                    found += expired.len();
                    for key in expired {
                        keys.find(&key)?;
                    }
                    if self.expiry_cursor == 0 {
                        break;
                    }
                }
                if self.expiry_cursor != 0 {
                    return Ok((seen, found));
                }
            }
            self.expiry_cursor = 0;
            self.expiry_database = (self.expiry_database + 1) % DATABASES;
        }
        Ok((if found > 0 { seen } else { 0 }, found))
    }
}
