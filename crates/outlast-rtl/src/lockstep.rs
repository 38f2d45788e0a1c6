//! The model beside the hardware: the functional view of `outlast-schemes`' scheme `picl`.
//!
//! The hardware's events go to the model in their order. The model's decisions have to be the
//! hardware's:
//!
//! - which store makes an entry, with which epochs and old content;
//! - the tag of each line that the last level looks up;
//! - that a line goes home behind its entries;
//! - which epoch persists, and that no line is left then.
//!
//! Entries are compared in the order of each line: between cores, those on their way
//! have none.

use std::collections::{BTreeMap, VecDeque};

use outlast_schemes::picl::{Entry, Functional};
use outlast_schemes::{Image, apply};
use outlast_trace::{LineAddr, PoolOffset};

use crate::bench::{Bench, Event};
use crate::config::{Config, Place};
use crate::judge::{Recovered, work};

/// The model of one run.
#[derive(Debug)]
pub struct Lockstep {
    model: Functional,
    place: Place,
    words: usize,
    /// Entries of the model that the hardware's buffer has not got, and the other way round.
    made: BTreeMap<u64, VecDeque<Entry>>,
    logged: BTreeMap<u64, VecDeque<Entry>>,
    /// Of the entry that came last.
    till: u64,
    entries: u64,
    tags: u64,
}

impl Lockstep {
    /// The model under empty memory.
    ///
    /// # Errors
    /// When the model refuses the configuration.
    pub fn new(config: Config) -> Result<Self, Box<dyn std::error::Error>> {
        let (work, options) = work(config);
        let model = Functional::new(&work, &options, &[])?;
        let words = (config.granule / 8) as usize;
        let (made, logged) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { model, place: config.place(), words, made, logged, till: 0, entries: 0, tags: 0 })
    }

    /// Entries and tags that were compared.
    pub fn compared(&self) -> (u64, u64) {
        (self.entries, self.tags)
    }

    /// Has the model do what the hardware did since the last call.
    ///
    /// # Errors
    /// What differs.
    pub fn follow(&mut self, bench: &mut Bench) -> Result<(), Box<dyn std::error::Error>> {
        for event in bench.take_events() {
            self.event(&event).map_err(|what| format!("cycle {}: {what}", bench.cycle()))?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Stored(at, word) => {
                let at = PoolOffset(self.place.byte_of(*at));
                if let Some(entry) = self.model.store(at, word.to_le_bytes()) {
                    self.made.entry(entry.line.0).or_default().push_back(entry);
                    self.compare(entry.line.0)?;
                }
            }
            Event::Logged(line, from, till, words) => {
                // Recovery stops at the first block that is below PersistedEID (PICL-9).
                if *till < self.till {
                    return Err(format!("ValidTill falls from {} to {till}", self.till));
                }
                self.till = *till;
                let mut data = [0; 64];
                for (place, word) in data.chunks_mut(8).zip(&words[..self.words]) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                let entry =
                    Entry { line: LineAddr(*line), words: u8::MAX, from: *from, till: *till, data };
                self.logged.entry(*line).or_default().push_back(entry);
                self.compare(*line)?;
            }
            Event::Seen(line, eid) => {
                if self.made.get(line).is_none_or(VecDeque::is_empty) {
                    let tag = self.model.tag(LineAddr(*line)).map(|epoch| (epoch % 16) as u8);
                    self.tags += 1;
                    if tag != *eid {
                        return Err(format!("line {line} has tag {eid:?}, in the model {tag:?}"));
                    }
                }
            }
            Event::Home(line) => {
                if self.made.get(line).is_some_and(|made| !made.is_empty()) {
                    return Err(format!("line {line} goes home before its entry comes"));
                }
                if !self.model.write_back(LineAddr(*line)) {
                    return Err(format!("line {line} goes home, which has it in the model"));
                }
            }
            Event::Ended(epoch) => {
                self.model.end_epoch();
                if self.model.executing() != epoch + 1 {
                    return Err(format!(
                        "epoch {epoch} has ended, the model is in {}",
                        self.model.executing()
                    ));
                }
            }
            Event::Bulk => self.model.persist_all(),
            Event::Persisted(epoch) => {
                if let Err(left) = self.model.finish_scan() {
                    return Err(format!(
                        "epoch {epoch} has persisted; in the model left: {left:?}"
                    ));
                }
                if self.model.persisted() != *epoch {
                    return Err(format!(
                        "epoch {epoch} has persisted, in the model {}",
                        self.model.persisted()
                    ));
                }
            }
        }
        Ok(())
    }

    /// The oldest entries of a line, where both have one.
    fn compare(&mut self, line: u64) -> Result<(), String> {
        let (made, logged) =
            (self.made.entry(line).or_default(), self.logged.entry(line).or_default());
        let (Some(model), Some(hardware)) = (made.front(), logged.front()) else { return Ok(()) };
        if model != hardware {
            return Err(format!("the entry {hardware:?} is {model:?} in the model"));
        }
        made.pop_front();
        logged.pop_front();
        self.entries += 1;
        Ok(())
    }

    /// What the model's own memory recovers to, and at the end of which epoch.
    ///
    /// # Errors
    /// When recovery gives up.
    pub fn recovered(&self) -> Result<Recovered, Box<dyn std::error::Error>> {
        let mut image = self.model.image().to_vec();
        let patches = self.model.recover()?;
        apply(&patches, &mut image);
        let epoch = Image::new(&image).word(LineAddr(self.place.header_line()), 0);
        Ok(Recovered { epoch, image, written: patches.len() })
    }

    /// Whether all entries have been compared.
    pub fn is_even(&self) -> bool {
        self.made.values().chain(self.logged.values()).all(VecDeque::is_empty)
    }
}
