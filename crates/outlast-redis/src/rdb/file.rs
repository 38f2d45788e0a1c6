//! Files that a redis-server has saved: a header, keys with their values, a checksum.

use std::io;

use super::read::Source;
use super::value::Value;
use super::{Read, bad};

/// The latest version that is read.
const VERSION_MAX: u32 = 12;

mod opcode {
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION_2: u8 = 245;
    pub const FUNCTION: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQ: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRES_MS: u8 = 252;
    pub const EXPIRES_S: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// A key of a file.
pub(super) struct Item {
    pub database: u64,
    pub key: Vec<u8>,
    pub value: Value,
    /// In ms since 1970.
    pub deadline: Option<u64>,
}

/// A file that is read.
pub(super) struct File<R> {
    source: Source<R>,
    version: u32,
    database: u64,
    /// Libraries of functions that were passed over.
    pub functions: u64,
}

impl<R: io::Read> File<R> {
    /// Reads the header.
    pub fn open(inner: R) -> Read<Self> {
        let mut source = Source::new(inner);
        let header: [u8; 9] = source.exact("the header")?;
        let version = header.strip_prefix(b"REDIS").and_then(|version| {
            std::str::from_utf8(version).ok().and_then(|version| version.parse().ok())
        });
        match version {
            Some(version @ 1..=VERSION_MAX) => {
                Ok(Self { source, version, database: 0, functions: 0 })
            }
            Some(version) => {
                bad(format!("version {version} of the format; up to {VERSION_MAX} are known"))
            }
            None => bad("no RDB file: it does not begin with REDIS and a version"),
        }
    }

    /// How many bytes were read.
    pub fn at(&self) -> u64 {
        self.source.at
    }

    /// The next key; `None` at the end, where the checksum is right.
    pub fn next(&mut self) -> Read<Option<Item>> {
        let mut deadline = None;
        let source = &mut self.source;
        loop {
            match source.byte("an entry's type")? {
                opcode::EXPIRES_S => {
                    let seconds = i32::from_le_bytes(source.exact("a deadline")?);
                    deadline = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                }
                opcode::EXPIRES_MS => {
                    let ms = i64::from_le_bytes(source.exact("a deadline")?);
                    deadline = Some(u64::try_from(ms).unwrap_or(0));
                }
                opcode::IDLE => drop(source.len()?),
                opcode::FREQ => drop(source.byte("a frequency")?),
                opcode::AUX => {
                    source.string()?;
                    source.string()?;
                }
                opcode::SIZES => {
                    source.len()?;
                    source.len()?;
                }
                opcode::SLOT_INFO => {
                    for _ in 0..3 {
                        source.len()?;
                    }
                }
                opcode::DATABASE => self.database = source.len()?,
                opcode::FUNCTION_2 => {
                    source.string()?;
                    self.functions += 1;
                }
                opcode::FUNCTION => return bad("functions of a release candidate of Redis 7.0"),
                opcode::MODULE_AUX => return bad("data of a module"),
                opcode::END => {
                    let crc = source.crc;
                    if self.version >= 5 {
                        let told = u64::from_le_bytes(source.exact("the checksum")?);
                        if told != 0 && told != crc {
                            return bad("the checksum is wrong");
                        }
                    }
                    return Ok(None);
                }
                type_number => {
                    let key = source.string()?;
                    let value = source.value(type_number).map_err(|error| match error {
                        super::RdbError::Io(error) => super::RdbError::Io(error),
                        other => super::RdbError::Bad(format!(
                            "the key '{}': {other}",
                            String::from_utf8_lossy(&key).escape_debug()
                        )),
                    })?;
                    return Ok(Some(Item { database: self.database, key, value, deadline }));
                }
            }
        }
    }
}
