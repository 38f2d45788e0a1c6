//! From a medium to a running pool: proof, recovery, start.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use outlast_pmem::{MapError, Mapped, Medium};
use outlast_trace::PoolOffset;

use crate::ack::Ack;
use crate::alloc::Heap;
use crate::bias::Bias;
use crate::checkpoint::Checkpointer;
use crate::checksums::Matrices;
use crate::error::PoolError;
use crate::events::event;
use crate::gate::Gate;
use crate::io::Io;
use crate::layout::{CHUNKS_AT, FLOOR_AT, Geometry, PAGE_BYTES_MAX, POOL_BYTES_MAX, ROOT_AT};
use crate::lock::LockTable;
use crate::padded::CachePadded;
use crate::pool::Findings;
use crate::pool::fences::{self, Fences};
use crate::pool::handoff::Handoff;
use crate::pool::queue::LaneQueue;
use crate::pool::ring::{self, Rings, ring_in_use};
use crate::pool::{Header, LaneSlot, Pool, load_sealed};
use crate::recover::{LiveLog, RecoveryReport};
use crate::scheme::{Facts, Reading, Role, Scheme, under, undo};
use crate::sealed::unseal_at;
use crate::seq::Seq;
use crate::solo::Solo;
use crate::spin::SpinLock;
use crate::transact::RootKind;
use crate::versions::Versions;
use crate::writeback::{Plan, Sweeper};

/// How long a thread waits for a lane by default: many times what the slowest disk takes for a
/// transaction.
const LANE_WAIT: Duration = Duration::from_secs(5);

/// How to run a pool.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// How transactions are made durable. `None` takes what suits the pool, whatever it was created
    /// with: one that keeps its checksums, if it has any, else `usual_scheme`.
    pub scheme: Option<Scheme>,
    /// The scheme of a pool that asks for none.
    pub usual_scheme: Scheme,
    /// Stripes of the lock table: more of them, fewer false conflicts, more volatile memory
    /// (8 bytes each, taken where
    /// something is locked).
    pub lock_stripes: usize,
    /// Lock also while only one lane is taken. Without it such a lane takes no locks, and undo
    /// commits with one fence less; the first transaction of a second lane ends that. Under redo
    /// logging it goes on, page by page, where no other lane comes. A lane that wants such a page
    /// waits until the closure ends that is running on the lane that has it.
    pub lock_always: bool,
    /// The pool grows by itself up to this many bytes; 0 for never.
    pub grow_limit_bytes: u64,
    /// Write-back by age: the capacity of the cache to reckon with, in bytes. `None` is the last
    /// level of this machine's, as far as it tells.
    pub cache_bytes: Option<u64>,
    /// Write-back by age: of the memory that transactions touch, one part in 2 to the power of this
    /// many goes through the LRU queue. With 0 every line does.
    pub sample_bits: u32,
    /// Write-back by age: a lane looks after it when it has read or logged so often. By segment: when
    /// it has used this many lines of its log, or 8 if that is less.
    pub step_every: usize,
    /// Where the log is streamed: records of at least this many lines go past the caches, shorter ones
    /// are stored and flushed. `None` is what costs less on this medium, which is tried when the
    /// pool is opened; 1 streams everything.
    pub stream_from: Option<u64>,
    /// The rollback journal: bytes of a page, a power of two from 64 to 4096.
    pub page_bytes: u64,
    /// How long [`Pool::lane`] waits for a lane when all are taken.
    pub lane_wait: Duration,
    /// When a commit is acknowledged.
    pub ack: Ack,
    /// Published variants: how the paper is read where it leaves a choice.
    pub reading: Reading,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            scheme: None,
            usual_scheme: Scheme::default(),
            // Miri visits each whenever their slice is borrowed.
            lock_stripes: if cfg!(miri) { 1 << 10 } else { 1 << 20 },
            lock_always: false,
            grow_limit_bytes: 0,
            cache_bytes: None,
            sample_bits: 8,
            step_every: 64,
            stream_from: None,
            page_bytes: PAGE_BYTES_MAX,
            lane_wait: LANE_WAIT,
            ack: Ack::default(),
            reading: Reading::default(),
        }
    }
}

impl OpenOptions {
    /// The defaults with that scheme.
    pub fn with_scheme(scheme: Scheme) -> Self {
        Self { scheme: Some(scheme), ..Self::default() }
    }

    /// The scheme for a pool of this geometry.
    pub(crate) fn scheme_for(&self, geometry: &Geometry) -> Scheme {
        self.scheme.unwrap_or_else(|| Scheme::usual(geometry, self.usual_scheme))
    }
}

/// The facts that `outlast pool info` shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolInfo {
    /// Identity and geometry.
    pub header: Header,
    /// Bytes of the medium.
    pub len: u64,
    /// Chunks of the heap, directories included.
    pub chunks: u64,
    /// How often it was opened for writing, modulo 4094.
    pub generation: u64,
    /// The root object.
    pub root: Option<(PoolOffset, RootKind)>,
    /// Log records that the next recovery will apply, and lines that the log of fences has newer;
    /// `None` where the log was not read, since a user of the pool writes to it.
    pub live_records: Option<usize>,
}

/// A pool whose header proves itself. Its data may be in the middle of anything.
pub struct UnrecoveredPool<M: Medium = Mapped> {
    medium: M,
    header: Header,
    chunks: u64,
    fences: Fences,
    versions: Option<Box<Versions<M>>>,
}

impl<M: Medium> UnrecoveredPool<M> {
    /// Proves the header, the size and the root. Nothing is stored.
    pub fn open(medium: M) -> Result<Self, PoolError> {
        let fences = Fences::read(&medium, &Header::read(&medium)?)?;
        let (header, chunks) = match fences.newer() {
            0 => prove_all(&medium)?,
            _ => prove_all(&fences.view(&medium))?,
        };
        Ok(Self { medium, header, chunks, fences, versions: None })
    }

    /// The facts about the pool that are known without changing it.
    pub fn info(&self) -> Result<PoolInfo, PoolError> {
        let geometry = &self.header.geometry;
        let mut info = match self.fences.newer() {
            0 => info_of(&self.medium, geometry)?,
            _ => info_of(&self.fences.view(&self.medium), geometry)?,
        };
        info.live_records = info.live_records.map(|records| records + self.fences.newer());
        Ok(info)
    }

    /// Bytes of the log records that recovery would apply, without their heads, and bytes of the log of fences
    /// whose lines it would put back. Both are 0 for a pool that was closed.
    ///
    /// # Errors
    /// [`PoolError`] where a log is damaged.
    pub fn log_used_bytes(&self) -> Result<(u64, u64), PoolError> {
        let geometry = &self.header.geometry;
        let log = match self.fences.newer() {
            0 => LiveLog::read(Io::new(&self.medium), geometry)?,
            _ => LiveLog::read(Io::new(&self.fences.view(&self.medium)), geometry)?,
        };
        Ok((log.bytes(), self.fences.used_bytes()))
    }

    /// Damage of the log of fences by which nothing is lost: opening the pool for writing mends it.
    pub fn harmless_damage(&self) -> Findings {
        let mut findings = Findings::default();
        fences::harmless_findings(
            &self.medium,
            &self.header.geometry,
            self.fences.corrected(),
            |finding| findings.push(finding),
        );
        findings
    }

    /// The medium, as it was given.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// The memory underneath, to read.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Other processes that read the pool are told of what changes from here on.
    pub(super) fn with_versions(
        mut self,
        of: impl FnOnce(&M, &Header) -> Result<Option<Versions<M>>, MapError>,
    ) -> Result<Self, MapError> {
        self.versions = of(&self.medium, &self.header)?.map(Box::new);
        Ok(self)
    }

    /// Brings the data to the state of the last acknowledged transactions, durably.
    ///
    /// # Errors
    /// [`PoolError`]; [`PoolError::Forked`] in a forked child of the process that opened the medium.
    pub fn recover(self) -> Result<RecoveredPool<M>, PoolError> {
        if self.medium.is_forked() {
            return Err(PoolError::Forked);
        }
        let began = (!M::OBSERVED).then(Instant::now);
        let io = Io::new(&self.medium);
        self.fences.put_back(io, &self.header)?;
        ring::allocate(&self.medium, &self.header.geometry)?;
        let log = LiveLog::read(io, &self.header.geometry)?;
        let (generation, report) = log.apply(io, &self.header.geometry)?;
        let mut pool = RecoveredPool {
            medium: self.medium,
            header: self.header,
            chunks: self.chunks,
            generation,
            report,
            recovery_time: Duration::ZERO,
            corrected: Vec::new(),
            corrected_fence: None,
            read_only: false,
            is_beside_writer: false,
            versions: self.versions,
        };
        #[cfg(feature = "lab")]
        if pool.header.geometry.literal {
            pool.corrected = pool.restore_believed()?;
            pool.report.corrected = pool.corrected.len();
        }
        pool.recovery_time = began.map_or(Duration::ZERO, |began| began.elapsed());
        pool.tell_recovered();
        // None of it counts before all of it is durable.
        match pool.medium.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(pool),
        }
    }

    /// For reading only: succeeds when there is nothing to recover, and stores nothing.
    pub fn read_only(self) -> Result<RecoveredPool<M>, PoolError> {
        let records = self.info()?.live_records.unwrap_or(0);
        if records > 0 {
            return Err(PoolError::NeedsRecovery { records });
        }
        let floor = read_floor(&self.medium)?;
        Ok(RecoveredPool {
            medium: self.medium,
            header: self.header,
            chunks: self.chunks,
            generation: floor.generation(),
            report: RecoveryReport::default(),
            recovery_time: Duration::ZERO,
            corrected: Vec::new(),
            corrected_fence: self.fences.corrected(),
            read_only: true,
            is_beside_writer: false,
            versions: None,
        })
    }
}

/// A pool with consistent data and an empty log.
pub struct RecoveredPool<M: Medium = Mapped> {
    medium: M,
    header: Header,
    chunks: u64,
    generation: u64,
    report: RecoveryReport,
    /// How long that took; 0 on a medium that observes, which has no clock.
    recovery_time: Duration,
    /// Published variants: the lines that checksums have changed.
    corrected: Vec<PoolOffset>,
    /// A byte of the log of fences that has a flipped bit, where recovery was not run and has not ended that log.
    corrected_fence: Option<PoolOffset>,
    /// Recovery was not run, so the generation is not this opening's own; or not on the medium itself.
    read_only: bool,
    /// A snapshot beside a writer, whose logs change meanwhile.
    is_beside_writer: bool,
    versions: Option<Box<Versions<M>>>,
}

impl<M: Medium> fmt::Debug for UnrecoveredPool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnrecoveredPool").field("uuid", &self.header.uuid).finish_non_exhaustive()
    }
}

impl<M: Medium> fmt::Debug for RecoveredPool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pool = f.debug_struct("RecoveredPool");
        pool.field("uuid", &self.header.uuid).field("report", &self.report).finish_non_exhaustive()
    }
}

impl<M: Medium> RecoveredPool<M> {
    /// Recovery's findings and repairs.
    pub fn report(&self) -> RecoveryReport {
        self.report
    }

    /// Published variants: the lines that recovery changed because checksums said so.
    pub fn corrected_lines(&self) -> &[PoolOffset] {
        &self.corrected
    }

    fn tell_recovered(&self) {
        #[cfg(feature = "tracing")]
        {
            let RecoveryReport { undone, replayed, corrected } = self.report;
            let micros = self.recovery_time.as_micros() as u64;
            let fields = (undone as u64, replayed as u64, corrected as u64);
            let (undone, replayed, corrected) = fields;
            match undone + replayed + corrected {
                0 => event!(
                    INFO,
                    "recovered",
                    undone = 0u64,
                    replayed = 0u64,
                    corrected = 0u64,
                    micros = micros
                ),
                _ => event!(
                    WARN,
                    "recovered",
                    undone = undone,
                    replayed = replayed,
                    corrected = corrected,
                    micros = micros
                ),
            }
        }
    }

    pub(crate) fn corrected_fence(&self) -> Option<PoolOffset> {
        self.corrected_fence
    }

    /// Nothing that it would store from here on would last.
    pub(super) fn into_read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// The same, recovered in memory only: the pool has still that generation.
    pub(crate) fn into_read_only_of(self, generation: u64) -> Self {
        Self { read_only: true, generation, ..self }
    }

    /// A snapshot beside a writer: all that was committed is in place, and logs are the writer's.
    pub(crate) fn of_snapshot(medium: M) -> Result<Self, PoolError> {
        // Chunks behind the size are a growth that goes on.
        let (header, chunks) = prove(&medium, medium.len())?;
        let generation = read_generation(&medium)?;
        Ok(Self {
            medium,
            header,
            chunks,
            generation,
            report: RecoveryReport::default(),
            corrected: Vec::new(),
            corrected_fence: None,
            read_only: true,
            is_beside_writer: true,
            versions: None,
            recovery_time: Duration::ZERO,
        })
    }

    /// Whether logs, and checksums, are a writer's that goes on.
    pub(crate) fn is_beside_writer(&self) -> bool {
        self.is_beside_writer
    }

    /// How often the pool was opened for writing, modulo 4094.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Who the pool is and how it is laid out.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The memory underneath, to read.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The medium, with everything recovered.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// Chunks of the heap, directories included.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The root object.
    pub fn root(&self) -> Result<Option<(PoolOffset, RootKind)>, PoolError> {
        read_root(&self.medium)
    }

    /// Whether each word of a record in the rings proves itself. That of a redo log does so also where the
    /// medium tears lines.
    fn streams_log(&self, facts: &Facts) -> bool {
        facts.covers || self.medium.is_paged() && facts.commits_by_record
    }

    /// From how many lines on records are better streamed: tried on a ring that no lane uses yet.
    fn cheapest_stream(&self, facts: &Facts) -> u64 {
        let geometry = &self.header.geometry;
        match self.streams_log(facts) {
            true => self.medium.stream_from(geometry.ring_at(0).line(), geometry.ring_lines()),
            false => 1,
        }
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`] when it was opened for reading only,
    /// [`PoolError::KeepsChecksums`] when the scheme would not, and [`PoolError::NotLiteral`] or
    /// [`PoolError::Literal`] when it would keep others.
    pub fn start(self, options: &OpenOptions) -> Result<Pool<M>, PoolError> {
        if self.read_only {
            return Err(PoolError::ReadOnly);
        }
        if self.medium.is_forked() {
            return Err(PoolError::Forked);
        }
        let geometry: Geometry = self.header.geometry;
        let scheme = options.scheme_for(&geometry);
        let facts = scheme.facts();
        let is_published = facts.role == Role::Published;
        if is_published != geometry.literal {
            let given = scheme;
            return Err(match is_published {
                true => PoolError::NotLiteral { given },
                false => PoolError::Literal { given },
            });
        }
        if geometry.checksums && !facts.by_age {
            return Err(PoolError::KeepsChecksums { given: scheme });
        }
        let mut heap = Heap::new(geometry, self.chunks);
        heap.keeps_chunks = facts.keeps_chunks;
        let mut sweeper = Sweeper::new(&geometry);
        under!(scheme, D => D::open(&self, options, &mut sweeper));
        let io = Io::new(&self.medium);
        let streams_log = self.streams_log(facts);
        if geometry.has_short_rings && !ring::stay_short(&self.medium, &geometry, facts) {
            for lane in 0..geometry.lanes as usize {
                let (in_use, all) =
                    (ring_in_use(&self.medium, &geometry, lane)?.lines, geometry.ring_lines());
                if in_use < all {
                    ring::lengthen(io, &geometry, lane, in_use, all)?;
                }
            }
            if let Some(failure) = self.medium.failure() {
                return Err(failure.into());
            }
        }
        let lanes = (0..geometry.lanes as usize)
            .map(|lane| LaneSlot::new(io, &geometry, lane, streams_log))
            .collect::<Result<_, _>>()?;
        let stream_from = options.stream_from.unwrap_or_else(|| self.cheapest_stream(facts));
        let has_solo = !options.lock_always && facts.has_solo;
        let has_bias = has_solo && facts.commits_by_record && geometry.lanes > 1;
        event!(
            INFO,
            "opened",
            bytes = self.medium.len(),
            lanes = geometry.lanes,
            scheme = scheme.to_string(),
            generation = self.generation,
        );
        Ok(Pool {
            scheme,
            facts: facts.on_medium(self.medium.is_paged()),
            stream_from,
            commits_later: facts.commits_by_record && !geometry.checksums,
            generation: self.generation,
            clock: CachePadded::new(AtomicU64::new(0)),
            floor: AtomicU64::new(Seq::new(self.generation, 1).bits()),
            ack: options.ack,
            locks: LockTable::new(options.lock_stripes.clamp(64, 1 << 28)),
            solo: Solo::new(has_solo),
            bias: Bias::new(has_bias, geometry.lanes as usize, self.medium.len()),
            undo: undo::InPool::default(),
            #[cfg(feature = "lab")]
            rollback: crate::scheme::rollback::InPool::new(options),
            handoff: Handoff::default(),
            heap: CachePadded::new(SpinLock::new(heap)),
            matrices: geometry.checksums.then(|| Matrices::new(geometry)),
            sweeper: CachePadded::new(SpinLock::new(sweeper)),
            privileged: AtomicU64::new(0),
            gate: Gate::new(geometry.lanes as usize + 1),
            checkpointer: Checkpointer::new(),
            lanes,
            rings: Rings::default(),
            queue: LaneQueue::new(options.lane_wait),
            plan: Plan::new(options, facts, &geometry, self.medium.is_paged()),
            grow_limit_bytes: options.grow_limit_bytes,
            versions: self
                .versions
                .inspect(|versions| versions.start(facts.commits_by_record && !geometry.checksums)),
            counts: CachePadded::default(),
            recovery: (self.report, self.recovery_time),
            medium: self.medium,
            header: self.header,
        })
    }
}

/// Proves the header, the size, the root, and that no chunks behind the size are in use.
fn prove_all<M: Medium>(medium: &M) -> Result<(Header, u64), PoolError> {
    let (header, chunks) = prove(medium, medium.len())?;
    // Growth that a crash cut short leaves no words there, or such as say that chunks are free.
    for chunk in chunks..header.geometry.chunks_in(medium.len().min(POOL_BYTES_MAX)) {
        let at = header.geometry.directory_at(chunk);
        if unseal_at(medium.load_u64(at), at).is_some_and(|payload| payload != 0) {
            let what = "the size is older than the heap: chunks behind it are in use";
            return Err(PoolError::Damaged { at: CHUNKS_AT, what });
        }
    }
    Ok((header, chunks))
}

fn info_of<M: Medium>(medium: &M, geometry: &Geometry) -> Result<PoolInfo, PoolError> {
    let live_records = Some(LiveLog::read(Io::new(medium), geometry)?.len());
    Ok(PoolInfo { live_records, ..peek(medium, medium.len())? })
}

/// Proves what the header page of a pool says that is `len` bytes long. Returns it, and the number
/// of chunks.
fn prove<M: Medium>(page: &M, len: u64) -> Result<(Header, u64), PoolError> {
    let header = Header::read(page)?;
    let Geometry { heap_at, chunk_bytes, .. } = header.geometry;
    let chunks = load_sealed(page, CHUNKS_AT, "the size word does not prove itself")?;
    if chunks < 2 || chunks > POOL_BYTES_MAX / chunk_bytes {
        let what = "the size word names a size that no pool has";
        return Err(PoolError::Damaged { at: CHUNKS_AT, what });
    }
    read_root(page)?;
    let expected = heap_at + chunks * chunk_bytes;
    if expected > len {
        return Err(PoolError::Truncated { expected, found: len });
    }
    Ok((header, chunks))
}

/// The facts that the header page gives of a pool that is `len` bytes long: all but what its log holds.
pub(super) fn peek<M: Medium>(page: &M, len: u64) -> Result<PoolInfo, PoolError> {
    let (header, chunks) = prove(page, len)?;
    let floor = read_floor(page)?;
    Ok(PoolInfo {
        header,
        len,
        chunks,
        generation: floor.generation(),
        root: read_root(page)?,
        live_records: None,
    })
}

/// The floor.
pub(super) fn read_floor<M: Medium>(medium: &M) -> Result<Seq, PoolError> {
    load_sealed(medium, FLOOR_AT, "the floor does not prove itself").map(Seq::from_bits)
}

/// How often the pool was opened for writing, modulo 4094.
pub(crate) fn read_generation<M: Medium>(medium: &M) -> Result<u64, PoolError> {
    read_floor(medium).map(Seq::generation)
}

/// The word that names a root object.
pub(crate) fn root_word(block: PoolOffset, kind: RootKind) -> u64 {
    debug_assert!(block.is_aligned(16));
    crate::sealed::seal_at((kind as u64) << 48 | (block.0 / 16), ROOT_AT)
}

/// The meaning of the root word.
pub(crate) fn parse_root(word: u64) -> Result<Option<(PoolOffset, RootKind)>, &'static str> {
    let payload =
        crate::sealed::unseal_at(word, ROOT_AT).ok_or("the root word does not prove itself")?;
    let at = PoolOffset((payload & ((1 << 48) - 1)) * 16);
    let kind = RootKind::from_bits((payload >> 48) as u8).ok_or("an unknown kind of root")?;
    Ok((at.0 != 0).then_some((at, kind)))
}

pub(crate) fn read_root<M: Medium>(
    medium: &M,
) -> Result<Option<(PoolOffset, RootKind)>, PoolError> {
    let word = medium.load_u64(ROOT_AT);
    parse_root(word).map_err(|what| PoolError::Damaged { at: ROOT_AT, what })
}
