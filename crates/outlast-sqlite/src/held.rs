//! A session that goes from thread to thread.
//!
//! SQLite's connections may be used by one thread after the other, and a database's by several in turn. To take a
//! lane for every commit and give it back costs a fence; so the database keeps one.

use outlast::error::SessionError;
use outlast::medium::{Mapped, Medium};
use outlast::{Abort, Session, Tx};

/// A session behind its database's mutex, without a transaction whenever the mutex is free.
pub(crate) struct HeldSession(Session);

// SAFETY: a session stays with its thread for two reasons. Its transaction does: none is open while
// the mutex is free, since `run` ends what it begins. And only the thread that has flushed lines can
// fence them: unlocking the mutex is a locked instruction on x86-64 and orders the flushes before it (rule 7
// of `docs/fault-model.md`), and elsewhere `run` fences; in the domain `page` all threads share the notes of
// what was flushed.
unsafe impl Send for HeldSession {}

impl HeldSession {
    pub fn new(session: Session) -> Self {
        Self(session)
    }

    /// Runs a transaction, again after each conflict.
    pub fn run<R>(
        &mut self,
        mut body: impl FnMut(&mut Tx<'_, Mapped>) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        loop {
            self.0.begin().map_err(abort_of)?;
            let outcome = match self.0.in_transaction(&mut body) {
                Ok(result) => self.0.commit().map(|_| result),
                Err(error) => self.0.abort().and(Err(error)),
            };
            match outcome.map_err(abort_of) {
                Err(Abort::Conflict) => {}
                done => {
                    self.fence_for_others();
                    return done;
                }
            }
        }
    }

    /// Where the unlocking of a mutex completes no flush: the next thread cannot fence what this one has flushed.
    fn fence_for_others(&self) {
        let medium = self.0.pool().medium();
        if cfg!(not(target_arch = "x86_64")) && !medium.is_paged() {
            medium.fence();
        }
    }
}

fn abort_of(error: SessionError) -> Abort {
    match error {
        SessionError::Abort(abort) => abort,
        other => Abort::peer(other.to_string()),
    }
}
