//! Damage: what media faults and stray stores do to a pool's bytes.

use std::fmt;

use super::bases::{Area, Base};
use super::draw::Draw;

/// What happens to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Bits,
    ManyBits,
    ZeroWord,
    ZeroLine,
    ZeroSector,
    ZeroPage,
    RandomLine,
    StrayStore,
    /// Bits of a line that its CRC-8 does not see.
    Colliding,
    /// Bits of a sealed word, and its seal with them.
    Resealed,
    /// The line of another place.
    Copied,
    Swapped,
    /// What was there before.
    StaleLine,
    /// A page of 4 KiB with everything in it as it was before.
    StalePage,
}

/// One damage: what it does, and the bytes it leaves.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub kind: Kind,
    pub area: Area,
    pub writes: Vec<(u64, Vec<u8>)>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.writes.first().map_or(0, |write| write.0);
        write!(f, "{:?} of {:?} at {at:#x}", self.kind, self.area)
    }
}

const KINDS: &[(u64, Kind)] = &[
    (12, Kind::Bits),
    (4, Kind::ManyBits),
    (8, Kind::ZeroWord),
    (10, Kind::ZeroLine),
    (3, Kind::ZeroSector),
    (3, Kind::ZeroPage),
    (10, Kind::RandomLine),
    (8, Kind::StrayStore),
    (9, Kind::Colliding),
    (6, Kind::Resealed),
    (7, Kind::Copied),
    (5, Kind::Swapped),
    (13, Kind::StaleLine),
    (2, Kind::StalePage),
];

const AREAS: &[(u64, Area)] = &[
    (2, Area::Header),
    (5, Area::Floor),
    (4, Area::Root),
    (2, Area::Size),
    (1, Area::Blank),
    (6, Area::LaneHeader),
    (14, Area::Ring),
    (9, Area::Directory),
    (10, Area::Bitmap),
    (14, Area::Sums),
    (30, Area::Data),
    (3, Area::Empty),
];

fn weighted<T: Copy>(table: &[(u64, T)], draw: &mut Draw) -> T {
    let all = table.iter().map(|row| row.0).sum();
    let mut nth = draw.below(all);
    for (weight, what) in table {
        if nth < *weight {
            return *what;
        }
        nth -= weight;
    }
    table[0].1
}

/// From one to six damages to a pool.
pub(super) fn damages(base: &Base, draw: &mut Draw) -> Vec<Damage> {
    let count = weighted(&[(8, 1), (5, 2), (3, 3), (2, 4), (1, 5), (1, 6)], draw);
    let mut image = base.image.clone();
    // Half of the series crowd into one place, as faults of a device do.
    let mut near = None;
    (0..count)
        .map(|_| {
            let damage = damage(base, &image, near, draw);
            inflict(&mut image, &damage);
            if draw.below(2) == 0 {
                near = damage.writes.first().map(|write| write.0);
            }
            damage
        })
        .collect()
}

/// Stores a damage.
pub(super) fn inflict(image: &mut [u8], damage: &Damage) {
    for (at, bytes) in &damage.writes {
        image[*at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

fn some_line(base: &Base, draw: &mut Draw) -> (Area, u64) {
    loop {
        let area = weighted(AREAS, draw);
        if let Some((area, lines)) = base.areas.iter().find(|(found, _)| *found == area) {
            return (*area, *draw.pick(lines));
        }
    }
}

fn damage(base: &Base, image: &[u8], near: Option<u64>, draw: &mut Draw) -> Damage {
    let (mut area, mut line) = some_line(base, draw);
    if let Some(near) = near {
        let page = near / 4096 * 4096;
        line = page + draw.below(64) * 64;
        area = base.area_of(line).unwrap_or(Area::Empty);
    }
    let mut kind = weighted(KINDS, draw);
    if matches!(area, Area::Floor | Area::Root | Area::Size | Area::Directory) && draw.below(3) == 0
    {
        kind = Kind::Resealed;
    }
    let content = image[line as usize..line as usize + 64].to_vec();
    let aligned = |bytes: u64| {
        let at = line / bytes * bytes;
        let len = bytes.min(image.len() as u64 - at);
        vec![(at, vec![0; len as usize])]
    };
    let writes = match kind {
        Kind::Bits | Kind::ManyBits => {
            let mut bytes = content;
            let bits = if kind == Kind::Bits { 1 + draw.below(3) } else { 8 + draw.below(200) };
            // Bits of the first words mean most.
            let span = if draw.below(3) == 0 { 64 } else { 512 };
            for _ in 0..bits {
                let bit = draw.below(span) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            vec![(line, bytes)]
        }
        Kind::ZeroWord => vec![(line + draw.below(8) * 8, vec![0; 8])],
        Kind::ZeroLine => aligned(64),
        Kind::ZeroSector => aligned(512),
        Kind::ZeroPage => aligned(4096),
        Kind::RandomLine => vec![(line, draw.bytes(64))],
        Kind::StrayStore => {
            let bytes = match draw.below(3) {
                0 => draw.next(),
                1 => draw.below(base.image.len() as u64) & !15,
                _ => draw.below(1 << 20),
            };
            vec![(line + draw.below(8) * 8, bytes.to_le_bytes().to_vec())]
        }
        Kind::Colliding => vec![(line, colliding(content, draw))],
        Kind::Resealed => {
            let at = draw.below(if matches!(area, Area::Directory | Area::Bitmap) { 8 } else { 1 });
            let at = at as usize * 8;
            let mut bytes = content[at..at + 8].to_vec();
            resealed(area, &mut bytes, draw);
            vec![(line + at as u64, bytes)]
        }
        Kind::Copied => {
            let (_, from) = some_line(base, draw);
            vec![(line, image[from as usize..from as usize + 64].to_vec())]
        }
        Kind::Swapped => {
            let (_, other) = some_line(base, draw);
            let bytes = image[other as usize..other as usize + 64].to_vec();
            vec![(line, bytes), (other, content)]
        }
        Kind::StaleLine => {
            let from = draw.pick(&base.earlier);
            vec![(line, from[line as usize..line as usize + 64].to_vec())]
        }
        Kind::StalePage => {
            let (from, at) = (draw.pick(&base.earlier), line as usize / 4096 * 4096);
            vec![(at as u64, from[at..at + 4096].to_vec())]
        }
    };
    Damage { kind, area, writes }
}

/// The CRC-8 of the pool format (polynomial 0x97) of bytes, the last one first.
fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().rev().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 != 0 { crc << 1 ^ 0x97 } else { crc << 1 })
    })
}

/// Another content of a line with the same CRC-8.
fn colliding(mut bytes: Vec<u8>, draw: &mut Draw) -> Vec<u8> {
    let mut flips = [0u8; 64];
    for _ in 0..1 + draw.below(6) {
        let bit = draw.below(512 - 8) as usize + 8;
        flips[bit / 8] ^= 1 << (bit % 8);
    }
    // The CRC is linear: what is flipped in byte 0 takes back what the others did.
    while crc8(&flips) != 0 {
        flips[0] = flips[0].wrapping_add(1);
    }
    bytes.iter_mut().zip(flips).for_each(|(byte, flip)| *byte ^= flip);
    bytes
}

/// Flips bits of a sealed word's payload, and those of its seal that follow.
fn resealed(area: Area, word: &mut [u8], draw: &mut Draw) {
    let mut flips = [0u8; 8];
    for _ in 0..1 + draw.below(3) {
        // Of a directory word: the class, the kind, the state, or the length.
        let bit = match (area, draw.below(4)) {
            (Area::Directory, 0) => 48 + draw.below(3),
            (Area::Directory, 1) => 32 + draw.below(6),
            (Area::Directory, 2) => draw.below(8),
            _ => draw.below(56),
        } as usize;
        flips[bit / 8] ^= 1 << (bit % 8);
    }
    flips[7] = crc8(&flips[..7]);
    word.iter_mut().zip(flips).for_each(|(byte, flip)| *byte ^= flip);
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::Pool;
    use outlast::medium::{CreateOptions, OpenOptions};
    use outlast_pmem::{Heap, Medium};

    #[test]
    fn a_colliding_line_differs_and_has_the_crc_of_the_right_one() {
        for seed in 0..100 {
            let mut draw = Draw::of(seed, 0);
            let line = draw.bytes(64);
            let other = colliding(line.clone(), &mut draw);
            assert_ne!(line, other);
            assert_eq!(crc8(&line), crc8(&other));
        }
    }

    #[test]
    fn a_resealed_word_proves_itself() {
        let create = CreateOptions { lanes: 1, lane_bytes: 1024, ..CreateOptions::default() };
        let pool = Pool::create_on(Heap::new(64 << 10), &create, &OpenOptions::default()).unwrap();
        let size = pool.medium().load_u64(outlast::PoolOffset(256)).to_le_bytes();
        let mut other = size;
        resealed(Area::Size, &mut other, &mut Draw::of(1, 0));
        assert_ne!(size, other);
        let seal_of = |word: [u8; 8]| crc8(&word[..7]) ^ word[7];
        // Whatever constant the format folds into its seals is the same in both.
        assert_eq!(seal_of(size), seal_of(other));
    }
}
