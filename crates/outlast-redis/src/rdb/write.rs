//! Writing values, each in the plainest encoding that Redis loads.

use super::value::Value;
use super::{kind, stream};

pub(super) fn push_len(out: &mut Vec<u8>, len: u64) {
    match len {
        0..64 => out.push(len as u8),
        64..16_384 => out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(0x80);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&len.to_be_bytes());
            }
        },
    }
}

pub(super) fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_len(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The type of a value, and the value.
pub(super) fn push_value(out: &mut Vec<u8>, value: &Value) {
    let strings = |out: &mut Vec<u8>, items: &[Vec<u8>]| {
        push_len(out, items.len() as u64);
        items.iter().for_each(|item| push_string(out, item));
    };
    match value {
        Value::String(bytes) => {
            out.push(kind::STRING);
            push_string(out, bytes);
        }
        Value::List(items) => {
            out.push(kind::LIST);
            strings(out, items);
        }
        Value::Set(members) => {
            out.push(kind::SET);
            strings(out, members);
        }
        Value::Hash(pairs) => {
            out.push(kind::HASH);
            push_len(out, pairs.len() as u64);
            for (field, value) in pairs {
                push_string(out, field);
                push_string(out, value);
            }
        }
        Value::Zset(members) => {
            out.push(kind::ZSET_BINARY);
            push_len(out, members.len() as u64);
            for (member, score) in members {
                push_string(out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Value::Stream(value) => {
            out.push(kind::STREAM_2);
            stream::write(value, out);
        }
    }
}
