//! The content of lanes before anything was logged: header lines that say so, and blank lines.

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::io::{Io, Site};
use crate::layout::{Geometry, HEADER_PAGE_BYTES, LANE_FLOOR, LANE_SEEN, LANE_TAIL};
use crate::log::BLANK;
use crate::sealed::seal_at;

/// Bytes that are stored at once.
const PIECE_BYTES: u64 = 4096;

/// The header line of a lane, at that place, whose ring is blank.
fn header_line(at: PoolOffset) -> [u64; 8] {
    let mut words = [0; 8];
    for word in [LANE_TAIL, LANE_FLOOR, LANE_SEEN] {
        words[(word / 8) as usize] = seal_at(0, at.plus(word));
    }
    words
}

/// Fills `out`, whole lines that begin at that place behind the header page, with what creation puts
/// there as far as the lanes go, and zeros behind them.
pub(crate) fn fill(geometry: &Geometry, at: PoolOffset, out: &mut [u8]) {
    let lanes_end = geometry.lane_at(geometry.lanes as usize);
    for (line, bytes) in (0..).zip(out.as_chunks_mut::<{ LINE_BYTES as usize }>().0) {
        let at = at.plus(line * LINE_BYTES);
        let words = if at.0 >= lanes_end.0 {
            [0; 8]
        } else if (at.0 - HEADER_PAGE_BYTES).is_multiple_of(geometry.lane_bytes) {
            header_line(at)
        } else {
            [BLANK; 8]
        };
        *bytes = bytemuck::cast(words.map(u64::to_le));
    }
}

/// Stores what creation puts into these bytes of the lanes, and starts their write-back.
pub(crate) fn store<M: Medium>(
    io: Io<'_, M>,
    site: Site,
    geometry: &Geometry,
    from: PoolOffset,
    to: PoolOffset,
) {
    let mut piece = [0u8; PIECE_BYTES as usize];
    let mut at = from;
    while at.0 < to.0 {
        let piece = &mut piece[..(to.0 - at.0).min(PIECE_BYTES) as usize];
        fill(geometry, at, piece);
        io.medium.store(at, piece);
        io.flush(site, at, piece.len() as u64);
        at = at.plus(piece.len() as u64);
    }
}
