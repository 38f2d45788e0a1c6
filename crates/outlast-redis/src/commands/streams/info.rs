//! `XINFO`, and how far behind groups are.

use outlast::Abort;

use super::groups::{unknown_subcommand, wrong_arity};
use super::{NODE_ENTRIES, push_entries, push_entry, push_id};
use crate::commands::{Ctx, Done, Fail, NO_SUCH_KEY, SYNTAX, is};
use crate::store::mem::Mem;
use crate::store::stream::{Group, Id, Stream};

/// How many entries were added up to an ID, as far as that can be known; else -1.
fn added_up_to(mem: &mut Mem<'_>, stream: Stream, id: Id) -> Result<i64, Abort> {
    let (added, len, last) = (stream.added(mem)?, stream.len(mem)?, stream.last_id(mem)?);
    if added == 0 {
        return Ok(0);
    }
    if len == 0 && id <= last || id == last {
        return Ok(added as i64);
    }
    if id > last {
        return Ok(-1);
    }
    let (first, deleted) = (stream.first_id(mem)?, stream.deleted_id(mem)?);
    if deleted == Id::MIN || deleted < first {
        if id < first {
            return Ok(added as i64 - len as i64);
        }
        if id == first {
            return Ok(added as i64 - len as i64 + 1);
        }
    }
    Ok(-1)
}

/// Whether an entry behind an ID was deleted from the middle.
fn has_gap(mem: &mut Mem<'_>, stream: Stream, from: Id) -> Result<bool, Abort> {
    let deleted = stream.deleted_id(mem)?;
    if stream.len(mem)? == 0 || deleted == Id::MIN || from > deleted {
        return Ok(false);
    }
    Ok(stream.first_id(mem)? <= deleted)
}

/// How many entries a group has read after it was given one more, where that can be known.
pub(super) fn read_after(
    mem: &mut Mem<'_>,
    stream: Stream,
    read: i64,
    id: Id,
) -> Result<i64, Abort> {
    if read >= 0 && !has_gap(mem, stream, id)? {
        return Ok(read + 1);
    }
    match stream.added(mem)? {
        0 => Ok(read),
        _ => added_up_to(mem, stream, id),
    }
}

/// How many entries a group has still to be given.
fn lag(mem: &mut Mem<'_>, stream: Stream, group: Group) -> Result<Option<i64>, Abort> {
    let (added, read, last) = (stream.added(mem)? as i64, group.read(mem)?, group.last_id(mem)?);
    if added == 0 {
        return Ok(Some(0));
    }
    if read >= 0 && !has_gap(mem, stream, last)? {
        return Ok(Some(added - read));
    }
    let read = added_up_to(mem, stream, last)?;
    Ok((read >= 0).then_some(added - read))
}

pub(in crate::commands) fn xinfo(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let (sub, words) = (args.at(1), args.len());
    if is(sub, "HELP") && words == 2 {
        ctx.out.simples(&[
            "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CONSUMERS <key> <groupname>",
            "GROUPS <key>",
            "STREAM <key> [FULL [COUNT <count>]",
        ]);
        return Ok(());
    }
    let fits = match () {
        () if is(sub, "STREAM") => words >= 3,
        () if is(sub, "GROUPS") => words == 3,
        () if is(sub, "CONSUMERS") => words == 4,
        () if is(sub, "HELP") => false,
        () => return Err(unknown_subcommand("XINFO", sub)),
    };
    if !fits {
        return Err(wrong_arity("xinfo", sub));
    }
    let key = args.at(2);
    let stream = ctx.read_stream(key)?.ok_or(NO_SUCH_KEY)?;
    if is(sub, "STREAM") {
        return about(ctx, stream);
    }
    if is(sub, "GROUPS") {
        let groups = stream.groups(ctx.keys.mem)?;
        ctx.out.array(groups.len());
        for (name, group) in groups {
            let consumers = group.consumers_len(ctx.keys.mem)?;
            let pending = group.pending_len(ctx.keys.mem)?;
            counted(ctx, 6, &name, [("consumers", consumers), ("pending", pending)]);
            progress(ctx, stream, group)?;
        }
        return Ok(());
    }
    let Some(group) = stream.group(&mut ctx.keys, args.at(3))? else {
        let (name, key) = (String::from_utf8_lossy(args.at(3)), String::from_utf8_lossy(key));
        let what = format!("NOGROUP No such consumer group '{name}' for key name '{key}'");
        return Err(Fail::from(what));
    };
    let consumers = group.consumers(ctx.keys.mem)?;
    let now = ctx.keys.now;
    ctx.out.array(consumers.len());
    for (name, consumer) in consumers {
        let pending = consumer.pending_len(ctx.keys.mem)?;
        let seen = consumer.seen(ctx.keys.mem)?;
        counted(ctx, 3, &name, [("pending", pending), ("idle", now.saturating_sub(seen))]);
    }
    Ok(())
}

/// Begins a map of `len` pairs with a name and two counts.
fn counted(ctx: &mut Ctx<'_>, len: usize, name: &[u8], counts: [(&str, u64); 2]) {
    ctx.out.map(len);
    ctx.out.bulk(b"name");
    ctx.out.bulk(name);
    for (word, count) in counts {
        ctx.out.bulk(word.as_bytes());
        ctx.out.int(count as i64);
    }
}

/// The last ID of a group, and how far it has come.
fn progress(ctx: &mut Ctx<'_>, stream: Stream, group: Group) -> Result<(), Abort> {
    let (last, read) = (group.last_id(ctx.keys.mem)?, group.read(ctx.keys.mem)?);
    let lag = lag(ctx.keys.mem, stream, group)?;
    ctx.out.bulk(b"last-delivered-id");
    push_id(ctx.out, last);
    ctx.out.bulk(b"entries-read");
    int_or_null(ctx, (read >= 0).then_some(read));
    ctx.out.bulk(b"lag");
    int_or_null(ctx, lag);
    Ok(())
}

fn int_or_null(ctx: &mut Ctx<'_>, value: Option<i64>) {
    match value {
        Some(value) => ctx.out.int(value),
        None => ctx.out.null(),
    }
}

fn about(ctx: &mut Ctx<'_>, stream: Stream) -> Done {
    let args = ctx.args;
    let is_full = args.len() > 3;
    let mut count = 10;
    if is_full {
        let has_count = args.len() == 6 && is(args.at(4), "COUNT");
        if !is(args.at(3), "FULL") || args.len() > 4 && !has_count {
            return Err(SYNTAX.into());
        }
        if has_count {
            let given = ctx.int_arg(5)?;
            count = if given < 0 { 10 } else { given as u64 };
        }
    }
    let count = if count == 0 { u64::MAX } else { count };
    let mem = &mut *ctx.keys.mem;
    let (len, last) = (stream.len(mem)?, stream.last_id(mem)?);
    let (deleted, added) = (stream.deleted_id(mem)?, stream.added(mem)?);
    let (first, groups) = (stream.first_id(mem)?, stream.groups(mem)?);
    let nodes = len.div_ceil(NODE_ENTRIES);
    ctx.out.map(if is_full { 9 } else { 10 });
    for (name, number) in
        [("length", len), ("radix-tree-keys", nodes), ("radix-tree-nodes", nodes + 1)]
    {
        ctx.out.bulk(name.as_bytes());
        ctx.out.int(number as i64);
    }
    ctx.out.bulk(b"last-generated-id");
    push_id(ctx.out, last);
    ctx.out.bulk(b"max-deleted-entry-id");
    push_id(ctx.out, deleted);
    ctx.out.bulk(b"entries-added");
    ctx.out.int(added as i64);
    ctx.out.bulk(b"recorded-first-entry-id");
    push_id(ctx.out, first);
    if !is_full {
        ctx.out.bulk(b"groups");
        ctx.out.int(groups.len() as i64);
        for (name, index) in [("first-entry", 0), ("last-entry", len.wrapping_sub(1))] {
            ctx.out.bulk(name.as_bytes());
            match stream.at_index(ctx.keys.mem, index)? {
                Some(entry) => push_entry(ctx.out, &entry),
                None => ctx.out.null(),
            }
        }
        return Ok(());
    }
    ctx.out.bulk(b"entries");
    let entries = stream.range(ctx.keys.mem, (Id::MIN, Id::MAX), count, false)?;
    push_entries(ctx.out, &entries);
    ctx.out.bulk(b"groups");
    ctx.out.array(groups.len());
    for (name, group) in groups {
        about_group(ctx, stream, &name, group, count)?;
    }
    Ok(())
}

fn about_group(
    ctx: &mut Ctx<'_>,
    stream: Stream,
    name: &[u8],
    group: Group,
    count: u64,
) -> Result<(), Abort> {
    ctx.out.map(7);
    ctx.out.bulk(b"name");
    ctx.out.bulk(name);
    progress(ctx, stream, group)?;
    let len = group.pending_len(ctx.keys.mem)?;
    ctx.out.bulk(b"pel-count");
    ctx.out.int(len as i64);
    let pending = group.pending_from(ctx.keys.mem, Id::MIN, count)?;
    ctx.out.bulk(b"pending");
    ctx.out.array(pending.len());
    for pending in pending {
        let consumer = pending.consumer.name(ctx.keys.mem)?;
        ctx.out.array(4);
        push_id(ctx.out, pending.id);
        ctx.out.bulk(&consumer);
        ctx.out.int(pending.delivered as i64);
        ctx.out.int(pending.deliveries as i64);
    }
    let consumers = group.consumers(ctx.keys.mem)?;
    ctx.out.bulk(b"consumers");
    ctx.out.array(consumers.len());
    for (name, consumer) in consumers {
        let (seen, len) = (consumer.seen(ctx.keys.mem)?, consumer.pending_len(ctx.keys.mem)?);
        ctx.out.map(4);
        ctx.out.bulk(b"name");
        ctx.out.bulk(&name);
        ctx.out.bulk(b"seen-time");
        ctx.out.int(seen as i64);
        ctx.out.bulk(b"pel-count");
        ctx.out.int(len as i64);
        let ids = consumer.ids_from(ctx.keys.mem, Id::MIN, count)?;
        ctx.out.bulk(b"pending");
        ctx.out.array(ids.len());
        for id in ids {
            let pending = group.pending(ctx.keys.mem, id)?.map(|(_, pending)| pending);
            ctx.out.array(3);
            push_id(ctx.out, id);
            ctx.out.int(pending.map_or(0, |pending| pending.delivered as i64));
            ctx.out.int(pending.map_or(0, |pending| pending.deliveries as i64));
        }
    }
    Ok(())
}
