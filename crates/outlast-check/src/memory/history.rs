//! All that could persist: the units that an operation stream leaves open at each crash point.
//!
//! A [`History`] walks through a recorded run. At every position it knows what is durable for
//! certain (the floor of rule 4) and which units may have which contents, so it can say whether
//! an image is one that a crash here may leave. The exhaustive checker enumerates from the same
//! state; images that some cache produced must pass [`History::check_image`].

use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset};

use crate::memory::count::Count;
use crate::memory::model::Model;

pub(crate) mod tracker;
pub(crate) mod units;

use tracker::{Base, Tracker};
pub use units::TooWide;
use units::Units;

/// The durable state at a position of a run, and the stores that may be durable beyond it.
///
/// ```
/// use outlast_check::memory::{History, Model};
/// use outlast_pmem::{Medium, Recorder};
/// use outlast_trace::PoolOffset;
///
/// let medium = Recorder::new(64);
/// medium.store_u64(PoolOffset(0), 1);
/// medium.store_u64(PoolOffset(8), 2);
/// let mut history = History::new(&[0; 64], Model::default());
/// history.play(&medium.take_log());
/// assert_eq!(history.images().unwrap().exact(), Some(3)); // neither, the first, both
///
/// let mut second_only = [0; 64];
/// second_only[8] = 2;
/// assert!(history.check_image(&second_only).is_err());
/// ```
#[derive(Debug)]
pub struct History {
    tracker: Tracker,
    base: Bytes,
    position: usize,
}

/// An image holds a value that no crash at this point can leave.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "an image with {found:#x} in the word at {at} is none that a crash at operation {position} can leave"
)]
pub struct ImageRefused {
    /// A word that cannot be so, or the first of several that cannot be so together.
    pub at: PoolOffset,
    /// The value in the image.
    pub found: u64,
    /// The crash point.
    pub position: usize,
}

impl History {
    /// The start of a run on a medium that holds `base`, all of it durable.
    pub fn new(base: &[u8], model: Model) -> Self {
        Self { tracker: Tracker::new(model), base: Bytes::new(base), position: 0 }
    }

    /// How many operations have been played.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Plays one operation.
    pub fn step(&mut self, lane: LaneId, op: &Op<'_>) {
        for part in 0..self.tracker.parts(op) {
            self.tracker.apply(self.position, lane, op, part, &mut self.base);
        }
        self.position += 1;
    }

    /// Plays all operations of a log.
    pub fn play(&mut self, log: &OpLog) {
        for (lane, op) in log.iter() {
            self.step(lane, &op);
        }
    }

    /// The certainly durable state: the image of a crash after which nothing more persisted.
    pub fn floor(&self) -> &[u8] {
        &self.base.bytes
    }

    /// How many different images a crash here may leave.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn images(&self) -> Result<Count, TooWide> {
        Ok(self.open()?.units.iter().fold(Count::ONE, |n, unit| n.times(unit.width.into())))
    }

    /// Lines that may hold something else than [`floor`](Self::floor) says.
    pub fn open_lines(&self) -> Vec<LineAddr> {
        let words = self
            .tracker
            .cells()
            .flat_map(|(cell, events)| events.iter().map(move |e| (cell, e.word)));
        let per_cell = self.tracker.cell_words();
        let mut lines: Vec<LineAddr> =
            words.map(|(cell, word)| LineAddr((cell * per_cell + u64::from(word)) / 8)).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Whether a crash at this point can leave this image.
    ///
    /// # Errors
    /// The first word that it cannot leave so. A unit too wide to enumerate counts as refused.
    ///
    /// # Panics
    /// When the image has another size than the medium has here.
    pub fn check_image(&self, image: &[u8]) -> Result<(), ImageRefused> {
        assert_eq!(image.len(), self.base.bytes.len(), "the image has the size of the medium");
        let refused = |index: u64| ImageRefused {
            at: PoolOffset(index * 8),
            found: word_at(image, index),
            position: self.position,
        };
        let mut expected = self.base.clone();
        for unit in self.open_units()? {
            let row = unit.iter().map(|&(index, _)| word_at(image, index));
            let row: Vec<u64> = row.collect();
            let width = unit[0].1.len();
            let fits = |r: usize| unit.iter().zip(&row).all(|((_, rows), word)| rows[r] == *word);
            if !(0..width).any(fits) {
                let odd = unit.iter().zip(&row).find(|((_, rows), word)| !rows.contains(word));
                return Err(refused(odd.map_or(unit[0].0, |((index, _), _)| *index)));
            }
            for (&(index, _), word) in unit.iter().zip(row) {
                expected.set_word(index, word);
            }
        }
        match expected.bytes.chunks_exact(8).zip(image.chunks_exact(8)).position(|(a, b)| a != b) {
            Some(index) => Err(refused(index as u64)),
            None => Ok(()),
        }
    }

    fn open(&self) -> Result<Units, TooWide> {
        let mut units = Units::default();
        units.open(&self.tracker, &self.base)?;
        Ok(units)
    }

    /// Per unit, per word: its index and its content in each row.
    #[expect(clippy::type_complexity, reason = "used in one place")]
    fn open_units(&self) -> Result<Vec<Vec<(u64, Vec<u64>)>>, ImageRefused> {
        let units = self.open().map_err(|wide| ImageRefused {
            at: PoolOffset(wide.at()),
            found: 0,
            position: self.position,
        })?;
        let of = |unit: &units::Unit| {
            let rows = |column: usize| (0..unit.width).map(move |row| (row, column));
            unit.words
                .clone()
                .enumerate()
                .map(|(column, word)| {
                    let values = rows(column).map(|(r, c)| units.row(unit, r)[c]).collect();
                    (units.words[word], values)
                })
                .collect()
        };
        Ok(units.units.iter().map(of).collect())
    }
}

/// Durable memory that is nothing but bytes.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    pub bytes: Vec<u8>,
}

impl Bytes {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        Self { bytes }
    }
}

pub(crate) fn word_at(bytes: &[u8], index: u64) -> u64 {
    let at = index as usize * 8;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Base for Bytes {
    fn word(&self, index: u64) -> u64 {
        word_at(&self.bytes, index)
    }

    fn set_word(&mut self, index: u64, value: u64) {
        let at = index as usize * 8;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn grow(&mut self, len: u64) {
        self.bytes.resize(len as usize, 0);
    }
}
