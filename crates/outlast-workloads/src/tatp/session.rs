//! The transactions.

use outlast::collections::Dictionary;
use outlast::{Abort, ByteRange, Transact};

use super::draw::Request;
use super::tables::{ROW_BYTES_MAX, Row, RowKey, STARTS, TYPES, Table, Tables, digits, version_of};
use crate::rows::STAMP_BYTES;
use crate::{State, Version, Witness};

/// A running transaction on the tables.
pub(super) struct Session<'s, T, W> {
    tx: &'s mut T,
    witness: &'s mut W,
    tables: &'s Tables,
    version: Version,
}

/// A row that was read, and where it lies.
struct Held {
    key: RowKey,
    row: Row,
    place: ByteRange,
}

impl<'s, T: Transact, W: Witness> Session<'s, T, W> {
    pub(super) fn new(
        tx: &'s mut T,
        witness: &'s mut W,
        tables: &'s Tables,
        version: Version,
    ) -> Self {
        witness.restart();
        Self { tx, witness, tables, version }
    }

    pub(super) fn perform(&mut self, request: &Request) -> Result<(), Abort> {
        match *request {
            Request::GetSubscriberData { s } => self.get(RowKey::subscriber(s)).map(drop),
            Request::GetNewDestination { s, facility, start, end } => {
                self.new_destination(s, facility, start, end).map(drop)
            }
            Request::GetAccessData { s, access } => self.find(RowKey::access(s, access)).map(drop),
            Request::UpdateSubscriberData { s, facility, bit, data } => {
                let mut subscriber = self.get(RowKey::subscriber(s))?;
                subscriber.row.numbers()[4] = bit;
                self.change(subscriber)?;
                let found = self.find(RowKey::facility(s, facility))?;
                let mut facility = found.ok_or_else(|| failed("no such facility"))?;
                facility.row.numbers()[0] = data;
                self.change(facility)
            }
            Request::UpdateLocation { s, location } => {
                let s = self.by_number(s)?;
                let mut subscriber = self.get(RowKey::subscriber(s))?;
                subscriber.row.numbers()[..4].copy_from_slice(&location.to_le_bytes());
                self.change(subscriber)
            }
            Request::InsertCallForwarding { s, facility, start, end, number } => {
                let s = self.by_number(s)?;
                let mut has_facility = false;
                for kind in 1..=TYPES {
                    has_facility |=
                        self.find(RowKey::facility(s, kind))?.is_some() && kind == facility;
                }
                let key = RowKey::forwarding(s, facility, start);
                if !has_facility || self.find(key)?.is_some() {
                    return Err(failed("no such facility, or forwarded already"));
                }
                let mut row = Row { bytes: [0; ROW_BYTES_MAX], len: key.row_bytes() };
                row.numbers()[0] = end;
                row.numbers()[1..].copy_from_slice(&digits(number));
                row.stamp(key, self.version);
                self.tables.of(Table::Forwarding).add(self.tx, &key.bytes(), row.value())?;
                self.witness.write(key.fact(), State::Holds(self.version));
                Ok(())
            }
            Request::DeleteCallForwarding { s, facility, start } => {
                let s = self.by_number(s)?;
                let key = RowKey::forwarding(s, facility, start);
                if self.find(key)?.is_none() {
                    return Err(failed("not forwarded"));
                }
                self.tables.of(Table::Forwarding).remove(self.tx, &key.bytes())?;
                self.witness.write(key.fact(), State::Absent);
                Ok(())
            }
        }
    }

    /// Where calls go at that time, where they are forwarded: how many numbers there are.
    fn new_destination(
        &mut self,
        s: u64,
        facility: u8,
        start: u8,
        end: u8,
    ) -> Result<usize, Abort> {
        let Some(mut facility_row) = self.find(RowKey::facility(s, facility))? else {
            return Ok(0);
        };
        if facility_row.row.numbers()[1] == 0 {
            return Ok(0);
        }
        let mut found = 0;
        for from in STARTS.into_iter().filter(|from| *from <= start) {
            if let Some(mut forwarding) = self.find(RowKey::forwarding(s, facility, from))? {
                found += usize::from(end < forwarding.row.numbers()[0]);
            }
        }
        Ok(found)
    }

    /// The subscriber with that one's number, as the index says.
    fn by_number(&mut self, s: u64) -> Result<u64, Abort> {
        let found = self.tables.of(Table::Numbers).find(self.tx, &digits(s))?;
        let place = found.filter(|place| place.len == 8);
        let place = place.ok_or_else(|| Abort::damaged(format!("no subscriber has number {s}")))?;
        let mut bytes = [0; 8];
        self.tx.load(place.at, &mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn find(&mut self, key: RowKey) -> Result<Option<Held>, Abort> {
        let Some(place) = self.tables.of(key.table).find(self.tx, &key.bytes())? else {
            self.witness.read(key.fact(), State::Absent);
            return Ok(None);
        };
        let mut row = Row { bytes: [0; ROW_BYTES_MAX], len: key.row_bytes() };
        if place.len != row.len as u64 {
            return Err(torn(key));
        }
        self.tx.load(place.at, &mut row.bytes[..row.len])?;
        if W::WATCHES {
            let version = version_of(key, row.value()).ok_or_else(|| torn(key))?;
            self.witness.read(key.fact(), State::Holds(version));
        }
        Ok(Some(Held { key, row, place }))
    }

    fn get(&mut self, key: RowKey) -> Result<Held, Abort> {
        self.find(key)?.ok_or_else(|| Abort::damaged(format!("{key:?} is missing")))
    }

    /// Stores what changed of a row, with its new stamp.
    fn change(&mut self, held: Held) -> Result<(), Abort> {
        let Held { key, mut row, place } = held;
        row.stamp(key, self.version);
        let changed = STAMP_BYTES + key.changing();
        self.tx.will_write(&[ByteRange::new(place.at, changed as u64)])?;
        self.tx.store(place.at, &row.bytes[..changed])?;
        self.witness.write(key.fact(), State::Holds(self.version));
        Ok(())
    }
}

#[cold]
fn failed(why: &'static str) -> Abort {
    Abort::cancelled(why)
}

#[cold]
fn torn(key: RowKey) -> Abort {
    Abort::damaged(format!("{key:?} is no version of that row"))
}
