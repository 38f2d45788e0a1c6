//! A lane that only waits for another's commits, while that other one runs alone: it sweeps, and
//! must not pass a commit under way. Every schedule within a bound, every crash, every image.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast::recover::UnrecoveredPool;
use outlast::{PoolOffset, Scheme, Ticket, Transact};
use outlast_crash::{Broken, Crash, Exhaustive, ImageMedium, Model, Violation};
use outlast_pmem::schedule::{Explorer, on_lane};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, TxId};

use crate::{options, small_pool};

/// Its lines hold the number of the last transaction.
const LINES: u64 = 2;

/// All lines say the same, and no less than was acknowledged.
fn judge(image: &ImageMedium, crash: &Crash<'_>, block: PoolOffset) -> Result<(), Violation> {
    UnrecoveredPool::open(image)
        .and_then(|pool| pool.recover())
        .map_err(|error| Violation::new(Broken::Refused, error.to_string()))?;
    let found: Vec<u64> = (0..LINES).map(|line| image.load_u64(block.plus(line * 64))).collect();
    if found.iter().any(|number| *number != found[0]) {
        return Err(Violation::new(Broken::Torn, format!("{found:?}")));
    }
    match crash.acked.iter().map(|tx| tx.0).max() {
        Some(acked) if found[0] < acked => {
            Err(Violation::new(Broken::Lost, format!("{} of {acked}", found[0])))
        }
        _ => Ok(()),
    }
}

#[test]
fn waiting_beside_a_lane_that_runs_alone_loses_nothing() {
    for scheme in Scheme::durable().filter(|scheme| !scheme.is_baseline()) {
        let (base, block) = small_pool::<{ LINES as usize * 64 }>(scheme);
        let mut explorer = Explorer::new(2);
        // Most schedules differ in the turns of the waiting lane alone, and leave the same log.
        let (mut images, mut judged) = (0, HashSet::new());
        while let Some(scheduler) = explorer.next() {
            let medium = Recorder::from_image(base.clone());
            let pool = on_lane(LaneId(15), || {
                let recovered = UnrecoveredPool::open(&medium)?.recover()?;
                recovered.start(&options(scheme))
            });
            let pool = pool.unwrap();
            let first = AtomicU64::new(0);
            // Lane 0 is taken first: it runs alone until another lane begins.
            let seats = [pool.lane_at(0).unwrap(), pool.lane_at(1).unwrap()];
            let bodies: Vec<_> = (0..).zip(seats).collect();
            let (pool, medium, first) = (&pool, &medium, &first);
            let bodies = bodies.into_iter().map(|(id, mut lane)| {
                move || match id {
                    0 => (1..=2).for_each(|number| {
                        let store = |tx: &mut outlast::Tx<'_, &Recorder>| {
                            (0..LINES).try_for_each(|i| tx.store_u64(block.plus(i * 64), number))
                        };
                        let ((), ticket) = lane.run_ticketed(store).unwrap();
                        medium.mark(Mark::Ack(TxId(number)));
                        let _ = first.compare_exchange(
                            0,
                            ticket.to_bits(),
                            Ordering::AcqRel,
                            Ordering::Relaxed,
                        );
                    }),
                    _ => {
                        while first.load(Ordering::Acquire) == 0 {
                            medium.pause();
                        }
                        let ticket = Ticket::from_bits(first.load(Ordering::Acquire));
                        lane.await_physical(ticket).unwrap();
                        assert!(pool.is_physical(ticket));
                    }
                }
            });
            let run = scheduler.run(bodies.collect()).unwrap();
            explorer.ran(&run);
            run.unwrap();
            let log = medium.take_log();
            if !judged.insert(log.clone()) {
                continue;
            }
            let verdict = |image: &ImageMedium, crash: &Crash<'_>| judge(image, crash, block);
            let outcome = Exhaustive::new(Model::default()).run(&base, &log, verdict).unwrap();
            images += outcome.images_verified();
            if let Some(failure) = outcome.failures.first() {
                panic!("{scheme}: {:?} at {}", failure.violation, failure.witness);
            }
        }
        assert!(images > 100, "{scheme}: {images}");
    }
}
