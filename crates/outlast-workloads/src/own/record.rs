//! Work of one's own for schemes of the machine: bare transactions on one memory.
//!
//! Schemes keep what they know by lines and by pages. Lanes none of which stores into a page that another
//! touches are independent: each has a stream of its own. Lanes that meet run under one lock, in the order of the file.

use std::sync::Arc;

use outlast::{Abort, BlockKind, PoolOffset, Runner, Transact};
use outlast_trace::{LaneId, OpLog};

use super::OwnWork;
use crate::machine::{Plan, PlanError, Recorded};
use crate::{Bare, Workload};

const PAGE_BYTES: u64 = 4096;
/// Room for the heads of the allocator's lists, and for what it rounds up.
const ROOM_BYTES: u64 = 64 << 10;
/// The header of a vector of words.
const HEADER_BYTES: u64 = 64;
/// The largest block whose size is not rounded up to a power of two.
const SMALL_BYTES: u64 = 1024;

/// Runs the transactions of a plan on functional memory.
pub(crate) fn record(plan: &Plan, work: &OwnWork) -> Result<Recorded, PlanError> {
    let Plan { workload, threads, transactions, warm_up, abort_every, .. } = *plan;
    let refused = |what| PlanError::Listed { workload: workload.name, what };
    match plan {
        Plan { shared: true, .. } => return Err(refused("--shared")),
        Plan { switch_every: 1.., .. } => return Err(refused("--switch-every")),
        Plan { batch: 1.., .. } => return Err(refused("--batch")),
        _ if threads != work.lanes() => return Err(refused("--threads")),
        _ => {}
    }
    let failed = |error: Abort| PlanError::Memory { workload: workload.name, error };
    let room = (work.memory_bytes() + HEADER_BYTES).next_power_of_two() + ROOM_BYTES;
    let count = warm_up + transactions;
    let meets = work.lanes() > 1 && work.lanes_meet_within(PAGE_BYTES);
    let mut recorded = Recorded {
        plan: *plan,
        image: Arc::default(),
        streams: Vec::new(),
        transactions: 0,
        aborted: 0,
    };
    let groups = if meets { 1 } else { work.lanes() };
    for group in 0..groups {
        let mut bare = Bare::new(PoolOffset(0), room, LaneId(group), u32::from(group));
        bare = bare.abort_every(abort_every);
        if meets {
            bare = bare.shared();
        }
        at_a_page(&mut bare).map_err(failed)?;
        let log = if meets {
            run(&mut bare, workload, plan.seed, work.lanes_in_order(count))
        } else {
            let own = work.count_of_lane(group, count) as usize;
            run(&mut bare, workload, plan.seed, std::iter::repeat_n(group, own))
        };
        let (image, log) = log.map_err(failed)?;
        recorded.image = Arc::new(image);
        recorded.streams.push(Arc::new(log));
        recorded.transactions += bare.transactions();
        recorded.aborted += bare.aborted();
    }
    Ok(recorded)
}

/// Takes blocks so that the words of the next one begin at a page, as the file's addresses do.
fn at_a_page(bare: &mut Bare) -> Result<(), Abort> {
    let used = bare.used_bytes();
    let mut rest = (used + HEADER_BYTES).next_multiple_of(PAGE_BYTES) - HEADER_BYTES - used;
    bare.run(|tx| {
        while rest > 0 {
            tx.alloc(rest.min(SMALL_BYTES), BlockKind::General)?;
            rest -= rest.min(SMALL_BYTES);
        }
        Ok(())
    })
}

/// Loads the words and runs transactions of these lanes, one after the other. Returns memory before the first of them,
/// and their operations.
fn run(
    bare: &mut Bare,
    workload: &'static Workload,
    seed: u64,
    lanes: impl Iterator<Item = u16>,
) -> Result<(Vec<u8>, OpLog), Abort> {
    let scale = workload.scale();
    let loaded = workload.load(&scale, seed, bare, &mut |_, _| {})?;
    let used = bare.used_bytes().next_multiple_of(64) as usize;
    let image = bare.memory()[..used.min(bare.memory().len())].to_vec();
    let mut workers: Vec<_> = Vec::new();
    bare.record();
    for lane in lanes {
        while workers.len() <= usize::from(lane) {
            workers.push(workload.worker(&scale, &loaded, seed, workers.len() as u8 + 1, 0));
        }
        bare.set_lane(LaneId(lane));
        let worker = &mut workers[usize::from(lane)];
        match worker.step(bare) {
            Err(Abort::Cancelled(_)) => {} // One that aborts at intervals: nothing else cancels.
            result => drop(result?),
        }
        worker.draw();
    }
    Ok((image, bare.take_log()))
}
