//! Commands that take keys of whatever type.

use crate::commands::{Ctx, Done, NO_SUCH_KEY, SYNTAX, int, is};
use crate::glob;
use crate::store::entry::{Entry, Kind};
use crate::store::seq::{End, Ends, Scores, Seq, Wanted};
use crate::store::stream::Stream;
use crate::store::table::{Content, Table};
use crate::store::{DATABASES, Found, Keys};

pub(super) fn del(ctx: &mut Ctx<'_>) -> Done {
    let mut gone = 0;
    for key in ctx.args.from(1).iter() {
        if let Some(found) = ctx.keys.find(key)? {
            ctx.keys.remove(key, found)?;
            gone += 1;
        }
    }
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn exists(ctx: &mut Ctx<'_>) -> Done {
    let mut there = 0;
    for key in ctx.args.from(1).iter() {
        there += i64::from(ctx.keys.look_up(key)?.is_some());
    }
    ctx.out.int(there);
    Ok(())
}

pub(super) fn type_of(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.keys.look_up(ctx.args.at(1))?;
    ctx.out.simple(found.map_or("none", |found| found.kind().type_name()));
    Ok(())
}

/// Shows every key that has not expired.
fn each_key(
    keys: &mut Keys<'_>,
    show: &mut dyn FnMut(Vec<u8>, Entry),
) -> Result<(), outlast::Abort> {
    let Some(table) = keys.table()? else { return Ok(()) };
    let now = keys.now;
    table.each(keys.mem, &mut |mem, place| {
        if place.entry.deadline(mem)?.is_none_or(|deadline| deadline > now) {
            let key = place.entry.key(mem)?;
            show(key, place.entry);
        }
        Ok(())
    })
}

pub(super) fn keys(ctx: &mut Ctx<'_>) -> Done {
    let pattern = ctx.args.at(1);
    let mut found = Vec::new();
    each_key(&mut ctx.keys, &mut |key, _| {
        if glob::matches(pattern, &key, false) {
            found.push(key);
        }
    })?;
    ctx.out.bulks(&found);
    Ok(())
}

pub(super) fn dbsize(ctx: &mut Ctx<'_>) -> Done {
    let len = ctx.keys.len()?;
    ctx.out.int(len as i64);
    Ok(())
}

pub(super) fn randomkey(ctx: &mut Ctx<'_>) -> Done {
    for _ in 0..100 {
        let Some(table) = ctx.keys.table()? else { break };
        let Some(place) = table.random(ctx.keys.mem, ctx.keys.random)? else { break };
        let key = place.entry.key(ctx.keys.mem)?;
        if ctx.keys.find(&key)?.is_some() {
            ctx.out.bulk(&key);
            return Ok(());
        }
    }
    ctx.out.null();
    Ok(())
}

fn rename_as(ctx: &mut Ctx<'_>, only_new: bool) -> Done {
    let (from, to) = (ctx.args.at(1), ctx.args.at(2));
    let found = ctx.keys.find(from)?.ok_or(NO_SUCH_KEY)?;
    if from == to {
        if only_new {
            ctx.out.int(0)
        } else {
            ctx.out.ok()
        }
        return Ok(());
    }
    let target = ctx.keys.find(to)?;
    if only_new && target.is_some() {
        ctx.out.int(0);
        return Ok(());
    }
    if let Some(target) = target {
        ctx.keys.remove(to, target)?;
    }
    let found = ctx.keys.find(from)?.unwrap_or(found);
    take_over(ctx, from, found, to)?;
    if only_new {
        ctx.out.int(1)
    } else {
        ctx.out.ok()
    }
    Ok(())
}

/// Moves a value to a key that is not there, large parts as they are.
fn take_over(ctx: &mut Ctx<'_>, from: &[u8], found: Found, to: &[u8]) -> Done {
    let entry = *found.entry();
    let value = entry.value(ctx.keys.mem)?;
    let deadline = entry.deadline(ctx.keys.mem)?;
    ctx.keys.unlink(from, found)?;
    ctx.keys.write(to, None, Content { kind: entry.kind, value: &value, deadline })?;
    Ok(())
}

pub(super) fn rename(ctx: &mut Ctx<'_>) -> Done {
    rename_as(ctx, false)
}

pub(super) fn renamenx(ctx: &mut Ctx<'_>) -> Done {
    rename_as(ctx, true)
}

fn database(text: &[u8], what: &'static str) -> Result<usize, crate::commands::Fail> {
    let index = int(text)?;
    usize::try_from(index).ok().filter(|index| *index < DATABASES).ok_or_else(|| what.into())
}

pub(super) fn copy(ctx: &mut Ctx<'_>) -> Done {
    let (from, to) = (ctx.args.at(1), ctx.args.at(2));
    let source = ctx.keys.database;
    let (mut target, mut replaces) = (source, false);
    let mut index = 3;
    while let Some(word) = ctx.args.get(index) {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB") && index + 1 < ctx.args.len() {
            index += 1;
            target = database(ctx.args.at(index), "ERR DB index is out of range")?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if from == to && source == target {
        return Err("ERR source and destination objects are the same".into());
    }
    let Some(found) = ctx.keys.look_up(from)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let entry = *found.entry();
    let deadline = entry.deadline(ctx.keys.mem)?;
    ctx.keys.database = target;
    let existing = ctx.keys.find(to)?;
    if existing.is_some() && !replaces {
        ctx.keys.database = source;
        ctx.out.int(0);
        return Ok(());
    }
    if let Some(existing) = existing {
        ctx.keys.remove(to, existing)?;
    }
    let value = copy_of_value(ctx, &entry)?;
    ctx.keys.write(to, None, Content { kind: entry.kind, value: &value, deadline })?;
    ctx.keys.database = source;
    ctx.out.int(1);
    Ok(())
}

/// The value for an entry that has the same content.
fn copy_of_value(ctx: &mut Ctx<'_>, entry: &Entry) -> Result<Vec<u8>, crate::commands::Fail> {
    if !entry.kind.is_large() {
        return Ok(entry.value(ctx.keys.mem)?);
    }
    if entry.kind == Kind::Stream {
        let stream = Stream { at: entry.large_at(ctx.keys.mem, 0)? };
        return Ok(stream.copy(&mut ctx.keys)?.at.0.to_le_bytes().to_vec());
    }
    let hasher = ctx.keys.root.hasher;
    let mem = &mut *ctx.keys.mem;
    let first = entry.large_at(mem, 0)?;
    let copy_table = |mem: &mut crate::store::mem::Mem<'_>| {
        let (from, to) = (Table { at: first }, Table::create(mem)?);
        from.each(mem, &mut |mem, place| {
            let (key, value) = (place.entry.key(mem)?, place.entry.value(mem)?);
            let content = Content { kind: Kind::String, value: &value, deadline: None };
            to.write(mem, hasher, None, &key, hasher.hash(&key), &content)?;
            Ok(())
        })?;
        Ok::<_, outlast::Abort>(to.at)
    };
    let copy_seq = |mem: &mut crate::store::mem::Mem<'_>, from: Seq, is_sorted| {
        let to = Seq::create(mem, is_sorted)?;
        for index in 0..from.len(mem)? {
            if let Some(item) = from.get(mem, index)? {
                to.push(mem, &item)?;
            }
        }
        Ok::<_, outlast::Abort>(to.at)
    };
    let mut value = Vec::new();
    match entry.kind {
        Kind::ListSeq => {
            value.extend_from_slice(&copy_seq(mem, Seq { at: first }, false)?.0.to_le_bytes());
        }
        Kind::ListEnds => {
            let (from, mut to) = (Ends::load(mem, first)?, Ends::create(mem)?);
            for index in 0..from.len() {
                if let Some(item) = from.get(mem, index)? {
                    to.push(mem, End::Last, &item)?;
                }
            }
            value.extend_from_slice(&to.at.0.to_le_bytes());
        }
        Kind::ZsetScores => {
            let from = Scores { at: entry.large_at(mem, 1)? };
            let (table, scores) = (Table::create(mem)?, Scores::create(mem)?);
            from.scan(mem, 0, u64::MAX, &mut |mem, (bits, at)| {
                let member = Entry::load(mem, at)?;
                let (name, score) = (member.key(mem)?, member.value(mem)?);
                let content = Content { kind: Kind::String, value: &score, deadline: None };
                let place = table.write(mem, hasher, None, &name, hasher.hash(&name), &content)?;
                scores.insert(mem, Wanted { bits, member: &name }, place.entry.at)?;
                Ok(true)
            })?;
            value.extend_from_slice(&table.at.0.to_le_bytes());
            value.extend_from_slice(&scores.at.0.to_le_bytes());
        }
        Kind::ZsetTree => {
            let second = entry.large_at(mem, 1)?;
            value.extend_from_slice(&copy_table(mem)?.0.to_le_bytes());
            value.extend_from_slice(&copy_seq(mem, Seq { at: second }, true)?.0.to_le_bytes());
        }
        _ => value.extend_from_slice(&copy_table(mem)?.0.to_le_bytes()),
    }
    Ok(value)
}

pub(super) fn move_to(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let source = ctx.keys.database;
    let target = database(ctx.args.at(2), "ERR DB index is out of range")?;
    if source == target {
        return Err("ERR source and destination objects are the same".into());
    }
    let Some(found) = ctx.keys.find(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    ctx.keys.database = target;
    let is_there = ctx.keys.find(key)?.is_some();
    ctx.keys.database = source;
    if is_there {
        ctx.out.int(0);
        return Ok(());
    }
    let entry = *found.entry();
    let value = entry.value(ctx.keys.mem)?;
    let deadline = entry.deadline(ctx.keys.mem)?;
    ctx.keys.unlink(key, found)?;
    ctx.keys.database = target;
    ctx.keys.write(key, None, Content { kind: entry.kind, value: &value, deadline })?;
    ctx.keys.database = source;
    ctx.out.int(1);
    Ok(())
}

fn check_flush(ctx: &Ctx<'_>) -> Done {
    match ctx.args.get(1) {
        None => Ok(()),
        Some(word) if ctx.args.len() == 2 && (is(word, "ASYNC") || is(word, "SYNC")) => Ok(()),
        Some(_) => Err(SYNTAX.into()),
    }
}

pub(super) fn flushdb(ctx: &mut Ctx<'_>) -> Done {
    check_flush(ctx)?;
    ctx.keys.flush()?;
    ctx.out.ok();
    Ok(())
}

pub(super) fn flushall(ctx: &mut Ctx<'_>) -> Done {
    check_flush(ctx)?;
    let own = ctx.keys.database;
    for database in 0..DATABASES {
        ctx.keys.database = database;
        ctx.keys.flush()?;
    }
    ctx.keys.database = own;
    ctx.out.ok();
    Ok(())
}

pub(super) fn swapdb(ctx: &mut Ctx<'_>) -> Done {
    let parse = |text: &[u8], what: &'static str| {
        crate::number::parse_int(text).ok_or(crate::commands::Fail::from(what))
    };
    let one = parse(ctx.args.at(1), "ERR invalid first DB index")?;
    let other = parse(ctx.args.at(2), "ERR invalid second DB index")?;
    let index = |index: i64| usize::try_from(index).ok().filter(|index| *index < DATABASES);
    let (Some(one), Some(other)) = (index(one), index(other)) else {
        return Err("ERR DB index is out of range".into());
    };
    if one != other {
        ctx.keys.swap(one, other)?;
    }
    ctx.out.ok();
    Ok(())
}

/// How a value lies there, in the words of Redis.
pub(crate) fn encoding(
    mem: &mut crate::store::mem::Mem<'_>,
    entry: &Entry,
) -> Result<&'static str, outlast::Abort> {
    Ok(match entry.kind {
        Kind::String if entry.value_len <= 20 => {
            let value = entry.value(mem)?;
            if super::strings::is_number(&value) { "int" } else { "embstr" }
        }
        Kind::String if entry.value_len <= 44 => "embstr",
        Kind::String => "raw",
        Kind::HashBlob | Kind::ListBlob | Kind::ZsetBlob | Kind::SetBlob => "listpack",
        Kind::HashTable | Kind::SetTable => "hashtable",
        Kind::ListSeq | Kind::ListEnds => "quicklist",
        Kind::ZsetTree | Kind::ZsetScores => "skiplist",
        Kind::Stream => "stream",
    })
}

pub(super) fn object(ctx: &mut Ctx<'_>) -> Done {
    let sub = ctx.args.at(1);
    if is(sub, "HELP") {
        ctx.out.bulks(&["OBJECT <subcommand> key", "ENCODING", "REFCOUNT", "IDLETIME", "FREQ"]);
        return Ok(());
    }
    let known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    if ctx.args.len() != 3 || !known.iter().any(|name| is(sub, name)) {
        let sub = String::from_utf8_lossy(sub);
        return Err(format!("ERR unknown subcommand '{sub}'. Try OBJECT HELP.").into());
    }
    let Some(found) = ctx.keys.look_up(ctx.args.at(2))? else {
        ctx.out.null();
        return Ok(());
    };
    if is(sub, "ENCODING") {
        let encoding = encoding(ctx.keys.mem, found.entry())?;
        ctx.out.bulk(encoding.as_bytes());
    } else if is(sub, "FREQ") {
        return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into());
    } else {
        ctx.out.int(is(sub, "REFCOUNT").into());
    }
    Ok(())
}

pub(super) fn memory(ctx: &mut Ctx<'_>) -> Done {
    if !is(ctx.args.at(1), "USAGE") || ctx.args.len() < 3 {
        return Err("ERR unknown subcommand: there is MEMORY USAGE key".into());
    }
    match ctx.keys.look_up(ctx.args.at(2))? {
        Some(found) => ctx.out.int(found.entry().own_bytes() as i64 + 8),
        None => ctx.out.null(),
    }
    Ok(())
}
