//! How a structure is found by its name, and is not used when it is gone.
//!
//! A handle knows the place of its structure from the transaction that looked its name up. The place is good as long as no
//! structure is made or removed: each transaction that does either raises the writer's generation right before it ends,
//! while it still excludes others from what it changed.
//!
//! * SCOPE-1: a transaction uses a known place of the present generation only, and none once it has made or removed structures
//!   itself: then it looks up names.
//! * SCOPE-2: a transaction whose generation is not the present one when it commits ends as after a conflict.
//! * SCOPE-3: a place becomes known to others when the transaction that found it has committed.
//!
//! A transaction that used a place under the generation before a removal either checked SCOPE-2 before the generation rose,
//! and comes before the removal, which has read all of the structure: a conflict that the runtime sees. Or it checked
//! after, and is undone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlast::{Abort, PoolOffset};

/// Counts the ends of transactions that made or removed structures.
#[derive(Default)]
pub struct Generation(AtomicU64);

impl Generation {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn raise(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The place of a structure, and the generation in which it was found.
#[derive(Default)]
pub struct Place(Mutex<Option<(u64, PoolOffset)>>);

impl Place {
    fn known(&self, generation: u64) -> Option<PoolOffset> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|(found, _)| *found == generation).map(|(_, at)| at)
    }
}

/// What a transaction has found, made and removed.
#[derive(Default)]
pub struct Scope {
    /// The generation of the places that it uses.
    seen: Option<u64>,
    /// Whether it has made or removed structures.
    is_changing: bool,
    found: Vec<(Arc<Place>, PoolOffset)>,
    /// Structures that it has removed.
    pub removed: Vec<PoolOffset>,
}

impl Scope {
    /// The place of a structure, if it is known (SCOPE-1).
    ///
    /// # Errors
    /// [`Abort::Conflict`] when it would be of another generation than those that were used.
    pub fn known(
        &mut self,
        generation: &Generation,
        place: &Arc<Place>,
    ) -> Result<Option<PoolOffset>, Abort> {
        if self.is_changing {
            return Ok(None);
        }
        let now = generation.now();
        if *self.seen.get_or_insert(now) != now {
            return Err(Abort::Conflict);
        }
        let found = || self.found.iter().find(|(own, _)| Arc::ptr_eq(own, place));
        Ok(place.known(now).or_else(|| found().map(|(_, at)| *at)))
    }

    /// Keeps a place that was found by its name.
    pub fn keep(&mut self, place: &Arc<Place>, at: PoolOffset) {
        if !self.is_changing {
            self.found.push((place.clone(), at));
        }
    }

    /// The transaction makes or removes a structure.
    pub fn change(&mut self) {
        self.is_changing = true;
        self.found.clear();
    }

    /// Whether places that it used may be gone (SCOPE-2).
    pub fn is_overtaken(&self, generation: &Generation) -> bool {
        self.seen.is_some_and(|seen| seen != generation.now())
    }

    /// The transaction is about to end.
    pub fn end(&self, generation: &Generation) {
        if self.is_changing {
            generation.raise();
        }
    }

    /// The transaction has committed (SCOPE-3).
    pub fn publish(&mut self) {
        let Some(seen) = self.seen else { return };
        for (place, at) in self.found.drain(..) {
            *place.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((seen, at));
        }
    }
}
