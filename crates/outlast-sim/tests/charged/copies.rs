//! Copies inside the memory, and blocks written as one operation.

use super::{PATH, READ, run_lanes, with};
use outlast_sim::timed::{Answer, Block, Copied, Cycle, Outbox, ReadCause, Scheme, System};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, Sink};

const CAUSE: Cause = Cause::Scheme(0);

/// What is done at an epoch's end.
#[derive(Clone, Debug)]
enum What {
    Copy { lines: u64 },
    Block { lines: u64, inside: bool },
}

struct Does {
    what: What,
    begun: Cycle,
    taken: Option<Cycle>,
    durable: Option<Cycle>,
}

const FROM: LineAddr = LineAddr(0);
const TO: LineAddr = LineAddr(32);

fn line(number: u64) -> LineBytes {
    [number as u8 + 1; 64]
}

impl Scheme for Does {
    type Tag = ();
    type Page = ();
    type Token = ();
    const CAUSES: &'static [&'static str] = &["moved"];

    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox) -> Answer {
        self.begun = now;
        match self.what {
            What::Copy { lines } => {
                out.copy(Copied { from: FROM, to: TO, lines, cause: CAUSE, token: () });
            }
            What::Block { lines, inside } => {
                let data = (0..lines).map(line).collect();
                let block = Block { line: TO, data, cause: CAUSE, token: () };
                if inside { out.write_block_inside(block) } else { out.write_block(block) }
            }
        }
        Answer::Proceed
    }

    fn write_taken(&mut self, now: Cycle, _token: (), _out: &mut Outbox) {
        assert_eq!(self.taken.replace(now), None, "told once");
    }

    fn write_durable(&mut self, now: Cycle, _token: (), _out: &mut Outbox) {
        assert_eq!(self.durable.replace(now), None, "told once");
    }
}

/// The run in which it is done, from the source's lines in memory. Rows stay open, and no write is
/// served unless these values say so.
fn after(what: What, changes: &[(&str, &str)]) -> System<Does> {
    let mut log = OpLog::default();
    for op in [Op::Epoch, Op::Compute(20_000)] {
        log.op(LaneId(0), op);
    }
    let scheme = Does { what, begun: Cycle(0), taken: None, durable: None };
    let mut all = vec![
        ("memory.page", "open"),
        ("memory.write_queue", "40"),
        ("memory.drain_high", "40"),
        ("memory.drain_idle", "40"),
    ];
    all.extend(changes);
    let base = (0..32).flat_map(line).collect();
    run_lanes(&with("inorder", &all), scheme, vec![log], base)
}

fn took(system: &System<Does>) -> u64 {
    system.scheme().durable.unwrap().since(system.scheme().begun)
}

#[test]
fn a_copy_takes_its_first_read_and_a_burst_a_line_and_no_link() {
    for lines in [1, 2, 8, 9, 32] {
        for link in ["unlimited", "1 GB/s"] {
            let mut system = after(What::Copy { lines }, &[("memory.link", link)]);
            assert_eq!(took(&system), READ + 4 * (lines - 1), "{lines} lines");
            let stats = system.take_stats();
            let (reads, writes) =
                (stats.reads.of(ReadCause::Scheme(CAUSE)), stats.writes.of(CAUSE));
            assert_eq!((reads, writes, stats.memory.row_hits), (lines, lines, lines - 1));
            let timed = system.journal().unwrap();
            let copied: Vec<_> = timed.journal().iter().map(|entry| entry.line).collect();
            assert_eq!(copied, (0..lines).map(|n| TO.plus(n)).collect::<Vec<_>>());
            for number in 0..lines {
                assert_eq!(system.line(TO.plus(number)), line(number));
            }
        }
    }
}

#[test]
fn a_block_takes_path_and_link_from_the_processor_and_neither_from_inside() {
    for lines in [1, 2, 32] {
        // A line takes 64 cycles on the link.
        for (link, line_cycles) in [("unlimited", 0), ("1 GB/s", 64)] {
            for inside in [false, true] {
                let system = after(What::Block { lines, inside }, &[("memory.link", link)]);
                let expected = if inside { 0 } else { PATH + line_cycles * lines };
                assert_eq!(took(&system), expected, "{lines} lines, {link}, inside {inside}");
                assert_eq!(system.scheme().taken, system.scheme().durable);
                assert_eq!(system.journal().unwrap().journal().len() as u64, lines);
            }
        }
    }
}

#[test]
fn a_block_in_a_queue_that_is_not_durable_hits_its_row() {
    for lines in [1, 8, 32] {
        let changes = [("memory.adr", "false"), ("memory.drain_idle", "1")];
        let mut system = after(What::Block { lines, inside: true }, &changes);
        // Activate, then a column command each tCCD, and the last line's cells.
        assert_eq!(took(&system), 20 + 4 * (lines - 1) + 20 + 4 + 100, "{lines} lines");
        let stats = system.take_stats();
        assert_eq!((stats.memory.row_hit_writes, stats.memory.activates), (lines - 1, 1));
        assert_eq!(stats.writes.of(CAUSE), lines);
    }
}
