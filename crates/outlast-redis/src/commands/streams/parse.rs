//! IDs, bounds and options of the commands of streams.

use crate::commands::{Answer, Fail, SYNTAX, int, is};
use crate::resp::Args;
use crate::store::stream::Id;

const BAD_ID: &str = "ERR Invalid stream ID specified as stream command argument";

/// A number of decimal digits.
fn number(text: &[u8]) -> Answer<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|_| text.iter().all(u8::is_ascii_digit));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| BAD_ID.into())
}

/// The two parts of an ID, the second where it is there.
fn parts(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// An ID of which the second part may be missing; no `-` or `+`.
fn strict_id_or(text: &[u8], missing: u64) -> Answer<Id> {
    let (ms, rest) = parts(text);
    let ms = number(ms)?;
    Ok(Id { ms, number: rest.map_or(Ok(missing), number)? })
}

/// An ID; one without a second part has 0 there.
pub(super) fn strict_id(text: &[u8]) -> Answer<Id> {
    strict_id_or(text, 0)
}

/// An ID, or `-` and `+` for the least and the largest.
pub(super) fn id_or_end(text: &[u8], missing: u64) -> Answer<Id> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        text => strict_id_or(text, missing),
    }
}

/// The end of an interval, without itself behind `(`.
pub(super) fn bound(text: &[u8], is_start: bool) -> Answer<Id> {
    let missing = if is_start { 0 } else { u64::MAX };
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let id = strict_id_or(rest, missing)?;
            let (inner, which) =
                if is_start { (id.next(), "start") } else { (id.previous(), "end") };
            inner.ok_or_else(|| Fail::from(format!("ERR invalid {which} ID for the interval")))
        }
        text => id_or_end(text, missing),
    }
}

/// The ID that an entry is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddId {
    /// The present time, and a number.
    Auto,
    /// That time, and a number.
    Of(u64),
    Whole(Id),
}

/// The entries to be dropped from the front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trim {
    None,
    /// All but the last `len` entries.
    Len {
        len: u64,
        is_about: bool,
        limit: Option<u64>,
    },
    /// Entries with smaller IDs.
    Least {
        id: Id,
        is_about: bool,
        limit: Option<u64>,
    },
}

/// Options of `XADD` and `XTRIM`.
pub(super) struct AddOptions {
    pub no_stream: bool,
    pub trim: Trim,
    pub id: AddId,
    /// The word behind them.
    pub next: usize,
}

/// Reads the options of `XADD`, up to its ID, or of `XTRIM`.
pub(super) fn add_options(args: Args<'_>, is_add: bool) -> Answer<AddOptions> {
    let mut options =
        AddOptions { no_stream: false, trim: Trim::None, id: AddId::Auto, next: args.len() };
    let mut limit = None;
    let mut index = 2;
    while let Some(word) = args.get(index) {
        let more = args.len() - 1 - index;
        if is_add && word == b"*" {
            options.next = index + 1;
            break;
        }
        let by_len = is(word, "MAXLEN");
        if more > 0 && (by_len || is(word, "MINID")) {
            if options.trim != Trim::None {
                return Err("ERR syntax error, MAXLEN and MINID options at the same time are not compatible".into());
            }
            let is_about = more >= 2 && args.at(index + 1) == b"~";
            if is_about || more >= 2 && args.at(index + 1) == b"=" {
                index += 1;
            }
            let value = args.at(index + 1);
            options.trim = if by_len {
                let len = u64::try_from(int(value)?)
                    .map_err(|_| Fail::from("ERR The MAXLEN argument must be >= 0."))?;
                Trim::Len { len, is_about, limit: None }
            } else {
                Trim::Least { id: strict_id(value)?, is_about, limit: None }
            };
            index += 1;
        } else if more > 0 && is(word, "LIMIT") {
            let value = u64::try_from(int(args.at(index + 1))?)
                .map_err(|_| Fail::from("ERR The LIMIT argument must be >= 0."))?;
            limit = Some(value);
            index += 1;
        } else if is_add && is(word, "NOMKSTREAM") {
            options.no_stream = true;
        } else if is_add {
            options.id = match parts(word) {
                (ms, Some(b"*")) => AddId::Of(number(ms)?),
                _ => AddId::Whole(strict_id(word)?),
            };
            options.next = index + 1;
            break;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    finish(&mut options, limit, is_add)?;
    Ok(options)
}

fn finish(options: &mut AddOptions, given: Option<u64>, is_add: bool) -> Answer<()> {
    if given.is_some_and(|limit| limit > 0) && options.trim == Trim::None {
        return Err(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into(),
        );
    }
    match &mut options.trim {
        Trim::None if !is_add => {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        Trim::Len { is_about: true, limit, .. } | Trim::Least { is_about: true, limit, .. } => {
            *limit = given;
        }
        _ if given.is_some() => {
            return Err(
                "ERR syntax error, LIMIT cannot be used without the special ~ option".into()
            );
        }
        _ => {}
    }
    Ok(())
}
