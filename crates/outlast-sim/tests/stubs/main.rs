//! What the families that come next need of the ports, each as the smallest scheme that does one
//! thing and recovers: pages with two copies (SSP), writes that go elsewhere (EHOU), lines tagged
//! with epochs (PiCL). Each is crashed after every entry of its journal; each with its ordering left
//! out is found guilty.

mod ehou;
mod picl;
mod ssp;

use outlast_sim::timed::{
    Cycle, LaneOps, MachineConfig, Scheme, SchemeWrite, Setup, Source, System, TimedJournal,
};
use outlast_sim::{Cause, Domain, LineBytes};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, TxId};
use std::sync::Arc;

/// The program's data.
const PAGES: u64 = 8;
const LINES: u64 = 64 * PAGES;
/// Lines of a scheme's own: second copies, and behind them what else it keeps.
const SHADOW: u64 = 1 << 10;
const META: LineAddr = LineAddr(2 << 10);

/// Caches and TLBs that hold little of the data.
fn machine(kind: &str) -> MachineConfig {
    let mut machine = MachineConfig::named("tiny").unwrap();
    for (key, value) in [
        ("core.kind", kind),
        ("core.threads", "1"),
        ("core.count", "1"),
        ("tlb.page", "4 KiB"),
        ("tlb.l1_sets", "1"),
        ("tlb.l1_ways", "2"),
        ("tlb.l2_sets", "1"),
        ("tlb.l2_ways", "4"),
    ] {
        machine.set_option(key, value).unwrap();
    }
    machine
}

/// Transactions of a few stores each, an epoch behind every fifth, and the data behind each
/// transaction, nothing first.
fn program(seed: u64, count: u64) -> (OpLog, Vec<Vec<u8>>) {
    let mut random = Random::new(seed);
    let mut draw = |below| random.below(below);
    let mut log = OpLog::default();
    let mut data = vec![0; (LINES * 64) as usize];
    let mut states = vec![data.clone()];
    let lane = LaneId(0);
    for tx in 1..=count {
        log.op(lane, Op::TxBegin);
        let near = draw(LINES);
        for _ in 0..2 + draw(6) {
            // Some lines are close together, and some far away.
            let line = if draw(2) == 0 { (near + draw(4)) % LINES } else { draw(LINES) };
            let at = 64 * line + 8 * draw(8);
            let value = (tx << 32 | draw(1 << 20)).to_le_bytes();
            log.op(lane, Op::Load { at: PoolOffset(64 * draw(LINES)), len: 8, depends: None });
            log.op(lane, Op::Store { at: PoolOffset(at), bytes: &value });
            data[at as usize..][..8].copy_from_slice(&value);
        }
        log.op(lane, Op::TxEnd);
        log.op(lane, Op::Ack(TxId(tx)));
        states.push(data.clone());
        if tx % 5 == 0 {
            log.op(lane, Op::Epoch);
        }
    }
    (log, states)
}

fn run<S: Scheme>(kind: &str, scheme: S, log: &OpLog) -> System<S> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log.clone()), LaneId(0)));
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let mut system = System::new(&machine(kind), scheme, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// The image of every crash, with the time at which the next entry becomes durable.
fn crashes(journal: &TimedJournal, mut judge: impl FnMut(Cycle, &[u8])) {
    let mut image = vec![0; 1 << 20];
    let mut cursor = journal.journal().cursor();
    let entries = journal.journal().len();
    for crash in 0..=entries {
        cursor.advance_to_entry(crash, &mut image, |_| {});
        let next = if crash < entries { journal.at(crash) } else { Cycle::NEVER };
        judge(Cycle(next.0.saturating_sub(1)), &image);
    }
}

/// Crash points at which the recovered data is none of the program's states, and at which it is
/// one before the last acknowledged.
fn torn_and_lost(
    journal: &TimedJournal,
    states: &[Vec<u8>],
    recover: impl Fn(&[u8]) -> Vec<u8>,
) -> (usize, usize) {
    let (mut torn, mut lost) = (0, 0);
    crashes(journal, |now, image| {
        let data = recover(image);
        let acknowledged = journal.acknowledged_by(now).len();
        match states.iter().rposition(|state| *state == data) {
            None => torn += 1,
            Some(done) => lost += usize::from(done < acknowledged),
        }
    });
    (torn, lost)
}

fn line_of(image: &[u8], line: LineAddr) -> LineBytes {
    *image[line.start().0 as usize..].first_chunk().expect("the line is in the image")
}

fn word_of(image: &[u8], at: PoolOffset) -> u64 {
    u64::from_le_bytes(*image[at.0 as usize..].first_chunk().expect("the word is in the image"))
}

/// A line of these words.
fn words(values: &[u64]) -> LineBytes {
    let mut data = [0; 64];
    for (value, into) in values.iter().zip(data.as_chunks_mut().0) {
        *into = value.to_le_bytes();
    }
    data
}

/// A write of words to a line of the scheme's own.
fn metadata<T>(line: LineAddr, values: &[u64], token: T) -> SchemeWrite<T> {
    let (words, cause) = (u8::MAX, Cause::Metadata);
    SchemeWrite { line, words, data: self::words(values), cause, token }
}
