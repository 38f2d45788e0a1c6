//! One thread of a workload, whichever it is.

use outlast::{Abort, Runner};

use crate::Witness;
use crate::few_words::FewWordsWorker;
use crate::linkbench::LinkbenchWorker;
use crate::pairs::PairsWorker;
use crate::queue::QueueWorker;
use crate::swaps::SwapsWorker;
use crate::tpcc::{Statements, TpccWorker};
use crate::ycsb::YcsbWorker;

/// What kind of transaction a worker ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Read a record.
    Read,
    /// Overwrote a field.
    Update,
    /// Inserted a record.
    Insert,
    /// Read consecutive records.
    Scan,
    /// Read a record and overwrote a field of it.
    ReadModifyWrite,
    /// Removed a record, if it was there.
    Delete,
    /// Added a key, if it was not there.
    Add,
    /// Removed a key, if it was there.
    Remove,
    /// Put an item into a queue.
    Enqueue,
    /// Took an item out of a queue, if there was one.
    Dequeue,
    /// Swapped words.
    Swap,
    /// Read and overwrote words.
    Words,
    /// Entered an order (TPC-C).
    NewOrder,
    /// Entered an order and cancelled it: one of its items does not exist (TPC-C).
    NewOrderCancelled,
    /// Noted a payment (TPC-C).
    Payment,
    /// Read a customer's newest order (TPC-C).
    OrderStatus,
    /// Delivered the oldest new order of each district (TPC-C).
    Delivery,
    /// Counted items that are short in stock (TPC-C).
    StockLevel,
    /// Read a node, if it was there (LinkBench).
    GetNode,
    /// Inserted a node (LinkBench).
    AddNode,
    /// Replaced a node, if it was there (LinkBench).
    UpdateNode,
    /// Removed a node, if it was there (LinkBench).
    DeleteNode,
    /// Read some links, as far as they were there (LinkBench).
    GetLink,
    /// Read the visible links of a node (LinkBench).
    GetLinkList,
    /// Read how many visible links a node has (LinkBench).
    CountLinks,
    /// Inserted a link (LinkBench).
    AddLink,
    /// Replaced a link, or inserted it (LinkBench).
    UpdateLink,
    /// Hid a link, if it was there and visible (LinkBench).
    DeleteLink,
}

/// One thread of a workload.
pub struct Worker {
    pub(crate) program: Program,
}

/// The programs, each with a type of its own so that none pays for another.
pub(crate) enum Program {
    Ycsb(Box<YcsbWorker>),
    Pairs(PairsWorker),
    Queue(QueueWorker),
    Swap(Box<SwapsWorker<1>>),
    Swaps(Box<SwapsWorker<8>>),
    FewWords(FewWordsWorker),
    Tpcc(Box<TpccWorker>),
    Linkbench(Box<LinkbenchWorker>),
}

impl Worker {
    /// Draws the next operation and prepares what it will store. A new worker has drawn its
    /// first; without a draw in between, [`step`](Self::step) runs the same operation again.
    #[inline]
    pub fn draw(&mut self) {
        match &mut self.program {
            Program::Ycsb(worker) => worker.draw(),
            Program::Pairs(worker) => worker.draw(),
            Program::Queue(worker) => worker.draw(),
            Program::Swap(worker) => worker.draw(),
            Program::Swaps(worker) => worker.draw(),
            Program::FewWords(worker) => worker.draw(),
            Program::Tpcc(worker) => worker.draw(),
            Program::Linkbench(worker) => worker.draw(),
        }
    }

    /// Runs the operation that was drawn, as exactly one transaction. One that the workload
    /// wants cancelled is no error.
    ///
    /// # Errors
    /// Whatever the transaction fails with; [`Abort::Damaged`] when a record is missing or a
    /// value read is not one that a worker wrote.
    #[inline(always)]
    pub fn step<R: Runner>(&mut self, runner: &mut R) -> Result<OpKind, Abort> {
        self.step_with(runner, &mut ())
    }

    /// As [`step`](Self::step); `witness` hears what the transaction reads and writes. After an
    /// error it has heard what the transaction would have done.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    #[inline(always)]
    pub fn step_with<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        match &mut self.program {
            Program::Ycsb(worker) => worker.step(runner, witness),
            Program::Pairs(worker) => worker.step(runner, witness),
            Program::Queue(worker) => worker.step(runner, witness),
            Program::Swap(worker) => worker.step(runner, witness),
            Program::Swaps(worker) => worker.step(runner, witness),
            Program::FewWords(worker) => worker.step(runner, witness),
            Program::Tpcc(worker) => worker.step(runner, witness),
            Program::Linkbench(worker) => worker.step(runner, witness),
        }
    }

    /// What the transactions of TPC-C that ended well did, as statements.
    pub fn statements(&self) -> Option<Statements> {
        match &self.program {
            Program::Tpcc(worker) => Some(worker.statements()),
            _ => None,
        }
    }

    /// How many versions this worker and its predecessors have used.
    pub fn used_versions(&self) -> u64 {
        match &self.program {
            Program::Ycsb(worker) => worker.versions().used(),
            Program::Pairs(worker) => worker.versions().used(),
            Program::Queue(worker) => worker.versions().used(),
            Program::Swap(worker) => worker.versions().used(),
            Program::Swaps(worker) => worker.versions().used(),
            Program::FewWords(worker) => worker.versions().used(),
            Program::Tpcc(worker) => worker.versions().used(),
            Program::Linkbench(worker) => worker.versions().used(),
        }
    }
}
