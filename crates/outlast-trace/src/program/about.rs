//! A trace's description of itself.

use super::section::{Bad, Bytes, put, put_bytes};

/// Where a trace comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Digest of the program's file.
    pub digest: String,
    /// The tools that captured it, with versions.
    pub tools: String,
    /// Which part of the run, in words.
    pub window: String,
    /// The process among those of the run: 0 for the one that was started.
    pub process: u32,
}

impl About {
    pub(super) fn put(&self, into: &mut Vec<u8>) {
        put(into, self.command.len() as u64);
        self.command.iter().for_each(|word| put_bytes(into, word.as_bytes()));
        for text in [&self.digest, &self.tools, &self.window] {
            put_bytes(into, text.as_bytes());
        }
        put(into, self.process.into());
    }

    pub(super) fn read(from: &mut Bytes<'_>) -> Result<Self, Bad> {
        let words = from.count(1)?;
        Ok(Self {
            command: (0..words).map(|_| from.text()).collect::<Result<_, _>>()?,
            digest: from.text()?,
            tools: from.text()?,
            window: from.text()?,
            process: from.small()?,
        })
    }
}

/// How a capture ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Ending {
    /// The program or its window ended: the trace has what memory held then.
    #[default]
    Whole = 0,
    /// The program was killed, or became another one that is not followed: the trace goes up to there, or
    /// nearly.
    Killed = 1,
}

impl Ending {
    pub(super) fn read(from: &mut Bytes<'_>) -> Result<Self, Bad> {
        match from.byte()? {
            0 => Ok(Self::Whole),
            1 => Ok(Self::Killed),
            _ => Err(Bad),
        }
    }
}
