//! Lists: items in a blob, or in a sequence with open ends.

use outlast::Abort;

use crate::store::dict::BLOB_BYTES_MAX;
use crate::store::entry::Kind;
use crate::store::layout::ENDS;
use crate::store::seq::{End, Ends, Seq};
use crate::store::table::{Content, Table};
use crate::store::{Found, Keys, blob};

enum Body {
    Blob {
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// As former versions made it.
    Seq(Seq),
    Ends(Ends),
}

/// A list at work; see [`Dict`](crate::store::dict::Dict).
pub(crate) struct List {
    found: Option<Found>,
    body: Body,
    is_changed: bool,
}

impl List {
    pub fn load(keys: &mut Keys<'_>, found: Option<Found>) -> Result<Self, Abort> {
        let body = match found {
            Some(found) if found.kind() == Kind::ListSeq => {
                Body::Seq(Seq { at: found.entry().large_at(keys.mem, 0)? })
            }
            Some(found) if found.kind().is_large() => {
                let at = found.entry().large_at(keys.mem, 0)?;
                Body::Ends(Ends::load(keys.mem, at)?)
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
            Body::Seq(seq) => seq.len(keys.mem),
            Body::Ends(ends) => Ok(ends.len()),
        }
    }

    /// Before a change: a sequence becomes one with open ends.
    fn open_ends(&mut self, keys: &mut Keys<'_>) -> Result<(), Abort> {
        let (Body::Seq(seq), Some(found)) = (&self.body, self.found) else { return Ok(()) };
        keys.root.note_feature(keys.mem, ENDS)?;
        let ends = Ends::of_seq(keys.mem, *seq)?;
        let (value, deadline) = (ends.at.0.to_le_bytes(), found.entry().deadline(keys.mem)?);
        let content = Content { kind: Kind::ListEnds, value: &value, deadline };
        let place = Table::overwrite(keys.mem, found.place, &content)?;
        self.found = Some(Found { place, ..found });
        self.body = Body::Ends(ends);
        Ok(())
    }

    pub fn get(&self, keys: &mut Keys<'_>, index: u64) -> Result<Option<Vec<u8>>, Abort> {
        match &self.body {
            Body::Blob { new, .. } => Ok(blob::items(new).nth(index as usize).map(<[u8]>::to_vec)),
            Body::Seq(seq) => seq.get(keys.mem, index),
            Body::Ends(ends) => ends.get(keys.mem, index),
        }
    }

    /// Puts an item before the one of that index.
    pub fn insert(&mut self, keys: &mut Keys<'_>, index: u64, item: &[u8]) -> Result<(), Abort> {
        self.is_changed = true;
        self.open_ends(keys)?;
        match &mut self.body {
            Body::Blob { new, .. } => {
                let at = blob::place(new, index as usize);
                blob::splice(new, at, at, &[item]);
                if new.len() > BLOB_BYTES_MAX {
                    keys.root.note_feature(keys.mem, ENDS)?;
                    let mut ends = Ends::create(keys.mem)?;
                    for item in blob::items(new) {
                        ends.push(keys.mem, End::Last, item)?;
                    }
                    self.body = Body::Ends(ends);
                }
                Ok(())
            }
            Body::Seq(seq) => seq.insert(keys.mem, index, item),
            Body::Ends(ends) => ends.insert(keys.mem, index, item),
        }
    }

    pub fn remove(&mut self, keys: &mut Keys<'_>, index: u64) -> Result<Vec<u8>, Abort> {
        self.is_changed = true;
        self.open_ends(keys)?;
        match &mut self.body {
            Body::Blob { new, .. } => {
                let at = blob::place(new, index as usize);
                let Some((item, end)) = blob::item(new, at) else { return Ok(Vec::new()) };
                let item = item.to_vec();
                new.drain(at..end);
                Ok(item)
            }
            Body::Seq(seq) => seq.remove(keys.mem, index),
            Body::Ends(ends) => ends.remove(keys.mem, index),
        }
    }

    pub fn replace(&mut self, keys: &mut Keys<'_>, index: u64, item: &[u8]) -> Result<(), Abort> {
        self.remove(keys, index)?;
        self.insert(keys, index, item)
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
                let items = blob::items(new).skip(from as usize).take(count as usize);
                for item in items {
                    if !show(item) {
                        break;
                    }
                }
                Ok(())
            }
            Body::Seq(seq) => seq.scan(keys.mem, from, count, show),
            Body::Ends(ends) => ends.scan(keys.mem, from, count, show),
        }
    }

    /// All items.
    pub fn all(&self, keys: &mut Keys<'_>) -> Result<Vec<Vec<u8>>, Abort> {
        let mut all = Vec::new();
        self.scan(keys, 0, u64::MAX, &mut |item| {
            all.push(item.to_vec());
            true
        })?;
        Ok(all)
    }

    /// Makes it part of the pool. A list without items is no key.
    pub fn save(self, keys: &mut Keys<'_>, key: &[u8]) -> Result<(), Abort> {
        if !self.is_changed {
            return Ok(());
        }
        match self.body {
            Body::Blob { old, new } => {
                keys.save_blob(key, self.found, Kind::ListBlob, (&old, &new))
            }
            Body::Seq(seq) => {
                let len = seq.len(keys.mem)?;
                keys.save_blocks(key, self.found, Kind::ListSeq, len, &[seq.at])
            }
            Body::Ends(ends) => {
                keys.save_blocks(key, self.found, Kind::ListEnds, ends.len(), &[ends.at])
            }
        }
    }
}
