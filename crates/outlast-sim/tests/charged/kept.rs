//! A small table in the persistence domain, whose lines go to the array one by one: what residual
//! energy would have to write at each crash.

use super::{run_lanes, with};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Cycle, DrainCursor, Kept, Outbox, Scheme, SchemeWrite, StoreSeen, System,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, Sink};
use std::collections::VecDeque;

/// The table's lines lie here in the array.
const TABLE: u64 = 1 << 10;

/// Each store changes an entry; the oldest goes to the array when there are as many as it holds.
struct Table {
    entries: VecDeque<u64>,
    capacity: usize,
    /// Entries on their way to the array.
    leaving: Vec<u64>,
    changed: Cycle,
    line_cycles: u64,
    lines_max: u64,
}

impl Table {
    fn kept(&self) -> u64 {
        (self.entries.len() + self.leaving.len()) as u64
    }

    /// Counts for itself what the machine counts.
    fn pass(&mut self, now: Cycle) {
        self.line_cycles += self.kept() * now.since(self.changed);
        self.changed = now;
    }
}

impl Scheme for Table {
    type Tag = ();
    type Page = ();
    type Token = u64;
    const CAUSES: &'static [&'static str] = &["table"];

    fn store(
        &mut self,
        now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<u64>,
    ) -> Answer {
        self.pass(now);
        let (line, cause) = (store.at.line().0, Cause::Scheme(0));
        let at = LineAddr(TABLE + line);
        out.keep(Kept { line: at, words: u8::MAX, data: [line as u8 + 1; 64], cause });
        self.entries.push_back(line);
        self.lines_max = self.lines_max.max(self.kept());
        if self.entries.len() == self.capacity {
            let line = self.entries.pop_front().unwrap();
            let (at, data) = (LineAddr(TABLE + line), [line as u8 + 1; 64]);
            out.write(SchemeWrite { line: at, words: u8::MAX, data, cause, token: line });
            self.leaving.push(line);
        }
        Answer::Proceed
    }

    fn write_durable(&mut self, now: Cycle, line: u64, _out: &mut Outbox<u64>) {
        self.pass(now);
        self.leaving.retain(|leaving| *leaving != line);
    }
}

fn table(capacity: usize, lines: u64, budget: &str) -> System<Table> {
    let mut log = OpLog::default();
    for line in 0..lines {
        super::store(&mut log, line, line);
        log.op(LaneId(0), Op::Compute(1000));
    }
    let changes = [
        ("adr.drain_lines", budget),
        ("memory.row_write", "1 pJ"),
        ("memory.row_read", "1 pJ"),
        ("memory.array_write", "2 pJ"),
        ("memory.array_read", "1 pJ"),
    ];
    let scheme = Table {
        entries: VecDeque::new(),
        capacity,
        leaving: Vec::new(),
        changed: Cycle(0),
        line_cycles: 0,
        lines_max: 0,
    };
    run_lanes(&with("inorder", &changes), scheme, vec![log], Vec::new())
}

#[test]
fn residual_energy_writes_what_is_kept_and_what_it_does_not_is_lost() {
    for (capacity, budget) in [(4, 0), (4, 3), (8, 2)] {
        let mut system = table(capacity, 20, &budget.to_string());
        let end = system.now();
        system_counts(&mut system, end);
        let timed = system.journal().unwrap();
        let (mut drains, mut most) = (timed.drains(), 0);
        for crash in 0..=timed.journal().len() {
            drains.advance_to_entry(crash);
            let lines: Vec<_> = drains.lines().map(|line| line.0 - TABLE).collect();
            assert!(lines.is_sorted(), "oldest first: {lines:?}");
            most = most.max(lines.len());
            let lost: Vec<_> = drains.lost().map(|(line, bytes)| (line.0, bytes[0])).collect();
            let spared = if budget == 0 { usize::MAX } else { budget };
            let expected = lines.iter().skip(spared).map(|line| (TABLE + line, 0));
            assert_eq!(lost, expected.collect::<Vec<_>>(), "the array has what it had");
            energy(&drains);
        }
        // One leaves while the next ones stay.
        assert_eq!(most, capacity, "budget {budget}");
    }
}

fn system_counts(system: &mut System<Table>, end: Cycle) {
    let (kept, scheme) = (system.take_stats().kept, system.scheme());
    let counted = scheme.line_cycles + scheme.kept() * end.since(scheme.changed);
    assert_eq!((kept.lines_max, kept.line_cycles), (scheme.lines_max, counted));
}

/// A line's bits to row buffer and array, and a row of 2 KiB read.
fn energy(drains: &DrainCursor<'_>) {
    let line = (512.0 * 3.0 + 8.0 * 2048.0) / 1e3;
    let expected = line * drains.lines().len() as f64;
    assert!((drains.nanojoules().unwrap() - expected).abs() < 1e-9);
}
