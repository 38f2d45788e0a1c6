//! Parts that the fuzz targets share: seeds, and damage to a sound image.
//!
//! A target reads bytes that others have made, or a file of ours that was damaged. Inputs are edits of a
//! sound image where checksums would refuse every other one: an edit can seal the word that it stores.

#![forbid(unsafe_code)]

use std::path::Path;

/// Writes a target's seeds into the folder that `OUTLAST_SEEDS` names, if it names one. libFuzzer reads
/// its corpus after a target's initialisation, so the first run has them.
pub fn seeds<S: AsRef<[u8]>>(all: impl IntoIterator<Item = S>) {
    let Some(folder) = std::env::var_os("OUTLAST_SEEDS") else { return };
    std::fs::create_dir_all(&folder).expect("the folder of seeds can be made");
    for (number, seed) in all.into_iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{number:03}"));
        std::fs::write(file, seed).expect("a seed can be written");
    }
}

/// A file in memory for one input, which is replaced by that of the next.
pub fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let place =
        if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = place.join(format!("outlast-fuzz-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file for the input can be written");
    path
}

/// A sound image, and its words that hold something.
pub struct Image {
    pub bytes: Vec<u8>,
    used: Vec<u64>,
}

/// Bytes of an edit.
const EDIT_BYTES: usize = 11;

impl Image {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let words = bytes.chunks_exact(8).enumerate();
        let used = words.filter(|(_, word)| **word != [0; 8]).map(|(number, _)| 8 * number as u64);
        let used = used.collect();
        Self { bytes, used }
    }

    /// The image with the edits that the input names.
    #[must_use]
    pub fn edited(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for edit in input.chunks_exact(EDIT_BYTES).take(16) {
            let (kind, place) = (edit[0], u16::from_le_bytes([edit[1], edit[2]]));
            let value = u64::from_le_bytes(edit[3..].try_into().expect("eight bytes"));
            self.edit(&mut bytes, kind, place, value);
        }
        bytes
    }

    /// The place of a word that holds something; every eighth kind is any word's.
    fn place(&self, kind: u8, number: u64) -> usize {
        let of_any = 8 * (number % (self.bytes.len() as u64 / 8));
        let of_used = self.used[number as usize % self.used.len()];
        if kind & 0x70 == 0 { of_any as usize } else { of_used as usize }
    }

    fn edit(&self, bytes: &mut [u8], kind: u8, place: u16, value: u64) {
        // Neighbours of a place are often of one structure.
        let at = self.place(kind, (u64::from(place) << 3) | u64::from(kind >> 7) | value >> 62);
        let old = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let payload = value & ((1 << 56) - 1);
        let offset = outlast::PoolOffset(at as u64);
        let new = match kind & 15 {
            0..3 => value,
            3..6 => outlast::inspect::sealed_word(payload, offset),
            6 => old ^ value,
            7 => old.wrapping_add(value),
            // Of a whole line.
            8 | 9 => {
                let (from, to) = (self.place(0x70, value) & !63, at & !63);
                bytes.copy_within(from..from + 64, to);
                return;
            }
            10 => {
                let number = value % self.used.len() as u64;
                u64::from_le_bytes(self.word(self.used[number as usize] as usize))
            }
            // An offset of something, with the bits of a kind above it or without.
            11 => self.place(0x70, value & 0xffff) as u64 | value & 0xff << 56,
            12 => outlast::inspect::sealed_word(self.place(0x70, value & 0xffff) as u64, offset),
            13 => {
                let (generation, counter) = (value & 0xff, value >> 8 & 0xffff);
                let (line, to) = (at & !63, self.place(0x70, value >> 24 & 0xffff) as u64);
                let word = value >> 40;
                let target = outlast::PoolOffset(to);
                let words =
                    outlast::inspect::forged_line(value >> 63 == 1, generation, counter, target, word);
                for (number, word) in words.into_iter().enumerate() {
                    bytes[line + 8 * number..][..8].copy_from_slice(&word.to_le_bytes());
                }
                return;
            }
            14 => 1 << (value & 63),
            _ => u64::MAX,
        };
        bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
    }

    fn word(&self, at: usize) -> [u8; 8] {
        self.bytes[at..at + 8].try_into().expect("eight bytes")
    }
}
