//! All cores stop and all caches are flushed: the time is that of the tags, or of the lines.

use super::{PATH, run_lanes, store, with};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Cycle, LevelFlush, Lost, Outbox, Scheme, StoreSeen, System, WriteRoute, WriteSeen,
    WriteTicket,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, Sink};
use std::collections::BTreeSet;

const CAUSE: Cause = Cause::Scheme(0);

#[derive(Clone, Copy, Debug)]
enum Step {
    Stopped,
    Flushed,
}

/// Stops at an epoch's end, flushes, and goes on.
struct StopsTheWorld {
    level: Option<u8>,
    invalidate: bool,
    asked: Cycle,
    stopped: Cycle,
    flushed: Option<Cycle>,
}

impl Scheme for StopsTheWorld {
    type Tag = ();
    type Page = ();
    type Token = Step;
    const CAUSES: &'static [&'static str] = &["flush"];

    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<Step>) -> Answer {
        self.asked = now;
        out.stop(Step::Stopped);
        Answer::Proceed
    }

    fn stopped(&mut self, now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        self.stopped = now;
        let (level, invalidate, token) = (self.level, self.invalidate, Step::Flushed);
        out.flush(LevelFlush { level, cause: CAUSE, invalidate, yields: false, token });
    }

    fn flushed(&mut self, now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        assert_eq!(self.flushed.replace(now), None, "told once");
        out.resume();
    }
}

/// Stores to `lines` lines, from line 0 on; then the epoch ends, and they are loaded again.
fn flush(
    level: Option<u8>,
    invalidate: bool,
    lines: u64,
    changes: &[(&str, &str)],
) -> System<StopsTheWorld> {
    let mut log = OpLog::default();
    for line in 0..lines {
        store(&mut log, line, line + 1);
    }
    log.op(LaneId(0), Op::Compute(20_000));
    log.op(LaneId(0), Op::Epoch);
    log.op(LaneId(0), Op::Compute(10));
    for line in 0..lines {
        let at = LineAddr(line).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
    }
    let never = Cycle(0);
    let scheme = StopsTheWorld { level, invalidate, asked: never, stopped: never, flushed: None };
    run_lanes(&with("inorder", changes), scheme, vec![log], Vec::new())
}

fn took(system: &System<StopsTheWorld>) -> u64 {
    system.scheme().flushed.unwrap().since(system.scheme().stopped)
}

/// Room for all lines that are under way at a time.
const QUEUE: [(&str, &str); 4] = [
    ("memory.write_buffer", "64"),
    ("memory.write_queue", "64"),
    ("memory.drain_high", "64"),
    ("memory.drain_idle", "64"),
];

#[test]
fn a_flush_takes_its_tags_and_the_way_of_the_last_line() {
    for (level, sets, ways) in [(Some(1), 8, 4), (None, 256, 16)] {
        for tags in [0, 1, 4] {
            let tags_a_cycle = tags.to_string();
            let mut changes = QUEUE.to_vec();
            changes.push(("caches.scan_tags", &tags_a_cycle));
            for lines in [1, 5, 8, 32] {
                let mut system = flush(level, false, lines, &changes);
                let set = |ways: u64| if tags == 0 { 0 } else { ways.div_ceil(tags) };
                // The line in the last set of the first level leaves when that is read; it is
                // durable a path later, and acknowledged another.
                let last = set(4) * lines.min(8) + 2 * PATH;
                let of = format!("{level:?}, {tags} tags, {lines} lines");
                assert_eq!(took(&system), last.max(sets * set(ways)), "{of}");
                assert_eq!(system.scheme().stopped, system.scheme().asked, "{of}: nothing to do");
                let (stats, took) = (system.take_stats(), took(&system));
                assert_eq!((stats.writes.of(CAUSE), stats.memory.writes), (lines, lines), "{of}");
                assert_eq!(stats.memory.reads, lines, "{of}: the lines have stayed");
                assert_eq!(stats.cores[0].lost.of(Lost::Stop), took, "{of}");
                let timed = system.journal().unwrap();
                assert_eq!(timed.journal().len() as u64, lines, "{of}");
                assert!(timed.at(lines as usize - 1) <= system.scheme().flushed.unwrap(), "{of}");
            }
        }
    }
}

#[test]
fn a_flush_takes_a_line_time_each_where_the_link_is_the_limit() {
    // A line takes 64 cycles on the link, and what the caches evicted has passed it long before.
    for lines in [10, 50, 200] {
        let mut changes = QUEUE.to_vec();
        changes.extend([("memory.link", "1 GB/s"), ("caches.scan_tags", "0")]);
        let mut system = flush(None, false, lines, &changes);
        assert_eq!(took(&system), 2 * PATH + 64 * lines, "{lines} lines");
        assert_eq!(system.take_stats().writes.of(CAUSE), lines);
    }
}

#[test]
fn a_flush_that_invalidates_leaves_nothing_to_hit() {
    for lines in [1, 32, 200] {
        let reads = |invalidate| {
            let mut system = flush(None, invalidate, lines, &QUEUE);
            assert_eq!(system.line(LineAddr(lines - 1))[0], lines as u8);
            system.take_stats().memory.reads
        };
        assert_eq!((reads(false), reads(true)), (lines, 2 * lines));
    }
}

/// A table with an entry for each line that has left the caches in this epoch. When it is full, the
/// epoch ends early: what left waits, all cores stop, it goes, and all caches are flushed.
struct Table {
    entries: BTreeSet<LineAddr>,
    capacity: usize,
    ending: bool,
    waiting: Vec<WriteTicket>,
    epochs: u64,
    waited: u64,
}

impl Scheme for Table {
    type Tag = ();
    type Page = ();
    type Token = Step;
    const CAUSES: &'static [&'static str] = &["flush"];

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Step>,
    ) -> WriteRoute {
        let is_full = self.entries.len() == self.capacity && !self.entries.contains(&write.line);
        if write.cause == CAUSE || !is_full {
            self.entries.insert(write.line);
            return WriteRoute::Here;
        }
        if !std::mem::replace(&mut self.ending, true) {
            out.stop(Step::Stopped);
        }
        self.waiting.push(write.ticket);
        self.waited += 1;
        WriteRoute::Wait
    }

    fn stopped(&mut self, _now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        // Newer bytes of these lines do not pass them.
        for ticket in self.waiting.drain(..) {
            out.release_write(ticket, WriteRoute::Here);
        }
        let (level, invalidate, token) = (None, false, Step::Flushed);
        out.flush(LevelFlush { level, cause: CAUSE, invalidate, yields: false, token });
    }

    fn flushed(&mut self, _now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        self.entries.clear();
        self.ending = false;
        self.epochs += 1;
        out.resume();
    }
}

#[test]
fn cores_stop_though_what_leaves_the_caches_waits() {
    for kind in ["ooo", "inorder"] {
        for buffer in ["1", "4"] {
            let changes = [
                ("memory.write_buffer", buffer),
                ("l1.size", "512 B"),
                ("l2.size", "1 KiB"),
                ("l2.ways", "4"),
                ("llc.size", "2 KiB"),
            ];
            let mut logs = vec![OpLog::default(), OpLog::default()];
            for n in 0..600 {
                for lane in 0..2 {
                    store(&mut logs[lane as usize], 100 * lane + n * 37 % 96, n);
                }
            }
            let scheme = Table {
                entries: BTreeSet::new(),
                capacity: 24,
                ending: false,
                waiting: Vec::new(),
                epochs: 0,
                waited: 0,
            };
            let mut system = run_lanes(&with(kind, &changes), scheme, logs, Vec::new());
            let Table { epochs, waited, .. } = *system.scheme();
            assert!(epochs > 10 && waited >= epochs, "{kind}: {epochs}, {waited}");
            for n in 504..600u64 {
                for lane in 0..2 {
                    let line = system.line(LineAddr(100 * lane + n * 37 % 96));
                    assert_eq!(line[..8], n.to_le_bytes(), "{kind}");
                }
            }
        }
    }
}

/// Flushes the lines of one epoch from the last level, as they carry it.
struct Scans(u8);

impl Scheme for Scans {
    type Tag = u8;
    type Page = ();
    type Token = u8;
    const CAUSES: &'static [&'static str] = &["scan"];

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        _store: &StoreSeen<'_>,
        tag: &mut u8,
        _page: Option<&mut ()>,
        _out: &mut Outbox<u8>,
    ) -> Answer {
        *tag = self.0;
        Answer::Proceed
    }

    fn epoch(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox<u8>) -> Answer {
        self.0 += 1;
        if self.0 == 4 {
            let (level, cause, invalidate) = (None, CAUSE, false);
            out.flush(LevelFlush { level, cause, invalidate, yields: false, token: 2 });
        }
        Answer::Proceed
    }

    fn is_flushed(
        &mut self,
        _now: Cycle,
        token: u8,
        _level: u8,
        _line: LineAddr,
        dirty: bool,
        tag: &mut u8,
    ) -> bool {
        dirty && *tag == token
    }
}

#[test]
fn a_flush_writes_what_the_scheme_picks() {
    let mut log = OpLog::default();
    for line in 0..40 {
        store(&mut log, line, line + 1);
        log.op(LaneId(0), Op::Compute(500));
        if line % 10 == 9 {
            log.op(LaneId(0), Op::Epoch);
        }
    }
    let system = run_lanes(&with("inorder", &[]), Scans(0), vec![log], Vec::new());
    let timed = system.journal().unwrap();
    let lines: BTreeSet<_> = timed.journal().iter().map(|entry| entry.line.0).collect();
    assert_eq!(lines, (20..30).collect());
}

/// Flushes all lines at an epoch's end, while the core goes on.
struct FlushesBeside {
    yields: bool,
    flushed: bool,
}

impl Scheme for FlushesBeside {
    type Tag = ();
    type Page = ();
    type Token = ();
    const CAUSES: &'static [&'static str] = &["scan"];

    fn epoch(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox<()>) -> Answer {
        let (level, cause, yields) = (None, CAUSE, self.yields);
        out.flush(LevelFlush { level, cause, invalidate: false, yields, token: () });
        Answer::Proceed
    }

    fn flushed(&mut self, _now: Cycle, _token: (), _out: &mut Outbox<()>) {
        self.flushed = true;
    }
}

#[test]
fn reads_do_not_wait_for_a_flush_that_yields() {
    const LINES: u64 = 200;
    let run = |yields| {
        let mut log = OpLog::default();
        for line in 0..LINES {
            store(&mut log, line, line + 1);
        }
        log.op(LaneId(0), Op::Compute(20_000));
        log.op(LaneId(0), Op::Epoch);
        for line in 1000..1100 {
            let at = LineAddr(line).start();
            log.op(LaneId(0), Op::Compute(10));
            log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
        }
        log.op(LaneId(0), Op::Compute(100_000));
        let changes =
            [("memory.write_queue", "32"), ("memory.drain_high", "24"), ("memory.drain_low", "8")];
        let scheme = FlushesBeside { yields, flushed: false };
        let config = with("inorder", &changes);
        let mut system = run_lanes(&config, scheme, vec![log], Vec::new());
        assert!(system.scheme().flushed);
        let stats = system.take_stats();
        assert_eq!(stats.writes.of(CAUSE), LINES);
        stats.memory.read_times.max()
    };
    // Writes that are in the queue by then, each of which keeps the bank for itself.
    let (yielding, pushing) = (run(true), run(false));
    assert!(2 * yielding < pushing, "{yielding} cycles, {pushing} where nothing goes first");
}
