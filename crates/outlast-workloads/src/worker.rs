//! One thread of a workload, whichever it is.

use outlast::{Abort, Runner};

use crate::Witness;
use crate::facts::Versions;
use crate::family::AnyThread;
use crate::tpcc::Statements;

/// The kind of a worker's transaction.
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
    /// Overwrote items of an array.
    Overwrite,
    /// Read a subscriber (TATP).
    GetSubscriberData,
    /// Looked where calls are forwarded to (TATP).
    GetNewDestination,
    /// Read a subscriber's access, if it was there (TATP).
    GetAccessData,
    /// Changed a subscriber and one of its facilities (TATP).
    UpdateSubscriberData,
    /// Changed where a subscriber is (TATP).
    UpdateLocation,
    /// Forwarded calls (TATP).
    InsertCallForwarding,
    /// Forwarded calls no more (TATP).
    DeleteCallForwarding,
    /// Did not find what it was to change, and was rolled back (TATP).
    RolledBack,
    /// A step of a program that is run for its stores alone.
    Step,
    /// A transaction that a file lists.
    Listed,
}

/// One thread of a workload.
pub struct Worker {
    pub(crate) thread: AnyThread,
}

impl Worker {
    /// Draws the next operation and prepares what it will store. A new worker has drawn its
    /// first; without a draw in between, [`step`](Self::step) runs the same operation again.
    #[inline]
    pub fn draw(&mut self) {
        self.thread.draw();
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
        self.thread.step(runner, witness)
    }

    /// The statements of the transactions that ended well, where they are counted (TPC-C).
    pub fn statements(&self) -> Option<Statements> {
        self.thread.statements()
    }

    /// How many versions this worker and its predecessors have used.
    pub fn used_versions(&self) -> u64 {
        self.thread.versions().map_or(0, Versions::used)
    }
}
