//! Numbers as people read them.

/// Three significant digits with a metric prefix: `1.23 M`, `45.6 k`, `789`, `0.012`.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, prefix) = match magnitude {
        m if m >= 999.5e6 => (value / 1e9, " G"),
        m if m >= 999.5e3 => (value / 1e6, " M"),
        m if m >= 9_999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{prefix}", significant(scaled))
}

/// As [`short`], without zeros behind the point: for the round numbers of an axis.
pub fn tick(value: f64) -> String {
    let text = short(value);
    let (number, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => number,
    };
    if prefix.is_empty() { number.to_owned() } else { format!("{number} {prefix}") }
}

/// Three significant digits, none of them behind the point where there are three before it.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        0.0 => 0,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A whole number in groups of three: `12 345 678`, with thin spaces.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Bytes with a binary prefix: `32 KiB`, `1.5 MiB`.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let exponent = (value.max(1).ilog2() / 10).min(4);
    let scaled = value as f64 / (1u64 << (10 * exponent)) as f64;
    let text = if scaled.fract() == 0.0 { format!("{scaled}") } else { format!("{scaled:.1}") };
    format!("{text} {}", units[exponent as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases = [
            (0.0, "0"),
            (0.01234, "0.012"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (123.4, "123"),
            (4567.0, "4567"),
            (45_678.0, "45.7 k"),
            (999_600.0, "1.00 M"),
            (1_234_567.0, "1.23 M"),
            (-1_234_567.0, "-1.23 M"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        let ticks = [0.0, 0.5, 10.0, 1500.0, 20_000.0, 2.5e6].map(tick);
        assert_eq!(ticks, ["0", "0.5", "10", "1500", "20 k", "2.5 M"]);
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(999), "999");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(32 << 10), "32 KiB");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
        assert_eq!(bytes(24 << 30), "24 GiB");
        assert_eq!(bytes(3 << 40), "3 TiB");
    }
}
