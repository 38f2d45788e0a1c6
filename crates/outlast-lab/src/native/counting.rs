//! What a transaction asks of its medium: flushed lines, fences, streamed lines, dirtiness.
//!
//! Counting slows stores down, so it has pools of its own and nothing is timed.

use outlast_pmem::Counted;

use super::seat::{AckLane, Seat};
use super::{NativeError, Session};
use crate::bench::Lane as _;
use crate::news::{Listener, News};
use crate::record::{Kind, Metric, Record};

/// Transactions that are counted.
const TRANSACTIONS: u64 = 10_000;

/// Counts, for each of our schemes, what one thread does.
pub(super) fn measure(
    session: &Session<'_>,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let Session { workload, scale, setup, .. } = session;
    let stage = format!("{}: count", workload.name);
    let schemes = setup.own_schemes();
    let mut records = Vec::new();
    for (index, &scheme) in schemes.iter().enumerate() {
        let pool = session.arena.pool(session, scheme, 1, Counted::new)?;
        let worker = workload.worker(scale, &pool.loaded, setup.seed, 1, 0);
        let mut seat = Seat { runner: AckLane::new(pool.lane()?, setup.ack), worker };
        let before = pool.pool.medium().counters();
        seat.run(TRANSACTIONS).map_err(|abort| NativeError::Transaction {
            scheme: scheme.name(),
            workload: workload.name,
            abort,
        })?;
        let did = pool.pool.medium().counters() - before;
        let mut add = |metric, value| {
            let record = Record::new(Kind::Native, workload.name, scheme.name(), metric, value);
            records.push(record.threads(1));
        };
        let each = |count: u64| count as f64 / TRANSACTIONS as f64;
        add(Metric::FLUSHED_LINES, each(did.flushed_lines));
        add(Metric::FENCES, each(did.fences));
        add(Metric::STREAMED_LINES, each(did.streamed_lines));
        if let Some(dirtiness) = did.dirtiness() {
            add(Metric::DIRTINESS, dirtiness);
        }
        listen(News::Step { stage: &stage, done: index as u64 + 1, total: schemes.len() as u64 });
    }
    Ok(records)
}
