//! What it costs, by closed formulas in traffic.

use outlast_trace::{LineAddr, OpLog};

use super::*;
use crate::shared::redo::PAGE_LINES;
use crate::shared::redo::testing::{
    SAVED, Traffic, bare, counter, options, pass, run, store, stream, work,
};

fn chosen(entries: u64, ways: u64, keeps: bool) -> (Config, Shape) {
    let config = Config::new(&work(), &options(), 0, entries, false).unwrap();
    (config, Shape { sets: entries / ways, ways, keeps, fault: None })
}

/// The first `of_each` lines of each of the first `pages` pages.
fn lines(pages: u64, of_each: u64) -> impl Iterator<Item = u64> {
    (0..pages).flat_map(move |page| (0..of_each).map(move |line| PAGE_LINES * page + line))
}

/// Traffic of `count` epochs with `dirty` dirty lines in `pages` pages. Of the pages `new` had no
/// copies.
fn epochs(count: u64, dirty: u64, pages: u64, new: u64) -> Traffic {
    let (home, filled) = (count * PAGE_LINES * pages, PAGE_LINES * new);
    Traffic {
        data: count * dirty,
        directory: count * pages.div_ceil(8),
        records: 2 * count,
        home: (home, home),
        filled: (filled, filled),
    }
}

#[test]
fn a_page_is_copied_when_it_is_new_and_written_home_in_each_epoch() {
    for kind in ["ooo", "inorder"] {
        for (pages, of_each) in [(1, 1), (1, 64), (9, 1), (20, 5)] {
            for (count, keeps) in [(1, true), (3, true), (3, false)] {
                let mut log = OpLog::default();
                for value in 1..=count {
                    store(&mut log, lines(pages, of_each), value as u8);
                    pass(&mut log);
                }
                let (config, shape) = chosen(64, 16, keeps);
                let mut system = run(&bare(kind), config, shape, log);
                let stats = system.take_stats();
                let of = format!("{kind}: {pages} of {of_each}, {count} times, kept: {keeps}");
                // The page with the registers is one more.
                let (all, dirty) = (pages + 1, pages * of_each + SAVED);
                let new = if keeps { all } else { all * count };
                assert_eq!(Traffic::of(&stats), epochs(count, dirty, all, new), "{of}");
                let operations = 2 * (all * count + new) + count * all.div_ceil(512);
                assert_eq!(counter(&stats, "block_operations"), operations, "{of}");
                assert_eq!(counter(&stats, "commits"), count, "{of}");
                let mut stored = |line| u64::from(system.line(LineAddr(line))[0]);
                assert!(lines(pages, of_each).all(|line| stored(line) == count), "{of}");
            }
        }
    }
}

#[test]
fn a_set_of_changed_pages_ends_the_epoch_and_one_of_kept_pages_does_not() {
    for kind in ["ooo", "inorder"] {
        for (sets, ways) in [(1, 1), (1, 4), (4, 4), (8, 2)] {
            let (entries, pages) = (sets * ways, 100);
            let mut log = OpLog::default();
            stream(&mut log, (0..pages).map(|page| PAGE_LINES * page), 7);
            let (config, shape) = chosen(entries, ways, true);
            let mut system = run(&bare(kind), config, shape, log);
            let stats = system.take_stats();
            let of = format!("{kind}: {sets} sets of {ways}");
            let early = pages / (entries + 1);
            assert_eq!(counter(&stats, "epochs_early"), early, "{of}");
            // The line that finds no room, and the registers, go past the table.
            assert_eq!(counter(&stats, "lines_past_tables"), early * (1 + SAVED), "{of}");
            assert_eq!(counter(&stats, "pages_copied_on_write"), pages - early, "{of}");
            let mut stored = |page| system.line(LineAddr(PAGE_LINES * page))[63];
            assert!((0..pages).all(|page| stored(page) == 7), "{of}");
        }
    }
}

#[test]
fn sixty_four_lines_of_a_page_take_one_entry() {
    let mut log = OpLog::default();
    store(&mut log, lines(8, PAGE_LINES), 3);
    pass(&mut log);
    let (config, shape) = chosen(16, 16, true);
    let mut system = run(&bare("inorder"), config, shape, log);
    let stats = system.take_stats();
    let counts = ["epochs_early", "lines_past_tables", "entries_committed"];
    assert_eq!(counts.map(|name| counter(&stats, name)), [0, 0, 9]);
}

#[test]
fn a_table_of_uneven_sets_is_refused() {
    let uneven = Options::default().with(TABLE_ENTRIES.name, 17);
    let prepared = ShadowPaging.prepare(&ShadowPaging.variants()[0], &work(), &uneven, None);
    let message = prepared.map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("scheme.table_entries is 17: a multiple of the 16 ways"), "{message}");
}
