//! Captured runs as files: a mark of eight bytes, the version, the hash of what follows, the run.

use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::run::{Change, NodeId, Run, Step, Sync};

const MARK: &[u8; 8] = b"outlastR";
const VERSION: u32 = 1;
const HEAD: usize = 8 + 4 + 16;

/// A file that is no captured run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It was made by something else.
    #[error("no captured run: 'outlast check --save FILE' makes one")]
    Other,
    /// It was made by another version.
    #[error("a captured run of version {0}, where {VERSION} would be right: capture it again")]
    Version(u32),
    /// Some of it is lost or changed.
    #[error("a damaged captured run: capture it again")]
    Damaged,
}

fn hash(bytes: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish128().as_bytes()
}

/// Writes a run to a file.
///
/// # Errors
/// The file cannot be written, or the directory's name is no text.
pub fn save(run: &Run, path: &Path) -> io::Result<()> {
    let body = postcard::to_stdvec(run).map_err(|error| io::Error::other(error.to_string()))?;
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&hash(&body));
    bytes.extend(body);
    fs::write(path, bytes)
}

/// Reads a run from a file.
///
/// # Errors
/// See [`LoadError`].
pub fn load(path: &Path) -> Result<Run, LoadError> {
    let bytes = fs::read(path)?;
    if bytes.len() < HEAD || &bytes[..8] != MARK {
        return Err(LoadError::Other);
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if version != VERSION {
        return Err(LoadError::Version(version));
    }
    if bytes[12..HEAD] != hash(&bytes[HEAD..]) {
        return Err(LoadError::Damaged);
    }
    let run: Run = postcard::from_bytes(&bytes[HEAD..]).map_err(|_| LoadError::Damaged)?;
    if is_whole(&run) { Ok(run) } else { Err(LoadError::Damaged) }
}

/// Whether all that the run speaks of is there.
fn is_whole(run: &Run) -> bool {
    let nodes = run.base.len();
    let known = |node: &NodeId| (node.0 as usize) < nodes;
    let step = |step: &Step| match step {
        Step::Change(
            Change::Data { node, .. } | Change::Size { node, .. } | Change::Cut { node, .. },
        ) => known(node),
        Step::Change(Change::Name { dir, node, .. }) => known(dir) && node.iter().all(known),
        Step::Change(Change::Move { from, to, node, exchanged }) => {
            [&from.0, &to.0, node].into_iter().chain(exchanged).all(known)
        }
        Step::Sync(
            Sync::File(node) | Sync::Data(node, _) | Sync::Dir(node) | Sync::Started(node, _),
        ) => known(node),
        Step::Unsynced(node) => known(node),
        Step::Sync(Sync::All) | Step::Issued(_) | Step::Acked(_) | Step::Writes { .. } => true,
    };
    run.base.is_whole()
        && run
            .events
            .iter()
            .all(|event| (event.call as usize) < run.calls.len() && step(&event.step))
}
