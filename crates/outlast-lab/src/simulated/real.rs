//! Traces of real programs: the machine they need, and what their memory comes to.

use std::path::Path;
use std::sync::Arc;

use outlast_schemes::MachineScheme;
use outlast_sim::timed::{MachineConfig, ProgramMemory, ProgramSource, Setup, Source};
use outlast_trace::Program;

use super::{Work, with_cores};

/// A trace of a real program, ready to run.
#[derive(Debug)]
pub struct RealProgram {
    /// The trace.
    pub program: Arc<Program>,
    /// Where its pages lie, and what they hold at the begin.
    pub memory: Arc<ProgramMemory>,
}

impl RealProgram {
    /// Opens a trace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let program = Arc::new(Program::open(path)?);
        let memory = Arc::new(ProgramMemory::of(&program)?);
        Ok(Self { program, memory })
    }

    /// One source for each thread.
    pub(crate) fn sources(&self) -> Vec<Box<dyn Source>> {
        let source = |thread| -> Box<dyn Source> {
            let (program, memory) = (Arc::clone(&self.program), Arc::clone(&self.memory));
            Box::new(ProgramSource::new(program, memory, thread))
        };
        (0..self.program.threads()).map(source).collect()
    }
}

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
    let work = Work::Trace(path.to_owned());
    let real = RealProgram::open(path)?;
    let prepared = MachineScheme::plain().prepare(
        &work.for_schemes(true, Some(&real))?,
        &Default::default(),
        None,
    )?;
    let sources = real.sources();
    let machine = &with_cores(machine, sources.len() as u16);
    let setup = Setup { seed, base: real.memory.base().to_vec(), ..Setup::default() };
    let mut system = prepared.machine(machine, setup, sources)?;
    system.run_to_end()?;
    let instructions = system.take_stats().instructions();
    let (wrong, pages) = real.memory.compare(&real.program, |line| system.line(line))?;
    Ok(ReplayedMemory { wrong, pages, instructions })
}
