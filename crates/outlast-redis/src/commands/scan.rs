//! Going through keys and members with a cursor.

use crate::commands::{Answer, Ctx, Done, SYNTAX, is};
use crate::glob;
use crate::number::{format_double, parse_int};
use crate::store::dict::{Dict, Shape};
use crate::store::table::Table;
use crate::store::zset::Zset;

/// The options of the family.
struct Options<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: usize,
    type_name: Option<&'a [u8]>,
}

/// Reads cursor and options.
fn options<'a>(ctx: &Ctx<'a>, first: usize, knows_type: bool) -> Answer<Options<'a>> {
    let cursor = parse_cursor(ctx.args.at(first)).ok_or("ERR invalid cursor")?;
    let mut options = Options { cursor, pattern: None, count: 10, type_name: None };
    let mut index = first + 1;
    while let Some(word) = ctx.args.get(index) {
        let Some(value) = ctx.args.get(index + 1) else { return Err(SYNTAX.into()) };
        if is(word, "MATCH") {
            options.pattern = Some(value);
        } else if is(word, "COUNT") {
            let count = parse_int(value).ok_or(crate::commands::NOT_AN_INTEGER)?;
            options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
        } else if is(word, "TYPE") && knows_type {
            options.type_name = Some(value);
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    Ok(options)
}

/// As C's `strtoul` reads all of a text: with a sign, and 0 where there is none.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if text.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

impl Options<'_> {
    fn wants(&self, member: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, member, false))
    }
}

/// Shows members of a table from the cursor on, about as many as asked for. Returns the next
/// cursor.
fn walk(
    ctx: &mut Ctx<'_>,
    table: Table,
    options: &Options<'_>,
    show: &mut dyn FnMut(&mut Ctx<'_>, Vec<u8>, crate::store::table::Place) -> Done,
) -> Answer<u64> {
    let (mut cursor, mut seen) = (options.cursor, 0);
    let mut buckets_left = options.count.saturating_mul(10);
    loop {
        let mut found = Vec::new();
        cursor = table.scan(ctx.keys.mem, cursor, &mut |mem, place| {
            found.push((place.entry.key(mem)?, place));
            Ok(())
        })?;
        seen += found.len();
        for (member, place) in found {
            show(ctx, member, place)?;
        }
        buckets_left -= 1;
        if cursor == 0 || seen >= options.count || buckets_left == 0 {
            return Ok(cursor);
        }
    }
}

fn answer(ctx: &mut Ctx<'_>, cursor: u64, items: &[Vec<u8>]) {
    ctx.out.array(2);
    ctx.out.bulk(cursor.to_string().as_bytes());
    ctx.out.bulks(items);
}

pub(super) fn scan(ctx: &mut Ctx<'_>) -> Done {
    let options = options(ctx, 1, true)?;
    let mut items = Vec::new();
    let Some(table) = ctx.keys.table()? else {
        answer(ctx, 0, &items);
        return Ok(());
    };
    let mut expired = Vec::new();
    let cursor = walk(ctx, table, &options, &mut |ctx, key, place| {
        let deadline = place.entry.deadline(ctx.keys.mem)?;
        if deadline.is_some_and(|deadline| deadline <= ctx.keys.now) {
            expired.push(key);
            return Ok(());
        }
        let type_name = place.entry.kind.type_name();
        let is_type = options.type_name.is_none_or(|wanted| is(wanted, type_name));
        if is_type && options.wants(&key) {
            items.push(key);
        }
        Ok(())
    })?;
    for key in expired {
        ctx.keys.find(&key)?;
    }
    answer(ctx, cursor, &items);
    Ok(())
}

fn scan_dict(ctx: &mut Ctx<'_>, shape: Shape, type_name: &str) -> Done {
    let options = options(ctx, 2, false)?;
    let has_values = shape == Shape::Hash;
    let mut items = Vec::new();
    let Some(found) = ctx.read(ctx.args.at(1), type_name)? else {
        answer(ctx, 0, &items);
        return Ok(());
    };
    let dict = Dict::load(&mut ctx.keys, shape, Some(found))?;
    let Some(table) = dict.table() else {
        for (member, value) in dict.all(&mut ctx.keys)? {
            if options.wants(&member) {
                items.push(member);
                items.extend(has_values.then_some(value));
            }
        }
        answer(ctx, 0, &items);
        return Ok(());
    };
    let cursor = walk(ctx, table, &options, &mut |ctx, member, place| {
        if options.wants(&member) {
            items.push(member);
            if has_values {
                items.push(place.entry.value(ctx.keys.mem)?);
            }
        }
        Ok(())
    })?;
    answer(ctx, cursor, &items);
    Ok(())
}

pub(super) fn hscan(ctx: &mut Ctx<'_>) -> Done {
    scan_dict(ctx, Shape::Hash, "hash")
}

pub(super) fn sscan(ctx: &mut Ctx<'_>) -> Done {
    scan_dict(ctx, Shape::Set, "set")
}

pub(super) fn zscan(ctx: &mut Ctx<'_>) -> Done {
    let options = options(ctx, 2, false)?;
    let mut items = Vec::new();
    let Some(found) = ctx.read(ctx.args.at(1), "zset")? else {
        answer(ctx, 0, &items);
        return Ok(());
    };
    let zset = Zset::load(&mut ctx.keys, Some(found))?;
    let Some(table) = zset.table() else {
        for (member, score) in zset.slice(&mut ctx.keys, 0, u64::MAX)? {
            if options.wants(&member) {
                items.extend([member, format_double(score).into_bytes()]);
            }
        }
        answer(ctx, 0, &items);
        return Ok(());
    };
    let cursor = walk(ctx, table, &options, &mut |ctx, member, place| {
        if options.wants(&member) {
            let mut score = [0; 8];
            ctx.keys.mem.load(place.entry.value_at(), &mut score)?;
            items.extend([member, format_double(f64::from_le_bytes(score)).into_bytes()]);
        }
        Ok(())
    })?;
    answer(ctx, cursor, &items);
    Ok(())
}
