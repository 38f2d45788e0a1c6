//! The watched directory while the program runs: each file's node and content, and the steps so far.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::stacks::StackId;

use crate::run::{Call, CallId, Change, Ended, Event, Growth, NodeId, Run, Step, Sync};
use crate::tree::{self, Content, Node, PAGE, Read, Tree};

/// Bytes that a crash never tears: stores through mappings are told apart in this unit.
pub const SECTOR: usize = 512;

/// Files outside of the directory are followed up to this size, so that a rename into it has their
/// writes; larger ones are said to be unmeasured when they come.
const OUTSIDE_BYTES_MAX: u64 = 64 << 20;

/// The identity of a file: device and inode. Each is held open, so that no number is given again.
pub type Identity = (u64, u64);

/// The directory and all that happened to it.
#[derive(Debug)]
pub struct Watch {
    dir: PathBuf,
    device: u64,
    base: Tree,
    now: Tree,
    nodes: FxHashMap<Identity, NodeId>,
    held: Vec<Option<File>>,
    mapped: Vec<NodeId>,
    events: Vec<Event>,
    calls: Vec<Call>,
    blind: Vec<String>,
    paths: FxHashMap<NodeId, String>,
    /// The reads of each file, and where each was cut off before.
    read: Read,
    cut: FxHashMap<NodeId, u64>,
    fault: Option<String>,
    /// Bytes that may be held, those of the directory before the run and of every change; and how many of
    /// them still may.
    most: u64,
    room: u64,
    /// The stack of the call that is recorded.
    pub(super) stack: Option<StackId>,
    /// Of each call.
    stacks: Vec<Option<StackId>>,
}

/// The environment variable that sets how many bytes a captured run may hold.
pub const BYTES_MAX: &str = "OUTLAST_CHECK_BYTES";

/// Bytes that a captured run may hold: a quarter of the memory, unless the environment says otherwise.
fn bytes_max() -> io::Result<u64> {
    if let Some(text) = std::env::var_os(BYTES_MAX) {
        let bytes = text.to_str().and_then(|text| text.parse().ok());
        let text = text.display();
        return bytes.ok_or_else(|| {
            io::Error::other(format!("{BYTES_MAX}={text}: a number of bytes would be right"))
        });
    }
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(kib.map_or(4 << 30, |kib| kib * 1024 / 4))
}

/// Refuses a run whose writes and first content are more than `most` bytes.
fn too_much(most: u64) -> io::Error {
    io::Error::other(format!(
        "a captured run holds all that is written, and more than {most} bytes are: a smaller run would be right, or a larger {BYTES_MAX}"
    ))
}

/// Opens `path` for its identity alone, which the descriptor pins.
fn pin(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

impl Watch {
    /// Begins to watch `dir`, whose content now is taken as durable.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let dir = fs::canonicalize(dir)?;
        let device = fs::metadata(&dir)?.dev();
        let mut nodes = FxHashMap::default();
        let mut held = Vec::new();
        let most = bytes_max()?;
        let mut room = most;
        let mut seen = |path: &Path, node: NodeId| -> io::Result<()> {
            let metadata = fs::symlink_metadata(path)?;
            if metadata.dev() != device {
                let text = format!("{} is on another file system", path.display());
                return Err(io::Error::other(text));
            }
            let file = if metadata.is_file() { File::open(path)? } else { pin(path)? };
            if metadata.is_file() {
                let left = room.checked_sub(metadata.blocks() * 512);
                room = left.ok_or_else(|| too_much(most))?;
            }
            nodes.insert((metadata.dev(), metadata.ino()), node);
            held.resize_with(node.0 as usize + 1, || None);
            held[node.0 as usize] = Some(file);
            Ok(())
        };
        let base = tree::read_folder(&dir, &mut seen)?;
        Ok(Self {
            dir,
            device,
            now: base.clone(),
            base,
            nodes,
            held,
            mapped: Vec::new(),
            events: Vec::new(),
            calls: Vec::new(),
            blind: Vec::new(),
            paths: FxHashMap::default(),
            read: Read::default(),
            cut: FxHashMap::default(),
            fault: None,
            most,
            room,
            stack: None,
            stacks: Vec::new(),
        })
    }

    /// The device of the directory: files of others are never followed.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether no more can be held.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room == 0
    }

    /// The error of a run that is too large.
    #[must_use]
    pub fn too_much(&self) -> io::Error {
        too_much(self.most)
    }

    /// The node of an identity.
    #[must_use]
    pub fn node_of(&self, identity: Identity) -> Option<NodeId> {
        self.nodes.get(&identity).copied()
    }

    /// Notes a call that is not measured, once.
    pub fn blind(&mut self, text: String) {
        if !self.blind.contains(&text) {
            self.blind.push(text);
        }
    }

    /// The name of a node for people.
    pub fn name(&mut self, node: NodeId) -> String {
        let (now, dir) = (&self.now, &self.dir);
        self.paths
            .entry(node)
            .or_insert_with(|| {
                let root = dir.file_name().map(PathBuf::from).unwrap_or_default();
                match now.path_of(node) {
                    Some(path) => {
                        root.join(path).display().to_string().trim_end_matches('/').to_owned()
                    }
                    None => format!("an unnamed file ({})", node.0),
                }
            })
            .clone()
    }

    /// The name of an entry for people.
    pub fn entry_name(&mut self, dir: NodeId, name: &[u8]) -> String {
        format!("{}/{}", self.name(dir), String::from_utf8_lossy(name))
    }

    /// Begins a call, to which the steps belong that come next.
    pub fn call(&mut self, tid: i32, text: String) -> CallId {
        self.calls.push(Call { tid, text, place: String::new() });
        self.stacks.push(self.stack);
        self.calls.len() as CallId - 1
    }

    /// How many calls there are by now.
    #[must_use]
    pub fn calls_so_far(&self) -> usize {
        self.calls.len()
    }

    /// Calls from number `first` on were made from `stack`.
    pub fn stand(&mut self, first: usize, stack: Option<StackId>) {
        self.stacks[first..].fill(stack);
    }

    /// Adds a step.
    pub fn step(&mut self, call: CallId, step: Step) {
        if let Step::Change(change) = &step {
            if change.is_name() {
                self.paths.clear();
            }
            if let Change::Cut { node, to } = change {
                let least = self.cut.entry(*node).or_insert(*to);
                *least = (*least).min(*to);
            }
            if let Change::Data { bytes, .. } = change {
                self.room = self.room.saturating_sub(bytes.len() as u64);
            }
            self.now.apply(change);
        }
        self.events.push(Event { call, step });
    }

    fn add(&mut self, node: Node, identity: Identity, held: Option<File>) -> NodeId {
        self.base.add(node.clone());
        let id = self.now.add(node);
        self.nodes.insert(identity, id);
        self.held.push(held);
        id
    }

    /// The node of an open regular file; a file outside of the directory becomes one as it is now.
    ///
    /// # Errors
    /// Those of reading a new one.
    pub fn opened(&mut self, file: &File, created: bool) -> io::Result<Option<NodeId>> {
        self.opened_as(file, &file.metadata()?, created)
    }

    /// As [`Watch::opened`], of a file whose metadata is known.
    ///
    /// # Errors
    /// As [`Watch::opened`].
    pub fn opened_as(
        &mut self,
        file: &File,
        metadata: &Metadata,
        created: bool,
    ) -> io::Result<Option<NodeId>> {
        if !metadata.is_file() || metadata.dev() != self.device {
            return Ok(None);
        }
        let identity = (metadata.dev(), metadata.ino());
        if let Some(node) = self.node_of(identity) {
            return Ok(Some(node));
        }
        if metadata.size() > OUTSIDE_BYTES_MAX {
            return Ok(None);
        }
        let held = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let content = if created { Content::default() } else { Content::read_from(&held)? };
        Ok(Some(self.add(Node::File(content), identity, Some(held))))
    }

    /// The directory node, and the path by which this process reaches it.
    #[must_use]
    pub fn reach(&self, dir: NodeId) -> PathBuf {
        match &self.held[dir.0 as usize] {
            Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            None => self.dir.clone(),
        }
    }

    /// The node behind `name` in `dir` as the file system has it now; one that was not known becomes so.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn named(&mut self, dir: NodeId, name: &[u8]) -> io::Result<Option<NodeId>> {
        let path = self.reach(dir).join(OsStr::from_bytes(name));
        let metadata = fs::symlink_metadata(&path)?;
        let identity = (metadata.dev(), metadata.ino());
        if let Some(node) = self.node_of(identity) {
            return Ok(Some(node));
        }
        let kind = metadata.file_type();
        if kind.is_file() {
            let file = File::open(&path)?;
            if metadata.size() > OUTSIDE_BYTES_MAX {
                let shown = self.entry_name(dir, name);
                self.blind(format!(
                    "{shown}: a file of {} bytes came from elsewhere",
                    metadata.size()
                ));
                let content = Content::read_from(&file)?;
                return Ok(Some(self.add(Node::File(content), identity, Some(file))));
            }
            return self.opened(&file, false);
        }
        let node = if kind.is_dir() {
            if fs::read_dir(&path)?.next().is_some() {
                let shown = self.entry_name(dir, name);
                self.blind(format!("{shown}: a directory with content came from elsewhere"));
            }
            Node::Dir(std::collections::BTreeMap::new())
        } else if kind.is_symlink() {
            Node::Link(fs::read_link(&path)?.as_os_str().as_bytes().to_vec())
        } else {
            return Ok(None);
        };
        let held = pin(&path)?;
        Ok(Some(self.add(node, identity, Some(held))))
    }

    /// The node that a directory of the recorded state calls `name`.
    #[must_use]
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        self.now.lookup(dir, name)
    }

    /// Bytes of a file as recorded.
    #[must_use]
    pub fn size(&self, node: NodeId) -> u64 {
        self.now.content(node).map_or(0, |content| content.size)
    }

    /// Records that `length` bytes at `offset` were written: reads them back, for no other call runs.
    ///
    /// # Errors
    /// Those of reading.
    pub fn written(
        &mut self,
        call: CallId,
        node: NodeId,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let mut bytes = vec![0; length as usize];
        let Some(file) = &self.held[node.0 as usize] else { return Ok(()) };
        file.read_exact_at(&mut bytes, offset)?;
        self.data(call, node, offset, &bytes);
        self.grown(call, node, offset + length);
        Ok(())
    }

    fn data(&mut self, call: CallId, node: NodeId, offset: u64, bytes: &[u8]) {
        let mut offset = offset;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let page_left = PAGE - (offset % PAGE as u64) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(page_left));
            self.step(call, Step::Change(Change::Data { node, offset, bytes: part.to_vec() }));
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    /// A write has ended at `end`: the part of the growth within the last page is a unit of its own,
    /// since a file system may journal its size at once.
    fn grown(&mut self, call: CallId, node: NodeId, end: u64) {
        let from = self.size(node);
        if end <= from {
            return;
        }
        let tail_end = from.next_multiple_of(PAGE as u64).min(end);
        if tail_end > from {
            let growth = Growth::Tail;
            self.step(call, Step::Change(Change::Size { node, from, to: tail_end, growth }));
        }
        if end > tail_end {
            let growth = Growth::Append;
            self.step(call, Step::Change(Change::Size { node, from: tail_end, to: end, growth }));
        }
    }

    /// The file has `size` bytes, by a call that says so.
    pub fn resized(&mut self, call: CallId, node: NodeId, size: u64) {
        let from = self.size(node);
        if size < from {
            self.step(call, Step::Change(Change::Cut { node, to: size }));
        } else if size > from {
            let growth = Growth::Explicit;
            self.step(call, Step::Change(Change::Size { node, from, to: size, growth }));
        }
    }

    /// Records each sector in which a file differs from what is recorded: for calls that change more
    /// than they say, and for stores through mappings. Returns whether there was one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn compare(&mut self, call: Option<CallId>, node: NodeId) -> io::Result<bool> {
        let Some(file) = &self.held[node.0 as usize] else { return Ok(false) };
        let size = file.metadata()?.len();
        let Some(content) = self.now.content(node) else { return Ok(false) };
        let mut real = vec![0; 64 * 1024];
        let mut kept = real.clone();
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut offset = 0;
        while offset < size {
            let count = file.read_at(&mut real, offset)?;
            if count == 0 {
                break;
            }
            content.read(offset, &mut kept[..count]);
            if real[..count] != kept[..count] {
                changed_sectors(&real[..count], &kept[..count], offset, &mut found);
            }
            offset += count as u64;
        }
        if found.is_empty() && size == content.size {
            return Ok(false);
        }
        let call = match call {
            Some(call) => call,
            None => {
                let text = format!("stores through a mapping of {}", self.name(node));
                self.call(0, text)
            }
        };
        for (offset, bytes) in found {
            self.step(call, Step::Change(Change::Data { node, offset, bytes }));
        }
        self.resized(call, node, size);
        Ok(true)
    }

    /// Records a store to one page of a file: the bytes from the first to the last that it has changed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stored(&mut self, tid: i32, node: NodeId, page: u64) -> io::Result<()> {
        let Some(file) = &self.held[node.0 as usize] else { return Ok(()) };
        let Some(content) = self.now.content(node) else { return Ok(()) };
        let (mut real, mut kept) = (vec![0; PAGE], vec![0; PAGE]);
        let count = file.read_at(&mut real, page)?;
        content.read(page, &mut kept[..count]);
        let differs = |at: &usize| real[*at] != kept[*at];
        let (Some(first), Some(last)) = ((0..count).find(differs), (0..count).rfind(differs))
        else {
            return Ok(());
        };
        let bytes = real[first..=last].to_vec();
        let offset = page + first as u64;
        let text = format!("a store to {}, {} bytes at {offset}", self.name(node), bytes.len());
        let call = self.call(tid, text);
        self.step(call, Step::Change(Change::Data { node, offset, bytes }));
        Ok(())
    }

    /// A file is read: of its first content, what has not been cut off by now.
    pub fn reads(&mut self, node: NodeId) {
        let end = self.cut.get(&node).copied().unwrap_or(u64::MAX);
        self.read.entry(node).or_insert(end);
    }

    /// Notes the call that is made to fail.
    pub fn fails(&mut self, text: String) {
        self.fault = Some(text);
    }

    /// The file is mapped for writing: it is compared at every stop from here on.
    pub fn maps(&mut self, node: NodeId) {
        if !self.mapped.contains(&node) {
            self.mapped.push(node);
        }
    }

    /// Whether no file is mapped for writing.
    #[must_use]
    pub fn maps_none(&self) -> bool {
        self.mapped.is_empty()
    }

    /// Records the stores through mappings since the last stop.
    ///
    /// # Errors
    /// Those of reading.
    pub fn look_at_mappings(&mut self) -> io::Result<()> {
        for index in 0..self.mapped.len() {
            self.compare(None, self.mapped[index])?;
        }
        Ok(())
    }

    /// Files mapped for writing, among the mappings of `tid` in `range` of its addresses, with the
    /// bytes of each file.
    #[must_use]
    pub fn mapped_in(&self, tid: i32, range: Range<u64>) -> Vec<(NodeId, Range<u64>)> {
        let places = self.mapped_places(tid, range);
        places.into_iter().map(|(node, bytes, _)| (node, bytes)).collect()
    }

    /// As [`Watch::mapped_in`], with the addresses of each part.
    #[must_use]
    pub fn mapped_places(
        &self,
        tid: i32,
        range: Range<u64>,
    ) -> Vec<(NodeId, Range<u64>, Range<u64>)> {
        let Ok(maps) = fs::read_to_string(format!("/proc/{tid}/maps")) else { return Vec::new() };
        maps.lines().filter_map(|line| self.mapped_line(line, &range)).collect()
    }

    fn mapped_line(
        &self,
        line: &str,
        range: &Range<u64>,
    ) -> Option<(NodeId, Range<u64>, Range<u64>)> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let shared = words.next()?.ends_with('s');
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let inode: u64 = words.nth(1)?.parse().ok()?;
        let (from, to) = (start.max(range.start), end.min(range.end));
        if !shared || from >= to {
            return None;
        }
        let node = self.node_of((self.device, inode))?;
        Some((node, offset + (from - start)..offset + (to - start), from..to))
    }

    /// The sync of a whole directory entry: a directory or a file.
    #[must_use]
    pub fn sync_of(&self, node: NodeId) -> Sync {
        match self.now.node(node) {
            Node::Dir(_) => Sync::Dir(node),
            _ => Sync::File(node),
        }
    }

    /// Ends the watch, with `stacks` for people: records the last stores through mappings, and proves that nothing was missed.
    ///
    /// # Errors
    /// Those of reading; the recorded state is not the directory's, with the first difference.
    pub fn end(mut self, dir: PathBuf, ended: Ended, stacks: &[String]) -> io::Result<Run> {
        self.look_at_mappings()?;
        for (call, stack) in self.calls.iter_mut().zip(&self.stacks) {
            if let Some(place) = stack.and_then(|id| stacks.get(id as usize)) {
                call.place.clone_from(place);
            }
        }
        let run = Run {
            dir,
            base: self.base,
            events: self.events,
            calls: self.calls,
            blind: self.blind,
            ended,
            promised: (0, 0),
            read: self.read,
            fault: self.fault,
        };
        if let Some(difference) = run.whole().difference(&self.dir)? {
            return Err(io::Error::other(format!(
                "the capture missed a change: {difference} (a fault of this program, or another process writes there)"
            )));
        }
        Ok(run)
    }
}

/// Adds each run of sectors, within a page, in which both differ.
fn changed_sectors(real: &[u8], kept: &[u8], offset: u64, found: &mut Vec<(u64, Vec<u8>)>) {
    for (page, (real, kept)) in real.chunks(PAGE).zip(kept.chunks(PAGE)).enumerate() {
        if real == kept {
            continue;
        }
        let mut sector = 0;
        let count = real.len().div_ceil(SECTOR);
        let part = |sector: usize| sector * SECTOR..((sector + 1) * SECTOR).min(real.len());
        while sector < count {
            if real[part(sector)] == kept[part(sector)] {
                sector += 1;
                continue;
            }
            let first = sector;
            while sector < count && real[part(sector)] != kept[part(sector)] {
                sector += 1;
            }
            let bytes = real[first * SECTOR..part(sector - 1).end].to_vec();
            found.push((offset + (page * PAGE + first * SECTOR) as u64, bytes));
        }
    }
}
