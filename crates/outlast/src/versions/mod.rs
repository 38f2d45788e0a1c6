//! Versions: how other processes read a pool beside its writer, on a snapshot, without stopping it.
//!
//! The writer keeps the old content of each line that it changes in a ring that processes share, as long as any of
//! them reads. A snapshot is a number, its *epoch*; a reader takes a line from the pool, or, if that was changed since,
//! from the ring. Both sides go on whatever the other does: the writer never waits, and a reader that is too slow
//! loses its snapshot and takes another one.
//!
//! * **VERSION-1** A commit of a scheme with a write set stores in place between two stores to its lane's word: that
//!   it *installs*, with its *tag*, the epoch as it was then, and that it is done. It says that it installs before
//!   it reads the epoch. A reader first raises the epoch by one and then looks at these words, with a full
//!   fence between the two on both sides. So every commit with a tag up to the old epoch is seen, and waited for: its
//!   record is durable already, so that takes a moment. All others come behind it.
//! * **VERSION-2** Before a commit stores in place, all lines that it will change are in the ring, with its tag. The
//!   oldest entry of a line with a tag above a snapshot's epoch is the line as the snapshot has it. A reader looks for
//!   entries, loads the line, and looks again: what it has loaded is from before all entries that it has not seen.
//! * **VERSION-3** What is stored in place before its commit lies in blocks that no snapshot reaches, but for one
//!   that was taken before such a block was given back. Therefore its lines go to the ring first, too, under the epoch as it
//!   is then: the commit that gave the block back has a tag that is not above it.
//! * **VERSION-4** A snapshot is *overtaken* when as many lines have gone to the ring since as it has room for. Its
//!   reader looks for that after each line that it has taken from the ring, or that may have been there. So a stale reader keeps nothing
//!   for itself: the ring is used again.
//! * **VERSION-5** Lanes look whether there are readers after they have said that they install. That fence is paid by the
//!   reader, once, when it comes ([`Barrier::between_processes`](crate::barrier::Barrier)); from then on lanes that see it fence
//!   for themselves, so that a snapshot takes no system call.
//! * **VERSION-6** An opening for writing raises the *generation* before it changes anything. A snapshot of an older
//!   one is over. So it is when the writer's disk has failed: what it stores then no longer reaches the file.
//! * **VERSION-7** Who reads has a place that the system gives back when the process ends, and so has who writes
//!   ([`Side`](outlast_pmem::Side)). Dead readers are removed when the ring begins anew, when a reader comes and when the writer goes.
//!   A writer takes a second place when the shared words say that it opens the pool. Readers believe the words only while
//!   that is taken: a killed writer's say that transactions run, also when the next one has come and not yet said so.
//!
//! Schemes that store in place before their commit have none of this: a reader would wait for whole transactions.

mod head;
mod reader;
mod snapshot;
#[cfg(all(test, not(outlast_loom)))]
mod tests;
mod turns;
mod writer;

pub use reader::{PoolReader, ReadError};
pub use snapshot::Snapshot;
pub use turns::Turns;
pub(crate) use turns::wait_for;
pub(crate) use writer::{Versions, WritersPlace};

/// A step that is left out or comes too late: what tests must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    /// VERSION-1: the tag is read before the lane says that it installs.
    TagBeforeWord,
    /// VERSION-1: a snapshot does not wait for commits that belong to it.
    NotAwaited,
    /// VERSION-1: the lane says too early that all is stored.
    DoneTooEarly,
    /// VERSION-2: lines do not go to the ring.
    NotKept,
    /// VERSION-2: of two commits the one with the older number may be the newer entry of a bucket.
    OrderNotKept,
    /// VERSION-2: the line is not looked for once more when it was loaded.
    LookedOnce,
    /// VERSION-2: of a line's old contents the newest is taken.
    NewestTaken,
    /// VERSION-3: what is stored before the commit does not go to the ring.
    FreshNotKept,
    /// VERSION-4: overtaken snapshots go on.
    OvertakenUnseen,
    /// VERSION-6: a disk that has failed while a commit stored in place is not told of.
    FailureUntold,
}

/// What a side leaves out: nothing, but in tests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mistakes {
    #[cfg(test)]
    made: Option<Mistake>,
}

impl Mistakes {
    #[cfg(all(test, not(outlast_loom)))]
    pub fn of(made: Option<Mistake>) -> Self {
        Self { made }
    }

    #[inline(always)]
    pub fn has(self, mistake: Mistake) -> bool {
        #[cfg(test)]
        return self.made == Some(mistake);
        #[cfg(not(test))]
        {
            let _ = mistake;
            false
        }
    }
}
