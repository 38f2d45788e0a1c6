//! From a replayed crash of the exhaustive checker to events, lines and steps.

use std::collections::BTreeSet;

use outlast_pmem::Site;
use outlast_trace::{FlushKind, Op, OpLog, PoolOffset};

use super::{EVENTS_MAX, Event, Fate, LINES_MAX, Line, Recovery, Run, STEPS_MAX, Step, Word};
use crate::memory::{CrashPoint, ReplayedCrash, lines_of, stored_bytes, stored_words};

/// The object at an offset.
pub type Places<'p> = dyn Fn(PoolOffset) -> String + 'p;

/// A run up to its crash. `floor` is the image when nothing persists that need not.
pub fn run_of(
    name: String,
    crash: &ReplayedCrash,
    point: &CrashPoint,
    floor: &[u8],
    sites: &[Site],
    places: &Places<'_>,
) -> Run {
    let end = point.op.max(point.told).min(crash.log.len());
    let shown = |op: &usize| is_shown(&crash.log.get(*op).1);
    let ops: Vec<usize> = (0..end).filter(shown).collect();
    let from = ops.len().saturating_sub(EVENTS_MAX);
    let is_ack = |op: &usize| matches!(crash.log.get(*op).1, Op::Ack(_));
    let earlier: Vec<usize> = ops[..from].iter().copied().filter(is_ack).collect();
    let left_out = (from - earlier.len()) as u64;
    let kept = earlier.into_iter().chain(ops[from..].iter().copied());
    let event = |op: usize| {
        let site = sites.get(op).and_then(|site| site.label);
        let of_op = |what: &Op<'_>| fate(crash, op, what).filter(|_| op < point.op);
        event_of(&crash.log, op, site, places, of_op)
    };
    let events = kept.map(event).collect();
    let (lines, lines_left_out) = lines(crash, point, floor, places);
    let (unit, crash_at) = ("operation".to_owned(), point.op as u64);
    Run { name, unit, crash_at, left_out, events, lines, lines_left_out }
}

/// The last events before operation `end`, and how many earlier ones are left out.
pub fn events_until<'l>(
    log: &'l OpLog,
    end: usize,
    places: &Places<'_>,
    fate: impl Fn(usize, &Op<'l>) -> Option<Fate>,
) -> (Vec<Event>, u64) {
    let ops: Vec<usize> = (0..end.min(log.len())).filter(|op| is_shown(&log.get(*op).1)).collect();
    let from = ops.len().saturating_sub(EVENTS_MAX);
    let event = |&op: &usize| event_of(log, op, None, places, |what| fate(op, what));
    (ops[from..].iter().map(event).collect(), from as u64)
}

fn event_of<'l>(
    log: &'l OpLog,
    op: usize,
    site: Option<&'static str>,
    places: &Places<'_>,
    fate: impl FnOnce(&Op<'l>) -> Option<Fate>,
) -> Event {
    let (lane, what) = log.get(op);
    Event {
        at: op as u64,
        lane: Some(lane.0),
        what: told(&what, site),
        place: place(&what, places),
        fate: fate(&what),
    }
}

/// Whether an operation has to do with what persists.
fn is_shown(op: &Op<'_>) -> bool {
    !matches!(
        op,
        Op::Compute(_)
            | Op::Load { .. }
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::Signal { .. }
            | Op::Wait { .. }
    )
}

/// The fate of an operation's bytes in a crash.
fn fate(crash: &ReplayedCrash, op: usize, what: &Op<'_>) -> Option<Fate> {
    stored_bytes(what)?;
    let of = |pieces: &[(u32, u32)]| pieces.iter().filter(|piece| piece.0 as usize == op).count();
    let missing: usize = crash.open.iter().map(|unit| of(&unit.missing)).sum();
    let by_chance: usize = crash.persisted.iter().map(|pieces| of(pieces)).sum();
    let pieces = stored_words(what).len();
    Some(match (missing, by_chance) {
        (0, 0) => Fate::Durable,
        (0, _) => Fate::Reached,
        (missing, _) if missing < pieces => Fate::Part,
        _ => Fate::Missing,
    })
}

/// The lines that the run stored to, those that a crash can decide first.
fn lines(
    crash: &ReplayedCrash,
    point: &CrashPoint,
    floor: &[u8],
    places: &Places<'_>,
) -> (Vec<Line>, u64) {
    let mut newest = crash.before.clone();
    newest.resize(crash.image.len(), 0);
    let mut touched = BTreeSet::new();
    for op in 0..point.op.min(crash.log.len()) {
        let what = crash.log.get(op).1;
        if let Some((at, bytes)) = stored_bytes(&what) {
            newest[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
            touched.extend(lines_of(&what).map(|line| line.start().0));
        }
    }
    let line = |at: &u64| {
        let of = |bytes: &[u8]| bytes.get(*at as usize..*at as usize + 64).map(<[u8]>::to_vec);
        state_of(
            *at,
            places(PoolOffset(*at)),
            [
                of(&crash.before).unwrap_or_else(|| vec![0; 64]),
                of(floor)?,
                of(&crash.image)?,
                of(&newest)?,
            ],
        )
    };
    let all: Vec<Line> = touched.iter().filter_map(line).collect();
    run_lines(all)
}

/// Those first that a crash can decide; and how many are left out.
pub fn run_lines(mut all: Vec<Line>) -> (Vec<Line>, u64) {
    all.sort_by_key(|line| (line.fate == Fate::Durable, line.at));
    let left_out = all.len().saturating_sub(LINES_MAX) as u64;
    all.truncate(LINES_MAX);
    (all, left_out)
}

/// A line by what it held before, must hold, holds, and was stored last; nothing where a run left it
/// as it was.
pub fn state_of(at: u64, place: String, states: [Vec<u8>; 4]) -> Option<Line> {
    let [before, floor, image, newest] = states;
    let fate = match (floor == newest, image == newest, image == floor) {
        (true, true, _) => Fate::Durable,
        (_, true, _) => Fate::Reached,
        (_, _, true) => Fate::Missing,
        _ => Fate::Part,
    };
    let word = |bytes: &[u8], number: usize| {
        u64::from_le_bytes(bytes[8 * number..][..8].try_into().expect("eight bytes were taken"))
    };
    let words: Vec<Word> = (0..8)
        .map(|number| Word {
            at: at + 8 * number as u64,
            before: word(&before, number),
            image: word(&image, number),
            newest: word(&newest, number),
        })
        .filter(|word| word.before != word.newest || word.image != word.newest)
        .collect();
    (!words.is_empty()).then_some(Line { at, place, fate, words })
}

/// The steps of the last recovery of an image.
pub fn recovery_of(
    (log, sites): &(OpLog, Vec<Site>),
    image: &[u8],
    places: &Places<'_>,
) -> Recovery {
    let mut memory = image.to_vec();
    let mut steps = Vec::new();
    for (index, (_, op)) in log.iter().enumerate() {
        if !is_shown(&op) {
            continue;
        }
        let site = sites.get(index).and_then(|site| site.label);
        let mut what = told(&op, site);
        if let Some((at, bytes)) = stored_bytes(&op) {
            let end = at.0 as usize + bytes.len();
            memory.resize(memory.len().max(end), 0);
            let old = &mut memory[at.0 as usize..end];
            if bytes.len() == 8 {
                what = format!("{what}, where {} was", value(old));
            }
            old.copy_from_slice(bytes);
        }
        steps.push(Step { what, place: place(&op, places) });
    }
    let left_out = steps.len().saturating_sub(STEPS_MAX) as u64;
    steps.truncate(STEPS_MAX);
    Recovery { steps, left_out, ..Recovery::default() }
}

fn place(op: &Op<'_>, places: &Places<'_>) -> String {
    match *op {
        Op::Store { at, .. } | Op::StoreNt { at, .. } | Op::Rmw { at, .. } => places(at),
        Op::Store64 { line, .. } | Op::Flush { line, .. } => places(line.start()),
        _ => String::new(),
    }
}

/// An operation in words, with its purpose.
fn told(op: &Op<'_>, site: Option<&'static str>) -> String {
    let what = match *op {
        Op::Store { bytes, .. } => format!("stores {}", value(bytes)),
        Op::Rmw { bytes, .. } => format!("exchanges for {}", value(bytes)),
        Op::StoreNt { bytes, .. } => format!("streams {}", value(bytes)),
        Op::Store64 { bytes, .. } => format!("streams {}", value(bytes)),
        Op::Flush { kind, .. } => match kind {
            FlushKind::Clwb => "flushes (clwb)".to_owned(),
            FlushKind::ClflushOpt => "flushes (clflushopt)".to_owned(),
            FlushKind::Clflush => "flushes (clflush)".to_owned(),
        },
        Op::Sfence | Op::Mfence => "fences".to_owned(),
        Op::TxBegin => "begins a transaction".to_owned(),
        Op::TxEnd => "ends the transaction".to_owned(),
        Op::TxAbort => "aborts the transaction".to_owned(),
        Op::Ack(tx) => format!("acknowledges transaction {}", tx.0),
        Op::Grow { len } => format!("grows the pool to {len} bytes"),
        other => format!("{other:?}"),
    };
    match site {
        Some(site) => format!("{what}: {site}"),
        None => what,
    }
}

/// Stored bytes in short.
fn value(bytes: &[u8]) -> String {
    match <[u8; 8]>::try_from(bytes) {
        Ok(word) => format!("{:#x}", u64::from_le_bytes(word)),
        Err(_) => format!("{} bytes", bytes.len()),
    }
}
