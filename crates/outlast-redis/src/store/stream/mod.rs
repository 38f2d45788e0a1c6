//! Streams: entries in the order of their IDs, and groups of consumers that share them.
//!
//! ```text
//! stream    0 entries: a sorted sequence; an item is the ID and fields and values as in a small value
//!           8 last ID (16 bytes), 24 largest deleted ID (16), 40 entries ever added
//!           48 groups: a table of names with offsets, 0 for none
//! ```
//!
//! An ID is two words, milliseconds and a number, the highest byte first, so that IDs are in the order of
//! their bytes. Appending, finding and reading from an ID on take logarithmic time. Trimming cuts the
//! sequence in two and leaves the front to the garbage.
//!
//! * **STREAM-1** No entry has an ID above the last ID.

mod group;
mod id;

use outlast::{Abort, BlockKind, PoolOffset};

pub(crate) use group::{Consumer, Group, Pending};
pub(super) use group::{GROUP_BYTES, consumer_parts, group_parts};
pub(crate) use id::Id;

use crate::store::entry::Kind;
use crate::store::garbage;
use crate::store::mem::Mem;
use crate::store::seq::Seq;
use crate::store::table::{Content, Table};
use crate::store::{Found, Keys};

const LAST_AT: u64 = 8;
const DELETED_AT: u64 = 24;
const ADDED_AT: u64 = 40;
const GROUPS_AT: u64 = 48;
pub(super) const BYTES: usize = 64;

/// Entries that are removed one by one; more of them are cut off.
const REMOVED_SINGLY_MAX: u64 = 16;

/// A stream by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub at: PoolOffset,
}

/// An entry: its ID, its fields and values as in a small value.
pub(crate) type StreamEntry = (Id, Vec<u8>);

/// The sequence of a stream's entries, and the table of its groups if it has one.
pub(super) fn stream_parts(
    mem: &mut Mem<'_>,
    at: PoolOffset,
) -> Result<(PoolOffset, Option<PoolOffset>), Abort> {
    let groups = mem.load_u64(at.plus(GROUPS_AT))?;
    let groups = (groups != 0).then_some(PoolOffset(groups));
    Ok((PoolOffset(mem.load_u64(at)?), groups))
}

impl Stream {
    /// A stream without entries.
    pub fn create(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        let seq = Seq::create(mem, true)?;
        let at = mem.alloc(BYTES as u64, BlockKind::General)?;
        let mut header = [0; BYTES];
        header[..8].copy_from_slice(&seq.at.0.to_le_bytes());
        mem.store(at, &header)?;
        Ok(Self { at })
    }

    /// The stream of an entry of that type.
    pub fn of(mem: &mut Mem<'_>, found: &Found) -> Result<Self, Abort> {
        Ok(Self { at: found.entry().large_at(mem, 0)? })
    }

    /// A new stream at a key that is not there.
    pub fn create_at(keys: &mut Keys<'_>, key: &[u8]) -> Result<Self, Abort> {
        keys.root.note_feature(keys.mem, super::layout::STREAMS)?;
        let stream = Self::create(keys.mem)?;
        let value = stream.at.0.to_le_bytes();
        keys.write(key, None, Content { kind: Kind::Stream, value: &value, deadline: None })?;
        Ok(stream)
    }

    fn seq(self, mem: &mut Mem<'_>) -> Result<Seq, Abort> {
        Ok(Seq { at: PoolOffset(mem.load_u64(self.at)?) })
    }

    /// How many entries it has.
    pub fn len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        self.seq(mem)?.len(mem)
    }

    /// The last ID that was given or set.
    pub fn last_id(self, mem: &mut Mem<'_>) -> Result<Id, Abort> {
        Id::load(mem, self.at.plus(LAST_AT))
    }

    pub fn set_last_id(self, mem: &mut Mem<'_>, id: Id) -> Result<(), Abort> {
        id.store(mem, self.at.plus(LAST_AT))
    }

    /// The largest ID that was deleted.
    pub fn deleted_id(self, mem: &mut Mem<'_>) -> Result<Id, Abort> {
        Id::load(mem, self.at.plus(DELETED_AT))
    }

    pub fn set_deleted_id(self, mem: &mut Mem<'_>, id: Id) -> Result<(), Abort> {
        id.store(mem, self.at.plus(DELETED_AT))
    }

    /// How many entries were ever added.
    pub fn added(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        mem.load_u64(self.at.plus(ADDED_AT))
    }

    pub fn set_added(self, mem: &mut Mem<'_>, added: u64) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(ADDED_AT), added)
    }

    /// Appends an entry whose ID is above the last one.
    pub fn append(self, mem: &mut Mem<'_>, id: Id, fields: &[u8]) -> Result<(), Abort> {
        let mut item = Vec::with_capacity(16 + fields.len());
        item.extend_from_slice(&id.to_bytes());
        item.extend_from_slice(fields);
        self.seq(mem)?.push(mem, &item)?;
        self.set_last_id(mem, id)?;
        let added = self.added(mem)?;
        self.set_added(mem, added + 1)
    }

    /// How many entries have smaller IDs.
    pub fn rank(self, mem: &mut Mem<'_>, id: Id) -> Result<u64, Abort> {
        self.seq(mem)?.rank(mem, &id.to_bytes(), false)
    }

    /// The entry of an index.
    pub fn at_index(self, mem: &mut Mem<'_>, index: u64) -> Result<Option<StreamEntry>, Abort> {
        Ok(self.seq(mem)?.get(mem, index)?.map(|item| parts(&item)))
    }

    /// The ID of the first entry; the least one for none.
    pub fn first_id(self, mem: &mut Mem<'_>) -> Result<Id, Abort> {
        Ok(self.at_index(mem, 0)?.map_or(Id::MIN, |(id, _)| id))
    }

    /// The ID of the last entry; the least one for none.
    pub fn top_id(self, mem: &mut Mem<'_>) -> Result<Id, Abort> {
        let len = self.len(mem)?;
        let top = self.at_index(mem, len.wrapping_sub(1))?;
        Ok(top.map_or(Id::MIN, |(id, _)| id))
    }

    /// The fields of an entry.
    pub fn get(self, mem: &mut Mem<'_>, id: Id) -> Result<Option<Vec<u8>>, Abort> {
        let index = self.rank(mem, id)?;
        let found = self.at_index(mem, index)?;
        Ok(found.filter(|(found, _)| *found == id).map(|(_, fields)| fields))
    }

    /// Up to `count` entries from one ID to another, the largest first if they are wanted so.
    pub fn range(
        self,
        mem: &mut Mem<'_>,
        (from, to): (Id, Id),
        count: u64,
        is_backward: bool,
    ) -> Result<Vec<StreamEntry>, Abort> {
        if from > to {
            return Ok(Vec::new());
        }
        let seq = self.seq(mem)?;
        let first = seq.rank(mem, &from.to_bytes(), false)?;
        // An item is its ID and more, so it comes behind the ID alone.
        let end = match to.next() {
            Some(next) => seq.rank(mem, &next.to_bytes(), false)?,
            None => seq.len(mem)?,
        };
        let wanted = end.saturating_sub(first).min(count);
        let first = if is_backward { end - wanted } else { first };
        let mut all = Vec::new();
        seq.scan(mem, first, wanted, &mut |item| {
            all.push(parts(item));
            true
        })?;
        if is_backward {
            all.reverse();
        }
        Ok(all)
    }

    /// Deletes an entry. `false` if there is none of that ID.
    pub fn delete(self, mem: &mut Mem<'_>, id: Id) -> Result<bool, Abort> {
        let index = self.rank(mem, id)?;
        if self.at_index(mem, index)?.is_none_or(|(found, _)| found != id) {
            return Ok(false);
        }
        self.seq(mem)?.remove(mem, index)?;
        if id > self.deleted_id(mem)? {
            self.set_deleted_id(mem, id)?;
        }
        Ok(true)
    }

    /// Drops the first `count` entries.
    pub fn trim(self, keys: &mut Keys<'_>, count: u64) -> Result<(), Abort> {
        let seq = self.seq(keys.mem)?;
        if count <= REMOVED_SINGLY_MAX {
            for _ in 0..count {
                seq.remove(keys.mem, 0)?;
            }
            return Ok(());
        }
        let front = match count >= seq.len(keys.mem)? {
            true => {
                let empty = Seq::create(keys.mem, true)?;
                keys.mem.store_u64(self.at, empty.at.0)?;
                seq
            }
            false => seq.cut_front(keys.mem, count)?,
        };
        keys.changes.has_garbage = true;
        garbage::discard_seq(keys.mem, &keys.root, front)
    }

    fn group_table(self, mem: &mut Mem<'_>) -> Result<Option<Table>, Abort> {
        let at = mem.load_u64(self.at.plus(GROUPS_AT))?;
        Ok((at != 0).then_some(Table { at: PoolOffset(at) }))
    }

    /// The group of that name.
    pub fn group(self, keys: &mut Keys<'_>, name: &[u8]) -> Result<Option<Group>, Abort> {
        let Some(table) = self.group_table(keys.mem)? else { return Ok(None) };
        Ok(keys.block_of(table, name)?.map(|at| Group { at }))
    }

    /// Makes a group of a name that there is not.
    pub fn create_group(
        self,
        keys: &mut Keys<'_>,
        name: &[u8],
        last: Id,
        read: i64,
    ) -> Result<Group, Abort> {
        let table = match self.group_table(keys.mem)? {
            Some(table) => table,
            None => {
                let table = Table::create(keys.mem)?;
                keys.mem.store_u64(self.at.plus(GROUPS_AT), table.at.0)?;
                table
            }
        };
        let group = Group::create(keys.mem, last, read)?;
        group::name(keys, table, name, group.at)?;
        Ok(group)
    }

    /// Takes a group out; its parts are to be freed.
    pub fn destroy_group(self, keys: &mut Keys<'_>, name: &[u8]) -> Result<bool, Abort> {
        let Some(table) = self.group_table(keys.mem)? else { return Ok(false) };
        let hash = keys.root.hasher.hash(name);
        let Some(place) = table.find(keys.mem, name, hash)? else { return Ok(false) };
        let group = place.entry.large_at(keys.mem, 0)?;
        table.remove(keys.mem, place)?;
        table.shrink(keys.mem)?;
        keys.changes.has_garbage = true;
        garbage::discard_group(keys.mem, &keys.root, group)?;
        Ok(true)
    }

    /// All groups in the order of their names.
    pub fn groups(self, mem: &mut Mem<'_>) -> Result<Vec<(Vec<u8>, Group)>, Abort> {
        let Some(table) = self.group_table(mem)? else { return Ok(Vec::new()) };
        let named = group::named(mem, table)?;
        Ok(named.into_iter().map(|(name, at)| (name, Group { at })).collect())
    }

    /// A stream of the same content.
    pub fn copy(self, keys: &mut Keys<'_>) -> Result<Self, Abort> {
        let copy = Self::create(keys.mem)?;
        let (from, to) = (self.seq(keys.mem)?, copy.seq(keys.mem)?);
        for index in 0..from.len(keys.mem)? {
            if let Some(item) = from.get(keys.mem, index)? {
                to.push(keys.mem, &item)?;
            }
        }
        let (last, deleted) = (self.last_id(keys.mem)?, self.deleted_id(keys.mem)?);
        copy.set_last_id(keys.mem, last)?;
        copy.set_deleted_id(keys.mem, deleted)?;
        let added = self.added(keys.mem)?;
        copy.set_added(keys.mem, added)?;
        for (name, group) in self.groups(keys.mem)? {
            let (last, read) = (group.last_id(keys.mem)?, group.read(keys.mem)?);
            let new = copy.create_group(keys, &name, last, read)?;
            group.copy_to(keys, new)?;
        }
        Ok(copy)
    }

    /// Frees up to `count` parts of a discarded stream. `true` when nothing is left of it.
    pub fn drain(self, mem: &mut Mem<'_>, count: usize) -> Result<bool, Abort> {
        let seq = self.seq(mem)?;
        if !seq.drain(mem, count as u64)? {
            return Ok(false);
        }
        if let Some(table) = self.group_table(mem)? {
            let mut first = None;
            table.peek(mem, &mut |mem, entry| {
                first = Some(entry.large_at(mem, 0)?);
                Ok(())
            })?;
            if let Some(at) = first {
                if (Group { at }).drain(mem, count)? {
                    table.drain(mem, 1, &mut |_, _| Ok(()))?;
                }
                return Ok(false);
            }
            table.free_empty(mem)?;
        }
        seq.free_empty(mem)?;
        mem.free(self.at)?;
        Ok(true)
    }
}

fn parts(item: &[u8]) -> StreamEntry {
    match item.split_first_chunk::<16>() {
        Some((id, fields)) => (Id::from_bytes(id), fields.to_vec()),
        None => (Id::MIN, Vec::new()),
    }
}
