//! Lines tagged with the epoch of their last store: the first store of an epoch to a line logs what
//! it held, a line leaves for memory behind its log entry, and a scan at the end of an epoch writes
//! back what is older than the new one. Recovery goes back to the last epoch that was finished so.

use super::{LINES, META, SHADOW, crashes, line_of, metadata, program, run, word_of};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Cycle, Outbox, Scheme, SchemeWrite, StoreSeen, WriteRoute, WriteSeen,
};
use outlast_trace::{LaneId, LineAddr, PoolOffset};
use std::collections::BTreeMap;

/// Log entries from here on: a line with old bytes, and one that says of what and until when.
const LOG: u64 = 3 << 10;
const SCAN: u32 = 0;
const MARKER: u32 = u32::MAX;

#[derive(Default)]
struct Epochs {
    /// The epoch that runs, the one that is being finished, the one that is finished.
    running: u64,
    finishing: Option<u64>,
    finished: u64,
    entries: u64,
    /// Entries that are not durable: their lines, and what says of what they are.
    unlogged: BTreeMap<u64, (LineAddr, SchemeWrite<u32>)>,
    /// Write-backs on their way.
    under_way: u64,
    scanned: bool,
    /// Lines do not wait for their log entries.
    is_hasty: bool,
}

impl Epochs {
    fn try_finish(&mut self, out: &mut Outbox<u32>) {
        let idle = self.scanned && self.under_way == 0 && self.unlogged.is_empty();
        if let (Some(epoch), true) = (self.finishing, idle) {
            self.scanned = false;
            out.write(metadata(META, &[epoch], MARKER));
        }
    }
}

impl Scheme for Epochs {
    type Tag = u32;
    type Page = ();
    type Token = u32;

    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<u32>) -> Answer {
        self.running += 1;
        if self.finishing.is_none() {
            self.finishing = Some(self.running);
            out.call(now.next(), SCAN);
        }
        Answer::Proceed
    }

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut u32,
        _page: Option<&mut ()>,
        out: &mut Outbox<u32>,
    ) -> Answer {
        // Epochs count from 1, so that a line from memory is of none.
        let epoch = self.running + 1;
        if u64::from(*tag) == epoch {
            return Answer::Proceed;
        }
        let (line, number) = (store.at.line(), self.entries);
        self.entries += 1;
        *tag = epoch as u32;
        let at = LineAddr(LOG + 2 * number);
        let of = metadata(at.plus(1), &[line.0 + 1, epoch], 2 * number as u32 + 1);
        self.unlogged.insert(number, (line, of));
        let (data, token) = (*store.old, 2 * number as u32);
        out.write(SchemeWrite { line: at, words: u8::MAX, data, cause: Cause::Logged, token });
        Answer::Proceed
    }

    fn write_durable(&mut self, _now: Cycle, token: u32, out: &mut Outbox<u32>) {
        if token == MARKER {
            self.finished = self.finishing.take().expect("an epoch was being finished");
        } else if token.is_multiple_of(2) {
            out.write(self.unlogged[&u64::from(token / 2)].1.clone());
        } else {
            self.unlogged.remove(&u64::from(token / 2));
        }
        self.try_finish(out);
        out.wake();
    }

    fn may_write(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        _cause: Cause,
        _out: &mut Outbox<u32>,
    ) -> Answer {
        let waits = self.unlogged.values().any(|(of, _)| *of == line) && !self.is_hasty;
        if waits { Answer::Wait } else { Answer::Proceed }
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        _write: &WriteSeen<'_, u32>,
        _out: &mut Outbox<u32>,
    ) -> WriteRoute {
        self.under_way += 1;
        WriteRoute::Here
    }

    fn durable(
        &mut self,
        _now: Cycle,
        _line: LineAddr,
        cause: Cause,
        _at: Cycle,
        out: &mut Outbox<u32>,
    ) {
        self.under_way -= u64::from(!matches!(cause, Cause::Logged | Cause::Metadata));
        self.try_finish(out);
    }

    fn step(&mut self, now: Cycle, token: u32, out: &mut Outbox<u32>) {
        if token == SCAN {
            (1..=3).for_each(|level| out.scan(level));
            out.call(now.next(), SCAN + 1);
        } else {
            self.scanned = true;
            self.try_finish(out);
        }
    }

    fn scanned(
        &mut self,
        _now: Cycle,
        _level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut u32,
        out: &mut Outbox<u32>,
    ) {
        let old = self.finishing.is_some_and(|epoch| u64::from(*tag) <= epoch);
        if dirty && old {
            out.force(line);
        }
    }
}

/// The data as it was when the last finished epoch ended, and that epoch.
fn recover(image: &[u8]) -> (Vec<u8>, u64) {
    let finished = word_of(image, META.start());
    let mut data = image[..(LINES * 64) as usize].to_vec();
    let entry = |number: u64| LineAddr(LOG + 2 * number);
    let of = |number: u64| {
        let at = entry(number).plus(1).start().0;
        (word_of(image, PoolOffset(at)), word_of(image, PoolOffset(at + 8)))
    };
    let room = (image.len() as u64 / 64 - LOG) / 2;
    // Newest first; what is not there was not waited for by any line.
    for number in (0..room).rev() {
        let (line, epoch) = of(number);
        if line > 0 && epoch > finished {
            let at = ((line - 1) * 64) as usize;
            data[at..at + 64].copy_from_slice(&line_of(image, entry(number)));
        }
    }
    (data, finished)
}

#[test]
fn an_image_goes_back_to_the_end_of_its_epoch() {
    const { assert!(LOG > SHADOW + LINES) };
    let (log, states) = program(7, 60);
    for kind in ["ooo", "inorder"] {
        let crash = |is_hasty| {
            let system = run(kind, Epochs { is_hasty, ..Epochs::default() }, &log);
            let scheme = system.scheme();
            assert!(scheme.finished > 3 && scheme.entries > 100, "{kind}: {}", scheme.finished);
            let (mut wrong, mut epochs) = (0, Vec::new());
            crashes(system.journal().unwrap(), |_, image| {
                let (data, finished) = recover(image);
                wrong += usize::from(data != states[5 * finished as usize]);
                epochs.push(finished);
            });
            assert!(epochs.is_sorted() && epochs.last() == Some(&scheme.finished), "{kind}");
            wrong
        };
        assert_eq!(crash(false), 0, "{kind}");
        assert!(crash(true) > 0, "{kind}: data before its log entry is not found out");
    }
}
