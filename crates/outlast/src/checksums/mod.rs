//! The persistent management unit: checksums over the heap's blocks.
//!
//! A pool may keep its blocks in virtual matrices ([`outlast_matrix`]): lines of data, with a sum
//! for each column and each row, and a spare line that says which lines are in the sums, with a
//! CRC-8 for each. No crash needs them; they find, locate and repair what a right program never
//! leaves: media faults and stray stores.
//!
//! Sums are never computed from the data in a running pool. A commit hands over what it changed,
//! old words and new ([`Deltas`]), and the thread that moves the floor adds the differences ([`Updater`]).
//! Neither other lines nor the line itself are read for it, so damage that was not seen yet
//! stays visible, whatever is written beside it.
//!
//! * **SUMS-1** A matrix is *settled* when no live record names a line of it or a block in it. The sums,
//!   CRCs and members of a settled matrix match its data, durably. Of one that is not settled
//!   recovery makes them anew.
//! * **SUMS-2** The floor, which settles matrices, passes a commit only after its differences were
//!   added and every line that this changed was flushed and fenced. Until then they lie with their
//!   lane: the later they are added, the more commits share a line of checksums. What is added is
//!   flushed at once, so that no line of checksums is ever pending.
//! * **SUMS-3** The sums contain the words of allocated blocks and of bitmaps, and nothing else. What
//!   free space holds belongs to no block: it may change without a record. A line is a member from the
//!   commit that takes its block to the one that gives it back.
//! * **SUMS-4** What a block holds when it is taken is durable, or becomes so before the floor passes
//!   that commit, also where the transaction has stored nothing: an abort flushes what it stored
//!   to new blocks, and a block that takes whole chunks is flushed whole.
//! * **SUMS-5** Matrices of a block that takes whole chunks are made, flushed and fenced with its
//!   content, before the record that makes it a block (as REDO-2).
//! * **SUMS-6** A new class chunk's matrices are empty, durably, before its directory word names the
//!   class (as HEAP-2).
//! * **SUMS-7** Before recovery stores anything it proves the lines of every matrix that it will make
//!   anew: by the CRC-8 of each line, and by the sums, which lack nothing but
//!   the growth of some of each lane's last commits. Damage is an error, and is not summed up.
//! * **SUMS-8** Beside its sum each word of a checksum has a number of its place, never zero. So neither a
//!   page of zeros adds up, nor one that was written to another's place.
//! * **SUMS-9** A commit's record says what SUMS-7 needs: beside its new words what stands in their place,
//!   and a hash of the content of each new block that it leaves out.
//! * **SUMS-10** What a live record says stood in a word is what the live record before it, by its number,
//!   put there. Where it is not, a record between them is missing, and that is damage.

mod chain;
mod deltas;
pub(crate) mod faults;
pub(crate) mod matrices;
mod proof;
mod rebuild;
mod shapes;
mod updater;

pub(crate) use chain::Undone;
pub(crate) use deltas::{Deltas, Loads};
pub use faults::{Fault, RepairReport};
pub(crate) use matrices::Matrices;
pub(crate) use proof::Commit;
pub(crate) use rebuild::{Rebuild, format_cells, make_run};
pub(crate) use shapes::{Cell, RunMatrices};
pub(crate) use updater::Updater;
