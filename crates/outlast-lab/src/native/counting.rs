//! What a transaction asks of its medium: flushed lines, fences, streamed lines, dirtiness.
//!
//! Counting slows stores down, so it has pools of its own and nothing is timed.

use outlast_pmem::{Counted, Counters, Delayed, Layer, WriteCost};

use super::{Contender, Muted, NativeError, Own, Probed, Session, bare, lane_runner};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};

/// Transactions that are counted.
const TRANSACTIONS: u64 = 10_000;

/// Counts, for each of our schemes and the bare loops, what one thread does.
pub(super) fn measure(
    session: &Session<'_>,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let Session { workload, scale, setup, .. } = session;
    let stage = format!("{}: count", workload.name);
    let schemes = setup.own_schemes();
    let count = |scheme: &Own| -> Result<Vec<Record>, NativeError> {
        let wrap = |m| Muted::new(Delayed::new(Counted::new(m), WriteCost::default()));
        let pool = session.directory.pool::<Probed>(session, *scheme, 1, &wrap)?;
        let counters = || pool.pool.medium().inner().inner().counters();
        let worker = workload.worker(scale, &pool.loaded, setup.seed, 1, 0);
        let mut lane_runner =
            lane_runner::lane_runner(pool.lane()?, setup.ack, scheme.sync_every(), worker);
        let before = counters();
        lane_runner.run(TRANSACTIONS).map_err(|abort| NativeError::Transaction {
            scheme: scheme.name(),
            workload: workload.name,
            abort,
        })?;
        Ok(counted(workload.name, scheme.name(), counters() - before))
    };
    let mut records = in_parallel(&schemes, usize::MAX, &stage, listen, count)?.concat();
    for &log in &session.bare {
        let scheme = Contender::Bare(log).name();
        let medium = Counted::new(session.directory.mapped(scheme, bare::bytes(scale))?);
        let mut lane = bare::lane(&medium, log, workload, scale, setup.seed);
        let before = medium.counters();
        lane.run(TRANSACTIONS).map_err(|abort| NativeError::Transaction {
            scheme,
            workload: workload.name,
            abort,
        })?;
        records.extend(counted(workload.name, scheme, medium.counters() - before));
    }
    Ok(records)
}

fn counted(workload: &str, scheme: &str, did: Counters) -> Vec<Record> {
    let each = |count: u64| Some(count as f64 / TRANSACTIONS as f64);
    let values = [
        (Metric::FLUSHED_LINES, each(did.flushed_lines)),
        (Metric::FENCES, each(did.fences)),
        (Metric::STREAMED_LINES, each(did.streamed_lines)),
        (Metric::DIRTINESS, did.dirtiness()),
    ];
    let record = |(metric, value): (Metric, Option<f64>)| {
        Some(Record::new(Kind::Native, workload, scheme, metric, value?).threads(1))
    };
    values.into_iter().filter_map(record).collect()
}
