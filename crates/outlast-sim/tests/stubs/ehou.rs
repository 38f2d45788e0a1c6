//! Writes that go elsewhere, as under an address indirection table: each line has two places, a
//! transaction's write-backs go to the one that is not current, and a bit for each line, which lies
//! in the persistence domain, makes them current when all have arrived.

use super::{LINES, META, SHADOW, line_of, program, run, torn_and_lost, word_of};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Cycle, Kept, Outbox, ReadSeen, Route, Scheme, StoreSeen, WriteRoute, WriteSeen,
};
use outlast_trace::{LaneId, LineAddr, PoolOffset};
use std::collections::BTreeSet;

#[derive(Default)]
struct Redirected {
    /// For each line, whether its place is the second: as it was committed, and as it is.
    committed: [u64; 8],
    current: [u64; 8],
    /// Lines that caches have newer bytes of, and writes on their way.
    dirty: BTreeSet<LineAddr>,
    under_way: u64,
    /// The bits change before the data has arrived.
    is_hasty: bool,
    redirected: u64,
}

impl Redirected {
    fn place(&self, line: LineAddr) -> LineAddr {
        let second = self.current[(line.0 / 64) as usize] >> (line.0 % 64) & 1 == 1;
        if second { line.plus(SHADOW) } else { line }
    }
}

impl Scheme for Redirected {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        _out: &mut Outbox,
    ) -> Answer {
        self.dirty.insert(store.at.line());
        Answer::Proceed
    }

    fn locate(&self, line: LineAddr) -> LineAddr {
        if line.0 < LINES { self.place(line) } else { line }
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox) -> Route {
        Route::There(self.locate(read.line))
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        _out: &mut Outbox,
    ) -> WriteRoute {
        let line = write.line;
        let (page, bit) = ((line.0 / 64) as usize, 1 << (line.0 % 64));
        self.current[page] = self.current[page] & !bit | !self.committed[page] & bit;
        self.dirty.remove(&line);
        self.under_way += 1;
        self.redirected += 1;
        WriteRoute::There(self.place(line))
    }

    fn durable(
        &mut self,
        _now: Cycle,
        _line: LineAddr,
        _cause: Cause,
        _at: Cycle,
        out: &mut Outbox,
    ) {
        self.under_way -= 1;
        out.wake();
    }

    fn end(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox) -> Answer {
        self.dirty.iter().for_each(|line| out.force(*line));
        let arrived = self.under_way == 0 || self.is_hasty;
        if !self.dirty.is_empty() || !arrived {
            return Answer::Wait;
        }
        self.committed = self.current;
        let (words, data) = (u8::MAX, super::words(&self.committed));
        out.keep(Kept { line: META, words, data, cause: Cause::Metadata });
        Answer::Proceed
    }
}

fn recover(image: &[u8]) -> Vec<u8> {
    let bits = |page: u64| word_of(image, PoolOffset(META.start().0 + 8 * page));
    let place = |line: u64| match bits(line / 64) >> (line % 64) & 1 {
        0 => LineAddr(line),
        _ => LineAddr(line + SHADOW),
    };
    (0..LINES).flat_map(|line| line_of(image, place(line))).collect()
}

#[test]
fn what_goes_elsewhere_is_current_all_at_once() {
    let (log, states) = program(21, 60);
    for kind in ["ooo", "inorder"] {
        let crash = |is_hasty| {
            let system = run(kind, Redirected { is_hasty, ..Redirected::default() }, &log);
            assert!(system.scheme().redirected > 100, "{kind}");
            torn_and_lost(system.journal().unwrap(), &states, recover)
        };
        assert_eq!(crash(false), (0, 0), "{kind}");
        assert!(crash(true).0 > 0, "{kind}: bits before data are not found out");
    }
}
