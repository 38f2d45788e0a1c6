//! The heap: blocks of size classes in chunks, large blocks in runs of chunks.
//!
//! # What is durable
//!
//! One sealed word per chunk in its zone's directory, and in each class chunk a bitmap of sealed
//! words with a bit per block. Both are atomic and prove themselves; there is no list, no free
//! pointer and no header inside a block, so a crash can leave nothing half-linked:
//!
//! * **HEAP-1** A block is allocated when its bit is set (or its run's word says so). The bit changes
//!   only in a transaction's commit, covered by that transaction's log record.
//! * **HEAP-2** A class chunk's bitmap is empty, durably, before its directory word names the class.
//! * **HEAP-3** Inside a large run only the first chunk's word is not free: taking and freeing a run
//!   is one word.
//! * **HEAP-4** A block that was freed is handed out again only when no live log record can still
//!   write to it.
//!
//! # What is volatile
//!
//! Everything else ([`Heap`]): which bits are reserved by running transactions, which chunks
//! have room. It is read from the directory as it is needed, so that recovery scans no heap.

pub(crate) mod class;
pub(crate) mod directory;
mod heap;
mod lane;

pub(crate) use class::block_bytes_for;
pub(crate) use directory::{ChunkWord, clear_bit, load_bitmap, set_bit, store_free_words};
pub(crate) use heap::{Block, Heap, HeapError, Reserved};
pub(crate) use lane::LaneHeap;
