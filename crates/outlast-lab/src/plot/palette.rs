//! Colours: one per scheme, everywhere the same, readable on light and on dark paper.

use plotters::style::{Color, HSLColor, RGBColor};

use crate::native::YARDSTICKS;
use outlast_schemes::MachineScheme;

/// The colour of a scheme. Families share a hue: the reference grey, undo blue, redo orange,
/// ours green, peers plum.
pub fn scheme(name: &str) -> RGBColor {
    let known = match name {
        "none" | "ideal" => (0x8c, 0x8c, 0x8c),
        "undo" => (0x3f, 0x86, 0xc8),
        "undo-archapt" => (0x7b, 0x6f, 0xd0),
        "redo" => (0xe0, 0x7f, 0x3c),
        "redo-archapt" => (0xc8, 0x9b, 0x1f),
        "swift" => (0x2f, 0xa0, 0x7a),
        "pmdk" => (0xb4, 0x4f, 0x80),
        "pmdk-word" => (0xd3, 0x8f, 0xb4),
        other => return turned(place(other)),
    };
    of(known)
}

/// The place of a name among the others: schemes and media in the order of their tables, then, far
/// behind, what no table has, such as a variant with options.
fn place(name: &str) -> usize {
    let software = outlast::scheme::SCHEMES.iter().map(|row| row.name);
    let machine = MachineScheme::all().map(MachineScheme::name);
    let mut names = software.chain(machine).chain(YARDSTICKS);
    names.position(|known| known == name).unwrap_or_else(|| 100 + sum(name))
}

/// Colours without end, each far from those near it: the hue turns by the golden angle, and
/// lightness goes through three steps.
fn turned(index: usize) -> RGBColor {
    const GOLDEN_ANGLE: f64 = 137.507_764;
    let hue = (index as f64 * GOLDEN_ANGLE % 360.0) / 360.0;
    let lightness = [0.44, 0.56, 0.66][index % 3];
    let (red, green, blue) = HSLColor(hue, 0.38, lightness).rgb();
    RGBColor(red, green, blue)
}

/// The colour of a part of a transaction's time.
pub fn part(name: &str) -> RGBColor {
    of(match name {
        "log" => (0xe0, 0x7f, 0x3c),
        "flush" => (0x3f, 0x86, 0xc8),
        "fence" => (0xb4, 0x4f, 0x80),
        _ => (0x9a, 0x9a, 0x9a),
    })
}

/// Colours for a few lines that have to be told apart, in order.
pub fn series(index: usize) -> RGBColor {
    SERIES.get(index).map_or_else(|| turned(index), |colour| of(*colour))
}

/// As style sheets spell it.
pub fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

type Rgb = (u8, u8, u8);

const SERIES: [Rgb; 6] = [
    (0x2f, 0xa0, 0x7a),
    (0x3f, 0x86, 0xc8),
    (0xb4, 0x4f, 0x80),
    (0xe0, 0x7f, 0x3c),
    (0x7b, 0x6f, 0xd0),
    (0x8c, 0x8c, 0x8c),
];

fn of((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Any function of the name that stays the same from run to run.
fn sum(name: &str) -> usize {
    name.bytes().fold(7, |sum, byte| (sum * 31 + usize::from(byte)) % 1_000_003)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// No two series of a figure may look alike, whichever schemes it shows.
    #[test]
    fn every_scheme_has_a_colour_of_its_own() {
        let software = outlast::scheme::SCHEMES.iter().map(|row| row.name);
        let machine = MachineScheme::all().map(MachineScheme::name);
        let mut seen: HashMap<(u8, u8, u8), &str> = HashMap::new();
        for name in software.chain(machine).chain(YARDSTICKS) {
            let RGBColor(red, green, blue) = scheme(name);
            let other = seen.insert((red, green, blue), name).filter(|other| *other != name);
            assert_eq!(other, None, "{name} looks like another scheme");
        }
        let series: std::collections::HashSet<_> =
            (0..40).map(|index| css(series(index))).collect();
        assert_eq!(series.len(), 40);
    }
}
