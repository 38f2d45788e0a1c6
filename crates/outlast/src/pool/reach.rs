//! The allocator against what the root leads to: the last part of a check.

use std::collections::BTreeMap;

use outlast_pmem::Medium;
use outlast_trace::PoolOffset;

use super::blocks::{BlockMap, Reached};
use super::check::{CheckReport, CheckStage, CheckStep, FINDINGS_MAX, Finding, Tell, damaged, raw};
use crate::collections::walk_any;
use crate::inspect::walk::{Coverage, Path, Pointed, Root, Visit, Walker, walker_of};
use crate::pool::RecoveredPool;
use crate::typed::layout::ROOT_MAGIC;

/// A block and how the root leads to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Where it is.
    pub at: PoolOffset,
    /// Its size.
    pub bytes: u64,
    /// The way to it; `None` when the walk did not get there.
    pub path: Option<String>,
}

/// Compares what is visited with what is allocated.
struct Reaching<'r> {
    blocks: BlockMap,
    report: &'r mut CheckReport,
    reached: u64,
    tell: &'r mut Tell<'r>,
    /// The path of each block, for a listing.
    paths: Option<BTreeMap<PoolOffset, String>>,
}

impl Reaching<'_> {
    fn count(&mut self) {
        self.reached += 1;
        let (stage, total) = (CheckStage::Reachability, self.report.blocks);
        (self.tell)(CheckStep { stage, done: self.reached, total });
    }

    fn reach(&mut self, at: PoolOffset, bytes: u64) -> bool {
        self.count();
        let finding = match self.blocks.reach(at, bytes) {
            Reached::First => return true,
            Reached::Again => Finding::ReachedTwice { at },
            Reached::NoBlock => Finding::NotAllocated { at, bytes },
        };
        self.report.findings.push(finding);
        false
    }

    fn note_path(&mut self, at: PoolOffset, path: &Path<'_>) {
        let paths = &mut self.report.paths;
        if paths.len() < FINDINGS_MAX {
            paths.entry(at).or_insert_with(|| path.to_string());
        }
    }

    /// What was not reached leaks, or probably does.
    fn end(self, coverage: Coverage) -> Option<BTreeMap<PoolOffset, String>> {
        if coverage != Coverage::Unknown {
            self.report.reachable = Some(self.reached);
            let leaked = self.blocks.iter().filter(|(_, _, reached)| !reached);
            let leaked = leaked.map(|(at, bytes, _)| Finding::Leaked { at, bytes });
            match coverage {
                Coverage::Whole => self.report.findings.extend(leaked),
                _ => self.report.suspected.extend(leaked),
            }
        }
        self.paths
    }
}

impl Visit for Reaching<'_> {
    fn owned(&mut self, at: PoolOffset, bytes: u64, path: &Path<'_>) -> bool {
        let goes_on = self.reach(at, bytes);
        match (&mut self.paths, goes_on) {
            (_, false) => self.note_path(at, path),
            (Some(paths), true) => {
                paths.insert(at, path.to_string());
            }
            (None, true) => {}
        }
        goes_on
    }

    fn pointed(&mut self, at: PoolOffset, bytes: u64, path: &Path<'_>) -> Option<Pointed> {
        let pointed = self.blocks.point(at, bytes)?;
        if pointed.is_first {
            self.count();
            if let Some(paths) = &mut self.paths {
                paths.insert(pointed.at, path.to_string());
            }
        }
        Some(pointed)
    }

    fn damaged(&mut self, at: PoolOffset, what: &str, path: &Path<'_>) {
        self.report.findings.push(damaged(at, what));
        self.note_path(at, path);
    }
}

impl<M: Medium> RecoveredPool<M> {
    /// The whole check: metadata, checksums, and the allocator against what the root leads to, as far as the root is
    /// a [collection](crate::inspect::walk::COLLECTIONS) or [typed](crate::inspect::walk::TYPED).
    ///
    /// It takes memory for a few bits of each block that there is room for, and for the findings that
    /// it keeps.
    pub fn check(&self) -> CheckReport {
        self.check_by(&[], &mut |_| {})
    }

    /// As [`check`](Self::check), and tells how far it has come, often.
    pub fn check_telling(&self, tell: &mut dyn FnMut(CheckStep)) -> CheckReport {
        self.check_by(&[], tell)
    }

    /// As [`check`](Self::check), with walkers for further kinds of roots, and tells how far it has come, often.
    pub fn check_by(
        &self,
        walkers: &[&dyn Walker],
        tell: &mut dyn FnMut(CheckStep),
    ) -> CheckReport {
        let (mut report, blocks) = self.begin_check(tell);
        self.walk_by(walkers, blocks, &mut report, tell, None);
        report
    }

    /// Every allocated block in order, with the way on which the root leads there, and what the allocator and the walk
    /// find damaged, without checksums and logs, into `report`.
    pub fn blocks_by(&self, walkers: &[&dyn Walker], report: &mut CheckReport) -> Vec<Listed> {
        let blocks = self.map_blocks(report, &mut |_| {});
        let all: Vec<_> = blocks.iter().map(|(at, bytes, _)| (at, bytes)).collect();
        let paths = self.walk_by(walkers, blocks, report, &mut |_| {}, Some(BTreeMap::new()));
        let mut paths = paths.unwrap_or_default();
        all.into_iter().map(|(at, bytes)| Listed { at, bytes, path: paths.remove(&at) }).collect()
    }

    /// The check with a walk of the caller's own. `visit` follows the root object and calls back
    /// with each block that a pointer leads to and the bytes the structure uses of it; it
    /// answers `Ok(false)` when it does not know this kind of root, and `Err` with what it found
    /// broken.
    pub fn check_with<V>(&self, visit: V) -> CheckReport
    where
        V: FnOnce(&M, &mut dyn FnMut(PoolOffset, u64)) -> Result<bool, String>,
    {
        let tell = &mut |_| {};
        let (mut report, blocks) = self.begin_check(tell);
        let report_of = &mut report;
        let mut reaching = Reaching { blocks, report: report_of, reached: 0, tell, paths: None };
        let coverage = match visit(self.medium(), &mut |at, bytes| {
            reaching.reach(at, bytes);
        }) {
            Ok(true) => Coverage::Whole,
            Ok(false) => Coverage::Unknown,
            Err(what) => {
                let at = self.root_object().map_or(PoolOffset(0), |root| root.at);
                reaching.report.findings.push(damaged(at, &what));
                Coverage::Unknown
            }
        };
        reaching.end(coverage);
        report
    }

    /// The root in words, and the name of the walker that knows it.
    pub fn describe_root(&self, walkers: &[&dyn Walker]) -> Option<(&'static str, String)> {
        let root = self.root_object()?;
        let (walker, about) = walker_of(root, &mut raw(self.medium()), walkers)?;
        Some((walker.name(), about))
    }

    fn root_object(&self) -> Option<Root> {
        let root = self.root().ok().flatten();
        root.map(|(at, kind)| Root { at, kind })
    }

    fn begin_check(&self, tell: &mut Tell<'_>) -> (CheckReport, BlockMap) {
        let (mut report, blocks) = self.map_metadata(tell);
        self.for_each_fault(
            &mut |chunk| {
                tell(CheckStep { stage: CheckStage::Checksums, done: chunk, total: self.chunks() });
            },
            |fault| report.findings.push(Finding::Fault(fault)),
        );
        (report, blocks)
    }

    /// Follows the root. The paths of all blocks, where `paths` is given.
    fn walk_by(
        &self,
        walkers: &[&dyn Walker],
        blocks: BlockMap,
        report: &mut CheckReport,
        tell: &mut dyn FnMut(CheckStep),
        paths: Option<BTreeMap<PoolOffset, String>>,
    ) -> Option<BTreeMap<PoolOffset, String>> {
        let mut read = raw(self.medium());
        let root = self.root_object();
        let known = root.and_then(|root| Some((root, walker_of(root, &mut read, walkers)?)));
        let mut reaching = Reaching { blocks, report, reached: 0, tell: &mut *tell, paths };
        let coverage = match known {
            Some((root, (walker, about))) => {
                reaching.report.root = Some((walker.name(), about));
                walker.walk(root, &mut read, &mut reaching)
            }
            // Nothing leads anywhere.
            None if matches!(self.root(), Ok(None)) => Coverage::Whole,
            None => Coverage::Unknown,
        };
        if coverage == Coverage::Unknown && self.has_typed_root() {
            self.check_typed(&reaching.blocks, reaching.report);
        }
        reaching.end(coverage)
    }

    fn has_typed_root(&self) -> bool {
        let mut magic = [0; 8];
        self.root_object().is_some_and(|root| raw(self.medium())(root.at, &mut magic))
            && u64::from_le_bytes(magic) == ROOT_MAGIC
    }

    /// A typed root whose schema cannot be read leads to collections that nothing names. Those that are maps and
    /// trees begin with their magic, and are followed from there.
    fn check_typed(&self, blocks: &BlockMap, report: &mut CheckReport) {
        for (at, _, _) in blocks.iter() {
            if let Err(damage) = walk_any(at, &mut raw(self.medium())) {
                report.findings.push(damaged(damage.at, damage.what));
            }
        }
    }
}
