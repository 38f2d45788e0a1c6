//! Every scheme is crashed after every entry of its journal and recovered for real; what its
//! recovery leaves is judged by an oracle that knows what each transaction stored and when it
//! was acknowledged.

use outlast_schemes::hwl::{
    Commit, Fault, Faults, Flushes, Hwl, HwlConfig, HwlStats, LogPlace, recover, with_flushes,
};
use outlast_schemes::software::{self, Data, Initial, Logging, SoftwareLog};
use outlast_schemes::{Image, Patch, RecoveryError, apply};
use outlast_sim::Domain;
use outlast_sim::timed::{
    Cycle, LaneOps, MachineConfig, NonPers, Scheme, Setup, Source, System, TimedJournal,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, TxId};
use std::sync::Arc;

/// Lines that each lane's transactions store to.
const DATA_LINES: u64 = 24;
const LANES: u16 = 2;
const LOG: LineAddr = LineAddr(64);
const IMAGE_LINES: u64 = 64 + 2 * 40;

/// What a lane's transactions stored: for each, in order, the data region after it.
type States = Vec<Vec<u8>>;

/// Bare transactions of two lanes over regions of their own, and what they leave.
fn transactions(seed: u64, count: u64) -> (OpLog, Vec<States>) {
    let mut draw = Random::from_state(seed);
    let mut log = OpLog::default();
    let region = (DATA_LINES * 64) as usize;
    let mut states = vec![vec![vec![0; region]]; LANES.into()];
    for number in 0..count {
        let lane = draw.below(LANES.into()) as u16;
        let id = LaneId(lane);
        let mut state = states[usize::from(lane)].last().expect("the first is there").clone();
        log.op(id, Op::TxBegin);
        for _ in 0..1 + draw.below(7) {
            let word = draw.below(DATA_LINES * 8);
            let value = 256 * (number + 1) + 1 + draw.below(250);
            let len = if draw.below(4) == 0 { 3 } else { 8 };
            let at = PoolOffset(u64::from(lane) * region as u64 + 8 * word);
            log.op(id, Op::Load { at, len: 8, depends: None });
            log.op(id, Op::Store { at, bytes: &value.to_le_bytes()[..len] });
            state[8 * word as usize..][..len].copy_from_slice(&value.to_le_bytes()[..len]);
            log.op(id, Op::Compute(draw.below(30) as u32));
        }
        log.op(id, Op::TxEnd);
        let of_lane = &mut states[usize::from(lane)];
        of_lane.push(state);
        // The acknowledgement names the lane and how many transactions it has had.
        log.op(id, Op::Ack(TxId((u64::from(lane) << 32) + (of_lane.len() - 1) as u64)));
        log.op(id, Op::Compute(draw.below(200) as u32));
    }
    (log, states)
}

fn run<S: Scheme>(scheme: S, log: OpLog) -> System<S> {
    let machine = MachineConfig::named("tiny").unwrap();
    let log = Arc::new(log);
    let sources = (0..LANES)
        .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
        .collect();
    let base = vec![0; (IMAGE_LINES * 64) as usize];
    let setup = Setup { base, journal: Some(Domain::Adr), ..Setup::default() };
    let mut system = System::new(&machine, scheme, setup, sources).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// What all crash points of one run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Verdict {
    points: usize,
    /// Images in which a lane's data is that after no number of its transactions.
    torn: usize,
    /// Images that lack an acknowledged transaction.
    lost: usize,
}

impl Verdict {
    fn is_clean(&self) -> bool {
        self.torn + self.lost == 0
    }
}

/// A recovery: what it writes for an image.
type Recovery<'a> = dyn Fn(&[u8]) -> Result<Vec<Patch>, RecoveryError> + 'a;

/// Crashes after every entry; `again` also crashes the recovery after each of its writes.
fn judge(
    journal: &TimedJournal,
    states: &[States],
    recover: &Recovery<'_>,
    again: bool,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut image = vec![0; (IMAGE_LINES * 64) as usize];
    let mut cursor = journal.journal().cursor();
    for entries in 0..=journal.journal().len() {
        cursor.advance_to_entry(entries, &mut image, |_| {});
        // A crash just before the next entry.
        let now = if entries < journal.journal().len() {
            Cycle(journal.at(entries).0.saturating_sub(1))
        } else {
            Cycle::NEVER
        };
        let mut acknowledged = vec![0; LANES.into()];
        for (_, tx) in journal.acknowledged_by(now) {
            acknowledged[(tx.0 >> 32) as usize] = (tx.0 & u64::from(u32::MAX)) as usize;
        }
        let patches = recover(&image).expect("no image of a run is damaged");
        let stops = if again { 0..patches.len() } else { 0..1 };
        for stop in stops.chain([patches.len()]) {
            let mut recovered = image.clone();
            apply(&patches[..stop], &mut recovered);
            let second = recover(&recovered).expect("nor is one of a recovery");
            apply(&second, &mut recovered);
            verdict.points += 1;
            for (lane, states) in states.iter().enumerate() {
                let region = (DATA_LINES * 64) as usize;
                let data = &recovered[lane * region..][..region];
                match states.iter().rposition(|state| state == data) {
                    None => verdict.torn += 1,
                    Some(done) => verdict.lost += usize::from(done < acknowledged[lane]),
                }
            }
        }
    }
    verdict
}

fn hwl(scan_period: Option<u64>) -> HwlConfig {
    let log = LogPlace { base: LOG, slots: 48, growths: 0 };
    HwlConfig { buffer: 8, ..HwlConfig::new(log, 8, scan_period) }
}

fn crash_hwl(config: HwlConfig, seed: u64, flushes: Option<Flushes>) -> (Verdict, HwlStats) {
    let (bare, states) = transactions(seed, 60);
    let log = flushes.map_or_else(|| bare.clone(), |flushes| with_flushes(&bare, flushes));
    let system = run(Hwl::new(config).unwrap(), log);
    let journal = system.journal().unwrap();
    let verdict =
        judge(journal, &states, &|image| recover(config.log, Image::new(image)), seed == 1);
    (verdict, system.scheme().stats)
}

#[test]
fn forced_write_back_loses_nothing() {
    for seed in 1..6 {
        let (verdict, stats) = crash_hwl(hwl(Some(3000)), seed, None);
        assert!(verdict.is_clean() && verdict.points > 300, "seed {seed}: {verdict:?}");
        assert!(stats.forced > 0 && stats.coalesced > 0, "{:?}", stats);
        assert!(stats.records > 2 * 48 && stats.scans > 4, "the log wraps: {stats:?}");
    }
}

#[test]
fn hardware_logging_with_flushes_loses_nothing_wherever_they_are() {
    for flushes in [Flushes::AtCommit, Flushes::BehindCommit] {
        for seed in 1..6 {
            let (verdict, stats) = crash_hwl(hwl(None), seed, Some(flushes));
            assert!(verdict.is_clean() && verdict.points > 300, "{flushes:?} {seed}: {verdict:?}");
            assert!(stats.forced == 0 && stats.records > 48, "the log wraps: {stats:?}");
        }
    }
}

#[test]
fn a_commit_that_is_only_issued_is_lost_but_never_torn() {
    let config = HwlConfig { commit: Commit::Buffered, ..hwl(Some(3000)) };
    let verdicts: Vec<_> = (1..6).map(|seed| crash_hwl(config, seed, None).0).collect();
    assert!(verdicts.iter().all(|verdict| verdict.torn == 0), "{verdicts:?}");
    assert!(verdicts.iter().any(|verdict| verdict.lost > 0), "HWL-4: {verdicts:?}");
}

#[test]
fn data_that_overtakes_its_record_is_found_guilty() {
    let config = HwlConfig { faults: Faults::of(&[Fault::Unordered]), ..hwl(Some(3000)) };
    let torn: usize = (1..9).map(|seed| crash_hwl(config, seed, None).0.torn).sum();
    assert!(torn > 0, "HWL-5 shows in no image");
}

#[test]
fn no_scheme_is_found_guilty() {
    let (bare, states) = transactions(3, 60);
    let system = run(NonPers, bare);
    let verdict = judge(system.journal().unwrap(), &states, &|_| Ok(Vec::new()), false);
    assert!(verdict.torn > 0 && verdict.lost > 0, "{verdict:?}");
}

#[test]
fn software_logging_loses_nothing_and_without_its_fences_is_found_guilty() {
    for logging in [Logging::Undo, Logging::Redo, Logging::UndoRedo] {
        let place = SoftwareLog { base: LOG, lines: 16, ring: false };
        let mut guilty = 0;
        for seed in 1..6 {
            let (bare, states) = transactions(seed, 60);
            let log = place.apply(logging, Data::Flushed, Initial::default(), &bare).unwrap();
            let judged = |log: OpLog| {
                let system = run(NonPers, log);
                let recovery =
                    |image: &[u8]| software::recover(logging, place, LANES, Image::new(image));
                judge(system.journal().unwrap(), &states, &recovery, seed == 1)
            };
            let mut unfenced = OpLog::default();
            for (lane, op) in log.iter().filter(|(_, op)| *op != Op::Sfence) {
                unfenced.op(lane, op);
            }
            let verdict = judged(log);
            assert!(verdict.is_clean() && verdict.points > 300, "{logging:?}, {seed}: {verdict:?}");
            guilty += usize::from(!judged(unfenced).is_clean());
        }
        assert!(guilty > 0, "{logging:?} needs no fence at all");
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let (bare, _) = transactions(1, 10);
    let place = SoftwareLog { base: LOG, lines: 2, ring: false };
    let error = place
        .apply(Logging::Undo, Data::Flushed, Initial::default(), &bare)
        .unwrap_err()
        .to_string();
    assert!(error.contains("there are 2"), "{error}");
    let short = recover(LogPlace { base: LOG, slots: 8, growths: 0 }, Image::new(&[0; 64]))
        .unwrap_err()
        .to_string();
    assert!(short.contains("behind the image's 64 bytes"), "{short}");
}
