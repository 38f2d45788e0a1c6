//! Views of the figures: selections of records and their arrangement. The page and the terminal show the
//! same.

use super::table4;
use crate::papers::view::{Columns, Drawing, Own, View, view};
use crate::record::Metric;

const FIG_1: &str = "Figure 1: what logging costs";
const FIG_2: &str = "Figure 2: flushes and fences in that cost";
const TABLE_1: &str = "Table I and figure 10: how dirty flushed lines are";
const FIG_3: &str = "Figure 3: data reuse";
const FIG_6: &str = "Figure 6: checksums against flushes";
const FIG_7: &str = "Figure 7: throughput";
const FIG_8: &str = "Figure 8: the 99th percentile";
const FIG_9: &str = "Figure 9: flushes";
const CLWB: &str = "clwb against clflushopt";
const MEMORIES: &str = "Memories that are slow to write";
const TABLE_4: &str = "Table IV: stale objects";

/// All, in the paper's order.
pub const ALL: &[View] = &[
    view("fig1", FIG_1, "Throughput lost against none").of(Metric::THROUGHPUT_LOSS),
    view("fig2", FIG_2, "Share of flushes and fences").of(Metric::PERSISTENCE_SHARE).saying(
        "Of what a scheme adds to a transaction; workloads on which that is lost in noise are left \
         out.",
    ),
    view("table1", TABLE_1, "Bytes stored to since the last flush, over the bytes flushed")
        .of(Metric::DIRTINESS)
        .counted()
        .saying("Lines of the heap, whatever the cache wrote back meanwhile."),
    view("table1", TABLE_1, "Bytes newer in the cache, over the bytes of lines found dirty")
        .of(Metric::DIRTINESS_FOUND)
        .counted()
        .drawn(Drawing::None)
        .on_page_only(),
    view("table1", TABLE_1, "The same as the first, with the log's lines")
        .of(Metric::DIRTINESS_ALL)
        .counted()
        .drawn(Drawing::None)
        .on_page_only(),
    view("table1", TABLE_1, "Flushes by words stored to")
        .of(Metric::FLUSHES_BY_WORDS)
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::Shares)
        .on_page_only(),
    view("fig3", FIG_3, "Used blocks by the number of transactions that touch them")
        .of(Metric::REUSE)
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::Shares),
    view("fig6", FIG_6, "Time of an object").of(Metric::OBJECT_TIME).saying(
        "Floor: the objects are read and the lines of their checksums written, by the same calls \
         and without computing anything.",
    ),
    view("fig6", FIG_6, "Lines flushed for an object")
        .of(Metric::OBJECT_LINES)
        .drawn(Drawing::None)
        .on_page_only(),
    view("fig6", FIG_6, "Time saved against flushing in the same grouping")
        .of(Metric::OBJECT_TIME_SAVED)
        .drawn(Drawing::None),
    view("fig7", FIG_7, "Throughput").of(Metric::THROUGHPUT),
    view("fig7", FIG_7, "Throughput gained")
        .of(Metric::THROUGHPUT_GAIN)
        .by(Columns::Pairs)
        .drawn(Drawing::None),
    view("fig8", FIG_8, "99th percentile of latency").of(Metric::LATENCY_P99),
    view("fig8", FIG_8, "99th percentile saved")
        .of(Metric::LATENCY_P99_SAVED)
        .by(Columns::Pairs)
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Flushes of the heap's lines").of(Metric::DATA_FLUSHES).counted(),
    view("fig9", FIG_9, "Those that found the line dirty")
        .of(Metric::DIRTY_DATA_FLUSHES)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Flushes of log lines")
        .of(Metric::LOG_FLUSHES)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Fewer flushes than undo: the heap's lines")
        .of(Metric::DATA_FLUSHES_SAVED)
        .counted(),
    view("fig9", FIG_9, "Fewer flushes than undo: the heap's lines, dirty")
        .of(Metric::DIRTY_DATA_FLUSHES_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Flushes of checksums")
        .of(Metric::SUMS_FLUSHES)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Those of them that found the line dirty")
        .of(Metric::DIRTY_SUMS_FLUSHES)
        .counted()
        .drawn(Drawing::None)
        .on_page_only(),
    view("fig9", FIG_9, "Fewer flushes than undo: the heap's lines and checksums")
        .of(Metric::SUMMED_FLUSHES_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Fewer flushes than undo: the heap's lines and checksums, dirty")
        .of(Metric::DIRTY_SUMMED_FLUSHES_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Fewer flushes than undo: heap and log")
        .of(Metric::ALL_FLUSHES_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Fewer flushes than undo: heap and log, dirty")
        .of(Metric::ALL_DIRTY_FLUSHES_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("fig9", FIG_9, "Fewer flushes than undo on the unaligned layout: the heap's lines")
        .of(Metric::DATA_FLUSHES_SAVED)
        .counted()
        .by(Columns::Pairs),
    view("fig9", FIG_9, "The same, dirty")
        .of(Metric::DIRTY_DATA_FLUSHES_SAVED)
        .counted()
        .by(Columns::Pairs)
        .drawn(Drawing::None)
        .on_page_only(),
    view("fig9", FIG_9, "The same with the log")
        .of(Metric::ALL_FLUSHES_SAVED)
        .counted()
        .by(Columns::Pairs)
        .drawn(Drawing::None)
        .on_page_only(),
    view("fig9", FIG_9, "The same with the log, dirty")
        .of(Metric::ALL_DIRTY_FLUSHES_SAVED)
        .counted()
        .by(Columns::Pairs)
        .drawn(Drawing::None)
        .on_page_only(),
    view("fig9", FIG_9, "Of these, by coalescing")
        .of(Metric::SAVED_BY_COALESCING)
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::None)
        .saying(
            "By what lies beside what alone: undo on the one layout against undo on the other.",
        ),
    view("fig9", FIG_9, "Of these, by skipping")
        .of(Metric::SAVED_BY_SKIPPING)
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::None)
        .saying("Against undo on the same layout, in points of the unaligned one's flushes."),
    view("fig9", FIG_9, "Fewer flushes of undo by what lies beside what")
        .of(Metric::COALESCING_SAVED)
        .counted()
        .drawn(Drawing::None),
    view("clwb", CLWB, "Throughput with clwb above that with clflushopt").of(Metric::CLWB_GAIN),
    view("memories", MEMORIES, "Throughput above that of undo, on the timed machine")
        .of(Metric::GAIN_OVER_UNDO)
        .counted()
        .by(Columns::Classes)
        .saying("One socket of the paper's machine, one lane, with each of these memories."),
    view("memories", MEMORIES, "Throughput on the timed machine")
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::None)
        .on_page_only(),
    view("memories", MEMORIES, "99th percentile of latency on the timed machine")
        .of(Metric::LATENCY_P99)
        .counted()
        .by(Columns::Classes)
        .drawn(Drawing::None)
        .on_page_only(),
    view("table4", TABLE_4, "Stale objects of 256 bytes at a crash, and what became of them")
        .drawn(Drawing::Own(Own { text: table4::text, html: table4::html })),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Record};

    #[test]
    fn views_arrange_by_scheme_by_pair_and_by_class() {
        let of = |metric, scheme: &str| Record::new(Kind::Native, "tpcc", scheme, metric, 1.0);
        let reuse = |class| {
            let record = Record::new(Kind::Sim, "tpcc", "none", Metric::REUSE, 50.0);
            record.class(class)
        };
        let records = [
            of(Metric::THROUGHPUT_GAIN, "undo-archapt").class("undo").threads(2),
            of(Metric::THROUGHPUT, "undo").write_latency_ns(150),
            reuse("1"),
            reuse("2"),
        ];
        let grid = |title: &str| {
            let view = ALL.iter().find(|view| view.title == title).unwrap();
            let grid = view.grid(&records);
            (grid.rows.join("|"), grid.columns.join("|"))
        };
        let both = |rows: &str, columns: &str| (rows.to_owned(), columns.to_owned());
        assert_eq!(grid("Throughput gained"), both("tpcc, 2 threads", "undo-archapt / undo"));
        assert_eq!(grid("Throughput"), both("tpcc, +150 ns", "undo"));
        let uses = "Used blocks by the number of transactions that touch them";
        assert_eq!(grid(uses), both("tpcc", "1|2"));
    }
}
