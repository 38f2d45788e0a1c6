//! Sorted sets.

mod combine;
mod ranges;

pub(super) use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(super) use ranges::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex,
    zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

use std::collections::HashMap;

use crate::commands::hashes::draws_arg;
use crate::commands::lists::{Side, multi_pop};
use crate::commands::{Answer, Ctx, Done, SYNTAX, WRONG_TYPE, double, is};
use crate::store::Found;
use crate::store::seq::End;
use crate::store::zset::{Zset, item};

fn load(ctx: &mut Ctx<'_>, found: Option<Found>) -> Answer<Zset> {
    Ok(Zset::load(&mut ctx.keys, found)?)
}

fn to_write(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Zset> {
    let found = ctx.typed(key, "zset")?;
    load(ctx, found)
}

fn to_read(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Option<Zset>> {
    match ctx.read(key, "zset")? {
        Some(found) => Ok(Some(load(ctx, Some(found))?)),
        None => Ok(None),
    }
}

const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

#[derive(Default)]
struct Add {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    changed: bool,
    incr: bool,
}

pub(super) fn zadd(ctx: &mut Ctx<'_>) -> Done {
    let mut how = Add::default();
    let mut first = 2;
    while let Some(word) = ctx.args.get(first) {
        match () {
            () if is(word, "NX") => how.nx = true,
            () if is(word, "XX") => how.xx = true,
            () if is(word, "GT") => how.gt = true,
            () if is(word, "LT") => how.lt = true,
            () if is(word, "CH") => how.changed = true,
            () if is(word, "INCR") => how.incr = true,
            () => break,
        }
        first += 1;
    }
    let words = ctx.args.len() - first;
    if words == 0 || words % 2 == 1 {
        return Err(SYNTAX.into());
    }
    if how.nx && how.xx {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if how.gt && (how.nx || how.lt) || how.lt && how.nx {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if how.incr && words > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    add(ctx, first, &how)
}

fn add(ctx: &mut Ctx<'_>, first: usize, how: &Add) -> Done {
    let scores: Answer<Vec<f64>> =
        (first..ctx.args.len()).step_by(2).map(|index| double(ctx.args.at(index))).collect();
    let scores = scores?;
    let key = ctx.args.at(1);
    let mut zset = to_write(ctx, key)?;
    let (mut new, mut changed, mut last) = (0, 0, None);
    for (number, score) in scores.into_iter().enumerate() {
        let member = ctx.args.at(first + number * 2 + 1);
        let member = zset.member(&mut ctx.keys, member)?;
        let old = member.score;
        let score = match old {
            Some(old) if how.incr => old + score,
            _ => score,
        };
        if score.is_nan() {
            return Err(NOT_A_NUMBER.into());
        }
        let is_refused = match old {
            None => how.xx,
            Some(old) => how.nx || how.gt && score <= old || how.lt && score >= old,
        };
        if is_refused {
            last = None;
            continue;
        }
        new += i64::from(old.is_none());
        changed += i64::from(old.is_some_and(|old| old != score));
        zset.put(&mut ctx.keys, member, score)?;
        last = Some(score);
    }
    zset.save(&mut ctx.keys, key)?;
    match (how.incr, last) {
        (true, Some(score)) => ctx.out.double(score),
        (true, None) => ctx.out.null(),
        (false, _) => ctx.out.int(if how.changed { new + changed } else { new }),
    }
    Ok(())
}

pub(super) fn zincrby(ctx: &mut Ctx<'_>) -> Done {
    add(ctx, 2, &Add { incr: true, ..Add::default() })
}

pub(super) fn zrem(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let mut zset = to_write(ctx, key)?;
    let mut gone = 0;
    for member in ctx.args.from(2).iter() {
        gone += i64::from(zset.remove(&mut ctx.keys, member)?);
    }
    zset.save(&mut ctx.keys, key)?;
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn zcard(ctx: &mut Ctx<'_>) -> Done {
    let len = match to_read(ctx, ctx.args.at(1))? {
        Some(zset) => zset.len(&mut ctx.keys)?,
        None => 0,
    };
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn zscore(ctx: &mut Ctx<'_>) -> Done {
    let score = match to_read(ctx, ctx.args.at(1))? {
        Some(zset) => zset.score(&mut ctx.keys, ctx.args.at(2))?,
        None => None,
    };
    match score {
        Some(score) => ctx.out.double(score),
        None => ctx.out.null(),
    }
    Ok(())
}

pub(super) fn zmscore(ctx: &mut Ctx<'_>) -> Done {
    let zset = to_read(ctx, ctx.args.at(1))?;
    ctx.out.array(ctx.args.len() - 2);
    for member in ctx.args.from(2).iter() {
        let score = match &zset {
            Some(zset) => zset.score(&mut ctx.keys, member)?,
            None => None,
        };
        match score {
            Some(score) => ctx.out.double(score),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

fn rank(ctx: &mut Ctx<'_>, from_end: bool) -> Done {
    let member = ctx.args.at(2);
    let mut rank = None;
    if let Some(zset) = to_read(ctx, ctx.args.at(1))?
        && let Some(score) = zset.score(&mut ctx.keys, member)?
    {
        let index = zset.rank(&mut ctx.keys, &item(score, member), false)?;
        let len = zset.len(&mut ctx.keys)?;
        rank = Some(if from_end { len - 1 - index } else { index });
    }
    match rank {
        Some(rank) => ctx.out.int(rank as i64),
        None => ctx.out.null(),
    }
    Ok(())
}

pub(super) fn zrank(ctx: &mut Ctx<'_>) -> Done {
    rank(ctx, false)
}

pub(super) fn zrevrank(ctx: &mut Ctx<'_>) -> Done {
    rank(ctx, true)
}

/// Takes up to `count` members from an end.
fn take(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    found: Found,
    side: Side,
    count: u64,
) -> Answer<Vec<(Vec<u8>, f64)>> {
    let mut zset = load(ctx, Some(found))?;
    let end = if side == Side::Left { End::First } else { End::Last };
    let mut taken = Vec::new();
    while (taken.len() as u64) < count
        && let Some(popped) = zset.pop(&mut ctx.keys, end)?
    {
        taken.push(popped);
    }
    zset.save(&mut ctx.keys, key)?;
    Ok(taken)
}

fn pop(ctx: &mut Ctx<'_>, side: Side) -> Done {
    if ctx.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let key = ctx.args.at(1);
    let count = match ctx.args.len() > 2 {
        true => Some(ctx.count_arg(2, "ERR value is out of range, must be positive")?),
        false => None,
    };
    let taken = match ctx.typed(key, "zset")? {
        Some(found) => take(ctx, key, found, side, count.unwrap_or(1) as u64)?,
        None => Vec::new(),
    };
    let in_pairs = count.is_some() && ctx.out.is_resp3;
    answer_scored(ctx, &taken, true, in_pairs);
    Ok(())
}

/// Answers with members, with their scores or without.
fn answer_scored(ctx: &mut Ctx<'_>, members: &[(Vec<u8>, f64)], with_scores: bool, in_pairs: bool) {
    let in_pairs = in_pairs && with_scores;
    let flat = if with_scores && !in_pairs { 2 } else { 1 };
    ctx.out.array(members.len() * flat);
    for (member, score) in members {
        if in_pairs {
            ctx.out.array(2);
        }
        ctx.out.bulk(member);
        if with_scores {
            ctx.out.double(*score);
        }
    }
}

pub(super) fn zpopmin(ctx: &mut Ctx<'_>) -> Done {
    pop(ctx, Side::Left)
}

pub(super) fn zpopmax(ctx: &mut Ctx<'_>) -> Done {
    pop(ctx, Side::Right)
}

/// The end of a sorted set that a word means.
pub(crate) fn side(word: &[u8]) -> Answer<Side> {
    match () {
        () if is(word, "MIN") => Ok(Side::Left),
        () if is(word, "MAX") => Ok(Side::Right),
        () => Err(SYNTAX.into()),
    }
}

pub(super) fn zmpop(ctx: &mut Ctx<'_>) -> Done {
    multi_pop(ctx, side, pop_for)
}

/// Pops from a sorted set and answers with its key and what was popped. `false` without such a set.
pub(crate) fn pop_for(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    side: Side,
    count: Option<u64>,
) -> Answer<bool> {
    let found = match ctx.keys.find(key)? {
        Some(found) if found.kind().type_name() != "zset" => return Err(WRONG_TYPE.into()),
        Some(found) => found,
        None => return Ok(false),
    };
    let taken = take(ctx, key, found, side, count.unwrap_or(1))?;
    ctx.out.array(if count.is_some() { 2 } else { 3 });
    ctx.out.bulk(key);
    if count.is_some() {
        answer_scored(ctx, &taken, true, true);
    } else {
        for (member, score) in taken {
            ctx.out.bulk(&member);
            ctx.out.double(score);
        }
    }
    Ok(true)
}

pub(super) fn zrandmember(ctx: &mut Ctx<'_>) -> Done {
    let with_scores = match ctx.args.get(3) {
        None => false,
        Some(word) if ctx.args.len() == 4 && is(word, "WITHSCORES") => true,
        Some(_) => return Err(SYNTAX.into()),
    };
    let count = if ctx.args.len() > 2 { Some(draws_arg(ctx, 2)?) } else { None };
    let zset = to_read(ctx, ctx.args.at(1))?;
    let len = match &zset {
        Some(zset) => zset.len(&mut ctx.keys)?,
        None => 0,
    };
    let mut indexes = HashMap::new();
    let wanted = count.unwrap_or(-1);
    let mut drawn = Vec::new();
    if let Some(zset) = zset {
        if wanted < 0 {
            for _ in 0..wanted.unsigned_abs() {
                let index = ctx.keys.random.below(len);
                drawn.extend(zset.slice(&mut ctx.keys, index, index + 1)?);
            }
        } else if wanted as u64 * 3 >= len {
            drawn = zset.slice(&mut ctx.keys, 0, u64::MAX)?;
            for index in 0..(wanted as usize).min(drawn.len()) {
                let other = index + ctx.keys.random.below((drawn.len() - index) as u64) as usize;
                drawn.swap(index, other);
            }
            drawn.truncate(wanted as usize);
        } else {
            while indexes.len() < wanted as usize {
                indexes.insert(ctx.keys.random.below(len), ());
            }
            for index in indexes.into_keys() {
                drawn.extend(zset.slice(&mut ctx.keys, index, index + 1)?);
            }
        }
    }
    match count {
        None => ctx.out.bulk_or_null(drawn.first().map(|(member, _)| member.as_slice())),
        Some(_) => {
            let in_pairs = ctx.out.is_resp3;
            answer_scored(ctx, &drawn, with_scores, in_pairs);
        }
    }
    Ok(())
}
