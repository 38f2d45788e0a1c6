//! Several programs on one machine: each in a part of memory of its own.

use super::instr::{Batch, InstrKind, Mark, Source, SourceError};

/// A program that sees its own memory from address 0 on, and runs in a part of the machine's.
///
/// Its locks and signals are its own, too. A scheme's lines lie outside all parts.
pub struct Placed<S> {
    source: S,
    /// Its number, from 0; bits above the 48th of its locks and signals.
    program: u16,
    /// The part's first byte, and its bytes.
    base: u64,
    bytes: u64,
}

impl<S: Source> Placed<S> {
    /// The program with this number in `bytes` bytes from `base` on.
    pub fn new(source: S, program: u16, base: u64, bytes: u64) -> Self {
        Self { source, program, base, bytes }
    }

    fn place(&self, at: &mut u64, bytes: u64) -> Result<(), SourceError> {
        if at.saturating_add(bytes) > self.bytes {
            let Self { program, bytes: has, .. } = self;
            return Err(SourceError(format!(
                "program {program} touches byte {at:#x}, and its part of memory has {has} bytes"
            )));
        }
        *at += self.base;
        Ok(())
    }

    /// The mark, with a lock or signal of this program's own.
    fn own(&self, mark: Mark) -> Mark {
        let own = |id: u64| id ^ u64::from(self.program) << 48;
        match mark {
            Mark::Lock { id, ticket } => Mark::Lock { id: own(id), ticket },
            Mark::Unlock { id, ticket } => Mark::Unlock { id: own(id), ticket },
            Mark::Signal { id, count } => Mark::Signal { id: own(id), count },
            Mark::Wait { id, count } => Mark::Wait { id: own(id), count },
            other => other,
        }
    }
}

impl<S: Source> Source for Placed<S> {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        let filled = self.source.fill(batch);
        batch.marks.iter_mut().for_each(|mark| *mark = self.own(*mark));
        for number in 0..batch.instrs.len() {
            let mut instr = batch.instrs[number];
            let store_bytes = match instr.kind {
                InstrKind::Store64 | InstrKind::Flush(_) => 64,
                _ => u64::from(instr.store_len),
            };
            let (loads, stores) = (usize::from(instr.loads), usize::from(instr.stores));
            let mut accesses = instr.at.iter_mut().take(loads + stores).enumerate();
            let placed = accesses.try_for_each(|(number, at)| {
                self.place(at, if number < loads { 1 } else { store_bytes })
            });
            if let Err(error) = placed {
                batch.instrs.truncate(number);
                return Err(error);
            }
            batch.instrs[number] = instr;
        }
        filled
    }
}
