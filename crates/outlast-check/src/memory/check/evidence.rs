//! The losses of a failing image: acknowledgements, and the content of lines.

use outlast_trace::{LineAddr, Op, OpLog};

use super::classify::{Case, stored_bytes};
use super::finding::{Acknowledged, Held, Line, Place};
use super::run::lines_of;
use crate::memory::exhaustive::ReplayedCrash;

/// Acknowledgements that are left out one after the other.
const ACKS_MAX: usize = 64;

/// Lines that a finding lists.
const LINES_MAX: usize = 32;

impl Case<'_> {
    /// The acknowledgements without which the image would be in order; none where it would not.
    pub(super) fn lost(&self) -> Vec<Acknowledged> {
        let Some(crash) = self.last_crash() else { return Vec::new() };
        let heals = |acked: &[_]| self.recovers(crash, &crash.image, acked);
        let all = self.acknowledged();
        if all.is_empty() || all.len() != crash.acked.len() || heals(&crash.acked) {
            return Vec::new();
        }
        // An oracle may also mind states that are too new, so the largest number is looked for.
        let least = all.len().saturating_sub(ACKS_MAX);
        let mut numbers = (least..all.len()).rev().chain([0]);
        let Some(kept) = numbers.find(|kept| heals(&crash.acked[..*kept])) else {
            return Vec::new();
        };
        // Of those behind it, each that is kept beside them is not lost either.
        let mut with = crash.acked[..kept].to_vec();
        let mut lost = Vec::new();
        for acknowledged in all.into_iter().skip(kept).take(ACKS_MAX) {
            with.push(acknowledged.tx);
            if !heals(&with) {
                with.pop();
                lost.push(acknowledged);
            }
        }
        lost
    }

    /// Every acknowledgement before the last crash, in order.
    fn acknowledged(&self) -> Vec<Acknowledged> {
        let mut all = Vec::new();
        let points = &self.failure.witness.crashes;
        for (level, (crash, point)) in (1..).zip(self.crashes.iter().zip(points)) {
            for op in 0..point.told.min(crash.log.len()) {
                if let Op::Ack(tx) = crash.log.get(op).1 {
                    all.push(Acknowledged { tx, place: self.place_at(level, &crash.log, op) });
                }
            }
        }
        all
    }

    /// The lines whose content the last crash decided, with that content.
    pub(super) fn lines(&self) -> Vec<Line> {
        let Some(crash) = self.last_crash() else { return Vec::new() };
        let Some(floor) = self.floor() else { return Vec::new() };
        let op = self.failure.witness.crashes.last().map_or(0, |point| point.op);
        let mut newest = crash.before.clone();
        newest.resize(crash.image.len(), 0);
        for index in 0..op.min(crash.log.len()) {
            if let Some((at, bytes)) = stored_bytes(&crash.log.get(index).1) {
                newest[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let of = |bytes: &[u8], line: u64| bytes[line as usize * 64..][..64].to_vec();
        let state = |line: u64| {
            let (old, new) = (of(&floor, line), of(&newest, line));
            let found = of(&crash.image, line);
            let held = match (found == old, found == new) {
                _ if old == new => return None,
                (true, _) => Held::Old,
                (_, true) => Held::New,
                _ => Held::Part,
            };
            let line = LineAddr(line);
            Some(Line { line, held, stored: self.last_store(crash, op, line)? })
        };
        (0..crash.image.len() as u64 / 64).filter_map(state).take(LINES_MAX).collect()
    }

    /// The image that the last crash leaves when nothing persists that need not.
    fn floor(&self) -> Option<Vec<u8>> {
        let mut witness = self.failure.witness.clone();
        witness.crashes.last_mut()?.picks.clear();
        let (mut crashes, _) = self.replay(&witness)?;
        (crashes.len() == witness.crashes.len()).then(|| crashes.pop().expect("as many").image)
    }

    fn last_store(&self, crash: &ReplayedCrash, before: usize, line: LineAddr) -> Option<Place> {
        let stores = |log: &OpLog, op: usize| {
            let what = log.get(op).1;
            stored_bytes(&what).is_some() && lines_of(&what).any(|hit| hit == line)
        };
        let op = (0..before.min(crash.log.len())).rev().find(|op| stores(&crash.log, *op))?;
        Some(Place { line: Some(line), ..self.place(&crash.log, op) })
    }
}
