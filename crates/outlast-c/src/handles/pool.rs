//! Creating, opening, checking and closing pools.

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::stats::ABORT_CAUSES;
use outlast::{Ack, Pool, Scheme};
use outlast_pmem::{Domain, MapOptions, Medium};

use super::code::outlast_code;
use super::{scheme, sessions};
use crate::error::{Failure, Kind, guarded};
use crate::pool::{close, named, path_of};

/// An open pool. `{0}` is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_pool {
    /// The library's own number for it.
    pub id: u64,
}

/// How to open or create a pool. Start from `outlast_options options = {0};`: what is zero or null
/// takes its default. Texts are read during the call only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_options {
    /// How transactions are made durable, by name: outlast_scheme_name lists them. The default is
    /// what suits the pool: one that keeps its checksums, if it has any, else the runtime's. Which
    /// it is, outlast_pool_info tells.
    pub scheme: *const c_char,
    /// When outlast_commit returns: "logical", the default, when no crash can take the
    /// transaction back, or "physical", when its data is durable in place too. Under a literal
    /// variant that comes only when others have touched much, and never to one who is alone.
    pub ack: *const c_char,
    /// The memory that a crash spares: "process", "page", "adr" or "eadr". The default is what this machine
    /// and the file are found to have.
    pub domain: *const c_char,
    /// Bytes of the cache that write-back by age reckons with; 0 for this machine's last level.
    pub cache_bytes: u64,
    /// The pool grows by itself up to this many bytes; 0 for never.
    pub grow_limit_bytes: u64,
    /// Bytes of each lane's log in a new pool; 0 for 262144.
    pub lane_bytes: u64,
    /// Lanes of a new pool: how many transactions can run at the same time; 0 for 8.
    pub lanes: u32,
    /// Not 0: the first lane locks too. Else it runs without locks until another begins a
    /// transaction, which then waits for the one under way.
    pub lock_always: u32,
    /// Not 0: a new pool keeps checksums over its blocks. A scheme that is named then must keep
    /// them: "undo-archapt" or "redo-archapt", the default. Without checksums
    /// nothing verifies what is loaded.
    pub checksums: u32,
    /// Zero.
    pub reserved: [u32; 5],
}

/// The facts about a pool, and its work since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_info {
    /// Its size in bytes, as far as it has grown.
    pub size_bytes: u64,
    /// Its scheme's name. The text lives as long as the program.
    pub scheme: *const c_char,
    /// Bytes of each lane's log.
    pub lane_bytes: u64,
    /// Transactions that changed something and were committed since the pool was opened.
    pub commits: u64,
    /// How many lanes it has.
    pub lanes: u32,
    /// 1 when it keeps checksums, else 0.
    pub checksums: u32,
}

/// How full a pool is, and its work since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_stats {
    /// The name of the domain that it was opened in: the failures that it survives. The text lives as long as the
    /// program.
    pub domain: *const c_char,
    /// What that promises, in one sentence. The text lives as long as the program.
    pub promise: *const c_char,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Bytes of its heap.
    pub heap_bytes: u64,
    /// Bytes of allocated blocks.
    pub used_bytes: u64,
    /// The other bytes of the heap.
    pub free_bytes: u64,
    /// Bytes of the longest free run.
    pub largest_free_bytes: u64,
    /// Bytes of the logs of all lanes.
    pub log_bytes: u64,
    /// Those with live records.
    pub log_used_bytes: u64,
    /// Bytes of the log of fences; 0 without one.
    pub fence_log_bytes: u64,
    /// Those that a loss of power would need.
    pub fence_log_used_bytes: u64,
    /// How many lanes it has.
    pub lanes: u64,
    /// How many of them threads have.
    pub lanes_taken: u64,
    /// Transactions that stored something and were committed.
    pub commits: u64,
    /// Records of commits; those of commits that were put off share one.
    pub records: u64,
    /// Commits that returned before they were durable.
    pub put_off: u64,
    /// Times that another transaction was in the way.
    pub conflicts: u64,
    /// Times that all waited for one transaction, after many conflicts in a row.
    pub conflict_storms: u64,
    /// Transactions that ended without a commit, by their causes: outlast_abort_cause_name tells them.
    pub aborts: [u64; 8],
    /// Lines whose write-back was asked for.
    pub flushed_lines: u64,
    /// Lines stored past the caches.
    pub streamed_lines: u64,
    /// Fences.
    pub fences: u64,
    /// System calls that made pages of the file durable.
    pub syncs: u64,
    /// Sweeps, which free lines of the logs.
    pub sweeps: u64,
    /// Their time, in nanoseconds.
    pub sweep_ns: u64,
    /// The longest.
    pub sweep_ns_max: u64,
    /// Times that the pool has grown.
    pub growths: u64,
    /// Bytes that it has grown by.
    pub grown_bytes: u64,
    /// Records that recovery put back at the opening.
    pub recovery_undone: u64,
    /// Commits that it replayed.
    pub recovery_replayed: u64,
    /// How long it took, in nanoseconds.
    pub recovery_ns: u64,
    /// 1 after a write to the file has failed: the pool takes no transactions any more.
    pub has_failed: u64,
    /// Zero.
    pub reserved: [u64; 8],
}

/// The options, read.
#[derive(Default)]
pub(super) struct Wanted {
    create: CreateOptions,
    open: OpenOptions,
    pub map: MapOptions,
}

/// # Safety
/// - `options` is null or points to options whose texts are null or end with a zero.
pub(super) unsafe fn read(options: *const outlast_options) -> Result<Wanted, Failure> {
    // SAFETY: null becomes `None`, else the caller says that they are options.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(Wanted::default()) };
    if options.reserved != [0; 5] {
        return Err(Failure::bad("the options' reserved words are not zero: start from `= {0}`"));
    }
    // SAFETY: the caller says that these are null or texts.
    let (scheme, ack, domain) = unsafe {
        (
            named::<Scheme>(options.scheme)?,
            named::<Ack>(options.ack)?,
            named::<Domain>(options.domain)?,
        )
    };
    let or_default = |given: u64, default: u64| if given == 0 { default } else { given };
    let defaults = CreateOptions::default();
    let create = CreateOptions {
        lanes: or_default(u64::from(options.lanes), u64::from(defaults.lanes)) as u32,
        lane_bytes: or_default(options.lane_bytes, defaults.lane_bytes),
        checksums: options.checksums != 0,
        ..defaults
    };
    let open = OpenOptions {
        ack: ack.unwrap_or_default(),
        cache_bytes: (options.cache_bytes != 0).then_some(options.cache_bytes),
        grow_limit_bytes: options.grow_limit_bytes,
        lock_always: options.lock_always != 0,
        scheme,
        ..OpenOptions::default()
    };
    let map = MapOptions { domain, ..MapOptions::default() };
    let max_len = map.max_len.max(options.grow_limit_bytes);
    Ok(Wanted { create, open, map: MapOptions { max_len, ..map } })
}

/// # Safety
/// - `path` is null or a text that ends with a zero.
pub(super) unsafe fn read_path(path: *const c_char) -> Result<PathBuf, Failure> {
    if path.is_null() {
        return Err(Failure::bad("the path is null"));
    }
    // SAFETY: it is not null, so the caller says that it is a text.
    path_of(unsafe { CStr::from_ptr(path) })
}

/// Refuses to do anything when there is no place for its answer.
pub(super) fn check_place<T>(place: *mut T) -> Result<(), Failure> {
    match place.is_null() {
        true => Err(Failure::bad("there is no place for the answer")),
        false => Ok(()),
    }
}

/// Opens a pool and stores its handle.
///
/// # Safety
/// - `options` is null or points to options whose texts are null or end with a zero.
/// - `path` is null or a text that ends with a zero.
/// - `pool` is null or a handle can be stored there.
unsafe fn make(
    path: *const c_char,
    options: *const outlast_options,
    pool: *mut outlast_pool,
    how: impl FnOnce(PathBuf, &Wanted) -> Result<Pool, Failure>,
) -> outlast_code {
    guarded(|| {
        check_place(pool)?;
        // SAFETY: the caller says so.
        let (path, wanted) = unsafe { (read_path(path)?, read(options)?) };
        let id = sessions::keep_pool(how(path, &wanted)?);
        // SAFETY: it is not null, so the caller says that a handle can be stored there.
        unsafe { pool.write(outlast_pool { id }) };
        Ok(())
    })
}

/// Creates a pool of `size_bytes` bytes, rounded up to whole pages, in a new file, and opens it.
/// The file is really allocated; an existing one is never overwritten.
///
/// # Safety
/// - `path` is null or a text that ends with a zero.
/// - `options` is null, for defaults, or points to options whose texts are null or end with a zero.
/// - `pool` is null or a handle can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_create(
    path: *const c_char,
    size_bytes: u64,
    options: *const outlast_options,
    pool: *mut outlast_pool,
) -> outlast_code {
    let create = |path: PathBuf, wanted: &Wanted| {
        Ok(Pool::create_with(path, size_bytes, &wanted.create, &wanted.open, &wanted.map)?)
    };
    // SAFETY: the caller says so.
    unsafe { make(path, options, pool, create) }
}

/// Opens a pool through recovery, whatever scheme it had. Size, lanes and checksums are its own.
///
/// # Safety
/// - As of outlast_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_open(
    path: *const c_char,
    options: *const outlast_options,
    pool: *mut outlast_pool,
) -> outlast_code {
    let open =
        |path: PathBuf, wanted: &Wanted| Ok(Pool::open_with(path, &wanted.open, &wanted.map)?);
    // SAFETY: the caller says so.
    unsafe { make(path, options, pool, open) }
}

/// Closes a pool in peace: every commit is durable in place, and its log is empty. All its lanes
/// must be given back, else it is OUTLAST_BUSY. A process that ends without it loses nothing.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_close(pool: outlast_pool) -> outlast_code {
    guarded(|| Ok(close(sessions::take_pool(pool.id)?)?))
}

/// The facts about a pool.
///
/// # Safety
/// - `info` is null or can be stored to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_pool_info(
    pool: outlast_pool,
    info: *mut outlast_info,
) -> outlast_code {
    guarded(|| {
        check_place(info)?;
        let pool = sessions::pool(pool.id)?;
        let geometry = pool.header().geometry;
        let found = outlast_info {
            size_bytes: pool.medium().len(),
            scheme: scheme::name_of(pool.scheme()),
            lane_bytes: geometry.lane_bytes,
            commits: pool.commits(),
            lanes: geometry.lanes,
            checksums: u32::from(geometry.checksums),
        };
        // SAFETY: it is not null, so the caller says that it can be stored to.
        unsafe { info.write(found) };
        Ok(())
    })
}

/// How full a pool is, and its work since it was opened. Takes a look at each chunk of the heap.
///
/// # Safety
/// - `stats` is null or can be stored to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_pool_stats(
    pool: outlast_pool,
    stats: *mut outlast_stats,
) -> outlast_code {
    guarded(|| {
        check_place(stats)?;
        let found = stats_of(&*sessions::pool(pool.id)?);
        // SAFETY: it is not null, so the caller says that it can be stored to.
        unsafe { stats.write(found) };
        Ok(())
    })
}

fn stats_of(pool: &Pool) -> outlast_stats {
    let (space, counters, domain) = (pool.space(), pool.counters(), pool.medium().domain());
    let [name, promise] = domain_texts(domain);
    let nanos = |time: Duration| time.as_nanos() as u64;
    outlast_stats {
        domain: name.as_ptr(),
        promise: promise.as_ptr(),
        pool_bytes: pool.medium().len(),
        heap_bytes: space.heap_bytes,
        used_bytes: space.used_bytes,
        free_bytes: space.free_bytes,
        largest_free_bytes: space.largest_free_bytes,
        log_bytes: space.log_bytes,
        log_used_bytes: space.log_used_bytes,
        fence_log_bytes: space.fence_log_bytes,
        fence_log_used_bytes: space.fence_log_used_bytes,
        lanes: pool.header().geometry.lanes.into(),
        lanes_taken: counters.lanes_taken.into(),
        commits: counters.commits,
        records: counters.records,
        put_off: counters.put_off,
        conflicts: counters.conflicts,
        conflict_storms: counters.turns_alone,
        aborts: counters.aborts,
        flushed_lines: counters.flushed_lines,
        streamed_lines: counters.streamed_lines,
        fences: counters.fences,
        syncs: counters.syncs,
        sweeps: counters.sweeps,
        sweep_ns: nanos(counters.sweep_time),
        sweep_ns_max: nanos(counters.sweep_time_max),
        growths: counters.growths,
        grown_bytes: counters.grown_bytes,
        recovery_undone: counters.recovery.undone as u64,
        recovery_replayed: counters.recovery.replayed as u64,
        recovery_ns: nanos(counters.recovery_time),
        has_failed: counters.has_failed.into(),
        reserved: [0; 8],
    }
}

/// A domain's name and its promise, as C has texts.
fn domain_texts(domain: Domain) -> &'static [CString; 2] {
    static TEXTS: OnceLock<Vec<[CString; 2]>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let of = |domain: &Domain| [domain.row().name, domain.promise()].map(crate::error::c_text);
        Domain::ALL.iter().map(of).collect()
    });
    let place = Domain::ALL.iter().position(|one| *one == domain);
    &texts[place.expect("it is one of all")]
}

/// The cause of the aborts that are counted at that place, from 0; null behind the last. The text lives as long as the
/// program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_abort_cause_name(number: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let all = || ABORT_CAUSES.iter().map(|cause| crate::error::c_text(cause)).collect();
    NAMES.get_or_init(all).get(number).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Recovers the pool of that path and checks all of its metadata, its checksums where it keeps any, and
/// under a root that is described (outlast_set_described_root) that every block has one owner. Stores how many findings there were; with any it is OUTLAST_DAMAGED, and
/// outlast_last_error tells the first. No other process may have the pool open.
///
/// # Safety
/// - `path` is null or a text that ends with a zero.
/// - `options` is null, for defaults, or points to options whose texts are null or end with a zero.
/// - `findings` is null or a number can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_check(
    path: *const c_char,
    options: *const outlast_options,
    findings: *mut u64,
) -> outlast_code {
    guarded(|| {
        check_place(findings)?;
        // SAFETY: the caller says so.
        let (path, wanted) = unsafe { (read_path(path)?, read(options)?) };
        let report = UnrecoveredPool::open_file(path, &wanted.map)?.recover()?.check();
        // SAFETY: it is not null, so the caller says that a number can be stored there.
        unsafe { findings.write(report.findings.count()) };
        match report.findings.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(Kind::Damaged, first.to_string())),
        }
    })
}
