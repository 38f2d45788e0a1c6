//! The data model in the pool: databases of keys with values.
//!
//! A database is a [`table`] of [`entry`]s. A small value lies in its key's entry, a collection as a
//! [`blob`]; a large collection is a table or a [`seq`]uence of its own, to which the entry leads.
//! What was large and is no longer wanted goes to a list in the pool and is freed in small
//! transactions ([`garbage`]), so that no command waits for it, and a crash in between leaks nothing.

pub(crate) mod blob;
pub(crate) mod dict;
pub(crate) mod entry;
pub(crate) mod former;
pub(crate) mod garbage;
pub(crate) mod hasher;
mod keys;
mod layout;
pub(crate) mod list;
pub(crate) mod mem;
pub(crate) mod seq;
mod size;
pub(crate) mod stream;
pub(crate) mod table;
mod walk;
pub(crate) mod zset;

pub(crate) use keys::{Changes, Event, Fact, Found, Keys};
use outlast::inspect::walk::Walker;

pub use layout::DATABASES;
pub(crate) use layout::{IMPORT_DATABASE, Root};

/// Follows the roots of pools that the server has made, for `RecoveredPool::check_by`.
pub static WALKER: &dyn Walker = &walk::ServerRoots;
