//! Where everything of a pool lies. `docs/format.md` draws it byte by byte.
//!
//! ```text
//! 0        header line pair: magic, version, UUID, geometry, CRC-32C   (written once)
//! 128      floor line: one sealed word
//! 192      root line:  one sealed word
//! 256      size line:  one sealed word, chunks of the heap
//! 320      zero up to 4096
//! 4096     lanes: for each a header line and a ring of log lines
//!          with a log of fences: from the next page on its head, from the one behind that its two halves
//! heap_at  chunks; the first of each zone is the directory of that zone
//! ```

use outlast_pmem::FENCE_LOG_BYTES_MIN;
use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset};

use crate::checksums::RunMatrices;

/// First eight bytes of every pool, stored last at creation (CREATE-1).
pub const MAGIC: u64 = u64::from_le_bytes(*b"OUTLAST\x01");

/// The format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 2;

/// Bytes of the header page.
pub const HEADER_PAGE_BYTES: u64 = 4096;

// Fields of the header.
pub(crate) const VERSION_AT: usize = 8;
pub(crate) const LANES_AT: usize = 12;
pub(crate) const UUID_AT: usize = 16;
pub(crate) const LANE_BYTES_AT: usize = 32;
pub(crate) const CHUNK_BYTES_AT: usize = 40;
pub(crate) const HEAP_AT_AT: usize = 48;
pub(crate) const FLAGS_AT: usize = 56;

/// Flag of the header: blocks lie in virtual matrices with checksums.
pub(crate) const FLAG_CHECKSUMS: u64 = 1;

/// Flag of the header: the checksums are of what literal variants believe to be written back.
pub(crate) const FLAG_LITERAL: u64 = 2;

/// Flag of the header: between lanes and heap lies a log of fences.
pub(crate) const FLAG_FENCE_LOG: u64 = 4;

/// Flag of the header: lanes say how much of their rings is in use.
pub(crate) const FLAG_SHORT_RINGS: u64 = 8;

/// Bytes of the header that its CRC covers; the CRC follows.
pub const HEADER_CRC_AT: usize = 120;

/// Bytes of the immutable header.
pub const HEADER_BYTES: usize = 128;

/// The sealed floor: redo records below it are dead, and its generation is the pool's.
pub const FLOOR_AT: PoolOffset = PoolOffset(128);

/// The sealed root: offset ÷ 16 in 48 bits, [`RootKind`](crate::RootKind) in the 8 above.
pub const ROOT_AT: PoolOffset = PoolOffset(192);

/// The sealed size: number of chunks of the heap.
pub const CHUNKS_AT: PoolOffset = PoolOffset(256);

/// Where the words that change end; from here to the end of the page all is zero.
pub const HEADER_ZERO_AT: u64 = 320;

/// In a lane's header line: the sealed ring position (in lines) where recovery starts to read.
pub const LANE_TAIL: u64 = 0;

/// In a lane's header line: the sealed sequence number up to which undo records are dead.
pub const LANE_FLOOR: u64 = 8;

/// In a lane's header line: the sealed floor of the pool as the lane saw it last. The floor never
/// falls below it.
pub const LANE_SEEN: u64 = 16;

/// In a lane's header line, where rings begin short: the sealed number of lines of the ring that are in use (RING-1).
/// Those behind hold nothing.
pub const LANE_LINES: u64 = 24;

/// In a log line: its tag, stored last.
pub const TAG_AT: u64 = 56;

/// The largest page that a rollback journal keeps whole.
pub const PAGE_BYTES_MAX: u64 = 4096;

/// Smallest lane, header line included.
pub const LANE_BYTES_MIN: u64 = 256;
/// Largest lane, header line included.
pub const LANE_BYTES_MAX: u64 = 1 << 30;

/// Lines of a short ring: with the lane's header line they fill four pages.
const RING_LINES_FIRST: u64 = 255;

/// Most lanes a pool can have.
pub const LANES_MAX: u32 = 1024;

/// Smallest chunk.
pub const CHUNK_BYTES_MIN: u64 = 4096;
/// Largest chunk.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// Largest pool: item headers name words by 40 bits.
pub const POOL_BYTES_MAX: u64 = 1 << 43;

const _: () = assert!(FLOOR_AT.0 as usize == HEADER_BYTES);
const _: () = assert!(HEADER_CRC_AT + 8 == HEADER_BYTES);
const _: () =
    assert!(HEADER_ZERO_AT == CHUNKS_AT.0 + LINE_BYTES && HEADER_ZERO_AT == 5 * LINE_BYTES);
// Chunks are whole pages, and the heap starts at one.
const _: () = assert!(CHUNK_BYTES_MIN.is_multiple_of(PAGE_BYTES_MAX));
// Words that belong to different protocols never share a line.
const _: () =
    assert!(FLOOR_AT.line().0 != ROOT_AT.line().0 && ROOT_AT.line().0 != CHUNKS_AT.line().0);

/// The immutable numbers of a pool, from which every place follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Geometry {
    /// Number of lanes.
    pub lanes: u32,
    /// Bytes of a lane: its header line and its ring.
    pub lane_bytes: u64,
    /// Bytes of a heap chunk, a power of two.
    pub chunk_bytes: u64,
    /// Where the heap starts, a multiple of `chunk_bytes`.
    pub heap_at: u64,
    /// Blocks lie in virtual matrices, between their checksums.
    pub checksums: bool,
    /// The checksums contain what literal variants believe to be written back, and nothing else.
    pub literal: bool,
    /// Between lanes and heap lies a log of fences.
    pub has_fence_log: bool,
    /// Of a lane's ring only a part is in use from the start; the rest takes no space in a file.
    pub has_short_rings: bool,
}

impl Geometry {
    /// The geometry of a pool with these parameters.
    ///
    /// # Panics
    /// When they are so far out of range that the heap would start past all offsets.
    pub fn new(lanes: u32, lane_bytes: u64, chunk_bytes: u64) -> Self {
        let lanes_end = HEADER_PAGE_BYTES + u64::from(lanes) * lane_bytes;
        let heap_at = lanes_end.next_multiple_of(chunk_bytes);
        Self {
            lanes,
            lane_bytes,
            chunk_bytes,
            heap_at,
            checksums: false,
            literal: false,
            has_fence_log: false,
            has_short_rings: false,
        }
    }

    /// The same with rings that begin short, if they are not short anyway.
    pub(crate) fn with_short_rings(self) -> Self {
        let short = Self { has_short_rings: true, ..self };
        if self.ring_lines() >= 32 { short } else { self }
    }

    /// The same with a log of fences of at least that many bytes; for none without one.
    pub(crate) fn with_fence_log(self, bytes: u64) -> Self {
        if bytes == 0 {
            return self;
        }
        let end = self.fence_log_at().0.saturating_add(PAGE_BYTES_MAX).saturating_add(bytes);
        let heap_at = end.checked_next_multiple_of(self.chunk_bytes).unwrap_or(u64::MAX);
        Self { heap_at, has_fence_log: true, ..self }
    }

    /// Where a log of fences has its head, if there is one: a sealed word, the number of the first entry that
    /// this opening has.
    pub(crate) fn fence_log_at(&self) -> PoolOffset {
        PoolOffset(self.lane_at(self.lanes as usize).0.next_multiple_of(PAGE_BYTES_MAX))
    }

    /// Bytes of the log of fences, its head included.
    pub fn fence_log_bytes(&self) -> u64 {
        if self.has_fence_log { self.heap_at - self.fence_log_at().0 } else { 0 }
    }

    /// The halves of the log of fences.
    pub(crate) fn fence_log_halves(&self) -> Option<ByteRange> {
        let at = self.fence_log_at().plus(PAGE_BYTES_MAX);
        self.has_fence_log.then(|| ByteRange::new(at, self.heap_at - at.0))
    }

    /// A heap has at least its directory and one chunk.
    pub fn min_len(&self) -> u64 {
        self.heap_at.saturating_add(2 * self.chunk_bytes)
    }

    /// Why these numbers cannot be a pool's, if they cannot.
    pub fn flaw(&self) -> Option<&'static str> {
        let Self { lanes, lane_bytes, chunk_bytes, heap_at, .. } = *self;
        Self::parameters_flaw(lanes, lane_bytes, chunk_bytes).or_else(|| {
            let before = self.fence_log_at().0 + PAGE_BYTES_MAX + FENCE_LOG_BYTES_MIN;
            let is_right = match self.has_fence_log {
                true => {
                    (before..POOL_BYTES_MAX).contains(&heap_at)
                        && heap_at.is_multiple_of(chunk_bytes)
                }
                false => heap_at == Self::new(lanes, lane_bytes, chunk_bytes).heap_at,
            };
            (!is_right).then_some("the heap does not start where the logs end")
        })
    }

    /// Why no pool has these parameters, if none has.
    pub fn parameters_flaw(lanes: u32, lane_bytes: u64, chunk_bytes: u64) -> Option<&'static str> {
        if !(1..=LANES_MAX).contains(&lanes) {
            Some("the number of lanes must be 1 to 1024")
        } else if !(LANE_BYTES_MIN..=LANE_BYTES_MAX).contains(&lane_bytes)
            || !lane_bytes.is_multiple_of(LINE_BYTES)
        {
            Some("a lane's log must be 256 bytes to 1 GiB, a multiple of 64 bytes")
        } else if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes)
            || !chunk_bytes.is_power_of_two()
        {
            Some("a chunk must be a power of two from 4 KiB to 1 MiB")
        } else {
            None
        }
    }

    /// The header line of a lane.
    pub fn lane_at(&self, lane: usize) -> PoolOffset {
        PoolOffset(HEADER_PAGE_BYTES + lane as u64 * self.lane_bytes)
    }

    /// The first ring line of a lane.
    pub fn ring_at(&self, lane: usize) -> PoolOffset {
        self.lane_at(lane).plus(LINE_BYTES)
    }

    /// Lines in a lane's ring.
    pub fn ring_lines(&self) -> u64 {
        self.lane_bytes / LINE_BYTES - 1
    }

    /// Lines of a ring that are in use from the start.
    pub(crate) fn ring_lines_first(&self) -> u64 {
        let all = self.ring_lines();
        if self.has_short_rings { RING_LINES_FIRST.min(all / 4).max(1) } else { all }
    }

    /// Bytes of a lane's ring from some line on.
    pub(crate) fn ring_behind(&self, lane: usize, line: u64) -> ByteRange {
        let at = self.ring_at(lane).plus(line * LINE_BYTES);
        ByteRange::new(at, self.lane_at(lane + 1).0 - at.0)
    }

    /// Chunks in a zone, its directory included: as many as the directory has words.
    pub fn zone_chunks(&self) -> u64 {
        self.chunk_bytes / 8
    }

    /// The largest block: what all of a zone's chunks but its directory hold.
    pub fn block_bytes_max(&self) -> u64 {
        self.run_bytes(self.zone_chunks() - 1)
    }

    /// The smallest chunks with which this pool would have blocks of `bytes` bytes.
    pub fn chunk_bytes_for(&self, bytes: u64) -> Option<u64> {
        let sizes = (0..).map(|doublings| CHUNK_BYTES_MIN << doublings);
        let mut sizes = sizes.take_while(|chunk_bytes| *chunk_bytes <= CHUNK_BYTES_MAX);
        sizes.find(|&chunk_bytes| Self { chunk_bytes, ..*self }.block_bytes_max() >= bytes)
    }

    /// Bytes of the block that takes a run of `chunks` chunks.
    pub fn run_bytes(&self, chunks: u64) -> u64 {
        match self.checksums {
            true => RunMatrices::within(chunks * self.chunk_bytes).data_bytes(),
            false => chunks * self.chunk_bytes,
        }
    }

    /// Chunks that a large block of `bytes` bytes takes.
    pub fn run_chunks(&self, bytes: u64) -> u64 {
        let mut chunks = bytes.div_ceil(self.chunk_bytes).max(1);
        // Checksums take less than a quarter, so this ends soon.
        while self.run_bytes(chunks) < bytes {
            let missing = bytes - self.run_bytes(chunks);
            chunks += missing.div_ceil(self.chunk_bytes).max(1);
        }
        // Longer runs have larger matrices, which hold more.
        while chunks > 1 && self.run_bytes(chunks - 1) >= bytes {
            chunks -= 1;
        }
        chunks
    }

    /// The chunk that an offset in the heap lies in.
    pub fn chunk_of(&self, at: PoolOffset) -> u64 {
        (at.0 - self.heap_at) / self.chunk_bytes
    }

    /// The first byte of a chunk.
    pub fn chunk_at(&self, chunk: u64) -> PoolOffset {
        PoolOffset(self.heap_at + chunk * self.chunk_bytes)
    }

    /// The directory word of a chunk.
    pub fn directory_at(&self, chunk: u64) -> PoolOffset {
        let zone = chunk / self.zone_chunks();
        self.chunk_at(zone * self.zone_chunks()).plus(chunk % self.zone_chunks() * 8)
    }

    /// Whether a chunk is its zone's directory.
    pub fn is_directory(&self, chunk: u64) -> bool {
        chunk.is_multiple_of(self.zone_chunks())
    }

    /// Whole chunks that a pool of `len` bytes has room for.
    pub fn chunks_in(&self, len: u64) -> u64 {
        len.saturating_sub(self.heap_at) / self.chunk_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::class::CLASS_BYTES;
    use crate::log::record::{CONTINUATION_WORDS, HEADER_WORDS, PAYLOAD_WORDS_MAX};
    use crate::log::streamed;
    use crate::sealed::PAYLOAD_BITS;
    use crate::seq::{GENERATION_LAST, Seq};

    /// `docs/format.md` behind this marker, up to the next empty line.
    fn documented(marker: &str) -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let text = std::fs::read_to_string(path).expect("the document of the format is there");
        let (_, behind) = text.split_once(marker).expect("the marker is there");
        let (_, behind) = behind.split_once('\n').expect("the marker has a line");
        behind.split("\n\n").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_heap_starts_where_the_logs_end() {
        let without = Geometry::new(2, 1024, 4096);
        let with = without.with_fence_log(8 << 10);
        assert!(without.flaw().is_none() && with.flaw().is_none());
        assert_eq!((without.fence_log_bytes(), with.fence_log_bytes()), (0, 12 << 10));
        assert_eq!(with.fence_log_halves().map(|halves| halves.len), Some(8 << 10));
        let at = |heap_at| Geometry { heap_at, ..with }.flaw();
        for wrong in [with.heap_at - 4096, with.heap_at + 8, POOL_BYTES_MAX, u64::MAX - 4095] {
            assert!(at(wrong).is_some(), "{wrong}");
        }
        assert!(at(with.heap_at + 4096).is_none(), "a longer one");
        assert_eq!(without.with_fence_log(u64::MAX).min_len(), u64::MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads a file")]
    fn the_documented_constants_are_the_codes() {
        let code: &[(&str, u64)] = &[
            ("LINE_BYTES", LINE_BYTES),
            ("MAGIC", MAGIC),
            ("FORMAT_VERSION", FORMAT_VERSION.into()),
            ("HEADER_PAGE_BYTES", HEADER_PAGE_BYTES),
            ("VERSION_AT", VERSION_AT as u64),
            ("LANES_AT", LANES_AT as u64),
            ("UUID_AT", UUID_AT as u64),
            ("LANE_BYTES_AT", LANE_BYTES_AT as u64),
            ("CHUNK_BYTES_AT", CHUNK_BYTES_AT as u64),
            ("HEAP_AT_AT", HEAP_AT_AT as u64),
            ("FLAGS_AT", FLAGS_AT as u64),
            ("HEADER_CRC_AT", HEADER_CRC_AT as u64),
            ("HEADER_BYTES", HEADER_BYTES as u64),
            ("FLOOR_AT", FLOOR_AT.0),
            ("ROOT_AT", ROOT_AT.0),
            ("CHUNKS_AT", CHUNKS_AT.0),
            ("HEADER_ZERO_AT", HEADER_ZERO_AT),
            ("LANE_TAIL", LANE_TAIL),
            ("LANE_FLOOR", LANE_FLOOR),
            ("LANE_SEEN", LANE_SEEN),
            ("LANE_LINES", LANE_LINES),
            ("PAGE_BYTES_MAX", PAGE_BYTES_MAX),
            ("LANE_BYTES_MIN", LANE_BYTES_MIN),
            ("LANE_BYTES_MAX", LANE_BYTES_MAX),
            ("LANES_MAX", LANES_MAX.into()),
            ("CHUNK_BYTES_MIN", CHUNK_BYTES_MIN),
            ("CHUNK_BYTES_MAX", CHUNK_BYTES_MAX),
            ("POOL_BYTES_MAX", POOL_BYTES_MAX),
            ("PAYLOAD_BITS", PAYLOAD_BITS.into()),
            ("COUNTER_MAX", Seq::COUNTER_MAX),
            ("GENERATION_LAST", GENERATION_LAST),
            ("TAG_AT", TAG_AT),
            ("BLANK", crate::log::BLANK),
            ("HEADER_WORDS", HEADER_WORDS as u64),
            ("CONTINUATION_WORDS", CONTINUATION_WORDS as u64),
            ("PAYLOAD_WORDS_MAX", PAYLOAD_WORDS_MAX as u64),
            ("STREAMED_HEADER_WORDS", streamed::words_in(1) as u64),
            ("STREAMED_TAGS", streamed::TAGS),
            ("STREAMED_LAPS", streamed::LAPS),
            ("CLASSES", CLASS_BYTES.len() as u64),
        ];
        let table = documented("<!-- constants:");
        let rows = table.lines().skip(2).map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let value = match cells[2].strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => cells[2].parse(),
            };
            (cells[1].trim_matches('`').to_owned(), value.expect(row))
        });
        let rows: Vec<(String, u64)> = rows.collect();
        let code: Vec<(String, u64)> = code.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        assert_eq!(rows, code);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads a file")]
    fn the_documented_classes_are_the_codes() {
        let text = documented("<!-- classes:");
        let (list, _) = text.split_once("<!-- end").expect("the list ends");
        let (_, list) = list.split_once(": ").expect("the list begins");
        let list = list.trim().trim_end_matches('.');
        let sizes: Vec<u32> = list.split(',').map(|n| n.trim().parse().expect(n)).collect();
        assert_eq!(sizes, CLASS_BYTES);
    }

    #[test]
    fn directories_sit_at_the_start_of_each_zone() {
        let g = Geometry::new(2, 4096, 4096);
        assert_eq!(g.heap_at, 4096 + 2 * 4096);
        assert_eq!(g.zone_chunks(), 512);
        assert_eq!(g.directory_at(1), PoolOffset(g.heap_at + 8));
        assert_eq!(g.directory_at(513), PoolOffset(g.chunk_at(512).0 + 8));
        assert!(g.is_directory(512) && !g.is_directory(513));
        assert_eq!(g.flaw(), None);
    }
}
