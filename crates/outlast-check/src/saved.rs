//! Captured runs as files: a mark of eight bytes, the version, the hash of what follows, the run.

use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::run::{Change, NodeId, Run, Step, Sync};
use crate::tree::{is_name, is_size};

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

/// Whether all that the run speaks of is there, and can be: a name is no path that leads elsewhere, and no file is
/// longer than files can be.
fn is_whole(run: &Run) -> bool {
    let nodes = run.base.len();
    let known = |node: &NodeId| (node.0 as usize) < nodes;
    let step = |step: &Step| match step {
        Step::Change(Change::Data { node, offset, bytes }) => {
            known(node) && offset.checked_add(bytes.len() as u64).is_some_and(is_size)
        }
        Step::Change(Change::Size { node, from, to, .. }) => {
            known(node) && is_size(*from) && is_size(*to)
        }
        Step::Change(Change::Cut { node, to }) => known(node) && is_size(*to),
        Step::Change(Change::Name { dir, name, node }) => {
            known(dir) && is_name(name) && node.iter().all(known)
        }
        Step::Change(Change::Move { from, to, node, exchanged }) => {
            is_name(&from.1)
                && is_name(&to.1)
                && [&from.0, &to.0, node].into_iter().chain(exchanged).all(known)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Call, Event};
    use crate::tree::ROOT;

    fn load_with(change: Change) -> Result<Run, LoadError> {
        let mut run = Run::empty("data".into());
        run.calls.push(Call { tid: 1, text: "a call".into(), place: String::new() });
        run.events.push(Event { call: 0, step: Step::Change(change) });
        let file = tempfile::NamedTempFile::new().unwrap();
        save(&run, file.path()).unwrap();
        load(file.path())
    }

    /// A file of others could have the states of a crash written anywhere.
    #[test]
    fn names_that_lead_elsewhere_and_impossible_sizes_are_damage() {
        let name = |name: &[u8]| Change::Name { dir: ROOT, name: name.into(), node: None };
        assert!(load_with(name(b"a name")).is_ok());
        for bad in [&b""[..], b".", b"..", b"../a", b"/etc/a", b"a\0"] {
            assert!(matches!(load_with(name(bad)), Err(LoadError::Damaged)), "{bad:?}");
        }
        for to in [1 << 63, u64::MAX] {
            assert!(load_with(Change::Cut { node: ROOT, to }).is_err());
        }
    }
}
