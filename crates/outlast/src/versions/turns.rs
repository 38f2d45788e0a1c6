//! Several processes that write a pool, one at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlast_pmem::{MapError, Side, is_named};

use super::head::{Head, WRITER_PLACE};
use super::writer::milliseconds_now;
use crate::error::PoolError;
use crate::pool::{Pool, PoolInfo, PoolOptions};

/// How often a process that waits for a pool looks again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// How long its wish stands, if it does not renew it.
pub(super) const WISH: Duration = Duration::from_millis(200);

/// How long a process that has made way lets the others come first.
const MAKES_WAY: Duration = Duration::from_millis(3);

/// A pool that several processes write in turn: each has it open for as long as no other wants it.
///
/// A process that wants the pool waits until the one that has it ends a [`with`](Self::with). Handing over costs a closing and
/// an opening, which take milliseconds where the disk is slow.
///
/// ```
/// use std::time::Duration;
///
/// use outlast::{Pool, typed::PVec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.pool");
/// // Each process has such turns of its own.
/// let mut turns = Pool::options().wait(Duration::from_secs(10)).turns(&path);
/// let entries = turns.with(|pool| {
///     pool.typed(|pool| {
///         pool.lane()?.run(|tx| {
///             let log = tx.root_or_insert_with(PVec::<u64>::new)?.get(tx)?;
///             log.push(tx, 7)?;
///             log.len(tx)
///         }).map_err(Box::<dyn std::error::Error>::from)
///     })
/// })??;
/// assert_eq!(entries, 1);
/// # Ok(())
/// # }
/// ```
pub struct Turns {
    path: PathBuf,
    options: PoolOptions,
    pool: Option<Pool>,
    made_way: Option<Instant>,
}

impl Turns {
    pub(crate) fn new(path: &Path, options: PoolOptions) -> Self {
        Self { path: from_root(path), options, pool: None, made_way: None }
    }

    /// Calls `body` with the pool, which is opened or created first if this process does not have it, and closed
    /// behind it if another one waits.
    ///
    /// # Errors
    /// As of [`PoolOptions::open_or_create`]; [`MapError::AlreadyOpen`] when the others keep the pool for longer than
    /// [`PoolOptions::wait`] says.
    pub fn with<R>(&mut self, body: impl FnOnce(&Pool) -> R) -> Result<R, PoolError> {
        let pool = match self.pool.take() {
            Some(pool) => pool,
            None => {
                if let Some(at) = self.made_way.take() {
                    std::thread::sleep(MAKES_WAY.saturating_sub(at.elapsed()));
                }
                self.options.open_or_create(&self.path)?
            }
        };
        let result = body(&pool);
        if pool.is_wanted() {
            // What the body has done stays done, however this ends: the next opening recovers it.
            let _ = pool.try_close();
            self.made_way = Some(Instant::now());
        } else {
            self.pool = Some(pool);
        }
        Ok(result)
    }

    /// Closes the pool, if this process has it.
    ///
    /// # Errors
    /// As of [`Pool::try_close`](crate::Pool::try_close).
    pub fn close(&mut self) -> Result<(), PoolError> {
        self.pool.take().map_or(Ok(()), |pool| pool.try_close().map(drop))
    }
}

/// The path from the root on, for opening the file once more: the process may have gone to another folder by then.
pub(crate) fn from_root(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Calls `open` until it finds the pool free, or has waited for so long. Its writer sees that it is wanted.
pub(crate) fn wait_for<R>(
    path: &Path,
    wait: Duration,
    open: impl Fn() -> Result<R, PoolError>,
) -> Result<R, PoolError> {
    // None where it is beyond all that a clock shows.
    let deadline = Instant::now().checked_add(wait);
    let mut wished: Option<Instant> = None;
    loop {
        match open() {
            Err(PoolError::Map(MapError::AlreadyOpen { .. }))
                if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            result => return result,
        }
        if wished.is_none_or(|at| at.elapsed() > WISH / 4) {
            wish(path);
            wished = Some(Instant::now());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Tells the pool's writer that this process waits, where the two share memory.
fn wish(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let Some(side) = Side::of(&file).filter(|side| side.is_taken(WRITER_PLACE)) else { return };
    if let Ok(info) = PoolInfo::peek(path)
        && is_named(path, &file).unwrap_or(false)
    {
        let until = milliseconds_now() + WISH.as_millis() as u64;
        let _ = Head::open(&side, &info.header, |head| head.want_until(until));
    }
}
