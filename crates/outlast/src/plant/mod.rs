//! Planted bugs: named ways to break the runtime, to prove that its checks can fail.
//!
//! Each stands for one of the mistakes that persistent-memory code is known for. They exist only
//! on an observing [`Medium`](outlast_pmem::Medium), which carries the number of the one that is switched
//! on; on real memory the optimiser removes them, and without the feature `lab` it does so everywhere.

// Some break what is compiled with the feature only.
#![cfg_attr(not(feature = "lab"), expect(dead_code))]

#[cfg(feature = "lab")]
mod lab;

#[cfg(feature = "lab")]
pub use lab::{Shows, UnknownPlant};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::io::Site;

/// How often broken code was run.
static MET: AtomicU64 = AtomicU64::new(0);

/// Counts one more meeting with a planted bug.
#[cold]
pub(crate) fn met() {
    MET.fetch_add(1, Ordering::Relaxed);
}

/// Numbers of the first site's flush and fence.
const FLUSHES_FROM: u16 = 0x100;
const FENCES_FROM: u16 = 0x200;

/// The table: variant, name, how it shows, the schemes that execute what it breaks, what it breaks.
macro_rules! plants {
    ($($variant:ident = $name:literal, $shows:expr, $applies:expr, $about:literal;)*) => {
        /// One mistake, switched on by name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Plant {
            /// This flush is left out.
            SkipFlush(Site),
            /// This fence is left out.
            SkipFence(Site),
            $(#[doc = $about] $variant,)*
        }

        /// Numbers of the named ones.
        #[repr(u16)]
        enum Code {
            None,
            $($variant,)*
        }

        impl Plant {
            /// The number by which an observing medium carries it
            /// ([`planted`](outlast_pmem::Medium::planted)).
            #[inline(always)]
            pub const fn code(self) -> u16 {
                match self {
                    Self::SkipFlush(site) => FLUSHES_FROM + site as u16,
                    Self::SkipFence(site) => FENCES_FROM + site as u16,
                    $(Self::$variant => Code::$variant as u16,)*
                }
            }
        }

        #[cfg(feature = "lab")]
        const TABLE: &[lab::Row] = &[$(lab::Row {
            plant: Plant::$variant,
            name: $name,
            shows: { use lab::Shows::*; $shows },
            applies: $applies,
            about: $about,
        }),*];
    };
}

plants! {
    RecordFirstLineUnflushed = "record-first-line-unflushed", Mistake(1), |_| true,
        "The first line of a record is not flushed.";
    RecordLastLineUnflushed = "record-last-line-unflushed", Mistake(2), |_| true,
        "The last line of a record is not flushed.";
    FlushBeforeStore = "flush-before-store", Mistake(4), |_| true,
        "A record is flushed before it is stored.";
    StoreBeforeLog = "store-before-log", Mistake(8), |it| it.keeps_announced || it.logs_locks,
        "Undo: data is stored before its old content is logged.";
    InstallBeforeFence = "install-before-fence", Mistake(9),
        |it| it.is_redo() || it.has_one_writer || it.keeps_chunks,
        "Redo: data goes in place before the record is fenced.";
    WordInPlaceAtOnce = "word-in-place-at-once", Mistake(9), |it| it.commits_by_record,
        "Redo: a word stored by the short way goes in place beside the write set.";
    FloorBeforeApplying = "floor-before-applying", Mistake(34), |_| true,
        "Recovery raises the floor before it applies anything.";
    MarkWithData = "mark-with-data", Mistake(11), |it| it.marks() || it.logs_locks,
        "The mark is flushed together with the data that it presupposes.";
    FlushWrongAddress = "flush-wrong-address", Mistake(12), |_| true,
        "Flushes name the neighbouring line.";
    SweepTrustsOtherFence = "sweep-trusts-other-fence", Mistake(13),
        |it| it.flushes_installed || it.by_age || it.by_segment(),
        "The sweeper trusts that another lane's flushes were fenced.";
    LineForgotten = "line-forgotten", Mistake(1), |it| it.by_age || it.by_segment(),
        "By segment: one line of each record is left unflushed (DEFER-1).";
    CoveredUnfenced = "covered-unfenced", Mistake(13), |it| it.by_age || it.by_segment(),
        "By segment: what a lane has flushed counts for others before it has fenced (DEFER-1).";
    FlushedOnceIsEnough = "flushed-once-is-enough", Mistake(1), |it| it.by_age || it.by_segment(),
        "By segment: a line that was flushed once is left out for good (DEFER-2).";
    StreamedRecordStoredTag = "streamed-record-stored-tag", Mistake(15), |_| true,
        "A record is streamed, its tags stored ordinarily, and their order taken for granted.";
    MarkInHalves = "mark-in-halves", Mistake(17), |it| it.marks() || it.logs_locks,
        "The commit mark is stored in two halves.";
    TagFirst = "tag-first", Mistake(18), |_| true,
        "A line's tag is stored before its content.";
    ContinuationsBelieved = "continuations-believed", Mistake(22), |it| !it.has_one_writer,
        "Only a record's header line carries its number; the others are believed.";
    FirstWordBelieved = "first-word-believed", Mistake(15), |it| it.covers,
        "Streamed: of a line only the first word's lap is looked at (LOG-6).";
    LapGoesOn = "lap-goes-on", Mistake(23), |it| it.covers,
        "Streamed: an opening goes on in the lap of the one before (LOG-5).";
    GenerationNotBumped = "generation-not-bumped", Mistake(23), |_| true,
        "Recovery does not begin a new generation.";
    RingOverwritesLive = "ring-overwrites-live", Mistake(25), |it| it.has_floor,
        "The ring is reused although its records are live.";
    RecycleByOwnLane = "recycle-by-own-lane", Mistake(25), |it| it.has_floor,
        "A lane's ring is reused as soon as its own lines are flushed, whatever other lanes hold.";
    SweepIgnoresInFlight = "sweep-ignores-in-flight", Mistake(10), |it| it.has_floor,
        "The sweeper ignores commits that are under way.";
    TailBeforeFloor = "tail-before-floor", Mistake(10), |it| it.has_floor,
        "Tails move before the floor is durable.";
    RegionsNotFollowed = "regions-not-followed", Mistake(26), |_| true,
        "Regions elsewhere are not followed at recovery.";
    RegionUnflushed = "region-unflushed", Mistake(27), |_| true,
        "The log lines in a region elsewhere are not flushed.";
    RegionNotScrubbed = "region-not-scrubbed", Mistake(28), |it| !it.has_one_writer,
        "A region's old tags are left standing.";
    LoggedTwice = "logged-twice", Mistake(29), |it| it.keeps_announced || it.logs_locks,
        "Undo: words are logged again when announced again, and put back oldest first.";
    AnnouncedRoundedIn = "announced-rounded-in", Mistake(30), |it| it.keeps_announced || it.logs_locks,
        "Undo: announced ranges are rounded inwards to words.";
    RedoNewestFirst = "redo-newest-first", Mistake(32), |it| it.has_floor || it.keeps_chunks,
        "Redo: recovery replays newest first.";
    RedoLaneByLane = "redo-lane-by-lane", Mistake(32), |it| it.has_floor || it.keeps_chunks,
        "Redo: recovery replays lane by lane.";
    FloorBeforeRepairs = "floor-before-repairs", Mistake(33), |_| true,
        "Recovery raises the floor before its repairs are fenced.";
    BitsToggled = "bits-toggled", Mistake(35), |it| !it.has_one_writer,
        "Recovery toggles allocation bits.";
    OtherLanesDropped = "other-lanes-dropped", Mistake(37), |_| true,
        "Recovery stops at the first lane with an unfinished record.";
    AllocationNotLogged = "allocation-not-logged", Mistake(40), |_| true,
        "Blocks are linked though their allocation is neither logged nor flushed.";
    FreedAtOnce = "freed-at-once", Mistake(41), |it| !it.has_one_writer,
        "A freed block is handed out before the free is durable.";
    AllocationEager = "allocation-eager", Mistake(42), |_| true,
        "A block's bit is set, durably, when it is reserved.";
    NoQuarantine = "no-quarantine", Mistake(43), |it| it.has_floor,
        "Redo: freed blocks are handed out while live records may still write to them.";
    FreshUnflushed = "fresh-unflushed", Mistake(44), |it| !it.has_one_writer && !it.keeps_chunks,
        "Contents of new blocks are not flushed.";
    MagicFirst = "magic-first", Mistake(46), |_| true,
        "The pool's magic is stored before its header.";
    SizeBeforeFile = "size-before-file", Mistake(47), |_| true,
        "The size is raised before the file.";
    EarlyRelease = "early-release", Mistake(49), |_| true,
        "Locks are released before the commit is durable.";
    NumberBeforeLocks = "number-before-locks", Mistake(50), |it| it.has_floor || it.keeps_chunks,
        "Redo: the number is drawn before the locks are held.";
    AbortIncomplete = "abort-incomplete", Mistake(53), |it| it.keeps_announced || it.logs_locks,
        "An abort forgets the first range.";
    WitnessMissing = "witness-missing", Mistake(11), |it| it.marks(),
        "Undo alone: a line has no witness.";
    WitnessAlwaysTrue = "witness-always-true", Mistake(11), |it| it.marks(),
        "Undo alone: a word that held its last value before bears witness.";
    WitnessesBelieved = "witnesses-believed", Mistake(11), |it| it.marks(),
        "Undo alone: recovery believes witnesses without looking.";
    HalvesNotSwapped = "halves-not-swapped", Mistake(25), |it| it.marks(),
        "Undo alone: the next record overwrites the one whose mark is not durable.";
    WitnessInFreedBlock = "witness-in-freed-block", Mistake(41), |it| it.marks(),
        "Undo alone: words of blocks that are given back bear witness.";
    FormatUnsettled = "format-unsettled", Mistake(41), |it| it.marks(),
        "Undo alone: a chunk is made a class's while its old bitmap bears witness.";
    AgedOutUnflushed = "aged-out-unflushed", Mistake(1), |it| it.by_age,
        "By age: a line leaves the queue unflushed although it is pending (A6).";
    AbortedRegionsFreed = "aborted-regions-freed", Mistake(26), |it| it.keeps_announced && it.by_age,
        "Undo by age: regions of an aborted transaction are free at once.";
    PendingLostWithFree = "pending-lost-with-free", Mistake(1), |it| it.by_age,
        "By age: the lines of a block are forgotten when it is given back (A9).";
    PendingSinceLast = "pending-since-last", Mistake(1), |it| it.by_age,
        "By age: a line counts as pending since the last commit that stored to it (A10).";
    FloorPassesPending = "floor-passes-pending", Mistake(10), |it| it.by_age,
        "By age: the floor passes commits of other lanes whose lines are pending (A1).";
    JournalHeaderFirst = "journal-header-first", Mistake(9), |it| it.has_one_writer,
        "Rollback: the journal's header is written before its pages are durable (ROLLBACK-1).";
    JournalEndedEarly = "journal-ended-early", Mistake(11), |it| it.has_one_writer,
        "Rollback: the journal's header is zeroed before the new pages are durable (ROLLBACK-3).";
    TwoWriters = "two-writers", Mistake(49), |it| it.has_one_writer,
        "Rollback: two transactions write at a time (ROLLBACK-5).";
    PrunedTooEarly = "pruned-too-early", Mistake(49), |it| it.logs_locks,
        "Atlas: a section is marked while one on which it depends is not stable (ATLAS-3).";
    SectionsLaneByLane = "sections-lane-by-lane", Mistake(32), |it| it.logs_locks,
        "Atlas: recovery undoes sections lane by lane (ATLAS-4).";
    ChunksReused = "chunks-reused", Mistake(43), |it| it.keeps_chunks,
        "Append-only log: chunks of freed large blocks are used again while commands that \
         stored to them stand in the log (AOF-3).";
    LogRegionFreed = "log-region-freed", Mistake(26), |it| it.keeps_chunks,
        "Append-only log: its regions are free when the transaction ends (AOF-3).";
    AsyncInPlace = "async-in-place", Mistake(9), |it| it.is_redo(),
        "Asynchronous commit: values go in place when it returns (PENDING-1).";
    AsyncUnlocked = "async-unlocked", Mistake(49), |it| it.is_redo(),
        "Asynchronous commit: locks are let go when it returns (PENDING-1).";
    AsyncLeftBehind = "async-left-behind", Mistake(10), |it| it.is_redo(),
        "A commit that waits leaves what its lane has pending behind (PENDING-2).";
    AsyncBelieved = "async-believed", Mistake(10), |it| it.is_redo(),
        "A transaction that only reads returns though what it has seen is pending (PENDING-3).";
    DurableTooEarly = "durable-too-early", Mistake(10), |it| it.is_redo(),
        "A batch counts as durable before its record is fenced.";
    GroupFencedEarly = "group-fenced-early", Mistake(13), |it| it.is_redo() && !it.flushes_installed,
        "Group commit: the fence comes before the last record (HANDOFF-3).";
    ParkedUnfenced = "parked-unfenced", Mistake(13), |it| it.is_redo() && !it.by_age,
        "A lane parks without a fence for what it has flushed (HANDOFF-2).";
    SoloStaysPending = "solo-stays-pending", Mistake(49), |it| it.is_redo(),
        "A lane that ran alone keeps its batch when another begins (HANDOFF-5).";
    BiasStaysPending = "bias-stays-pending", Mistake(49), |it| it.is_redo(),
        "A page becomes shared with what its lane has pending there (BIAS-2).";
    SumsMissUpdates = "sums-miss-updates", Mistake(1), |it| it.by_age,
        "Checksums: a line that is stored to stays in the sums as it was (A3).";
    SumsKeepOld = "sums-keep-old", Mistake(1), |it| it.by_age,
        "Checksums: the old content stays in the sums (A4).";
    ColumnSumsMissing = "column-sums-missing", Mistake(1), |it| it.by_age,
        "Checksums: those of columns are not kept (A5).";
    SumsNotRebuilt = "sums-not-rebuilt", Mistake(1), |it| it.by_age,
        "Checksums: recovery leaves them as the crash did.";
    RestOfLapUnwritten = "rest-of-lap-unwritten", Laps, |_| true,
        "Streamed: what is left of the ring behind the last record of a lap keeps older laps (LOG-5).";
    RingNotZeroed = "ring-not-zeroed", Laps, |_| true,
        "Streamed: a lane's ring keeps what stood there in another form, or long ago (LOG-5).";
    RingLongerFirst = "ring-longer-first", Rings, |_| true,
        "A ring that grows is in use before its lines are blank (RING-2).";
    VersionsNotPassed = "versions-not-passed", Numbers, |it| it.is_redo(),
        "Redo: a number is drawn without a look at the versions of what its transaction stores \
         to (NUMBER-1).";
    BitsUnlocked = "bits-unlocked", Numbers, |it| it.is_redo(),
        "Redo: the bits of blocks are stored without the locks of their lines (NUMBER-3).";
    BiasBelieved = "bias-believed", Bias, |it| it.is_redo(),
        "The revocation of a bias does not wait for its lane's transaction (BIAS-1).";
    BiasNotCounted = "bias-not-counted", Bias, |it| it.is_redo(),
        "What was stored under a bias counts as old (BIAS-3).";
    SoloNotCounted = "solo-not-counted", Numbers, |it| it.is_redo(),
        "The clock does not count what a lane has committed that ran alone (NUMBER-2).";
    OthersNotCounted = "others-not-counted", BackOff, |it| it.is_redo(),
        "The clock does not count what other lanes have committed when one begins to run alone \
         (NUMBER-2).";
    MarkedBeforeStores = "marked-before-stores", Checkpoint, |_| true,
        "Checkpoint: a transaction's pages are marked before it stores, not after.";
    PauseLeftOut = "pause-left-out", Checkpoint, |_| true,
        "Checkpoint: the last pages are copied while transactions run.";
    AbortNotMarked = "abort-not-marked", Checkpoint, |_| true,
        "Checkpoint: what an aborted transaction put back is not marked.";
    FreshNotMarked = "fresh-not-marked", Checkpoint, |_| true,
        "Checkpoint: what a transaction stored to new blocks is not marked.";
    FencesNotPutBack = "fences-not-put-back", Fences, |_| true,
        "Recovery leaves out what the log of fences holds.";
    FenceNumberFirst = "fence-number-first", Fences, |_| true,
        "Recovery makes the entries of the log of fences old before their lines are in place (FENCES-4).";
    FenceNumbersAgain = "fence-numbers-again", Fences, |_| true,
        "Entries of the log of fences have numbers that older ones had (FENCES-4).";
    PageCacheBelieved = "page-cache-believed", Fences, |_| true,
        "An opening takes for durable what the page cache shows (FENCES-4).";
    SoloOverPending = "solo-over-pending", BackOff, |it| it.is_redo(),
        "A lane begins to run alone over what another has pending (SOLO-3).";
    ReadsNotValidated = "reads-not-validated", Isolation, |_| true,
        "Isolation: what was read is not looked at again when the view moves on or the commit \
         is made.";
    ReadsTorn = "reads-torn", Isolation, |_| true,
        "Isolation: a line counts as read whole though its lock was taken meanwhile.";
    FlushTwice = "flush-twice", Control, |_| true,
        "Control: every flush is issued twice.";
    FenceTwice = "fence-twice", Control, |_| true,
        "Control: every fence is issued twice.";
    CleanLineFlushed = "clean-line-flushed", Control, |_| true,
        "Control: with each flush goes one of a line that is never stored to.";
    RecordFlushedBackwards = "record-flushed-backwards", Control, |_| true,
        "Control: the lines of a record are flushed last one first.";
    FlushedByClflushOpt = "flushed-by-clflushopt", Control, |_| true,
        "Control: lines are flushed by `clflushopt` instead of `clwb`.";
}
