//! The machine's caches, with data in them, and the journal of what became durable.
//!
//! A program's stores stay in the caches until something sends them to persistent memory: a
//! flush, an eviction, or, as the adversary has it, nothing at all that was asked for. This
//! crate plays a recorded stream of operations ([`OpLog`](outlast_trace::OpLog)) through
//! set-associative caches of several lanes and levels and writes down, in a [`Journal`], what
//! entered the persistence domain and when. Every prefix of the journal is the image of one
//! possible crash; an [`ImageCursor`] visits them in ascending order.
//!
//! - [`AtomicDriver`] plays operations, with no time: each is complete before the next begins.
//! - [`Hierarchy`] is the state that it drives, [`Cache`] one level of it, [`Policy`] what a full
//!   set gives up; none of them knows of a driver. [`Backing`] is what lies beneath.
//! - [`Domain`] says what survives, [`FlushCompletion`] when a flushed line does.
//!
//! Why caches that carry data: the bytes a crash leaves are those that *were in the line when it
//! left*, so they are copied when lines move, and a test compares every load with a flat memory.
//! Why atomic: which images are possible does not depend on time, only on order; so a crash
//! campaign pays for no cycles. The timed machine drives the same state.
//!
//! ```
//! use outlast_sim::{AtomicConfig, AtomicDriver, Policy, Preset};
//! use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
//!
//! // A payload is stored and flushed, then, behind a fence, a mark that says it is valid.
//! let mut log = OpLog::default();
//! let (payload, mark) = (PoolOffset(0), PoolOffset(64));
//! log.op(LaneId(0), Op::Store { at: payload, bytes: &7u64.to_le_bytes() });
//! log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) });
//! log.op(LaneId(0), Op::Sfence);
//! log.op(LaneId(0), Op::Store { at: mark, bytes: &1u64.to_le_bytes() });
//!
//! // Whatever the adversary does, no crash finds the mark without the payload.
//! let caches = Preset::Tiny.config().with_policy(Policy::Adversarial);
//! for seed in 0..20 {
//!     let base = vec![0; 128];
//!     let driver = AtomicDriver::new(&AtomicConfig::from(caches), seed, &base)?;
//!     let journal = driver.play(&log);
//!     let (mut image, mut cursor) = (base, journal.cursor());
//!     for ops in 0..=log.len() {
//!         cursor.advance_to(ops, &mut image, |_line| {});
//!         assert!(image[64] == 0 || image[0] == 7, "seed {seed}, after {ops} operations");
//!     }
//! }
//! # Ok::<(), outlast_sim::ConfigError>(())
//! ```
//!
//! # What is modelled
//!
//! - A private first level and, if wanted, a private second level for each lane; one shared
//!   level; any size and number of ways; inclusive, or exclusive with lines that move up and
//!   down; write-back with write-allocate; five replacement policies.
//! - Coherence between lanes (owned, dirty, shared), with data that goes from cache to cache.
//! - `clwb`, `clflushopt` and `clflush`; `sfence`, `mfence` and locked instructions; flushes that
//!   complete at once or by their lane's next fence.
//! - Non-temporal stores, word by word in any order through write-combining buffers; whole-line
//!   direct stores in one piece.
//! - `adr`, `eadr` and the death of the process alone as three domains.
//!
//! # What is not
//!
//! - *Time*, and all that follows from it: queues, bandwidth, speculation, prefetching, TLBs.
//! - *Store buffers*. The stream is in the order in which operations became visible, so a crash
//!   never finds a store that is executed but not yet visible (rule 11); a program may not rely
//!   on more, and the acknowledgement rules of the checker do not.
//! - *Every* image that is allowed: one run samples one behaviour of one machine. All images lie
//!   in the set that any eviction allows, and a test holds that; enumerating the set is the work
//!   of the exhaustive checker. In particular, a load or ordinary store to a line that is being
//!   streamed lets the streamed words arrive first, and `clflush` completes at once; rules 8
//!   and 10 promise neither.
//! - *The page cache* as a persistence domain, media that tear lines, and media errors.
#![forbid(unsafe_code)]

mod atomic;
mod cache;
mod config;
mod domain;
mod hierarchy;
mod journal;
mod memory;
mod policy;
mod stats;
pub mod timed;
mod wc;

pub use atomic::{AtomicConfig, AtomicDriver};
pub use cache::{Cache, Contents, Evicted, LineBytes, LineTag, Slot};
pub use config::{CacheConfig, ConfigError, HierarchyConfig, Inclusion, MAX_CACHE_LINES, Preset};
pub use domain::FlushCompletion;
pub use hierarchy::{Backing, Cause, Hierarchy};
pub use journal::{ImageCursor, Journal, Persisted};
pub use outlast_trace::{Domain, instead_of, nearest};
pub use policy::Policy;
pub use stats::{CacheStats, HierarchyStats, Traffic};
