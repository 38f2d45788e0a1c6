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

/// A machine that keeps no order between writes that do not wait for each other: neighbouring lines lie
/// in different channels, each with a short queue of its own that a crash loses.
///
/// With one channel, writes that are sent one behind the other become durable so: queues take them in
/// that order, and lines of one row are written oldest first. A rule that one write waits for another is
/// then kept by the machine.
pub const UNORDERED: &[(&str, &str)] = &[
    ("memory.channels", "2"),
    ("memory.mapping", "row rank bank group column channel"),
    ("memory.write_queue", "2"),
    ("memory.drain_high", "2"),
    ("memory.drain_low", "0"),
    ("memory.adr", "false"),
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
