//! ChampSim traces as instructions.

use super::instr::{Batch, Instr, InstrKind, Source, SourceError};
use outlast_trace::{ChampSimError, ChampSimInstr, ChampSimReader};
use rustc_hash::FxHashMap;
use std::path::Path;

const PAGE_BYTES: u64 = 4096;

/// The instructions of a ChampSim trace.
///
/// Virtual pages get physical ones in the order of their first use. A trace says neither sizes
/// nor values: every access is of one aligned word, and a store stores its own number. Branches
/// that read the flags are conditional, and their direction is predicted; where the others go is
/// taken as known. The stack pointer's own changes, which processors fold away, and the
/// instruction pointer are no dependences.
#[derive(Debug)]
pub struct TraceSource {
    reader: ChampSimReader,
    pages: Pages,
    stores: u64,
}

/// Physical pages of virtual ones.
#[derive(Debug, Default)]
struct Pages {
    physical: FxHashMap<u64, u64>,
    /// The page looked up last.
    last: Option<(u64, u64)>,
}

impl Pages {
    #[inline]
    fn translate(&mut self, at: u64) -> u64 {
        let page = at / PAGE_BYTES;
        let physical = match self.last {
            Some((last, physical)) if last == page => physical,
            _ => {
                let next = self.physical.len() as u64;
                *self.physical.entry(page).or_insert(next)
            }
        };
        self.last = Some((page, physical));
        physical * PAGE_BYTES + at % PAGE_BYTES
    }
}

impl TraceSource {
    /// Opens a trace, raw or compressed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, ChampSimError> {
        let reader = ChampSimReader::open(path)?;
        Ok(Self { reader, pages: Pages::default(), stores: 0 })
    }
}

/// The machine's instructions for one of a trace: one, and another for stores
/// beyond the accesses that one can have, which no instruction of a real processor has.
#[inline]
fn put(from: &ChampSimInstr, pages: &mut Pages, stores: &mut u64, into: &mut Vec<Instr>) {
    let mut instr = Instr { pc: from.ip, store_len: 8, ..Instr::default() };
    let ignored = ChampSimInstr::INSTRUCTION_POINTER;
    for (register, into) in from.source_registers.iter().zip(&mut instr.sources) {
        *into = if *register == ignored { 0 } else { *register };
    }
    let folds_stack_pointer = from.source_registers.contains(&ChampSimInstr::STACK_POINTER);
    for (register, into) in from.destination_registers.iter().zip(&mut instr.destinations) {
        let folded = *register == ChampSimInstr::STACK_POINTER && folds_stack_pointer;
        *into = if *register == ignored || folded { 0 } else { *register };
    }
    for &at in from.source_memory.iter().filter(|at| **at != 0) {
        instr.add_load(pages.translate(at));
    }
    for &at in from.destination_memory.iter().filter(|at| **at != 0) {
        if !instr.takes_store() {
            into.push(instr);
            instr = Instr { loads: 0, stores: 0, ..instr };
        }
        instr.add_store(pages.translate(at) & !7);
        *stores += 1;
        instr.value = *stores;
    }
    if from.is_branch && from.source_registers.contains(&ChampSimInstr::FLAGS) {
        instr.kind = InstrKind::Branch(from.taken);
    }
    into.push(instr);
}

impl Source for TraceSource {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        let Self { reader, pages, stores } = self;
        let read = reader.read(|from| put(from, pages, stores, &mut batch.instrs));
        read.map(|_more| ()).map_err(|error| SourceError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_out_in_order_of_first_use() {
        let mut pages = Pages::default();
        let at = [0x7fff_0008, 0x40_0010, 0x7fff_0ff8, 0x40_1000].map(|at| pages.translate(at));
        assert_eq!(at, [8, 4096 + 16, 0xff8, 2 * 4096]);
    }

    #[test]
    fn dependences_that_processors_fold_away_are_none() {
        let push = ChampSimInstr {
            source_registers: [ChampSimInstr::STACK_POINTER, 3, 26, 0],
            destination_registers: [ChampSimInstr::STACK_POINTER, 0],
            destination_memory: [0x7fff_0003, 0],
            ..ChampSimInstr::default()
        };
        let mut instrs = Vec::new();
        put(&push, &mut Pages::default(), &mut 0, &mut instrs);
        let [instr] = instrs[..] else { panic!("one instruction: {instrs:?}") };
        assert_eq!((instr.sources, instr.destinations), ([6, 3, 0, 0], [0, 0]));
        assert_eq!((instr.store_at(), instr.value), (&[0][..], 1), "one aligned word");
    }

    #[test]
    fn stores_beyond_the_accesses_of_an_instruction_are_another_one() {
        let many = ChampSimInstr {
            source_memory: [0x1000, 0x1008, 0x1010, 0x1018],
            destination_memory: [0x1020, 0x1028],
            ..ChampSimInstr::default()
        };
        let mut instrs = Vec::new();
        put(&many, &mut Pages::default(), &mut 0, &mut instrs);
        assert_eq!(instrs[0].load_at(), [0, 8, 16, 24]);
        assert_eq!((instrs[0].stores, instrs[1].loads, instrs.len()), (0, 0, 2));
        assert_eq!(instrs[1].store_at(), [32, 40]);
    }
}
