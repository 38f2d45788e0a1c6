//! Work for the machine: programs run as bare transactions, once, for all schemes.
//!
//! Each thread has its own part of the data and its own allocator, so threads meet in caches and
//! memory and nowhere else; isolation, which the paper leaves to the program, costs nothing. A
//! shared work has one set of data instead, and one lock around every transaction.

use std::sync::Arc;

use outlast::Abort;
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use crate::{BadScale, Bare, Workload, workloads};

const MB: u64 = 1 << 20;

/// A workload, its size and its lanes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Which workload.
    pub workload: &'static Workload,
    /// Bytes of data, of all threads together.
    pub footprint: u64,
    /// Threads, each on a core of its own.
    pub threads: u16,
    /// Transactions of all threads together before counting starts.
    pub warm_up: u64,
    /// Transactions of all threads together that count.
    pub transactions: u64,
    /// One set of data for all threads, under one lock.
    pub shared: bool,
    /// One in this number of a thread's transactions has a context switch in its middle: another
    /// thread runs one of its own there, on the same core. 0 for never.
    pub switch_every: u64,
    /// One in this number of a thread's transactions aborts when it has made its stores. 0 for
    /// never.
    pub abort_every: u64,
    /// Items that a transaction overwrites, of workloads that have such; 0 for as many as usual.
    pub batch: u64,
    /// Feeds what is drawn.
    pub seed: u64,
}

/// A plan's operations, with the memory that they start from.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its plan.
    pub plan: Plan,
    /// The bytes of memory at the start.
    pub image: Arc<Vec<u8>>,
    /// Operations; each stream has those of one lane, or of all if the data is shared.
    pub streams: Vec<Arc<OpLog>>,
    /// Transactions in them that end; those that abort are not among them.
    pub transactions: u64,
    /// Transactions in them that abort.
    pub aborted: u64,
}

/// A plan that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The workload does not fit into its memory.
    #[error("{workload}: {error}")]
    Memory {
        /// Its name.
        workload: &'static str,
        /// The cause.
        error: Abort,
    },
    /// Its transactions have no items whose number could be chosen.
    #[error("{workload} takes no batch of items; those that do are {able}")]
    NoBatches {
        /// Its name.
        workload: &'static str,
        /// The names of those that do.
        able: String,
    },
    /// Its file says it.
    #[error("{workload}: {what} does not apply: the file says lanes, memory and order")]
    Listed {
        /// Its name.
        workload: &'static str,
        /// The option.
        what: &'static str,
    },
    /// It cannot have that size.
    #[error(transparent)]
    Scale(#[from] BadScale),
}

impl Plan {
    /// Runs the workload on functional memory.
    ///
    /// # Errors
    /// When it does not fit into its memory.
    pub fn record(&self) -> Result<Recorded, PlanError> {
        let Self { workload, threads, shared, switch_every, abort_every, seed, .. } = *self;
        if self.batch > 0 && !workload.has_batches() {
            let able = workloads().iter().filter(|row| row.has_batches()).map(|row| row.name);
            let able = able.collect::<Vec<_>>().join(", ");
            return Err(PlanError::NoBatches { workload: workload.name, able });
        }
        if let Some(work) = workload.own() {
            return crate::own::record(self, work);
        }
        let failed = |error: Abort| PlanError::Memory { workload: workload.name, error };
        // A thread that is switched to has data of its own, too.
        let per_lane = if switch_every > 0 { 2 } else { 1 };
        let groups = if shared { 1 } else { u64::from(threads) * per_lane };
        let part = (self.footprint / groups).max(4096);
        // Allocators and indexes take more than elements do.
        let room = (2 * part + 2 * MB).next_multiple_of(4096);
        let total = self.warm_up + self.transactions;
        let mut image = vec![0; (room * groups) as usize];
        let mut logs = Vec::new();
        let mut used = 0;
        let (mut transactions, mut aborted) = (0, 0);
        for group in 0..groups {
            let origin = group * room;
            let lane = LaneId((group / per_lane) as u16);
            let mut bare = Bare::new(PoolOffset(origin), room, lane, group as u32);
            bare = bare.abort_every(abort_every);
            if shared {
                bare = bare.shared();
            }
            let seed = seed.wrapping_add(group << 20);
            let mut scale = workload.scale_in(part);
            if self.batch > 0 {
                scale.batch = self.batch;
                workload.check(&scale)?;
            }
            let loaded = workload.load(&scale, seed, &mut bare, &mut |_, _| {}).map_err(failed)?;
            let mut worker = workload.worker(&scale, &loaded, seed, 1, 0);
            let at = origin as usize;
            image[at..at + bare.memory().len()].copy_from_slice(bare.memory());
            bare.record();
            let count = if shared { total } else { total.div_ceil(groups) };
            for number in 0..count {
                if shared {
                    bare.set_lane(LaneId((number % u64::from(threads)) as u16));
                }
                worker.draw();
                match worker.step(&mut bare) {
                    Err(Abort::Cancelled(_)) if abort_every > 0 => {}
                    result => drop(result.map_err(failed)?),
                }
            }
            transactions += bare.transactions();
            aborted += bare.aborted();
            used = origin + bare.used_bytes();
            logs.push(bare.take_log());
        }
        image.truncate(used.next_multiple_of(64).min(room * groups) as usize);
        let streams = if per_lane == 2 {
            logs.chunks(2).map(|pair| Arc::new(nest(&pair[0], &pair[1], switch_every))).collect()
        } else {
            logs.into_iter().map(Arc::new).collect()
        };
        Ok(Recorded { plan: *self, image: Arc::new(image), streams, transactions, aborted })
    }
}

impl Recorded {
    /// Lanes that run.
    pub fn lanes(&self) -> u16 {
        self.plan.threads
    }

    /// The stream with a lane's operations.
    pub fn stream_of(&self, lane: u16) -> usize {
        if self.streams.len() == 1 { 0 } else { usize::from(lane) }
    }

    /// The first line behind the data.
    pub fn end(&self) -> LineAddr {
        LineAddr(self.image.len() as u64 / 64 + 1)
    }
}

impl Plan {
    /// The plan, with the lanes and the memory of the workload's file where it is of one, and with all of the
    /// file's transactions.
    pub fn of_file(self) -> Self {
        match self.workload.own() {
            None => self,
            Some(work) => Self {
                footprint: work.memory_bytes(),
                threads: work.lanes(),
                warm_up: 0,
                transactions: work.len(),
                ..self
            },
        }
    }

    /// Sizes in words, as results state them.
    pub fn describe(&self) -> String {
        let Plan { footprint, shared, switch_every, abort_every, batch, .. } = *self;
        let shared = if shared { ", shared under one lock" } else { "" };
        let switches = match switch_every {
            0 => String::new(),
            every => format!(", a context switch in every {every}th transaction"),
        };
        let aborts = match abort_every {
            0 => String::new(),
            every => format!(", every {every}th transaction aborted"),
        };
        let batch = match batch {
            0 => String::new(),
            items => format!(", {items} items a transaction"),
        };
        let size = match footprint / 1024 {
            0 => format!("{footprint} bytes"),
            kilo if kilo >= 1024 => format!("{} MB", kilo / 1024),
            kilo => format!("{kilo} KB"),
        };
        format!("{size} of data{shared}{switches}{aborts}{batch}")
    }
}

/// Every `every`th transaction of the first thread with one of the second in the middle of it;
/// what is left of the second comes at the end.
fn nest(first: &OpLog, second: &OpLog, every: u64) -> OpLog {
    let mut out = OpLog::default();
    let mut rest = second.iter();
    let mut starts = Vec::new();
    for (index, (_, op)) in first.iter().enumerate() {
        match op {
            Op::TxBegin => starts.push((index, index)),
            Op::TxEnd | Op::TxAbort => {
                if let Some(last) = starts.last_mut() {
                    last.1 = index;
                }
            }
            _ => {}
        }
    }
    let middles: Vec<usize> =
        starts.iter().step_by(every as usize).map(|(from, to)| from.midpoint(*to) + 1).collect();
    let mut next = middles.iter().peekable();
    for (index, (lane, op)) in first.iter().enumerate() {
        if next.next_if(|middle| **middle == index).is_some() {
            for (lane, op) in rest.by_ref() {
                out.op(lane, op);
                if matches!(op, Op::Ack(_) | Op::TxAbort) {
                    break;
                }
            }
        }
        out.op(lane, op);
    }
    rest.for_each(|(lane, op)| out.op(lane, op));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toggle() -> &'static Workload {
        Workload::named("hash-toggle").unwrap()
    }

    fn plan(workload: &'static Workload) -> Plan {
        Plan {
            workload,
            footprint: 1 << 20,
            threads: 2,
            warm_up: 10,
            transactions: 30,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed: 1,
        }
    }

    #[test]
    fn every_program_becomes_bare_transactions() {
        for workload in workloads() {
            let work = plan(workload).record().unwrap();
            let count = |wanted: fn(&Op<'_>) -> bool| -> usize {
                work.streams.iter().map(|log| log.iter().filter(|(_, op)| wanted(op)).count()).sum()
            };
            assert_eq!(count(|op| matches!(op, Op::TxEnd)), 40, "{}", workload.name);
            // Of the runtime's workloads some only read.
            let stores = count(|op| matches!(op, Op::Store { .. }));
            let loads = count(|op| matches!(op, Op::Load { .. }));
            let is_program = workload.keys_in(0).is_none();
            assert!(stores > 20 || (!is_program && loads > 20), "{}", workload.name);
            assert_eq!(work.streams.len(), 2);
        }
        assert!(Workload::named("heap").is_none());
    }

    /// Memory as each lane's loads would find it: after the streams, aborted stores undone.
    fn replayed(work: &Recorded) -> (Vec<u8>, u64) {
        let (mut memory, mut aborted) = (work.image.to_vec(), 0);
        let mut undo: Vec<(usize, Vec<u8>)> = Vec::new();
        for (_, op) in work.streams.iter().flat_map(|log| log.iter()) {
            match op {
                Op::TxBegin => undo.clear(),
                Op::Store { at, bytes } => {
                    let place = &mut memory[at.0 as usize..][..bytes.len()];
                    undo.push((at.0 as usize, place.to_vec()));
                    place.copy_from_slice(bytes);
                }
                Op::TxAbort => {
                    aborted += u64::from(!undo.is_empty());
                    for (at, old) in undo.drain(..).rev() {
                        memory[at..at + old.len()].copy_from_slice(&old);
                    }
                }
                _ => {}
            }
        }
        (memory, aborted)
    }

    #[test]
    fn transactions_that_abort_leave_the_data_as_before() {
        for workload in workloads() {
            for shared in [false, true] {
                let plan = Plan { abort_every: 3, shared, ..plan(workload) };
                let work = plan.record().unwrap();
                assert_eq!(work.aborted, 2 * (20 / 3), "{}", workload.name);
                assert_eq!(work.transactions + work.aborted, 40, "{}", workload.name);
                let of_plain = Plan { abort_every: 0, ..plan }.record().unwrap();
                assert_eq!(of_plain.aborted, 0);
                let (memory, aborted) = replayed(&work);
                let is_program = workload.keys_in(0).is_none();
                assert!(aborted > 5 || !is_program, "{}: {aborted} stored", workload.name);
                let acked = |number: u64| {
                    work.streams
                        .iter()
                        .flat_map(|log| log.iter())
                        .any(|(_, op)| op == Op::Ack(outlast_trace::TxId(number)))
                };
                let of_first = work.transactions / work.streams.len() as u64;
                assert!(acked(1) && acked(of_first) && !acked(of_first + 1), "{}", workload.name);
                let again = plan.record().unwrap();
                assert_eq!(memory, replayed(&again).0);
            }
        }
    }

    /// The work of EHOU's paper has to exceed caches by what its footprint says. TPC-C takes a fifth,
    /// which its results are used to.
    #[test]
    fn a_footprint_is_about_what_the_data_takes() {
        let dictionaries = ["hash", "hashmap", "btree", "btree-zipf", "b-tree-zipf", "rbtree-zipf"];
        for name in ["array-stream", "array-random", "tatp"].into_iter().chain(dictionaries) {
            let (workload, footprint) = (Workload::named(name).unwrap(), 1 << 20);
            let plan =
                Plan { footprint, threads: 1, warm_up: 0, transactions: 1, ..plan(workload) };
            // The allocator rounds large blocks up to powers of two; what is not used is zero.
            let image = plan.record().unwrap().image;
            let lines = image.chunks(64).filter(|line| line.iter().any(|byte| *byte != 0)).count();
            let taken = (64 * lines) as f64 / footprint as f64;
            assert!((0.7..1.5).contains(&taken), "{name}: {taken:.2}");
        }
    }

    #[test]
    fn batches_are_of_workloads_that_have_items() {
        let stream = Workload::named("array-stream").unwrap();
        let stored = |batch| {
            let work = Plan { batch, ..plan(stream) }.record().unwrap();
            let lines = |(_, op): (LaneId, Op<'_>)| matches!(op, Op::Store { .. });
            work.streams[0].iter().filter(|op| lines(*op)).count() as u64
        };
        assert_eq!((stored(0), stored(3)), (20 * 8, 20 * 3));
        let message = Plan { batch: 3, ..plan(toggle()) }.record().unwrap_err().to_string();
        assert!(message.contains("those that do are array-stream, array-random"), "{message}");
        let message = Plan { batch: 1 << 15, ..plan(stream) }.record().unwrap_err().to_string();
        assert!(message.contains("items of a transaction is 32768"), "{message}");
    }

    #[test]
    fn a_context_switch_is_a_transaction_inside_another() {
        let switched = Plan { switch_every: 3, ..plan(toggle()) };
        let work = switched.record().unwrap();
        let (mut depth, mut deepest, mut ends) = (0, 0, 0);
        for (_, op) in work.streams[0].iter() {
            match op {
                Op::TxBegin => depth += 1,
                Op::TxEnd => (depth, ends) = (depth - 1, ends + 1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        assert_eq!((depth, deepest, ends), (0, 2, 20));
        let aborts = Plan { abort_every: 2, ..switched }.record().unwrap();
        assert_eq!((aborts.transactions, aborts.aborted), (20, 20));
        let shared = Plan { shared: true, ..plan(toggle()) }.record().unwrap();
        assert_eq!(shared.streams.len(), 1);
        assert!(shared.streams[0].iter().any(|(lane, _)| lane == LaneId(1)));
    }
}
