//! Two ways in which a record proves itself, and becomes durable under the fence that follows.
//!
//! ```text
//! flushed: every line         0  56  7 words of the record
//!                            56   8  the record's number
//!
//! streamed: every 8 bytes     bit 0..8   the lap
//!                             bit 8..64  56 bits of the line's 7 words
//! ```
//!
//! *Flushed*: stores to one line become durable in their order, so a line whose number, which is
//! stored last, is there is whole. Numbers are never used again.
//!
//! *Streamed*: every 8 bytes arrive by themselves. All of them carry the number of times that the
//! ring has come round, from 1 to 255 and again; each is written in every lap, so what is older is
//! of the lap before, and told from it. A record's place and the floor say which number it has.

use outlast::medium::{LINE_BYTES, LineAddr};
use outlast_pmem::Medium;

/// Words of a record on each of its lines.
pub(super) const LINE_WORDS: usize = 7;
const TAG_AT: u64 = 56;
const LAP_BITS: u32 = 8;

/// Lines of a record of `words` words.
pub(super) const fn lines_of<L: Log>(words: usize) -> u64 {
    words.div_ceil(LINE_WORDS) as u64
}

/// How a record is written.
pub(super) trait Log: Send {
    /// Writes a record and starts its way to the medium.
    fn write<M: Medium>(medium: &M, first: LineAddr, number: u64, lap: u8, words: &[u64]);

    /// Fetches the lines of a record that will be written.
    fn fetch<M: Medium>(medium: &M, first: LineAddr, lines: u64);

    /// Reads what of a record a line holds, if that line is this record's and whole.
    #[cfg(test)]
    fn read<M: Medium>(
        medium: &M,
        line: LineAddr,
        number: u64,
        lap: u8,
    ) -> Option<[u64; LINE_WORDS]>;
}

/// Ordinary stores into lines that were fetched, and a flush of each.
pub(super) struct Flushed;

impl Log for Flushed {
    #[inline]
    fn write<M: Medium>(medium: &M, first: LineAddr, number: u64, _: u8, words: &[u64]) {
        for (line, words) in (first.0..).zip(words.chunks(LINE_WORDS)) {
            let at = LineAddr(line).start();
            for (i, word) in (0..).zip(words) {
                medium.store_u64(at.plus(8 * i), *word);
            }
            medium.store_u64(at.plus(TAG_AT), number);
        }
        for line in (first.0..).take(words.len().div_ceil(LINE_WORDS)) {
            medium.flush(LineAddr(line));
        }
    }

    #[inline]
    fn fetch<M: Medium>(medium: &M, first: LineAddr, lines: u64) {
        (first.0..first.0 + lines).for_each(|line| medium.prefetch_write(LineAddr(line)));
    }

    #[cfg(test)]
    fn read<M: Medium>(
        medium: &M,
        line: LineAddr,
        number: u64,
        _: u8,
    ) -> Option<[u64; LINE_WORDS]> {
        let at = line.start();
        let is_whole = medium.load_u64(at.plus(TAG_AT)) == number;
        is_whole.then(|| std::array::from_fn(|i| medium.load_u64(at.plus(8 * i as u64))))
    }
}

/// Streams past the caches.
pub(super) struct Streamed;

impl Log for Streamed {
    #[inline]
    fn write<M: Medium>(medium: &M, first: LineAddr, _: u64, lap: u8, words: &[u64]) {
        for (line, words) in (first.0..).zip(words.chunks(LINE_WORDS)) {
            let mut all = [0; LINE_WORDS];
            all[..words.len()].copy_from_slice(words);
            medium.store_nt(LineAddr(line).start(), &pack(&all, lap));
        }
    }

    #[inline]
    fn fetch<M: Medium>(_: &M, _: LineAddr, _: u64) {}

    #[cfg(test)]
    fn read<M: Medium>(medium: &M, line: LineAddr, _: u64, lap: u8) -> Option<[u64; LINE_WORDS]> {
        let mut bytes = [0; LINE_BYTES as usize];
        medium.load(line.start(), &mut bytes);
        unpack(&bytes, lap)
    }
}

/// Seven words as eight of 56 bits, each with the lap below.
#[inline]
fn pack(words: &[u64; LINE_WORDS], lap: u8) -> [u8; LINE_BYTES as usize] {
    let mut bytes = [0; LINE_BYTES as usize];
    for (i, out) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let shift = LAP_BITS * i as u32;
        let low = if i > 0 { words[i - 1] >> (64 - shift) } else { 0 };
        let high = if i < LINE_WORDS { words[i] << shift } else { 0 };
        *out = ((low | high) << LAP_BITS | u64::from(lap)).to_le_bytes();
    }
    bytes
}

/// The seven words again, if all eight have that lap.
#[cfg(test)]
fn unpack(bytes: &[u8; LINE_BYTES as usize], lap: u8) -> Option<[u64; LINE_WORDS]> {
    let packed: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let word = |i: usize| {
        let shift = LAP_BITS * i as u32;
        packed[i] >> LAP_BITS >> shift | packed[i + 1] >> LAP_BITS << (56 - shift)
    };
    let is_whole = packed.iter().all(|word| *word as u8 == lap);
    is_whole.then(|| std::array::from_fn(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unpacked_as_they_were_packed_and_in_their_lap_only() {
        let words = std::array::from_fn(|i| (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for words in [words, [u64::MAX; LINE_WORDS], [0; LINE_WORDS]] {
            let mut bytes = pack(&words, 7);
            assert_eq!(unpack(&bytes, 7), Some(words));
            assert_eq!(unpack(&bytes, 8), None);
            // One word of the lap before.
            bytes[40..48].copy_from_slice(&pack(&words, 6)[40..48]);
            assert_eq!(unpack(&bytes, 7), None);
        }
    }
}
