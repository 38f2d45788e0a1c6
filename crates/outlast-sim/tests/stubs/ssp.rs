//! Shadow sub-paging: a page that the TLB holds has two copies and a bitmap of which lines are in
//! the second; transactions write to the other copy, and one write of all bitmaps commits them.
//! When the page has left the TLB, its lines are brought together in the first copy again, which
//! takes reads and writes of the scheme's own.

use super::{LINES, META, PAGES, SHADOW, line_of, metadata, program, run, torn_and_lost, word_of};
use outlast_sim::timed::{
    Answer, Cycle, Outbox, ReadSeen, Route, Scheme, SchemeWrite, StoreSeen, WriteRoute, WriteSeen,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr, PoolOffset};
use std::collections::BTreeSet;

/// Tokens: a line that is brought home, below that number, or a write of the bitmaps.
const COMMIT: u32 = 1 << 16;
const HOME: u32 = 1 << 17;

#[derive(Default)]
struct SubPages {
    committed: [u64; 8],
    current: [u64; 8],
    resident: BTreeSet<u64>,
    /// Pages that left the TLB and have lines in their second copy.
    leaving: BTreeSet<u64>,
    dirty: BTreeSet<LineAddr>,
    under_way: u64,
    /// A write of the bitmaps is on its way, or has just arrived.
    committing: Option<bool>,
    /// Lines of the page that is brought together now, that are not home yet.
    page: Option<(u64, u64)>,
    /// A page is taken to be home before it is.
    is_hasty: bool,
    brought_home: u64,
}

impl SubPages {
    fn bit(bits: &[u64; 8], line: LineAddr) -> bool {
        bits[(line.0 / 64) as usize] >> (line.0 % 64) & 1 == 1
    }

    fn place(&self, line: LineAddr) -> LineAddr {
        if Self::bit(&self.current, line) { line.plus(SHADOW) } else { line }
    }

    /// Begins to bring the next page together.
    fn gather(&mut self, out: &mut Outbox<u32>) {
        while self.page.is_none() {
            let Some(page) = self.leaving.pop_first() else { return };
            let bits = self.committed[page as usize];
            if bits == 0 || self.resident.contains(&page) {
                continue;
            }
            self.page = Some((page, u64::from(bits.count_ones())));
            for line in (0..64).filter(|line| bits >> line & 1 == 1) {
                let line = 64 * page + line;
                out.read(LineAddr(line + SHADOW), Cause::Logged, line as u32);
            }
            if self.is_hasty {
                self.home(page, out);
            }
        }
    }

    /// The page's lines are all in its first copy.
    fn home(&mut self, page: u64, out: &mut Outbox<u32>) {
        (self.committed[page as usize], self.current[page as usize]) = (0, 0);
        out.write(metadata(META, &self.committed, HOME));
    }
}

impl Scheme for SubPages {
    type Tag = ();
    type Page = ();
    type Token = u32;

    fn translated(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        page: u64,
        _bits: &mut (),
        _out: &mut Outbox<u32>,
    ) {
        self.resident.insert(page);
    }

    fn untranslated(&mut self, _now: Cycle, _lane: LaneId, page: u64, _out: &mut Outbox<u32>) {
        assert!(self.resident.remove(&page), "page {page} was here");
        self.leaving.insert(page);
    }

    fn begin(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox<u32>) -> Answer {
        self.gather(out);
        if self.page.is_some() { Answer::Wait } else { Answer::Proceed }
    }

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        _out: &mut Outbox<u32>,
    ) -> Answer {
        self.dirty.insert(store.at.line());
        Answer::Proceed
    }

    fn locate(&self, line: LineAddr) -> LineAddr {
        if line.0 < LINES { self.place(line) } else { line }
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox<u32>) -> Route {
        Route::There(self.locate(read.line))
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        _out: &mut Outbox<u32>,
    ) -> WriteRoute {
        let line = write.line;
        let (page, bit) = ((line.0 / 64) as usize, 1 << (line.0 % 64));
        self.current[page] = self.current[page] & !bit | !self.committed[page] & bit;
        self.leaving.insert(page as u64);
        self.dirty.remove(&line);
        self.under_way += 1;
        WriteRoute::There(self.place(line))
    }

    fn durable(
        &mut self,
        _now: Cycle,
        _line: LineAddr,
        cause: Cause,
        _at: Cycle,
        out: &mut Outbox<u32>,
    ) {
        if !matches!(cause, Cause::Metadata | Cause::Logged) {
            self.under_way -= 1;
            out.wake();
        }
    }

    fn end(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox<u32>) -> Answer {
        self.dirty.iter().for_each(|line| out.force(*line));
        if !self.dirty.is_empty() || self.under_way > 0 {
            return Answer::Wait;
        }
        match self.committing {
            None => {
                self.committing = Some(false);
                out.write(metadata(META, &self.current, COMMIT));
                Answer::Wait
            }
            Some(false) => Answer::Wait,
            Some(true) => {
                self.committing = None;
                self.committed = self.current;
                Answer::Proceed
            }
        }
    }

    fn read_done(&mut self, _now: Cycle, token: u32, data: &LineBytes, out: &mut Outbox<u32>) {
        let line = LineAddr(token.into());
        out.write(SchemeWrite { line, words: u8::MAX, data: *data, cause: Cause::Logged, token });
    }

    fn write_durable(&mut self, _now: Cycle, token: u32, out: &mut Outbox<u32>) {
        match token {
            COMMIT => self.committing = Some(true),
            HOME if self.is_hasty => {}
            HOME => self.page = None,
            _ => {
                let (page, left) = self.page.expect("a page is brought together");
                self.page = Some((page, left - 1));
                self.brought_home += 1;
                match left - 1 {
                    0 if self.is_hasty => self.page = None,
                    0 => self.home(page, out),
                    _ => {}
                }
            }
        }
        out.wake();
    }
}

fn recover(image: &[u8]) -> Vec<u8> {
    let bits: Vec<u64> =
        (0..PAGES).map(|page| word_of(image, PoolOffset(META.start().0 + 8 * page))).collect();
    let place = |line: u64| match bits[(line / 64) as usize] >> (line % 64) & 1 {
        0 => LineAddr(line),
        _ => LineAddr(line + SHADOW),
    };
    (0..LINES).flat_map(|line| line_of(image, place(line))).collect()
}

#[test]
fn pages_have_two_copies_while_they_are_translated() {
    let (log, states) = program(5, 60);
    for kind in ["ooo", "inorder"] {
        let crash = |is_hasty| {
            let system = run(kind, SubPages { is_hasty, ..SubPages::default() }, &log);
            let scheme = system.scheme();
            assert!(scheme.brought_home > 50, "{kind}: {}", scheme.brought_home);
            torn_and_lost(system.journal().unwrap(), &states, recover)
        };
        assert_eq!(crash(false), (0, 0), "{kind}");
        let (torn, lost) = crash(true);
        assert!(torn + lost > 0, "{kind}: bitmaps before lines are not found out");
    }
}
