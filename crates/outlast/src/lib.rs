//! ACID transactions on memory-mapped persistent memory.
//!
//! Memory that keeps its bytes through a crash has caches in front of it that do not, and they
//! write lines back in any order. This crate makes transactions out of such memory: each is
//! there wholly or not at all after a crash, isolated from others while it runs, and durable
//! when [`run`](Runner::run) returns.
//!
//! - [`FilePool`] is a pool in a mapped file; [`Pool`] one on any [`Medium`]. [`PoolOptions`] opens it.
//!   Opening goes through recovery: [`UnrecoveredPool`], [`RecoveredPool`], [`Pool`].
//! - [`Lane`] is one thread's session with a pool. It is a [`Runner`]: it runs closures as
//!   transactions, and runs one again that met a conflict.
//! - [`Tx`] is a running transaction: a value, and a [`Transact`]. Loads copy out of the pool,
//!   never a reference into it; stores go through the scheme.
//! - [`Reader`] is a [`Runner`] for pools that are open for reading only.
//! - [`Ack`] says what of a commit is done when it is acknowledged; a [`Ticket`] names it, to ask
//!   and to wait. [`Running`] is a transaction for callers without a closure.
//! - [`Scheme`] says how it becomes durable: by undo records, by redo records, or not at all.
//! - The feature `tracing` emits events: opening, recovery, growth, sweeps, checkpoints, failures, conflict storms.
//! - The feature `lab` adds schemes for comparison, schemes as published, and planted bugs.
//! - [`collections`] are a hash map, trees, a queue and words, written once over [`Transact`].
//! - [`stats`] tells what a pool is doing.
//! - [`walk`] follows the roots of pools, of whatever program, to all that they lead to.
//! - [`typed`] has structs, pointers and collections with types, under the compiler's eyes.
//!
//! Why so: everything durable that changes in place is one word that proves itself, so nothing
//! is ever torn and nothing needs a scan or a repair; everything else is volatile and rebuilt.
//! The runtime is generic over its memory, so that what a checker crashes is this very code.
//! `docs/` has the format, recovery and the fault model.
//!
//! ```
//! use outlast::{Abort, BlockKind, Pool, RootKind, Runner, Transact};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("bank.pool");
//! let pool = Pool::open_or_create(&path)?;
//! let mut lane = pool.lane()?;
//!
//! // Two accounts, on lines of their own, are what the pool leads to.
//! let [alice, bob] = lane.run(|tx| {
//!     let accounts = tx.alloc(128, BlockKind::General)?;
//!     tx.store_u64(accounts, 100)?;
//!     tx.store_u64(accounts.plus(64), 0)?;
//!     tx.set_root(accounts, RootKind::Opaque)?;
//!     Ok([accounts, accounts.plus(64)])
//! })?;
//!
//! let mut transfer = |amount: u64| {
//!     lane.run(|tx| {
//!         let (from, to) = (tx.load_u64(alice)?, tx.load_u64(bob)?);
//!         let rest = from.checked_sub(amount).ok_or_else(|| Abort::cancelled("too little"))?;
//!         tx.store_u64(alice, rest)?;
//!         tx.store_u64(bob, to + amount)
//!     })
//! };
//! transfer(30)?;
//! assert!(matches!(transfer(80), Err(Abort::Cancelled(_))), "nothing of it happened");
//! drop(lane);
//! drop(pool);
//!
//! let pool = Pool::open_or_create(&path)?; // through recovery
//! let balances = pool.lane()?.run(|tx| Ok([tx.load_u64(alice)?, tx.load_u64(bob)?]))?;
//! assert_eq!(balances, [70, 30]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod abort;
mod ack;
mod alloc;
mod barrier;
mod bias;
mod checkpoint;
mod checksums;
pub mod collections;
mod error;
mod events;
mod gate;
mod io;
mod layout;
mod lines;
mod lock;
mod log;
mod padded;
mod plant;
mod pool;
mod recover;
mod scheme;
mod sealed;
mod seq;
mod session;
mod solo;
mod spin;
pub mod stats;
mod sync;
mod transact;
mod tx;
pub mod typed;
pub mod walk;
mod word;
mod writeback;

pub use abort::{Abort, BadAddress, GrowthError, Reason, Report, TooLarge};
pub use ack::{Ack, AsyncTicket, Ticket, UnknownAck};
pub use checkpoint::{
    CHECKPOINT_VERSION, Checkpoint, CheckpointError, CheckpointInfo, CheckpointReport,
    checkpoint_path, restore,
};
pub use checksums::{Fault, RepairReport};
pub use error::PoolError;
pub use io::Site;
pub use layout::{FORMAT_VERSION, Geometry, POOL_BYTES_MAX};
#[doc(hidden)]
pub use log::record::forged_line;
pub use outlast_pmem::{
    Domain, GrowError, MapError, MapOptions, Mapped, Medium, MediumFailure, Overlay,
};
pub use outlast_trace::{ByteRange, Guarantee, LINE_BYTES, LineAddr, PoolOffset};
#[cfg(feature = "lab")]
pub use plant::{Plant, Shows, UnknownPlant};
pub use pool::{
    CheckReport, CheckStage, CheckStep, CreateOptions, FINDINGS_MAX, FilePool, Finding, Findings,
    Header, Lane, OpenOptions, Pool, PoolInfo, PoolOptions, Reader, RecoveredPool, Running, Space,
    UnrecoveredPool,
};
pub use recover::RecoveryReport;
pub use scheme::{Reading, SCHEMES, Scheme, SchemeRow, UnknownScheme};
#[doc(hidden)]
pub use sealed::seal_at as sealed_word;
pub use session::{Session, SessionError};
pub use transact::{BlockKind, RootKind, Runner, Transact};
pub use tx::Tx;
