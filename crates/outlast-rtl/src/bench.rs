//! The test bench: cores, operating system and memory around the hardware, cycle by cycle.

use outlast_workloads::Random;

use crate::config::{Config, Place};
use crate::core::{Core, Stored};
use crate::ffi::{In, Model, Out};
use crate::memory::Memory;
use crate::program::Inst;
use crate::verilate::Hardware;

/// Words of the log's header.
const PERSISTED: u32 = 0;
const FIRST: u32 = 1;
const GROWTHS: u32 = 2;

/// Cycles of the interrupt in which the log grows.
const GROW_CYCLES: u64 = 40;

/// Cycles without any core's progress, or persisted epoch at the end, that count as a standstill.
const STUCK: u64 = 200_000;

/// Streams of random numbers.
const MEMORY: u64 = 1;
const ADVERSARY: u64 = 2;

/// What the hardware has done, in its order: the functional view, for a model beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A store has become visible: the number of its word, and the word.
    Stored(u32, u64),
    /// An entry has come to the undo buffer: granule, `ValidFrom`, `ValidTill`, old content.
    Logged(u64, u64, u64, Vec<u64>),
    /// A granule goes home.
    Home(u64),
    /// A lookup of the last level has found a granule: the EID that it has there, if memory has not
    /// what it holds.
    Seen(u64, Option<u8>),
    /// An epoch has ended.
    Ended(u64),
    /// All epochs that have ended are to persist.
    Bulk,
    /// `PersistedEID` is durable.
    Persisted(u64),
}

/// The hardware makes no progress.
#[derive(Debug, thiserror::Error)]
#[error("nothing goes on in cycle {cycle}: {what}")]
pub struct Stuck {
    cycle: u64,
    what: String,
}

/// The end of an epoch: how many stores came before, and where cores stood.
pub(crate) type End = (usize, Vec<u64>);

/// The hardware at work.
#[derive(Debug)]
pub struct Bench {
    config: Config,
    place: Place,
    model: Model,
    memory: Memory,
    cores: Vec<Core>,
    adversary: Random,
    input: In,
    out: Out,
    cycle: u64,
    /// Cycles of an epoch, and those of this one.
    epoch_cycles: u64,
    in_epoch: u64,
    chunks: u64,
    growing: u64,
    has_ended: bool,
    has_persisted: Option<u64>,
    /// The hardware's register: all epochs that have ended are to persist.
    is_bulk: bool,
    is_over: bool,
    events: Vec<Event>,
    base: Vec<u64>,
    first: u64,
    pub(crate) stores: Vec<Stored>,
    pub(crate) ends: Vec<End>,
    violated: u8,
    growths: u64,
}

impl Bench {
    /// Hardware over empty memory, with these programs. All that is drawn comes from the seed.
    pub fn new(hardware: &Hardware, programs: [Vec<Inst>; 2], seed: u64) -> Self {
        let words = vec![0; hardware.config.place().words()];
        Self::over(hardware, programs, seed, words, false)
    }

    /// Hardware over a recovered image: cores go on where it says that they stood.
    pub fn resumed(hardware: &Hardware, programs: [Vec<Inst>; 2], seed: u64, image: &[u8]) -> Self {
        let words = hardware.config.place().words_of(image);
        Self::over(hardware, programs, seed, words, true)
    }

    fn over(
        hardware: &Hardware,
        programs: [Vec<Inst>; 2],
        seed: u64,
        words: Vec<u64>,
        resumes: bool,
    ) -> Self {
        let place = hardware.config.place();
        let at = |word| words[(place.header() + word) as usize];
        let (first, sequence, chunks) = (at(PERSISTED), at(FIRST).max(1), 1 + at(GROWTHS));
        let core = |(number, program)| {
            let core = Core::new(number, program, place.registers(number));
            if resumes && first > 0 { core.resumed(&words) } else { core }
        };
        let cores: Vec<Core> = programs.into_iter().enumerate().map(core).collect();
        let positions = cores.iter().map(Core::retired).collect();
        let input = In {
            rst: 1,
            boot_persisted: first as u32,
            boot_sequence: sequence,
            boot_chunks: chunks as u8,
            header_addr: place.header(),
            ..In::default()
        };
        let base = words[..place.header() as usize].to_vec();
        let memory = Memory::new(words, 3, Random::stream(seed, MEMORY));
        let mut bench = Self {
            config: hardware.config,
            place,
            model: hardware.start(),
            memory,
            cores,
            adversary: Random::stream(seed, ADVERSARY),
            input,
            out: Out::default(),
            cycle: 0,
            epoch_cycles: 1500,
            in_epoch: 0,
            chunks,
            growing: 0,
            has_ended: false,
            has_persisted: None,
            is_bulk: false,
            is_over: false,
            events: Vec::new(),
            base,
            first,
            stores: Vec::new(),
            ends: vec![(0, positions)],
            violated: 0,
            growths: 0,
        };
        (0..3).for_each(|_| bench.out = bench.model.step(&bench.input));
        bench.input.rst = 0;
        bench
    }

    /// The same with a planted defect, by its number in `rtl/top.sv`.
    pub fn with_bug(mut self, bug: u8) -> Self {
        self.input.bug = bug;
        self
    }

    /// The same with epochs of `cycles` cycles.
    pub fn with_epochs_of(mut self, cycles: u64) -> Self {
        self.epoch_cycles = cycles;
        self
    }

    /// The same over memory in which a write becomes durable every `cycles` cycles, on average.
    pub fn with_memory_of(mut self, cycles: u64) -> Self {
        self.memory = self.memory.with_slowness(cycles);
        self
    }

    /// Cycles until now.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The invariants of `rtl/checks.sv` that were broken, a bit each.
    pub fn violated(&self) -> u8 {
        self.violated
    }

    /// The last epoch that the hardware says has persisted.
    pub fn persisted(&self) -> u64 {
        self.out.persisted_eid.into()
    }

    /// Chunks that the operating system has added to the log.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    /// What has happened since this was last asked for.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether programs are over, and all epochs have persisted.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The epoch at whose end the run began, and memory then.
    pub(crate) fn begin(&self) -> (u64, Vec<u8>) {
        let mut words = self.base.clone();
        words.resize(self.place.words(), 0);
        let mut image = self.place.image(&words);
        image.truncate(64 * self.place.header_line() as usize);
        (self.first, image)
    }

    /// Lines of the image before the log's header.
    pub fn home_lines(&self) -> u64 {
        self.place.header_line()
    }

    /// Programs' words as cores see them: the stores of the run over the memory that it began with.
    pub fn home(&self) -> Vec<u64> {
        let mut words = self.base.clone();
        for (at, word) in &self.stores {
            words[*at as usize] = *word;
        }
        words.truncate(self.place.registers(0) as usize);
        words
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The image that a power cut leaves now. Each call may leave another.
    pub fn crash(&mut self) -> Vec<u8> {
        self.place.image(&self.memory.crash(&mut self.adversary))
    }

    /// The image when all writes are durable that memory has.
    pub fn durable(&self) -> Vec<u8> {
        self.place.image(self.memory.durable())
    }

    /// Whether memory has made all writes durable.
    pub fn memory_is_idle(&self) -> bool {
        self.memory.is_idle()
    }

    /// Runs `cycles` cycles, or until all is over, and calls `each` behind every one.
    ///
    /// # Errors
    /// What `each` says, or that the hardware stands.
    pub fn run<E: From<Stuck>>(
        &mut self,
        cycles: u64,
        mut each: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut progress = (0, 0);
        for _ in 0..cycles {
            if self.is_over {
                break;
            }
            self.step();
            each(self)?;
            let now = self.stores.len() as u64 + self.persisted() + self.retired();
            if now != progress.0 {
                progress = (now, self.cycle);
            } else if self.cycle - progress.1 > STUCK {
                let what = format!("{:?}", (&self.cores, self.out));
                return Err(Stuck { cycle: self.cycle, what }.into());
            }
        }
        Ok(())
    }

    fn retired(&self) -> u64 {
        self.cores.iter().map(Core::retired).sum()
    }

    /// One cycle.
    pub fn step(&mut self) {
        let asked = self.input.bulk != 0;
        self.note_persisted(asked);
        self.operate();
        if asked {
            self.events.push(Event::Bulk);
        }
        for core in &mut self.cores {
            core.drive(&mut self.input);
        }
        self.memory.drive(&mut self.input);
        let persisted = self.out.persisted_eid;
        self.out = self.model.step(&self.input);
        self.violated |= self.out.violated;
        self.note(persisted);
        if self.input.mem_ready != 0 && self.out.mem_valid != 0 {
            self.memory.take(&self.out);
        }
        for core in &mut self.cores {
            if let Some((at, word)) = core.take(&self.out) {
                self.stores.push((at, word));
                self.events.push(Event::Stored(at, word));
            }
        }
        self.cycle += 1;
    }

    fn note(&mut self, persisted: u32) {
        let out = &self.out;
        // What was found in this cycle, before what it changes.
        let granules = 64 / self.config.granule;
        if out.seen != 0 {
            let first = u64::from(out.seen_line) * granules;
            let eid = |sub| (out.seen_eids >> (4 * sub) & 15) as u8;
            let found = |sub| (out.seen_modified >> sub & 1 == 1).then(|| eid(sub));
            self.events.extend((0..granules).map(|sub| Event::Seen(first + sub, found(sub))));
        }
        if out.undo_valid != 0 {
            let system = out.system_eid;
            let epoch = |eid: u8| u64::from(system - (system.wrapping_sub(eid.into()) & 15));
            let data = out.undo_data[..(self.config.granule / 8) as usize].to_vec();
            let (from, till) = (epoch(out.undo_from), epoch(out.undo_till));
            self.events.push(Event::Logged(out.undo_line.into(), from, till, data));
        }
        if out.home_valid != 0 {
            let first = u64::from(out.home_line) * granules;
            let gone = (0..granules).filter(|sub| out.home_mask >> sub & 1 == 1);
            self.events.extend(gone.map(|sub| Event::Home(first + sub)));
        }
        self.has_persisted = (out.persisted_eid != persisted).then(|| out.persisted_eid.into());
    }

    /// An epoch has persisted in the last cycle. It is told now: what a private cache granted itself then
    /// went by the value before. The hardware chose its next scan in that cycle, so by the epochs that had
    /// ended and by what it was asked until then, not by what this one brings.
    fn note_persisted(&mut self, asked: bool) {
        if let Some(epoch) = self.has_persisted.take() {
            if self.is_bulk {
                self.events.push(Event::Bulk);
            }
            self.events.push(Event::Persisted(epoch));
        }
        let is_left = self.out.persisted_eid + 1 != self.out.system_eid;
        self.is_bulk = asked || self.is_bulk && is_left;
    }

    /// The operating system: the timer, the boundary of epochs, the log.
    fn operate(&mut self) {
        (self.input.bulk, self.input.log_grow) = (0, 0);
        if !self.config.picl {
            self.is_over = self.cores.iter().all(Core::has_halted);
            return;
        }
        // The edge of the last cycle has counted on.
        if self.input.advance != 0 && self.out.may_advance != 0 {
            self.input.advance = 0;
            self.has_ended = false;
            self.in_epoch = 0;
            self.events.push(Event::Ended(self.first + self.ends.len() as u64 - 1));
            self.cores.iter_mut().for_each(Core::go_on);
        }
        // Programs are over, and the last epoch has all of them: it has to persist, and no other begins.
        let now = (self.stores.len(), self.cores.iter().map(Core::retired).collect());
        let all_halted = self.cores.iter().all(Core::has_halted);
        if all_halted && !self.has_ended && self.ends.len() > 1 && self.ends.last() == Some(&now) {
            self.bulk();
            self.is_over = self.persisted() == self.first + self.ends.len() as u64 - 1;
            return;
        }
        self.in_epoch += 1;
        if self.in_epoch == self.epoch_cycles {
            self.cores.iter_mut().for_each(Core::interrupt);
        }
        if !self.has_ended && self.cores.iter().all(Core::stands) {
            self.has_ended = true;
            self.ends.push(now);
        }
        self.input.advance = u8::from(self.has_ended);
        self.look_after_log();
    }

    fn look_after_log(&mut self) {
        if self.out.log_low == 0 {
            self.growing = 0;
            return;
        }
        self.growing += 1;
        if self.growing != GROW_CYCLES {
            return;
        }
        self.growing = 0;
        if self.chunks < self.config.max_chunks {
            self.memory.write_durably(self.place.header() + GROWTHS, self.chunks);
            self.chunks += 1;
            self.growths += 1;
            self.input.log_grow = 1;
        } else {
            // No more of it: the epoch ends, and all that have ended persist.
            self.in_epoch = self.in_epoch.max(self.epoch_cycles);
            self.cores.iter_mut().for_each(Core::interrupt);
            self.bulk();
        }
    }

    fn bulk(&mut self) {
        self.input.bulk = 1;
    }
}
