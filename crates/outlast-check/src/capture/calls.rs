//! The system calls that change files, and their effects on the directory.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Tracer;
use super::exact::Guarded;
use super::watch::SECTOR;
use crate::run::{Change, NodeId, Step, Sync};
use crate::sys::{self, Entry, Tid};

/// A call that was let in and whose effect is recorded when it returns.
#[derive(Debug)]
pub struct Pending {
    name: &'static str,
    kind: Kind,
    /// The error that it is made to give.
    pub(super) failed: Option<i32>,
}

impl Pending {
    pub(super) fn guard(guarded: Guarded) -> Self {
        Self::new("", Kind::Guard(guarded))
    }

    fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, failed: None }
    }

    pub(super) fn is_sync(&self) -> bool {
        matches!(self.kind, Kind::Sync { .. })
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.kind, Kind::Write { .. })
    }

    /// The call for people.
    pub(super) fn text(&self, watch: &mut super::Watch) -> String {
        match &self.kind {
            Kind::Write { node, .. } => format!("{} {}", self.name, watch.name(*node)),
            Kind::Sync { text, .. } => format!("{} {text}", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Whether its effect can be read from the file afterwards: a plain write that is no sync.
    pub(super) fn can_be_let_go(&self) -> bool {
        self.has_count()
            && self.failed.is_none()
            && matches!(self.kind, Kind::Write { sync: None, .. })
    }

    /// Whether its third argument is a count of bytes.
    pub(super) fn has_count(&self) -> bool {
        matches!(self.name, "write" | "pwrite64")
    }
}

/// A name in a directory of the watched tree.
type Place = (NodeId, Vec<u8>);

#[derive(Debug)]
enum Kind {
    /// Bytes go to a file at a place, or behind its end.
    Write { node: NodeId, file: File, at: Option<u64>, append: bool, sync: Option<Through> },
    /// The file has this size then.
    Resize { node: NodeId, size: u64 },
    /// Space is given to a file, or taken from it.
    Allocate { node: NodeId, mode: i32, offset: u64, length: u64 },
    /// Anything may have changed in the file.
    Compare { node: NodeId },
    /// A file is opened that may be new, or be cut.
    Open { flags: i32 },
    /// A name comes, for what was made there.
    Make { place: Place },
    /// A name goes.
    Remove { place: Place },
    /// A name moves.
    Rename { from: Option<Place>, to: Option<Place>, exchange: bool },
    /// Changes become durable.
    Sync { syncs: Vec<Sync>, text: String },
    /// Guards of mappings change.
    Guard(Guarded),
    /// The program asks which processors it has: the answer goes to this address.
    Processors(u64),
}

/// A write that is a sync as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Through {
    Data,
    File,
}

impl Through {
    fn of(data: bool, all: bool) -> Option<Self> {
        match (data, all) {
            (_, true) => Some(Self::File),
            (true, false) => Some(Self::Data),
            (false, false) => None,
        }
    }
}

/// `RWF_DSYNC`, `RWF_SYNC` and `RWF_APPEND` of `pwritev2`.
const RWF_DSYNC: u64 = 2;
const RWF_SYNC: u64 = 4;
const RWF_APPEND: u64 = 16;

impl Tracer<'_> {
    /// The coming effect of a call on the directory; none if it has none.
    pub(super) fn prepare(&mut self, tid: Tid, entry: &Entry) -> io::Result<Option<Pending>> {
        let [a, b, c, d, ..] = entry.args;
        if self.options.exact
            && let Some(guarded) = self.guarded(tid, entry)?
        {
            return Ok(Some(Pending::guard(guarded)));
        }
        let kind = |name, kind: Option<Kind>| Ok(kind.map(|kind| Pending::new(name, kind)));
        match entry.number {
            libc::SYS_write => self.write("write", tid, a, None, Source::Memory(b, c)),
            libc::SYS_writev => self.write("writev", tid, a, None, Source::Vectors(b, c)),
            libc::SYS_pwrite64 => self.write("pwrite64", tid, a, Some(d), Source::Elsewhere),
            libc::SYS_pwritev => self.write("pwritev", tid, a, Some(d), Source::Elsewhere),
            libc::SYS_pwritev2 => {
                let at = (d as i64 != -1).then_some(d);
                let source = if at.is_none() { Source::Vectors(b, c) } else { Source::Elsewhere };
                let pending = self.write("pwritev2", tid, a, at, source)?;
                Ok(pending.map(|pending| with_flags(pending, entry.args[5])))
            }
            libc::SYS_sendfile => {
                self.read_source(tid, b);
                self.write("sendfile", tid, a, None, Source::Elsewhere)
            }
            libc::SYS_splice => {
                self.read_source(tid, a);
                let at = self.pointed(tid, d);
                self.write("splice", tid, c, at, Source::Elsewhere)
            }
            libc::SYS_copy_file_range => {
                self.read_source(tid, a);
                let at = self.pointed(tid, d);
                self.write("copy_file_range", tid, c, at, Source::Elsewhere)
            }
            libc::SYS_truncate => {
                let node = self.file_at(tid, a)?;
                kind("truncate", node.map(|node| Kind::Resize { node, size: b }))
            }
            libc::SYS_ftruncate => {
                let node = self.node_of_fd(tid, a)?;
                kind("ftruncate", node.map(|node| Kind::Resize { node, size: b }))
            }
            libc::SYS_fallocate => {
                let node = self.node_of_fd(tid, a)?;
                let allocate = |node| Kind::Allocate { node, mode: b as i32, offset: c, length: d };
                kind("fallocate", node.map(allocate))
            }
            libc::SYS_ioctl => {
                let node = self.node_of_fd(tid, a)?;
                kind("ioctl(FICLONE)", node.map(|node| Kind::Compare { node }))
            }
            libc::SYS_openat => self.open("openat", tid, a as i32, b, c as i32),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open("open", tid, libc::AT_FDCWD, a, b as i32),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                self.open("creat", tid, libc::AT_FDCWD, a, libc::O_CREAT | libc::O_TRUNC)
            }
            libc::SYS_openat2 => {
                let flags = self.pointed(tid, c).unwrap_or(0) as i32;
                self.open("openat2", tid, a as i32, b, flags)
            }
            libc::SYS_renameat2 => self.rename("renameat2", tid, (a, b), (c, d), entry.args[4]),
            libc::SYS_renameat => self.rename("renameat", tid, (a, b), (c, d), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename("rename", tid, (CWD, a), (CWD, b), 0),
            libc::SYS_linkat => kind("linkat", self.make(tid, c, d)),
            libc::SYS_symlinkat => kind("symlinkat", self.make(tid, b, c)),
            libc::SYS_mkdirat => kind("mkdirat", self.make(tid, a, b)),
            libc::SYS_mknodat => kind("mknodat", self.make(tid, a, b)),
            libc::SYS_unlinkat => kind("unlinkat", self.remove(tid, a, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => kind("link", self.make(tid, CWD, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => kind("symlink", self.make(tid, CWD, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => kind("mkdir", self.make(tid, CWD, a)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => kind("mknod", self.make(tid, CWD, a)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => kind("unlink", self.remove(tid, CWD, a)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => kind("rmdir", self.remove(tid, CWD, a)),
            libc::SYS_fsync => self.sync("fsync", tid, a, |node, watch| watch.sync_of(node)),
            libc::SYS_fdatasync => {
                self.sync("fdatasync", tid, a, |node, watch| match watch.sync_of(node) {
                    Sync::File(node) => Sync::Data(node, 0..u64::MAX),
                    dir => dir,
                })
            }
            libc::SYS_sync_file_range => {
                let range = b..if c == 0 { u64::MAX } else { b.saturating_add(c) };
                self.sync("sync_file_range", tid, a, move |node, _| Sync::Started(node, range))
            }
            libc::SYS_sync => kind("sync", Some(sync_all())),
            libc::SYS_syncfs => {
                let here = self.fd(tid, a).and_then(|file| file.metadata().ok());
                let here = here.is_some_and(|file| file.dev() == self.watch.device());
                kind("syncfs", here.then(sync_all))
            }
            libc::SYS_sched_getaffinity => Ok(Some(Pending::new("", Kind::Processors(c)))),
            libc::SYS_msync => self.msync(tid, a, b, c as i32),
            libc::SYS_read
            | libc::SYS_pread64
            | libc::SYS_readv
            | libc::SYS_preadv
            | libc::SYS_preadv2 => {
                if let Some(node) = self.node_of_fd(tid, a)? {
                    self.watch.reads(node);
                }
                Ok(None)
            }
            libc::SYS_mmap => {
                self.mmap(tid, entry.args)?;
                Ok(None)
            }
            libc::SYS_setxattr | libc::SYS_removexattr => {
                let path = self.reach(tid, CWD, &self.text(tid, a));
                self.attributes(path.metadata().ok());
                Ok(None)
            }
            libc::SYS_lsetxattr | libc::SYS_lremovexattr => {
                let path = self.reach(tid, CWD, &self.text(tid, a));
                self.attributes(path.symlink_metadata().ok());
                Ok(None)
            }
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
                let file = self.fd(tid, a);
                self.attributes(file.and_then(|file| file.metadata().ok()));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn fd(&mut self, tid: Tid, fd: u64) -> Option<File> {
        sys::descriptor_of(self.process(tid).ok()?, fd as i32).ok()
    }

    /// Notes that a call reads a file.
    fn read_source(&mut self, tid: Tid, fd: u64) {
        let metadata = self.fd(tid, fd).and_then(|file| file.metadata().ok());
        let node = metadata.and_then(|file| self.watch.node_of((file.dev(), file.ino())));
        if let Some(node) = node {
            self.watch.reads(node);
        }
    }

    /// Extended attributes of a file change, which are no part of a state.
    fn attributes(&mut self, file: Option<Metadata>) {
        let node = file.and_then(|file| self.watch.node_of((file.dev(), file.ino())));
        if let Some(node) = node {
            let text = format!("extended attributes of {}", self.watch.name(node));
            self.watch.blind(text);
        }
    }

    fn node_of_fd(&mut self, tid: Tid, fd: u64) -> io::Result<Option<NodeId>> {
        match self.fd(tid, fd) {
            Some(file) => self.watch.opened(&file, false),
            None => Ok(None),
        }
    }

    fn file_at(&mut self, tid: Tid, path: u64) -> io::Result<Option<NodeId>> {
        let path = self.reach(tid, CWD, &self.text(tid, path));
        match File::open(path) {
            Ok(file) => self.watch.opened(&file, false),
            Err(_) => Ok(None),
        }
    }

    /// A number of 64 bits that an argument points to; none for a null pointer.
    fn pointed(&self, tid: Tid, address: u64) -> Option<u64> {
        if address == 0 {
            return None;
        }
        Some(u64::from_ne_bytes(sys::read_memory(tid, address, 8).try_into().ok()?))
    }

    /// The text that an argument points to.
    fn text(&self, tid: Tid, address: u64) -> Vec<u8> {
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < libc::PATH_MAX as usize {
            // Not across a page, of which the next may not be there.
            let part = sys::read_memory(tid, at, 256 - (at % 256) as usize);
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&part[..end]);
                break;
            }
            if part.is_empty() {
                break;
            }
            at += part.len() as u64;
            text.extend(part);
        }
        text
    }

    /// The path by which this process reaches a path of the program.
    fn reach(&self, tid: Tid, dir: u64, path: &[u8]) -> PathBuf {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let from = match dir as i32 {
            _ if path.is_absolute() => format!("/proc/{tid}/root"),
            libc::AT_FDCWD => format!("/proc/{tid}/cwd"),
            dir => format!("/proc/{tid}/fd/{dir}"),
        };
        Path::new(&from).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The place of a name whose directory is watched.
    fn place(&mut self, tid: Tid, dir: u64, path: u64) -> Option<Place> {
        let text = self.text(tid, path);
        let end = text.iter().rposition(|&byte| byte != b'/')? + 1;
        let path = self.reach(tid, dir, &text[..end]);
        let name = path.file_name()?.as_bytes().to_vec();
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(path.parent()?)
            .ok()?;
        let metadata = folder.metadata().ok()?;
        Some((self.watch.node_of((metadata.dev(), metadata.ino()))?, name))
    }

    fn write(
        &mut self,
        name: &'static str,
        tid: Tid,
        fd: u64,
        at: Option<u64>,
        source: Source,
    ) -> io::Result<Option<Pending>> {
        let Some(file) = self.fd(tid, fd) else { return Ok(None) };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let identity = (metadata.dev(), metadata.ino());
            if self.pipes.contains_key(&identity) {
                let bytes = source.bytes(tid);
                let marks = &self.options.marks;
                let steps = self.pipes.get_mut(&identity).map(|lines| lines.add(&bytes, marks));
                let steps = steps.unwrap_or_default();
                let mut call = None;
                for (index, step) in steps.iter().enumerate() {
                    match step {
                        Step::Issued(number) => {
                            let writes = written(&steps[index + 1..]);
                            call = Some(self.watch.call(tid, format!("begins {number}{writes}")));
                        }
                        Step::Acked(number) => {
                            call = Some(self.watch.call(tid, format!("acknowledges {number}")));
                        }
                        _ => {}
                    }
                    if let Some(call) = call {
                        self.watch.step(call, step.clone());
                    }
                }
            }
            return Ok(None);
        }
        let Some(node) = self.watch.opened_as(&file, &metadata, false)? else { return Ok(None) };
        let flags = sys::flags(&file);
        // `pwrite` to a file that was opened to append appends, on Linux.
        let append = flags & libc::O_APPEND != 0;
        let sync = Through::of(flags & libc::O_DSYNC != 0, flags & libc::O_SYNC == libc::O_SYNC);
        let at = at.or_else(|| (!append).then(|| sys::place(&file)));
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Ok(None);
        }
        Ok(Some(Pending::new(name, Kind::Write { node, file, at, append, sync })))
    }

    fn open(
        &mut self,
        name: &'static str,
        tid: Tid,
        dir: i32,
        path: u64,
        flags: i32,
    ) -> io::Result<Option<Pending>> {
        let unnamed = libc::O_TMPFILE & !libc::O_DIRECTORY;
        if flags & (libc::O_CREAT | libc::O_TRUNC | unnamed) == 0 {
            return Ok(None);
        }
        let text = self.text(tid, path);
        let path = self.reach(tid, dir as u64, &text);
        let folder = if flags & unnamed != 0 { Some(path.as_path()) } else { path.parent() };
        let there = folder.and_then(|folder| folder.metadata().ok());
        let here = there.is_some_and(|folder| folder.dev() == self.watch.device());
        Ok(here.then_some(Pending::new(name, Kind::Open { flags })))
    }

    fn make(&mut self, tid: Tid, dir: u64, path: u64) -> Option<Kind> {
        Some(Kind::Make { place: self.place(tid, dir, path)? })
    }

    fn remove(&mut self, tid: Tid, dir: u64, path: u64) -> Option<Kind> {
        Some(Kind::Remove { place: self.place(tid, dir, path)? })
    }

    fn rename(
        &mut self,
        name: &'static str,
        tid: Tid,
        from: (u64, u64),
        to: (u64, u64),
        flags: u64,
    ) -> io::Result<Option<Pending>> {
        let from = self.place(tid, from.0, from.1);
        let to = self.place(tid, to.0, to.1);
        if from.is_none() && to.is_none() {
            return Ok(None);
        }
        let exchange = flags & u64::from(libc::RENAME_EXCHANGE) != 0;
        if flags & u64::from(libc::RENAME_WHITEOUT) != 0 {
            self.watch.blind("renames that leave a whiteout".to_owned());
        }
        Ok(Some(Pending::new(name, Kind::Rename { from, to, exchange })))
    }

    fn sync(
        &mut self,
        name: &'static str,
        tid: Tid,
        fd: u64,
        sync: impl FnOnce(NodeId, &super::Watch) -> Sync,
    ) -> io::Result<Option<Pending>> {
        let Some(file) = self.fd(tid, fd) else { return Ok(None) };
        let metadata = file.metadata()?;
        let Some(node) = self.watch.node_of((metadata.dev(), metadata.ino())) else {
            return Ok(None);
        };
        let text = self.watch.name(node);
        let syncs = vec![sync(node, &self.watch)];
        Ok(Some(Pending::new(name, Kind::Sync { syncs, text })))
    }

    fn msync(
        &mut self,
        tid: Tid,
        address: u64,
        length: u64,
        flags: i32,
    ) -> io::Result<Option<Pending>> {
        if flags & libc::MS_SYNC == 0 {
            return Ok(None);
        }
        let ranges = self.watch.mapped_in(tid, address..address.saturating_add(length));
        let Some((first, _)) = ranges.first() else { return Ok(None) };
        let text = self.watch.name(*first);
        let syncs = ranges.into_iter().map(|(node, range)| Sync::Data(node, range)).collect();
        Ok(Some(Pending::new("msync", Kind::Sync { syncs, text })))
    }

    /// A shared mapping through which the program may store, at once or after `mprotect`.
    pub(super) fn mmap(&mut self, tid: Tid, [_, _, _, flags, fd, _]: [u64; 6]) -> io::Result<()> {
        if flags & libc::MAP_ANONYMOUS as u64 != 0 {
            return Ok(());
        }
        let Some(file) = self.fd(tid, fd) else { return Ok(()) };
        let shared = flags & libc::MAP_SHARED as u64 != 0;
        let writable = sys::flags(&file) & libc::O_ACCMODE == libc::O_RDWR;
        if !(self.options.reads || shared && writable) {
            return Ok(());
        }
        if let Some(node) = self.watch.opened(&file, false)? {
            self.watch.reads(node);
            if shared && writable {
                self.watch.maps(node);
            }
        }
        Ok(())
    }

    /// Records the effect of a write of `count` bytes whose return was not seen.
    pub(super) fn finish_let_go(
        &mut self,
        tid: Tid,
        pending: Pending,
        count: u64,
    ) -> io::Result<()> {
        let Kind::Write { node, file, at, append, .. } = &pending.kind else { return Ok(()) };
        let size = file.metadata()?.len();
        let wrote = match at {
            _ if *append => size.saturating_sub(self.watch.size(*node)),
            // The place in the file tells, or its size.
            Some(at) if pending.name == "write" => sys::place(file).saturating_sub(*at),
            Some(at) => size.saturating_sub(*at),
            None => 0,
        };
        // A write of no bytes may have failed.
        let result = if wrote == 0 { -1 } else { wrote.min(count) as i64 };
        self.finish(tid, pending, result)
    }

    /// Records the effect of a call.
    pub(super) fn finish(&mut self, tid: Tid, pending: Pending, result: i64) -> io::Result<()> {
        let Pending { name, kind, .. } = pending;
        if let Kind::Processors(address) = kind {
            self.tell_processors(tid, address, result);
            return Ok(());
        }
        if let Kind::Guard(guarded) = kind {
            return self.guard_behind(tid, guarded, result);
        }
        if result < 0 {
            if let Kind::Sync { syncs, text } = kind {
                let call = self.watch.call(tid, format!("{name} {text}, which failed"));
                for sync in syncs {
                    if let Sync::File(node) | Sync::Data(node, _) = sync {
                        self.watch.step(call, Step::Unsynced(node));
                    }
                }
            }
            return Ok(());
        }
        let result = result as u64;
        match kind {
            Kind::Write { node, file, at, append, sync } => {
                let at = match at {
                    // The end was where the write began, whatever place the call named.
                    _ if append => self.watch.size(node),
                    Some(at) => at,
                    None => sys::place(&file).saturating_sub(result),
                };
                let text = format!("{name} {}, {result} bytes at {at}", self.watch.name(node));
                let call = self.watch.call(tid, text);
                self.watch.written(call, node, at, result)?;
                match sync {
                    Some(Through::File) => self.watch.step(call, Step::Sync(Sync::File(node))),
                    Some(Through::Data) => {
                        self.watch.step(call, Step::Sync(Sync::Data(node, at..at + result)));
                    }
                    None => {}
                }
            }
            Kind::Resize { node, size } => {
                let text = format!("{name} {} to {size} bytes", self.watch.name(node));
                let call = self.watch.call(tid, text);
                self.watch.resized(call, node, size);
            }
            Kind::Allocate { node, mode, offset, length } => {
                let text = format!("{name} {}, {length} bytes at {offset}", self.watch.name(node));
                let call = self.watch.call(tid, text);
                if mode == 0 {
                    let size = self.watch.size(node).max(offset + length);
                    self.watch.resized(call, node, size);
                } else {
                    self.watch.compare(Some(call), node)?;
                }
            }
            Kind::Compare { node } => {
                let text = format!("{name} {}", self.watch.name(node));
                let call = self.watch.call(tid, text);
                self.watch.compare(Some(call), node)?;
            }
            Kind::Open { flags } => self.finish_open(tid, name, flags, result)?,
            Kind::Make { place: (dir, entry) } => {
                if let Some(node) = self.watch.named(dir, &entry)? {
                    let text = format!("{name} {}", self.watch.entry_name(dir, &entry));
                    let call = self.watch.call(tid, text);
                    let change = Change::Name { dir, name: entry, node: Some(node) };
                    self.watch.step(call, Step::Change(change));
                }
            }
            Kind::Remove { place: (dir, entry) } => {
                if self.watch.lookup(dir, &entry).is_some() {
                    let text = format!("{name} {}", self.watch.entry_name(dir, &entry));
                    let call = self.watch.call(tid, text);
                    let change = Change::Name { dir, name: entry, node: None };
                    self.watch.step(call, Step::Change(change));
                }
            }
            Kind::Rename { from, to, exchange } => {
                self.finish_rename(tid, name, from, to, exchange)?
            }
            Kind::Sync { syncs, text } => {
                let call = self.watch.call(tid, format!("{name} {text}").trim_end().to_owned());
                for sync in syncs {
                    self.watch.step(call, Step::Sync(sync));
                }
            }
            Kind::Guard(_) | Kind::Processors(_) => {}
        }
        Ok(())
    }

    fn finish_open(&mut self, tid: Tid, name: &'static str, flags: i32, fd: u64) -> io::Result<()> {
        let Some(file) = self.fd(tid, fd) else { return Ok(()) };
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.dev() != self.watch.device() {
            return Ok(());
        }
        let known = self.watch.node_of((metadata.dev(), metadata.ino()));
        if let Some(node) = known {
            if flags & libc::O_TRUNC != 0 && self.watch.size(node) != 0 {
                let text = format!("{name} {} with O_TRUNC", self.watch.name(node));
                let call = self.watch.call(tid, text);
                self.watch.resized(call, node, 0);
            }
            return Ok(());
        }
        let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let folder = path.parent().and_then(|folder| folder.metadata().ok());
        let dir = folder.and_then(|folder| self.watch.node_of((folder.dev(), folder.ino())));
        match (dir, path.file_name()) {
            (Some(dir), Some(entry)) if !unnamed => {
                let Some(node) = self.watch.opened(&file, true)? else { return Ok(()) };
                let entry = entry.as_bytes().to_vec();
                let text = format!("{name} {} with O_CREAT", self.watch.entry_name(dir, &entry));
                let call = self.watch.call(tid, text);
                let change = Change::Name { dir, name: entry, node: Some(node) };
                self.watch.step(call, Step::Change(change));
            }
            // A file elsewhere, which may get a name here: it is followed from its first byte.
            _ if metadata.size() == 0 => {
                self.watch.opened(&file, true)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn finish_rename(
        &mut self,
        tid: Tid,
        name: &'static str,
        from: Option<Place>,
        to: Option<Place>,
        exchange: bool,
    ) -> io::Result<()> {
        let mut shown = |place: &Option<Place>| match place {
            Some((dir, entry)) => self.watch.entry_name(*dir, entry),
            None => "elsewhere".to_owned(),
        };
        let text = format!("{name} {} to {}", shown(&from), shown(&to));
        let change = match (from, to) {
            (Some(from), Some(to)) => {
                let Some(node) = self.watch.lookup(from.0, &from.1) else { return Ok(()) };
                let other = self.watch.lookup(to.0, &to.1);
                // Two names of one file stay as they are.
                if other == Some(node) {
                    return Ok(());
                }
                Change::Move { from, to, node, exchanged: other.filter(|_| exchange) }
            }
            (Some((dir, entry)), None) => {
                if exchange {
                    self.watch.blind(format!("{text}: an exchange with a file elsewhere"));
                }
                Change::Name { dir, name: entry, node: None }
            }
            (None, Some((dir, entry))) => {
                let Some(node) = self.watch.named(dir, &entry)? else { return Ok(()) };
                Change::Name { dir, name: entry, node: Some(node) }
            }
            (None, None) => return Ok(()),
        };
        let call = self.watch.call(tid, text);
        self.watch.step(call, Step::Change(change));
        Ok(())
    }
}

/// `AT_FDCWD` as an argument.
const CWD: u64 = libc::AT_FDCWD as u64;

fn sync_all() -> Kind {
    Kind::Sync { syncs: vec![Sync::All], text: String::new() }
}

/// A write with the flags of `pwritev2`.
fn with_flags(pending: Pending, flags: u64) -> Pending {
    let Kind::Write { node, file, at, append, sync } = pending.kind else { return pending };
    let append = append || flags & RWF_APPEND != 0;
    let sync = Through::of(flags & RWF_DSYNC != 0, flags & RWF_SYNC != 0).max_with(sync);
    Pending::new(pending.name, Kind::Write { node, file, at, append, sync })
}

trait MaxWith {
    fn max_with(self, other: Self) -> Self;
}

impl MaxWith for Option<Through> {
    fn max_with(self, other: Self) -> Self {
        match (self, other) {
            (Some(Through::File), _) | (_, Some(Through::File)) => Some(Through::File),
            (Some(Through::Data), _) | (_, Some(Through::Data)) => Some(Through::Data),
            (None, None) => None,
        }
    }
}

/// Where a write takes its bytes from.
#[derive(Clone, Copy)]
enum Source {
    /// An address and a length.
    Memory(u64, u64),
    /// An array of `struct iovec` and their number.
    Vectors(u64, u64),
    /// Of no account: no marks are written so.
    Elsewhere,
}

impl Source {
    /// The bytes, of which marks are lines: no more than a pipe takes at once.
    fn bytes(self, tid: Tid) -> Vec<u8> {
        const MOST: u64 = 1 << 20;
        match self {
            Self::Memory(address, length) => {
                sys::read_memory(tid, address, length.min(MOST) as usize)
            }
            Self::Vectors(address, count) => {
                let vectors = sys::read_memory(tid, address, 16 * count.min(1024) as usize);
                let number =
                    |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                vectors
                    .chunks_exact(16)
                    .flat_map(|vector| {
                        let (address, length) = (number(&vector[..8]), number(&vector[8..]));
                        sys::read_memory(tid, address, length.min(MOST) as usize)
                    })
                    .collect()
            }
            Self::Elsewhere => Vec::new(),
        }
    }
}

const _: () = assert!(SECTOR == 512);

/// The versions that the transaction leaves which has begun, as its mark names them.
fn written(steps: &[Step]) -> String {
    let writes = steps.iter().map_while(|step| match step {
        Step::Writes { key, version } => Some(format!(" {key}={version}")),
        _ => None,
    });
    writes.collect()
}
