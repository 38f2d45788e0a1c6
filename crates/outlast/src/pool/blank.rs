//! The content of logs before anything was logged: header lines that say so, and blank lines.

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::io::{Io, Site};
use crate::layout::{Geometry, HEADER_PAGE_BYTES, LANE_FLOOR, LANE_LINES, LANE_SEEN, LANE_TAIL};
use crate::log::BLANK;
use crate::pool::fences;
use crate::sealed::seal_at;

/// The number with which a new log of fences begins.
const FIRST_FENCE: u64 = 1;

/// Bytes that are stored at once.
const PIECE_BYTES: u64 = 4096;

/// The header line of a lane, at that place, whose ring is blank.
fn header_line(geometry: &Geometry, at: PoolOffset) -> [u64; 8] {
    let mut words = [0; 8];
    for word in [LANE_TAIL, LANE_FLOOR, LANE_SEEN] {
        words[(word / 8) as usize] = seal_at(0, at.plus(word));
    }
    if geometry.has_short_rings {
        let lines = geometry.ring_lines_first();
        words[(LANE_LINES / 8) as usize] = seal_at(lines, at.plus(LANE_LINES));
    }
    words
}

/// A line of the log of fences; zeros where there is none.
fn behind_lanes(geometry: &Geometry, at: PoolOffset) -> [u64; 8] {
    match geometry.has_fence_log {
        true if at == geometry.fence_log_at() || at == fences::copy_at(geometry) => {
            [seal_at(FIRST_FENCE, at), 0, 0, 0, 0, 0, 0, 0]
        }
        true if (geometry.fence_log_at().0..geometry.heap_at).contains(&at.0) => [BLANK; 8],
        _ => [0; 8],
    }
}

/// Fills `out`, whole lines that begin at that place behind the header page, with what creation puts
/// there as far as the logs go, and zeros behind them.
pub(crate) fn fill(geometry: &Geometry, at: PoolOffset, out: &mut [u8]) {
    let lanes_end = geometry.lane_at(geometry.lanes as usize);
    for (line, bytes) in (0..).zip(out.as_chunks_mut::<{ LINE_BYTES as usize }>().0) {
        let at = at.plus(line * LINE_BYTES);
        let line_of_lane = (at.0 - HEADER_PAGE_BYTES) % geometry.lane_bytes / LINE_BYTES;
        let words = if at.0 >= lanes_end.0 {
            behind_lanes(geometry, at)
        } else if line_of_lane == 0 {
            header_line(geometry, at)
        } else if line_of_lane <= geometry.ring_lines_first() {
            [BLANK; 8]
        } else {
            [0; 8]
        };
        *bytes = bytemuck::cast(words.map(u64::to_le));
    }
}

/// Stores what creation puts into these bytes of the logs, and starts their write-back.
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
