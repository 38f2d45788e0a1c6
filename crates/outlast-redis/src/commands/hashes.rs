//! Hashes.

use crate::commands::strings::add_floats;
use crate::commands::{Answer, Ctx, Done, SYNTAX, int, is};
use crate::resp::push_decimal;
use crate::store::dict::{Dict, Shape};

fn to_write(ctx: &mut Ctx<'_>) -> Answer<Dict> {
    let found = ctx.typed(ctx.args.at(1), "hash")?;
    Ok(Dict::load(&mut ctx.keys, Shape::Hash, found)?)
}

fn to_read(ctx: &mut Ctx<'_>) -> Answer<Option<Dict>> {
    match ctx.read(ctx.args.at(1), "hash")? {
        Some(found) => Ok(Some(Dict::load(&mut ctx.keys, Shape::Hash, Some(found))?)),
        None => Ok(None),
    }
}

fn set_fields(ctx: &mut Ctx<'_>, name: &str) -> Answer<i64> {
    if ctx.args.len() % 2 == 1 {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let mut dict = to_write(ctx)?;
    let mut new = 0;
    for index in (2..ctx.args.len()).step_by(2) {
        let (field, value) = (ctx.args.at(index), ctx.args.at(index + 1));
        new += i64::from(dict.set(&mut ctx.keys, field, value)?);
    }
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    Ok(new)
}

pub(super) fn hset(ctx: &mut Ctx<'_>) -> Done {
    let new = set_fields(ctx, "hset")?;
    ctx.out.int(new);
    Ok(())
}

pub(super) fn hmset(ctx: &mut Ctx<'_>) -> Done {
    set_fields(ctx, "hmset")?;
    ctx.out.ok();
    Ok(())
}

pub(super) fn hsetnx(ctx: &mut Ctx<'_>) -> Done {
    let mut dict = to_write(ctx)?;
    let is_new = dict.get(&mut ctx.keys, ctx.args.at(2))?.is_none();
    if is_new {
        dict.set(&mut ctx.keys, ctx.args.at(2), ctx.args.at(3))?;
        dict.save(&mut ctx.keys, ctx.args.at(1))?;
    }
    ctx.out.int(is_new.into());
    Ok(())
}

pub(super) fn hget(ctx: &mut Ctx<'_>) -> Done {
    let value = match to_read(ctx)? {
        Some(dict) => dict.get(&mut ctx.keys, ctx.args.at(2))?,
        None => None,
    };
    ctx.out.bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) fn hmget(ctx: &mut Ctx<'_>) -> Done {
    let dict = to_read(ctx)?;
    ctx.out.array(ctx.args.len() - 2);
    for field in ctx.args.from(2).iter() {
        let value = match &dict {
            Some(dict) => dict.get(&mut ctx.keys, field)?,
            None => None,
        };
        ctx.out.bulk_or_null(value.as_deref());
    }
    Ok(())
}

fn all(ctx: &mut Ctx<'_>) -> Answer<Vec<(Vec<u8>, Vec<u8>)>> {
    match to_read(ctx)? {
        Some(dict) => Ok(dict.all(&mut ctx.keys)?),
        None => Ok(Vec::new()),
    }
}

pub(super) fn hgetall(ctx: &mut Ctx<'_>) -> Done {
    let all = all(ctx)?;
    ctx.out.map(all.len());
    for (field, value) in all {
        ctx.out.bulk(&field);
        ctx.out.bulk(&value);
    }
    Ok(())
}

pub(super) fn hkeys(ctx: &mut Ctx<'_>) -> Done {
    let all = all(ctx)?;
    ctx.out.array(all.len());
    all.iter().for_each(|(field, _)| ctx.out.bulk(field));
    Ok(())
}

pub(super) fn hvals(ctx: &mut Ctx<'_>) -> Done {
    let all = all(ctx)?;
    ctx.out.array(all.len());
    all.iter().for_each(|(_, value)| ctx.out.bulk(value));
    Ok(())
}

pub(super) fn hlen(ctx: &mut Ctx<'_>) -> Done {
    let len = match to_read(ctx)? {
        Some(dict) => dict.len(&mut ctx.keys)?,
        None => 0,
    };
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn hstrlen(ctx: &mut Ctx<'_>) -> Done {
    let value = match to_read(ctx)? {
        Some(dict) => dict.get(&mut ctx.keys, ctx.args.at(2))?,
        None => None,
    };
    ctx.out.len(value.map_or(0, |value| value.len()));
    Ok(())
}

pub(super) fn hexists(ctx: &mut Ctx<'_>) -> Done {
    let is_there = match to_read(ctx)? {
        Some(dict) => dict.get(&mut ctx.keys, ctx.args.at(2))?.is_some(),
        None => false,
    };
    ctx.out.int(is_there.into());
    Ok(())
}

pub(super) fn hdel(ctx: &mut Ctx<'_>) -> Done {
    let mut dict = to_write(ctx)?;
    let mut gone = 0;
    for field in ctx.args.from(2).iter() {
        gone += i64::from(dict.remove(&mut ctx.keys, field)?);
    }
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn hincrby(ctx: &mut Ctx<'_>) -> Done {
    let difference = ctx.int_arg(3)?;
    let mut dict = to_write(ctx)?;
    let old = match dict.get(&mut ctx.keys, ctx.args.at(2))? {
        Some(value) => int(&value).map_err(|_| "ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = old.checked_add(difference).ok_or("ERR increment or decrement would overflow")?;
    let mut text = Vec::new();
    push_decimal(&mut text, sum);
    dict.set(&mut ctx.keys, ctx.args.at(2), &text)?;
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    ctx.out.int(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_>) -> Done {
    if crate::commands::double(ctx.args.at(3))?.is_infinite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let mut dict = to_write(ctx)?;
    let old = dict.get(&mut ctx.keys, ctx.args.at(2))?.unwrap_or_else(|| b"0".to_vec());
    let sum = add_floats(&old, ctx.args.at(3), "ERR hash value is not a float")?;
    dict.set(&mut ctx.keys, ctx.args.at(2), sum.as_bytes())?;
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    ctx.out.bulk(sum.as_bytes());
    Ok(())
}

/// The largest count of draws with repetition.
pub(super) const DRAWS_MAX: i64 = i64::MAX / 2;

/// Draws with repetition that one answer may have: nothing larger is put together on a client's word.
const ANSWER_DRAWS_MAX: i64 = 1 << 24;

/// A count of draws.
pub(super) fn draws_arg(ctx: &Ctx<'_>, index: usize) -> Answer<i64> {
    let count = ctx.int_arg(index)?;
    match (-DRAWS_MAX..=DRAWS_MAX).contains(&count) && count >= -ANSWER_DRAWS_MAX {
        true => Ok(count),
        false => Err("ERR value is out of range".into()),
    }
}

pub(super) fn hrandfield(ctx: &mut Ctx<'_>) -> Done {
    let with_values = match ctx.args.get(3) {
        None => false,
        Some(word) if ctx.args.len() == 4 && is(word, "WITHVALUES") => true,
        Some(_) => return Err(SYNTAX.into()),
    };
    let count = if ctx.args.len() > 2 { Some(draws_arg(ctx, 2)?) } else { None };
    let dict = to_read(ctx)?;
    let Some(count) = count else {
        let drawn = match dict {
            Some(dict) => dict.random(&mut ctx.keys)?,
            None => None,
        };
        ctx.out.bulk_or_null(drawn.as_ref().map(|(field, _)| field.as_slice()));
        return Ok(());
    };
    let drawn = match dict {
        Some(dict) => dict.draw(&mut ctx.keys, count)?,
        None => Vec::new(),
    };
    let in_pairs = with_values && ctx.out.is_resp3;
    ctx.out.array(if with_values && !in_pairs { drawn.len() * 2 } else { drawn.len() });
    for (field, value) in drawn {
        if in_pairs {
            ctx.out.array(2);
        }
        ctx.out.bulk(&field);
        if with_values {
            ctx.out.bulk(&value);
        }
    }
    Ok(())
}
