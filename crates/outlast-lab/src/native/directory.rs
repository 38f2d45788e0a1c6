//! The directory that pools are made in, and the pools.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{Pool, PoolError, Runner};
use outlast_peers::{Granularity, Pmdk, PmdkPool};
use outlast_pmem::{Backing, Domain, MapOptions, Mapped, Medium, PAGE_BYTES};
use outlast_workloads::Loaded;

use super::lane_runner::{self, LaneRunner};
use super::scratch::ScratchDirectory;
use super::{BareLog, Contender, NativeError, Own, Session, Setup, Usage, Wrap, bare};
use crate::bench::Lane;

/// Where pools are made unless a caller names another place: memory, if there is a file system on
/// it, else where temporary files go.
pub fn default_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A directory of its own, removed with everything in it when dropped.
pub(crate) struct PoolDirectory {
    directory: ScratchDirectory,
    domain: Domain,
    description: String,
    /// Files made so far: pools of one scheme follow each other.
    files: AtomicU64,
}

impl PoolDirectory {
    pub fn new(setup: &Setup) -> Result<Self, NativeError> {
        let path = &setup.directory;
        let failed = |source| NativeError::Directory { path: path.clone(), source };
        let directory = ScratchDirectory::new_in(path).map_err(failed)?;
        let probe = directory.path().join("probe");
        let map = MapOptions { domain: setup.domain, ..MapOptions::default() };
        let detection = Mapped::create(&probe, PAGE_BYTES, &map)?.detection().clone();
        let domain = setup.domain.unwrap_or(match detection.backing {
            Backing::Dram => Domain::Adr,
            _ => detection.domain,
        });
        let description = detection.describe(domain);
        Ok(Self { directory, domain, description, files: AtomicU64::new(0) })
    }

    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The domain, what emulates it, and why.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The domain and what emulates it.
    pub fn short_description(&self) -> &str {
        self.description.split(" (").next().unwrap_or(&self.description)
    }

    /// A mapped file of zeros, all pages there.
    pub fn mapped(&self, name: &str, bytes: u64) -> Result<Mapped, NativeError> {
        let path = self.path(name);
        let map = MapOptions { domain: Some(self.domain), prefault: true, ..MapOptions::default() };
        let medium = Mapped::create(&path, bytes.next_multiple_of(PAGE_BYTES), &map)?;
        self.forget_file(&path);
        Ok(medium)
    }

    /// A name that no file here has.
    pub fn path(&self, name: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{name}-{number}"))
    }

    /// What is mapped needs no name: without one its space is free again as soon as it is closed,
    /// and not even a killed process leaves it behind.
    fn forget_file(&self, path: &Path) {
        // Where this is refused the directory's removal sees to it.
        let _ = std::fs::remove_file(path);
    }

    /// A pool with the workload loaded and this many lanes.
    pub fn pool<M: Medium>(
        &self,
        session: &Session<'_>,
        own: Own,
        lanes: u32,
        wrap: Wrap<'_, M>,
    ) -> Result<LoadedPool<M>, NativeError> {
        let (scheme, checksums) = (own.scheme, own.usage == Usage::Summed);
        let heap_bytes = session.workload.heap_bytes(&session.scale);
        let mut create = CreateOptions { lanes, checksums, ..CreateOptions::default() };
        let mut cache_bytes = None;
        if own.usage == Usage::Unswept {
            create.lane_bytes = unswept_bytes(session.setup, heap_bytes);
            // Nothing ages either.
            cache_bytes = Some(NO_CACHE_BYTES);
        }
        // A quarter of each page, and what blocks do not fill.
        let has_checksums = checksums || scheme.is_published();
        let heap_bytes = if has_checksums { heap_bytes * 2 } else { heap_bytes };
        let bytes = room(heap_bytes) + u64::from(lanes) * create.lane_bytes;
        let open = OpenOptions {
            grow_limit_bytes: bytes.saturating_mul(4),
            cache_bytes,
            stream_from: own.stream_from(),
            lock_always: own.usage == Usage::Locking,
            ..OpenOptions::with_scheme(scheme)
        };
        let failed = |source| NativeError::Pool { scheme: own.name(), source };
        let medium = wrap(self.mapped(own.name(), bytes)?);
        let pool = Pool::create_on(medium, &create, &open).map_err(failed)?;
        let loaded = {
            let mut lane = pool.lane().map_err(failed)?;
            load(session, own.name(), &mut lane)?
        };
        Ok(LoadedPool { pool, loaded, own })
    }

    /// A peer's name and its lane, ready to run.
    pub fn peer(
        &self,
        session: &Session<'_>,
        pmdk: Pmdk,
        granularity: Granularity,
    ) -> Result<(&'static str, Box<dyn Lane>), NativeError> {
        let scheme = Contender::Pmdk(granularity).name();
        let path = self.path(scheme);
        let bytes = room(session.workload.heap_bytes(&session.scale));
        let mut pool = PmdkPool::create(pmdk, &path, bytes, granularity)?;
        self.forget_file(&path);
        let loaded = load(session, scheme, &mut pool)?;
        let worker = session.workload.worker(&session.scale, &loaded, session.setup.seed, 1, 0);
        Ok((scheme, Box::new(LaneRunner { runner: pool, worker })))
    }

    /// A bare loop's name and its lane, ready to run.
    pub fn bare<M: Medium + Send + 'static>(
        &self,
        session: &Session<'_>,
        log: BareLog,
        wrap: Wrap<'_, M>,
    ) -> Result<(&'static str, Box<dyn Lane>), NativeError> {
        let bytes = bare::bytes(&session.scale);
        let name = Contender::Bare(log).name();
        let medium = wrap(self.mapped(name, bytes)?);
        let Session { workload, scale, setup, .. } = session;
        let lane = bare::lane(medium, log, workload, scale, setup.seed);
        Ok((name, lane))
    }
}

/// Bytes of a pool for `heap_bytes` of blocks: a quarter more, since libpmemobj's chunks and ours
/// fill unevenly, and room for metadata.
pub(super) fn room(heap_bytes: u64) -> u64 {
    heap_bytes + heap_bytes / 4 + (24 << 20)
}

/// The log of a lane none of which is used again: twice what is loaded and what is logged while it is
/// measured, since half of a ring is left alone.
fn unswept_bytes(setup: &Setup, heap_bytes: u64) -> u64 {
    /// No transaction logs more than a byte in a nanosecond.
    const BYTES_PER_NS: u64 = 1;
    const TRANSACTION_BYTES: u64 = 1 << 10;
    const LOG_BYTES_MAX: u64 = 1 << 30;
    let turns = u64::from(setup.rounds) + 2;
    let timed = setup.turn.as_nanos() as u64 * turns * BYTES_PER_NS;
    let bytes = 2 * (heap_bytes + setup.latency_transactions * TRANSACTION_BYTES) + timed;
    (bytes + (1 << 20)).next_multiple_of(PAGE_BYTES).min(LOG_BYTES_MAX)
}

/// A cache that nothing leaves.
const NO_CACHE_BYTES: u64 = 1 << 50;

fn load<R: Runner>(
    session: &Session<'_>,
    scheme: &'static str,
    runner: &mut R,
) -> Result<Loaded, NativeError> {
    let Session { workload, scale, setup, .. } = session;
    workload
        .load(scale, setup.seed, runner, &mut |_, _| {})
        .map_err(|abort| NativeError::Transaction { scheme, workload: workload.name, abort })
}

/// A pool of ours with a workload in it.
pub(crate) struct LoadedPool<M: Medium> {
    pub pool: Pool<M>,
    pub loaded: Loaded,
    pub own: Own,
}

impl<M: Medium + Send + Sync> LoadedPool<M> {
    /// One lane per thread. Subjects that share a pool differ in `group`.
    pub fn lanes(
        &self,
        session: &Session<'_>,
        group: u32,
    ) -> Result<Vec<Box<dyn Lane + '_>>, NativeError> {
        let threads = session.setup.threads;
        let lane_runner = |thread: u32| {
            let id = (group * threads + thread + 1) as u8;
            let Session { workload, scale, setup, .. } = session;
            let worker = workload.worker(scale, &self.loaded, setup.seed, id, 0);
            Ok(lane_runner::lane_runner(self.lane()?, setup.ack, self.own.sync_every(), worker))
        };
        (0..threads).map(lane_runner).collect()
    }

    /// A free lane.
    pub fn lane(&self) -> Result<outlast::Lane<'_, M>, NativeError> {
        let failed = |source: PoolError| NativeError::Pool { scheme: self.own.name(), source };
        self.pool.lane().map_err(failed)
    }
}
