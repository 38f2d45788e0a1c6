//! A medium that writes down what happens on it.

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use rustc_hash::{FxHashSet, FxHasher};

use crate::medium::{GrowError, InstructionCosts, Mark, Medium, check_bounds, whole_lines};
use crate::schedule::{self, Point};

/// Functional memory that reports every operation, in the one order in which they happened.
///
/// Stores take effect at once, so the program runs as on real memory; what a crash would leave
/// is for the reader of the operations to say. Lanes come from [`schedule`]: under a scheduler
/// every operation and every mark is a point at which the lane may lose the baton, without one
/// everything is lane 0 unless [`schedule::on_lane`] says otherwise.
///
/// ```
/// use outlast_pmem::{Medium, Recorder};
/// use outlast_trace::{LaneId, Op, PoolOffset};
///
/// let medium = Recorder::new(4096);
/// medium.store_u64(PoolOffset(8), 7);
/// let log = medium.take_log();
/// assert_eq!(log.get(0), (LaneId(0), Op::Store { at: PoolOffset(8), bytes: &7u64.to_le_bytes() }));
/// ```
#[derive(Debug)]
pub struct Recorder<S = OpLog> {
    state: Mutex<State<S>>,
    costs: InstructionCosts,
    flush_kind: FlushKind,
    mfence: bool,
    planted: u16,
    loads: bool,
    sites: bool,
    traced: FxHashSet<usize>,
    atomic_line: bool,
    paged: bool,
    len_max: u64,
}

#[derive(Debug)]
struct State<S> {
    bytes: Vec<u8>,
    sink: S,
    ops: usize,
    /// How often each volatile lock was taken.
    tickets: HashMap<u64, u64, BuildHasherDefault<FxHasher>>,
    sites: Vec<Site>,
    traces: BTreeMap<usize, Backtrace>,
    labels: Vec<Option<&'static str>>,
}

/// Where in a program's source an operation comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The innermost [`Mark::Site`] that the lane had passed.
    pub label: Option<&'static str>,
    /// The call into the medium.
    pub location: &'static Location<'static>,
}

impl Recorder {
    /// A medium of `len` zero bytes, rounded up to whole lines, that keeps an [`OpLog`].
    pub fn new(len: u64) -> Self {
        Self::from_image(vec![0; len as usize])
    }

    /// A medium with this content, padded with zeros to whole lines, that keeps an [`OpLog`].
    pub fn from_image(bytes: Vec<u8>) -> Self {
        Self::with_sink(bytes, OpLog::default())
    }

    /// What was recorded since the start or since the last call.
    pub fn take_log(&self) -> OpLog {
        let mut state = self.state();
        state.ops = 0;
        state.sites.clear();
        std::mem::take(&mut state.sink)
    }
}

impl<S: Sink> Recorder<S> {
    /// A medium with this content, padded with zeros to whole lines, that reports to `sink`.
    pub fn with_sink(mut bytes: Vec<u8>, sink: S) -> Self {
        bytes.resize(whole_lines(bytes.len() as u64) as usize, 0);
        let len_max = bytes.len() as u64;
        let state = State {
            bytes,
            sink,
            ops: 0,
            tickets: HashMap::default(),
            sites: Vec::new(),
            traces: BTreeMap::new(),
            labels: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            costs: InstructionCosts::default(),
            flush_kind: FlushKind::Clwb,
            mfence: false,
            planted: 0,
            loads: false,
            sites: false,
            traced: FxHashSet::default(),
            atomic_line: false,
            paged: false,
            len_max,
        }
    }

    /// Lets the medium grow up to `len` bytes.
    pub fn growing_to(mut self, len: u64) -> Self {
        self.len_max = self.len_max.max(len);
        self
    }

    /// Records flushes as this instruction; [`FlushKind::Clwb`] by default.
    pub fn flushing_with(mut self, kind: FlushKind) -> Self {
        self.flush_kind = kind;
        self
    }

    /// Records fences as MFENCE rather than SFENCE.
    pub fn fencing_with_mfence(mut self) -> Self {
        self.mfence = true;
        self
    }

    /// Carries the number of a bug ([`Medium::planted`]).
    pub fn planting(mut self, bug: u16) -> Self {
        self.planted = bug;
        self
    }

    /// Records loads too. Crash checking does not need them; the machine does.
    pub fn recording_loads(mut self) -> Self {
        self.loads = true;
        self
    }

    /// Keeps the [`Site`] of every operation.
    pub fn recording_sites(mut self) -> Self {
        self.sites = true;
        self
    }

    /// Keeps the stack with which the lane came to each of these operations, by their index. A
    /// [`Site`] names the call into the medium, which often stands in a helper; the stack names
    /// the helper's callers.
    pub fn tracing(mut self, ops: impl IntoIterator<Item = usize>) -> Self {
        self.traced = ops.into_iter().collect();
        self
    }

    /// Records the instructions of the runtime itself as [`Op::Compute`]: `costs` says how many for
    /// each call.
    pub fn with_costs(mut self, costs: InstructionCosts) -> Self {
        self.costs = costs;
        self
    }

    /// Claims MOVDIR64B: [`Medium::store_line`] becomes one atomic operation.
    pub fn with_atomic_line(mut self) -> Self {
        self.atomic_line = true;
        self
    }

    /// Claims that a fence writes pages to a device ([`Medium::is_paged`]), as in the domain `page`.
    pub fn paged(mut self, paged: bool) -> Self {
        self.paged = paged;
        self
    }

    /// How many operations were recorded since the start or since the log was last taken.
    pub fn ops(&self) -> usize {
        self.state().ops
    }

    /// The site of each operation recorded since the log was last taken, by its index; empty
    /// unless [`recording_sites`](Self::recording_sites) was asked for.
    pub fn sites(&self) -> Vec<Site> {
        self.state().sites.clone()
    }

    /// The stacks that were asked for by [`tracing`](Self::tracing), by the index of their operation.
    pub fn take_traces(&self) -> BTreeMap<usize, Backtrace> {
        std::mem::take(&mut self.state().traces)
    }

    /// A copy of the whole content, as the program sees it now.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Gives up the medium for its sink and its content.
    pub fn into_parts(self) -> (S, Vec<u8>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.sink, state.bytes)
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        // Only an access out of bounds panics in here, and it leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn write(&self, at: PoolOffset, bytes: &[u8], op: Op<'_>) {
        let lane = schedule::point(Point::Act);
        let mut state = self.state();
        state.put(at, bytes);
        self.report(&mut state, lane, op);
    }

    #[track_caller]
    fn report(&self, state: &mut State<S>, lane: LaneId, op: Op<'_>) {
        if self.sites {
            let label = state.labels.get(usize::from(lane.0)).copied().flatten();
            state.sites.push(Site { label, location: Location::caller() });
        }
        if self.traced.contains(&state.ops) {
            let op = state.ops;
            state.traces.insert(op, Backtrace::force_capture());
        }
        state.ops += 1;
        state.sink.op(lane, op);
    }
}

impl<S> State<S> {
    #[track_caller]
    fn put(&mut self, at: PoolOffset, bytes: &[u8]) {
        check_bounds(self.bytes.len() as u64, at, bytes.len() as u64);
        self.bytes[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[track_caller]
    fn get(&self, at: PoolOffset, out: &mut [u8]) {
        check_bounds(self.bytes.len() as u64, at, out.len() as u64);
        out.copy_from_slice(&self.bytes[at.0 as usize..][..out.len()]);
    }

    #[track_caller]
    fn word(&self, at: PoolOffset) -> u64 {
        let mut word = [0; 8];
        self.get(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn set_label(&mut self, lane: LaneId, label: &'static str) {
        let lane = usize::from(lane.0);
        if self.labels.len() <= lane {
            self.labels.resize(lane + 1, None);
        }
        self.labels[lane] = Some(label);
    }
}

#[track_caller]
fn check_aligned(at: PoolOffset) {
    assert!(at.is_aligned(8), "a word at {at} is not aligned");
}

impl<S: Sink> Medium for Recorder<S> {
    const OBSERVED: bool = true;

    fn planted(&self) -> u16 {
        self.planted
    }

    fn has_atomic_line(&self) -> bool {
        self.atomic_line
    }

    fn is_paged(&self) -> bool {
        self.paged
    }

    fn len(&self) -> u64 {
        self.state().bytes.len() as u64
    }

    #[track_caller]
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        let lane = schedule::point(Point::Look);
        let mut state = self.state();
        state.get(at, out);
        if self.loads {
            self.report(&mut state, lane, Op::Load { at, len: out.len() as u32, depends: None });
        }
    }

    #[track_caller]
    fn load_u64(&self, at: PoolOffset) -> u64 {
        check_aligned(at);
        let mut word = [0; 8];
        self.load(at, &mut word);
        u64::from_le_bytes(word)
    }

    #[track_caller]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.write(at, bytes, Op::Store { at, bytes });
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
            self.write(at, bytes, Op::StoreNt { at, bytes });
        }
    }

    #[track_caller]
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        let at = line.start();
        if self.atomic_line {
            self.write(at, bytes, Op::Store64 { line, bytes });
        } else {
            self.write(at, bytes, Op::StoreNt { at, bytes });
        }
    }

    #[track_caller]
    fn flush(&self, line: LineAddr) {
        let lane = schedule::point(Point::Look);
        let mut state = self.state();
        check_bounds(state.bytes.len() as u64, line.start(), 64);
        self.report(&mut state, lane, Op::Flush { kind: self.flush_kind, line });
    }

    #[track_caller]
    fn flush_range(&self, at: PoolOffset, len: u64) {
        for line in outlast_trace::ByteRange::new(at, len).lines() {
            self.flush(line);
        }
    }

    #[track_caller]
    fn fence(&self) {
        let lane = schedule::point(Point::Look);
        let op = if self.mfence { Op::Mfence } else { Op::Sfence };
        self.report(&mut self.state(), lane, op);
    }

    #[track_caller]
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        check_aligned(at);
        let lane = schedule::point(Point::Act);
        let mut state = self.state();
        let found = state.word(at);
        // A failing compare-exchange stores what it found, and is locked all the same.
        let left = if found == current { new } else { found };
        let bytes = left.to_le_bytes();
        state.put(at, &bytes);
        self.report(&mut state, lane, Op::Rmw { at, bytes: &bytes });
        if found == current { Ok(found) } else { Err(found) }
    }

    #[track_caller]
    fn grow(&self, len: u64) -> Result<(), GrowError> {
        let lane = schedule::point(Point::Act);
        let mut state = self.state();
        let len = whole_lines(len);
        if len <= state.bytes.len() as u64 {
            return Ok(());
        }
        if len > self.len_max {
            return Err(GrowError::Fixed);
        }
        state.bytes.resize(len as usize, 0);
        self.report(&mut state, lane, Op::Grow { len });
        Ok(())
    }

    #[track_caller]
    fn mark(&self, mark: Mark) {
        // Work between two accesses is no place where another lane could make a difference.
        let lane = match mark {
            Mark::Compute(_) | Mark::Call(_) | Mark::Site(_) => schedule::current_lane(),
            _ => schedule::point(Point::Act),
        };
        let mut state = self.state();
        let op = match mark {
            Mark::TxBegin => Op::TxBegin,
            Mark::TxEnd => Op::TxEnd,
            Mark::Ack(TxId(id)) => Op::Ack(TxId(id)),
            Mark::Lock(id) => {
                let ticket = state.tickets.entry(id).or_insert(0);
                *ticket += 1;
                Op::Lock { id, ticket: *ticket }
            }
            Mark::Unlock(id) => {
                Op::Unlock { id, ticket: state.tickets.get(&id).copied().unwrap_or(0) }
            }
            Mark::Compute(n) => Op::Compute(n),
            Mark::Call(call) => match self.costs.of(call) {
                0 => return,
                n => Op::Compute(n),
            },
            Mark::Site(label) => return state.set_label(lane, label),
        };
        self.report(&mut state, lane, op);
    }

    fn pause(&self) {
        if schedule::is_scheduled() {
            schedule::point(Point::Pause);
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Call;

    fn ops(log: &OpLog) -> Vec<String> {
        log.iter().map(|(lane, op)| format!("{} {op:?}", lane.0)).collect()
    }

    #[test]
    fn everything_that_happens_is_reported_in_order_and_takes_effect() {
        let medium = Recorder::new(100).with_atomic_line().growing_to(256);
        assert_eq!(medium.len(), 128);
        medium.store(PoolOffset(3), &[1, 2]);
        medium.store_nt(PoolOffset(64), &[7; 8]);
        medium.store_line(LineAddr(1), &[9; 64]);
        medium.flush_range(PoolOffset(60), 8);
        medium.fence();
        assert_eq!(medium.compare_exchange_u64(PoolOffset(8), 0, 5), Ok(0));
        assert_eq!(medium.compare_exchange_u64(PoolOffset(8), 0, 6), Err(5));
        medium.mark(Mark::TxBegin);
        medium.mark(Mark::Ack(TxId(4)));
        medium.mark(Mark::TxEnd);
        medium.grow(200).unwrap();
        assert_eq!(medium.len(), 256);
        assert!(medium.grow(257).is_err());
        let mut out = [0; 3];
        medium.load(PoolOffset(3), &mut out);
        assert_eq!(out, [1, 2, 0]);
        let expected = [
            "0 Store { at: 0x3, bytes: [1, 2] }",
            "0 StoreNt { at: 0x40, bytes: [7, 7, 7, 7, 7, 7, 7, 7] }",
            &format!("0 Store64 {{ line: L0x1, bytes: {:?} }}", [9; 64]),
            "0 Flush { kind: Clwb, line: L0x0 }",
            "0 Flush { kind: Clwb, line: L0x1 }",
            "0 Sfence",
            "0 Rmw { at: 0x8, bytes: [5, 0, 0, 0, 0, 0, 0, 0] }",
            "0 Rmw { at: 0x8, bytes: [5, 0, 0, 0, 0, 0, 0, 0] }",
            "0 TxBegin",
            "0 Ack(TxId(4))",
            "0 TxEnd",
            "0 Grow { len: 256 }",
        ];
        assert_eq!(medium.ops(), expected.len());
        assert_eq!(ops(&medium.take_log()), expected);
        assert_eq!(medium.ops(), 0);
    }

    #[test]
    fn without_an_atomic_line_a_streamed_line_is_eight_words() {
        let medium = Recorder::new(64);
        medium.store_line(LineAddr(0), &[1; 64]);
        assert!(matches!(medium.take_log().get(0).1, Op::StoreNt { .. }));
    }

    #[test]
    fn locks_are_numbered_and_loads_appear_on_request() {
        let medium = Recorder::new(64).recording_loads();
        medium.mark(Mark::Lock(9));
        medium.load_u64(PoolOffset(8));
        medium.mark(Mark::Unlock(9));
        medium.mark(Mark::Lock(9));
        assert_eq!(
            ops(&medium.take_log()),
            [
                "0 Lock { id: 9, ticket: 1 }",
                "0 Load { at: 0x8, len: 8, depends: None }",
                "0 Unlock { id: 9, ticket: 1 }",
                "0 Lock { id: 9, ticket: 2 }",
            ]
        );
    }

    #[test]
    fn calls_are_work_where_they_have_a_price() {
        let medium = Recorder::new(64);
        medium.mark(Mark::Call(Call::Load));
        assert!(medium.take_log().is_empty());
        let medium = medium.with_costs(InstructionCosts { load: 7, ..InstructionCosts::default() });
        medium.mark(Mark::Call(Call::Load));
        medium.mark(Mark::Call(Call::Store));
        assert_eq!(ops(&medium.take_log()), ["0 Compute(7)"]);
    }

    #[test]
    fn a_site_names_the_line_of_the_program_and_its_part() {
        fn program<M: Medium>(medium: &M) {
            medium.store_u64(PoolOffset(0), 1);
            medium.mark(Mark::Site("second part"));
            medium.fence();
        }
        let medium = Recorder::new(64).recording_sites();
        program(&&medium);
        let sites = medium.sites();
        assert_eq!(sites.len(), 2);
        assert_eq!(sites[0].location.file(), file!());
        assert_eq!(sites[1].location.line(), sites[0].location.line() + 2);
        assert_eq!((sites[0].label, sites[1].label), (None, Some("second part")));
    }

    #[test]
    fn lanes_on_one_thread_are_told_apart() {
        let medium = Recorder::new(64);
        schedule::on_lane(LaneId(3), || medium.fence());
        medium.fence();
        assert_eq!(ops(&medium.take_log()), ["3 Sfence", "0 Sfence"]);
    }

    #[test]
    #[should_panic(expected = "leaves a medium of 64 bytes")]
    fn an_access_past_the_end_panics() {
        Recorder::new(64).store(PoolOffset(60), &[0; 8]);
    }
}
