//! Judges recovered pools of a script: every cell's version, and the allocator.

use outlast::inspect::CheckReport;
use outlast::lab::Plant;
use outlast::medium::OpenOptions;
use outlast::recover::UnrecoveredPool;
use outlast::recover::{RecoveredPool, RecoveryReport};
use outlast::{ByteRange, PoolError, PoolOffset};
use outlast::{Runner, Scheme, Transact};
use outlast_pmem::{Mark, Medium};
use outlast_trace::TxId;
use std::cell::Cell;

use super::script::{Facts, Shape};
use crate::{
    Broken, Crash, CrashImage, ImageMedium, Judge, Key, Oracle, Transaction, Version, Violation,
};

/// The number of the transaction that goes on after a recovery.
const AFTER: TxId = TxId(0xaf7e);

/// A cell as the oracle knows it.
fn key(cell: u64) -> Key {
    Key(cell as u32)
}

/// Everything needed to judge the images of one run.
pub(super) struct CellJudge<'a> {
    pub shape: &'a Shape,
    pub root: PoolOffset,
    pub scheme: Scheme,
    pub plant: Option<Plant>,
    pub check_blocks: bool,
    /// Rings go from one form to the other: no line may be left that is of neither.
    checks_rings: bool,
    wanted: Option<Broken>,
    oracle: Oracle,
    /// What the last recovery said of itself.
    recovered: Cell<Option<RecoveryReport>>,
}

impl<'a> CellJudge<'a> {
    /// Of what the transactions of a script did.
    ///
    /// # Errors
    /// When two transactions read the same version of a cell and both wrote it: one of them
    /// lost its update while nothing had crashed yet. Or when one read what none has left.
    pub fn new(
        shape: &'a Shape,
        root: PoolOffset,
        scheme: Scheme,
        plant: Option<Plant>,
        facts: &[Facts],
    ) -> Result<Self, Violation> {
        let transaction = |facts: &Facts| Transaction {
            id: facts.tx,
            reads: facts.reads.iter().map(|(cell, seen)| (key(*cell), Version(*seen))).collect(),
            writes: facts.writes.iter().map(|cell| (key(*cell), Version(facts.tx.0))).collect(),
        };
        let oracle = Oracle::new(shape.cells() as u32, facts.iter().map(transaction).collect());
        let oracle = oracle.expect("scripts read what they write, once");
        if let Some(fault) = oracle.lost_update().or_else(|| oracle.unwritten()) {
            return Err(fault.into());
        }
        let check_blocks = shape.blocks > 0;
        Ok(Self {
            shape,
            root,
            scheme,
            plant,
            check_blocks,
            checks_rings: false,
            wanted: None,
            oracle,
            recovered: Cell::new(None),
        })
    }

    /// Only this counts as a violation, if anything is named.
    pub fn looking_for(self, wanted: Option<Broken>) -> Self {
        Self { wanted, ..self }
    }

    /// Whether rings are looked at, too.
    pub fn checking_rings(self, checks_rings: bool) -> Self {
        Self { checks_rings, ..self }
    }

    /// What the last recovery said of itself; nothing where it gave no pool.
    pub fn recovered(&self) -> Option<RecoveryReport> {
        self.recovered.get()
    }

    /// What a cell says.
    pub fn version<M: Medium>(&self, medium: &M, cell: u64) -> Result<u64, Violation> {
        let word = medium.load_u64(self.shape.cell_at(self.root, cell));
        if !self.shape.is_block(cell) {
            return Ok(word);
        }
        if word % 2 == 1 || word == 0 {
            return Ok(word >> 1);
        }
        let garbage = |what: &str| Violation::new(Broken::Garbage, format!("cell {cell} {what}"));
        let inside =
            |bytes: u64| word.is_multiple_of(16) && word.saturating_add(bytes) <= medium.len();
        if !inside(16) {
            return Err(garbage("points out of the pool"));
        }
        let version = medium.load_u64(PoolOffset(word));
        let bytes = medium.load_u64(PoolOffset(word + 8));
        let known = bytes == self.shape.block_bytes || bytes == self.shape.large_bytes;
        if !known || !inside(bytes) || medium.load_u64(PoolOffset(word + bytes - 8)) != version {
            return Err(garbage("points to a block that is not whole"));
        }
        Ok(version)
    }

    /// Whether the cells are what the transactions that may survive leave.
    fn judge_cells<M: Medium>(&self, medium: &M, acked: &[TxId]) -> Result<(), Violation> {
        let versions: Result<Vec<Version>, Violation> =
            (0..self.shape.cells()).map(|cell| self.version(medium, cell).map(Version)).collect();
        let versions = versions?;
        match acked.iter().position(|tx| *tx == AFTER) {
            // The one that goes on after a recovery writes no cell.
            Some(last) => Ok(self.oracle.judge(&versions, &acked[..last])?),
            None => Ok(self.oracle.judge(&versions, acked)?),
        }
    }

    /// The allocator agrees with what the root block reaches (M).
    fn judge_blocks<M: Medium>(&self, pool: &RecoveredPool<M>) -> Result<(), Violation> {
        let mut report = CheckReport::default();
        let mut blocks = pool.allocated_blocks(&mut report);
        if let Some(finding) = report.findings.first() {
            return Err(Violation::new(Broken::Other, finding.to_string()));
        }
        let mut reach = |at: PoolOffset, what: &str| match blocks.remove(&at) {
            Some(_) => Ok(()),
            None => {
                let detail =
                    format!("{what} leads to {at}, which is not allocated or led to twice");
                Err(Violation::new(Broken::Other, detail))
            }
        };
        reach(self.root, "the root")?;
        for cell in self.shape.words..self.shape.cells() {
            let word = pool.medium().load_u64(self.shape.cell_at(self.root, cell));
            if word != 0 && word.is_multiple_of(2) {
                reach(PoolOffset(word), "a cell")?;
            }
        }
        match blocks.first_key_value() {
            None => Ok(()),
            Some((at, _)) => {
                let detail = format!("the block at {at} is allocated and nothing leads to it");
                Err(Violation::new(Broken::Other, detail))
            }
        }
    }
}

/// Opens and recovers an image.
fn recover(
    image: &ImageMedium,
    plant: Option<Plant>,
) -> Result<RecoveredPool<CrashImage<'_>>, Violation> {
    image.plant(Plant::code_of(plant));
    UnrecoveredPool::open(CrashImage::B(image))
        .and_then(|pool| pool.recover())
        .map_err(|error: PoolError| Violation::new(Broken::Refused, error.to_string()))
}

impl CellJudge<'_> {
    fn judge(&self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        self.recovered.set(None);
        let pool = recover(image, self.plant)?;
        self.recovered.set(Some(pool.report()));
        self.judge_cells(image, crash.acked)?;
        match pool.root() {
            Ok(Some((at, _))) if at == self.root => {}
            other => {
                let detail = format!("the root is {other:?}");
                return Err(Violation::new(Broken::Garbage, detail));
            }
        }
        let after = self.shape.after_at(self.root);
        let (one, two) = (image.load_u64(after), image.load_u64(after.plus(8)));
        if one != two || one != 0 && one != AFTER.0 {
            let detail = format!("the transaction after recovery left {one} and {two}");
            return Err(Violation::new(Broken::Torn, detail));
        }
        if one == 0 && crash.acked.contains(&AFTER) {
            let detail = "the transaction after recovery was acknowledged";
            return Err(Violation::new(Broken::Lost, detail));
        }
        if let Some(fault) = pool.faults().first() {
            return Err(Violation::new(Broken::Other, fault.to_string()));
        }
        let metadata = self.checks_rings.then(|| pool.check_metadata().0);
        if let Some(finding) = metadata.iter().flat_map(|report| &report.findings).next() {
            return Err(Violation::new(Broken::Other, finding.to_string()));
        }
        if self.check_blocks { self.judge_blocks(&pool) } else { Ok(()) }
    }
}

impl Judge for CellJudge<'_> {
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        let verdict = self.judge(image, crash);
        match &verdict {
            Err(violation) if self.wanted.is_some_and(|wanted| wanted != violation.broken) => {
                Ok(())
            }
            _ => verdict,
        }
    }

    fn after(&mut self, image: &ImageMedium, _: &Crash<'_>) -> Result<(), Violation> {
        let refused = |what: String| Violation::new(Broken::Refused, what);
        if self.wanted.is_some() {
            return Ok(());
        }
        // `verify` has recovered; opening again must find nothing to do.
        let recovered = recover(image, self.plant)?;
        let open = OpenOptions {
            lock_stripes: 64,
            cache_bytes: Some(64),
            page_bytes: super::PAGE_BYTES,
            ..OpenOptions::with_scheme(self.scheme)
        };
        let pool = recovered.start(&open).map_err(|error| refused(error.to_string()))?;
        let mut lane = pool.lane().map_err(|error| refused(error.to_string()))?;
        let at = self.shape.after_at(self.root);
        lane.run(|tx| {
            // Announced at once: what a ring cannot hold would go where the script's blocks were.
            tx.will_write(&[ByteRange::new(at, 16)])?;
            tx.store_u64(at, AFTER.0)?;
            tx.store_u64(at.plus(8), AFTER.0)
        })
        .map_err(|abort| refused(abort.to_string()))?;
        image.mark(Mark::Ack(AFTER));
        Ok(())
    }
}
