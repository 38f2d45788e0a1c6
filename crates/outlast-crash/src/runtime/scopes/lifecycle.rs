//! Creation and growth on trial: what a pool is while it comes to be and while it grows.

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{BlockKind, Pool, PoolError, RootKind, Runner, Transact};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{OpLog, TxId};

use super::{ScopeConfig, ScopeFailure, Tally};
use crate::{Broken, Crash, CrashImage, Exhaustive, ImageMedium, Live, TooWide, Violation};

const POOL_BYTES: u64 = 96 << 10;
const GROWN_BYTES: u64 = 128 << 10;

const CREATED: TxId = TxId(1);
const STORED: TxId = TxId(2);
const GREW: TxId = TxId(3);

/// Creates a pool on blank memory and stores something, then grows it; crashes everywhere. While it
/// grows everything before is durable, and still in the log.
///
/// # Errors
/// When a unit of memory has too many contents to enumerate.
pub fn run(config: &ScopeConfig) -> Result<Tally, TooWide> {
    let medium = Recorder::new(POOL_BYTES).growing_to(GROWN_BYTES).paged(config.is_paged());
    let medium = medium.planting(Plant::code_of(config.plant));
    let mut tally = Tally { schedules: 1, ..Tally::default() };
    let (born, grown) = match live(&medium, config) {
        Ok(logs) => logs,
        Err(error) => {
            let violation = Violation::new(Broken::Refused, error);
            tally.failure =
                Some(ScopeFailure { violation, plan: "one lane".to_owned(), witness: None });
            return Ok(tally);
        }
    };
    for (base, log) in [(vec![0; POOL_BYTES as usize], born), grown] {
        let judge = |image: &ImageMedium, crash: &Crash<'_>| verify(image, crash, config);
        let outcome = Exhaustive::new(config.model)
            .images_max(config.images_max)
            .growing_to(GROWN_BYTES)
            .run(&base, &log, judge)?;
        tally.take(&outcome);
        if let Some(failure) = outcome.failures.into_iter().next() {
            tally.failure = Some(ScopeFailure {
                violation: failure.violation,
                plan: "one lane".to_owned(),
                witness: Some(failure.witness.to_string()),
            });
            break;
        }
    }
    Ok(tally)
}

/// What happens before the pool grows, and, behind the bytes that it has by then, while it does.
fn live(medium: &Recorder, config: &ScopeConfig) -> Result<(OpLog, (Vec<u8>, OpLog)), String> {
    let create = CreateOptions {
        lanes: 1,
        lane_bytes: 1024,
        chunk_bytes: Some(4096),
        uuid: Some(Default::default()),
        ..CreateOptions::default()
    };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(config.scheme) };
    let pool =
        Pool::create_on(Live::B(medium), &create, &open).map_err(|error| error.to_string())?;
    medium.mark(Mark::Ack(CREATED));
    let mut lane = pool.lane().map_err(|error| error.to_string())?;
    lane.run(|tx| {
        let root = tx.alloc(64, BlockKind::General)?;
        tx.store_u64(root, STORED.0)?;
        tx.set_root(root, RootKind::Opaque)
    })
    .map_err(|abort| abort.to_string())?;
    medium.mark(Mark::Ack(STORED));
    let born = medium.take_log();
    let before = medium.to_bytes();
    for done in [CREATED, STORED] {
        medium.mark(Mark::Ack(done));
    }
    pool.grow(GROWN_BYTES).map_err(|error| error.to_string())?;
    medium.mark(Mark::Ack(GREW));
    Ok((born, (before, medium.take_log())))
}

fn verify(image: &ImageMedium, crash: &Crash<'_>, config: &ScopeConfig) -> Result<(), Violation> {
    let acked = |tx: TxId| crash.acked.contains(&tx);
    let refused = |error: PoolError| Violation::new(Broken::Refused, error.to_string());
    image.plant(Plant::code_of(config.plant));
    let pool = match UnrecoveredPool::open(CrashImage::B(image)) {
        Err(PoolError::Unfinished) if !acked(CREATED) => return Ok(()),
        opened => opened.and_then(|pool| pool.recover()).map_err(refused)?,
    };
    let (report, blocks) = pool.check_metadata();
    if let Some(finding) = report.findings.first() {
        return Err(Violation::new(Broken::Other, finding.to_string()));
    }
    let root = pool.root().map_err(refused)?;
    match root {
        Some((at, _)) if blocks.len() == 1 && image.load_u64(at) == STORED.0 => {}
        None if blocks.is_empty() && !acked(STORED) => {}
        None if blocks.is_empty() => return Err(Violation::new(Broken::Lost, "the root object")),
        other => {
            let detail = format!("the root is {other:?} and {} blocks are taken", blocks.len());
            return Err(Violation::new(Broken::Torn, detail));
        }
    }
    let grown = pool.header().geometry.chunk_at(pool.chunks()).0 > POOL_BYTES;
    if acked(GREW) && !grown {
        return Err(Violation::new(Broken::Lost, "the growth"));
    }
    Ok(())
}
