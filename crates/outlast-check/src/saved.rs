//! Captured runs as files: a mark of eight bytes, the version, the hash of what follows, the run, and
//! behind it, where something was [learned](Learned), that.

use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::run::{Change, NodeId, Run, Step, Sync};
use crate::tree::{Node, ROOT, Read, is_name, is_size};

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

/// Data that recoveries by one check read: contents that differ elsewhere are one to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Learned {
    /// The check, as an option of the command.
    pub check: String,
    /// The data.
    pub read: Read,
}

/// Writes a run to a file.
///
/// # Errors
/// The file cannot be written, or the directory's name is no text.
pub fn save(run: &Run, path: &Path) -> io::Result<()> {
    save_learned(run, None, path)
}

/// Writes a run to a file, with what was learned of it.
///
/// # Errors
/// As [`save`].
pub fn save_learned(run: &Run, learned: Option<&Learned>, path: &Path) -> io::Result<()> {
    let other = |error: postcard::Error| io::Error::other(error.to_string());
    let mut body = postcard::to_stdvec(run).map_err(other)?;
    if let Some(learned) = learned {
        body.extend(postcard::to_stdvec(learned).map_err(other)?);
    }
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
    load_learned(path).map(|(run, _)| run)
}

/// Reads a run from a file, with what was learned of it.
///
/// # Errors
/// See [`LoadError`].
pub fn load_learned(path: &Path) -> Result<(Run, Option<Learned>), LoadError> {
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
    let read = postcard::take_from_bytes(&bytes[HEAD..]);
    let (run, behind): (Run, &[u8]) = read.map_err(|_| LoadError::Damaged)?;
    let learned = match behind {
        [] => None,
        behind => Some(postcard::from_bytes(behind).map_err(|_| LoadError::Damaged)?),
    };
    if is_whole(&run) { Ok((run, learned)) } else { Err(LoadError::Damaged) }
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
        && are_apart(run)
}

/// Whether each directory has one name at a time, and none lies within itself: a state's tree would have no end.
fn are_apart(run: &Run) -> bool {
    let is_dir = |node: &NodeId| matches!(run.base.node(*node), Node::Dir(_));
    let mut places: FxHashMap<NodeId, (NodeId, &[u8])> = FxHashMap::default();
    for dir in (0..run.base.len() as u32).map(NodeId) {
        let Node::Dir(names) = run.base.node(dir) else { continue };
        for (name, node) in names.iter().filter(|(_, node)| is_dir(node)) {
            if *node == ROOT || places.insert(*node, (dir, name)).is_some() {
                return false;
            }
        }
    }
    let reaches_end = |places: &FxHashMap<NodeId, (NodeId, &[u8])>, from: NodeId| {
        let above = |node: &NodeId| places.get(node).map(|place| place.0);
        std::iter::successors(Some(from), above).take(run.base.len() + 1).count() <= run.base.len()
    };
    if !places.keys().all(|node| reaches_end(&places, *node)) {
        return false;
    }
    run.events.iter().all(|event| match &event.step {
        Step::Change(Change::Name { dir, name, node: Some(node) }) if is_dir(node) => {
            *node != ROOT
                && places.insert(*node, (*dir, name)).is_none()
                && reaches_end(&places, *node)
        }
        // It may come back under another name.
        Step::Change(Change::Name { dir, name, node: None }) => {
            places.retain(|_, place| *place != (*dir, &name[..]));
            true
        }
        Step::Change(Change::Move { from, to, node, exchanged }) => {
            let (from, to) = ((from.0, &from.1[..]), (to.0, &to.1[..]));
            let moves = [(Some(node), from, to), (exchanged.as_ref(), to, from)];
            let moves = moves.map(|(node, from, to)| (node.filter(|node| is_dir(node)), from, to));
            moves.iter().all(|(node, from, to)| {
                node.is_none_or(|node| places.insert(*node, *to) == Some(*from))
            }) && moves.iter().all(|(node, ..)| node.is_none_or(|node| reaches_end(&places, *node)))
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Call, Event};

    const INNER: NodeId = NodeId(1);
    const OUTER: NodeId = NodeId(2);

    fn load_with(change: Change) -> Result<Run, LoadError> {
        let mut run = Run::empty("data".into());
        let inner = run.base.add(Node::Dir(Default::default()));
        let outer = run.base.add(Node::Dir([(b"inner".to_vec(), inner)].into()));
        assert_eq!((inner, outer), (INNER, OUTER));
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

    #[test]
    fn a_directory_within_itself_is_damage() {
        let name = |dir, node| Change::Name { dir, name: b"b".to_vec(), node: Some(node) };
        assert!(load_with(name(ROOT, OUTER)).is_ok());
        for (dir, node) in [(ROOT, ROOT), (ROOT, INNER), (OUTER, OUTER), (INNER, OUTER)] {
            assert!(load_with(name(dir, node)).is_err(), "{node:?} in {dir:?}");
        }
        let moved = |from: &[u8], dir| {
            let (from, to) = ((OUTER, from.to_vec()), (dir, b"b".to_vec()));
            load_with(Change::Move { from, to, node: INNER, exchanged: None })
        };
        assert!(moved(b"inner", ROOT).is_ok());
        assert!(moved(b"other", ROOT).is_err(), "it would have two names");
        assert!(moved(b"inner", INNER).is_err());
    }
}
