//! Lanes and their transactions.

use std::ffi::{c_int, c_void};

use outlast::{AsyncTicket, Pool};

use super::code::outlast_code;
use super::pool::{check_place, outlast_pool};
use super::sessions;
use crate::error::{Failure, Kind, guarded, row_of_number};

/// A lane of a pool, which belongs to the thread that took it: it has one transaction at a time.
/// `{0}` is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_lane {
    /// The library's own number for it.
    pub id: u64,
}

/// What a transaction does, for outlast_run: 0 to commit, a code to undo and end with.
#[allow(non_camel_case_types, reason = "the names are C's")]
pub type outlast_body =
    Option<unsafe extern "C" fn(lane: outlast_lane, context: *mut c_void) -> c_int>;

/// Takes a lane of the pool for the calling thread. A thread that ends gives its lanes back, and
/// undoes what they have open.
///
/// # Safety
/// - `lane` is null or a handle can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_take_lane(
    pool: outlast_pool,
    lane: *mut outlast_lane,
) -> outlast_code {
    guarded(|| {
        check_place(lane)?;
        let id = sessions::take_lane(pool.id)?;
        // SAFETY: it is not null, so the caller says that a handle can be stored there.
        unsafe { lane.write(outlast_lane { id }) };
        Ok(())
    })
}

/// Gives a lane back that has no transaction.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_give_back(lane: outlast_lane) -> outlast_code {
    guarded(|| sessions::give_back(lane.id))
}

/// Begins a transaction. A thread has one at a time in each pool. After a conflict a lane is given
/// more and more room, and its turn alone in the end: who begins again gets there.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_begin(lane: outlast_lane) -> outlast_code {
    guarded(|| sessions::begin(lane.id))
}

/// Commits the transaction: when it returns OUTLAST_OK no crash can take it back. After an error,
/// OUTLAST_CONFLICT above all, everything is undone and the lane has no transaction. The first
/// call that failed in the transaction decides the error.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_commit(lane: outlast_lane) -> outlast_code {
    guarded(|| sessions::commit(lane.id))
}

/// Names an asynchronous commit, to wait for it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub struct outlast_ticket {
    /// 0 for a transaction that was durable when it returned.
    pub id: u64,
}

/// Commits the transaction and returns before it is durable. The lane's later transactions see it,
/// those of others wait until it is durable, and a crash before takes it back whole. It becomes
/// durable with outlast_sync, outlast_await_durable, the lane's next outlast_commit, or when the
/// lane is given back. Errors are those of outlast_commit.
///
/// # Safety
/// - `ticket` is null, or a ticket can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_commit_async(
    lane: outlast_lane,
    ticket: *mut outlast_ticket,
) -> outlast_code {
    guarded(|| {
        let id = sessions::commit_async(lane.id)?.to_bits();
        if !ticket.is_null() {
            // SAFETY: it is not null, so the caller says that a ticket can be stored there.
            unsafe { ticket.write(outlast_ticket { id }) };
        }
        Ok(())
    })
}

/// Makes every asynchronous commit of the pool durable that has returned. The calling thread has no
/// transaction of the pool.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_sync(pool: outlast_pool) -> outlast_code {
    guarded(|| Ok(sessions::pool_to_wait_for(pool.id)?.sync()?))
}

/// Returns when the commit with that ticket is durable. The calling thread has no transaction of the
/// pool.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_await_durable(
    pool: outlast_pool,
    ticket: outlast_ticket,
) -> outlast_code {
    guarded(|| {
        let pool = sessions::pool_to_wait_for(pool.id)?;
        Ok(pool.await_durable(known(&pool, ticket)?)?)
    })
}

/// Whether the commit with that ticket is durable: 1 or 0.
///
/// # Safety
/// - `is_durable` is null or a number can be stored there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_is_durable(
    pool: outlast_pool,
    ticket: outlast_ticket,
    is_durable: *mut c_int,
) -> outlast_code {
    guarded(|| {
        check_place(is_durable)?;
        let pool = sessions::pool(pool.id)?;
        let answer = pool.is_durable(known(&pool, ticket)?);
        // SAFETY: it is not null, so the caller says that a number can be stored there.
        unsafe { is_durable.write(c_int::from(answer)) };
        Ok(())
    })
}

fn known(pool: &Pool, ticket: outlast_ticket) -> Result<AsyncTicket, Failure> {
    let known = AsyncTicket::from_bits(ticket.id);
    match pool.has_issued_async(known) {
        true => Ok(known),
        false => Err(Failure::bad(format!("the pool has given out no ticket {}", ticket.id))),
    }
}

/// Undoes the transaction and ends it.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_abort(lane: outlast_lane) -> outlast_code {
    guarded(|| sessions::abort(lane.id))
}

/// Runs `body` as one transaction, again after each conflict, and commits it when it returns 0.
/// What else it returns undoes it and is returned; a number that is no code is returned as
/// OUTLAST_BAD_ARGUMENT. A body that ended the transaction itself gets OUTLAST_NO_TRANSACTION.
///
/// # Safety
/// - `body` is null or a function that can be called with this lane and `context`, any number of
///   times, and that neither jumps nor throws out of itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlast_run(
    lane: outlast_lane,
    body: outlast_body,
    context: *mut c_void,
) -> outlast_code {
    guarded(|| {
        let body = body.ok_or_else(|| Failure::bad("the body is null"))?;
        loop {
            sessions::begin(lane.id)?;
            // SAFETY: it is not null, so the caller says that it can be called so.
            let said = unsafe { body(lane, context) };
            let ended = match said {
                0 => sessions::commit(lane.id),
                _ => sessions::abort(lane.id).and(Err(of_body(said))),
            };
            match ended {
                Err(Failure { kind: Kind::Conflict, .. }) => {}
                ended => return ended,
            }
        }
    })
}

/// The failure that a body returned.
fn of_body(said: c_int) -> Failure {
    match row_of_number::<outlast_code>(said) {
        Some(row) => Failure::new(row.0, format!("the body ended the transaction with {said}")),
        None => Failure::bad(format!("the body returned {said}, which is no code")),
    }
}
