//! Events of some cycles in Chrome's trace format, which Perfetto opens.
//!
//! Each core has a row of what it did: `run`, or the cause for which nothing retired; and a row of
//! its transactions. Flushes, and reads and writes of memory, overlap, so they are asynchronous
//! slices, each with an identity of its own. What is under way to memory stands as counters. Each
//! bank of a memory channel has a row of the commands that it got: `ACT` and `PRE` for as long as
//! they keep the bank, `RD` and `WR` for their data's time on the bus, `REF` for as long as it
//! takes. Channels of the volatile memory follow those of the persistent one.
//! Nothing here has any influence on the run.

use super::{stats::Lost, time::Cycle};
use outlast_trace::LineAddr;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Slices beyond these are dropped, and the file says so.
const SLICES_MAX: usize = 2_000_000;
/// Rows of banks begin here, behind those of cores.
const BANK_ROWS: usize = 1000;

/// A row of overlapping slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Flush(u8),
    Read,
    Write(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slice {
    kind: Kind,
    line: LineAddr,
    from: Cycle,
    to: Cycle,
}

/// A row without overlaps.
#[derive(Clone, Debug, Default)]
struct Row {
    slices: Vec<(Cycle, Cycle, &'static str)>,
}

/// A timeline of some cycles.
#[derive(Clone, Debug)]
pub struct Timeline {
    from: Cycle,
    to: Cycle,
    cores: Vec<Row>,
    transactions: Vec<Row>,
    /// Commands, by channel and bank.
    banks: BTreeMap<(u8, u8), Row>,
    /// Flushes on their way through the caches, by core and slot.
    flushing: Vec<(u8, u16, LineAddr, Cycle)>,
    slices: Vec<Slice>,
    counters: Vec<(Cycle, &'static str, u64)>,
    dropped: u64,
}

impl Timeline {
    pub(crate) fn new(from: Cycle, to: Cycle, cores: usize) -> Self {
        Self {
            from,
            to,
            cores: vec![Row::default(); cores],
            transactions: vec![Row::default(); cores],
            banks: BTreeMap::new(),
            flushing: Vec::new(),
            slices: Vec::new(),
            counters: Vec::new(),
            dropped: 0,
        }
    }

    /// The part of a span that lies in the window.
    fn clip(&self, from: Cycle, to: Cycle) -> Option<(Cycle, Cycle)> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }

    /// A core retired nothing for a while.
    pub(crate) fn lost(&mut self, core: u8, from: Cycle, to: Cycle, cause: Lost) {
        if let Some((from, to)) = self.clip(from, to) {
            self.cores[usize::from(core)].slices.push((from, to, cause.name()));
        }
    }

    /// A transaction from its beginning to its acknowledgement.
    pub(crate) fn transaction(&mut self, core: u8, from: Cycle, to: Cycle) {
        if let Some((from, to)) = self.clip(from, to) {
            self.transactions[usize::from(core)].slices.push((from, to, "transaction"));
        }
    }

    pub(crate) fn flush_begins(&mut self, core: u8, slot: u16, line: LineAddr, now: Cycle) {
        self.flushing.push((core, slot, line, now));
    }

    pub(crate) fn flush_passes(&mut self, core: u8, slot: u16, now: Cycle) {
        let of = |row: &(u8, u16, LineAddr, Cycle)| (row.0, row.1) == (core, slot);
        if let Some(at) = self.flushing.iter().position(of) {
            let (_, _, line, from) = self.flushing.swap_remove(at);
            self.slice(Kind::Flush(core), line, from, now);
        }
    }

    pub(crate) fn slice(&mut self, kind: Kind, line: LineAddr, from: Cycle, to: Cycle) {
        if self.slices.len() == SLICES_MAX {
            self.dropped += 1;
        } else if let Some((from, to)) = self.clip(from, to) {
            self.slices.push(Slice { kind, line, from, to });
        }
    }

    /// A bank of a channel got a command.
    pub(crate) fn command(
        &mut self,
        channel: u8,
        bank: u8,
        name: &'static str,
        from: Cycle,
        to: Cycle,
    ) {
        // What takes no time is seen, too.
        if let Some((from, to)) = self.clip(from, to.max(from.next())) {
            self.banks.entry((channel, bank)).or_default().slices.push((from, to, name));
        }
    }

    pub(crate) fn counter(&mut self, name: &'static str, now: Cycle, value: u64) {
        if self.from <= now && now < self.to && self.counters.len() < SLICES_MAX {
            self.counters.push((now, name, value));
        }
    }

    /// The timeline as JSON; `period_fs` is a cycle's length. `now` is the end of the run.
    pub fn to_json(&self, period_fs: u64, now: Cycle) -> String {
        let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        let us = |at: Cycle| at.0 as f64 * period_fs as f64 / 1e9;
        let mut event = |line: String| {
            text.push_str(&line);
            text.push_str(",\n");
        };
        for core in 0..self.cores.len() {
            for (row, name) in [(2 * core, "core"), (2 * core + 1, "transactions of core")] {
                event(format!(
                    "{{\"ph\":\"M\",\"pid\":1,\"tid\":{row},\"name\":\"thread_name\",\
                     \"args\":{{\"name\":\"{name} {core}\"}}}}"
                ));
            }
        }
        let end = self.to.min(now);
        for (core, (row, transactions)) in self.cores.iter().zip(&self.transactions).enumerate() {
            for &(from, to, name) in &with_runs(&row.slices, self.from, end) {
                event(complete(2 * core, name, us(from), us(to)));
            }
            for &(from, to, name) in &transactions.slices {
                event(complete(2 * core + 1, name, us(from), us(to)));
            }
        }
        for (&(channel, bank), row) in &self.banks {
            let tid = BANK_ROWS + 64 * usize::from(channel) + usize::from(bank);
            event(format!(
                "{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_name\",\
                 \"args\":{{\"name\":\"channel {channel} bank {bank}\"}}}}"
            ));
            for (from, to, name) in in_order(&row.slices) {
                event(complete(tid, name, us(from), us(to)));
            }
        }
        for (id, slice) in self.slices.iter().enumerate() {
            let (category, name) = match slice.kind {
                Kind::Flush(core) => ("flush", format!("flush of core {core}")),
                Kind::Read => ("memory", "read".to_owned()),
                Kind::Write(cause) => ("memory", format!("write: {cause}")),
            };
            for (phase, at) in [('b', slice.from), ('e', slice.to)] {
                event(format!(
                    "{{\"ph\":\"{phase}\",\"pid\":1,\"tid\":0,\"cat\":\"{category}\",\
                     \"id\":{id},\"name\":\"{name}\",\"ts\":{:.6},\"args\":{{\"line\":\"{:#x}\"}}}}",
                    us(at),
                    slice.line.0
                ));
            }
        }
        for &(at, name, value) in &self.counters {
            event(format!(
                "{{\"ph\":\"C\",\"pid\":1,\"name\":\"{name}\",\"ts\":{:.6},\
                 \"args\":{{\"{name}\":{value}}}}}",
                us(at)
            ));
        }
        let _ = write!(
            text,
            "{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":\"machine\"}}}}\n\
             ],\"otherData\":{{\"dropped_slices\":{}}}}}\n",
            self.dropped
        );
        text
    }
}

/// Slices in the order of time, each ended by the next: refreshes are known late, and a column
/// command may come before the last one's data is over.
fn in_order(slices: &[(Cycle, Cycle, &'static str)]) -> Vec<(Cycle, Cycle, &'static str)> {
    let mut row = slices.to_vec();
    row.sort_by_key(|slice| slice.0);
    for at in 1..row.len() {
        row[at - 1].1 = row[at - 1].1.min(row[at].0);
    }
    row
}

/// Slices of lost cycles, neighbours of one cause joined, with runs between them.
fn with_runs(
    lost: &[(Cycle, Cycle, &'static str)],
    from: Cycle,
    end: Cycle,
) -> Vec<(Cycle, Cycle, &'static str)> {
    let mut row: Vec<(Cycle, Cycle, &'static str)> = Vec::new();
    let mut at = from;
    for &(from, to, name) in lost {
        if at < from {
            row.push((at, from, "run"));
        }
        match row.last_mut() {
            Some(last) if last.2 == name && last.1 == from => last.1 = to,
            _ => row.push((from, to, name)),
        }
        at = to;
    }
    if at < end {
        row.push((at, end, "run"));
    }
    row
}

fn complete(row: usize, name: &str, from_us: f64, to_us: f64) -> String {
    format!(
        "{{\"ph\":\"X\",\"pid\":1,\"tid\":{row},\"name\":\"{name}\",\"ts\":{from_us:.6},\
         \"dur\":{:.6}}}",
        to_us - from_us
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_without_overlaps_and_clipped_to_the_window() {
        let mut timeline = Timeline::new(Cycle(10), Cycle(100), 1);
        timeline.lost(0, Cycle(0), Cycle(5), Lost::Load);
        timeline.lost(0, Cycle(5), Cycle(20), Lost::Load);
        timeline.lost(0, Cycle(20), Cycle(25), Lost::Load);
        timeline.lost(0, Cycle(40), Cycle(120), Lost::Fence);
        let row = with_runs(&timeline.cores[0].slices, timeline.from, timeline.to);
        let at = |from, to, name| (Cycle(from), Cycle(to), name);
        assert_eq!(row, [at(10, 25, "load"), at(25, 40, "run"), at(40, 100, "fence")]);
        for (from, to, name) in [(30, 40, "ACT"), (40, 44, "RD"), (20, 32, "REF"), (0, 9, "PRE")] {
            timeline.command(0, 3, name, Cycle(from), Cycle(to));
        }
        let row = in_order(&timeline.banks[&(0, 3)].slices);
        assert_eq!(row, [at(20, 30, "REF"), at(30, 40, "ACT"), at(40, 44, "RD")]);
        timeline.slice(Kind::Read, LineAddr(1), Cycle(0), Cycle(9));
        assert!(timeline.slices.is_empty());
    }
}
