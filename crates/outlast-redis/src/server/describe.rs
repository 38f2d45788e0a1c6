//! `COMMAND`: the table of commands, told.

use crate::commands::{self, Command, Run, SessionRun, is};
use crate::resp::{Args, Reply};

/// Answers `COMMAND` with its words.
pub(super) fn command(out: &mut Reply, args: Args<'_>) {
    let sub = args.at(1);
    if args.len() == 1 {
        out.array(commands::commands().len());
        commands::commands().iter().for_each(|command| describe(out, command));
    } else if is(sub, "COUNT") {
        out.len(commands::commands().len());
    } else if is(sub, "LIST") {
        let names: Vec<&str> = commands::commands().iter().map(|row| row.name).collect();
        out.bulks(&names);
    } else if is(sub, "INFO") {
        let wanted = args.from(2);
        if wanted.is_empty() {
            return command(out, args.first());
        }
        out.array(wanted.len());
        for name in wanted.iter() {
            match commands::find(name) {
                Some(command) => describe(out, command),
                None => out.null_array(),
            }
        }
    } else if is(sub, "DOCS") {
        let wanted = args.from(2);
        let rows: Vec<&Command> = match wanted.is_empty() {
            true => commands::commands().iter().collect(),
            false => wanted.iter().filter_map(commands::find).collect(),
        };
        out.map(rows.len());
        for row in rows {
            out.bulk(row.name.as_bytes());
            out.map(2);
            out.bulk(b"group");
            out.bulk(row.group.as_bytes());
            out.bulk(b"arity");
            out.int(row.arity.into());
        }
    } else if is(sub, "GETKEYS") && args.len() > 2 {
        let found = commands::find(args.at(2));
        let words = args.from(2);
        let Some(row) = found else {
            return out.error("ERR Invalid command specified");
        };
        if row.keys.0 == 0 && counted_at(row).is_none() && streams_from(row).is_none() {
            return out.error("ERR The command has no key arguments");
        }
        if !row.takes(words.len()) {
            return out.error("ERR Invalid number of arguments specified for command");
        }
        if let Some(from) = streams_from(row) {
            let streams = (from..words.len()).find(|at| is(words.at(*at), "STREAMS"));
            let first = streams.map_or(words.len(), |at| at + 1);
            let keys: Vec<&[u8]> =
                (first..first + (words.len() - first) / 2).map(|at| words.at(at)).collect();
            return match keys.is_empty() {
                true => out.error("ERR Invalid arguments specified for command"),
                false => out.bulks(&keys),
            };
        }
        let (first, last, step) = match counted_at(row) {
            Some(at) => {
                let count = words.at(at);
                let count = count.strip_prefix(b"+").unwrap_or(count);
                let digits = count.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let digits = std::str::from_utf8(&count[..digits]).unwrap_or_default();
                let keys = digits.parse::<i64>().ok().filter(|keys| *keys > 0);
                let keys = keys.filter(|keys| (0..(words.len() - at) as i64).contains(keys));
                let Some(keys) = keys else {
                    return match row.run {
                        Run::Session(SessionRun::Eval) => out.array(0),
                        _ => out.error("ERR Invalid arguments specified for command"),
                    };
                };
                (at as i32 + 1, at as i32 + keys as i32, 1)
            }
            None => row.keys,
        };
        let last = if last < 0 { words.len() as i32 + last } else { last };
        let places = (first..=last).step_by(step.max(1) as usize);
        let mut keys: Vec<&[u8]> = places.map(|at| words.at(at as usize)).collect();
        if counted_at(row) == Some(2) && row.keys.0 == 1 {
            // The destination stands before the number of keys.
            keys.insert(0, words.at(1));
        }
        if keys.is_empty() {
            return out.error("ERR The command has no key arguments");
        }
        if row.name == "sort" {
            // The last one counts.
            let store = (2..words.len() - 1).rev().find(|at| is(words.at(*at), "STORE"));
            keys.extend(store.map(|at| words.at(at + 1)));
        }
        out.bulks(&keys);
    } else {
        out.error("ERR there are COMMAND COUNT, LIST, INFO, DOCS and GETKEYS");
    }
}

/// The word from which on `STREAMS` is looked for, in whose rest the first half are keys.
fn streams_from(row: &Command) -> Option<usize> {
    match row.name {
        "xread" => Some(1),
        "xreadgroup" => Some(4),
        _ => None,
    }
}

/// Which word says how many keys follow it, if one does.
fn counted_at(row: &Command) -> Option<usize> {
    match row.name {
        "zunion" | "zinter" | "zdiff" | "zintercard" | "sintercard" | "lmpop" | "zmpop" => Some(1),
        "zunionstore" | "zinterstore" | "zdiffstore" | "blmpop" | "bzmpop" => Some(2),
        _ if matches!(row.run, Run::Session(SessionRun::Eval)) => Some(2),
        _ => None,
    }
}

fn describe(out: &mut Reply, command: &Command) {
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.int(command.arity.into());
    out.set(command.flags.len());
    command.flags.iter().for_each(|flag| out.simple(flag));
    let (first, last, step) = command.keys;
    for number in [first, last, step] {
        out.int(number.into());
    }
    let speed = if command.has_flag("fast") { "@fast" } else { "@slow" };
    let categories = [
        command.has_flag("write").then_some("@write"),
        command.has_flag("readonly").then_some("@read"),
        command.has_flag("blocking").then_some("@blocking"),
        command.has_flag("admin").then_some("@admin"),
        Some(speed),
    ];
    out.set(categories.iter().flatten().count());
    categories.iter().flatten().for_each(|category| out.simple(category));
    // Tips, specifications of keys, subcommands.
    (0..3).for_each(|_| out.array(0));
}
