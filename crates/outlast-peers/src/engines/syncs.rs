//! Counts the calls of this process that wait for the device.
//!
//! The C library's functions are defined anew in this program: what is linked into it, SQLite and
//! LMDB and Rust's standard library, calls these, which count and make the system call. `rustix`, which
//! our pools use, makes it without the C library; they count by themselves.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// How many there were so far.
pub(super) fn count() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

fn counted(result: i64) -> c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    result as c_int
}

/// As the C library's.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the call takes a number; the kernel refuses those that are no descriptors.
    counted(unsafe { libc::syscall(libc::SYS_fsync, fd) })
}

/// As the C library's.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: as above.
    counted(unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

/// As the C library's.
#[unsafe(no_mangle)]
extern "C" fn msync(at: *mut c_void, len: usize, flags: c_int) -> c_int {
    // SAFETY: the call changes no byte, and the kernel refuses a range that is not mapped.
    counted(unsafe { libc::syscall(libc::SYS_msync, at, len, flags) })
}
