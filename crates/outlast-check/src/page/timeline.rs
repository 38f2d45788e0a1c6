//! The calls of a run as a picture: a lane for each thread, one above for marks.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Crash, escape};
use crate::files::Report;
use crate::run::{Call, CallId, Change, Event, Step};

/// Calls that a picture has room for: more are left out before and behind the first finding.
const CALLS_MAX: usize = 3000;
/// Heights and widths in the picture's units.
const LANE: usize = 34;
const LEFT: usize = 96;

/// The kind of a call, for its colour; later kinds win.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    Name,
    Sync,
    Unsynced,
    Issued,
    Acked,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Name => "name",
            Self::Sync => "sync",
            Self::Unsynced => "unsynced",
            Self::Issued => "issued",
            Self::Acked => "acked",
        }
    }

    fn of(step: &Step) -> Self {
        match step {
            Step::Change(Change::Name { .. } | Change::Move { .. }) => Self::Name,
            Step::Change(_) => Self::Data,
            Step::Sync(_) => Self::Sync,
            Step::Unsynced(_) => Self::Unsynced,
            Step::Issued(_) | Step::Writes { .. } => Self::Issued,
            Step::Acked(_) => Self::Acked,
        }
    }
}

/// A call in the picture.
struct Shown<'a> {
    id: CallId,
    call: &'a Call,
    kind: Kind,
    /// Its first and last step.
    events: (usize, usize),
    number: Option<u64>,
}

/// The calls in the order of their steps.
fn calls<'a>(report: &'a Report) -> Vec<Shown<'a>> {
    let mut shown: Vec<Shown<'a>> = Vec::new();
    for (index, Event { call, step }) in report.run.events.iter().enumerate() {
        let kind = Kind::of(step);
        let number = match step {
            Step::Issued(number) | Step::Acked(number) => Some(*number),
            _ => None,
        };
        match shown.last_mut().filter(|last| last.id == *call) {
            Some(last) => {
                last.kind = last.kind.max(kind);
                last.events.1 = index;
            }
            None => shown.push(Shown {
                id: *call,
                call: &report.run.calls[*call as usize],
                kind,
                events: (index, index),
                number,
            }),
        }
    }
    shown
}

/// The picture with its key and, for readers without it, its calls as a list.
pub(super) fn html(report: &Report, first: Option<&Crash>) -> String {
    let all = calls(report);
    let count = all.len();
    let middle = first.map_or(0, |crash| all.partition_point(|shown| shown.id < crash.lost_call));
    let start = middle.saturating_sub(CALLS_MAX / 2).min(count.saturating_sub(CALLS_MAX));
    let end = (start + CALLS_MAX).min(count);
    let shown = &all[start..end];
    let left_out = match count - shown.len() {
        0 => String::new(),
        left_out => format!(
            "<p class=\"soft\">{} of {count} calls are shown, those around the first finding; {left_out} \
             are left out.</p>\n",
            shown.len()
        ),
    };
    format!(
        "{left_out}<div class=\"plot\" tabindex=\"0\" role=\"group\" aria-label=\"Time line of calls, \
         scrolls where there is no room\">\n{}</div>\n<p class=\"legend soft\"><span class=\"key data\">\
         </span>data and sizes <span class=\"key name\"></span>names <span class=\"key sync\"></span>\
         syncs <span class=\"key issued\"></span>begun <span class=\"key acked\"></span>acknowledged \
         <span class=\"key lost\"></span>lost <span class=\"key kept\"></span>kept behind it</p>\n",
        svg(shown, first)
    )
}

fn svg(shown: &[Shown<'_>], first: Option<&Crash>) -> String {
    let (lanes, names) = lanes(shown);
    let step = (1080 / shown.len().max(1)).clamp(7, 40);
    let width = LEFT + step * shown.len() + 40;
    let height = 30 + LANE * (names.len() + 1) + 26;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{} calls in {} lanes\" id=\"lanes\" data-left=\"{LEFT}\" data-step=\"{step}\">\n",
        shown.len(),
        names.len()
    );
    let y = |lane: usize| 30 + LANE * lane;
    let mut lane = |number: usize, name: &str| {
        let at = y(number);
        let _ = writeln!(
            svg,
            "<line class=\"lane\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at}\" y2=\"{at}\"/><text x=\"4\" \
             y=\"{}\">{name}</text>",
            width - 20,
            at + 4
        );
    };
    lane(0, "marks");
    for (number, name) in names.iter().enumerate() {
        lane(number + 1, name);
    }
    for (index, call) in shown.iter().enumerate() {
        let row = if call.number.is_some() { 0 } else { 1 + lanes[&call.call.tid] };
        let (x, y) = (LEFT + step * index + step / 2, y(row));
        svg += &mark(call, x, y, step, first);
    }
    if let Some(crash) = first {
        let behind = shown.partition_point(|call| call.events.0 < crash.event);
        let x = LEFT + step * behind;
        let _ = writeln!(
            svg,
            "<g id=\"crash-line\" transform=\"translate({x} 0)\"><line y1=\"8\" y2=\"{}\"/><text \
             y=\"{}\" text-anchor=\"middle\">power fails</text></g>",
            height - 20,
            height - 6
        );
    }
    svg + "</svg>\n"
}

/// The lane of each thread, and names of lanes. Threads that follow each other share one.
fn lanes(shown: &[Shown<'_>]) -> (BTreeMap<i32, usize>, Vec<String>) {
    let mut spans: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
    for (index, call) in shown.iter().enumerate().filter(|(_, call)| call.number.is_none()) {
        spans.entry(call.call.tid).or_insert((index, index)).1 = index;
    }
    let mut order: Vec<(i32, (usize, usize))> = spans.into_iter().collect();
    order.sort_by_key(|(_, span)| span.0);
    let mut lanes = BTreeMap::new();
    // The last call of each lane, and its threads.
    let mut ends: Vec<(usize, Vec<i32>)> = Vec::new();
    for (tid, (first, last)) in order {
        let free = ends.iter().position(|(end, _)| *end < first);
        let lane = free.unwrap_or_else(|| {
            ends.push((0, Vec::new()));
            ends.len() - 1
        });
        ends[lane].0 = last;
        ends[lane].1.push(tid);
        lanes.insert(tid, lane);
    }
    let name = |tids: &Vec<i32>| match tids.as_slice() {
        [0] => "mappings".to_owned(),
        [tid] => format!("thread {tid}"),
        tids => format!("{} threads", tids.len()),
    };
    (lanes, ends.iter().map(|(_, tids)| name(tids)).collect())
}

/// One call: a block, higher for a sync; a triangle for a mark.
fn mark(call: &Shown<'_>, x: usize, y: usize, step: usize, first: Option<&Crash>) -> String {
    let fate = match first {
        Some(crash) if crash.lost_call == call.id => " lost",
        Some(crash) if crash.kept_call == Some(call.id) => " kept",
        _ => "",
    };
    let wide = (step - 2).min(14);
    let left = x - wide / 2;
    let shape = match (call.kind, call.number) {
        (Kind::Issued, _) => format!("M{} {}h{wide}v8h-{wide}z", left, y - 4),
        (Kind::Acked, _) => {
            format!("M{} {}h{wide}l-{} 13z", left, y - 6, wide as f64 / 2.0)
        }
        (Kind::Sync | Kind::Unsynced, _) => format!("M{left} {}h{wide}v24h-{wide}z", y - 12),
        _ => format!("M{left} {}h{wide}v12h-{wide}z", y - 6),
    };
    let number = match call.number {
        Some(number) if step >= 14 => {
            format!(
                "<text class=\"small\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{number}</text>",
                y - 10
            )
        }
        _ => String::new(),
    };
    format!(
        "<g class=\"call {}{fate}\" data-call=\"{}\" data-event=\"{}\"><path d=\"{shape}\"><title>{}</title>\
         </path>{number}</g>\n",
        call.kind.class(),
        call.id,
        call.events.1,
        escape(&thread_and_text(call.call))
    )
}

fn thread_and_text(call: &Call) -> String {
    match call.tid {
        0 => call.text.clone(),
        tid => format!("{} (thread {tid})", call.text),
    }
}
