//! Answers become values of Lua, and values become answers, as Redis converts them.

use mlua::{Lua, LuaString, Table, Value};

use super::Guard;
use crate::number::{parse_double, parse_int};
use crate::resp::Reply;

/// Tables in tables that an answer may have.
const DEPTH_MAX: usize = 200;
/// Bytes of an answer: tables that hold each other's copies grow without a bound of memory.
const ANSWER_BYTES_MAX: usize = 512 << 20;

/// The value of the answer at the front of these bytes, and what follows it.
pub(super) fn to_lua<'b>(lua: &Lua, bytes: &'b [u8]) -> mlua::Result<(Value, &'b [u8])> {
    let end = bytes.windows(2).position(|end| end == b"\r\n").unwrap_or(bytes.len());
    let (line, rest) = (&bytes[1.min(end)..end], &bytes[(end + 2).min(bytes.len())..]);
    let count = || parse_int(line).and_then(|count| usize::try_from(count).ok());
    let field = |name: &str, value: Value| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok::<_, mlua::Error>(Value::Table(table))
    };
    let text = |text: &[u8]| Ok::<_, mlua::Error>(Value::String(lua.create_string(text)?));
    let value = match bytes.first() {
        Some(b'+') => field("ok", text(line)?)?,
        Some(b'-') => field("err", text(line)?)?,
        Some(b':') => Value::Number(parse_int(line).unwrap_or_default() as f64),
        Some(b',') => field("double", Value::Number(parse_double(line).unwrap_or_default()))?,
        Some(b'$') => {
            let Some(len) = count() else { return Ok((Value::Boolean(false), rest)) };
            return Ok((text(&rest[..len])?, &rest[len + 2..]));
        }
        Some(b'=') => {
            let Some(len) = count() else { return Ok((Value::Nil, rest)) };
            let string = lua.create_table()?;
            string.raw_set("format", text(&rest[..3])?)?;
            string.raw_set("string", text(&rest[4..len])?)?;
            return Ok((field("verbatim_string", Value::Table(string))?, &rest[len + 2..]));
        }
        Some(b'*') => {
            let Some(len) = count() else { return Ok((Value::Boolean(false), rest)) };
            let (table, mut rest) = (lua.create_table_with_capacity(len, 0)?, rest);
            for index in 1..=len {
                let (item, after) = to_lua(lua, rest)?;
                table.raw_set(index, item)?;
                rest = after;
            }
            return Ok((Value::Table(table), rest));
        }
        Some(kind @ (b'%' | b'~')) => {
            let (table, mut rest) = (lua.create_table()?, rest);
            for _ in 0..count().unwrap_or_default() {
                let (key, after) = to_lua(lua, rest)?;
                let (value, after) = match kind {
                    b'%' => to_lua(lua, after)?,
                    _ => (Value::Boolean(true), after),
                };
                table.raw_set(key, value)?;
                rest = after;
            }
            let name = if *kind == b'%' { "map" } else { "set" };
            return Ok((field(name, Value::Table(table))?, rest));
        }
        // Version 3's null.
        _ => Value::Nil,
    };
    Ok((value, rest))
}

/// A script's answer. `is_resp3` is the version that the script has chosen, the reply's is its client's.
///
/// # Errors
/// The answer in its place.
pub(super) fn to_reply(
    value: &Value,
    is_resp3: bool,
    guard: &Guard,
    out: &mut Reply,
) -> Result<(), String> {
    let from = out.bytes.len();
    push(value, &Answer { is_resp3, guard, from }, out, 0)
}

/// An answer that grows.
struct Answer<'g> {
    is_resp3: bool,
    guard: &'g Guard,
    /// Where it begins.
    from: usize,
}

fn push(value: &Value, answer: &Answer<'_>, out: &mut Reply, depth: usize) -> Result<(), String> {
    if out.bytes.len() - answer.from > ANSWER_BYTES_MAX {
        return Err("ERR the script's answer is longer than 512 MiB".to_owned());
    }
    match value {
        Value::String(text) => out.bulk(&text.as_bytes()),
        Value::Integer(number) => out.int(*number),
        // Redis drops the fraction.
        Value::Number(number) => out.int(truncated(*number)),
        Value::Boolean(is_true) if answer.is_resp3 => out.boolean(*is_true),
        Value::Boolean(true) => out.int(1),
        Value::Table(_) if depth == DEPTH_MAX => out.error("ERR reached lua stack limit"),
        Value::Table(table) => return push_table(table, answer, out, depth + 1),
        _ => out.null(),
    }
    Ok(())
}

fn push_table(
    table: &Table,
    answer: &Answer<'_>,
    out: &mut Reply,
    depth: usize,
) -> Result<(), String> {
    answer.guard.check().map_err(|error| error.to_string())?;
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if let Value::String(text) = field("err") {
        out.error(text.to_string_lossy().trim_start_matches('-'));
    } else if let Value::String(text) = field("ok") {
        out.simple(&text.to_string_lossy().replace(['\r', '\n'], " "));
    } else if let number @ (Value::Integer(_) | Value::Number(_)) = field("double") {
        out.double(number.as_f64().unwrap_or_default());
    } else if let Value::Table(map) = field("map") {
        let pairs: Vec<_> = map.pairs::<Value, Value>().flatten().collect();
        out.map(pairs.len());
        for (key, value) in pairs {
            push(&key, answer, out, depth)?;
            push(&value, answer, out, depth)?;
        }
    } else if let Value::Table(set) = field("set") {
        let members: Vec<_> = set.pairs::<Value, Value>().flatten().collect();
        out.set(members.len());
        for (member, _) in members {
            push(&member, answer, out, depth)?;
        }
    } else if let Value::Table(text) = field("verbatim_string") {
        let text = text.raw_get::<LuaString>("string");
        out.verbatim(&text.map_or_else(|_| String::new(), |text| text.to_string_lossy()));
    } else {
        let items: Vec<Value> = (1..)
            .map(|index| table.raw_get::<Value>(index).unwrap_or(Value::Nil))
            .take_while(|item| !item.is_nil())
            .collect();
        out.array(items.len());
        for item in &items {
            push(item, answer, out, depth)?;
        }
    }
    Ok(())
}

/// As processors convert where C leaves it open: a number beyond all integers becomes the least.
fn truncated(number: f64) -> i64 {
    let whole = number.trunc();
    let fits = (i64::MIN as f64..i64::MAX as f64).contains(&whole);
    if fits { whole as i64 } else { i64::MIN }
}
