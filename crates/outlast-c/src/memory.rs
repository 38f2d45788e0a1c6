//! Blocks, loads, stores and the root, in the calling thread's transaction.

use std::ffi::{c_int, c_void};

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Transact};

use crate::code::ArchaptCode;
use crate::error::{Failure, Kind, guarded};
use crate::session;

/// The pools of Table II: blocks of one type lie together.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub enum ArchaptType {
    /// Everything else.
    ARCHAPT_GENERAL = 0,
    /// Keys.
    ARCHAPT_KEY = 1,
    /// Fields and values.
    ARCHAPT_VALUE = 2,
    /// Logs of the program's own.
    ARCHAPT_LOG = 3,
}

fn kind_of(number: c_int) -> Result<BlockKind, Failure> {
    let found = BlockKind::ALL.into_iter().find(|kind| *kind as c_int == number);
    found.ok_or_else(|| {
        let text = format!("there is no type {number}: general 0, key 1, value 2, log 3");
        Failure::bad(text)
    })
}

/// The length of what a pointer points to, if it can point to so much.
pub(crate) fn length_of<T>(pointer: *const T, size: usize) -> Result<usize, Failure> {
    if pointer.is_null() && size > 0 {
        return Err(Failure::bad("a null pointer"));
    }
    if isize::try_from(size).is_err() {
        let text = format!("a size of {size} bytes: nothing is as large");
        return Err(Failure::bad(text));
    }
    Ok(size)
}

/// The place for `size` bytes, made bytes with a value first.
///
/// # Safety
/// - `size` has passed [`length_of`]; `size` bytes can be stored at `out`, and no other thread uses them meanwhile.
pub(crate) unsafe fn place_of<'a>(out: *mut c_void, size: usize) -> &'a mut [u8] {
    if size == 0 {
        return &mut [];
    }
    // SAFETY: it is not null and `size` at most `isize::MAX`; the caller says that this many bytes can be stored
    // there and no other thread uses them.
    unsafe {
        out.cast::<u8>().write_bytes(0, size);
        std::slice::from_raw_parts_mut(out.cast::<u8>(), size)
    }
}

/// The `size` bytes that are given.
///
/// # Safety
/// - `size` has passed [`length_of`]; `size` bytes with values are at `bytes`, and no thread changes them meanwhile.
pub(crate) unsafe fn bytes_of<'a>(bytes: *const c_void, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: it is not null and `size` at most `isize::MAX`; the caller says that this many bytes are there and no
    // thread changes them.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) }
}

/// Table II. Takes a block of at least `size` bytes from the pool of that type, and returns its
/// offset, or 0 after an error, whose code Archapt_Last_Code has. The block's content is
/// undefined. If the transaction does not commit it was never taken.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Malloc(r#type: c_int, size: usize) -> u64 {
    let mut at = 0;
    guarded::<ArchaptCode>(|| {
        let kind = kind_of(r#type)?;
        at = session::in_transaction(|tx| tx.alloc(size as u64, kind))?.0;
        Ok(())
    });
    at
}

/// Table II. Gives a block back when the transaction commits. Type and size are those that it was
/// taken with, or a size that would have brought a block as large; others are errors, and then
/// the block is not given back.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Free(r#type: c_int, at: u64, size: usize) -> ArchaptCode {
    guarded(|| {
        let kind = kind_of(r#type)?;
        let block = PoolOffset(at);
        session::checked_in_transaction(|tx| {
            let (bytes, found) = match tx.block_at(block) {
                Ok(found) => found,
                // Where no block is the transaction ends as it would in any language.
                Err(Abort::BadAddress(_)) => return Ok(tx.free(block)?),
                Err(other) => return Err(other.into()),
            };
            if found != kind {
                let text = format!("the block at {block} is of type {}", found as c_int);
                return Err(Failure::new(Kind::WrongType, text));
            }
            let wanted = tx.block_bytes_for(size as u64);
            if wanted != bytes {
                let text = format!(
                    "the block at {block} has {bytes} bytes, one taken with {size} has {wanted}"
                );
                return Err(Failure::new(Kind::WrongSize, text));
            }
            Ok(tx.free(block)?)
        })
    })
}

/// Copies `size` bytes from offset `at` on to `out`. The transaction's own stores are seen.
///
/// # Safety
/// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Load(at: u64, out: *mut c_void, size: usize) -> ArchaptCode {
    guarded(|| {
        let size = length_of(out, size)?;
        session::in_transaction(|tx| {
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
pub unsafe extern "C" fn Archapt_Store(at: u64, bytes: *const c_void, size: usize) -> ArchaptCode {
    guarded(|| {
        let size = length_of(bytes, size)?;
        session::in_transaction(|tx| {
            // SAFETY: the caller says so, and the length was looked at.
            tx.store(PoolOffset(at), unsafe { bytes_of(bytes, size) })
        })
    })
}

/// Announces that the transaction will store somewhere in these bytes, so that several ranges are
/// logged together. Announcing what is never stored is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Will_Write(at: u64, size: usize) -> ArchaptCode {
    guarded(|| {
        if at.checked_add(size as u64).is_none() {
            let text = format!("announcing {size} bytes at {at}: no pool is as large");
            return Err(Failure::new(Kind::BadAddress, text));
        }
        let range = ByteRange::new(PoolOffset(at), size as u64);
        session::in_transaction(|tx| tx.will_write(&[range]))
    })
}

/// Stores the offset of the pool's root block: where everything is found from. 0 if none is set.
///
/// # Safety
/// - `at` is null or an offset can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Root(at: *mut u64) -> ArchaptCode {
    guarded(|| {
        if at.is_null() {
            return Err(Failure::bad("there is no place for the answer"));
        }
        let root = session::in_transaction(|tx| tx.root())?;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(root.map_or(0, |(block, _)| block.0)) };
        Ok(())
    })
}

/// Makes a block the root. Takes effect with the transaction.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Set_Root(at: u64) -> ArchaptCode {
    guarded(|| session::in_transaction(|tx| tx.set_root(PoolOffset(at), RootKind::Opaque)))
}
