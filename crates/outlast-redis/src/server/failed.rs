//! A pool whose file has failed: clients read on, and what would change something is refused.
//!
//! Transactions of a round are installed in place behind the round's sync, so after a failed one the pool's memory is what was
//! durable before. Answers that wait for that sync are withdrawn: each such client gets the error in their
//! place, and its connection is closed, since the requests behind it may rest on them. A restart opens the pool again.

use outlast::error::MediumFailure;
use outlast::medium::Medium;
use outlast::{Abort, BlockKind, ByteRange, Pool, PoolOffset, RootKind, Transact};

use super::state::State;
use crate::store::mem::damaged;

/// Transactions that read and do nothing else.
pub(super) struct Reader<'p> {
    pool: &'p Pool,
    failure: MediumFailure,
}

impl<'p> Reader<'p> {
    /// `None` where the pool takes commits.
    pub fn of(pool: &'p Pool) -> Option<Self> {
        if pool.medium().is_usable() {
            return None;
        }
        pool.failure().map(|failure| Self { pool, failure })
    }

    fn refuse<R>(&self) -> Result<R, Abort> {
        Err(Abort::Medium(self.failure.clone()))
    }
}

impl Transact for Reader<'_> {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        let medium = self.pool.medium();
        if at.0.checked_add(out.len() as u64).is_none_or(|end| end > medium.len()) {
            return Err(damaged(at, "something is to be read that lies outside the pool"));
        }
        medium.load(at, out);
        Ok(())
    }

    fn will_write(&mut self, _: &[ByteRange]) -> Result<(), Abort> {
        Ok(())
    }

    fn store(&mut self, _: PoolOffset, _: &[u8]) -> Result<(), Abort> {
        self.refuse()
    }

    fn alloc(&mut self, _: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        self.refuse()
    }

    fn free(&mut self, _: PoolOffset) -> Result<(), Abort> {
        self.refuse()
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        self.pool.root().map_err(|error| Abort::damaged(error.to_string()))
    }

    fn set_root(&mut self, _: PoolOffset, _: RootKind) -> Result<(), Abort> {
        self.refuse()
    }
}

impl State {
    /// The round's sync has failed: nothing of it is answered as done. From now on the pool is read only.
    pub fn withdraw_round(&mut self, abort: &Abort) {
        self.has_failed = true;
        let what = super::group::refusal(abort);
        for slot in self.to_write.clone() {
            let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
                continue;
            };
            if client.reply.bytes.len() > client.acknowledged {
                client.reply.truncate(client.acknowledged);
                client.reply.error(&what);
                client.is_closing = true;
            }
        }
    }
}
