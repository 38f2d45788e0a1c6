//! What a scheme's folder gives to everything that runs, crashes and reports schemes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, RunStats, Setup, Source};
use outlast_sim::{LineBytes, instead_of};
use outlast_trace::{Guarantee, LaneId, LineAddr, OpLog};

use crate::{AIT_KEYS, ALL, Image, Key, Options, Patch, Plant, RecoveryError, Work};

/// How a variant stands to its paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Sound: what the paper leaves open or unsafe is closed, at its price.
    Sound,
    /// As the paper's text has it. Crashes convict it.
    AsPublished,
    /// A bound that promises nothing: what others are compared with.
    Bound,
}

/// One scheme by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// What commands and results call it.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// What survives a crash.
    pub guarantee: Guarantee,
    /// How it stands to its paper.
    pub reading: Reading,
    /// What its users give up for it, in one line.
    pub gives_up: &'static str,
}

impl Variant {
    /// A row of a scheme's table.
    pub const fn new(
        name: &'static str,
        guarantee: Guarantee,
        reading: Reading,
        about: &'static str,
    ) -> Self {
        let gives_up = match (reading, guarantee) {
            (Reading::Bound, _) => "everything that memory held but did not have yet",
            (Reading::AsPublished, _) => "what the paper's text leaves unsafe",
            (_, Guarantee::Durable) => "",
            (_, Guarantee::Buffered) => "the latest acknowledged transactions",
            (_, Guarantee::Epoch) => "what ran since the last epoch that persisted",
            (_, Guarantee::Replay) => "time to execute its commands again",
            (_, Guarantee::None) => "any promise about a crash",
        };
        Self { name, about, guarantee, reading, gives_up }
    }

    /// The same, with what its users give up.
    pub const fn giving_up(self, gives_up: &'static str) -> Self {
        Self { gives_up, ..self }
    }
}

/// Why a scheme cannot be put under some work, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PrepareError(String);

impl PrepareError {
    /// From what is wrong and would be right.
    pub fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// A mechanism in the machine with all of its variants. Its folder implements this once; a line of
/// [`ALL`] is all that else names it.
pub trait HardwareScheme: Sync {
    /// Its names, each with what it promises.
    fn variants(&self) -> &'static [Variant];

    /// What can be chosen.
    fn keys(&self) -> &'static [Key] {
        &[]
    }

    /// What can be broken on purpose.
    fn plants(&self) -> &'static [Plant] {
        &[]
    }

    /// Options of a small campaign: everything that is rare happens often.
    fn small(&self) -> Options {
        Options::default()
    }

    /// Whether its ports undo the stores of transactions that abort. Under other schemes programs
    /// undo them themselves, by stores.
    fn undoes_aborts(&self) -> bool {
        false
    }

    /// The scheme under some work; `planted` is a plant's number.
    ///
    /// # Errors
    /// When the work does not fit, or is not of a kind that the scheme takes.
    fn prepare(
        &self,
        variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError>;
}

/// A scheme under some work: what each lane runs, the machine that runs it, and what recovers it.
pub trait Prepared: fmt::Debug + Send + Sync {
    /// What the lanes run under the scheme; none where the work is made as it runs.
    fn streams(&self) -> &[Arc<OpLog>];

    /// Lines of memory, the scheme's own included.
    fn lines(&self) -> u64;

    /// A machine with the scheme in its ports, over the memory of `setup.base`. The scheme's lines in
    /// it are zero, or as recovery has left them: the scheme begins with what they say.
    ///
    /// # Errors
    /// When it cannot be built.
    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError>;

    /// What recovery writes to an image, in its order. It sees nothing that is volatile.
    ///
    /// # Errors
    /// When the image cannot be one of a run.
    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError>;

    /// Where the bytes of a program's line lie in an image that recovery has left, as the scheme's
    /// own tables in that image say.
    fn locate(&self, _image: Image<'_>, line: LineAddr) -> LineAddr {
        line
    }

    /// The epoch at whose end an image is that recovery has left; none under schemes of transactions.
    fn epoch(&self, _image: Image<'_>) -> Option<u64> {
        None
    }

    /// Lines from the first on that are as at the end of [`epoch`](Self::epoch) in such an image: the
    /// program's, then where cores save their registers; none under schemes of transactions.
    fn epoch_lines(&self) -> u64 {
        0
    }

    /// Where a core stood at the end of [`epoch`](Self::epoch), by the registers in such an image: how
    /// many instructions of its program, marks included, it had executed.
    fn resumes_at(&self, _image: Image<'_>, _lane: LaneId) -> u64 {
        0
    }

    /// What recovery reads of an undo log in an image that a crash has left, in its order: lines, and the
    /// old lines among them; nothing of a scheme that does not say.
    fn reads_at_recovery(&self, _image: Image<'_>) -> Vec<LogRead> {
        Vec::new()
    }

    /// The scheme's own account of an image that recovery has left: every block in use once, or free.
    ///
    /// # Errors
    /// What does not add up, in one line.
    fn audit(&self, _image: Image<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Writes to that line of the scheme's own which is written most, in a run of these statistics.
    fn writes_to_hottest_line(&self, _stats: &RunStats) -> Option<f64> {
        None
    }
}

/// Lines of an undo log that lie one behind the other, and old lines of the program in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRead {
    /// The first.
    pub line: LineAddr,
    /// How many.
    pub lines: u64,
    /// The old lines.
    pub entries: Vec<LineBytes>,
}

/// A scheme of the machine, chosen by name.
#[derive(Clone, Copy)]
pub struct MachineScheme {
    scheme: &'static dyn HardwareScheme,
    variant: &'static Variant,
}

impl MachineScheme {
    /// Every scheme, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().flat_map(|&scheme| {
            scheme.variants().iter().map(move |variant| Self { scheme, variant })
        })
    }

    /// A variant of a scheme, in the table or not.
    pub const fn of(scheme: &'static dyn HardwareScheme, variant: &'static Variant) -> Self {
        Self { scheme, variant }
    }

    /// The bound that costs nothing and promises nothing: plain memory.
    pub fn plain() -> Self {
        let scheme = ALL[0];
        Self { scheme, variant: &scheme.variants()[0] }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.variant.name
    }

    /// What it is, in one line.
    pub fn about(self) -> &'static str {
        self.variant.about
    }

    /// What survives a crash.
    pub fn guarantee(self) -> Guarantee {
        self.variant.guarantee
    }

    /// How it stands to its paper.
    pub fn reading(self) -> Reading {
        self.variant.reading
    }

    /// What its users give up for it, in one line.
    pub fn gives_up(self) -> &'static str {
        self.variant.gives_up
    }

    /// What can be chosen: of the scheme, then of what it may stand on.
    pub fn keys(self) -> Vec<Key> {
        [self.scheme.keys(), &AIT_KEYS].concat()
    }

    /// Options of a small campaign.
    pub fn small(self) -> Options {
        self.scheme.small()
    }

    /// The scheme under some work.
    ///
    /// # Errors
    /// As [`HardwareScheme::prepare`].
    pub fn prepare(
        self,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let undone = if self.scheme.undoes_aborts() { None } else { work.with_aborts_undone() };
        self.scheme
            .prepare(self.variant, undone.as_ref().unwrap_or(work), options, planted)
            .map_err(|error| PrepareError::new(format_args!("{self}: {error}")))
    }
}

/// Every plant of every scheme.
pub fn plants() -> impl Iterator<Item = &'static Plant> {
    ALL.iter().flat_map(|scheme| scheme.plants())
}

impl PartialEq for MachineScheme {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for MachineScheme {}

impl Hash for MachineScheme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for MachineScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for MachineScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MachineScheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let wanted = if name == "ideal" { Self::plain().name() } else { name };
        Self::all().find(|scheme| scheme.name() == wanted).ok_or_else(|| {
            let instead = instead_of(name, Self::all().map(Self::name));
            format!("the machine has no scheme '{name}'; {instead}")
        })
    }
}
