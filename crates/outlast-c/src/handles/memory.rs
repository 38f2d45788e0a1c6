//! Blocks, loads, stores and the root, in a lane's transaction.

use std::ffi::{CStr, c_char, c_void};

use outlast::typed::{described_root, set_described_root};
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Transact};

use super::code::outlast_code;
use super::lane::outlast_lane;
use super::pool::check_place;
use super::sessions::in_transaction;
use crate::error::{Failure, Kind, guarded};
use crate::memory::{bytes_of, length_of, place_of};

/// Bytes of a pool.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_range {
    /// The first, as an offset from the start of the pool.
    pub at: u64,
    /// How many.
    pub size: u64,
}

/// Takes a block of at least `size` bytes and stores its offset. It begins a line when it has 64
/// bytes or more. Its content is undefined. If the transaction does not commit it was never taken.
///
/// # Safety
/// - `at` is null or an offset can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_alloc(
    lane: outlast_lane,
    size: u64,
    at: *mut u64,
) -> outlast_code {
    guarded(|| {
        check_place(at)?;
        let block = in_transaction(lane.id, |tx| tx.alloc(size, BlockKind::General))?;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(block.0) };
        Ok(())
    })
}

/// Gives a block back when the transaction commits.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_free(lane: outlast_lane, at: u64) -> outlast_code {
    guarded(|| in_transaction(lane.id, |tx| tx.free(PoolOffset(at))))
}

/// Copies `size` bytes from offset `at` on to `out`. The transaction's own stores are seen.
///
/// # Safety
/// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_load(
    lane: outlast_lane,
    at: u64,
    out: *mut c_void,
    size: usize,
) -> outlast_code {
    guarded(|| {
        let size = length_of(out, size)?;
        in_transaction(lane.id, |tx| {
            // SAFETY: the caller says so, and the length was looked at.
            tx.load(PoolOffset(at), unsafe { place_of(out, size) })
        })
    })
}

/// Stores `size` bytes from `bytes` at offset `at`. What was not announced is logged now.
///
/// # Safety
/// - `bytes` is null, or `size` bytes with values are there that no thread changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_store(
    lane: outlast_lane,
    at: u64,
    bytes: *const c_void,
    size: usize,
) -> outlast_code {
    guarded(|| {
        let size = length_of(bytes, size)?;
        in_transaction(lane.id, |tx| {
            // SAFETY: the caller says so, and the length was looked at.
            tx.store(PoolOffset(at), unsafe { bytes_of(bytes, size) })
        })
    })
}

/// Announces that the transaction will store somewhere in these ranges, so that they are logged
/// together, with one fence. Announcing what is never stored is allowed and costs its logging.
///
/// # Safety
/// - `ranges` is null, or `count` ranges are there that no thread changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_announce(
    lane: outlast_lane,
    ranges: *const outlast_range,
    count: usize,
) -> outlast_code {
    /// Ranges that are announced without memory being taken for them.
    const FEW: usize = 16;
    guarded(|| {
        length_of(ranges, count.saturating_mul(size_of::<outlast_range>()))?;
        let given: &[outlast_range] = match count {
            0 => &[],
            // SAFETY: it is not null and its bytes are at most `isize::MAX`; the caller says that
            // this many ranges are there and no thread changes them.
            _ => unsafe { std::slice::from_raw_parts(ranges, count) },
        };
        let over = given.iter().find(|range| range.at.checked_add(range.size).is_none());
        if let Some(range) = over {
            let text =
                format!("announcing {} bytes at {}: no pool is as large", range.size, range.at);
            return Err(Failure::new(Kind::BadAddress, text));
        }
        let read = |range: &outlast_range| ByteRange::new(PoolOffset(range.at), range.size);
        let mut few = [ByteRange::default(); FEW];
        match few.get_mut(..count) {
            Some(few) => {
                few.iter_mut().zip(given).for_each(|(to, range)| *to = read(range));
                in_transaction(lane.id, |tx| tx.will_write(few))
            }
            None => {
                let many: Vec<ByteRange> = given.iter().map(read).collect();
                in_transaction(lane.id, |tx| tx.will_write(&many))
            }
        }
    })
}

/// Stores the offset of the pool's root block: where everything is found from. 0 if none is set.
///
/// # Safety
/// - `at` is null or an offset can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_root(lane: outlast_lane, at: *mut u64) -> outlast_code {
    guarded(|| {
        check_place(at)?;
        let root = in_transaction(lane.id, |tx| tx.root())?;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(root.map_or(0, |(block, _)| block.0)) };
        Ok(())
    })
}

/// Makes a block the root. Takes effect with the transaction.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_set_root(lane: outlast_lane, at: u64) -> outlast_code {
    guarded(|| in_transaction(lane.id, |tx| tx.set_root(PoolOffset(at), RootKind::Opaque)))
}

/// # Safety
/// - `schema` is null or a text that ends with a zero, which no thread changes meanwhile.
unsafe fn read_schema<'a>(schema: *const c_char) -> Result<&'a str, Failure> {
    if schema.is_null() {
        return Err(Failure::bad("the schema is null"));
    }
    // SAFETY: it is not null, so the caller says that it is a text.
    let text = unsafe { CStr::from_ptr(schema) };
    text.to_str().map_err(|_| Failure::bad("the schema is no UTF-8"))
}

/// A text that is no schema, or not that of the root, is a bad argument, and no failure of the transaction.
fn of_schema<R>(outcome: Result<R, Abort>) -> Result<Result<R, Failure>, Abort> {
    match outcome {
        Err(Abort::Cancelled(reason)) => Ok(Err(Failure::bad(reason.text()))),
        Err(abort @ Abort::Schema(_)) => Ok(Err(Failure::bad(abort.to_string()))),
        other => other.map(Ok),
    }
}

/// Stores the offset of the value of a root that outlast_set_described_root, or a program in Rust, has
/// made with that schema; 0 if the pool has no root. With a root of another schema, or without one, it is
/// OUTLAST_BAD_ARGUMENT, and outlast_last_error tells both.
///
/// # Safety
/// - `schema` is null or a text that ends with a zero, which no thread changes meanwhile.
/// - `at` is null or an offset can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_described_root(
    lane: outlast_lane,
    schema: *const c_char,
    at: *mut u64,
) -> outlast_code {
    guarded(|| {
        check_place(at)?;
        // SAFETY: the caller says so.
        let schema = unsafe { read_schema(schema)? };
        let root = in_transaction(lane.id, |tx| of_schema(described_root(tx, schema)))??;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(root.map_or(0, |value| value.0)) };
        Ok(())
    })
}

/// Makes a new root of `size` bytes, of the type that the schema begins with, and stores the offset of its value,
/// which the caller stores in the same transaction. The pool keeps the schema: by it `outlast pool check` and
/// outlast_check follow the root to all blocks, and find those that leak or have two owners. For instance
///
///   ledger v1; ledger v1 { 0 entries: u64, 8 first: optional box of entry v1,
///   16 last: optional pointer to entry v1 }; entry v1 { 0 next: optional box of entry v1, 8 number: u64 }
///
/// in one line: a box owns a block of its own, a pointer does not; both are offsets, and 0 is none. An old root of
/// another schema is replaced, and its own block freed.
///
/// # Safety
/// - As of outlast_described_root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_set_described_root(
    lane: outlast_lane,
    schema: *const c_char,
    size: u64,
    at: *mut u64,
) -> outlast_code {
    guarded(|| {
        check_place(at)?;
        // SAFETY: the caller says so.
        let schema = unsafe { read_schema(schema)? };
        let value = in_transaction(lane.id, |tx| of_schema(set_described_root(tx, schema, size)))??;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(value.0) };
        Ok(())
    })
}
