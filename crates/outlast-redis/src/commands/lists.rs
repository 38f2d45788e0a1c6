//! Lists.

use crate::commands::{Answer, Ctx, Done, NO_SUCH_KEY, OUT_OF_RANGE, SYNTAX, WRONG_TYPE, is};
use crate::store::list::List;
use crate::store::{Found, Keys};

/// An end of a list, or of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub fn parse(word: &[u8]) -> Answer<Self> {
        match () {
            () if is(word, "LEFT") => Ok(Self::Left),
            () if is(word, "RIGHT") => Ok(Self::Right),
            () => Err(SYNTAX.into()),
        }
    }
}

fn load(keys: &mut Keys<'_>, found: Option<Found>) -> Answer<List> {
    Ok(List::load(keys, found)?)
}

fn push(ctx: &mut Ctx<'_>, side: Side, only_there: bool) -> Done {
    let key = ctx.args.at(1);
    let found = ctx.typed(key, "list")?;
    if only_there && found.is_none() {
        ctx.out.int(0);
        return Ok(());
    }
    let mut list = load(&mut ctx.keys, found)?;
    let mut len = list.len(&mut ctx.keys)?;
    for item in ctx.args.from(2).iter() {
        let at = if side == Side::Left { 0 } else { len };
        list.insert(&mut ctx.keys, at, item)?;
        len += 1;
    }
    list.save(&mut ctx.keys, key)?;
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn lpush(ctx: &mut Ctx<'_>) -> Done {
    push(ctx, Side::Left, false)
}

pub(super) fn rpush(ctx: &mut Ctx<'_>) -> Done {
    push(ctx, Side::Right, false)
}

pub(super) fn lpushx(ctx: &mut Ctx<'_>) -> Done {
    push(ctx, Side::Left, true)
}

pub(super) fn rpushx(ctx: &mut Ctx<'_>) -> Done {
    push(ctx, Side::Right, true)
}

/// Takes up to `count` items from an end.
fn take(
    keys: &mut Keys<'_>,
    key: &[u8],
    found: Found,
    side: Side,
    count: u64,
) -> Answer<Vec<Vec<u8>>> {
    let mut list = load(keys, Some(found))?;
    let mut len = list.len(keys)?;
    let mut items = Vec::new();
    for _ in 0..count.min(len) {
        let at = if side == Side::Left { 0 } else { len - 1 };
        items.push(list.remove(keys, at)?);
        len -= 1;
    }
    list.save(keys, key)?;
    Ok(items)
}

fn pop(ctx: &mut Ctx<'_>, side: Side) -> Done {
    if ctx.args.len() > 3 {
        let name = String::from_utf8_lossy(ctx.args.at(0)).to_lowercase();
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let key = ctx.args.at(1);
    let count = match ctx.args.len() > 2 {
        true => Some(ctx.count_arg(2, "ERR value is out of range, must be positive")?),
        false => None,
    };
    let Some(found) = ctx.typed(key, "list")? else {
        if count.is_some() {
            ctx.out.null_array()
        } else {
            ctx.out.null()
        }
        return Ok(());
    };
    let items = take(&mut ctx.keys, key, found, side, count.unwrap_or(1) as u64)?;
    match count {
        Some(_) => ctx.out.bulks(&items),
        None => ctx.out.bulk_or_null(items.first().map(Vec::as_slice)),
    }
    Ok(())
}

pub(super) fn lpop(ctx: &mut Ctx<'_>) -> Done {
    pop(ctx, Side::Left)
}

pub(super) fn rpop(ctx: &mut Ctx<'_>) -> Done {
    pop(ctx, Side::Right)
}

pub(super) fn llen(ctx: &mut Ctx<'_>) -> Done {
    let len = match ctx.read(ctx.args.at(1), "list")? {
        Some(found) => load(&mut ctx.keys, Some(found))?.len(&mut ctx.keys)?,
        None => 0,
    };
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn lrange(ctx: &mut Ctx<'_>) -> Done {
    let (start, stop) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let Some(found) = ctx.read(ctx.args.at(1), "list")? else {
        ctx.out.array(0);
        return Ok(());
    };
    let list = load(&mut ctx.keys, Some(found))?;
    let len = list.len(&mut ctx.keys)?;
    let (from, end) = super::range(start, stop, len);
    ctx.out.array((end - from) as usize);
    let out = &mut *ctx.out;
    list.scan(&mut ctx.keys, from, end, &mut |item| {
        out.bulk(item);
        true
    })?;
    Ok(())
}

/// The index that a number means, negative ones from the end.
fn index_of(index: i64, len: u64) -> Option<u64> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    u64::try_from(index).ok().filter(|index| *index < len)
}

pub(super) fn lindex(ctx: &mut Ctx<'_>) -> Done {
    let mut item = None;
    if let Some(found) = ctx.read(ctx.args.at(1), "list")? {
        let index = ctx.int_arg(2)?;
        let list = load(&mut ctx.keys, Some(found))?;
        let len = list.len(&mut ctx.keys)?;
        if let Some(index) = index_of(index, len) {
            item = list.get(&mut ctx.keys, index)?;
        }
    }
    ctx.out.bulk_or_null(item.as_deref());
    Ok(())
}

pub(super) fn lset(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let found = ctx.typed(key, "list")?.ok_or(NO_SUCH_KEY)?;
    let index = ctx.int_arg(2)?;
    let mut list = load(&mut ctx.keys, Some(found))?;
    let len = list.len(&mut ctx.keys)?;
    let index = index_of(index, len).ok_or(OUT_OF_RANGE)?;
    list.replace(&mut ctx.keys, index, ctx.args.at(3))?;
    list.save(&mut ctx.keys, key)?;
    ctx.out.ok();
    Ok(())
}

pub(super) fn linsert(ctx: &mut Ctx<'_>) -> Done {
    let behind = match () {
        () if is(ctx.args.at(2), "BEFORE") => 0,
        () if is(ctx.args.at(2), "AFTER") => 1,
        () => return Err(SYNTAX.into()),
    };
    let (key, pivot) = (ctx.args.at(1), ctx.args.at(3));
    let Some(found) = ctx.typed(key, "list")? else {
        ctx.out.int(0);
        return Ok(());
    };
    let mut list = load(&mut ctx.keys, Some(found))?;
    let (mut index, mut at) = (0, None);
    list.scan(&mut ctx.keys, 0, u64::MAX, &mut |item| {
        if item == pivot {
            at = Some(index + behind);
        }
        index += 1;
        at.is_none()
    })?;
    let Some(at) = at else {
        ctx.out.int(-1);
        return Ok(());
    };
    list.insert(&mut ctx.keys, at, ctx.args.at(4))?;
    let len = list.len(&mut ctx.keys)?;
    list.save(&mut ctx.keys, key)?;
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn lrem(ctx: &mut Ctx<'_>) -> Done {
    let count = ctx.int_arg(2)?;
    let (key, wanted) = (ctx.args.at(1), ctx.args.at(3));
    let Some(found) = ctx.typed(key, "list")? else {
        ctx.out.int(0);
        return Ok(());
    };
    let mut list = load(&mut ctx.keys, Some(found))?;
    let (mut index, mut hits) = (0, Vec::new());
    list.scan(&mut ctx.keys, 0, u64::MAX, &mut |item| {
        if item == wanted {
            hits.push(index);
        }
        index += 1;
        count <= 0 || (hits.len() as i64) < count
    })?;
    let skipped = match count < 0 {
        true => hits.len().saturating_sub(count.unsigned_abs() as usize),
        false => 0,
    };
    let hits = &hits[skipped..];
    for index in hits.iter().rev() {
        list.remove(&mut ctx.keys, *index)?;
    }
    list.save(&mut ctx.keys, key)?;
    ctx.out.len(hits.len());
    Ok(())
}

pub(super) fn ltrim(ctx: &mut Ctx<'_>) -> Done {
    let (start, stop) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let key = ctx.args.at(1);
    if let Some(found) = ctx.typed(key, "list")? {
        let mut list = load(&mut ctx.keys, Some(found))?;
        let len = list.len(&mut ctx.keys)?;
        let (from, end) = super::range(start, stop, len);
        if from == end {
            ctx.keys.remove(key, found)?;
        } else {
            for index in (end..len).rev() {
                list.remove(&mut ctx.keys, index)?;
            }
            for _ in 0..from {
                list.remove(&mut ctx.keys, 0)?;
            }
            list.save(&mut ctx.keys, key)?;
        }
    }
    ctx.out.ok();
    Ok(())
}

pub(super) fn lpos(ctx: &mut Ctx<'_>) -> Done {
    let (mut rank, mut count, mut most) = (1, None, 0);
    let mut index = 3;
    while index < ctx.args.len() {
        let word = ctx.args.at(index);
        if index + 1 == ctx.args.len() {
            return Err(SYNTAX.into());
        }
        if is(word, "RANK") {
            rank = ctx.int_arg(index + 1)?.max(-i64::MAX);
            if rank == 0 {
                return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list".into());
            }
        } else if is(word, "COUNT") {
            count = Some(ctx.count_arg(index + 1, "ERR COUNT can't be negative")?);
        } else if is(word, "MAXLEN") {
            most = ctx.count_arg(index + 1, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let wanted = ctx.args.at(2);
    let mut hits = Vec::new();
    if let Some(found) = ctx.read(ctx.args.at(1), "list")? {
        let list = load(&mut ctx.keys, Some(found))?;
        let len = list.len(&mut ctx.keys)?;
        let most = if most == 0 { len } else { len.min(most as u64) };
        let (from, end) = if rank > 0 { (0, most) } else { (len - most, len) };
        let mut index = from;
        list.scan(&mut ctx.keys, from, end, &mut |item| {
            if item == wanted {
                hits.push(index as i64);
            }
            index += 1;
            true
        })?;
        if rank < 0 {
            hits.reverse();
        }
        let skipped = (rank.unsigned_abs() as usize - 1).min(hits.len());
        hits.drain(..skipped);
    }
    match count {
        None => match hits.first() {
            Some(index) => ctx.out.int(*index),
            None => ctx.out.null(),
        },
        Some(count) => {
            hits.truncate(if count == 0 { usize::MAX } else { count });
            ctx.out.array(hits.len());
            hits.iter().for_each(|index| ctx.out.int(*index));
        }
    }
    Ok(())
}

/// Moves an item from one list to another, or to another end. `None` without the first list.
pub(crate) fn move_item(
    ctx: &mut Ctx<'_>,
    (from, to): (&[u8], &[u8]),
    (out_of, into): (Side, Side),
) -> Answer<Option<Vec<u8>>> {
    let Some(found) = ctx.typed(from, "list")? else { return Ok(None) };
    ctx.typed(to, "list")?;
    let item = take(&mut ctx.keys, from, found, out_of, 1)?.pop().unwrap_or_default();
    let target = ctx.typed(to, "list")?;
    let mut list = load(&mut ctx.keys, target)?;
    let at = if into == Side::Left { 0 } else { list.len(&mut ctx.keys)? };
    list.insert(&mut ctx.keys, at, &item)?;
    list.save(&mut ctx.keys, to)?;
    Ok(Some(item))
}

pub(super) fn lmove(ctx: &mut Ctx<'_>) -> Done {
    let sides = (Side::parse(ctx.args.at(3))?, Side::parse(ctx.args.at(4))?);
    let item = move_item(ctx, (ctx.args.at(1), ctx.args.at(2)), sides)?;
    ctx.out.bulk_or_null(item.as_deref());
    Ok(())
}

pub(super) fn rpoplpush(ctx: &mut Ctx<'_>) -> Done {
    let keys = (ctx.args.at(1), ctx.args.at(2));
    let item = move_item(ctx, keys, (Side::Right, Side::Left))?;
    ctx.out.bulk_or_null(item.as_deref());
    Ok(())
}

/// The words of `LMPOP` and its kin from the number of keys on: the keys' places, the end's word,
/// the count.
pub(crate) fn parse_multi_pop(
    ctx: &Ctx<'_>,
    first: usize,
) -> Answer<(std::ops::Range<usize>, usize, u64)> {
    let count = crate::number::parse_int(ctx.args.at(first)).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")? as usize;
    let side = first.saturating_add(1).saturating_add(count);
    if side >= ctx.args.len() {
        return Err(SYNTAX.into());
    }
    let (mut most, mut index) = (None, side + 1);
    while let Some(word) = ctx.args.get(index) {
        if !is(word, "COUNT") || index + 1 >= ctx.args.len() || most.is_some() {
            return Err(SYNTAX.into());
        }
        let count = crate::number::parse_int(ctx.args.at(index + 1)).filter(|count| *count > 0);
        most = Some(count.ok_or("ERR count should be greater than 0")? as u64);
        index += 2;
    }
    Ok((first + 1..side, side, most.unwrap_or(1)))
}

pub(super) fn lmpop(ctx: &mut Ctx<'_>) -> Done {
    multi_pop(ctx, Side::parse, pop_for)
}

/// Pops from the first of several keys that has something.
pub(super) fn multi_pop(
    ctx: &mut Ctx<'_>,
    side_of: fn(&[u8]) -> Answer<Side>,
    pop_for: fn(&mut Ctx<'_>, &[u8], Side, Option<u64>) -> Answer<bool>,
) -> Done {
    let (keys, side, count) = parse_multi_pop(ctx, 1)?;
    let side = side_of(ctx.args.at(side))?;
    for index in keys {
        if pop_for(ctx, ctx.args.at(index), side, Some(count))? {
            return Ok(());
        }
    }
    ctx.out.null_array();
    Ok(())
}

/// Pops from a list and answers with its key and what was popped. `false` without such a list.
pub(crate) fn pop_for(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    side: Side,
    count: Option<u64>,
) -> Answer<bool> {
    let found = match ctx.keys.find(key)? {
        Some(found) if found.kind().type_name() != "list" => return Err(WRONG_TYPE.into()),
        Some(found) => found,
        None => return Ok(false),
    };
    let items = take(&mut ctx.keys, key, found, side, count.unwrap_or(1))?;
    ctx.out.array(2);
    ctx.out.bulk(key);
    match count {
        Some(_) => ctx.out.bulks(&items),
        None => ctx.out.bulk(items.first().map_or(&[][..], Vec::as_slice)),
    }
    Ok(true)
}
