//! A cache whose entries expire, warm after a restart. An entry and its place in the order of expiry are one
//! transaction, so no entry is ever left that a sweep would miss.

use outlast::typed::{PBTreeMap, PHashMap, PString, Persist, TypedTx};
use outlast::{Abort, Pool, PoolError, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Cache<'id> {
    entries: PHashMap<'id, u64, Entry<'id>>,
    /// A set of pairs: a time of expiry and a key.
    by_expiry: PBTreeMap<'id, (u64, u64), ()>,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Entry<'id> {
    value: PString<'id>,
    expires_at: u64,
}

impl<'id> Cache<'id> {
    fn of(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Self, Abort> {
        tx.root_or_new()?.get(tx)
    }

    fn remove(self, tx: &mut TypedTx<'id, '_, impl Transact>, key: u64) -> Result<(), Abort> {
        let Some(old) = self.entries.remove(tx, &key)? else { return Ok(()) };
        self.by_expiry.delete(tx, &(old.expires_at, key))?;
        old.value.free(tx)
    }
}

/// Keeps a value until that time.
pub fn put(pool: &Pool, key: u64, value: &str, expires_at: u64) -> Result<(), Abort> {
    pool.run_typed(|tx| {
        let cache = Cache::of(tx)?;
        cache.remove(tx, key)?;
        let entry = Entry { value: PString::new(tx, value)?, expires_at };
        cache.by_expiry.put(tx, &(expires_at, key), ())?;
        cache.entries.put(tx, &key, entry)
    })
}

/// The value of a key, unless it has expired.
pub fn get(pool: &Pool, key: u64, now: u64) -> Result<Option<String>, Abort> {
    pool.run_typed(|tx| match Cache::of(tx)?.entries.get(tx, &key)? {
        Some(entry) if entry.expires_at > now => entry.value.to_string(tx).map(Some),
        _ => Ok(None),
    })
}

/// Frees what has expired, a hundred entries at most, and returns how many there were.
pub fn sweep(pool: &Pool, now: u64) -> Result<usize, Abort> {
    pool.run_typed(|tx| {
        let cache = Cache::of(tx)?;
        let expired = cache.by_expiry.range(tx, ..=(now, u64::MAX)).take(100);
        let keys = expired.map(|entry| Ok(entry?.0.1)).collect::<Result<Vec<_>, Abort>>()?;
        keys.iter().try_for_each(|key| cache.remove(tx, *key))?;
        Ok(keys.len())
    })
}

fn main() -> Result<(), PoolError> {
    let pool = Pool::open_or_create("cache.pool")?;
    put(&pool, 7, "seven", 1000)?;
    println!("{:?}, {:?}", get(&pool, 7, 999)?, get(&pool, 7, 1000)?);
    println!("{} swept", sweep(&pool, 1000)?);
    Ok(())
}
