//! The immutable header: written once at creation, proven by its CRC at every opening.

use outlast_pmem::{FENCE_LOG_BYTES_MIN, Medium};
use outlast_trace::PoolOffset;
use uuid::Uuid;

use crate::alloc::store_free_words;
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{
    CHUNK_BYTES_AT, CHUNKS_AT, FLAG_CHECKSUMS, FLAG_FENCE_LOG, FLAG_LITERAL, FLAG_SHORT_RINGS,
    FLAGS_AT, FLOOR_AT, FORMAT_VERSION, Geometry, HEADER_BYTES, HEADER_CRC_AT, HEADER_PAGE_BYTES,
    HEAP_AT_AT, LANE_BYTES_AT, LANE_FLOOR, LANE_SEEN, LANE_TAIL, LANES_AT, MAGIC, POOL_BYTES_MAX,
    ROOT_AT, UUID_AT, VERSION_AT,
};
use crate::log::BLANK;
use crate::plant::Plant;
use crate::pool::blank;
use crate::scheme::Scheme;
use crate::sealed::{seal_at, unseal_at};
use crate::seq::Seq;

/// The flags of a pool for published variants.
const FLAGS_LITERAL: u64 = FLAG_CHECKSUMS | FLAG_LITERAL;

/// The content of a pool's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Header {
    /// The format of everything behind it.
    pub version: u32,
    /// Who this pool is, wherever it is copied.
    pub uuid: Uuid,
    /// From which every place follows.
    pub geometry: Geometry,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(VERSION_AT, &self.version.to_le_bytes());
        put(LANES_AT, &self.geometry.lanes.to_le_bytes());
        put(UUID_AT, self.uuid.as_bytes());
        put(LANE_BYTES_AT, &self.geometry.lane_bytes.to_le_bytes());
        put(CHUNK_BYTES_AT, &self.geometry.chunk_bytes.to_le_bytes());
        put(HEAP_AT_AT, &self.geometry.heap_at.to_le_bytes());
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let flags = flag(self.geometry.checksums, FLAG_CHECKSUMS)
            | flag(self.geometry.literal, FLAG_LITERAL)
            | flag(self.geometry.has_fence_log, FLAG_FENCE_LOG)
            | flag(self.geometry.has_short_rings, FLAG_SHORT_RINGS);
        put(FLAGS_AT, &flags.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads and proves a header.
    pub(crate) fn read<M: Medium>(medium: &M) -> Result<Self, PoolError> {
        if medium.len() < HEADER_PAGE_BYTES {
            return Err(PoolError::NotAPool { path: None });
        }
        let mut bytes = [0; HEADER_BYTES];
        medium.load(PoolOffset(0), &mut bytes);
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let damaged = |what| PoolError::Damaged { at: PoolOffset(0), what };
        let crc_fits = u32_at(HEADER_CRC_AT) == crc32c::crc32c(&bytes[..HEADER_CRC_AT])
            && u32_at(HEADER_CRC_AT + 4) == 0;
        match u64_at(0) {
            MAGIC => {}
            0 if is_unfinished(medium, &bytes) => return Err(PoolError::Unfinished),
            // A pool whose header proves itself otherwise.
            _ if body_is_header(&bytes) => return Err(damaged("the header's magic")),
            0 if has_lanes(medium) => {
                return Err(damaged("the header is not there, and behind it there are lanes"));
            }
            _ => return Err(PoolError::NotAPool { path: None }),
        }
        let version = u32_at(VERSION_AT);
        if !crc_fits {
            return Err(damaged("the header fails its CRC"));
        }
        if version != FORMAT_VERSION {
            return Err(PoolError::Version { found: version, expected: FORMAT_VERSION });
        }
        let flags = u64_at(FLAGS_AT);
        let of_logs = FLAG_FENCE_LOG | FLAG_SHORT_RINGS;
        if !matches!(flags & !of_logs, 0 | FLAG_CHECKSUMS | FLAGS_LITERAL) {
            return Err(PoolError::Flags { found: flags });
        }
        if flags & FLAG_LITERAL != 0 && !cfg!(feature = "lab") {
            return Err(PoolError::NeedsLab { what: "the pool's checksums are" });
        }
        let geometry = Geometry {
            lanes: u32_at(LANES_AT),
            lane_bytes: u64_at(LANE_BYTES_AT),
            chunk_bytes: u64_at(CHUNK_BYTES_AT),
            heap_at: u64_at(HEAP_AT_AT),
            checksums: flags & FLAG_CHECKSUMS != 0,
            literal: flags & FLAG_LITERAL != 0,
            has_fence_log: flags & FLAG_FENCE_LOG != 0,
            has_short_rings: flags & FLAG_SHORT_RINGS != 0,
        };
        if let Some(flaw) = geometry.flaw() {
            return Err(damaged(flaw));
        }
        let uuid = Uuid::from_bytes(bytes[UUID_AT..UUID_AT + 16].try_into().expect("16 bytes"));
        Ok(Self { version, uuid, geometry })
    }
}

/// Whether creation may have left this (CREATE-1). The first two lines are stored in order before the magic,
/// and the cache writes back either, neither or both, in part: then everything behind the header page
/// is zero. Once they are whole, lanes and directories are stored, and nothing else.
fn is_unfinished<M: Medium>(medium: &M, bytes: &[u8; HEADER_BYTES]) -> bool {
    let is_zero = |from: usize, to: usize| bytes[from..to].iter().all(|byte| *byte == 0);
    let version = &bytes[VERSION_AT..VERSION_AT + 4];
    let begins = is_zero(VERSION_AT, HEADER_CRC_AT) || version == FORMAT_VERSION.to_le_bytes();
    let ends = is_zero(HEADER_CRC_AT, HEADER_BYTES) || is_zero(HEADER_CRC_AT + 4, HEADER_BYTES);
    if !(begins && is_zero(FLAGS_AT + 1, HEADER_CRC_AT) && ends) {
        return false;
    }
    if body_is_header(bytes) {
        // A lane sees a floor when the first recovery has fenced the magic (RECOVER-4).
        let seen_at = PoolOffset(HEADER_PAGE_BYTES + LANE_SEEN);
        let seen = if medium.len() < seen_at.0 + 8 { 0 } else { medium.load_u64(seen_at) };
        return seen == 0 || unseal_at(seen, seen_at) == Some(0);
    }
    const LOOKED_AT_MAX: u64 = 64 << 20;
    let words = (HEADER_PAGE_BYTES..medium.len().min(LOOKED_AT_MAX) & !7).step_by(8);
    words.map(PoolOffset).all(|word| medium.load_u64(word) == 0)
}

/// Whether what lies behind the header page is a pool's: the header line of its first lane, or a
/// blank line.
fn has_lanes<M: Medium>(medium: &M) -> bool {
    const LOOKED_AT_MAX: u64 = 1 << 20;
    let first = PoolOffset(HEADER_PAGE_BYTES);
    let is_blank =
        |line: PoolOffset| (0..8).all(|word| medium.load_u64(line.plus(8 * word)) == BLANK);
    let words = [LANE_TAIL, LANE_FLOOR, LANE_SEEN].map(|word| first.plus(word));
    let is_lane = || words.iter().all(|word| load_sealed(medium, *word, "").is_ok());
    let end = medium.len().min(LOOKED_AT_MAX) & !63;
    let mut lines = (first.0..end).step_by(64).map(PoolOffset);
    end > first.0 && (is_lane() || lines.any(is_blank))
}

/// Whether a file that begins with this page is a pool, damaged perhaps. Its magic, the rest of
/// its header, or both its floor and its size tell.
pub(crate) fn is_of_a_pool(page: &[u8; HEADER_PAGE_BYTES as usize]) -> bool {
    let word = |at: PoolOffset| {
        let bytes = page[at.0 as usize..][..8].try_into().expect("8 bytes");
        unseal_at(u64::from_le_bytes(bytes), at).filter(|payload| *payload != 0)
    };
    let header = page.first_chunk::<HEADER_BYTES>().expect("a page is longer");
    page[..8] == MAGIC.to_le_bytes()
        || body_is_header(header)
        || word(FLOOR_AT).is_some() && word(CHUNKS_AT).is_some_and(|chunks| chunks >= 2)
}

/// Whether the CRC fits once the magic is put in its place.
fn body_is_header(bytes: &[u8; HEADER_BYTES]) -> bool {
    let mut whole = *bytes;
    whole[..8].copy_from_slice(&MAGIC.to_le_bytes());
    let crc = crc32c::crc32c(&whole[..HEADER_CRC_AT]).to_le_bytes();
    bytes[HEADER_CRC_AT..HEADER_CRC_AT + 4] == crc
}

/// Parameters of a new pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Threads that can run transactions at the same time.
    pub lanes: u32,
    /// Bytes of log of each lane, a multiple of 64. Longer logs are swept less often. In the domain `page` a lane's log
    /// begins with 16 KiB and grows with its use up to this length.
    pub lane_bytes: u64,
    /// Bytes of a heap chunk, a power of two from 4 KiB to 1 MiB; `None` chooses by the pool's
    /// size. They limit blocks: the largest has `chunk_bytes`² ÷ 8 bytes less a chunk, which is all
    /// of a new pool up to 16 MiB, and 512 MiB in larger ones.
    pub chunk_bytes: Option<u64>,
    /// The pool's identity; `None` draws a random one.
    pub uuid: Option<Uuid>,
    /// Blocks lie in virtual matrices, whose checksums find and repair what media faults and stray
    /// stores do to them. Such a pool runs under schemes that write back by age. Without checksums
    /// nothing verifies loads: what a medium has changed is returned as if it had been stored.
    pub checksums: bool,
    /// Bytes of the log of fences, to which a fence in the domain `page` writes lines in place of pages; 0 for
    /// none, at least 8 KiB else. `None` takes a 64th of what lanes leave of a pool of 4 MiB or more, up to 4 MiB, where
    /// it is created in that domain.
    pub fence_log_bytes: Option<u64>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            lanes: 8,
            // Miri visits each line of them, at creation and at recovery.
            lane_bytes: if cfg!(miri) { 4 << 10 } else { 256 << 10 },
            chunk_bytes: None,
            uuid: None,
            checksums: false,
            fence_log_bytes: None,
        }
    }
}

impl CreateOptions {
    /// The geometry of a pool of `len` bytes, if one fits.
    pub fn geometry(&self, len: u64) -> Result<Geometry, PoolError> {
        let Self { lanes, lane_bytes, .. } = *self;
        let heap_bytes = len.saturating_sub(u64::from(lanes).saturating_mul(lane_bytes));
        let chunk_bytes = self.chunk_bytes.unwrap_or_else(|| chunk_bytes_for(len, heap_bytes));
        if let Some(flaw) = Geometry::parameters_flaw(lanes, lane_bytes, chunk_bytes) {
            return Err(PoolError::Parameters(flaw));
        }
        let checksums = self.checksums;
        let geometry = Geometry { checksums, ..Geometry::new(lanes, lane_bytes, chunk_bytes) };
        let fence_log_bytes = self.fence_log_bytes.unwrap_or(0);
        if (1..FENCE_LOG_BYTES_MIN).contains(&fence_log_bytes) {
            return Err(PoolError::Parameters("a log of fences must be 0 or at least 8192 bytes"));
        }
        let geometry = geometry.with_fence_log(fence_log_bytes);
        if len < geometry.min_len() {
            return Err(PoolError::TooSmall { given: len, least: geometry.min_len() });
        }
        if len > POOL_BYTES_MAX {
            return Err(PoolError::TooLarge { given: len });
        }
        Ok(geometry)
    }

    /// The same with a log of fences of the usual length, if none is asked for and there is room.
    fn with_usual_fence_log(self, len: u64) -> Self {
        const LEAST: u64 = 4 << 20;
        const MOST: u64 = 4 << 20;
        let lanes_bytes = u64::from(self.lanes).saturating_mul(self.lane_bytes);
        let of_heap = len.saturating_sub(lanes_bytes) / 64;
        let usual = if len < LEAST { 0 } else { of_heap.clamp(FENCE_LOG_BYTES_MIN, MOST) };
        let with = Self { fence_log_bytes: self.fence_log_bytes.or(Some(usual)), ..self };
        if with.geometry(len).is_ok() { with } else { self }
    }

    /// That of a pool created under a scheme: a published variant's keeps checksums of its own kind.
    pub(crate) fn geometry_under(
        &self,
        scheme: Option<Scheme>,
        len: u64,
    ) -> Result<Geometry, PoolError> {
        let literal = scheme.is_some_and(Scheme::is_published);
        let options = Self { checksums: self.checksums || literal, ..*self };
        Ok(Geometry { literal, ..options.geometry(len)? })
    }
}

/// A small pool has small chunks, or few blocks would use it up. A block is no longer than a zone,
/// so chunks are large enough that the first zone spans the heap.
fn chunk_bytes_for(pool_bytes: u64, heap_bytes: u64) -> u64 {
    let spans = |chunk_bytes: &u64| chunk_bytes / 8 * chunk_bytes >= heap_bytes;
    let mut small = [4 << 10, 8 << 10, 16 << 10].into_iter().filter(|_| pool_bytes < 16 << 20);
    small.find(spans).unwrap_or(64 << 10)
}

/// Makes a zeroed medium a pool, in three steps, each fenced before the next.
///
/// * **CREATE-1** The header's body comes first and the magic last: before the magic the medium is no pool,
///   after it a whole one. Behind a header without its magic there is nothing but what creation
///   puts there, and behind one whose body is not whole there are zeros.
/// * **CREATE-2** Blank lanes and free directory words come between the two: what was never written is not
///   believed.
pub(crate) fn format<M: Medium>(
    medium: &M,
    options: &CreateOptions,
    scheme: Option<Scheme>,
) -> Result<Header, PoolError> {
    let io = Io::new(medium);
    let options = match medium.is_paged() {
        true => options.with_usual_fence_log(medium.len()),
        false => *options,
    };
    let mut geometry = options.geometry_under(scheme, medium.len())?;
    if medium.is_paged() && !geometry.literal {
        geometry = geometry.with_short_rings();
    }
    let uuid = options.uuid.unwrap_or_else(Uuid::new_v4);
    let header = Header { version: FORMAT_VERSION, uuid, geometry };
    let bytes = header.to_bytes();
    if io.plants(Plant::MagicFirst) {
        medium.store_u64(PoolOffset(0), MAGIC);
    }
    medium.store(PoolOffset(8), &bytes[8..]);
    let chunks = geometry.chunks_in(medium.len());
    medium.store_u64(FLOOR_AT, seal_at(Seq::new(1, 1).bits(), FLOOR_AT));
    medium.store_u64(CHUNKS_AT, seal_at(chunks, CHUNKS_AT));
    medium.store_u64(ROOT_AT, seal_at(0, ROOT_AT));
    io.flush(Site::HeaderBody, PoolOffset(0), CHUNKS_AT.0 + 8);
    if !io.plants(Plant::MagicFirst) {
        io.fence(Site::HeaderBody);
    }
    for lane in 0..geometry.lanes as usize {
        let unused = geometry.ring_behind(lane, geometry.ring_lines_first());
        blank::store(io, Site::Blank, &geometry, geometry.lane_at(lane), unused.at);
        if unused.len > 0 {
            medium.release(unused.at, unused.len);
        }
    }
    if geometry.has_fence_log {
        let lanes_end = geometry.lane_at(geometry.lanes as usize);
        blank::store(io, Site::Blank, &geometry, lanes_end, PoolOffset(geometry.heap_at));
    }
    store_free_words(medium, &geometry, 0, chunks, |words| {
        io.flush(Site::Blank, words.at, words.len);
    });
    io.fence(Site::Blank);
    medium.store_u64(PoolOffset(0), MAGIC);
    // The fence is that of the first recovery (RECOVER-2), which follows before any caller gets the pool.
    io.flush(Site::HeaderMagic, PoolOffset(0), 8);
    Ok(header)
}

pub(crate) const LANE_SEEN_UNPROVEN: &str = "the floor that a lane saw does not prove itself";
pub(crate) const LANE_TAIL_UNPROVEN: &str = "a lane's tail does not prove itself";
pub(crate) const LANE_LINES_UNPROVEN: &str = "the length of a lane's ring does not prove itself";
pub(crate) const LANE_FLOOR_UNPROVEN: &str = "a lane's floor does not prove itself";

/// The payload of a sealed metadata word.
pub(crate) fn load_sealed<M: Medium>(
    medium: &M,
    at: PoolOffset,
    what: &'static str,
) -> Result<u64, PoolError> {
    unseal_at(medium.load_u64(at), at).ok_or(PoolError::Damaged { at, what })
}
