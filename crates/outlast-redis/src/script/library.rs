//! Libraries that scripts have beside Lua's own: SHA-1, bits, JSON.

use std::sync::Arc;

use mlua::{Lua, LuaString, Table, Value};
use sha1::{Digest, Sha1};

use super::Guard;
use crate::number::general;

/// The functions that the sandbox is given.
pub(super) fn host(lua: &Lua) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("version", super::VERSION)?;
    let number = super::VERSION.split('.').filter_map(|part| part.parse::<u32>().ok());
    host.raw_set("version_number", number.fold(0, |number, part| number << 8 | part))?;
    let hash = |_: &Lua, text: LuaString| Ok(sha1_hex(&text.as_bytes()));
    host.raw_set("sha1hex", lua.create_function(hash)?)?;
    host.raw_set("log", lua.create_function(log)?)?;
    host.raw_set("bit", bits(lua)?)?;
    host.raw_set("cjson", json(lua)?)?;
    host.raw_set("cmsgpack", super::msgpack::library(lua)?)?;
    host.raw_set("struct", super::structs::library(lua)?)?;
    Ok(host)
}

/// A script's name: SHA-1 of its text in hexadecimal digits.
pub(super) fn sha1_hex(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Levels from this one on are told: `redis.LOG_NOTICE`.
const LEVEL_MIN: i64 = 2;
/// Bytes of a message, as in Redis.
const LOG_BYTES_MAX: usize = 1024;

fn log(_: &Lua, (level, text): (i64, LuaString)) -> mlua::Result<()> {
    if level >= LEVEL_MIN {
        let bytes = text.as_bytes();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOG_BYTES_MAX)]).into_owned();
        eprintln!("redis.log: {}", text.escape_debug());
    }
    Ok(())
}

/// A number's lower 32 bits.
fn to_bits(number: f64) -> u32 {
    number.round_ties_even().rem_euclid(4_294_967_296.0) as u32
}

fn from_bits(bits: u32) -> f64 {
    f64::from(bits as i32)
}

/// As Mike Pall's BitOp.
fn bits(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    let one = |name: &str, run: fn(u32) -> u32| {
        let run = move |_: &Lua, number: f64| Ok(from_bits(run(to_bits(number))));
        bit.raw_set(name, lua.create_function(run)?)
    };
    one("tobit", |bits| bits)?;
    one("bnot", |bits| !bits)?;
    one("bswap", u32::swap_bytes)?;
    let all = |name: &str, run: fn(u32, u32) -> u32| {
        let run = move |_: &Lua, (first, rest): (f64, mlua::Variadic<f64>)| {
            let bits = rest.iter().fold(to_bits(first), |bits, next| run(bits, to_bits(*next)));
            Ok(from_bits(bits))
        };
        bit.raw_set(name, lua.create_function(run)?)
    };
    all("band", |a, b| a & b)?;
    all("bor", |a, b| a | b)?;
    all("bxor", |a, b| a ^ b)?;
    let shift = |name: &str, run: fn(u32, u32) -> u32| {
        let run = move |_: &Lua, (number, by): (f64, f64)| {
            Ok(from_bits(run(to_bits(number), to_bits(by) & 31)))
        };
        bit.raw_set(name, lua.create_function(run)?)
    };
    shift("lshift", |bits, by| bits << by)?;
    shift("rshift", |bits, by| bits >> by)?;
    shift("arshift", |bits, by| ((bits as i32) >> by) as u32)?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    let hex = |_: &Lua, (number, digits): (f64, Option<f64>)| {
        let digits = digits.unwrap_or(8.0);
        let count = (digits.abs() as usize).min(8);
        let text = format!("{:08x}", to_bits(number));
        let text = &text[8 - count..];
        Ok(if digits < 0.0 { text.to_uppercase() } else { text.to_owned() })
    };
    bit.raw_set("tohex", lua.create_function(hex)?)?;
    Ok(bit)
}

/// Tables in tables.
const DEPTH_MAX: usize = 200;

fn json(lua: &Lua) -> mlua::Result<Table> {
    let json = lua.create_table()?;
    json.raw_set("null", Value::NULL)?;
    let encode = |lua: &Lua, value: Value| {
        let guard = lua.app_data_ref::<Arc<Guard>>();
        let guard = guard.ok_or_else(|| mlua::Error::runtime("cjson.encode: no script runs"))?;
        let mut text = Vec::new();
        encode(&value, &mut text, &guard, 0)?;
        lua.create_string(text)
    };
    json.raw_set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: LuaString| {
        let value = serde_json::from_slice(&text.as_bytes())
            .map_err(|error| mlua::Error::runtime(format!("cjson.decode: {error}")))?;
        decode(lua, value)
    };
    json.raw_set("decode", lua.create_function(decode)?)?;
    Ok(json)
}

fn encode(value: &Value, text: &mut Vec<u8>, guard: &Guard, depth: usize) -> mlua::Result<()> {
    let refused = |what: &str| Err(mlua::Error::runtime(format!("Cannot serialise {what}")));
    match value {
        Value::Nil => text.extend_from_slice(b"null"),
        value if value.is_null() => text.extend_from_slice(b"null"),
        Value::Boolean(value) => text.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Integer(value) => encode_number(*value as f64, text),
        Value::Number(value) if value.is_finite() => encode_number(*value, text),
        Value::Number(_) => return refused("number: must not be NaN or Inf"),
        Value::String(value) => encode_string(&value.as_bytes(), text),
        Value::Table(_) if depth >= DEPTH_MAX => {
            return refused(&format!("table, excessive depth ({})", depth + 1));
        }
        Value::Table(table) => return encode_table(table, text, guard, depth + 1),
        other => return refused(&format!("{}: type not supported", other.type_name())),
    }
    Ok(())
}

/// Fourteen digits, as `cjson` prints them.
fn encode_number(value: f64, text: &mut Vec<u8>) {
    text.extend_from_slice(general(value, 14).as_bytes());
}

fn encode_string(bytes: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0x08 => text.extend_from_slice(b"\\b"),
            0x0c => text.extend_from_slice(b"\\f"),
            0..=0x1f | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}

/// An array has positive whole keys only, and at most as many holes as items; what has no key is an object.
fn encode_table(
    table: &Table,
    text: &mut Vec<u8>,
    guard: &Guard,
    depth: usize,
) -> mlua::Result<()> {
    guard.check()?;
    if text.len() > super::MEMORY_BYTES_MAX {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    const SPARSE_FROM: i64 = 10;
    let (mut largest, mut count, mut is_array) = (0, 0, true);
    let mut pairs = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        match key {
            Value::Integer(index) if index > 0 => largest = largest.max(index),
            _ => is_array = false,
        }
        count += 1;
        pairs.push((key, value));
    }
    if is_array && count > 0 {
        if largest > SPARSE_FROM && largest > count * 2 {
            return Err(mlua::Error::runtime("Cannot serialise table: excessively sparse array"));
        }
        text.push(b'[');
        for index in 1..=largest {
            if index > 1 {
                text.push(b',');
            }
            encode(&table.raw_get::<Value>(index)?, text, guard, depth)?;
        }
        text.push(b']');
        return Ok(());
    }
    text.push(b'{');
    for (index, (key, value)) in pairs.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        match key {
            Value::String(key) => encode_string(&key.as_bytes(), text),
            Value::Integer(key) => encode_string(key.to_string().as_bytes(), text),
            Value::Number(key) => encode_string(general(key, 14).as_bytes(), text),
            _ => {
                return Err(mlua::Error::runtime(
                    "Cannot serialise table: key must be a number or string",
                ));
            }
        }
        text.push(b':');
        encode(&value, text, guard, depth)?;
    }
    text.push(b'}');
    Ok(())
}

fn decode(lua: &Lua, value: serde_json::Value) -> mlua::Result<Value> {
    Ok(match value {
        serde_json::Value::Null => Value::NULL,
        serde_json::Value::Bool(value) => Value::Boolean(value),
        serde_json::Value::Number(value) => Value::Number(value.as_f64().unwrap_or_default()),
        serde_json::Value::String(value) => Value::String(lua.create_string(value)?),
        serde_json::Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in (1..).zip(items) {
                table.raw_set(index, decode(lua, item)?)?;
            }
            Value::Table(table)
        }
        serde_json::Value::Object(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(name, decode(lua, member)?)?;
            }
            Value::Table(table)
        }
    })
}
