//! Discarded blocks: a list in the pool, freed in small transactions.
//!
//! ```text
//! 0  next item, 0 for none
//! 8  1 a table of members, 2 a sequence, 3 a table of keys, 4 a stream, 5 a group of a stream, 6 a list with open
//!    ends, 7 an order of scores, whose members may be gone
//! 16 its offset
//! ```

use outlast::{Abort, BlockKind, PoolOffset};

use crate::store::entry::{Entry, Kind};
use crate::store::layout::Root;
use crate::store::mem::{Mem, damaged};
use crate::store::seq::{Ends, Scores, Seq};
use crate::store::stream::{Group, Stream};
use crate::store::table::Table;
use crate::store::walk::Values;

const MEMBERS: u64 = 1;
const SEQUENCE: u64 = 2;
const KEYS: u64 = 3;
const STREAM: u64 = 4;
const GROUP: u64 = 5;
const ENDS: u64 = 6;
const SCORES: u64 = 7;
/// Bytes of an item of the list.
pub(super) const ITEM_BYTES: u64 = 32;
/// Entries that one transaction frees.
const STEP: usize = 32;
/// Leaves of an order that one transaction frees.
const LEAVES_STEP: usize = 8;

fn push(mem: &mut Mem<'_>, root: &Root, what: u64, at: PoolOffset) -> Result<(), Abort> {
    let item = mem.alloc(ITEM_BYTES, BlockKind::General)?;
    let next = mem.load_u64(root.garbage_at())?;
    mem.store_u64(item, next)?;
    mem.store_u64(item.plus(8), what)?;
    mem.store_u64(item.plus(16), at.0)?;
    mem.store_u64(root.garbage_at(), item.0)
}

/// A thing that is to be freed.
pub(super) enum Part {
    Table(Values),
    Seq,
    Stream,
    Group,
    Ends,
    Scores,
}

/// The thing that an item of the list leads to, and where it is.
pub(super) fn parts(mem: &mut Mem<'_>, item: PoolOffset) -> Result<(Part, PoolOffset), Abort> {
    let at = PoolOffset(mem.load_u64(item.plus(16))?);
    let part = match mem.load_u64(item.plus(8))? {
        MEMBERS => Part::Table(Values::Members),
        KEYS => Part::Table(Values::Keys),
        SEQUENCE => Part::Seq,
        STREAM => Part::Stream,
        GROUP => Part::Group,
        ENDS => Part::Ends,
        SCORES => Part::Scores,
        _ => return Err(damaged(item, "an unknown thing to be freed")),
    };
    Ok((part, at))
}

/// The large part of a value is no longer wanted.
pub(crate) fn discard(mem: &mut Mem<'_>, root: &Root, entry: &Entry) -> Result<(), Abort> {
    if !entry.kind.is_large() {
        return Ok(());
    }
    for (what, at) in large_parts(mem, entry)? {
        push(mem, root, what, at)?;
    }
    Ok(())
}

/// The large parts of a value that has some.
fn large_parts(mem: &mut Mem<'_>, entry: &Entry) -> Result<Vec<(u64, PoolOffset)>, Abort> {
    let (first, second) = match entry.kind {
        Kind::ListSeq => (SEQUENCE, None),
        Kind::ListEnds => (ENDS, None),
        Kind::Stream => (STREAM, None),
        Kind::ZsetTree => (MEMBERS, Some(SEQUENCE)),
        Kind::ZsetScores => (MEMBERS, Some(SCORES)),
        _ => (MEMBERS, None),
    };
    let mut parts = vec![(first, entry.large_at(mem, 0)?)];
    if let Some(second) = second {
        parts.push((second, entry.large_at(mem, 1)?));
    }
    Ok(parts)
}

/// A sequence is no longer wanted.
pub(crate) fn discard_seq(mem: &mut Mem<'_>, root: &Root, seq: Seq) -> Result<(), Abort> {
    push(mem, root, SEQUENCE, seq.at)
}

/// A group of a stream is no longer wanted.
pub(crate) fn discard_group(mem: &mut Mem<'_>, root: &Root, at: PoolOffset) -> Result<(), Abort> {
    push(mem, root, GROUP, at)
}

/// A database's table is no longer wanted.
pub(crate) fn discard_keys(mem: &mut Mem<'_>, root: &Root, table: Table) -> Result<(), Abort> {
    push(mem, root, KEYS, table.at)
}

/// Frees some of it. `false` when nothing is left.
pub(crate) fn step(mem: &mut Mem<'_>, root: &Root) -> Result<bool, Abort> {
    let item = PoolOffset(mem.load_u64(root.garbage_at())?);
    if item.0 == 0 {
        return Ok(false);
    }
    let what = mem.load_u64(item.plus(8))?;
    let at = PoolOffset(mem.load_u64(item.plus(16))?);
    let is_done = match what {
        MEMBERS => {
            let table = Table { at };
            let is_done = table.drain(mem, STEP, &mut |_, _| Ok(()))? < STEP;
            if is_done {
                table.free_empty(mem)?;
            }
            is_done
        }
        KEYS => {
            let table = Table { at };
            let mut large = Vec::new();
            let gone = table.drain(mem, STEP, &mut |mem, entry| {
                if entry.kind.is_large() {
                    large.extend(large_parts(mem, &entry)?);
                }
                Ok(())
            })?;
            if gone < STEP {
                table.free_empty(mem)?;
                unlink(mem, root, item)?;
            }
            for (what, at) in large {
                push(mem, root, what, at)?;
            }
            return Ok(true);
        }
        SEQUENCE => {
            let seq = Seq { at };
            let count = seq.len(mem)?.min(STEP as u64);
            for _ in 0..count {
                seq.remove(mem, 0)?;
            }
            let is_done = count < STEP as u64;
            if is_done {
                seq.free_empty(mem)?;
            }
            is_done
        }
        ENDS => {
            Ends::load(mem, at)?.free_ends(mem)?;
            // The sequence between them is the rest.
            mem.store_u64(item.plus(8), SEQUENCE)?;
            false
        }
        SCORES => Scores { at }.drop_leaves(mem, LEAVES_STEP)?,
        STREAM => Stream { at }.drain(mem, STEP)?,
        GROUP => Group { at }.drain(mem, STEP)?,
        _ => return Err(damaged(item, "an unknown thing to be freed")),
    };
    if is_done {
        unlink(mem, root, item)?;
    }
    Ok(true)
}

/// Takes the first item off the list.
fn unlink(mem: &mut Mem<'_>, root: &Root, item: PoolOffset) -> Result<(), Abort> {
    let next = mem.load_u64(item)?;
    mem.store_u64(root.garbage_at(), next)?;
    mem.free(item)
}
