//! The software schemes: a folder and a row each, behind one trait.
//!
//! A scheme decides what a crash undoes or repeats, and when data reaches the medium. Its folder has a type
//! without content that implements `Discipline`, its `Facts`, and its numbered invariants at the head of
//! `mod.rs`. The rows stand in `table!`, and `under!` is the one place that goes from a scheme to its
//! type: statically, for the functions of the trait only, so that no closure is compiled once a scheme. What
//! every access asks is no call at all: a pool keeps a copy of its scheme's facts.
//!
//! Parts that several schemes use are named for their work: the log, the write set
//! (`tx::write_set`), the record of a commit, locks and numbers, deferred flushing
//! (`writeback`).
//!
//! # The fence that makes a commit durable
//!
//! | scheme | [`Site`] of the fence | what is durable with it |
//! |---|---|---|
//! | `none` | no fence | nothing |
//! | `undo` | `UndoMark`; `UndoWitnesses` for a lane that is alone | the mark that makes old words dead (UNDO-3); data with its witnesses (UNDO-5) |
//! | `redo`, `redo-archapt`, `swift` | `RedoRecord` | the record of new words (REDO-1), of one transaction or of a batch (PENDING-1, HANDOFF-3) |
//! | `undo-archapt` | `RedoRecord` | the seal: new words behind old ones (SEAL-2) |
//! | `undo-archapt:literal`, `redo-archapt:literal` | `RedoRecord` | a record that a crash may undo all the same (ARC-1) |
//! | `rollback` | `JournalEnd` | the journal's blank tag (ROLLBACK-4) |
//! | `atlas` | `UndoMark` | the section's mark (ATLAS-3) |
//! | `aof` | `Command` | the commands (AOF-1) |
//!
//! [`Scheme::commit_points`] says the same as data, and a test finds each of these fences behind all others
//! of a commit.

#[cfg(feature = "lab")]
pub(crate) mod aof;
pub(crate) mod archapt;
#[cfg(feature = "lab")]
pub(crate) mod atlas;
pub(crate) mod none;
#[cfg(feature = "lab")]
mod parts;
#[cfg(feature = "lab")]
pub(crate) mod published;
pub(crate) mod redo;
#[cfg(feature = "lab")]
pub(crate) mod rollback;
pub(crate) mod swift;
pub(crate) mod undo;

use std::fmt;
use std::str::FromStr;

use outlast_pmem::Medium;
use outlast_trace::ByteRange;
pub use outlast_trace::Guarantee;

use crate::ack::Ticket;
use crate::io::Io;
pub use crate::io::Site;
use crate::layout::Geometry;
use crate::lock::{LockWord, Stripe};
use crate::log::LiveRecord;
use crate::pool::{OpenOptions, Pool, RecoveredPool};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::Tx;
use crate::writeback::{self, Reach, Sweeper};

/// The rows: a scheme, its type, its name, its guarantee after a crash, and its mechanism in one line.
macro_rules! table {
    ($then:ident $($args:tt)*) => { $crate::scheme::$then! { [
        /// Nothing is logged durably and nothing is flushed: an upper bound of speed.
        None: none::None, "none", None,
            "no logging, no flushing: an upper bound of speed";
        /// Old words are logged and fenced before data changes in place; data is flushed at commit
        /// (mechanisms of PMDK).
        Undo: undo::Undo, "undo", Durable,
            "undo log, ranges logged at once, data flushed at commit: three fences, or two for a lane that is alone";
        /// New words are logged at commit with one fence, then stored in place and flushed
        /// asynchronously (mechanisms of Mnemosyne).
        Redo: redo::Redo, "redo", Durable,
            "redo log, one fence, data stored in place and flushed asynchronously";
        /// Undo logging and a record of new words at commit; data is flushed when it has probably left
        /// the cache (mechanisms of Archapt).
        UndoArchapt: archapt::Undo, "undo-archapt", Durable,
            "undo log sealed by new words at commit, data flushed when it has aged out of a cache-sized LRU queue";
        /// Redo logging; data is flushed when it has probably left the cache (mechanisms of Archapt).
        RedoArchapt: archapt::Redo, "redo-archapt", Durable,
            "redo log, one fence, data flushed when it has aged out of a cache-sized LRU queue";
        /// As the paper on Archapt has it: undo logging whose log is dropped when data has probably
        /// left the cache, on the word of checksums. A crash may lose what was acknowledged.
        UndoArchaptLiteral if feature = "lab": published::Undo, "undo-archapt:literal", None,
            "as published: undo log dropped when data is believed to have left the cache; checksums are to find and correct the rest";
        /// As the paper has it, on redo logging.
        RedoArchaptLiteral if feature = "lab": published::Redo, "redo-archapt:literal", None,
            "as published: redo log dropped when data is believed to have left the cache; checksums are to find and correct the rest";
        /// Old pages are journalled at commit, then new ones stored in place (the rollback journal of
        /// SQLite).
        Rollback if feature = "lab": rollback::Rollback, "rollback", Durable,
            "rollback journal of whole pages, written at commit, one writer at a time: four fences";
        /// Old words are logged and fenced before each store, in sections that let go of their locks
        /// before their data is durable (mechanisms of Atlas).
        Atlas if feature = "lab": atlas::Atlas, "atlas", Durable,
            "undo log per store, with locks and what depends on what: a fence per store, three at the end";
        /// New words are appended to a log that grows until the pool is opened again, and data is
        /// never flushed (the append-only file of Redis).
        Aof if feature = "lab": aof::Aof, "aof", Durable,
            "append-only command log, one fence, data never flushed and rebuilt when the pool is opened";
        /// Redo logging with one fence and nothing else on the way to the acknowledgement; data is left
        /// to the cache until the part of the log that covers it is to be used again.
        Swift: swift::Swift, "swift", Durable,
            "redo log, one fence, data left to the cache and flushed before its part of the log is used again";
    ] $($args)* } };
}
pub(crate) use table;

/// The enum and the public table of it.
macro_rules! define {
    ([$(
        $(#[doc = $doc:literal])+
        $scheme:ident $(if $cfg:meta)?: $folder:ident::$type:ident, $name:literal, $guarantee:ident, $about:literal;
    )*]) => {
        /// How a pool's transactions are made durable.
        ///
        /// A scheme is a logging and a write-back: the first decides what a crash undoes or repeats, the
        /// second when data reaches the medium.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Scheme {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $scheme,)*
        }

        /// All schemes.
        pub const SCHEMES: &[SchemeRow] = &[$($(#[cfg($cfg)])? SchemeRow {
            scheme: Scheme::$scheme,
            name: $name,
            guarantee: Guarantee::$guarantee,
            about: $about,
            facts: <$folder::$type as Discipline>::FACTS,
        }),*];

        /// The names of those that the feature `lab` adds.
        const NAMES_OF_LAB: &[&str] = &[$($(#[cfg(not($cfg))] $name,)?)*];
    };
}
use define;

/// The type of a scheme, for one call of the trait's: `under!(scheme, D => D::commit(tx))`.
macro_rules! under {
    ($of:expr, $D:ident => $call:expr) => {
        $crate::scheme::table!(dispatch $of, $D => $call)
    };
}
pub(crate) use under;

macro_rules! dispatch {
    ([$(
        $(#[doc = $doc:literal])+
        $scheme:ident $(if $cfg:meta)?: $folder:ident::$type:ident, $name:literal, $guarantee:ident, $about:literal;
    )*] $of:expr, $D:ident => $call:expr) => {{
        use $crate::scheme::Discipline as _;
        match $of {
            $($(#[cfg($cfg)])? $crate::Scheme::$scheme => {
                type $D = $crate::scheme::$folder::$type;
                $call
            })*
        }
    }};
}
pub(crate) use dispatch;

table!(define);

/// The steps in which schemes differ; as a default, those of redo logging on a write set and of undo logging in
/// place.
pub(crate) trait Discipline {
    const FACTS: Facts;

    /// Makes a transaction durable that has changed something, then visible to others. After an error it is
    /// still running and wants to be aborted.
    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        tx.commit_redo::<{ redo::LONG }>()
    }

    /// Before a transaction ends that has changed nothing.
    fn commit_nothing<M: Medium>(_: &Tx<'_, M>) -> Result<(), Abort> {
        Ok(())
    }

    /// Before a transaction's first store, allocation or free, if the facts ask for it.
    fn begin_writing<M: Medium>(_: &Tx<'_, M>) -> Result<(), Abort> {
        Ok(())
    }

    /// The transaction's locks are released.
    fn end_writing<M: Medium>(_: &Tx<'_, M>) {}

    /// The transaction is about to see or change these bytes, if the facts ask for it.
    fn touch<M: Medium>(_: &Pool<M>, _: ByteRange) {}

    /// The transaction has taken a lock, if the facts ask for it.
    fn locked<M: Medium>(_: &mut Tx<'_, M>, _: Stripe, _: LockWord) {}

    /// The transaction has taken this block.
    fn took<M: Medium>(_: &Pool<M>, _: ByteRange) {}

    /// Gathered old words become durable, before anything is stored over them.
    fn log_old<M: Medium>(tx: &mut Tx<'_, M>) -> Result<(), Abort> {
        tx.write_undo_records()
    }

    /// An aborted transaction has put its old words back, if it had `stored` anything in place.
    fn end_aborted<M: Medium>(tx: &mut Tx<'_, M>, stored: bool) {
        tx.make_put_back_durable(stored);
    }

    /// The medium has failed: other lanes are not to wait for this transaction.
    fn abandon<M: Medium>(_: &Tx<'_, M>) {}

    /// A lane that covers nothing has used enough of its log to do a share of the write-back.
    fn step_write_back<M: Medium>(_: &mut Tx<'_, M>) {}

    /// Part of a sweep: flushes all that keeps the floor from `limit`, or from a lower one that is enough.
    /// Returns up to where each lane's records are below it; `None` when there is nothing to do.
    fn flush_below<M: Medium>(
        pool: &Pool<M>,
        sweeper: &mut Sweeper,
        own: usize,
        reach: Reach,
        limit: &mut u64,
    ) -> Option<Vec<u64>> {
        writeback::flush_below(pool, sweeper, own, reach, limit)
    }

    /// Recovery is about to put back what lanes have not finished, each lane's newest record first. Asked of
    /// every scheme: a log does not say whose it is.
    fn order_unfinished<M: Medium>(_: Io<'_, M>, _: &Geometry, _: &mut Vec<Vec<&LiveRecord>>) {}

    /// The pool is opened: gives the sweeper the scheme's own state.
    fn open<M: Medium>(_: &RecoveredPool<M>, _: &OpenOptions, _: &mut Sweeper) {}

    /// Whether a commit is physical that the floor has not passed.
    fn is_dropped<M: Medium>(_: &Pool<M>, _: Seq) -> bool {
        false
    }

    /// Bytes of memory that a history unit of the scheme's own takes.
    fn history_bytes<M: Medium>(_: &Pool<M>) -> u64 {
        0
    }

    /// The pool is closed: makes everything durable in place. `false` when that failed.
    fn close<M: Medium>(_: &Pool<M>) -> bool {
        true
    }
}

/// Where the contents of new blocks go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewBlocks {
    /// In place at once.
    InPlace,
    /// Of small ones into the write set, of others in place at once.
    BySize,
    /// Into the write set.
    InWriteSet,
}

/// The purpose of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Ours,
    /// The mechanism of another program, to be compared with.
    Baseline,
    /// As its paper says, also where that loses data.
    Published,
}

/// The facts about a scheme that are asked while transactions run. What depends on the medium is decided when
/// a pool is opened ([`on_medium`](Self::on_medium)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub role: Role,
    /// The fences of which one makes a commit durable.
    pub commits_at: &'static [Site],
    /// New words wait in volatile memory for the commit; nothing is stored in place before it.
    pub has_write_set: bool,
    /// Old words are kept in volatile memory alone, for an abort.
    pub is_volatile: bool,
    /// Locks of the write set are taken at the commit.
    pub locks_at_commit: bool,
    /// The commit is one record of new words under a number that the lane draws by itself. It may wait, and
    /// its record go past the caches where the medium tears lines.
    pub commits_by_record: bool,
    /// Old words of announced ranges are logged together, before the first store.
    pub keeps_announced: bool,
    /// Old bits of blocks go with the old words.
    pub logs_old_bits: bool,
    pub new_blocks: NewBlocks,
    /// A lane that is alone takes no locks.
    pub has_solo: bool,
    /// The log has the locks that a section takes.
    pub logs_locks: bool,
    /// One transaction writes at a time.
    pub has_one_writer: bool,
    /// As long as the log stands no chunk changes its use.
    pub keeps_chunks: bool,
    /// The floor alone makes records dead: until it has passed them, data may be in the cache only.
    pub has_floor: bool,
    /// Data in place is flushed at the commit, which does not wait for it.
    pub flushes_installed: bool,
    /// Lanes look after the write-back between their commits.
    pub is_stepped: bool,
    /// There they flush what their records have stored. Each word of such a record proves
    /// itself, so that it may be streamed.
    pub covers: bool,
    /// Data is flushed when it has probably left the cache, not when its part of the log is used again.
    pub by_age: bool,
}

impl Facts {
    /// Old words are kept, new ones stored in place and flushed at the commit.
    pub const IN_PLACE: Self = Self {
        role: Role::Ours,
        commits_at: &[],
        has_write_set: false,
        is_volatile: false,
        locks_at_commit: false,
        commits_by_record: false,
        keeps_announced: false,
        logs_old_bits: true,
        new_blocks: NewBlocks::InPlace,
        has_solo: true,
        logs_locks: false,
        has_one_writer: false,
        keeps_chunks: false,
        has_floor: false,
        flushes_installed: false,
        is_stepped: false,
        covers: false,
        by_age: false,
    };

    /// New words wait in a write set for the commit.
    pub const WRITE_SET: Self = Self {
        has_write_set: true,
        locks_at_commit: true,
        logs_old_bits: false,
        new_blocks: NewBlocks::InWriteSet,
        ..Self::IN_PLACE
    };

    /// Their record is the commit.
    pub const REDO: Self = Self {
        commits_at: &[Site::RedoRecord],
        commits_by_record: true,
        new_blocks: NewBlocks::BySize,
        has_floor: true,
        ..Self::WRITE_SET
    };

    /// Those on a medium, by whether that [writes pages](outlast_pmem::Medium::is_paged): there a commit's
    /// fence would write what was flushed early, page by page, and later stores would make the same pages
    /// dirty again. So data is flushed when the log is full, all of it at once.
    pub fn on_medium(self, is_paged: bool) -> Self {
        let keeps = self.by_age || !is_paged;
        Self {
            flushes_installed: self.flushes_installed && keeps,
            is_stepped: self.is_stepped && keeps,
            covers: self.covers && keeps,
            ..self
        }
    }

    /// Where a lane's own thread flushes what its log covers.
    pub fn covers_at(&self) -> Site {
        if self.by_age { Site::AgedOut } else { Site::SegmentData }
    }
}

/// How a published variant reads its paper where that contradicts itself or leaves the order open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum Reading {
    /// Checksums of both kinds are made and flushed when an object leaves the LRU queue. An object
    /// that is written again while it has some gets new ones with the commit, under its fence. The
    /// reading that loses least.
    #[default]
    BothAtEviction,
    /// A row's checksum is flushed once the whole row has one (ARC-4).
    RowsOnceBuilt,
    /// An object that is written again keeps its old checksums until it leaves the queue again, the
    /// only moment that is named for making some (ARC-7).
    NothingOnRewrite,
}

/// A row of the table of schemes.
#[derive(Clone, Copy, Debug)]
pub struct SchemeRow {
    /// Which one it is.
    pub scheme: Scheme,
    /// Its name in commands and results.
    pub name: &'static str,
    /// Its guarantee after a crash.
    pub guarantee: Guarantee,
    /// Its mechanism, in one line.
    pub about: &'static str,
    facts: Facts,
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Swift
    }
}

impl Scheme {
    /// Every scheme that loses nothing.
    pub fn durable() -> impl Iterator<Item = Self> + Clone {
        let durable = |row: &&SchemeRow| row.guarantee == Guarantee::Durable;
        SCHEMES.iter().filter(durable).map(|row| row.scheme)
    }

    /// The scheme of a pool that asks for none: one that keeps its checksums, if it has any.
    pub(crate) fn usual(geometry: &Geometry, without_checksums: Self) -> Self {
        #[cfg(feature = "lab")]
        if geometry.literal {
            return Self::RedoArchaptLiteral;
        }
        if geometry.checksums { Self::RedoArchapt } else { without_checksums }
    }

    /// Stands for the mechanism of another program, to be compared with: nothing of ours builds on
    /// it, and what goes through all schemes gives it a smaller share.
    pub fn is_baseline(self) -> bool {
        self.facts().role == Role::Baseline
    }

    /// Does what its paper says, also where that loses data. Its pool is created for it.
    pub fn is_published(self) -> bool {
        self.facts().role == Role::Published
    }

    fn row(self) -> &'static SchemeRow {
        SCHEMES.iter().find(|row| row.scheme == self).expect("every scheme has its row")
    }

    pub(crate) fn facts(self) -> &'static Facts {
        &self.row().facts
    }

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its guarantee after a crash.
    pub fn guarantee(self) -> Guarantee {
        self.row().guarantee
    }

    /// The fences of which one makes a commit durable; the last one of a commit. None under `none`.
    pub fn commit_points(self) -> &'static [Site] {
        self.facts().commits_at
    }

    /// Whether its commits are physical when they are logical: waiting for
    /// [`Ack::Physical`](crate::Ack) makes no difference then.
    pub fn commits_physically(self) -> bool {
        !self.facts().has_floor
    }

    /// Whether its commits need not wait to be durable; others take
    /// [`Lane::run_async`](crate::Lane::run_async) for `run`.
    pub fn commits_later(self) -> bool {
        self.facts().commits_by_record
    }

    /// Whether its records may go to their rings past the caches
    /// ([`OpenOptions::stream_from`](crate::medium::OpenOptions::stream_from)), and so each of their words
    /// proves itself.
    pub fn streams_log(self) -> bool {
        self.facts().covers
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no scheme has, or none without the feature `lab`.
#[derive(Debug, thiserror::Error)]
#[error("{}", unknown(.0))]
pub struct UnknownScheme(String);

fn unknown(name: &str) -> String {
    if NAMES_OF_LAB.contains(&name) {
        return format!("the scheme '{name}' needs the feature `lab` of the crate outlast");
    }
    let names: Vec<_> = SCHEMES.iter().map(|row| row.name).collect();
    format!("no scheme is called '{name}'; there are {}", names.join(", "))
}

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        SCHEMES
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.scheme)
            .ok_or_else(|| UnknownScheme(name.to_owned()))
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use outlast_pmem::Recorder;
    use outlast_trace::Op;

    use super::*;
    use crate::lab::Plant;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::{BlockKind, Runner, Transact};

    /// The operations of one commit, in words.
    fn operations(scheme: Scheme, lock_always: bool, plant: Option<Plant>) -> Vec<String> {
        let create = CreateOptions { lanes: 1, lane_bytes: 16 << 10, ..CreateOptions::default() };
        let with_scheme = OpenOptions::with_scheme(scheme);
        let open = OpenOptions { lock_always, lock_stripes: 64, ..with_scheme };
        let medium = Recorder::new(256 << 10).planting(Plant::code_of(plant));
        let uuid = Some(Default::default());
        let pool = Pool::create_on(medium, &CreateOptions { uuid, ..create }, &open).unwrap();
        let mut lane = pool.lane().unwrap();
        let block = lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        pool.medium().take_log();
        lane.run(|tx| tx.store_u64(block, 7)).unwrap();
        pool.medium().take_log().iter().map(|(_, op)| format!("{op:?}")).collect()
    }

    #[test]
    fn the_last_fence_of_a_commit_is_the_one_that_makes_it_durable() {
        for (scheme, lock_always) in
            SCHEMES.iter().flat_map(|row| [(row.scheme, false), (row.scheme, true)])
        {
            let sound = operations(scheme, lock_always, None);
            let without =
                |site: &Site| operations(scheme, lock_always, Some(Plant::SkipFence(*site)));
            let mut others: Vec<_> = scheme.commit_points().iter().map(without).collect();
            others.retain(|other| *other != sound);
            let last = sound.iter().rposition(|op| *op == format!("{:?}", Op::Sfence));
            assert_eq!(last.is_some(), !scheme.commit_points().is_empty(), "{scheme}");
            let Some(last) = last else { continue };
            let mut expected = sound.clone();
            expected.remove(last);
            assert_eq!(others, [expected], "{scheme}, {lock_always}");
        }
    }

    #[test]
    fn a_scheme_is_found_by_its_name() {
        for row in SCHEMES {
            assert_eq!(row.name.parse::<Scheme>().unwrap(), row.scheme);
            assert_eq!(row.scheme.to_string(), row.name);
        }
        let unknown = "mine".parse::<Scheme>().unwrap_err().to_string();
        assert!(unknown.contains("'mine'") && unknown.contains("swift"), "{unknown}");
    }
}

#[cfg(all(test, not(feature = "lab")))]
mod without_lab {
    use outlast_pmem::Heap;
    use outlast_trace::PoolOffset;

    use super::*;
    use crate::error::PoolError;
    use crate::layout::{FLAG_LITERAL, FLAGS_AT, HEADER_CRC_AT};
    use crate::log::{self, Record, RecordKind};
    use crate::medium::CreateOptions;
    use crate::recover::UnrecoveredPool;

    #[test]
    fn a_scheme_of_the_laboratory_says_what_it_needs() {
        for name in ["rollback", "atlas", "aof", "undo-archapt:literal", "redo-archapt:literal"] {
            let error = name.parse::<Scheme>().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("feature `lab`"), "{error}");
        }
    }

    fn pool(checksums: bool) -> Pool<Heap> {
        let create = CreateOptions { checksums, ..CreateOptions::default() };
        Pool::create_on(Heap::new(4 << 20), &create, &OpenOptions::default()).unwrap()
    }

    fn needs_lab(medium: Heap) -> bool {
        let error = UnrecoveredPool::open(medium).and_then(|pool| pool.recover()).err().unwrap();
        matches!(error, PoolError::NeedsLab { .. }) && error.to_string().contains("feature `lab`")
    }

    #[test]
    fn a_pool_of_the_laboratory_says_what_it_needs() {
        for kind in [RecordKind::Journal, RecordKind::Onward] {
            let pool = pool(false);
            let record = Record::new(kind, pool.seq(1000), &[0, 0, 0]);
            let ring = pool.header().geometry.ring_at(0);
            let region = log::Region { at: ring, lines: 8, is_elsewhere: false };
            log::blank(pool.io(), Site::Ring, region);
            log::append(pool.io(), Site::Ring, region, 0, record);
            let medium = pool.into_medium();
            assert!(needs_lab(medium), "{kind:?}");
        }
        let medium = pool(true).into_medium();
        let mut header = [0; HEADER_CRC_AT + 4];
        medium.load(PoolOffset(0), &mut header);
        header[FLAGS_AT] |= FLAG_LITERAL as u8;
        let crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        medium.store(PoolOffset(0), &header);
        assert!(needs_lab(medium));
    }
}
