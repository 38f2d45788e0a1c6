//! What it costs, by closed formulas in traffic.

use std::sync::Arc;

use outlast_sim::timed::{
    LaneOps, MachineConfig, NonPers, ReadCause, RunStats, Scheme, Setup, Source, System,
};
use outlast_sim::{Cause, Domain};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use super::ports::{CONSOLIDATION, JOURNAL, OLD_LINE, SubPages, TABLE};
use super::*;

/// Pages of the program.
const PAGES: u64 = 256;

/// A machine whose TLB holds `in_tlb` pages, in one set.
fn bare(kind: &str, in_tlb: u64) -> MachineConfig {
    let mut machine =
        MachineConfig::from_toml("bare", include_str!("../shared/bare.toml")).unwrap();
    let ways = in_tlb.to_string();
    for (key, value) in [("core.kind", kind), ("tlb.page", "4 KiB"), ("tlb.l2_ways", &ways)] {
        machine.set_option(key, value).unwrap();
    }
    machine
}

fn config(tx_pages: u64, shadows: u64, records: u64) -> Config {
    let base = Layout::journal_base(PAGES, shadows);
    let journal = Rings { base, rings: 2, records, data: 0 };
    let layout = Layout { pages: PAGES, shadows, journal, undo: 256 };
    let (walks_wait, one_way) = (false, false);
    Config { layout, tx_pages, walks_wait, one_way, is_translated: true, fault: None }
}

fn run<S: Scheme>(machine: &MachineConfig, scheme: S, log: OpLog) -> System<S> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let mut system = System::new(machine, scheme, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// A transaction that stores to each of these lines once, and time behind it.
fn transaction(log: &mut OpLog, lines: impl IntoIterator<Item = u64>, value: u64) {
    log.op(LaneId(0), Op::TxBegin);
    for line in lines {
        log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
    }
    log.op(LaneId(0), Op::TxEnd);
    log.op(LaneId(0), Op::Compute(100_000));
}

/// Loads of one line of each of these pages.
fn visit(log: &mut OpLog, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        let at = LineAddr(LINES * page).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    log.op(LaneId(0), Op::Compute(100_000));
}

/// Writes of data, whatever made them leave the caches, and those of the scheme's own.
fn writes(stats: &RunStats) -> [u64; 5] {
    let data = [Cause::Evicted, Cause::Flushed, Cause::Forced].map(|cause| stats.writes.of(cause));
    let [journal, consolidation, table, old] =
        [JOURNAL, CONSOLIDATION, TABLE, OLD_LINE].map(|cause| stats.writes.of(cause));
    [data.iter().sum(), journal, consolidation, table, old]
}

#[test]
fn lines_are_written_once_for_each_commit_and_pages_journaled() {
    for kind in ["ooo", "inorder"] {
        // Lines of a page, and pages.
        for (lines, pages) in [(1, 1), (5, 1), (1, 3), (2, 4), (1, 30), (64, 2)] {
            for times in [1, 2] {
                let mut log = OpLog::default();
                let all = || (0..pages).flat_map(|page| (0..lines).map(move |n| LINES * page + n));
                (0..times).for_each(|value| transaction(&mut log, all(), value + 1));
                let mut system =
                    run(&bare(kind, 64), SubPages::new(config(64, 64, 512), Image::new(&[])), log);
                let stats = system.take_stats();
                let expected = [times * lines * pages, times * pages.div_ceil(3), 0, 0, 0];
                assert_eq!(writes(&stats), expected, "{kind}: {pages} of {lines}, {times} times");
                assert!(all().all(|line| u64::from(system.line(LineAddr(line))[0]) == times));
                assert!(system.is_idle() && system.scheme().lines.is_empty(), "{kind}");
            }
        }
    }
}

#[test]
fn a_line_that_leaves_the_caches_before_the_commit_is_written_no_more_often() {
    for kind in ["ooo", "inorder"] {
        // Sixteen lines of a set stay in the caches, and the others leave.
        let lines = || (0..40).map(|n| 256 * n);
        let mut log = OpLog::default();
        transaction(&mut log, lines(), 9);
        let scheme = SubPages::new(config(64, 64, 512), Image::new(&[]));
        let mut system = run(&bare(kind, 64), scheme, log);
        let stats = system.take_stats();
        assert_eq!(writes(&stats), [40, 14, 0, 0, 0], "{kind}");
        assert!(stats.writes.of(Cause::Evicted) >= 24, "{kind}");
        assert!(lines().all(|line| system.line(LineAddr(line))[0] == 9), "{kind}");
    }
}

#[test]
fn consolidation_copies_the_fewer_lines_or_those_of_the_second_page() {
    for (kind, one_way) in [("ooo", false), ("ooo", true), ("inorder", false)] {
        for lines in [0, 1, 7, 31, 32, 33, 63, 64] {
            let mut log = OpLog::default();
            transaction(&mut log, 0..lines, 7);
            if lines == 0 {
                // Both copies of a line were committed, the second at home.
                (0..2).for_each(|value| transaction(&mut log, [5], value));
            }
            visit(&mut log, 1..6);
            let config = Config { one_way, ..config(64, 8, 512) };
            let mut system = run(&bare(kind, 4), SubPages::new(config, Image::new(&[])), log);
            let stats = system.take_stats();
            let copied = if one_way { lines } else { lines.min(LINES - lines) };
            let reads = stats.reads.of(ReadCause::Scheme(CONSOLIDATION));
            let [_, journal, consolidation, ..] = writes(&stats);
            let of = format!("{kind}, {lines} lines, one way: {one_way}");
            assert_eq!((reads, consolidation), (copied, copied), "{of}");
            // A commit and the consolidation, or the two commits.
            assert_eq!(journal, 2, "{of}");
            let page = system.scheme().pages.get(0);
            let is_at_home = one_way || lines <= LINES / 2;
            assert_eq!(page.committed.primary == 0, is_at_home, "{of}");
            assert_eq!((page.other, page.current), (layout::NONE, 0), "{of}");
            assert_eq!(system.scheme().pages.free.len(), 8, "{of}");
            assert!((0..lines).all(|line| system.line(LineAddr(line))[0] == 7), "{of}");
        }
    }
}

#[test]
fn no_walk_waits_for_a_consolidation_unless_that_is_chosen() {
    for kind in ["ooo", "inorder"] {
        let time = |walks_wait| {
            let mut log = OpLog::default();
            transaction(&mut log, 0..32, 7);
            let at = |page| LineAddr(LINES * page).start();
            for page in 1..5 {
                log.op(LaneId(0), Op::Load { at: at(page), len: 8, depends: Some(1) });
            }
            let config = Config { walks_wait, ..config(64, 8, 512) };
            run(&bare(kind, 4), SubPages::new(config, Image::new(&[])), log).now().0
        };
        assert!(time(true) > time(false), "{kind}");
    }
}

#[test]
fn pages_beyond_the_limit_are_logged_line_by_line() {
    for kind in ["ooo", "inorder"] {
        for (tx_pages, shadows, shadowed) in [(2, 64, 2), (64, 3, 3), (64, 0, 0)] {
            let mut log = OpLog::default();
            let all = || (0..6).flat_map(|page| (0..4).map(move |n| LINES * page + n));
            transaction(&mut log, all(), 7);
            let scheme = SubPages::new(config(tx_pages, shadows, 512), Image::new(&[]));
            let mut system = run(&bare(kind, 64), scheme, log);
            let stats = system.take_stats();
            let of = format!("{kind}, {shadowed} pages");
            let old = 2 * 4 * (6 - shadowed);
            let journal = (shadowed + 1u64).div_ceil(3);
            assert_eq!(writes(&stats), [24, journal, 0, 0, old], "{of}");
            assert!(all().all(|line| system.line(LineAddr(line))[0] == 7), "{of}");
        }
    }
}

#[test]
fn the_table_is_written_when_half_of_the_journal_is_full() {
    let mut log = OpLog::default();
    // Pages 0 to 3 have their entries in one line, page 4 has its in another.
    (0..8).for_each(|n| transaction(&mut log, [LINES * (n % 5)], n));
    let mut system =
        run(&bare("inorder", 64), SubPages::new(config(64, 64, 8), Image::new(&[])), log);
    // Behind the fourth and the eighth commit; the second time page 4 and pages 0 to 2.
    let [_, journal, _, table, _] = writes(&system.take_stats());
    assert_eq!((journal, table), (8 + 2, 1 + 2));
}

#[test]
fn a_transaction_that_needs_all_of_the_journal_waits_for_it() {
    let mut log = OpLog::default();
    let all = || (0..12).map(|page| LINES * page);
    transaction(&mut log, [0], 1);
    (2..5).for_each(|value| transaction(&mut log, all(), value));
    let mut system =
        run(&bare("inorder", 64), SubPages::new(config(64, 64, 4), Image::new(&[])), log);
    assert!(all().all(|line| system.line(LineAddr(line))[0] == 4));
    // One record, and three times four; the point moves before each of the three, and at the end.
    assert_eq!(writes(&system.take_stats())[1], 1 + 3 * 4 + 4);
}

#[test]
fn reads_cost_nothing_more() {
    let mut log = OpLog::default();
    (0..3).for_each(|n| visit(&mut log, (0..20).map(|page| 3 * page + n)));
    let machine = bare("inorder", 64);
    let without = run(&machine, NonPers, log.clone()).now();
    assert_eq!(
        run(&machine, SubPages::new(config(64, 64, 8), Image::new(&[])), log).now(),
        without
    );
}

#[test]
fn what_it_cannot_have_is_refused_by_name() {
    let work = |stores| Work {
        streams: crate::Streams::Generated { tx_stores: stores },
        image: Arc::default(),
        end: LineAddr(LINES * 1000),
        lanes: 1,
        is_nested: false,
        whole: None,
    };
    let variant = &ShadowSubPaging.variants()[0];
    let small = Options::default().with(JOURNAL_RECORDS.name, 2);
    let prepare = |stores| ShadowSubPaging.prepare(variant, &work(stores), &small, None);
    let refused = prepare(6).unwrap_err().to_string();
    assert!(refused.contains("a journal of 2 records is too small: a transaction may need 3"));
    let prepared = prepare(5).unwrap();
    let mut machine = bare("inorder", 4);
    machine.set_option("tlb.page", "2 MiB").unwrap();
    let refused = prepared.machine(&machine, Setup::default(), Vec::new()).err().unwrap();
    assert!(refused.to_string().contains("tlb.page is 2097152 B"), "{refused}");
}
