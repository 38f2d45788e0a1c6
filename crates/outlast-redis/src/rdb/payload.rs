//! Payloads of `DUMP`: a value, the version of the format (2 bytes), the checksum of both (8 bytes).

use super::read::Source;
use super::value::Value;
use super::{Read, crc64, write};

const FOOTER_BYTES: usize = 10;
/// The version that Redis 5 to 7.2 load, for all but streams of 7.0 and later.
const VERSION: u16 = 9;
const VERSION_OF_STREAMS: u16 = 10;
/// The latest version that is read: 7.4's. Types that are not known are refused one by one.
const VERSION_MAX: u16 = 12;

pub(crate) fn to_payload(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write::push_value(&mut out, value);
    let version = match value {
        Value::Stream(_) => VERSION_OF_STREAMS,
        _ => VERSION,
    };
    out.extend_from_slice(&version.to_le_bytes());
    let crc = crc64::update(0, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// The value of a payload; `None` if its version or checksum is wrong.
pub(crate) fn from_payload(bytes: &[u8]) -> Option<Read<Value>> {
    let (body, footer) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
    let (version, crc) = footer.split_first_chunk::<2>()?;
    let is_right = u16::from_le_bytes(*version) <= VERSION_MAX
        && crc64::update(0, &bytes[..body.len() + 2]).to_le_bytes() == *crc;
    is_right.then(|| value(body))
}

pub(super) fn value(body: &[u8]) -> Read<Value> {
    let mut source = Source::new(body);
    let type_number = source.byte("a type")?;
    let value = source.value(type_number)?;
    match source.at == body.len() as u64 {
        true => Ok(value),
        false => super::bad("bytes behind the value"),
    }
}
