//! What a transaction of SQLite has written so far: whole granules in volatile memory.

use std::collections::TryReserveError;

use rustc_hash::FxHashMap;

use crate::layout::GRANULE_BYTES;

/// The bytes of a granule.
pub type Granule = [u8; GRANULE_BYTES];

/// Granules that are kept for the next transaction when one is over.
const SPARES_MAX: usize = 64;

/// Changes to a file, over the content that it has in the pool.
#[derive(Default)]
pub struct Changes {
    granules: FxHashMap<u64, Box<Granule>>,
    spares: Vec<Box<Granule>>,
    /// How long the file is to be, and how much of its stored content was never cut off; `None` where
    /// nothing has changed.
    lens: Option<Lens>,
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
    pub(crate) fn of(lens: Lens, granules: impl IntoIterator<Item = (u64, Box<Granule>)>) -> Self {
        let granules = granules.into_iter().collect();
        Self { granules, spares: Vec::new(), lens: Some(lens) }
    }

    /// Nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.lens.is_none()
    }

    /// The lengths, if anything has changed.
    pub fn lens(&self) -> Option<Lens> {
        self.lens
    }

    /// The granule of that number, if it was written to.
    pub fn granule(&self, number: u64) -> Option<&Granule> {
        self.granules.get(&number).map(|granule| &**granule)
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
        let spares = self.granules.drain().map(|(_, granule)| granule);
        self.spares.extend(spares.take(SPARES_MAX));
        self.spares.truncate(SPARES_MAX);
        if self.granules.capacity() > 4 * SPARES_MAX {
            self.granules = FxHashMap::default();
        }
        self.lens = None;
    }

    fn lens_over(&mut self, stored_len: u64) -> &mut Lens {
        self.lens.get_or_insert(Lens { len: stored_len, kept: stored_len })
    }

    /// Writes to the file, which gets as long as that takes. `load` fills in what is stored: bytes behind
    /// the end are zeros.
    ///
    /// # Errors
    /// When the system has no memory for it. A part may have been written.
    pub fn write(
        &mut self,
        at: u64,
        bytes: &[u8],
        stored_len: u64,
        load: impl Fn(u64, &mut [u8]),
    ) -> Result<(), TryReserveError> {
        self.granules.try_reserve(bytes.len() / GRANULE_BYTES + 2)?;
        let lens = self.lens_over(stored_len);
        lens.len = lens.len.max(at + bytes.len() as u64);
        let kept = lens.kept;
        for piece in pieces(at, bytes.len()) {
            let granule = match self.granules.entry(piece.number) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    let mut granule = match self.spares.pop() {
                        Some(spare) => spare,
                        None => new_granule()?,
                    };
                    if piece.len < GRANULE_BYTES {
                        let start = piece.number * GRANULE_BYTES as u64;
                        load_kept(start, &mut granule[..], kept, &load);
                    }
                    entry.insert(granule)
                }
            };
            granule[piece.from..piece.from + piece.len]
                .copy_from_slice(&bytes[piece.done..piece.done + piece.len]);
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
        self.granules.retain(|number, granule| {
            if *number == whole && rest > 0 {
                granule[rest..].fill(0);
            }
            *number < whole || *number == whole && rest > 0
        });
    }

    /// Reads the file with the changes; bytes behind its end are zeros.
    pub fn read(&self, at: u64, out: &mut [u8], stored_len: u64, load: impl Fn(u64, &mut [u8])) {
        let Lens { kept, .. } = self.lens.unwrap_or(Lens { len: stored_len, kept: stored_len });
        for piece in pieces(at, out.len()) {
            let part = &mut out[piece.done..piece.done + piece.len];
            match self.granule(piece.number) {
                Some(granule) => part.copy_from_slice(&granule[piece.from..][..piece.len]),
                None => load_kept(at + piece.done as u64, part, kept, &load),
            }
        }
    }
}

fn new_granule() -> Result<Box<Granule>, TryReserveError> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(GRANULE_BYTES)?;
    bytes.resize(GRANULE_BYTES, 0);
    Ok(bytes.into_boxed_slice().try_into().expect("it has the length of a granule"))
}

/// Loads what is stored before `kept`; the rest is zeros.
fn load_kept(at: u64, out: &mut [u8], kept: u64, load: impl Fn(u64, &mut [u8])) {
    let stored = kept.saturating_sub(at).min(out.len() as u64) as usize;
    let (stored, rest) = out.split_at_mut(stored);
    if !stored.is_empty() {
        load(at, stored);
    }
    rest.fill(0);
}
