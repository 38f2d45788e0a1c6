//! The paper's Table IV as printed.
//!
//! Source: *Architecture-Aware, High Performance Transaction for Persistent Memory*, section V-B,
//! Table IV: sums over 100 crashes. The paper does not say whether they are of Archapt on undo or
//! on redo logging.

/// Counts of one workload under one policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// I-obj: inconsistent objects of physically committed transactions.
    pub inconsistent: u32,
    /// DI-obj: those detected by checksums.
    pub detected: u32,
    /// CC-obj: those that checksums could not correct.
    pub uncorrected: u32,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// Its name in the names of claims, by which records are joined to it.
    pub key: &'static str,
    /// The system under the workload: Redis or SQLite.
    pub system: &'static str,
    /// The paper's name of the workload.
    pub workload: &'static str,
    /// Under LRU, pseudo-LRU, bimodal insertion and random eviction, in this order.
    pub cells: [Cell; 4],
}

const fn row(
    key: &'static str,
    system: &'static str,
    workload: &'static str,
    counts: [u32; 12],
) -> Published {
    const fn cell(counts: [u32; 12], at: usize) -> Cell {
        let (inconsistent, detected, uncorrected) = (counts[at], counts[at + 1], counts[at + 2]);
        Cell { inconsistent, detected, uncorrected }
    }
    let cells = [cell(counts, 0), cell(counts, 3), cell(counts, 6), cell(counts, 9)];
    Published { key, system, workload, cells }
}

/// The nine rows.
pub const PUBLISHED: [Published; 9] = [
    row("redis_tpcc", "Redis", "TPC-C", [539, 539, 0, 504, 504, 0, 429, 429, 0, 798, 798, 0]),
    row("redis_ycsb_a", "Redis", "YCSB-A", [901, 901, 0, 776, 776, 0, 88, 88, 0, 1435, 1435, 0]),
    row("redis_ycsb_b", "Redis", "YCSB-B", [0; 12]),
    row("redis_ycsb_d", "Redis", "YCSB-D", [0; 12]),
    row("redis_ycsb_e", "Redis", "YCSB-E", [0; 12]),
    row("redis_ycsb_f", "Redis", "YCSB-F", [29, 29, 0, 24, 24, 0, 7, 7, 0, 56, 56, 0]),
    row("sqlite_tpcc", "SQLite", "TPC-C", [782, 782, 0, 713, 713, 0, 335, 335, 0, 941, 941, 0]),
    row(
        "sqlite_linkbench",
        "SQLite",
        "LinkBench",
        [605, 605, 0, 583, 583, 0, 305, 305, 0, 889, 889, 0],
    ),
    row("sqlite_ycsb", "SQLite", "YCSB", [45, 45, 0, 38, 38, 0, 25, 25, 0, 96, 96, 0]),
];
