//! Following the server's root through raw memory: databases, the import's, and what waits to be freed.

use outlast::collections::ReadRaw;
use outlast::inspect::walk::{Coverage, Path, Root as PoolRoot, Step, Visit, Walker};
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Transact};

use super::entry::{self, Entry, Kind};
use super::garbage;
use super::layout::{DATABASES, IMPORT_DATABASE, Root, features_unknown, is_root};
use super::mem::Mem;
use super::seq::{ENDS_BYTES, Ends, Parts, leaf_items};
use super::stream::{consumer_parts, group_parts, stream_parts};
use super::table::Table;
use crate::number::sortable;

/// Bytes of a key that are enough to show it.
const KEY_START: usize = 32;

/// Roots of pools that the server has made.
pub(super) struct ServerRoots;

impl Walker for ServerRoots {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn describe(&self, root: PoolRoot, read: &mut dyn ReadRaw) -> Option<String> {
        let mem = &mut Raw(read);
        let is_ours = root.kind == RootKind::Opaque && is_root(mem, root.at).unwrap_or(false);
        is_ours.then(|| {
            let root = Root::at(mem, root.at);
            let mut keys = |root: Root| -> Result<u64, Abort> {
                (0..DATABASES).map(|database| keys_of(mem, &root, database)).sum()
            };
            match root.and_then(&mut keys) {
                Ok(keys) => format!("databases of `outlast serve`, {keys} keys"),
                Err(_) => "databases of `outlast serve`".to_owned(),
            }
        })
    }

    fn walk(&self, root: PoolRoot, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
        let mut mem = Raw(read);
        let path = Path::ROOT;
        match features_unknown(&mut mem, root.at) {
            Ok(0) => {}
            // Values of types that this version does not know.
            Ok(_) => return Coverage::Unknown,
            Err(_) => {
                visit.damaged(root.at, "a root out of the pool", &path);
                return Coverage::Unknown;
            }
        }
        let walked = Root::at(&mut mem, root.at)
            .and_then(|root| Tour { mem: &mut mem, visit, root }.everything());
        if let Err(abort) = walked {
            visit.damaged(root.at, &abort.to_string(), &path);
        }
        Coverage::Whole
    }
}

fn keys_of(mem: &mut Mem<'_>, root: &Root, database: usize) -> Result<u64, Abort> {
    match mem.load_u64(root.table_at(database))? {
        0 => Ok(0),
        table => Table { at: PoolOffset(table) }.len(mem),
    }
}

/// Raw memory as a transaction that only loads, so that the readers of the data model read it.
struct Raw<'r>(&'r mut dyn ReadRaw);

impl Transact for Raw<'_> {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        match self.0.read(at, out) {
            true => Ok(()),
            false => Err(Abort::damaged(format!("a pointer out of the pool at {at}"))),
        }
    }

    fn will_write(&mut self, _: &[ByteRange]) -> Result<(), Abort> {
        Err(Abort::ReadOnly)
    }

    fn store(&mut self, _: PoolOffset, _: &[u8]) -> Result<(), Abort> {
        Err(Abort::ReadOnly)
    }

    fn alloc(&mut self, _: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        Err(Abort::ReadOnly)
    }

    fn free(&mut self, _: PoolOffset) -> Result<(), Abort> {
        Err(Abort::ReadOnly)
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        Ok(None)
    }

    fn set_root(&mut self, _: PoolOffset, _: RootKind) -> Result<(), Abort> {
        Err(Abort::ReadOnly)
    }
}

/// The values of a table's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Values {
    /// Those of keys.
    Keys,
    /// Bytes.
    Members,
    /// The offset of a group of a stream.
    Groups,
    /// The offset of a consumer.
    Consumers,
}

/// The kind of a sequence's leaves.
#[derive(Clone, Copy)]
enum Leaves {
    /// Items as they are.
    Items,
    /// Scores, whose members have entries or are gone.
    Scores { has_members: bool },
}

/// A walk under way. Nothing is nested deeper than a consumer of a stream's group, so it goes by calls.
struct Tour<'t, 'r> {
    mem: &'t mut Raw<'r>,
    visit: &'t mut dyn Visit,
    root: Root,
}

impl Tour<'_, '_> {
    fn everything(&mut self) -> Result<(), Abort> {
        let path = Path::ROOT;
        if !self.visit.owned(self.root.at, super::layout::ROOT_BYTES, &path) {
            return Ok(());
        }
        let databases = path.then(Step::Name("db"));
        for database in (0..DATABASES).chain([IMPORT_DATABASE]) {
            let path = match database {
                IMPORT_DATABASE => path.then(Step::Name("import")),
                _ => databases.then(Step::Number(database as i128)),
            };
            let table = self.mem.load_u64(self.root.table_at(database))?;
            let expiring = match table {
                0 => 0,
                table => self.table(PoolOffset(table), Values::Keys, &path),
            };
            let counted = self.mem.load_u64(self.root.expiring_at(database))?;
            if counted != expiring {
                let what = format!("{counted} keys with a deadline are counted, of {expiring}");
                self.visit.damaged(self.root.expiring_at(database), &what, &path);
            }
        }
        self.garbage(&path.then(Step::Name("garbage")))
    }

    /// What is to be freed is a value that a key had.
    fn garbage(&mut self, path: &Path<'_>) -> Result<(), Abort> {
        let mut item = PoolOffset(self.mem.load_u64(self.root.garbage_at())?);
        for number in 0.. {
            let path = path.then(Step::Number(number));
            if item.0 == 0 || !self.visit.owned(item, garbage::ITEM_BYTES, &path) {
                break;
            }
            match garbage::parts(self.mem, item)? {
                (garbage::Part::Table(values), at) => {
                    self.table(at, values, &path);
                }
                (garbage::Part::Seq, at) => self.seq(at, &path),
                (garbage::Part::Ends, at) => self.ends(at, &path),
                (garbage::Part::Scores, at) => self.scores(at, false, &path),
                (garbage::Part::Stream, at) => self.stream(at, &path),
                (garbage::Part::Group, at) => self.group(at, &path),
            }
            item = PoolOffset(self.mem.load_u64(item)?);
        }
        Ok(())
    }

    /// Follows something, and reports damage that reading it has met.
    fn noting(
        &mut self,
        at: PoolOffset,
        path: &Path<'_>,
        follow: impl FnOnce(&mut Self) -> Result<(), Abort>,
    ) {
        if let Err(abort) = follow(self) {
            let what = match &abort {
                Abort::Damaged(report) => report.to_string(),
                other => other.to_string(),
            };
            self.visit.damaged(at, &what, path);
        }
    }

    /// Follows a table; returns how many of its entries have a deadline.
    fn table(&mut self, at: PoolOffset, values: Values, path: &Path<'_>) -> u64 {
        let mut expiring = 0;
        self.noting(at, path, |walk| walk.table_of(Table { at }, values, path, &mut expiring));
        expiring
    }

    fn table_of(
        &mut self,
        table: Table,
        values: Values,
        path: &Path<'_>,
        expiring: &mut u64,
    ) -> Result<(), Abort> {
        if !self.visit.owned(table.at, super::table::HEADER_BYTES, path) {
            return Ok(());
        }
        let segments = table.segments(self.mem)?;
        let mut is_whole = true;
        for (segment, bytes) in segments {
            is_whole &= self.visit.owned(segment, bytes, path);
        }
        if !is_whole {
            return Ok(());
        }
        let mut entries = 0;
        for bucket in 0..table.buckets(self.mem)? {
            let slot = table.slot(self.mem, bucket)?;
            let mut word = self.mem.load_u64(slot)?;
            while let Some(at) = entry::pointer(word) {
                let entry = Entry::load(self.mem, at)?;
                // A damaged length must not cost much memory before the block is known to have it.
                let mut start = [0; KEY_START];
                let start = &mut start[..entry.key_len.min(KEY_START)];
                self.mem.load(entry.key_at(), start)?;
                if !self.visit.owned(at, entry.own_bytes(), &path.then(Step::Key(start))) {
                    break;
                }
                let key = entry.key(self.mem)?;
                let path = path.then(Step::Key(&key));
                let hash = self.root.hasher.hash(&key);
                if !entry::has_tag(word, hash) || !table.is_bucket_of(self.mem, bucket, hash)? {
                    self.visit.damaged(at, "an entry where its key is not looked for", &path);
                }
                entries += 1;
                *expiring += u64::from(entry.has_deadline);
                self.value(&entry, values, &path)?;
                word = entry.next;
            }
        }
        let counted = table.len(self.mem)?;
        if counted != entries {
            let what = format!("{counted} entries are counted, of {entries}");
            self.visit.damaged(table.at, &what, path);
        }
        Ok(())
    }

    fn value(&mut self, entry: &Entry, values: Values, path: &Path<'_>) -> Result<(), Abort> {
        let is_offset = match values {
            Values::Keys => entry.kind.is_large(),
            Values::Members => false,
            Values::Groups | Values::Consumers => true,
        };
        if !is_offset {
            return Ok(());
        }
        let at = entry.large_at(self.mem, 0)?;
        match (values, entry.kind) {
            (Values::Groups, _) => self.group(at, path),
            (Values::Consumers, _) => self.consumer(at, path),
            (_, Kind::ListSeq) => self.seq(at, path),
            (_, Kind::ListEnds) => self.ends(at, path),
            (_, Kind::Stream) => self.stream(at, path),
            (_, Kind::ZsetScores) => {
                self.table(at, Values::Members, path);
                let order = entry.large_at(self.mem, 1)?;
                self.scores(order, true, &path.then(Step::Name("order")));
            }
            (_, Kind::ZsetTree) => {
                self.table(at, Values::Members, path);
                let order = entry.large_at(self.mem, 1)?;
                self.seq(order, &path.then(Step::Name("order")));
            }
            _ => {
                self.table(at, Values::Members, path);
            }
        }
        Ok(())
    }

    fn seq(&mut self, at: PoolOffset, path: &Path<'_>) {
        self.noting(at, path, |walk| walk.seq_of(at, path));
    }

    fn seq_of(&mut self, at: PoolOffset, path: &Path<'_>) -> Result<(), Abort> {
        match self.visit.owned(at, super::seq::HEADER_BYTES, path) {
            true => self.tree_of(at, Leaves::Items, path),
            false => Ok(()),
        }
    }

    /// A list with open ends: their leaves, and the sequence between them.
    fn ends(&mut self, at: PoolOffset, path: &Path<'_>) {
        self.noting(at, path, |walk| {
            if !walk.visit.owned(at, ENDS_BYTES, path) {
                return Ok(());
            }
            for (leaf, long) in Ends::load(walk.mem, at)?.open_leaves(walk.mem)? {
                walk.visit.owned(leaf, super::seq::NODE_BYTES as u64, path);
                for (block, bytes) in long {
                    walk.visit.owned(block, bytes, path);
                }
            }
            walk.tree_of(at, Leaves::Items, path)
        });
    }

    /// An order of scores, whose members have their entries or are gone.
    fn scores(&mut self, at: PoolOffset, has_members: bool, path: &Path<'_>) {
        self.noting(at, path, |walk| match walk.visit.owned(at, super::seq::HEADER_BYTES, path) {
            true => walk.tree_of(at, Leaves::Scores { has_members }, path),
            false => Ok(()),
        });
    }

    /// Follows the nodes of a sequence by its header.
    fn tree_of(&mut self, at: PoolOffset, leaves: Leaves, path: &Path<'_>) -> Result<(), Abort> {
        let (root, levels, len) = super::seq::shape(self.mem, at)?;
        let items = if root.0 == 0 { 0 } else { self.node(root, levels, leaves, path)? };
        if items != len {
            let what = format!("{len} items are counted, of {items}");
            self.visit.damaged(at, &what, path);
        }
        Ok(())
    }

    /// Follows a leaf of scores, and compares each with the score that its member has.
    fn score_leaf(
        &mut self,
        at: PoolOffset,
        has_members: bool,
        path: &Path<'_>,
    ) -> Result<u64, Abort> {
        let items = leaf_items(self.mem, at)?;
        for (bits, entry) in items.iter().copied().filter(|_| has_members) {
            let member = Entry::load(self.mem, entry)?;
            let mut score = [0; 8];
            if member.value_len == score.len() {
                self.mem.load(member.value_at(), &mut score)?;
            }
            if member.value_len != score.len() || sortable(f64::from_le_bytes(score)) != bits {
                self.visit.damaged(at, "a score in the order that its member has not", path);
            }
        }
        Ok(items.len() as u64)
    }

    /// Follows a node; returns how many items are below it.
    fn node(
        &mut self,
        at: PoolOffset,
        levels: usize,
        leaves: Leaves,
        path: &Path<'_>,
    ) -> Result<u64, Abort> {
        if !self.visit.owned(at, super::seq::NODE_BYTES as u64, path) {
            return Ok(0);
        }
        if let (0, Leaves::Scores { has_members }) = (levels, leaves) {
            return self.score_leaf(at, has_members, path);
        }
        match super::seq::parts(self.mem, at, levels)? {
            Parts::Leaf { items, long } => {
                for (block, bytes) in long {
                    self.visit.owned(block, bytes, path);
                }
                Ok(items)
            }
            Parts::Inner(children) => {
                let mut items = 0;
                for (child, counted) in children {
                    let found = self.node(child, levels - 1, leaves, path)?;
                    if found != counted {
                        let what = format!("{counted} items are counted below, of {found}");
                        self.visit.damaged(child, &what, path);
                    }
                    items += found;
                }
                Ok(items)
            }
        }
    }

    fn stream(&mut self, at: PoolOffset, path: &Path<'_>) {
        self.noting(at, path, |walk| walk.stream_of(at, path));
    }

    fn stream_of(&mut self, at: PoolOffset, path: &Path<'_>) -> Result<(), Abort> {
        if !self.visit.owned(at, super::stream::BYTES as u64, path) {
            return Ok(());
        }
        let (entries, groups) = stream_parts(self.mem, at)?;
        self.seq(entries, path);
        if let Some(groups) = groups {
            self.table(groups, Values::Groups, &path.then(Step::Name("groups")));
        }
        Ok(())
    }

    fn group(&mut self, at: PoolOffset, path: &Path<'_>) {
        self.noting(at, path, |walk| walk.group_of(at, path));
    }

    fn group_of(&mut self, at: PoolOffset, path: &Path<'_>) -> Result<(), Abort> {
        if !self.visit.owned(at, super::stream::GROUP_BYTES, path) {
            return Ok(());
        }
        let (pending, consumers) = group_parts(self.mem, at)?;
        self.seq(pending, &path.then(Step::Name("pending")));
        self.table(consumers, Values::Consumers, &path.then(Step::Name("consumers")));
        Ok(())
    }

    fn consumer(&mut self, at: PoolOffset, path: &Path<'_>) {
        let walked = consumer_parts(self.mem, at);
        match walked {
            Ok((bytes, pending)) => {
                if self.visit.owned(at, bytes, path) {
                    self.seq(pending, path);
                }
            }
            Err(abort) => self.noting(at, path, |_| Err(abort)),
        }
    }
}
