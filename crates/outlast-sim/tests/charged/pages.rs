//! Pages with bits in TLB entries: stores mark their line, cores share what they mark, and a page
//! leaves the last TLB only when its marked lines have been brought together.

use super::{READ, run_lanes, store, with};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Copied, Cycle, MachineConfig, Outbox, ReadCause, Scheme, StoreSeen, System,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, Sink};
use std::collections::BTreeMap;

const CAUSE: Cause = Cause::Scheme(0);
const SHADOW: u64 = 1 << 12;

/// A page's marked lines are copied before it leaves.
struct SubPages {
    /// Whether leaving is delayed until the copy is done.
    delays: bool,
    marked: BTreeMap<u64, u64>,
    resident: BTreeMap<u64, u64>,
    copying: Option<u64>,
    gathered: Vec<u64>,
    delayed: u64,
    begun: Cycle,
}

impl SubPages {
    fn new(delays: bool) -> Self {
        let (marked, resident) = (BTreeMap::new(), BTreeMap::new());
        let (copying, gathered, delayed, begun) = (None, Vec::new(), 0, Cycle(0));
        Self { delays, marked, resident, copying, gathered, delayed, begun }
    }
}

impl Scheme for SubPages {
    type Tag = ();
    /// A bit for each line that was stored to.
    type Page = u64;
    type Token = u64;
    const CAUSES: &'static [&'static str] = &["consolidation"];

    fn translated(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        page: u64,
        bits: &mut u64,
        _out: &mut Outbox<u64>,
    ) {
        let resident = self.resident.entry(page).or_default();
        let expected = if *resident > 0 { self.marked[&page] } else { 0 };
        assert_eq!(*bits, expected, "page {page} has the bits of other TLBs, or new ones");
        self.marked.entry(page).or_default();
        *resident += 1;
    }

    fn untranslated(&mut self, _now: Cycle, _lane: LaneId, page: u64, _out: &mut Outbox<u64>) {
        *self.resident.get_mut(&page).unwrap() -= 1;
    }

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        page: Option<&mut u64>,
        _out: &mut Outbox<u64>,
    ) -> Answer {
        let (number, bit) = (store.at.0 / 4096, 1 << (store.at.line().0 % 64));
        let bits = page.expect("the page was translated just before");
        assert_eq!(*bits, self.marked[&number], "what all cores stored before");
        *bits |= bit;
        self.marked.insert(number, *bits);
        Answer::Proceed
    }

    fn page_leaves(
        &mut self,
        now: Cycle,
        page: u64,
        bits: &mut u64,
        out: &mut Outbox<u64>,
    ) -> Answer {
        assert_eq!(self.resident[&page], 1, "it is the last");
        *bits = self.marked[&page]; // None, when it asks again.
        let lines = u64::from(bits.count_ones());
        if lines == 0 {
            return Answer::Proceed;
        }
        if self.copying != Some(page) {
            self.copying = Some(page);
            self.begun = now;
            let from = LineAddr(64 * page);
            let to = from.plus(SHADOW);
            out.copy(Copied { from, to, lines, cause: CAUSE, token: page });
        }
        if self.delays {
            self.delayed += 1;
            Answer::Wait
        } else {
            Answer::Proceed
        }
    }

    fn write_durable(&mut self, now: Cycle, page: u64, out: &mut Outbox<u64>) {
        self.gathered.push(now.since(self.begun));
        if self.delays {
            self.marked.insert(page, 0);
            self.copying = None;
            out.wake();
        }
    }
}

/// One level of TLB holds two pages, the other one.
fn machine(kind: &str) -> MachineConfig {
    let tlb = [
        ("tlb.page", "4 KiB"),
        ("tlb.l1_sets", "1"),
        ("tlb.l1_ways", "1"),
        ("tlb.l2_sets", "1"),
        ("tlb.l2_ways", "2"),
        ("memory.write_queue", "64"),
        ("memory.drain_high", "64"),
        ("memory.drain_idle", "64"),
    ];
    with(kind, &tlb)
}

/// Stores to `lines` lines of page 0, then a load of each of two other pages.
fn leave(kind: &str, lines: u64, delays: bool) -> System<SubPages> {
    let mut log = OpLog::default();
    for line in 0..lines {
        store(&mut log, line, line + 1);
    }
    log.op(LaneId(0), Op::Compute(10_000));
    for page in [1, 2] {
        let at = LineAddr(64 * page).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
        log.op(LaneId(0), Op::Compute(10_000));
    }
    run_lanes(&machine(kind), SubPages::new(delays), vec![log], Vec::new())
}

#[test]
fn a_walk_waits_until_the_page_that_leaves_for_it_is_brought_together() {
    for kind in ["ooo", "inorder"] {
        for lines in [1, 2, 8] {
            let (delayed, free) = (leave(kind, lines, true), leave(kind, lines, false));
            let (mut delayed, of) = (delayed, format!("{kind}, {lines} lines"));
            let gathered = &delayed.scheme().gathered;
            assert_eq!(gathered.len(), 1, "{of}");
            // A copy's rows are closed behind it, but its lines want the same one.
            assert_eq!(gathered[0], READ + 4 * (lines - 1), "{of}");
            // Without the delay the copy is beside the walk's own load, of another bank.
            let cost = delayed.now().0 - free.now().0;
            assert!(cost >= gathered[0] && cost <= gathered[0] + 4, "{of}: {cost}");
            assert_eq!(delayed.scheme().delayed, 1, "{of}");
            let stats = delayed.take_stats();
            assert_eq!(stats.reads.of(ReadCause::Scheme(CAUSE)), lines, "{of}");
            assert_eq!(stats.writes.of(CAUSE), lines, "{of}");
        }
    }
}

#[test]
fn cores_share_the_bits_and_only_the_last_tlb_is_asked() {
    // Both lanes store to page 0; lane 0 then goes through other pages, and lane 1 stays.
    let mut logs = vec![OpLog::default(), OpLog::default()];
    for line in 0..8 {
        for lane in 0..2 {
            store(&mut logs[lane as usize], 2 * line + lane, line);
        }
    }
    for page in 1..5 {
        let at = LineAddr(64 * page).start();
        logs[0].op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    logs[1].op(LaneId(0), Op::Compute(20_000));
    store(&mut logs[1], 20, 1);
    for kind in ["ooo", "inorder"] {
        let system = run_lanes(&machine(kind), SubPages::new(true), logs.clone(), Vec::new());
        let scheme = system.scheme();
        assert_eq!(scheme.marked[&0], 0xffff | 1 << 20, "{kind}");
        assert_eq!((scheme.delayed, scheme.resident[&0]), (0, 1), "{kind}: lane 1 has it still");
    }
}
