//! `clwb` against `clflushopt`: the same schemes and work, flushed by one or the other.
//!
//! Both write a line back; only the second is sure to take it out of the cache, so that the next
//! access fetches it again. Each scheme competes against itself, interleaved.

use outlast_pmem::has_flush;
use outlast_trace::FlushKind;

use super::directory::PoolDirectory;
use super::{NativeError, Own, Session, Setup};
use crate::bench::{Outcome, Subject};
use crate::parallel::in_parallel;
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

const KINDS: [(&str, FlushKind); 2] =
    [("clwb", FlushKind::Clwb), ("clflushopt", FlushKind::ClflushOpt)];

/// How much faster each scheme of the setup is with `clwb`; nothing, with a note, on a processor
/// that lacks one of the two.
///
/// # Errors
/// [`NativeError`].
pub fn run(setup: &Setup, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    setup.check()?;
    if let Some((name, _)) = KINDS.iter().find(|(_, kind)| !has_flush(*kind)) {
        listen(Progress::Note(&format!("clwb against clflushopt: this processor has no {name}")));
        return Ok(Vec::new());
    }
    let directory = PoolDirectory::new(setup)?;
    let mut records = Vec::new();
    for workload in &setup.workloads {
        let scale = setup.scale(workload);
        let session =
            Session { setup, directory: &directory, workload, scale, peers: &[], bare: Vec::new() };
        let schemes = setup.own_schemes();
        let outcome = compete(&session, &schemes, listen)?;
        let gains = schemes.iter().filter_map(|scheme| gain(&session, &outcome, *scheme));
        records.extend(gains.map(|record| session.with_conditions(record)));
    }
    Ok(records)
}

fn compete(
    session: &Session<'_>,
    schemes: &[Own],
    listen: &mut Listener<'_>,
) -> Result<Outcome, NativeError> {
    let own: Vec<_> =
        schemes.iter().flat_map(|scheme| KINDS.map(|(name, kind)| (*scheme, name, kind))).collect();
    let stage = format!("{}: load", session.workload.name);
    let pools = in_parallel(&own, usize::MAX, &stage, listen, |(scheme, name, kind)| {
        let flushing = |mapped: outlast_pmem::Mapped| mapped.flushing_with(*kind);
        let pool = session.directory.pool(session, *scheme, session.setup.threads, &flushing)?;
        Ok::<_, NativeError>((*name, pool))
    })?;
    let mut subjects = Vec::new();
    for (name, pool) in &pools {
        subjects.push(Subject::new(&subject(pool.own, name), pool.lanes(session, 0)?));
    }
    session.race(&mut subjects, 1, listen)
}

fn subject(own: Own, kind: &str) -> String {
    format!("{own} {kind}")
}

/// Throughput with `clwb` above that with `clflushopt`, formed round by round.
fn gain(session: &Session<'_>, outcome: &Outcome, own: Own) -> Option<Record> {
    let [clwb, other] = KINDS.map(|(name, _)| outcome.of(&subject(own, name)));
    let pairs = clwb?.rounds.iter().zip(&other?.rounds);
    let gains = pairs.map(|(clwb, other)| 100.0 * (other.tx_ns() / clwb.tx_ns() - 1.0));
    let (workload, metric) = (session.workload.name, Metric::CLWB_GAIN);
    let spread = Spread::of(gains)?;
    let record = Record::spread(Kind::Native, workload, own.name(), metric, spread);
    Some(record.threads(outcome.threads))
}
