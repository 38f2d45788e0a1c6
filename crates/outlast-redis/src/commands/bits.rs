//! Bits of strings.

use crate::commands::{Answer, Ctx, Done, Fail, SYNTAX, is};
use crate::store::Found;
use crate::store::entry::Kind;
use crate::store::mem::load_vec;

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BAD_BIT: &str = "ERR bit is not an integer or out of range";

fn bit_offset(ctx: &Ctx<'_>, index: usize) -> Answer<u64> {
    let offset = crate::number::parse_int(ctx.args.at(index)).ok_or(BAD_OFFSET)?;
    let offset = u64::try_from(offset).map_err(|_| Fail::from(BAD_OFFSET))?;
    match offset / 8 < ctx.string_bytes_max as u64 {
        true => Ok(offset),
        false => Err(BAD_OFFSET.into()),
    }
}

fn byte_at(ctx: &mut Ctx<'_>, found: Option<Found>, at: u64) -> Answer<u8> {
    let mut byte = [0];
    if let Some(found) = found
        && at < found.entry().value_len as u64
    {
        ctx.keys.mem.load(found.entry().value_at().plus(at), &mut byte)?;
    }
    Ok(byte[0])
}

pub(super) fn setbit(ctx: &mut Ctx<'_>) -> Done {
    let offset = bit_offset(ctx, 2)?;
    let bit = match ctx.args.at(3) {
        b"0" => 0,
        b"1" => 1,
        _ => return Err(BAD_BIT.into()),
    };
    let key = ctx.args.at(1);
    let found = ctx.typed(key, "string")?;
    let byte = byte_at(ctx, found, offset / 8)?;
    let shift = 7 - offset % 8;
    let new = byte & !(1 << shift) | bit << shift;
    ctx.keys.put_at(key, found, (offset / 8) as usize, &[new])?;
    ctx.out.int((byte >> shift & 1).into());
    Ok(())
}

pub(super) fn getbit(ctx: &mut Ctx<'_>) -> Done {
    let offset = bit_offset(ctx, 2)?;
    let found = ctx.read(ctx.args.at(1), "string")?;
    let byte = byte_at(ctx, found, offset / 8)?;
    ctx.out.int((byte >> (7 - offset % 8) & 1).into());
    Ok(())
}

/// The range that two words give, in bits: first and end.
fn bit_range(ctx: &Ctx<'_>, first: usize, len: u64, is_position: bool) -> Answer<(u64, u64)> {
    let start = ctx.int_arg(first)?;
    let unit = match ctx.args.get(first + 2) {
        None => Ok(false),
        Some(word) if is(word, "BIT") => Ok(true),
        Some(word) if is(word, "BYTE") => Ok(false),
        Some(_) => Err(SYNTAX),
    };
    // `BITPOS` looks at the unit before the end, `BITCOUNT` behind both.
    let in_bits = if is_position { unit? } else { false };
    let stop = if first + 1 < ctx.args.len() { ctx.int_arg(first + 1)? } else { -1 };
    if !is_position && start < 0 && stop < 0 && start > stop {
        return Ok((0, 0));
    }
    let in_bits = if is_position { in_bits } else { unit? };
    let scale = if in_bits { 1 } else { 8 };
    let (start, end) = super::string_range(start, stop, len * 8 / scale);
    Ok((start * scale, end * scale))
}

/// The bytes that a range of bits touches, those outside of it zero or one as `fill` says.
fn masked(ctx: &mut Ctx<'_>, found: Found, (start, end): (u64, u64), fill: u8) -> Answer<Vec<u8>> {
    if start >= end {
        return Ok(Vec::new());
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    let at = found.entry().value_at().plus(first);
    let mut bytes = load_vec(ctx.keys.mem, at, (last - first + 1) as usize)?;
    let head = 0xFFu8 >> (start % 8);
    let tail = 0xFFu8 << (7 - (end - 1) % 8);
    if let Some(byte) = bytes.first_mut() {
        *byte = *byte & head | fill & !head;
    }
    if let Some(byte) = bytes.last_mut() {
        *byte = *byte & tail | fill & !tail;
    }
    Ok(bytes)
}

pub(super) fn bitcount(ctx: &mut Ctx<'_>) -> Done {
    // A key that is not there has no bits, whatever the other words are.
    let Some(found) = ctx.read(ctx.args.at(1), "string")? else {
        ctx.out.int(0);
        return Ok(());
    };
    if ctx.args.len() == 3 || ctx.args.len() > 5 {
        return Err(SYNTAX.into());
    }
    let len = found.entry().value_len as u64;
    let range = if ctx.args.len() > 2 { bit_range(ctx, 2, len, false)? } else { (0, len * 8) };
    let bytes = masked(ctx, found, range, 0)?;
    ctx.out.int(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum());
    Ok(())
}

pub(super) fn bitpos(ctx: &mut Ctx<'_>) -> Done {
    let bit = match crate::commands::int(ctx.args.at(2))? {
        0 => 0,
        1 => 1,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(found) = ctx.read(ctx.args.at(1), "string")? else {
        ctx.out.int(if bit == 1 { -1 } else { 0 });
        return Ok(());
    };
    if ctx.args.len() > 6 {
        return Err(SYNTAX.into());
    }
    let len = found.entry().value_len as u64;
    let range = if ctx.args.len() > 3 { bit_range(ctx, 3, len, true)? } else { (0, len * 8) };
    let fill = if bit == 1 { 0 } else { 0xFF };
    let bytes = masked(ctx, found, range, fill)?;
    let hit = bytes.iter().position(|byte| *byte != fill);
    let answer = match hit {
        Some(index) => {
            let byte = bytes[index] ^ fill;
            (range.0 / 8 + index as u64) as i64 * 8 + i64::from(byte.leading_zeros())
        }
        // Zeros follow a string whose end was not asked for.
        None if bit == 0 && ctx.args.len() < 5 && range.0 < range.1 => range.1 as i64,
        None => -1,
    };
    ctx.out.int(answer);
    Ok(())
}

pub(super) fn bitop(ctx: &mut Ctx<'_>) -> Done {
    let name = ctx.args.at(1);
    let is_not = is(name, "NOT");
    let combine: fn(u8, u8) -> u8 = match () {
        () if is(name, "AND") => |a, b| a & b,
        () if is(name, "OR") => |a, b| a | b,
        () if is(name, "XOR") => |a, b| a ^ b,
        () if is_not => |a, _| a,
        () => return Err(SYNTAX.into()),
    };
    if is_not && ctx.args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut sources = Vec::new();
    for key in ctx.args.from(3).iter() {
        sources.push(match ctx.read(key, "string")? {
            Some(found) => found.entry().value(ctx.keys.mem)?,
            None => Vec::new(),
        });
    }
    let len = sources.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |source: &Vec<u8>, at: usize| source.get(at).copied().unwrap_or(0);
    let result = (0..len).map(|at| {
        let bytes = sources.iter().map(|source| byte(source, at));
        let byte = bytes.reduce(combine).unwrap_or(0);
        if is_not { !byte } else { byte }
    });
    let result: Vec<u8> = result.collect();
    let key = ctx.args.at(2);
    let found = ctx.keys.find(key)?;
    if !result.is_empty() {
        ctx.keys.write(key, found, super::strings::string(&result, None))?;
    } else if let Some(found) = found {
        ctx.keys.remove(key, found)?;
    }
    ctx.out.len(len);
    Ok(())
}

/// The treatment of a number that its field cannot hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// A field of bits.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u32,
    offset: u64,
}

impl Field {
    fn parse(ctx: &Ctx<'_>, index: usize) -> Answer<Self> {
        const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let (is_signed, bits) = match ctx.args.at(index) {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(BAD_TYPE.into()),
        };
        let most = if is_signed { 64 } else { 63 };
        let bits = crate::number::parse_int(bits).filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or(BAD_TYPE)? as u32;
        let (scale, digits) = match ctx.args.at(index + 1) {
            [b'#', digits @ ..] => (u64::from(bits), digits),
            digits => (1, digits),
        };
        let offset = crate::number::parse_int(digits).and_then(|at| u64::try_from(at).ok());
        let offset = offset.and_then(|at| at.checked_mul(scale)).ok_or(BAD_OFFSET)?;
        let end = offset.checked_add(u64::from(bits)).ok_or(BAD_OFFSET)?;
        if end.div_ceil(8) > ctx.string_bytes_max as u64 {
            return Err(BAD_OFFSET.into());
        }
        Ok(Self { is_signed, bits, offset })
    }

    fn end_byte(&self) -> usize {
        (self.offset + u64::from(self.bits)).div_ceil(8) as usize
    }

    fn get(&self, bytes: &[u8]) -> i64 {
        let bit = |at: u64| bytes.get((at / 8) as usize).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        let bits = (0..u64::from(self.bits))
            .fold(0u64, |value, index| value << 1 | u64::from(bit(self.offset + index)));
        match self.is_signed {
            true => ((bits << (64 - self.bits)) as i64) >> (64 - self.bits),
            false => bits as i64,
        }
    }

    fn set(&self, bytes: &mut [u8], value: i64) {
        for index in 0..self.bits {
            let at = self.offset + u64::from(index);
            let bit = (value >> (self.bits - 1 - index) & 1) as u8;
            let shift = 7 - at % 8;
            let byte = &mut bytes[(at / 8) as usize];
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }

    /// A value as the field holds it; `None` where it must not be stored.
    fn fit(&self, value: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = match self.is_signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        };
        if (least..=most).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(least, most) as i64),
            Overflow::Wrap => {
                let wrapped = (value - least).rem_euclid(1i128 << self.bits) + least;
                Some(wrapped as i64)
            }
        }
    }
}

enum Step {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

fn steps(ctx: &Ctx<'_>) -> Answer<Vec<Step>> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while let Some(word) = ctx.args.get(index) {
        let left = ctx.args.len() - index - 1;
        if is(word, "GET") && left >= 2 {
            steps.push(Step::Get(Field::parse(ctx, index + 1)?));
            index += 3;
        } else if (is(word, "SET") || is(word, "INCRBY")) && left >= 3 {
            let field = Field::parse(ctx, index + 1)?;
            let value = ctx.int_arg(index + 3)?;
            steps.push(match is(word, "SET") {
                true => Step::Set(field, value, overflow),
                false => Step::Add(field, value, overflow),
            });
            index += 4;
        } else if is(word, "OVERFLOW") && left >= 1 {
            let how = ctx.args.at(index + 1);
            overflow = match () {
                () if is(how, "WRAP") => Overflow::Wrap,
                () if is(how, "SAT") => Overflow::Saturate,
                () if is(how, "FAIL") => Overflow::Fail,
                () => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            index += 2;
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(steps)
}

pub(super) fn bitfield(ctx: &mut Ctx<'_>) -> Done {
    let steps = steps(ctx)?;
    let key = ctx.args.at(1);
    let writes = steps.iter().any(|step| !matches!(step, Step::Get(_)));
    let found = if writes { ctx.typed(key, "string")? } else { ctx.read(key, "string")? };
    let old = match found {
        Some(found) => found.entry().value(ctx.keys.mem)?,
        None => Vec::new(),
    };
    let mut bytes = old.clone();
    ctx.out.array(steps.len());
    for step in steps {
        let field = match step {
            Step::Get(field) => {
                ctx.out.int(field.get(&bytes));
                continue;
            }
            Step::Set(field, ..) | Step::Add(field, ..) => field,
        };
        bytes.resize(bytes.len().max(field.end_byte()), 0);
        let was = field.get(&bytes);
        let (wanted, overflow, is_set) = match step {
            Step::Set(_, value, overflow) => (i128::from(value), overflow, true),
            Step::Add(_, value, overflow) => (i128::from(was) + i128::from(value), overflow, false),
            Step::Get(_) => continue,
        };
        match field.fit(wanted, overflow) {
            Some(value) => {
                field.set(&mut bytes, value);
                ctx.out.int(if is_set { was } else { value });
            }
            None => ctx.out.null(),
        }
    }
    if writes && (bytes != old || found.is_none()) {
        match found {
            Some(found) => ctx.keys.rewrite(key, found, &old, &bytes)?,
            None => ctx.keys.write_keeping_deadline(key, None, Kind::String, &bytes)?,
        };
    }
    Ok(())
}

pub(super) fn bitfield_ro(ctx: &mut Ctx<'_>) -> Done {
    if steps(ctx)?.iter().any(|step| !matches!(step, Step::Get(_))) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    bitfield(ctx)
}
