//! What can be broken on purpose.

/// A bug that is planted, or a change that does no harm. Every scheme has a table of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// Its name.
    pub name: &'static str,
    /// What it breaks.
    pub about: &'static str,
    /// What becomes different.
    pub breaks: Breaks,
    /// Where it can be planted.
    pub applies_to: AppliesTo,
    /// The small campaign that notices it.
    pub shown_by: Shown,
}

/// What becomes different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breaks {
    /// Something in the scheme, which alone knows what the number means.
    Scheme(u8),
    /// The drain at a crash leaves out a write that was queued.
    Drain,
    /// Coherence forgets that a transferred line is dirty.
    Transfer,
    /// What is flushed ends in the buffer in front of memory, and counts as durable.
    Buffer,
    /// The last write to a log is torn between its words.
    TornRecord,
    /// No harm: every flush is there twice.
    FlushTwice,
    /// No harm: a fence precedes the end of each transaction.
    MoreFences,
    /// No harm: `clflushopt` stands for `clwb`.
    Clflushopt,
    /// No harm: a clean line is flushed behind each load.
    FlushClean,
    /// No harm: nothing is different.
    Nothing,
}

/// Where a plant can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppliesTo {
    /// In every scheme.
    All,
    /// In these variants.
    These(&'static [&'static str]),
}

/// The small campaign that notices a plant: how it differs from the usual one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The variant that runs.
    pub variant: &'static str,
    /// The program.
    pub program: &'static str,
    /// Bytes of its data.
    pub footprint: u64,
    /// Threads, a lane each.
    pub threads: u16,
    /// One set of data for all lanes, under one lock.
    pub is_shared: bool,
    /// Of this number of transactions of a lane one aborts; 0 for never.
    pub abort_every: u64,
    /// Options of the scheme.
    pub options: &'static [(&'static str, u64)],
    /// What is changed of the machine.
    pub machine: &'static [(&'static str, &'static str)],
}

/// A machine with a small buffer of DRAM in front of its memory, which has newer bytes than that.
pub(crate) const BUFFERED: &[(&str, &str)] = &[
    ("dram.preset", "ddr4-3200"),
    ("buffer.mode", "write-back"),
    ("buffer.size", "4 KiB"),
    ("buffer.ways", "4"),
];

impl Plant {
    /// Whether it does no harm.
    pub fn is_control(&self) -> bool {
        !matches!(
            self.breaks,
            Breaks::Scheme(_)
                | Breaks::Drain
                | Breaks::Transfer
                | Breaks::Buffer
                | Breaks::TornRecord
        )
    }

    /// Whether a variant has what it breaks.
    pub fn applies_to(&self, variant: &str) -> bool {
        match self.applies_to {
            AppliesTo::All => true,
            AppliesTo::These(names) => names.contains(&variant),
        }
    }
}
