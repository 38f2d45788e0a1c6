//! `XREAD` and `XREADGROUP`, at once or when something arrives.

use outlast::Abort;

use super::parse::strict_id;
use super::{push_entries, push_entry, push_id};
use crate::commands::{Answer, Ctx, Done, Fail, SYNTAX, int, is};
use crate::number::parse_int;
use crate::resp::Args;
use crate::store::stream::{Consumer, Group, Id, Pending, Stream};

/// Entries that a client gets which has waited and names no count.
const COUNT_AFTER_WAIT: u64 = 1000;

/// Where a reader goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// Behind that ID.
    After(Id),
    /// Behind what the group was given.
    New,
}

#[derive(Clone, Debug)]
struct ReadGroup {
    name: Vec<u8>,
    consumer: Vec<u8>,
    /// Delivered entries are not pending.
    no_ack: bool,
}

/// The streams that a client waits for.
#[derive(Clone, Debug)]
pub(crate) struct StreamWish {
    streams: Vec<(Vec<u8>, From)>,
    group: Option<ReadGroup>,
    count: u64,
    /// In ms, 0 for ever.
    timeout: Option<u64>,
}

impl StreamWish {
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.streams.iter().map(|(key, _)| key.clone()).collect()
    }

    /// How long it waits at most: `None` if not at all, 0 ms for ever.
    pub fn timeout(&self) -> Option<u64> {
        self.timeout
    }
}

/// Whether the words ask to wait.
pub(crate) fn has_block(args: Args<'_>) -> bool {
    let mut index = 1;
    while let Some(word) = args.get(index) {
        match () {
            () if is(word, "STREAMS") => return false,
            () if is(word, "BLOCK") => return true,
            () if is(word, "COUNT") => index += 2,
            () if is(word, "GROUP") => index += 3,
            () => index += 1,
        }
    }
    false
}

fn parse(ctx: &mut Ctx<'_>) -> Answer<StreamWish> {
    let args = ctx.args;
    let reads_group = is(args.at(0), "XREADGROUP");
    let (mut group, mut count, mut timeout, mut no_ack) = (None, u64::MAX, None, false);
    let only_group = |option: &str| {
        Fail::from(format!(
            "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        ))
    };
    let (mut index, mut streams) = (1, None);
    while let Some(word) = args.get(index) {
        let more = args.len() - index - 1;
        if is(word, "BLOCK") && more >= 1 {
            let ms = parse_int(args.at(index + 1))
                .ok_or("ERR timeout is not an integer or out of range")?;
            timeout = Some(u64::try_from(ms).map_err(|_| "ERR timeout is negative")?);
            index += 1;
        } else if is(word, "COUNT") && more >= 1 {
            let given = int(args.at(index + 1))?.max(0) as u64;
            count = if given == 0 { u64::MAX } else { given };
            index += 1;
        } else if is(word, "STREAMS") && more >= 1 {
            if more % 2 == 1 {
                return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.".into());
            }
            streams = Some((index + 1, more / 2));
            break;
        } else if is(word, "GROUP") && more >= 2 {
            if !reads_group {
                return Err(only_group("GROUP"));
            }
            group = Some((args.at(index + 1).to_vec(), args.at(index + 2).to_vec()));
            index += 2;
        } else if is(word, "NOACK") {
            if !reads_group {
                return Err(only_group("NOACK"));
            }
            no_ack = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let (first, number) = streams.ok_or(SYNTAX)?;
    if reads_group && group.is_none() {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    }
    let group = group.map(|(name, consumer)| ReadGroup { name, consumer, no_ack });
    let mut wish = StreamWish { streams: Vec::new(), group, count, timeout };
    for index in first..first + number {
        let (key, id) = (args.at(index), args.at(index + number));
        let from = from(ctx, key, id, wish.group.as_ref())?;
        wish.streams.push((key.to_vec(), from));
    }
    Ok(wish)
}

fn from(ctx: &mut Ctx<'_>, key: &[u8], id: &[u8], group: Option<&ReadGroup>) -> Answer<From> {
    let stream = ctx.read_stream(key)?;
    if let Some(group) = group {
        let found = match stream {
            Some(stream) => stream.group(&mut ctx.keys, &group.name)?,
            None => None,
        };
        if found.is_none() {
            let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(&group.name));
            return Err(format!("NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option").into());
        }
    }
    match id {
        b"$" if group.is_some() => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.".into()),
        b"$" => Ok(From::After(match stream {
            Some(stream) => stream.last_id(ctx.keys.mem)?,
            None => Id::MIN,
        })),
        // As in Redis 7.4: the last entry, if there is one.
        b"+" if group.is_none() => Ok(From::After(match stream {
            Some(stream) => stream.top_id(ctx.keys.mem)?.previous().unwrap_or(Id::MIN),
            None => Id::MIN,
        })),
        b">" if group.is_none() => Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into()),
        b">" => Ok(From::New),
        id => Ok(From::After(strict_id(id)?)),
    }
}

pub(in crate::commands) fn xread(ctx: &mut Ctx<'_>) -> Done {
    if try_read(ctx)?.is_some() {
        ctx.out.null_array();
    }
    Ok(())
}

pub(in crate::commands) fn xreadgroup(ctx: &mut Ctx<'_>) -> Done {
    xread(ctx)
}

/// Answers with what is there. With nothing there, returns what to wait for and answers nothing.
pub(crate) fn try_read(ctx: &mut Ctx<'_>) -> Answer<Option<StreamWish>> {
    let mut wish = parse(ctx)?;
    let mut ready = Vec::new();
    for (key, from) in &wish.streams {
        let Some(stream) = ctx.stream(key)? else { continue };
        let is_history = wish.group.is_some() && *from != From::New;
        if is_history || has_new(ctx, stream, *from, wish.group.as_ref())? {
            ready.push((key.clone(), *from, stream));
        }
    }
    if ready.is_empty() {
        if wish.count == u64::MAX {
            wish.count = COUNT_AFTER_WAIT;
        }
        return Ok(Some(wish));
    }
    head(ctx, ready.len());
    for (key, from, stream) in ready {
        deliver(ctx, &wish, &key, from, stream)?;
    }
    Ok(None)
}

fn head(ctx: &mut Ctx<'_>, streams: usize) {
    match ctx.out.is_resp3 {
        true => ctx.out.map(streams),
        false => ctx.out.array(streams),
    }
}

fn has_new(
    ctx: &mut Ctx<'_>,
    stream: Stream,
    from: From,
    group: Option<&ReadGroup>,
) -> Result<bool, Abort> {
    if stream.len(ctx.keys.mem)? == 0 {
        return Ok(false);
    }
    let after = match (from, group) {
        (From::After(id), _) => id,
        (From::New, Some(group)) => match stream.group(&mut ctx.keys, &group.name)? {
            Some(group) => group.last_id(ctx.keys.mem)?,
            None => return Ok(false),
        },
        (From::New, None) => return Ok(false),
    };
    Ok(stream.top_id(ctx.keys.mem)? > after)
}

/// Gives a client that waits what a stream has. `false` when there is nothing.
pub(crate) fn serve(ctx: &mut Ctx<'_>, wish: &StreamWish, key: &[u8]) -> Answer<bool> {
    let Some((_, from)) = wish.streams.iter().find(|(wanted, _)| wanted == key) else {
        return Ok(false);
    };
    let found = ctx.keys.find(key)?;
    let found = found.filter(|found| found.kind().type_name() == "stream");
    let Some(found) = found else {
        if wish.group.is_some() {
            ctx.out.error("UNBLOCKED the stream key no longer exists");
            return Ok(true);
        }
        return Ok(false);
    };
    let stream = Stream::of(ctx.keys.mem, &found)?;
    if let Some(group) = &wish.group
        && stream.group(&mut ctx.keys, &group.name)?.is_none()
    {
        ctx.out.error("NOGROUP the consumer group this client was blocked on no longer exists");
        return Ok(true);
    }
    if !has_new(ctx, stream, *from, wish.group.as_ref())? {
        return Ok(false);
    }
    head(ctx, 1);
    deliver(ctx, wish, key, *from, stream)?;
    Ok(true)
}

/// Answers with a stream's name and what a reader gets of it.
fn deliver(
    ctx: &mut Ctx<'_>,
    wish: &StreamWish,
    key: &[u8],
    from: From,
    stream: Stream,
) -> Result<(), Abort> {
    if !ctx.out.is_resp3 {
        ctx.out.array(2);
    }
    ctx.out.bulk(key);
    let Some(reader) = &wish.group else {
        let From::After(id) = from else { return Ok(()) };
        let first = id.next().unwrap_or(Id::MAX);
        let entries = stream.range(ctx.keys.mem, (first, Id::MAX), wish.count, false)?;
        push_entries(ctx.out, &entries);
        return Ok(());
    };
    let Some(group) = stream.group(&mut ctx.keys, &reader.name)? else { return Ok(()) };
    let consumer = consumer(ctx, key, group, &reader.consumer)?;
    ctx.keys.changed(key);
    match from {
        From::New => deliver_new(ctx, stream, group, consumer, wish.count, reader.no_ack),
        From::After(id) => deliver_again(ctx, stream, group, consumer, id, wish.count),
    }
}

/// The consumer of that name, which is there from now on.
pub(super) fn consumer(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    group: Group,
    name: &[u8],
) -> Result<Consumer, Abort> {
    let now = ctx.keys.now;
    match group.consumer(&mut ctx.keys, name)? {
        Some(consumer) => {
            consumer.set_seen(ctx.keys.mem, now)?;
            Ok(consumer)
        }
        None => {
            ctx.keys.also(key, "xgroup-createconsumer");
            group.create_consumer(&mut ctx.keys, name, now)
        }
    }
}

fn deliver_new(
    ctx: &mut Ctx<'_>,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    count: u64,
    no_ack: bool,
) -> Result<(), Abort> {
    let now = ctx.keys.now;
    let last = group.last_id(ctx.keys.mem)?;
    let first = last.next().unwrap_or(Id::MAX);
    let entries = stream.range(ctx.keys.mem, (first, Id::MAX), count, false)?;
    push_entries(ctx.out, &entries);
    let mem = &mut *ctx.keys.mem;
    let mut read = group.read(mem)?;
    for (id, _) in &entries {
        read = super::info::read_after(mem, stream, read, *id)?;
        if !no_ack {
            let pending = Pending { id: *id, consumer, delivered: now, deliveries: 1 };
            group.set_pending(mem, pending)?;
        }
    }
    if let Some((id, _)) = entries.last() {
        group.set_last_id(mem, *id)?;
        group.set_read(mem, read)?;
    }
    Ok(())
}

/// Delivers again the entries that a consumer has not acknowledged.
fn deliver_again(
    ctx: &mut Ctx<'_>,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    after: Id,
    count: u64,
) -> Result<(), Abort> {
    let now = ctx.keys.now;
    // Redis begins anew behind the largest ID.
    let first = after.next().unwrap_or(Id::MIN);
    let ids = consumer.ids_from(ctx.keys.mem, first, count)?;
    ctx.out.array(ids.len());
    for id in ids {
        match stream.get(ctx.keys.mem, id)? {
            Some(fields) => {
                if let Some((_, pending)) = group.pending(ctx.keys.mem, id)? {
                    let deliveries = pending.deliveries + 1;
                    let again = Pending { delivered: now, deliveries, ..pending };
                    group.set_pending(ctx.keys.mem, again)?;
                }
                push_entry(ctx.out, &(id, fields));
            }
            None => {
                ctx.out.array(2);
                push_id(ctx.out, id);
                ctx.out.null_array();
            }
        }
    }
    Ok(())
}
