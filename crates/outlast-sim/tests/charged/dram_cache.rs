//! A cache in volatile memory, which is looked up before persistent memory is read: the price of
//! every read is that of the volatile memory, and of one that misses there both.

use super::{PATH, READ, loads, run, with};
use outlast_sim::timed::{
    Cycle, MachineConfig, NonPers, Outbox, ReadCause, ReadSeen, ReadTicket, Route, Scheme,
    SchemeWrite, WriteRoute, WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, Sink};
use std::collections::{BTreeMap, BTreeSet};

/// Volatile memory begins here, and takes this long from an activate to a line's last data.
const DRAM: u64 = 1 << 20;
const DRAM_READ: u64 = 5 + 5 + 2;

/// Lines below a limit are in the cache from the start; a written line goes there.
#[derive(Default)]
struct DramCache {
    cached: BTreeSet<LineAddr>,
    hits: u64,
    taken: u64,
}

fn copy_of(line: LineAddr) -> LineAddr {
    line.plus(DRAM)
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Lookup(ReadTicket, LineAddr),
    Insert(WriteTicket),
}

impl Scheme for DramCache {
    type Tag = ();
    type Page = ();
    type Token = Of;
    const CAUSES: &'static [&'static str] = &["lookup"];

    fn locate(&self, line: LineAddr) -> LineAddr {
        if self.cached.contains(&line) { copy_of(line) } else { line }
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, out: &mut Outbox<Of>) -> Route {
        out.read_inside(copy_of(read.line), Cause::Scheme(0), Of::Lookup(read.ticket, read.line));
        Route::Wait
    }

    fn read_done(&mut self, _now: Cycle, token: Of, _data: &LineBytes, out: &mut Outbox<Of>) {
        let Of::Lookup(ticket, line) = token else { return };
        let hit = self.cached.contains(&line);
        self.hits += u64::from(hit);
        out.release(ticket, if hit { Route::Answered { cycles: 0 } } else { Route::Here });
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Of>,
    ) -> WriteRoute {
        self.taken += 1;
        self.cached.insert(write.line);
        out.write_inside(SchemeWrite {
            line: copy_of(write.line),
            words: write.words,
            data: *write.data,
            cause: Cause::Scheme(0),
            token: Of::Insert(write.ticket),
        });
        WriteRoute::Taken
    }

    fn write_durable(&mut self, _now: Cycle, token: Of, out: &mut Outbox<Of>) {
        if let Of::Insert(ticket) = token {
            out.done(ticket);
        }
    }
}

fn machine(kind: &str) -> MachineConfig {
    with(
        kind,
        &[
            ("dram.preset", "ddr4-3200"),
            ("dram.from", &format!("{} B", 64 * DRAM)),
            ("dram.clock", "1 GHz"),
            ("dram.path", "0 ns"),
            ("dram.page", "closed"),
            ("dram.bank_queue", "0"),
            ("dram.tREFI", "0 ns"),
            ("dram.drain_idle", "1"),
            ("dram.tRCD", "5 ns"),
            ("dram.tCL", "5 ns"),
            ("dram.tBURST", "2 ns"),
        ],
    )
}

#[test]
fn every_read_takes_the_lookup_and_one_that_misses_both() {
    for kind in ["ooo", "inorder"] {
        let config = machine(kind);
        let lines = |from: u64| (from..from + 50).map(|n| 33 * n);
        let log = loads(lines(0).chain(lines(50)));
        let mut without = run(&config, NonPers, log.clone());
        assert_eq!(without.take_stats().memory.reads, 100);
        let scheme = DramCache { cached: lines(0).map(LineAddr).collect(), ..Default::default() };
        let mut system = run(&config, scheme, log);
        // A hit is spared the read of persistent memory.
        assert_eq!(system.now().0 + 50 * READ, without.now().0 + 100 * DRAM_READ, "{kind}");
        let stats = system.take_stats();
        assert_eq!((system.scheme().hits, stats.memory.reads), (50, 50), "{kind}");
        assert_eq!(stats.reads.of(ReadCause::Load), 50, "{kind}: the others never went there");
        assert_eq!(stats.dram.unwrap().reads, 100, "{kind}");
        let lookups = ReadCause::Scheme(Cause::Scheme(0));
        assert_eq!(stats.reads.of(lookups), 0, "{kind}: reads of persistent memory are counted");
    }
}

/// Answers the first read late and the others at once.
#[derive(Default)]
struct Answers(u64);

impl Scheme for Answers {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn route_read(&mut self, _now: Cycle, _read: &ReadSeen, _out: &mut Outbox) -> Route {
        self.0 += 1;
        Route::Answered { cycles: if self.0 == 1 { 1_000 } else { 0 } }
    }
}

#[test]
fn an_answer_takes_the_link_when_it_is_there() {
    // Four loads at the same time; a line takes 64 cycles on the link.
    let mut log = OpLog::default();
    for line in 0..4 {
        log.op(LaneId(0), Op::Load { at: LineAddr(line).start(), len: 8, depends: None });
    }
    let time = |link| run(&with("ooo", &[("memory.link", link)]), Answers::default(), log.clone());
    let (mut free, mut bound) = (time("unlimited"), time("1 GB/s"));
    // The three behind pass the link long before the first one's answer.
    assert_eq!(bound.now().0, free.now().0 + 64);
    assert_eq!((free.take_stats().memory.reads, bound.take_stats().memory.reads), (0, 0));
}

#[test]
fn what_the_cache_takes_is_no_write_of_persistent_memory_and_is_found_there() {
    for kind in ["ooo", "inorder"] {
        let mut log = OpLog::default();
        for line in 0..20 {
            super::store(&mut log, 33 * line, line + 1);
            log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(33 * line) });
        }
        log.op(LaneId(0), Op::Sfence);
        let mut system = run(&machine(kind), DramCache::default(), log);
        assert_eq!(system.scheme().taken, 20, "{kind}");
        for line in 0..20 {
            assert_eq!(u64::from(system.line(LineAddr(33 * line))[0]), line + 1, "{kind}");
        }
        assert_eq!(system.journal().unwrap().journal().len(), 0, "{kind}: nothing is durable");
        let stats = system.take_stats();
        assert_eq!((stats.writes.of(Cause::Flushed), stats.memory.writes), (0, 0), "{kind}");
        assert_eq!(stats.dram.unwrap().writes, 20, "{kind}");
        let times = stats.persist.of(Cause::Flushed).unwrap();
        assert_eq!((times.count(), times.max()), (20, PATH), "{kind}: volatile at once");
        assert!(system.is_idle(), "{kind}");
    }
}

/// Takes every write into a buffer at the controller, which answers reads of it.
#[derive(Default)]
struct Holds(BTreeMap<LineAddr, LineBytes>);

impl Scheme for Holds {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn held(&self, line: LineAddr) -> Option<&LineBytes> {
        self.0.get(&line)
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox) -> Route {
        if self.0.contains_key(&read.line) { Route::Answered { cycles: 7 } } else { Route::Here }
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox,
    ) -> WriteRoute {
        self.0.insert(write.line, *write.data);
        out.done(write.ticket);
        WriteRoute::Taken
    }
}

#[test]
fn what_a_scheme_holds_itself_is_found_there_and_in_no_memory() {
    for kind in ["ooo", "inorder"] {
        let conflicting = || (0..17).map(|n| 256 * n);
        let mut log = OpLog::default();
        conflicting().for_each(|line| super::store(&mut log, line, line + 1));
        let mut system = run(&with(kind, &[]), Holds::default(), log);
        for line in conflicting() {
            let word = *system.line(LineAddr(line)).first_chunk().unwrap();
            assert_eq!(u64::from_le_bytes(word), line + 1, "{kind}");
        }
        assert!(!system.scheme().0.is_empty(), "{kind}: one was evicted");
        assert!(system.journal().unwrap().journal().is_empty(), "{kind}");
        assert_eq!(system.take_stats().memory.writes, 0, "{kind}");
        assert!(system.is_idle(), "{kind}");
    }
}
