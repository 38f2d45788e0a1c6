//! `cmsgpack`: values of Lua as MessagePack, as Redis' library has them.
//!
//! Whole numbers become integers, others doubles (single where nothing is lost); a table whose keys are 1 to n
//! is an array, any other a map; what has no form is nil. Bytes of a stranger are read with a bound of depth
//! and a length is believed only as far as bytes follow.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value, Variadic};

use super::Guard;

/// Tables in tables: deeper ones become nil, as in Redis.
const DEPTH_MAX: usize = 16;
/// Tables in tables that are read.
const READ_DEPTH_MAX: usize = 200;

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, values: Variadic<Value>| {
        if values.is_empty() {
            return Err(failed("bad argument #0 to 'pack': MessagePack pack needs input."));
        }
        let guard = guard(lua)?;
        let mut bytes = Vec::new();
        for value in values.iter() {
            push(value, &mut bytes, &guard, 0)?;
        }
        lua.create_string(bytes)
    };
    library.raw_set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, text: LuaString| {
        let (mut values, _) = unpack(lua, &text.as_bytes(), 0, usize::MAX)?;
        values.pop_front();
        Ok(values)
    };
    library.raw_set("unpack", lua.create_function(unpack)?)?;
    let one = |lua: &Lua, (text, at): (LuaString, Option<f64>)| unpack_from(lua, &text, 1, at);
    library.raw_set("unpack_one", lua.create_function(one)?)?;
    let limit = |lua: &Lua, (text, limit, at): (LuaString, f64, Option<f64>)| {
        if limit < 0.0 {
            return Err(failed("Invalid request to unpack with offset of 0 and limit of -1."));
        }
        unpack_from(lua, &text, limit as usize, at)
    };
    library.raw_set("unpack_limit", lua.create_function(limit)?)?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(library)
}

fn failed(what: &str) -> mlua::Error {
    mlua::Error::runtime(what)
}

fn guard(lua: &Lua) -> mlua::Result<Arc<Guard>> {
    let guard = lua.app_data_ref::<Arc<Guard>>();
    guard.map(|guard| Arc::clone(&guard)).ok_or_else(|| failed("cmsgpack: no script runs"))
}

fn push(value: &Value, bytes: &mut Vec<u8>, guard: &Guard, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Boolean(value) => bytes.push(if *value { 0xC3 } else { 0xC2 }),
        Value::Integer(value) => push_int(*value, bytes),
        Value::Number(value) => push_number(*value, bytes),
        Value::String(text) => push_string(&text.as_bytes(), bytes),
        Value::Table(_) if depth == DEPTH_MAX => bytes.push(0xC0),
        Value::Table(table) => return push_table(table, bytes, guard, depth + 1),
        _ => bytes.push(0xC0),
    }
    Ok(())
}

fn push_number(value: f64, bytes: &mut Vec<u8>) {
    const EXACT: f64 = 9_223_372_036_854_775_808.0;
    if value == value.trunc() && (-EXACT..EXACT).contains(&value) {
        return push_int(value as i64, bytes);
    }
    let single = value as f32;
    if f64::from(single) == value {
        bytes.push(0xCA);
        bytes.extend_from_slice(&single.to_be_bytes());
    } else {
        bytes.push(0xCB);
        bytes.extend_from_slice(&value.to_be_bytes());
    }
}

fn push_int(value: i64, bytes: &mut Vec<u8>) {
    let mut with = |head: u8, rest: &[u8]| {
        bytes.push(head);
        bytes.extend_from_slice(rest);
    };
    match value {
        0..128 => with(value as u8, &[]),
        128..256 => with(0xCC, &[value as u8]),
        256..65_536 => with(0xCD, &(value as u16).to_be_bytes()),
        65_536..4_294_967_296 => with(0xCE, &(value as u32).to_be_bytes()),
        4_294_967_296.. => with(0xCF, &value.to_be_bytes()),
        -32..0 => with(value as u8, &[]),
        -128..-32 => with(0xD0, &[value as u8]),
        -32_768..-128 => with(0xD1, &(value as i16).to_be_bytes()),
        -2_147_483_648..-32_768 => with(0xD2, &(value as i32).to_be_bytes()),
        _ => with(0xD3, &value.to_be_bytes()),
    }
}

/// A length behind the head of its width.
fn push_len(len: usize, [short, long]: [u8; 2], bytes: &mut Vec<u8>) {
    match u16::try_from(len) {
        Ok(len) => {
            bytes.push(short);
            bytes.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            bytes.push(long);
            bytes.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn push_string(text: &[u8], bytes: &mut Vec<u8>) {
    match text.len() {
        len @ 0..32 => bytes.push(0xA0 | len as u8),
        len @ 32..256 => bytes.extend_from_slice(&[0xD9, len as u8]),
        len => push_len(len, [0xDA, 0xDB], bytes),
    }
    bytes.extend_from_slice(text);
}

fn push_table(table: &Table, bytes: &mut Vec<u8>, guard: &Guard, depth: usize) -> mlua::Result<()> {
    guard.check()?;
    if bytes.len() > super::MEMORY_BYTES_MAX {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    let (mut pairs, mut largest, mut is_array) = (Vec::new(), 0, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        match key {
            Value::Integer(index) if index > 0 => largest = largest.max(index as usize),
            Value::Number(index) if index > 0.0 && index == index.trunc() => {
                largest = largest.max(index as usize);
            }
            _ => is_array = false,
        }
        pairs.push((key, value));
    }
    if is_array && largest == pairs.len() {
        match largest {
            0..16 => bytes.push(0x90 | largest as u8),
            _ => push_len(largest, [0xDC, 0xDD], bytes),
        }
        return (1..=largest)
            .try_for_each(|index| push(&table.raw_get::<Value>(index)?, bytes, guard, depth));
    }
    match pairs.len() {
        len @ 0..16 => bytes.push(0x80 | len as u8),
        len => push_len(len, [0xDE, 0xDF], bytes),
    }
    pairs.iter().try_for_each(|(key, value)| {
        push(key, bytes, guard, depth)?;
        push(value, bytes, guard, depth)
    })
}

/// Bytes that are read.
struct Bytes<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> mlua::Result<&'b [u8]> {
        let taken = self.at.checked_add(len).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| failed("Missing bytes in input."))?;
        self.at += len;
        Ok(taken)
    }

    fn exact<const N: usize>(&mut self) -> mlua::Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// A length of 1, 2 or 4 bytes.
    fn len(&mut self, width: u8) -> mlua::Result<usize> {
        Ok(match width {
            1 => self.exact::<1>()?[0].into(),
            2 => u16::from_be_bytes(self.exact()?).into(),
            _ => u32::from_be_bytes(self.exact()?) as usize,
        })
    }
}

/// As `unpack_one` and `unpack_limit`: the place to go on at (-1 at the end), then the values.
fn unpack_from(
    lua: &Lua,
    text: &LuaString,
    limit: usize,
    at: Option<f64>,
) -> mlua::Result<MultiValue> {
    let bytes = text.as_bytes();
    let at = at.unwrap_or(0.0);
    if at < 0.0 || at > bytes.len() as f64 {
        let what = format!("Start offset {at} greater than input length {}.", bytes.len());
        return Err(failed(&what));
    }
    Ok(unpack(lua, &bytes, at as usize, limit)?.0)
}

/// Values from a place on, behind the place to go on at.
fn unpack(lua: &Lua, bytes: &[u8], at: usize, limit: usize) -> mlua::Result<(MultiValue, usize)> {
    /// Values that a function of Lua returns at most.
    const VALUES_MAX: usize = 4000;
    let guard = guard(lua)?;
    let mut bytes = Bytes { bytes, at };
    let mut values = Vec::new();
    while bytes.at < bytes.bytes.len() && values.len() < limit {
        if values.len() == VALUES_MAX {
            return Err(failed("cmsgpack: more values than a function can return"));
        }
        values.push(value(lua, &mut bytes, &guard, 0)?);
    }
    let next = if bytes.at >= bytes.bytes.len() { -1.0 } else { bytes.at as f64 };
    let count = values.len();
    let all = std::iter::once(Value::Number(next)).chain(values);
    Ok((MultiValue::from_iter(all), count))
}

fn value(lua: &Lua, bytes: &mut Bytes<'_>, guard: &Guard, depth: usize) -> mlua::Result<Value> {
    if depth > READ_DEPTH_MAX {
        return Err(failed("cmsgpack: tables are nested too deeply"));
    }
    let number = |value: f64| Ok(Value::Number(value));
    let first = bytes.exact::<1>()?[0];
    match first {
        0x00..=0x7F => number(first.into()),
        0xE0..=0xFF => number(f64::from(first as i8)),
        0x80..=0x8F => map(lua, bytes, (first & 15).into(), guard, depth),
        0x90..=0x9F => array(lua, bytes, (first & 15).into(), guard, depth),
        0xA0..=0xBF => string(lua, bytes, (first & 31).into()),
        0xC0 => Ok(Value::Nil),
        0xC2 => Ok(Value::Boolean(false)),
        0xC3 => Ok(Value::Boolean(true)),
        0xC4..=0xC6 | 0xD9..=0xDB => {
            let base = if first < 0xD9 { 0xC4 } else { 0xD9 };
            let len = bytes.len(1 << (first - base))?;
            string(lua, bytes, len)
        }
        0xCA => number(f32::from_be_bytes(bytes.exact()?).into()),
        0xCB => number(f64::from_be_bytes(bytes.exact()?)),
        0xCC => number(bytes.exact::<1>()?[0].into()),
        0xCD => number(u16::from_be_bytes(bytes.exact()?).into()),
        0xCE => number(u32::from_be_bytes(bytes.exact()?).into()),
        0xCF => number(u64::from_be_bytes(bytes.exact()?) as f64),
        0xD0 => number(i8::from_be_bytes(bytes.exact()?).into()),
        0xD1 => number(i16::from_be_bytes(bytes.exact()?).into()),
        0xD2 => number(i32::from_be_bytes(bytes.exact()?).into()),
        0xD3 => number(i64::from_be_bytes(bytes.exact()?) as f64),
        0xDC | 0xDD => {
            let len = bytes.len(2 << (first - 0xDC))?;
            array(lua, bytes, len, guard, depth)
        }
        0xDE | 0xDF => {
            let len = bytes.len(2 << (first - 0xDE))?;
            map(lua, bytes, len, guard, depth)
        }
        _ => Err(failed("Bad data format in input.")),
    }
}

fn string(lua: &Lua, bytes: &mut Bytes<'_>, len: usize) -> mlua::Result<Value> {
    Ok(Value::String(lua.create_string(bytes.take(len)?)?))
}

fn array(
    lua: &Lua,
    bytes: &mut Bytes<'_>,
    len: usize,
    guard: &Guard,
    depth: usize,
) -> mlua::Result<Value> {
    guard.check()?;
    let table = lua.create_table()?;
    for index in 1..=len {
        table.raw_set(index, value(lua, bytes, guard, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn map(
    lua: &Lua,
    bytes: &mut Bytes<'_>,
    len: usize,
    guard: &Guard,
    depth: usize,
) -> mlua::Result<Value> {
    guard.check()?;
    let table = lua.create_table()?;
    for _ in 0..len {
        let key = value(lua, bytes, guard, depth + 1)?;
        let value = value(lua, bytes, guard, depth + 1)?;
        let is_key = match &key {
            Value::Nil => false,
            Value::Number(number) => !number.is_nan(),
            _ => true,
        };
        if !is_key {
            return Err(failed("cmsgpack: a map's key is nil or no number"));
        }
        table.raw_set(key, value)?;
    }
    Ok(Value::Table(table))
}
