//! One crash, told: see [`outlast_check::explain`]. [`Scope::explain`](crate::runtime::scopes::Scope::explain)
//! makes it of the runtime, [`Campaign::explain`](crate::machine::Campaign::explain) of the timed
//! machine, and [`published`] says which flaws of papers can be shown.

#[cfg(feature = "machine")]
pub mod published;

use outlast::PoolOffset;
use outlast::inspect::Geometry;
pub use outlast_check::explain::*;

/// The object at an offset of a pool, as far as its geometry tells.
pub(crate) fn place_in(geometry: Option<&Geometry>, at: PoolOffset) -> String {
    let Some(geometry) = geometry.filter(|geometry| at.0 >= geometry.lane_at(0).0) else {
        return match geometry {
            Some(_) => format!("pool header, line {}", at.0 / 64),
            None => format!("offset {:#x}", at.0),
        };
    };
    if at.0 < geometry.lane_at(geometry.lanes as usize).0 {
        let in_lanes = at.0 - geometry.lane_at(0).0;
        let (lane, rest) = (in_lanes / geometry.lane_bytes, in_lanes % geometry.lane_bytes);
        return match rest / 64 {
            0 => format!("head of lane {lane}'s log"),
            line => format!("log of lane {lane}, line {line}"),
        };
    }
    if at.0 < geometry.heap_at {
        return format!("offset {:#x}", at.0);
    }
    let chunk = geometry.chunk_of(at);
    let line = (at.0 - geometry.chunk_at(chunk).0) / 64;
    match geometry.is_directory(chunk) {
        true => format!("heap directory, line {line}"),
        false => format!("heap chunk {chunk}, line {line}"),
    }
}
