//! Epochs of the whole machine: all cores stop, each saves its registers by stores of its own, the
//! epoch's number goes up, and all go on.

use super::{run_lanes, with};
use outlast_sim::timed::{Answer, Cycle, Outbox, Scheme, StoreSeen, System};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

/// Where lanes save their registers: two lines each.
const SAVED: u64 = 1 << 16;
const REGISTERS: u64 = 16;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Begin,
    Stopped,
    Saved,
}

/// What begins an epoch's end.
#[derive(Clone, Copy, Debug)]
enum By {
    Instructions(u64),
    Cycles(u64),
}

/// When a stop was asked for, when all stood, and when all went on.
#[derive(Clone, Copy, Debug)]
struct Stop {
    asked: Cycle,
    stood: Cycle,
    resumed: Cycle,
}

struct Epochs {
    by: By,
    lanes: u16,
    epoch: u64,
    /// Stores of programs, by lane and in all epochs, and of the save in this epoch.
    stores: Vec<u64>,
    saved: u64,
    standing: bool,
    stops: Vec<Stop>,
    begun: bool,
    stored: bool,
}

impl Epochs {
    fn new(by: By, lanes: u16) -> Self {
        let stores = vec![0; lanes.into()];
        let (epoch, saved, standing, stops) = (0, 0, false, Vec::new());
        let (begun, stored) = (false, false);
        Self { by, lanes, epoch, stores, saved, standing, stops, begun, stored }
    }

    fn next(&self, now: Cycle, out: &mut Outbox<Step>) {
        match self.by {
            By::Instructions(count) => out.call_after_instructions(count, Step::Begin),
            By::Cycles(cycles) => out.call(now.plus(cycles), Step::Begin),
        }
    }
}

impl Scheme for Epochs {
    type Tag = ();
    type Page = ();
    type Token = Step;

    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<Step>,
    ) -> Answer {
        if !std::mem::replace(&mut self.begun, true) {
            self.next(now, out);
        }
        if store.at.0 >= SAVED {
            assert!(self.standing, "registers are saved while all stand");
            let value = u64::from_le_bytes(store.new.try_into().unwrap());
            assert_eq!(value, self.epoch, "and belong to the epoch that ends");
            self.saved += 1;
        } else {
            assert!(!self.standing, "no program stores while all stand");
            self.stores[usize::from(lane.0)] += 1;
            self.stored = true;
        }
        Answer::Proceed
    }

    fn step(&mut self, now: Cycle, token: Step, out: &mut Outbox<Step>) {
        assert_eq!(token, Step::Begin);
        self.stops.push(Stop { asked: now, stood: now, resumed: now });
        out.stop(Step::Stopped);
    }

    fn stopped(&mut self, now: Cycle, token: Step, out: &mut Outbox<Step>) {
        if token == Step::Stopped {
            self.standing = true;
            self.stops.last_mut().unwrap().stood = now;
            for lane in 0..self.lanes {
                let at = PoolOffset(SAVED + 8 * REGISTERS * u64::from(lane));
                let registers = vec![self.epoch; REGISTERS as usize];
                let bytes = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
                out.inject(LaneId(lane), at, bytes);
            }
            return out.stop(Step::Saved);
        }
        assert_eq!(std::mem::take(&mut self.saved), REGISTERS * u64::from(self.lanes));
        self.standing = false;
        self.epoch += 1;
        // An epoch without a store is the last, unless one begins another.
        self.begun = std::mem::take(&mut self.stored);
        if self.begun {
            self.next(now, out);
        }
        self.stops.last_mut().unwrap().resumed = now;
        out.resume();
    }
}

/// Stores, each an instruction, to lines of the lane's own, with loads and computing between; and
/// turns at a lock.
fn program(lane: u64, lanes: u64, steps: u64, locks: bool) -> OpLog {
    let mut log = OpLog::default();
    let me = LaneId(0);
    for n in 0..steps {
        let line = lane * 256 + n * 37 % 200;
        if locks && n % 8 == 0 {
            let ticket = n / 8 * lanes + lane + 1;
            log.op(me, Op::Lock { id: 1, ticket });
        }
        log.op(
            me,
            Op::Load { at: LineAddr(lane * 256 + n * 11 % 256).start(), len: 8, depends: None },
        );
        log.op(me, Op::Store { at: PoolOffset(64 * line + 8 * (n % 8)), bytes: &n.to_le_bytes() });
        log.op(me, Op::Compute(1 + (n % 3) as u32));
        if locks && n % 8 == 7 {
            let ticket = n / 8 * lanes + lane + 1;
            log.op(me, Op::Unlock { id: 1, ticket });
        }
    }
    log
}

fn run(kind: &str, by: By, lanes: u64, locks: bool) -> System<Epochs> {
    let programs = (0..lanes).map(|lane| program(lane, lanes, 400, locks)).collect();
    run_lanes(&with(kind, &[]), Epochs::new(by, lanes as u16), programs, Vec::new())
}

#[test]
fn all_cores_stop_save_and_go_on_and_nothing_is_lost() {
    for kind in ["ooo", "inorder"] {
        for by in [By::Instructions(97), By::Cycles(500)] {
            for (lanes, locks) in [(1, false), (3, false), (3, true)] {
                let mut system = run(kind, by, lanes, locks);
                let of = format!("{kind}, {by:?}, {lanes} lanes, locks {locks}");
                let scheme = system.scheme();
                assert!(scheme.epoch > 5, "{of}: {} epochs", scheme.epoch);
                assert!(scheme.stores.iter().all(|count| *count == 400), "{of}");
                let epochs = scheme.epoch;
                for lane in 0..lanes {
                    let saved = system.line(PoolOffset(SAVED + 128 * lane).line());
                    assert_eq!(saved[..8], (epochs - 1).to_le_bytes(), "{of}");
                }
                let stats = system.take_stats();
                let injected: u64 = stats.cores.iter().map(|core| core.injected).sum();
                assert_eq!(injected, epochs * REGISTERS * lanes, "{of}");
                let own: u64 = (0..400).map(|n| 2 + 1 + n % 3).sum();
                assert_eq!(stats.instructions(), own * lanes, "{of}: counted apart");
            }
        }
    }
}

#[test]
fn an_epoch_of_instructions_has_as_many() {
    let mut log = OpLog::default();
    for _ in 0..5 {
        log.op(LaneId(0), Op::Store { at: PoolOffset(0), bytes: &[1; 8] });
        log.op(LaneId(0), Op::Compute(999));
    }
    let scheme = Epochs::new(By::Instructions(1_000), 1);
    let system = run_lanes(&with("inorder", &[]), scheme, vec![log], Vec::new());
    let stops = &system.scheme().stops;
    assert_eq!(stops.len(), 4);
    for stop in stops {
        assert_eq!(stop.asked, stop.stood, "with nothing under way the core stands at once");
    }
    // In order, and all the program's lines are here: one instruction a cycle, the first in that in which
    // the cores go on. The first time registers' lines come from memory; later the last register is stored
    // in that cycle, which then has its instruction.
    for (number, pair) in stops.windows(2).enumerate() {
        let rest = if number == 0 { 999 } else { 1_000 };
        assert_eq!(pair[1].asked, pair[0].resumed.plus(rest));
    }
}
