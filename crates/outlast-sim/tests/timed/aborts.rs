//! Transactions that abort: nothing of their stores is found again, in caches, on the way to memory
//! or in the journal, and nothing younger begins before.

use crate::machine::bare;
use outlast_sim::timed::{
    Answer, Cycle, LaneOps, MachineConfig, Outbox, Scheme, Setup, Source, StoreSeen, System,
    WriteRoute, WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, Domain};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, TxId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LINES: u64 = 64;
const SHADOW: u64 = 1 << 10;

/// A transaction's lines go to new places, which its end makes theirs. Data stays in the caches.
#[derive(Default)]
struct OutOfPlace {
    /// Cycles that an abort takes.
    abort_cycles: u64,
    /// Whether an abort leaves lines in caches and writes on their way (wrong).
    forgets: bool,
    /// Whether writes wait at the controller now and then.
    holds: bool,
    tx: u64,
    is_open: bool,
    places: BTreeMap<LineAddr, LineAddr>,
    speculative: BTreeMap<LineAddr, LineAddr>,
    stored: BTreeSet<LineAddr>,
    next_place: u64,
    waiting: Vec<(WriteTicket, LineAddr, u64)>,
    routed: u64,
    aborts: BTreeMap<u64, Cycle>,
    discarded_on_their_way: u64,
}

impl OutOfPlace {
    fn place(&mut self, line: LineAddr, tag: u64) -> LineAddr {
        if self.is_open && tag == self.tx {
            let next = LineAddr(SHADOW + self.next_place);
            let place = *self.speculative.entry(line).or_insert(next);
            self.next_place += u64::from(place == next);
            return place;
        }
        self.places.get(&line).copied().unwrap_or(line)
    }
}

impl Scheme for OutOfPlace {
    /// The transaction that stored to the line last.
    type Tag = u64;
    type Page = ();
    type Token = ();

    fn begin(&mut self, _now: Cycle, _lane: LaneId, _out: &mut Outbox) -> Answer {
        self.tx += 1;
        self.is_open = true;
        Answer::Proceed
    }

    fn store(
        &mut self,
        now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut u64,
        _page: Option<&mut ()>,
        out: &mut Outbox,
    ) -> Answer {
        let line = store.at.line();
        if self.is_open && self.stored.insert(line) {
            out.force(line); // What earlier transactions left in caches stays.
            out.call(now.next(), ());
            return Answer::Wait;
        }
        *tag = if self.is_open { self.tx } else { 0 };
        Answer::Proceed
    }

    fn end(&mut self, _now: Cycle, _lane: LaneId, _out: &mut Outbox) -> Answer {
        self.places.append(&mut self.speculative);
        self.stored.clear();
        self.is_open = false;
        Answer::Proceed
    }

    fn abort(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox) -> Answer {
        let over = self.abort_cycles;
        let until = *self.aborts.entry(self.tx).or_insert_with(|| {
            out.call(now.plus(over), ());
            now.plus(over)
        });
        if now < until {
            return Answer::Wait;
        }
        if !self.forgets {
            self.stored.iter().for_each(|line| out.discard(*line));
        }
        self.stored.clear();
        self.speculative.clear();
        Answer::Proceed
    }

    fn is_discarded(&mut self, _now: Cycle, write: &WriteSeen<'_, u64>) -> bool {
        let goes = write.tag == self.tx;
        self.discarded_on_their_way += u64::from(goes);
        self.waiting.retain(|(ticket, _, _)| !goes || *ticket != write.ticket);
        goes
    }

    fn locate(&self, line: LineAddr) -> LineAddr {
        let speculative = self.speculative.get(&line);
        speculative.or_else(|| self.places.get(&line)).copied().unwrap_or(line)
    }

    fn may_write(&mut self, now: Cycle, _: LineAddr, _: Cause, out: &mut Outbox) -> Answer {
        if self.holds && now.0 / 64 % 2 == 1 {
            out.call(Cycle((now.0 / 64 + 1) * 64), ());
            return Answer::Wait;
        }
        Answer::Proceed
    }

    fn route_write(
        &mut self,
        now: Cycle,
        write: &WriteSeen<'_, u64>,
        out: &mut Outbox,
    ) -> WriteRoute {
        self.routed += 1;
        if self.holds && self.routed.is_multiple_of(3) {
            self.waiting.push((write.ticket, write.line, write.tag));
            out.call(now.plus(90), ());
            return WriteRoute::Wait;
        }
        WriteRoute::There(self.place(write.line, write.tag))
    }

    fn step(&mut self, _now: Cycle, (): (), out: &mut Outbox) {
        for (ticket, line, tag) in std::mem::take(&mut self.waiting) {
            let place = self.place(line, tag);
            out.release_write(ticket, WriteRoute::There(place));
        }
        out.wake();
    }
}

/// Transactions, of which about a third abort, and memory behind them.
fn program(seed: u64, count: u64) -> (OpLog, Vec<u8>) {
    let mut random = Random::new(seed);
    let mut draw = |below| random.below(below);
    let (mut log, lane) = (OpLog::default(), LaneId(0));
    let mut memory = vec![0; (LINES * 64) as usize];
    for tx in 1..=count {
        log.op(lane, Op::TxBegin);
        let before = memory.clone();
        for _ in 0..1 + draw(24) {
            let at = 64 * draw(LINES) + 8 * draw(8);
            let value = (tx << 32 | draw(1 << 20)).to_le_bytes();
            log.op(lane, Op::Load { at: PoolOffset(64 * draw(LINES)), len: 8, depends: None });
            log.op(lane, Op::Store { at: PoolOffset(at), bytes: &value });
            memory[at as usize..][..8].copy_from_slice(&value);
        }
        if draw(3) == 0 {
            log.op(lane, Op::TxAbort);
            memory = before;
        } else {
            log.op(lane, Op::TxEnd);
            log.op(lane, Op::Ack(TxId(tx)));
        }
    }
    (log, memory)
}

fn small(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    for (key, value) in
        [("l1.size", "512 B"), ("l2.size", "1 KiB"), ("l2.ways", "4"), ("llc.size", "2 KiB")]
    {
        config.set_option(key, value).unwrap();
    }
    config
}

fn run(
    config: &MachineConfig,
    scheme: OutOfPlace,
    log: &OpLog,
    domain: Domain,
) -> System<OutOfPlace> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log.clone()), LaneId(0)));
    let setup = Setup { journal: Some(domain), ..Setup::default() };
    let mut system = System::new(config, scheme, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    assert!(system.is_idle());
    system
}

/// Lines that are not as they should be.
fn wrong(system: &mut System<OutOfPlace>, expected: &[u8]) -> usize {
    let lines = expected.as_chunks::<64>().0.iter().zip(0..);
    lines.filter(|(line, number)| system.line(LineAddr(*number)) != **line).count()
}

#[test]
fn nothing_of_an_aborted_transaction_is_found_again() {
    for kind in ["ooo", "inorder"] {
        let (mut discarded, mut forgotten) = (0, 0);
        for seed in 1..9 {
            let (log, expected) = program(seed, 200);
            for (holds, abort_cycles) in [(false, 0), (true, 0), (true, 300)] {
                let scheme = OutOfPlace { holds, abort_cycles, ..OutOfPlace::default() };
                let mut system = run(&small(kind), scheme, &log, Domain::Adr);
                assert_eq!(wrong(&mut system, &expected), 0, "{kind} {seed} {holds}");
                discarded += system.scheme().discarded_on_their_way;
                assert!(system.scheme().aborts.len() > 30);
            }
            let forgets = OutOfPlace { forgets: true, ..OutOfPlace::default() };
            forgotten += wrong(&mut run(&small(kind), forgets, &log, Domain::Adr), &expected);
        }
        assert!(discarded > 10, "{kind}: {discarded} were on their way");
        assert!(forgotten > 10, "{kind}: lines that stay in caches are found");
    }
}

#[test]
fn where_caches_are_durable_an_abort_is_as_well() {
    for kind in ["ooo", "inorder"] {
        let (log, expected) = program(3, 200);
        let system = run(&small(kind), OutOfPlace::default(), &log, Domain::Eadr);
        let journal = system.journal().unwrap().journal();
        let mut image = vec![0; 1 << 20];
        journal.cursor().advance_to_entry(journal.len(), &mut image, |_| {});
        assert!(image[..expected.len()] == expected, "{kind}");
    }
}

/// A store, `end`, a load of the same line; then a transaction that is acknowledged.
fn store_and_load(end: Op<'_>) -> OpLog {
    let (mut log, lane) = (OpLog::default(), LaneId(0));
    log.op(lane, Op::TxBegin);
    log.op(lane, Op::Store { at: PoolOffset(640), bytes: &[7; 8] });
    log.op(lane, end);
    log.op(lane, Op::Load { at: PoolOffset(640), len: 8, depends: None });
    for op in [Op::TxBegin, Op::TxEnd, Op::Ack(TxId(1))] {
        log.op(lane, op);
    }
    log
}

#[test]
fn what_follows_begins_behind_the_abort_and_reads_memory() {
    for kind in ["ooo", "inorder"] {
        let measure = |end, abort_cycles| {
            let scheme = OutOfPlace { abort_cycles, ..OutOfPlace::default() };
            let mut system = run(&bare(kind), scheme, &store_and_load(end), Domain::Adr);
            (system.now().0, system.take_stats())
        };
        let (short, stats) = measure(Op::TxAbort, 100);
        let (long, _) = measure(Op::TxAbort, 600);
        assert_eq!(long - short, 500, "{kind}");
        assert_eq!(stats.memory.reads, 2, "{kind}: once for the store, once for the load");
        assert_eq!(measure(Op::TxEnd, 0).1.memory.reads, 1, "{kind}");
        // The one that is acknowledged does nothing, and the one that aborts is not counted.
        assert!(stats.tx_cycles.len() == 1 && stats.tx_cycles[0] < 100, "{:?}", stats.tx_cycles);
    }
}
