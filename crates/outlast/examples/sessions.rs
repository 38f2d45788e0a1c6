//! A store of sessions: who is logged in, and until when. Its errors are its own: a refusal undoes the transaction
//! and comes back as it is, and a conflict between threads runs again by itself.

use outlast::typed::{PHashMap, Persist, TypedTx};
use outlast::{Abort, Pool, PoolError, Transact};

/// Seconds without a request after which a session ends.
const IDLE: u64 = 1800;

/// A session's secret name.
pub type Token = [u8; 16];

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Session {
    user: u64,
    expires_at: u64,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No session has this token.
    #[error("no such session: log in")]
    Unknown,
    /// It was idle for too long.
    #[error("the session has ended: log in again")]
    Expired,
    /// The pool's error.
    #[error(transparent)]
    Pool(#[from] Abort),
}

type Sessions<'id> = PHashMap<'id, Token, Session>;

fn sessions<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Sessions<'id>, Abort> {
    tx.root_or_new()?.get(tx)
}

/// Begins a session.
pub fn log_in(pool: &Pool, token: &Token, user: u64, now: u64) -> Result<(), Abort> {
    let session = Session { user, expires_at: now + IDLE };
    pool.run_typed(|tx| sessions(tx)?.put(tx, token, session))
}

/// The user of a request, whose session goes on from now.
pub fn user_of(pool: &Pool, token: &Token, now: u64) -> Result<u64, SessionError> {
    pool.try_run_typed(|tx| {
        let place = sessions(tx)?.value(tx, token)?.ok_or(SessionError::Unknown)?;
        let Session { user, expires_at } = place.get(tx)?;
        if expires_at <= now {
            return Err(SessionError::Expired);
        }
        place.at(Session::FIELDS.expires_at).set(tx, now + IDLE)?;
        Ok(user)
    })
}

fn main() -> Result<(), PoolError> {
    let pool = Pool::open_or_create("sessions.pool")?;
    log_in(&pool, b"sixteen letters!", 7, 1000)?;
    println!("{:?}", user_of(&pool, b"sixteen letters!", 1100));
    println!("{:?}", user_of(&pool, b"sixteen letters!", 9000));
    Ok(())
}
