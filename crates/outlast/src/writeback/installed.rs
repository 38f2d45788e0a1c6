//! Lines that a lane's records have stored to and that are not gathered yet. The log says the same; this is
//! read faster.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr};

use super::for_each_installed;
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};

/// For each group of records its head, then how many lines they have stored to and how many they are, then
/// those lines. Records of one log line join the open group until a step of the write-back closes it. Others are
/// groups of their own, since each of them may be as much as a commit is to flush.
#[derive(Default)]
pub(super) struct Installed {
    /// Goes round; its length is a power of two, or nothing.
    words: Box<[u64]>,
    /// Counts of words, which only grow: taken out, in groups that are closed, and put in.
    from: usize,
    open: usize,
    to: usize,
    /// The position behind the last record.
    end: u64,
    /// How many records the open group has.
    records: u64,
}

impl Installed {
    /// Set in the head of a group, which is else the position behind it, when its lines are not
    /// listed.
    const IN_LOG: u64 = 1 << 63;
    const WORDS_MIN: usize = 1024;
    /// In the second word of a group.
    const RECORDS_SHIFT: u32 = 32;
    const LINES_MASK: u64 = (1 << Self::RECORDS_SHIFT) - 1;

    fn end_of(head: u64) -> u64 {
        head & !Self::IN_LOG
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.words[index & (self.words.len() - 1)]
    }

    #[inline]
    fn set_word(&mut self, index: usize, word: u64) {
        let mask = self.words.len() - 1;
        self.words[index & mask] = word;
    }

    #[inline]
    fn push(&mut self, word: u64) {
        self.set_word(self.to, word);
        self.to += 1;
    }

    /// A record that ends at position `end` joins the open group, which has room for its lines then. `true` when
    /// the group is to be closed behind it.
    #[inline(always)]
    fn join(&mut self, end: u64, lines: usize) -> bool {
        let is_long = end > self.end + 1;
        if is_long {
            self.close_group();
        }
        if self.to - self.from + 2 + lines > self.words.len() {
            self.grow(2 + lines);
        }
        if self.to == self.open {
            self.to += 2;
        }
        self.end = end;
        self.records += 1;
        is_long
    }

    /// Puts a record in with at most `most` lines.
    pub fn note(&mut self, end: u64, most: usize, lines: impl Iterator<Item = LineAddr>) {
        let is_long = self.join(end, most);
        lines.for_each(|line| self.push(line.0));
        if is_long {
            self.close_group();
        }
    }

    /// Puts a record in that stores to each of these lines.
    #[inline(always)]
    pub fn note_all(&mut self, end: u64, lines: impl ExactSizeIterator<Item = LineAddr>) {
        let count = lines.len();
        let is_long = self.join(end, count);
        let at = self.to & (self.words.len() - 1);
        // Mostly the ring does not end within them.
        if let Some(room) = self.words.get_mut(at..at + count) {
            room.iter_mut().zip(lines).for_each(|(word, line)| *word = line.0);
            self.to += count;
        } else {
            lines.for_each(|line| self.push(line.0));
        }
        if is_long {
            self.close_group();
        }
    }

    /// Puts a record in that ends at position `end`, of which only the log says what it stored to: a group
    /// of its own.
    pub fn note_in_log(&mut self, end: u64) {
        self.close_group();
        self.join(end, 0);
        self.close_as(Self::IN_LOG | end);
    }

    /// Records that are put in from now on are of another group.
    pub fn close_group(&mut self) {
        if self.to > self.open {
            self.close_as(self.end);
        }
    }

    fn close_as(&mut self, head: u64) {
        let lines = (self.to - self.open - 2) as u64;
        self.set_word(self.open, head);
        self.set_word(self.open + 1, self.records << Self::RECORDS_SHIFT | lines);
        (self.open, self.records) = (self.to, 0);
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let all = self.to - self.from;
        let len = (all + more).next_power_of_two().max(Self::WORDS_MIN);
        let mut words: Vec<u64> = (self.from..self.to).map(|index| self.word(index)).collect();
        (self.from, self.open, self.to) = (0, self.open - self.from, all);
        words.resize(len, 0);
        self.words = words.into();
    }

    /// The position behind the first closed group.
    #[inline]
    pub fn first_end(&self) -> Option<u64> {
        (self.from < self.open).then(|| Self::end_of(self.word(self.from)))
    }

    /// How many records it has.
    #[inline]
    pub fn first_records(&self) -> u64 {
        self.word(self.from + 1) >> Self::RECORDS_SHIFT
    }

    /// How many words closed groups have.
    pub fn len(&self) -> usize {
        self.open - self.from
    }

    /// The lines of closed groups that are listed from word `first` on, where one starts.
    pub fn lines_from(&self, first: usize) -> impl Iterator<Item = LineAddr> {
        let (mut at, mut left) = (self.from + first, 0);
        std::iter::from_fn(move || {
            while left == 0 {
                if at >= self.open {
                    return None;
                }
                left = self.word(at + 1) & Self::LINES_MASK;
                at += 2;
            }
            (left, at) = (left - 1, at + 1);
            Some(LineAddr(self.word(at - 1)))
        })
    }

    /// Takes the first closed group, which starts at `position` or before, and visits the numbers of the
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
        if self.from == self.open {
            return position;
        }
        let (head, counts) = (self.word(self.from), self.word(self.from + 1));
        let count = (counts & Self::LINES_MASK) as usize;
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

    /// Takes the first group's lines without a pool: the position behind it, how many records, and the lines.
    fn first(installed: &mut Installed) -> Option<(u64, u64, Vec<u64>)> {
        let (end, records) = (installed.first_end()?, installed.first_records());
        let from = installed.from + 2;
        let to = from + (installed.word(from - 1) & Installed::LINES_MASK) as usize;
        installed.from = to;
        Some((end, records, (from..to).map(|index| installed.word(index)).collect()))
    }

    #[test]
    fn records_come_out_as_they_went_in_whatever_there_is() {
        let mut installed = Installed::default();
        let mut model = std::collections::VecDeque::new();
        let (mut end, mut group) = (0, (0, 0, Vec::new()));
        let close =
            |group: &mut (u64, u64, Vec<u64>)| Some(std::mem::take(group)).filter(|g| g.1 > 0);
        for i in 0..20_000u64 {
            let lines: Vec<_> = (0..i * 7 % 23).map(|j| i * 100 + j).collect();
            let is_long = i % 3 == 0;
            end += if is_long { 2 + i % 4 } else { 1 };
            if i % 2 == 0 {
                installed.note_all(end, lines.iter().map(|line| LineAddr(*line)));
            } else {
                // There is room for more than are listed.
                installed.note(end, 23, lines.iter().map(|line| LineAddr(*line)));
            }
            if is_long {
                model.extend(close(&mut group));
            }
            (group.0, group.1) = (end, group.1 + 1);
            group.2.extend(lines);
            if i % 5 < 2 {
                installed.close_group();
            }
            if is_long || i % 5 < 2 {
                model.extend(close(&mut group));
            }
            // As many wait as a ring that fills and empties has, now few, now many.
            while model.len() as u64 > i / 512 % 7 * 100 {
                assert_eq!(first(&mut installed), model.pop_front());
            }
            let words: usize = model.iter().map(|(.., lines)| 2 + lines.len()).sum();
            assert_eq!(installed.len(), words, "an open group is not there yet");
        }
        installed.close_group();
        model.extend(close(&mut group));
        let noted = installed.len();
        installed.note(end + 1, 1, [LineAddr(5)].into_iter());
        installed.note_in_log(end + 2);
        installed.note(end + 3, 2, [LineAddr(6), LineAddr(7)].into_iter());
        installed.close_group();
        installed.close_group();
        let lines: Vec<_> = installed.lines_from(noted).map(|line| line.0).collect();
        assert_eq!(lines, [5, 6, 7]);
        let all: Vec<_> = model.iter().flat_map(|(.., lines)| lines.clone()).chain(lines).collect();
        assert_eq!(installed.lines_from(0).map(|line| line.0).collect::<Vec<_>>(), all);
        assert!(installed.words.len() < 1 << 16, "room is used again");
        while first(&mut installed).is_some_and(|(last, ..)| last < end + 1) {}
        assert_eq!(first(&mut installed), Some((end + 2, 1, Vec::new())));
        assert_eq!(first(&mut installed), Some((end + 3, 1, vec![6, 7])));
        assert_eq!(first(&mut installed), None);
    }
}
