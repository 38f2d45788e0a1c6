//! New pools for servers.

use std::path::Path;

use outlast::medium::{CreateOptions, MapOptions, Medium, OpenOptions};
use outlast::{Pool, PoolError};

/// Pools from this size on get long logs.
const LONG_LOGS_FROM: u64 = 64 << 20;
/// The longest log of a lane.
const LANE_BYTES_MAX: u64 = 32 << 20;

/// Creates a pool that a server is to serve.
///
/// A server has one lane. Where a commit waits for a disk, the length of its log decides how often data
/// is written in place, and a whole round of the loop is one record of it. So such a pool has few lanes
/// with long logs. On memory a log that stays in the processor's cache is better.
///
/// # Errors
/// Those of [`Pool::create_with`].
pub fn create_pool(
    path: &Path,
    bytes: u64,
    open: &OpenOptions,
    map: &MapOptions,
) -> Result<Pool, PoolError> {
    let pool = Pool::create_with(path, bytes, &CreateOptions::default(), open, map)?;
    if !pool.medium().is_paged() || bytes < LONG_LOGS_FROM {
        return Ok(pool);
    }
    // Only now the domain is known, which the system has told.
    drop(pool);
    // If it cannot be removed, the second creation says that it is there.
    let _ = std::fs::remove_file(path);
    let lane_bytes = (bytes / 32).min(LANE_BYTES_MAX) & !4095;
    let create = CreateOptions { lanes: 2, lane_bytes, ..CreateOptions::default() };
    Pool::create_with(path, bytes, &create, open, map)
}
