//! The scheme ports, each used by a scheme that does one thing.

use crate::machine::{Script, bare};
use outlast_sim::timed::{
    Answer, Cycle, LaneOps, MachineConfig, Outbox, ReadSeen, Route, RunError, Scheme, SchemeWrite,
    Setup, Source, StoreSeen, System, WriteRoute, WriteSeen,
};
use outlast_sim::{Cause, Domain, LineBytes};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn small(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    for (key, value) in
        [("l1.size", "512 B"), ("l2.size", "1 KiB"), ("l2.ways", "4"), ("llc.size", "2 KiB")]
    {
        config.set_option(key, value).unwrap();
    }
    config
}

fn run<S: Scheme>(config: &MachineConfig, scheme: S, log: OpLog) -> System<S> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let mut system = System::new(config, scheme, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// Stores to lines far apart and near, over and over, with an epoch now and then.
fn program(stores: u64) -> OpLog {
    let mut log = OpLog::default();
    for n in 0..stores {
        let line = n * 37 % 96;
        let at = PoolOffset(64 * line + 8 * (n % 8));
        log.op(LaneId(0), Op::Store { at, bytes: &(n + 1).to_le_bytes() });
        log.op(LaneId(0), Op::Load { at: PoolOffset(64 * (n * 11 % 96)), len: 8, depends: None });
        if n % 50 == 49 {
            log.op(LaneId(0), Op::Epoch);
        }
    }
    log
}

fn reference(log: &OpLog, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for (_, op) in log.iter() {
        if let Op::Store { at, bytes } = op {
            memory[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    memory
}

/// A first write of a line goes to a place of its own, as under address indirection.
#[derive(Default)]
struct Elsewhere {
    places: BTreeMap<LineAddr, LineAddr>,
}

const SHADOW: u64 = 1000;

impl Scheme for Elsewhere {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn locate(&self, line: LineAddr) -> LineAddr {
        self.places.get(&line).copied().unwrap_or(line)
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
        WriteRoute::There(*self.places.entry(write.line).or_insert(write.line.plus(SHADOW)))
    }
}

#[test]
fn what_is_redirected_is_found_again_and_nothing_lies_where_it_was() {
    for kind in ["ooo", "inorder"] {
        let log = program(600);
        let expected = reference(&log, 96 * 64);
        let mut system = run(&small(kind), Elsewhere::default(), log);
        for (number, line) in expected.as_chunks::<64>().0.iter().enumerate() {
            assert_eq!(&system.line(LineAddr(number as u64)), line, "{kind}: line {number}");
        }
        let journal = system.journal().unwrap().journal();
        assert!(journal.len() > 50 && journal.iter().all(|entry| entry.line.0 >= SHADOW));
    }
}

/// Lines carry the epoch of their last store, through all levels.
#[derive(Default)]
struct Epochs {
    epoch: u32,
    stored: BTreeMap<LineAddr, u32>,
    moved: u64,
    scanned: BTreeSet<u8>,
}

impl Scheme for Epochs {
    type Tag = u32;
    type Page = ();
    type Token = u32;

    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<u32>) -> Answer {
        self.epoch += 1;
        out.call(now.plus(3), self.epoch);
        Answer::Proceed
    }

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut u32,
        _page: Option<&mut ()>,
        _out: &mut Outbox<u32>,
    ) -> Answer {
        let line = store.at.line();
        if store.dirty {
            assert_eq!(*tag, self.stored[&line], "{line} brought its tag along");
        }
        *tag = self.epoch + 1;
        self.stored.insert(line, *tag);
        Answer::Proceed
    }

    fn moved_down(
        &mut self,
        _now: Cycle,
        level: u8,
        line: LineAddr,
        _data: &LineBytes,
        tag: u32,
        _out: &mut Outbox<u32>,
    ) {
        assert!(level == 2 || level == 3);
        assert_eq!(tag, self.stored[&line], "{line} took its tag down to {level}");
        self.moved += 1;
    }

    fn step(&mut self, _now: Cycle, token: u32, out: &mut Outbox<u32>) {
        assert!(token <= self.epoch);
        (1..=3).for_each(|level| out.scan(level));
    }

    fn scanned(
        &mut self,
        _now: Cycle,
        level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut u32,
        out: &mut Outbox<u32>,
    ) {
        self.scanned.insert(level);
        if dirty {
            assert!(*tag > 0 && *tag <= self.stored[&line], "{line} in level {level}");
            out.force(line);
        }
    }
}

#[test]
fn tags_travel_with_lines_and_a_scan_forces_them_out() {
    for kind in ["ooo", "inorder"] {
        let log = program(600);
        let expected = reference(&log, 96 * 64);
        let system = run(&small(kind), Epochs::default(), log);
        let scheme = system.scheme();
        assert!(scheme.moved > 50 && scheme.scanned.len() == 3, "{kind}");
        // The last store is before the last epoch, so its scan has made everything durable.
        let journal = system.journal().unwrap().journal();
        let mut image = vec![0; 96 * 64];
        journal.cursor().advance_to_entry(journal.len(), &mut image, |_| {});
        assert_eq!(image, expected, "{kind}");
    }
}

/// Scans a level at every epoch.
struct Scans(u8);

impl Scheme for Scans {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn epoch(&mut self, _now: Cycle, _lane: LaneId, out: &mut Outbox) -> Answer {
        out.scan(self.0);
        Answer::Proceed
    }
}

#[test]
fn a_lookup_during_a_scan_waits_for_the_end_of_a_set() {
    // What a scan costs a load that comes `work` instructions behind the scan's begin.
    let cost = |level: u8, work: u32, load: u64| {
        let mut log = OpLog::default();
        log.op(LaneId(0), Op::Load { at: PoolOffset(0), len: 8, depends: None });
        log.op(LaneId(0), Op::Epoch);
        log.op(LaneId(0), Op::Compute(work));
        log.op(LaneId(0), Op::Load { at: PoolOffset(load), len: 8, depends: Some(1) });
        let cycles = |tags: &str| {
            let mut config = bare("inorder");
            config.set_option("caches.scan_tags", tags).unwrap();
            run(&config, Scans(level), log.clone()).now().0
        };
        cycles("1") - cycles("0")
    };
    // The last level has 256 sets of 16 lines, the first 8 sets of 4: the wait falls by one with
    // each cycle until a set's tags are read, and then is that of a whole set but one.
    for (level, load, ways, sets) in [(3, 1 << 20, 16, 256), (1, 0, 4, 8)] {
        let costs: Vec<u64> =
            (1..ways * sets.min(6)).map(|n| cost(level, n as u32, load)).collect();
        assert_eq!(costs.iter().max(), Some(&(ways - 1)), "level {level}: {costs:?}");
        for pair in costs.windows(2).take((ways * 3) as usize) {
            assert_eq!(pair[1], (pair[0] + ways - 1) % ways, "level {level}: {costs:?}");
        }
        assert_eq!(cost(level, (ways * sets) as u32 + 100, load), 0, "it is over");
        assert_eq!(cost(2, 3, 0), 0, "a hit in the first level asks no other");
    }
}

/// Stores wait until a write of the scheme's own is durable, and lines until the same.
#[derive(Default)]
struct Permits {
    asked: BTreeSet<LineAddr>,
    granted: BTreeSet<LineAddr>,
    waits: u64,
    pages: BTreeSet<u64>,
}

impl Scheme for Permits {
    type Tag = ();
    type Page = ();
    type Token = LineAddr;

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<LineAddr>,
    ) -> Answer {
        let line = store.at.line();
        if self.granted.contains(&line) {
            return Answer::Proceed;
        }
        self.waits += 1;
        if self.asked.insert(line) {
            out.write(SchemeWrite {
                line: line.plus(SHADOW),
                words: 1,
                data: [1; 64],
                cause: Cause::Metadata,
                token: line,
            });
        }
        Answer::Wait
    }

    fn write_durable(&mut self, _now: Cycle, token: LineAddr, out: &mut Outbox<LineAddr>) {
        self.granted.insert(token);
        out.wake();
    }

    fn may_write(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        _cause: Cause,
        _out: &mut Outbox<LineAddr>,
    ) -> Answer {
        assert!(self.granted.contains(&line), "{line} was stored to");
        Answer::Proceed
    }

    fn translated(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        page: u64,
        _bits: &mut (),
        _out: &mut Outbox<LineAddr>,
    ) {
        self.pages.insert(page);
    }
}

#[test]
fn a_store_that_has_to_wait_waits_for_the_schemes_write() {
    for kind in ["ooo", "inorder"] {
        let mut config = small(kind);
        config.set_option("tlb.page", "4 KiB").unwrap();
        let mut script = Script::default();
        for n in 0..120 {
            script.store(n * 7 % 160, n);
        }
        let system = run(&config, Permits::default(), script.0);
        let scheme = system.scheme();
        assert_eq!(scheme.asked, scheme.granted, "{kind}");
        assert!(scheme.waits >= scheme.asked.len() as u64);
        assert_eq!(scheme.pages, (0..3).collect(), "{kind}: every page was walked for");
        let journal = system.journal().unwrap().journal();
        let mut permitted = BTreeSet::new();
        for entry in journal.iter() {
            match entry.cause {
                Cause::Metadata => _ = permitted.insert(entry.line.0 - SHADOW),
                _ => assert!(permitted.contains(&entry.line.0), "{kind}: {}", entry.line),
            }
        }
    }
}

/// Calls itself again after this number of cycles, and lets no transaction end.
struct Waiting(u64);

impl Scheme for Waiting {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn end(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox) -> Answer {
        out.call(now, ());
        Answer::Wait
    }

    fn step(&mut self, now: Cycle, _token: (), out: &mut Outbox) {
        out.call(now.plus(self.0), ());
    }
}

/// A run in which time stands still, crawls or jumps while nothing is done ends with what each
/// core waits for.
#[test]
fn a_scheme_that_lets_nobody_go_on_ends_the_run() {
    for kind in ["inorder", "ooo"] {
        for cycles in [0, 1_000, 1_000_000_000_000] {
            let mut log = OpLog::default();
            for op in [Op::TxBegin, Op::Store { at: PoolOffset(64), bytes: &[1; 8] }, Op::TxEnd] {
                log.op(LaneId(0), op);
            }
            let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
            let system = System::new(&small(kind), Waiting(cycles), Setup::default(), vec![source]);
            let error = system.unwrap().run_to_end().unwrap_err();
            assert!(matches!(error, RunError::Stuck { .. }), "{kind}, {cycles}: {error}");
        }
    }
}
