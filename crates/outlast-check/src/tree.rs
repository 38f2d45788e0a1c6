//! A directory tree in memory: what a crash has left. Copies share all that they have in common.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::run::{Change, NodeId};

/// Bytes of a page: the unit in which files are kept, and the widest that a crash leaves whole.
pub const PAGE: usize = 4096;

/// A page of a file and the hash of its content.
#[derive(Clone, Debug)]
pub struct Page {
    bytes: [u8; PAGE],
    hash: OnceLock<u128>,
}

impl Page {
    fn new(bytes: [u8; PAGE]) -> Arc<Self> {
        Arc::new(Self { bytes, hash: OnceLock::new() })
    }

    /// Of the first `length` bytes as if zeros came behind them; 0 for a page of zeros.
    fn hash(&self, length: usize) -> u128 {
        let of = |bytes: &[u8]| {
            let bytes =
                &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)];
            if bytes.is_empty() {
                return 0;
            }
            let mut hasher = SipHasher13::new();
            hasher.write(bytes);
            hasher.finish128().as_u128()
        };
        if length < PAGE {
            of(&self.bytes[..length])
        } else {
            *self.hash.get_or_init(|| of(&self.bytes))
        }
    }
}

/// The content of a file. Pages that are not there are zeros; bytes past the size are no content, but
/// may become some when a later size is kept.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(from = "Kept", into = "Kept")]
pub struct Content {
    /// Bytes.
    pub size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
    hash: OnceLock<u128>,
}

/// A file's content as it is kept: its size, and each page up to its last byte that is not 0.
#[derive(Serialize, Deserialize)]
struct Kept(u64, Vec<(u64, Vec<u8>)>);

impl From<Content> for Kept {
    fn from(content: Content) -> Self {
        let page = |(&number, page): (&u64, &Arc<Page>)| {
            let end = page.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            (number, page.bytes[..end].to_vec())
        };
        Self(content.size, content.pages.iter().map(page).collect())
    }
}

impl From<Kept> for Content {
    fn from(Kept(size, pages): Kept) -> Self {
        let mut content = Self { size, ..Self::default() };
        for (number, bytes) in pages {
            let bytes = &bytes[..bytes.len().min(PAGE)];
            content.write(number.saturating_mul(PAGE as u64).min(u64::MAX - PAGE as u64), bytes);
        }
        content
    }
}

impl From<Tree> for Vec<Node> {
    fn from(tree: Tree) -> Self {
        tree.nodes.iter().map(|node| Node::clone(node)).collect()
    }
}

impl From<Vec<Node>> for Tree {
    fn from(nodes: Vec<Node>) -> Self {
        Self { nodes: nodes.into_iter().map(Arc::new).collect() }
    }
}

impl Content {
    /// Writes `bytes` at `offset`, also past the size, which stays.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.hash = OnceLock::new();
        let mut offset = offset;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let within = (offset % PAGE as u64) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(PAGE - within));
            let page =
                self.pages.entry(offset / PAGE as u64).or_insert_with(|| Page::new([0; PAGE]));
            let page = Arc::make_mut(page);
            page.hash = OnceLock::new();
            page.bytes[within..within + part.len()].copy_from_slice(part);
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    /// Ends the file at `size`: what was behind reads as zeros if the file grows again.
    pub fn cut(&mut self, size: u64) {
        self.hash = OnceLock::new();
        self.size = size;
        let first_gone = size.div_ceil(PAGE as u64);
        self.pages.split_off(&first_gone);
        let tail = (size % PAGE as u64) as usize;
        if tail != 0
            && let Some(page) = self.pages.get_mut(&(size / PAGE as u64))
        {
            let mut copy = page.bytes;
            copy[tail..].fill(0);
            *page = Page::new(copy);
        }
    }

    /// The bytes of `buffer` at `offset`, zeros where there are none.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let part = (buffer.len() - done).min(PAGE - within);
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => {
                    buffer[done..done + part].copy_from_slice(&page.bytes[within..within + part]);
                }
                None => buffer[done..done + part].fill(0),
            }
            done += part;
        }
    }

    /// Whether the page that holds `offset` has content.
    #[must_use]
    pub fn has_page_at(&self, offset: u64) -> bool {
        self.pages.contains_key(&(offset / PAGE as u64))
    }

    /// The file's content from the start.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_from(file: &File) -> io::Result<Self> {
        let mut content = Self { size: file.metadata()?.len(), ..Self::default() };
        let mut buffer = vec![0; 256 * 1024];
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut buffer, offset)?;
            if count == 0 {
                content.size = content.size.min(offset).max(offset);
                return Ok(content);
            }
            for (index, part) in buffer[..count].chunks(PAGE).enumerate() {
                if part.iter().any(|&byte| byte != 0) {
                    content.write(offset + (index * PAGE) as u64, part);
                }
            }
            offset += count as u64;
        }
    }

    /// Of the size and of the content up to `end`.
    fn hash(&self, end: u64) -> u128 {
        let of = |end: u64| {
            let mut hasher = SipHasher13::new();
            hasher.write_u64(self.size);
            for (&number, page) in &self.pages {
                let Some(length) = end.checked_sub(number * PAGE as u64).filter(|&left| left != 0)
                else {
                    break;
                };
                let hash = page.hash(length.min(PAGE as u64) as usize);
                if hash != 0 {
                    hasher.write_u64(number);
                    hasher.write_u128(hash);
                }
            }
            hasher.finish128().as_u128()
        };
        if end < self.size { of(end) } else { *self.hash.get_or_init(|| of(self.size)) }
    }

    fn write_to(&self, file: &File) -> io::Result<()> {
        file.set_len(self.size)?;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (&number, page) in &self.pages {
            let at = number * PAGE as u64;
            let Some(left) = self.size.checked_sub(at).filter(|&left| left != 0) else { break };
            if start + run.len() as u64 != at || run.len() >= 1 << 20 {
                file.write_all_at(&run, start)?;
                run.clear();
                start = at;
            }
            run.extend_from_slice(&page.bytes[..left.min(PAGE as u64) as usize]);
        }
        file.write_all_at(&run, start)
    }
}

/// A file, a directory or a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Node {
    /// Names, each with its node.
    Dir(BTreeMap<Vec<u8>, NodeId>),
    /// A regular file.
    File(Content),
    /// A symbolic link with its target.
    Link(Vec<u8>),
}

/// The nodes of a run, of which those count that the root leads to.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<Node>", into = "Vec<Node>")]
pub struct Tree {
    nodes: Vec<Arc<Node>>,
}

/// Bytes of files that a recovery reads: all before the given one. Files without an entry are read whole.
pub type Read = FxHashMap<NodeId, u64>;

/// Whether a directory can have an entry of that name: a path would lead out of it.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Whether a file can have that many bytes.
pub(crate) fn is_size(bytes: u64) -> bool {
    bytes <= i64::MAX as u64
}

/// The first node: the directory that is checked.
pub const ROOT: NodeId = NodeId(0);

impl Tree {
    /// Adds a node and returns its number.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(Arc::new(node));
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Whether every name is one and leads to a node that is there, every size is one, and the root is a directory.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let known = |id: &NodeId| (id.0 as usize) < self.nodes.len();
        let is_dir = self.nodes.first().is_some_and(|root| matches!(**root, Node::Dir(_)));
        is_dir
            && self.nodes.iter().all(|node| match &**node {
                Node::Dir(names) => names.iter().all(|(name, id)| is_name(name) && known(id)),
                Node::File(content) => is_size(content.size),
                Node::Link(_) => true,
            })
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A file's content; none if the node is no file.
    #[must_use]
    pub fn content(&self, id: NodeId) -> Option<&Content> {
        match self.node(id) {
            Node::File(content) => Some(content),
            _ => None,
        }
    }

    fn content_mut(&mut self, id: NodeId) -> Option<&mut Content> {
        match Arc::make_mut(&mut self.nodes[id.0 as usize]) {
            Node::File(content) => Some(content),
            _ => None,
        }
    }

    fn names_mut(&mut self, id: NodeId) -> Option<&mut BTreeMap<Vec<u8>, NodeId>> {
        match Arc::make_mut(&mut self.nodes[id.0 as usize]) {
            Node::Dir(names) => Some(names),
            _ => None,
        }
    }

    /// The node that `dir` calls `name`.
    #[must_use]
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        match self.node(dir) {
            Node::Dir(names) => names.get(name).copied(),
            _ => None,
        }
    }

    /// Carries out one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Data { node, offset, bytes } => {
                if let Some(content) = self.content_mut(*node) {
                    content.write(*offset, bytes);
                }
            }
            Change::Size { node, to, .. } => {
                if let Some(content) = self.content_mut(*node) {
                    content.hash = OnceLock::new();
                    content.size = *to;
                }
            }
            Change::Cut { node, to } => {
                if let Some(content) = self.content_mut(*node) {
                    content.cut(*to);
                }
            }
            Change::Name { dir, name, node: Some(node) } => {
                if let Some(names) = self.names_mut(*dir) {
                    names.insert(name.clone(), *node);
                }
            }
            Change::Name { dir, name, node: None } => {
                if let Some(names) = self.names_mut(*dir) {
                    names.remove(name);
                }
            }
            Change::Move { from, to, node, exchanged } => {
                if let Some(names) = self.names_mut(from.0) {
                    match exchanged {
                        Some(other) => names.insert(from.1.clone(), *other),
                        None => names.remove(&from.1),
                    };
                }
                if let Some(names) = self.names_mut(to.0) {
                    names.insert(to.1.clone(), *node);
                }
            }
        }
    }

    /// The hash of all that the root leads to, as far as it is read: trees that are equal there have
    /// equal hashes, however they came about.
    #[must_use]
    pub fn hash(&self, read: &Read) -> u128 {
        let mut hasher = SipHasher13::new();
        self.hash_into(ROOT, read, &mut hasher, 0);
        hasher.finish128().as_u128()
    }

    fn hash_into(&self, id: NodeId, read: &Read, hasher: &mut SipHasher13, depth: usize) {
        match self.node(id) {
            Node::File(content) => {
                hasher.write_u8(1);
                hasher.write_u128(content.hash(read.get(&id).copied().unwrap_or(u64::MAX)));
            }
            Node::Link(target) => {
                hasher.write_u8(2);
                hasher.write_usize(target.len());
                hasher.write(target);
            }
            Node::Dir(names) => {
                hasher.write_u8(3);
                hasher.write_usize(names.len());
                for (name, &child) in names {
                    hasher.write_usize(name.len());
                    hasher.write(name);
                    if depth < DEPTH_MAX {
                        self.hash_into(child, read, hasher, depth + 1);
                    }
                }
            }
        }
    }

    /// Writes all that the root leads to into `folder`, which must be empty.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        self.write_dir(ROOT, folder, &mut BTreeMap::new(), 0)
    }

    fn write_dir(
        &self,
        id: NodeId,
        folder: &Path,
        written: &mut BTreeMap<NodeId, PathBuf>,
        depth: usize,
    ) -> io::Result<()> {
        let Node::Dir(names) = self.node(id) else { return Ok(()) };
        for (name, &child) in names {
            let path = folder.join(OsStr::from_bytes(name));
            match self.node(child) {
                Node::Dir(_) => {
                    fs::create_dir(&path)?;
                    if depth < DEPTH_MAX {
                        self.write_dir(child, &path, written, depth + 1)?;
                    }
                }
                Node::Link(target) => symlink(OsStr::from_bytes(target), &path)?,
                Node::File(content) => match written.get(&child) {
                    Some(first) => fs::hard_link(first, &path)?,
                    None => {
                        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                        content.write_to(&file)?;
                        written.insert(child, path);
                    }
                },
            }
        }
        Ok(())
    }

    /// The first path at which `folder` differs from this tree, with the difference; none if both are
    /// equal byte by byte.
    ///
    /// # Errors
    /// Those of reading.
    pub fn difference(&self, folder: &Path) -> io::Result<Option<String>> {
        self.dir_difference(ROOT, folder)
    }

    fn dir_difference(&self, id: NodeId, folder: &Path) -> io::Result<Option<String>> {
        let Node::Dir(names) = self.node(id) else {
            return Ok(Some(format!("{} is a directory now", folder.display())));
        };
        let mut there: Vec<Vec<u8>> = Vec::new();
        for entry in fs::read_dir(folder)? {
            there.push(entry?.file_name().as_bytes().to_vec());
        }
        there.sort();
        for name in &there {
            if !names.contains_key(name) {
                let path = folder.join(OsStr::from_bytes(name));
                if is_content(&path)? {
                    return Ok(Some(format!("{} is there unrecorded", path.display())));
                }
            }
        }
        for (name, &child) in names {
            let path = folder.join(OsStr::from_bytes(name));
            if there.binary_search(name).is_err() {
                return Ok(Some(format!("{} is missing", path.display())));
            }
            let differs = match self.node(child) {
                Node::Dir(_) => self.dir_difference(child, &path)?,
                Node::Link(target) => (fs::read_link(&path)?.as_os_str().as_bytes() != target)
                    .then(|| format!("{} leads elsewhere", path.display())),
                Node::File(content) => file_difference(content, &path)?,
            };
            if differs.is_some() {
                return Ok(differs);
            }
        }
        Ok(None)
    }

    /// All paths that lead to `node`, from the root, without the root's own name.
    #[must_use]
    pub fn path_of(&self, node: NodeId) -> Option<PathBuf> {
        self.search_path(ROOT, node, 0)
    }

    fn search_path(&self, dir: NodeId, node: NodeId, depth: usize) -> Option<PathBuf> {
        if dir == node {
            return Some(PathBuf::new());
        }
        let Node::Dir(names) = self.node(dir) else { return None };
        names.iter().find_map(|(name, &child)| {
            let name = Path::new(OsStr::from_bytes(name));
            match self.node(child) {
                _ if child == node => Some(name.to_owned()),
                Node::Dir(_) if depth < DEPTH_MAX => {
                    Some(name.join(self.search_path(child, node, depth + 1)?))
                }
                _ => None,
            }
        })
    }
}

/// Directories deeper than this are not followed: a crash may leave a directory inside itself.
const DEPTH_MAX: usize = 64;

/// Whether `path` is a file, a directory or a link: sockets, pipes and devices have no content that a
/// crash could leave in part.
fn is_content(path: &Path) -> io::Result<bool> {
    let kind = fs::symlink_metadata(path)?.file_type();
    Ok(kind.is_file() || kind.is_dir() || kind.is_symlink())
}

fn file_difference(content: &Content, path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size != content.size {
        let text =
            format!("{} has {size} bytes where {} were recorded", path.display(), content.size);
        return Ok(Some(text));
    }
    let mut real = vec![0; 256 * 1024];
    let mut kept = real.clone();
    let mut offset = 0;
    loop {
        let count = file.read(&mut real)?;
        if count == 0 {
            return Ok(None);
        }
        content.read(offset, &mut kept[..count]);
        if let Some(at) = (0..count).find(|&at| real[at] != kept[at]) {
            let text = format!("{} differs at byte {}", path.display(), offset + at as u64);
            return Ok(Some(text));
        }
        offset += count as u64;
    }
}

/// The tree of a real directory, each file's identity with its node; `seen` is called before a file is read.
///
/// # Errors
/// Those of reading.
pub fn read_folder(
    folder: &Path,
    seen: &mut dyn FnMut(&Path, NodeId) -> io::Result<()>,
) -> io::Result<Tree> {
    use std::os::unix::fs::MetadataExt;
    let mut tree = Tree::default();
    let root = tree.add(Node::Dir(BTreeMap::new()));
    seen(folder, root)?;
    let mut open: Vec<(NodeId, PathBuf)> = vec![(root, folder.to_owned())];
    let mut linked: BTreeMap<u64, NodeId> = BTreeMap::new();
    while let Some((dir, path)) = open.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let kind = metadata.file_type();
            let path = entry.path();
            let name = entry.file_name().as_bytes().to_vec();
            if !(kind.is_dir() || kind.is_symlink() || kind.is_file()) {
                continue;
            }
            if let Some(&node) = linked.get(&metadata.ino()).filter(|_| kind.is_file()) {
                tree.apply(&Change::Name { dir, name, node: Some(node) });
                continue;
            }
            let node = NodeId(tree.len() as u32);
            seen(&path, node)?;
            tree.add(if kind.is_dir() {
                open.push((node, path));
                Node::Dir(BTreeMap::new())
            } else if kind.is_symlink() {
                Node::Link(fs::read_link(&path)?.as_os_str().as_bytes().to_vec())
            } else {
                linked.insert(metadata.ino(), node);
                Node::File(Content::read_from(&File::open(&path)?)?)
            });
            tree.apply(&Change::Name { dir, name, node: Some(node) });
        }
    }
    Ok(tree)
}
