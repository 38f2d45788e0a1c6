//! Figure 3: how often data is used again.
//!
//! A persistent object is a block of the pool: a record with its key, a node of a tree, a segment
//! of a map. A *use* is a transaction that loads or stores anything of the block, however often it
//! does. The paper counts reads and writes and says neither over which stretch of time nor whether
//! several in one transaction are one.
//!
//! Which block an address belongs to is known when all blocks are. So the workload runs twice, and
//! the second run, which does the same, is counted with the blocks that the first one had at its
//! start and at its end. What was allocated and freed between the two is not seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use outlast::inspect::CheckReport;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Pool, Scheme};
use outlast_trace::{LaneId, Op, PoolOffset, Sink};
use outlast_workloads::{Scale, Workload};

use super::{Task, WORKLOADS, workload};
use crate::emulated::{EmulationError, Observed};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};

/// Blocks by number of uses: the name of the class, and the fewest and the most.
pub const CLASSES: [(&str, u32, u32); 5] =
    [("1", 1, 1), ("2", 2, 2), ("3-4", 3, 4), ("5-9", 5, 9), ("10 or more", 10, u32::MAX)];

/// The stage of [`measure`] in progress events.
pub(super) const STAGE: &str = "uses of blocks";

/// The distribution of uses on every workload.
///
/// # Errors
/// A workload that cannot be run.
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, EmulationError> {
    let counts = WORKLOADS.map(|name| {
        let workload = workload(name);
        // Scans touch a hundred times as much as the others, TPC-C some fifty.
        let share = if matches!(name, "ycsb-e" | "tpcc" | "oltp-ycsb") { 10 } else { 1 };
        let transactions = task.amount.transactions / share;
        let scale = task.counted_scale(workload, transactions);
        Count { workload, scale, transactions, seed: task.seed }
    });
    let records = in_parallel(&counts, AT_ONCE_MAX, STAGE, listen, Count::records)?;
    Ok(records.into_iter().flatten().collect())
}

/// Each needs memory for its pool.
const AT_ONCE_MAX: usize = 4;

/// One workload to count.
struct Count {
    workload: &'static Workload,
    scale: Scale,
    transactions: u64,
    seed: u64,
}

impl Count {
    fn records(&self) -> Result<Vec<Record>, EmulationError> {
        let mut blocks = self.blocks_after(0)?;
        blocks.extend(self.blocks_after(self.transactions)?);
        let uses = Arc::new(Mutex::new(Uses::of(&blocks)));
        let medium = self.medium(Box::new(Counting(Arc::clone(&uses))));
        let medium = medium.recording_loads();
        self.run_on(&medium, self.transactions, || lock(&uses).counting = true)?;
        let shares = lock(&uses).shares();
        let config = format!(
            "{}; {} transactions; a block counts once for each that touches it",
            self.workload.describe(&self.scale),
            self.transactions
        );
        let record = |((class, _, _), share): (&(&str, u32, u32), f64)| {
            let name = self.workload.name;
            let record = Record::new(Kind::Sim, name, Scheme::None.name(), Metric::REUSE, share);
            record.class(class).config(&config)
        };
        Ok(CLASSES.iter().zip(shares).map(record).collect())
    }

    fn medium(&self, sink: Box<dyn Sink + Send>) -> Observed {
        let bytes = self.workload.heap_bytes(&self.scale) + (64 << 20);
        Observed::with_sink(vec![0; bytes.next_multiple_of(4096) as usize], sink)
    }

    /// The blocks that exist after `transactions` transactions.
    fn blocks_after(&self, transactions: u64) -> Result<BTreeMap<PoolOffset, u64>, EmulationError> {
        let medium = self.medium(Box::new(Deaf));
        self.run_on(&medium, transactions, || ())?;
        let pool = UnrecoveredPool::open(&medium)?.recover()?;
        Ok(pool.allocated_blocks(&mut CheckReport::default()))
    }

    fn run_on(
        &self,
        medium: &Observed,
        transactions: u64,
        loaded: impl FnOnce(),
    ) -> Result<(), EmulationError> {
        let Self { workload, scale, seed, .. } = self;
        let failed = |source| EmulationError::Abort {
            workload: workload.name,
            scheme: Scheme::None.name(),
            source,
        };
        let create = CreateOptions { lanes: 1, ..CreateOptions::default() };
        let pool = Pool::create_on(medium, &create, &OpenOptions::with_scheme(Scheme::None))?;
        let mut lane = pool.lane()?;
        let data = workload.load(scale, *seed, &mut lane, &mut |_, _| {}).map_err(failed)?;
        let mut worker = workload.worker(scale, &data, *seed, 1, 0);
        loaded();
        for _ in 0..transactions {
            worker.draw();
            worker.step(&mut lane).map_err(failed)?;
        }
        Ok(())
    }
}

fn lock(uses: &Mutex<Uses>) -> std::sync::MutexGuard<'_, Uses> {
    uses.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks, and how many transactions touched each.
struct Uses {
    /// Ascending, none reaching into the next.
    blocks: Vec<Block>,
    counting: bool,
    transaction: u64,
}

struct Block {
    start: u64,
    end: u64,
    uses: u32,
    last: u64,
}

impl Uses {
    fn of(blocks: &BTreeMap<PoolOffset, u64>) -> Self {
        let block = |(at, bytes): (&PoolOffset, &u64)| Block {
            start: at.0,
            end: at.0 + bytes,
            uses: 0,
            last: 0,
        };
        let mut blocks: Vec<Block> = blocks.iter().map(block).collect();
        for next in 1..blocks.len() {
            // A chunk that changed its class had other blocks before: the later ones count.
            blocks[next - 1].end = blocks[next - 1].end.min(blocks[next].start);
        }
        Self { blocks, counting: false, transaction: 0 }
    }

    fn touch(&mut self, at: PoolOffset, len: u64) {
        if !self.counting {
            return;
        }
        let first = self.blocks.partition_point(|block| block.end <= at.0);
        for block in &mut self.blocks[first..] {
            if block.start >= at.0 + len {
                break;
            }
            if block.last != self.transaction {
                block.last = self.transaction;
                block.uses += 1;
            }
        }
    }

    /// The share of each class among the blocks that were used at all, in percent.
    fn shares(&self) -> [f64; CLASSES.len()] {
        let used = self.blocks.iter().filter(|block| block.uses > 0).count();
        CLASSES.map(|(_, fewest, most)| {
            let of_class = self.blocks.iter().filter(|b| (fewest..=most).contains(&b.uses));
            if used == 0 { 0.0 } else { 100.0 * of_class.count() as f64 / used as f64 }
        })
    }
}

/// Hears which bytes are touched.
struct Counting(Arc<Mutex<Uses>>);

impl Sink for Counting {
    fn op(&mut self, _: LaneId, op: Op<'_>) {
        let mut uses = lock(&self.0);
        match op {
            Op::TxBegin => uses.transaction += 1,
            Op::Load { at, len, .. } => uses.touch(at, u64::from(len)),
            Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
                uses.touch(at, bytes.len() as u64);
            }
            _ => {}
        }
    }
}

/// Hears nothing.
struct Deaf;

impl Sink for Deaf {
    fn op(&mut self, _: LaneId, _: Op<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_once_for_each_transaction_that_touches_it() {
        let blocks = [(PoolOffset(128), 64), (PoolOffset(192), 64), (PoolOffset(512), 1024)];
        let uses = Arc::new(Mutex::new(Uses::of(&blocks.into_iter().collect())));
        let mut sink = Counting(Arc::clone(&uses));
        let mut op = |op: Op<'_>| sink.op(LaneId(0), op);
        let load = |at, len| Op::Load { at: PoolOffset(at), len, depends: None };
        op(Op::TxBegin);
        op(load(128, 8));
        lock(&uses).counting = true;
        op(Op::TxBegin);
        op(load(130, 4));
        op(Op::Store { at: PoolOffset(140), bytes: &[0; 4] });
        op(Op::TxBegin);
        op(load(190, 4)); // reaches into the second block
        op(load(1530, 6)); // the last bytes of the third
        op(load(1536, 6)); // behind it
        op(load(0, 128)); // before all
        let seen: Vec<_> = lock(&uses).blocks.iter().map(|block| block.uses).collect();
        assert_eq!(seen, [2, 1, 1]);
        let shares = lock(&uses).shares();
        assert_eq!(shares.map(f64::round), [67.0, 33.0, 0.0, 0.0, 0.0]);
    }
}
