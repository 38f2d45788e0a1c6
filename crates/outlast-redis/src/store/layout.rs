//! The root block: where everything is found from.
//!
//! ```text
//! 0   "OLREDIS" and the version of this format
//! 8   secret of the hash, two words
//! 24  first of the list of what is to be freed, 0 for none
//! 64  for each database: its table, 0 for none; keys with a deadline; two words unused
//! ```

use outlast::{Abort, BlockKind, PoolOffset, RootKind};
use uuid::Uuid;

use crate::store::hasher::Hasher;
use crate::store::mem::Mem;

/// Databases of a server.
pub const DATABASES: usize = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"OLREDIS\x01");
const SECRET_AT: u64 = 8;
const GARBAGE_AT: u64 = 24;
const DATABASES_AT: u64 = 64;
const DATABASE_BYTES: u64 = 32;
const ROOT_BYTES: u64 = DATABASES_AT + DATABASES as u64 * DATABASE_BYTES;

/// The root block, and what never changes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub at: PoolOffset,
    pub hasher: Hasher,
}

impl Root {
    /// That of the pool; a pool without a root gets an empty one.
    pub fn open(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        match mem.root()? {
            None => Self::create(mem, Uuid::new_v4().as_u64_pair()),
            Some((at, RootKind::Opaque)) if mem.load_u64(at)? == MAGIC => {
                let secret =
                    (mem.load_u64(at.plus(SECRET_AT))?, mem.load_u64(at.plus(SECRET_AT + 8))?);
                Ok(Self { at, hasher: Hasher { secret } })
            }
            Some(_) => Err(Abort::cancelled(
                "the pool holds something else than a database of `outlast serve`: \
                 name a new file, or one that the command made",
            )),
        }
    }

    /// Makes empty databases the pool's root.
    pub fn create(mem: &mut Mem<'_>, secret: (u64, u64)) -> Result<Self, Abort> {
        let at = mem.alloc(ROOT_BYTES, BlockKind::General)?;
        mem.store(at, &[0; ROOT_BYTES as usize])?;
        mem.store_u64(at, MAGIC)?;
        mem.store_u64(at.plus(SECRET_AT), secret.0)?;
        mem.store_u64(at.plus(SECRET_AT + 8), secret.1)?;
        mem.set_root(at, RootKind::Opaque)?;
        Ok(Self { at, hasher: Hasher { secret } })
    }

    /// The word with a database's table.
    pub fn table_at(&self, database: usize) -> PoolOffset {
        self.at.plus(DATABASES_AT + database as u64 * DATABASE_BYTES)
    }

    /// The word that counts a database's keys with a deadline.
    pub fn expiring_at(&self, database: usize) -> PoolOffset {
        self.table_at(database).plus(8)
    }

    /// The word with the first item to free.
    pub fn garbage_at(&self) -> PoolOffset {
        self.at.plus(GARBAGE_AT)
    }
}
