//! Hash tables: keys of a database, fields of a large hash, members of large sets.
//!
//! Linear hashing: a table has N buckets, and each insertion that fills it splits one of them in two,
//! so that no insertion ever moves them all. Bucket b lies in a segment that was taken when the table
//! reached it; segments double. A slot is stored when its bucket comes to be, so segments need not be
//! cleared.
//!
//! ```text
//! 0   entries
//! 8   buckets, at least 16
//! 16  offsets of segments: 16 slots, 16, 32, 64, …
//! ```
//!
//! A cursor of `SCAN` is a place among hashes with their bits reversed. There each bucket has an
//! interval, which a split divides and a merge joins; so what is there all the time is met, whatever
//! the table does meanwhile.

use outlast::{Abort, BlockKind, ByteRange, PoolOffset};

use crate::store::entry::{self, Entry, Kind};
use crate::store::hasher::Hasher;
use crate::store::mem::{Mem, damaged};
use crate::store::size::rounded;
use outlast_workloads::Random;

const FIRST: u64 = 16;
const FIRST_BITS: u32 = FIRST.trailing_zeros();
/// The last segment has 2^25 slots: half of the largest block.
const SEGMENTS: u64 = 23;
const BUCKETS_MAX: u64 = FIRST << (SEGMENTS - 1);
pub(super) const HEADER_BYTES: u64 = 16 + 8 * SEGMENTS;
/// Cursors are the upper bits of a place: no table has more buckets.
const CURSOR_SHIFT: u32 = 16;
/// Chains are longer only by rare chance: the entries of one that is are drawn less often.
const CHAIN_FAIR_MAX: u64 = 4;
/// Lookups that are announced together.
pub(crate) const FOUND_TOGETHER_MAX: usize = 16;
/// Bytes of an entry that are fetched before it is looked at: its head and a short key.
const FETCHED_BYTES: u64 = 48;
/// Larger entries are stored in parts, without a copy of the value.
const COPIED_MAX: usize = 512;

/// A table by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    pub at: PoolOffset,
}

/// An entry and the word that leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub slot: PoolOffset,
    pub entry: Entry,
}

/// The content of an entry beside its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub kind: Kind,
    pub value: &'a [u8],
    pub deadline: Option<u64>,
}

impl Content<'_> {
    /// Its entry at a place.
    fn entry(&self, at: PoolOffset, next: u64, key_len: usize) -> Entry {
        let (value_len, has_deadline) = (self.value.len(), self.deadline.is_some());
        Entry { at, next, kind: self.kind, key_len, value_len, has_deadline }
    }

    fn bytes(&self, key_len: usize) -> u64 {
        Entry::bytes(key_len, self.value.len(), self.deadline.is_some())
    }
}

impl Table {
    pub fn create(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        let at = mem.alloc(HEADER_BYTES, BlockKind::General)?;
        let segment = mem.alloc(FIRST * 8, BlockKind::General)?;
        mem.store(segment, &[0; FIRST as usize * 8])?;
        let mut header = [0; HEADER_BYTES as usize];
        header[8..16].copy_from_slice(&FIRST.to_le_bytes());
        header[16..24].copy_from_slice(&segment.0.to_le_bytes());
        mem.store(at, &header)?;
        Ok(Self { at })
    }

    /// How many entries it has.
    pub fn len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        mem.load_u64(self.at)
    }

    fn set_len(self, mem: &mut Mem<'_>, len: u64) -> Result<(), Abort> {
        mem.store_u64(self.at, len)
    }

    pub(super) fn buckets(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        let buckets = mem.load_u64(self.at.plus(8))?;
        match (FIRST..=BUCKETS_MAX).contains(&buckets) {
            true => Ok(buckets),
            false => Err(damaged(self.at, "a table with an impossible number of buckets")),
        }
    }

    /// The bucket of a hash.
    fn bucket(buckets: u64, hash: u64) -> u64 {
        let below = 1 << buckets.ilog2();
        let bucket = hash & (2 * below - 1);
        if bucket < buckets { bucket } else { hash & (below - 1) }
    }

    /// The segment of a bucket, and its place there.
    fn segment(bucket: u64) -> (u64, u64) {
        match bucket.checked_ilog2() {
            Some(bits) if bits >= FIRST_BITS => {
                (u64::from(bits - FIRST_BITS) + 1, bucket - (1 << bits))
            }
            _ => (0, bucket),
        }
    }

    fn segment_at(self, segment: u64) -> PoolOffset {
        self.at.plus(16 + 8 * segment)
    }

    pub(super) fn slot(self, mem: &mut Mem<'_>, bucket: u64) -> Result<PoolOffset, Abort> {
        let (segment, index) = Self::segment(bucket);
        let segment = mem.load_u64(self.segment_at(segment))?;
        Ok(PoolOffset(segment).plus(index * 8))
    }

    /// Whether a hash belongs into a bucket.
    pub(super) fn is_bucket_of(
        self,
        mem: &mut Mem<'_>,
        bucket: u64,
        hash: u64,
    ) -> Result<bool, Abort> {
        Ok(Self::bucket(self.buckets(mem)?, hash) == bucket)
    }

    /// Its segments and their bytes. Words behind those in use are of earlier segments.
    pub(super) fn segments(self, mem: &mut Mem<'_>) -> Result<Vec<(PoolOffset, u64)>, Abort> {
        let (last, _) = Self::segment(self.buckets(mem)? - 1);
        let mut segments = Vec::new();
        for segment in 0..=last {
            let slots = FIRST << segment.saturating_sub(1);
            segments.push((PoolOffset(mem.load_u64(self.segment_at(segment))?), 8 * slots));
        }
        Ok(segments)
    }

    /// The entry of a key.
    pub fn find(self, mem: &mut Mem<'_>, key: &[u8], hash: u64) -> Result<Option<Place>, Abort> {
        let bucket = Self::bucket(self.buckets(mem)?, hash);
        let mut slot = self.slot(mem, bucket)?;
        let mut word = mem.load_u64(slot)?;
        while let Some(at) = entry::pointer(word) {
            if entry::has_tag(word, hash) {
                let entry = Entry::load(mem, at)?;
                if entry.has_key(mem, key)? {
                    return Ok(Some(Place { slot, entry }));
                }
                word = entry.next;
            } else {
                word = mem.load_u64(at)?;
            }
            slot = at;
        }
        Ok(None)
    }

    /// Announces lookups: their buckets are fetched together, then the first entry of each, of one that is not meant the
    /// word that leads on.
    pub fn will_find(self, mem: &mut Mem<'_>, hashes: &[u64]) -> Result<(), Abort> {
        let buckets = self.buckets(mem)?;
        let mut slots = [PoolOffset(0); FOUND_TOGETHER_MAX];
        for (slot, hash) in slots.iter_mut().zip(hashes) {
            *slot = self.slot(mem, Self::bucket(buckets, *hash))?;
            mem.will_read(&[ByteRange::new(*slot, 8)]);
        }
        for (slot, hash) in slots.into_iter().zip(hashes) {
            let word = mem.load_u64(slot)?;
            if let Some(at) = entry::pointer(word) {
                let bytes = if entry::has_tag(word, *hash) { FETCHED_BYTES } else { 8 };
                mem.will_read(&[ByteRange::new(at, bytes)]);
            }
        }
        Ok(())
    }

    /// Gives a key its content: in place where its block has room, else in a new block.
    pub fn write(
        self,
        mem: &mut Mem<'_>,
        hasher: Hasher,
        found: Option<Place>,
        key: &[u8],
        hash: u64,
        content: &Content<'_>,
    ) -> Result<Place, Abort> {
        let bytes = rounded(content.bytes(key.len()));
        match found {
            Some(place) if rounded(place.entry.own_bytes()) == bytes => {
                Self::overwrite(mem, place, content)
            }
            Some(place) => {
                let at = Self::new_entry(mem, bytes, place.entry.next, key, content)?;
                mem.store_u64(place.slot, entry::word(at, hash))?;
                mem.free(place.entry.at)?;
                let entry = content.entry(at, place.entry.next, key.len());
                Ok(Place { slot: place.slot, entry })
            }
            None => {
                let (len, mut buckets) = (self.len(mem)?, self.buckets(mem)?);
                if len >= buckets && buckets < BUCKETS_MAX {
                    self.split(mem, buckets, hasher)?;
                    buckets += 1;
                }
                let slot = self.slot(mem, Self::bucket(buckets, hash))?;
                let next = mem.load_u64(slot)?;
                let at = Self::new_entry(mem, bytes, next, key, content)?;
                mem.store_u64(slot, entry::word(at, hash))?;
                self.set_len(mem, len + 1)?;
                Ok(Place { slot, entry: content.entry(at, next, key.len()) })
            }
        }
    }

    /// Joins buckets where there are far more of them than entries. A place that was found before is
    /// none any more.
    pub fn shrink(self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        let (len, mut buckets) = (self.len(mem)?, self.buckets(mem)?);
        for _ in 0..2 {
            if len * 4 < buckets && buckets > FIRST {
                self.merge(mem, buckets)?;
                buckets -= 1;
            }
        }
        Ok(())
    }

    fn new_entry(
        mem: &mut Mem<'_>,
        bytes: u64,
        next: u64,
        key: &[u8],
        content: &Content<'_>,
    ) -> Result<PoolOffset, Abort> {
        let at = mem.alloc(bytes, BlockKind::General)?;
        let Content { kind, value, deadline } = *content;
        let meta = Entry::meta(kind, key.len(), value.len(), deadline.is_some());
        let used = content.bytes(key.len()) as usize;
        if used <= COPIED_MAX {
            let mut buffer = [0; COPIED_MAX];
            let buffer = &mut buffer[..used];
            buffer[..8].copy_from_slice(&next.to_le_bytes());
            buffer[8..16].copy_from_slice(&meta.to_le_bytes());
            let (_, rest) = buffer.split_at_mut(16);
            let (to_key, rest) = rest.split_at_mut(key.len());
            to_key.copy_from_slice(key);
            let (to_value, rest) = rest.split_at_mut(value.len());
            to_value.copy_from_slice(value);
            if let Some(deadline) = deadline {
                rest.copy_from_slice(&deadline.to_le_bytes());
            }
            mem.store(at, buffer)?;
            return Ok(at);
        }
        let key_at = at.plus(entry::HEAD_BYTES);
        let value_at = key_at.plus(key.len() as u64);
        let head_bytes = entry::HEAD_BYTES as usize + key.len();
        if head_bytes <= COPIED_MAX {
            let mut head = [0; COPIED_MAX];
            head[..8].copy_from_slice(&next.to_le_bytes());
            head[8..16].copy_from_slice(&meta.to_le_bytes());
            head[16..head_bytes].copy_from_slice(key);
            mem.store(at, &head[..head_bytes])?;
        } else {
            mem.store_u64(at, next)?;
            mem.store_u64(at.plus(8), meta)?;
            mem.store(key_at, key)?;
        }
        mem.store(value_at, value)?;
        if let Some(deadline) = deadline {
            mem.store(value_at.plus(value.len() as u64), &deadline.to_le_bytes())?;
        }
        Ok(at)
    }

    /// Stores content into the block that is there, which has room for it.
    pub fn overwrite(
        mem: &mut Mem<'_>,
        place: Place,
        content: &Content<'_>,
    ) -> Result<Place, Abort> {
        let Content { kind, value, deadline } = *content;
        let old = place.entry;
        let entry = Entry { kind, value_len: value.len(), has_deadline: deadline.is_some(), ..old };
        if (kind, value.len(), deadline.is_some()) != (old.kind, old.value_len, old.has_deadline) {
            let meta = Entry::meta(kind, old.key_len, value.len(), deadline.is_some());
            mem.store_u64(old.at.plus(8), meta)?;
        }
        mem.store(old.value_at(), value)?;
        if let Some(deadline) = deadline {
            mem.store(entry.deadline_at(), &deadline.to_le_bytes())?;
        }
        Ok(Place { entry, ..place })
    }

    /// Takes an entry out and frees its block.
    pub fn remove(self, mem: &mut Mem<'_>, place: Place) -> Result<(), Abort> {
        mem.store_u64(place.slot, place.entry.next)?;
        mem.free(place.entry.at)?;
        let len = self.len(mem)?.saturating_sub(1);
        self.set_len(mem, len)
    }

    /// Divides the bucket whose turn it is.
    fn split(self, mem: &mut Mem<'_>, buckets: u64, hasher: Hasher) -> Result<(), Abort> {
        let below = 1 << buckets.ilog2();
        let (from, new) = (buckets - below, buckets);
        let (segment, index) = Self::segment(new);
        if index == 0 {
            let block =
                mem.alloc(8 << (segment - 1 + u64::from(FIRST_BITS)), BlockKind::General)?;
            mem.store_u64(self.segment_at(segment), block.0)?;
        }
        mem.store_u64(self.at.plus(8), buckets + 1)?;
        let (old_slot, new_slot) = (self.slot(mem, from)?, self.slot(mem, new)?);
        let mut word = mem.load_u64(old_slot)?;
        // Where the next entry of either bucket is to be named, and what stands there.
        let mut ends = [(old_slot, Some(word)), (new_slot, None)];
        while let Some(at) = entry::pointer(word) {
            let entry = Entry::load(mem, at)?;
            let goes = usize::from(entry.hash(mem, hasher)? & below != 0);
            let (end, stands) = ends[goes];
            if stands != Some(word) {
                mem.store_u64(end, word)?;
            }
            ends[goes] = (at, Some(entry.next));
            word = entry.next;
        }
        for (end, stands) in ends {
            if stands != Some(0) {
                mem.store_u64(end, 0)?;
            }
        }
        self.will_split(mem, from + 1, below)
    }

    /// Announces the entries of the buckets whose turn is next: their slots lie beside each other, and they far away. The
    /// first one of the second bucket is fetched, and the second one of the first bucket.
    fn will_split(self, mem: &mut Mem<'_>, from: u64, below: u64) -> Result<(), Abort> {
        for (bucket, is_fetched) in [(from, true), (from + 1, false)] {
            if bucket >= below {
                break;
            }
            let slot = self.slot(mem, bucket)?;
            let mut at = entry::pointer(mem.load_u64(slot)?);
            if let (Some(first), true) = (at, is_fetched) {
                at = entry::pointer(mem.load_u64(first)?);
            }
            if let Some(at) = at {
                mem.will_read(&[ByteRange::new(at, FETCHED_BYTES)]);
            }
        }
        Ok(())
    }

    /// Joins the last bucket to the one that it came from.
    fn merge(self, mem: &mut Mem<'_>, buckets: u64) -> Result<(), Abort> {
        let last = buckets - 1;
        let into = last - (1 << last.ilog2());
        let slot = self.slot(mem, last)?;
        let chain = mem.load_u64(slot)?;
        if chain != 0 {
            let mut end = self.slot(mem, into)?;
            let mut word = mem.load_u64(end)?;
            while let Some(at) = entry::pointer(word) {
                end = at;
                word = mem.load_u64(at)?;
            }
            mem.store_u64(end, chain)?;
        }
        self.drop_bucket(mem, last)
    }

    /// The last bucket, which is empty, is there no more.
    fn drop_bucket(self, mem: &mut Mem<'_>, last: u64) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(8), last)?;
        let (segment, index) = Self::segment(last);
        if index == 0 && segment > 0 {
            let block = PoolOffset(mem.load_u64(self.segment_at(segment))?);
            mem.free(block)?;
        }
        Ok(())
    }

    /// Shows the entries of the bucket at a cursor, and returns the next cursor; 0 at the end.
    pub fn scan(
        self,
        mem: &mut Mem<'_>,
        cursor: u64,
        show: &mut dyn FnMut(&mut Mem<'_>, Place) -> Result<(), Abort>,
    ) -> Result<u64, Abort> {
        let buckets = self.buckets(mem)?;
        let place = cursor << CURSOR_SHIFT;
        let bucket = Self::bucket(buckets, place.reverse_bits());
        let below: u64 = 1 << buckets.ilog2();
        let is_split = bucket >= below || bucket + below < buckets;
        let bits = buckets.ilog2() + u32::from(is_split);
        self.each_of(mem, bucket, show)?;
        let shift = 64 - bits;
        let next = (place >> shift) + 1;
        Ok(if next >> bits != 0 { 0 } else { next << shift >> CURSOR_SHIFT })
    }

    fn each_of(
        self,
        mem: &mut Mem<'_>,
        bucket: u64,
        show: &mut dyn FnMut(&mut Mem<'_>, Place) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut slot = self.slot(mem, bucket)?;
        let mut word = mem.load_u64(slot)?;
        while let Some(at) = entry::pointer(word) {
            let entry = Entry::load(mem, at)?;
            show(mem, Place { slot, entry })?;
            (slot, word) = (at, entry.next);
        }
        Ok(())
    }

    /// Shows every entry.
    pub fn each(
        self,
        mem: &mut Mem<'_>,
        show: &mut dyn FnMut(&mut Mem<'_>, Place) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        for bucket in 0..self.buckets(mem)? {
            self.each_of(mem, bucket, show)?;
        }
        Ok(())
    }

    /// One of the entries, each as likely as the others: a bucket is taken as often as it has entries.
    pub fn random(self, mem: &mut Mem<'_>, random: &mut Random) -> Result<Option<Place>, Abort> {
        if self.len(mem)? == 0 {
            return Ok(None);
        }
        let buckets = self.buckets(mem)?;
        loop {
            let first = self.slot(mem, random.below(buckets))?;
            let (mut chain, mut word) = (0, mem.load_u64(first)?);
            while let Some(at) = entry::pointer(word) {
                (chain, word) = (chain + 1, mem.load_u64(at)?);
            }
            if random.below(CHAIN_FAIR_MAX) >= chain {
                continue;
            }
            let mut slot = first;
            for _ in 0..random.below(chain) {
                slot = entry::pointer(mem.load_u64(slot)?).unwrap_or(slot);
            }
            if let Some(at) = entry::pointer(mem.load_u64(slot)?) {
                return Ok(Some(Place { slot, entry: Entry::load(mem, at)? }));
            }
        }
    }

    /// Takes entries out from the last bucket on until `count` are gone or none is left; `show` is asked
    /// first. Returns how many.
    pub fn drain(
        self,
        mem: &mut Mem<'_>,
        count: usize,
        show: &mut dyn FnMut(&mut Mem<'_>, Entry) -> Result<(), Abort>,
    ) -> Result<usize, Abort> {
        let mut gone = 0;
        let mut buckets = self.buckets(mem)?;
        while gone < count {
            let slot = self.slot(mem, buckets - 1)?;
            if let Some(at) = entry::pointer(mem.load_u64(slot)?) {
                let entry = Entry::load(mem, at)?;
                show(mem, entry)?;
                self.remove(mem, Place { slot, entry })?;
            } else if buckets > FIRST {
                buckets -= 1;
                self.drop_bucket(mem, buckets)?;
            } else {
                // Sixteen buckets stay.
                let mut first = None;
                for bucket in 0..FIRST {
                    let slot = self.slot(mem, bucket)?;
                    if let Some(at) = entry::pointer(mem.load_u64(slot)?) {
                        first = Some(Place { slot, entry: Entry::load(mem, at)? });
                        break;
                    }
                }
                let Some(place) = first else { break };
                show(mem, place.entry)?;
                self.remove(mem, place)?;
            }
            gone += 1;
        }
        Ok(gone)
    }

    /// Shows an entry, the one that [`drain`](Self::drain) takes out next, if there is one.
    pub fn peek(
        self,
        mem: &mut Mem<'_>,
        show: &mut dyn FnMut(&mut Mem<'_>, Entry) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut buckets = self.buckets(mem)?;
        loop {
            let is_first = buckets == FIRST;
            for bucket in (buckets - 1..buckets).chain(0..if is_first { FIRST } else { 0 }) {
                let slot = self.slot(mem, bucket)?;
                if let Some(at) = entry::pointer(mem.load_u64(slot)?) {
                    let entry = Entry::load(mem, at)?;
                    return show(mem, entry);
                }
            }
            if is_first {
                return Ok(());
            }
            buckets -= 1;
            self.drop_bucket(mem, buckets)?;
        }
    }

    /// Frees the blocks of a table without entries.
    pub fn free_empty(self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        let mut buckets = self.buckets(mem)?;
        while buckets > FIRST {
            buckets -= 1;
            self.drop_bucket(mem, buckets)?;
        }
        let first = PoolOffset(mem.load_u64(self.segment_at(0))?);
        mem.free(first)?;
        mem.free(self.at)
    }
}
