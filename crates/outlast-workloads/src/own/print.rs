//! Work as text: the canonical form, which [`parse`](super::parse) reads back.

use std::fmt;

use super::{OwnStep, OwnWork, WORD_BYTES, WORDS_MAX};

impl fmt::Display for OwnWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "outlast-work 1")?;
        writeln!(f, "memory {}", self.memory_bytes())?;
        writeln!(f, "lanes {}", self.lanes)?;
        let words: Vec<(u64, u64)> = self.initial().collect();
        for run in words.chunk_by(|(word, _), (next, _)| word + 1 == *next) {
            for part in run.chunks(WORDS_MAX as usize) {
                write!(f, "init {:#x}", part[0].0 * WORD_BYTES)?;
                part.iter().try_for_each(|(_, value)| write!(f, " {value}"))?;
                writeln!(f)?;
            }
        }
        for tx in &self.transactions {
            writeln!(f, "\ntx {}", tx.lane)?;
            tx.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
            writeln!(f, "end")?;
        }
        Ok(())
    }
}

impl fmt::Display for OwnStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { word, words: 1 } => write!(f, "load {:#x}", word * WORD_BYTES),
            Self::Load { word, words } => write!(f, "load {:#x} {words}", word * WORD_BYTES),
            Self::Store { word, values } => {
                write!(f, "store {:#x}", word * WORD_BYTES)?;
                values.iter().try_for_each(|value| write!(f, " {value}"))
            }
            Self::Think(instructions) => write!(f, "think {instructions}"),
        }
    }
}
