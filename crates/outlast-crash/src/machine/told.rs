//! A crash in words: its runs, the recovery's writes, the transactions before it.

use std::collections::{BTreeMap, BTreeSet};

use outlast_schemes::Patch;
use outlast_sim::Cause;
use outlast_sim::timed::Cycle;
use outlast_trace::{LineAddr, PoolOffset};

use super::crashes::Run;
use super::explain::Earlier;
use super::history::{self, There};
use super::states::word_of;
use crate::explain::{EVENTS_MAX, Event, STEPS_MAX, Step, Transaction, run_lines};

/// Places that are listed one by one, at most.
const PLACES_MAX: usize = 8;

/// Transactions that are listed, the last ones before the crash.
const TRANSACTIONS_MAX: usize = 8;

/// The names of runs.
pub(super) const PROGRAM: &str = "the program";
pub(super) const REST: &str = "the rest of the program";

/// A run of the program up to its crash, with the lines that its last entries brought to memory.
pub(super) fn program(
    name: &str,
    run: &Run,
    (point, now): (usize, Cycle),
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> crate::explain::Run {
    let journal = run.journal().journal();
    let from = point.saturating_sub(EVENTS_MAX);
    let touched: BTreeSet<u64> =
        (from..point).map(|index| journal.get(index).line.start().0).collect();
    let of = |bytes: &[u8], at: u64| {
        bytes.get(at as usize..at as usize + 64).map_or_else(|| vec![0; 64], <[u8]>::to_vec)
    };
    let state = |at: &u64| {
        let (before, now) = (of(&run.base, *at), of(image, *at));
        let name = place(PoolOffset(*at));
        crate::explain::state_of(*at, name, [before, now.clone(), now.clone(), now])
    };
    let (lines, lines_left_out) = run_lines(touched.iter().filter_map(state).collect());
    crate::explain::Run {
        name: name.to_owned(),
        unit: "entry of the journal".to_owned(),
        crash_at: point as u64,
        left_out: from as u64,
        events: events(run, (point, now), place),
        lines,
        lines_left_out,
    }
}

/// A recovery up to its crash.
pub(super) fn recovery_run(
    patches: &[Patch],
    stop: usize,
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> crate::explain::Run {
    let event = |(at, step): (usize, Step)| Event {
        at: at as u64,
        lane: None,
        what: step.what,
        place: step.place,
        fate: Some(crate::explain::Fate::Durable),
    };
    crate::explain::Run {
        name: "the recovery from that".to_owned(),
        unit: "write".to_owned(),
        crash_at: stop as u64,
        left_out: stop.saturating_sub(STEPS_MAX) as u64,
        events: steps(&patches[..stop], image, place)
            .0
            .into_iter()
            .enumerate()
            .map(event)
            .collect(),
        lines: Vec::new(),
        lines_left_out: 0,
    }
}

/// What a recovery kept.
pub(super) fn kept(there: &There) -> String {
    match there {
        There::Epoch { epoch, .. } => format!("memory as of epoch {epoch}"),
        There::Transactions(counts) => {
            let told =
                counts.iter().map(|(data, count)| format!("{count} transactions of data {data}"));
            match told.collect::<Vec<_>>() {
                none if none.is_empty() => "memory without any transaction".to_owned(),
                some => some.join(", "),
            }
        }
    }
}

/// How the rest of a program begins.
pub(super) fn goes_on(earlier: &Earlier) -> Event {
    Event {
        at: 0,
        lane: None,
        what: format!("goes on: recovery kept {}", kept(&earlier.there)),
        place: String::new(),
        fate: None,
    }
}

/// The journal's last entries before the crash, with what was acknowledged meanwhile.
fn events(
    run: &Run,
    (point, now): (usize, Cycle),
    place: &dyn Fn(PoolOffset) -> String,
) -> Vec<Event> {
    let journal = run.journal();
    let from = point.saturating_sub(EVENTS_MAX);
    let mut events = Vec::new();
    let since = if from == 0 { Cycle(0) } else { journal.at(from) };
    let mut acknowledged = journal
        .acknowledged_by(now)
        .iter()
        .filter(|(at, _)| *at >= since)
        .map(|(at, tx)| (*at, *tx))
        .peekable();
    for index in from..point {
        let at = journal.at(index);
        while let Some((_, tx)) = acknowledged.next_if(|(told, _)| *told < at) {
            events.push(ack(index, tx));
        }
        let entry = journal.journal().get(index);
        events.push(Event {
            at: index as u64,
            lane: None,
            what: format!("cycle {}: {}", at.0, told(entry.cause, entry.words.len())),
            place: place(entry.line.start()),
            fate: Some(crate::explain::Fate::Durable),
        });
    }
    events.extend(acknowledged.map(|(_, tx)| ack(point, tx)));
    events
}

fn ack(at: usize, tx: outlast_trace::TxId) -> Event {
    Event {
        at: at as u64,
        lane: None,
        what: format!(
            "acknowledges transaction {} of data {}",
            history::number_of(tx),
            history::data_of(tx)
        ),
        place: String::new(),
        fate: None,
    }
}

/// Why words came to memory.
fn told(cause: Cause, words: usize) -> String {
    let why = match cause {
        Cause::Evicted => "evicted",
        Cause::Unasked => "written back by the adversary",
        Cause::Flushed => "flushed",
        Cause::Streamed => "streamed",
        Cause::Stored => "stored",
        Cause::Logged => "logged",
        Cause::Forced => "forced out",
        Cause::Metadata => "written as metadata",
        Cause::Scheme(_) => "written by the scheme",
    };
    let plural = if words == 1 { "" } else { "s" };
    format!("{words} word{plural} {why}")
}

/// A recovery's writes in words, and how many are left out.
pub(super) fn steps(
    patches: &[Patch],
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> (Vec<Step>, u64) {
    let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for patch in patches {
        let stored = || word_of(image, patch.at.0).unwrap_or(0);
        let old = memory.get(&patch.at.0).copied().unwrap_or_else(stored);
        let new = u64::from_le_bytes(patch.word);
        memory.insert(patch.at.0, new);
        if all.len() < STEPS_MAX {
            let what = format!("writes {new:#x} at {:#x}, where {old:#x} was", patch.at.0);
            all.push(Step { what, place: place(patch.at) });
        }
    }
    (all, patches.len().saturating_sub(STEPS_MAX) as u64)
}

/// Lines in the order in which they were read, neighbours together.
pub(super) fn ranges(lines: &[LineAddr]) -> Vec<String> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match all.last_mut().filter(|last| last.1 == line.0) {
            Some(last) => last.1 += 1,
            None => all.push((line.0, line.0 + 1)),
        }
    }
    let left_out = all.len().saturating_sub(PLACES_MAX);
    let told = |&(from, to): &(u64, u64)| match to - from {
        1 => format!("line {:#x}", from * 64),
        count => format!("{count} lines from {:#x}", from * 64),
    };
    let mut told: Vec<String> = all.iter().take(PLACES_MAX).map(told).collect();
    if left_out > 0 {
        told.push(format!("{left_out} more places"));
    }
    told
}

/// The last transactions that were acknowledged.
pub(super) fn transactions(run: &Run, now: Cycle) -> Vec<Transaction> {
    let all = run.journal().acknowledged_by(now);
    let last = &all[all.len().saturating_sub(TRANSACTIONS_MAX)..];
    let told = |(at, tx): &(Cycle, outlast_trace::TxId)| Transaction {
        id: history::number_of(*tx) as u64,
        lane: history::data_of(*tx) as u16,
        does: format!("acknowledged in cycle {}", at.0),
        acknowledged: true,
    };
    last.iter().map(told).collect()
}
