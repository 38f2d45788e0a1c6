//! Clients that wait for entries of streams.

use super::client::{Blocked, Wish};
use crate::commands::streams::{has_block, try_read};
use crate::commands::{Command, Ctx, Fail};
use crate::resp::Args;

/// Whether a command of data asks to wait.
pub(super) fn waits(command: &Command, args: Args<'_>) -> bool {
    matches!(command.name, "xread" | "xreadgroup") && has_block(args)
}

/// Reads streams. Returns what the client has to wait for.
pub(super) fn try_now(ctx: &mut Ctx<'_>, now: u64) -> Result<Option<Blocked>, Fail> {
    let Some(wish) = try_read(ctx)? else { return Ok(None) };
    let deadline = match wish.timeout() {
        None | Some(0) => None,
        Some(ms) => Some(
            now.checked_add(ms)
                .filter(|deadline| i64::try_from(*deadline).is_ok())
                .ok_or("ERR timeout is out of range")?,
        ),
    };
    let (database, keys) = (ctx.keys.database, wish.keys());
    Ok(Some(Blocked { database, keys, wish: Wish::Streams(wish), deadline }))
}
