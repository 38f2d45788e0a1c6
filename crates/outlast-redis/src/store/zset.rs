//! Sorted sets: members with scores, in a blob, or in a table with an order of scores.
//!
//! An item of the order is the score's sortable bits, the highest byte first, and the member: in the order
//! of such bytes. In a large set the member is stored in the table only, and the order leads to its entry.

use outlast::Abort;

use crate::number::{from_sortable, sortable};
use crate::store::dict::BLOB_BYTES_MAX;
use crate::store::entry::{Entry, Kind};
use crate::store::layout::SCORES;
use crate::store::mem::damaged;
use crate::store::seq::{End, Scores, Seq, Wanted};
use crate::store::table::{Content, Place, Table};
use crate::store::{Found, Keys, blob};

/// Bytes of an item before its member.
const SCORE_BYTES: usize = 8;

/// The item of a member.
pub(crate) fn item(score: f64, member: &[u8]) -> Vec<u8> {
    let mut item = Vec::with_capacity(SCORE_BYTES + member.len());
    item.extend_from_slice(&sortable(score).to_be_bytes());
    item.extend_from_slice(member);
    item
}

/// Score and member of an item.
pub(crate) fn parts(item: &[u8]) -> (f64, &[u8]) {
    match item.split_first_chunk::<SCORE_BYTES>() {
        Some((score, member)) => (from_sortable(u64::from_be_bytes(*score)), member),
        None => (0.0, item),
    }
}

/// The place in the order that an item has.
fn wanted(item: &[u8]) -> Wanted<'_> {
    match item.split_first_chunk::<SCORE_BYTES>() {
        Some((bits, member)) => Wanted { bits: u64::from_be_bytes(*bits), member },
        None => Wanted { bits: 0, member: item },
    }
}

/// A member as it was found, or is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    name: &'a [u8],
    pub score: Option<f64>,
    /// In the table, if there is one.
    hash: u64,
    place: Option<Place>,
}

enum Body {
    Blob {
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// As former versions made it: items of the order have the members, too.
    Tree {
        table: Table,
        seq: Seq,
    },
    Scores {
        table: Table,
        scores: Scores,
    },
}

/// A sorted set at work; see [`Dict`](crate::store::dict::Dict).
pub(crate) struct Zset {
    found: Option<Found>,
    body: Body,
    is_changed: bool,
}

impl Zset {
    pub fn load(keys: &mut Keys<'_>, found: Option<Found>) -> Result<Self, Abort> {
        let body = match found {
            Some(found) if found.kind().is_large() => {
                let (table, at) = found.entry().large_both(keys.mem)?;
                let table = Table { at: table };
                match found.kind() {
                    Kind::ZsetTree => Body::Tree { table, seq: Seq { at } },
                    _ => Body::Scores { table, scores: Scores { at } },
                }
            }
            Some(found) => {
                let old = found.entry().value(keys.mem)?;
                Body::Blob { new: old.clone(), old }
            }
            None => Body::Blob { old: Vec::new(), new: Vec::new() },
        };
        Ok(Self { found, body, is_changed: false })
    }

    pub fn len(&self, keys: &mut Keys<'_>) -> Result<u64, Abort> {
        match &self.body {
            Body::Blob { new, .. } => Ok(blob::items(new).count() as u64),
            Body::Tree { seq, .. } => seq.len(keys.mem),
            Body::Scores { scores, .. } => scores.len(keys.mem),
        }
    }

    pub fn score(&self, keys: &mut Keys<'_>, member: &[u8]) -> Result<Option<f64>, Abort> {
        Ok(self.member(keys, member)?.score)
    }

    /// Looks a member up.
    pub fn member<'m>(&self, keys: &mut Keys<'_>, name: &'m [u8]) -> Result<Member<'m>, Abort> {
        match &self.body {
            Body::Blob { new, .. } => {
                let found = blob::items(new).map(parts).find(|(_, found)| *found == name);
                Ok(Member { name, score: found.map(|(score, _)| score), hash: 0, place: None })
            }
            Body::Tree { table, .. } | Body::Scores { table, .. } => {
                let hash = keys.root.hasher.hash(name);
                let place = table.find(keys.mem, name, hash)?;
                let Some(found) = place else {
                    return Ok(Member { name, score: None, hash, place });
                };
                let mut bits = [0; 8];
                keys.mem.load(found.entry.value_at(), &mut bits)?;
                Ok(Member { name, score: Some(f64::from_le_bytes(bits)), hash, place })
            }
        }
    }

    /// Gives a member a score.
    pub fn set(&mut self, keys: &mut Keys<'_>, member: &[u8], score: f64) -> Result<(), Abort> {
        let member = self.member(keys, member)?;
        self.put(keys, member, score)
    }

    /// Gives a member a score that was looked up, and since when the set has not changed.
    pub fn put(
        &mut self,
        keys: &mut Keys<'_>,
        member: Member<'_>,
        score: f64,
    ) -> Result<(), Abort> {
        let Member { name: member, score: old, hash, place } = member;
        if old.is_some_and(|old| sortable(old) == sortable(score)) {
            return Ok(());
        }
        self.is_changed = true;
        let value = score.to_le_bytes();
        let content = Content { kind: Kind::String, value: &value, deadline: None };
        match &mut self.body {
            Body::Blob { new, .. } => {
                let new_item = item(score, member);
                if let Some(old) = old
                    && let Some((start, end)) = blob::find(new, &item(old, member), 1)
                {
                    new.drain(start..end);
                }
                let mut items = blob::items(new);
                let mut at = 0;
                while let Some(other) = items.next() {
                    if other > new_item.as_slice() {
                        break;
                    }
                    at = items.at;
                }
                blob::splice(new, at, at, &[&new_item]);
                if new.len() > BLOB_BYTES_MAX {
                    self.convert(keys)?;
                }
                Ok(())
            }
            Body::Tree { table, seq } => {
                if let Some(old) = old {
                    seq.remove_sorted(keys.mem, &item(old, member))?;
                }
                seq.insert_sorted(keys.mem, &item(score, member))?;
                table.write(keys.mem, keys.root.hasher, place, member, hash, &content)?;
                Ok(())
            }
            Body::Scores { table, scores } => {
                let at = |score| Wanted { bits: sortable(score), member };
                let (mem, hasher) = (&mut *keys.mem, keys.root.hasher);
                if let Some(old) = old {
                    let place = table.write(mem, hasher, place, member, hash, &content)?;
                    return scores.shift(mem, at(old), place.entry.at, sortable(score));
                }
                let aim = scores.aim(mem, at(score))?;
                let place = table.write(mem, hasher, place, member, hash, &content)?;
                scores.insert_at(mem, aim, at(score), place.entry.at)
            }
        }
    }

    fn convert(&mut self, keys: &mut Keys<'_>) -> Result<(), Abort> {
        let Body::Blob { new, .. } = &self.body else { return Ok(()) };
        keys.root.note_feature(keys.mem, SCORES)?;
        let (table, scores) = (Table::create(keys.mem)?, Scores::create(keys.mem)?);
        for item in blob::items(new) {
            let (score, member) = parts(item);
            let hash = keys.root.hasher.hash(member);
            let value = score.to_le_bytes();
            let content = Content { kind: Kind::String, value: &value, deadline: None };
            let place = table.write(keys.mem, keys.root.hasher, None, member, hash, &content)?;
            scores.insert(keys.mem, wanted(item), place.entry.at)?;
        }
        self.body = Body::Scores { table, scores };
        Ok(())
    }

    /// Takes a member out. `true` if it was there.
    pub fn remove(&mut self, keys: &mut Keys<'_>, member: &[u8]) -> Result<bool, Abort> {
        let Member { score, place, .. } = self.member(keys, member)?;
        let Some(score) = score else { return Ok(false) };
        self.is_changed = true;
        let old = item(score, member);
        match &mut self.body {
            Body::Blob { new, .. } => {
                if let Some((start, end)) = blob::find(new, &old, 1) {
                    new.drain(start..end);
                }
            }
            Body::Tree { table, seq } => {
                seq.remove_sorted(keys.mem, &old)?;
                if let Some(place) = place {
                    table.remove(keys.mem, place)?;
                    table.shrink(keys.mem)?;
                }
            }
            Body::Scores { table, scores } => {
                if let Some(place) = place {
                    scores.remove(keys.mem, wanted(&old), place.entry.at)?;
                    table.remove(keys.mem, place)?;
                    table.shrink(keys.mem)?;
                }
            }
        }
        Ok(true)
    }

    /// Takes the member at an end out, with its score.
    pub fn pop(&mut self, keys: &mut Keys<'_>, end: End) -> Result<Option<(Vec<u8>, f64)>, Abort> {
        let Body::Scores { table, scores } = self.body else {
            let len = self.len(keys)?;
            let at = if end == End::First { 0 } else { len.saturating_sub(1) };
            let Some((member, score)) = self.slice(keys, at, at + 1)?.pop() else {
                return Ok(None);
            };
            self.remove(keys, &member)?;
            return Ok(Some((member, score)));
        };
        let Some((bits, at)) = scores.pop(keys.mem, end)? else { return Ok(None) };
        self.is_changed = true;
        let member = Entry::load(keys.mem, at)?.key(keys.mem)?;
        let hash = keys.root.hasher.hash(&member);
        match table.find(keys.mem, &member, hash)? {
            Some(place) if place.entry.at == at => table.remove(keys.mem, place)?,
            _ => return Err(damaged(at, "a member in the order that the table has not")),
        }
        table.shrink(keys.mem)?;
        Ok(Some((member, from_sortable(bits))))
    }

    /// How many items are less than this one, or also those equal to it.
    pub fn rank(&self, keys: &mut Keys<'_>, item: &[u8], or_equal: bool) -> Result<u64, Abort> {
        match &self.body {
            Body::Blob { new, .. } => {
                let is_before = |other: &&[u8]| *other < item || or_equal && *other == item;
                Ok(blob::items(new).take_while(is_before).count() as u64)
            }
            Body::Tree { seq, .. } => seq.rank(keys.mem, item, or_equal),
            Body::Scores { scores, .. } => scores.rank(keys.mem, wanted(item), or_equal),
        }
    }

    /// Shows items from one index to another, until `show` has seen enough.
    pub fn scan(
        &self,
        keys: &mut Keys<'_>,
        from: u64,
        end: u64,
        show: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Abort> {
        let count = end.saturating_sub(from);
        match &self.body {
            Body::Blob { new, .. } => {
                for item in blob::items(new).skip(from as usize).take(count as usize) {
                    if !show(item) {
                        break;
                    }
                }
                Ok(())
            }
            Body::Tree { seq, .. } => seq.scan(keys.mem, from, count, show),
            Body::Scores { scores, .. } => {
                let mut item = Vec::new();
                scores.scan(keys.mem, from, count, &mut |mem, (bits, at)| {
                    let entry = Entry::load(mem, at)?;
                    item.resize(SCORE_BYTES + entry.key_len, 0);
                    item[..SCORE_BYTES].copy_from_slice(&bits.to_be_bytes());
                    mem.load(entry.key_at(), &mut item[SCORE_BYTES..])?;
                    Ok(show(&item))
                })
            }
        }
    }

    /// Members with their scores, from one index to another.
    pub fn slice(
        &self,
        keys: &mut Keys<'_>,
        from: u64,
        end: u64,
    ) -> Result<Vec<(Vec<u8>, f64)>, Abort> {
        let mut all = Vec::new();
        self.scan(keys, from, end, &mut |item| {
            let (score, member) = parts(item);
            all.push((member.to_vec(), score));
            true
        })?;
        Ok(all)
    }

    /// The table of members, if there is one.
    pub fn table(&self) -> Option<Table> {
        match &self.body {
            Body::Tree { table, .. } | Body::Scores { table, .. } => Some(*table),
            Body::Blob { .. } => None,
        }
    }

    /// Makes it part of the pool. A sorted set without members is no key.
    pub fn save(self, keys: &mut Keys<'_>, key: &[u8]) -> Result<(), Abort> {
        if !self.is_changed {
            return Ok(());
        }
        match self.body {
            Body::Blob { old, new } => {
                keys.save_blob(key, self.found, Kind::ZsetBlob, (&old, &new))
            }
            Body::Tree { table, seq } => {
                let len = seq.len(keys.mem)?;
                keys.save_blocks(key, self.found, Kind::ZsetTree, len, &[table.at, seq.at])
            }
            Body::Scores { table, scores } => {
                let (len, blocks) = (scores.len(keys.mem)?, [table.at, scores.at]);
                keys.save_blocks(key, self.found, Kind::ZsetScores, len, &blocks)
            }
        }
    }
}
