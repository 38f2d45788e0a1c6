//! What it costs, by closed formulas in traffic, and what two epochs leave each other.

use outlast_sim::timed::Outbox;
use outlast_trace::{LineAddr, OpLog};

use super::*;
use crate::shared::redo::testing::{
    SAVED, Traffic, bare, counter, options, pass, run, store, stream, work,
};
use crate::shared::redo::{Asked, Build, Place, Places};

fn chosen(lines: u64, pages: u64, ways: u64, page_after: u64) -> (Config, Shape) {
    let config = Config::new(&work(), &options(), lines, pages, true).unwrap();
    let (line_sets, page_sets) = (lines / ways, pages / ways);
    (config, Shape { line_sets, page_sets, ways, page_after, fault: None })
}

/// The first `of_each` lines of each of the first `pages` pages.
fn lines(pages: u64, of_each: u64) -> impl Iterator<Item = u64> {
    (0..pages).flat_map(move |page| (0..of_each).map(move |line| PAGE_LINES * page + line))
}

#[test]
fn a_page_of_many_lines_is_merged_as_one_and_one_of_few_line_by_line() {
    for kind in ["ooo", "inorder"] {
        for (pages, of_each) in [(1, 1), (20, 1), (5, 8), (5, 9), (3, 64)] {
            for page_after in [4, 8, 64] {
                let mut log = OpLog::default();
                store(&mut log, lines(pages, of_each), 7);
                pass(&mut log);
                let (config, shape) = chosen(2048, 4096, 16, page_after);
                let mut system = run(&bare(kind), config, shape, log);
                let stats = system.take_stats();
                let of = format!("{kind}: {pages} of {of_each}, pages after {page_after}");
                let is_whole = of_each > page_after;
                let (whole, single) = if is_whole { (pages, 0) } else { (0, pages * of_each) };
                // A new page takes its lines along.
                let filled = whole * (PAGE_LINES + page_after);
                let home = whole * PAGE_LINES + single + SAVED;
                let expected = Traffic {
                    data: pages * of_each + SAVED,
                    directory: (whole + single + SAVED).div_ceil(8),
                    records: 2,
                    home: (home, home),
                    filled: (filled, filled),
                };
                assert_eq!(Traffic::of(&stats), expected, "{of}");
                let blocks = (whole + single + SAVED).div_ceil(512);
                assert_eq!(counter(&stats, "block_operations"), 4 * whole + blocks, "{of}");
                let mut stored = |line| system.line(LineAddr(line))[0];
                assert!(lines(pages, of_each).all(|line| stored(line) == 7), "{of}");
            }
        }
    }
}

#[test]
fn a_checkpoint_overlaps_with_the_next_epoch_and_one_past_the_tables_only_in_part() {
    let time = |entries: u64| {
        let mut log = OpLog::default();
        store(&mut log, 0..200, 7);
        pass(&mut log);
        let (config, shape) = chosen(entries, 16, 16, PAGE_LINES);
        let mut system = run(&bare("inorder"), config, shape, log);
        let stats = system.take_stats();
        let past = 200 + SAVED - entries.min(200 + SAVED);
        assert!(counter(&stats, "lines_past_tables") >= past, "{entries} entries");
        assert_eq!(counter(&stats, "commits"), 1);
        system.now().0
    };
    let (all, some, none) = (time(1024), time(64), time(16));
    assert!(all < some && some < none, "{all} {some} {none}");
}

#[test]
fn the_next_epoch_ends_when_its_time_is_over_and_waits_for_the_checkpoint() {
    for kind in ["ooo", "inorder"] {
        let mut log = OpLog::default();
        for value in 1..=5 {
            store(&mut log, 0..300, value);
            pass(&mut log);
        }
        let (config, shape) = chosen(2048, 16, 16, PAGE_LINES);
        let mut system = run(&bare(kind), config, shape, log);
        let stats = system.take_stats();
        let counts = ["epochs", "commits", "epochs_early", "lines_past_tables"];
        assert_eq!(counts.map(|name| counter(&stats, name)), [5, 5, 0, 0], "{kind}");
        let mut stored = |line| system.line(LineAddr(line))[0];
        assert!((0..300).all(|line| stored(line) == 5), "{kind}");
    }
}

#[test]
fn a_set_without_a_free_way_ends_the_epoch() {
    for kind in ["ooo", "inorder"] {
        let (lines, entries, ways) = (100, 4, 4);
        let mut log = OpLog::default();
        stream(&mut log, (0..lines).map(|page| PAGE_LINES * page), 7);
        let (config, shape) = chosen(entries, 16, ways, 8);
        let mut system = run(&bare(kind), config, shape, log);
        let stats = system.take_stats();
        // The entries of the epoch before are free again by then: five hundred instructions suffice.
        assert_eq!(counter(&stats, "epochs_early"), lines / (entries + 1), "{kind}");
        let mut stored = |page| system.line(LineAddr(PAGE_LINES * page))[63];
        assert!((0..lines).all(|page| stored(page) == 7), "{kind}");
    }
}

/// Entries stay in their ways until their checkpoint is complete.
#[test]
fn two_epochs_share_each_set() {
    let (config, shape) = chosen(4, 4, 4, 8);
    let mut tables = shape.build(config.layout);
    let mut out = Outbox::default();
    let mut place = |tables: &mut tables::Tables, line| {
        let asked = Asked { line: LineAddr(line), is_whole: true, has_spilled: false };
        tables.place(asked, &mut out)
    };
    let copy = |slot| config.layout.line_slot(slot);
    let placed: Vec<_> = (0..3).map(|line| place(&mut tables, line)).collect();
    assert_eq!(placed, [0, 1, 2].map(|slot| Place::At(copy(slot))));
    assert_eq!(tables.seal().len(), 3);
    assert_eq!(tables.locate(LineAddr(1)), copy(1), "the last epoch has it");
    assert_eq!(place(&mut tables, 1), Place::At(copy(3)), "and keeps its copy");
    assert_eq!(tables.locate(LineAddr(1)), copy(3));
    assert_eq!(place(&mut tables, 0), Place::Full);
    assert_eq!(place(&mut tables, 1), Place::At(copy(3)));
    tables.free();
    assert_eq!(tables.locate(LineAddr(2)), LineAddr(2), "it is home");
    let placed: Vec<_> = [0, 5, 6, 7].map(|line| place(&mut tables, line)).to_vec();
    assert!(placed[..3].iter().all(|place| matches!(place, Place::At(_))));
    assert_eq!(placed[3], Place::Full);
    assert_eq!(tables.seal().len(), 4);
}

#[test]
fn tables_of_uneven_sets_are_refused() {
    for (key, count) in [(LINE_ENTRIES, 17), (PAGE_ENTRIES, 33)] {
        let uneven = Options::default().with(key.name, count);
        let prepared = ThyNvm.prepare(&ThyNvm.variants()[0], &work(), &uneven, None);
        let message = prepared.map(|_| ()).unwrap_err().to_string();
        let expected = format!("scheme.{} is {count}: a multiple of the 16 ways", key.name);
        assert!(message.contains(&expected), "{message}");
    }
}
