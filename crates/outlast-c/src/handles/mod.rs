//! The C API of the runtime itself: `outlast.h`.
//!
//! A process may have any number of pools open, and a thread any number of lanes. Both are
//! handles: numbers that are looked up and never used again, so that one that was closed, given
//! back, or made up, is told by a code. A lane's number is known to its own thread only: what
//! another thread does with it fails in the same way, and calls of a lane take no lock.
//!
//! - [`pool`] creates, opens, checks and closes.
//! - [`lane`] takes and gives back lanes, begins, commits and aborts.
//! - [`memory`] takes and gives back blocks, loads and stores, and finds the root.
//! - [`reader`] reads, also beside another process that writes.
//! - [`scheme`] names the schemes.
//! - [`code`] says what went wrong.
//!
//! Persistent addresses are offsets from the start of the pool; no pointer into it leaves the
//! library.

pub mod code;
pub mod lane;
pub mod memory;
pub mod pool;
pub mod reader;
pub mod scheme;
mod sessions;
