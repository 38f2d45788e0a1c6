//! The medium that recoveries run on: one flat image that advances, and what was done to it
//! since as a list of words to put back.
//!
//! A campaign never copies a pool for a crash point. The image moves from crash point to crash
//! point with the journal; a recovery's stores, and those of whatever follows it, are undone.

use std::cell::RefCell;

use outlast_pmem::{GrowError, Mark, Medium, schedule};
use outlast_sim::Persisted;
use outlast_trace::{FlushKind, LineAddr, Op, OpLog, PoolOffset, Sink};

use crate::Stuck;

/// Pauses by a lone lane after which it counts as stuck.
const PAUSES_MAX: u32 = 10_000;

/// Operations after which a recovery counts as endless.
const OPS_MAX: u64 = 50_000_000;

/// An image with an undo list. For one thread.
pub(crate) struct Overlay {
    state: RefCell<State>,
    planted: u16,
}

struct State {
    bytes: Vec<u8>,
    /// Words changed since the image was last advanced, with what they held, oldest first.
    undo: Vec<(u64, [u8; 8])>,
    log: Option<OpLog>,
    ops: u64,
    pauses: u32,
}

/// A place in the undo list to come back to.
#[derive(Clone, Copy)]
pub(crate) struct Checkpoint(usize);

impl Overlay {
    /// An image of whole lines.
    pub fn new(bytes: Vec<u8>) -> Self {
        debug_assert!(bytes.len().is_multiple_of(64));
        let state = State { bytes, undo: Vec::new(), log: None, ops: 0, pauses: 0 };
        Self { state: RefCell::new(state), planted: 0 }
    }

    /// Carries the number of a bug ([`Medium::planted`]).
    pub fn planting(self, bug: u16) -> Self {
        Self { planted: bug, ..self }
    }

    /// Moves the image itself.
    ///
    /// # Panics
    /// When something was stored that was not rolled back.
    pub fn advance(&self, change: impl FnOnce(&mut [u8])) {
        let state = &mut *self.state.borrow_mut();
        assert!(state.undo.is_empty(), "an image advances between recoveries");
        change(&mut state.bytes);
    }

    /// The bytes as they stand.
    pub fn view<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&self.state.borrow().bytes)
    }

    /// Where to come back to; also grants a new allowance of operations.
    pub fn checkpoint(&self) -> Checkpoint {
        let state = &mut *self.state.borrow_mut();
        (state.ops, state.pauses) = (0, 0);
        Checkpoint(state.undo.len())
    }

    /// Puts back everything since the checkpoint.
    pub fn roll_back(&self, to: Checkpoint) {
        let state = &mut *self.state.borrow_mut();
        for (word, old) in state.undo.drain(to.0..).rev() {
            state.bytes[word as usize * 8..][..8].copy_from_slice(&old);
        }
    }

    /// Makes durable what a journal says was, until it is rolled back.
    pub fn persist(&self, persisted: &Persisted<'_>) {
        let at = persisted.line.start().plus(8 * persisted.first_word as u64);
        self.state.borrow_mut().write(at, persisted.words.as_flattened());
    }

    /// Starts to write down operations.
    pub fn record(&self) {
        self.state.borrow_mut().log = Some(OpLog::default());
    }

    /// How many operations were written down.
    pub fn recorded(&self) -> usize {
        self.state.borrow().log.as_ref().map_or(0, OpLog::len)
    }

    /// Ends recording.
    pub fn take_log(&self) -> OpLog {
        self.state.borrow_mut().log.take().unwrap_or_default()
    }
}

impl State {
    #[inline]
    #[track_caller]
    fn check(&mut self, at: PoolOffset, len: usize) {
        let size = self.bytes.len() as u64;
        assert!(
            at.0 <= size && size - at.0 >= len as u64,
            "access of {len} bytes at {at} leaves a medium of {size} bytes"
        );
        self.ops += 1;
        if self.ops > OPS_MAX {
            stuck(format!("does not end within {OPS_MAX} operations"));
        }
    }

    #[inline]
    #[track_caller]
    fn write(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.check(at, bytes.len());
        if bytes.is_empty() {
            return;
        }
        for word in at.0 / 8..(at.0 + bytes.len() as u64).div_ceil(8) {
            let old = self.bytes[word as usize * 8..].first_chunk().expect("whole lines");
            self.undo.push((word, *old));
        }
        self.bytes[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn note(&mut self, op: Op<'_>) {
        if let Some(log) = &mut self.log {
            log.op(schedule::current_lane(), op);
        }
    }

    #[inline]
    fn word(&self, at: PoolOffset) -> u64 {
        let bytes = self.bytes[at.0 as usize..].first_chunk().expect("checked");
        u64::from_le_bytes(*bytes)
    }
}

#[cold]
fn stuck(why: String) -> ! {
    std::panic::resume_unwind(Box::new(Stuck(why)));
}

#[track_caller]
fn check_aligned(at: PoolOffset) {
    assert!(at.is_aligned(8), "a word at {at} is not aligned");
}

impl Medium for Overlay {
    const OBSERVED: bool = true;

    #[inline]
    fn planted(&self) -> u16 {
        self.planted
    }

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.state.borrow().bytes.len() as u64
    }

    #[inline]
    #[track_caller]
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        let state = &mut *self.state.borrow_mut();
        state.check(at, out.len());
        out.copy_from_slice(&state.bytes[at.0 as usize..][..out.len()]);
    }

    #[inline]
    #[track_caller]
    fn load_u64(&self, at: PoolOffset) -> u64 {
        check_aligned(at);
        let state = &mut *self.state.borrow_mut();
        state.check(at, 8);
        state.word(at)
    }

    #[track_caller]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        if !bytes.is_empty() {
            let state = &mut *self.state.borrow_mut();
            state.write(at, bytes);
            state.note(Op::Store { at, bytes });
        }
    }

    #[track_caller]
    fn store_u64(&self, at: PoolOffset, value: u64) {
        check_aligned(at);
        self.store(at, &value.to_le_bytes());
    }

    #[track_caller]
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        if !bytes.is_empty() {
            let state = &mut *self.state.borrow_mut();
            state.write(at, bytes);
            state.note(Op::StoreNt { at, bytes });
        }
    }

    #[track_caller]
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.store_nt(line.start(), bytes);
    }

    #[track_caller]
    fn flush(&self, line: LineAddr) {
        let state = &mut *self.state.borrow_mut();
        state.check(line.start(), 64);
        state.note(Op::Flush { kind: FlushKind::Clwb, line });
    }

    fn fence(&self) {
        self.state.borrow_mut().note(Op::Sfence);
    }

    #[track_caller]
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        check_aligned(at);
        let state = &mut *self.state.borrow_mut();
        state.check(at, 8);
        let found = state.word(at);
        let left = if found == current { new } else { found };
        let bytes = left.to_le_bytes();
        state.write(at, &bytes);
        state.note(Op::Rmw { at, bytes: &bytes });
        if found == current { Ok(found) } else { Err(found) }
    }

    /// The image has the length that the run came to, so only what goes past it is refused.
    fn grow(&self, len: u64) -> Result<(), GrowError> {
        if len <= self.len() { Ok(()) } else { Err(GrowError::Fixed) }
    }

    fn mark(&self, mark: Mark) {
        if let Mark::Ack(id) = mark {
            self.state.borrow_mut().note(Op::Ack(id));
        }
    }

    fn pause(&self) {
        let state = &mut *self.state.borrow_mut();
        state.pauses += 1;
        if state.pauses > PAUSES_MAX {
            stuck("waits for another lane, and there is none".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_sim::{AtomicConfig, AtomicDriver, Preset};

    #[test]
    fn rolling_back_restores_every_byte_to_each_checkpoint() {
        let bytes: Vec<u8> = (0..192).map(|i| i as u8).collect();
        let overlay = Overlay::new(bytes.clone());
        let outer = overlay.checkpoint();
        overlay.store(PoolOffset(5), &[200; 20]);
        let between = overlay.view(<[u8]>::to_vec);
        let inner = overlay.checkpoint();
        overlay.store_nt(PoolOffset(0), &[1; 64]);
        overlay.store(PoolOffset(7), &[2; 3]);
        overlay.compare_exchange_u64(PoolOffset(184), 0, 1).unwrap_err();
        overlay.roll_back(inner);
        assert_eq!(overlay.view(<[u8]>::to_vec), between);
        overlay.roll_back(outer);
        assert_eq!(overlay.view(<[u8]>::to_vec), bytes);
    }

    #[test]
    fn what_is_recorded_makes_a_journal_that_gives_the_same_bytes() {
        let overlay = Overlay::new(vec![0; 256]);
        let start = overlay.checkpoint();
        overlay.record();
        overlay.store(PoolOffset(60), &[7; 9]);
        overlay.flush(LineAddr(0));
        overlay.flush(LineAddr(1));
        overlay.fence();
        let (log, after) = (overlay.take_log(), overlay.view(<[u8]>::to_vec));
        overlay.roll_back(start);
        let config = AtomicConfig::from(Preset::Tiny.config());
        let journal = AtomicDriver::new(&config, 1, &[0; 256]).unwrap().play(&log);
        journal.iter().for_each(|persisted| overlay.persist(&persisted));
        assert_eq!(overlay.view(<[u8]>::to_vec), after);
    }
}
