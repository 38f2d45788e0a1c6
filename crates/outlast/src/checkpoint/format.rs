//! The bytes of a checkpoint file. `docs/checkpoints.md` draws them.
//!
//! A file is a row of *segments*, each a checkpoint's changes. All its parts begin at a multiple
//! of 512 bytes, the largest piece that a disk writes whole:
//!
//! ```text
//! header   one sector: who, after whom, how much                CRC-32C of the sector
//! pages    4096 bytes each, in the order of the table
//! table    8 bytes a page: number, "is zero", CRC-32C           zeros up to a whole sector
//! trailer  one sector: CRC-32C of header and table              CRC-32C of the sector
//! ```
//!
//! * **CHECKPOINT-3** Everything but the trailer is durable before the trailer is written. A sector of a
//!   segment that a crash cut short is what was written or zero, and its trailer is zero or
//!   missing. Anything else is damage.
//! * **CHECKPOINT-4** A segment names the one it continues by a random number. What an older file has left
//!   behind the end passes for nothing.

use outlast_pmem::PAGE_BYTES;
use uuid::Uuid;

/// The largest piece that is written whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;

const SECTOR: usize = SECTOR_BYTES as usize;

/// The format of checkpoint files that this code reads and writes.
pub const CHECKPOINT_VERSION: u32 = 1;

pub(super) const HEADER_MAGIC: &[u8; 8] = b"OUTLCKPT";
const TRAILER_MAGIC: &[u8; 8] = b"OUTLCKEN";

/// In a table entry's page number: the page is zero and not stored.
const ZERO_FLAG: u32 = 1 << 31;

/// Bytes of a table entry.
const ENTRY_BYTES: u64 = 8;

// Of the header and the trailer: where their own CRC is.
const SECTOR_CRC_AT: usize = SECTOR - 4;

pub(super) type Page = [u8; PAGE_BYTES as usize];

pub(super) type Sector = [u8; SECTOR];

/// The first sector of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SegmentHeader {
    /// Whose pages these are.
    pub pool: Uuid,
    /// This segment, as no other is called.
    pub id: Uuid,
    /// The segment that it continues; nil for a file's first.
    pub previous: Uuid,
    /// Counts the pool's checkpoints in this file.
    pub number: u64,
    /// Pages stored.
    pub stored: u64,
    /// Pages that the table calls zero.
    pub zero: u64,
    /// Length of the pool.
    pub pool_bytes: u64,
    /// Pages from this number on are zero unless this segment or a later one says otherwise,
    /// whatever older ones say.
    pub kept_pages: u64,
    /// The pool's generation.
    pub generation: u64,
    /// Numbers drawn in this generation.
    pub commits: u64,
    /// When, in seconds since 1970.
    pub taken_at: u64,
}

/// The content of a place where a segment could begin, or a trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found<T> {
    /// Nothing was written there.
    Nothing,
    /// What was written.
    Whole(T),
    /// Another format.
    Version(u32),
    /// None of these.
    Damaged,
}

impl SegmentHeader {
    fn entries(&self) -> u64 {
        self.stored + self.zero
    }

    /// Where page `slot` is stored in the segment at `at`.
    pub fn page_at(at: u64, slot: u64) -> u64 {
        at + SECTOR_BYTES + slot * PAGE_BYTES
    }

    /// Where the table of the segment at `at` is.
    pub fn table_at(&self, at: u64) -> u64 {
        Self::page_at(at, self.stored)
    }

    /// Bytes of the table, a multiple of [`SECTOR_BYTES`].
    pub fn table_bytes(&self) -> u64 {
        (self.entries() * ENTRY_BYTES).next_multiple_of(SECTOR_BYTES)
    }

    /// Where the trailer of the segment at `at` is.
    pub fn trailer_at(&self, at: u64) -> u64 {
        self.table_at(at) + self.table_bytes()
    }

    /// Where the segment at `at` ends.
    pub fn end_at(&self, at: u64) -> u64 {
        self.trailer_at(at) + SECTOR_BYTES
    }

    pub fn to_sector(self) -> Sector {
        let mut sector = [0; SECTOR];
        sector[..8].copy_from_slice(HEADER_MAGIC);
        sector[8..12].copy_from_slice(&CHECKPOINT_VERSION.to_le_bytes());
        for (at, uuid) in [(16, self.pool), (32, self.id), (48, self.previous)] {
            sector[at..at + 16].copy_from_slice(uuid.as_bytes());
        }
        for (at, word) in (64..).step_by(8).zip(self.words()) {
            sector[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        sealed(sector)
    }

    fn words(&self) -> [u64; 8] {
        let Self {
            number,
            stored,
            zero,
            pool_bytes,
            kept_pages,
            generation,
            commits,
            taken_at,
            ..
        } = *self;
        [number, stored, zero, pool_bytes, kept_pages, generation, commits, taken_at]
    }

    pub fn from_sector(sector: &Sector) -> Found<Self> {
        if sector.iter().all(|byte| *byte == 0) {
            return Found::Nothing;
        }
        if !is_sealed(sector) || &sector[..8] != HEADER_MAGIC {
            return Found::Damaged;
        }
        let version = u32::from_le_bytes(sector[8..12].try_into().expect("4 bytes"));
        if version != CHECKPOINT_VERSION {
            return Found::Version(version);
        }
        let uuid = |at: usize| Uuid::from_slice(&sector[at..at + 16]).expect("16 bytes");
        let word = |i: usize| {
            let at = 64 + i * 8;
            u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"))
        };
        Found::Whole(Self {
            pool: uuid(16),
            id: uuid(32),
            previous: uuid(48),
            number: word(0),
            stored: word(1),
            zero: word(2),
            pool_bytes: word(3),
            kept_pages: word(4),
            generation: word(5),
            commits: word(6),
            taken_at: word(7),
        })
    }

    /// Whether a file that begins with these bytes is one of checkpoints, cut off perhaps.
    pub fn begins_like_one(bytes: &[u8]) -> bool {
        let start = &bytes[..bytes.len().min(HEADER_MAGIC.len())];
        !start.is_empty() && HEADER_MAGIC.starts_with(start)
    }
}

fn sealed(mut sector: Sector) -> Sector {
    let crc = crc32c::crc32c(&sector[..SECTOR_CRC_AT]);
    sector[SECTOR_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    sector
}

fn is_sealed(sector: &Sector) -> bool {
    crc32c::crc32c(&sector[..SECTOR_CRC_AT]).to_le_bytes() == sector[SECTOR_CRC_AT..]
}

/// A page of the table: which, and what its bytes must sum to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub page: u64,
    /// The page is zero, and not stored.
    pub is_zero: bool,
    pub crc: u32,
}

/// The table, padded to whole sectors. Stored pages come first, in the order of their slots.
pub(super) fn table_to_bytes(entries: impl Iterator<Item = Entry>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let number = u32::try_from(entry.page).expect("pools have fewer pages than 2 to the 31");
        debug_assert!(number & ZERO_FLAG == 0);
        let flag = if entry.is_zero { ZERO_FLAG } else { 0 };
        bytes.extend((number | flag).to_le_bytes());
        bytes.extend(entry.crc.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// The entries of a table that was proven by its trailer.
pub(super) fn table_from_bytes(
    header: &SegmentHeader,
    bytes: &[u8],
) -> impl Iterator<Item = Entry> {
    let (entries, _) = bytes.as_chunks::<{ ENTRY_BYTES as usize }>();
    entries.iter().take(header.entries() as usize).map(|entry| {
        let [a, b, c, d, crc @ ..] = *entry;
        let number = u32::from_le_bytes([a, b, c, d]);
        Entry {
            page: u64::from(number & !ZERO_FLAG),
            is_zero: number & ZERO_FLAG != 0,
            crc: u32::from_le_bytes(crc),
        }
    })
}

/// The last sector of a segment.
pub(super) fn trailer(header: &Sector, id: Uuid, table: &[u8]) -> Sector {
    let mut sector = [0; SECTOR];
    sector[..8].copy_from_slice(TRAILER_MAGIC);
    sector[16..32].copy_from_slice(id.as_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(header), table);
    sector[32..36].copy_from_slice(&crc.to_le_bytes());
    sealed(sector)
}

/// The verdict of a trailer's sector on this segment.
pub(super) fn trailer_found(found: &Sector, id: Uuid) -> Found<u32> {
    if found.iter().all(|byte| *byte == 0) {
        return Found::Nothing;
    }
    let crc = u32::from_le_bytes(found[32..36].try_into().expect("4 bytes"));
    let is_ours =
        is_sealed(found) && &found[..8] == TRAILER_MAGIC && &found[16..32] == id.as_bytes();
    if is_ours { Found::Whole(crc) } else { Found::Damaged }
}

/// Whether the trailer's CRC is that of this header and table.
pub(super) fn is_proven(crc: u32, header: &Sector, table: &[u8]) -> bool {
    crc == crc32c::crc32c_append(crc32c::crc32c(header), table)
}

/// Whether all bytes of a page are zero.
pub(super) fn is_zero(page: &Page) -> bool {
    page.as_chunks::<8>().0.iter().all(|word| u64::from_le_bytes(*word) == 0)
}
