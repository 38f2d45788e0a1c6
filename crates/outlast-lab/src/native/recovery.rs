//! How long a pool takes to open after a crash, by its size and by what its log holds.
//!
//! A pool in a file is filled with words, random ones of them are stored to until the log has as
//! much of them as it ever has, and the process forgets the pool as if it had died. Then the file is
//! opened again, with its mapping, its recovery and the start of its volatile parts, which is what a
//! restarted program waits for. The medium is memory, so the pages that recovery touches are there and
//! only have to be mapped.

use std::time::Instant;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveryReport, UnrecoveredPool};
use outlast::scheme::SCHEMES;
use outlast::{Abort, BlockKind, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_measure::{Spread, middle};
use outlast_pmem::{MapOptions, Mapped};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::directory::PoolDirectory;
use super::{Contender, NativeError, Setup};
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};

/// Sizes of pools, in bytes: recovery must not depend on them.
const POOLS: [u64; 2] = [1 << 30, 8 << 30];

/// Bytes of the one lane's log.
const LOG_BYTES: u64 = 64 << 20;

/// Words that a transaction stores to, each on a line of its own.
const WORDS: u64 = 8;

/// A block of data, and how many of the pool's bytes data takes, in parts of four.
const BLOCK_BYTES: u64 = 64 << 20;

/// Openings of each pool; the median counts.
const OPENINGS: usize = 3;

/// Measures the opening of pools of the setup's schemes.
///
/// # Errors
/// When there is no room for the pools, or one does not recover.
pub fn measure(setup: &Setup, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let directory = PoolDirectory::new(setup)?;
    listen(Progress::Note(&format!("recovery: domain {}", directory.description())));
    let schemes: Vec<Scheme> = setup
        .contenders
        .iter()
        .filter_map(|contender| match contender {
            Contender::Own(own) => Some(own.scheme),
            _ => None,
        })
        // The log of commands only grows, and literal variants do not keep their word.
        .filter(|scheme| !scheme.is_published() && !matches!(scheme, Scheme::Aof | Scheme::None))
        .collect();
    let total = (schemes.len() * POOLS.len() * OPENINGS) as u64;
    let (mut records, mut done) = (Vec::new(), 0);
    for bytes in POOLS {
        for scheme in &schemes {
            let mut openings = Vec::new();
            for opening in 0..OPENINGS as u64 {
                openings.push(crash_and_open(&directory, *scheme, bytes, setup.seed ^ opening)?);
                done += 1;
                listen(Progress::Step { stage: "recovery", done, total });
            }
            records.extend(told(*scheme, bytes, openings, directory.short_description()));
        }
    }
    Ok(records)
}

/// How long one opening took, and what it found.
struct Opening {
    ms: f64,
    report: RecoveryReport,
}

fn told(scheme: Scheme, bytes: u64, mut openings: Vec<Opening>, domain: &str) -> Vec<Record> {
    let spread = Spread::of(openings.iter().map(|opening| opening.ms)).expect("it was opened");
    let report = middle(&mut openings, |opening| opening.ms).expect("it was opened").report;
    let name = SCHEMES.iter().find(|row| row.scheme == scheme).map_or("", |row| row.name);
    let workload = format!("recovery, {} GiB", bytes >> 30);
    let config = format!("{} MiB of log", LOG_BYTES >> 20);
    let record = |metric, value| {
        Record::new(Kind::Native, &workload, name, metric, value).domain(domain).config(&config)
    };
    let time = Record::spread(Kind::Native, &workload, name, Metric::RECOVERY_TIME, spread);
    vec![
        time.domain(domain).config(&config),
        record(Metric::RECOVERED, (report.replayed + report.undone) as f64),
    ]
}

/// Makes a pool, crashes it with a full log, and opens it.
fn crash_and_open(
    directory: &PoolDirectory,
    scheme: Scheme,
    bytes: u64,
    seed: u64,
) -> Result<Opening, NativeError> {
    let row = SCHEMES.iter().find(|row| row.scheme == scheme).expect("every scheme has its row");
    let named = |source| NativeError::Pool { scheme: row.name, source };
    let path = directory.path("recovery");
    let map = MapOptions { domain: Some(directory.domain()), ..MapOptions::default() };
    let create = CreateOptions { lanes: 1, lane_bytes: LOG_BYTES, ..CreateOptions::default() };
    let open = OpenOptions::with_scheme(scheme);
    let pool = Pool::create_with(&path, bytes, &create, &open, &map).map_err(named)?;
    let mut lane = pool.lane().map_err(named)?;
    let filled = fill_log(&mut lane, bytes, seed);
    filled.map_err(|abort| NativeError::Transaction {
        scheme: row.name,
        workload: "recovery",
        abort,
    })?;
    drop(lane);
    // Nothing is written that a dying process would not have written.
    drop(pool.into_medium());
    let start = Instant::now();
    let medium = Mapped::open(&path, &map)?;
    let recovered = UnrecoveredPool::open(medium).and_then(|pool| pool.recover());
    let recovered = recovered.map_err(named)?;
    let report = recovered.report();
    let pool = recovered.start(&open).map_err(named)?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    drop(pool);
    // The next one needs the room.
    let _ = std::fs::remove_file(&path);
    Ok(Opening { ms, report })
}

/// Stores to random words all over the pool until the log is about to move on.
fn fill_log(lane: &mut impl Runner, bytes: u64, seed: u64) -> Result<(), Abort> {
    let mut blocks: Vec<PoolOffset> = Vec::new();
    for _ in 0..(bytes - LOG_BYTES) / 4 * 3 / BLOCK_BYTES {
        blocks.push(lane.run(|tx| tx.alloc(BLOCK_BYTES, BlockKind::General))?);
    }
    let root = blocks[0];
    lane.run(|tx| tx.set_root(root, RootKind::Opaque))?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Records of `WORDS` scattered words take three lines; a lane begins to drop its log when it
    // is three quarters full.
    let transactions = LOG_BYTES / 64 * 3 / 4 / 3;
    for number in 0..transactions {
        let words: [PoolOffset; WORDS as usize] = std::array::from_fn(|_| {
            let block = blocks[random.random_range(0..blocks.len())];
            block.plus(random.random_range(0..BLOCK_BYTES / 64) * 64)
        });
        lane.run(|tx| words.iter().try_for_each(|word| tx.store_u64(*word, number)))?;
    }
    Ok(())
}
