//! Streams: nodes of entries in listpacks, then groups.

use std::collections::BTreeMap;
use std::io;

use super::packed::{Listpack, listpack};
use super::read::Source;
use super::value::{GroupValue, PendingValue, StreamValue};
use super::write::{push_len, push_string};
use super::{Read, bad, kind};
use crate::number::parse_int;
use crate::store::blob;
use crate::store::stream::Id;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// A node that has reached either gets no more entries.
const NODE_ENTRIES: usize = 100;
const NODE_BYTES: usize = 4096;

fn id<R: io::Read>(source: &mut Source<R>) -> Read<Id> {
    Ok(Id { ms: source.len()?, number: source.len()? })
}

pub(super) fn read<R: io::Read>(source: &mut Source<R>, type_number: u8) -> Read<StreamValue> {
    let mut value = StreamValue::default();
    let nodes = source.len()?;
    for _ in 0..nodes {
        let key = source.string()?;
        let Ok(key) = <[u8; 16]>::try_from(key.as_slice()) else {
            return bad("a stream's node without an ID");
        };
        let items = listpack(&source.string()?)?;
        let expand = &mut |bytes| source.expand(bytes);
        node(Id::from_bytes(&key), &items, expand, &mut value.entries)?;
    }
    if !value.entries.is_sorted_by(|one, other| one.0 < other.0) {
        return bad("a stream whose entries are not in order");
    }
    let len = source.len()?;
    if len != value.entries.len() as u64 {
        return bad(format!("a stream of {} entries that should be {len}", value.entries.len()));
    }
    value.last = id(source)?;
    if value.entries.last().is_some_and(|(top, _)| *top > value.last) {
        return bad("a stream with an entry above its last ID");
    }
    value.added = len;
    if type_number != kind::STREAM {
        let _first = id(source)?;
        value.deleted = id(source)?;
        value.added = source.len()?;
    }
    let groups = source.len()?;
    for _ in 0..groups {
        let group = group(source, type_number, &value)?;
        if value.groups.iter().any(|other| other.name == group.name) {
            return bad("two groups of one name");
        }
        value.groups.push(group);
    }
    Ok(value)
}

/// The entries of a node, each told to `expand` by its bytes.
fn node(
    first: Id,
    items: &[Vec<u8>],
    expand: &mut dyn FnMut(usize) -> Read<()>,
    entries: &mut Vec<(Id, Vec<u8>)>,
) -> Read<()> {
    let mut items = items.iter();
    let mut next = || items.next().ok_or(super::RdbError::Ends("a stream's node"));
    let number = |text: &Vec<u8>| match parse_int(text) {
        Some(number) => Ok(number),
        None => bad("a stream's node with a text where a number should be"),
    };
    let (count, deleted) = (number(next()?)?, number(next()?)?);
    let fields = number(next()?)?;
    let names = (0..fields).map(|_| next()).collect::<Read<Vec<_>>>()?;
    next()?;
    let total = count.saturating_add(deleted);
    for _ in 0..total {
        let flags = number(next()?)?;
        let (ms, sequence) = (number(next()?)?, number(next()?)?);
        let id = Id {
            ms: first.ms.wrapping_add(ms as u64),
            number: first.number.wrapping_add(sequence as u64),
        };
        let mut bytes = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                blob::push(&mut bytes, name);
                blob::push(&mut bytes, next()?);
            }
        } else {
            let own = number(next()?)?;
            for _ in 0..own.saturating_mul(2) {
                blob::push(&mut bytes, next()?);
            }
        }
        next()?;
        expand(bytes.len())?;
        if flags & DELETED == 0 {
            entries.push((id, bytes));
        }
    }
    Ok(())
}

/// How many entries a group of an older file has read, which does not say: -1 where that is not certain.
fn read_up_to(stream: &StreamValue, last: Id) -> i64 {
    let first = stream.entries.first().map(|(id, _)| *id);
    match first {
        None if last > stream.last => -1,
        None => stream.added as i64,
        Some(first) if last < first => 0,
        Some(_) if last == stream.last => stream.added as i64,
        Some(first) if last == first => 1,
        Some(_) => -1,
    }
}

fn group<R: io::Read>(
    source: &mut Source<R>,
    type_number: u8,
    stream: &StreamValue,
) -> Read<GroupValue> {
    let mut group = GroupValue { name: source.string()?, ..GroupValue::default() };
    group.last = id(source)?;
    group.read = match type_number {
        kind::STREAM => read_up_to(stream, group.last),
        _ => source.len()? as i64,
    };
    const WHAT: &str = "a pending entry";
    let count = source.len()?;
    let mut pending: BTreeMap<Id, (u64, u64)> = BTreeMap::new();
    for _ in 0..count {
        let id = Id::from_bytes(&source.exact(WHAT)?);
        let delivered = u64::from_le_bytes(source.exact(WHAT)?);
        if pending.insert(id, (delivered, source.len()?)).is_some() {
            return bad("an entry that is pending twice");
        }
    }
    let consumers = source.len()?;
    for _ in 0..consumers {
        let name = source.string()?;
        if group.consumers.iter().any(|(other, _)| *other == name) {
            return bad("two consumers of one name");
        }
        let seen = u64::from_le_bytes(source.exact("a consumer")?);
        if type_number == kind::STREAM_3 {
            source.exact::<8>("a consumer")?;
        }
        let own = source.len()?;
        for _ in 0..own {
            let id = Id::from_bytes(&source.exact(WHAT)?);
            let Some((delivered, deliveries)) = pending.remove(&id) else {
                return bad("a consumer's entry that is not pending in its group");
            };
            let consumer = group.consumers.len();
            group.pending.push(PendingValue { id, consumer, delivered, deliveries });
        }
        group.consumers.push((name, seen));
    }
    if !pending.is_empty() {
        return bad("a pending entry without a consumer");
    }
    group.pending.sort_unstable_by_key(|pending| pending.id);
    Ok(group)
}

pub(super) fn write(value: &StreamValue, out: &mut Vec<u8>) {
    let mut nodes: Vec<&[(Id, Vec<u8>)]> = Vec::new();
    let mut rest = value.entries.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(NODE_ENTRIES).take_while(|(_, fields)| {
            let fits = bytes == 0 || bytes + fields.len() <= NODE_BYTES;
            bytes += fields.len() + 1;
            fits
        });
        let (node, after) = rest.split_at(fits.count().max(1));
        nodes.push(node);
        rest = after;
    }
    push_len(out, nodes.len() as u64);
    for node in nodes {
        let first = node[0].0;
        push_string(out, &first.to_bytes());
        push_string(out, &packed_node(first, node));
    }
    push_len(out, value.entries.len() as u64);
    let top = value.entries.first().map_or(Id::MIN, |(id, _)| *id);
    for id in [value.last, top, value.deleted] {
        push_len(out, id.ms);
        push_len(out, id.number);
    }
    push_len(out, value.added);
    push_len(out, value.groups.len() as u64);
    value.groups.iter().for_each(|group| write_group(group, out));
}

/// A node that names no fields in common: each entry has its own.
fn packed_node(first: Id, node: &[(Id, Vec<u8>)]) -> Vec<u8> {
    let mut pack = Listpack::new();
    for number in [node.len() as i64, 0, 0, 0] {
        pack.push_int(number);
    }
    for (id, fields) in node {
        let words = blob::items(fields).count();
        pack.push_int(0);
        pack.push_int(id.ms.wrapping_sub(first.ms) as i64);
        pack.push_int(id.number.wrapping_sub(first.number) as i64);
        pack.push_int(words as i64 / 2);
        blob::items(fields).for_each(|word| pack.push(word));
        pack.push_int(words as i64 + 4);
    }
    pack.finish()
}

fn write_group(group: &GroupValue, out: &mut Vec<u8>) {
    push_string(out, &group.name);
    push_len(out, group.last.ms);
    push_len(out, group.last.number);
    push_len(out, group.read as u64);
    let mut pending: Vec<&PendingValue> = group.pending.iter().collect();
    pending.sort_unstable_by_key(|pending| pending.id);
    push_len(out, pending.len() as u64);
    for one in &pending {
        out.extend_from_slice(&one.id.to_bytes());
        out.extend_from_slice(&one.delivered.to_le_bytes());
        push_len(out, one.deliveries);
    }
    push_len(out, group.consumers.len() as u64);
    for (index, (name, seen)) in group.consumers.iter().enumerate() {
        push_string(out, name);
        out.extend_from_slice(&seen.to_le_bytes());
        let own = pending.iter().filter(|pending| pending.consumer == index);
        push_len(out, own.clone().count() as u64);
        own.for_each(|pending| out.extend_from_slice(&pending.id.to_bytes()));
    }
}
