//! Values as Redis serialises them: payloads of `DUMP` and `RESTORE`, and files that a redis-server has saved.
//!
//! Reading knows every encoding of Redis up to 7.2 (tables, ziplists, zipmaps, integer sets, listpacks, quicklists,
//! streams, LZF); writing uses those that need no conversion, which all of these versions load. Whatever bytes
//! arrive, the answer is a value or an error: lengths are believed only as far as bytes follow, and what is to be
//! in order is checked.

mod crc64;
mod file;
mod import;
mod packed;
mod payload;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub use import::{ImportError, Imported, import, verify};
pub(crate) use payload::{from_payload, to_payload};
pub(crate) use value::{load, store};

/// Why bytes are no value.
#[derive(Debug, thiserror::Error)]
pub enum RdbError {
    /// They cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// They end too early.
    #[error("the data ends in the middle of {0}")]
    Ends(&'static str),
    /// They are not what they should be.
    #[error("{0}")]
    Bad(String),
}

pub(crate) type Read<T> = Result<T, RdbError>;

fn bad<T>(what: impl Into<String>) -> Read<T> {
    Err(RdbError::Bad(what.into()))
}

/// Types of values, as Redis numbers them.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const ZSET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const ZSET_BINARY: u8 = 5;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
}
