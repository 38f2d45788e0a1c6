//! A transaction on the tables: rows are read, changed, inserted and removed, each with its
//! stamp, heard by the witness, and counted as the statement that it would be in SQL.

use std::ops::AddAssign;

use outlast::collections::Dictionary;
use outlast::error::Reason;
use outlast::{Abort, ByteRange, PoolOffset, Transact};

use super::schema::{Row, Table, Tables};
use super::shape::Shape;
use super::text::DIST_BYTES;
use crate::rows::{Put, STAMP_BYTES, Take, seal, unseal};
use crate::{State, Version, Witness};

/// Longest row that is read whole: a stock's.
const READ_BYTES_MAX: usize = 320;
/// Most bytes of a stamp and the numbers behind it.
const HEAD_BYTES_MAX: usize = 64;

/// How many rows transactions read, changed, inserted and removed: one statement in SQL each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statements {
    /// Rows read, those that are changed or removed afterwards included.
    pub reads: u64,
    /// Rows changed.
    pub updates: u64,
    /// Rows inserted.
    pub inserts: u64,
    /// Rows removed.
    pub deletes: u64,
}

impl AddAssign for Statements {
    fn add_assign(&mut self, more: Self) {
        self.reads += more.reads;
        self.updates += more.updates;
        self.inserts += more.inserts;
        self.deletes += more.deletes;
    }
}

/// A running transaction on the tables.
pub(crate) struct Session<'s, T, W> {
    pub(crate) tx: &'s mut T,
    witness: &'s mut W,
    tables: &'s Tables,
    pub(crate) shape: &'s Shape,
    /// The stamp of the rows that it writes.
    pub(crate) version: Version,
    statements: Statements,
    /// Its writes, told to the witness at the end.
    writes: Vec<(u64, State)>,
    /// The row that was read last.
    bytes: [u8; READ_BYTES_MAX],
}

/// A row that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<R> {
    pub(crate) row: R,
    pub(crate) key: u64,
    at: PoolOffset,
}

impl<R: Row> Held<R> {
    /// The range that a change stores to, to announce it.
    pub(crate) fn range(&self) -> ByteRange {
        ByteRange::new(self.at, (STAMP_BYTES + R::CHANGING) as u64)
    }

    /// A part of the row's value.
    pub(crate) fn part(&self, offset: usize, len: usize) -> ByteRange {
        ByteRange::new(self.at.plus(offset as u64), len as u64)
    }
}

impl<'s, T: Transact, W: Witness> Session<'s, T, W> {
    pub(crate) fn new(
        tx: &'s mut T,
        witness: &'s mut W,
        tables: &'s Tables,
        shape: &'s Shape,
        version: Version,
    ) -> Self {
        witness.restart();
        let bytes = [0; READ_BYTES_MAX];
        let (statements, writes) = (Statements::default(), Vec::new());
        Self { tx, witness, tables, shape, version, statements, writes, bytes }
    }

    /// Tells the witness what was written. Only a transaction that ends well does.
    pub(crate) fn finish(self) -> Statements {
        self.writes.into_iter().for_each(|(fact, state)| self.witness.write(fact, state));
        self.statements
    }

    /// The row of that key, if there is one. No row is read twice in a transaction.
    pub(crate) fn find<R: Row>(&mut self, key: u64) -> Result<Option<Held<R>>, Abort> {
        self.statements.reads += 1;
        let place = self.tables.of(R::TABLE).find(self.tx, &key.to_be_bytes())?;
        if place.is_none() && W::WATCHES {
            self.witness.read(R::fact(self.shape, key), State::Absent);
        }
        place.map(|place| self.hold(key, place)).transpose()
    }

    /// The row of that key, which must be there.
    pub(crate) fn get<R: Row>(&mut self, key: u64) -> Result<Held<R>, Abort> {
        self.find(key)?.ok_or_else(|| missing::<R>(key))
    }

    /// The rows from a key up to and without another one, in their order, at most `limit`.
    pub(crate) fn range<R: Row>(
        &mut self,
        (from, below): (u64, u64),
        limit: u64,
    ) -> Result<Vec<Held<R>>, Abort> {
        let mut places = Vec::new();
        self.keys(R::TABLE, &from.to_be_bytes(), limit, |key, place| {
            let key = key.try_into().map(u64::from_be_bytes).ok().filter(|&key| key < below);
            key.map(|key| places.push((key, place))).is_some()
        })?;
        self.statements.reads += places.len() as u64;
        places.into_iter().map(|(key, place)| self.hold(key, place)).collect()
    }

    /// Calls `visit` with up to `limit` keys of a tree and the places of their values, from one
    /// on, until it returns `false`.
    pub(crate) fn keys(
        &mut self,
        table: Table,
        from: &[u8],
        limit: u64,
        mut visit: impl FnMut(&[u8], ByteRange) -> bool,
    ) -> Result<(), Abort> {
        let mut stopped = false;
        let scan = self.tables.of(table).scan(self.tx, from, limit, |_, key, place| {
            stopped = !visit(key, place);
            if stopped { Err(Abort::Cancelled(Reason::default())) } else { Ok(()) }
        });
        if stopped { Ok(()) } else { scan }
    }

    fn hold<R: Row>(&mut self, key: u64, place: ByteRange) -> Result<Held<R>, Abort> {
        const { assert!(STAMP_BYTES + R::NUMBERS + R::TEXT <= READ_BYTES_MAX) };
        if place.len != R::VALUE as u64 {
            return Err(missing::<R>(key));
        }
        self.tx.load(place.at, &mut self.bytes[..STAMP_BYTES + R::NUMBERS + R::TEXT])?;
        let numbers = &self.bytes[STAMP_BYTES..][..R::NUMBERS];
        if W::WATCHES {
            let fact = R::fact(self.shape, key);
            let version = unseal(fact, &self.bytes, numbers).ok_or_else(|| torn::<R>(key))?;
            self.witness.read(fact, State::Holds(version));
        }
        Ok(Held { row: R::take(&mut Take(numbers)), key, at: place.at })
    }

    /// The text of the row that was read last, which is of this table.
    pub(crate) fn text<R: Row>(&self) -> &[u8] {
        &self.bytes[STAMP_BYTES + R::NUMBERS..][..R::TEXT]
    }

    /// Announces all that the transaction changes in rows that are there.
    pub(crate) fn announce(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.tx.will_write(ranges)
    }

    /// Stores the numbers of a row that was read.
    pub(crate) fn change<R: Row>(&mut self, held: &Held<R>) -> Result<(), Abort> {
        let head = self.head(&held.row, held.key);
        self.tx.store(held.at, &head[..STAMP_BYTES + R::CHANGING])?;
        self.statements.updates += 1;
        self.wrote(R::fact(self.shape, held.key), State::Holds(self.version));
        Ok(())
    }

    /// Inserts a row that is not there.
    pub(crate) fn insert<R: Row>(&mut self, key: u64, row: &R, text: &[u8]) -> Result<(), Abort> {
        let value = self.value(key, row, text);
        let is_new =
            self.tables.of(R::TABLE).add(self.tx, &key.to_be_bytes(), &value[..R::VALUE])?;
        self.inserted::<R>(is_new, key)
    }

    /// Inserts rows that are not there, with ascending keys: neighbours are announced together.
    pub(crate) fn insert_ascending<R: Row>(
        &mut self,
        rows: &[(u64, R, [u8; DIST_BYTES])],
    ) -> Result<(), Abort> {
        let entry = |(key, row, text): &(u64, R, [u8; DIST_BYTES])| {
            (key.to_be_bytes(), self.value(*key, row, text))
        };
        let entries: Vec<_> = rows.iter().map(entry).collect();
        let pairs = entries.iter().map(|(key, value)| (&key[..], &value[..R::VALUE]));
        let added = self.tables.of(R::TABLE).add_ascending(self.tx, pairs)?;
        rows.iter().try_for_each(|row| self.inserted::<R>(added == rows.len() as u64, row.0))
    }

    /// The value of a row, with zeros behind.
    fn value<R: Row>(&self, key: u64, row: &R, text: &[u8]) -> [u8; READ_BYTES_MAX] {
        debug_assert_eq!(text.len(), R::TEXT + R::REST);
        let mut value = [0; READ_BYTES_MAX];
        let text_at = STAMP_BYTES + R::NUMBERS;
        value[..text_at].copy_from_slice(&self.head(row, key)[..text_at]);
        value[text_at..R::VALUE].copy_from_slice(text);
        value
    }

    fn inserted<R: Row>(&mut self, is_new: bool, key: u64) -> Result<(), Abort> {
        if !is_new {
            return Err(Abort::damaged(format!("{:?} {key:#x} is there already", R::TABLE)));
        }
        self.statements.inserts += 1;
        if W::WATCHES {
            let fact = R::fact(self.shape, key);
            self.witness.read(fact, State::Absent);
            self.wrote(fact, State::Holds(self.version));
        }
        Ok(())
    }

    /// Removes a row that was read.
    pub(crate) fn remove<R: Row>(&mut self, held: &Held<R>) -> Result<(), Abort> {
        if !self.tables.of(R::TABLE).remove(self.tx, &held.key.to_be_bytes())? {
            return Err(missing::<R>(held.key));
        }
        self.statements.deletes += 1;
        self.wrote(R::fact(self.shape, held.key), State::Absent);
        Ok(())
    }

    /// Inserts a key into an index.
    pub(crate) fn index(&mut self, table: Table, key: &[u8]) -> Result<(), Abort> {
        self.tables.of(table).insert(self.tx, key, &[]).map(drop)
    }

    fn head<R: Row>(&self, row: &R, key: u64) -> [u8; HEAD_BYTES_MAX] {
        const { assert!(STAMP_BYTES + R::NUMBERS <= HEAD_BYTES_MAX) };
        head(row, R::fact(self.shape, key), self.version)
    }

    fn wrote(&mut self, fact: u64, state: State) {
        if W::WATCHES && !self.writes.iter().any(|write| write.0 == fact) {
            self.writes.push((fact, state));
        }
    }
}

/// The stamp and the numbers of a row, with zeros behind.
pub(crate) fn head<R: Row>(row: &R, fact: u64, version: Version) -> [u8; HEAD_BYTES_MAX] {
    let mut head = [0; HEAD_BYTES_MAX];
    let (stamp, numbers) = head.split_at_mut(STAMP_BYTES);
    let numbers = &mut numbers[..R::NUMBERS];
    row.put(&mut Put(numbers));
    stamp.copy_from_slice(&seal(fact, version, numbers));
    head
}

#[cold]
fn missing<R: Row>(key: u64) -> Abort {
    Abort::damaged(format!("{:?} {key:#x} is missing", R::TABLE))
}

#[cold]
fn torn<R: Row>(key: u64) -> Abort {
    Abort::damaged(format!("{:?} {key:#x} is no version of that row", R::TABLE))
}
