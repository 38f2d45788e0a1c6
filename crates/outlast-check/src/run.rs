//! A captured run: where the directory began, and each change, sync and mark in the order in which
//! they happened.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tree::{Node, Read, Tree};

/// A file or directory of a run. Its number is given once, also where the kernel gives an inode's
/// number again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A call of the program, as findings tell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The thread.
    pub tid: i32,
    /// The name of the call with its file and range.
    pub text: String,
    /// Where in the program the call was made, from the innermost function on; empty if that is not known.
    pub place: String,
}

/// An index into [`Run::calls`].
pub type CallId = u32;

/// A unit of persistence: a crash leaves all of it or nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Bytes within one page of a file.
    Data {
        /// The file.
        node: NodeId,
        /// The first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file grows.
    Size {
        /// The file.
        node: NodeId,
        /// Bytes before.
        from: u64,
        /// Bytes then.
        to: u64,
        /// The cause of its growth.
        growth: Growth,
    },
    /// A file is cut off.
    Cut {
        /// The file.
        node: NodeId,
        /// Bytes that stay.
        to: u64,
    },
    /// A name comes to stand for a node, or for none.
    Name {
        /// The directory.
        dir: NodeId,
        /// The name in it.
        name: Vec<u8>,
        /// The node.
        node: Option<NodeId>,
    },
    /// A node gets another name; both names change together.
    Move {
        /// The directory and name before.
        from: (NodeId, Vec<u8>),
        /// The directory and name then.
        to: (NodeId, Vec<u8>),
        /// The node that moves.
        node: NodeId,
        /// The node that takes its old name, if both are exchanged.
        exchanged: Option<NodeId>,
    },
}

/// The cause of a file's growth: file systems journal the size of each at another time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Growth {
    /// A write behind the end, within the page in which the file ended.
    Tail,
    /// A write behind the end, on pages of its own.
    Append,
    /// `ftruncate` or `fallocate`.
    Explicit,
}

impl Change {
    /// The file that it changes, for data and sizes.
    #[must_use]
    pub fn file(&self) -> Option<NodeId> {
        match self {
            Self::Data { node, .. } | Self::Size { node, .. } | Self::Cut { node, .. } => {
                Some(*node)
            }
            Self::Name { .. } | Self::Move { .. } => None,
        }
    }

    /// Whether it changes names.
    #[must_use]
    pub fn is_name(&self) -> bool {
        self.file().is_none()
    }
}

/// The scope of a sync.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Sync {
    /// `fsync`, or a write with `O_SYNC`.
    File(NodeId),
    /// `fdatasync`, `msync`, a write with `O_DSYNC`: bytes of a file, and its size where that is pending.
    Data(NodeId, std::ops::Range<u64>),
    /// `fsync` of a directory.
    Dir(NodeId),
    /// `sync` and `syncfs`.
    All,
    /// `sync_file_range`: forces nothing by itself; written pages are flushed with the next sync.
    Started(NodeId, std::ops::Range<u64>),
}

/// One step of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A unit of persistence.
    Change(Change),
    /// Changes become durable.
    Sync(Sync),
    /// A sync has failed: pages of the file that it was to write are clean now, so that no later sync
    /// writes them.
    Unsynced(NodeId),
    /// The program says that it begins transaction n.
    Issued(u64),
    /// The program says that transaction n is durable.
    Acked(u64),
    /// The transaction begun last will leave this version of a key.
    Writes {
        /// The key.
        key: String,
        /// The version.
        version: u64,
    },
}

/// A step with its call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The call that made it.
    pub call: CallId,
    /// The step.
    pub step: Step,
}

/// A captured run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The directory, as the program knew it.
    pub dir: PathBuf,
    /// The directory before the run. Nodes that came later are there without a name.
    pub base: Tree,
    /// All steps, in order.
    pub events: Vec<Event>,
    /// All calls that made a step.
    pub calls: Vec<Call>,
    /// Calls that were not measured, a line each; verdicts depend on them.
    pub blind: Vec<String>,
    /// How the program ended.
    pub ended: Ended,
    /// Transactions begun and acknowledged before the run: those of the crash that it recovers from.
    pub promised: (u64, u64),
    /// What the run has read of files that were there before it, if that was watched: nothing of those
    /// without an entry.
    pub read: Read,
    /// The call that was made to fail, if the run came to it.
    pub fault: Option<String>,
}

/// How a captured program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ended {
    /// With this status.
    Status(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Stopped by us when its time was over.
    OutOfTime,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::OutOfTime => f.write_str("stopped at the time limit"),
        }
    }
}

impl Run {
    /// A run that changed nothing of an empty directory.
    #[must_use]
    pub fn empty(dir: PathBuf) -> Self {
        let mut base = Tree::default();
        base.add(Node::Dir(std::collections::BTreeMap::new()));
        Self {
            dir,
            base,
            events: Vec::new(),
            calls: Vec::new(),
            blind: Vec::new(),
            ended: Ended::Status(0),
            promised: (0, 0),
            read: Read::default(),
            fault: None,
        }
    }

    /// The directory with everything kept.
    #[must_use]
    pub fn whole(&self) -> Tree {
        let mut tree = self.base.clone();
        for event in &self.events {
            if let Step::Change(change) = &event.step {
                tree.apply(change);
            }
        }
        tree
    }

    /// Changes, syncs and acknowledgements.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let count =
            |of: fn(&Step) -> bool| self.events.iter().filter(|event| of(&event.step)).count();
        (
            count(|step| matches!(step, Step::Change(_))),
            count(|step| matches!(step, Step::Sync(_))),
            count(|step| matches!(step, Step::Acked(_))),
        )
    }
}
