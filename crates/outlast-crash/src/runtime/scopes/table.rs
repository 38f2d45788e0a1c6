//! The scopes: small programs that between them reach every part of the runtime.

mod blocks;
mod later;
mod plain;
mod rings;
mod sums;

use outlast::Scheme;

use super::Scope;
use super::script::{LaneScript, Shape, Step};

/// Word cells that share lines, and room behind them for the transaction after recovery.
const PACKED: Shape =
    Shape { words: 4, stride: 8, blocks: 0, block_bytes: 64, large_bytes: 0, filled: false };

/// Word cells with a line each.
const APART: Shape = Shape { stride: 64, ..PACKED };

/// Two word cells and two block cells.
const BLOCKS: Shape = Shape { words: 2, blocks: 2, block_bytes: 128, large_bytes: 5000, ..PACKED };

fn write(cells: &[u64]) -> Vec<Step> {
    vec![Step::Write(cells.to_vec())]
}

/// A transaction that is acknowledged by a later `SYNC`.
fn later(steps: Vec<Step>) -> Vec<Step> {
    [vec![Step::Later], steps].concat()
}

/// Instead of a transaction.
fn sync() -> Vec<Step> {
    vec![Step::Sync]
}

/// Instead of a transaction.
fn look() -> Vec<Step> {
    vec![Step::Look]
}

fn scope(name: &'static str, about: &'static str, shape: Shape, lanes: Vec<LaneScript>) -> Scope {
    Scope {
        name,
        about,
        shape,
        lock_always: lanes.len() > 1,
        lanes,
        pool_bytes: 96 << 10,
        lane_bytes: 1024,
        preemptions: 1,
        schedules_max: u64::MAX,
        crashes: 2,
        shared_lane: false,
        of_pages: false,
        queue_lines: 2,
        step_every: 2,
        beside_rings: 1,
        pages_beside: 0,
        littered: false,
        from_ack: 0,
        checksums: false,
        used: false,
        of_other_form: false,
    }
}

/// *words*: `transactions` in all, dealt to `lanes` in turn, each reading and writing all of
/// `words` words but one, on lines of their own or shared.
pub fn words(transactions: usize, words: u64, lanes: usize, packed: bool) -> Scope {
    let mut scripts = vec![Vec::new(); lanes];
    for tx in 0..transactions {
        let cells: Vec<u64> =
            (0..words).filter(|c| words == 1 || *c != tx as u64 % words).collect();
        let spared = Step::Read(tx as u64 % words);
        scripts[tx % lanes].push(vec![Step::Write(cells), spared]);
    }
    let shape = Shape { words, stride: if packed { 8 } else { 64 }, ..PACKED };
    scope("words", "transactions over a few words, for the verification rate", shape, scripts)
}

/// Any scripts over this number of words, which share lines.
#[cfg(feature = "machine")]
pub(super) fn of_words(
    name: &'static str,
    about: &'static str,
    words: u64,
    lanes: Vec<LaneScript>,
) -> Scope {
    scope(name, about, Shape { words, ..PACKED }, lanes)
}

/// All fixed scopes that a scheme can be tried in.
pub fn of(scheme: Scheme) -> impl Iterator<Item = Scope> {
    all().into_iter().filter(move |scope| scope.tries(scheme))
}

/// All fixed scopes, small ones first.
pub fn all() -> Vec<Scope> {
    [plain::all(), later::all(), rings::all(), blocks::all(), sums::all()].concat()
}

/// Three lines of ring: records take at most one.
fn ring() -> Scope {
    Scope { lane_bytes: 256, used: true, ..scope("", "", PACKED, Vec::new()) }
}

/// The same for several lanes.
fn rings() -> Scope {
    Scope { lock_always: true, ..ring() }
}

/// Transactions that change two words each, in turn.
fn turns(first: u64, count: u64) -> LaneScript {
    (first..first + count).map(|i| write(&[i % 4, (i + 1) % 4])).collect()
}
