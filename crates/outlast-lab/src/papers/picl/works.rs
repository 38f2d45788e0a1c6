//! The works: programs of the suite, mixes of eight of them, and synthetic work beside.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outlast_schemes::{Prepared, Streams, Work};
use outlast_sim::timed::{Pattern, Source, Stream, instructions_of};
use outlast_trace::{LineAddr, Program};
use outlast_workloads::Workload;
use outlast_workloads::machine::{Plan, Recorded};

use super::Task;
use crate::native::Size;
use crate::progress::{Listener, Progress, as_part};
use crate::simulated::{RealPrograms, busy_threads, sources};
use crate::suite::{self, MIXES, Scale, Suite};
use outlast_crash::machine::work_of;

/// Where a work comes from. Figures of programs and of synthetic work never mix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A program, alone.
    Program,
    /// Eight programs.
    Mix,
    /// A stream or a workload of the lab's.
    Synthetic,
    /// Eight of these.
    SyntheticMix,
}

impl Origin {
    pub(super) fn is_mix(self) -> bool {
        matches!(self, Self::Mix | Self::SyntheticMix)
    }
}

/// Work for one core or for eight.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    pub(super) cores: u16,
    /// Its programs, core by core.
    programs: Vec<&'static str>,
}

/// A mix, and how many of its programs are there.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    pub(super) found: usize,
}

/// Streams that run alone, and the work of transactions.
const STREAMS: [Pattern; 3] = [Pattern::Friendly, Pattern::Stride, Pattern::Random];
const HASH: &str = "hash";
/// Data of each copy of it at full scale, and instructions of a transaction, about.
const HASH_BYTES: u64 = 64 << 20;
const HASH_INSTRUCTIONS: u64 = 100;

/// The stage in which [`Works::find`] captures missing programs.
pub(super) const CAPTURE: &str = "capturing programs";

/// The works that are there to run.
pub(super) struct Works {
    pub(super) singles: Vec<Chosen>,
    pub(super) mixes: Vec<Mix>,
    /// Mixes that can run.
    pub(super) mixed: Vec<Chosen>,
    /// Why programs are not there, where they are not.
    pub(super) missing: Option<String>,
    files: HashMap<&'static str, PathBuf>,
    opened: Opened,
}

/// Programs opened last, the newest at the end: one work runs under several schemes in a row.
type Opened = Mutex<Vec<(Vec<&'static str>, Arc<RealPrograms>)>>;

/// Works whose programs are kept, at most.
const OPENED: usize = 3;

impl Works {
    /// Looks which programs are there; what is not is said, and the rest goes on.
    pub(super) fn find(task: &Task, listen: &mut Listener<'_>) -> Result<Self, Box<dyn Error>> {
        let mut files = HashMap::new();
        let mut threads_of: HashMap<&'static str, u16> = HashMap::new();
        let mut missing: Vec<(&'static str, String)> = Vec::new();
        let names: Vec<&'static str> = suite::counterparts().map(|(entry, _)| entry.name).collect();
        if task.runs_programs() {
            let scale = match task.size {
                Size::Quick => Scale::Quick,
                Size::Full => Scale::Full,
            };
            for (number, name) in (0..).zip(&names) {
                let suite = Suite::usual();
                let mut tell = as_part(CAPTURE, (number, names.len() as u64), listen);
                let found = suite.and_then(|suite| suite.trace(name, scale, &mut tell));
                match found.map_err(|why| why.to_string()).and_then(of_few_threads) {
                    Ok((file, threads)) => {
                        files.insert(*name, file);
                        threads_of.insert(*name, threads as u16);
                    }
                    Err(why) => missing.push((*name, why)),
                }
            }
        }
        let left_out: Vec<String> =
            missing.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        let missing = (!left_out.is_empty()).then(|| {
            let note = format!("not there and left out: {}", left_out.join("; "));
            listen(Progress::Note(&note));
            note
        });
        let program = |name: &'static str| Chosen {
            name,
            origin: Origin::Program,
            cores: threads_of[name],
            programs: vec![name],
        };
        let there = names.iter().copied().filter(|name| files.contains_key(name));
        let mut singles: Vec<Chosen> = there.map(program).collect();
        let synthetic = |name: &'static str, origin: Origin| {
            let cores = if origin.is_mix() { 8 } else { 1 };
            Chosen { name, origin, cores, programs: Vec::new() }
        };
        let names = Pattern::ALL.iter().filter(|row| STREAMS.contains(&row.0)).map(|row| row.1);
        singles.extend(names.map(|name| synthetic(name, Origin::Synthetic)));
        singles.push(synthetic(HASH, Origin::Synthetic));
        let (mut mixes, mut mixed) = (Vec::new(), Vec::new());
        for suite::Mix { name, programs } in MIXES {
            // A mix has a core for each program.
            let is_there = |name: &&str| threads_of.get(name) == Some(&1);
            let found: Vec<&'static str> = programs.iter().copied().filter(is_there).collect();
            mixes.push(Mix { name, found: found.len() });
            if !found.is_empty() {
                // Places of programs that are not there are taken by the mix's others.
                let cores = programs.len() as u16;
                let programs = found.iter().copied().cycle().take(programs.len()).collect();
                mixed.push(Chosen { name, origin: Origin::Mix, cores, programs });
            }
        }
        if mixed.is_empty() {
            mixed.push(synthetic("8 x hash", Origin::SyntheticMix));
        }
        Ok(Self { singles, mixes, mixed, missing, files, opened: Opened::default() })
    }

    /// The works if all programs of the suite were there, for estimates: none is opened.
    pub(super) fn all(task: &Task) -> Self {
        let chosen = |name, origin, cores| Chosen { name, origin, cores, programs: Vec::new() };
        let names = suite::counterparts().map(|(entry, _)| entry.name);
        let programs = names.filter(|_| task.runs_programs());
        let mut singles: Vec<Chosen> =
            programs.map(|name| chosen(name, Origin::Program, 1)).collect();
        let streams = Pattern::ALL.iter().filter(|row| STREAMS.contains(&row.0)).map(|row| row.1);
        singles.extend(streams.map(|name| chosen(name, Origin::Synthetic, 1)));
        singles.push(chosen(HASH, Origin::Synthetic, 1));
        let mixed = match task.runs_programs() {
            true => MIXES.iter().map(|mix| chosen(mix.name, Origin::Mix, 8)).collect(),
            false => vec![chosen("8 x hash", Origin::SyntheticMix, 8)],
        };
        let (mixes, files) = (Vec::new(), HashMap::new());
        Self { singles, mixes, mixed, missing: None, files, opened: Opened::default() }
    }

    /// Programs, one for each core. The second that asks for the same waits until they are open.
    fn open(&self, names: &[&'static str]) -> Result<Arc<RealPrograms>, Box<dyn Error>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = match opened.iter().position(|(of, _)| of == names) {
            Some(at) => opened.remove(at).1,
            None => {
                let files = names.iter().filter_map(|name| self.files.get(name).cloned());
                Arc::new(RealPrograms::open(&files.collect::<Vec<PathBuf>>(), true)?)
            }
        };
        opened.push((names.to_vec(), Arc::clone(&programs)));
        let surplus = opened.len().saturating_sub(OPENED);
        opened.drain(..surplus);
        Ok(programs)
    }

    /// The single work of that name.
    pub(super) fn single(&self, name: &str) -> Option<&Chosen> {
        self.singles.iter().find(|work| work.name == name)
    }

    /// Makes a work ready, for at most `instructions` instructions of each core.
    pub(super) fn ready(
        &self,
        task: &Task,
        chosen: &Chosen,
        instructions: u64,
    ) -> Result<Ready, Box<dyn Error>> {
        if !chosen.programs.is_empty() {
            return Ok(Ready::Programs(self.open(&chosen.programs)?));
        }
        if let Some(row) = Pattern::ALL.iter().find(|row| row.1 == chosen.name) {
            return Ok(Ready::Stream(row.0, task.seed));
        }
        let threads = chosen.cores;
        let plan = Plan {
            workload: Workload::named(HASH).expect("the lab has it"),
            footprint: u64::from(threads) * (HASH_BYTES / task.divisor).max(1 << 18),
            threads,
            warm_up: 0,
            transactions: u64::from(threads) * (instructions / HASH_INSTRUCTIONS + 1),
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed: task.seed,
        };
        let recorded = plan.record()?;
        let (all, wanted) = (instructions_in(&recorded), u64::from(threads) * instructions);
        if all >= wanted {
            return Ok(Ready::Recorded(Box::new(recorded)));
        }
        // As many again as it lacks, and some more: transactions are not all alike.
        let transactions = 5 * plan.transactions * wanted / (4 * all.max(1)) + 1;
        Ok(Ready::Recorded(Box::new(Plan { transactions, ..plan }.record()?)))
    }
}

fn instructions_in(recorded: &Recorded) -> u64 {
    let work = work_of(recorded);
    let ops = work.recorded().iter().flat_map(|log| log.iter());
    ops.map(|(_, op)| instructions_of(op)).sum()
}

/// The threads of a program that do something, each of which has a core; at most as many as the paper's
/// machine has.
fn of_few_threads(file: PathBuf) -> Result<(PathBuf, usize), String> {
    const CORES: usize = 8;
    let program = Program::open(&file).map_err(|error| error.to_string())?;
    match busy_threads(&program).len() {
        busy if busy <= CORES => Ok((file, busy)),
        busy => Err(format!("{}: {busy} threads are busy, and {CORES} can be", file.display())),
    }
}

/// Work that can be put under a scheme.
pub(super) enum Ready {
    Programs(Arc<RealPrograms>),
    Stream(Pattern, u64),
    Recorded(Box<Recorded>),
}

impl Ready {
    pub(super) fn cores(&self) -> u16 {
        match self {
            Self::Programs(programs) => programs.threads(),
            Self::Stream(..) => 1,
            Self::Recorded(recorded) => recorded.lanes(),
        }
    }

    /// As schemes take it.
    pub(super) fn work(&self) -> Work {
        let lines = match self {
            Self::Programs(programs) => programs.lines(),
            Self::Stream(pattern, _) => pattern.bytes() / 64,
            Self::Recorded(recorded) => return work_of(recorded),
        };
        Work {
            streams: Streams::Generated { tx_stores: 0 },
            image: Arc::default(),
            end: LineAddr(lines),
            lanes: self.cores(),
            is_nested: false,
            whole: None,
        }
    }

    /// The initial contents of memory: the programs' pages, one program behind the other.
    pub(super) fn base(&self) -> Vec<u8> {
        match self {
            Self::Programs(programs) => programs.base(),
            Self::Stream(..) => Vec::new(),
            Self::Recorded(recorded) => recorded.image.to_vec(),
        }
    }

    /// The instructions of each core; a program that has come to its end begins again.
    pub(super) fn sources(&self, prepared: &dyn Prepared) -> Vec<Box<dyn Source>> {
        match self {
            Self::Programs(programs) => programs.sources(),
            Self::Stream(pattern, seed) => vec![Box::new(Stream::new(*pattern, *seed))],
            Self::Recorded(recorded) => sources(prepared, recorded.lanes()),
        }
    }
}
