//! What a campaign crashes: a loaded pool, and one recorded run of a workload on it.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, Lane, Pool, Runner, Scheme, Tx};
use outlast_pmem::schedule::{self, Plan};
use outlast_pmem::{Either, Heap, Mark, Medium, Recorder};
use outlast_trace::{LaneId, Op, OpLog, TxId};
use outlast_workloads::{Loaded, Scale, State, Witness, Worker, Workload};

use super::{Campaign, CampaignError};
use crate::caught;
use crate::oracle::keys::{ABSENT, KeyState, Seen, Transaction};
use crate::panicked;
use crate::{Broken, Live, Violation, bytes_of, live};

/// Out of 256: how probably a lane keeps the baton at an operation.
const STICKINESS: u8 = 250;

/// Locks of a campaign's pools: few, since making them costs at each recovery.
const LOCK_STRIPES: usize = 1 << 12;

/// Where the log is streamed, some records take one way and some the other.
const STREAM_FROM: u64 = 3;

/// Write-back by age: the cache that it reckons with, between the emulated ones in size, and how
/// often lanes look after it. Small enough for lines to age out between two crashes.
const CACHE_BYTES: u64 = 16 << 10;
const STEP_EVERY: usize = 16;

/// The pages of a rollback journal: the smallest that SQLite has, since every line of them is
/// played through every cache.
const PAGE_BYTES: u64 = 512;

/// Where nothing shortens a log: room for it, for each transaction.
const LOG_BYTES_PER_TRANSACTION: u64 = 8 << 10;

/// A pool with a workload's data in it, before any crash window.
pub(super) struct Base {
    pub bytes: Vec<u8>,
    pub scale: Scale,
    pub initial: Vec<KeyState>,
    /// Bytes of the blocks in use.
    pub data_bytes: u64,
}

/// One run, with everything a judge may know of it.
#[derive(Default)]
pub(super) struct Recording {
    pub log: OpLog,
    pub transactions: Vec<Transaction>,
    /// Where the heap begins.
    pub heap_at: u64,
    /// Operations until the warm-up was over.
    pub warm_at: usize,
}

/// How campaigns open pools.
pub(super) fn open_options(campaign: &Campaign) -> OpenOptions {
    let plain = OpenOptions::with_scheme(campaign.scheme);
    let stream_from = Some(STREAM_FROM);
    let plain = OpenOptions { lock_stripes: LOCK_STRIPES, sample_bits: 0, stream_from, ..plain };
    let (cache_bytes, step_every) = match (campaign.warm_up, campaign.caches.first()) {
        (Some(_), Some(caches)) => (caches.last_level_bytes(), plain.step_every),
        _ => (CACHE_BYTES, STEP_EVERY),
    };
    let cache_bytes = Some(cache_bytes);
    OpenOptions { cache_bytes, step_every, page_bytes: PAGE_BYTES, ack: campaign.ack, ..plain }
}

impl Base {
    /// Loads the pool on plain memory: nothing of this can be lost.
    pub fn load(campaign: &Campaign) -> Result<Self, CampaignError> {
        let Campaign { workload, seed, .. } = *campaign;
        let scale = campaign.scale();
        workload.check(&scale)?;
        let len = workload.heap_bytes(&scale) + u64::from(campaign.lanes) * campaign.lane_bytes;
        // Values of published sizes want chunks of the usual size, and room for some of them.
        let is_small = campaign.warm_up.is_none();
        let (chunk_bytes, slack) = if is_small { (4096, 256 << 10) } else { (64 << 10, 4 << 20) };
        // A log that nothing shortens would outgrow the data that it loads.
        let (loaded_with, log_bytes) = match campaign.scheme {
            Scheme::Aof => {
                let bytes = u64::from(campaign.transactions) * LOG_BYTES_PER_TRANSACTION;
                (Scheme::Redo, bytes)
            }
            other => (other, 0),
        };
        let create = CreateOptions {
            lanes: u32::from(campaign.lanes),
            lane_bytes: campaign.lane_bytes,
            chunk_bytes: Some(chunk_bytes),
            uuid: Some(Default::default()),
            checksums: campaign.checksums,
            ..CreateOptions::default()
        };
        let len = if campaign.checksums || campaign.scheme.is_published() { len * 2 } else { len };
        let medium: Live<'_> =
            Either::A(Heap::new((len + log_bytes + slack).next_multiple_of(chunk_bytes)));
        let open = OpenOptions { scheme: Some(loaded_with), ..open_options(campaign) };
        let pool = Pool::create_on(medium, &create, &open)?;
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
        let literal = campaign.scheme.is_published();
        // What is only logically committed a literal variant on undo takes back.
        let bytes = bytes_of(&if literal { pool.close() } else { pool.into_medium() });
        let copy = UnrecoveredPool::open(live(&bytes))?.recover()?;
        let data_bytes = copy.check_metadata().0.block_bytes;
        Ok(Self { bytes, scale, initial, data_bytes })
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
        let medium = if campaign.warm_up.is_some() { medium.recording_loads() } else { medium };
        let medium = medium.planting(Plant::code_of(campaign.plant));
        let Campaign { workload, seed, .. } = *campaign;
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let pool = UnrecoveredPool::open(Live::B(&medium))
            .and_then(|pool| pool.recover())
            .and_then(|pool| pool.start(&open_options(campaign)))
            .map_err(|error| refused(error.to_string()))?;
        let mut lane = pool.lane().map_err(|error| refused(error.to_string()))?;
        let loaded = workload.attach(&base.scale, &mut lane);
        let loaded = loaded.map_err(|abort| refused(abort.to_string()))?;
        drop(lane);
        let heap_at = pool.header().geometry.heap_at;
        let ops = || medium.ops();
        let mut transactions = match campaign.warm_up {
            // No lane to be scheduled against, and a baton costs more than the work.
            Some(_) => {
                let worker = workload.worker(&base.scale, &loaded, seed, 1, 0);
                let (count, every) = (campaign.of_lane(0), campaign.sync_every.unwrap_or(1));
                let body = || run_lane(&pool, 0, worker, count, every, &AtomicU64::new(0), ops);
                let ran = caught::catch(body);
                ran.unwrap_or_else(|payload| Err(panicked(&*payload)))?
            }
            None => run_together(campaign, base, &pool, &loaded, ops)?,
        };
        drop(pool);
        let log = medium.take_log();
        place_acknowledgements(&log, &mut transactions);
        let warm_at = match campaign.warm_up {
            Some(warm_up) => transactions[warm_up as usize - 1].acked + 1,
            None => 0,
        };
        Ok(Self { log, transactions, heap_at, warm_at })
    }
}

/// Runs the campaign's transactions, all lanes at once, under a schedule that follows from the
/// seed. Returns them lane after lane.
///
/// # Errors
/// What went wrong though nothing had crashed.
pub(super) fn run_together(
    campaign: &Campaign,
    base: &Base,
    pool: &Pool<Live<'_>>,
    loaded: &Loaded,
    ops: impl Fn() -> usize + Copy + Send,
) -> Result<Vec<Transaction>, Violation> {
    let Campaign { workload, seed, lanes, .. } = *campaign;
    let clock = &AtomicU64::new(0);
    let bodies: Vec<_> = (0..lanes)
        .map(|lane| {
            move || {
                let worker = workload.worker(&base.scale, loaded, seed, lane as u8 + 1, 0);
                let sync_every = campaign.sync_every.unwrap_or(1);
                run_lane(pool, lane, worker, campaign.of_lane(lane), sync_every, clock, ops)
            }
        })
        .collect();
    let plan = Plan::Random { seed, stay: STICKINESS };
    let run = schedule::run(&plan, bodies);
    let run = run.map_err(|error| Violation::new(Broken::Stuck, error.to_string()))?;
    let mut transactions = Vec::new();
    for lane in run.lanes {
        transactions.extend(lane.unwrap_or_else(|payload| Err(panicked(&*payload)))?);
    }
    Ok(transactions)
}

/// A lane with commits that are asynchronous, or not: one type, so that workloads are compiled once.
pub(super) struct Seat<'l, 'p, M: Medium> {
    pub lane: &'l mut Lane<'p, M>,
    pub is_async: bool,
}

impl<'p, M: Medium> Runner for Seat<'_, 'p, M> {
    type Tx = Tx<'p, M>;

    fn run<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        if self.is_async { self.lane.run_later(body) } else { self.lane.run(body) }
    }
}

/// A program's lane: its transactions, each acknowledged when it has returned, or `sync_every` at a
/// time when they are durable.
pub(super) fn run_lane<M: Medium>(
    pool: &Pool<M>,
    lane: u16,
    mut worker: Worker,
    transactions: u32,
    sync_every: u32,
    clock: &AtomicU64,
    ops: impl Fn() -> usize,
) -> Result<Vec<Transaction>, Violation> {
    let refused = |what: String| Violation::new(Broken::Refused, what);
    let mut runner = pool.lane_at(usize::from(lane)).map_err(|error| refused(error.to_string()))?;
    let mut done = Vec::with_capacity(transactions as usize);
    for index in 0..transactions {
        let mut listener = Listener { clock, reads: Vec::new(), writes: Vec::new() };
        let begun = ops();
        let mut seat = Seat { lane: &mut runner, is_async: sync_every > 1 };
        let stepped = worker.step_with(&mut seat, &mut listener);
        stepped.map_err(|abort| refused(format!("while nothing had crashed: {abort}")))?;
        if (index + 1) % sync_every == 0 || index + 1 == transactions {
            runner.sync().map_err(|abort| refused(abort.to_string()))?;
            for index in index / sync_every * sync_every..=index {
                pool.medium().mark(Mark::Ack(TxId(u64::from(lane) << 32 | u64::from(index))));
            }
        }
        worker.draw();
        let Listener { reads, writes, .. } = listener;
        let name = format!("transaction {index} of lane {lane}");
        done.push(Transaction { lane, name, begun, acked: usize::MAX, reads, writes });
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
pub(super) struct Listener<'a> {
    pub clock: &'a AtomicU64,
    pub reads: Vec<Seen>,
    pub writes: Vec<(u64, KeyState)>,
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
