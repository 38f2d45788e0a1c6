//! Persistent data structures, written once over [`Transact`](crate::Transact) and so usable with
//! every scheme.
//!
//! [`ByteMap`] is a hash map and [`ByteTree`] a B+tree, both with byte-string keys and values
//! behind [`Dictionary`]; [`RbTree`] is a red-black tree with words as keys, [`Queue`] hands items
//! on in their order, [`Words`] is a vector of 8-byte words; [`Trees`] lists several B+trees,
//! and [`Names`] any structures by their names; [`Fields`] lays out values that are made of fields.
//! Each is a small `Copy` handle on a header block, which is what a pool's root object names.
//!
//! The transaction makes an operation atomic, so the structures are laid out for something else:
//! few announced bytes and few dirty lines. An insertion announces one 8-byte slot of a map, or
//! a slot and the order word of a tree's leaf; a removal announces one word; and everything that
//! one operation will change is announced in one call, after its allocations and before its
//! first store, so that a scheme can log it all with one fence.
//!
//! [`walk_root`] follows a structure through raw memory and never trusts a byte of it: `check`
//! compares what it reaches with what the allocator holds.
//!
//! ```
//! use outlast::collections::{ByteMap, Dictionary, ByteMapOptions};
//! use outlast::{Abort, RootKind, Transact};
//!
//! fn create(tx: &mut impl Transact) -> Result<ByteMap, Abort> {
//!     let map = ByteMap::create(tx, &ByteMapOptions::default())?;
//!     tx.set_root(map.root(), RootKind::HashMap)?;
//!     map.insert(tx, b"key", b"value")?;
//!     Ok(map)
//! }
//! ```

mod chain;
mod dictionary;
mod entry;
mod few;
mod fields;
mod hash;
mod layout;
mod map;
mod names;
mod placement;
mod plan;
mod queue;
mod raw;
mod rbtree;
mod tree;
mod trees;
mod words;

pub(crate) use chain::Chain;
pub use dictionary::{Dictionary, load_value};
pub use entry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use fields::{FieldPlacement, Fields};
pub(crate) use hash::hash_key;
pub(crate) use layout::{set_word, word};
pub use map::{ByteMap, ByteMapOptions};
pub use names::{Named, Names};
pub use placement::Placement;
pub use queue::{QUEUE_ITEM_BYTES_MAX, Queue};
pub(crate) use raw::walk_any;
pub use raw::{Damage, Reach, ReadRaw, walk_root};
pub use rbtree::{RB_VALUE_BYTES_MAX, RbTree};
pub use tree::ByteTree;
pub use trees::{TREES_MAX, Trees};
pub use words::Words;

use crate::{Abort, PoolOffset};

// Words that transactions load are loaded into their place: bytes in a result would be copied once or twice.

/// What a structure says of the length of its items is not what the program has. One of them is
/// wrong, and a damaged pool must not end the program.
#[cold]
pub(crate) fn other_length(at: PoolOffset, what: &str, bytes: u64, given: usize) -> Abort {
    Abort::damaged(format!("{what} of items of {bytes} bytes at {at}, and not of {given}"))
}

/// Durable bytes that a running transaction cannot make sense of.
#[cold]
pub(crate) fn damaged(at: PoolOffset, what: &'static str) -> Abort {
    Abort::damaged(Damage { at, what }.to_string())
}
