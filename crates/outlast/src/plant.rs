//! Planted bugs: named ways to break the runtime, to prove that its checks can fail.
//!
//! Each stands for one of the mistakes that persistent-memory code is known for. They exist only
//! on an observing [`Medium`](outlast_pmem::Medium); on real memory the optimiser removes them.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::io::Site;
use crate::scheme::{Logging, Scheme, WriteBack};

/// An enum whose variants' documentation is what they say of themselves.
macro_rules! described {
    ($(#[$meta:meta])* pub enum $enum:ident {
        $($(#[doc = $about:literal])+ $name:ident $(($field:ty))?,)*
    }) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[doc = $about])+ $name $(($field))?,)*
        }

        impl $enum {
            /// What it is, in words.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name { .. } => concat!($($about),+).trim_start(),)*
                }
            }
        }
    };
}
pub(crate) use described;

/// How often broken code was run.
static MET: AtomicU64 = AtomicU64::new(0);

/// Counts one more meeting with a planted bug.
#[cold]
pub(crate) fn met() {
    MET.fetch_add(1, Ordering::Relaxed);
}

described! {
/// One mistake, switched on by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Plant {
    /// This flush is left out.
    SkipFlush(Site),
    /// This fence is left out.
    SkipFence(Site),
    /// The first line of a record is not flushed.
    RecordFirstLineUnflushed,
    /// The last line of a record is not flushed.
    RecordLastLineUnflushed,
    /// Flushes name the neighbouring line.
    FlushWrongAddress,
    /// A record is flushed before it is stored.
    FlushBeforeStore,
    /// A record is streamed, its tags stored ordinarily, and their order taken for granted.
    StreamedRecordStoredTag,
    /// A line's tag is stored before its content.
    TagFirst,
    /// Only a record's header line carries its number; the others are believed.
    ContinuationsBelieved,
    /// Streamed: of a line only the first word's lap is looked at (L6).
    FirstWordBelieved,
    /// Streamed: what is left of the ring behind the last record of a lap keeps older laps (L5).
    RestOfLapUnwritten,
    /// Streamed: a lane's ring keeps what stood there in another form, or long ago (L5).
    RingNotZeroed,
    /// Streamed: an opening goes on in the lap of the one before (L5).
    LapGoesOn,
    /// The commit mark is stored in two halves.
    MarkInHalves,
    /// The mark is flushed together with the data that it presupposes.
    MarkWithData,
    /// Redo: data goes in place before the record is fenced.
    InstallBeforeFence,
    /// Undo: data is stored before its old content is logged.
    StoreBeforeLog,
    /// Locks are released before the commit is durable.
    EarlyRelease,
    /// Redo: the number is drawn before the locks are held.
    NumberBeforeLocks,
    /// Redo: a number is drawn without a look at the versions of what its transaction stores to (N1).
    VersionsNotPassed,
    /// Redo: the bits of blocks are stored without the locks of their lines (N3).
    BitsUnlocked,
    /// Whoever revokes a bias does not wait for its lane's transaction (X1).
    BiasBelieved,
    /// A page becomes shared with what its lane has pending there (X2).
    BiasStaysPending,
    /// What was stored under a bias counts as old (X3).
    BiasNotCounted,
    /// The clock does not count what a lane has committed that ran alone (N2).
    SoloNotCounted,
    /// The clock does not count what other lanes have committed when one begins to run alone (N2).
    OthersNotCounted,
    /// The ring is reused although its records are live.
    RingOverwritesLive,
    /// A lane's ring is reused as soon as its own lines are flushed, whatever other lanes hold.
    RecycleByOwnLane,
    /// The sweeper trusts that another lane's flushes were fenced.
    SweepTrustsOtherFence,
    /// By segment: one line of each record is left unflushed (B1).
    LineForgotten,
    /// By segment: what a lane has flushed counts for others before it has fenced (B1).
    CoveredUnfenced,
    /// By segment: a line that was flushed once is left out for good (B2).
    FlushedOnceIsEnough,
    /// The sweeper ignores commits that are under way.
    SweepIgnoresInFlight,
    /// Tails move before the floor is durable.
    TailBeforeFloor,
    /// Regions elsewhere are not followed at recovery.
    RegionsNotFollowed,
    /// The log lines in a region elsewhere are not flushed.
    RegionUnflushed,
    /// A region's old tags are left standing.
    RegionNotScrubbed,
    /// Undo: announced ranges are rounded inwards to words.
    AnnouncedRoundedIn,
    /// Undo: words are logged again when announced again, and put back oldest first.
    LoggedTwice,
    /// Redo: recovery replays newest first.
    RedoNewestFirst,
    /// Redo: recovery replays lane by lane.
    RedoLaneByLane,
    /// Recovery does not begin a new epoch.
    EpochNotBumped,
    /// Recovery raises the floor before its repairs are fenced.
    FloorBeforeRepairs,
    /// Recovery raises the floor before it applies anything.
    FloorBeforeApplying,
    /// Recovery toggles allocation bits.
    BitsToggled,
    /// Recovery stops at the first lane with an unfinished record.
    OtherLanesDropped,
    /// Blocks are linked though their allocation is neither logged nor flushed.
    AllocationNotLogged,
    /// A block's bit is set, durably, when it is reserved.
    AllocationEager,
    /// A freed block is handed out before the free is durable.
    FreedAtOnce,
    /// Redo: freed blocks are handed out while live records may still write to them.
    NoQuarantine,
    /// Contents of new blocks are not flushed.
    FreshUnflushed,
    /// The pool's magic is stored before its header.
    MagicFirst,
    /// The size is raised before the file.
    SizeBeforeFile,
    /// An abort forgets the first range.
    AbortIncomplete,
    /// Undo alone: a line has no witness.
    WitnessMissing,
    /// Undo alone: a word that held its last value before bears witness.
    WitnessAlwaysTrue,
    /// Undo alone: recovery believes witnesses without looking.
    WitnessesBelieved,
    /// Undo alone: the next record overwrites the one whose mark is not durable.
    HalvesNotSwapped,
    /// Undo alone: words of blocks that are given back bear witness.
    WitnessInFreedBlock,
    /// Undo alone: a chunk is made a class's while its old bitmap bears witness.
    FormatUnsettled,
    /// By age: a line leaves the queue unflushed although it is pending (A6).
    AgedOutUnflushed,
    /// Undo by age: regions of an aborted transaction are free at once.
    AbortedRegionsFreed,
    /// By age: the lines of a block are forgotten when it is given back (A9).
    PendingLostWithFree,
    /// By age: a line counts as pending since the last commit that stored to it (A10).
    PendingSinceLast,
    /// Checksums: a line that is stored to stays in the sums as it was (A3).
    SumsMissUpdates,
    /// Checksums: the old content stays in the sums (A4).
    SumsKeepOld,
    /// Checksums: those of columns are not kept (A5).
    ColumnSumsMissing,
    /// Checksums: recovery leaves them as the crash did.
    SumsNotRebuilt,
    /// By age: the floor passes commits of other lanes whose lines are pending (A1).
    FloorPassesPending,
    /// Rollback: the journal's header is written before its pages are durable (J1).
    JournalHeaderFirst,
    /// Rollback: the journal's header is zeroed before the new pages are durable (J3).
    JournalEndedEarly,
    /// Rollback: two transactions write at a time (J5).
    TwoWriters,
    /// Atlas: a section is marked while one on which it depends is not stable (F3).
    PrunedTooEarly,
    /// Atlas: recovery undoes sections lane by lane (F4).
    SectionsLaneByLane,
    /// Append-only log: chunks of freed large blocks are used again while commands that stored to
    /// them stand in the log (Q3).
    ChunksReused,
    /// Append-only log: its regions are free when the transaction ends (Q3).
    LogRegionFreed,
    /// Checkpoint: a transaction's pages are marked before it stores, not after.
    MarkedBeforeStores,
    /// Checkpoint: the last pages are copied while transactions run.
    PauseLeftOut,
    /// Checkpoint: what an aborted transaction put back is not marked.
    AbortNotMarked,
    /// Checkpoint: what a transaction stored to new blocks is not marked.
    FreshNotMarked,
    /// Asynchronous commit: values go in place when it returns (D1).
    AsyncInPlace,
    /// Asynchronous commit: locks are let go when it returns (D1).
    AsyncUnlocked,
    /// A commit that waits leaves what its lane has pending behind (D2).
    AsyncLeftBehind,
    /// A transaction that only reads returns though what it has seen is pending (D3).
    AsyncBelieved,
    /// A batch counts as durable before its record is fenced.
    DurableTooEarly,
    /// Group commit: the fence comes before the last record (H3).
    GroupFencedEarly,
    /// A lane parks without a fence for what it has flushed (H2).
    ParkedUnfenced,
    /// A lane that ran alone keeps its batch when another begins (H5).
    SoloStaysPending,
    /// A lane begins to run alone over what another has pending (S3).
    SoloOverPending,
    /// Isolation: what was read is not looked at again when the view moves on or the commit is made.
    ReadsNotValidated,
    /// Isolation: a line counts as read whole though its lock was taken meanwhile.
    ReadsTorn,
    /// Control: every flush is issued twice.
    FlushTwice,
    /// Control: every fence is issued twice.
    FenceTwice,
    /// Control: with each flush goes one of a line that nobody stores to.
    CleanLineFlushed,
    /// Control: the lines of a record are flushed last one first.
    RecordFlushedBackwards,
    /// Control: lines are flushed by `clflushopt` instead of `clwb`.
    FlushedByClflushOpt,
}
}

/// What is unusual and sound: a checker that flags one of these is wrong.
const CONTROLS: &[(Plant, &str)] = &[
    (Plant::FlushTwice, "flush-twice"),
    (Plant::FenceTwice, "fence-twice"),
    (Plant::CleanLineFlushed, "clean-line-flushed"),
    (Plant::RecordFlushedBackwards, "record-flushed-backwards"),
    (Plant::FlushedByClflushOpt, "flushed-by-clflushopt"),
];

/// Bugs that only what several lanes see of each other brings to light; crashes do not.
const ISOLATION: &[(Plant, &str)] =
    &[(Plant::ReadsNotValidated, "reads-not-validated"), (Plant::ReadsTorn, "reads-torn")];

/// The same, where lanes have pages to themselves.
const BIAS: &[(Plant, &str)] =
    &[(Plant::BiasBelieved, "bias-believed"), (Plant::BiasNotCounted, "bias-not-counted")];

/// Bugs that only a checkpoint brings to light; crashes alone do not.
const CHECKPOINTS: &[(Plant, &str)] = &[
    (Plant::MarkedBeforeStores, "marked-before-stores"),
    (Plant::PauseLeftOut, "pause-left-out"),
    (Plant::AbortNotMarked, "abort-not-marked"),
    (Plant::FreshNotMarked, "fresh-not-marked"),
];

/// Bugs that only hundreds of laps of a ring, or openings, bring to light; no scope is so large.
const LAPS: &[(Plant, &str)] = &[
    (Plant::RestOfLapUnwritten, "rest-of-lap-unwritten"),
    (Plant::RingNotZeroed, "ring-not-zeroed"),
];

/// Bugs that only commits bring to light which store to what they have not read; all scopes read.
const NUMBERS: &[(Plant, &str)] = &[
    (Plant::VersionsNotPassed, "versions-not-passed"),
    (Plant::BitsUnlocked, "bits-unlocked"),
    (Plant::SoloNotCounted, "solo-not-counted"),
];

/// The same, where others stay away while one runs alone.
const AWAY: &[(Plant, &str)] = &[
    (Plant::OthersNotCounted, "others-not-counted"),
    (Plant::SoloOverPending, "solo-over-pending"),
];

/// Names of the bugs that are not a site's.
const NAMED: &[(Plant, &str, u8)] = &[
    (Plant::RecordFirstLineUnflushed, "record-first-line-unflushed", 1),
    (Plant::RecordLastLineUnflushed, "record-last-line-unflushed", 2),
    (Plant::FlushBeforeStore, "flush-before-store", 4),
    (Plant::StoreBeforeLog, "store-before-log", 8),
    (Plant::InstallBeforeFence, "install-before-fence", 9),
    (Plant::FloorBeforeApplying, "floor-before-applying", 34),
    (Plant::MarkWithData, "mark-with-data", 11),
    (Plant::FlushWrongAddress, "flush-wrong-address", 12),
    (Plant::SweepTrustsOtherFence, "sweep-trusts-other-fence", 13),
    (Plant::LineForgotten, "line-forgotten", 1),
    (Plant::CoveredUnfenced, "covered-unfenced", 13),
    (Plant::FlushedOnceIsEnough, "flushed-once-is-enough", 1),
    (Plant::StreamedRecordStoredTag, "streamed-record-stored-tag", 15),
    (Plant::MarkInHalves, "mark-in-halves", 17),
    (Plant::TagFirst, "tag-first", 18),
    (Plant::ContinuationsBelieved, "continuations-believed", 22),
    (Plant::FirstWordBelieved, "first-word-believed", 15),
    (Plant::LapGoesOn, "lap-goes-on", 23),
    (Plant::EpochNotBumped, "epoch-not-bumped", 23),
    (Plant::RingOverwritesLive, "ring-overwrites-live", 25),
    (Plant::RecycleByOwnLane, "recycle-by-own-lane", 25),
    (Plant::SweepIgnoresInFlight, "sweep-ignores-in-flight", 10),
    (Plant::TailBeforeFloor, "tail-before-floor", 10),
    (Plant::RegionsNotFollowed, "regions-not-followed", 26),
    (Plant::RegionUnflushed, "region-unflushed", 27),
    (Plant::RegionNotScrubbed, "region-not-scrubbed", 28),
    (Plant::LoggedTwice, "logged-twice", 29),
    (Plant::AnnouncedRoundedIn, "announced-rounded-in", 30),
    (Plant::RedoNewestFirst, "redo-newest-first", 32),
    (Plant::RedoLaneByLane, "redo-lane-by-lane", 32),
    (Plant::FloorBeforeRepairs, "floor-before-repairs", 33),
    (Plant::BitsToggled, "bits-toggled", 35),
    (Plant::OtherLanesDropped, "other-lanes-dropped", 37),
    (Plant::AllocationNotLogged, "allocation-not-logged", 40),
    (Plant::FreedAtOnce, "freed-at-once", 41),
    (Plant::AllocationEager, "allocation-eager", 42),
    (Plant::NoQuarantine, "no-quarantine", 43),
    (Plant::FreshUnflushed, "fresh-unflushed", 44),
    (Plant::MagicFirst, "magic-first", 46),
    (Plant::SizeBeforeFile, "size-before-file", 47),
    (Plant::EarlyRelease, "early-release", 49),
    (Plant::NumberBeforeLocks, "number-before-locks", 50),
    (Plant::AbortIncomplete, "abort-incomplete", 53),
    (Plant::WitnessMissing, "witness-missing", 11),
    (Plant::WitnessAlwaysTrue, "witness-always-true", 11),
    (Plant::WitnessesBelieved, "witnesses-believed", 11),
    (Plant::HalvesNotSwapped, "halves-not-swapped", 25),
    (Plant::WitnessInFreedBlock, "witness-in-freed-block", 41),
    (Plant::FormatUnsettled, "format-unsettled", 41),
    (Plant::AgedOutUnflushed, "aged-out-unflushed", 1),
    (Plant::AbortedRegionsFreed, "aborted-regions-freed", 26),
    (Plant::PendingLostWithFree, "pending-lost-with-free", 1),
    (Plant::PendingSinceLast, "pending-since-last", 1),
    (Plant::FloorPassesPending, "floor-passes-pending", 10),
    (Plant::JournalHeaderFirst, "journal-header-first", 9),
    (Plant::JournalEndedEarly, "journal-ended-early", 11),
    (Plant::TwoWriters, "two-writers", 49),
    (Plant::PrunedTooEarly, "pruned-too-early", 49),
    (Plant::SectionsLaneByLane, "sections-lane-by-lane", 32),
    (Plant::ChunksReused, "chunks-reused", 43),
    (Plant::LogRegionFreed, "log-region-freed", 26),
    (Plant::AsyncInPlace, "async-in-place", 9),
    (Plant::AsyncUnlocked, "async-unlocked", 49),
    (Plant::AsyncLeftBehind, "async-left-behind", 10),
    (Plant::AsyncBelieved, "async-believed", 10),
    (Plant::DurableTooEarly, "durable-too-early", 10),
    (Plant::GroupFencedEarly, "group-fenced-early", 13),
    (Plant::ParkedUnfenced, "parked-unfenced", 13),
    (Plant::SoloStaysPending, "solo-stays-pending", 49),
    (Plant::BiasStaysPending, "bias-stays-pending", 49),
    (Plant::SumsMissUpdates, "sums-miss-updates", 1),
    (Plant::SumsKeepOld, "sums-keep-old", 1),
    (Plant::ColumnSumsMissing, "column-sums-missing", 1),
    (Plant::SumsNotRebuilt, "sums-not-rebuilt", 1),
];

impl Plant {
    /// Every planted bug: the named ones, then each site's missing flush and fence.
    pub fn all() -> impl Iterator<Item = Self> {
        let sites = Site::ALL.iter().flat_map(|site| {
            let fence = site.has_fence().then_some(Self::SkipFence(*site));
            [Self::SkipFlush(*site)].into_iter().chain(fence)
        });
        NAMED.iter().map(|row| row.0).chain(sites)
    }

    /// Every control: switched on like a bug, and to be flagged by nobody.
    pub fn controls() -> impl Iterator<Item = Self> {
        CONTROLS.iter().map(|row| row.0)
    }

    /// Every bug that only a checkpoint brings to light. A crash checker is silent about these.
    pub fn checkpoints() -> impl Iterator<Item = Self> {
        CHECKPOINTS.iter().map(|row| row.0)
    }

    /// Every bug that only the isolation of lanes brings to light. A crash checker is silent about
    /// most of these.
    pub fn isolation() -> impl Iterator<Item = Self> {
        ISOLATION.iter().map(|row| row.0)
    }

    /// Every bug that only lanes with pages to themselves bring to light. A crash checker is silent
    /// about these.
    pub fn bias() -> impl Iterator<Item = Self> {
        BIAS.iter().map(|row| row.0)
    }

    /// Every bug that only many laps of a ring bring to light. A crash checker is silent about these.
    pub fn laps() -> impl Iterator<Item = Self> {
        LAPS.iter().map(|row| row.0)
    }

    /// Every bug that only stores without a look bring to light. A crash checker whose transactions read
    /// is silent about these.
    pub fn numbers() -> impl Iterator<Item = Self> {
        NUMBERS.iter().map(|row| row.0)
    }

    /// Every bug that only lanes which stay away bring to light. A crash checker whose lanes come back soon
    /// is silent about these.
    pub fn away() -> impl Iterator<Item = Self> {
        AWAY.iter().map(|row| row.0)
    }

    /// Whether a pool that runs with `scheme` executes the code that this breaks. Planted
    /// elsewhere a bug changes nothing.
    pub fn applies_to(self, scheme: Scheme) -> bool {
        use Site::{
            AgedOut, ChunkWord, Command, FirstLap, Floor, FreshAborted, JournalData, JournalEnd,
            JournalHeader, JournalPages, RecoverTail, RedoData, RedoFresh, RedoRecord, Region,
            RunSums, SegmentData, Sums, SweepData, Tail, UndoData, UndoFresh, UndoMark, UndoRecord,
            UndoSettled, UndoWitnesses,
        };
        let undo = scheme.logging() == Logging::Undo;
        let sections = scheme.logging() == Logging::Sections;
        let redo = scheme.logging() == Logging::Redo;
        let pages = scheme.logging() == Logging::Pages;
        let commands = scheme.logging() == Logging::Commands;
        let asynchronous = scheme.write_back() == WriteBack::Asynchronous;
        let by_age = scheme.write_back() == WriteBack::ByAge;
        let by_segment = scheme.write_back() == WriteBack::BySegment;
        // Data flushed at commit, the commit a mark; new words in a record, that the floor kills.
        let (marked, recorded) = (undo && !by_age, redo || by_age);
        match self {
            _ if scheme == Scheme::None => false,
            Self::SkipFlush(site) | Self::SkipFence(site) => match site {
                UndoFresh if matches!(self, Self::SkipFence(_)) => undo && by_age,
                UndoRecord | UndoFresh | UndoData => undo || sections,
                UndoMark => marked || sections,
                UndoWitnesses | UndoSettled => marked,
                RedoData => asynchronous,
                SegmentData => by_segment,
                AgedOut | Sums | RunSums | FreshAborted => by_age,
                RedoFresh => redo,
                JournalPages | JournalHeader | JournalData | JournalEnd => pages,
                Region => !pages,
                Command => commands,
                // The commands' fence comes before anybody could use the chunk otherwise.
                ChunkWord if matches!(self, Self::SkipFence(_)) => !commands,
                // A journal's pages are fenced before its header makes them count.
                FirstLap if matches!(self, Self::SkipFence(_)) => !pages,
                // Streamed: the lane moves its tail itself.
                RecoverTail => recorded && !scheme.streams_log(),
                RedoRecord | SweepData | Floor | Tail => recorded,
                _ => true,
            },
            Self::StoreBeforeLog
            | Self::AnnouncedRoundedIn
            | Self::LoggedTwice
            | Self::AbortIncomplete => undo || sections,
            Self::MarkInHalves | Self::MarkWithData => marked || sections,
            Self::PrunedTooEarly | Self::SectionsLaneByLane => sections,
            Self::WitnessMissing
            | Self::WitnessAlwaysTrue
            | Self::WitnessesBelieved
            | Self::HalvesNotSwapped
            | Self::WitnessInFreedBlock
            | Self::FormatUnsettled => marked,
            Self::SweepTrustsOtherFence => asynchronous || by_age || by_segment,
            Self::LineForgotten | Self::CoveredUnfenced | Self::FlushedOnceIsEnough => {
                by_age || by_segment
            }
            Self::JournalHeaderFirst | Self::JournalEndedEarly | Self::TwoWriters => pages,
            // A journal's pages are fenced before its header, so their tags are believed, their
            // region needs no scrubbing, and new blocks are in them like everything else.
            Self::ContinuationsBelieved | Self::RegionNotScrubbed | Self::BitsToggled => !pages,
            Self::FreshUnflushed => !pages && !commands,
            // Nobody else can take it: one transaction writes at a time.
            Self::FreedAtOnce => !pages,
            Self::InstallBeforeFence => redo || pages || commands,
            Self::ChunksReused | Self::LogRegionFreed => commands,
            Self::NumberBeforeLocks | Self::RedoNewestFirst | Self::RedoLaneByLane => {
                recorded || commands
            }
            Self::FirstWordBelieved | Self::LapGoesOn => scheme.streams_log(),
            Self::RingOverwritesLive
            | Self::SweepIgnoresInFlight
            | Self::TailBeforeFloor
            | Self::RecycleByOwnLane
            | Self::NoQuarantine => recorded,
            Self::AbortedRegionsFreed => undo && by_age,
            Self::AsyncInPlace
            | Self::AsyncUnlocked
            | Self::AsyncLeftBehind
            | Self::AsyncBelieved
            | Self::DurableTooEarly
            | Self::SoloStaysPending
            | Self::SoloOverPending
            | Self::BiasBelieved
            | Self::BiasStaysPending
            | Self::BiasNotCounted
            | Self::VersionsNotPassed
            | Self::BitsUnlocked
            | Self::SoloNotCounted
            | Self::OthersNotCounted => redo,
            // Plain redo flushes what it has put in place and fences that before anybody is told.
            Self::GroupFencedEarly => redo && !asynchronous,
            // By age so little is flushed between commits that no scope is large enough.
            Self::ParkedUnfenced => redo && !by_age,
            Self::AgedOutUnflushed
            | Self::PendingLostWithFree
            | Self::PendingSinceLast
            | Self::SumsMissUpdates
            | Self::SumsKeepOld
            | Self::ColumnSumsMissing
            | Self::SumsNotRebuilt
            | Self::FloorPassesPending => by_age,
            _ => true,
        }
    }

    /// How often this process has come to code that a planted bug had broken, whichever pool and
    /// whichever bug it was. A run that leaves this as it was has not tried its bug.
    pub fn times_met() -> u64 {
        MET.load(Ordering::Relaxed)
    }

    /// What it breaks, in words; of a site's flush or fence, what that is for.
    pub fn describe(self) -> String {
        match self {
            Self::SkipFlush(site) | Self::SkipFence(site) => {
                format!("{} {}", self.about(), site.about())
            }
            named => named.about().to_owned(),
        }
    }

    /// Whether it is unusual and sound.
    pub fn is_control(self) -> bool {
        CONTROLS.iter().any(|row| row.0 == self)
    }

    /// Its number in the fault model's list of mistakes; `None` for a site's own flush or fence.
    pub fn number(self) -> Option<u8> {
        NAMED.iter().find(|row| row.0 == self).map(|row| row.2)
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SkipFlush(site) => write!(f, "skip-flush:{site:?}"),
            Self::SkipFence(site) => write!(f, "skip-fence:{site:?}"),
            named => {
                let unnumbered = [CONTROLS, CHECKPOINTS, ISOLATION, BIAS, LAPS, NUMBERS, AWAY];
                let bugs = NAMED.iter().map(|row| (row.0, row.1));
                let mut rows = bugs.chain(unnumbered.into_iter().flatten().copied());
                let row = rows.find(|row| row.0 == *named);
                f.write_str(row.expect("what is not a site's has its row").1)
            }
        }
    }
}

/// A name that no planted bug has.
#[derive(Debug, thiserror::Error)]
#[error("no planted bug is called '{0}'; `outlast crash --plant list` names them")]
pub struct UnknownPlant(String);

impl FromStr for Plant {
    type Err = UnknownPlant;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all()
            .chain(Self::controls())
            .find(|plant| plant.to_string().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownPlant(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_found_by_its_name() {
        for plant in Plant::all().chain(Plant::controls()) {
            assert_eq!(plant.to_string().parse::<Plant>().unwrap(), plant);
        }
        assert!("no-such".parse::<Plant>().is_err());
    }

    #[test]
    fn every_planted_bug_says_what_it_breaks() {
        let mut said = std::collections::HashSet::new();
        for plant in Plant::all().chain(Plant::controls()) {
            let about = plant.describe();
            assert!(about.len() > 20 && about.ends_with(['.', ')']), "{plant}: {about}");
            assert!(!about.contains("  ") && said.insert(about), "{plant}");
        }
        let flush = Plant::SkipFlush(crate::Site::UndoData);
        let about = "This flush is left out. Undo: data in place, before the record is dead (U2).";
        assert_eq!(flush.describe(), about);
    }
}
