//! Consistency of the tables.
//!
//! Every subscriber is there once, and in the index under its number; access and facilities are
//! those that were loaded, since nothing adds or removes any; a forwarding is of a facility that is
//! there. What no transaction changes of a row is what was loaded.

use super::tables::{DIGITS, END_MAX, RowKey, Table, digits, first_rows, version_of};
use crate::Version;
use crate::rows::STAMP_BYTES;

/// Why tables are not consistent.
pub(super) type Wrong = &'static str;

/// Rows as they come by, in the order of the tables.
pub(super) struct Books {
    subscribers: u64,
    /// Of each subscriber: whether it is there, its kinds of access, its facilities, whether it is
    /// in the index.
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    is_there: bool,
    access: u8,
    facilities: u8,
    is_indexed: bool,
}

impl Books {
    pub(super) fn open(subscribers: u64) -> Self {
        Self { subscribers, seen: vec![Seen::default(); subscribers as usize] }
    }

    /// Enters what a tree has under a key. Returns what facts call it, and its version; nothing
    /// for an entry of the index.
    ///
    /// # Errors
    /// Enters a row. An error if it contradicts the rows before it, or itself.
    pub(super) fn enter(
        &mut self,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<(u64, Version)>, Wrong> {
        if table == Table::Numbers {
            return self.number(key, value).map(|()| None);
        }
        let key = RowKey::read(table, key, self.subscribers).ok_or("a key that cannot be")?;
        let version = version_of(key, value).ok_or("a row that is no version of it")?;
        let seen = &mut self.seen[key.s as usize - 1];
        let bit = if key.kind > 0 { 1 << (key.kind - 1) } else { 0 };
        match table {
            Table::Subscriber => seen.is_there = true,
            Table::Access => seen.access |= bit,
            Table::Facility => seen.facilities |= bit,
            Table::Forwarding if seen.facilities & bit == 0 => {
                return Err("calls are forwarded for a facility that is not there");
            }
            Table::Forwarding => {
                let (end, number) = (value[STAMP_BYTES], &value[STAMP_BYTES + 1..]);
                if !(1..=END_MAX).contains(&end) || !number.iter().all(u8::is_ascii_digit) {
                    return Err("a forwarding that cannot be");
                }
                return Ok(Some((key.fact(), version)));
            }
            Table::Numbers => {}
        }
        let fixed = STAMP_BYTES + key.changing();
        if value[fixed..] != key.loaded().value()[fixed..] {
            return Err("what nothing changes is not what was loaded");
        }
        Ok(Some((key.fact(), version)))
    }

    fn number(&mut self, key: &[u8], value: &[u8]) -> Result<(), Wrong> {
        let s =
            value.try_into().map(u64::from_be_bytes).map_err(|_| "a number of another length")?;
        let is_possible = key.len() == DIGITS && (1..=self.subscribers).contains(&s);
        if !is_possible || *key != digits(s) {
            return Err("a number of another subscriber");
        }
        self.seen[s as usize - 1].is_indexed = true;
        Ok(())
    }

    /// Compares what was entered with what was loaded, when everything was.
    ///
    /// # Errors
    /// A condition that is broken.
    pub(super) fn close(&self) -> Result<(), Wrong> {
        for (seen, s) in self.seen.iter().zip(1..) {
            let (access, facilities, _) = first_rows(s);
            if !seen.is_there || !seen.is_indexed {
                return Err("a subscriber is missing, or its number");
            }
            if (seen.access, seen.facilities) != (access, facilities) {
                return Err("access or facilities are not those that were loaded");
            }
        }
        Ok(())
    }
}
