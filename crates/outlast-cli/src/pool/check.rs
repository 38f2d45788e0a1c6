//! `outlast pool check`: a pool that is not recovered is checked as recovery would leave it, and the
//! file stays as it is.

use std::path::Path;

use outlast::checkpoint::Checkpoint;
use outlast::inspect::walk::OFFSETS;
use outlast::inspect::{CheckReport, Finding, PoolInfo};
use outlast::medium::MapOptions;
use outlast::recover::UnrecoveredPool;
use outlast::{PoolError, PoolReader};
use outlast_pmem::{MapError, Mapped, Overlay};
use serde_json::json;

use super::{CheckArgs, about, print_findings, roots, steps};
use crate::say::{OutputFailed, outln};
use crate::{CommandResult, Verdict};

/// What there is to say of a pool.
#[derive(Default)]
struct Outcome {
    /// Why it cannot be opened, if it cannot; then all else is unknown.
    unopened: Option<String>,
    report: CheckReport,
    live_records: usize,
    /// Blocks that probably leak are findings.
    is_strict: bool,
    /// Another process has the pool open.
    is_beside_writer: bool,
}

impl Outcome {
    /// What is wrong, as far as it was kept, in words.
    fn findings(&self) -> impl Iterator<Item = String> + '_ {
        let found = self.report.findings.iter();
        let found = found.map(|finding| roots::with_path(finding, &self.report));
        self.unopened.iter().cloned().chain(found)
    }

    /// Blocks that probably leak, in words.
    fn suspected(&self) -> impl Iterator<Item = String> + '_ {
        self.report.suspected.iter().map(|finding| match finding {
            Finding::Leaked { at, bytes } => format!(
                "block of {bytes} bytes at {at}: no block that the root leads to holds its offset"
            ),
            other => other.to_string(),
        })
    }

    fn count(&self) -> u64 {
        let suspected = if self.is_strict { self.report.suspected.count() } else { 0 };
        u64::from(self.unopened.is_some()) + self.report.findings.count() + suspected
    }
}

/// Sound or damaged; whatever is no pool, or cannot be read, is bad input.
pub(super) fn check(args: &CheckArgs, as_json: bool, seed: u64) -> CommandResult {
    let path = &args.file.file;
    let map = MapOptions { read_only: true, domain: args.file.domain, ..MapOptions::default() };
    let outcome = match UnrecoveredPool::open_file(path, &map).and_then(look) {
        Err(PoolError::Map(MapError::AlreadyOpen { .. })) => about(path, look_beside(path, &map))?,
        Err(error) if error.is_damage() => unopened(error),
        Err(error @ PoolError::Map(MapError::BadLength { .. })) => match PoolInfo::peek(path) {
            Ok(_) => unopened(error),
            Err(peeked) if peeked.is_damage() => unopened(peeked),
            Err(_) => return about(path, Err(error)),
        },
        outcome => about(path, outcome)?,
    };
    let outcome = Outcome { is_strict: args.strict, ..outcome };
    let verdict = if outcome.count() == 0 { Verdict::Good } else { Verdict::Bad };
    verdict.after(print(path, &outcome, as_json, seed))
}

/// What is wrong keeps the pool from being opened.
fn unopened(error: PoolError) -> Outcome {
    Outcome { unopened: Some(error.to_string()), ..Outcome::default() }
}

/// The check of a pool whose log is live stores into an overlay: it takes memory for what recovery
/// changes, and none for the rest.
fn look(pool: UnrecoveredPool<Mapped>) -> Result<Outcome, PoolError> {
    let mut tell = steps();
    let live_records = pool.info()?.live_records.unwrap_or_default();
    let report = match live_records {
        0 => pool.read_only()?.check_by(&roots::walkers(), &mut tell),
        _ => {
            let of_log = pool.harmless_damage();
            let copy = UnrecoveredPool::open(Overlay::new(pool.into_medium()))?;
            let mut report = copy.recover()?.check_by(&roots::walkers(), &mut tell);
            report.findings.extend(of_log.iter().cloned());
            report
        }
    };
    Ok(Outcome { report, live_records, ..Outcome::default() })
}

/// The check of a pool that another process writes, on a snapshot.
fn look_beside(path: &Path, map: &MapOptions) -> Result<Outcome, PoolError> {
    let mut reader = PoolReader::open(path, map)?;
    let mut tell = steps();
    let report = reader.on_snapshot(|pool| Ok(pool.check_by(&roots::walkers(), &mut tell)));
    let report = report.map_err(super::of_reader)?;
    Ok(Outcome { report, is_beside_writer: reader.is_beside_writer(), ..Outcome::default() })
}

/// The command that puts a pool back that cannot be opened.
fn advice(path: &Path) -> String {
    let beside = outlast::checkpoint::checkpoint_path(path);
    let from = match Checkpoint::open(&beside) {
        Ok(_) => quoted(&beside),
        Err(_) => "CHECKPOINT".to_owned(),
    };
    let path = quoted(path);
    format!("to put it back and keep this file: outlast pool restore {path} --from {from} --aside")
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn print(path: &Path, outcome: &Outcome, as_json: bool, seed: u64) -> Result<(), OutputFailed> {
    let Outcome { unopened, report, live_records, .. } = outcome;
    if as_json {
        let record = json!({
            "file": path.display().to_string(),
            "opened": unopened.is_none(),
            "findings": outcome.findings().collect::<Vec<_>>(),
            "findings_more": report.findings.more(),
            "blocks": report.blocks,
            "block_bytes": report.block_bytes,
            "chunks_free": report.chunks_free,
            "chunks_class": report.chunks_class,
            "chunks_large": report.chunks_large,
            "reachable": report.reachable,
            "root_is": roots::json(report.root.as_ref()),
            "suspected": outcome.suspected().collect::<Vec<_>>(),
            "suspected_more": report.suspected.more(),
            "live_records": live_records,
            "beside_writer": outcome.is_beside_writer,
        });
        outln!("{}", crate::document("pool check", seed, vec![record]));
        return Ok(());
    }
    print_findings(path, outcome.findings(), report.findings.more())?;
    print_findings(path, outcome.suspected(), report.suspected.more())?;
    if outcome.is_beside_writer {
        outln!(
            "a snapshot beside the process that has the pool open; its logs and checksums were not looked at"
        );
    }
    if *live_records > 0 {
        outln!("{live_records} log records wait for recovery; a recovered copy was checked");
    }
    if unopened.is_some() {
        outln!("{}", advice(path));
    }
    let reach = match report.reachable {
        _ if unopened.is_some() => "it cannot be opened".to_owned(),
        Some(reached) => match (&report.root, report.suspected.count()) {
            (Some((kind, _)), suspected) if *kind == OFFSETS.name() => {
                format!("{reached} reached by offsets from the root, {suspected} not")
            }
            _ => format!("{reached} reached from the root"),
        },
        None => "reachability unknown: the root is of the user's own kind".to_owned(),
    };
    outln!(
        "{} blocks, {} bytes, {reach}; {} findings",
        report.blocks,
        report.block_bytes,
        outcome.count()
    );
    Ok(())
}
