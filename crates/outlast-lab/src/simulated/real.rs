//! Traces of real programs: the machine they need, and what their memory comes to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast_schemes::MachineScheme;
use outlast_sim::timed::{
    Cycle, Ended, Machine, MachineConfig, ProgramMemory, ProgramPlace, ProgramSource, RunError,
    Setup, Source,
};
use outlast_trace::Program;

use super::{Work, with_cores};

/// Traces of real programs, ready to run: each has pages and cores of its own.
#[derive(Debug)]
pub struct RealPrograms {
    programs: Vec<RealProgram>,
    /// Whether each begins again when it is at its end.
    go_on: bool,
}

/// One of them.
#[derive(Debug)]
pub struct RealProgram {
    /// The trace.
    pub program: Arc<Program>,
    /// Where its pages lie, and what they hold at the begin.
    pub memory: Arc<ProgramMemory>,
    /// The threads that do something. Each has a core.
    threads: Vec<u16>,
}

impl RealProgram {
    fn new(program: Arc<Program>, memory: Arc<ProgramMemory>) -> Self {
        let threads = busy_threads(&program);
        Self { program, memory, threads }
    }
}

/// The threads of a program that do something in its trace, or its first.
pub(crate) fn busy_threads(program: &Program) -> Vec<u16> {
    let is_busy = |thread: &u16| program.events(*thread) > 0;
    let threads: Vec<u16> = (0..program.threads()).filter(is_busy).collect();
    if threads.is_empty() { vec![0] } else { threads }
}

impl RealPrograms {
    /// Opens traces. Programs that `go_on` begin again at their end.
    ///
    /// # Errors
    /// When one cannot be read, or they have more threads than a machine has cores.
    pub fn open(paths: &[PathBuf], go_on: bool) -> Result<Self, Box<dyn std::error::Error>> {
        let mut programs: Vec<RealProgram> = Vec::new();
        let (mut place, mut cores) = (ProgramPlace::default(), 0);
        for (number, path) in paths.iter().enumerate() {
            let again = paths[..number].iter().position(|before| before == path);
            let program = match again {
                Some(before) => Arc::clone(&programs[before].program),
                None => Arc::new(Program::open(path)?),
            };
            let memory = Arc::new(ProgramMemory::placed(&program, place)?);
            place = memory.next_place();
            let real = RealProgram::new(program, memory);
            cores += real.threads.len();
            if cores > CORES_MAX {
                let path = path.display();
                let why = format!("{path}: with its threads there are more than {CORES_MAX}");
                return Err(why.into());
            }
            programs.push(real);
        }
        Ok(Self { programs, go_on })
    }

    /// The programs.
    pub fn programs(&self) -> &[RealProgram] {
        &self.programs
    }

    /// What memory holds at the begin.
    pub fn base(&self) -> Vec<u8> {
        self.programs.iter().flat_map(|real| real.memory.base()).copied().collect()
    }

    /// The lines of all.
    pub(crate) fn lines(&self) -> u64 {
        self.programs.iter().map(|real| real.memory.lines()).sum()
    }

    /// The threads of all.
    pub(crate) fn threads(&self) -> u16 {
        self.programs.iter().map(|real| real.threads.len() as u16).sum()
    }

    /// One source for each thread.
    pub fn sources(&self) -> Vec<Box<dyn Source>> {
        let of = |real: &RealProgram| -> Vec<Box<dyn Source>> {
            let (program, memory) = (Arc::clone(&real.program), Arc::clone(&real.memory));
            let go_on = self.go_on;
            let source = move |thread| -> Box<dyn Source> {
                let source = ProgramSource::new(Arc::clone(&program), Arc::clone(&memory), thread);
                match go_on {
                    true => Box::new(source.going_on()),
                    false => Box::new(source),
                }
            };
            real.threads.iter().copied().map(source).collect()
        };
        self.programs.iter().flat_map(of).collect()
    }

    /// Runs until each program has retired `instructions` instructions since statistics were taken,
    /// while the others go on. Returns the cycle at which each had. What is told is how far the slowest is,
    /// times the programs: the run is over when it is done.
    ///
    /// # Errors
    /// When the machine comes to a stop.
    pub(crate) fn run(
        &self,
        system: &mut dyn Machine,
        instructions: u64,
        told: &mut dyn FnMut(u64),
    ) -> Result<Vec<Option<Cycle>>, RunError> {
        let mut done_at = vec![None; self.programs.len()];
        let mut ended = Ended::Limit;
        loop {
            let retired = system.retired();
            let mut cores = retired.iter();
            let mut least = instructions;
            for (real, at) in self.programs.iter().zip(&mut done_at) {
                let of: u64 = cores.by_ref().take(real.threads.len()).sum();
                least = least.min(of);
                if of >= instructions || ended == Ended::Finished {
                    at.get_or_insert(system.now());
                }
            }
            told(self.programs.len() as u64 * least);
            let most_left = instructions - least;
            if most_left == 0 || ended == Ended::Finished {
                return Ok(done_at);
            }
            ended = system.run(most_left.min(STEP))?;
        }
    }
}

/// Cores that a machine can have.
const CORES_MAX: usize = 64;

/// Instructions after which is looked which programs are done.
const STEP: u64 = 20_000;

/// What memory held when a trace was replayed to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayedMemory {
    /// The addresses of pages whose bytes are not those that the program had.
    pub wrong: Vec<u64>,
    /// Pages that were compared: those that the program had at its end.
    pub pages: u64,
    /// Instructions that ran.
    pub instructions: u64,
}

/// Replays a trace of a real program on a machine to its end, and compares what memory holds with
/// what the program's held.
///
/// # Errors
/// When the trace cannot be read or the machine comes to a stop.
pub fn replay(
    path: &Path,
    machine: &MachineConfig,
    seed: u64,
) -> Result<ReplayedMemory, Box<dyn std::error::Error>> {
    let all = replay_together(&[path.to_owned()], machine, seed)?;
    Ok(all.into_iter().next().expect("one was replayed"))
}

/// Replays several on one machine, each to its end, and compares the memory of each. Instructions are
/// those of all.
///
/// # Errors
/// As [`replay`].
pub fn replay_together(
    paths: &[PathBuf],
    machine: &MachineConfig,
    seed: u64,
) -> Result<Vec<ReplayedMemory>, Box<dyn std::error::Error>> {
    let (real, mut system) = plain(paths, machine, seed)?;
    system.run_to_end()?;
    let instructions = system.take_stats().instructions();
    let of = |of: &RealProgram| {
        let (wrong, pages) = of.memory.compare(&of.program, |line| system.line(line))?;
        Ok(ReplayedMemory { wrong, pages, instructions })
    };
    real.programs.iter().map(of).collect()
}

/// A machine without a scheme that is about to run a trace of a real program.
pub(crate) fn plain_machine(
    trace: &Path,
    machine: &MachineConfig,
    seed: u64,
) -> Result<Box<dyn Machine>, Box<dyn std::error::Error>> {
    Ok(plain(&[trace.to_owned()], machine, seed)?.1)
}

fn plain(
    paths: &[PathBuf],
    machine: &MachineConfig,
    seed: u64,
) -> Result<(RealPrograms, Box<dyn Machine>), Box<dyn std::error::Error>> {
    let work = Work::Programs(paths.to_vec());
    let real = RealPrograms::open(paths, false)?;
    let of_schemes = work.for_schemes(true, Some(&real))?;
    let prepared = MachineScheme::plain().prepare(&of_schemes, &Default::default(), None)?;
    let sources = real.sources();
    let machine = &with_cores(machine, sources.len() as u16);
    let setup = Setup { seed, base: real.base(), ..Setup::default() };
    let system = prepared.machine(machine, setup, sources)?;
    Ok((real, system))
}
