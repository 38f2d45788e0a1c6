//! `struct`: values of Lua as C's structures, by Roberto Ierusalimschy's format strings.
//!
//! `<` `>` `=` byte order, `!n` alignment; `b B h H i I l L T` whole numbers (`in` and `In` of n bytes), `f d`
//! floating-point numbers, `s` a string up to a zero, `cn` n bytes (`c0`: the number that the value before says),
//! `x` padding.

use mlua::{Lua, LuaString, MultiValue, Table, Value, Variadic};

/// The widest number, in bytes.
const INT_BYTES_MAX: usize = 32;
/// Widths of C on the machines of Redis.
const WORD_BYTES: usize = 8;
/// Bytes of a structure.
const BYTES_MAX: usize = 256 << 20;
/// Values that a function of Lua returns at most.
const VALUES_MAX: usize = 4000;

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let packed = |lua: &Lua, (format, values): (LuaString, Variadic<Value>)| {
        lua.create_string(pack(lua, &format.as_bytes(), &values)?)
    };
    library.raw_set("pack", lua.create_function(packed)?)?;
    let unpacked = |lua: &Lua, (format, text, at): (LuaString, LuaString, Option<f64>)| {
        unpack(lua, &format.as_bytes(), &text.as_bytes(), at)
    };
    library.raw_set("unpack", lua.create_function(unpacked)?)?;
    let size = |_: &Lua, format: LuaString| size(&format.as_bytes()).map(|size| size as f64);
    library.raw_set("size", lua.create_function(size)?)?;
    Ok(library)
}

fn failed(what: impl Into<String>) -> mlua::Error {
    mlua::Error::runtime(what.into())
}

/// The next item of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Int { bytes: usize, is_signed: bool },
    Single,
    Double,
    Text,
    Bytes(usize),
    Padding,
}

impl Item {
    fn align(self) -> usize {
        match self {
            Self::Int { bytes, .. } => bytes,
            Self::Single => 4,
            Self::Double => 8,
            _ => 1,
        }
    }
}

/// A format that is read.
struct Format<'f> {
    rest: &'f [u8],
    is_little: bool,
    align: usize,
}

impl<'f> Format<'f> {
    fn new(rest: &'f [u8]) -> Self {
        Self { rest, is_little: cfg!(target_endian = "little"), align: 1 }
    }

    fn number(&mut self) -> mlua::Result<Option<usize>> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(None);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let number = number.filter(|number| *number <= i32::MAX as usize);
        number.map(Some).ok_or_else(|| failed("integral size overflow"))
    }

    /// The next item, `None` at the end.
    fn next(&mut self) -> mlua::Result<Option<Item>> {
        loop {
            let Some((first, rest)) = self.rest.split_first() else { return Ok(None) };
            self.rest = rest;
            let int = |bytes, is_signed| Item::Int { bytes, is_signed };
            return Ok(Some(match first {
                b' ' => continue,
                b'<' => {
                    self.is_little = true;
                    continue;
                }
                b'>' => {
                    self.is_little = false;
                    continue;
                }
                b'=' => {
                    self.is_little = cfg!(target_endian = "little");
                    continue;
                }
                b'!' => {
                    let align = self.number()?.unwrap_or(WORD_BYTES);
                    if !align.is_power_of_two() {
                        return Err(failed("alignment is not a power of 2"));
                    }
                    self.align = align;
                    continue;
                }
                b'b' | b'B' => int(1, *first == b'b'),
                b'h' | b'H' => int(2, *first == b'h'),
                b'l' | b'L' => int(WORD_BYTES, *first == b'l'),
                b'T' => int(WORD_BYTES, false),
                b'i' | b'I' => {
                    let bytes = self.number()?.unwrap_or(4);
                    if !(1..=INT_BYTES_MAX).contains(&bytes) {
                        return Err(failed(format!(
                            "integral size {bytes} is larger than limit of {INT_BYTES_MAX}"
                        )));
                    }
                    int(bytes, *first == b'i')
                }
                b'f' => Item::Single,
                b'd' | b'n' => Item::Double,
                b's' => Item::Text,
                b'c' => Item::Bytes(self.number()?.unwrap_or(1)),
                b'x' => Item::Padding,
                other => {
                    let shown = char::from(*other).escape_default();
                    return Err(failed(format!("invalid format option '{shown}'")));
                }
            }));
        }
    }

    /// Bytes that an item at a place is moved on by.
    fn padding(&self, item: Item, at: usize) -> usize {
        let align = item.align().min(self.align);
        match align.is_power_of_two() {
            true => at.next_multiple_of(align) - at,
            false => 0,
        }
    }
}

fn argument(lua: &Lua, values: &[Value], index: usize) -> mlua::Result<f64> {
    let value = values.get(index).cloned().unwrap_or(Value::Nil);
    let number = lua.coerce_number(value.clone())?;
    number.ok_or_else(|| {
        let found = value.type_name();
        failed(format!("bad argument #{} to 'pack' (number expected, got {found})", index + 2))
    })
}

fn text(lua: &Lua, values: &[Value], index: usize) -> mlua::Result<LuaString> {
    let value = values.get(index).cloned().unwrap_or(Value::Nil);
    let text = lua.coerce_string(value.clone())?;
    text.ok_or_else(|| {
        let found = value.type_name();
        failed(format!("bad argument #{} to 'pack' (string expected, got {found})", index + 2))
    })
}

/// The two's complement of a number.
fn to_word(number: f64) -> u64 {
    if number < 0.0 { number as i64 as u64 } else { number as u64 }
}

fn pack(lua: &Lua, format: &[u8], values: &[Value]) -> mlua::Result<Vec<u8>> {
    let (mut format, mut out, mut index) = (Format::new(format), Vec::new(), 0);
    while let Some(item) = format.next()? {
        let padding = format.padding(item, out.len());
        out.resize(out.len() + padding, 0);
        match item {
            Item::Padding => out.push(0),
            Item::Int { bytes, .. } => {
                let number = argument(lua, values, index)?;
                let word = to_word(number);
                let fill = if number < 0.0 { 0xFF } else { 0 };
                let mut all = word.to_le_bytes().to_vec();
                all.resize(bytes.max(8), fill);
                all.truncate(bytes);
                if !format.is_little {
                    all.reverse();
                }
                out.extend_from_slice(&all);
            }
            Item::Single => {
                let number = argument(lua, values, index)? as f32;
                out.extend(if format.is_little {
                    number.to_le_bytes()
                } else {
                    number.to_be_bytes()
                });
            }
            Item::Double => {
                let number = argument(lua, values, index)?;
                out.extend(if format.is_little {
                    number.to_le_bytes()
                } else {
                    number.to_be_bytes()
                });
            }
            Item::Text => {
                out.extend_from_slice(&text(lua, values, index)?.as_bytes());
                out.push(0);
            }
            Item::Bytes(len) => {
                let text = text(lua, values, index)?;
                let bytes = text.as_bytes();
                let len = if len == 0 { bytes.len() } else { len };
                let bytes = bytes.get(..len);
                out.extend_from_slice(bytes.ok_or_else(|| {
                    failed(format!("bad argument #{} to 'pack' (string too short)", index + 2))
                })?);
            }
        }
        index += usize::from(item != Item::Padding);
        if out.len() > BYTES_MAX {
            return Err(failed("structure too large"));
        }
    }
    Ok(out)
}

fn unpack(lua: &Lua, format: &[u8], data: &[u8], at: Option<f64>) -> mlua::Result<MultiValue> {
    let start = at.unwrap_or(1.0);
    if start < 1.0 || start - 1.0 > data.len() as f64 {
        return Err(failed(
            "bad argument #3 to 'unpack' (offset must be 1 or greater, within the data)",
        ));
    }
    let short = || failed("data string too short");
    let mut at = start as usize - 1;
    let (mut format, mut values) = (Format::new(format), Vec::new());
    while let Some(item) = format.next()? {
        at += format.padding(item, at);
        let mut take = |len: usize| {
            let taken = at.checked_add(len).and_then(|end| data.get(at..end)).ok_or_else(short)?;
            at += len;
            Ok::<_, mlua::Error>(taken)
        };
        let value = match item {
            Item::Padding => {
                take(1)?;
                continue;
            }
            Item::Int { bytes, is_signed } => {
                Value::Number(integer(take(bytes)?, is_signed, format.is_little))
            }
            Item::Single => {
                let bytes = take(4)?.try_into().map_err(|_| short())?;
                let read = if format.is_little { f32::from_le_bytes } else { f32::from_be_bytes };
                Value::Number(read(bytes).into())
            }
            Item::Double => {
                let bytes = take(8)?.try_into().map_err(|_| short())?;
                let read = if format.is_little { f64::from_le_bytes } else { f64::from_be_bytes };
                Value::Number(read(bytes))
            }
            Item::Text => {
                let rest = data.get(at..).unwrap_or_default();
                let len = rest.iter().position(|byte| *byte == 0);
                let len = len.ok_or_else(|| failed("unfinished string in data"))?;
                at += len + 1;
                Value::String(lua.create_string(&rest[..len])?)
            }
            Item::Bytes(0) => {
                // The value before it is the length.
                let len = match values.pop() {
                    Some(Value::Number(len)) if len >= 0.0 => len as usize,
                    _ => return Err(failed("format 'c0' needs a previous size")),
                };
                Value::String(lua.create_string(take(len)?)?)
            }
            Item::Bytes(len) => Value::String(lua.create_string(take(len)?)?),
        };
        values.push(value);
        if values.len() > VALUES_MAX {
            return Err(failed("too many results to unpack"));
        }
    }
    values.push(Value::Number(at as f64 + 1.0));
    Ok(MultiValue::from_vec(values))
}

/// A number of that many bytes; those above eight are dropped.
fn integer(bytes: &[u8], is_signed: bool, is_little: bool) -> f64 {
    let mut word = 0u64;
    let width = bytes.len().min(8);
    for index in 0..width {
        let byte = if is_little { bytes[index] } else { bytes[bytes.len() - 1 - index] };
        word |= u64::from(byte) << (8 * index);
    }
    if !is_signed {
        return word as f64;
    }
    let shift = 64 - 8 * width as u32;
    ((word << shift) as i64 >> shift) as f64
}

fn size(format: &[u8]) -> mlua::Result<usize> {
    let (mut format, mut total) = (Format::new(format), 0usize);
    while let Some(item) = format.next()? {
        total += format.padding(item, total);
        total += match item {
            Item::Int { bytes, .. } => bytes,
            Item::Single => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Bytes(len @ 1..) => len,
            Item::Text => return Err(failed("variable-size format in 'size'")),
            Item::Bytes(_) => return Err(failed("variable-length format in 'size'")),
        };
        if total > BYTES_MAX {
            return Err(failed("structure too large"));
        }
    }
    Ok(total)
}
