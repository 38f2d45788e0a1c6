//! Whether the rules allow one image that is fully said: which stores persisted, and the bytes.

use std::collections::BTreeSet;

use outlast_trace::{FlushKind, LaneId, Op, OpLog};

use crate::memory::model::{Clflush, Model, Tear, Wide};

/// An image with the reason why it should be possible.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The medium before the run, all of it durable.
    pub before: &'a [u8],
    /// The run.
    pub log: &'a OpLog,
    /// The operation before which it crashed.
    pub op: usize,
    /// How many words of that operation had become visible.
    pub part: usize,
    /// Up to where the program had gone on meanwhile.
    pub told: usize,
    /// The stores that persisted beyond those that had to: operation, and which of its words.
    pub persisted: &'a [(u32, u32)],
    /// The bytes of the medium.
    pub image: &'a [u8],
}

/// One word's share of a store.
#[derive(Debug)]
struct Piece {
    op: usize,
    piece: usize,
    lane: LaneId,
    stream: bool,
    /// Part of a store that persists as a whole.
    whole_line: bool,
    word: u64,
    bytes: Vec<(u64, u8)>,
}

/// Checks a claim, rule by rule.
///
/// # Errors
/// Names the rule that forbids it.
pub fn accept(model: Model, claim: &Claim<'_>) -> Result<(), String> {
    let pieces = pieces(model, claim);
    let mut persisted = BTreeSet::new();
    for &(op, piece) in claim.persisted {
        let found = pieces.iter().position(|p| (p.op, p.piece) == (op as usize, piece as usize));
        persisted.insert(found.ok_or(format!("no store {op}.{piece} was issued by then"))?);
    }
    let floor: Vec<usize> =
        (0..pieces.len()).filter(|&i| is_durable(model, claim, &pieces[i])).collect();
    persisted.extend(floor.iter().copied());
    // What the floor implies by rule 10 is durable too.
    let mut pending = floor;
    while let Some(i) = pending.pop() {
        let implied = (0..pieces.len()).filter(|&j| implies(&pieces, i, j));
        for j in implied.collect::<Vec<_>>() {
            if persisted.insert(j) {
                pending.push(j);
            }
        }
    }
    check_told(claim)?;
    check_prefixes(model, &pieces, &persisted)?;
    check_streams(&pieces, &persisted)?;
    check_bytes(claim, &pieces, &persisted)
}

fn pieces(model: Model, claim: &Claim<'_>) -> Vec<Piece> {
    let mut all = Vec::new();
    for (op, (lane, what)) in claim.log.iter().enumerate().take(claim.op + 1) {
        let (at, bytes, stream, whole_line): (u64, &[u8], bool, bool) = match what {
            Op::Store { at, bytes } | Op::Rmw { at, bytes } => (at.0, bytes, false, false),
            Op::StoreNt { at, bytes } => (at.0, bytes, true, false),
            Op::Store64 { line, bytes } => (line.0 * 64, bytes, true, model.tear == Tear::Line),
            _ => continue,
        };
        let first = at / 8;
        let last = (at + bytes.len() as u64 - 1) / 8;
        for (piece, word) in (first..=last).enumerate() {
            if op == claim.op && piece >= claim.part {
                break;
            }
            let inside = (at..).zip(bytes.iter().copied()).filter(|(at, _)| at / 8 == word);
            let bytes = inside.collect();
            all.push(Piece { op, piece, lane, stream, whole_line, word, bytes });
        }
    }
    all
}

/// Rules 7, 8 and 13: whether a store is durable for certain.
fn is_durable(model: Model, claim: &Claim<'_>, piece: &Piece) -> bool {
    let row = model.domain.row();
    if if piece.stream { row.has_durable_streams } else { row.has_durable_stores } {
        return true;
    }
    let ops: Vec<(LaneId, Op<'_>)> = claim.log.iter().take(claim.op).collect();
    let is_fence = |op: &Op<'_>| matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. });
    if piece.stream {
        let later = &ops[piece.op + 1..];
        return later.iter().any(|(lane, op)| *lane == piece.lane && is_fence(op));
    }
    let span = row.unit_bytes / 64;
    (piece.op + 1..ops.len()).any(|at| {
        let (lane, Op::Flush { kind, line }) = ops[at] else { return false };
        if line.0 / span != piece.word / 8 / span {
            return false;
        }
        ops[at + 1..].iter().any(|(l, op)| {
            *l == lane
                && match (kind, model.clflush) {
                    (FlushKind::Clflush, Clflush::MfenceOnly) => matches!(op, Op::Mfence),
                    (FlushKind::Clflush, Clflush::WithStores) => {
                        is_fence(op)
                            || matches!(
                                op,
                                Op::Store { .. } | Op::StoreNt { .. } | Op::Store64 { .. }
                            )
                    }
                    _ => is_fence(op),
                }
        })
    })
}

/// Rule 10: whether piece `i` cannot be durable without the older stream `j`.
fn implies(pieces: &[Piece], i: usize, j: usize) -> bool {
    let whole = pieces[i].whole_line && pieces[j].op == pieces[i].op;
    whole || (j < i && pieces[j].stream && pieces[j].word == pieces[i].word)
}

/// Rule 11: only the lane whose store waits in the buffer may have gone on.
fn check_told(claim: &Claim<'_>) -> Result<(), String> {
    if claim.told == claim.op {
        return Ok(());
    }
    let (lane, _) = claim.log.get(claim.op);
    let gone_on = claim.log.iter().take(claim.told).skip(claim.op + 1);
    let mut bad = gone_on
        .filter(|(l, op)| *l != lane || matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. }));
    match bad.next() {
        None => Ok(()),
        Some(_) => Err("rule 11: the store buffer had drained by then".to_owned()),
    }
}

/// Rule 2: ordinary stores persist in order within their unit.
fn check_prefixes(
    model: Model,
    pieces: &[Piece],
    persisted: &BTreeSet<usize>,
) -> Result<(), String> {
    let unit = |piece: &Piece| match model.tear {
        Tear::Word => piece.word,
        Tear::Line => piece.word / (model.domain.row().unit_bytes / 8),
    };
    for (i, later) in pieces.iter().enumerate() {
        for (j, older) in pieces[..i].iter().enumerate() {
            let apart = model.wide == Wide::Unordered
                && later.op == older.op
                && later.word / 8 == older.word / 8;
            let ordered = !later.stream && !older.stream && unit(later) == unit(older) && !apart;
            if ordered && persisted.contains(&i) && !persisted.contains(&j) {
                return Err(format!(
                    "rule 2: store {}.{} persisted before {}.{} of the same line",
                    later.op, later.piece, older.op, older.piece
                ));
            }
        }
    }
    Ok(())
}

fn check_streams(pieces: &[Piece], persisted: &BTreeSet<usize>) -> Result<(), String> {
    for &i in persisted {
        if let Some(j) =
            (0..pieces.len()).find(|&j| implies(pieces, i, j) && !persisted.contains(&j))
        {
            return Err(format!(
                "rule 10: store {}.{} persisted and not stream {}.{} to the same word",
                pieces[i].op, pieces[i].piece, pieces[j].op, pieces[j].piece
            ));
        }
    }
    Ok(())
}

fn check_bytes(
    claim: &Claim<'_>,
    pieces: &[Piece],
    persisted: &BTreeSet<usize>,
) -> Result<(), String> {
    let mut expected = claim.before.to_vec();
    for (_, op) in claim.log.iter().take(claim.op) {
        if let Op::Grow { len } = op {
            expected.resize(len as usize, 0);
        }
    }
    for &i in persisted {
        for &(at, byte) in &pieces[i].bytes {
            expected[at as usize] = byte;
        }
    }
    if expected == claim.image {
        return Ok(());
    }
    let at = expected.iter().zip(claim.image).position(|(a, b)| a != b);
    Err(format!("the bytes differ from what persisted, first at {at:x?}"))
}
