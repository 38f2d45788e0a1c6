//! Transactions: start, logical commit, end; and waiting for physical commits.

use std::ffi::c_int;

use outlast::Ticket;

use crate::code::ArchaptCode;
use crate::error::{Failure, Kind, guarded};
use crate::session;

/// Table II. Starts the calling thread's transaction. After a conflict a thread is given more and
/// more room, and its turn alone in the end: who starts again gets there.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_Start() -> ArchaptCode {
    guarded(session::start)
}

/// Table II. Commits the transaction logically: from here on it survives every crash, and others
/// see what it did. After an error, ARCHAPT_CONFLICT above all, everything is undone and the
/// thread has no transaction. The first call that failed in the transaction decides the error.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_LCommit() -> ArchaptCode {
    guarded(session::commit)
}

/// Table II. Ends a committed transaction: its client is answered. With physical acknowledgement
/// it returns when the commit is physical. A transaction that is not committed is undone, with
/// ARCHAPT_NOT_COMMITTED.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_End() -> ArchaptCode {
    guarded(session::end)
}

/// Undoes the transaction and ends it.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_Abort() -> ArchaptCode {
    guarded(session::abort)
}

/// The ticket of the calling thread's last commit. The thread's later commits and those that have
/// seen what it stored, or store over it, have greater ones, in later openings of the pool too; 0 is
/// that of a transaction which changed nothing.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Ticket() -> u64 {
    session::last_ticket()
}

/// Waits until the commit with that ticket is physical: all its data is durable in place and its
/// log is dropped. The thread does the work itself; what another thread has under way may have to
/// end first. The calling thread has no transaction under way.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Wait(ticket: u64) -> ArchaptCode {
    guarded(|| session::wait(Ticket::from_bits(ticket)))
}

/// Whether the commit with that ticket is physical: stores 1 or 0.
///
/// # Safety
/// - `physical` is null or an int can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Is_Physical(ticket: u64, physical: *mut c_int) -> ArchaptCode {
    guarded(|| {
        if physical.is_null() {
            return Err(Failure::bad("there is no place for the answer"));
        }
        let place = session::pool();
        let shared = place.as_ref().ok_or_else(session::not_open)?;
        let ticket = Ticket::from_bits(ticket);
        if !shared.pool.has_issued(ticket) {
            return Err(Failure::of(Kind::UnknownTicket));
        }
        // SAFETY: it is not null, so the caller says that an int can be stored there.
        unsafe { physical.write(c_int::from(shared.pool.is_physical(ticket))) };
        Ok(())
    })
}
