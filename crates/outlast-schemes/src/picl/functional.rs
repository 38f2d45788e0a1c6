//! The mechanism without a machine: its functional view.
//!
//! A driver says what happens, in its order: stores, writes home, ends of epochs, the end of a scan. The
//! production code decides: which stores have entries, what tags become, what a write home waits for,
//! what a scan has to have written, what lies in memory. Nothing takes time, so writes are durable at
//! once. Hardware runs in lockstep with it (`outlast-rtl`).

use std::collections::BTreeMap;

use outlast_sim::Cause;
use outlast_sim::LineBytes;
use outlast_sim::timed::{Answer, Cycle, LevelFlush, Outbox, Scheme, SchemeWrite, StoreSeen};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

use super::config::{Config, Faults};
use super::layout::Entry;
use super::ports::{Eids, Picl, Token};
use super::{configured, recover};
use crate::patch::{Patch, RecoveryError};
use crate::scheme::PrepareError;
use crate::{Image, Options, Work};

/// A line as all caches together have it.
#[derive(Clone, Copy, Debug)]
struct Cached {
    data: LineBytes,
    tag: Eids,
    /// Whether it is newer than memory.
    newer: bool,
}

/// The mechanism, driven by events.
#[derive(Debug)]
pub struct Functional {
    config: Config,
    picl: Picl,
    out: Outbox<Token>,
    lines: BTreeMap<LineAddr, Cached>,
    image: Vec<u8>,
    /// The scan under way.
    scan: Option<LevelFlush<Token>>,
}

impl Functional {
    /// The mechanism over an image, which recovery has left or which is empty.
    ///
    /// # Errors
    /// When the options do not fit.
    pub fn new(work: &Work, options: &Options, image: &[u8]) -> Result<Self, PrepareError> {
        // An entry is on its way until it is taken, so that it can be seen.
        let config = Config { forward_cycles: 1, ..configured(work, options, Faults::NONE)? };
        let mut image = image.to_vec();
        image.resize(64 * config.layout.lines() as usize, 0);
        let picl = Picl::new(config, 0, Image::new(&image));
        let (out, lines) = (Outbox::default(), BTreeMap::new());
        Ok(Self { config, picl, out, lines, image, scan: None })
    }

    /// A store of one aligned word has become visible. Returns the entry that it makes, if any.
    pub fn store(&mut self, at: PoolOffset, word: [u8; 8]) -> Option<Entry> {
        let line = at.line();
        let of_memory = *Image::new(&self.image).line(line);
        let absent = Cached { data: of_memory, tag: Eids::default(), newer: false };
        let mut cached = *self.lines.get(&line).unwrap_or(&absent);
        let before = self.picl.log.made();
        loop {
            let Cached { data, newer, .. } = cached;
            let seen = StoreSeen { at, old: &data, new: &word, dirty: newer, newer };
            let (now, tag) = (Cycle(0), &mut cached.tag);
            if self.picl.store(now, LaneId(0), &seen, tag, None, &mut self.out) == Answer::Proceed {
                break;
            }
            self.serve();
        }
        let made = (self.picl.log.made() > before).then(|| self.picl.log.on_its_way().copied());
        let byte = (at.0 % 64) as usize;
        cached.data[byte..byte + 8].copy_from_slice(&word);
        cached.newer = true;
        self.lines.insert(line, cached);
        self.serve();
        made.flatten()
    }

    /// A line goes home, behind its undo entries. False where memory has it already.
    pub fn write_back(&mut self, line: LineAddr) -> bool {
        let Some(mut cached) = self.lines.get(&line).copied().filter(|cached| cached.newer) else {
            return false;
        };
        let cause = Cause::Scheme(1);
        while self.picl.may_write(Cycle(0), line, cause, &mut self.out) != Answer::Proceed {
            self.serve();
        }
        self.image[line.start().0 as usize..][..64].copy_from_slice(&cached.data);
        cached.newer = false;
        self.lines.insert(line, cached);
        true
    }

    /// The epoch of the last store to a line's first granule, where memory does not have that yet.
    pub fn tag(&self, line: LineAddr) -> Option<u64> {
        let cached = self.lines.get(&line).filter(|cached| cached.newer)?;
        cached.tag[0].epoch(self.picl.epochs.executing())
    }

    /// The epoch that executes.
    pub fn executing(&self) -> u64 {
        self.picl.epochs.executing()
    }

    /// The last epoch that has persisted.
    pub fn persisted(&self) -> u64 {
        self.picl.persisted
    }

    /// The epoch ends: registers have been saved, by stores. A scan may become due.
    pub fn end_epoch(&mut self) {
        self.picl.epochs.end(&mut self.out);
        self.serve();
    }

    /// All epochs that have ended are to persist at once.
    pub fn persist_all(&mut self) {
        self.picl.urgent = self.picl.committed();
        self.picl.scan_if_due(&mut self.out);
        self.serve();
    }

    /// The scan is over, and its epoch persists.
    ///
    /// # Errors
    /// A line that it should have written home; none where no scan is under way.
    pub fn finish_scan(&mut self) -> Result<(), Option<LineAddr>> {
        let flush = self.scan.ok_or(None)?;
        let left = |(_, cached): &(&LineAddr, &Cached)| {
            cached.newer && self.picl.is_scanned(flush.token, cached.tag)
        };
        if let Some((line, _)) = self.lines.iter().find(left) {
            return Err(Some(*line));
        }
        self.scan = None;
        self.picl.flushed(Cycle(0), flush.token, &mut self.out);
        self.serve();
        Ok(())
    }

    /// Memory as a power cut leaves it now.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// What recovery writes to that.
    ///
    /// # Errors
    /// As [`Prepared::recover`](crate::Prepared::recover).
    pub fn recover(&self) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.config.layout, Faults::NONE, Image::new(&self.image))
    }

    /// Does what the mechanism asks for until it asks for no more.
    fn serve(&mut self) {
        while !self.out.is_empty() {
            let asked = self.out.take();
            for SchemeWrite { line, words, data, token, .. } in asked.writes {
                for word in (0..8).filter(|word| words >> word & 1 == 1) {
                    let at = line.start().0 as usize + 8 * word;
                    self.image[at..at + 8].copy_from_slice(&data[8 * word..8 * word + 8]);
                }
                self.picl.write_durable(Cycle(0), token, &mut self.out);
            }
            for block in asked.blocks {
                let bytes = block.data.as_flattened();
                let at = block.line.start().0 as usize;
                self.image[at..at + bytes.len()].copy_from_slice(bytes);
                self.picl.write_durable(Cycle(0), block.token, &mut self.out);
            }
            for (at, token) in asked.calls {
                self.picl.step(at, token, &mut self.out);
            }
            for token in asked.stops {
                self.picl.stopped(Cycle(0), token, &mut self.out);
            }
            for token in asked.barriers {
                self.picl.flushed(Cycle(0), token, &mut self.out);
            }
            self.scan = asked.flushes.first().copied().or(self.scan);
        }
    }
}
