//! `DUMP` and `RESTORE`: values in the form that Redis gives them.

use crate::commands::{Ctx, Done, Fail, SYNTAX, is};
use crate::number::parse_int;
use crate::rdb;

pub(super) fn dump(ctx: &mut Ctx<'_>) -> Done {
    match ctx.keys.look_up(ctx.args.at(1))? {
        Some(found) => {
            let value = rdb::load(&mut ctx.keys, found)?;
            ctx.out.bulk(&rdb::to_payload(&value));
        }
        None => ctx.out.null(),
    }
    Ok(())
}

pub(super) fn restore(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let (mut replaces, mut is_absolute) = (false, false);
    let (mut idle, mut frequency, mut index) = (None, None, 4);
    while let Some(word) = args.get(index) {
        let has_value = index + 1 < args.len();
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "ABSTTL") {
            is_absolute = true;
        } else if is(word, "IDLETIME") && has_value && frequency.is_none() {
            // Neither is kept, but what is no number is refused.
            let given = ctx.int_arg(index + 1)?;
            idle = Some(given);
            if given < 0 {
                return Err("ERR Invalid IDLETIME value, must be >= 0".into());
            }
            index += 1;
        } else if is(word, "FREQ") && has_value && idle.is_none() {
            let given = ctx.int_arg(index + 1)?;
            frequency = Some(given);
            if !(0..=255).contains(&given) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = args.at(1);
    let found = ctx.keys.find(key)?;
    if found.is_some() && !replaces {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = parse_int(args.at(2)).ok_or(crate::commands::NOT_AN_INTEGER)?;
    let ttl = u64::try_from(ttl).map_err(|_| Fail::from("ERR Invalid TTL value, must be >= 0"))?;
    let value = rdb::from_payload(args.at(3))
        .ok_or("ERR DUMP payload version or checksum are wrong")?
        .map_err(|_| Fail::from("ERR Bad data format"))?;
    if let Some(found) = found {
        ctx.keys.remove(key, found)?;
    }
    let now = ctx.keys.now;
    let deadline = match ttl {
        0 => None,
        ttl if is_absolute => Some(ttl),
        ttl => Some(ttl.saturating_add(now).min(i64::MAX as u64)),
    };
    if deadline.is_some_and(|deadline| deadline <= now) {
        ctx.out.ok();
        return Ok(());
    }
    rdb::store(&mut ctx.keys, key, &value)?;
    if let Some(deadline) = deadline
        && let Some(found) = ctx.keys.find(key)?
    {
        ctx.keys.set_deadline(key, found, Some(deadline))?;
    }
    ctx.out.ok();
    Ok(())
}
