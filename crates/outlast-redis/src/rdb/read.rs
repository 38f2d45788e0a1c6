//! Reading values: lengths, strings, and each type of value.

use std::io;

use super::value::Value;
use super::{RdbError, Read, bad, crc64, kind, packed, stream};

/// Bytes of a string.
const STRING_BYTES_MAX: u64 = 1 << 30;
/// The most bytes that one byte of LZF becomes, about.
const LZF_RATIO_MAX: u64 = 264;
/// Bytes that a value may have beyond those that were read for it, by compression and by names in common.
const EXPANDED_BYTES_MAX: u64 = 2 << 30;
/// Bytes that are read before memory for more is taken.
const PIECE: u64 = 1 << 20;

/// Bytes that are read once, with their checksum.
pub(super) struct Source<R> {
    inner: R,
    pub crc: u64,
    /// How many were read.
    pub at: u64,
    /// How many bytes of the value are more than what was read.
    expanded: u64,
}

/// A length, or how a string is encoded.
pub(super) enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<R: io::Read> Source<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, crc: 0, at: 0, expanded: 0 }
    }

    pub fn exact<const N: usize>(&mut self, what: &'static str) -> Read<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &'static str) -> Read<()> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(RdbError::Ends(what));
            }
            Err(error) => return Err(error.into()),
        }
        self.crc = crc64::update(self.crc, bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Notes bytes of the value beyond those that were read.
    pub fn expand(&mut self, bytes: usize) -> Read<()> {
        self.expanded += bytes as u64;
        match self.expanded <= EXPANDED_BYTES_MAX {
            true => Ok(()),
            false => bad("a value that is larger than 2 GiB when it is unpacked"),
        }
    }

    pub fn byte(&mut self, what: &'static str) -> Read<u8> {
        Ok(self.exact::<1>(what)?[0])
    }

    /// That number of bytes. Memory grows with what arrives.
    pub fn bytes(&mut self, len: u64, what: &'static str) -> Read<Vec<u8>> {
        if len > STRING_BYTES_MAX {
            return bad(format!("a string of {len} bytes"));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let start = bytes.len();
            let piece = (len - start as u64).min(PIECE) as usize;
            bytes.resize(start + piece, 0);
            self.fill(&mut bytes[start..], what)?;
        }
        Ok(bytes)
    }

    pub fn length(&mut self) -> Read<Length> {
        let first = self.byte("a length")?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first & 63)),
            1 => {
                let second = self.byte("a length")?;
                Length::Plain(u64::from(first & 63) << 8 | u64::from(second))
            }
            2 if first == 0x80 => Length::Plain(u32::from_be_bytes(self.exact("a length")?).into()),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.exact("a length")?)),
            2 => return bad(format!("a length of an unknown form ({first:#x})")),
            _ => Length::Encoded(first & 63),
        })
    }

    /// A plain length.
    pub fn len(&mut self) -> Read<u64> {
        match self.length()? {
            Length::Plain(len) => Ok(len),
            Length::Encoded(_) => bad("an encoded string where a length should be"),
        }
    }

    pub fn string(&mut self) -> Read<Vec<u8>> {
        const WHAT: &str = "a string";
        let number = |value: i64| Ok(value.to_string().into_bytes());
        match self.length()? {
            Length::Plain(len) => self.bytes(len, WHAT),
            Length::Encoded(0) => number(i8::from_le_bytes(self.exact(WHAT)?).into()),
            Length::Encoded(1) => number(i16::from_le_bytes(self.exact(WHAT)?).into()),
            Length::Encoded(2) => number(i32::from_le_bytes(self.exact(WHAT)?).into()),
            Length::Encoded(3) => {
                let (packed, len) = (self.len()?, self.len()?);
                if len > STRING_BYTES_MAX || len > packed.saturating_mul(LZF_RATIO_MAX) {
                    return bad(format!("{packed} compressed bytes that should be {len}"));
                }
                self.expand(len as usize)?;
                let packed = self.bytes(packed, WHAT)?;
                unpack(&packed, len as usize)
            }
            Length::Encoded(form) => bad(format!("a string of an unknown form ({form})")),
        }
    }

    /// A score in the form of old files: its text, or a byte for what no text is of.
    fn text_score(&mut self) -> Read<f64> {
        const WHAT: &str = "a score";
        match self.byte(WHAT)? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            len => {
                let text = self.bytes(len.into(), WHAT)?;
                packed::score(&text)
            }
        }
    }

    fn strings(&mut self) -> Read<Vec<Vec<u8>>> {
        let count = self.len()?;
        (0..count).map(|_| self.string()).collect()
    }

    /// A value of a type. Empty collections are none.
    pub fn value(&mut self, type_number: u8) -> Read<Value> {
        self.expanded = 0;
        let value = match type_number {
            kind::STRING => return Ok(Value::String(self.string()?)),
            kind::LIST => Value::List(self.strings()?),
            kind::SET => Value::Set(self.strings()?),
            kind::HASH => {
                let count = self.len()?;
                let pairs = (0..count).map(|_| Ok((self.string()?, self.string()?)));
                Value::Hash(pairs.collect::<Read<_>>()?)
            }
            kind::ZSET | kind::ZSET_BINARY => {
                let count = self.len()?;
                let mut members = Vec::new();
                for _ in 0..count {
                    let member = self.string()?;
                    let score = match type_number {
                        kind::ZSET => self.text_score()?,
                        _ => f64::from_le_bytes(self.exact("a score")?),
                    };
                    members.push((member, score));
                }
                Value::Zset(members)
            }
            kind::HASH_ZIPMAP => Value::Hash(packed::zipmap(&self.string()?)?),
            kind::LIST_ZIPLIST => Value::List(packed::ziplist(&self.string()?)?),
            kind::SET_INTSET => Value::Set(packed::intset(&self.string()?)?),
            kind::ZSET_ZIPLIST => packed::zset(packed::ziplist(&self.string()?)?)?,
            kind::HASH_ZIPLIST => packed::hash(packed::ziplist(&self.string()?)?)?,
            kind::HASH_LISTPACK => packed::hash(packed::listpack(&self.string()?)?)?,
            kind::ZSET_LISTPACK => packed::zset(packed::listpack(&self.string()?)?)?,
            kind::SET_LISTPACK => Value::Set(packed::listpack(&self.string()?)?),
            kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
                let nodes = self.len()?;
                let mut items = Vec::new();
                for _ in 0..nodes {
                    let form = match type_number {
                        kind::LIST_QUICKLIST => 0,
                        _ => self.len()?,
                    };
                    let node = self.string()?;
                    match form {
                        0 => items.extend(packed::ziplist(&node)?),
                        1 => items.push(node),
                        2 => items.extend(packed::listpack(&node)?),
                        form => return bad(format!("a list's node of an unknown form ({form})")),
                    }
                }
                Value::List(items)
            }
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => {
                return Ok(Value::Stream(Box::new(stream::read(self, type_number)?)));
            }
            6 | 7 => return bad("a value of a module"),
            other => return bad(format!("a value of a type that is not known ({other})")),
        };
        value.check()?;
        Ok(value)
    }
}

/// Undoes LZF.
fn unpack(packed: &[u8], len: usize) -> Read<Vec<u8>> {
    let damaged = || RdbError::Bad("a compressed string that is damaged".to_owned());
    let mut out: Vec<u8> = Vec::with_capacity(len);
    let mut at = 0;
    let mut next = || {
        let byte = packed.get(at).copied();
        at += 1;
        byte.ok_or_else(damaged)
    };
    let mut done = 0;
    while done < packed.len() {
        let control = usize::from(next()?);
        done += 1;
        if control < 32 {
            for _ in 0..=control {
                out.push(next()?);
            }
            done += control + 1;
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(next()?);
                done += 1;
            }
            let back = (control & 31) << 8 | usize::from(next()?);
            done += 1;
            let from = out.len().checked_sub(back + 1).ok_or_else(damaged)?;
            // What is copied may be part of what is to be copied.
            for index in from..from + count + 2 {
                out.push(out[index]);
            }
        }
        if out.len() > len {
            return Err(damaged());
        }
    }
    match out.len() == len {
        true => Ok(out),
        false => Err(damaged()),
    }
}

#[test]
fn compressed_strings_are_undone() {
    assert_eq!(unpack(&[2, b'a', b'b', b'c', 0x20, 2], 6).unwrap(), b"abcabc");
    assert_eq!(unpack(&[0, b'x', 0xE0, 1, 0], 11).unwrap(), b"xxxxxxxxxxx");
    for damaged in [&[2, b'a'][..], &[0x20, 0], &[0, b'a', 0xE0]] {
        assert!(unpack(damaged, 100).is_err());
    }
}
