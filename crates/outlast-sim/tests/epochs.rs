//! Epochs through the ports: all cores stand, their registers are saved, the journal says where that was,
//! and what is left of a program from there on leads to the same end.

mod machine;

use machine::bare;
use outlast_sim::Cause;
use outlast_sim::Domain;
use outlast_sim::timed::{
    Cycle, LaneOps, MachineConfig, Outbox, RegisterSave, Scheme, SchemeWrite, Setup, Source,
    System, rest_of,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::sync::Arc;

const LANES: u16 = 2;
/// Lines of a lane's data, and the line that lanes share.
const LINES: u64 = 40;
const SHARED: PoolOffset = PoolOffset(64 * 200);
const REGISTERS: LineAddr = LineAddr(256);
const REGISTER_LINES: u64 = 2;
const MEMORY: usize = 64 * 300;

/// Ends an epoch every `every` instructions, and does nothing else.
struct Ends {
    every: u64,
    epoch: u64,
    from: [u64; LANES as usize],
}

#[derive(Clone, Copy, Debug)]
enum Token {
    Over,
    Stand,
    Saved,
}

impl Ends {
    fn every(every: u64) -> Self {
        Self { every, epoch: 1, from: [0; LANES as usize] }
    }
}

impl Scheme for Ends {
    type Tag = ();
    type Page = ();
    type Token = Token;

    fn started(&mut self, out: &mut Outbox<Token>) {
        out.call_after_instructions(self.every, Token::Over);
    }

    fn step(&mut self, _now: Cycle, _token: Token, out: &mut Outbox<Token>) {
        out.stop(Token::Stand);
    }

    fn stopped(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        if let Token::Stand = token {
            for lane in 0..LANES {
                out.save_registers(RegisterSave {
                    lane: LaneId(lane),
                    to: REGISTERS.plus(u64::from(lane) * REGISTER_LINES),
                    lines: REGISTER_LINES,
                    epoch: self.epoch,
                    from: self.from[usize::from(lane)],
                });
            }
            out.stop(Token::Saved);
            return;
        }
        out.end_epoch(self.epoch);
        self.epoch += 1;
        out.call_after_instructions(self.every, Token::Over);
        out.resume();
    }
}

/// Stores of each lane to data of its own, some of them past the caches, and by turns to a line that
/// both share, under a lock.
fn program() -> OpLog {
    let mut log = OpLog::default();
    for n in 0..240u64 {
        let lane = LaneId((n % 2) as u16);
        let data = 64 * LINES * (n % 2);
        let word = PoolOffset(data + 8 * (n * 13 % (8 * LINES)));
        log.op(lane, Op::Store { at: word, bytes: &(n + 1).to_le_bytes() });
        log.op(lane, Op::Compute(3));
        // Two words, so that an epoch may end between them.
        let two = PoolOffset(data + 64 * (n * 7 % LINES));
        log.op(lane, Op::Store { at: two, bytes: &[n as u8; 16] });
        if n % 5 == 0 {
            let at = PoolOffset(data + 64 * (n * 3 % LINES) + 16);
            log.op(lane, Op::StoreNt { at, bytes: &[!n as u8; 8] });
        }
        if n % 8 < 2 {
            let ticket = 1 + n / 8 * 2 + n % 2;
            log.op(lane, Op::Lock { id: 1, ticket });
            log.op(lane, Op::Store { at: SHARED, bytes: &n.to_le_bytes() });
            log.op(lane, Op::Unlock { id: 1, ticket });
        }
        if n == 100 {
            log.op(lane, Op::Signal { id: 2, count: 1 });
        }
        if n == 107 {
            log.op(lane, Op::Wait { id: 2, count: 1 });
        }
    }
    log
}

fn config(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    for (key, value) in
        [("core.count", "2"), ("l1.size", "512 B"), ("l2.size", "1 KiB"), ("llc.size", "2 KiB")]
    {
        config.set_option(key, value).unwrap();
    }
    config.set_option("l2.ways", "4").unwrap();
    config
}

fn run(kind: &str, scheme: Ends, base: Vec<u8>, log: &OpLog) -> System<Ends> {
    let log = Arc::new(log.clone());
    let source =
        |lane| -> Box<dyn Source> { Box::new(LaneOps::new(Arc::clone(&log), LaneId(lane))) };
    let setup = Setup { base, journal: Some(Domain::Adr), stores: true, ..Setup::default() };
    let sources = (0..LANES).map(source).collect();
    let mut system = System::new(&config(kind), scheme, setup, sources).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// Memory behind the first `stores` of the run's stores.
fn memory(base: &[u8], system: &System<Ends>, stores: usize) -> Vec<u8> {
    let mut memory = base.to_vec();
    for (at, word) in &system.journal().unwrap().stored_words()[..stores] {
        memory[at.0 as usize..][..8].copy_from_slice(word);
    }
    memory
}

/// What a lane's first instructions leave of its own data.
fn executed(log: &OpLog, lane: LaneId, mut count: u64) -> Vec<u8> {
    let mut memory = vec![0; MEMORY];
    for (of, op) in log.iter() {
        if of != lane {
            continue;
        }
        let (at, bytes) = match op {
            Op::Store { at, bytes } | Op::StoreNt { at, bytes } => (at, bytes),
            Op::Compute(n) => {
                count = count.saturating_sub(n.into());
                continue;
            }
            _ => {
                count = count.saturating_sub(1);
                continue;
            }
        };
        for (number, word) in bytes.chunks(8).enumerate() {
            if count == 0 {
                return memory;
            }
            count -= 1;
            memory[at.0 as usize + 8 * number..][..8].copy_from_slice(word);
        }
    }
    memory
}

fn own(memory: &[u8], lane: u16) -> &[u8] {
    let bytes = 64 * LINES as usize;
    &memory[bytes * usize::from(lane)..][..bytes]
}

#[test]
fn memory_at_the_end_of_an_epoch_is_what_each_core_had_executed() {
    let log = program();
    for kind in ["inorder", "ooo"] {
        let system = run(kind, Ends::every(61), vec![0; MEMORY], &log);
        let ends = system.journal().unwrap().ended_epochs();
        assert!(ends.len() > 15, "{kind}: {}", ends.len());
        for (number, end) in (1..).zip(ends) {
            assert_eq!(end.epoch, number);
            let memory = memory(&vec![0; MEMORY], &system, end.stores);
            for lane in 0..LANES {
                let at = end.positions[usize::from(lane)];
                let executed = executed(&log, LaneId(lane), at);
                assert_eq!(own(&memory, lane), own(&executed, lane), "{kind} {number} {lane}");
                let saved = &memory[REGISTERS.start().0 as usize..];
                let saved = &saved[(64 * REGISTER_LINES) as usize * usize::from(lane)..];
                assert_eq!(saved[..8], at.to_le_bytes(), "{kind} {number} {lane}: its position");
                assert_eq!(saved[8..16], end.epoch.to_le_bytes());
                assert!(saved[16..128].iter().any(|byte| *byte != 0));
            }
        }
    }
}

#[test]
fn what_is_left_at_the_end_of_any_epoch_leads_to_the_same_end() {
    let log = program();
    for kind in ["inorder", "ooo"] {
        let base = vec![0; MEMORY];
        let first = run(kind, Ends::every(61), base.clone(), &log);
        let all = memory(&base, &first, first.journal().unwrap().stored_words().len());
        for end in first.journal().unwrap().ended_epochs() {
            let from = [end.positions[0], end.positions[1]];
            let rest = rest_of(&log, |lane| from[usize::from(lane.0)]);
            let base = memory(&base, &first, end.stores);
            let scheme = Ends { every: 77, epoch: end.epoch + 1, from };
            let next = run(kind, scheme, base.clone(), &rest);
            let journal = next.journal().unwrap();
            let left = memory(&base, &next, journal.stored_words().len());
            let program = ..REGISTERS.start().0 as usize;
            assert_eq!(left[program], all[program], "{kind}: behind epoch {}", end.epoch);
            // Positions count on.
            for end in journal.ended_epochs() {
                let memory = memory(&base, &next, end.stores);
                let saved = &memory[REGISTERS.start().0 as usize..][..8];
                assert_eq!(saved, (end.positions[0] + from[0]).to_le_bytes());
            }
        }
    }
}

/// Waits for what has left the caches, over and over.
#[derive(Default)]
struct Waits {
    asked: Cycle,
    told: u64,
    is_waiting: bool,
    under_way_when_asked: u64,
}

impl Scheme for Waits {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn started(&mut self, out: &mut Outbox<()>) {
        out.call(Cycle(0), ());
    }

    fn step(&mut self, now: Cycle, _token: (), out: &mut Outbox<()>) {
        if !self.is_waiting {
            (self.asked, self.is_waiting) = (now, true);
            out.wait_for_writes(());
        }
        if self.told < 1000 {
            out.call(now.plus(37), ());
        }
    }

    fn durable(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        _cause: Cause,
        sent: Cycle,
        _out: &mut Outbox<()>,
    ) {
        let is_old = sent < self.asked;
        assert!(
            self.is_waiting || !is_old,
            "{line} left before {} and was not waited for",
            self.asked
        );
        self.under_way_when_asked += u64::from(is_old);
    }

    fn flushed(&mut self, _now: Cycle, _token: (), _out: &mut Outbox<()>) {
        self.told += 1;
        self.is_waiting = false;
    }
}

#[test]
fn a_wait_ends_when_all_that_had_left_the_caches_is_durable() {
    for (adr, kind) in [("true", "inorder"), ("false", "inorder"), ("false", "ooo")] {
        let mut config = config(kind);
        config.set_option("memory.adr", adr).unwrap();
        let mut log = OpLog::default();
        for n in 0..2000u64 {
            let at = PoolOffset(64 * (n * 37 % 193));
            log.op(LaneId(0), Op::Store { at, bytes: &n.to_le_bytes() });
        }
        let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
        let mut system =
            System::new(&config, Waits::default(), Setup::default(), vec![source]).unwrap();
        system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
        let Waits { told, under_way_when_asked, .. } = system.scheme();
        assert!(*told > 50 && *under_way_when_asked > 20, "{told} {under_way_when_asked}");
    }
}

/// Writes something every million cycles while the cores stand, `left` times.
struct Slow {
    left: u32,
    writes: bool,
}

impl Scheme for Slow {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn started(&mut self, out: &mut Outbox<()>) {
        out.stop(());
    }

    fn stopped(&mut self, now: Cycle, _token: (), out: &mut Outbox<()>) {
        out.call(now, ());
    }

    fn step(&mut self, now: Cycle, _token: (), out: &mut Outbox<()>) {
        if self.left == 0 {
            return out.resume();
        }
        self.left -= 1;
        if self.writes {
            let (line, words, data) = (LineAddr(7), 1, [0; 64]);
            out.write(SchemeWrite { line, words, data, cause: Cause::Metadata, token: () });
        }
        out.call(now.plus(1_000_000), ());
    }
}

/// A stop in which memory is written may take longer than instructions may stay away.
#[test]
fn cores_may_stand_as_long_as_something_becomes_durable() {
    for writes in [true, false] {
        let mut log = OpLog::default();
        log.op(LaneId(0), Op::Compute(10));
        let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
        let scheme = Slow { left: 70, writes };
        let system = System::new(&bare("inorder"), scheme, Setup::default(), vec![source]);
        assert_eq!(system.unwrap().run_to_end().is_ok(), writes);
    }
}
