//! Unions, intersections and differences of sorted sets.

use std::collections::HashMap;

use crate::commands::sets::card_args;
use crate::commands::zsets::{answer_scored, load};
use crate::commands::{Answer, Ctx, Done, SYNTAX, WRONG_TYPE, is};
use crate::number::{parse_double, sortable};
use crate::store::dict::{Dict, Shape};
use crate::store::zset::Zset;

type Scores = HashMap<Vec<u8>, f64>;
/// Members in the order of their scores.
type Scored = Vec<(Vec<u8>, f64)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinities of both signs make nothing.
            Self::Sum => Some(a + b).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// Members and scores of a sorted set, or of a set, where each has 1.
fn source(ctx: &mut Ctx<'_>, key: &[u8]) -> Answer<Scores> {
    let Some(found) = ctx.keys.look_up(key)? else { return Ok(Scores::default()) };
    match found.kind().type_name() {
        "zset" => {
            let zset = load(ctx, Some(found))?;
            Ok(zset.slice(&mut ctx.keys, 0, u64::MAX)?.into_iter().collect())
        }
        "set" => {
            let dict = Dict::load(&mut ctx.keys, Shape::Set, Some(found))?;
            let all = dict.all(&mut ctx.keys)?;
            Ok(all.into_iter().map(|(member, _)| (member, 1.0)).collect())
        }
        _ => Err(WRONG_TYPE.into()),
    }
}

/// The number of keys at a place of the command, the first option behind them.
fn key_count(ctx: &Ctx<'_>, at: usize, name: &str) -> Answer<usize> {
    let count = crate::commands::int(ctx.args.at(at))?;
    if count < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let count = count as usize;
    if count > ctx.args.len() - at - 1 {
        return Err(SYNTAX.into());
    }
    Ok(count)
}

/// Keys of other types are refused before the options behind them.
fn check_sources(ctx: &mut Ctx<'_>, first: usize, count: usize) -> Done {
    for index in first..first + count {
        let found = ctx.keys.find(ctx.args.at(index))?;
        if found.is_some_and(|found| !matches!(found.kind().type_name(), "zset" | "set")) {
            return Err(WRONG_TYPE.into());
        }
    }
    Ok(())
}

/// The members in their order, and whether their scores are wanted.
fn combined(ctx: &mut Ctx<'_>, at: usize, how: Combine, is_store: bool) -> Answer<(Scored, bool)> {
    let name = String::from_utf8_lossy(ctx.args.at(0)).to_lowercase();
    let count = key_count(ctx, at, &name)?;
    let first = at + 1;
    check_sources(ctx, first, count)?;
    let mut weights = vec![1.0; count];
    let (mut aggregate, mut with_scores) = (Aggregate::Sum, false);
    let mut index = first + count;
    while let Some(word) = ctx.args.get(index) {
        if is(word, "WEIGHTS") && how != Combine::Diff && index + count < ctx.args.len() {
            for (number, weight) in weights.iter_mut().enumerate() {
                let value = parse_double(ctx.args.at(index + 1 + number));
                *weight = value.ok_or("ERR weight value is not a float")?;
            }
            index += count;
        } else if is(word, "AGGREGATE") && how != Combine::Diff && index + 1 < ctx.args.len() {
            index += 1;
            let word = ctx.args.at(index);
            aggregate = match () {
                () if is(word, "SUM") => Aggregate::Sum,
                () if is(word, "MIN") => Aggregate::Min,
                () if is(word, "MAX") => Aggregate::Max,
                () => return Err(SYNTAX.into()),
            };
        } else if is(word, "WITHSCORES") && !is_store {
            with_scores = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let mut result = Scores::default();
    for (number, weight) in weights.into_iter().enumerate() {
        let mut scores = source(ctx, ctx.args.at(first + number))?;
        for score in scores.values_mut() {
            *score = Some(*score * weight).filter(|score| !score.is_nan()).unwrap_or(0.0);
        }
        if number == 0 {
            result = scores;
            continue;
        }
        match how {
            Combine::Union => {
                for (member, score) in scores {
                    let to = result.entry(member);
                    to.and_modify(|old| *old = aggregate.of(*old, score)).or_insert(score);
                }
            }
            Combine::Inter => result.retain(|member, old| match scores.get(member) {
                Some(score) => {
                    *old = aggregate.of(*old, *score);
                    true
                }
                None => false,
            }),
            Combine::Diff => result.retain(|member, _| !scores.contains_key(member)),
        }
    }
    let mut members: Vec<(Vec<u8>, f64)> = result.into_iter().collect();
    members.sort_by(|a, b| sortable(a.1).cmp(&sortable(b.1)).then_with(|| a.0.cmp(&b.0)));
    Ok((members, with_scores))
}

/// Makes members the sorted set of the command's first key.
pub(super) fn store(ctx: &mut Ctx<'_>, members: &[(Vec<u8>, f64)]) -> Done {
    let key = ctx.args.at(1);
    if let Some(found) = ctx.keys.find(key)? {
        ctx.keys.remove(key, found)?;
    }
    let mut zset = Zset::load(&mut ctx.keys, None)?;
    for (member, score) in members {
        zset.set(&mut ctx.keys, member, *score)?;
    }
    Ok(zset.save(&mut ctx.keys, key)?)
}

fn answer(ctx: &mut Ctx<'_>, how: Combine) -> Done {
    let (members, with_scores) = combined(ctx, 1, how, false)?;
    let in_pairs = ctx.out.is_resp3;
    answer_scored(ctx, &members, with_scores, in_pairs);
    Ok(())
}

fn combine_to(ctx: &mut Ctx<'_>, how: Combine) -> Done {
    let (members, _) = combined(ctx, 2, how, true)?;
    store(ctx, &members)?;
    ctx.out.len(members.len());
    Ok(())
}

pub(in crate::commands) fn zunion(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Combine::Union)
}

pub(in crate::commands) fn zinter(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Combine::Inter)
}

pub(in crate::commands) fn zdiff(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Combine::Diff)
}

pub(in crate::commands) fn zunionstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Union)
}

pub(in crate::commands) fn zinterstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Inter)
}

pub(in crate::commands) fn zdiffstore(ctx: &mut Ctx<'_>) -> Done {
    combine_to(ctx, Combine::Diff)
}

pub(in crate::commands) fn zintercard(ctx: &mut Ctx<'_>) -> Done {
    let count = key_count(ctx, 1, "zintercard")?;
    check_sources(ctx, 2, count)?;
    let (end, limit) = card_args(ctx)?;
    let mut result: Option<Scores> = None;
    for index in 2..end {
        let scores = source(ctx, ctx.args.at(index))?;
        match &mut result {
            Some(result) => result.retain(|member, _| scores.contains_key(member)),
            None => result = Some(scores),
        }
    }
    let len = result.map_or(0, |result| result.len() as u64);
    ctx.out.int(limit.map_or(len, |limit| len.min(limit)) as i64);
    Ok(())
}
