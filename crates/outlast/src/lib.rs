//! ACID transactions on data structures in a file, which is mapped into memory: an ordinary file on an ordinary
//! disk, or persistent memory.
//!
//! The memory of such a file keeps its bytes through a crash. Caches in front of it do not, and they write back in
//! any order. This crate makes transactions out of it: each is there wholly or not at all after a crash,
//! isolated from others while it runs, and durable when [`run`](Pool::run) returns.
//!
//! - [`Pool`] is a pool in a file: [`Pool::open_or_create`], or [`Pool::options`] for more. Opening goes through
//!   [recovery](recover). An `Arc` of it is the handle that threads and tasks share.
//! - [`Pool::run`] runs a closure as a transaction, and runs it again that met a conflict; [`Pool::try_run`] takes a
//!   closure with an error of the program's own. A thread with many transactions takes a [`Lane`], which is a
//!   [`Runner`], and keeps it.
//! - [`typed`] has structs, pointers and collections with types, under the compiler's eyes. Begin there, with
//!   [`Pool::run_typed`].
//! - [`Tx`] is a running transaction without types: a value, and a [`Transact`]. Loads copy out of the pool,
//!   never a reference into it; stores go through the scheme. [`collections`] are a hash map, trees, a queue
//!   and words over it.
//! - [`PoolError`] is the error of a pool, [`Abort`] that of a transaction, which the first takes by `?`;
//!   [`error`] has their parts.
//! - [`checkpoint`] has backups, [`inspect`] checks and facts, [`stats`] what a pool is doing, and [`inspect::walk`] follows
//!   roots of any program.
//!
//! Less often needed: [`Running`] and [`Session`] for callers without a closure; [`Ack`], [`Ticket`] and
//! [`AsyncTicket`] for commits that are acknowledged later or earlier than their data; [`Scheme`] and [`scheme`] for the ways of
//! making commits durable; [`medium`] for other memory than a file. The feature `tracing` emits events. The feature `lab` adds schemes for comparison,
//! schemes as published, and planted bugs.
//!
//! Why so: everything durable that changes in place is one word that proves itself, so nothing
//! is ever torn and nothing needs a scan or a repair; everything else is volatile and rebuilt.
//! The runtime is generic over its memory, so that what a checker crashes is this very code.
//! The repository's pages have the [format](https://github.com/outlast/outlast/blob/main/docs/format.md),
//! [recovery](https://github.com/outlast/outlast/blob/main/docs/recovery.md) and the
//! [fault model](https://github.com/outlast/outlast/blob/main/docs/fault-model.md).
//!
//! ```
//! use outlast::typed::{PBTreeMap, PString, PVec};
//! use outlast::{Pool, PoolError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("notes.pool");
//! let note = |day: u32, text: &str| -> Result<u64, PoolError> {
//!     let pool = Pool::open_or_create(&path)?; // after a crash too: opening recovers
//!     let count = pool.run_typed(|tx| {
//!         let days = tx.root_or_new::<PBTreeMap<'_, u32, PVec<'_, PString<'_>>>>()?;
//!         let notes = days.get(tx)?.entry(tx, &day)?.or_insert_with(PVec::new)?;
//!         let text = PString::new(tx, text)?;
//!         notes.push(tx, text)?;
//!         notes.len(tx)
//!     })?; // durable from here on, all of it; after an error, nothing of it
//!     Ok(count)
//! };
//! assert_eq!(note(1, "buy bread")?, 1);
//! assert_eq!(note(1, "and butter")?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Without types, and with a reason to give up:
//!
//! ```
//! use outlast::{Abort, BlockKind, Pool, RootKind, Transact};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("bank.pool");
//! let pool = Pool::open_or_create(&path)?;
//! // Two accounts, on lines of their own, are what the pool leads to.
//! let [alice, bob] = pool.run(|tx| {
//!     let accounts = tx.alloc(128, BlockKind::General)?;
//!     tx.store_u64(accounts, 100)?;
//!     tx.store_u64(accounts.plus(64), 0)?;
//!     tx.set_root(accounts, RootKind::Opaque)?;
//!     Ok([accounts, accounts.plus(64)])
//! })?;
//!
//! let transfer = |amount: u64| {
//!     pool.run(|tx| {
//!         let (from, to) = (tx.load_u64(alice)?, tx.load_u64(bob)?);
//!         let rest = from.checked_sub(amount).ok_or_else(|| Abort::cancelled("too little"))?;
//!         tx.store_u64(alice, rest)?;
//!         tx.store_u64(bob, to + amount)
//!     })
//! };
//! transfer(30)?;
//! assert!(matches!(transfer(80), Err(Abort::Cancelled(_))), "nothing of it happened");
//! assert_eq!(pool.run(|tx| Ok([tx.load_u64(alice)?, tx.load_u64(bob)?]))?, [70, 30]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod abort;
mod ack;
mod alloc;
mod barrier;
mod bias;
pub mod checkpoint;
mod checksums;
pub mod collections;
pub mod error;
mod events;
mod gate;
pub mod inspect;
mod io;
#[cfg(feature = "lab")]
pub mod lab;
mod layout;
mod lines;
mod lock;
mod log;
pub mod medium;
mod padded;
mod plant;
mod pool;
pub mod recover;
pub mod scheme;
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
mod versions;
mod word;
mod writeback;

pub use abort::Abort;
pub use ack::{Ack, AsyncTicket, Ticket};
#[doc(inline)]
pub use error::PoolError;
pub use outlast_pmem::Domain;
pub use outlast_trace::{ByteRange, PoolOffset};
pub use pool::{Lane, Pool, PoolOptions, Running};
#[doc(inline)]
pub use scheme::Scheme;
pub use session::Session;
pub use transact::{BlockKind, RootKind, Runner, Transact};
pub use tx::Tx;
pub use versions::{PoolReader, Turns};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
