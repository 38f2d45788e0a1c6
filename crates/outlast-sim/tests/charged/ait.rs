//! Address indirection: each read needs its line's entry first, from a cache of `L` cycles beside the
//! controller, or else from a table in persistent memory.

use super::{READ, loads, run, store, with};
use outlast_sim::timed::{
    Cycle, NonPers, Outbox, ReadCause, ReadSeen, ReadTicket, Route, Scheme, WriteRoute, WriteSeen,
    WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, Sink};

/// Entries of a line of the table, which lies in banks of its own: of eight, the data has the first
/// four.
const TABLE: LineAddr = LineAddr(128);
const CAUSE: Cause = Cause::Scheme(0);

/// Whose entry is being read.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Read(ReadTicket, LineAddr),
    Write(WriteTicket, LineAddr),
}

/// The last lines whose entries were used, newest first.
struct Ait {
    cached: Vec<LineAddr>,
    ways: usize,
    latency: u64,
    lookups: u64,
    misses: u64,
    /// Lines go this much further up.
    shift: u64,
}

impl Ait {
    fn new(ways: usize, latency: u64) -> Self {
        Self { cached: Vec::new(), ways, latency, lookups: 0, misses: 0, shift: 0 }
    }

    fn is_cached(&mut self, line: LineAddr) -> bool {
        self.lookups += 1;
        let found = self.cached.iter().position(|held| *held == line);
        match found {
            Some(at) => _ = self.cached.remove(at),
            None => self.misses += 1,
        }
        self.cached.insert(0, line);
        self.cached.truncate(self.ways);
        found.is_some()
    }
}

impl Scheme for Ait {
    type Tag = ();
    type Page = ();
    type Token = Waits;
    const CAUSES: &'static [&'static str] = &["ait"];

    fn locate(&self, line: LineAddr) -> LineAddr {
        line.plus(self.shift)
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, out: &mut Outbox<Waits>) -> Route {
        let place = self.locate(read.line);
        if self.is_cached(read.line) {
            return Route::After { line: place, cycles: self.latency };
        }
        out.read_inside(TABLE, CAUSE, Waits::Read(read.ticket, place));
        Route::Wait
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Waits>,
    ) -> WriteRoute {
        let place = self.locate(write.line);
        if self.is_cached(write.line) {
            return WriteRoute::After { line: place, cycles: self.latency };
        }
        out.read_inside(TABLE, CAUSE, Waits::Write(write.ticket, place));
        WriteRoute::Wait
    }

    fn read_done(&mut self, _now: Cycle, token: Waits, _data: &LineBytes, out: &mut Outbox<Waits>) {
        match token {
            Waits::Read(ticket, place) => {
                out.release(ticket, Route::After { line: place, cycles: self.latency });
            }
            Waits::Write(ticket, place) => {
                let route = WriteRoute::After { line: place, cycles: self.latency };
                out.release_write(ticket, route);
            }
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        each("ait_lookups", "lookups", self.lookups as f64);
    }
}

/// Lines that miss the caches again and again: sixteen of one set of the last level, and one more.
fn conflicting(times: u64) -> impl Iterator<Item = u64> {
    (0..17 * times).map(|n| 256 * (n % 17))
}

#[test]
fn a_read_takes_a_lookup_more_or_a_read_of_the_table() {
    for kind in ["ooo", "inorder"] {
        let config = with(kind, &[]);
        let log = loads(conflicting(10));
        let mut without = run(&config, NonPers, log.clone());
        let reads = without.take_stats().caches.traffic.memory_reads;
        assert_eq!(reads, 170, "{kind}: every load goes to memory");
        for latency in [0, 7, 100] {
            // All entries are cached, or none when it is looked for.
            for (ways, misses) in [(17, 17), (16, 170)] {
                let mut system = run(&config, Ait::new(ways, latency), log.clone());
                let charged = reads * latency + misses * READ;
                let of = format!("{kind}, {ways} ways, {latency} cycles");
                assert_eq!(system.now().0, without.now().0 + charged, "{of}");
                let stats = system.take_stats();
                assert_eq!(stats.reads.of(ReadCause::Scheme(CAUSE)), misses, "{of}");
                assert_eq!(stats.reads.of(ReadCause::Load), reads, "{of}");
                assert_eq!(stats.memory.reads, reads + misses, "{of}");
                let named = stats.reads.each().find(|(_, name, _)| *name == "ait");
                assert_eq!(named.map(|(_, _, count)| count), Some(misses), "{of}");
                assert_eq!(stats.counters.len(), 1);
                let counter = stats.counters[0];
                assert_eq!((counter.name, counter.unit), ("ait_lookups", "lookups"));
                assert_eq!(counter.value, reads as f64, "{of}");
            }
        }
    }
}

#[test]
fn misses_that_join_look_up_once() {
    // Eight words of each line at the same time.
    let mut log = OpLog::default();
    for word in 0..8 * 32 {
        let at = LineAddr(word / 8).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
    }
    let system = run(&with("ooo", &[]), Ait::new(4, 20), log);
    assert_eq!((system.scheme().lookups, system.scheme().misses), (32, 32));
}

#[test]
fn a_write_is_durable_a_lookup_later_and_where_its_entry_says() {
    for kind in ["ooo", "inorder"] {
        // Line 0 misses its entry and then has it.
        let mut log = OpLog::default();
        for value in 1..=3 {
            store(&mut log, 0, value);
            log.op(LaneId(0), Op::Compute(4000));
            log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) });
            log.op(LaneId(0), Op::Sfence);
            log.op(LaneId(0), Op::Compute(400));
        }
        let times = |latency, ways| {
            let scheme = Ait { shift: 1 << 10, ..Ait::new(ways, latency) };
            let mut system = run(&with(kind, &[]), scheme, log.clone());
            assert_eq!(system.line(LineAddr(0))[0], 3, "{kind}: a load finds it");
            let stats = system.take_stats();
            assert_eq!((stats.writes.of(Cause::Flushed), stats.memory.writes), (3, 3), "{kind}");
            let timed = system.journal().unwrap();
            assert!(timed.journal().iter().all(|entry| entry.line == LineAddr(1 << 10)), "{kind}");
            (stats.persist.of(Cause::Flushed).unwrap().mean(), system.now().0)
        };
        let (mean, end) = times(0, 1);
        assert_eq!(mean, super::PATH as f64, "{kind}: the load has brought the entry");
        let (later, later_end) = times(30, 1);
        assert_eq!(later, mean + 30.0, "{kind}");
        assert_eq!(later_end, end + 3 * 30, "{kind}: three fences wait for it");
        let (missed, _) = times(30, 0);
        assert_eq!(missed, mean + 30.0 + READ as f64, "{kind}: none is cached");
    }
}
