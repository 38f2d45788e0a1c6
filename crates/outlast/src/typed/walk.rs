//! Following a typed root through raw memory, by the schema that the pool has of it.
//!
//! What owns is followed first: boxes, collections, text. The targets of pointers come afterwards: one that lies in a
//! block which something owns is of no account; any other is followed as a value that nothing owns, so that a program
//! whose graph has pointers only has no leaks. A pointer to freed memory is no finding, as long as nothing uses it.

use std::cell::RefCell;

use rustc_hash::FxHashSet;

use super::layout::*;
use super::parsed::{Form, Key, Structure, Target, TypeId, Types, load_vec};
use super::schema::fingerprint_of;
use super::vec::Segments;
use crate::collections::{ByteMap, ByteTree, RbTree, ReadRaw, word};
use crate::inspect::walk::{Coverage, Path, Root, Step, Visit, Walker, word_at};
use crate::{ByteRange, PoolOffset, RootKind};

/// Values within values that are followed by calls; deeper ones wait their turn.
const LEVELS: u32 = 40;

/// Bytes of a pattern, at most.
const PATTERN_BYTES_MAX: usize = 16;

/// See [`TYPED`](crate::inspect::walk::TYPED).
pub(crate) struct TypedRoots;

/// A typed root as it stands in the pool.
struct Found {
    value_bytes: u64,
    text_at: PoolOffset,
    text: String,
    fingerprint: u64,
}

impl Found {
    /// The typed root at a place; `Err` with what is wrong with one.
    fn read(root: Root, read: &mut dyn ReadRaw) -> Option<Result<Self, &'static str>> {
        let mut header = [0; ROOT_HEADER_BYTES as usize];
        let is_typed = root.kind == RootKind::Opaque
            && word_at(read, root.at) == Some(ROOT_MAGIC)
            && read.read(root.at, &mut header);
        if !is_typed {
            return None;
        }
        let text_at = PoolOffset(word(&header, ROOT_TEXT_AT));
        let text_len = word(&header, ROOT_TEXT_LEN_AT);
        let text = (text_len <= SCHEMA_BYTES_MAX).then(|| load_vec(read, text_at, text_len));
        let text = text.flatten().and_then(|text| String::from_utf8(text).ok());
        let fingerprint = word(&header, ROOT_FINGERPRINT_AT);
        let text = match text.filter(|text| fingerprint_of(text) == fingerprint) {
            Some(text) => text,
            None => return Some(Err("a typed root whose schema is not that of its fingerprint")),
        };
        let value_bytes = word(&header, ROOT_VALUE_BYTES_AT);
        Some(Ok(Self { value_bytes, text_at, text, fingerprint }))
    }
}

impl Walker for TypedRoots {
    fn name(&self) -> &'static str {
        "typed"
    }

    fn describe(&self, root: Root, read: &mut dyn ReadRaw) -> Option<String> {
        match Found::read(root, read)? {
            Ok(found) => {
                let types = Types::parse(&found.text)?;
                Some(format!("{} (schema {:016x})", types.root_text, found.fingerprint))
            }
            Err(what) => Some(what.to_owned()),
        }
    }

    fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
        let path = Path::ROOT;
        let found = match Found::read(root, read) {
            None => return Coverage::Unknown,
            Some(Err(what)) => {
                visit.damaged(root.at, what, &path);
                return Coverage::Unknown;
            }
            Some(Ok(found)) => found,
        };
        let Some(types) = Types::parse(&found.text) else { return Coverage::Unknown };
        let is_whole = types.get(types.root).bytes <= found.value_bytes;
        if !is_whole {
            visit.damaged(root.at, "a typed root whose size is not its schema's", &path);
            return Coverage::Unknown;
        }
        let bytes = ROOT_HEADER_BYTES.saturating_add(found.value_bytes);
        if !visit.owned(root.at, bytes, &path) {
            return Coverage::Unknown;
        }
        visit.owned(found.text_at, found.text.len() as u64, &path.then(Step::Name("schema")));
        let mut tracer = Tracer {
            types: &types,
            visit,
            waiting: Vec::new(),
            pointers: Vec::new(),
            known: FxHashSet::default(),
            maps: FxHashSet::default(),
            slots: None,
            level: 0,
        };
        tracer.value(read, types.root, root.at.plus(ROOT_HEADER_BYTES), &path);
        tracer.rest(read);
        Coverage::Whole
    }
}

/// A walk under way.
struct Tracer<'w> {
    types: &'w Types,
    visit: &'w mut dyn Visit,
    /// Values that lie too deep for calls, with their paths.
    waiting: Vec<(TypeId, PoolOffset, String)>,
    /// Targets of pointers.
    pointers: Vec<(TypeId, PoolOffset)>,
    /// All pointers' targets so far.
    known: FxHashSet<(TypeId, u64)>,
    /// Headers of maps so far: what follows a map does not ask before it goes below one.
    maps: FxHashSet<u64>,
    /// Behind pointers: the handles that were followed. A value can be met again there as a part of another.
    slots: Option<FxHashSet<u64>>,
    level: u32,
}

impl Tracer<'_> {
    /// Values that wait, then the targets of pointers, until there are no more.
    fn rest(&mut self, read: &mut dyn ReadRaw) {
        loop {
            while let Some((of, at, path)) = self.waiting.pop() {
                self.value(read, of, at, &Path::shown(&path));
            }
            let Some((of, at)) = self.pointers.pop() else { return };
            self.slots.get_or_insert_default();
            let path = Path::ROOT;
            let path = path.then(Step::Name("a pointer's target"));
            let bytes = self.types.get(of).bytes.max(1);
            if self.visit.pointed(at, bytes, &path).is_some() {
                self.value(read, of, at, &path);
            }
        }
    }

    fn damaged(&mut self, at: PoolOffset, what: &str, path: &Path<'_>) {
        self.visit.damaged(at, what, path);
    }

    /// Follows the value at a place that is known to lie in the pool.
    fn value(&mut self, read: &mut dyn ReadRaw, of: TypeId, at: PoolOffset, path: &Path<'_>) {
        let types = self.types;
        if !types.get(of).is_walked {
            return;
        }
        if self.level >= LEVELS {
            self.waiting.push((of, at, path.to_string()));
            return;
        }
        self.level += 1;
        match &types.get(of).form {
            Form::Plain => {}
            Form::Pattern(pattern) => {
                let mut bytes = [0; PATTERN_BYTES_MAX];
                let bytes = &mut bytes[..types.get(of).bytes as usize];
                if !read.read(at, bytes) || !pattern.has(bytes) {
                    self.damaged(at, &format!("no value of `{}`", pattern.name), path);
                }
            }
            Form::Array { item, len } => self.items(read, *item, at, 0..*len, path),
            Form::Struct { fields } => {
                for field in fields.iter().filter(|field| types.get(field.of).is_walked) {
                    let path = path.then(Step::Name(&field.name));
                    self.value(read, field.of, at.plus(field.at), &path);
                }
            }
            Form::Handle { to, is_optional } => self.handle(read, *to, *is_optional, at, path),
        }
        self.level -= 1;
    }

    /// Follows items that lie one behind the other, the first of these numbers at `at`.
    fn items(
        &mut self,
        read: &mut dyn ReadRaw,
        of: TypeId,
        at: PoolOffset,
        numbers: std::ops::Range<u64>,
        path: &Path<'_>,
    ) {
        let bytes = self.types.get(of).bytes;
        let first = numbers.start;
        for number in numbers {
            let path = path.then(Step::Number(number.into()));
            self.value(read, of, at.plus((number - first) * bytes), &path);
        }
    }

    fn handle(
        &mut self,
        read: &mut dyn ReadRaw,
        to: Target,
        is_optional: bool,
        slot: PoolOffset,
        path: &Path<'_>,
    ) {
        let at = PoolOffset(word_at(read, slot).unwrap_or(0));
        if at.0 == 0 {
            if !is_optional && !matches!(to, Target::Pointer(_)) {
                self.damaged(slot, "a handle that leads nowhere", path);
            }
            return;
        }
        if let Some(slots) = &mut self.slots
            && !slots.insert(slot.0)
        {
            return;
        }
        match to {
            Target::Pointer(of) => {
                if self.known.insert((of, at.0)) {
                    self.pointers.push((of, at));
                }
            }
            Target::Box(of) => {
                let bytes = self.types.get(of).bytes.max(1);
                if self.visit.owned(at, bytes, path) {
                    self.value(read, of, at, path);
                }
            }
            Target::Vector(of) => self.vector(read, of, at, path),
            Target::Queue(of) => self.queue(read, of, at, path),
            Target::Text => self.bytes(read, at, true, path),
            Target::Bytes => self.bytes(read, at, false, path),
            Target::Map { structure, key, value } => {
                self.map(read, (structure, key, value), at, path);
            }
        }
    }

    /// The header block of a collection, `N` bytes that begin with `magic`.
    fn header<const N: usize>(
        &mut self,
        read: &mut dyn ReadRaw,
        at: PoolOffset,
        magic: u64,
        path: &Path<'_>,
    ) -> Option<[u8; N]> {
        let mut header = [0; N];
        if !self.visit.owned(at, N as u64, path) {
            return None;
        }
        if !read.read(at, &mut header) || word(&header, 0) != magic {
            self.damaged(at, "a header of another structure", path);
            return None;
        }
        Some(header)
    }

    fn vector(&mut self, read: &mut dyn ReadRaw, of: TypeId, at: PoolOffset, path: &Path<'_>) {
        let header = self.header::<VEC_HEADER_BYTES>(read, at, VEC_MAGIC, path);
        let Some(header) = header else { return };
        let item_bytes = self.types.get(of).bytes;
        let len = word(&header, VEC_LEN_AT);
        let segments = match usize::try_from(item_bytes) {
            Ok(bytes @ 1..) => Segments::of(bytes),
            _ => return self.damaged(at, "a vector of items without bytes", path),
        };
        if segments.needed(len) > VEC_SEGMENTS {
            return self.damaged(at, "a vector longer than any", path);
        }
        let mut first = 0;
        let of_segments = path.then(Step::Name("segment"));
        for number in 0..VEC_SEGMENTS {
            let items = segments.items(number);
            let segment = PoolOffset(word(&header, VEC_SEGMENTS_AT + 8 * number));
            let path_of = of_segments.then(Step::Number(number as i128));
            let bytes = items.saturating_mul(item_bytes);
            let is_there = segment.0 != 0 && self.visit.owned(segment, bytes, &path_of);
            if segment.0 == 0 && first < len {
                self.damaged(at, "a vector with fewer segments than its items need", path);
            }
            let end = first.saturating_add(items);
            if is_there && first < len && self.types.get(of).is_walked {
                self.items(read, of, segment, first..end.min(len), path);
            }
            first = end;
        }
    }

    fn queue(&mut self, read: &mut dyn ReadRaw, of: TypeId, at: PoolOffset, path: &Path<'_>) {
        let header = self.header::<QUEUE_HEADER_BYTES>(read, at, QUEUE_MAGIC, path);
        let Some(header) = header else { return };
        let item_bytes = self.types.get(of).bytes;
        let (pushed, popped) = (word(&header, QUEUE_PUSHED_AT), word(&header, QUEUE_POPPED_AT));
        if popped > pushed || item_bytes == 0 {
            return self.damaged(at, "a queue that has lost more items than it had", path);
        }
        let behind_link = QUEUE_SEGMENT_BYTES as u64 - QUEUE_ITEMS_AT;
        let items = (behind_link / item_bytes).max(1);
        let mut segment = PoolOffset(word(&header, QUEUE_FIRST_AT));
        let mut next = popped;
        let of_segments = path.then(Step::Name("segment"));
        while segment.0 != 0 {
            if !self.visit.owned(segment, QUEUE_ITEMS_AT + items * item_bytes, &of_segments) {
                return;
            }
            let end = (next / items + 1).saturating_mul(items).min(pushed);
            let first_at = segment.plus(QUEUE_ITEMS_AT + next % items * item_bytes);
            if self.types.get(of).is_walked {
                self.items(read, of, first_at, next..end, path);
            }
            next = end;
            segment = PoolOffset(word_at(read, segment).unwrap_or(0));
        }
        if next < pushed {
            self.damaged(at, "a queue with fewer segments than its items need", path);
        }
    }

    fn bytes(&mut self, read: &mut dyn ReadRaw, at: PoolOffset, is_text: bool, path: &Path<'_>) {
        let header = self.header::<BYTES_HEADER_BYTES>(read, at, BYTES_MAGIC, path);
        let Some(header) = header else { return };
        let (len, block) = (word(&header, BYTES_LEN_AT), PoolOffset(word(&header, BYTES_BLOCK_AT)));
        let (content, capacity) = match block.0 {
            0 => (at.plus(BYTES_INLINE_AT as u64), BYTES_INLINE_MAX as u64),
            _ => (block, word(&header, BYTES_CAPACITY_AT)),
        };
        if block.0 != 0 && !self.visit.owned(block, capacity, &path.then(Step::Name("bytes"))) {
            return;
        }
        if len > capacity {
            return self.damaged(at, "bytes that their block has no room for", path);
        }
        if is_text && len > 0 {
            let text = load_vec(read, content, len);
            if text.is_none_or(|text| std::str::from_utf8(&text).is_err()) {
                self.damaged(at, "text that is no UTF-8", path);
            }
        }
    }

    fn map(
        &mut self,
        read: &mut dyn ReadRaw,
        (structure, kind, value): (Structure, Key, TypeId),
        at: PoolOffset,
        path: &Path<'_>,
    ) {
        if !self.maps.insert(at.0) {
            self.visit.owned(at, 1, path);
            return;
        }
        let mut raw = |at: PoolOffset, out: &mut [u8]| read.read(at, out);
        let tracer = RefCell::new(self);
        macro_rules! walk {
            ($structure:ident) => {
                $structure::walk(
                    at,
                    &mut raw,
                    |at, bytes| {
                        tracer.borrow_mut().visit.owned(at, bytes, path);
                    },
                    |read, key, range| {
                        tracer.borrow_mut().entry(read, (kind, key), (value, range), path);
                        Ok(())
                    },
                )
            };
        }
        let walked = match structure {
            Structure::Hash => walk!(ByteMap),
            Structure::Ordered => walk!(ByteTree),
            Structure::RedBlack => walk!(RbTree),
        };
        if let Err(damage) = walked {
            tracer.borrow_mut().damaged(damage.at, damage.what, path);
        }
    }

    fn entry(
        &mut self,
        read: &mut dyn ReadRaw,
        (kind, key): (Key, &[u8]),
        (of, value): (TypeId, ByteRange),
        path: &Path<'_>,
    ) {
        let step = kind.number(key).map_or(Step::Key(key), Step::Number);
        let path = path.then(step);
        if !kind.has(key) {
            self.damaged(value.at, "a value whose key is not of its type", &path);
        }
        if value.len != self.types.get(of).bytes {
            return self.damaged(value.at, "a value of another size than its type", &path);
        }
        self.value(read, of, value.at, &path);
    }
}
