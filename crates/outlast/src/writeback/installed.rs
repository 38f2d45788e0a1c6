//! Lines that a lane's records have stored to and that are not gathered yet. The log says the same; this is
//! read faster.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr};

use super::for_each_installed;
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};

/// For each record its head, then how many lines, then those.
#[derive(Default)]
pub(super) struct Installed {
    /// Goes round; its length is a power of two, or nothing.
    words: Box<[u64]>,
    /// Counts of words, which only grow: taken out, and put in.
    from: usize,
    to: usize,
}

impl Installed {
    /// Set in the head of a record, which is else the position behind it, when its lines are not
    /// listed.
    const IN_LOG: u64 = 1 << 63;
    const WORDS_MIN: usize = 1024;

    fn end_of(head: u64) -> u64 {
        head & !Self::IN_LOG
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.words[index & (self.words.len() - 1)]
    }

    #[inline]
    fn push(&mut self, word: u64) {
        let mask = self.words.len() - 1;
        self.words[self.to & mask] = word;
        self.to += 1;
    }

    /// Puts a record in with at most `most` lines.
    #[inline(always)]
    pub fn note(&mut self, head: u64, most: usize, mut lines: impl Iterator<Item = LineAddr>) {
        if self.len() + 2 + most > self.words.len() {
            self.grow(2 + most);
        }
        let at = self.to & (self.words.len() - 1);
        // Mostly the ring does not end within them.
        if let Some([first, count, rest @ ..]) = self.words.get_mut(at..at + 2 + most) {
            *first = head;
            let listed = rest.iter_mut().zip(&mut lines).map(|(word, line)| *word = line.0);
            *count = listed.count() as u64;
            self.to += 2 + *count as usize;
            assert!(lines.next().is_none(), "no more lines than there is room for");
            return;
        }
        self.push(head);
        let count_at = self.to;
        self.push(0);
        for line in lines {
            self.push(line.0);
        }
        let mask = self.words.len() - 1;
        self.words[count_at & mask] = (self.to - count_at - 1) as u64;
    }

    /// Puts a record in that ends at position `end`, of which only the log says what it stored to.
    pub fn note_in_log(&mut self, end: u64) {
        self.note(Self::IN_LOG | end, 0, std::iter::empty());
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let len = (self.len() + more).next_power_of_two().max(Self::WORDS_MIN);
        let mut words: Vec<u64> = (self.from..self.to).map(|index| self.word(index)).collect();
        (self.from, self.to) = (0, words.len());
        words.resize(len, 0);
        self.words = words.into();
    }

    /// The position behind the first record.
    #[inline]
    pub fn first_end(&self) -> Option<u64> {
        (self.from < self.to).then(|| Self::end_of(self.word(self.from)))
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// The lines that are listed from word `first` on, where a record starts.
    pub fn lines_from(&self, first: usize) -> impl Iterator<Item = LineAddr> {
        let (mut at, mut left) = (self.from + first, 0);
        std::iter::from_fn(move || {
            while left == 0 {
                if at >= self.to {
                    return None;
                }
                left = self.word(at + 1);
                at += 2;
            }
            (left, at) = (left - 1, at + 1);
            Some(LineAddr(self.word(at - 1)))
        })
    }

    /// Takes the first record, which starts at `position` or before, and visits the numbers of the
    /// lines that it stored to, some at a time, unless it ends there: then a sweep has covered it.
    /// Returns the position behind it.
    #[inline]
    pub fn take_first<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        lane: &LaneSlot,
        position: u64,
        mut visit: impl FnMut(&[u64]),
    ) -> u64 {
        if self.from == self.to {
            return position;
        }
        let (head, count) = (self.word(self.from), self.word(self.from + 1) as usize);
        let lines = self.from + 2..self.from + 2 + count;
        let end = Self::end_of(head);
        if end > position {
            if head & Self::IN_LOG != 0 {
                visit_in_log(pool, lane, position, end, &mut visit);
            }
            let forgotten = usize::from(pool.io().plants(Plant::LineForgotten)).min(count);
            let (first, mask) = (lines.start + forgotten, self.words.len() - 1);
            let at = first & mask;
            match self.words.get(at..at + (lines.end - first)) {
                Some(lines) => visit(lines),
                None => (first..lines.end).for_each(|index| visit(&[self.word(index)])),
            }
        }
        self.from = lines.end;
        end.max(position)
    }
}

/// As [`Installed::take_first`], for a record of which only the log says what it stored to.
#[cold]
fn visit_in_log<M: Medium>(
    pool: &Pool<M>,
    lane: &LaneSlot,
    position: u64,
    end: u64,
    visit: &mut impl FnMut(&[u64]),
) {
    let each = |range: ByteRange| range.lines().for_each(|line| visit(&[line.0]));
    for_each_installed(pool, lane, position, end, each);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the first record's lines without a pool.
    fn first(installed: &mut Installed) -> Option<(u64, Vec<u64>)> {
        let end = installed.first_end()?;
        let from = installed.from + 2;
        let to = from + installed.word(from - 1) as usize;
        installed.from = to;
        Some((end, (from..to).map(|index| installed.word(index)).collect()))
    }

    #[test]
    fn records_come_out_as_they_went_in_whatever_there_is() {
        let mut installed = Installed::default();
        let mut model = std::collections::VecDeque::new();
        for i in 0..20_000u64 {
            let lines: Vec<_> = (0..i * 7 % 23).map(|j| i * 100 + j).collect();
            // There is room for more than are listed.
            installed.note(i + 1, 23, lines.iter().map(|line| LineAddr(*line)));
            model.push_back((i + 1, lines));
            // As many wait as a ring that fills and empties has, now few, now many.
            while model.len() as u64 > i / 512 % 7 * 150 {
                assert_eq!(first(&mut installed), model.pop_front());
            }
            let words: usize = model.iter().map(|(_, lines)| 2 + lines.len()).sum();
            assert_eq!(installed.len(), words);
        }
        let noted = installed.len();
        installed.note(20_001, 1, [LineAddr(5)].into_iter());
        installed.note_in_log(20_002);
        installed.note(20_003, 2, [LineAddr(6), LineAddr(7)].into_iter());
        let lines: Vec<_> = installed.lines_from(noted).map(|line| line.0).collect();
        assert_eq!(lines, [5, 6, 7]);
        let all: Vec<_> = model.iter().flat_map(|(_, lines)| lines.clone()).chain(lines).collect();
        assert_eq!(installed.lines_from(0).map(|line| line.0).collect::<Vec<_>>(), all);
        assert!(installed.words.len() < 1 << 16, "room is used again");
    }
}
