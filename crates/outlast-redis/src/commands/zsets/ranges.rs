//! Ranges of sorted sets, by index, score or member.

use crate::commands::zsets::{answer_scored, to_read, to_write};
use crate::commands::{Answer, Ctx, Done, SYNTAX, is, range};
use crate::number::{parse_loosely, sortable};
use crate::store::zset::{Zset, parts};

/// A bound: the value, and whether it is itself in the range.
type Bound<T> = (T, bool);

/// The order by which a range is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A member as a bound.
#[derive(Clone, Copy, PartialEq)]
enum Lex<'a> {
    First,
    Last,
    Member(Bound<&'a [u8]>),
}

fn score_bound(word: &[u8]) -> Answer<Bound<f64>> {
    let (word, is_in) = match word {
        [b'(', rest @ ..] => (rest, false),
        word => (word, true),
    };
    let (value, _) = parse_loosely(word).ok_or("ERR min or max is not a float")?;
    Ok((value, is_in))
}

fn lex_bound(word: &[u8]) -> Answer<Lex<'_>> {
    match word {
        b"-" => Ok(Lex::First),
        b"+" => Ok(Lex::Last),
        [b'[', member @ ..] => Ok(Lex::Member((member, true))),
        [b'(', member @ ..] => Ok(Lex::Member((member, false))),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

/// How many items lie before a score: those below it, or also those that have it.
fn before_score(ctx: &mut Ctx<'_>, zset: &Zset, score: f64, or_equal: bool) -> Answer<u64> {
    let bits = sortable(score) + u64::from(or_equal);
    Ok(zset.rank(&mut ctx.keys, &bits.to_be_bytes(), false)?)
}

fn before_member(ctx: &mut Ctx<'_>, zset: &Zset, bound: Lex<'_>, is_end: bool) -> Answer<u64> {
    let (member, is_in) = match bound {
        Lex::First => return Ok(0),
        Lex::Last => return Ok(zset.len(&mut ctx.keys)?),
        Lex::Member(bound) => bound,
    };
    // Scores are not looked at: where they differ, the order of members may mean nothing.
    let or_equal = is_in == is_end;
    let (mut low, mut high) = (0, zset.len(&mut ctx.keys)?);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut is_before = false;
        zset.scan(&mut ctx.keys, middle, middle + 1, &mut |item| {
            let (_, found) = parts(item);
            is_before = found < member || or_equal && found == member;
            true
        })?;
        if is_before { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// A range as two words say: from the lower bound to the upper one.
#[derive(Clone, Copy)]
enum Range<'a> {
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(Lex<'a>, Lex<'a>),
}

impl<'a> Range<'a> {
    fn parse(by: By, low: &'a [u8], high: &'a [u8]) -> Answer<Self> {
        Ok(match by {
            By::Rank => Self::Rank(super::super::int(low)?, super::super::int(high)?),
            By::Score => Self::Score(score_bound(low)?, score_bound(high)?),
            By::Lex => Self::Lex(lex_bound(low)?, lex_bound(high)?),
        })
    }

    /// The indexes: first and end.
    fn indexes(self, ctx: &mut Ctx<'_>, zset: &Zset) -> Answer<(u64, u64)> {
        let (start, end) = match self {
            Self::Rank(start, stop) => range(start, stop, zset.len(&mut ctx.keys)?),
            Self::Score(low, high) => {
                (before_score(ctx, zset, low.0, !low.1)?, before_score(ctx, zset, high.0, high.1)?)
            }
            Self::Lex(low, high) => {
                (before_member(ctx, zset, low, false)?, before_member(ctx, zset, high, true)?)
            }
        };
        Ok(if start < end { (start, end) } else { (0, 0) })
    }
}

struct Options {
    by: By,
    is_reverse: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

/// The members of a range, as the options want them.
fn members(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    (first, second): (&[u8], &[u8]),
    options: &Options,
) -> Answer<Vec<(Vec<u8>, f64)>> {
    let by_value = options.by != By::Rank;
    let (low, high) = match options.is_reverse && by_value {
        true => (second, first),
        false => (first, second),
    };
    let wanted = Range::parse(options.by, low, high)?;
    let Some(zset) = to_read(ctx, key)? else { return Ok(Vec::new()) };
    let (mut start, mut end) = wanted.indexes(ctx, &zset)?;
    if options.is_reverse && !by_value {
        let len = zset.len(&mut ctx.keys)?;
        (start, end) = if start == end { (0, 0) } else { (len - end, len - start) };
    }
    if let Some((skip, count)) = options.limit {
        let len = end - start;
        let skip = if skip < 0 { len } else { (skip as u64).min(len) };
        let count = if count < 0 { len - skip } else { (count as u64).min(len - skip) };
        (start, end) = match options.is_reverse {
            true => (end - skip - count, end - skip),
            false => (start + skip, start + skip + count),
        };
    }
    let mut members = zset.slice(&mut ctx.keys, start, end)?;
    if options.is_reverse {
        members.reverse();
    }
    Ok(members)
}

/// Reads the words behind a range's bounds.
fn parse(ctx: &Ctx<'_>, first: usize, fixed: Option<By>, is_reverse: bool) -> Answer<Options> {
    let by = fixed.unwrap_or(By::Rank);
    let mut options = Options { by, is_reverse, with_scores: false, limit: None };
    let is_free = fixed.is_none();
    let mut index = first;
    while let Some(word) = ctx.args.get(index) {
        match () {
            () if is(word, "WITHSCORES") => options.with_scores = true,
            () if is(word, "BYSCORE") && is_free => options.by = By::Score,
            () if is(word, "BYLEX") && is_free => options.by = By::Lex,
            () if is(word, "REV") && is_free => options.is_reverse = true,
            () if is(word, "LIMIT") && index + 2 < ctx.args.len() => {
                options.limit = Some((ctx.int_arg(index + 1)?, ctx.int_arg(index + 2)?));
                index += 2;
            }
            () => return Err(SYNTAX.into()),
        }
        index += 1;
    }
    if options.limit.is_some() && options.by == By::Rank {
        return Err(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                .into(),
        );
    }
    if options.with_scores && options.by == By::Lex {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    Ok(options)
}

fn answer(ctx: &mut Ctx<'_>, fixed: Option<By>, is_reverse: bool) -> Done {
    let options = parse(ctx, 4, fixed, is_reverse)?;
    let members = members(ctx, ctx.args.at(1), (ctx.args.at(2), ctx.args.at(3)), &options)?;
    let in_pairs = ctx.out.is_resp3;
    answer_scored(ctx, &members, options.with_scores, in_pairs);
    Ok(())
}

pub(in crate::commands) fn zrange(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, None, false)
}

pub(in crate::commands) fn zrevrange(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Some(By::Rank), true)
}

pub(in crate::commands) fn zrangebyscore(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Some(By::Score), false)
}

pub(in crate::commands) fn zrevrangebyscore(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Some(By::Score), true)
}

pub(in crate::commands) fn zrangebylex(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Some(By::Lex), false)
}

pub(in crate::commands) fn zrevrangebylex(ctx: &mut Ctx<'_>) -> Done {
    answer(ctx, Some(By::Lex), true)
}

pub(in crate::commands) fn zrangestore(ctx: &mut Ctx<'_>) -> Done {
    let options = parse(ctx, 5, None, false)?;
    if options.with_scores {
        return Err(SYNTAX.into());
    }
    let members = members(ctx, ctx.args.at(2), (ctx.args.at(3), ctx.args.at(4)), &options)?;
    super::combine::store(ctx, &members)?;
    ctx.out.len(members.len());
    Ok(())
}

fn count(ctx: &mut Ctx<'_>, by: By) -> Done {
    let wanted = Range::parse(by, ctx.args.at(2), ctx.args.at(3))?;
    let (start, end) = match to_read(ctx, ctx.args.at(1))? {
        Some(zset) => wanted.indexes(ctx, &zset)?,
        None => (0, 0),
    };
    ctx.out.int((end - start) as i64);
    Ok(())
}

pub(in crate::commands) fn zcount(ctx: &mut Ctx<'_>) -> Done {
    count(ctx, By::Score)
}

pub(in crate::commands) fn zlexcount(ctx: &mut Ctx<'_>) -> Done {
    count(ctx, By::Lex)
}

fn remove(ctx: &mut Ctx<'_>, by: By) -> Done {
    let wanted = Range::parse(by, ctx.args.at(2), ctx.args.at(3))?;
    let key = ctx.args.at(1);
    let mut zset = to_write(ctx, key)?;
    let (start, end) = wanted.indexes(ctx, &zset)?;
    for (member, _) in zset.slice(&mut ctx.keys, start, end)? {
        zset.remove(&mut ctx.keys, &member)?;
    }
    zset.save(&mut ctx.keys, key)?;
    ctx.out.int((end - start) as i64);
    Ok(())
}

pub(in crate::commands) fn zremrangebyrank(ctx: &mut Ctx<'_>) -> Done {
    remove(ctx, By::Rank)
}

pub(in crate::commands) fn zremrangebyscore(ctx: &mut Ctx<'_>) -> Done {
    remove(ctx, By::Score)
}

pub(in crate::commands) fn zremrangebylex(ctx: &mut Ctx<'_>) -> Done {
    remove(ctx, By::Lex)
}
