//! A vCPU: which access it expects next, and the events that say what was otherwise.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::link::{Chunk, Link};
use crate::pages::{self, PAGE};
use crate::qemu::{self, Rights};
use crate::slot::{END, Found, OPEN, Slot};
use crate::words::{
    BESIDE, BLOCKS_AT, BLOCKS_MAX, FAR, INLINE, INLINE_AT, KIND_AT, LOW, ONCE, SIZE_AT, SLOT_AT,
    SLOTS_MAX, STORES, VALUE, is_short, kind,
};
use crate::{
    ACCESS_BLOCK_AT, BASE, BLOCKS_MAX as BLOCKS_KNOWN, COUNT_AT, CPUS, Call, HANDLER_BLOCKS,
    HAS_HANDLERS, HAS_LATE_HANDLERS, HAS_THREADS, INSN_AT, IS_ON, KEY_BITS, LEFT, PLACES, SIZE_BIT,
    STORE_BIT, VCPUS, before_window, give_up, handler_begins, hold_still, shared, window_closes,
};

/// Words that a callback may write before it looks for room again.
const ROOM: usize = 8;

/// Instructions that a vCPU runs before it looks for the end of the window. With threads, each looks
/// at every block.
const STINT: i64 = 1 << 14;

/// Blocks as expected that no event has reported, at most, where it looks for the window's end. A
/// process that is killed loses them.
const SILENT_BLOCKS_MAX: u32 = 1 << 10;

/// The slots of a path, between one that has the address before its first and one that ends it.
struct Path {
    block: u32,
    slots: Vec<Slot>,
}

/// What the callbacks of one thread need.
pub struct Vcpu {
    /// The slot of the next access.
    pos: *mut Slot,
    cursor: *mut u64,
    limit: *mut u64,
    /// Blocks that began as expected since the last event.
    blocks: u32,
    /// Instructions left before it looks at the window.
    pub left: i64,
    /// What was taken from the window for that.
    taken: i64,
    /// For each block the second slot of its path, null where it has none.
    begins: Vec<*mut Slot>,
    paths: Vec<Path>,
    /// Before the first block: nothing is expected. `pos` points into it.
    _nothing: Box<[Slot; 2]>,
    chunk: Option<Chunk>,
    pub number: u32,
    /// The thread, whose number no other one of its process ever has.
    thread: u32,
    /// Places that were given out when a block of it began last.
    seen: u64,
    pub call: Option<Call>,
    /// Where a zero is written when the thread ends.
    pub clears: u64,
}

impl Vcpu {
    /// Instructions that it has run and that are not yet taken from the window's.
    pub fn uncounted(&self) -> i64 {
        self.taken - self.left
    }

    pub fn new(number: u32, thread: u32) -> Self {
        let mut nothing = Box::new([Slot::new(END, u32::MAX, 0, 8); 2]);
        Self {
            pos: &raw mut nothing[1],
            cursor: std::ptr::null_mut(),
            limit: std::ptr::null_mut(),
            blocks: 0,
            left: 0,
            taken: 0,
            begins: Vec::new(),
            paths: Vec::new(),
            _nothing: nothing,
            chunk: None,
            number,
            thread,
            seen: 0,
            call: None,
            clears: 0,
        }
    }

    #[inline(always)]
    pub fn of<'a>(number: c_uint) -> &'a mut Self {
        let vcpu = CPUS[number as usize % VCPUS].load(Ordering::Relaxed);
        // SAFETY: it was leaked before the vCPU ran, and only its own thread asks for it, or another
        // one while this holds still.
        unsafe { &mut *vcpu }
    }

    #[inline(always)]
    fn slot(&mut self) -> &mut Slot {
        // SAFETY: it points into a path, or to `nothing`, which live as long as the vCPU.
        unsafe { &mut *self.pos }
    }

    /// The slot before the present one.
    #[inline(always)]
    fn before(&mut self) -> &mut Slot {
        // SAFETY: a path begins with a slot that is never the present one; so does `nothing`.
        unsafe { &mut *self.pos.sub(1) }
    }

    /// Whether the present path is one of this block.
    #[inline(always)]
    fn is_in(&mut self, block: u32) -> bool {
        let Slot { path, index, .. } = *self.slot();
        // SAFETY: the slot before a path's first lies one place further than its index says.
        path != u32::MAX && unsafe { (*self.pos.sub(usize::from(index) + 1)).block() } == block
    }

    /// Writes a word `behind` words after the next one.
    #[inline(always)]
    fn put(&mut self, behind: usize, word: u64) {
        // SAFETY: the caller has made room.
        unsafe { self.cursor.add(behind).write_volatile(word) };
    }

    /// Ends an event of `words` words. Its first word is written last, after a zero behind the
    /// event: the driver of a process that is killed finds whole events.
    #[inline(always)]
    fn end_event(&mut self, head: u64, words: usize) {
        self.put(words, 0);
        self.put(0, head);
        self.cursor = self.cursor.wrapping_add(words);
    }

    /// Makes room for `words` words.
    #[inline(always)]
    fn room(&mut self, words: usize) {
        if self.cursor.wrapping_add(words) >= self.limit {
            self.next_chunk();
        }
    }

    #[cold]
    #[inline(never)]
    pub fn next_chunk(&mut self) {
        let mut shared = shared();
        let Some(shared) = shared.as_mut() else { give_up("it is not connected") };
        self.change_chunk(&mut shared.link);
    }

    pub fn change_chunk(&mut self, link: &mut Link) {
        self.hand_over(link);
        match link.take(self.thread) {
            Ok(chunk) => {
                self.cursor = chunk.begin;
                // SAFETY: a chunk has more words than that.
                self.limit = unsafe { chunk.end.sub(ROOM) };
                self.chunk = Some(chunk);
            }
            Err(error) => give_up(&error.to_string()),
        }
    }

    /// Hands over what was recorded, and takes no other chunk yet.
    pub fn hand_over(&mut self, link: &mut Link) {
        if let Some(chunk) = self.chunk.take() {
            if let Err(error) = link.hand_over(chunk, self.cursor) {
                give_up(&error.to_string());
            }
            (self.cursor, self.limit) = (std::ptr::null_mut(), std::ptr::null_mut());
        }
    }

    pub fn has_chunk(&self) -> bool {
        self.chunk.is_some()
    }

    /// The first word of an event that stands here.
    #[inline(always)]
    fn head(&mut self, kind: u64, low: u64) -> u64 {
        let blocks = std::mem::take(&mut self.blocks);
        let index = u64::from(self.slot().index);
        kind << KIND_AT | index << SLOT_AT | u64::from(blocks) << BLOCKS_AT | low & LOW
    }

    /// Appends an event of a few words.
    pub fn event(&mut self, kind: u64, low: u64, words: &[u64]) {
        self.event_with(kind, low, words, &[]);
    }

    /// Appends an event of some words and bytes.
    pub fn event_with(&mut self, kind: u64, low: u64, words: &[u64], bytes: &[u8]) {
        self.room(words.len() + bytes.len().div_ceil(8) + 1);
        let head = self.head(kind, low);
        for (number, word) in words.iter().enumerate() {
            self.put(1 + number, *word);
        }
        let mut behind = 1 + words.len();
        for word in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            self.put(behind, u64::from_le_bytes(eight));
            behind += 1;
        }
        self.end_event(head, behind);
        self.room(0);
    }

    /// Appends an event where there may be no other chunk any more.
    pub fn last_event(&mut self, kind: u64, low: u64) {
        let head = self.head(kind, low);
        self.end_event(head, 1);
    }

    /// A place in the order of all threads, if there are others.
    #[inline(always)]
    pub fn place(&mut self) {
        if HAS_THREADS.load(Ordering::Relaxed) {
            let place = PLACES.fetch_add(1, Ordering::SeqCst);
            self.event(kind::PLACE, 0, &[place]);
        }
    }

    /// Reports what a page holds before its first touch. Whether the page can be read.
    #[cold]
    #[inline(never)]
    pub fn touch(&mut self, page: u64, changed: Option<(usize, usize)>) -> bool {
        if pages::is_touched(page) {
            return true;
        }
        // The chunk is changed under no lock.
        self.room(PAGE as usize / 8 + ROOM);
        let base = BASE.load(Ordering::Relaxed);
        pages::touch(page, base, changed, |bytes| {
            self.event_with(kind::PAGE, 0, &[page], bytes);
        })
    }

    /// Reports what a range holds now as written by the system, as far as it is the guest's.
    pub fn system_wrote(&mut self, at: u64, len: u64, only_touched: bool) {
        let base = BASE.load(Ordering::Relaxed);
        for page in pages::pages(at, len) {
            let from = at.max(page * PAGE) - page * PAGE;
            let to = at.saturating_add(len).min((page + 1) * PAGE) - page * PAGE;
            if only_touched && !pages::is_touched(page)
                || qemu::rights(page * PAGE) == Rights::None
                || !self.touch(page, None)
            {
                continue;
            }
            self.place();
            let Some(bytes) = pages::read(page, base) else { continue };
            let bytes = &bytes[from as usize..to as usize];
            self.event_with(kind::SYSTEM_WRITE, 0, &[page * PAGE + from, to - from], bytes);
        }
    }

    /// The block ends before its path does, or its new path is whole now.
    #[cold]
    #[inline(never)]
    fn ends_early(&mut self) {
        let Slot { key, path, .. } = *self.slot();
        if key == OPEN {
            self.slot().key = END;
            self.make_default(path);
        } else {
            self.event(kind::SHORT, 0, &[]);
        }
    }

    fn make_default(&mut self, path: u32) {
        let path = &mut self.paths[path as usize];
        self.begins[path.block as usize] = &raw mut path.slots[1];
    }

    /// A block has no path yet: begins one, which grows with its accesses.
    #[cold]
    #[inline(never)]
    fn new_path(&mut self, block: u32, same: &[Slot]) -> *mut Slot {
        let number = self.paths.len() as u32;
        let mut slots = Vec::with_capacity(same.len() + 8);
        slots.push(Slot::first(number, block));
        slots.extend(same.iter().map(|same| same.on(number)));
        let index = same.len();
        slots.push(Slot::new(OPEN, number, index as u16, 8));
        self.paths.push(Path { block, slots });
        let path = self.paths.last_mut().expect("one was pushed");
        &raw mut path.slots[index + 1]
    }

    /// An access that the path does not have here: it grows, or another path of the block has it.
    #[cold]
    #[inline(never)]
    fn deviates(&mut self, key: u32, info: u32, data: u64) -> bool {
        let present = *self.slot();
        if present.path == u32::MAX || present.index as usize >= SLOTS_MAX {
            return false;
        }
        if present.key != OPEN {
            self.switch(present, key);
        }
        if self.slot().key == OPEN {
            let size = info >> SIZE_BIT.load(Ordering::Relaxed) & 7;
            let is_store = info & STORE_BIT.load(Ordering::Relaxed) != 0;
            let stores = if is_store { STORES } else { 0 };
            let insn = u64::from(data as u32 >> INSN_AT);
            let low = insn | stores | u64::from(size) << SIZE_AT;
            self.event(kind::APPEND, low, &[]);
            let path = self.slot().path;
            let slots = &mut self.paths[path as usize].slots;
            let last = slots.len() - 1;
            slots[last] = Slot::new(key, path, (last - 1) as u16, 1 << size);
            slots.push(Slot::new(OPEN, path, last as u16, 8));
            self.pos = &raw mut slots[last];
        }
        true
    }

    /// Goes over to the path of the present block that has this access here, or to a new one.
    fn switch(&mut self, present: Slot, key: u32) {
        let index = present.index as usize;
        let Path { block, slots } = &self.paths[present.path as usize];
        let (block, same) = (*block, slots[1..=index].to_vec());
        let is_same = |path: &Path| {
            path.block == block
                && path.slots.len() > index + 2
                && path.slots[index + 1].key == key
                && path.slots[1..=index].iter().zip(&same).all(|(a, b)| a.key == b.key)
        };
        let before = self.before().at;
        match self.paths.iter().position(is_same) {
            Some(number) => {
                self.event(kind::SWITCH, number as u64 + 1, &[]);
                self.pos = &raw mut self.paths[number].slots[index + 1];
                self.make_default(number as u32);
            }
            None => {
                self.event(kind::SWITCH, 0, &[]);
                self.pos = self.new_path(block, &same);
            }
        }
        self.before().at = before;
    }
}

/// An access of the guest.
pub extern "C" fn accessed(number: c_uint, info: u32, at: u64, data: *mut c_void) {
    let vcpu = Vcpu::of(number);
    let key = info & KEY_BITS.load(Ordering::Relaxed) | data as u32;
    let pos = vcpu.pos;
    let slot = vcpu.slot();
    let is_expected = slot.key == key && at == slot.expected();
    let stays = at ^ slot.at < PAGE && at % PAGE + u64::from(slot.len) <= PAGE;
    if is_expected && stays {
        if info & STORE_BIT.load(Ordering::Relaxed) == 0 {
            slot.at = at;
            vcpu.pos = pos.wrapping_add(1);
            return;
        }
        if !HAS_THREADS.load(Ordering::Relaxed) {
            // SAFETY: the guest has just stored there.
            let value = unsafe { stored(at.wrapping_add(BASE.load(Ordering::Relaxed)), slot.len) };
            if value == slot.expected_value() {
                slot.at = at;
                slot.stores(value);
                vcpu.pos = pos.wrapping_add(1);
                return;
            }
        }
    }
    accessed_otherwise(vcpu, info, at, data as u64);
}

/// An access that is not as expected in all.
#[inline(never)]
fn accessed_otherwise(vcpu: &mut Vcpu, info: u32, at: u64, data: u64) {
    // QEMU leaves the callbacks of an instruction in force that an exception ended, and calls them for
    // the bytes of a signal's frame. These are the system's, and recorded where the handler begins.
    if !vcpu.is_in((data >> ACCESS_BLOCK_AT) as u32) {
        return;
    }
    let key = info & KEY_BITS.load(Ordering::Relaxed) | data as u32;
    if vcpu.slot().key != key && (!IS_ON.load(Ordering::Relaxed) || !vcpu.deviates(key, info, data))
    {
        return;
    }
    let slot = vcpu.slot();
    if at ^ slot.at >= PAGE || at % PAGE + u64::from(slot.len) > PAGE {
        touches(vcpu, at, info);
    }
    let is_store = info & STORE_BIT.load(Ordering::Relaxed) != 0;
    if is_store {
        vcpu.place();
    }
    let slot = vcpu.slot();
    let found = if at == slot.expected() {
        slot.at = at;
        Found::Expected
    } else {
        let before = vcpu.before().at;
        vcpu.slot().moved(at, before)
    };
    let mut step = None;
    if is_store {
        let slot = vcpu.slot();
        // SAFETY: the guest has just stored there.
        let value = unsafe { stored(at.wrapping_add(BASE.load(Ordering::Relaxed)), slot.len) };
        step = slot.stores(value);
    }
    if found != Found::Expected || step.is_some() {
        unexpected(vcpu, found, step);
    }
    vcpu.pos = vcpu.pos.wrapping_add(1);
}

/// Writes what was not expected of an access.
#[inline(always)]
fn unexpected(vcpu: &mut Vcpu, found: Found, step: Option<i64>) {
    let mut low = if step.is_some() { VALUE } else { 0 };
    let mut first = step;
    match found {
        Found::Expected => {}
        Found::Beside => low |= BESIDE,
        Found::Far(step) => {
            low |= FAR;
            first = Some(step as i64);
        }
    }
    let is_inline = first.is_some_and(is_short);
    if let Some(first) = first.filter(|_| is_inline) {
        low |= INLINE | (first as u64 & 0xff_ffff) << INLINE_AT;
    }
    let head = vcpu.head(kind::ACCESS, low);
    let mut words = 1;
    if let Some(first) = first.filter(|_| !is_inline) {
        vcpu.put(words, first as u64);
        words += 1;
    }
    if let (Found::Far(_), Some(step)) = (found, step) {
        vcpu.put(words, step as u64);
        words += 1;
    }
    vcpu.end_event(head, words);
    vcpu.room(0);
}

/// An access that leaves the page of the one before, or crosses pages.
#[inline(never)]
fn touches(vcpu: &mut Vcpu, at: u64, info: u32) {
    let len = u64::from(vcpu.slot().len);
    for page in pages::pages(at, len) {
        if !pages::is_touched(page) {
            let from = at.max(page * PAGE);
            let to = (at + len).min((page + 1) * PAGE);
            let is_store = info & STORE_BIT.load(Ordering::Relaxed) != 0;
            let changed = is_store.then(|| ((from % PAGE) as usize, (to - from) as usize));
            vcpu.touch(page, changed);
        }
    }
}

/// The bytes at a place of the host's memory, at most eight.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn stored(at: u64, len: u8) -> u64 {
    // SAFETY: the caller says so.
    unsafe {
        match len {
            1 => (at as *const u8).read_volatile().into(),
            2 => (at as *const u16).read_unaligned().into(),
            4 => (at as *const u32).read_unaligned().into(),
            _ => (at as *const u64).read_unaligned(),
        }
    }
}

/// A block of the guest begins.
pub extern "C" fn block_begins(number: c_uint, data: *mut c_void) {
    let vcpu = Vcpu::of(number);
    let (data, pos) = (data as u64, vcpu.pos);
    vcpu.left -= (data >> COUNT_AT & 0x3ff) as i64;
    let end = vcpu.slot();
    let next = end.next() as *mut Slot;
    // The slot behind a path's last has the address of the next path's first.
    if end.key == END && !next.is_null() && vcpu.left >= 0 && vcpu.blocks < BLOCKS_MAX {
        // SAFETY: it is a path's second slot; its first one names the block.
        let first = unsafe { &mut *next.sub(1) };
        let is_expected = first.block() == data as u32;
        if is_expected && !(HAS_LATE_HANDLERS.load(Ordering::Relaxed) && is_handler(data as u32)) {
            // SAFETY: as in `before`.
            first.at = unsafe { (*pos.sub(1)).at };
            vcpu.blocks += 1;
            vcpu.pos = next;
            return;
        }
    }
    block_begins_otherwise(number, data);
}

/// A block that is not the one expected, or one at which there is more to be done.
#[inline(never)]
fn block_begins_otherwise(number: c_uint, data: u64) {
    if Vcpu::of(number).left < 0 && !looks_around(number, data) {
        return;
    }
    let vcpu = Vcpu::of(number);
    let is_whole = vcpu.slot().key == END;
    if !is_whole {
        vcpu.ends_early();
    }
    if vcpu.blocks >= BLOCKS_MAX {
        vcpu.event(kind::SKIP, 0, &[]);
    }
    let block = data as u32;
    let before = vcpu.before().at;
    if vcpu.begins.len() <= block as usize {
        vcpu.begins.resize(block as usize + 1024, std::ptr::null_mut());
    }
    let begin = vcpu.begins[block as usize];
    let next = vcpu.slot().next() as *mut Slot;
    let is_handler = is_handler(block);
    // SAFETY: as in `block_begins`.
    let is_expected = is_whole && !next.is_null() && unsafe { (*next.sub(1)).block() } == block;
    if is_expected && !is_handler {
        vcpu.blocks += 1;
        vcpu.pos = next;
    } else {
        // A handler is never expected: its begin must not be missed.
        let once = if is_handler { ONCE } else { 0 };
        vcpu.event(kind::BLOCK, u64::from(block) | once, &[]);
        if is_whole && !begin.is_null() && !is_handler {
            vcpu.slot().follows(begin as u64);
        }
        vcpu.pos = if begin.is_null() { vcpu.new_path(block, &[]) } else { begin };
    }
    vcpu.before().at = before;
    if is_handler {
        handler_begins(number, vcpu);
    }
}

/// Whether a signal's handler begins with this block.
fn is_handler(block: u32) -> bool {
    let at = block as usize;
    HAS_HANDLERS.load(Ordering::Relaxed)
        && at < BLOCKS_KNOWN
        && HANDLER_BLOCKS[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1 == 1
}

/// Whether the block is recorded: looks for the window's begin and end, and at other threads.
#[cold]
#[inline(never)]
fn looks_around(number: c_uint, data: u64) -> bool {
    if !IS_ON.load(Ordering::Relaxed) {
        Vcpu::of(number).left = 0;
        before_window(number, data);
        return false;
    }
    let vcpu = Vcpu::of(number);
    if HAS_THREADS.load(Ordering::Relaxed) {
        hold_still(number);
        let seen = PLACES.load(Ordering::SeqCst);
        if seen != vcpu.seen {
            vcpu.seen = seen;
            vcpu.event(kind::SEEN, 0, &[seen]);
        }
    }
    if vcpu.blocks >= SILENT_BLOCKS_MAX {
        vcpu.event(kind::SKIP, 0, &[]);
    }
    let ran = vcpu.uncounted();
    let stint = if HAS_THREADS.load(Ordering::Relaxed) { 0 } else { STINT };
    let left = LEFT.fetch_sub(ran, Ordering::Relaxed) - ran;
    if left <= 0 {
        window_closes(number);
    }
    vcpu.taken = stint.min(left);
    vcpu.left = vcpu.taken;
    true
}
