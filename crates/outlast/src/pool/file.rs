//! Pools in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use outlast_pmem::{Heap, MapError, MapOptions, Mapped, Medium, Overlay, read_beside};
use outlast_trace::PoolOffset;

use crate::error::PoolError;
use crate::layout::{HEADER_PAGE_BYTES, MAGIC};
use crate::pool::open::peek;
use crate::pool::{
    CreateOptions, Header, OpenOptions, Pool, PoolInfo, RecoveredPool, UnrecoveredPool, ring_in_use,
};
use crate::versions::{Versions, WritersPlace};

impl Pool {
    /// As [`PoolOptions::create`](crate::PoolOptions::create), of `len` bytes, with every setting of the
    /// [medium](crate::medium) and of the pool on it.
    ///
    /// # Errors
    /// As of `PoolOptions::create`.
    pub fn create_with(
        path: impl AsRef<Path>,
        len: u64,
        create: &CreateOptions,
        open: &OpenOptions,
        map: &MapOptions,
    ) -> Result<Self, PoolError> {
        let len = len
            .checked_next_multiple_of(outlast_pmem::PAGE_BYTES)
            .ok_or(PoolError::TooLarge { given: len })?;
        create.geometry_under(open.scheme, len)?;
        let medium = Mapped::create_hidden(&path, len, map, MAGIC.to_le_bytes())?;
        let mut pool = Self::create_on(medium, create, open)?;
        pool.medium().show()?;
        if map.alone {
            return Ok(pool);
        }
        // A new pool has no readers who would have to hear of this.
        pool.versions =
            Versions::open(&pool.medium, &pool.header, None).ok().flatten().map(Box::new);
        if let Some(versions) = &pool.versions {
            versions.start(pool.commits_later);
        }
        pool.publish();
        Ok(pool)
    }

    /// As [`PoolOptions::open`](crate::PoolOptions::open), with every setting of the [medium](crate::medium) and
    /// of the pool on it.
    ///
    /// # Errors
    /// [`PoolError`]; the file is as it was.
    pub fn open_with(
        path: impl AsRef<Path>,
        open: &OpenOptions,
        map: &MapOptions,
    ) -> Result<Self, PoolError> {
        let pool = UnrecoveredPool::open_file(path, map)?.recover()?.start(open)?;
        pool.publish();
        Ok(pool)
    }
}

impl PoolInfo {
    /// The facts of the header page of a pool's file, also while others have the pool open: nothing is
    /// mapped or locked. Of live records it says nothing.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn peek(path: impl AsRef<Path>) -> Result<Self, PoolError> {
        let path = path.as_ref();
        // The bytes behind the page tell damage of it from a creation that was cut short.
        let mut page = vec![0; 2 * HEADER_PAGE_BYTES as usize];
        let mut tries = 3;
        loop {
            let len = read_beside(path, &mut page)?;
            if len < HEADER_PAGE_BYTES {
                return Err(PoolError::NotAPool { path: Some(path.to_owned()) });
            }
            tries -= 1;
            match peek(&Heap::from_bytes(&page), len) {
                // The user of the pool may have stored a word while it was copied.
                Err(PoolError::Damaged { .. }) if tries > 0 => {}
                result => return result.map_err(|error| error.of_file(path)),
            }
        }
    }
}

impl UnrecoveredPool<Mapped> {
    /// As [`open`](Self::open), of the pool in a file.
    ///
    /// # Errors
    /// [`PoolError`]. What cannot be mapped and is no pool either is [`PoolError::NotAPool`].
    pub fn open_file(path: impl AsRef<Path>, map: &MapOptions) -> Result<Self, PoolError> {
        let path = path.as_ref();
        let is_alone = map.read_only || map.alone;
        let place = if is_alone { None } else { WritersPlace::of_path(path) };
        let pool = Self::open(Mapped::open_sparse(path, map).map_err(|error| match error {
            MapError::BadLength { .. } | MapError::PermissionDenied { .. } if is_no_pool(path) => {
                PoolError::NotAPool { path: Some(path.to_owned()) }
            }
            error => error.into(),
        })?)
        .map_err(|error| error.of_file(path))?;
        if !map.read_only {
            pool.allocate_all_in_use()?;
        }
        match is_alone {
            true => Ok(pool),
            false => Ok(pool.with_versions(|pool, header| Versions::open(pool, header, place))?),
        }
    }
}

impl UnrecoveredPool<Mapped> {
    /// Takes space for the holes of the file, but for those in parts of rings that are not in use (RING-1).
    fn allocate_all_in_use(&self) -> Result<(), MapError> {
        let (medium, geometry) = (self.medium(), &self.header().geometry);
        let mut from = PoolOffset(0);
        for lane in (0..geometry.lanes as usize).filter(|_| geometry.has_short_rings) {
            // A ring whose length is damaged is looked at as a whole.
            let lines = ring_in_use(medium, geometry, lane).map_or(0, |ring| ring.lines);
            let lines = if lines == 0 { geometry.ring_lines() } else { lines };
            let unused = geometry.ring_behind(lane, lines);
            medium.allocate(from, unused.at.0 - from.0)?;
            from = unused.end();
        }
        medium.allocate(from, medium.len() - from.0)
    }
}

/// Whether a file can be read and begins with something else than a pool.
fn is_no_pool(path: &Path) -> bool {
    let mut page = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(HEADER_PAGE_BYTES).read_to_end(&mut page));
    page.resize(HEADER_PAGE_BYTES as usize, 0);
    read.is_ok()
        && matches!(Header::read(&Heap::from_bytes(&page)), Err(PoolError::NotAPool { .. }))
}

impl RecoveredPool<Mapped> {
    /// Opens a pool for reading only, beside other readers. Nothing is stored, so a pool with
    /// work for recovery is refused.
    ///
    /// # Errors
    /// [`PoolError`]; [`PoolError::NeedsRecovery`] when it must be opened for writing first, or with
    /// [`open_overlaid`](RecoveredPool::open_overlaid).
    pub fn open_read_only(path: impl AsRef<Path>, map: &MapOptions) -> Result<Self, PoolError> {
        let map = MapOptions { read_only: true, ..map.clone() };
        UnrecoveredPool::open_file(path, &map)?.read_only()
    }
}

impl RecoveredPool<Overlay<Mapped>> {
    /// Opens a pool for reading only, beside other readers, as recovery would leave it. What recovery
    /// stores stays in volatile memory, page by page, so the file is as it was, and it may be one that
    /// the program cannot write.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn open_overlaid(path: impl AsRef<Path>, map: &MapOptions) -> Result<Self, PoolError> {
        let map = MapOptions { read_only: true, ..map.clone() };
        let medium = Overlay::new(UnrecoveredPool::open_file(path, &map)?.into_medium());
        Ok(UnrecoveredPool::open(medium)?.recover()?.into_read_only())
    }
}
