//! The keys of a database, as commands see them.

use outlast::{Abort, PoolOffset};

use crate::store::entry::{Entry, Kind};
use crate::store::garbage;
use crate::store::layout::{DATABASES, Root};
use crate::store::mem::Mem;
use crate::store::size::rounded;
use crate::store::table::{Content, Place, Table};
use outlast_workloads::Random;

/// Changes by transactions: for clients that watch keys, or wait for them.
#[derive(Default, Debug)]
pub(crate) struct Changes {
    /// Some client wants to know which keys.
    pub is_wanted: bool,
    /// The keys, with their databases.
    pub keys: Vec<(usize, Vec<u8>)>,
    /// Keys that some client watches or waits for.
    pub watched: Vec<(usize, Vec<u8>)>,
    /// The pool is full: commands that need room are refused, and values that shrink stay where they are.
    pub is_tight: bool,
    /// How many changes.
    pub count: u64,
    /// Something is to be freed.
    pub has_garbage: bool,
    /// Keys that expired.
    pub expired: u64,
    /// Lookups that found something, and that did not.
    pub hits: u64,
    pub misses: u64,
    /// Entries that approximate trimming of streams removes together, where that was set.
    pub stream_node_entries: Option<u64>,
    /// Notifications are wanted: what happens is recorded, a command's name makes events of it.
    pub notifies: bool,
    pub facts: Vec<(usize, Vec<u8>, Fact)>,
    pub events: Vec<Event>,
}

/// An event of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    Added,
    Changed,
    Removed,
    Expired,
    Missed,
    /// An event beside the command's own.
    Also(&'static str),
}

/// Something to notify clients of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub database: usize,
    pub key: Vec<u8>,
    /// The letter of its class in `notify-keyspace-events`.
    pub class: char,
    pub name: &'static str,
}

/// A key's entry, with its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub place: Place,
    pub hash: u64,
}

impl Found {
    pub fn entry(&self) -> &Entry {
        &self.place.entry
    }

    pub fn kind(&self) -> Kind {
        self.place.entry.kind
    }
}

/// A database within a transaction.
pub(crate) struct Keys<'a> {
    pub mem: &'a mut Mem<'a>,
    pub root: Root,
    pub database: usize,
    /// In ms since 1970.
    pub now: u64,
    pub changes: &'a mut Changes,
    pub random: &'a mut Random,
}

impl Keys<'_> {
    /// The database's table, if it has one.
    pub fn table(&mut self) -> Result<Option<Table>, Abort> {
        let at = self.mem.load_u64(self.root.table_at(self.database))?;
        Ok((at != 0).then_some(Table { at: PoolOffset(at) }))
    }

    fn table_or_new(&mut self) -> Result<Table, Abort> {
        if let Some(table) = self.table()? {
            return Ok(table);
        }
        let table = Table::create(self.mem)?;
        self.mem.store_u64(self.root.table_at(self.database), table.at.0)?;
        Ok(table)
    }

    /// How many keys it has, those included that have expired and are still there.
    pub fn len(&mut self) -> Result<u64, Abort> {
        match self.table()? {
            Some(table) => table.len(self.mem),
            None => Ok(0),
        }
    }

    /// How many of them have a deadline.
    pub fn expiring(&mut self) -> Result<u64, Abort> {
        self.mem.load_u64(self.root.expiring_at(self.database))
    }

    fn count_expiring(&mut self, had: bool, has: bool) -> Result<(), Abort> {
        if had == has {
            return Ok(());
        }
        let at = self.root.expiring_at(self.database);
        let count = self.mem.load_u64(at)?;
        let count = if has { count + 1 } else { count.saturating_sub(1) };
        self.mem.store_u64(at, count)
    }

    fn fact(&mut self, key: &[u8], fact: Fact) {
        if self.changes.notifies && self.database < DATABASES {
            self.changes.facts.push((self.database, key.to_vec(), fact));
        }
    }

    /// Notes an event beside the one of the command's name.
    pub fn also(&mut self, key: &[u8], event: &'static str) {
        self.fact(key, Fact::Also(event));
    }

    /// Notes that a key's value has changed.
    pub fn changed(&mut self, key: &[u8]) {
        self.fact(key, Fact::Changed);
        self.count_change(key);
    }

    fn count_change(&mut self, key: &[u8]) {
        self.changes.count += 1;
        if self.changes.is_wanted {
            self.changes.keys.push((self.database, key.to_vec()));
        }
    }

    /// A key's entry. One whose deadline has passed is removed.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<Found>, Abort> {
        let hash = self.root.hasher.hash(key);
        let Some(table) = self.table()? else { return Ok(None) };
        let Some(place) = table.find(self.mem, key, hash)? else { return Ok(None) };
        let found = Found { place, hash };
        if place.entry.has_deadline
            && place.entry.deadline(self.mem)?.is_some_and(|deadline| deadline <= self.now)
        {
            self.expire(key, found)?;
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// Announces lookups of keys with these hashes, so that what they read is fetched together.
    pub fn will_find(&mut self, hashes: &[u64]) -> Result<(), Abort> {
        match self.table()? {
            Some(table) => table.will_find(self.mem, hashes),
            None => Ok(()),
        }
    }

    /// The same for fields of a hash or members of a set, sorted or not, if the key is of a large one.
    pub fn will_find_members(
        &mut self,
        key: &[u8],
        hash: u64,
        members: &[u64],
    ) -> Result<(), Abort> {
        let Some(table) = self.table()? else { return Ok(()) };
        let Some(place) = table.find(self.mem, key, hash)? else { return Ok(()) };
        match place.entry.kind {
            Kind::HashTable | Kind::SetTable | Kind::ZsetTree | Kind::ZsetScores => {
                let at = place.entry.large_at(self.mem, 0)?;
                Table { at }.will_find(self.mem, members)
            }
            _ => Ok(()),
        }
    }

    /// As [`find`](Self::find), for a command that reads: it is counted.
    pub fn look_up(&mut self, key: &[u8]) -> Result<Option<Found>, Abort> {
        let found = self.find(key)?;
        match found {
            Some(_) => self.changes.hits += 1,
            None => {
                self.changes.misses += 1;
                self.fact(key, Fact::Missed);
            }
        }
        Ok(found)
    }

    /// Removes a key because its deadline has passed.
    pub fn expire(&mut self, key: &[u8], found: Found) -> Result<(), Abort> {
        self.changes.expired += 1;
        self.fact(key, Fact::Expired);
        self.take_out(key, found)
    }

    /// Gives a key a value. The large part of the value before goes, unless it is the same.
    pub fn write(
        &mut self,
        key: &[u8],
        found: Option<Found>,
        content: Content<'_>,
    ) -> Result<Found, Abort> {
        let hash = match found {
            Some(found) => {
                let old = *found.entry();
                if old.kind.is_large() && old.kind != content.kind {
                    self.discard(&old)?;
                }
                self.count_expiring(old.has_deadline, content.deadline.is_some())?;
                found.hash
            }
            None => {
                self.fact(key, Fact::Added);
                self.count_expiring(false, content.deadline.is_some())?;
                self.root.hasher.hash(key)
            }
        };
        let table = self.table_or_new()?;
        let place = found.map(|found| found.place);
        let place = table.write(self.mem, self.root.hasher, place, key, hash, &content)?;
        self.changed(key);
        Ok(Found { place, hash })
    }

    /// Gives a key another value of the same kind that ends otherwise, its deadline untouched, and
    /// stores only what differs from `old`.
    pub fn rewrite(
        &mut self,
        key: &[u8],
        found: Found,
        old: &[u8],
        new: &[u8],
    ) -> Result<Found, Abort> {
        let entry = *found.entry();
        if old.len() == new.len() {
            super::mem::store_changed(self.mem, entry.value_at(), old, new)?;
            self.changed(key);
            return Ok(found);
        }
        if !entry.has_deadline && entry.has_room_for(new.len()) {
            super::mem::store_changed(self.mem, entry.value_at(), old, new)?;
            let meta = Entry::meta(entry.kind, entry.key_len, new.len(), false);
            self.mem.store_u64(entry.at.plus(8), meta)?;
            self.changed(key);
            let entry = Entry { value_len: new.len(), ..entry };
            return Ok(Found { place: Place { entry, ..found.place }, ..found });
        }
        let deadline = entry.deadline(self.mem)?;
        let content = Content { kind: entry.kind, value: new, deadline };
        if self.changes.is_tight && new.len() < old.len() {
            let place = Table::overwrite(self.mem, found.place, &content)?;
            self.changed(key);
            return Ok(Found { place, ..found });
        }
        self.write(key, Some(found), content)
    }

    /// Gives a key a value; its deadline, if it has one, stays.
    pub fn write_keeping_deadline(
        &mut self,
        key: &[u8],
        found: Option<Found>,
        kind: Kind,
        value: &[u8],
    ) -> Result<Found, Abort> {
        let deadline = match found {
            Some(found) => found.entry().deadline(self.mem)?,
            None => None,
        };
        self.write(key, found, Content { kind, value, deadline })
    }

    /// The block that a table of a stream has under a name.
    pub fn block_of(&mut self, table: Table, name: &[u8]) -> Result<Option<PoolOffset>, Abort> {
        let hash = self.root.hasher.hash(name);
        let place = table.find(self.mem, name, hash)?;
        place.map(|place| place.entry.large_at(self.mem, 0)).transpose()
    }

    /// Makes a small collection part of the pool. One without members is no key.
    pub fn save_blob(
        &mut self,
        key: &[u8],
        found: Option<Found>,
        kind: Kind,
        (old, new): (&[u8], &[u8]),
    ) -> Result<(), Abort> {
        match found {
            Some(found) if new.is_empty() => self.remove(key, found),
            Some(found) => self.rewrite(key, found, old, new).map(drop),
            None if new.is_empty() => Ok(()),
            None => self.write_keeping_deadline(key, None, kind, new).map(drop),
        }
    }

    /// Makes a large collection of `len` members part of the pool, by its blocks. One without members is no
    /// key.
    pub fn save_blocks(
        &mut self,
        key: &[u8],
        found: Option<Found>,
        kind: Kind,
        len: u64,
        blocks: &[PoolOffset],
    ) -> Result<(), Abort> {
        match found {
            Some(found) if len == 0 => self.remove(key, found),
            Some(found) if found.kind() == kind => {
                self.changed(key);
                Ok(())
            }
            found => {
                let value: Vec<u8> = blocks.iter().flat_map(|at| at.0.to_le_bytes()).collect();
                self.write_keeping_deadline(key, found, kind, &value).map(drop)
            }
        }
    }

    /// Lengthens a string.
    pub fn append(&mut self, key: &[u8], found: Found, tail: &[u8]) -> Result<(), Abort> {
        let entry = *found.entry();
        let len = entry.value_len + tail.len();
        if !entry.has_deadline && entry.has_room_for(len) {
            self.mem.store(entry.deadline_at(), tail)?;
            let meta = Entry::meta(entry.kind, entry.key_len, len, false);
            self.mem.store_u64(entry.at.plus(8), meta)?;
            self.changed(key);
            return Ok(());
        }
        let mut value = entry.value(self.mem)?;
        value.extend_from_slice(tail);
        self.write_keeping_deadline(key, Some(found), entry.kind, &value)?;
        Ok(())
    }

    /// Stores bytes into a string, which is filled up with zeros before them.
    pub fn put_at(
        &mut self,
        key: &[u8],
        found: Option<Found>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let len = found.map_or(0, |found| found.entry().value_len);
        if let Some(found) = found {
            let entry = found.entry();
            if offset + bytes.len() <= len {
                self.mem.store(entry.value_at().plus(offset as u64), bytes)?;
                self.changed(key);
                return Ok(());
            }
            if offset >= len {
                let mut tail = vec![0; offset - len];
                tail.extend_from_slice(bytes);
                return self.append(key, found, &tail);
            }
        }
        let mut value = match found {
            Some(found) => found.entry().value(self.mem)?,
            None => Vec::new(),
        };
        value.resize(offset + bytes.len(), 0);
        value[offset..].copy_from_slice(bytes);
        self.write_keeping_deadline(key, found, Kind::String, &value)?;
        Ok(())
    }

    /// Removes a key with its value.
    pub fn remove(&mut self, key: &[u8], found: Found) -> Result<(), Abort> {
        self.fact(key, Fact::Removed);
        self.take_out(key, found)
    }

    fn take_out(&mut self, key: &[u8], found: Found) -> Result<(), Abort> {
        let Some(table) = self.table()? else { return Ok(()) };
        self.discard(found.entry())?;
        self.count_expiring(found.entry().has_deadline, false)?;
        table.remove(self.mem, found.place)?;
        table.shrink(self.mem)?;
        self.count_change(key);
        Ok(())
    }

    /// The large part of a value, if it has one, is to be freed.
    pub fn discard(&mut self, entry: &Entry) -> Result<(), Abort> {
        self.changes.has_garbage |= entry.kind.is_large();
        garbage::discard(self.mem, &self.root, entry)
    }

    /// Takes a key out and leaves the large part of its value, which another entry has taken over.
    pub fn unlink(&mut self, key: &[u8], found: Found) -> Result<(), Abort> {
        let Some(table) = self.table()? else { return Ok(()) };
        self.count_expiring(found.entry().has_deadline, false)?;
        table.remove(self.mem, found.place)?;
        table.shrink(self.mem)?;
        self.fact(key, Fact::Removed);
        self.count_change(key);
        Ok(())
    }

    /// Gives a key a deadline, or takes it away.
    pub fn set_deadline(
        &mut self,
        key: &[u8],
        found: Found,
        deadline: Option<u64>,
    ) -> Result<Found, Abort> {
        let entry = *found.entry();
        if entry.has_deadline == deadline.is_some() {
            if let Some(deadline) = deadline {
                self.mem.store(entry.deadline_at(), &deadline.to_le_bytes())?;
            }
            self.changed(key);
            return Ok(found);
        }
        let bytes = Entry::bytes(entry.key_len, entry.value_len, deadline.is_some());
        let fits = bytes <= rounded(entry.own_bytes())
            || self.mem.block_bytes(entry.at)?.is_some_and(|room| bytes <= room);
        if fits {
            if let Some(deadline) = deadline {
                self.mem.store(entry.deadline_at(), &deadline.to_le_bytes())?;
            }
            let has = deadline.is_some();
            let meta = Entry::meta(entry.kind, entry.key_len, entry.value_len, has);
            self.mem.store_u64(entry.at.plus(8), meta)?;
            self.count_expiring(entry.has_deadline, has)?;
            self.changed(key);
            let entry = Entry { has_deadline: has, ..entry };
            return Ok(Found { place: Place { entry, ..found.place }, ..found });
        }
        let value = entry.value(self.mem)?;
        self.write(key, Some(found), Content { kind: entry.kind, value: &value, deadline })
    }

    /// Notes watched keys of the database that are there.
    fn note_watched(&mut self) -> Result<(), Abort> {
        let own = self.database;
        let watched = self.changes.watched.iter().filter(|key| key.0 == own);
        let watched: Vec<(usize, Vec<u8>)> = watched.cloned().collect();
        for key in watched {
            if self.find(&key.1)?.is_some() {
                self.changes.keys.push(key);
            }
        }
        Ok(())
    }

    /// Empties the database.
    pub fn flush(&mut self) -> Result<(), Abort> {
        self.note_watched()?;
        if let Some(table) = self.table()? {
            self.mem.store_u64(self.root.table_at(self.database), 0)?;
            self.mem.store_u64(self.root.expiring_at(self.database), 0)?;
            garbage::discard_keys(self.mem, &self.root, table)?;
            self.changes.has_garbage = true;
            self.changes.count += 1;
        }
        Ok(())
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, one: usize, other: usize) -> Result<(), Abort> {
        let own = self.database;
        let both = [one, other];
        for database in both {
            self.database = database;
            self.note_watched()?;
        }
        let words = [
            (self.root.table_at(one), self.root.table_at(other)),
            (self.root.expiring_at(one), self.root.expiring_at(other)),
        ];
        for (one, other) in words {
            let (a, b) = (self.mem.load_u64(one)?, self.mem.load_u64(other)?);
            self.mem.store_u64(one, b)?;
            self.mem.store_u64(other, a)?;
        }
        self.changes.count += 1;
        // A key that is watched or waited for may be there only now.
        for database in both {
            self.database = database;
            self.note_watched()?;
        }
        self.database = own;
        Ok(())
    }
}
