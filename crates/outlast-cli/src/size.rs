//! Sizes on the command line: `65536`, `64K`, `1.5M`, `2GiB`.

/// Bytes from digits and an optional binary unit.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write bytes or use K, M, G, T, as in 64M");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor: u64 = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * factor as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// A parser of sizes in a range; others are refused with it.
pub fn within(least: u64, most: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let bytes = parse(text)?;
        if (least..=most).contains(&bytes) {
            return Ok(bytes);
        }
        Err(format!("'{text}' is out of range: take {} to {}", show(least), show(most)))
    }
}

/// A size with the largest unit that it is a whole number of.
fn show(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = units.into_iter().find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    unit.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::{parse, within};

    #[test]
    fn sizes_out_of_range_are_refused_with_the_range() {
        let lane = within(1 << 10, 64 << 20);
        assert_eq!((lane("1K"), lane("64M")), (Ok(1 << 10), Ok(64 << 20)));
        let refused = lane("100G").unwrap_err();
        assert_eq!(refused, "'100G' is out of range: take 1K to 64M");
        assert!(lane("0").is_err() && lane("much").is_err());
        assert!(within(0, 1500)("2K").unwrap_err().ends_with("take 0 to 1500"));
    }

    #[test]
    fn sizes_with_and_without_units() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64K"), Ok(64 << 10));
        assert_eq!(parse("1.5M"), Ok(3 << 19));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("8 tb"), Ok(8 << 40));
        for wrong in ["", "M", "12q", "-1", "1..5M", "99999999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
