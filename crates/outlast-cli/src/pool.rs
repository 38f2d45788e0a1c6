//! `outlast pool`: create, info, stats, check, repair, dump, grow, checkpoint, restore.

mod aside;
mod check;
mod roots;
mod stats;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use outlast::checkpoint::{Checkpoint, CheckpointError, CheckpointInfo, CheckpointReport};
use outlast::error::ReadError;
use outlast::inspect::walk::Listed;
use outlast::inspect::{
    CheckReport, CheckStep, Finding, POOL_BYTES_MAX, PoolInfo, RepairReport, Space,
};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::stats::Counters;
use outlast::{Pool, PoolError, PoolReader, Scheme};
use outlast_lab::progress::Progress;
use outlast_pmem::{Domain, MapError, MapOptions, Mapped, Medium};
use serde_json::json;

use crate::say::{OutputFailed, Teller, noteln, outln};
use crate::{CommandResult, Verdict, size};

/// What the statuses of these commands mean.
const STATUSES: &str = "\
Exit status:
  0  it is done
  1  the pool, or the checkpoint, is damaged
  2  wrong use: no such file, not a pool, in use elsewhere, an argument that cannot be";

const STATUSES_OF_CHECK: &str = "\
Exit status:
  0  the pool is sound
  1  it is damaged: each finding is a line, or stands in the JSON document (--json)
  2  wrong use: no such file, not a pool, in use elsewhere, an argument that cannot be";

const STATUSES_OF_REPAIR: &str = "\
Exit status:
  0  nothing damaged is left
  1  something is, and is named: restore the pool from a checkpoint
  2  wrong use: no such file, not a pool, no checksums, in use elsewhere";

/// What to do with a pool file.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// Create a pool in a new file.
    #[command(after_help = STATUSES)]
    Create(CreateArgs),
    /// Say what a pool is, without changing it; also while it is in use.
    #[command(after_help = STATUSES)]
    Info(FileArgs),
    /// Say how full a pool is and what it does, without changing it; also while it is in use.
    #[command(after_help = STATUSES)]
    Stats(StatsArgs),
    /// Prove a pool: metadata, log, allocator against reachability. Changes nothing.
    #[command(after_help = STATUSES_OF_CHECK)]
    Check(CheckArgs),
    /// Put right what the checksums of a pool find damaged, and check it again. What they cannot
    /// correct, or cannot decide, is named; ends in 0 only if that check finds nothing, else in 1.
    #[command(after_help = STATUSES_OF_REPAIR)]
    Repair(FileArgs),
    /// List every allocated block, as recovery would leave them, with its size and the way from the root; - where
    /// there is none, or none that is known.
    #[command(after_help = STATUSES)]
    Dump(FileArgs),
    /// Make a pool larger.
    #[command(after_help = STATUSES)]
    Grow(GrowArgs),
    /// Recover a pool and copy what has changed since its last checkpoint into a file beside it.
    #[command(after_help = STATUSES)]
    Checkpoint(CheckpointArgs),
    /// Put a pool back as its last checkpoint has it.
    #[command(after_help = STATUSES)]
    Restore(RestoreArgs),
}

#[derive(Args)]
pub struct FileArgs {
    /// The pool file.
    file: PathBuf,
    /// Persistence domain to work in: process, page, adr or eadr; detected if not given.
    #[arg(long)]
    domain: Option<Domain>,
}

#[derive(Args)]
pub struct StatsArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Repeat the output at this interval, until interrupted; with --json a document each time.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
    /// In the text format of Prometheus.
    #[arg(long)]
    prometheus: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Count blocks that only probably leak: no block that the root leads to holds their offset, and nothing more is
    /// known of the program.
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
pub struct CreateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Size of the pool.
    #[arg(long, default_value = "64M", value_parser = size::parse)]
    size: u64,
    /// Threads that can run transactions at the same time.
    #[arg(long, default_value_t = CreateOptions::default().lanes)]
    lanes: u32,
    /// Log of each lane.
    #[arg(long, default_value = "256K", value_parser = size::parse)]
    log: u64,
    /// Log of fences, of which commits in the domain page are quicker; 0 for none. A sixteenth of a pool of 4M or
    /// more, up to 16M, if it is created in that domain.
    #[arg(long, value_parser = size::parse)]
    fence_log: Option<u64>,
    /// Bytes of a chunk, a power of two from 4K to 1M; chosen by the size if not given. The largest
    /// block has CHUNK² ÷ 8 bytes: 512 MiB with the 64K of pools from 16M on.
    #[arg(long, value_parser = size::parse)]
    chunk: Option<u64>,
    /// Keep checksums, which find and repair what media faults and stray stores do. A quarter of
    /// the space goes to them, and the pool runs under undo-archapt or redo-archapt. Without them
    /// nothing verifies what is loaded.
    #[arg(long)]
    checksums: bool,
    /// Keep the checksums of the literal variants, which lose data: undo-archapt:literal and
    /// redo-archapt:literal run on no other pools, and nothing else on these.
    #[arg(long)]
    literal: bool,
}

#[derive(Args)]
pub struct GrowArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The new size.
    #[arg(long, value_parser = size::parse)]
    size: u64,
}

#[derive(Args)]
pub struct CheckpointArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The checkpoint file; FILE.checkpoint if not given.
    #[arg(long, value_name = "CHECKPOINT")]
    to: Option<PathBuf>,
}

#[derive(Args)]
pub struct RestoreArgs {
    /// The pool file. It may be damaged or missing; then --from is needed.
    file: PathBuf,
    /// The checkpoint file; FILE.checkpoint if not given.
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<PathBuf>,
    /// Keep the file that is there, whatever it is: it is renamed to FILE.damaged, or FILE.damaged.2 and so on.
    /// A pool that has lost its header cannot be told from another program's file, and is not replaced without.
    #[arg(long, requires = "from")]
    aside: bool,
}

/// Runs one of them.
pub fn run(command: &PoolCommand, json: bool, seed: u64) -> CommandResult {
    let result = match command {
        PoolCommand::Create(args) => create(args, json, seed),
        PoolCommand::Info(args) => info(args, json, seed),
        PoolCommand::Stats(args) => stats::stats(args, json, seed),
        PoolCommand::Check(args) => check::check(args, json, seed),
        PoolCommand::Repair(args) => repair(args, json, seed),
        PoolCommand::Dump(args) => dump(args, json, seed),
        PoolCommand::Grow(args) => grow(args, json, seed),
        PoolCommand::Checkpoint(args) => checkpoint(args, json, seed),
        PoolCommand::Restore(args) => restore(args, json, seed),
    };
    match result {
        Err(error) if error.is::<Damaged>() => {
            noteln!("outlast: {error}");
            Ok(Verdict::Bad)
        }
        result => result,
    }
}

/// Why a command could not do its work on a pool that is damaged: status 1, and not bad input.
#[derive(Debug)]
struct Damaged(String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Damaged {}

/// An error of a reader as that of a pool.
fn of_reader(error: ReadError) -> PoolError {
    match error {
        ReadError::Pool(error) => error,
        ReadError::Abort(abort) => abort.into(),
        _ => PoolError::NoSnapshot { why: "for a reason that this command does not know" },
    }
}

/// An error of a pool, with the file that it is about.
fn about<T>(path: &Path, result: Result<T, PoolError>) -> Result<T, Box<dyn Error>> {
    result.map_err(|error| match error {
        // These name the file themselves.
        PoolError::Map(error) => error.into(),
        error @ PoolError::NotAPool { path: Some(_) } => error.into(),
        error if error.is_damage() => Damaged(format!("{}: {error}", path.display())).into(),
        error => format!("{}: {error}", path.display()).into(),
    })
}

fn say_domain(medium: &Mapped) {
    let domain = medium.domain();
    noteln!("domain {}: {}", medium.detection().describe(domain), domain.promise());
}

fn create(args: &CreateArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let options = CreateOptions {
        lanes: args.lanes,
        lane_bytes: args.log,
        chunk_bytes: args.chunk,
        checksums: args.checksums || args.literal,
        fence_log_bytes: args.fence_log,
        ..CreateOptions::default()
    };
    let map = MapOptions { domain: args.file.domain, ..MapOptions::default() };
    let scheme = args.literal.then_some(Scheme::RedoArchaptLiteral);
    let open = OpenOptions { scheme, ..OpenOptions::default() };
    let pool = about(path, Pool::create_with(path, args.size, &options, &open, &map))?;
    say_domain(pool.medium());
    let header = *pool.header();
    drop(pool);
    if as_json {
        let record = json!({"uuid": header.uuid.to_string(), "bytes": args.size});
        outln!("{}", crate::document("pool create", seed, vec![record]));
    } else {
        outln!("created {} ({} bytes, UUID {})", path.display(), args.size, header.uuid);
    }
    Ok(Verdict::Good)
}

/// The pool, recovered and running. One that recovery would refuse stays as it is: that is tried in volatile
/// memory first.
fn open_to_work(args: &FileArgs) -> Result<Pool, Box<dyn Error>> {
    let path = &args.file;
    let map = MapOptions { domain: args.domain, ..MapOptions::default() };
    drop(about(path, RecoveredPool::open_overlaid(path, &map))?);
    let map = MapOptions { domain: args.domain, ..MapOptions::default() };
    about(path, Pool::open_with(path, &OpenOptions::default(), &map))
}

fn open_to_read(args: &FileArgs) -> Result<UnrecoveredPool<Mapped>, Box<dyn Error>> {
    let map = MapOptions { read_only: true, domain: args.domain, ..MapOptions::default() };
    about(&args.file, UnrecoveredPool::open_file(&args.file, &map))
}

/// The facts about a pool that wait for its recovery.
struct Recovered {
    space: Space,
    /// The root's kind and the root in words.
    root: Option<(&'static str, String)>,
    domain: Domain,
    /// The domain and what speaks for it.
    detected: String,
    /// The work of the process that has the pool open.
    counters: Option<Counters>,
}

/// All that can be told; of a pool that is in use, what its header page says.
fn info_of(args: &FileArgs) -> Result<(PoolInfo, Option<Recovered>), Box<dyn Error>> {
    let path = &args.file;
    let map = MapOptions { read_only: true, domain: args.domain, ..MapOptions::default() };
    let pool = match UnrecoveredPool::open_file(path, &map) {
        Ok(pool) => pool,
        Err(PoolError::Map(MapError::AlreadyOpen { .. })) => {
            let info = about(path, PoolInfo::peek(path))?;
            return Ok((info, beside_writer(path, &map)));
        }
        Err(error) => return about(path, Err(error)),
    };
    let info = about(path, pool.info())?;
    let recovered = about(path, recovered_of(path, pool, info.live_records, &map))?;
    Ok((info, Some(recovered)))
}

/// A pool as recovery would leave it, beside the fill of its logs as they are.
fn recovered_of(
    path: &Path,
    pool: UnrecoveredPool<Mapped>,
    live_records: Option<usize>,
    map: &MapOptions,
) -> Result<Recovered, PoolError> {
    let (log_used_bytes, fence_log_used_bytes) = pool.log_used_bytes()?;
    let medium = pool.medium();
    let (domain, detected) = (medium.domain(), medium.describe());
    let (mut space, root) = match live_records {
        Some(0) => look(&pool.read_only()?),
        _ => {
            drop(pool);
            look(&RecoveredPool::open_overlaid(path, map)?)
        }
    };
    (space.log_used_bytes, space.fence_log_used_bytes) = (log_used_bytes, fence_log_used_bytes);
    Ok(Recovered { space, root, domain, detected, counters: None })
}

/// The same of a snapshot beside the process that has the pool open, where that lets others read.
fn beside_writer(path: &Path, map: &MapOptions) -> Option<Recovered> {
    let mut reader = PoolReader::open(path, map).ok()?;
    let (space, root) = reader.on_snapshot(|pool| Ok(look(pool))).ok()?;
    let stats = reader.stats().ok()?;
    let space = stats.space.unwrap_or(space);
    let medium = reader.medium();
    let domain = stats.domain.unwrap_or(medium.domain());
    Some(Recovered { space, root, domain, detected: medium.describe(), counters: stats.counters })
}

fn look<M: Medium>(pool: &RecoveredPool<M>) -> (Space, Option<(&'static str, String)>) {
    (pool.space(), pool.describe_root(&roots::walkers()))
}

fn space_json(space: &Space) -> serde_json::Value {
    json!({
        "heap_bytes": space.heap_bytes,
        "used_bytes": space.used_bytes,
        "free_bytes": space.free_bytes,
        "largest_free_bytes": space.largest_free_bytes,
        "log_bytes": space.log_bytes,
        "log_used_bytes": space.log_used_bytes,
        "fence_log_bytes": space.fence_log_bytes,
        "fence_log_used_bytes": space.fence_log_used_bytes,
    })
}

fn info_json(
    info: &PoolInfo,
    recovered: Option<&Recovered>,
    checkpoint: &Beside,
) -> serde_json::Value {
    let root_about = recovered.and_then(|recovered| recovered.root.as_ref());
    let geometry = info.header.geometry;
    json!({
        "version": info.header.version,
        "uuid": info.header.uuid.to_string(),
        "bytes": info.len,
        "lanes": geometry.lanes,
        "lane_bytes": geometry.lane_bytes,
        "fence_log_bytes": geometry.fence_log_bytes(),
        "chunk_bytes": geometry.chunk_bytes,
        "checksums": geometry.checksums,
        "literal": geometry.literal,
        "heap_at": geometry.heap_at,
        "chunks": info.chunks,
        "generation": info.generation,
        "root": info.root.map(|(at, kind)| json!({"at": at.0, "kind": format!("{kind:?}")})),
        "root_is": roots::json(root_about),
        "in_use": info.live_records.is_none(),
        "live_records": info.live_records,
        "space": recovered.map(|recovered| space_json(&recovered.space)),
        "checkpoint": match checkpoint {
            Ok(None) => serde_json::Value::Null,
            Ok(Some(checkpoint)) => checkpoint_json(checkpoint),
            Err(error) => json!({"error": error.to_string()}),
        },
    })
}

/// The checkpoint beside a pool, if there is one.
type Beside = Result<Option<CheckpointInfo>, CheckpointError>;

fn checkpoint_beside(pool: &Path, info: &PoolInfo) -> Beside {
    let path = outlast::checkpoint::checkpoint_path(pool);
    match Checkpoint::open(&path) {
        Ok(checkpoint) if checkpoint.info().pool == info.header.uuid => Ok(Some(checkpoint.info())),
        Ok(checkpoint) => Err(CheckpointError::OtherPool {
            path,
            found: checkpoint.info().pool,
            expected: info.header.uuid,
        }),
        Err(CheckpointError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn checkpoint_json(info: &CheckpointInfo) -> serde_json::Value {
    json!({
        "number": info.number,
        "generation": info.generation,
        "commits": info.commits,
        "taken_at": info.taken_at,
        "age_seconds": age_seconds(info),
        "pool_bytes": info.pool_bytes,
        "pages": info.pages,
        "file_bytes": info.file_bytes,
    })
}

/// Seconds since a checkpoint was made, by the system's clock.
fn age_seconds(info: &CheckpointInfo) -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_secs().saturating_sub(info.taken_at)
}

/// The lines that tell how full a pool is.
fn print_space(space: Option<&Space>) -> Result<(), OutputFailed> {
    let Some(space) = space else {
        outln!("used            not known: the pool is in use");
        return Ok(());
    };
    let share = space.used_bytes as f64 * 100.0 / space.heap_bytes.max(1) as f64;
    outln!("used            {} of {} bytes ({share:.1} %)", space.used_bytes, space.heap_bytes);
    outln!("free            {} bytes", space.free_bytes);
    outln!("largest free    {} bytes", space.largest_free_bytes);
    outln!("log in use      {} of {} bytes", space.log_used_bytes, space.log_bytes);
    if space.fence_log_bytes > 0 {
        let (used, bytes) = (space.fence_log_used_bytes, space.fence_log_bytes);
        outln!("fences in use   {used} of {bytes} bytes");
    }
    Ok(())
}

fn info(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let (info, recovered) = info_of(args)?;
    let checkpoint = checkpoint_beside(&args.file, &info);
    if as_json {
        let record = info_json(&info, recovered.as_ref(), &checkpoint);
        outln!("{}", crate::document("pool info", seed, vec![record]));
        return Ok(Verdict::Good);
    }
    let geometry = info.header.geometry;
    outln!("format version  {}", info.header.version);
    outln!("UUID            {}", info.header.uuid);
    outln!("size            {} bytes", info.len);
    let up_to = if geometry.has_short_rings { "up to " } else { "" };
    let (lanes, bytes) = (geometry.lanes, geometry.lane_bytes);
    outln!("lanes           {lanes} with {up_to}{bytes} bytes of log each");
    match geometry.fence_log_bytes() {
        0 => outln!("log of fences   none"),
        bytes => outln!("log of fences   {bytes} bytes"),
    }
    outln!("heap            {} chunks of {} bytes", info.chunks, geometry.chunk_bytes);
    outln!(
        "checksums       {}",
        match (geometry.literal, geometry.checksums) {
            (true, _) => "of a literal variant",
            (false, true) => "kept",
            (false, false) => "none",
        }
    );
    outln!("generation      {}", info.generation);
    match info.root {
        Some((at, kind)) => outln!("root            {kind:?} at {at}"),
        None => outln!("root            none"),
    }
    if let Some((kind, about)) = recovered.as_ref().and_then(|recovered| recovered.root.as_ref()) {
        outln!("root is         {kind}: {about}");
    }
    match info.live_records {
        Some(records) => outln!("live records    {records}"),
        None => outln!("live records    not known: the pool is in use"),
    }
    print_space(recovered.as_ref().map(|recovered| &recovered.space))?;
    match checkpoint {
        Ok(None) => outln!("checkpoint      none"),
        Ok(Some(checkpoint)) => {
            outln!("checkpoint      {}", describe(&checkpoint));
            outln!("checkpoint age  {} s", age_seconds(&checkpoint));
        }
        Err(error) => outln!("checkpoint      {error}"),
    }
    Ok(Verdict::Good)
}

fn repair(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file;
    let pool = open_to_read(args)?;
    let header = about(path, pool.info())?.header;
    let of_log = pool.harmless_damage();
    if !header.geometry.checksums && of_log.is_empty() {
        let path = path.display();
        return Err(format!(
            "{path}: the pool keeps no checksums: create one with --checksums, or restore a checkpoint"
        )
        .into());
    }
    drop(pool);
    let map = MapOptions { domain: args.domain, ..MapOptions::default() };
    drop(about(path, RecoveredPool::open_overlaid(path, &map))?);
    let pool = about(path, UnrecoveredPool::open_file(path, &map))?;
    say_domain(pool.medium());
    let pool = about(path, pool.recover())?;
    let report = about(path, pool.repair_telling(&mut steps()))?;
    for finding in of_log.iter().filter(|_| !as_json) {
        outln!("{}: mended: {finding}", path.display());
    }
    let verdict = if report.left.is_empty() { Verdict::Good } else { Verdict::Bad };
    verdict.after(print_repair(path, &report, as_json, seed))
}

/// Shows how far a check or a repair has come.
fn steps() -> impl FnMut(CheckStep) {
    const EVERY: u64 = 64;
    let teller = Teller::with_lines();
    move |CheckStep { stage, done, total, .. }| {
        if done.is_multiple_of(EVERY) || done == total {
            teller.tell(Progress::Step { stage: &stage.to_string(), done, total });
        }
    }
}

/// A line for each finding, and one for those that were counted only.
fn print_findings(
    path: &Path,
    findings: impl Iterator<Item = impl fmt::Display>,
    more: u64,
) -> Result<(), OutputFailed> {
    for finding in findings {
        outln!("{}: {finding}", path.display());
    }
    if more > 0 {
        outln!("{}: {more} more findings, counted and not kept", path.display());
    }
    Ok(())
}

fn print_repair(
    path: &Path,
    report: &RepairReport,
    as_json: bool,
    seed: u64,
) -> Result<(), OutputFailed> {
    if as_json {
        let record = json!({
            "file": path.display().to_string(),
            "matrices": report.matrices,
            "lines_repaired": report.lines,
            "checksums_renewed": report.checksums,
            "uncorrectable": report.left.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "uncorrectable_more": report.left.more(),
        });
        outln!("{}", crate::document("pool repair", seed, vec![record]));
    } else {
        print_findings(path, report.left.iter(), report.left.more())?;
        outln!(
            "{} matrices, {} lines repaired, checksums of {} renewed, {} findings left",
            report.matrices,
            report.lines,
            report.checksums,
            report.left.count()
        );
    }
    Ok(())
}

fn dump(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let mut report = CheckReport::default();
    let walkers = roots::walkers();
    let map = MapOptions { read_only: true, domain: args.domain, ..MapOptions::default() };
    let opened = UnrecoveredPool::open_file(&args.file, &map).and_then(UnrecoveredPool::read_only);
    let blocks = match opened {
        Err(PoolError::Map(MapError::AlreadyOpen { .. })) => {
            let mut reader = about(&args.file, PoolReader::open(&args.file, &map))?;
            let listed = reader.on_snapshot(|pool| {
                let mut report = CheckReport::default();
                Ok((pool.blocks_by(&walkers, &mut report), report))
            });
            let (blocks, found) = about(&args.file, listed.map_err(of_reader))?;
            report = found;
            blocks
        }
        Ok(pool) => pool.blocks_by(&walkers, &mut report),
        Err(PoolError::NeedsRecovery { .. }) => {
            let map = MapOptions { domain: args.domain, ..MapOptions::default() };
            let pool = about(&args.file, RecoveredPool::open_overlaid(&args.file, &map))?;
            pool.blocks_by(&walkers, &mut report)
        }
        Err(error) => return about(&args.file, Err(error)),
    };
    // A leak is no damage here: it has no path.
    let is_damage = |finding: &&Finding| !matches!(finding, Finding::Leaked { .. });
    let damage: Vec<_> = report.findings.iter().filter(is_damage).collect();
    if as_json {
        let record =
            |block: &Listed| json!({"at": block.at.0, "bytes": block.bytes, "path": block.path});
        outln!("{}", crate::document("pool dump", seed, blocks.iter().map(record).collect()));
    } else {
        for Listed { at, bytes, path } in &blocks {
            outln!("{at} {bytes} {}", path.as_deref().unwrap_or("-"));
        }
        for (kind, bytes) in &report.bytes_by_kind {
            noteln!("{kind:?}: {bytes} bytes");
        }
    }
    for finding in &damage {
        noteln!("{}: {}", args.file.display(), roots::with_path(finding, &report));
    }
    Ok(if damage.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn grow(args: &GrowArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let (now, asked) = (about(path, open_to_read(&args.file)?.info())?.len, args.size);
    if asked > POOL_BYTES_MAX {
        return about(path, Err(PoolError::TooLarge { given: asked }));
    }
    if asked < now {
        return Err(format!(
            "{}: a pool does not shrink; it has {now} bytes, and --size {asked} is less",
            path.display()
        )
        .into());
    }
    let pool = open_to_work(&args.file)?;
    say_domain(pool.medium());
    about(path, pool.grow(asked))?;
    let len = pool.medium().len();
    if as_json {
        outln!("{}", crate::document("pool grow", seed, vec![json!({"bytes": len})]));
    } else {
        outln!("{} has {len} bytes", path.display());
    }
    Ok(Verdict::Good)
}

/// Of when a checkpoint is, in words.
fn describe(info: &CheckpointInfo) -> String {
    let CheckpointInfo { number, generation, commits, .. } = info;
    format!("number {number}, of generation {generation} after {commits} commits")
}

/// What goes wrong with a checkpoint: damage is a failed check, the rest bad input.
fn failed(error: CheckpointError) -> CommandResult {
    if error.is_damage() {
        noteln!("outlast: {error}");
        return Ok(Verdict::Bad);
    }
    Err(error.into())
}

fn checkpoint(args: &CheckpointArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let target = args.to.clone().unwrap_or_else(|| outlast::checkpoint::checkpoint_path(path));
    let header = about(path, open_to_read(&args.file)?.info())?.header;
    match Checkpoint::open(&target).map(|checkpoint| checkpoint.info().pool) {
        Ok(found) if found != header.uuid => {
            let expected = header.uuid;
            return failed(CheckpointError::OtherPool { path: target, found, expected });
        }
        Err(CheckpointError::Missing { .. }) if !is_in_a_directory(&target) => {
            return Err(format!("{}: there is no such directory", target.display()).into());
        }
        Ok(_) | Err(CheckpointError::Missing { .. } | CheckpointError::Incomplete { .. }) => {}
        Err(error) => return failed(error),
    }
    let pool = open_to_work(&args.file)?;
    let report = match pool.checkpoint(&target) {
        Ok(report) => report,
        Err(error) => return failed(error),
    };
    pool.close();
    print_checkpoint(&target, &report, as_json, seed)?;
    Ok(Verdict::Good)
}

/// Whether a file of that name can be made where its directory is concerned.
fn is_in_a_directory(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.as_os_str().is_empty() || parent.is_dir())
}

fn print_checkpoint(
    target: &Path,
    report: &CheckpointReport,
    as_json: bool,
    seed: u64,
) -> Result<(), OutputFailed> {
    let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
    if as_json {
        let record = json!({
            "file": target.display().to_string(),
            "number": report.number,
            "pages_compared": report.pages_compared,
            "pages_concurrent": report.pages_concurrent,
            "pages_paused": report.pages_paused,
            "pages_written": report.pages_written,
            "bytes_written": report.bytes_written,
            "file_bytes": report.file_bytes,
            "compacted": report.compacted,
            "pause_ns": nanoseconds(report.pause),
            "took_ns": nanoseconds(report.took),
        });
        outln!("{}", crate::document("pool checkpoint", seed, vec![record]));
        return Ok(());
    }
    outln!(
        "{}: checkpoint {}, {} pages written, {} bytes, in {:.1} ms",
        target.display(),
        report.number,
        report.pages_written,
        report.bytes_written,
        report.took.as_secs_f64() * 1e3
    );
    Ok(())
}

fn restore(args: &RestoreArgs, as_json: bool, seed: u64) -> CommandResult {
    let kept = match &args.from {
        Some(from) if args.aside && args.file.exists() => Some(aside::move_away(&args.file, from)?),
        _ => None,
    };
    let info = match outlast::checkpoint::restore(&args.file, args.from.as_deref()) {
        Ok(info) => info,
        Err(error) => {
            kept.map_or(Ok(()), aside::Kept::put_back)?;
            return failed(error);
        }
    };
    if let Some(kept) = kept {
        noteln!("the file that was there is {}", kept.path.display());
    }
    if as_json {
        let record = checkpoint_json(&info);
        outln!("{}", crate::document("pool restore", seed, vec![record]));
    } else {
        let (file, bytes) = (args.file.display(), info.pool_bytes);
        outln!("{file} has {bytes} bytes as of checkpoint {}", describe(&info));
    }
    Ok(Verdict::Good)
}
