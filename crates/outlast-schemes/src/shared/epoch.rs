//! Epochs by instructions, which no program notices: what all checkpoint schemes do at the end of one.
//!
//! ```text
//! runs ────its instructions, or `end`────> stops ──all cores stand──> saves ──saved──> ended
//!  ^                                                                                     │
//!  └──────────────────────────────────── resume ─────────────────────────────────────────┘
//! ```
//!
//! - *stops*: no core begins an instruction, and what they began is finished, store buffers, streams
//!   and flushes included. So each store has a definite side of the boundary.
//! - *saves*: each core stores its registers to a fixed place by ordinary, cacheable stores. They carry
//!   the number of the epoch that ends: that changes behind them.
//! - *ended*: memory is as it was at the end of the epoch. The scheme does what it does then, before it
//!   lets the cores go on in the next one.
//!
//! An epoch is a number of instructions of each core. For all cores together it is that times their
//! number.
//! A scheme whose room runs out ends one early by the same door. Registers say where a core is in its
//! program, which is where it goes on after a crash.

use outlast_sim::timed::{Cycle, Outbox, RegisterSave};
use outlast_trace::{LaneId, LineAddr};

use super::output::Outputs;
use crate::{Image, Key, Options, Unit, Work};

/// Instructions of an epoch, by default as in PiCL's evaluation. Every scheme of epochs has this key.
pub const EPOCH: Key = Key::number(
    "epoch",
    Unit::Count("instructions"),
    30_000_000,
    (1, 1 << 40),
    "instructions of each core in an epoch",
);
/// 16 general registers, instruction pointer and flags, and the extended state of AVX (832 B), and
/// what two lines hold besides.
pub(crate) const SAVE_LINES: Key = Key::number(
    "save_lines",
    Unit::Count("lines"),
    15,
    (1, 256),
    "lines that a core's registers take, saved at the end of each epoch",
);

/// Where cores save their registers: behind the program's lines, core by core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registers {
    base: LineAddr,
    lanes: u16,
    lines: u64,
}

impl Registers {
    /// The place of this work's cores.
    pub(crate) fn of(work: &Work, options: &Options) -> Self {
        Self { base: work.end, lanes: work.lanes, lines: options.get(&SAVE_LINES) }
    }

    /// The first line behind it.
    pub(crate) fn end(&self) -> LineAddr {
        self.base.plus(u64::from(self.lanes) * self.lines)
    }

    pub(crate) fn lanes(&self) -> u64 {
        self.lanes.into()
    }

    /// All that cores store at the end of an epoch.
    pub(crate) fn saved_lines(&self) -> u64 {
        self.lanes() * self.lines
    }

    fn of_lane(&self, lane: LaneId) -> LineAddr {
        self.base.plus(u64::from(lane.0) * self.lines)
    }

    /// Where a core stood when it saved its registers: instructions of its program before its next one.
    pub(crate) fn position(&self, image: Image<'_>, lane: LaneId) -> u64 {
        image.word_or_zero(self.of_lane(lane), 0)
    }
}

/// What the driver asks the machine for, and gets back as the scheme's token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpochCall {
    /// The instructions of this epoch are over.
    Over(u64),
    /// All cores stand.
    Stand,
    /// All cores have saved their registers.
    Saved,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Runs,
    Stops,
    Saves,
    Ended,
}

/// The epochs of a run.
#[derive(Clone, Debug)]
pub(crate) struct Epochs {
    registers: Registers,
    /// Instructions of all cores together in an epoch.
    instructions: u64,
    executing: u64,
    /// Where each core began.
    from: Vec<u64>,
    state: State,
    /// Planted: registers are saved when the next epoch has begun.
    saves_late: bool,
    /// Output of these epochs, and whether it has its epoch persist at once.
    outputs: Outputs,
    persists_output: bool,
    early: u64,
    ended: u64,
    /// The last epoch that persisted, and how many did since counting began.
    last_persisted: u64,
    persisted: u64,
}

impl Epochs {
    /// The epochs behind this one, at whose end `memory` is.
    pub(crate) fn behind(
        epoch: u64,
        registers: Registers,
        instructions: u64,
        memory: Image<'_>,
    ) -> Self {
        let position = |lane| registers.position(memory, LaneId(lane));
        Self {
            registers,
            instructions: instructions.saturating_mul(registers.lanes().max(1)),
            executing: epoch + 1,
            from: (0..registers.lanes).map(position).collect(),
            state: State::Runs,
            saves_late: false,
            outputs: Outputs::default(),
            persists_output: false,
            early: 0,
            ended: 0,
            last_persisted: epoch,
            persisted: 0,
        }
    }

    /// The same with registers saved too late.
    pub(crate) fn saving_late(self, saves_late: bool) -> Self {
        Self { saves_late, ..self }
    }

    /// The same, where output may have its epoch persist at once.
    pub(crate) fn persisting_output(self, persists_output: bool) -> Self {
        Self { persists_output, ..self }
    }

    /// A program's output, held until its epoch has persisted. Returns that epoch where it is to persist
    /// at once: it ends now.
    pub(crate) fn output<T: From<EpochCall>>(
        &mut self,
        now: Cycle,
        out: &mut Outbox<T>,
    ) -> Option<u64> {
        self.outputs.hold(self.executing, now);
        self.persists_output.then(|| {
            self.end(out);
            self.executing
        })
    }

    /// All epochs up to this one have persisted.
    pub(crate) fn have_persisted(&mut self, epoch: u64, now: Cycle) {
        self.persisted += epoch.saturating_sub(self.last_persisted);
        self.last_persisted = self.last_persisted.max(epoch);
        self.outputs.let_go(epoch, now);
    }

    /// The epoch that executes, or ends at this moment.
    #[inline]
    pub(crate) fn executing(&self) -> u64 {
        self.executing
    }

    /// Whether the epoch has ended, and the next one has not begun.
    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Begins to count instructions: what a scheme does first.
    pub(crate) fn start<T: From<EpochCall>>(&self, out: &mut Outbox<T>) {
        let over = EpochCall::Over(self.executing);
        out.call_after_instructions(self.instructions, over.into());
    }

    /// Ends the epoch now, before its instructions are over. Without effect where it ends already.
    pub(crate) fn end<T: From<EpochCall>>(&mut self, out: &mut Outbox<T>) {
        if self.state == State::Runs {
            self.early += 1;
            self.stop(out);
        }
    }

    fn stop<T: From<EpochCall>>(&mut self, out: &mut Outbox<T>) {
        self.state = State::Stops;
        out.stop(EpochCall::Stand.into());
    }

    /// What came back: from [`Scheme::step`] or [`Scheme::stopped`]. True when the epoch has ended, and
    /// memory is as it leaves it: the scheme does what it does then, and [`resume`](Self::resume)s.
    ///
    /// [`Scheme::step`]: outlast_sim::timed::Scheme::step
    /// [`Scheme::stopped`]: outlast_sim::timed::Scheme::stopped
    pub(crate) fn came<T: From<EpochCall>>(
        &mut self,
        call: EpochCall,
        out: &mut Outbox<T>,
    ) -> bool {
        match call {
            EpochCall::Over(epoch) => {
                if epoch == self.executing && self.state == State::Runs {
                    self.stop(out);
                }
                return false;
            }
            EpochCall::Stand if !self.saves_late => {
                self.state = State::Saves;
                self.save(out);
                out.stop(EpochCall::Saved.into());
                return false;
            }
            EpochCall::Stand | EpochCall::Saved => {}
        }
        self.state = State::Ended;
        self.ended += 1;
        out.end_epoch(self.executing);
        true
    }

    fn save<T>(&self, out: &mut Outbox<T>) {
        for (lane, from) in (0..).map(LaneId).zip(&self.from) {
            out.save_registers(RegisterSave {
                lane,
                to: self.registers.of_lane(lane),
                lines: self.registers.lines,
                epoch: self.executing,
                from: *from,
            });
        }
    }

    /// The next epoch begins.
    pub(crate) fn resume<T: From<EpochCall>>(&mut self, out: &mut Outbox<T>) {
        self.executing += 1;
        self.state = State::Runs;
        if self.saves_late {
            self.save(out);
        }
        self.start(out);
        out.resume();
    }

    /// Epochs that have ended, those of them that ended early, epochs that have persisted, and output.
    pub(crate) fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        each("epochs", "count", std::mem::take(&mut self.ended) as f64);
        each("epochs_early", "count", std::mem::take(&mut self.early) as f64);
        each("epochs_persisted", "count", std::mem::take(&mut self.persisted) as f64);
        self.outputs.take_counters(each);
    }
}
