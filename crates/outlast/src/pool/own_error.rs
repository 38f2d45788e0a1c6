//! Closures that fail with an error of the program's own.

use crate::abort::Reason;
use crate::transact::{Abort, Transact};

/// What a closure returned, for a runner that knows aborts only: an error of the program's own becomes a cancellation
/// and is kept in `own`. A conflict stays one, also where `?` has made it such an error.
pub(crate) fn keep_own<R, E>(
    tx: &impl Transact,
    returned: Result<R, E>,
    own: &mut Option<E>,
) -> Result<R, Abort> {
    returned.map_err(|error| {
        if let Some(Abort::Conflict) = tx.failure() {
            return Abort::Conflict;
        }
        *own = Some(error);
        Abort::Cancelled(Reason::default())
    })
}
