//! Strings and counters.

use crate::commands::expiry::{Unit, deadline_arg};
use crate::commands::{Answer, Ctx, Done, Fail, NOT_A_FLOAT, SYNTAX, int, is};
use crate::number::{format_long_double, parse_double, parse_int};
use crate::resp::push_decimal;
use crate::store::Found;
use crate::store::entry::{Entry, Kind};
use crate::store::table::Content;

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
const OVERFLOW: &str = "ERR increment or decrement would overflow";

/// A string's content with that deadline.
pub(super) fn string(value: &[u8], deadline: Option<u64>) -> Content<'_> {
    Content { kind: Kind::String, value, deadline }
}

impl Ctx<'_> {
    /// Answers with the string of an entry.
    fn answer(&mut self, entry: &Entry) -> Done {
        let mem = &mut *self.keys.mem;
        self.out.bulk_with(entry.value_len, |bytes| mem.load(entry.value_at(), bytes))?;
        Ok(())
    }

    fn answer_or_null(&mut self, found: Option<Found>) -> Done {
        match found {
            Some(found) => self.answer(found.entry()),
            None => {
                self.out.null();
                Ok(())
            }
        }
    }

    fn check_len(&self, len: usize) -> Done {
        if len > self.string_bytes_max { Err(TOO_LONG.into()) } else { Ok(()) }
    }
}

pub(super) fn get(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.read(ctx.args.at(1), "string")?;
    ctx.answer_or_null(found)
}

/// An option about the deadline.
enum Ttl {
    None,
    Keep,
    At(u64),
}

pub(super) fn set(ctx: &mut Ctx<'_>) -> Done {
    let (key, value) = (ctx.args.at(1), ctx.args.at(2));
    let (mut if_absent, mut if_there, mut gets) = (false, false, false);
    let mut ttl = Ttl::None;
    let mut index = 3;
    while let Some(word) = ctx.args.get(index) {
        if is(word, "NX") && !if_there {
            if_absent = true;
        } else if is(word, "XX") && !if_absent {
            if_there = true;
        } else if is(word, "GET") {
            gets = true;
        } else if is(word, "KEEPTTL") && matches!(ttl, Ttl::None) {
            ttl = Ttl::Keep;
        } else if let Some(unit) = Unit::of(word)
            && matches!(ttl, Ttl::None)
            && index + 1 < ctx.args.len()
        {
            index += 1;
            ttl = Ttl::At(deadline_arg(ctx, index, unit, "set")?);
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let found = match gets {
        true => ctx.typed(key, "string")?,
        false => ctx.keys.find(key)?,
    };
    if gets {
        ctx.answer_or_null(found)?;
    }
    if if_absent && found.is_some() || if_there && found.is_none() {
        if !gets {
            ctx.out.null();
        }
        return Ok(());
    }
    let deadline = match ttl {
        Ttl::None => None,
        Ttl::At(deadline) => Some(deadline),
        Ttl::Keep => match found {
            Some(found) => found.entry().deadline(ctx.keys.mem)?,
            None => None,
        },
    };
    ctx.keys.write(key, found, string(value, deadline))?;
    if !gets {
        ctx.out.ok();
    }
    Ok(())
}

pub(super) fn setnx(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.keys.find(ctx.args.at(1))?;
    if found.is_none() {
        ctx.keys.write(ctx.args.at(1), None, string(ctx.args.at(2), None))?;
    }
    ctx.out.int(found.is_none().into());
    Ok(())
}

fn set_for(ctx: &mut Ctx<'_>, unit: Unit, name: &str) -> Done {
    let deadline = deadline_arg(ctx, 2, unit, name)?;
    let found = ctx.keys.find(ctx.args.at(1))?;
    ctx.keys.write(ctx.args.at(1), found, string(ctx.args.at(3), Some(deadline)))?;
    ctx.out.ok();
    Ok(())
}

pub(super) fn setex(ctx: &mut Ctx<'_>) -> Done {
    set_for(ctx, Unit::Seconds, "setex")
}

pub(super) fn psetex(ctx: &mut Ctx<'_>) -> Done {
    set_for(ctx, Unit::Millis, "psetex")
}

pub(super) fn getset(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.typed(ctx.args.at(1), "string")?;
    ctx.answer_or_null(found)?;
    ctx.keys.write(ctx.args.at(1), found, string(ctx.args.at(2), None))?;
    Ok(())
}

pub(super) fn getdel(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.read(ctx.args.at(1), "string")?;
    ctx.answer_or_null(found)?;
    if let Some(found) = found {
        ctx.keys.remove(ctx.args.at(1), found)?;
    }
    Ok(())
}

pub(super) fn getex(ctx: &mut Ctx<'_>) -> Done {
    let mut deadline = None;
    let mut index = 2;
    while let Some(word) = ctx.args.get(index) {
        if deadline.is_some() {
            return Err(SYNTAX.into());
        }
        if is(word, "PERSIST") {
            deadline = Some(None);
        } else if let Some(unit) = Unit::of(word)
            && index + 1 < ctx.args.len()
        {
            index += 1;
            deadline = Some(Some(deadline_arg(ctx, index, unit, "getex")?));
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = ctx.args.at(1);
    let found = ctx.read(key, "string")?;
    ctx.answer_or_null(found)?;
    let Some(found) = found else { return Ok(()) };
    match deadline {
        Some(Some(at)) if at <= ctx.keys.now => ctx.keys.remove(key, found)?,
        Some(deadline) if deadline.is_some() || found.entry().has_deadline => {
            ctx.keys.set_deadline(key, found, deadline)?;
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn mget(ctx: &mut Ctx<'_>) -> Done {
    ctx.out.array(ctx.args.len() - 1);
    for key in ctx.args.from(1).iter() {
        match ctx.keys.look_up(key)? {
            Some(found) if found.kind() == Kind::String => ctx.answer(found.entry())?,
            _ => ctx.out.null(),
        }
    }
    Ok(())
}

fn check_pairs(ctx: &Ctx<'_>, name: &str) -> Done {
    match ctx.args.len() % 2 {
        1 => Ok(()),
        _ => Err(format!("ERR wrong number of arguments for '{name}' command").into()),
    }
}

fn set_pairs(ctx: &mut Ctx<'_>) -> Done {
    for index in (1..ctx.args.len()).step_by(2) {
        let key = ctx.args.at(index);
        let found = ctx.keys.find(key)?;
        ctx.keys.write(key, found, string(ctx.args.at(index + 1), None))?;
    }
    Ok(())
}

pub(super) fn mset(ctx: &mut Ctx<'_>) -> Done {
    check_pairs(ctx, "mset")?;
    set_pairs(ctx)?;
    ctx.out.ok();
    Ok(())
}

pub(super) fn msetnx(ctx: &mut Ctx<'_>) -> Done {
    check_pairs(ctx, "msetnx")?;
    for index in (1..ctx.args.len()).step_by(2) {
        if ctx.keys.find(ctx.args.at(index))?.is_some() {
            ctx.out.int(0);
            return Ok(());
        }
    }
    set_pairs(ctx)?;
    ctx.out.int(1);
    Ok(())
}

pub(super) fn append(ctx: &mut Ctx<'_>) -> Done {
    let (key, tail) = (ctx.args.at(1), ctx.args.at(2));
    let len = match ctx.typed(key, "string")? {
        None => {
            ctx.keys.write(key, None, string(tail, None))?;
            tail.len()
        }
        Some(found) => {
            let len = found.entry().value_len + tail.len();
            ctx.check_len(len)?;
            ctx.keys.append(key, found, tail)?;
            len
        }
    };
    ctx.out.len(len);
    Ok(())
}

pub(super) fn strlen(ctx: &mut Ctx<'_>) -> Done {
    let found = ctx.read(ctx.args.at(1), "string")?;
    ctx.out.len(found.map_or(0, |found| found.entry().value_len));
    Ok(())
}

pub(super) fn getrange(ctx: &mut Ctx<'_>) -> Done {
    let (start, stop) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let Some(found) = ctx.read(ctx.args.at(1), "string")? else {
        ctx.out.bulk(b"");
        return Ok(());
    };
    let entry = *found.entry();
    if start < 0 && stop < 0 && start > stop {
        ctx.out.bulk(b"");
        return Ok(());
    }
    let (start, end) = super::string_range(start, stop, entry.value_len as u64);
    let mem = &mut *ctx.keys.mem;
    let at = entry.value_at().plus(start);
    ctx.out.bulk_with((end - start) as usize, |bytes| mem.load(at, bytes))?;
    Ok(())
}

pub(super) fn setrange(ctx: &mut Ctx<'_>) -> Done {
    let offset = ctx.int_arg(2)?;
    let offset = usize::try_from(offset).map_err(|_| Fail::from("ERR offset is out of range"))?;
    let (key, bytes) = (ctx.args.at(1), ctx.args.at(3));
    let found = ctx.typed(key, "string")?;
    let len = found.map_or(0, |found| found.entry().value_len);
    if bytes.is_empty() {
        ctx.out.len(len);
        return Ok(());
    }
    let end = offset.checked_add(bytes.len()).ok_or(TOO_LONG)?;
    ctx.check_len(end)?;
    ctx.keys.put_at(key, found, offset, bytes)?;
    ctx.out.len(len.max(end));
    Ok(())
}

/// The number that a string is.
fn number_of(ctx: &mut Ctx<'_>, found: Option<Found>) -> Answer<i64> {
    let Some(found) = found else { return Ok(0) };
    let entry = *found.entry();
    let mut digits = [0; 20];
    let digits = digits.get_mut(..entry.value_len).ok_or(super::NOT_AN_INTEGER)?;
    ctx.keys.mem.load(entry.value_at(), digits)?;
    int(digits)
}

fn add(ctx: &mut Ctx<'_>, difference: i64) -> Done {
    let key = ctx.args.at(1);
    let found = ctx.typed(key, "string")?;
    let value = number_of(ctx, found)?.checked_add(difference).ok_or(OVERFLOW)?;
    let mut text = Vec::with_capacity(20);
    push_decimal(&mut text, value);
    ctx.keys.write_keeping_deadline(key, found, Kind::String, &text)?;
    ctx.out.int(value);
    Ok(())
}

pub(super) fn incr(ctx: &mut Ctx<'_>) -> Done {
    add(ctx, 1)
}

pub(super) fn decr(ctx: &mut Ctx<'_>) -> Done {
    add(ctx, -1)
}

pub(super) fn incrby(ctx: &mut Ctx<'_>) -> Done {
    let difference = ctx.int_arg(2)?;
    add(ctx, difference)
}

pub(super) fn decrby(ctx: &mut Ctx<'_>) -> Done {
    let difference = ctx.int_arg(2)?.checked_neg();
    add(ctx, difference.ok_or("ERR decrement would overflow")?)
}

/// Decimal digits behind the point that sums are exact to, as those of Redis' long doubles.
const DECIMALS: usize = 17;

/// A plain decimal number in units of the last of those digits.
fn fixed(text: &[u8]) -> Option<i128> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let (whole, part) = (parts.next()?, parts.next().unwrap_or_default());
    let is_number = whole.iter().chain(part).all(u8::is_ascii_digit);
    if !is_number || whole.len() + part.len() == 0 || whole.len() > 20 || part.len() > DECIMALS {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', DECIMALS - part.len());
    let digits = whole.iter().chain(part).chain(zeros);
    let value = digits.fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    Some(sign * value)
}

fn format_fixed(value: i128) -> String {
    let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    let one = 10u128.pow(DECIMALS as u32);
    let text = format!("{sign}{}.{:0DECIMALS$}", value / one, value % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The sum of two numbers in text.
pub(super) fn add_floats(a: &[u8], b: &[u8], not_a_float: &'static str) -> Answer<String> {
    let (x, y) = (parse_double(a).ok_or(not_a_float)?, parse_double(b).ok_or(NOT_A_FLOAT)?);
    if let (Some(x), Some(y)) = (fixed(a), fixed(b))
        && let Some(sum) = x.checked_add(y)
    {
        return Ok(format_fixed(sum));
    }
    match x + y {
        sum if sum.is_finite() => Ok(format_long_double(sum)),
        _ => Err("ERR increment would produce NaN or Infinity".into()),
    }
}

pub(super) fn incrbyfloat(ctx: &mut Ctx<'_>) -> Done {
    let key = ctx.args.at(1);
    let found = ctx.typed(key, "string")?;
    let value = match found {
        Some(found) => found.entry().value(ctx.keys.mem)?,
        None => b"0".to_vec(),
    };
    let sum = add_floats(&value, ctx.args.at(2), NOT_A_FLOAT)?;
    ctx.keys.write_keeping_deadline(key, found, Kind::String, sum.as_bytes())?;
    ctx.out.bulk(sum.as_bytes());
    Ok(())
}

/// The longest common subsequence of two strings.
pub(super) fn lcs(ctx: &mut Ctx<'_>) -> Done {
    let (mut wants_len, mut wants_idx, mut with_len, mut least) = (false, false, false, 0);
    let mut index = 3;
    while let Some(word) = ctx.args.get(index) {
        if is(word, "LEN") {
            wants_len = true;
        } else if is(word, "IDX") {
            wants_idx = true;
        } else if is(word, "WITHMATCHLEN") {
            with_len = true;
        } else if is(word, "MINMATCHLEN") && index + 1 < ctx.args.len() {
            index += 1;
            least = ctx.int_arg(index)?.max(0) as usize;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if wants_len && wants_idx {
        let what = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(what.into());
    }
    let mut texts = [Vec::new(), Vec::new()];
    for (text, index) in texts.iter_mut().zip([1, 2]) {
        let found = ctx.keys.look_up(ctx.args.at(index))?;
        match found {
            Some(found) if found.kind() != Kind::String => {
                return Err("ERR The specified keys must contain string values".into());
            }
            Some(found) => *text = found.entry().value(ctx.keys.mem)?,
            None => {}
        }
    }
    let [a, b] = texts;
    let cells = (a.len() as u64 + 1) * (b.len() as u64 + 1);
    if cells > 1 << 28 {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds its limit".into());
    }
    let width = b.len() + 1;
    let mut lens = vec![0u32; cells as usize];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            lens[i * width + j] = if a[i - 1] == b[j - 1] {
                lens[(i - 1) * width + j - 1] + 1
            } else {
                lens[(i - 1) * width + j].max(lens[i * width + j - 1])
            };
        }
    }
    let total = lens[a.len() * width + b.len()] as usize;
    if wants_len {
        ctx.out.len(total);
        return Ok(());
    }
    let (mut i, mut j) = (a.len(), b.len());
    let mut common = Vec::with_capacity(total);
    // Runs of equal bytes, from the last: where they begin in both, and how long they are.
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match runs.last_mut() {
                Some(run) if (run.0, run.1) == (i + 1, j + 1) => *run = (i, j, run.2 + 1),
                _ => runs.push((i, j, 1)),
            }
        } else if lens[(i - 1) * width + j] > lens[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    if !wants_idx {
        common.reverse();
        ctx.out.bulk(&common);
        return Ok(());
    }
    runs.retain(|run| run.2 >= least);
    ctx.out.map(2);
    ctx.out.bulk(b"matches");
    ctx.out.array(runs.len());
    for (i, j, len) in runs {
        ctx.out.array(if with_len { 3 } else { 2 });
        for start in [i, j] {
            ctx.out.array(2);
            ctx.out.len(start);
            ctx.out.len(start + len - 1);
        }
        if with_len {
            ctx.out.len(len);
        }
    }
    ctx.out.bulk(b"len");
    ctx.out.len(total);
    Ok(())
}

/// Whether a string is a number as `INCR` leaves it.
pub(super) fn is_number(value: &[u8]) -> bool {
    parse_int(value).is_some()
}
