//! Values outside the pool, and their way in and out.

use outlast::Abort;

use super::{Read, bad};
use crate::store::dict::{Dict, Shape};
use crate::store::entry::Kind;
use crate::store::list::List;
use crate::store::stream::{Group, Id, Pending, Stream};
use crate::store::table::Content;
use crate::store::zset::Zset;
use crate::store::{Found, Keys};

/// A value of any type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    Zset(Vec<(Vec<u8>, f64)>),
    Stream(Box<StreamValue>),
}

#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct StreamValue {
    /// IDs, and fields and values as in a small value.
    pub entries: Vec<(Id, Vec<u8>)>,
    pub last: Id,
    pub deleted: Id,
    pub added: u64,
    pub groups: Vec<GroupValue>,
}

#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct GroupValue {
    pub name: Vec<u8>,
    pub last: Id,
    pub read: i64,
    /// Names, and when they were seen.
    pub consumers: Vec<(Vec<u8>, u64)>,
    pub pending: Vec<PendingValue>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PendingValue {
    pub id: Id,
    /// Its index among the consumers.
    pub consumer: usize,
    pub delivered: u64,
    pub deliveries: u64,
}

/// The most items in a piece of a value.
const PIECE_ITEMS: usize = 128;
const PIECE_BYTES: usize = 16 << 10;

impl Value {
    /// Refuses collections that cannot be.
    pub(super) fn check(&self) -> Read<()> {
        let is_empty = match self {
            Self::String(_) | Self::Stream(_) => false,
            Self::List(items) | Self::Set(items) => items.is_empty(),
            Self::Hash(pairs) => pairs.is_empty(),
            Self::Zset(members) => {
                if members.iter().any(|(_, score)| score.is_nan()) {
                    return bad("a score that is no number");
                }
                members.is_empty()
            }
        };
        if is_empty { bad("a collection without members") } else { Ok(()) }
    }

    /// Bytes of its items, about.
    pub(super) fn bytes(&self) -> usize {
        let sum = |items: &[Vec<u8>]| items.iter().map(|item| item.len() + 8).sum();
        match self {
            Self::String(bytes) => bytes.len(),
            Self::List(items) | Self::Set(items) => sum(items),
            Self::Hash(pairs) => pairs.iter().map(|(a, b)| a.len() + b.len() + 16).sum(),
            Self::Zset(members) => members.iter().map(|(member, _)| member.len() + 16).sum(),
            Self::Stream(stream) => stream.entries.iter().map(|(_, f)| f.len() + 24).sum(),
        }
    }

    /// The value in pieces, none too large for one transaction.
    pub(super) fn into_pieces(self) -> Vec<Self> {
        match self {
            Self::String(_) => vec![self],
            Self::List(items) => pieces(items, Vec::len).into_iter().map(Self::List).collect(),
            Self::Set(items) => pieces(items, Vec::len).into_iter().map(Self::Set).collect(),
            Self::Hash(pairs) => {
                let bytes = |(field, value): &(Vec<u8>, Vec<u8>)| field.len() + value.len();
                pieces(pairs, bytes).into_iter().map(Self::Hash).collect()
            }
            Self::Zset(members) => {
                let bytes = |(member, _): &(Vec<u8>, f64)| member.len();
                pieces(members, bytes).into_iter().map(Self::Zset).collect()
            }
            Self::Stream(mut stream) => {
                let entries = std::mem::take(&mut stream.entries);
                let groups = std::mem::take(&mut stream.groups);
                let part = |entries, groups| {
                    Self::Stream(Box::new(StreamValue { entries, groups, ..*stream.clone() }))
                };
                let entries = pieces(entries, |(_, fields)| fields.len());
                let mut parts: Vec<Self> =
                    entries.into_iter().map(|entries| part(entries, Vec::new())).collect();
                for group in groups {
                    // Each part names all consumers, so their indexes hold.
                    for pending in pieces(group.pending.clone(), |_| 48) {
                        parts.push(part(Vec::new(), vec![GroupValue { pending, ..group.clone() }]));
                    }
                }
                parts
            }
        }
    }
}

/// Items in pieces of some; one piece where there is none.
fn pieces<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut pieces, mut piece, mut size) = (Vec::new(), Vec::new(), 0);
    for item in items {
        if !piece.is_empty() && (piece.len() >= PIECE_ITEMS || size >= PIECE_BYTES) {
            pieces.push(std::mem::take(&mut piece));
            size = 0;
        }
        size += bytes(&item);
        piece.push(item);
    }
    pieces.push(piece);
    pieces
}

/// Gives a key this value, or adds it to the one of its type that is there.
pub(crate) fn store(keys: &mut Keys<'_>, key: &[u8], value: &Value) -> Result<(), Abort> {
    let found = keys.find(key)?;
    match value {
        Value::String(bytes) => {
            let content = Content { kind: Kind::String, value: bytes, deadline: None };
            keys.write(key, found, content)?;
        }
        Value::List(items) => {
            let mut list = List::load(keys, found)?;
            let len = list.len(keys)?;
            for (index, item) in (len..).zip(items) {
                list.insert(keys, index, item)?;
            }
            list.save(keys, key)?;
        }
        Value::Set(members) => {
            let mut set = Dict::load(keys, Shape::Set, found)?;
            for member in members {
                set.set(keys, member, b"")?;
            }
            set.save(keys, key)?;
        }
        Value::Hash(pairs) => {
            let mut hash = Dict::load(keys, Shape::Hash, found)?;
            for (field, value) in pairs {
                hash.set(keys, field, value)?;
            }
            hash.save(keys, key)?;
        }
        Value::Zset(members) => {
            let mut zset = Zset::load(keys, found)?;
            for (member, score) in members {
                zset.set(keys, member, *score)?;
            }
            zset.save(keys, key)?;
        }
        Value::Stream(value) => {
            let stream = match found {
                Some(found) => Stream::of(keys.mem, &found)?,
                None => Stream::create_at(keys, key)?,
            };
            store_stream(keys, stream, value)?;
        }
    }
    Ok(())
}

fn store_stream(keys: &mut Keys<'_>, stream: Stream, value: &StreamValue) -> Result<(), Abort> {
    for (id, fields) in &value.entries {
        stream.append(keys.mem, *id, fields)?;
    }
    stream.set_last_id(keys.mem, value.last)?;
    stream.set_deleted_id(keys.mem, value.deleted)?;
    stream.set_added(keys.mem, value.added)?;
    for one in &value.groups {
        let group = match stream.group(keys, &one.name)? {
            Some(group) => group,
            None => stream.create_group(keys, &one.name, one.last, one.read)?,
        };
        store_group(keys, group, one)?;
    }
    Ok(())
}

fn store_group(keys: &mut Keys<'_>, group: Group, value: &GroupValue) -> Result<(), Abort> {
    let mut consumers = Vec::with_capacity(value.consumers.len());
    for (name, seen) in &value.consumers {
        consumers.push(match group.consumer(keys, name)? {
            Some(consumer) => consumer,
            None => group.create_consumer(keys, name, *seen)?,
        });
    }
    for pending in &value.pending {
        let PendingValue { id, delivered, deliveries, .. } = *pending;
        let consumer = consumers[pending.consumer];
        group.set_pending(keys.mem, Pending { id, consumer, delivered, deliveries })?;
    }
    Ok(())
}

/// The value of a key's entry.
pub(crate) fn load(keys: &mut Keys<'_>, found: Found) -> Result<Value, Abort> {
    Ok(match found.kind() {
        Kind::String => Value::String(found.entry().value(keys.mem)?),
        Kind::ListBlob | Kind::ListSeq | Kind::ListEnds => {
            let list = List::load(keys, Some(found))?;
            Value::List(list.all(keys)?)
        }
        Kind::SetBlob | Kind::SetTable => {
            let set = Dict::load(keys, Shape::Set, Some(found))?;
            Value::Set(set.all(keys)?.into_iter().map(|(member, _)| member).collect())
        }
        Kind::HashBlob | Kind::HashTable => {
            let hash = Dict::load(keys, Shape::Hash, Some(found))?;
            Value::Hash(hash.all(keys)?)
        }
        Kind::ZsetBlob | Kind::ZsetTree | Kind::ZsetScores => {
            let zset = Zset::load(keys, Some(found))?;
            Value::Zset(zset.slice(keys, 0, u64::MAX)?)
        }
        Kind::Stream => {
            let stream = Stream::of(keys.mem, &found)?;
            Value::Stream(Box::new(load_stream(keys, stream)?))
        }
    })
}

fn load_stream(keys: &mut Keys<'_>, stream: Stream) -> Result<StreamValue, Abort> {
    let mem = &mut *keys.mem;
    let mut value = StreamValue {
        entries: stream.range(mem, (Id::MIN, Id::MAX), u64::MAX, false)?,
        last: stream.last_id(mem)?,
        deleted: stream.deleted_id(mem)?,
        added: stream.added(mem)?,
        groups: Vec::new(),
    };
    for (name, group) in stream.groups(mem)? {
        let (last, read) = (group.last_id(mem)?, group.read(mem)?);
        let mut one = GroupValue { name, last, read, ..GroupValue::default() };
        for (index, (name, consumer)) in group.consumers(mem)?.into_iter().enumerate() {
            one.consumers.push((name, consumer.seen(mem)?));
            for id in consumer.ids_from(mem, Id::MIN, u64::MAX)? {
                if let Some((_, pending)) = group.pending(mem, id)? {
                    let Pending { delivered, deliveries, .. } = pending;
                    one.pending.push(PendingValue { id, consumer: index, delivered, deliveries });
                }
            }
        }
        one.pending.sort_unstable_by_key(|pending| pending.id);
        value.groups.push(one);
    }
    Ok(value)
}
