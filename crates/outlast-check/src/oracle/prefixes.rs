//! How many transactions survived on each set of data, told by the sum of all words.
//!
//! Transactions on one set of data run one after the other, and each may have seen all before it. So
//! the sets that are closed under what they saw are its first transactions, and what these leave is known by a sum over all words that any of them stores to.

use std::collections::{BTreeMap, HashMap};

use outlast_trace::{PoolOffset, word_pieces};

use super::Kept;
use super::{Broken, Violation};

/// Of each set of data, a number of its transactions.
pub type Counts = BTreeMap<u64, usize>;

/// Stores of a transaction: address and bytes.
pub type Stores = Vec<(PoolOffset, Vec<u8>)>;

/// The transactions of a run.
#[derive(Debug, Default)]
pub struct Ran {
    /// On each set of data, its transactions by their numbers, from 1 on.
    pub by_data: BTreeMap<u64, BTreeMap<usize, Stores>>,
    /// Stores of transactions that aborted.
    pub aborted: Stores,
}

/// Words by their addresses.
type Words = BTreeMap<u64, [u8; 8]>;

/// The states that each set of data may have.
#[derive(Debug)]
pub struct PrefixHistory {
    data: BTreeMap<u64, DataHistory>,
    /// Words that only aborted transactions stored to, with their initial values.
    untouched: Vec<(u64, [u8; 8])>,
}

/// The states of one set of data after each of its transactions.
#[derive(Debug)]
struct DataHistory {
    /// Every word that any of them stores to.
    words: Vec<u64>,
    /// The sum of all words after each number of transactions, and for which numbers it is that.
    states: HashMap<u64, Vec<usize>>,
}

/// One word's share of a state's sum.
fn share(at: u64, value: [u8; 8]) -> u64 {
    let mut mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(value);
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    mixed ^ (mixed >> 32)
}

/// The words that stores touch, as they are at the start.
fn words_of<'s>(
    stores: impl Iterator<Item = &'s (PoolOffset, Vec<u8>)>,
    initial: &impl Fn(u64) -> [u8; 8],
) -> Words {
    let pieces = stores.flat_map(|(at, bytes)| word_pieces(*at, bytes.len()));
    pieces.map(|(piece, _)| (piece.0 & !7, initial(piece.0 & !7))).collect()
}

impl DataHistory {
    fn new(transactions: &BTreeMap<usize, Stores>, initial: &impl Fn(u64) -> [u8; 8]) -> Self {
        let mut memory = words_of(transactions.values().flatten(), initial);
        let words: Vec<u64> = memory.keys().copied().collect();
        let shares = memory.iter().map(|(at, bytes)| share(*at, *bytes));
        let mut sum = shares.fold(0, u64::wrapping_add);
        let mut states: HashMap<u64, Vec<usize>> = HashMap::from([(sum, vec![0])]);
        for (number, stores) in transactions {
            for (at, bytes) in stores {
                let mut rest = bytes.as_slice();
                for (piece, len) in word_pieces(*at, bytes.len()) {
                    let (now, tail) = rest.split_at(len);
                    rest = tail;
                    let word = piece.0 & !7;
                    let held = memory.get_mut(&word).expect("every word was entered");
                    sum = sum.wrapping_sub(share(word, *held));
                    held[(piece.0 % 8) as usize..][..len].copy_from_slice(now);
                    sum = sum.wrapping_add(share(word, *held));
                }
            }
            states.entry(sum).or_default().push(*number);
        }
        Self { words, states }
    }
}

impl PrefixHistory {
    /// The states after these transactions, over words that are `initial` at the start.
    pub fn new(ran: &Ran, initial: impl Fn(u64) -> [u8; 8]) -> Self {
        let mut untouched = words_of(ran.aborted.iter(), &initial);
        let data: BTreeMap<u64, DataHistory> = ran
            .by_data
            .iter()
            .map(|(data, all)| (*data, DataHistory::new(all, &initial)))
            .collect();
        let touched = data.values().flat_map(|history| &history.words);
        for word in touched {
            untouched.remove(word);
        }
        Self { data, untouched: untouched.into_iter().collect() }
    }

    /// The transactions that explain the value found in each word, no fewer than were acknowledged
    /// where different numbers of them leave the same.
    ///
    /// # Errors
    /// When no number of whole transactions does.
    pub fn explain<'c>(
        &self,
        word: impl Fn(u64) -> [u8; 8],
        acknowledged: &'c Counts,
        recovered: &'c Counts,
    ) -> Result<Prefixes<'c>, Violation> {
        if let Some((at, _)) = self.untouched.iter().find(|(at, old)| word(*at) != *old) {
            let detail = format!("a transaction that aborted left something at {at:#x}");
            return Err(Violation::new(Broken::Torn, detail));
        }
        let mut counts = Counts::new();
        for (data, history) in &self.data {
            let shares = history.words.iter().map(|at| share(*at, word(*at)));
            let Some(numbers) = history.states.get(&shares.fold(0, u64::wrapping_add)) else {
                let detail = format!("no number of transactions leaves what is in data {data}");
                return Err(Violation::new(Broken::Torn, detail));
            };
            let needed = acknowledged.get(data).max(recovered.get(data)).copied().unwrap_or(0);
            // Numbers ascend.
            let number = numbers.iter().find(|number| **number >= needed).or(numbers.last());
            counts.extend(number.map(|number| (*data, *number)));
        }
        Ok(Prefixes { counts, acknowledged, recovered })
    }
}

/// The first transactions on each set of data.
#[derive(Debug)]
pub struct Prefixes<'c> {
    /// How many.
    pub counts: Counts,
    acknowledged: &'c Counts,
    recovered: &'c Counts,
}

impl Prefixes<'_> {
    fn fewer_than(&self, needed: &Counts, why: &str) -> Option<Violation> {
        let of = |data| self.counts.get(data).copied().unwrap_or(0);
        let (data, needed) = needed.iter().find(|(data, needed)| of(data) < **needed)?;
        let found = of(data);
        let detail = format!("of {needed} transactions {why} on data {data} there are {found}");
        Some(Violation::new(Broken::Lost, detail))
    }
}

impl Kept for Prefixes<'_> {
    type Fault = Violation;

    fn acknowledged_missing(&self) -> Option<Violation> {
        self.fewer_than(self.acknowledged, "acknowledged")
    }

    fn recovered_missing(&self) -> Option<Violation> {
        self.fewer_than(self.recovered, "recovered before")
    }

    /// The first transactions on a set of data saw none but each other.
    fn not_closed(&self) -> Option<Violation> {
        None
    }
}

#[cfg(test)]
mod tests {
    use outlast_trace::Guarantee;

    use super::super::check;
    use super::*;

    /// Data 0: word 0 becomes 1, then 2, then 1 again. Data 1: half of word 8. Word 16 only in vain.
    fn history() -> PrefixHistory {
        let store = |at, bytes: &[u8]| vec![(PoolOffset(at), bytes.to_vec())];
        let word = |value: u64| value.to_le_bytes();
        let first = [(1, store(0, &word(1))), (2, store(0, &word(2))), (3, store(0, &word(1)))];
        let by_data = BTreeMap::from([
            (0, BTreeMap::from(first)),
            (1, BTreeMap::from([(1, store(12, &[7; 4]))])),
        ]);
        PrefixHistory::new(&Ran { by_data, aborted: store(16, &word(5)) }, |at| word(100 + at))
    }

    fn explained(words: [u64; 3], acked: usize, recovered: usize) -> Result<Counts, Broken> {
        let (acked, recovered) = (Counts::from([(0, acked)]), Counts::from([(0, recovered)]));
        let history = history();
        let word = |at: u64| words[at as usize / 8].to_le_bytes();
        let kept = history.explain(word, &acked, &recovered).map_err(|wrong| wrong.broken)?;
        let durable = check(Guarantee::Durable, &kept).err().map(|wrong| wrong.broken);
        let buffered = check(Guarantee::Buffered, &kept).err().map(|wrong| wrong.broken);
        assert!(buffered.is_none() || durable == buffered);
        match (durable, buffered) {
            (None, _) => Ok(kept.counts),
            (Some(_), None) => Err(Broken::Other), // Lost, and buffers may lose it.
            (Some(broken), Some(_)) => Err(broken),
        }
    }

    #[test]
    fn words_say_how_many_transactions_are_there() {
        let half = u64::from_le_bytes([108, 0, 0, 0, 7, 7, 7, 7]);
        let of = |first, second| Ok(Counts::from([(0, first), (1, second)]));
        assert_eq!(explained([100, 108, 116], 0, 0), of(0, 0));
        assert_eq!(explained([1, half, 116], 0, 0), of(1, 1), "the fewest that suffice");
        assert_eq!(explained([1, 108, 116], 2, 0), of(3, 0), "the same words, later");
        assert_eq!(explained([2, 108, 116], 3, 0), Err(Broken::Other));
        assert_eq!(explained([2, 108, 116], 3, 3), Err(Broken::Lost));
        assert_eq!(explained([3, 108, 116], 0, 0), Err(Broken::Torn));
        assert_eq!(explained([100, 108, 5], 0, 0), Err(Broken::Torn), "what aborted");
    }
}
