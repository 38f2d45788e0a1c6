//! Whether recovered data is what some number of its transactions leaves.
//!
//! The judge knows only the bare transactions: which words each stored, in which order they ran on
//! their data, and when each was acknowledged. It shares no code with the schemes.

use std::collections::{BTreeMap, HashMap};

use outlast_schemes::{Image, Prepared};
use outlast_trace::{Op, PoolOffset, TxId, word_pieces};

use outlast_workloads::machine::Recorded;

/// Of each set of data, a number of its transactions.
pub(super) type Counts = BTreeMap<u64, usize>;

/// The set of data of a transaction.
pub(super) fn data_of(tx: TxId) -> u64 {
    tx.0 >> 32
}

/// The place of a transaction among those of its data, from 1 on.
pub(super) fn number_of(tx: TxId) -> usize {
    (tx.0 & u64::from(u32::MAX)) as usize
}

/// What became of a recovered image's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// These transactions are there: no fewer than were needed.
    Kept(Counts),
    /// These are there, and fewer than were needed.
    Lost(Counts),
    /// No number of transactions explains it.
    Torn(String),
}

/// What the transactions on one set of data leave, one after the other.
#[derive(Debug, Default)]
struct History {
    /// Every word that any of them stores to.
    words: Vec<u64>,
    /// The sum of all words after each number of transactions, and for which numbers it is that.
    states: HashMap<u64, Vec<usize>>,
}

/// Stores of a transaction: where, what.
type Stores = Vec<(u64, Vec<u8>)>;

/// What every set of data may be.
#[derive(Debug)]
pub(super) struct Judge {
    histories: BTreeMap<u64, History>,
    /// Words that only transactions stored to that aborted, with what they held at the start.
    untouched: Vec<(u64, [u8; 8])>,
}

/// One word's share of a state's sum.
fn share(at: u64, value: u64) -> u64 {
    let mut mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    mixed ^ (mixed >> 32)
}

impl Judge {
    /// What the work's transactions leave, set of data by set of data.
    pub(super) fn new(work: &Recorded) -> Self {
        // Stores of each transaction, by its data and its number there.
        let mut by_data: BTreeMap<u64, BTreeMap<usize, Stores>> = BTreeMap::new();
        let mut aborted = Stores::new();
        for stream in &work.streams {
            let mut open: BTreeMap<u16, Vec<Stores>> = BTreeMap::new();
            let mut ended: BTreeMap<u16, Stores> = BTreeMap::new();
            for (lane, op) in stream.iter() {
                let stack = open.entry(lane.0).or_default();
                match op {
                    Op::TxBegin => stack.push(Vec::new()),
                    Op::Store { at, bytes } => {
                        if let Some(stores) = stack.last_mut() {
                            stores.push((at.0, bytes.to_vec()));
                        }
                    }
                    Op::TxEnd => {
                        ended.insert(lane.0, stack.pop().unwrap_or_default());
                    }
                    Op::TxAbort => aborted.extend(stack.pop().unwrap_or_default()),
                    Op::Ack(tx) => {
                        let stores = ended.remove(&lane.0).unwrap_or_default();
                        let data = by_data.entry(data_of(tx)).or_default();
                        data.insert(number_of(tx), stores);
                    }
                    _ => {}
                }
            }
        }
        let initial = |stores: &mut dyn Iterator<Item = &(u64, Vec<u8>)>| {
            let mut memory: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
            for (at, bytes) in stores {
                for (piece, _) in word_pieces(PoolOffset(*at), bytes.len()) {
                    let word = piece.0 & !7;
                    let old = work.image.get(word as usize..word as usize + 8);
                    let old = old.map_or([0; 8], |old| old.try_into().expect("eight bytes"));
                    memory.insert(word, old);
                }
            }
            memory
        };
        let mut untouched = initial(&mut aborted.iter());
        for stored in initial(&mut by_data.values().flat_map(BTreeMap::values).flatten()).keys() {
            untouched.remove(stored);
        }
        let history = |transactions: &BTreeMap<usize, Stores>| {
            let mut memory = initial(&mut transactions.values().flatten());
            let value = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
            let mut sum = 0u64;
            for (at, bytes) in &memory {
                sum = sum.wrapping_add(share(*at, value(bytes)));
            }
            let words = memory.keys().copied().collect();
            let mut states: HashMap<u64, Vec<usize>> = HashMap::from([(sum, vec![0])]);
            for (number, stores) in transactions.values().enumerate() {
                for (at, bytes) in stores {
                    let mut rest = bytes.as_slice();
                    for (piece, len) in word_pieces(PoolOffset(*at), bytes.len()) {
                        let (now, tail) = rest.split_at(len);
                        rest = tail;
                        let word = piece.0 & !7;
                        let held = memory.get_mut(&word).expect("every word was entered");
                        sum = sum.wrapping_sub(share(word, value(held)));
                        held[(piece.0 % 8) as usize..][..len].copy_from_slice(now);
                        sum = sum.wrapping_add(share(word, value(held)));
                    }
                }
                states.entry(sum).or_default().push(number + 1);
            }
            History { words, states }
        };
        let histories = by_data.iter().map(|(data, all)| (*data, history(all))).collect();
        Self { histories, untouched: untouched.into_iter().collect() }
    }

    /// What became of a recovered image's data, where so many transactions have to be there.
    pub(super) fn verdict(&self, prepared: &dyn Prepared, image: &[u8], needed: &Counts) -> Fate {
        if let Err(wrong) = prepared.audit(Image::new(image)) {
            return Fate::Torn(wrong);
        }
        let word = |at: u64| -> [u8; 8] {
            let line = prepared.locate(Image::new(image), PoolOffset(at).line());
            let place = (line.start().0 + at % 64) as usize;
            image[place..][..8].try_into().expect("eight bytes")
        };
        if let Some((at, _)) = self.untouched.iter().find(|(at, old)| word(*at) != *old) {
            return Fate::Torn(format!("a transaction that aborted left something at {at}"));
        }
        let (mut kept, mut lost) = (Counts::new(), false);
        for (data, history) in &self.histories {
            let mut sum = 0u64;
            for at in &history.words {
                sum = sum.wrapping_add(share(*at, u64::from_le_bytes(word(*at))));
            }
            let needed = needed.get(data).copied().unwrap_or(0);
            let Some(numbers) = history.states.get(&sum) else {
                return Fate::Torn(format!("data {data} is what no number of transactions leaves"));
            };
            // The fewest that suffice, or the most that there are: numbers ascend.
            let number = numbers.iter().find(|number| **number >= needed);
            lost |= number.is_none();
            kept.extend(number.or(numbers.last()).map(|number| (*data, *number)));
        }
        if lost { Fate::Lost(kept) } else { Fate::Kept(kept) }
    }
}
