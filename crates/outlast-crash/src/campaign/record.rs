//! What a campaign crashes: a loaded pool, and one recorded run of a workload on it.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast::{CreateOptions, OpenOptions, Plant, Pool, Scheme, UnrecoveredPool};
use outlast_pmem::schedule::{self, Plan};
use outlast_pmem::{Heap, Mark, Medium, Recorder};
use outlast_trace::{LaneId, Op, OpLog, TxId};
use outlast_workloads::{Loaded, Scale, State, Witness, Worker, Workload};

use super::judge::{ABSENT, KeyState, Seen, Transaction};
use super::{Campaign, CampaignError};
use crate::verdict::panicked;
use crate::{Broken, Violation};

/// Out of 256: how probably a lane keeps the baton at an operation.
const STICKINESS: u8 = 250;

/// Locks of a campaign's pools: few, since making them costs at each recovery.
const LOCK_STRIPES: usize = 1 << 12;

/// Write-back by age: the cache that it reckons with, between the emulated ones in size, and how
/// often lanes look after it. Small enough for lines to age out between two crashes.
const CACHE_BYTES: u64 = 16 << 10;
const STEP_EVERY: usize = 16;

/// A pool with a workload's data in it, before any crash window.
pub(super) struct Base {
    pub bytes: Vec<u8>,
    pub scale: Scale,
    pub initial: Vec<KeyState>,
}

/// One run, with everything a judge may know of it.
pub(super) struct Recording {
    pub log: OpLog,
    pub transactions: Vec<Transaction>,
}

/// How campaigns open pools.
pub(super) fn open_options(scheme: Scheme, plant: Option<Plant>) -> OpenOptions {
    OpenOptions {
        lock_stripes: LOCK_STRIPES,
        plant,
        cache_bytes: Some(CACHE_BYTES),
        sample_bits: 0,
        step_every: STEP_EVERY,
        ..OpenOptions::with_scheme(scheme)
    }
}

impl Base {
    /// Loads the pool on plain memory: nothing of this can be lost.
    pub fn load(campaign: &Campaign) -> Result<Self, CampaignError> {
        let Campaign { workload, seed, .. } = *campaign;
        let scale = campaign.scale();
        workload.check(&scale)?;
        let len = workload.heap_bytes(&scale) + u64::from(campaign.lanes) * campaign.lane_bytes;
        let create = CreateOptions {
            lanes: u32::from(campaign.lanes),
            lane_bytes: campaign.lane_bytes,
            chunk_bytes: Some(4096),
            uuid: Some(Default::default()),
            plant: None,
        };
        let medium = Heap::new((len + (256 << 10)).next_multiple_of(4096));
        let pool = Pool::create_on(medium, &create, &open_options(campaign.scheme, None))?;
        let mut lane = pool.lane()?;
        workload.load(&scale, seed, &mut lane, &mut |_, _| {})?;
        drop(lane);
        let mut initial = vec![ABSENT; scale.records as usize];
        workload.initial(&scale, seed, |key, state| {
            if key as usize >= initial.len() {
                initial.resize(key as usize + 1, ABSENT);
            }
            initial[key as usize] = key_state(state);
        });
        Ok(Self { bytes: pool.into_medium().to_bytes(), scale, initial })
    }
}

impl Recording {
    /// Opens the pool and runs the campaign's transactions, all lanes at once, under a schedule
    /// that follows from the seed. Opening belongs to the crash window.
    ///
    /// # Errors
    /// What went wrong though nothing had crashed.
    pub fn make(campaign: &Campaign, base: &Base) -> Result<Self, Violation> {
        let medium = Recorder::from_image(base.bytes.clone());
        let Campaign { workload, scheme, plant, seed, lanes, .. } = *campaign;
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let pool = UnrecoveredPool::open(&medium)
            .and_then(|pool| pool.recover(plant))
            .and_then(|pool| pool.start(&open_options(scheme, plant)))
            .map_err(|error| refused(error.to_string()))?;
        let mut lane = pool.lane().map_err(|error| refused(error.to_string()))?;
        let loaded = workload.attach(&base.scale, &mut lane);
        let loaded = loaded.map_err(|abort| refused(abort.to_string()))?;
        drop(lane);
        let clock = AtomicU64::new(0);
        let bodies: Vec<_> = (0..lanes)
            .map(|lane| {
                let (pool, medium, loaded, clock) = (&pool, &medium, &loaded, &clock);
                move || {
                    let worker = workload.worker(&base.scale, loaded, seed, lane as u8 + 1, 0);
                    run_lane(pool, lane, worker, campaign.per_lane(), clock, || medium.ops())
                }
            })
            .collect();
        let plan = Plan::Random { seed, stay: STICKINESS };
        let run = schedule::run(&plan, bodies)
            .map_err(|error| Violation::new(Broken::Stuck, error.to_string()))?;
        let mut transactions = Vec::new();
        for lane in run.lanes {
            transactions.extend(lane.unwrap_or_else(|payload| Err(panicked(&*payload)))?);
        }
        drop(pool);
        let log = medium.take_log();
        place_acknowledgements(&log, &mut transactions);
        Ok(Self { log, transactions })
    }
}

/// A program's lane: its transactions, each acknowledged when it has returned.
pub(super) fn run_lane<M: Medium>(
    pool: &Pool<M>,
    lane: u16,
    mut worker: Worker,
    transactions: u32,
    clock: &AtomicU64,
    ops: impl Fn() -> usize,
) -> Result<Vec<Transaction>, Violation> {
    let refused = |what: String| Violation::new(Broken::Refused, what);
    let mut runner = pool.lane_at(usize::from(lane)).map_err(|error| refused(error.to_string()))?;
    let mut done = Vec::with_capacity(transactions as usize);
    for index in 0..transactions {
        let mut listener = Listener { clock, reads: Vec::new(), writes: Vec::new() };
        let begun = ops();
        worker
            .step_with(&mut runner, &mut listener)
            .map_err(|abort| refused(format!("while nothing had crashed: {abort}")))?;
        pool.medium().mark(Mark::Ack(TxId(u64::from(lane) << 32 | u64::from(index))));
        worker.draw();
        let Listener { reads, writes, .. } = listener;
        let name = format!("transaction {index} of lane {lane}");
        done.push(Transaction { name, begun, acked: usize::MAX, reads, writes });
    }
    Ok(done)
}

/// Finds the operations at which the transactions, lane after lane, were acknowledged.
pub(super) fn place_acknowledgements(log: &OpLog, transactions: &mut [Transaction]) {
    let mut acks: Vec<(TxId, usize)> = log
        .iter()
        .enumerate()
        .filter_map(|(at, (_, op))| if let Op::Ack(id) = op { Some((id, at)) } else { None })
        .collect();
    acks.sort_unstable();
    debug_assert_eq!(acks.len(), transactions.len());
    for (tx, (_, at)) in transactions.iter_mut().zip(acks) {
        tx.acked = at;
    }
}

/// Makes the worker that goes on after a recovery: none of its versions was used before.
pub(super) fn later_worker(
    workload: &Workload,
    scale: &Scale,
    loaded: &Loaded,
    seed: u64,
    lanes: u16,
) -> Worker {
    workload.worker(scale, loaded, seed, lanes as u8 + 1, 0)
}

/// The lane on which things go on after a recovery.
pub(super) const LATER_LANE: LaneId = LaneId(0);

fn key_state(state: State) -> KeyState {
    match state {
        State::Absent => ABSENT,
        State::Holds(version) => version.0,
    }
}

/// Keeps a transaction's facts with the moments of its reads.
struct Listener<'a> {
    clock: &'a AtomicU64,
    reads: Vec<Seen>,
    writes: Vec<(u64, KeyState)>,
}

impl Witness for Listener<'_> {
    const WATCHES: bool = true;

    fn restart(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    fn read(&mut self, key: u64, state: State) {
        let time = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        self.reads.push(Seen { key, state: key_state(state), time });
    }

    fn write(&mut self, key: u64, state: State) {
        self.writes.push((key, key_state(state)));
    }
}
