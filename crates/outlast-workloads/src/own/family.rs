//! Work of one's own as a family of workloads: a vector of words, and a thread for each lane.

use std::collections::BTreeMap;

use outlast::collections::{Damage, ReadRaw, Words};
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use super::{OwnStep, OwnTransaction, OwnWork, WORD_BYTES};
use crate::audit::damage;
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::load::create_words;
use crate::{OpKind, Scale, State, Version, Witness};

/// The family: what a file lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Own(pub(crate) &'static OwnWork);

impl Family for Own {
    type Data = Words;
    type Worker = OwnWorker;

    fn scale(self, common: Scale) -> Scale {
        Scale { records: self.0.words(), operations: self.0.len(), ..common }
    }

    fn scale_of(self, _keys: u64, published: Scale) -> Scale {
        published
    }

    fn describe(self, _name: &str, _scale: &Scale) -> String {
        let (bytes, lanes, count) = (self.0.memory_bytes(), self.0.lanes(), self.0.len());
        format!("work of one's own: {count} transactions, {lanes} lanes, {bytes} bytes")
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        match scale.records == self.0.words() {
            true => Ok(()),
            false => Err(("records", scale.records, "its file says how much memory there is")),
        }
    }

    fn heap_bytes(self, _scale: &Scale) -> u64 {
        (1 << 20) + self.0.memory_bytes()
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: self.0.memory_bytes(), key_bytes: WORD_BYTES }
    }

    fn load<R: Runner>(
        self,
        _scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Words, Abort> {
        create_words(runner, self.0.words(), |word| self.0.initial_of(word), progress)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Words>, Abort> {
        let words = (kind == RootKind::Words).then(|| Words::open(tx, root)).transpose()?;
        Ok(words.filter(|words| words.len() == self.0.words()))
    }

    fn worker(self, _scale: &Scale, words: &Words, _seed: u64, id: u8, _used: u64) -> OwnWorker {
        OwnWorker::new(self.0, *words, (u16::from(id) - 1) % self.0.lanes())
    }

    /// Each word is visited with its value, and the history says whether a transaction left that.
    fn audit<R: ReadRaw>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        if kind != RootKind::Words {
            return Ok(false);
        }
        let mut words = 0;
        Words::read_all(root, read, |word, value| {
            words += 1;
            visit(word, Version(value));
            Ok(())
        })?;
        match words == self.0.words() {
            true => Ok(true),
            false => Err(damage(root, "a vector of another length")),
        }
    }

    fn initial(self, _scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        (0..self.0.words()).for_each(|word| visit(word, holds(self.0.initial_of(word))));
    }
}

fn holds(value: u64) -> State {
    State::Holds(Version(value))
}

/// One lane's transactions in their order, again and again.
pub(crate) struct OwnWorker {
    work: &'static OwnWork,
    words: Words,
    lane: u16,
    /// The place of the next among the lane's.
    next: usize,
    /// What the next one stores to, announced at its begin.
    announced: Vec<ByteRange>,
    bytes: Vec<u8>,
}

impl OwnWorker {
    fn new(work: &'static OwnWork, words: Words, lane: u16) -> Self {
        let announced = Vec::new();
        let mut worker = Self { work, words, lane, next: 0, announced, bytes: Vec::new() };
        worker.prepare();
        worker
    }

    fn transaction(&self) -> &'static OwnTransaction {
        &self.work.transactions[self.work.of_lane[usize::from(self.lane)][self.next]]
    }

    fn prepare(&mut self) {
        self.announced.clear();
        let mut stored: Vec<(u64, u64)> = Vec::new();
        for step in &self.transaction().steps {
            if let OwnStep::Store { word, values } = step {
                stored.push((*word, word + values.len() as u64));
            }
        }
        stored.sort_unstable();
        // Ranges that touch are one.
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in stored {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let range = |(from, to): (u64, u64)| {
            ByteRange::new(self.words.range(from).at, (to - from) * WORD_BYTES)
        };
        self.announced.extend(merged.into_iter().map(range));
    }
}

impl Thread for OwnWorker {
    fn draw(&mut self) {
        self.next = (self.next + 1) % self.work.of_lane[usize::from(self.lane)].len();
        self.prepare();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let tx_steps = &self.transaction().steps;
        let Self { words, announced, bytes, .. } = self;
        runner.run(|tx| {
            witness.restart();
            // What each word held before the transaction's first store to it, and what that leaves.
            let mut left: BTreeMap<u64, Option<u64>> = BTreeMap::new();
            if !announced.is_empty() {
                tx.will_write(announced)?;
            }
            for step in tx_steps {
                match step {
                    OwnStep::Load { word, words: count } => {
                        bytes.resize((count * WORD_BYTES) as usize, 0);
                        tx.load(words.range(*word).at, bytes)?;
                        if W::WATCHES {
                            for (word, value) in (*word..).zip(bytes.as_chunks::<8>().0) {
                                left.entry(word).or_insert_with(|| {
                                    witness.read(word, holds(u64::from_le_bytes(*value)));
                                    None
                                });
                            }
                        }
                    }
                    OwnStep::Store { word, values } => {
                        if W::WATCHES {
                            for (word, value) in (*word..).zip(values) {
                                if !left.contains_key(&word) {
                                    witness.read(word, holds(words.get(tx, word)?));
                                }
                                left.insert(word, Some(*value));
                            }
                        }
                        bytes.clear();
                        values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
                        match &values[..] {
                            [value] => words.set(tx, *word, *value)?,
                            _ => tx.store(words.range(*word).at, bytes)?,
                        }
                    }
                    OwnStep::Think(instructions) => tx.compute(*instructions),
                }
            }
            for (word, value) in left {
                if let Some(value) = value {
                    witness.write(word, holds(value));
                }
            }
            Ok(())
        })?;
        Ok(OpKind::Listed)
    }

    fn versions(&self) -> Option<&Versions> {
        None
    }
}
