//! Numbers and streams of bytes in a section, compressed where that saves something.

use std::io::{Read, Write};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};

/// Bytes that do not hold what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bad;

/// A stream that is longer is damage.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// Appends a number, seven bits a byte, the lowest first.
#[inline(always)]
pub(super) fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends bytes with their number.
pub(super) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    #[inline(always)]
    pub(super) fn byte(&mut self) -> Result<u8, Bad> {
        let (first, rest) = self.0.split_first().ok_or(Bad)?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<u64, Bad> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift > 63 || (part << shift) >> shift != part {
                return Err(Bad);
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, Bad> {
        u32::try_from(self.number()?).map_err(|_| Bad)
    }

    /// The number of things that follow, each of at least `bytes` bytes.
    pub(super) fn count(&mut self, bytes: usize) -> Result<usize, Bad> {
        let count = usize::try_from(self.number()?).map_err(|_| Bad)?;
        if count > self.0.len() / bytes { Err(Bad) } else { Ok(count) }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Bad> {
        if len > self.0.len() {
            return Err(Bad);
        }
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Bad> {
        let len = self.count(1)?;
        self.take(len)
    }

    pub(super) fn text(&mut self) -> Result<String, Bad> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Bad)
    }
}

/// Whether streams of one kind are worth compressing: looked at now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worth {
    /// Streams that are stored before one is tried again.
    stored: u8,
}

/// Appends a stream: a byte that says whether it is compressed, its length, and that of what follows.
pub(super) fn put_stream(into: &mut Vec<u8>, stream: &[u8], worth: &mut Worth, level: u32) {
    /// Streams that are stored as they are where one did not become much smaller.
    const STORED: u8 = 15;
    if worth.stored > 0 && !stream.is_empty() {
        worth.stored -= 1;
    } else {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
        let packed = encoder.write_all(stream).and_then(|()| encoder.finish());
        let packed = packed.expect("memory takes all");
        if packed.len() < stream.len() / 10 * 9 {
            into.push(1);
            put(into, stream.len() as u64);
            put_bytes(into, &packed);
            return;
        }
        worth.stored = STORED;
    }
    into.push(0);
    put(into, stream.len() as u64);
    put_bytes(into, stream);
}

/// Reads a stream.
pub(super) fn read_stream(from: &mut Bytes<'_>, into: &mut Vec<u8>) -> Result<(), Bad> {
    into.clear();
    let is_packed = from.byte()?;
    let len = from.number()?;
    let bytes = from.bytes()?;
    match is_packed {
        0 => into.extend_from_slice(bytes),
        1 if len <= STREAM_BYTES_MAX => {
            let limit = len + 1;
            ZlibDecoder::new(bytes).take(limit).read_to_end(into).map_err(|_| Bad)?;
        }
        _ => return Err(Bad),
    }
    if into.len() as u64 == len { Ok(()) } else { Err(Bad) }
}
