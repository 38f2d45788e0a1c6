//! Groups of consumers: what was delivered to each and is not acknowledged.
//!
//! ```text
//! group     0 last delivered ID (16 bytes), 16 entries read (-1 unknown)
//!           24 pending: a sorted sequence; an item is ID, consumer's offset, time of delivery, deliveries
//!           32 consumers: a table of names with offsets
//! consumer  0 seen (ms since 1970), 8 pending IDs: a sorted sequence, 16 bytes of its name, 24 its name
//! ```
//!
//! * **GROUP-1** A consumer's sequence has exactly the IDs whose pending items name it.

use outlast::{Abort, BlockKind, PoolOffset};

use super::Id;
use crate::store::Keys;
use crate::store::entry::Kind;
use crate::store::mem::{Mem, load_vec};
use crate::store::seq::Seq;
use crate::store::table::{Content, Table};

const READ_AT: u64 = 16;
const PENDING_AT: u64 = 24;
const CONSUMERS_AT: u64 = 32;
pub(in crate::store) const GROUP_BYTES: u64 = 48;
const CONSUMER_HEAD_BYTES: u64 = 24;

/// A group by its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub at: PoolOffset,
}

/// A consumer by its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Consumer {
    pub at: PoolOffset,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub id: Id,
    pub consumer: Consumer,
    /// In ms since 1970.
    pub delivered: u64,
    pub deliveries: u64,
}

/// The sequence of a group's pending entries, and the table of its consumers.
pub(in crate::store) fn group_parts(
    mem: &mut Mem<'_>,
    at: PoolOffset,
) -> Result<(PoolOffset, PoolOffset), Abort> {
    let [pending, consumers] = [PENDING_AT, CONSUMERS_AT].map(|word| mem.load_u64(at.plus(word)));
    Ok((PoolOffset(pending?), PoolOffset(consumers?)))
}

/// The bytes of a consumer's block, and the sequence of what is pending for it.
pub(in crate::store) fn consumer_parts(
    mem: &mut Mem<'_>,
    at: PoolOffset,
) -> Result<(u64, PoolOffset), Abort> {
    let name = mem.load_u64(at.plus(16))?;
    Ok((CONSUMER_HEAD_BYTES.saturating_add(name), PoolOffset(mem.load_u64(at.plus(8))?)))
}

impl Pending {
    fn to_item(self) -> [u8; 40] {
        let mut item = [0; 40];
        item[..16].copy_from_slice(&self.id.to_bytes());
        item[16..24].copy_from_slice(&self.consumer.at.0.to_le_bytes());
        item[24..32].copy_from_slice(&self.delivered.to_le_bytes());
        item[32..].copy_from_slice(&self.deliveries.to_le_bytes());
        item
    }

    fn from_item(item: &[u8]) -> Option<Self> {
        let (id, rest) = item.split_first_chunk::<16>()?;
        let (words, _) = rest.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
        Some(Self {
            id: Id::from_bytes(id),
            consumer: Consumer { at: PoolOffset(word(0)?) },
            delivered: word(1)?,
            deliveries: word(2)?,
        })
    }
}

/// Names an offset in a table.
pub(super) fn name(
    keys: &mut Keys<'_>,
    table: Table,
    name: &[u8],
    at: PoolOffset,
) -> Result<(), Abort> {
    let hasher = keys.root.hasher;
    let value = at.0.to_le_bytes();
    let content = Content { kind: Kind::String, value: &value, deadline: None };
    table.write(keys.mem, hasher, None, name, hasher.hash(name), &content)?;
    Ok(())
}

/// The names and offsets of a table, in the order of the names.
pub(super) fn named(mem: &mut Mem<'_>, table: Table) -> Result<Vec<(Vec<u8>, PoolOffset)>, Abort> {
    let mut all = Vec::new();
    table.each(mem, &mut |mem, place| {
        all.push((place.entry.key(mem)?, place.entry.large_at(mem, 0)?));
        Ok(())
    })?;
    all.sort_unstable();
    Ok(all)
}

impl Group {
    pub(super) fn create(mem: &mut Mem<'_>, last: Id, read: i64) -> Result<Self, Abort> {
        let (pending, consumers) = (Seq::create(mem, true)?, Table::create(mem)?);
        let at = mem.alloc(GROUP_BYTES, BlockKind::General)?;
        last.store(mem, at)?;
        mem.store_u64(at.plus(READ_AT), read as u64)?;
        mem.store_u64(at.plus(PENDING_AT), pending.at.0)?;
        mem.store_u64(at.plus(CONSUMERS_AT), consumers.at.0)?;
        Ok(Self { at })
    }

    /// The last ID that was delivered.
    pub fn last_id(self, mem: &mut Mem<'_>) -> Result<Id, Abort> {
        Id::load(mem, self.at)
    }

    pub fn set_last_id(self, mem: &mut Mem<'_>, id: Id) -> Result<(), Abort> {
        id.store(mem, self.at)
    }

    /// How many entries were read, -1 if that is not known.
    pub fn read(self, mem: &mut Mem<'_>) -> Result<i64, Abort> {
        Ok(mem.load_u64(self.at.plus(READ_AT))? as i64)
    }

    pub fn set_read(self, mem: &mut Mem<'_>, read: i64) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(READ_AT), read as u64)
    }

    fn seq(self, mem: &mut Mem<'_>) -> Result<Seq, Abort> {
        Ok(Seq { at: PoolOffset(mem.load_u64(self.at.plus(PENDING_AT))?) })
    }

    fn table(self, mem: &mut Mem<'_>) -> Result<Table, Abort> {
        Ok(Table { at: PoolOffset(mem.load_u64(self.at.plus(CONSUMERS_AT))?) })
    }

    /// How many entries are pending.
    pub fn pending_len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        self.seq(mem)?.len(mem)
    }

    /// The pending entry of an ID, with its index.
    pub fn pending(self, mem: &mut Mem<'_>, id: Id) -> Result<Option<(u64, Pending)>, Abort> {
        let seq = self.seq(mem)?;
        let index = seq.rank(mem, &id.to_bytes(), false)?;
        let found = seq.get(mem, index)?.and_then(|item| Pending::from_item(&item));
        Ok(found.filter(|pending| pending.id == id).map(|pending| (index, pending)))
    }

    /// Up to `count` pending entries from an ID on.
    pub fn pending_from(
        self,
        mem: &mut Mem<'_>,
        from: Id,
        count: u64,
    ) -> Result<Vec<Pending>, Abort> {
        let seq = self.seq(mem)?;
        let first = seq.rank(mem, &from.to_bytes(), false)?;
        let mut all = Vec::new();
        seq.scan(mem, first, count, &mut |item| {
            all.extend(Pending::from_item(item));
            true
        })?;
        Ok(all)
    }

    /// The last pending entry's ID.
    pub fn last_pending(self, mem: &mut Mem<'_>) -> Result<Option<Id>, Abort> {
        let seq = self.seq(mem)?;
        let len = seq.len(mem)?;
        let item = seq.get(mem, len.wrapping_sub(1))?;
        Ok(item.and_then(|item| Pending::from_item(&item)).map(|pending| pending.id))
    }

    /// Makes an entry pending, or changes how it is.
    pub fn set_pending(self, mem: &mut Mem<'_>, new: Pending) -> Result<(), Abort> {
        let seq = self.seq(mem)?;
        let old = self.pending(mem, new.id)?;
        let index = match old {
            Some((_, old)) if old == new => return Ok(()),
            Some((index, _)) => {
                seq.remove(mem, index)?;
                index
            }
            None => seq.rank(mem, &new.id.to_bytes(), false)?,
        };
        seq.insert(mem, index, &new.to_item())?;
        let old = old.map(|(_, old)| old.consumer);
        if old != Some(new.consumer) {
            if let Some(old) = old {
                old.drop_id(mem, new.id)?;
            }
            let own = new.consumer.seq(mem)?;
            let bytes = new.id.to_bytes();
            let index = own.rank(mem, &bytes, false)?;
            own.insert(mem, index, &bytes)?;
        }
        Ok(())
    }

    /// An entry is pending no more. `false` if it was not.
    pub fn acknowledge(self, mem: &mut Mem<'_>, id: Id) -> Result<bool, Abort> {
        let Some((index, pending)) = self.pending(mem, id)? else { return Ok(false) };
        self.seq(mem)?.remove(mem, index)?;
        pending.consumer.drop_id(mem, id)?;
        Ok(true)
    }

    /// The consumer of that name.
    pub fn consumer(self, keys: &mut Keys<'_>, name: &[u8]) -> Result<Option<Consumer>, Abort> {
        let table = self.table(keys.mem)?;
        Ok(keys.block_of(table, name)?.map(|at| Consumer { at }))
    }

    /// Makes a consumer of a name that there is not.
    pub fn create_consumer(
        self,
        keys: &mut Keys<'_>,
        name: &[u8],
        seen: u64,
    ) -> Result<Consumer, Abort> {
        let seq = Seq::create(keys.mem, true)?;
        let bytes = CONSUMER_HEAD_BYTES + name.len() as u64;
        let at = keys.mem.alloc(bytes, BlockKind::General)?;
        for (index, word) in [seen, seq.at.0, name.len() as u64].into_iter().enumerate() {
            keys.mem.store_u64(at.plus(index as u64 * 8), word)?;
        }
        // A name of no bytes is a name.
        if !name.is_empty() {
            keys.mem.store(at.plus(CONSUMER_HEAD_BYTES), name)?;
        }
        let table = self.table(keys.mem)?;
        self::name(keys, table, name, at)?;
        Ok(Consumer { at })
    }

    /// Removes a consumer with what is pending for it.
    pub fn delete_consumer(self, keys: &mut Keys<'_>, name: &[u8]) -> Result<u64, Abort> {
        let Some(consumer) = self.consumer(keys, name)? else { return Ok(0) };
        let ids = consumer.ids_from(keys.mem, Id::MIN, u64::MAX)?;
        for id in &ids {
            self.acknowledge(keys.mem, *id)?;
        }
        let table = self.table(keys.mem)?;
        let hash = keys.root.hasher.hash(name);
        if let Some(place) = table.find(keys.mem, name, hash)? {
            table.remove(keys.mem, place)?;
            table.shrink(keys.mem)?;
        }
        consumer.seq(keys.mem)?.free_empty(keys.mem)?;
        keys.mem.free(consumer.at)?;
        Ok(ids.len() as u64)
    }

    /// All consumers in the order of their names.
    pub fn consumers(self, mem: &mut Mem<'_>) -> Result<Vec<(Vec<u8>, Consumer)>, Abort> {
        let table = self.table(mem)?;
        let named = named(mem, table)?;
        Ok(named.into_iter().map(|(name, at)| (name, Consumer { at })).collect())
    }

    /// How many consumers it has.
    pub fn consumers_len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        self.table(mem)?.len(mem)
    }

    /// Gives another group, which is empty, the consumers and pending entries of this one.
    pub(super) fn copy_to(self, keys: &mut Keys<'_>, to: Self) -> Result<(), Abort> {
        for (name, consumer) in self.consumers(keys.mem)? {
            let seen = consumer.seen(keys.mem)?;
            let new = to.create_consumer(keys, &name, seen)?;
            for id in consumer.ids_from(keys.mem, Id::MIN, u64::MAX)? {
                if let Some((_, pending)) = self.pending(keys.mem, id)? {
                    to.set_pending(keys.mem, Pending { consumer: new, ..pending })?;
                }
            }
        }
        Ok(())
    }

    /// Frees up to `count` parts of a discarded group. `true` when nothing is left of it.
    pub fn drain(self, mem: &mut Mem<'_>, count: usize) -> Result<bool, Abort> {
        let seq = self.seq(mem)?;
        if !seq.drain(mem, count as u64)? {
            return Ok(false);
        }
        let table = self.table(mem)?;
        let mut first = None;
        table.peek(mem, &mut |mem, entry| {
            first = Some(Consumer { at: entry.large_at(mem, 0)? });
            Ok(())
        })?;
        if let Some(consumer) = first {
            let own = consumer.seq(mem)?;
            if own.drain(mem, count as u64)? {
                own.free_empty(mem)?;
                mem.free(consumer.at)?;
                table.drain(mem, 1, &mut |_, _| Ok(()))?;
            }
            return Ok(false);
        }
        table.free_empty(mem)?;
        seq.free_empty(mem)?;
        mem.free(self.at)?;
        Ok(true)
    }
}

impl Consumer {
    /// When it last asked for something, in ms since 1970.
    pub fn seen(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        mem.load_u64(self.at)
    }

    pub fn set_seen(self, mem: &mut Mem<'_>, now: u64) -> Result<(), Abort> {
        mem.store_u64(self.at, now)
    }

    fn seq(self, mem: &mut Mem<'_>) -> Result<Seq, Abort> {
        Ok(Seq { at: PoolOffset(mem.load_u64(self.at.plus(8))?) })
    }

    pub fn name(self, mem: &mut Mem<'_>) -> Result<Vec<u8>, Abort> {
        let len = mem.load_u64(self.at.plus(16))?;
        load_vec(mem, self.at.plus(CONSUMER_HEAD_BYTES), len as usize)
    }

    /// How many entries are pending for it.
    pub fn pending_len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        self.seq(mem)?.len(mem)
    }

    /// Up to `count` IDs that are pending for it, from one on.
    pub fn ids_from(self, mem: &mut Mem<'_>, from: Id, count: u64) -> Result<Vec<Id>, Abort> {
        let seq = self.seq(mem)?;
        let first = seq.rank(mem, &from.to_bytes(), false)?;
        let mut all = Vec::new();
        seq.scan(mem, first, count, &mut |item| {
            all.extend(item.first_chunk().map(Id::from_bytes));
            true
        })?;
        Ok(all)
    }

    fn drop_id(self, mem: &mut Mem<'_>, id: Id) -> Result<(), Abort> {
        let seq = self.seq(mem)?;
        let bytes = id.to_bytes();
        let index = seq.rank(mem, &bytes, false)?;
        if seq.get(mem, index)?.is_some_and(|item| item == bytes) {
            seq.remove(mem, index)?;
        }
        Ok(())
    }
}
