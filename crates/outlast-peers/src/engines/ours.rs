//! A B+tree in a pool.

use std::path::Path;

use outlast::collections::{ByteTree, Dictionary, Placement};
use outlast::medium::{CreateOptions, MapOptions, Mapped, Medium, OpenOptions};
use outlast::{Abort, Domain, Lane, Pool, RootKind, Runner, Scheme, Transact};

use super::{Engine, EngineError, Files, Pair, Session};

/// How the pool is made.
#[derive(Clone, Copy, Debug)]
pub struct OursOptions {
    /// How commits are made durable.
    pub scheme: Scheme,
    /// The persistence domain; `None` for the detected one.
    pub domain: Option<Domain>,
    /// Threads that have sessions at the same time.
    pub threads: u32,
    /// Bytes that each one's log may have.
    pub lane_bytes: u64,
    /// About what it will hold, in bytes; it grows beyond.
    pub data_bytes: u64,
}

/// A pool with one B+tree of byte strings.
pub struct Ours {
    pool: Pool,
    tree: ByteTree,
    options: OursOptions,
    files: Files,
}

impl Ours {
    /// Makes the pool in a new file.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn create(path: &Path, options: OursOptions) -> Result<Self, EngineError> {
        let OursOptions { scheme, threads, lane_bytes, data_bytes, .. } = options;
        let named = EngineError::of(scheme.name());
        let create = CreateOptions { lanes: threads, lane_bytes, ..CreateOptions::default() };
        let (open, map) = options.to_open();
        let bytes = u64::from(threads) * lane_bytes + data_bytes + (1 << 20);
        let pool = Pool::create_with(path, bytes, &create, &open, &map).map_err(named)?;
        let tree = pool.lane().map_err(named)?.run(|tx| {
            let tree = ByteTree::create(tx, Placement::Together)?;
            tx.set_root(tree.root(), RootKind::BTree)?;
            Ok(tree)
        });
        let tree = tree.map_err(EngineError::of(scheme.name()))?;
        Ok(Self { pool, tree, options, files: Files(path.to_owned()) })
    }

    /// Opens a pool that was made so, through recovery.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn open(path: &Path, options: OursOptions) -> Result<Self, EngineError> {
        let named = EngineError::of(options.scheme.name());
        let (open, map) = options.to_open();
        let pool = Pool::open_with(path, &open, &map).map_err(named)?;
        let root = pool.root().map_err(named)?;
        let (root, _) =
            root.ok_or_else(|| EngineError::new(options.scheme.name(), "the pool has no tree"))?;
        let tree = pool.lane().map_err(named)?.run(|tx| ByteTree::open(tx, root));
        let tree = tree.map_err(EngineError::of(options.scheme.name()))?;
        Ok(Self { pool, tree, options, files: Files(path.to_owned()) })
    }
}

impl OursOptions {
    fn to_open(self) -> (OpenOptions, MapOptions) {
        let grow_limit_bytes = 64 * (self.data_bytes + (64 << 20));
        let open = OpenOptions { grow_limit_bytes, ..OpenOptions::with_scheme(self.scheme) };
        let map =
            MapOptions { domain: self.domain, max_len: grow_limit_bytes, ..MapOptions::default() };
        (open, map)
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        self.options.scheme.name()
    }

    fn settings(&self) -> String {
        let OursOptions { lane_bytes, threads, .. } = self.options;
        let domain = self.pool.medium().domain();
        format!(
            "B+tree, domain {domain}, {threads} lanes with up to {} KiB of log",
            lane_bytes >> 10
        )
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError> {
        let lane = self.pool.lane().map_err(EngineError::of(self.name()))?;
        Ok(Box::new(OurSession { lane, tree: self.tree, name: self.name(), value: Vec::new() }))
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.pool.medium().syncs())
    }

    fn bytes_on_disk(&self) -> u64 {
        self.files.bytes()
    }

    fn log_bytes(&self) -> u64 {
        let heap_at = self.pool.header().geometry.heap_at;
        let heap_bytes = self.pool.medium().len() - heap_at;
        self.bytes_on_disk().saturating_sub(heap_bytes)
    }
}

struct OurSession<'p> {
    lane: Lane<'p, Mapped>,
    tree: ByteTree,
    name: &'static str,
    value: Vec<u8>,
}

impl Session for OurSession<'_> {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        let tree = self.tree;
        let body = |tx: &mut outlast::Tx<'_, Mapped>| {
            pairs.iter().try_for_each(|(key, value)| tree.insert(tx, key, value).map(|_| ()))
        };
        self.lane.run(body).map_err(EngineError::of(self.name))
    }

    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError> {
        let (tree, value) = (self.tree, &mut self.value);
        let found = self.lane.run(|tx| {
            let mut bytes = 0;
            for key in keys {
                if !tree.get(tx, key, value)? {
                    return Err(Abort::cancelled("a key is not there"));
                }
                bytes += value.len() as u64;
            }
            Ok(bytes)
        });
        found.map_err(EngineError::of(self.name))
    }

    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError> {
        let (tree, value) = (self.tree, &mut self.value);
        let scanned = self.lane.run(|tx| {
            let mut bytes = 0;
            tree.scan(tx, from, limit as u64, |tx, key, at| {
                value.resize(at.len as usize, 0);
                tx.load(at.at, value)?;
                bytes += (key.len() + value.len()) as u64;
                Ok(())
            })?;
            Ok(bytes)
        });
        scanned.map_err(EngineError::of(self.name))
    }
}
