//! `outlast pool`: create, info, check, dump.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use outlast::{
    CheckReport, CreateOptions, FilePool, OpenOptions, PoolError, PoolInfo, RecoveredPool,
    UnrecoveredPool,
};
use outlast_pmem::{Domain, Heap, MapOptions, Mapped, Medium};
use serde_json::json;

use crate::{CommandResult, Verdict, size};

/// What to do with a pool file.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// Create a pool in a new file.
    Create(CreateArgs),
    /// Say what a pool is, without changing it.
    Info(FileArgs),
    /// Prove a pool: metadata, log, allocator against reachability. Changes nothing.
    Check(FileArgs),
    /// List every allocated block.
    Dump(FileArgs),
    /// Make a pool larger.
    Grow(GrowArgs),
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
}

#[derive(Args)]
pub struct GrowArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The new size.
    #[arg(long, value_parser = size::parse)]
    size: u64,
}

/// Runs one of them.
pub fn run(command: &PoolCommand, json: bool, seed: u64) -> CommandResult {
    match command {
        PoolCommand::Create(args) => create(args, json, seed),
        PoolCommand::Info(args) => info(args, json, seed),
        PoolCommand::Check(args) => check(args, json, seed),
        PoolCommand::Dump(args) => dump(args, json, seed),
        PoolCommand::Grow(args) => grow(args, json, seed),
    }
}

/// An error of a pool, with the file that it is about.
fn about<T>(path: &Path, result: Result<T, PoolError>) -> Result<T, String> {
    result.map_err(|error| match error {
        // These name the file themselves.
        PoolError::Map(error) => error.to_string(),
        error => format!("{}: {error}", path.display()),
    })
}

fn say_domain(medium: &Mapped) {
    let domain = medium.domain();
    eprintln!("domain {}: {}", medium.detection().describe(domain), domain.promise());
}

fn create(args: &CreateArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let options =
        CreateOptions { lanes: args.lanes, lane_bytes: args.log, ..CreateOptions::default() };
    let map = MapOptions { domain: args.file.domain, ..MapOptions::default() };
    let pool =
        about(path, FilePool::create(path, args.size, &options, &OpenOptions::default(), &map))?;
    say_domain(pool.medium());
    let header = *pool.header();
    drop(pool);
    if as_json {
        let record = json!({"uuid": header.uuid.to_string(), "bytes": args.size});
        println!("{}", crate::document("pool create", seed, vec![record]));
    } else {
        println!("created {} ({} bytes, UUID {})", path.display(), args.size, header.uuid);
    }
    Ok(Verdict::Good)
}

fn open_to_read(args: &FileArgs) -> Result<UnrecoveredPool<Mapped>, String> {
    let map = MapOptions { read_only: true, domain: args.domain, ..MapOptions::default() };
    let medium = Mapped::open(&args.file, &map).map_err(|error| error.to_string())?;
    about(&args.file, UnrecoveredPool::open(medium))
}

fn info_json(info: &PoolInfo) -> serde_json::Value {
    let geometry = info.header.geometry;
    json!({
        "version": info.header.version,
        "uuid": info.header.uuid.to_string(),
        "bytes": info.len,
        "lanes": geometry.lanes,
        "lane_bytes": geometry.lane_bytes,
        "chunk_bytes": geometry.chunk_bytes,
        "heap_at": geometry.heap_at,
        "chunks": info.chunks,
        "epoch": info.epoch,
        "root": info.root.map(|(at, kind)| json!({"at": at.0, "kind": format!("{kind:?}")})),
        "live_records": info.live_records,
    })
}

fn info(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let pool = open_to_read(args)?;
    let info = about(&args.file, pool.info())?;
    if as_json {
        println!("{}", crate::document("pool info", seed, vec![info_json(&info)]));
        return Ok(Verdict::Good);
    }
    let geometry = info.header.geometry;
    println!("format version  {}", info.header.version);
    println!("UUID            {}", info.header.uuid);
    println!("size            {} bytes", info.len);
    println!("lanes           {} with {} bytes of log each", geometry.lanes, geometry.lane_bytes);
    println!("heap            {} chunks of {} bytes", info.chunks, geometry.chunk_bytes);
    println!("epoch           {}", info.epoch);
    match info.root {
        Some((at, kind)) => println!("root            {kind:?} at {at}"),
        None => println!("root            none"),
    }
    println!("live records    {}", info.live_records);
    Ok(Verdict::Good)
}

/// The check needs a recovered pool and must not touch the file: when the log is live, a copy in
/// memory is recovered.
fn check(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file;
    let pool = open_to_read(args)?;
    let live = about(path, pool.info())?.live_records;
    let report = if live == 0 {
        about(path, pool.read_only())?.check()
    } else {
        let copy = pool.into_medium();
        let mut bytes = vec![0; copy.len() as usize];
        copy.load(outlast::PoolOffset(0), &mut bytes);
        let copy = about(path, UnrecoveredPool::open(Heap::from_bytes(&bytes)))?;
        about(path, copy.recover(None))?.check()
    };
    print_check(path, &report, live, as_json, seed);
    Ok(if report.findings.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn print_check(path: &Path, report: &CheckReport, live: usize, as_json: bool, seed: u64) {
    if as_json {
        let record = json!({
            "file": path.display().to_string(),
            "findings": report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "blocks": report.blocks,
            "block_bytes": report.block_bytes,
            "chunks_free": report.chunks_free,
            "chunks_class": report.chunks_class,
            "chunks_large": report.chunks_large,
            "reachable": report.reachable,
            "live_records": live,
        });
        println!("{}", crate::document("pool check", seed, vec![record]));
        return;
    }
    for finding in &report.findings {
        println!("{}: {finding}", path.display());
    }
    if live > 0 {
        println!("{live} log records wait for recovery; a recovered copy was checked");
    }
    let reach = match report.reachable {
        Some(reached) => format!("{reached} reached from the root"),
        None => "reachability unknown: the root is of the user's own kind".to_owned(),
    };
    println!(
        "{} blocks, {} bytes, {reach}; {} findings",
        report.blocks,
        report.block_bytes,
        report.findings.len()
    );
}

fn dump(args: &FileArgs, as_json: bool, seed: u64) -> CommandResult {
    let pool: RecoveredPool<Mapped> = about(&args.file, open_to_read(args)?.read_only())?;
    let mut report = CheckReport::default();
    let blocks = pool.allocated_blocks(&mut report);
    if as_json {
        let records = blocks.iter().map(|(at, bytes)| json!({"at": at.0, "bytes": bytes}));
        println!("{}", crate::document("pool dump", seed, records.collect()));
    } else {
        for (at, bytes) in &blocks {
            println!("{at} {bytes}");
        }
        for (kind, bytes) in &report.bytes_by_kind {
            eprintln!("{kind:?}: {bytes} bytes");
        }
    }
    for finding in &report.findings {
        eprintln!("{}: {finding}", args.file.display());
    }
    Ok(if report.findings.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn grow(args: &GrowArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let map = MapOptions { domain: args.file.domain, ..MapOptions::default() };
    let pool = about(path, FilePool::open(path, &OpenOptions::default(), &map))?;
    say_domain(pool.medium());
    about(path, pool.grow(args.size))?;
    let len = pool.medium().len();
    if as_json {
        println!("{}", crate::document("pool grow", seed, vec![json!({"bytes": len})]));
    } else {
        println!("{} has {len} bytes", path.display());
    }
    Ok(Verdict::Good)
}
