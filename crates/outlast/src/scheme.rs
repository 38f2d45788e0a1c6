//! The software schemes, by name.

use std::fmt;
use std::str::FromStr;

use outlast_trace::Guarantee;

/// How a pool's transactions are made durable.
///
/// A scheme is a logging and a write-back: the first decides what a crash undoes or repeats, the
/// second when data reaches the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, PartialOrd, Ord)]
pub enum Scheme {
    /// Nothing is logged durably and nothing is flushed: an upper bound of speed.
    None,
    /// Old words are logged and fenced before data changes in place; data is flushed at commit
    /// (mechanisms of PMDK).
    Undo,
    /// New words are logged at commit with one fence, then stored in place and flushed
    /// asynchronously (mechanisms of Mnemosyne).
    Redo,
    /// Undo logging and a record of new words at commit; data is flushed when it has probably left
    /// the cache (mechanisms of Archapt).
    UndoArchapt,
    /// Redo logging; data is flushed when it has probably left the cache (mechanisms of Archapt).
    RedoArchapt,
    /// As the paper on Archapt has it: undo logging whose log is dropped when data has probably
    /// left the cache, on the word of checksums. A crash may lose what was acknowledged.
    UndoArchaptLiteral,
    /// As the paper has it, on redo logging.
    RedoArchaptLiteral,
    /// Old pages are journalled at commit, then new ones stored in place (the rollback journal of
    /// SQLite).
    Rollback,
    /// Old words are logged and fenced before each store, in sections that let go of their locks
    /// before their data is durable (mechanisms of Atlas).
    Atlas,
    /// New words are appended to a log that grows until the pool is opened again, and data is
    /// never flushed (the append-only file of Redis).
    Aof,
    /// Redo logging with one fence and nothing else on the way to the acknowledgement; data is left
    /// to the cache until the part of the log that covers it is to be used again.
    #[default]
    Swift,
}

/// The content of the log, which decides how recovery treats an unfinished or a finished transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Logging {
    /// Old words in volatile memory only, to be able to abort.
    Volatile,
    /// Old words before they are stored over.
    Undo,
    /// New words before they are stored in place.
    Redo,
    /// Whole old pages, at the commit, before new ones are stored in place.
    Pages,
    /// Old words before each store, and the locks taken and released.
    Sections,
    /// New words, in a log that nothing shortens.
    Commands,
}

impl Logging {
    /// New words wait in volatile memory for the commit; nothing is stored in place before it.
    pub fn has_write_set(self) -> bool {
        matches!(self, Self::Redo | Self::Pages | Self::Commands)
    }

    /// Old words are in a log before anything is stored over them.
    pub fn keeps_old_words(self) -> bool {
        matches!(self, Self::Undo | Self::Sections)
    }
}

/// When data that was stored in place is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteBack {
    /// Never.
    Never,
    /// Before the commit is acknowledged.
    AtCommit,
    /// At the commit, which does not wait for it.
    Asynchronous,
    /// When the line has probably left the cache by itself, or when the log must go on.
    ByAge,
    /// When the part of the log that covers it is to be used again.
    BySegment,
    /// When the log is full: all of it at once. On media whose fences write pages to a device this
    /// stands in for the two that flush earlier without waiting.
    WhenFull,
}

impl WriteBack {
    /// Whether lanes flush later, between commits, what their part of the log covers.
    pub fn is_covered_by_lanes(self) -> bool {
        matches!(self, Self::ByAge | Self::BySegment)
    }

    /// Its form on a medium, by whether that [writes pages](outlast_pmem::Medium::is_paged): there a
    /// commit's fence would write what was flushed early, page by page, and later stores would make
    /// the same pages dirty again.
    pub fn on_medium(self, is_paged: bool) -> Self {
        match self {
            Self::Asynchronous | Self::BySegment if is_paged => Self::WhenFull,
            other => other,
        }
    }
}

/// How a literal variant reads its paper where that contradicts itself or leaves the order open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
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
    logging: Logging,
    write_back: WriteBack,
    is_literal: bool,
}

/// All schemes.
pub const SCHEMES: &[SchemeRow] = &[
    SchemeRow {
        scheme: Scheme::None,
        name: "none",
        guarantee: Guarantee::None,
        about: "no logging, no flushing: an upper bound of speed",
        logging: Logging::Volatile,
        write_back: WriteBack::Never,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::Undo,
        name: "undo",
        guarantee: Guarantee::Durable,
        about: "undo log, ranges logged at once, data flushed at commit: three fences, or two for a lane that is alone",
        logging: Logging::Undo,
        write_back: WriteBack::AtCommit,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::Redo,
        name: "redo",
        guarantee: Guarantee::Durable,
        about: "redo log, one fence, data stored in place and flushed asynchronously",
        logging: Logging::Redo,
        write_back: WriteBack::Asynchronous,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::UndoArchapt,
        name: "undo-archapt",
        guarantee: Guarantee::Durable,
        about: "undo log sealed by new words at commit, data flushed when it has aged out of a cache-sized LRU queue",
        logging: Logging::Undo,
        write_back: WriteBack::ByAge,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::RedoArchapt,
        name: "redo-archapt",
        guarantee: Guarantee::Durable,
        about: "redo log, one fence, data flushed when it has aged out of a cache-sized LRU queue",
        logging: Logging::Redo,
        write_back: WriteBack::ByAge,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::UndoArchaptLiteral,
        name: "undo-archapt:literal",
        guarantee: Guarantee::None,
        about: "as published: undo log dropped when data is believed to have left the cache; checksums are to find and correct the rest",
        logging: Logging::Undo,
        write_back: WriteBack::ByAge,
        is_literal: true,
    },
    SchemeRow {
        scheme: Scheme::RedoArchaptLiteral,
        name: "redo-archapt:literal",
        guarantee: Guarantee::None,
        about: "as published: redo log dropped when data is believed to have left the cache; checksums are to find and correct the rest",
        logging: Logging::Redo,
        write_back: WriteBack::ByAge,
        is_literal: true,
    },
    SchemeRow {
        scheme: Scheme::Rollback,
        name: "rollback",
        guarantee: Guarantee::Durable,
        about: "rollback journal of whole pages, written at commit, one writer at a time: four fences",
        logging: Logging::Pages,
        write_back: WriteBack::AtCommit,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::Atlas,
        name: "atlas",
        guarantee: Guarantee::Durable,
        about: "undo log per store, with locks and what depends on what: a fence per store, three at the end",
        logging: Logging::Sections,
        write_back: WriteBack::AtCommit,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::Aof,
        name: "aof",
        guarantee: Guarantee::Durable,
        about: "append-only command log, one fence, data never flushed and rebuilt when the pool is opened",
        logging: Logging::Commands,
        write_back: WriteBack::Never,
        is_literal: false,
    },
    SchemeRow {
        scheme: Scheme::Swift,
        name: "swift",
        guarantee: Guarantee::Durable,
        about: "redo log, one fence, data left to the cache and flushed before its part of the log is used again",
        logging: Logging::Redo,
        write_back: WriteBack::BySegment,
        is_literal: false,
    },
];

impl Scheme {
    /// Every scheme that loses nothing.
    pub fn durable() -> impl Iterator<Item = Self> + Clone {
        let durable = |row: &&SchemeRow| row.guarantee == Guarantee::Durable;
        SCHEMES.iter().filter(durable).map(|row| row.scheme)
    }

    /// Stands for the mechanism of another program, to be compared with: nothing of ours builds on
    /// it, and what goes through all schemes gives it a smaller share.
    pub fn is_baseline(self) -> bool {
        matches!(self.logging(), Logging::Pages | Logging::Sections | Logging::Commands)
    }

    /// Does what its paper says, also where that loses data. Its pool is created for it.
    pub fn is_literal(self) -> bool {
        self.row().is_literal
    }

    fn row(self) -> &'static SchemeRow {
        SCHEMES.iter().find(|row| row.scheme == self).expect("every scheme has its row")
    }

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its guarantee after a crash.
    pub fn guarantee(self) -> Guarantee {
        self.row().guarantee
    }

    /// Whether its commits are physical when they are logical: waiting for
    /// [`Ack::Physical`](crate::Ack) makes no difference then.
    pub fn commits_physically(self) -> bool {
        matches!(self.write_back(), WriteBack::AtCommit | WriteBack::Never)
    }

    /// Whether its commits need not wait to be durable; others take
    /// [`Lane::run_async`](crate::Lane::run_async) for `run`.
    pub fn commits_later(self) -> bool {
        self.logging() == Logging::Redo && !self.is_literal()
    }

    /// Whether its records may go to their rings past the caches
    /// ([`OpenOptions::stream_from`](crate::OpenOptions::stream_from)), and so each of their words
    /// proves itself.
    pub fn streams_log(self) -> bool {
        self.write_back().is_covered_by_lanes() && !self.is_literal()
    }

    pub(crate) fn logging(self) -> Logging {
        self.row().logging
    }

    pub(crate) fn write_back(self) -> WriteBack {
        self.row().write_back
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no scheme has.
#[derive(Debug, thiserror::Error)]
#[error("no scheme is called '{0}'; there are {names}", names = SCHEMES.iter().map(|row| row.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownScheme(String);

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
