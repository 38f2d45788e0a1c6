//! Functional warming: instructions before a timed run, without time.
//!
//! Caches, TLBs and branch predictors see every instruction, and memory gets what they store. The
//! scheme hears nothing of it. For a scheme that keeps state with dirty lines all lines are therefore
//! left clean: to the scheme, memory began like that.
//!
//! What the caches, TLBs and predictors miss meanwhile is counted ([`Warmed`]): it costs next to nothing
//! and tells of every part of a trace how much time it may take.

use std::ops::AddAssign;

use super::{
    core::{Core, PAGE_TABLE},
    instr::{InstrKind, Mark},
    ports::Scheme,
    system::{RunError, System},
    time::Cycle,
    uncore::Uncore,
};
use crate::{
    cache::{LineBytes, LineTag},
    hierarchy::{Backing, Cause},
    memory::SparseMemory,
    stats::HierarchyStats,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, PoolOffset};

/// Counts of functional warming. Accesses are in the order of the program, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Warmed {
    /// Instructions of the machine, marks not included.
    pub instructions: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Fences and locked instructions.
    pub fences: u64,
    /// Branches predicted wrongly.
    pub mispredicted: u64,
    /// Translations that no level of the TLB had.
    pub walks: u64,
    /// Lines read from memory for loads and page walks, for which cores wait longer than for stores.
    pub load_reads: u64,
    /// The caches' counts, and those of the traffic below them.
    pub caches: HierarchyStats,
}

impl AddAssign for Warmed {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.fences += other.fences;
        self.mispredicted += other.mispredicted;
        self.walks += other.walks;
        self.load_reads += other.load_reads;
        self.caches += other.caches;
    }
}

/// Memory without a controller in front.
struct Untimed<'m> {
    memory: &'m mut SparseMemory<'static>,
    reads: u64,
}

impl<T: LineTag> Backing<T> for Untimed<'_> {
    fn read(&mut self, line: LineAddr) -> LineBytes {
        self.reads += 1;
        self.memory.read(line)
    }

    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, _: Cause, _: T) {
        self.memory.write(line, words, data);
    }
}

impl<S: Scheme> System<S> {
    /// Passes instructions without time, further ones at each call, until the sources have given `until` instructions as they count
    /// them ([`Source::passed`](super::Source::passed)), or end; a few hundred more at most. Lines that
    /// they stored to stay dirty if `leaves_dirty`, which only plain memory allows, else they are
    /// clean. Returns the counts of this call; the run's statistics have none of them.
    ///
    /// # Errors
    /// When a source fails.
    ///
    /// # Panics
    /// When the machine has run already.
    pub fn warm(&mut self, until: u64, leaves_dirty: bool) -> Result<Warmed, RunError> {
        assert!(self.retired == 0 && self.now() == Cycle(0), "a machine is warmed before it runs");
        let Self { cores, up, .. } = self;
        let passed = |cores: &[Core]| cores.iter().map(Core::passed).sum::<u64>();
        let mut warmed = Warmed::default();
        let mut moves = true;
        while moves && passed(cores) < until {
            moves = false;
            for number in 0..cores.len() {
                let core = &mut cores[number];
                moves |= pass_batch(core, number as u8, up, leaves_dirty, &mut warmed);
                if let Some(error) = cores[number].source_error() {
                    return Err(RunError::Source(error.clone()));
                }
                if passed(cores) >= until {
                    break;
                }
            }
        }
        let Uncore { caches, below, .. } = up;
        let mut memory = Untimed { memory: &mut below.memory, reads: 0 };
        for lane in 0..caches.lanes() {
            caches.drain_streams(LaneId(lane as u16), &mut memory);
        }
        if !leaves_dirty {
            for line in caches.dirty_lines() {
                caches.flush(FlushKind::Clwb, line, &mut memory);
            }
        }
        warmed.caches = caches.take_stats();
        up.wake_all = false;
        Ok(warmed)
    }

    /// Instructions that the sources of all cores have given so far, as they count them.
    pub fn passed(&self) -> u64 {
        self.cores.iter().map(Core::passed).sum()
    }
}

/// Passes what is left of a core's batch, or the next one, up to a wait for another core. Returns
/// whether there was anything.
fn pass_batch<S: Scheme>(
    core: &mut Core,
    number: u8,
    up: &mut Uncore<S>,
    translates: bool,
    warmed: &mut Warmed,
) -> bool {
    let lane = LaneId(up.lane(number) as u16);
    let mut any = false;
    while let Some((instr, mark, line)) = core.next_untimed(any) {
        match mark {
            Some(mark @ (Mark::Lock { .. } | Mark::Wait { .. })) if !up.pass(number, mark) => {
                return any;
            }
            Some(mark @ (Mark::Unlock { .. } | Mark::Signal { .. })) => drop(up.pass(number, mark)),
            _ => {}
        }
        any = true;
        core.pass_untimed();
        warmed.instructions += u64::from(instr.kind != InstrKind::Mark);
        warmed.loads += u64::from(instr.loads);
        warmed.stores += u64::from(instr.stores);
        match instr.kind {
            InstrKind::Branch(taken) => {
                warmed.mispredicted += u64::from(!core.learn_branch(instr.pc, taken));
            }
            InstrKind::Sfence | InstrKind::Mfence | InstrKind::Rmw => warmed.fences += 1,
            _ => {}
        }
        let Uncore { caches, below, .. } = &mut *up;
        let mut memory = Untimed { memory: &mut below.memory, reads: 0 };
        for &at in instr.load_at().iter().chain(instr.store_at()) {
            if translates && let Some(page) = core.lsu().learn_page(at) {
                warmed.walks += 1;
                caches.read(lane, PAGE_TABLE.plus(page / 8), &mut memory);
            }
        }
        for &at in instr.load_at() {
            caches.read(lane, PoolOffset(at).line(), &mut memory);
        }
        warmed.load_reads += memory.reads;
        let bytes = instr.value.to_le_bytes();
        let bytes = &bytes[..usize::from(instr.store_len).min(8)];
        for &at in instr.store_at() {
            let at = PoolOffset(at);
            match instr.kind {
                InstrKind::StoreNt => caches.stream(lane, at, bytes, &mut memory),
                InstrKind::Store64 => caches.stream_line(lane, at.line(), &line, &mut memory),
                InstrKind::Flush(kind) => drop(caches.flush(kind, at.line(), &mut memory)),
                _ => caches.store(lane, at, bytes, &mut memory),
            }
        }
        if matches!(instr.kind, InstrKind::Sfence | InstrKind::Mfence) {
            caches.drain_streams(lane, &mut memory);
        }
    }
    any
}
