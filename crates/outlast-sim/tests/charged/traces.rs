//! Programs' traces under a scheme: several at once, with their values and without transactions, from
//! a base image, with everything that became durable kept.

use super::{run_sources, with};
use outlast_sim::Cause;
use outlast_sim::timed::{
    Answer, Cycle, LaneOps, LevelFlush, Outbox, Placed, RunError, Scheme, Setup, Source, StoreSeen,
    System, TraceSource,
};
use outlast_trace::{ChampSimInstr, LaneId, Op, OpLog, PoolOffset, Sink};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Bytes of each program's part.
const PART: u64 = 1 << 16;
const EPOCH_INSTRUCTIONS: u64 = 500;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Stopped,
    Flushed,
}

/// Makes everything durable at the end of each epoch, and remembers what memory was then.
struct Epochs {
    begun: bool,
    memory: Vec<u8>,
    ends: Vec<(Cycle, Vec<u8>)>,
}

impl Scheme for Epochs {
    type Tag = ();
    type Page = ();
    type Token = Step;

    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<Step>,
    ) -> Answer {
        self.memory[store.at.0 as usize..][..store.new.len()].copy_from_slice(store.new);
        if !std::mem::replace(&mut self.begun, true) {
            out.call_after_instructions(EPOCH_INSTRUCTIONS, Step::Begin);
        }
        Answer::Proceed
    }

    fn step(&mut self, _now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        out.stop(Step::Stopped);
    }

    fn stopped(&mut self, _now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        let (level, invalidate, token) = (None, false, Step::Flushed);
        out.flush(LevelFlush { level, cause: Cause::Forced, invalidate, yields: false, token });
    }

    fn flushed(&mut self, now: Cycle, _token: Step, out: &mut Outbox<Step>) {
        self.ends.push((now, self.memory.clone()));
        out.call_after_instructions(EPOCH_INSTRUCTIONS, Step::Begin);
        out.resume();
    }
}

/// A raw trace of loads and stores that go through some pages.
fn champsim(path: &Path, seed: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    for n in 0..2_000u64 {
        let at = 0x40_0000 + (n * (37 + seed) % 700) * 72;
        let mut instr = ChampSimInstr { ip: 0x1000 + n, ..ChampSimInstr::default() };
        if n % 3 == 0 {
            instr.destination_memory[0] = at;
        } else {
            instr.source_memory[0] = at;
        }
        file.write_all(&instr.encode()).unwrap();
    }
}

/// Operations with values, and a lock that the other program has a lock of the same name beside.
fn operations(seed: u64) -> LaneOps {
    let mut log = OpLog::default();
    let lane = LaneId(0);
    for n in 0..600u64 {
        log.op(lane, Op::Lock { id: 7, ticket: n + 1 });
        let at = PoolOffset(n * (11 + seed) % 900 * 68);
        log.op(lane, Op::Store { at, bytes: &[(seed + n) as u8; 12] });
        log.op(lane, Op::Compute(2));
        log.op(lane, Op::Unlock { id: 7, ticket: n + 1 });
    }
    LaneOps::new(Arc::new(log), lane)
}

#[test]
fn traces_run_together_and_each_epoch_ends_with_their_bytes_in_memory() {
    let folder = std::env::temp_dir().join(format!("outlast-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for kind in ["ooo", "inorder"] {
        let base: Vec<u8> = (0..4 * PART).map(|n| (n % 251) as u8).collect();
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for program in 0..4u16 {
            let at = u64::from(program) * PART;
            sources.push(if program % 2 == 0 {
                let path = folder.join(format!("{program}.trace"));
                champsim(&path, program.into());
                Box::new(Placed::new(TraceSource::open(&path).unwrap(), program, at, PART))
            } else {
                Box::new(Placed::new(operations(program.into()), program, at, PART))
            });
        }
        let scheme = Epochs { begun: false, memory: base.clone(), ends: Vec::new() };
        let mut system = run_sources(&with(kind, &[]), scheme, sources, base.clone()).unwrap();
        let stats = system.take_stats();
        assert_eq!(stats.cores[0].instructions, 2_000, "{kind}");
        let (timed, scheme) = (system.journal().unwrap(), system.scheme());
        assert!(scheme.ends.len() > 10, "{kind}: {} epochs", scheme.ends.len());
        let (mut image, mut cursor) = (base, timed.journal().cursor());
        for (number, (at, memory)) in scheme.ends.iter().enumerate() {
            cursor.advance_to_entry(timed.entries_by(*at), &mut image, |_| {});
            assert!(image == *memory, "{kind}: the image at the end of epoch {number}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_that_leaves_its_part_ends_the_run() {
    let source: Box<dyn Source> = Box::new(Placed::new(operations(1), 3, 0, 1_000));
    let config = with("ooo", &[]);
    let setup = Setup { base: vec![0; 1 << 12], ..Setup::default() };
    let scheme = Epochs { begun: false, memory: vec![0; 1 << 12], ends: Vec::new() };
    let mut system = System::new(&config, scheme, setup, vec![source]).unwrap();
    let error = system.run_to_end().unwrap_err();
    assert!(matches!(error, RunError::Source(_)), "{error}");
    let message = error.to_string();
    assert_eq!(message, "program 3 touches byte 0x660, and its part of memory has 1000 bytes");
}
