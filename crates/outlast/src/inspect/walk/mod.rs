//! Following a pool's root to every block that it leads to.
//!
//! A [`Walker`] knows the roots of one kind of program: [`COLLECTIONS`] those of the runtime's collections, [`TYPED`]
//! those that were made with a [schema](crate::typed::Schema), of which no program is needed, as the pool has it in
//! words. The front ends have walkers of their own. [`OFFSETS`] follows any root by the offsets that its blocks hold.
//! A walker reports to a [`Visit`]: each block, and the [`Path`] that leads there.
//!
//! [`RecoveredPool::check_by`](crate::recover::RecoveredPool::check_by) compares the blocks reached with those allocated. A
//! program with an encoding of its own implements `Walker` for it:
//!
//! ```
//! use outlast::collections::ReadRaw;
//! use outlast::inspect::walk::{Coverage, Path, Root, Step, Visit, Walker};
//! use outlast::{BlockKind, Pool, PoolOffset, RootKind, Runner, Transact};
//!
//! /// A root of two words: the number of blocks, and the first. Each has the next one's offset, times two plus one.
//! struct Chain;
//!
//! impl Walker for Chain {
//!     fn name(&self) -> &'static str {
//!         "chain"
//!     }
//!
//!     fn describe(&self, root: Root, _: &mut dyn ReadRaw) -> Option<String> {
//!         (root.kind == RootKind::Opaque).then(|| "a chain".to_owned())
//!     }
//!
//!     fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
//!         let mut at = root.at;
//!         for number in 0.. {
//!             let path = Path::ROOT;
//!             if !visit.owned(at, 64, &path.then(Step::Number(number))) {
//!                 break;
//!             }
//!             let mut word = [0; 8];
//!             read.read(at, &mut word);
//!             match u64::from_le_bytes(word) {
//!                 0 => break,
//!                 next => at = PoolOffset(next / 2),
//!             }
//!         }
//!         Coverage::Whole
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("chain.pool");
//! let pool = Pool::open_or_create(&path)?;
//! pool.lane()?.run(|tx| {
//!     let (first, second) = (tx.alloc(64, BlockKind::General)?, tx.alloc(64, BlockKind::General)?);
//!     tx.store_u64(first, 2 * second.0 + 1)?;
//!     tx.store_u64(second, 0)?;
//!     tx.alloc(64, BlockKind::General)?; // leaks
//!     tx.set_root(first, RootKind::Opaque)
//! })?;
//! let pool = outlast::recover::UnrecoveredPool::open(pool.close())?.recover()?;
//! let report = pool.check_by(&[&Chain], &mut |_| {});
//! assert_eq!(report.reachable, Some(2));
//! assert_eq!(report.findings.count(), 1);
//! # Ok(())
//! # }
//! ```

mod offsets;
mod path;
mod roots;

pub use crate::pool::Listed;
pub use path::{Path, Step};

use crate::collections::ReadRaw;
use crate::{PoolOffset, RootKind};

/// A pool's root object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// Where it is.
    pub at: PoolOffset,
    /// Its kind, as the program has set it.
    pub kind: RootKind,
}

/// The kind of program whose roots are followed.
pub trait Walker: Sync {
    /// The kind's name: one word.
    fn name(&self) -> &'static str;

    /// The root in words, if it is one of this kind.
    fn describe(&self, root: Root, read: &mut dyn ReadRaw) -> Option<String>;

    /// Follows a root of this kind. No content may make it panic or loop: it goes below a block only where
    /// [`Visit::owned`] says so.
    fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage;
}

/// The part of the reachable blocks that a walk has visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// All: an allocated block that was not visited leaks.
    Whole,
    /// All, if the program stores offsets as they are: a block that was not visited probably leaks.
    Likely,
    /// Some: of other blocks nothing is known.
    Unknown,
}

/// What a walk reports to.
pub trait Visit {
    /// Something owns the block at `at` and uses `bytes` bytes of it. Returns whether to go on below: not where
    /// there is no such block, and not where it was reached before.
    fn owned(&mut self, at: PoolOffset, bytes: u64, path: &Path<'_>) -> bool;

    /// A pointer that owns nothing leads to `bytes` bytes at `at`, anywhere in a block. Returns that block, if no owner
    /// of it was reported so far.
    fn pointed(&mut self, at: PoolOffset, bytes: u64, path: &Path<'_>) -> Option<Pointed>;

    /// The bytes at `at` are not as the structure has them.
    fn damaged(&mut self, at: PoolOffset, what: &str, path: &Path<'_>);
}

/// The block that a pointer leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pointed {
    /// Where it starts.
    pub at: PoolOffset,
    /// Its size.
    pub bytes: u64,
    /// Nothing led there before.
    pub is_first: bool,
}

/// The roots that are [collections](crate::collections), by their kind.
pub static COLLECTIONS: &dyn Walker = &roots::Collections;

/// Roots made by [`TypedTx`](crate::typed::TypedTx), by the schema in the pool.
pub static TYPED: &dyn Walker = &crate::typed::TypedRoots;

/// Any root. Every aligned 4 bytes of a block on that hold, with the 4 bytes behind them, the offset of a byte in an
/// allocated block lead to that block; low and high bits that no offset has are left out. So a block is not missed
/// unless the program encodes its offsets in another way.
pub static OFFSETS: &dyn Walker = &offsets::Offsets;

/// The walkers of this crate that prove something, most special first.
pub(crate) fn built_in() -> [&'static dyn Walker; 2] {
    [COLLECTIONS, TYPED]
}

/// The walker that knows a root, and the root in its words: those given are asked before those of this crate, and
/// [`OFFSETS`] last, where it is given.
pub fn walker_of<'w>(
    root: Root,
    read: &mut dyn ReadRaw,
    walkers: &[&'w dyn Walker],
) -> Option<(&'w dyn Walker, String)> {
    let last = |walker: &&dyn Walker| walker.name() == offsets::NAME;
    let special = walkers.iter().copied().filter(|walker| !last(walker));
    let general = walkers.iter().copied().filter(last);
    let all = special.chain(built_in()).chain(general);
    all.into_iter().find_map(|walker| Some((walker, walker.describe(root, read)?)))
}

/// The word at a place; `None` outside the pool.
pub(crate) fn word_at(read: &mut dyn ReadRaw, at: PoolOffset) -> Option<u64> {
    let mut word = [0; 8];
    read.read(at, &mut word).then(|| u64::from_le_bytes(word))
}
