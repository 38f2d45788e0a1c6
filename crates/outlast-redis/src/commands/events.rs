//! Events of commands, for notifications: a command's name tells what a change of a key is called.

use super::is;
use crate::resp::Args;
use crate::store::{Changes, Event, Fact};

/// The class and name of a command's event on a key that it leaves there.
fn event_of(command: &str, args: Args<'_>) -> Option<(char, &'static str)> {
    Some(match command {
        "set" | "setnx" | "setex" | "psetex" | "getset" | "mset" | "msetnx" | "bitop" => {
            ('$', "set")
        }
        "append" => ('$', "append"),
        "setrange" => ('$', "setrange"),
        "incr" | "decr" | "incrby" | "decrby" => ('$', "incrby"),
        "incrbyfloat" => ('$', "incrbyfloat"),
        "setbit" | "bitfield" => ('$', "setbit"),
        "getex" if is(args.at(2), "PERSIST") => ('g', "persist"),
        "getex" => ('g', "expire"),
        "hset" | "hmset" | "hsetnx" => ('h', "hset"),
        "hincrby" => ('h', "hincrby"),
        "hincrbyfloat" => ('h', "hincrbyfloat"),
        "hdel" => ('h', "hdel"),
        "lpush" | "lpushx" => ('l', "lpush"),
        "rpush" | "rpushx" => ('l', "rpush"),
        "lpop" | "blpop" => ('l', "lpop"),
        "rpop" | "brpop" => ('l', "rpop"),
        "lmpop" | "blmpop" => match args.iter().any(|word| is(word, "LEFT")) {
            true => ('l', "lpop"),
            false => ('l', "rpop"),
        },
        "linsert" => ('l', "linsert"),
        "lset" => ('l', "lset"),
        "lrem" => ('l', "lrem"),
        "ltrim" => ('l', "ltrim"),
        "sort" => ('l', "sortstore"),
        "sadd" => ('s', "sadd"),
        "srem" => ('s', "srem"),
        "spop" => ('s', "spop"),
        "sinterstore" => ('s', "sinterstore"),
        "sunionstore" => ('s', "sunionstore"),
        "sdiffstore" => ('s', "sdiffstore"),
        "zadd" if args.iter().skip(2).any(|word| is(word, "INCR")) => ('z', "zincr"),
        "zadd" => ('z', "zadd"),
        "zincrby" => ('z', "zincr"),
        "zrem" => ('z', "zrem"),
        "zremrangebyrank" => ('z', "zremrangebyrank"),
        "zremrangebyscore" => ('z', "zremrangebyscore"),
        "zremrangebylex" => ('z', "zremrangebylex"),
        "zpopmin" | "bzpopmin" => ('z', "zpopmin"),
        "zpopmax" | "bzpopmax" => ('z', "zpopmax"),
        "zmpop" | "bzmpop" => match args.iter().any(|word| is(word, "MIN")) {
            true => ('z', "zpopmin"),
            false => ('z', "zpopmax"),
        },
        "zunionstore" => ('z', "zunionstore"),
        "zinterstore" => ('z', "zinterstore"),
        "zdiffstore" => ('z', "zdiffstore"),
        "zrangestore" => ('z', "zrangestore"),
        "copy" => ('g', "copy_to"),
        "restore" | "restore-asking" => ('g', "restore"),
        "expire" | "pexpire" | "expireat" | "pexpireat" => ('g', "expire"),
        "persist" => ('g', "persist"),
        "xadd" => ('t', "xadd"),
        "xdel" => ('t', "xdel"),
        "xtrim" => ('t', "xtrim"),
        "xsetid" => ('t', "xsetid"),
        "xgroup" => match () {
            () if is(args.at(1), "CREATE") => ('t', "xgroup-create"),
            () if is(args.at(1), "SETID") => ('t', "xgroup-setid"),
            () if is(args.at(1), "DESTROY") => ('t', "xgroup-destroy"),
            () if is(args.at(1), "CREATECONSUMER") => ('t', "xgroup-createconsumer"),
            () => ('t', "xgroup-delconsumer"),
        },
        _ => return None,
    })
}

/// Whether the command takes parts out of a value: its event comes before that of the key's end.
fn takes_parts(name: &str) -> bool {
    matches!(
        name,
        "hdel"
            | "lpop"
            | "rpop"
            | "lrem"
            | "ltrim"
            | "srem"
            | "spop"
            | "zrem"
            | "zpopmin"
            | "zpopmax"
    ) || name.starts_with("zremrange")
}

/// Whether a word of `SET`'s kin sets a deadline.
fn sets_deadline(command: &str, args: Args<'_>) -> bool {
    let options = ["EX", "PX", "EXAT", "PXAT"];
    match command {
        "setex" | "psetex" => true,
        "set" => args.from(3).iter().any(|word| options.iter().any(|option| is(word, option))),
        _ => false,
    }
}

/// The outcome for a key.
struct Outcome {
    database: usize,
    key: Vec<u8>,
    is_new: bool,
    is_changed: bool,
    is_removed: bool,
    others: Vec<Fact>,
}

/// Makes events of what a command has done.
pub(crate) fn settle(changes: &mut Changes, command: &str, args: Args<'_>) {
    if changes.facts.is_empty() {
        return;
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (database, key, fact) in std::mem::take(&mut changes.facts) {
        let known = outcomes.iter().position(|one| one.database == database && one.key == key);
        let at = known.unwrap_or_else(|| {
            let (is_new, is_changed, is_removed) = Default::default();
            let others = Vec::new();
            outcomes.push(Outcome { database, key, is_new, is_changed, is_removed, others });
            outcomes.len() - 1
        });
        let one = &mut outcomes[at];
        match fact {
            Fact::Added => one.is_new = true,
            Fact::Changed => (one.is_changed, one.is_removed) = (true, false),
            Fact::Removed => (one.is_changed, one.is_removed) = (false, true),
            other => one.others.push(other),
        }
    }
    let moves =
        command.starts_with("lmove") || matches!(command, "rpoplpush" | "blmove" | "brpoplpush");
    if moves {
        // The push is told before the pop.
        outcomes.reverse();
    }
    let count = outcomes.len();
    for (index, one) in outcomes.into_iter().enumerate() {
        let mut tell = |class: char, name: &'static str| {
            let key = one.key.clone();
            changes.events.push(Event { database: one.database, key, class, name });
        };
        for other in &one.others {
            match other {
                Fact::Expired => tell('x', "expired"),
                Fact::Missed => tell('m', "keymiss"),
                _ => {}
            }
        }
        if one.is_new {
            tell('n', "new");
        }
        if moves {
            moved(command, args, (index, count), one.is_removed, &mut tell);
        } else {
            told(command, args, &one, &mut tell);
        }
        for other in &one.others {
            if let Fact::Also(name) = other {
                tell('t', name);
            }
        }
    }
}

/// Events of a move between lists, of which the target comes first.
fn moved(
    command: &str,
    args: Args<'_>,
    (index, count): (usize, usize),
    is_removed: bool,
    tell: &mut dyn FnMut(char, &'static str),
) {
    let words: Vec<&str> = command.split(' ').collect();
    let (out_of_left, into_left) = match (command, words.as_slice()) {
        ("lmove" | "blmove", _) => (is(args.at(3), "LEFT"), is(args.at(4), "LEFT")),
        (_, [_, out_of, into]) => (*out_of == "left", *into == "left"),
        _ => (false, true),
    };
    if index == 0 {
        tell('l', if into_left { "lpush" } else { "rpush" });
    }
    if index + 1 == count {
        tell('l', if out_of_left { "lpop" } else { "rpop" });
    }
    if is_removed {
        tell('g', "del");
    }
}

fn told(command: &str, args: Args<'_>, one: &Outcome, tell: &mut dyn FnMut(char, &'static str)) {
    let is_first = one.key == args.at(1);
    match command {
        "rename" | "renamenx" if one.is_removed && is_first => return tell('g', "rename_from"),
        "rename" | "renamenx" if one.is_changed => return tell('g', "rename_to"),
        "move" if one.is_removed => return tell('g', "move_from"),
        "move" if one.is_changed => return tell('g', "move_to"),
        "smove" if one.is_changed && !is_first => return tell('s', "sadd"),
        "smove" if one.is_changed || one.is_removed => tell('s', "srem"),
        _ => {}
    }
    let event = event_of(command, args);
    if let Some((class, name)) = event
        && (one.is_changed || one.is_removed && takes_parts(name))
    {
        tell(class, name);
    }
    if one.is_changed && sets_deadline(command, args) {
        tell('g', "expire");
    }
    if one.is_removed {
        tell('g', "del");
    }
}
