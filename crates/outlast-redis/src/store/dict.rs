//! Hashes and sets: members, with values or without, in a blob or in a table.

use outlast::Abort;

use crate::store::entry::Kind;
use crate::store::table::{Content, Table};
use crate::store::{Found, Keys, blob};

/// A collection that takes more becomes a table.
pub(crate) const BLOB_BYTES_MAX: usize = 1024;

/// A member and its value.
pub(crate) type Member = (Vec<u8>, Vec<u8>);

/// The differences of the two types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Hash,
    Set,
}

impl Shape {
    /// Items of a blob that a member takes.
    pub fn step(self) -> usize {
        match self {
            Self::Hash => 2,
            Self::Set => 1,
        }
    }

    fn blob_kind(self) -> Kind {
        match self {
            Self::Hash => Kind::HashBlob,
            Self::Set => Kind::SetBlob,
        }
    }

    fn table_kind(self) -> Kind {
        match self {
            Self::Hash => Kind::HashTable,
            Self::Set => Kind::SetTable,
        }
    }
}

enum Body {
    /// As it stands in the pool, and as it is to stand there.
    Blob {
        old: Vec<u8>,
        new: Vec<u8>,
    },
    Table(Table),
}

/// A hash or a set at work. What it stores in a blob becomes part of the pool with
/// [`save`](Self::save).
pub(crate) struct Dict {
    shape: Shape,
    found: Option<Found>,
    body: Body,
    is_changed: bool,
}

impl Dict {
    /// That of an entry of this type, or an empty one.
    pub fn load(keys: &mut Keys<'_>, shape: Shape, found: Option<Found>) -> Result<Self, Abort> {
        let body = match found {
            Some(found) if found.kind().is_large() => {
                Body::Table(Table { at: found.entry().large_at(keys.mem, 0)? })
            }
            Some(found) => {
                let old = found.entry().value(keys.mem)?;
                Body::Blob { new: old.clone(), old }
            }
            None => Body::Blob { old: Vec::new(), new: Vec::new() },
        };
        Ok(Self { shape, found, body, is_changed: false })
    }

    /// How many members it has.
    pub fn len(&self, keys: &mut Keys<'_>) -> Result<u64, Abort> {
        match &self.body {
            Body::Blob { new, .. } => Ok((blob::items(new).count() / self.shape.step()) as u64),
            Body::Table(table) => table.len(keys.mem),
        }
    }

    /// A member's value, the empty one of a set's.
    pub fn get(&self, keys: &mut Keys<'_>, member: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
        match &self.body {
            Body::Blob { new, .. } => {
                let Some((start, _)) = blob::find(new, member, self.shape.step()) else {
                    return Ok(None);
                };
                let value = blob::items(&new[start..]).nth(1).unwrap_or_default();
                Ok(Some(if self.shape == Shape::Hash { value.to_vec() } else { Vec::new() }))
            }
            Body::Table(table) => {
                let hash = keys.root.hasher.hash(member);
                match table.find(keys.mem, member, hash)? {
                    Some(place) => Ok(Some(place.entry.value(keys.mem)?)),
                    None => Ok(None),
                }
            }
        }
    }

    /// Gives a member a value. `true` if it is new.
    pub fn set(&mut self, keys: &mut Keys<'_>, member: &[u8], value: &[u8]) -> Result<bool, Abort> {
        let step = self.shape.step();
        self.is_changed = true;
        match &mut self.body {
            Body::Blob { new, .. } => {
                let items = [member, value];
                let items = &items[..step];
                let is_new = match blob::find(new, member, step) {
                    Some((start, end)) => {
                        if step > 1 {
                            blob::splice(new, start, end, items);
                        }
                        false
                    }
                    None => {
                        items.iter().for_each(|item| blob::push(new, item));
                        true
                    }
                };
                if new.len() > BLOB_BYTES_MAX {
                    self.convert(keys)?;
                }
                Ok(is_new)
            }
            Body::Table(table) => {
                let hash = keys.root.hasher.hash(member);
                let place = table.find(keys.mem, member, hash)?;
                if place.is_none() || step > 1 {
                    let content = Content { kind: Kind::String, value, deadline: None };
                    table.write(keys.mem, keys.root.hasher, place, member, hash, &content)?;
                }
                Ok(place.is_none())
            }
        }
    }

    fn convert(&mut self, keys: &mut Keys<'_>) -> Result<(), Abort> {
        let Body::Blob { new, .. } = &self.body else { return Ok(()) };
        let table = Table::create(keys.mem)?;
        let mut items = blob::items(new);
        while let Some(member) = items.next() {
            let value = if self.shape.step() > 1 { items.next() } else { None };
            let value = value.unwrap_or_default();
            let hash = keys.root.hasher.hash(member);
            let content = Content { kind: Kind::String, value, deadline: None };
            table.write(keys.mem, keys.root.hasher, None, member, hash, &content)?;
        }
        self.body = Body::Table(table);
        Ok(())
    }

    /// Takes a member out. `true` if it was there.
    pub fn remove(&mut self, keys: &mut Keys<'_>, member: &[u8]) -> Result<bool, Abort> {
        let is_there = match &mut self.body {
            Body::Blob { new, .. } => match blob::find(new, member, self.shape.step()) {
                Some((start, end)) => {
                    new.drain(start..end);
                    true
                }
                None => false,
            },
            Body::Table(table) => {
                let hash = keys.root.hasher.hash(member);
                match table.find(keys.mem, member, hash)? {
                    Some(place) => {
                        table.remove(keys.mem, place)?;
                        table.shrink(keys.mem)?;
                        true
                    }
                    None => false,
                }
            }
        };
        self.is_changed |= is_there;
        Ok(is_there)
    }

    /// Members and values.
    pub fn all(&self, keys: &mut Keys<'_>) -> Result<Vec<Member>, Abort> {
        let mut all = Vec::new();
        match &self.body {
            Body::Blob { new, .. } => {
                let mut items = blob::items(new);
                while let Some(member) = items.next() {
                    let value = if self.shape.step() > 1 { items.next() } else { None };
                    all.push((member.to_vec(), value.unwrap_or_default().to_vec()));
                }
            }
            Body::Table(table) => table.each(keys.mem, &mut |mem, place| {
                all.push((place.entry.key(mem)?, place.entry.value(mem)?));
                Ok(())
            })?,
        }
        Ok(all)
    }

    /// One of the members.
    pub fn random(&self, keys: &mut Keys<'_>) -> Result<Option<Member>, Abort> {
        match &self.body {
            Body::Blob { .. } => {
                let mut all = self.all(keys)?;
                let index = keys.random.below(all.len() as u64) as usize;
                Ok((index < all.len()).then(|| all.swap_remove(index)))
            }
            Body::Table(table) => match table.random(keys.mem, keys.random)? {
                Some(place) => Ok(Some((place.entry.key(keys.mem)?, place.entry.value(keys.mem)?))),
                None => Ok(None),
            },
        }
    }

    /// Takes one of the members out.
    pub fn pop_random(&mut self, keys: &mut Keys<'_>) -> Result<Option<Vec<u8>>, Abort> {
        let Body::Table(table) = self.body else {
            let Some((member, _)) = self.random(keys)? else { return Ok(None) };
            self.remove(keys, &member)?;
            return Ok(Some(member));
        };
        let Some(place) = table.random(keys.mem, keys.random)? else { return Ok(None) };
        let member = place.entry.key(keys.mem)?;
        table.remove(keys.mem, place)?;
        table.shrink(keys.mem)?;
        self.is_changed = true;
        Ok(Some(member))
    }

    /// Some members: with a negative count any of them again and again, else different ones.
    pub fn draw(&self, keys: &mut Keys<'_>, count: i64) -> Result<Vec<Member>, Abort> {
        let len = self.len(keys)?;
        if len == 0 || count == 0 {
            return Ok(Vec::new());
        }
        let wanted = count.unsigned_abs();
        if count < 0 {
            if let Body::Blob { .. } = &self.body {
                let all = self.all(keys)?;
                let draws = (0..wanted).map(|_| all[keys.random.below(len) as usize].clone());
                return Ok(draws.collect());
            }
            let draws = (0..wanted).map(|_| self.random(keys).map(Option::unwrap_or_default));
            return draws.collect();
        }
        if wanted * 3 < len {
            let mut drawn = std::collections::HashMap::new();
            while (drawn.len() as u64) < wanted {
                if let Some((member, value)) = self.random(keys)? {
                    drawn.insert(member, value);
                }
            }
            return Ok(drawn.into_iter().collect());
        }
        let mut all = self.all(keys)?;
        for index in 0..(wanted as usize).min(all.len()) {
            let other = index as u64 + keys.random.below((all.len() - index) as u64);
            all.swap(index, other as usize);
        }
        all.truncate(wanted.min(len) as usize);
        Ok(all)
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<Table> {
        match &self.body {
            Body::Table(table) => Some(*table),
            Body::Blob { .. } => None,
        }
    }

    /// Makes it part of the pool. A collection without members is no key.
    pub fn save(self, keys: &mut Keys<'_>, key: &[u8]) -> Result<(), Abort> {
        if !self.is_changed {
            return Ok(());
        }
        match self.body {
            Body::Blob { old, new } => {
                keys.save_blob(key, self.found, self.shape.blob_kind(), (&old, &new))
            }
            Body::Table(table) => {
                let len = table.len(keys.mem)?;
                keys.save_blocks(key, self.found, self.shape.table_kind(), len, &[table.at])
            }
        }
    }
}
