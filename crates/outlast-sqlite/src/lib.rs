//! SQLite databases in pools: a VFS that stock builds of SQLite load as an extension
//! (`outlast-sqlite-extension`).
//!
//! SQLite asks its VFS for a file of bytes. Here that file is a [`Store`](store::Store): extents of a pool, found
//! through a table, and each transaction of SQLite is one transaction of the runtime. So a commit
//! costs the pool's fence instead of a file's sync, and SQLite's own journal, which is needed to roll back
//! while a transaction runs, never has to be durable.
//!
//! - [`store::Store`] is the database file in the pool, written once over [`outlast::Transact`], so that
//!   the crash checker runs this very code.
//! - [`changes::Changes`] is what a transaction of SQLite has written so far, in volatile memory.
//! - [`database::Database`] is an open database: pool, store, locks between connections, journal. The
//!   connections of a process share it.
//! - [`client`] is the system's SQLite, loaded at run time with the VFS in it, and [`bench`](mod@bench) measures with it.
//! - [`WALKER`] follows such a pool's root for `outlast pool check`.
//! - `vfs` and `file` are what SQLite calls; `ffi` has its structures.
//!
//! Why changes wait in volatile memory: a transaction of the pool then begins and ends inside the one call
//! that commits, on one thread, and can be run again after a conflict. A page is compared with
//! what the pool holds, and its changed words are all that is logged.
//!
//! ```sh
//! sqlite3 -cmd '.load target/release/liboutlast_sqlite' -cmd '.open file:shop.pool?vfs=outlast'
//! ```
//!
//! `docs/sqlite.md` says what holds and what does not.
#![deny(unsafe_code)]

pub mod bench;
pub mod changes;
#[allow(unsafe_code)]
pub mod client;
pub mod database;
mod differences;
#[allow(unsafe_code)]
mod ffi;
#[allow(unsafe_code)]
mod file;
#[allow(unsafe_code)]
mod held;
mod journal;
mod layout;
mod locks;
pub mod options;
pub mod plain;
pub mod store;
mod stub;
#[allow(unsafe_code)]
mod vfs;
mod walk;

pub use walk::WALKER;
