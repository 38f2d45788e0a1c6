//! A diary in a pool: each run adds a mood to today's.

use std::path::Path;

use outlast::typed::{PBTreeMap, PVec};
use outlast::{Pool, PoolError};

/// Adds a mood to a day of the diary and returns how many the day has by now.
pub fn write(path: &Path, day: u32, mood: i32) -> Result<u64, PoolError> {
    let pool = Pool::open_or_create(path)?; // after a crash too: opening recovers
    let moods = pool.run_typed(|tx| {
        let days = tx.root_or_new::<PBTreeMap<'_, u32, PVec<'_, i32>>>()?.get(tx)?;
        let today = days.entry(tx, &day)?.or_insert_with(PVec::new)?;
        today.push(tx, mood)?;
        today.len(tx)
    })?; // durable from here on, all of it; after an error, nothing of it
    Ok(moods)
}

fn main() -> Result<(), PoolError> {
    let path = std::env::temp_dir().join("diary.pool");
    println!("{} moods today, in {}", write(&path, 20_779, 3)?, path.display());
    Ok(())
}
