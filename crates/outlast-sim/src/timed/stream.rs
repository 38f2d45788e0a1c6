//! Streams of instructions made on the fly, by which the machine's own speed is measured.

use super::instr::{Batch, Instr, Mark, Source, SourceError};
use outlast_trace::Random;
use outlast_trace::TxId;

/// Instructions in a batch.
const BATCH: usize = 256;

/// A mix of loads, stores and other instructions over some memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Words of 16 KiB at random: everything hits the first level.
    Friendly,
    /// One word after the other over 256 MiB.
    Stride,
    /// Words of 256 MiB at random: nearly everything misses everything.
    Random,
}

impl Pattern {
    /// Every pattern with its name and what it is, in one line.
    pub const ALL: [(Pattern, &str, &str); 3] = [
        (Pattern::Friendly, "friendly", "30 % loads, 10 % stores over 16 KiB at random"),
        (Pattern::Stride, "stride", "30 % loads, 10 % stores in 8-byte strides over 256 MiB"),
        (Pattern::Random, "random", "30 % loads, 10 % stores over 256 MiB at random"),
    ];

    /// Bytes of the memory that it touches, from address 0.
    pub fn bytes(self) -> u64 {
        8 * self.words()
    }

    fn words(self) -> u64 {
        match self {
            Pattern::Friendly => (16 << 10) / 8,
            Pattern::Stride | Pattern::Random => (256 << 20) / 8,
        }
    }
}

/// An endless stream of one [`Pattern`].
///
/// Of 10 instructions 3 load, 1 stores, 6 compute, in an order that is drawn. Each third
/// instruction uses what a recent one made; addresses depend on nothing, as in the loops that
/// such patterns stand for.
#[derive(Clone, Debug)]
pub struct Stream {
    pattern: Pattern,
    rng: Random,
    next_word: u64,
    number: u64,
}

impl Stream {
    /// The stream that a seed gives.
    pub fn new(pattern: Pattern, seed: u64) -> Self {
        Self { pattern, rng: Random::from_state(seed), next_word: 0, number: 0 }
    }

    /// The next instruction.
    #[inline]
    pub fn next_instr(&mut self) -> Instr {
        let drawn = self.rng.next_u64();
        self.number += 1;
        let into = 1 + (self.number % 48) as u8;
        let from = 1 + ((self.number + 45) % 48) as u8;
        let mut instr = match drawn % 10 {
            0..3 => Instr::load(self.address(drawn), into),
            3 => Instr::store(self.address(drawn), self.number),
            _ => Instr { destinations: [into, 0], ..Instr::work() },
        };
        if instr.loads == 0 && (drawn >> 60) < 5 {
            instr.sources[0] = from;
        }
        instr.pc = 0x40_0000 + 4 * (self.number % 1024);
        instr
    }

    #[inline]
    fn address(&mut self, drawn: u64) -> u64 {
        let words = self.pattern.words();
        let word = match self.pattern {
            Pattern::Stride => {
                self.next_word = (self.next_word + 1) % words;
                self.next_word
            }
            Pattern::Friendly | Pattern::Random => (drawn >> 8) % words,
        };
        8 * word
    }
}

/// A stream as transactions, so that a scheme has something to do: each `stores` stores with what
/// lies between them are one, and the next begins at once.
#[derive(Clone, Debug)]
pub struct InTransactions {
    stream: Stream,
    stores: u32,
    /// Those of the transaction under way; `None` outside of one.
    stored: Option<u32>,
    number: u64,
}

impl InTransactions {
    /// The stream, `stores` stores a transaction.
    pub fn new(stream: Stream, stores: u32) -> Self {
        Self { stream, stores, stored: None, number: 0 }
    }
}

impl Source for InTransactions {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        for _ in 0..BATCH {
            let stored = self.stored.get_or_insert_with(|| {
                batch.push_mark(Mark::TxBegin);
                0
            });
            let instr = self.stream.next_instr();
            batch.instrs.push(instr);
            *stored += u32::from(instr.stores);
            if *stored == self.stores {
                self.number += 1;
                batch.push_mark(Mark::TxEnd);
                batch.push_mark(Mark::Ack(TxId(self.number)));
                self.stored = None;
            }
        }
        Ok(())
    }
}

impl Source for Stream {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        batch.instrs.extend((0..BATCH).map(|_| self.next_instr()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::instr::InstrKind;

    #[test]
    fn transactions_have_their_stores_and_end_before_the_next_begins() {
        let mut source = InTransactions::new(Stream::new(Pattern::Random, 1), 3);
        let (mut instrs, mut same) = (Batch::default(), Batch::default());
        (0..8).for_each(|_| source.fill(&mut instrs).unwrap());
        let mut inside = None;
        for instr in &instrs.instrs {
            let mark = (instr.kind == InstrKind::Mark).then(|| instrs.mark(instr));
            match mark {
                Some(Mark::TxBegin) => assert_eq!(inside.replace(0), None),
                Some(Mark::TxEnd) => assert_eq!(inside.take(), Some(3)),
                _ => inside = inside.map(|stores| stores + u32::from(instr.stores)),
            }
        }
        let mut stream = Stream::new(Pattern::Random, 1);
        (0..8).for_each(|_| stream.fill(&mut same).unwrap());
        instrs.instrs.retain(|instr| instr.kind != InstrKind::Mark);
        assert_eq!(instrs.instrs, same.instrs, "nothing else is changed");
    }
}
