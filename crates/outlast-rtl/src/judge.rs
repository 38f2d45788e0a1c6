//! Recovers an image by production code and asks the epoch oracle.

use std::borrow::Cow;
use std::sync::Arc;

use outlast_crash::{EpochEnd, EpochOracle};
use outlast_schemes::{Image, MachineScheme, Options, Prepared, Streams, Work, apply};
use outlast_trace::{LaneId, LineAddr, OpLog, PoolOffset};

use crate::bench::Bench;
use crate::config::{CORES, Config};

/// What recovery has left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The epoch at whose end memory is.
    pub epoch: u64,
    /// Memory.
    pub image: Vec<u8>,
    /// Words that recovery has written.
    pub written: usize,
}

/// Recovery and oracle for one run.
#[derive(Debug)]
pub struct Judge {
    prepared: Box<dyn Prepared>,
    oracle: Option<EpochOracle>,
    stores: usize,
    ends: usize,
}

/// The work as the model's scheme sees it: this memory, with programs that are none of its business.
pub(crate) fn work(config: Config) -> (Work, Options) {
    let place = config.place();
    let work = Work {
        streams: Streams::Recorded(vec![Arc::new(OpLog::default())]),
        image: Arc::default(),
        end: LineAddr(place.program_lines()),
        lanes: CORES as u16,
        is_nested: false,
        whole: None,
    };
    let options = Options::default()
        .with("save_lines", place.saved_lines())
        .with("acs_gap", config.acs_gap)
        .with("undo_entries", config.undo_entries)
        .with("log", config.chunk * place.block_bytes())
        .with("log_growths", config.max_chunks - 1);
    (work, options)
}

impl Judge {
    /// The judge of runs of this hardware.
    ///
    /// # Errors
    /// When the model refuses the configuration.
    pub fn new(config: Config) -> Result<Self, Box<dyn std::error::Error>> {
        let (work, options) = work(config);
        let prepared = "picl".parse::<MachineScheme>()?.prepare(&work, &options, None)?;
        let place = config.place();
        assert_eq!(prepared.epoch_lines(), place.header_line(), "the header's line");
        let bytes =
            64 * place.header_line() + 8 * (place.words() as u64 - u64::from(place.header()));
        assert_eq!(64 * prepared.lines(), bytes, "the log's end");
        Ok(Self { prepared, oracle: None, stores: 0, ends: 0 })
    }

    /// Recovers an image of a run and judges what that leaves. A judge is one run's.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &mut self,
        bench: &Bench,
        image: &[u8],
    ) -> Result<Recovered, Box<dyn std::error::Error>> {
        let place = bench.place();
        let oracle = self.oracle.get_or_insert_with(|| {
            let (first, base) = bench.begin();
            EpochOracle::of(base, first, Vec::new(), Vec::new())
        });
        for (at, word) in &bench.stores[self.stores..] {
            oracle.stored(PoolOffset(place.byte_of(*at)), word.to_le_bytes());
        }
        for (stores, positions) in &bench.ends[self.ends..] {
            oracle.ended(EpochEnd { stores: *stores, positions: positions.clone() });
        }
        (self.stores, self.ends) = (bench.stores.len(), bench.ends.len());

        let recovered = recover(self.prepared.as_ref(), image)?;
        let left = Image::new(&recovered.image);
        let positions: Vec<u64> =
            (0..CORES as u16).map(|core| self.prepared.resumes_at(left, LaneId(core))).collect();
        let lines = |first: LineAddr, most: u64| Cow::Borrowed(left.lines_from(first, most));
        oracle
            .check(recovered.epoch, bench.persisted(), &positions, lines, None)
            .map_err(|violation| format!("cycle {}: {violation}", bench.cycle()))?;
        Ok(recovered)
    }
}

/// Recovers an image. A second recovery has to find nothing to do.
pub(crate) fn recover(
    prepared: &dyn Prepared,
    image: &[u8],
) -> Result<Recovered, Box<dyn std::error::Error>> {
    let mut image = image.to_vec();
    let patches = prepared.recover(Image::new(&image))?;
    apply(&patches, &mut image);
    let again = prepared.recover(Image::new(&image))?;
    if !again.is_empty() {
        return Err(format!("a second recovery writes {again:?}").into());
    }
    let epoch = prepared.epoch(Image::new(&image)).unwrap_or(0);
    Ok(Recovered { epoch, image, written: patches.len() })
}
