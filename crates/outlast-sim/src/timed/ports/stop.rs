//! All cores stop at a definite point, and go on; stores that the scheme names.
//!
//! From [`Outbox::stop`](super::Outbox::stop) on, cores begin no instruction. A core stands when all
//! that it began has retired and its stores, streams and flushes are done, so nothing is half done
//! anywhere. An instruction that waits for another core (a lock, a signal) goes back to where it
//! came from: it has done nothing. When all cores stand, and all that has left the caches has arrived
//! at the controller and been asked about or held back, [`Scheme::stopped`] is called. What the
//! scheme injects runs even then, and another stop tells when that is done.
//!
//! Lines that leave the caches meanwhile may have to wait for the scheme. So that cores can finish
//! nonetheless, such lines take no room in the buffer towards memory while the cores stop.

use super::Scheme;
use crate::timed::{
    core::Core,
    instr::{Instr, InstrKind},
    system::System,
    time::Cycle,
    uncore::Uncore,
};
use outlast_trace::derive;
use outlast_trace::{LaneId, LineAddr, PoolOffset, word_pieces};

/// Registers that a core stores to memory, so that what begins there after a crash is where it was.
///
/// The first word is the core's position in its program, the second the epoch; the others follow from
/// both and stand for the contents of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterSave {
    /// Whose.
    pub lane: LaneId,
    /// The first of the lines.
    pub to: LineAddr,
    /// How many lines they take.
    pub lines: u64,
    /// The epoch that they are saved at the end of.
    pub epoch: u64,
    /// The position at which this run began.
    pub from: u64,
}

impl RegisterSave {
    fn bytes(&self, position: u64) -> Vec<u8> {
        let word = |number: u64| match number {
            0 => position,
            1 => self.epoch,
            _ => {
                derive(position ^ self.epoch.rotate_left(32), number << 16 | u64::from(self.lane.0))
            }
        };
        (0..8 * self.lines).flat_map(|number| word(number).to_le_bytes()).collect()
    }
}

/// Whether cores may begin instructions.
#[derive(Debug)]
pub(in crate::timed) struct Stop<T> {
    /// They may not.
    pub(in crate::timed) is_on: bool,
    /// Whether a scheme waits for all cores to stand, and whom to tell.
    pub(in crate::timed) is_waited_for: bool,
    waits: Vec<T>,
}

impl<T> Default for Stop<T> {
    fn default() -> Self {
        Self { is_on: false, is_waited_for: false, waits: Vec::new() }
    }
}

/// Calls that are due when a number of instructions has retired.
#[derive(Debug)]
pub(in crate::timed) struct Alarms {
    /// The instruction and the token's number of each.
    due: Vec<(u64, u32)>,
    /// The first of the instructions.
    pub(in crate::timed) next: u64,
}

impl Default for Alarms {
    fn default() -> Self {
        Self { due: Vec::new(), next: u64::MAX }
    }
}

impl Alarms {
    fn set(&mut self, at: u64, token: u32) {
        self.due.push((at, token));
        self.next = self.next.min(at);
    }

    fn take(&mut self, retired: u64) -> Vec<(u64, u32)> {
        let mut due: Vec<_> = self.due.extract_if(.., |(at, _)| *at <= retired).collect();
        due.sort_by_key(|(at, _)| *at);
        self.next = self.due.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
        due
    }
}

/// The instructions that store these bytes.
fn stores(at: PoolOffset, bytes: &[u8]) -> impl Iterator<Item = Instr> + '_ {
    let mut rest = bytes;
    word_pieces(at, bytes.len()).map(move |(at, len)| {
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        let mut value = [0; 8];
        value[..len].copy_from_slice(piece);
        let store = Instr::store(at.0, u64::from_le_bytes(value));
        Instr { kind: InstrKind::Injected, store_len: len as u8, ..store }
    })
}

impl<S: Scheme> Uncore<S> {
    /// Serves what a scheme says of stopping and going on.
    pub(in crate::timed) fn serve_stops(&mut self) {
        let below = &mut self.below;
        let stops = std::mem::take(&mut below.outbox.stops);
        if !stops.is_empty() {
            below.stop.is_on = true;
            below.stop.is_waited_for = true;
            below.stop.waits.extend(stops);
            below.room = true; // What waits for the scheme takes no room any more.
        }
        if std::mem::take(&mut below.outbox.resume) {
            below.stop.is_on = false;
            self.wake_all = true;
        }
    }
}

impl<S: Scheme> System<S> {
    /// Gives cores the stores that the scheme names, and sets its alarms.
    pub(in crate::timed) fn serve_cores(&mut self) {
        let outbox = &mut self.up.below.outbox;
        for (instructions, token) in std::mem::take(&mut outbox.alarms) {
            let token = self.up.below.tokens.put(token);
            self.alarms.set(self.retired.saturating_add(instructions), token);
        }
        if let Some(epoch) = self.up.below.outbox.ended.take() {
            let now = self.up.now();
            if let Some(journal) = &mut self.up.below.journal {
                let positions = self.cores.iter().map(Core::position).collect();
                journal.end_epoch(now, epoch, positions);
            }
        }
        for save in std::mem::take(&mut self.up.below.outbox.saved) {
            let core = self.cores.get(usize::from(save.lane.0));
            let position = core.map_or(0, Core::position) + save.from;
            let injected = (save.lane, save.to.start(), save.bytes(position));
            self.up.below.outbox.injected.push(injected);
        }
        for (LaneId(lane), at, bytes) in std::mem::take(&mut self.up.below.outbox.injected) {
            let core = usize::from(lane);
            assert!(core < self.cores.len(), "stores are injected into lane {lane}, which is none");
            self.cores[core].inject(stores(at, &bytes));
            let now = self.up.now();
            self.wake(core as u8, now);
        }
    }

    /// Tells the scheme that all cores stand, if they do and it waits for that; returns whether.
    pub(in crate::timed) fn tell_of_stop(&mut self) -> bool {
        if !self.up.below.stop.is_waited_for {
            return false;
        }
        let Self { cores, up, .. } = self;
        // Each core is asked, since asking sends off what it still streams.
        let mut all_stand = true;
        for core in cores.iter_mut() {
            all_stand &= core.is_standing(up);
        }
        if !all_stand || up.below.writes.has_travelling() {
            return false;
        }
        let now = up.now();
        up.below.stop.is_waited_for = false;
        for token in std::mem::take(&mut up.below.stop.waits) {
            up.below.scheme.stopped(now, token, &mut up.below.outbox);
        }
        true
    }

    /// Calls the scheme for the instructions that have retired.
    #[cold]
    pub(in crate::timed) fn ring_alarms(&mut self, now: Cycle) {
        for (_, token) in self.alarms.take(self.retired) {
            let token = self.up.below.tokens.take(token);
            self.up.below.scheme.step(now, token, &mut self.up.below.outbox);
        }
        self.up.ahead_max = u64::MAX;
    }
}
