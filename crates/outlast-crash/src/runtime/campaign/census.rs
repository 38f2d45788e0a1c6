//! Counts objects whose durable bytes a crash finds stale, and what became of them.
//!
//! An object is 256 bytes of the heap, Archapt's unit. It is *stale* at a crash when its durable
//! bytes are not those that the acknowledged transactions left: their data still waits in the
//! cache for its flush, or was never to be flushed. Words that the transaction in flight stores
//! are left out, since a crash may leave them either way. After recovery the bytes are compared
//! again: what is right now was repaired by the log; what differs, though recovery complained of
//! nothing, is silently wrong, whether any key shows it or not.
//!
//! The comparison knows the operations of the run and nothing of how recovery works.

use std::collections::BTreeSet;

use outlast_trace::{Op, OpLog, PoolOffset};
use rustc_hash::FxHashSet;

use super::record::Recording;
use crate::{Broken, Violation};

/// Bytes of an object.
pub const OBJECT_BYTES: usize = 256;

/// Stale objects, over all crashes of a run.
///
/// Each is in exactly one of the other counts but for `detected`, which contains those corrected and
/// those uncorrectable, and for objects that only the recovery made wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectCounts {
    /// Durable bytes older than those of acknowledged transactions.
    pub stale: u64,
    /// Of these, right again after recovery: the log still had them.
    pub repaired_by_log: u64,
    /// Found to be wrong by recovery itself, which a scheme whose recovery looks at no checksums can
    /// do only by refusing the whole pool. Recovery may be mistaken.
    pub detected: u64,
    /// Detected, and put right from checksums, as the literal variants do.
    pub corrected: u64,
    /// Detected, and not put right.
    pub uncorrectable: u64,
    /// Wrong after a recovery that complained of nothing.
    pub silently_wrong: u64,
}

impl ObjectCounts {
    /// Of a crash after which recovery gave up: it said so, and corrected nothing.
    pub(super) fn refused(stale: usize) -> Self {
        let stale = stale as u64;
        Self { stale, detected: stale, uncorrectable: stale, ..Self::default() }
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.stale += other.stale;
        self.repaired_by_log += other.repaired_by_log;
        self.detected += other.detected;
        self.corrected += other.corrected;
        self.uncorrectable += other.uncorrectable;
        self.silently_wrong += other.silently_wrong;
    }
}

/// What a recovery says of lines, by checksums.
#[derive(Default)]
pub(super) struct Said {
    /// It has put these right, as it thinks.
    pub corrected: Vec<PoolOffset>,
    /// These may be stale, and it cannot.
    pub left: Vec<PoolOffset>,
}

/// What the acknowledged transactions left, crash after crash.
pub(super) struct Census<'a> {
    log: &'a OpLog,
    heap_at: usize,
    /// The operations that acknowledge, ascending.
    acks: Vec<usize>,
    /// The bytes after the last acknowledgement before the crash.
    acked: Vec<u8>,
    /// How many operations these bytes have seen.
    seen: usize,
    /// The heap's words that the transaction in flight stores, sooner or later.
    in_flight: FxHashSet<usize>,
}

impl<'a> Census<'a> {
    /// Before the first operation, on images of `image_bytes`.
    pub fn new(recording: &'a Recording, base: &[u8], image_bytes: usize) -> Self {
        let mut acks: Vec<usize> = recording.transactions.iter().map(|tx| tx.acked).collect();
        acks.sort_unstable();
        let mut acked = base.to_vec();
        acked.resize(image_bytes, 0);
        let heap_at = recording.heap_at as usize;
        let in_flight = FxHashSet::default();
        Self { log: &recording.log, heap_at, acks, acked, seen: 0, in_flight }
    }

    /// Moves on to a crash during or just before operation `ops`.
    pub fn advance(&mut self, ops: usize) {
        let done = self.acks.partition_point(|ack| *ack < ops);
        let acked_to = if done == 0 { 0 } else { self.acks[done - 1] + 1 };
        for op in self.seen..acked_to {
            if let Some((at, bytes)) = stored(self.log.get(op).1) {
                self.acked[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        self.seen = self.seen.max(acked_to);
        self.in_flight.clear();
        let next_ack = self.acks.get(done).copied().unwrap_or(self.log.len());
        for op in self.seen..next_ack {
            if let Some((at, bytes)) = stored(self.log.get(op).1) {
                let end = at.0 as usize + bytes.len();
                self.in_flight.extend(at.0 as usize / 8..end.div_ceil(8));
            }
        }
    }

    /// The objects of an image that differ, ascending, by their number in the heap.
    pub fn stale(&self, image: &[u8]) -> Vec<usize> {
        let objects = |bytes: &'_ [u8]| bytes.len().saturating_sub(self.heap_at) / OBJECT_BYTES;
        let count = objects(image).min(objects(&self.acked));
        (0..count).filter(|object| self.differs(*object, image)).collect()
    }

    fn differs(&self, object: usize, image: &[u8]) -> bool {
        let at = self.heap_at + object * OBJECT_BYTES;
        let (found, left) = (&image[at..][..OBJECT_BYTES], &self.acked[at..][..OBJECT_BYTES]);
        found != left
            && (0..OBJECT_BYTES / 8).any(|word| {
                let bytes = word * 8..word * 8 + 8;
                found[bytes.clone()] != left[bytes] && !self.in_flight.contains(&(at / 8 + word))
            })
    }

    /// What a recovery made of the stale objects that said so much about them.
    pub fn outcome(&self, stale: &[usize], recovered: &[u8], said: &Said) -> ObjectCounts {
        let wrong = self.stale(recovered);
        let (corrected, uncorrectable) = (self.objects(&said.corrected), self.objects(&said.left));
        let is_wrong = |object: &usize| wrong.binary_search(object).is_ok();
        let right = |object: &&usize| !is_wrong(object);
        let stale_of = |objects: &BTreeSet<usize>| {
            stale.iter().filter(right).filter(|object| objects.contains(object)).count() as u64
        };
        // What the log has put right needs no detection.
        let by_sums = stale_of(&corrected);
        let told = wrong.iter().filter(|object| uncorrectable.contains(object)).count() as u64;
        ObjectCounts {
            stale: stale.len() as u64,
            repaired_by_log: stale.iter().filter(right).count() as u64 - by_sums,
            detected: corrected.union(&uncorrectable).count() as u64,
            corrected: by_sums,
            uncorrectable: told,
            silently_wrong: wrong.len() as u64 - told,
        }
    }

    /// The objects that these lines belong to.
    fn objects(&self, lines: &[PoolOffset]) -> BTreeSet<usize> {
        let number = |at: &PoolOffset| (at.0 as usize - self.heap_at) / OBJECT_BYTES;
        lines.iter().map(number).collect()
    }

    /// The violation of wrong bytes in which no key shows anything.
    pub fn wrong(&self, objects: &ObjectCounts) -> Violation {
        let detail = format!(
            "{} objects of {OBJECT_BYTES} bytes are not as acknowledged transactions left them, \
             though every key reads right",
            objects.silently_wrong
        );
        Violation::new(Broken::Garbage, detail)
    }
}

/// What an operation stores, and where.
fn stored(op: Op<'_>) -> Option<(PoolOffset, &[u8])> {
    match op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            Some((at, bytes))
        }
        Op::Store64 { line, bytes } => Some((line.start(), bytes)),
        _ => None,
    }
}
