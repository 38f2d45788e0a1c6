//! Streams: adding, reading ranges, deleting, trimming.

mod groups;
mod info;
mod parse;
mod read;

use outlast::Abort;

pub(super) use groups::{xack, xautoclaim, xclaim, xgroup, xpending};
pub(super) use info::xinfo;
pub(crate) use read::{StreamWish, has_block, serve, try_read};
pub(super) use read::{xread, xreadgroup};

use crate::commands::{Answer, Ctx, Done, NO_SUCH_KEY, SYNTAX, is};
use crate::resp::Reply;
use crate::store::blob;
use crate::store::stream::{Id, Stream, StreamEntry};
use parse::{AddId, Trim, add_options, bound, strict_id};

/// Entries that approximate trimming removes together, as a node of Redis has, unless that is set.
const NODE_ENTRIES: u64 = 100;
/// Nodes that approximate trimming removes at most, unless `LIMIT` says how many entries.
const NODES_A_TRIM: u64 = 100;
/// Bytes of an entry.
const ENTRY_BYTES_MAX: usize = 512 << 20;

impl Ctx<'_> {
    /// The stream at a key, for a command that changes it.
    fn stream(&mut self, key: &[u8]) -> Answer<Option<Stream>> {
        match self.typed(key, "stream")? {
            Some(found) => Ok(Some(Stream::of(self.keys.mem, &found)?)),
            None => Ok(None),
        }
    }

    /// The stream at a key, for a command that reads.
    fn read_stream(&mut self, key: &[u8]) -> Answer<Option<Stream>> {
        match self.read(key, "stream")? {
            Some(found) => Ok(Some(Stream::of(self.keys.mem, &found)?)),
            None => Ok(None),
        }
    }
}

fn push_id(out: &mut Reply, id: Id) {
    out.bulk(id.to_string().as_bytes());
}

fn push_fields(out: &mut Reply, fields: &[u8]) {
    out.array(blob::items(fields).count());
    blob::items(fields).for_each(|item| out.bulk(item));
}

fn push_entry(out: &mut Reply, (id, fields): &StreamEntry) {
    out.array(2);
    push_id(out, *id);
    push_fields(out, fields);
}

fn push_entries(out: &mut Reply, entries: &[StreamEntry]) {
    out.array(entries.len());
    entries.iter().for_each(|entry| push_entry(out, entry));
}

pub(super) fn xadd(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let options = add_options(args, true)?;
    let fields_at = options.next;
    let words = args.len() - fields_at;
    if words < 2 || words % 2 == 1 {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if options.id == (AddId::Whole(Id::MIN)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let key = args.at(1);
    let found = ctx.stream(key)?;
    let last = match found {
        Some(stream) => stream.last_id(ctx.keys.mem)?,
        None => Id::MIN,
    };
    if found.is_none() && options.no_stream {
        ctx.out.null();
        return Ok(());
    }
    if last == Id::MAX {
        return Err(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into()
        );
    }
    let id = match options.id {
        AddId::Auto if ctx.keys.now > last.ms => Some(Id { ms: ctx.keys.now, number: 0 }),
        AddId::Auto => last.next(),
        AddId::Of(ms) if ms == last.ms => {
            last.number.checked_add(1).map(|number| Id { ms, number })
        }
        AddId::Of(ms) => Some(Id { ms, number: 0 }),
        AddId::Whole(id) => Some(id),
    };
    let Some(id) = id.filter(|id| *id > last) else {
        return Err(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
                .into(),
        );
    };
    let fields = args.from(fields_at);
    if fields.iter().map(<[u8]>::len).sum::<usize>() > ENTRY_BYTES_MAX {
        return Err("ERR Elements are too large to be stored".into());
    }
    let mut bytes = Vec::new();
    fields.iter().for_each(|word| blob::push(&mut bytes, word));
    let stream = match found {
        Some(stream) => {
            ctx.keys.changed(key);
            stream
        }
        None => Stream::create_at(&mut ctx.keys, key)?,
    };
    stream.append(ctx.keys.mem, id, &bytes)?;
    let trimmed = trim(ctx, stream, &options.trim)?;
    if trimmed > 0 {
        ctx.keys.also(key, "xtrim");
    }
    push_id(ctx.out, id);
    Ok(())
}

/// Trims a stream. Returns how many entries went.
fn trim(ctx: &mut Ctx<'_>, stream: Stream, trim: &Trim) -> Result<u64, Abort> {
    let node = ctx.keys.changes.stream_node_entries.unwrap_or(NODE_ENTRIES);
    let mem = &mut *ctx.keys.mem;
    let (over, is_about, limit) = match *trim {
        Trim::None => return Ok(0),
        Trim::Len { len, is_about, limit } => {
            (stream.len(mem)?.saturating_sub(len), is_about, limit)
        }
        Trim::Least { id, is_about, limit } => (stream.rank(mem, id)?, is_about, limit),
    };
    let mut count = over;
    if is_about {
        // The last node may have fewer entries, and goes with all others or not at all.
        let limit = limit.unwrap_or(node.saturating_mul(NODES_A_TRIM));
        let goes_whole = over == stream.len(mem)? && (limit == 0 || over <= limit);
        if !goes_whole {
            let most = if limit == 0 { over } else { over.min(limit) };
            count = most - most % node;
        }
    }
    if count > 0 {
        stream.trim(&mut ctx.keys, count)?;
    }
    Ok(count)
}

pub(super) fn xtrim(ctx: &mut Ctx<'_>) -> Done {
    let options = add_options(ctx.args, false)?;
    let key = ctx.args.at(1);
    let mut gone = 0;
    if let Some(stream) = ctx.stream(key)? {
        gone = trim(ctx, stream, &options.trim)?;
        if gone > 0 {
            ctx.keys.changed(key);
        }
    }
    ctx.out.int(gone as i64);
    Ok(())
}

pub(super) fn xlen(ctx: &mut Ctx<'_>) -> Done {
    let len = match ctx.read_stream(ctx.args.at(1))? {
        Some(stream) => stream.len(ctx.keys.mem)?,
        None => 0,
    };
    ctx.out.int(len as i64);
    Ok(())
}

fn range(ctx: &mut Ctx<'_>, is_backward: bool) -> Done {
    let args = ctx.args;
    let (from, to) = if is_backward { (3, 2) } else { (2, 3) };
    let (from, to) = (bound(args.at(from), true)?, bound(args.at(to), false)?);
    let (mut count, mut index) = (None, 4);
    while let Some(word) = args.get(index) {
        if !is(word, "COUNT") || index + 1 >= args.len() {
            return Err(SYNTAX.into());
        }
        count = Some(ctx.int_arg(index + 1)?.max(0) as u64);
        index += 2;
    }
    let Some(stream) = ctx.read_stream(args.at(1))? else {
        ctx.out.array(0);
        return Ok(());
    };
    if count == Some(0) {
        ctx.out.null_array();
        return Ok(());
    }
    let entries = stream.range(ctx.keys.mem, (from, to), count.unwrap_or(u64::MAX), is_backward)?;
    push_entries(ctx.out, &entries);
    Ok(())
}

pub(super) fn xrange(ctx: &mut Ctx<'_>) -> Done {
    range(ctx, false)
}

pub(super) fn xrevrange(ctx: &mut Ctx<'_>) -> Done {
    range(ctx, true)
}

pub(super) fn xdel(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let mut gone = 0;
    if let Some(stream) = ctx.stream(key)? {
        let ids = ctx.args.from(2).iter().map(strict_id).collect::<Answer<Vec<Id>>>()?;
        for id in ids {
            gone += i64::from(stream.delete(ctx.keys.mem, id)?);
        }
        if gone > 0 {
            ctx.keys.changed(key);
        }
    }
    ctx.out.int(gone);
    Ok(())
}

pub(super) fn xsetid(ctx: &mut Ctx<'_>) -> Done {
    let args = ctx.args;
    let id = strict_id(args.at(2))?;
    let (mut added, mut deleted, mut index) = (None, Id::MIN, 3);
    while index < args.len() {
        let has_value = index + 1 < args.len();
        if has_value && is(args.at(index), "ENTRIESADDED") {
            let value = ctx.int_arg(index + 1)?;
            let value = u64::try_from(value).map_err(|_| "ERR entries_added must be positive")?;
            added = Some(value);
        } else if has_value && is(args.at(index), "MAXDELETEDID") {
            deleted = strict_id(args.at(index + 1))?;
            if id < deleted {
                return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
            }
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let key = args.at(1);
    let stream = ctx.stream(key)?.ok_or(NO_SUCH_KEY)?;
    let mem = &mut *ctx.keys.mem;
    let len = stream.len(mem)?;
    if len > 0 {
        if id < stream.top_id(mem)? {
            return Err(
                "ERR The ID specified in XSETID is smaller than the target stream top item".into(),
            );
        }
        if added.is_some_and(|added| added < len) {
            return Err("ERR The entries_added specified in XSETID is smaller than the target stream length".into());
        }
    }
    stream.set_last_id(mem, id)?;
    if let Some(added) = added {
        stream.set_added(mem, added)?;
    }
    if deleted != Id::MIN {
        stream.set_deleted_id(mem, deleted)?;
    }
    ctx.keys.changed(key);
    ctx.out.ok();
    Ok(())
}
