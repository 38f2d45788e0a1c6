//! The root block: where everything is found from.
//!
//! ```text
//! 0   "OLREDIS" and the version of this format
//! 8   secret of the hash, two words
//! 24  first of the list of what is to be freed, 0 for none
//! 32  the database of an import: its table, 0 for none; keys with a deadline
//! 48  features: a bit for each kind of content that older versions do not know
//! 56  an import that has not ended (1)
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
const IMPORT_TABLE_AT: u64 = 32;
const FEATURES_AT: u64 = 48;
const IMPORT_AT: u64 = 56;
const DATABASES_AT: u64 = 64;
const DATABASE_BYTES: u64 = 32;
pub(super) const ROOT_BYTES: u64 = DATABASES_AT + DATABASES as u64 * DATABASE_BYTES;

/// The database that an import builds large values in. Clients cannot reach it.
pub(crate) const IMPORT_DATABASE: usize = DATABASES;

/// The feature that the pool has streams.
pub(crate) const STREAMS: u64 = 1;
/// The feature that the pool has lists with open ends, and gaps in leaves.
pub(crate) const ENDS: u64 = 2;
/// The feature that the pool has orders of scores.
pub(crate) const SCORES: u64 = 4;
const FEATURES: u64 = STREAMS | ENDS | SCORES;

/// The root block, and what never changes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub at: PoolOffset,
    pub hasher: Hasher,
}

/// Whether a block begins as a root does.
pub(super) fn is_root(mem: &mut Mem<'_>, at: PoolOffset) -> Result<bool, Abort> {
    Ok(mem.load_u64(at)? == MAGIC)
}

/// The features of a root that this version does not know.
pub(super) fn features_unknown(mem: &mut Mem<'_>, at: PoolOffset) -> Result<u64, Abort> {
    Ok(mem.load_u64(at.plus(FEATURES_AT))? & !FEATURES)
}

impl Root {
    /// The root at a place where there is one.
    pub(super) fn at(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let secret = (mem.load_u64(at.plus(SECRET_AT))?, mem.load_u64(at.plus(SECRET_AT + 8))?);
        Ok(Self { at, hasher: Hasher { secret } })
    }

    /// That of the pool; a pool without a root gets an empty one.
    pub fn open(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        match mem.root()? {
            None => Self::create(mem, Uuid::new_v4().as_u64_pair()),
            Some((at, RootKind::Opaque)) if is_root(mem, at)? => {
                if features_unknown(mem, at)? != 0 {
                    let features = mem.load_u64(at.plus(FEATURES_AT))?;
                    return Err(Abort::cancelled(format!(
                        "a newer version of outlast wrote values into this pool of a type that this \
                         version does not know (features {features:#x}): serve it with that version",
                    )));
                }
                Self::at(mem, at)
            }
            Some(_) => Err(Abort::cancelled(
                "the pool holds something else than a database of `outlast serve`: \
                 name a new file, or one that the command made",
            )),
        }
    }

    /// As [`open`](Self::open), where a pool is refused into which an import has not ended.
    pub fn open_whole(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        let root = Self::open(mem)?;
        match root.is_importing(mem)? {
            false => Ok(root),
            true => Err(Abort::cancelled(
                "an import into this pool has not ended: import again, or remove the pool",
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

    /// Notes that the pool has a kind of content that older versions do not know.
    pub fn note_feature(&self, mem: &mut Mem<'_>, feature: u64) -> Result<(), Abort> {
        let at = self.at.plus(FEATURES_AT);
        let features = mem.load_u64(at)?;
        match features & feature {
            0 => mem.store_u64(at, features | feature),
            _ => Ok(()),
        }
    }

    /// Whether an import has begun that has not ended.
    pub fn is_importing(&self, mem: &mut Mem<'_>) -> Result<bool, Abort> {
        Ok(mem.load_u64(self.at.plus(IMPORT_AT))? != 0)
    }

    pub fn set_importing(&self, mem: &mut Mem<'_>, is_importing: bool) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(IMPORT_AT), is_importing.into())
    }

    /// The word with a database's table.
    pub fn table_at(&self, database: usize) -> PoolOffset {
        if database == IMPORT_DATABASE {
            return self.at.plus(IMPORT_TABLE_AT);
        }
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
