//! Readers: a pool as it is at a moment, also beside another process that writes it.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::error::ReadError;
use outlast::medium::{Mapped, Overlay, Snapshot};
use outlast::recover::Reader;
use outlast::{Abort, PoolOffset, PoolReader, Transact};

use super::code::outlast_code;
use super::code::outlast_code::*;
use super::pool::{check_place, outlast_options, read, read_path};
use super::sessions::{next_number, no_handle};
use crate::error::{Failure, Kind, guarded, row_of_number};
use crate::memory::{length_of, place_of};
use crate::per_process::PerProcess;

/// A pool that is open for reading. `{0}` is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_reader {
    /// The library's own number for it.
    pub id: u64,
}

/// A pool as it was at one moment. It lives as long as the call that it was given to.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_snapshot {
    /// Nothing that C may touch.
    pub opaque: u8,
}

/// Reads a snapshot, for outlast_read: 0 when it is done, or a code to end with.
#[allow(non_camel_case_types, reason = "the names are C's")]
pub type outlast_read_body =
    Option<unsafe extern "C" fn(snapshot: *mut outlast_snapshot, context: *mut c_void) -> c_int>;

type Below<'p> = Reader<'p, Overlay<Snapshot<Mapped>>>;

static READERS: PerProcess<Mutex<BTreeMap<u64, Arc<Mutex<PoolReader>>>>> = PerProcess::new();

fn readers() -> MutexGuard<'static, BTreeMap<u64, Arc<Mutex<PoolReader>>>> {
    READERS.get(|_| Mutex::default()).content.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a pool for reading, also beside a process that has it open for writing, and stores the reader's handle. Of the
/// options only the domain counts.
///
/// # Safety
/// - As of outlast_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_open_reader(
    path: *const c_char,
    options: *const outlast_options,
    reader: *mut outlast_reader,
) -> outlast_code {
    guarded(|| {
        check_place(reader)?;
        // SAFETY: the caller says so.
        let (path, wanted) = unsafe { (read_path(path)?, read(options)?) };
        let opened = PoolReader::open(path, &wanted.map)?;
        let id = next_number();
        readers().insert(id, Arc::new(Mutex::new(opened)));
        // SAFETY: it is not null, so the caller says that a handle can be stored there.
        unsafe { reader.write(outlast_reader { id }) };
        Ok(())
    })
}

/// Calls `body` with a snapshot of this moment: all that was acknowledged before, and of every transaction all or
/// nothing. It calls it again, with another snapshot, when the pool's writer has overtaken it. A code that `body`
/// returns is the result.
///
/// # Safety
/// - `body` is null or can be called with a snapshot and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_read(
    reader: outlast_reader,
    body: outlast_read_body,
    context: *mut c_void,
) -> outlast_code {
    let mut code = OUTLAST_OK;
    let done = guarded(|| {
        let body = body.ok_or_else(|| Failure::bad("the body is null"))?;
        let found = readers().get(&reader.id).cloned();
        let found = found.ok_or_else(|| no_handle("reader", reader.id))?;
        let mut opened = found.try_lock().map_err(|_| {
            Failure::new(Kind::Busy, "the reader is in use: each thread takes one of its own")
        })?;
        opened
            .run(|tx| {
                let snapshot = std::ptr::from_mut(tx).cast::<outlast_snapshot>();
                // SAFETY: the caller says that it can be called so; the snapshot outlives the call.
                let number = unsafe { body(snapshot, context) };
                code =
                    row_of_number::<outlast_code>(number).map_or(OUTLAST_BAD_ARGUMENT, |row| row.1);
                match code {
                    OUTLAST_OK => Ok(()),
                    _ => Err(Abort::cancelled("the body says so")),
                }
            })
            .or_else(|error| match error {
                // The code tells.
                ReadError::Abort(Abort::Cancelled(_)) => Ok(()),
                error => Err(Failure::from(error)),
            })
    });
    if done == OUTLAST_OK { code } else { done }
}

/// Copies `size` bytes of the snapshot from offset `at` on to `out`.
///
/// # Safety
/// - `snapshot` is null, or what a body was given that runs.
/// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_snapshot_load(
    snapshot: *mut outlast_snapshot,
    at: u64,
    out: *mut c_void,
    size: usize,
) -> outlast_code {
    guarded(|| {
        let size = length_of(out, size)?;
        // SAFETY: null becomes `None`, else the caller says that it is what the body was given.
        let tx = unsafe { snapshot.cast::<Below<'_>>().as_mut() };
        let tx = tx.ok_or_else(|| Failure::bad("the snapshot is null"))?;
        // SAFETY: the caller says so, and the length was looked at.
        Ok(tx.load(PoolOffset(at), unsafe { place_of(out, size) })?)
    })
}

/// Stores the offset of the snapshot's root block; 0 if none is set.
///
/// # Safety
/// - `snapshot` is null, or what a body was given that runs.
/// - `at` is null or an offset can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_snapshot_root(
    snapshot: *mut outlast_snapshot,
    at: *mut u64,
) -> outlast_code {
    guarded(|| {
        check_place(at)?;
        // SAFETY: null becomes `None`, else the caller says that it is what the body was given.
        let tx = unsafe { snapshot.cast::<Below<'_>>().as_mut() };
        let tx = tx.ok_or_else(|| Failure::bad("the snapshot is null"))?;
        let root = tx.root()?;
        // SAFETY: it is not null, so the caller says that an offset can be stored there.
        unsafe { at.write(root.map_or(0, |(block, _)| block.0)) };
        Ok(())
    })
}

/// Closes a reader.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_close_reader(reader: outlast_reader) -> outlast_code {
    guarded(|| match readers().remove(&reader.id) {
        Some(_) => Ok(()),
        None => Err(no_handle("reader", reader.id)),
    })
}
