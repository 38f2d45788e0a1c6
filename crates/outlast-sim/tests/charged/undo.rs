//! An undo buffer with a filter in front of evictions: a line in the filter leaves when the buffer,
//! written as one block, is durable, and any other line at once.

use super::{PATH, run, with};
use outlast_sim::timed::{
    Answer, Block, Cycle, Outbox, Scheme, StoreSeen, System, WriteRoute, WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, Sink};

/// The log's first line, in a bank that has no data.
const LOG: LineAddr = LineAddr(224);
const CAUSE: Cause = Cause::Scheme(0);

#[derive(Default)]
struct Undo {
    buffer: Vec<(LineAddr, LineBytes)>,
    logged: Vec<LineAddr>,
    writing: Vec<LineAddr>,
    waiting: Vec<WriteTicket>,
    /// The lane and the transaction of writes, as the port has told them.
    seen: Vec<(LineAddr, u8, Option<LaneId>, Option<u64>)>,
}

impl Scheme for Undo {
    /// A line in a cache whose old bytes are in the buffer or the log.
    type Tag = bool;
    type Page = ();
    type Token = ();
    const CAUSES: &'static [&'static str] = &["undo"];

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut bool,
        _page: Option<&mut ()>,
        _out: &mut Outbox,
    ) -> Answer {
        if !std::mem::replace(tag, true) {
            self.buffer.push((store.at.line(), *store.old));
        }
        Answer::Proceed
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, bool>,
        out: &mut Outbox,
    ) -> WriteRoute {
        assert!(write.tag, "a line with undo data brings its tag along");
        self.seen.push((write.line, write.words, write.lane, write.tx));
        if self.buffer.iter().any(|(line, _)| *line == write.line) {
            let buffer = std::mem::take(&mut self.buffer);
            self.writing = buffer.iter().map(|(line, _)| *line).collect();
            let data = buffer.iter().map(|(_, old)| *old).collect();
            out.write_block(Block { line: LOG, data, cause: CAUSE, token: () });
        }
        if self.writing.contains(&write.line) {
            self.waiting.push(write.ticket);
            return WriteRoute::Wait;
        }
        WriteRoute::Here
    }

    fn write_durable(&mut self, _now: Cycle, _token: (), out: &mut Outbox) {
        self.logged.append(&mut self.writing);
        for ticket in self.waiting.drain(..) {
            out.release_write(ticket, WriteRoute::Here);
        }
    }
}

/// Stores to as many lines as there are, then flushes of some, each followed by a fence.
fn flushed(config: &[(&str, &str)], lines: u64, flushed: &[u64]) -> System<Undo> {
    let mut log = OpLog::default();
    log.op(LaneId(0), Op::TxBegin);
    for line in 0..lines {
        super::store(&mut log, line, line + 1);
    }
    log.op(LaneId(0), Op::Compute(4000));
    for &line in flushed {
        log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(line) });
        log.op(LaneId(0), Op::Sfence);
        log.op(LaneId(0), Op::Compute(4000));
    }
    log.op(LaneId(0), Op::TxEnd);
    run(&with("inorder", config), Undo::default(), log)
}

#[test]
fn a_line_in_the_filter_waits_for_the_block_and_no_other_line_does() {
    // Where the queue is not durable: a line of the row that was read takes its path and its cells.
    let alone = PATH + 20 + 4 + 100;
    for lines in [1, 4, 16] {
        let changes = [("memory.adr", "false"), ("memory.page", "open")];
        let mut system = flushed(&changes, lines, &[0, lines - 1]);
        let times = system.take_stats().persist;
        let times = times.of(Cause::Flushed).unwrap();
        // The block sets out when the first line has arrived, opens its row, and that line enters
        // behind it; the other line finds its undo data in the log.
        let block = PATH + 20 + 4 * (lines - 1) + 20 + 4 + 100;
        let all = block + alone + if lines == 1 { 0 } else { alone };
        assert_eq!(times.mean() * times.count() as f64, (all) as f64, "{lines} lines");
        let timed = system.journal().unwrap();
        let order: Vec<_> = timed.journal().iter().map(|entry| (entry.cause, entry.line)).collect();
        let data = order.iter().position(|(cause, _)| *cause == Cause::Flushed).unwrap();
        assert!(order[..data].iter().all(|(cause, _)| *cause == CAUSE), "the block is first");
        let seen = &system.scheme().seen;
        let expected = (LineAddr(0), u8::MAX, Some(LaneId(0)), Some(1));
        assert_eq!(seen[0], expected, "{lines} lines");
        assert_eq!(system.scheme().logged.len() as u64, lines);
    }
}

#[test]
fn a_younger_write_of_a_line_does_not_pass_one_that_waits() {
    // Both flushes are under way at the same time; the second finds newer bytes.
    let mut log = OpLog::default();
    super::store(&mut log, 3, 1);
    log.op(LaneId(0), Op::Compute(4000));
    log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(3) });
    log.op(LaneId(0), Op::Compute(60));
    super::store(&mut log, 3, 2);
    log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(3) });
    log.op(LaneId(0), Op::Sfence);
    let changes = [("memory.adr", "false"), ("memory.page", "open")];
    let mut system = run(&with("inorder", &changes), Undo::default(), log);
    let timed = system.journal().unwrap();
    let of_line: Vec<_> =
        timed.journal().iter().filter(|e| e.line == LineAddr(3)).map(|e| e.words[0][0]).collect();
    assert_eq!(of_line, [1, 2]);
    assert_eq!(system.line(LineAddr(3))[0], 2);
}
