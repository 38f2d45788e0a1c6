//! Other people's transactions behind Outlast's traits, so that they run the same structures
//! and workloads as our own schemes.
//!
//! The one peer of the runtime is the real libpmemobj of PMDK, loaded at run time: nothing of it is needed to
//! build, and where it is missing [`Pmdk::load`] says in one line what to install. A
//! [`PmdkPool`] is a [`Runner`](outlast::Runner); its [`Granularity`] chooses whether announced
//! ranges are snapshotted whole (scheme `pmdk`) or every 8-byte word on its own, as the C++
//! bindings do (scheme `pmdk-word`).
//!
//! A peer must be measured as its authors would run it:
//!
//! - It flushes caches instead of calling `msync` (`PMEM_IS_PMEM_FORCE=1`, refused where it would not
//!   be true).
//! - It uses direct pointers, and allocation classes without headers ([the one tuning](pool) that
//!   PMDK's manual recommends).
//! - Closures that only read have no transaction.
//! - The library is not asked twice about bytes that a transaction has already snapshotted.
//!
//! ```no_run
//! use outlast::{BlockKind, Runner, Transact};
//! use outlast_peers::{Granularity, Pmdk, PmdkPool};
//!
//! let pmdk = Pmdk::load()?;
//! let mut pool = PmdkPool::create(pmdk, "/dev/shm/example.pmdk".as_ref(), 64 << 20, Granularity::Range)?;
//! let block = pool.run(|tx| {
//!     let block = tx.alloc(64, BlockKind::General)?;
//!     tx.store_u64(block, 7)?;
//!     Ok(block)
//! })?;
//! assert_eq!(pool.run(|tx| tx.load_u64(block))?, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`engines`] puts embedded databases behind one interface, beside a pool of ours.
//!
//! With the feature `dramsim3` there is a peer of the simulator's memory, too: `memory` plays
//! lists of requests in DRAMsim3 and in `outlast-sim`.

mod api;
mod classes;
pub mod engines;
mod intervals;
mod large;
#[cfg(feature = "dramsim3")]
pub mod memory;
mod place;
pub mod pool;
mod tx;

pub use api::{ApiVersion, DEBIAN_PACKAGE, Missing, Pmdk};
pub use pool::{Granularity, PmdkError, PmdkPool};
pub use tx::PmdkTx;
