//! Deadlines.

use crate::commands::{Answer, Ctx, Done, Fail, int, is};

/// How a time is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Millis,
    SecondsAt,
    MillisAt,
}

impl Unit {
    /// That of an option.
    pub fn of(word: &[u8]) -> Option<Self> {
        let units = [
            ("EX", Self::Seconds),
            ("PX", Self::Millis),
            ("EXAT", Self::SecondsAt),
            ("PXAT", Self::MillisAt),
        ];
        units.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
    }

    /// Milliseconds since 1970, if they fit.
    fn deadline(self, value: i64, now: u64) -> Option<i64> {
        let millis = match self {
            Self::Seconds | Self::SecondsAt => value.checked_mul(1000)?,
            Self::Millis | Self::MillisAt => value,
        };
        match self {
            Self::Seconds | Self::Millis => millis.checked_add(now as i64),
            Self::SecondsAt | Self::MillisAt => Some(millis),
        }
    }
}

fn invalid(name: &str) -> Fail {
    format!("ERR invalid expire time in '{name}' command").into()
}

/// The deadline that a word gives, which lies after 1970.
pub(super) fn deadline_arg(ctx: &Ctx<'_>, index: usize, unit: Unit, name: &str) -> Answer<u64> {
    let value = ctx.int_arg(index)?;
    let deadline = unit.deadline(value, ctx.keys.now).filter(|_| value > 0);
    deadline.and_then(|at| u64::try_from(at).ok()).ok_or_else(|| invalid(name))
}

fn expire_as(ctx: &mut Ctx<'_>, unit: Unit, name: &str) -> Done {
    let value = int(ctx.args.at(2))?;
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for word in ctx.args.from(3).iter() {
        match () {
            () if is(word, "NX") => nx = true,
            () if is(word, "XX") => xx = true,
            () if is(word, "GT") => gt = true,
            () if is(word, "LT") => lt = true,
            () => {
                let word = String::from_utf8_lossy(word);
                return Err(format!("ERR Unsupported option {word}").into());
            }
        }
    }
    if nx && (xx || gt || lt) {
        let what = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(what.into());
    }
    if gt && lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    let deadline = unit.deadline(value, ctx.keys.now).ok_or_else(|| invalid(name))?;
    let key = ctx.args.at(1);
    let Some(found) = ctx.keys.find(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let old = found.entry().deadline(ctx.keys.mem)?.map(|old| old as i64);
    let is_refused = (nx && old.is_some() || xx && old.is_none())
        || gt && old.is_none_or(|old| deadline <= old)
        || lt && old.is_some_and(|old| deadline >= old);
    if is_refused {
        ctx.out.int(0);
        return Ok(());
    }
    match u64::try_from(deadline) {
        Ok(deadline) if deadline > ctx.keys.now => {
            ctx.keys.set_deadline(key, found, Some(deadline))?;
        }
        _ => ctx.keys.remove(key, found)?,
    }
    ctx.out.int(1);
    Ok(())
}

pub(super) fn expire(ctx: &mut Ctx<'_>) -> Done {
    expire_as(ctx, Unit::Seconds, "expire")
}

pub(super) fn pexpire(ctx: &mut Ctx<'_>) -> Done {
    expire_as(ctx, Unit::Millis, "pexpire")
}

pub(super) fn expireat(ctx: &mut Ctx<'_>) -> Done {
    expire_as(ctx, Unit::SecondsAt, "expireat")
}

pub(super) fn pexpireat(ctx: &mut Ctx<'_>) -> Done {
    expire_as(ctx, Unit::MillisAt, "pexpireat")
}

/// Answers −2 without the key, −1 without a deadline, else what `of` makes of deadline and now.
fn time_left(ctx: &mut Ctx<'_>, of: impl Fn(u64, u64) -> i64) -> Done {
    let answer = match ctx.keys.look_up(ctx.args.at(1))? {
        None => -2,
        Some(found) => match found.entry().deadline(ctx.keys.mem)? {
            None => -1,
            Some(deadline) => of(deadline, ctx.keys.now),
        },
    };
    ctx.out.int(answer);
    Ok(())
}

pub(super) fn ttl(ctx: &mut Ctx<'_>) -> Done {
    time_left(ctx, |deadline, now| (deadline.saturating_sub(now).saturating_add(500) / 1000) as i64)
}

pub(super) fn pttl(ctx: &mut Ctx<'_>) -> Done {
    time_left(ctx, |deadline, now| deadline.saturating_sub(now) as i64)
}

pub(super) fn expiretime(ctx: &mut Ctx<'_>) -> Done {
    time_left(ctx, |deadline, _| (deadline.saturating_add(500) / 1000) as i64)
}

pub(super) fn pexpiretime(ctx: &mut Ctx<'_>) -> Done {
    time_left(ctx, |deadline, _| deadline as i64)
}

pub(super) fn persist(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let found = ctx.keys.find(key)?.filter(|found| found.entry().has_deadline);
    if let Some(found) = found {
        ctx.keys.set_deadline(key, found, None)?;
    }
    ctx.out.int(found.is_some().into());
    Ok(())
}
