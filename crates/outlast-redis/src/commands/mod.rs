//! The commands: what each does with the keys, and the table that names them.
//!
//! A command of data is a function of a [`Ctx`]: it works in a transaction that its caller commits,
//! and puts its answer into a buffer that its caller lets go of after that. It checks everything that
//! it can refuse before its first store.

mod bits;
pub(crate) mod events;
mod expiry;
mod hashes;
mod keys;
mod lists;
mod scan;
mod serial;
mod sets;
mod sort;
pub(crate) mod streams;
mod strings;
mod subcommands;
mod table;
mod zsets;

use std::borrow::Cow;

use outlast::Abort;

use crate::number::{parse_double, parse_int};
use crate::resp::{Args, Reply};
use crate::store::{Found, Keys};

pub(crate) use keys::encoding;
pub(crate) use lists::{Side, move_item, parse_multi_pop, pop_for as pop_list_for};
pub(crate) use subcommands::refusal as subcommand_refusal;
pub(crate) use table::{Command, Run, SessionRun, commands, find};
pub(crate) use zsets::{pop_for as pop_zset_for, side as zset_side};

/// Why a command has no answer but an error.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The transaction cannot go on.
    Abort(Abort),
    /// The client has made a mistake; nothing was stored.
    Reply(Cow<'static, str>),
}

impl From<Abort> for Fail {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

impl From<&'static str> for Fail {
    fn from(text: &'static str) -> Self {
        Self::Reply(text.into())
    }
}

impl From<String> for Fail {
    fn from(text: String) -> Self {
        Self::Reply(text.into())
    }
}

pub(crate) type Done = Result<(), Fail>;
pub(crate) type Answer<T> = Result<T, Fail>;

pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
pub(crate) const OUT_OF_RANGE: &str = "ERR index out of range";

/// A command at work.
pub(crate) struct Ctx<'a> {
    pub keys: Keys<'a>,
    pub args: Args<'a>,
    pub out: &'a mut Reply,
    /// The longest string, in bytes.
    pub string_bytes_max: usize,
}

impl Ctx<'_> {
    pub fn int_arg(&self, index: usize) -> Answer<i64> {
        int(self.args.at(index))
    }

    /// A number that is not negative.
    pub fn count_arg(&self, index: usize, what: &'static str) -> Answer<usize> {
        let value = parse_int(self.args.at(index));
        value.and_then(|value| usize::try_from(value).ok()).ok_or_else(|| what.into())
    }

    /// The key's entry, if its value is of that type.
    pub fn typed(&mut self, key: &[u8], type_name: &str) -> Answer<Option<Found>> {
        let found = self.keys.find(key)?;
        of_type(found, type_name)
    }

    /// The same for a command that reads.
    pub fn read(&mut self, key: &[u8], type_name: &str) -> Answer<Option<Found>> {
        let found = self.keys.look_up(key)?;
        of_type(found, type_name)
    }
}

fn of_type(found: Option<Found>, type_name: &str) -> Answer<Option<Found>> {
    match found {
        Some(found) if found.kind().type_name() != type_name => Err(WRONG_TYPE.into()),
        found => Ok(found),
    }
}

pub(crate) fn int(text: &[u8]) -> Answer<i64> {
    parse_int(text).ok_or_else(|| NOT_AN_INTEGER.into())
}

pub(crate) fn double(text: &[u8]) -> Answer<f64> {
    parse_double(text).ok_or_else(|| NOT_A_FLOAT.into())
}

/// Whether a word is that option, in whatever case.
pub(crate) fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// As [`range`], of a string: a last index before its beginning means its first byte or bit.
pub(crate) fn string_range(start: i64, stop: i64, len: u64) -> (u64, u64) {
    let stop = if stop < 0 { (len as i64).saturating_add(stop).max(0) } else { stop };
    range(start, stop, len)
}

/// A range by its first and last index, of which negative ones count from the end: where it begins and
/// ends.
pub(crate) fn range(start: i64, stop: i64, len: u64) -> (u64, u64) {
    let from_end = |index: i64| match index < 0 {
        true => (len as i64).saturating_add(index),
        false => index,
    };
    let start = from_end(start).max(0) as u64;
    let end = (from_end(stop).saturating_add(1).max(0) as u64).min(len);
    if start >= end { (0, 0) } else { (start, end) }
}
