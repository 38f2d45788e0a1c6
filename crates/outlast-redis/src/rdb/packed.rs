//! Small values in one string: listpacks, ziplists, integer sets, zipmaps.

use super::value::Value;
use super::{RdbError, Read, bad};
use crate::number::parse_double;

/// Bytes at hand.
struct Bytes<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(RdbError::Ends(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn exact<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(RdbError::Ends(self.what))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Read<u8> {
        Ok(self.exact::<1>()?[0])
    }
}

fn number(value: i64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Three bytes as a signed number.
fn int24([a, b, c]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
}

/// The items of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Read<Vec<Vec<u8>>> {
    let mut bytes = Bytes { rest: bytes, what: "a listpack" };
    bytes.take(6)?;
    let mut items = Vec::new();
    loop {
        let before = bytes.rest.len();
        let first = bytes.byte()?;
        let item = match first {
            0xFF => return Ok(items),
            0x00..=0x7F => number(first.into()),
            0x80..=0xBF => bytes.take(usize::from(first & 63))?.to_vec(),
            0xC0..=0xDF => {
                let raw = i64::from(first & 31) << 8 | i64::from(bytes.byte()?);
                number(if raw >= 1 << 12 { raw - (1 << 13) } else { raw })
            }
            0xE0..=0xEF => {
                let len = usize::from(first & 15) << 8 | usize::from(bytes.byte()?);
                bytes.take(len)?.to_vec()
            }
            0xF0 => {
                let len = u32::from_le_bytes(bytes.exact()?);
                bytes.take(len as usize)?.to_vec()
            }
            0xF1 => number(i16::from_le_bytes(bytes.exact()?).into()),
            0xF2 => number(int24(bytes.exact()?)),
            0xF3 => number(i32::from_le_bytes(bytes.exact()?).into()),
            0xF4 => number(i64::from_le_bytes(bytes.exact()?)),
            _ => return bad(format!("a listpack's item of an unknown form ({first:#x})")),
        };
        items.push(item);
        bytes.take(back_len_bytes(before - bytes.rest.len()))?;
    }
}

/// Bytes of the length that stands behind an item.
fn back_len_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// A listpack that is written.
pub(super) struct Listpack {
    bytes: Vec<u8>,
    items: usize,
}

impl Listpack {
    pub fn new() -> Self {
        Self { bytes: vec![0; 6], items: 0 }
    }

    pub fn push(&mut self, item: &[u8]) {
        let start = self.bytes.len();
        match item.len() {
            len @ 0..64 => self.bytes.push(0x80 | len as u8),
            len @ 64..4096 => {
                self.bytes.extend_from_slice(&[0xE0 | (len >> 8) as u8, len as u8]);
            }
            len => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(item);
        self.end(start);
    }

    pub fn push_int(&mut self, value: i64) {
        let start = self.bytes.len();
        match value {
            0..128 => self.bytes.push(value as u8),
            -32_768..32_768 => {
                self.bytes.push(0xF1);
                self.bytes.extend_from_slice(&(value as i16).to_le_bytes());
            }
            _ => {
                self.bytes.push(0xF4);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        self.end(start);
    }

    fn end(&mut self, start: usize) {
        let len = self.bytes.len() - start;
        let count = back_len_bytes(len);
        for index in (0..count).rev() {
            let part = (len >> (7 * index) & 127) as u8;
            self.bytes.push(if index + 1 == count { part } else { part | 128 });
        }
        self.items += 1;
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0xFF);
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        let items = self.items.min(usize::from(u16::MAX)) as u16;
        self.bytes[4..6].copy_from_slice(&items.to_le_bytes());
        self.bytes
    }
}

/// The items of a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Read<Vec<Vec<u8>>> {
    let mut bytes = Bytes { rest: bytes, what: "a ziplist" };
    bytes.take(10)?;
    let mut items = Vec::new();
    loop {
        match bytes.byte()? {
            0xFF => return Ok(items),
            0xFE => drop(bytes.take(4)?),
            _ => {}
        }
        let first = bytes.byte()?;
        let item = match first {
            0x00..=0x3F => bytes.take(usize::from(first))?.to_vec(),
            0x40..=0x7F => {
                let len = usize::from(first & 63) << 8 | usize::from(bytes.byte()?);
                bytes.take(len)?.to_vec()
            }
            0x80 => {
                let len = u32::from_be_bytes(bytes.exact()?);
                bytes.take(len as usize)?.to_vec()
            }
            0xC0 => number(i16::from_le_bytes(bytes.exact()?).into()),
            0xD0 => number(i32::from_le_bytes(bytes.exact()?).into()),
            0xE0 => number(i64::from_le_bytes(bytes.exact()?)),
            0xF0 => number(int24(bytes.exact()?)),
            0xFE => number(i8::from_le_bytes(bytes.exact()?).into()),
            0xF1..=0xFD => number(i64::from(first & 15) - 1),
            _ => return bad(format!("a ziplist's item of an unknown form ({first:#x})")),
        };
        items.push(item);
    }
}

/// The members of a set of integers.
pub(super) fn intset(bytes: &[u8]) -> Read<Vec<Vec<u8>>> {
    let mut bytes = Bytes { rest: bytes, what: "a set of integers" };
    let (width, count) = (u32::from_le_bytes(bytes.exact()?), u32::from_le_bytes(bytes.exact()?));
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(number(match width {
            2 => i16::from_le_bytes(bytes.exact()?).into(),
            4 => i32::from_le_bytes(bytes.exact()?).into(),
            8 => i64::from_le_bytes(bytes.exact()?),
            _ => return bad(format!("a set of integers of {width} bytes")),
        }));
    }
    Ok(members)
}

/// The pairs of a zipmap.
pub(super) fn zipmap(bytes: &[u8]) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = Bytes { rest: bytes, what: "a zipmap" };
    bytes.byte()?;
    let mut pairs = Vec::new();
    loop {
        let Some(len) = zipmap_len(&mut bytes)? else { return Ok(pairs) };
        let field = bytes.take(len)?.to_vec();
        let Some(len) = zipmap_len(&mut bytes)? else { return bad("a field without a value") };
        let free = usize::from(bytes.byte()?);
        let value = bytes.take(len)?.to_vec();
        bytes.take(free)?;
        pairs.push((field, value));
    }
}

/// A length in a zipmap; none at its end.
fn zipmap_len(bytes: &mut Bytes<'_>) -> Read<Option<usize>> {
    match bytes.byte()? {
        255 => Ok(None),
        254 => Ok(Some(u32::from_le_bytes(bytes.exact()?) as usize)),
        len => Ok(Some(len.into())),
    }
}

/// Items two by two.
fn pairs(items: Vec<Vec<u8>>) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let Some(first) = items.next() {
        let Some(second) = items.next() else { return bad("an item without its pair") };
        pairs.push((first, second));
    }
    Ok(pairs)
}

pub(super) fn hash(items: Vec<Vec<u8>>) -> Read<Value> {
    Ok(Value::Hash(pairs(items)?))
}

pub(super) fn zset(items: Vec<Vec<u8>>) -> Read<Value> {
    let pairs = pairs(items)?.into_iter();
    let members = pairs.map(|(member, text)| Ok((member, score(&text)?)));
    Ok(Value::Zset(members.collect::<Read<_>>()?))
}

/// A score from its text.
pub(super) fn score(text: &[u8]) -> Read<f64> {
    match parse_double(text) {
        Some(score) => Ok(score),
        None => bad("a score that is no number"),
    }
}
