//! Every image that a journal passes through lies in the set that any eviction allows.
//!
//! The set is written down here from the numbered rules of the fault model alone and shares no
//! code with the caches. For each line: the ordinary stores, one aligned word piece after the
//! other (rule 5); an image holds a prefix of them (rule 2), at least up to the line's floor,
//! which a lane's fence raises to what the line held when that lane flushed it (rules 6, 7). A
//! word that was streamed may hold what any of its stores gave it since that word's floor, which
//! the fence of the streaming lane raises (rule 10), as far as the line's prefix allows for the
//! ordinary ones among them. Lines are independent (rules 3, 4).

use crate::common::{LINES, any_log, any_machine, base};
use outlast_sim::{AtomicConfig, AtomicDriver, Domain, FlushCompletion, Policy, Preset};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, word_pieces};
use proptest::prelude::*;

/// One store to one word: what the word was afterwards, and by which kind of store.
#[derive(Clone, Copy)]
struct WordStore {
    value: [u8; 8],
    /// The ordinary store's place among those of its line, counted from 1; `None` if streamed.
    ordinary: Option<usize>,
}

#[derive(Clone, Default)]
struct Word {
    stores: Vec<WordStore>,
    /// Stores before this one are no longer what the word may hold.
    floor: usize,
    /// The lanes that streamed here since their last fence, each with the index of its store.
    streamed: Vec<(LaneId, usize)>,
}

#[derive(Clone, Default)]
struct Line {
    words: [Word; 8],
    issued: usize,
    floor: usize,
    /// The lanes that flushed since their last fence, each with what was issued then.
    flushed: Vec<(LaneId, usize)>,
}

/// All that was stored so far, and what of it must be durable.
#[derive(Clone)]
struct History {
    lines: Vec<Line>,
}

impl History {
    fn new() -> Self {
        let initial = WordStore { value: [0xee; 8], ordinary: Some(0) };
        let mut line = Line::default();
        line.words.iter_mut().for_each(|word| word.stores.push(initial));
        Self { lines: vec![line; LINES as usize] }
    }

    fn store(&mut self, lane: LaneId, at: PoolOffset, bytes: &[u8], streamed: bool) {
        let mut rest = bytes;
        for (at, len) in word_pieces(at, bytes.len()) {
            let line = &mut self.lines[at.line().0 as usize];
            line.issued += usize::from(!streamed);
            let issued = line.issued;
            let word = &mut line.words[at.in_line() / 8];
            let mut value = word.stores.last().unwrap().value;
            value[at.in_line() % 8..][..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            if streamed {
                word.streamed.push((lane, word.stores.len()));
            }
            word.stores.push(WordStore { value, ordinary: (!streamed).then_some(issued) });
        }
    }

    fn fence(&mut self, lane: LaneId) {
        for line in &mut self.lines {
            for &(by, issued) in &line.flushed {
                line.floor = line.floor.max(if by == lane { issued } else { 0 });
            }
            line.flushed.retain(|&(by, _)| by != lane);
            for word in &mut line.words {
                for &(by, index) in &word.streamed {
                    word.floor = word.floor.max(if by == lane { index } else { 0 });
                }
                word.streamed.retain(|&(by, _)| by != lane);
            }
        }
    }

    fn op(&mut self, lane: LaneId, op: &Op<'_>) {
        match *op {
            Op::Store { at, bytes } => self.store(lane, at, bytes, false),
            Op::StoreNt { at, bytes } => self.store(lane, at, bytes, true),
            Op::Store64 { line, bytes } => self.store(lane, line.start(), bytes, true),
            Op::Rmw { at, bytes } => {
                self.fence(lane);
                self.store(lane, at, bytes, false);
            }
            Op::Flush { line, .. } => {
                let line = &mut self.lines[line.0 as usize];
                line.flushed.push((lane, line.issued));
            }
            Op::Sfence | Op::Mfence => self.fence(lane),
            _ => {}
        }
    }

    /// Whether an image may exist in which lines are at their floor in `self`, or above, and
    /// hold nothing that is not stored in `later`. The two differ in the middle of an operation.
    fn allows(&self, later: &History, image: &[u8]) -> Result<(), String> {
        for (number, (line, later)) in self.lines.iter().zip(&later.lines).enumerate() {
            let content = &image[64 * number..64 * number + 64];
            let fits = |prefix: usize| {
                let words = line.words.iter().zip(&later.words).zip(content.as_chunks().0);
                words.into_iter().all(|((word, later), value)| {
                    word_fits(word.floor, &later.stores, prefix, value)
                })
            };
            if !(line.floor..=later.issued).any(fits) {
                return Err(format!("line {number}, floor {}: {content:02x?}", line.floor));
            }
        }
        Ok(())
    }
}

/// Whether a word may hold `value` when its line's first `prefix` ordinary stores persisted.
fn word_fits(floor: usize, stores: &[WordStore], prefix: usize, value: &[u8; 8]) -> bool {
    let in_prefix = |store: &WordStore| store.ordinary.is_some_and(|nth| nth <= prefix);
    let last_ordinary = stores.iter().rposition(in_prefix).unwrap_or(0);
    let oldest = last_ordinary.max(floor);
    stores.iter().enumerate().any(|(index, store)| {
        let reached = index == last_ordinary || store.ordinary.is_none();
        index >= oldest && reached && store.value == *value
    })
}

/// Checks the image after each entry and after each operation of the journal.
fn check(config: &AtomicConfig, seed: u64, log: &OpLog) -> Result<usize, String> {
    let journal = AtomicDriver::new(config, seed, &base()).unwrap().play(log);
    let (mut image, mut cursor) = (base(), journal.cursor());
    let mut before = History::new();
    for (number, (lane, op)) in log.iter().enumerate() {
        let mut after = before.clone();
        after.op(lane, &op);
        while cursor.peek().is_some_and(|entry| entry.op == number) {
            cursor.advance_to_entry(cursor.entries() + 1, &mut image, |_| {});
            before.allows(&after, &image).map_err(|why| format!("within {number}: {why}"))?;
        }
        after.allows(&after, &image).map_err(|why| format!("after {number} {op:?}: {why}"))?;
        before = after;
    }
    Ok(journal.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1200, ..ProptestConfig::default() })]

    #[test]
    fn every_journal_image_is_one_that_eviction_allows(
        config in any_machine(Domain::Adr), seed in any::<u64>(), log in any_log(120),
    ) {
        if let Err(why) = check(&config, seed, &log) {
            prop_assert!(false, "{}; {:?}, seed {}", why, config, seed);
        }
    }

    #[test]
    fn durable_caches_leave_only_such_images_too(
        config in any_machine(Domain::Eadr), seed in any::<u64>(), log in any_log(60),
    ) {
        if let Err(why) = check(&config, seed, &log) {
            prop_assert!(false, "{}; {:?}, seed {}", why, config, seed);
        }
    }
}

#[test]
fn every_policy_completion_and_preset_stays_inside_on_a_long_stream() {
    for (policy, _, _) in Policy::ALL {
        for completion in [FlushCompletion::AtFlush, FlushCompletion::AtFence] {
            for (preset, _, _) in Preset::ALL {
                let caches = preset.config().with_lanes(3).with_policy(policy);
                let config = AtomicConfig { caches, domain: Domain::Adr, completion };
                let entries = check(&config, 9, &long_stream()).unwrap();
                assert!(entries > 100, "{policy} on {preset} made only {entries} entries");
            }
        }
    }
}

/// Three lanes that log, flush, fence and stream, over and over, with a fixed pattern.
fn long_stream() -> OpLog {
    let mut log = OpLog::default();
    for round in 0..250u64 {
        let lane = LaneId((round * 7 % 3) as u16);
        let (first, second) = (round * 5 % LINES, round * 3 % LINES);
        let bytes = [(round % 200) as u8; 24];
        let at = LineAddr(first).start().plus(round % 40);
        log.op(lane, Op::Store { at, bytes: &bytes });
        log.op(lane, Op::Store { at: LineAddr(second).start(), bytes: &bytes[..8] });
        log.op(lane, Op::Flush { kind: FlushKind::Clwb, line: LineAddr(first) });
        log.op(lane, Op::StoreNt { at: LineAddr(round % LINES).start(), bytes: &bytes });
        if round % 3 == 0 {
            log.op(lane, Op::Sfence);
        }
        log.op(lane, Op::Load { at, len: 8, depends: None });
    }
    log
}

#[test]
fn the_check_itself_refuses_what_is_forbidden() {
    let image = |set: &[(usize, u8)]| {
        let mut image = base();
        set.iter().for_each(|&(word, byte)| image[8 * word..8 * word + 8].fill(byte));
        image
    };
    let mut history = History::new();
    let lane = LaneId(0);
    let op = |history: &mut History, op| history.op(lane, &op);
    op(&mut history, Op::Store { at: PoolOffset(0), bytes: &[1; 8] });
    op(&mut history, Op::Store { at: PoolOffset(8), bytes: &[2; 8] });
    op(&mut history, Op::StoreNt { at: PoolOffset(64), bytes: &[3; 16] });
    let allowed =
        |history: &History, set: &[(usize, u8)]| history.allows(history, &image(set)).is_ok();
    assert!(allowed(&history, &[]) && allowed(&history, &[(0, 1), (1, 2)]));
    assert!(!allowed(&history, &[(1, 2)]), "rule 2: the second store without the first");
    assert!(!allowed(&history, &[(0, 9)]), "never stored");
    assert!(allowed(&history, &[(9, 3)]), "rule 10: words in any order");
    op(&mut history, Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) });
    history.op(LaneId(1), &Op::Sfence);
    assert!(allowed(&history, &[]), "rule 7: another lane's fence");
    op(&mut history, Op::Sfence);
    assert!(!allowed(&history, &[(0, 1), (8, 3), (9, 3)]), "below the line's floor");
    assert!(!allowed(&history, &[(0, 1), (1, 2), (8, 3)]), "below a word's floor");
    assert!(allowed(&history, &[(0, 1), (1, 2), (8, 3), (9, 3)]));
}
