//! A log of events with an index by user. An event and its entry in the index are one transaction, so after a
//! crash the index has every event of the log, and no other.
//!
//! `cargo run -p outlast --example event_log events.pool 7` logs a visit of user 7 and prints all of theirs.

use std::time::{SystemTime, UNIX_EPOCH};

use outlast::typed::{PBTreeMap, PVec, Persist, TypedTx};
use outlast::{Abort, Pool, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Log<'id> {
    events: PVec<'id, Event>,
    /// A set of pairs: a user and the number of an event.
    by_user: PBTreeMap<'id, (u32, u64), ()>,
}

/// An event of a user.
#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
pub struct Event {
    /// Seconds since 1970.
    pub at_seconds: u64,
    /// The user, by number.
    pub user: u32,
    /// The program's own number for visits, orders and so on.
    pub kind: u32,
}

impl<'id> Log<'id> {
    fn of(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Self, Abort> {
        tx.root_or_new()?.get(tx)
    }
}

/// Appends an event and returns its number.
pub fn append(pool: &Pool, event: Event) -> Result<u64, Abort> {
    pool.run_typed(|tx| {
        let log = Log::of(tx)?;
        let number = log.events.len(tx)?;
        log.events.push(tx, event)?;
        log.by_user.put(tx, &(event.user, number), ())?;
        Ok(number)
    })
}

/// The events of a user, oldest first, as they were at one moment.
pub fn of_user(pool: &Pool, user: u32) -> Result<Vec<Event>, Abort> {
    pool.run_typed(|tx| {
        let log = Log::of(tx)?;
        let entries = log.by_user.range(tx, (user, 0)..=(user, u64::MAX));
        let numbers = entries.map(|entry| Ok(entry?.0.1)).collect::<Result<Vec<_>, Abort>>()?;
        let events = numbers.into_iter().map(|number| log.events.get(tx, number));
        events.filter_map(Result::transpose).collect()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let pool = Pool::open_or_create(args.next().unwrap_or_else(|| "events.pool".to_owned()))?;
    let user = args.next().map_or(Ok(7), |user| user.parse())?;
    let at_seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    append(&pool, Event { at_seconds, user, kind: 1 })?;
    of_user(&pool, user)?.iter().for_each(|event| println!("{event:?}"));
    Ok(())
}
