//! Sets.

use std::collections::HashSet;

use crate::commands::hashes::draws_arg;
use crate::commands::{Answer, Ctx, Done, SYNTAX, is};
use crate::store::dict::{Dict, Shape};

type Members = HashSet<Vec<u8>>;

fn to_write(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Dict> {
    let found = ctx.typed(key, "set")?;
    Ok(Dict::load(&mut ctx.keys, Shape::Set, found)?)
}

fn to_read(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Option<Dict>> {
    match ctx.read(key, "set")? {
        Some(found) => Ok(Some(Dict::load(&mut ctx.keys, Shape::Set, Some(found))?)),
        None => Ok(None),
    }
}

pub(super) fn sadd(ctx: &mut Ctx<'_>) -> Done {
    let mut dict = to_write(ctx, ctx.args.at(1))?;
    let mut new = 0;
    for member in ctx.args.from(2).iter() {
        if dict.get(&mut ctx.keys, member)?.is_none() {
            dict.set(&mut ctx.keys, member, b"")?;
            new += 1;
        }
    }
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    ctx.out.int(new);
    Ok(())
}

pub(super) fn srem(ctx: &mut Ctx<'_>) -> Done {
    let mut dict = to_write(ctx, ctx.args.at(1))?;
    let mut gone = 0;
    for member in ctx.args.from(2).iter() {
        gone += i64::from(dict.remove(&mut ctx.keys, member)?);
    }
    dict.save(&mut ctx.keys, ctx.args.at(1))?;
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn smove(ctx: &mut Ctx<'_>) -> Done {
    let (from, to, member) = (ctx.args.at(1), ctx.args.at(2), ctx.args.at(3));
    if ctx.keys.find(from)?.is_none() {
        ctx.out.int(0);
        return Ok(());
    }
    let mut source = to_write(ctx, from)?;
    ctx.typed(to, "set")?;
    let is_there = source.get(&mut ctx.keys, member)?.is_some();
    if is_there && from != to {
        source.remove(&mut ctx.keys, member)?;
        source.save(&mut ctx.keys, from)?;
        let mut target = to_write(ctx, to)?;
        if target.get(&mut ctx.keys, member)?.is_none() {
            target.set(&mut ctx.keys, member, b"")?;
        }
        target.save(&mut ctx.keys, to)?;
    }
    ctx.out.int(is_there.into());
    Ok(())
}

pub(super) fn sismember(ctx: &mut Ctx<'_>) -> Done {
    let is_there = match to_read(ctx, ctx.args.at(1))? {
        Some(dict) => dict.get(&mut ctx.keys, ctx.args.at(2))?.is_some(),
        None => false,
    };
    ctx.out.int(is_there.into());
    Ok(())
}

pub(super) fn smismember(ctx: &mut Ctx<'_>) -> Done {
    let dict = to_read(ctx, ctx.args.at(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.from(2).iter() {
        let is_there = match &dict {
            Some(dict) => dict.get(&mut ctx.keys, member)?.is_some(),
            None => false,
        };
        ctx.out.int(is_there.into());
    }
    Ok(())
}

pub(super) fn scard(ctx: &mut Ctx<'_>) -> Done {
    let len = match to_read(ctx, ctx.args.at(1))? {
        Some(dict) => dict.len(&mut ctx.keys)?,
        None => 0,
    };
    ctx.out.int(len as i64);
    Ok(())
}

fn answer_set<'a>(ctx: &mut Ctx<'_>, members: impl ExactSizeIterator<Item = &'a Vec<u8>>) {
    ctx.out.set(members.len());
    members.for_each(|member| ctx.out.bulk(member));
}

pub(super) fn smembers(ctx: &mut Ctx<'_>) -> Done {
    let all = match to_read(ctx, ctx.args.at(1))? {
        Some(dict) => dict.all(&mut ctx.keys)?,
        None => Vec::new(),
    };
    answer_set(ctx, all.iter().map(|(member, _)| member));
    Ok(())
}

pub(super) fn spop(ctx: &mut Ctx<'_>) -> Done {
    if ctx.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = match ctx.args.len() > 2 {
        true => Some(ctx.count_arg(2, "ERR value is out of range, must be positive")?),
        false => None,
    };
    let key = ctx.args.at(1);
    let mut dict = to_write(ctx, key)?;
    let Some(count) = count else {
        let drawn = dict.pop_random(&mut ctx.keys)?;
        dict.save(&mut ctx.keys, key)?;
        ctx.out.bulk_or_null(drawn.as_deref());
        return Ok(());
    };
    let drawn = dict.draw(&mut ctx.keys, count as i64)?;
    for (member, _) in &drawn {
        dict.remove(&mut ctx.keys, member)?;
    }
    dict.save(&mut ctx.keys, key)?;
    answer_set(ctx, drawn.iter().map(|(member, _)| member));
    Ok(())
}

pub(super) fn srandmember(ctx: &mut Ctx<'_>) -> Done {
    if ctx.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = if ctx.args.len() > 2 { Some(draws_arg(ctx, 2)?) } else { None };
    let dict = to_read(ctx, ctx.args.at(1))?;
    match (count, dict) {
        (None, Some(dict)) => {
            let drawn = dict.random(&mut ctx.keys)?;
            ctx.out.bulk_or_null(drawn.as_ref().map(|(member, _)| member.as_slice()));
        }
        (None, None) => ctx.out.null(),
        (Some(count), Some(dict)) => {
            let drawn = dict.draw(&mut ctx.keys, count)?;
            ctx.out.array(drawn.len());
            drawn.iter().for_each(|(member, _)| ctx.out.bulk(member));
        }
        (Some(_), None) => ctx.out.array(0),
    }
    Ok(())
}

/// How sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Inter,
    Union,
    Diff,
}

fn members(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Members> {
    match to_read(ctx, key)? {
        Some(dict) => Ok(dict.all(&mut ctx.keys)?.into_iter().map(|(member, _)| member).collect()),
        None => Ok(Members::default()),
    }
}

fn combined(ctx: &mut Ctx<'_>, first: usize, end: usize, how: Combine) -> Answer<Vec<Vec<u8>>> {
    let mut sets = Vec::new();
    for index in first..end {
        sets.push(members(ctx, ctx.args.at(index))?);
    }
    let mut sets = sets.into_iter();
    let mut result = sets.next().unwrap_or_default();
    for other in sets {
        match how {
            Combine::Inter => result.retain(|member| other.contains(member)),
            Combine::Union => result.extend(other),
            Combine::Diff => result.retain(|member| !other.contains(member)),
        }
    }
    Ok(result.into_iter().collect())
}

fn combine(ctx: &mut Ctx<'_>, how: Combine) -> Done {
    let result = combined(ctx, 1, ctx.args.len(), how)?;
    answer_set(ctx, result.iter());
    Ok(())
}

fn combine_to(ctx: &mut Ctx<'_>, how: Combine) -> Done {
    let result = combined(ctx, 2, ctx.args.len(), how)?;
    store(ctx, &result)?;
    ctx.out.len(result.len());
    Ok(())
}

/// Makes members the set of the command's first key.
fn store(ctx: &mut Ctx<'_>, members: &[Vec<u8>]) -> Done {
    let key = ctx.args.at(1);
    if let Some(found) = ctx.keys.find(key)? {
        ctx.keys.remove(key, found)?;
    }
    let mut dict = Dict::load(&mut ctx.keys, Shape::Set, None)?;
    for member in members {
        dict.set(&mut ctx.keys, member, b"")?;
    }
    Ok(dict.save(&mut ctx.keys, key)?)
}

pub(super) fn sinter(ctx: &mut Ctx<'_>) -> Done {
    combine(ctx, Combine::Inter)
}

pub(super) fn sunion(ctx: &mut Ctx<'_>) -> Done {
    combine(ctx, Combine::Union)
}

pub(super) fn sdiff(ctx: &mut Ctx<'_>) -> Done {
    combine(ctx, Combine::Diff)
}

pub(super) fn sinterstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Inter)
}

pub(super) fn sunionstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Union)
}

pub(super) fn sdiffstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Diff)
}

/// The places of keys behind their number, and the most that is to be counted.
pub(super) fn card_args(ctx: &Ctx<'_>) -> Answer<(usize, Option<u64>)> {
    let count = crate::number::parse_int(ctx.args.at(1)).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")? as usize;
    if count > ctx.args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let end = 2 + count;
    let mut limit = None;
    let mut index = end;
    while let Some(word) = ctx.args.get(index) {
        if !is(word, "LIMIT") || index + 1 >= ctx.args.len() {
            return Err(SYNTAX.into());
        }
        limit = Some(ctx.count_arg(index + 1, "ERR LIMIT can't be negative")? as u64);
        index += 2;
    }
    Ok((end, limit.filter(|limit| *limit > 0)))
}

pub(super) fn sintercard(ctx: &mut Ctx<'_>) -> Done {
    let (end, limit) = card_args(ctx)?;
    let len = combined(ctx, 2, end, Combine::Inter)?.len() as u64;
    ctx.out.int(limit.map_or(len, |limit| len.min(limit)) as i64);
    Ok(())
}
