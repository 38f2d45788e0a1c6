//! An image of a crash as a medium: one flat copy of the pool, patched and reverted.
//!
//! Recovery runs on an [`ImageMedium`] like on any other medium. What a crash left open is not
//! decided beforehand: a unit with several possible contents gets one when recovery first touches
//! it, and what recovery never touches stands for all its contents at once. Between two
//! recoveries only the touched words are put back; nothing is ever copied.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::time::{Duration, Instant};

use outlast_pmem::{GrowError, Mark, Medium, Site, schedule};
use outlast_trace::{FlushKind, LineAddr, Op, OpLog, PoolOffset, Sink};

mod looked;
mod memory;
mod open;
mod verdicts;

pub(crate) use looked::Looked;
use memory::Memory;
pub(crate) use memory::print;
pub use memory::{draw, mix};
use open::Open;
pub(crate) use open::{Frame, Mode};
use verdicts::IsValid;

/// Pauses by a lone recovery after which it counts as stuck.
const PAUSES_MAX: u32 = 10_000;

/// Operations after which a recovery counts as endless, unless told otherwise.
pub(crate) const OPS_MAX: u64 = 100_000_000;

/// The medium that recovery runs on after a crash. For one thread; cheap to reset.
///
/// ```
/// use outlast_check::memory::ImageMedium;
/// use outlast_pmem::Medium;
/// use outlast_trace::{LineAddr, PoolOffset};
///
/// let image = ImageMedium::new(&[0; 128]);
/// image.set_line(LineAddr(1), &[7; 64]); // part of the image
/// image.store_u64(PoolOffset(64), 1); // recovery
/// image.revert();
/// assert_eq!(image.load_u64(PoolOffset(64)), 0x0707_0707_0707_0707);
/// ```
#[derive(Debug)]
pub struct ImageMedium {
    state: RefCell<State>,
    planted: Cell<u16>,
    atomic_line: bool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub memory: Memory,
    pub open: Open,
    /// Words that recovery stored to, with their old values, oldest first.
    undo: Vec<(u64, u64)>,
    /// The medium's length when recovery began.
    len_before: u64,
    /// The operations of recovery, when another crash is to follow.
    log: OpLog,
    recording: bool,
    /// Where each operation of `log` stands in the source, where that is asked for.
    sites: Option<Vec<Site>>,
    /// The innermost [`Mark::Site`] that recovery has passed.
    label: Option<&'static str>,
    len_max: u64,
    /// Lines that some recovery has loaded from.
    pub looked: Looked,
    ops: u64,
    limits: Limits,
    /// When the operations of this recovery were first counted.
    counted_since: Option<Instant>,
    pauses: u32,
}

/// The bounds beyond which a recovery counts as endless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub ops: u64,
    pub time: Duration,
}

/// Operations of a recovery between two readings of the clock.
const OPS_PER_LOOK: u64 = 4096;

/// The way back from a crash inside a crash.
pub(crate) struct Settled {
    frame: Frame,
    journal: usize,
    len: u64,
}

/// The payload with which a recovery unwinds that does not come to an end.
pub struct Stuck(pub String);

impl ImageMedium {
    /// An image that holds `bytes`, padded with zeros to whole lines, and nothing else.
    pub fn new(bytes: &[u8]) -> Self {
        let memory = Memory::new(bytes);
        let len = memory.len();
        let state = State {
            open: Open::new(len),
            memory,
            undo: Vec::new(),
            len_before: len,
            log: OpLog::default(),
            recording: false,
            sites: None,
            label: None,
            len_max: len,
            looked: Looked::default(),
            ops: 0,
            limits: Limits { ops: OPS_MAX, time: Duration::MAX },
            counted_since: None,
            pauses: 0,
        };
        Self { state: RefCell::new(state), planted: Cell::new(0), atomic_line: false }
    }

    /// Lets recovery make the medium larger, up to `len` bytes.
    pub fn growing_to(self, len: u64) -> Self {
        self.with(|state| state.len_max = state.len_max.max(len));
        self
    }

    /// Claims MOVDIR64B.
    pub fn with_atomic_line(mut self) -> Self {
        self.atomic_line = true;
        self
    }

    /// Carries the number of a bug from here on ([`Medium::planted`]).
    pub fn plant(&self, bug: u16) {
        self.planted.set(bug);
    }

    /// Replaces a line of the image itself, so that [`revert`](Self::revert) comes back to it.
    ///
    /// # Panics
    /// When something was stored since the last revert, or the line lies outside.
    pub fn set_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.with(|state| {
            assert!(state.undo.is_empty(), "an image is changed before recovery, not after");
            state.memory.set_line(line, bytes);
        });
    }

    /// Undoes everything that was stored, and the growth.
    pub fn revert(&self) {
        self.with(State::revert);
    }

    /// A copy of the whole content. Looks at every word, so it decides all that is open.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.load(PoolOffset(0), &mut bytes);
        bytes
    }

    /// Runs `body` and lists the lines that it loads from, ascending.
    pub fn lines_loaded_by<R>(&self, body: impl FnOnce() -> R) -> (R, Vec<LineAddr>) {
        let before = self.with(|state| std::mem::take(&mut state.looked));
        let result = body();
        let looked = self.with(|state| std::mem::replace(&mut state.looked, before));
        self.with(|state| state.looked.add(&looked));
        let lines = (0..self.len() / 64).map(LineAddr);
        (result, lines.filter(|line| looked.contains(*line)).collect())
    }

    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        body(&mut self.state.borrow_mut())
    }
}

impl State {
    /// Gets ready for a recovery.
    pub fn begin(&mut self, recording: bool, limits: Limits) {
        debug_assert!(self.undo.is_empty());
        self.open.begin();
        self.len_before = self.memory.len();
        self.log.clear();
        self.recording = recording;
        (self.ops, self.limits, self.pauses) = (0, limits, 0);
        (self.sites, self.label, self.counted_since) = (None, None, None);
    }

    /// Keeps the site of each operation of the recovery that is about to run.
    pub fn record_sites(&mut self) {
        self.sites = Some(Vec::new());
    }

    /// The operations of this recovery, and their sites where they were kept.
    pub fn take_log(&mut self) -> (OpLog, Vec<Site>) {
        (std::mem::take(&mut self.log), self.sites.take().unwrap_or_default())
    }

    /// Undoes the stores of recovery; its decisions stay.
    pub fn revert(&mut self) {
        for (index, old) in self.undo.drain(..).rev() {
            self.memory.put_word(index, old);
        }
        if self.memory.len() != self.len_before {
            self.memory.truncate(self.len_before);
            self.open.resize(self.len_before);
        }
    }

    /// Takes back the decisions of this recovery.
    pub fn undecide(&mut self) {
        self.open.undecide(&mut self.memory);
    }

    /// Whether recovery stored anything or grew the medium.
    pub fn has_changed(&self) -> bool {
        !self.undo.is_empty() || self.memory.len() != self.len_before
    }

    /// Takes the operations of this recovery, leaving an empty log in exchange.
    pub fn swap_log(&mut self, log: &mut OpLog) {
        std::mem::swap(&mut self.log, log);
    }

    /// Makes the decisions of the last recovery part of the image, for crashes that follow it.
    pub fn settle(&mut self) -> Settled {
        Settled {
            frame: self.open.settle(&mut self.memory),
            journal: self.memory.journal_mark(),
            len: self.memory.len(),
        }
    }

    /// Takes back a [`settle`](Self::settle), and all that became durable since.
    pub fn unsettle(&mut self, settled: Settled) {
        self.memory.undo_to(settled.journal);
        self.memory.truncate(settled.len);
        self.open.resize(settled.len);
        self.open.unsettle(settled.frame, &mut self.memory);
    }

    #[inline]
    #[track_caller]
    fn touch(&mut self, at: PoolOffset, len: usize) {
        self.ops += 1;
        let size = self.memory.len();
        if at.0 > size || size - at.0 < len as u64 {
            leaves(size, at, len);
        }
        if self.ops > self.limits.ops {
            endless(format!("does not end within {} operations", self.limits.ops));
        }
        if self.ops.is_multiple_of(OPS_PER_LOOK) {
            self.look_at_clock();
        }
        if self.open.is_any() && len > 0 {
            self.open.touch(at.0 / 8, (at.0 + len as u64 - 1) / 8, &mut self.memory);
        }
    }

    #[track_caller]
    fn verify(&mut self, at: PoolOffset, len: u64, is_valid: IsValid<'_>) -> bool {
        let size = self.memory.len();
        if at.0 > size || size - at.0 < len {
            leaves(size, at, len as usize);
        }
        self.touch(at, 0);
        self.looked.note(at, len as usize);
        self.open.verify(at, len as usize, is_valid, &mut self.memory)
    }

    #[inline]
    #[track_caller]
    fn write(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.touch(at, bytes.len());
        if bytes.is_empty() {
            return;
        }
        let last = (at.0 + bytes.len() as u64 - 1) / 8;
        for index in at.0 / 8..=last {
            self.undo.push((index, self.memory.get_word(index)));
        }
        self.memory.put(at, bytes);
    }

    #[cold]
    fn look_at_clock(&mut self) {
        let since = *self.counted_since.get_or_insert_with(Instant::now);
        let limit = self.limits.time;
        if since.elapsed() > limit {
            endless(format!("does not end within {limit:?}"));
        }
    }

    #[inline]
    #[track_caller]
    fn record(&mut self, op: Op<'_>) {
        if self.recording {
            self.log.op(schedule::current_lane(), op);
            if let Some(sites) = &mut self.sites {
                sites.push(Site { label: self.label, location: Location::caller() });
            }
        }
    }
}

#[cold]
#[track_caller]
fn leaves(size: u64, at: PoolOffset, len: usize) -> ! {
    panic!("access of {len} bytes at {at} leaves a medium of {size} bytes");
}

#[cold]
fn endless(why: String) -> ! {
    std::panic::resume_unwind(Box::new(Stuck(why)));
}

#[track_caller]
fn check_aligned(at: PoolOffset) {
    assert!(at.is_aligned(8), "a word at {at} is not aligned");
}

impl Medium for ImageMedium {
    const OBSERVED: bool = true;

    #[inline]
    fn planted(&self) -> u16 {
        self.planted.get()
    }

    fn has_atomic_line(&self) -> bool {
        self.atomic_line
    }

    fn len(&self) -> u64 {
        self.state.borrow().memory.len()
    }

    #[inline]
    #[track_caller]
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        let state = &mut *self.state.borrow_mut();
        state.touch(at, out.len());
        state.looked.note(at, out.len());
        state.memory.get(at, out);
    }

    #[inline]
    #[track_caller]
    fn load_u64(&self, at: PoolOffset) -> u64 {
        check_aligned(at);
        let state = &mut *self.state.borrow_mut();
        state.touch(at, 8);
        state.looked.note(at, 8);
        state.memory.get_word(at.0 / 8)
    }

    #[track_caller]
    fn verify(&self, at: PoolOffset, len: u64, is_valid: impl Fn(&[u8]) -> bool) -> bool {
        self.state.borrow_mut().verify(at, len, &is_valid)
    }

    #[track_caller]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        state.write(at, bytes);
        state.record(Op::Store { at, bytes });
    }

    #[inline]
    #[track_caller]
    fn store_u64(&self, at: PoolOffset, value: u64) {
        check_aligned(at);
        let bytes = value.to_le_bytes();
        let state = &mut *self.state.borrow_mut();
        state.write(at, &bytes);
        state.record(Op::Store { at, bytes: &bytes });
    }

    #[track_caller]
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        if bytes.is_empty() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        state.write(at, bytes);
        state.record(Op::StoreNt { at, bytes });
    }

    #[track_caller]
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        let at = line.start();
        let state = &mut *self.state.borrow_mut();
        state.write(at, bytes);
        let op =
            if self.atomic_line { Op::Store64 { line, bytes } } else { Op::StoreNt { at, bytes } };
        state.record(op);
    }

    #[inline]
    #[track_caller]
    fn flush(&self, line: LineAddr) {
        let state = &mut *self.state.borrow_mut();
        let size = state.memory.len();
        if line.start().0 >= size {
            leaves(size, line.start(), 64);
        }
        state.record(Op::Flush { kind: FlushKind::Clwb, line });
    }

    #[inline]
    #[track_caller]
    fn fence(&self) {
        self.state.borrow_mut().record(Op::Sfence);
    }

    #[track_caller]
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        check_aligned(at);
        let state = &mut *self.state.borrow_mut();
        state.touch(at, 8);
        state.looked.note(at, 8);
        let found = state.memory.get_word(at.0 / 8);
        let left = if found == current { new } else { found };
        let bytes = left.to_le_bytes();
        state.write(at, &bytes);
        state.record(Op::Rmw { at, bytes: &bytes });
        if found == current { Ok(found) } else { Err(found) }
    }

    #[track_caller]
    fn grow(&self, len: u64) -> Result<(), GrowError> {
        let len = len.next_multiple_of(64);
        let state = &mut *self.state.borrow_mut();
        if len <= state.memory.len() {
            return Ok(());
        }
        if len > state.len_max {
            return Err(GrowError::Fixed);
        }
        state.memory.extend(len);
        state.open.resize(len);
        state.record(Op::Grow { len });
        Ok(())
    }

    #[inline]
    #[track_caller]
    fn mark(&self, mark: Mark) {
        let state = &mut *self.state.borrow_mut();
        if !state.recording {
            return;
        }
        match mark {
            Mark::TxBegin => state.record(Op::TxBegin),
            Mark::TxEnd => state.record(Op::TxEnd),
            Mark::Ack(tx) => state.record(Op::Ack(tx)),
            // Recovery is alone: its locks order nothing.
            Mark::Lock(_) | Mark::Unlock(_) | Mark::Compute(_) | Mark::Call(_) => {}
            Mark::Site(label) => state.label = Some(label),
        }
    }

    fn pause(&self) {
        let state = &mut *self.state.borrow_mut();
        state.pauses += 1;
        if state.pauses > PAUSES_MAX {
            endless("waits for another lane, and there is none".to_owned());
        }
    }
}
