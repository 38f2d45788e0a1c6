//! A diary in a pool: each run adds an entry to today's.

use std::error::Error;
use std::path::Path;

use outlast::Pool;
use outlast::typed::{PBTreeMap, PVec, Persist};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Diary<'id> {
    days: PBTreeMap<'id, u32, PVec<'id, Entry>>,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Entry {
    minute: u32,
    mood: i32,
}

/// Adds an entry to the diary and returns how many the day has by now.
pub fn write(path: &Path, day: u32, minute: u32, mood: i32) -> Result<u64, Box<dyn Error>> {
    let pool = Pool::open_or_create(path)?; // through recovery
    pool.typed(|pool| {
        let mut lane = pool.lane()?; // a thread's place in the pool, with a log of its own
        let entries = lane.run(|tx| {
            let diary = tx.root_or_insert_with(|tx| Ok(Diary { days: PBTreeMap::new(tx)? }))?;
            let days = diary.at(Diary::FIELDS.days).get(tx)?;
            let today = days.entry(tx, &day)?.or_insert_with(PVec::new)?;
            today.push(tx, Entry { minute, mood })?;
            today.len(tx)
        })?; // durable from here on: all of it; had it failed, nothing of it
        Ok(entries)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join("diary.pool");
    let entries = write(&path, 20_779, 600, 3)?;
    println!("{entries} entries today, in {}", path.display());
    Ok(())
}
