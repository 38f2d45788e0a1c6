//! `SORT`.

use std::cmp::Ordering;

use crate::commands::{Answer, Ctx, Done, SYNTAX, WRONG_TYPE, is};
use crate::number::parse_loosely;
use crate::store::dict::{Dict, Shape};
use crate::store::entry::Kind;
use crate::store::list::List;
use crate::store::zset::Zset;

#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    limit: Option<(i64, i64)>,
    gets: Vec<&'a [u8]>,
    is_descending: bool,
    is_alpha: bool,
    store: Option<&'a [u8]>,
}

fn options<'a>(ctx: &Ctx<'a>, may_store: bool) -> Answer<Options<'a>> {
    let mut options = Options::default();
    let mut index = 2;
    while let Some(word) = ctx.args.get(index) {
        let left = ctx.args.len() - index - 1;
        match () {
            () if is(word, "ASC") => options.is_descending = false,
            () if is(word, "DESC") => options.is_descending = true,
            () if is(word, "ALPHA") => options.is_alpha = true,
            () if is(word, "LIMIT") && left >= 2 => {
                options.limit = Some((ctx.int_arg(index + 1)?, ctx.int_arg(index + 2)?));
                index += 2;
            }
            () if is(word, "STORE") && left >= 1 && may_store => {
                options.store = Some(ctx.args.at(index + 1));
                index += 1;
            }
            () if is(word, "BY") && left >= 1 => {
                options.by = Some(ctx.args.at(index + 1));
                index += 1;
            }
            () if is(word, "GET") && left >= 1 => {
                options.gets.push(ctx.args.at(index + 1));
                index += 1;
            }
            () => return Err(SYNTAX.into()),
        }
        index += 1;
    }
    Ok(options)
}

/// The value that a pattern leads to for an item.
fn look_up(ctx: &mut Ctx<'_>, pattern: &[u8], item: &[u8]) -> Answer<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(item.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (head, tail) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = tail.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|arrow| arrow + 2 < tail.len());
    let (tail, field) = match arrow {
        Some(arrow) => (&tail[..arrow], Some(&tail[arrow + 2..])),
        None => (tail, None),
    };
    let key = [head, item, tail].concat();
    let Some(found) = ctx.keys.look_up(&key)? else { return Ok(None) };
    match (field, found.kind()) {
        (None, Kind::String) => Ok(Some(found.entry().value(ctx.keys.mem)?)),
        (Some(field), Kind::HashBlob | Kind::HashTable) => {
            let dict = Dict::load(&mut ctx.keys, Shape::Hash, Some(found))?;
            Ok(dict.get(&mut ctx.keys, field)?)
        }
        _ => Ok(None),
    }
}

/// The items to sort, and whether they have an order of their own.
fn items(ctx: &mut Ctx<'_>) -> Answer<(Vec<Vec<u8>>, bool)> {
    let Some(found) = ctx.keys.look_up(ctx.args.at(1))? else { return Ok((Vec::new(), true)) };
    match found.kind().type_name() {
        "list" => Ok((List::load(&mut ctx.keys, Some(found))?.all(&mut ctx.keys)?, true)),
        "set" => {
            let all = Dict::load(&mut ctx.keys, Shape::Set, Some(found))?.all(&mut ctx.keys)?;
            Ok((all.into_iter().map(|(member, _)| member).collect(), false))
        }
        "zset" => {
            let zset = Zset::load(&mut ctx.keys, Some(found))?;
            let all = zset.slice(&mut ctx.keys, 0, u64::MAX)?;
            Ok((all.into_iter().map(|(member, _)| member).collect(), true))
        }
        _ => Err(WRONG_TYPE.into()),
    }
}

/// The weight that an item is sorted by.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

/// The number that an item is sorted by.
fn weight_of(text: &[u8]) -> Option<f64> {
    parse_loosely(text).filter(|(_, is_in_range)| *is_in_range).map(|(value, _)| value)
}

fn order(a: &Weight, b: &Weight) -> Ordering {
    match (a, b) {
        (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

fn sorted(ctx: &mut Ctx<'_>, options: &Options<'_>) -> Answer<Vec<Vec<u8>>> {
    let (mut items, has_order) = items(ctx)?;
    let mut by = options.by;
    let mut is_alpha = options.is_alpha;
    if by.is_some_and(|by| !by.contains(&b'*')) {
        if has_order || options.store.is_none() {
            if options.is_descending && has_order {
                items.reverse();
            }
            return Ok(items);
        }
        // A set has no order: what is stored would be arbitrary.
        (by, is_alpha) = (None, true);
    }
    let mut weighted = Vec::with_capacity(items.len());
    for item in items {
        let by = match by {
            Some(pattern) => look_up(ctx, pattern, &item)?,
            None => Some(item.clone()),
        };
        let weight = match (is_alpha, by) {
            (true, by) => Weight::Text(by),
            (false, None) => Weight::Number(0.0),
            (false, Some(by)) => Weight::Number(
                weight_of(&by).ok_or("ERR One or more scores can't be converted into double")?,
            ),
        };
        weighted.push((weight, item));
    }
    // Texts of other keys that are equal leave the items as they were.
    let has_ties = is_alpha && by.is_some();
    weighted.sort_by(|a, b| {
        let order = order(&a.0, &b.0);
        let order = if has_ties { order } else { order.then_with(|| a.1.cmp(&b.1)) };
        if options.is_descending { order.reverse() } else { order }
    });
    Ok(weighted.into_iter().map(|(_, item)| item).collect())
}

fn sort_as(ctx: &mut Ctx<'_>, may_store: bool) -> Done {
    let options = options(ctx, may_store)?;
    let items = sorted(ctx, &options)?;
    let len = items.len() as i64;
    let (start, count) = options.limit.unwrap_or((0, -1));
    let start = start.clamp(0, len);
    let end = if count < 0 { len } else { start.saturating_add(count).min(len) };
    let mut results = Vec::new();
    for item in &items[start as usize..end as usize] {
        if options.gets.is_empty() {
            results.push(Some(item.clone()));
        }
        for pattern in &options.gets {
            results.push(look_up(ctx, pattern, item)?);
        }
    }
    let Some(target) = options.store else {
        ctx.out.array(results.len());
        results.iter().for_each(|result| ctx.out.bulk_or_null(result.as_deref()));
        return Ok(());
    };
    if let Some(found) = ctx.keys.find(target)? {
        ctx.keys.remove(target, found)?;
    }
    let mut list = List::load(&mut ctx.keys, None)?;
    for (index, item) in results.iter().enumerate() {
        list.insert(&mut ctx.keys, index as u64, item.as_deref().unwrap_or_default())?;
    }
    list.save(&mut ctx.keys, target)?;
    ctx.out.len(results.len());
    Ok(())
}

pub(super) fn sort(ctx: &mut Ctx<'_>) -> Done {
    sort_as(ctx, true)
}

pub(super) fn sort_ro(ctx: &mut Ctx<'_>) -> Done {
    sort_as(ctx, false)
}
