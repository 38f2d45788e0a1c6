//! Flushes that write back nothing.

use outlast_trace::{ByteRange, LineAddr, Op, OpLog};
use rustc_hash::FxHashSet;

use super::finding::{Class, Finding, Place};
use super::run::Ran;

/// Flushes of lines that hold nothing new: never stored to in this run, or flushed since. One
/// finding for each place in the source.
pub(super) fn flushes(ran: &Ran) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for op in redundant(&ran.log) {
        let (lane, what) = ran.log.get(op);
        let Op::Flush { line, .. } = what else { continue };
        let site = ran.sites.get(op).copied();
        if findings.iter().any(|finding| site.is_some() && finding.place.site == site) {
            continue;
        }
        let place = Place { level: 1, op, lane, line: Some(line), site };
        findings.push(Finding::at(Class::RedundantFlush, place));
    }
    findings
}

fn redundant(log: &OpLog) -> Vec<usize> {
    let mut dirty: FxHashSet<LineAddr> = FxHashSet::default();
    let mut found = Vec::new();
    for (index, (_, op)) in log.iter().enumerate() {
        match op {
            Op::Store { at, bytes } | Op::Rmw { at, bytes } => {
                dirty.extend(ByteRange::new(at, bytes.len() as u64).lines());
            }
            Op::Flush { line, .. } if !dirty.remove(&line) => found.push(index),
            _ => {}
        }
    }
    found
}
