//! gem5's packets: the file that a `MemTraceProbe` or a `CommMonitor` writes and a traffic generator reads.
//!
//! The file begins with `gem5`. Messages of protocol buffers follow, each behind its length as a varint: a
//! header, then packets.
//!
//! | field | of the header | of a packet |
//! |---|---|---|
//! | 1 | name of the object | tick |
//! | 2 | version | command: 1 `ReadReq`, 4 `WriteReq` |
//! | 3 | ticks in a second | address |
//! | 4 | names of requestors | bytes |
//! | 5 | | flags |
//! | 6 | | number |
//! | 7 | | program counter |

use std::io::{BufRead, Read};

use super::{MemoryAccess, Source};
use crate::LINE_BYTES;

/// The first bytes of a file.
pub(super) const MAGIC: &[u8] = b"gem5";

/// Ticks in a second: what gem5 counts where nothing else is set.
pub(super) const TICKS_PER_SECOND: u64 = 1_000_000_000_000;

/// The error of a packet that is neither a plain read nor a plain write.
pub(super) const OTHER_COMMAND: &str = "another command";

const READ: u64 = 1;
const WRITE: u64 = 4;

/// The longest message: names of requestors are some hundred bytes.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Packets being read.
pub(super) struct Packets {
    input: Box<dyn BufRead>,
    ticks_per_second: u64,
    number: u64,
}

impl Packets {
    /// Reads the header.
    pub(super) fn open(mut input: Box<dyn BufRead>) -> Result<Self, String> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(|error| format!(": {error}"))?;
        let mut packets = Self { input, ticks_per_second: 0, number: 0 };
        let header = packets.message()?.ok_or(": it ends before its header")?;
        for field in fields(&header) {
            if let (3, Value::Number(ticks)) = field.map_err(|why| format!(": its header {why}"))? {
                packets.ticks_per_second = ticks;
            }
        }
        match packets.ticks_per_second {
            0 => Err(": its header says no ticks of a second".to_owned()),
            _ => Ok(packets),
        }
    }

    /// The next message; none at the end of the file.
    fn message(&mut self) -> Result<Option<Vec<u8>>, String> {
        let place = || match self.number {
            0 => ": its header".to_owned(),
            number => format!(": packet {number}"),
        };
        let cut = |error: std::io::Error| format!("{} is cut off or damaged: {error}", place());
        if self.input.fill_buf().map_err(cut)?.is_empty() {
            return Ok(None);
        }
        let mut bytes = std::iter::from_fn(|| {
            let mut byte = [0];
            Some(self.input.read_exact(&mut byte).map(|()| byte[0]))
        });
        let mut len = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = bytes.next().expect("it never ends").map_err(cut)?;
            len |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if len > MESSAGE_BYTES_MAX {
            return Err(format!("{} has {len} bytes: it is damaged", place()));
        }
        let mut message = Vec::new();
        self.input.by_ref().take(len).read_to_end(&mut message).map_err(cut)?;
        match message.len() as u64 == len {
            true => Ok(Some(message)),
            false => Err(format!("{} is cut off", place())),
        }
    }
}

impl Source for Packets {
    fn next(&mut self) -> Result<Option<MemoryAccess>, String> {
        self.number += 1;
        let Some(message) = self.message()? else { return Ok(None) };
        let damaged = |why: &str| format!(": packet {} {why}", self.number);
        let mut request = MemoryAccess::default();
        let (mut command, mut has_address) = (0, false);
        for field in fields(&message) {
            match field.map_err(damaged)? {
                (1, Value::Number(tick)) => request.time = Some(tick),
                (2, Value::Number(number)) => command = number,
                (3, Value::Number(address)) => (request.address, has_address) = (address, true),
                (4, Value::Number(bytes)) => request.bytes = Some(bytes),
                _ => request.has_fields = true,
            }
        }
        if request.time.is_none() || !has_address {
            return Err(damaged("has no tick or no address"));
        }
        request.writes = match command {
            READ => false,
            WRITE => true,
            _ => return Err(OTHER_COMMAND.to_owned()),
        };
        Ok(Some(request))
    }

    fn ticks_per_second(&self) -> Option<u64> {
        Some(self.ticks_per_second)
    }
}

/// The value of a field.
enum Value {
    Number(u64),
    Bytes,
}

/// The fields of a message, each with its number.
fn fields(message: &[u8]) -> impl Iterator<Item = Result<(u64, Value), &'static str>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field.ok_or("is damaged"))
    })
}

fn field(rest: &mut &[u8]) -> Option<(u64, Value)> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Number(u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?)),
        2 => {
            let len = usize::try_from(varint(rest)?).ok()?;
            rest.split_off(..len)?;
            Value::Bytes
        }
        5 => Value::Number(u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?).into()),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn behind_length(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 2);
    put(&mut bytes, message.len() as u64);
    bytes.extend(message);
    bytes
}

/// The begin of a file, header included.
pub(super) fn header() -> Vec<u8> {
    let name = b"outlast";
    let mut message = vec![1 << 3 | 2, name.len() as u8];
    message.extend(name);
    message.push(3 << 3);
    put(&mut message, TICKS_PER_SECOND);
    [MAGIC, &behind_length(&message)].concat()
}

/// The packet of a request.
pub(super) fn packet(request: &MemoryAccess) -> Vec<u8> {
    let command = if request.writes { WRITE } else { READ };
    let bytes = request.bytes.unwrap_or(LINE_BYTES);
    let mut message = Vec::with_capacity(32);
    for (field, value) in
        [(1, request.time.unwrap_or(0)), (2, command), (3, request.address), (4, bytes)]
    {
        message.push(field << 3);
        put(&mut message, value);
    }
    behind_length(&message)
}
