//! `tatp`: the telecom application transaction processing benchmark, over B+trees.
//!
//! Neuvonen, Wolski, Manner, Raatikka, "Telecommunication Application Transaction Processing (TATP)
//! Benchmark Description" 1.0 (2009): a home location register of four tables, seven transactions,
//! subscribers drawn non-uniformly.
//!
//! | transaction | share | it fails | then |
//! |---|---|---|---|
//! | GetSubscriberData | 35 % | never | |
//! | GetNewDestination | 10 % | no active facility, or no forwarding at that time | nothing found |
//! | GetAccessData | 35 % | no such access | nothing found |
//! | UpdateSubscriberData | 2 % | no such facility | rolled back, behind its first update |
//! | UpdateLocation | 14 % | never | |
//! | InsertCallForwarding | 2 % | no such facility, or forwarded already | rolled back |
//! | DeleteCallForwarding | 2 % | not forwarded | rolled back |
//!
//! What is rolled back is given up with [`Abort::Cancelled`]. Subscribers are
//! `(rand(0, A) | rand(1, S)) % S + 1`, with the published A of the population. The last three find
//! the subscriber by its number, in an index. Read differently: contents of rows that nothing
//! changes follow from their keys, not from the loader's random numbers.

mod books;
mod draw;
mod family;
mod session;
mod tables;

pub(crate) use self::family::Tatp;

use outlast::collections::{Damage, Dictionary, ReadRaw, Trees, load_value};
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

use self::books::Books;
use self::draw::Request;
use self::session::Session;
use self::tables::{Table, Tables, VALUE_BYTES_MAX};
use crate::facts::Versions;
use crate::family::Thread;
use crate::{OpKind, Random, Version, Witness};

/// One client of TATP.
pub(crate) struct TatpWorker {
    tables: Tables,
    subscribers: u64,
    random: Random,
    versions: Versions,
    request: Request,
    version: Version,
}

impl TatpWorker {
    fn new(tables: Tables, subscribers: u64, random: Random, versions: Versions) -> Self {
        let (request, version) = (Request::GetSubscriberData { s: 1 }, Version::LOADED);
        let mut worker = Self { tables, subscribers, random, versions, request, version };
        worker.draw();
        worker
    }
}

impl Thread for TatpWorker {
    fn draw(&mut self) {
        self.request = draw::request(&mut self.random, self.subscribers);
        self.version = self.versions.next();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let Self { tables, request, version, .. } = self;
        let done = runner.run(|tx| {
            let mut session = Session::new(tx, witness, tables, *version);
            session.perform(request)
        });
        match done {
            Err(Abort::Cancelled(_)) if request.may_fail() => {
                // It did nothing, so there is nothing to judge it by.
                witness.restart();
                Ok(OpKind::RolledBack)
            }
            done => done.map(|()| request.kind()),
        }
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }
}

/// Checks every row and what must hold of them together, and calls `visit` with each row's number
/// among the facts and its version.
///
/// # Errors
/// The first thing that is wrong.
fn audit<R: ReadRaw>(
    subscribers: u64,
    root: PoolOffset,
    read: &mut R,
    visit: &mut dyn FnMut(u64, Version),
) -> Result<(), Damage> {
    let mut books = Books::open(subscribers);
    let mut value = Vec::new();
    Trees::walk(
        root,
        read,
        |_, _| {},
        |read, tree, key, place: ByteRange| {
            let damage = |what| Damage { at: place.at, what };
            let table = Table::ALL.get(tree).ok_or_else(|| damage("a table too many"))?;
            crate::audit::load_up_to(read, place, VALUE_BYTES_MAX, &mut value)?;
            if let Some((fact, version)) = books.enter(*table, key, &value).map_err(damage)? {
                visit(fact, version);
            }
            Ok(())
        },
    )?;
    books.close().map_err(|what| Damage { at: root, what })
}

/// Checks the same from inside a transaction.
///
/// # Errors
/// [`Abort::Damaged`] with the first thing that is wrong.
fn check<T: Transact>(subscribers: u64, tables: &Tables, tx: &mut T) -> Result<(), Abort> {
    let mut books = Books::open(subscribers);
    let wrong = |what: &str| Abort::damaged(what.to_owned());
    let mut value = Vec::new();
    for table in Table::ALL {
        tables.of(table).for_each(tx, |tx, key, place| {
            value.clear();
            load_value(tx, place, &mut value)?;
            books.enter(table, key, &value).map(drop).map_err(wrong)
        })?;
    }
    books.close().map_err(wrong)
}

#[cfg(test)]
mod tests;
