//! Colours: one per scheme, everywhere the same, readable on light and on dark paper.

use plotters::style::RGBColor;

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
        other => return of(OTHERS[sum(other) % OTHERS.len()]),
    };
    of(known)
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
    of(SERIES[index % SERIES.len()])
}

/// As style sheets spell it.
pub fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

type Rgb = (u8, u8, u8);

const OTHERS: [Rgb; 6] = [
    (0x5b, 0x9a, 0xa8),
    (0x9c, 0x7a, 0x54),
    (0x8a, 0x9a, 0x3c),
    (0xc0, 0x5f, 0x50),
    (0x6a, 0x7f, 0xa0),
    (0xa0, 0x6a, 0xa8),
];

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
