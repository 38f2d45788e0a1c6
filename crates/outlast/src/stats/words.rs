//! Statistics as a fixed number of words, for a page that other processes read.

use std::time::Duration;

use outlast_pmem::Domain;

use super::counts::CAUSES;
use super::{Counters, Stats};
use crate::pool::Space;
use crate::recover::RecoveryReport;
use crate::scheme::{SCHEMES, Scheme};

/// Words of a [`Stats`].
pub const STATS_WORDS: usize = 64;

/// The first word. Another order of words has another number.
const MAGIC: u64 = u64::from_le_bytes(*b"OutlSta1");

const HAS_SPACE: u64 = 1;
const HAS_COUNTERS: u64 = 2;
const HAS_FAILED: u64 = 4;

/// Words of a scheme's name.
const NAME_WORDS: usize = 4;

/// Puts words one behind the other.
struct Writer {
    words: [u64; STATS_WORDS],
    next: usize,
}

impl Writer {
    fn put(&mut self, words: &[u64]) {
        self.words[self.next..self.next + words.len()].copy_from_slice(words);
        self.next += words.len();
    }
}

/// Takes words one after the other.
struct Reader<'w> {
    words: &'w [u64],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u64; N] {
        let (taken, rest) = self.words.split_first_chunk().expect("STATS_WORDS has room for all");
        self.words = rest;
        *taken
    }

    fn nanos(&mut self) -> Duration {
        let [nanos] = self.take();
        Duration::from_nanos(nanos)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn name_words(scheme: Option<Scheme>) -> [u64; NAME_WORDS] {
    let name = scheme.map(|scheme| scheme.to_string()).unwrap_or_default();
    let mut bytes = [0; 8 * NAME_WORDS];
    let len = name.len().min(bytes.len());
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    std::array::from_fn(|word| u64::from_le_bytes(*bytes[8 * word..].first_chunk().expect("8")))
}

fn scheme_of(words: [u64; NAME_WORDS]) -> Option<Scheme> {
    SCHEMES.iter().map(|row| row.scheme).find(|scheme| name_words(Some(*scheme)) == words)
}

impl Stats {
    /// The statistics in words that any process of this machine reads.
    pub fn to_words(&self) -> [u64; STATS_WORDS] {
        let mut to = Writer { words: [0; STATS_WORDS], next: 0 };
        let (space, counters) = (self.space.unwrap_or_default(), self.counters.unwrap_or_default());
        let flags = [
            (self.space.is_some(), HAS_SPACE),
            (self.counters.is_some(), HAS_COUNTERS),
            (counters.has_failed, HAS_FAILED),
        ];
        let flags = flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1).sum();
        let place = |domain| Domain::ALL.iter().position(|one| *one == domain);
        let domain = self.domain.and_then(place).map_or(0, |place| place as u64 + 1);
        to.put(&[MAGIC, flags, self.pool_bytes, self.lanes.into(), self.generation, domain]);
        to.put(&[
            space.heap_bytes,
            space.used_bytes,
            space.free_bytes,
            space.largest_free_bytes,
            space.log_bytes,
            space.log_used_bytes,
            space.fence_log_bytes,
            space.fence_log_used_bytes,
        ]);
        to.put(&name_words(counters.scheme));
        to.put(&[counters.lanes_taken.into(), counters.commits, counters.records]);
        to.put(&[counters.put_off, counters.conflicts, counters.turns_alone]);
        to.put(&counters.aborts);
        to.put(&[counters.flushed_lines, counters.streamed_lines, counters.fences]);
        to.put(&[counters.syncs, counters.sweeps]);
        to.put(&[nanos(counters.sweep_time), nanos(counters.sweep_time_max)]);
        to.put(&[counters.growths, counters.grown_bytes]);
        let RecoveryReport { undone, replayed, corrected } = counters.recovery;
        to.put(&[undone, replayed, corrected].map(|count| count as u64));
        to.put(&[nanos(counters.recovery_time)]);
        to.words
    }

    /// The statistics in words that [`to_words`](Self::to_words) of this version has made.
    pub fn from_words(words: &[u64; STATS_WORDS]) -> Option<Self> {
        let mut from = Reader { words };
        let [magic, flags, pool_bytes, lanes, generation, domain] = from.take();
        if magic != MAGIC {
            return None;
        }
        let [heap_bytes, used_bytes, free_bytes, largest_free_bytes] = from.take();
        let [log_bytes, log_used_bytes, fence_log_bytes, fence_log_used_bytes] = from.take();
        let space = Space {
            heap_bytes,
            used_bytes,
            free_bytes,
            largest_free_bytes,
            log_bytes,
            log_used_bytes,
            fence_log_bytes,
            fence_log_used_bytes,
        };
        let scheme = scheme_of(from.take());
        let [lanes_taken, commits, records] = from.take();
        let [put_off, conflicts, turns_alone] = from.take();
        let aborts: [u64; CAUSES] = from.take();
        let [flushed_lines, streamed_lines, fences, syncs, sweeps] = from.take();
        let (sweep_time, sweep_time_max) = (from.nanos(), from.nanos());
        let [growths, grown_bytes] = from.take();
        let [undone, replayed, corrected] = from.take().map(|count: u64| count as usize);
        let counters = Counters {
            scheme,
            lanes_taken: u32::try_from(lanes_taken).ok()?,
            commits,
            records,
            put_off,
            conflicts,
            turns_alone,
            aborts,
            flushed_lines,
            streamed_lines,
            fences,
            syncs,
            sweeps,
            sweep_time,
            sweep_time_max,
            growths,
            grown_bytes,
            recovery: RecoveryReport { undone, replayed, corrected },
            recovery_time: from.nanos(),
            has_failed: flags & HAS_FAILED != 0,
        };
        Some(Self {
            pool_bytes,
            lanes: u32::try_from(lanes).ok()?,
            generation,
            domain: domain
                .checked_sub(1)
                .and_then(|place| Domain::ALL.get(place as usize))
                .copied(),
            space: (flags & HAS_SPACE != 0).then_some(space),
            counters: (flags & HAS_COUNTERS != 0).then_some(counters),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is another value, so that none is taken for another.
    #[test]
    fn words_say_what_they_were_made_of() {
        for row in SCHEMES {
            assert!(row.scheme.to_string().len() <= 8 * NAME_WORDS);
        }
        let words: [u64; STATS_WORDS] = std::array::from_fn(|place| match place {
            0 => MAGIC,
            1 => HAS_SPACE | HAS_COUNTERS | HAS_FAILED,
            5 => 3,
            place => place as u64 + 100,
        });
        let mut words = words;
        words[14..14 + NAME_WORDS].copy_from_slice(&name_words(Some(Scheme::default())));
        let stats = Stats::from_words(&words).unwrap();
        assert_eq!(stats.counters.unwrap().scheme, Some(Scheme::default()));
        assert_eq!(stats.domain, Some(Domain::Adr));
        let again = stats.to_words();
        let used = again.iter().rposition(|word| *word != 0).unwrap();
        assert_eq!(again[..=used], words[..=used]);
        assert!(used < STATS_WORDS);
        assert_eq!(Stats::from_words(&again), Some(stats));
        assert_eq!(Stats::from_words(&[0; STATS_WORDS]), None);
        let empty = Stats::default();
        assert_eq!(Stats::from_words(&empty.to_words()), Some(empty));
    }
}
