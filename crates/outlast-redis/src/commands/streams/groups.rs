//! Groups: made and removed, acknowledgements, claims.

use super::parse::{bound, id_or_end, strict_id};
use super::read::consumer;
use super::{push_entries, push_entry, push_id};
use crate::commands::{Answer, Ctx, Done, Fail, SYNTAX, is};
use crate::number::parse_int;
use crate::store::stream::{Group, Id, Pending, Stream};

fn text(word: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(word)
}

/// The error for a subcommand that there is not.
pub(super) fn unknown_subcommand(command: &str, sub: &[u8]) -> Fail {
    format!("ERR unknown subcommand '{}'. Try {command} HELP.", text(sub)).into()
}

pub(super) fn wrong_arity(command: &str, sub: &[u8]) -> Fail {
    let sub = text(sub).to_lowercase();
    format!("ERR wrong number of arguments for '{command}|{sub}' command").into()
}

/// The stream and its group, which must be there.
fn group_of(ctx: &mut Ctx<'_>) -> Answer<(Stream, Group)> {
    let (key, name) = (ctx.args.at(1), ctx.args.at(2));
    let stream = ctx.read_stream(key)?;
    let group = match stream {
        Some(stream) => stream.group(&mut ctx.keys, name)?,
        None => None,
    };
    match stream.zip(group) {
        Some(both) => Ok(both),
        None => {
            Err(format!("NOGROUP No such key '{}' or consumer group '{}'", text(key), text(name))
                .into())
        }
    }
}

pub(in crate::commands) fn xgroup(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let (sub, words) = (args.at(1), args.len());
    let known: [(&str, bool); 6] = [
        ("CREATE", words >= 5),
        ("SETID", words >= 5),
        ("DESTROY", words == 4),
        ("CREATECONSUMER", words == 5),
        ("DELCONSUMER", words == 5),
        ("HELP", words == 2),
    ];
    let Some((name, fits)) = known.into_iter().find(|(name, _)| is(sub, name)) else {
        return Err(unknown_subcommand("XGROUP", sub));
    };
    if !fits {
        return Err(wrong_arity("xgroup", sub));
    }
    if name == "HELP" {
        ctx.out.simples(&[
            "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD entries_read]",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "DELCONSUMER <key> <groupname> <consumer>",
            "DESTROY <key> <groupname>",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        ]);
        return Ok(());
    }
    let (mut makes_stream, mut read, mut index) = (false, -1, 5);
    while matches!(name, "CREATE" | "SETID") && index < words {
        if name == "CREATE" && is(args.at(index), "MKSTREAM") {
            makes_stream = true;
            index += 1;
        } else if is(args.at(index), "ENTRIESREAD") && index + 1 < words {
            read = ctx.int_arg(index + 1)?;
            if read < -1 {
                return Err("ERR value for ENTRIESREAD must be positive or -1".into());
            }
            index += 2;
        } else {
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try XGROUP HELP.",
                text(sub)
            )
            .into());
        }
    }
    let (key, group_name) = (args.at(2), args.at(3));
    let stream = ctx.stream(key)?;
    let Some(stream) = stream else {
        if !makes_stream {
            return Err("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.".into());
        }
        let id = if args.at(4) == b"$" { Id::MIN } else { strict_id(args.at(4))? };
        let stream = Stream::create_at(&mut ctx.keys, key)?;
        stream.create_group(&mut ctx.keys, group_name, id, read)?;
        ctx.out.ok();
        return Ok(());
    };
    let group = stream.group(&mut ctx.keys, group_name)?;
    match (name, group) {
        ("SETID" | "CREATECONSUMER" | "DELCONSUMER", None) => Err(format!(
            "NOGROUP No such consumer group '{}' for key name '{}'",
            text(group_name),
            text(key)
        )
        .into()),
        ("CREATE", group) => {
            let id = match args.at(4) {
                b"$" => stream.last_id(ctx.keys.mem)?,
                id => strict_id(id)?,
            };
            if group.is_some() {
                return Err("BUSYGROUP Consumer Group name already exists".into());
            }
            stream.create_group(&mut ctx.keys, group_name, id, read)?;
            ctx.keys.changed(key);
            ctx.out.ok();
            Ok(())
        }
        ("SETID", Some(group)) => {
            let id = match args.at(4) {
                b"$" => stream.last_id(ctx.keys.mem)?,
                id => id_or_end(id, 0)?,
            };
            group.set_last_id(ctx.keys.mem, id)?;
            group.set_read(ctx.keys.mem, read)?;
            ctx.keys.changed(key);
            ctx.out.ok();
            Ok(())
        }
        ("CREATECONSUMER", Some(group)) => {
            let is_new = group.consumer(&mut ctx.keys, args.at(4))?.is_none();
            if is_new {
                let now = ctx.keys.now;
                group.create_consumer(&mut ctx.keys, args.at(4), now)?;
                ctx.keys.changed(key);
            }
            ctx.out.int(is_new.into());
            Ok(())
        }
        ("DELCONSUMER", Some(group)) => {
            let is_there = group.consumer(&mut ctx.keys, args.at(4))?.is_some();
            let pending = group.delete_consumer(&mut ctx.keys, args.at(4))?;
            if is_there {
                ctx.keys.changed(key);
            }
            ctx.out.int(pending as i64);
            Ok(())
        }
        (_, group) => {
            stream.destroy_group(&mut ctx.keys, group_name)?;
            if group.is_some() {
                ctx.keys.changed(key);
            }
            ctx.out.int(group.is_some().into());
            Ok(())
        }
    }
}

pub(in crate::commands) fn xack(ctx: &mut Ctx<'_>) -> Done {
    let (key, name) = (ctx.args.at(1), ctx.args.at(2));
    let group = match ctx.stream(key)? {
        Some(stream) => stream.group(&mut ctx.keys, name)?,
        None => None,
    };
    let mut done = 0;
    if let Some(group) = group {
        let ids = ctx.args.from(3).iter().map(strict_id).collect::<Answer<Vec<Id>>>()?;
        for id in ids {
            done += i64::from(group.acknowledge(ctx.keys.mem, id)?);
        }
        if done > 0 {
            ctx.keys.changed(key);
        }
    }
    ctx.out.int(done);
    Ok(())
}

pub(in crate::commands) fn xpending(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    if args.len() == 3 {
        return summary(ctx);
    }
    if args.len() < 6 || args.len() > 9 {
        return Err(SYNTAX.into());
    }
    let (mut idle_min, mut at) = (0, 3);
    if is(args.at(3), "IDLE") {
        idle_min = ctx.int_arg(4)?;
        if args.len() < 8 {
            return Err(SYNTAX.into());
        }
        at = 5;
    }
    let count = ctx.int_arg(at + 2)?.max(0) as u64;
    let (from, to) = (bound(args.at(at), true)?, bound(args.at(at + 1), false)?);
    let (_, group) = group_of(ctx)?;
    let now = ctx.keys.now;
    let mut found = Vec::new();
    let consumer = match args.get(at + 3) {
        Some(name) => match group.consumer(&mut ctx.keys, name)? {
            Some(consumer) => Some(consumer),
            None => {
                ctx.out.array(0);
                return Ok(());
            }
        },
        None => None,
    };
    let mut next = Some(from);
    while let Some(from) = next.filter(|from| *from <= to && (found.len() as u64) < count) {
        let mem = &mut *ctx.keys.mem;
        let piece: Vec<Pending> = match consumer {
            Some(consumer) => {
                let mut piece = Vec::new();
                for id in consumer.ids_from(mem, from, PIECE)? {
                    piece.extend(group.pending(mem, id)?.map(|(_, pending)| pending));
                }
                piece
            }
            None => group.pending_from(mem, from, PIECE)?,
        };
        next = piece.last().and_then(|last| last.id.next());
        let idle = |pending: &Pending| now as i64 - pending.delivered as i64;
        let wanted = piece
            .into_iter()
            .filter(|pending| pending.id <= to && (idle_min == 0 || idle(pending) >= idle_min));
        found.extend(wanted);
    }
    found.truncate(count as usize);
    ctx.out.array(found.len());
    for pending in found {
        let name = pending.consumer.name(ctx.keys.mem)?;
        ctx.out.array(4);
        push_id(ctx.out, pending.id);
        ctx.out.bulk(&name);
        ctx.out.int(now.saturating_sub(pending.delivered) as i64);
        ctx.out.int(pending.deliveries as i64);
    }
    Ok(())
}

/// Pending entries that are looked at together.
const PIECE: u64 = 128;

fn summary(ctx: &mut Ctx<'_>) -> Done {
    let (_, group) = group_of(ctx)?;
    let mem = &mut *ctx.keys.mem;
    ctx.out.array(4);
    let len = group.pending_len(mem)?;
    ctx.out.int(len as i64);
    let first = group.pending_from(mem, Id::MIN, 1)?.first().map(|pending| pending.id);
    let (Some(first), Some(last)) = (first, group.last_pending(mem)?) else {
        ctx.out.null();
        ctx.out.null();
        ctx.out.null_array();
        return Ok(());
    };
    push_id(ctx.out, first);
    push_id(ctx.out, last);
    let mut counts = Vec::new();
    for (name, consumer) in group.consumers(mem)? {
        let count = consumer.pending_len(mem)?;
        if count > 0 {
            counts.push((name, count));
        }
    }
    ctx.out.array(counts.len());
    for (name, count) in counts {
        ctx.out.array(2);
        ctx.out.bulk(&name);
        ctx.out.bulk(count.to_string().as_bytes());
    }
    Ok(())
}

/// The options of `XCLAIM` behind its IDs.
#[derive(Default)]
struct ClaimOptions {
    /// In ms since 1970.
    time: Option<i64>,
    deliveries: Option<i64>,
    forces: bool,
    only_ids: bool,
    last: Id,
}

fn claim_options(ctx: &Ctx<'_>, first: usize) -> Answer<ClaimOptions> {
    let (args, now) = (ctx.args, ctx.keys.now as i64);
    let mut options = ClaimOptions::default();
    let mut index = first;
    while let Some(word) = args.get(index) {
        let value = args.get(index + 1);
        let number = |name: &str| {
            let found = value.and_then(parse_int);
            found.ok_or_else(|| format!("ERR Invalid {name} option argument for XCLAIM"))
        };
        match value {
            _ if is(word, "FORCE") => options.forces = true,
            _ if is(word, "JUSTID") => options.only_ids = true,
            Some(_) if is(word, "IDLE") => {
                options.time = Some(now.wrapping_sub(number("IDLE")?));
                index += 1;
            }
            Some(_) if is(word, "TIME") => {
                options.time = Some(number("TIME")?);
                index += 1;
            }
            Some(_) if is(word, "RETRYCOUNT") => {
                options.deliveries = Some(number("RETRYCOUNT")?);
                index += 1;
            }
            Some(id) if is(word, "LASTID") => {
                options.last = strict_id(id)?;
                index += 1;
            }
            _ => return Err(format!("ERR Unrecognized XCLAIM option '{}'", text(word)).into()),
        }
        index += 1;
    }
    Ok(options)
}

pub(in crate::commands) fn xclaim(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let (stream, group) = group_of(ctx)?;
    let idle_min =
        parse_int(args.at(4)).ok_or("ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
    let ids: Vec<Id> = args.from(5).iter().map_while(|word| strict_id(word).ok()).collect();
    let options = claim_options(ctx, 5 + ids.len())?;
    let (key, now) = (args.at(1), ctx.keys.now);
    if options.last > group.last_id(ctx.keys.mem)? {
        group.set_last_id(ctx.keys.mem, options.last)?;
    }
    let time = options.time.and_then(|time| u64::try_from(time).ok());
    let time = time.filter(|time| *time <= now).unwrap_or(now);
    let (mut claimed, mut claimer, mut dropped) = (Vec::new(), None, 0);
    for id in ids {
        let pending = group.pending(ctx.keys.mem, id)?.map(|(_, pending)| pending);
        let Some(fields) = stream.get(ctx.keys.mem, id)? else {
            dropped += u64::from(group.acknowledge(ctx.keys.mem, id)?);
            continue;
        };
        if pending.is_none() && !options.forces {
            continue;
        }
        let idle = pending.map(|pending| now as i64 - pending.delivered as i64);
        if idle_min > 0 && idle.is_some_and(|idle| idle < idle_min) {
            continue;
        }
        let own = match claimer {
            Some(own) => own,
            None => *claimer.insert(consumer(ctx, key, group, args.at(3))?),
        };
        let before = pending.map_or(1, |pending| pending.deliveries);
        let deliveries = match options.deliveries.and_then(|count| u64::try_from(count).ok()) {
            Some(count) => count,
            None => before + u64::from(!options.only_ids),
        };
        let new = Pending { id, consumer: own, delivered: time, deliveries };
        group.set_pending(ctx.keys.mem, new)?;
        claimed.push((id, fields));
    }
    if !claimed.is_empty() || dropped > 0 {
        ctx.keys.changed(key);
    }
    if options.only_ids {
        ctx.out.array(claimed.len());
        claimed.iter().for_each(|(id, _)| push_id(ctx.out, *id));
    } else {
        push_entries(ctx.out, &claimed);
    }
    Ok(())
}

/// Pending entries that `XAUTOCLAIM` looks at for each that it may return.
const LOOKS_A_CLAIM: u64 = 10;

pub(in crate::commands) fn xautoclaim(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let idle_min =
        parse_int(args.at(4)).ok_or("ERR Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let first = bound(args.at(5), true)?;
    let (mut count, mut only_ids, mut index) = (100, false, 6);
    while let Some(word) = args.get(index) {
        if is(word, "COUNT") && index + 1 < args.len() {
            let given = parse_int(args.at(index + 1));
            let given = given.filter(|count| (1..=i64::MAX / 16).contains(count));
            count = given.ok_or("ERR COUNT must be > 0")? as u64;
            index += 1;
        } else if is(word, "JUSTID") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let (stream, group) = group_of(ctx)?;
    let (key, now) = (args.at(1), ctx.keys.now);
    let (mut attempts, mut left) = (count.saturating_mul(LOOKS_A_CLAIM), count);
    let (mut claimed, mut deleted, mut claimer) = (Vec::new(), Vec::new(), None);
    let mut next = Some(first);
    while attempts > 0 && left > 0 {
        let Some(from) = next else { break };
        let piece = group.pending_from(ctx.keys.mem, from, PIECE)?;
        if piece.is_empty() {
            next = None;
            break;
        }
        for pending in piece {
            if attempts == 0 || left == 0 {
                break;
            }
            attempts -= 1;
            next = pending.id.next();
            let Some(fields) = stream.get(ctx.keys.mem, pending.id)? else {
                group.acknowledge(ctx.keys.mem, pending.id)?;
                deleted.push(pending.id);
                left -= 1;
                continue;
            };
            if idle_min > 0 && (now as i64 - pending.delivered as i64) < idle_min {
                continue;
            }
            let own = match claimer {
                Some(own) => own,
                None => *claimer.insert(consumer(ctx, key, group, args.at(3))?),
            };
            let deliveries = pending.deliveries + u64::from(!only_ids);
            let new = Pending { consumer: own, delivered: now, deliveries, ..pending };
            group.set_pending(ctx.keys.mem, new)?;
            claimed.push((pending.id, fields));
            left -= 1;
        }
    }
    let cursor = match next {
        Some(from) => group.pending_from(ctx.keys.mem, from, 1)?.first().map(|pending| pending.id),
        None => None,
    };
    if !claimed.is_empty() || !deleted.is_empty() {
        ctx.keys.changed(key);
    }
    ctx.out.array(3);
    push_id(ctx.out, cursor.unwrap_or(Id::MIN));
    ctx.out.array(claimed.len());
    for entry in &claimed {
        match only_ids {
            true => push_id(ctx.out, entry.0),
            false => push_entry(ctx.out, entry),
        }
    }
    ctx.out.array(deleted.len());
    deleted.iter().for_each(|id| push_id(ctx.out, *id));
    Ok(())
}
