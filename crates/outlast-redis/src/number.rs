//! Numbers as Redis reads and writes them.

/// A decimal number without a sign that says nothing, leading zeros or white space.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        value = value.checked_mul(10)?;
        value = if is_negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// A floating-point number, `inf` included, and nothing around it. One that a double cannot hold is none.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    match text.first() {
        None => None,
        Some(first) if first.is_ascii_whitespace() => None,
        Some(_) => {
            parse_loosely(text).filter(|(_, is_in_range)| *is_in_range).map(|(value, _)| value)
        }
    }
}

/// As C's `strtod` reads all of a text: an empty one is 0, and white space before the number counts for
/// nothing. Also tells whether the number was neither too large for a double nor too close to 0.
pub(crate) fn parse_loosely(text: &[u8]) -> Option<(f64, bool)> {
    if text.is_empty() {
        return Some((0.0, true));
    }
    let text = std::str::from_utf8(text.trim_ascii_start()).ok()?;
    let lower = text.to_ascii_lowercase();
    let (sign, digits) = match lower.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    if matches!(digits, "inf" | "infinity") {
        return Some((sign * f64::INFINITY, true));
    }
    let value = match digits.strip_prefix("0x") {
        Some(digits) => parse_hex(digits)?,
        None if digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            digits.parse().ok()?
        }
        None => return None,
    };
    let mantissa = digits.split(['e', 'p']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9' | b'a'..=b'f'));
    Some((sign * value, f64::is_finite(value) && (value != 0.0 || is_zero)))
}

/// The digits of a hexadecimal number, with a point and a binary exponent if it has them.
fn parse_hex(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = match digits.split_once('p') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(part.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let value = value * f64::from(exponent.saturating_sub(4 * part.len() as i32)).exp2();
    Some(value)
}

/// Seventeen significant digits at most, as `%.17g` prints them.
pub(crate) fn format_double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return if value == 0.0 && value.is_sign_negative() {
            "-0".to_owned()
        } else {
            format!("{}", value as i64)
        };
    }
    general(value, 17)
}

/// As C's `%.*g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let mantissa = trimmed(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// As the commands that add floating-point numbers to strings print them: no exponent, and at most
/// 17 digits behind the point.
pub(crate) fn format_long_double(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e17 {
        return format!("{}", value as i64);
    }
    // The shortest text that is this number: a long double's digits are not there to be printed.
    let text = format!("{value}");
    trimmed(&text).to_owned()
}

/// The bits of a number in an order that is the numbers' own.
pub(crate) fn sortable(value: f64) -> u64 {
    // Both zeros are one score.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The number of those bits.
pub(crate) fn from_sortable(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_int(value.to_string().as_bytes()), Some(value));
        }
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "9223372036854775808", "1a"] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_printed_as_c_prints_them() {
        for (value, text) in [
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (-1.5, "-1.5"),
            (1e20, "1e+20"),
            (1.5e-7, "1.4999999999999999e-07"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(value), text);
        }
        assert_eq!(format_long_double(10.6), "10.6");
        assert_eq!(parse_double(b"1e3"), Some(1000.0));
        assert_eq!(parse_double(b"nan"), None);
        for refused in ["1e400", "-1e400", "1e-400", "0x", "--0x1", "1e", "", "1 "] {
            assert_eq!(parse_double(refused.as_bytes()), None, "{refused}");
        }
        for (text, value) in [("0e999", 0.0), ("0x1.8p1", 3.0), ("-0x10", -16.0), ("1e308", 1e308)]
        {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
    }

    #[test]
    fn sortable_bits_have_the_order_of_their_numbers() {
        let values = [f64::NEG_INFINITY, -2.5, -1.0, 0.0, 1e-300, 1.0, 2.5, f64::INFINITY];
        assert!(values.map(sortable).is_sorted());
        assert!(values.iter().all(|value| from_sortable(sortable(*value)) == *value));
        assert_eq!(sortable(-0.0), sortable(0.0));
    }
}
