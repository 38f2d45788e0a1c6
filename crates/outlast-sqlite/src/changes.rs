//! The writes of a transaction of SQLite so far, in volatile memory.
//!
//! A granule that is written whole over a stored one is compared at once, and the words that differ are kept. All
//! other granules are kept whole.
//!
//! A transaction that has changed more than [`SPILL_BYTES`] spills: its granules go to extents of the pool that no
//! table leads to before the commit (`Spilled`), and only later changes to those are kept here.
//!
//! * **CHANGES-1** Parts lie in what is stored and was not cut off. Nothing stores there before the transaction's
//!   end (DATABASE-1), so they remain all that differs from it.
//! * **CHANGES-2** Granules of spilled extents are kept whole.

use std::collections::TryReserveError;
use std::collections::hash_map::Entry;
use std::ops::Range;

use outlast::PoolOffset;
use rustc_hash::FxHashMap;

use crate::differences::{Runs, STRIDE_BYTES};
use crate::layout::{EXTENT_BYTES, GRANULE_BYTES, GRANULES};

/// Bytes of changes in volatile memory from which on a transaction spills them into the pool.
pub const SPILL_BYTES: usize = 16 << 20;

/// The bytes of a granule.
pub type Granule = [u8; GRANULE_BYTES];

/// Granules that are kept for the next transaction when one is over.
const SPARES_MAX: usize = 64;

/// Ranges of a granule that differ, at most: between two there are three equal words.
const PARTS_MAX: usize = GRANULE_BYTES / 8 / 4 + 1;

/// The content under changes. A function that loads what is stored is one, for changes that were never spilled.
pub trait Base {
    /// Loads what is stored of the file; bytes behind its end are zeros.
    fn load_stored(&self, at: u64, out: &mut [u8]);

    /// Loads from the pool.
    fn load_block(&self, at: PoolOffset, out: &mut [u8]);
}

impl<F: Fn(u64, &mut [u8])> Base for F {
    fn load_stored(&self, at: u64, out: &mut [u8]) {
        self(at, out);
    }

    fn load_block(&self, _: PoolOffset, _: &mut [u8]) {
        unreachable!("only a database spills, and that has a base of its own");
    }
}

/// An extent of the pool with changes, which becomes the file's at the commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spilled {
    /// The extent.
    pub at: PoolOffset,
    /// Bytes from its start that are the file's; further ones read as zeros.
    pub used: u64,
}

/// Changes to a file, over the content that it has in the pool.
#[derive(Default)]
pub struct Changes {
    granules: FxHashMap<u64, Change>,
    /// How many of them are kept whole.
    wholes: usize,
    /// By the extent's number.
    spilled: FxHashMap<u64, Spilled>,
    parts: Parts,
    spares: Vec<Box<Granule>>,
    /// How long the file is to be, and how much of its stored content was never cut off; `None` where
    /// nothing has changed.
    lens: Option<Lens>,
}

/// How a granule has changed.
enum Change {
    /// To all of that.
    Whole(Box<Granule>),
    /// In these of the [`Parts`].
    Parts(Range<usize>),
}

/// How a granule has changed, for one that reads it.
pub(crate) enum Changed<'c> {
    /// To all of that.
    Whole(&'c Granule),
    /// In these parts.
    Parts(&'c [Part]),
}

/// Words of a granule that differ from what is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where they begin in the granule.
    pub from: usize,
    /// How many bytes they have.
    pub len: usize,
    /// Where their bytes are.
    at: usize,
}

/// The parts of all granules.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    bytes: Vec<u8>,
}

impl Parts {
    /// Compares a granule that starts at `start` with what `load` loads.
    fn add(
        &mut self,
        start: u64,
        granule: &Granule,
        load: impl Fn(u64, &mut [u8]),
    ) -> Result<Range<usize>, TryReserveError> {
        self.parts.try_reserve(PARTS_MAX)?;
        self.bytes.try_reserve(GRANULE_BYTES)?;
        let first = self.parts.len();
        let Self { parts, bytes } = self;
        let mut runs = Runs::new(|from, to| {
            parts.push(Part { from, len: to - from, at: bytes.len() });
            bytes.extend_from_slice(&granule[from..to]);
        });
        let mut old = [0; STRIDE_BYTES];
        for (new, at) in granule.chunks(STRIDE_BYTES).zip((0..).step_by(STRIDE_BYTES)) {
            load(start + at as u64, &mut old);
            runs.compare(at, new, &old);
        }
        runs.end(GRANULE_BYTES);
        Ok(first..self.parts.len())
    }

    fn clear(&mut self) {
        if self.bytes.capacity() > SPARES_MAX * GRANULE_BYTES {
            *self = Self::default();
        }
        self.parts.clear();
        self.bytes.clear();
    }

    fn of(&self, parts: &Range<usize>) -> &[Part] {
        &self.parts[parts.clone()]
    }

    /// Leaves nothing of a granule's parts from byte `len` on.
    fn cut(&mut self, parts: &mut Range<usize>, len: usize) {
        let begin_before = self.of(parts).partition_point(|part| part.from < len);
        parts.end = parts.start + begin_before;
        if let Some(last) = self.parts[parts.clone()].last_mut() {
            last.len = last.len.min(len - last.from);
        }
    }

    /// Puts the bytes of parts where they belong in a stretch of their granule that begins at `from`.
    fn put(&self, parts: &Range<usize>, from: usize, out: &mut [u8]) {
        for part in self.of(parts) {
            let (begin, end) = (part.from.max(from), (part.from + part.len).min(from + out.len()));
            if begin < end {
                let bytes = &self.bytes[part.at..][begin - part.from..end - part.from];
                out[begin - from..end - from].copy_from_slice(bytes);
            }
        }
    }
}

/// The lengths of a file that a transaction changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lens {
    /// Bytes of the file with the changes.
    pub len: u64,
    /// Bytes from its start that still show what is stored.
    pub kept: u64,
}

/// A piece of a range that lies in one granule.
pub(crate) struct Piece {
    /// The granule.
    pub number: u64,
    /// From its start.
    pub from: usize,
    /// Bytes before this piece in the range.
    pub done: usize,
    /// Bytes of the piece.
    pub len: usize,
}

/// The granules of a range, in order.
pub(crate) fn pieces(at: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let from = (place % GRANULE_BYTES as u64) as usize;
        let piece = Piece {
            number: place / GRANULE_BYTES as u64,
            from,
            done,
            len: (GRANULE_BYTES - from).min(len - done),
        };
        done += piece.len;
        (piece.len > 0).then_some(piece)
    })
}

impl Changes {
    /// Changes as they were.
    pub(crate) fn of(
        lens: Lens,
        granules: impl IntoIterator<Item = (u64, Box<Granule>)>,
        spilled: impl IntoIterator<Item = (u64, Spilled)>,
    ) -> Self {
        let whole = |(number, granule)| (number, Change::Whole(granule));
        let granules: FxHashMap<u64, Change> = granules.into_iter().map(whole).collect();
        let (wholes, spilled) = (granules.len(), spilled.into_iter().collect());
        Self { granules, wholes, spilled, lens: Some(lens), ..Self::default() }
    }

    /// Bytes of volatile memory that they take.
    pub fn bytes(&self) -> usize {
        let Parts { parts, bytes } = &self.parts;
        let entries = self.granules.len() * size_of::<(u64, Change)>();
        self.wholes * GRANULE_BYTES + bytes.len() + size_of_val(&parts[..]) + entries
    }

    /// The spilled extent of that number.
    pub(crate) fn spilled(&self, index: u64) -> Option<Spilled> {
        self.spilled.get(&index).copied()
    }

    /// All spilled extents by number, in order.
    pub(crate) fn all_spilled(&self) -> Vec<(u64, Spilled)> {
        let mut all: Vec<_> =
            self.spilled.iter().map(|(index, spilled)| (*index, *spilled)).collect();
        all.sort_unstable_by_key(|(index, _)| *index);
        all
    }

    /// These extents hold all changes to them.
    pub(crate) fn spill(&mut self, extents: Vec<(u64, Spilled)>) {
        for (index, spilled) in extents {
            self.spilled.insert(index, spilled);
            for number in index * GRANULES..(index + 1) * GRANULES {
                if let Some(Change::Whole(granule)) = self.granules.remove(&number) {
                    self.wholes -= 1;
                    if self.spares.len() < SPARES_MAX {
                        self.spares.push(granule);
                    }
                }
            }
        }
        if self.granules.is_empty() {
            self.granules = FxHashMap::default();
            self.parts.clear();
        }
    }

    /// Nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.lens.is_none()
    }

    /// The lengths, if anything has changed.
    pub fn lens(&self) -> Option<Lens> {
        self.lens
    }

    /// How the granule of that number has changed, if it was written to.
    pub(crate) fn granule(&self, number: u64) -> Option<Changed<'_>> {
        self.granules.get(&number).map(|change| match change {
            Change::Whole(granule) => Changed::Whole(granule),
            Change::Parts(parts) => Changed::Parts(self.parts.of(parts)),
        })
    }

    /// The bytes of a part.
    pub(crate) fn part(&self, part: &Part) -> &[u8] {
        &self.parts.bytes[part.at..part.at + part.len]
    }

    /// The content of the granule of that number, over the stored one in `out`.
    pub(crate) fn put(&self, number: u64, out: &mut Granule) {
        match self.granules.get(&number) {
            Some(Change::Whole(granule)) => *out = **granule,
            Some(Change::Parts(parts)) => self.parts.put(parts, 0, out),
            None => {}
        }
    }

    /// The numbers of all granules that were written to, in order.
    pub(crate) fn numbers(&self, numbers: &mut Vec<u64>) {
        numbers.clear();
        numbers.extend(self.granules.keys());
        numbers.sort_unstable();
    }

    /// How long the file is with the changes.
    pub fn len(&self, stored_len: u64) -> u64 {
        self.lens.map_or(stored_len, |lens| lens.len)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        let spares = self.granules.drain().filter_map(|(_, change)| match change {
            Change::Whole(granule) => Some(granule),
            Change::Parts(_) => None,
        });
        self.spares.extend(spares.take(SPARES_MAX));
        self.wholes = 0;
        self.spilled.clear();
        self.parts.clear();
        self.spares.truncate(SPARES_MAX);
        if self.granules.capacity() > 4 * SPARES_MAX {
            self.granules = FxHashMap::default();
        }
        self.lens = None;
    }

    fn lens_over(&mut self, stored_len: u64) -> &mut Lens {
        self.lens.get_or_insert(Lens { len: stored_len, kept: stored_len })
    }

    /// Writes to the file, which gets as long as that takes, over what is stored in `base`.
    ///
    /// # Errors
    /// When the system has no memory for it. A part may have been written.
    pub fn write(
        &mut self,
        at: u64,
        bytes: &[u8],
        stored_len: u64,
        base: impl Base,
    ) -> Result<(), TryReserveError> {
        self.granules.try_reserve(bytes.len() / GRANULE_BYTES + 2)?;
        let lens = self.lens_over(stored_len);
        lens.len = lens.len.max(at + bytes.len() as u64);
        let kept = lens.kept;
        let Self { granules, wholes, spilled, parts, spares, .. } = self;
        for piece in pieces(at, bytes.len()) {
            let part = &bytes[piece.done..piece.done + piece.len];
            let start = piece.number * GRANULE_BYTES as u64;
            let below = spilled.get(&(piece.number / GRANULES));
            let granule = match granules.entry(piece.number) {
                Entry::Occupied(entry) => {
                    let change = entry.into_mut();
                    if let Change::Parts(known) = change {
                        let mut granule = take_granule(spares)?;
                        load_kept(start, &mut granule[..], kept, &base);
                        parts.put(known, 0, &mut granule[..]);
                        *change = Change::Whole(granule);
                        *wholes += 1;
                    }
                    change
                }
                Entry::Vacant(entry) => {
                    if let Some(whole) = part.first_chunk()
                        && start + GRANULE_BYTES as u64 <= kept
                        && below.is_none()
                    {
                        // CHANGES-1.
                        let load = |at, out: &mut [u8]| base.load_stored(at, out);
                        entry.insert(Change::Parts(parts.add(start, whole, load)?));
                        continue;
                    }
                    let mut granule = take_granule(spares)?;
                    if piece.len < GRANULE_BYTES {
                        load_below(below, start, &mut granule[..], kept, &base);
                    }
                    *wholes += 1;
                    entry.insert(Change::Whole(granule))
                }
            };
            if let Change::Whole(granule) = granule {
                granule[piece.from..piece.from + piece.len].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// Makes the file shorter or longer.
    pub fn set_len(&mut self, len: u64, stored_len: u64) {
        let lens = self.lens_over(stored_len);
        let shrinks = len < lens.len;
        (lens.len, lens.kept) = (len, lens.kept.min(len));
        if !shrinks {
            return;
        }
        let whole = len / GRANULE_BYTES as u64;
        let rest = (len % GRANULE_BYTES as u64) as usize;
        self.granules.retain(|number, _| *number < whole || *number == whole && rest > 0);
        let is_whole = |change: &&Change| matches!(change, Change::Whole(_));
        self.wholes = self.granules.values().filter(is_whole).count();
        self.spilled.retain(|index, spilled| {
            let left = len.saturating_sub(index * EXTENT_BYTES);
            spilled.used = spilled.used.min(left);
            left > 0
        });
        if self.granules.is_empty() {
            self.parts.clear();
        }
        match self.granules.get_mut(&whole) {
            Some(Change::Whole(granule)) => granule[rest..].fill(0),
            // CHANGES-1.
            Some(Change::Parts(parts)) => self.parts.cut(parts, rest),
            None => {}
        }
    }

    /// Reads the file with the changes; bytes behind its end are zeros.
    pub fn read(&self, at: u64, out: &mut [u8], stored_len: u64, base: impl Base) {
        let Lens { kept, .. } = self.lens.unwrap_or(Lens { len: stored_len, kept: stored_len });
        for piece in pieces(at, out.len()) {
            let part = &mut out[piece.done..piece.done + piece.len];
            match self.granules.get(&piece.number) {
                Some(Change::Whole(granule)) => {
                    part.copy_from_slice(&granule[piece.from..][..piece.len]);
                }
                Some(Change::Parts(parts)) => {
                    load_kept(at + piece.done as u64, part, kept, &base);
                    self.parts.put(parts, piece.from, part);
                }
                None => {
                    let below = self.spilled.get(&(piece.number / GRANULES));
                    load_below(below, at + piece.done as u64, part, kept, &base);
                }
            }
        }
    }
}

fn take_granule(spares: &mut Vec<Box<Granule>>) -> Result<Box<Granule>, TryReserveError> {
    if let Some(spare) = spares.pop() {
        return Ok(spare);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(GRANULE_BYTES)?;
    bytes.resize(GRANULE_BYTES, 0);
    Ok(bytes.into_boxed_slice().try_into().expect("it has the length of a granule"))
}

/// Loads what is stored before `kept`; the rest is zeros.
fn load_kept(at: u64, out: &mut [u8], kept: u64, base: &impl Base) {
    let stored = kept.saturating_sub(at).min(out.len() as u64) as usize;
    let (stored, rest) = out.split_at_mut(stored);
    if !stored.is_empty() {
        base.load_stored(at, stored);
    }
    rest.fill(0);
}

/// Loads a piece of a granule that no change is kept of: from its spilled extent, if it has one.
fn load_below(below: Option<&Spilled>, at: u64, out: &mut [u8], kept: u64, base: &impl Base) {
    let Some(spilled) = below else { return load_kept(at, out, kept, base) };
    let inside = at % EXTENT_BYTES;
    let used = spilled.used.saturating_sub(inside).min(out.len() as u64) as usize;
    let (used, rest) = out.split_at_mut(used);
    base.load_block(spilled.at.plus(inside), used);
    rest.fill(0);
}

#[cfg(test)]
mod tests {
    use outlast_workloads::Random;

    use super::*;

    const GRANULE: u64 = GRANULE_BYTES as u64;

    fn fill(random: &mut Random, len: u64) -> Vec<u8> {
        (0..len).map(|_| random.below(3) as u8).collect()
    }

    /// Whole granules that differ a little, pieces, cuts and growth, by chance.
    #[test]
    fn a_transaction_reads_what_it_has_written_over_what_is_stored() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let stored_len = random.below(4 * GRANULE);
            let stored = fill(&mut random, stored_len);
            let load = |at: u64, out: &mut [u8]| {
                let there = stored.get(at as usize..).unwrap_or_default();
                let len = there.len().min(out.len());
                out[..len].copy_from_slice(&there[..len]);
                out[len..].fill(0);
            };
            let (mut changes, mut shadow) = (Changes::default(), stored.clone());
            for _ in 0..12 {
                let (at, bytes) = match random.below(5) {
                    0 => {
                        let len = random.below(4 * GRANULE);
                        changes.set_len(len, stored_len);
                        shadow.resize(len as usize, 0);
                        (0, Vec::new())
                    }
                    1 => {
                        let len = 1 + random.below(500);
                        (random.below(3 * GRANULE), fill(&mut random, len))
                    }
                    _ => {
                        let (at, mut granule) = (random.below(4) * GRANULE, [0; GRANULE_BYTES]);
                        load(at, &mut granule);
                        for _ in 0..random.below(6) {
                            granule[random.below(GRANULE) as usize] = random.below(9) as u8;
                        }
                        (at, granule.to_vec())
                    }
                };
                if !bytes.is_empty() {
                    changes.write(at, &bytes, stored_len, load).unwrap();
                    let (at, end) = (at as usize, at as usize + bytes.len());
                    shadow.resize(shadow.len().max(end), 0);
                    shadow[at..end].copy_from_slice(&bytes);
                }
                assert_eq!(changes.len(stored_len), shadow.len() as u64);
                let mut seen = vec![7; shadow.len() + 9];
                changes.read(0, &mut seen, stored_len, load);
                assert!(seen[..shadow.len()] == shadow, "seed {seed}");
                assert_eq!(seen[shadow.len()..], [0; 9]);
            }
        }
    }
}
