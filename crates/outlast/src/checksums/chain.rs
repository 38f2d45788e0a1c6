//! What one record says stood in a word is what the record before it put there (SUMS-10).
//!
//! The numbers of records order what happened to a word, as they are drawn under its lock. A commit
//! that a lost record had, another lane may have built upon: then that lane's record speaks of words
//! that nothing put there.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use outlast_pmem::Medium;
use outlast_trace::PoolOffset;
use rustc_hash::FxHasher;

use crate::checksums::proof::Commit;
use crate::checksums::rebuild::Rebuild;
use crate::error::PoolError;
use crate::log::{Item, items};
use crate::seq::Seq;

/// A record of old words, whose transaction did not commit.
pub(crate) struct Undone<'l> {
    pub seq: Seq,
    pub payload: &'l [u64],
}

enum Event<'a, 'l> {
    Undone(&'a Undone<'l>),
    Commit(&'a Commit<'l>),
}

fn number(event: &(Seq, Event<'_, '_>)) -> Seq {
    event.0
}

/// Words by their places, as far as records tell.
#[derive(Default)]
struct Known(HashMap<PoolOffset, u64, BuildHasherDefault<FxHasher>>);

impl Known {
    fn compare(&self, at: PoolOffset, old: u64) -> Result<(), PoolError> {
        match self.0.get(&at) {
            Some(known) if *known != old => {
                let what = "a log record is missing: a later one has words that nothing put there";
                Err(PoolError::Damaged { at, what })
            }
            _ => Ok(()),
        }
    }
}

impl Rebuild {
    /// SUMS-10. `commits` are in the order of their numbers.
    pub fn follow<M: Medium>(
        &self,
        medium: &M,
        undone: &[Undone<'_>],
        commits: &[Commit<'_>],
    ) -> Result<(), PoolError> {
        let undone = undone.iter().map(|record| (record.seq, Event::Undone(record)));
        let commits = commits.iter().map(|commit| (commit.seq, Event::Commit(commit)));
        let mut events: Vec<_> = undone.chain(commits).collect();
        events.sort_by_key(number);
        let mut known = Known::default();
        for (_, event) in &events {
            match event {
                // An aborted transaction put these words back before anything else changed them.
                Event::Undone(record) => {
                    let words = items(record.payload).flatten().flat_map(Item::new_words);
                    for (at, old) in words {
                        known.compare(at, old)?;
                        known.0.insert(at, old);
                    }
                }
                Event::Commit(commit) => self.follow_commit(medium, commit, &mut known)?,
            }
        }
        Ok(())
    }

    fn follow_commit<M: Medium>(
        &self,
        medium: &M,
        commit: &Commit<'_>,
        known: &mut Known,
    ) -> Result<(), PoolError> {
        let is_told: HashMap<_, _, BuildHasherDefault<FxHasher>> = commit.old_words().collect();
        is_told.iter().try_for_each(|(at, old)| known.compare(*at, *old))?;
        for (at, new) in commit.new_words() {
            // What a block held when it was taken is in no record.
            match is_told.contains_key(&at) {
                true => known.0.insert(at, new),
                false => known.0.remove(&at),
            };
        }
        for item in commit.items() {
            if let Item::SetBit { at, bit } | Item::ClearBit { at, bit } = item {
                self.block_words(medium, at, bit).for_each(|word| {
                    known.0.remove(&word);
                });
            }
        }
        Ok(())
    }
}
