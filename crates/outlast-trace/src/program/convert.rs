//! ChampSim's traces, and drmemtrace's.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use super::{
    About, Access, Ending, ErrorKind, Execution, Happening, PAGE_BYTES, Program, ProgramError,
    ProgramWriter, Site, SiteKind, ThreadEncoder,
};
use crate::drmemtrace::{access, foot, head, instruction_at};
use crate::{ChampSimInstr, ChampSimReader, DrmemtraceCounts, WholeFile, read_drmemtrace};

/// Counts of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Converted {
    /// Instructions written.
    pub instructions: u64,
    /// Accesses that the other format has no place for.
    pub lost_accesses: u64,
}

/// Writes the instructions of a thread as a ChampSim trace, compressed where the name ends in `.gz`.
/// Sizes, values, memory's begin and the system are lost, and of an instruction more than four loads
/// and two stores.
///
/// # Errors
/// When the trace cannot be read or the file not be written.
pub fn to_champsim(program: &Program, thread: u16, out: &Path) -> Result<Converted, ProgramError> {
    let failed = |error| ProgramError::new(out, ErrorKind::Io(error));
    let mut to = Out::create(out).map_err(failed)?;
    let mut converted = Converted::default();
    let mut last: Option<(ChampSimInstr, u64)> = None;
    let mut put = |instr: &ChampSimInstr| to.write_all(&instr.encode());
    each_instruction(program, thread, |site, execution, number| {
        if let Some((mut instr, next)) = last.take() {
            instr.taken = instr.is_branch && site.at != next;
            put(&instr).map_err(failed)?;
        }
        let mut instr = ChampSimInstr {
            ip: site.at,
            is_branch: site.kind.is_branch(),
            destination_registers: site.destinations,
            source_registers: site.sources,
            ..ChampSimInstr::default()
        };
        converted.lost_accesses += fill(&mut instr, execution, number);
        converted.instructions += 1;
        last = Some((instr, site.at + u64::from(site.len)));
        Ok(())
    })?;
    if let Some((instr, _)) = last {
        put(&instr).map_err(failed)?;
    }
    to.finish().map_err(failed)?;
    Ok(converted)
}

/// Writes the instructions of a thread as a trace of drmemtrace's, compressed where the name ends in `.gz`. Values,
/// registers, memory's begin and the system are lost.
///
/// # Errors
/// As [`to_champsim`].
pub fn to_drmemtrace(
    program: &Program,
    thread: u16,
    out: &Path,
) -> Result<Converted, ProgramError> {
    let failed = |error| ProgramError::new(out, ErrorKind::Io(error));
    let mut to = Out::create(out).map_err(failed)?;
    let mut converted = Converted::default();
    head(thread).iter().try_for_each(|entry| to.write_all(entry)).map_err(failed)?;
    let mut last = None;
    each_instruction(program, thread, |site, execution, number| {
        let repeats = last.replace(site.at) == Some(site.at);
        to.write_all(&instruction_at(site, repeats)).map_err(failed)?;
        converted.instructions += 1;
        for (at, bytes, stores) in accesses(execution, number) {
            to.write_all(&access(stores, bytes, at)).map_err(failed)?;
        }
        Ok(())
    })?;
    foot(thread).iter().try_for_each(|entry| to.write_all(entry)).map_err(failed)?;
    to.finish().map_err(failed)?;
    Ok(converted)
}

/// Calls `each` with every instruction of a thread, in order: its site, the execution that it is in, and its number
/// there.
fn each_instruction(
    program: &Program,
    thread: u16,
    mut each: impl FnMut(&Site, &Execution<'_>, u16) -> Result<(), ProgramError>,
) -> Result<(), ProgramError> {
    let mut reader = program.thread(thread);
    while let Some(happening) = reader.next()? {
        let Happening::Execution(execution) = happening else { continue };
        let sites = program.block(execution.block);
        for number in execution.insns.clone() {
            let Some(site) = sites.get(usize::from(number)) else { break };
            each(site, &execution, number)?;
        }
    }
    Ok(())
}

/// An instruction's accesses: where, how many bytes, and whether it stores. Both halves of sixteen bytes are one.
fn accesses(execution: &Execution<'_>, number: u16) -> Vec<(u64, u16, bool)> {
    let mut all: Vec<(u64, u16, bool)> = Vec::new();
    for access in execution.accesses.iter().filter(|access| access.insn == number) {
        let len = u16::from(access.len);
        match all.last_mut() {
            Some((at, bytes, stores))
                if (*at + u64::from(*bytes), *stores) == (access.at, access.stores) =>
            {
                *bytes += len;
            }
            _ => all.push((access.at, len, access.stores)),
        }
    }
    all
}

/// Where the other format's instructions go.
enum Out {
    Raw(WholeFile),
    Packed(Box<flate2::write::GzEncoder<WholeFile>>),
}

impl Out {
    fn create(path: &Path) -> io::Result<Self> {
        let file = WholeFile::create(path)?;
        Ok(match path.extension().is_some_and(|extension| extension == "gz") {
            true => Self::Packed(Box::new(flate2::write::GzEncoder::new(file, Default::default()))),
            false => Self::Raw(file),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Raw(file) => file.write_all(bytes),
            Self::Packed(file) => file.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Raw(file) => file.finish(),
            Self::Packed(file) => file.finish().and_then(WholeFile::finish),
        }
    }
}

/// Gives an instruction its accesses. How many found no place.
fn fill(instr: &mut ChampSimInstr, execution: &Execution<'_>, number: u16) -> u64 {
    let (mut loads, mut stored, mut lost) = (0, 0, 0);
    for (at, _, stores) in accesses(execution, number) {
        let (into, count) = match stores {
            true => (&mut instr.destination_memory[..], &mut stored),
            false => (&mut instr.source_memory[..], &mut loads),
        };
        match into.get_mut(*count) {
            Some(place) => {
                *place = at;
                *count += 1;
            }
            None => lost += 1,
        }
    }
    lost
}

/// Makes a trace of a program of ChampSim's. What that does not say is made up: each access is of an
/// aligned word, each store stores its number, and memory begins with zeros.
///
/// # Errors
/// When the trace cannot be read or the file not be written.
pub fn from_champsim(from: &Path, out: &Path) -> Result<Converted, Box<dyn std::error::Error>> {
    let mut reader = ChampSimReader::open(from)?;
    made_of(from, "ChampSim's", out, |to| {
        while reader.read(&mut *to)? {}
        Ok(0)
    })
}

/// Makes a trace of a program of one of drmemtrace's. What that does not say, or ChampSim's format has no place
/// for, is made up or lost as in [`from_champsim`].
///
/// # Errors
/// When the trace cannot be read or the file not be written.
pub fn from_drmemtrace(from: &Path, out: &Path) -> Result<Converted, Box<dyn std::error::Error>> {
    made_of(from, "drmemtrace's", out, |to| Ok(read_drmemtrace(from, to)?.lost_accesses))
}

/// Makes a ChampSim trace of one of drmemtrace's, compressed where the name ends in `.gz`. Sizes are lost, and
/// prefetches, encodings and markers.
///
/// # Errors
/// When the trace cannot be read or the file not be written.
pub fn champsim_of_drmemtrace(
    from: &Path,
    out: &Path,
) -> Result<Converted, Box<dyn std::error::Error>> {
    let mut to = Out::create(out)?;
    let mut wrong = Ok(());
    let counts = read_drmemtrace(from, |instr| {
        if wrong.is_ok() {
            wrong = to.write_all(&instr.encode());
        }
    })?;
    wrong.and_then(|()| to.finish()).map_err(|error| format!("{}: {error}", out.display()))?;
    let DrmemtraceCounts { instructions, lost_accesses } = counts;
    Ok(Converted { instructions, lost_accesses })
}

/// Makes a trace of a program of instructions as ChampSim has them; `read` passes them on, and says how many
/// accesses had no place.
fn made_of(
    from: &Path,
    format: &str,
    out: &Path,
    read: impl FnOnce(&mut dyn FnMut(&ChampSimInstr)) -> Result<u64, Box<dyn std::error::Error>>,
) -> Result<Converted, Box<dyn std::error::Error>> {
    let about = About {
        command: vec![from.display().to_string()],
        tools: format!("outlast {}; converted from {format} format", env!("CARGO_PKG_VERSION")),
        window: "all; sizes and values are made up".to_owned(),
        ..About::default()
    };
    let mut writer = ProgramWriter::create(out, &about)?;
    let mut thread = ThreadEncoder::new(0);
    let mut blocks: HashMap<Site, u32> = HashMap::new();
    let mut pages = std::collections::HashSet::new();
    let (mut stored, mut converted) = (0, Converted::default());
    let mut accesses = Vec::new();
    // An instruction's length follows from the next one's address, where it is not a branch that was
    // taken.
    let mut one = |instr: &ChampSimInstr, follows: Option<u64>| {
        let registers = &instr.source_registers;
        let kind = match instr.is_branch {
            true if registers.contains(&ChampSimInstr::FLAGS) => SiteKind::Conditional,
            true => SiteKind::IndirectJump,
            false => SiteKind::Plain,
        };
        let distance = follows.map_or(4, |follows| follows.wrapping_sub(instr.ip));
        let len = match (instr.taken, distance) {
            (false, 1..=15) => distance as u8,
            (_, 4) => 5,
            _ => 4,
        };
        let (sources, destinations) = (instr.source_registers, instr.destination_registers);
        let site = Site { at: instr.ip, len, kind, sources, destinations };
        let next = blocks.len() as u32;
        let block = *blocks.entry(site).or_insert_with(|| {
            writer.block(&[site]);
            next
        });
        accesses.clear();
        let loads = instr.source_memory.iter().map(|at| (*at, false));
        let stores = instr.destination_memory.iter().map(|at| (*at, true));
        for (at, stores) in loads.chain(stores).filter(|(at, _)| *at != 0) {
            let at = at & !7 & ((1 << 48) - 1);
            if pages.insert(at / PAGE_BYTES as u64) {
                writer.page(at / PAGE_BYTES as u64, &[0; PAGE_BYTES]);
            }
            stored += u64::from(stores);
            let value = if stores { stored } else { 0 };
            accesses.push(Access { at, value, insn: 0, len: 8, stores });
        }
        let execution =
            Execution { block, insns: 0..1, accesses: &accesses, places: &[], seen: &[] };
        thread.execution(&mut writer, &execution);
        converted.instructions += 1;
    };
    let mut held: Option<ChampSimInstr> = None;
    let lost_accesses = read(&mut |instr| {
        if let Some(before) = held.replace(*instr) {
            one(&before, Some(instr.ip));
        }
    })?;
    if let Some(last) = held {
        one(&last, None);
    }
    thread.finish(&mut writer);
    writer.finish(Ending::Killed)?;
    Ok(Converted { lost_accesses, ..converted })
}
