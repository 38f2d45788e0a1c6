//! Storing the words of all redo transactions: most of what recovery does after a crash with a
//! full log.
//!
//! Words come in the order of commits, scattered over the pool, and the last one for a place
//! counts. They are dealt out to parts by address, in that order, and each part sorts and stores
//! its own. So each page is mapped once and together with its neighbours, each line is fetched and
//! flushed once, and what a part works on stays in the cache. Parts share no line, so threads may
//! take them in any order, each with a fence for what it flushed.

use std::sync::{Mutex, PoisonError};

use outlast_pmem::{Medium, PAGE_BYTES};
use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::io::{Io, Site};

/// A place and what it is to hold.
pub(super) type Word = (PoolOffset, u64);

/// Words of a part, more or less, unless there would be too many parts.
const PART_WORDS: usize = 1024;

/// More parts would be dealt out to more places than the caches nearest to a core keep apart.
const PARTS_MAX: usize = 2048;

/// Words by which the fetching of lines is ahead of the stores.
const WORDS_AHEAD: usize = 16;

/// Stores words, of which the later ones count, and flushes their lines. `words` gives them anew
/// each time. Returns whether there were any, so that a fence is due.
pub(super) fn store<M, W>(io: Io<'_, M>, words: impl Fn() -> W) -> bool
where
    M: Medium,
    W: Iterator<Item = Word>,
{
    let Some(dealer) = Dealer::new(words()) else { return false };
    let mut dealt = vec![Word::default(); dealer.words];
    let ends = dealer.deal(words, &mut dealt);
    let mut rest = dealt.as_mut_slice();
    let mut begin = 0;
    let parts: Vec<Mutex<&mut [Word]>> = ends
        .into_iter()
        .map(|end| {
            let part = rest.split_off_mut(..end - begin).expect("parts end in ascending order");
            begin = end;
            Mutex::new(part)
        })
        .collect();
    io.medium.share_out(parts.len(), &|medium, number| {
        // Each part is asked for once.
        let mut part = parts[number].lock().unwrap_or_else(PoisonError::into_inner);
        store_part(Io::new(medium), &mut part);
    });
    true
}

fn place(word: &Word) -> PoolOffset {
    word.0
}

fn store_part<M: Medium>(io: Io<'_, M>, words: &mut [Word]) {
    if words.is_empty() {
        return;
    }
    let medium = io.medium;
    words.sort_by_key(place);
    let mut page = u64::MAX;
    for (at, _) in &*words {
        if at.0 / PAGE_BYTES != page {
            page = at.0 / PAGE_BYTES;
            // A page that is only looked at is mapped together with others around it.
            medium.load_u64(*at);
        }
    }
    for (index, (at, word)) in words.iter().enumerate() {
        if let Some((ahead, _)) = words.get(index + WORDS_AHEAD) {
            medium.prefetch_write(ahead.line());
        }
        if words.get(index + 1).is_none_or(|next| next.0 != *at) {
            medium.store_u64(*at, *word);
        }
    }
    for same_line in words.chunk_by(|(a, _), (b, _)| a.line() == b.line()) {
        io.flush_line(Site::RecoverData, same_line[0].0.line());
    }
}

/// Which part an address belongs to.
struct Dealer {
    words: usize,
    parts: usize,
    first: u64,
    /// The binary logarithm of a part's bytes in the pool, whole lines.
    shift: u32,
}

impl Dealer {
    /// `None` when there are no words.
    fn new(words: impl Iterator<Item = Word>) -> Option<Self> {
        let (mut count, mut first, mut last) = (0, u64::MAX, 0);
        words.for_each(|(at, _)| {
            count += 1;
            first = first.min(at.0);
            last = last.max(at.0);
        });
        if count == 0 {
            return None;
        }
        let first = first - first % LINE_BYTES;
        let wanted = (count / PART_WORDS).clamp(1, PARTS_MAX) as u64;
        let bytes = ((last - first) / wanted + 1).next_power_of_two().max(LINE_BYTES);
        let shift = bytes.trailing_zeros();
        let parts = ((last - first) >> shift) as usize + 1;
        Some(Self { words: count, parts, first, shift })
    }

    fn part(&self, at: PoolOffset) -> usize {
        ((at.0 - self.first) >> self.shift) as usize
    }

    /// Puts the words into `out` part by part, within a part in the order in which they came.
    /// Returns where each part ends.
    fn deal<W>(&self, words: impl Fn() -> W, out: &mut [Word]) -> Vec<usize>
    where
        W: Iterator<Item = Word>,
    {
        // First how many words each part has, then where it begins, and in the end where it ends.
        let mut places = vec![0; self.parts];
        words().for_each(|(at, _)| places[self.part(at)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        words().for_each(|word| {
            let place = &mut places[self.part(word.0)];
            out[*place] = word;
            *place += 1;
        });
        places
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use outlast_pmem::{Heap, MapOptions, Mapped, Recorder};
    use outlast_trace::Op;

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// `count` words all over the medium, or crowded at one end: some places come again.
    fn some_words(count: u64, spread: u64) -> Vec<Word> {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        (0..count).map(|number| (PoolOffset(8 * (draw() % (spread / 8))), number + 1)).collect()
    }

    fn cases() -> impl Iterator<Item = Vec<Word>> {
        [1, 3000, 50_000]
            .into_iter()
            .flat_map(|count| [512, 64 << 10, BYTES].map(|at| some_words(count, at)))
    }

    fn stored<M: Medium>(medium: &M, words: &[Word]) {
        assert!(store(Io::new(medium), || words.iter().copied()));
        let last: BTreeMap<PoolOffset, u64> = words.iter().copied().collect();
        for at in (0..BYTES).step_by(8).map(PoolOffset) {
            assert_eq!(medium.load_u64(at), last.get(&at).copied().unwrap_or(0), "at {at}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "each word of a megabyte takes minutes there")]
    fn the_last_word_for_a_place_counts_in_any_number_of_parts() {
        assert!(!store(Io::new(&Heap::new(64)), std::iter::empty));
        let mut parts = BTreeSet::new();
        for words in cases() {
            parts.insert(Dealer::new(words.iter().copied()).unwrap().parts);
            stored(&Heap::new(BYTES), &words);
        }
        assert!(parts.contains(&1) && parts.iter().any(|parts| *parts > 30));
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file mappings there")]
    fn threads_store_what_one_does() {
        let directory = tempfile::tempdir().unwrap();
        for (number, words) in cases().enumerate() {
            let path = directory.path().join(number.to_string());
            stored(&Mapped::create(path, BYTES, &MapOptions::default()).unwrap(), &words);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of recorded stores there")]
    fn each_line_is_flushed_once_after_its_last_store() {
        for words in cases() {
            let recorder = Recorder::new(BYTES);
            stored(&recorder, &words);
            let mut waiting = BTreeSet::new();
            let mut flushed = BTreeSet::new();
            for (_, op) in recorder.take_log().iter() {
                match op {
                    Op::Store { at, .. } => {
                        assert!(!flushed.contains(&at.line()), "{at} is stored to after its flush");
                        waiting.insert(at.line());
                    }
                    Op::Flush { line, .. } => {
                        waiting.remove(&line);
                        assert!(flushed.insert(line), "{line:?} is flushed twice");
                    }
                    _ => {}
                }
            }
            assert!(waiting.is_empty() && !flushed.is_empty());
        }
    }
}
