//! Roots that are collections of the runtime.

use super::{Coverage, Path, Root, Visit, Walker};
use crate::RootKind;
use crate::collections::{Reach, ReadRaw, walk_root};

/// See [`COLLECTIONS`](super::COLLECTIONS).
pub(super) struct Collections;

impl Walker for Collections {
    fn name(&self) -> &'static str {
        "collection"
    }

    fn describe(&self, root: Root, _: &mut dyn ReadRaw) -> Option<String> {
        let name = match root.kind {
            RootKind::Opaque => return None,
            RootKind::HashMap => "hash map",
            RootKind::BTree => "B+tree",
            RootKind::Words => "words",
            RootKind::Trees => "B+trees",
            RootKind::RbTree => "red-black tree",
            RootKind::Queue => "queue",
            RootKind::Names => "names",
        };
        Some(name.to_owned())
    }

    fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
        let mut raw = |at, out: &mut [u8]| read.read(at, out);
        let block = |at, bytes| {
            visit.owned(at, bytes, &Path::ROOT);
        };
        match walk_root(root.kind, root.at, &mut raw, block, |_, _, _| Ok(())) {
            Ok(Reach::Whole) => Coverage::Whole,
            Ok(Reach::Unknown) => Coverage::Unknown,
            Err(damage) => {
                visit.damaged(damage.at, damage.what, &Path::ROOT);
                Coverage::Unknown
            }
        }
    }
}
