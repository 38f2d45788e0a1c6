//! Traces of real programs as instructions: a thread on each core, its stores with their bytes.

use std::ops::Range;
use std::sync::Arc;

use outlast_trace::{
    Access, Execution, Happening, PAGE_BYTES, PoolOffset, Program, ProgramError, Site, SiteKind,
    Thread, ThreadOrder, TxId, TxMark, is_output, order_of_threads, tx_mark, word_pieces,
};
use rustc_hash::FxHashMap;

use super::instr::{Batch, Instr, InstrKind, Mark, Source, SourceError};
use crate::cache::LineBytes;
use outlast_trace::LineAddr;

/// Instructions in a batch, about.
const BATCH: usize = 256;
const PAGE: u64 = PAGE_BYTES as u64;

/// Where a program is on a machine that runs several: no two have a page or a thread in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProgramPlace {
    /// The first page of memory that is its own.
    pub page: u64,
    /// The number of its first thread among those of all.
    pub thread: u16,
}

/// Where the pages of a program lie in the machine's memory: one behind the other, in the order in
/// which the program touched them.
#[derive(Debug)]
pub struct ProgramMemory {
    at: ProgramPlace,
    frames: FxHashMap<u64, u64>,
    base: Vec<u8>,
    order: Vec<ThreadOrder>,
    /// The instructions of all blocks, with the registers that are dependences, and where each block's
    /// begin.
    sites: Vec<Site>,
    blocks: Vec<u32>,
}

impl ProgramMemory {
    /// The memory of a program that has the machine to itself, with what it held before.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn of(program: &Program) -> Result<Self, ProgramError> {
        Self::placed(program, ProgramPlace::default())
    }

    /// The memory of a program among others.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn placed(program: &Program, at: ProgramPlace) -> Result<Self, ProgramError> {
        let pages = program.pages()?;
        let mut memory = Self {
            at,
            frames: FxHashMap::default(),
            base: Vec::with_capacity(pages.len() * PAGE_BYTES),
            order: order_of_threads(program)?,
            sites: Vec::new(),
            blocks: vec![0],
        };
        for block in 0..program.blocks() {
            memory.sites.extend(program.block(block).iter().map(dependent));
            memory.blocks.push(memory.sites.len() as u32);
        }
        for page in pages {
            if let std::collections::hash_map::Entry::Vacant(entry) =
                memory.frames.entry(page.number)
            {
                entry.insert(at.page + (memory.base.len() / PAGE_BYTES) as u64);
                memory.base.extend_from_slice(&page.bytes[..]);
            }
        }
        Ok(memory)
    }

    /// A block's instructions.
    #[inline]
    fn block(&self, block: u32) -> &[Site] {
        let [from, to] = [block, block + 1].map(|at| self.blocks[at as usize] as usize);
        &self.sites[from..to]
    }

    /// The place of a program behind this one.
    pub fn next_place(&self) -> ProgramPlace {
        let threads = self.order.len() as u16;
        ProgramPlace {
            page: self.at.page + self.lines() * 64 / PAGE,
            thread: self.at.thread + threads,
        }
    }

    /// The contents of memory before the program runs, from its first page on.
    pub fn base(&self) -> &[u8] {
        &self.base
    }

    /// The lines that the program has.
    pub fn lines(&self) -> u64 {
        (self.base.len() / 64) as u64
    }

    /// Where an address of the program lies; none in a page that it never touched.
    pub fn place(&self, at: u64) -> Option<u64> {
        self.frames.get(&(at / PAGE)).map(|frame| frame * PAGE + at % PAGE)
    }

    /// The pages whose bytes at the end are not what the trace says, by their addresses, and how many
    /// were compared. `line` reads the machine's memory.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn compare(
        &self,
        program: &Program,
        mut line: impl FnMut(LineAddr) -> LineBytes,
    ) -> Result<(Vec<u64>, u64), ProgramError> {
        let finals = program.final_pages()?;
        let mut wrong = Vec::new();
        for page in &finals {
            let is_same = |(number, bytes): (usize, &[u8; 64])| {
                let at = self.place(page.number * PAGE + 64 * number as u64);
                at.is_some_and(|at| line(LineAddr(at / 64)) == *bytes)
            };
            if !page.bytes.as_chunks().0.iter().enumerate().all(is_same) {
                wrong.push(page.number * PAGE);
            }
        }
        Ok((wrong, finals.len() as u64))
    }
}

/// The instructions of one thread.
///
/// An access is one instruction with its address, a store one for each word that it touches, so a
/// store of 16 bytes is two. Loads of an instruction that touch one line in a row are one load.
/// Registers are the instructions' own, so loads wait for those that give their addresses. Branches
/// have their direction. What the system writes are stores of whole words. String instructions store
/// word by word. A flush has no address in a trace and does nothing. System calls that write to something
/// outside are output, an epoch's mark; calls of [`MARK_CALL`](outlast_trace::MARK_CALL) mark transactions.
#[derive(Debug)]
pub struct ProgramSource {
    program: Arc<Program>,
    memory: Arc<ProgramMemory>,
    thread: Thread,
    number: u16,
    pages: Pages,
    /// Accesses so far, and how many waits and tells were passed.
    count: u64,
    waited: usize,
    told: usize,
    /// The conditional branch at the end of the block before: where it goes is known with the next.
    branch: Option<(Instr, u64)>,
    repeated: Repeated,
    /// Instructions of the program so far.
    instructions: u64,
    /// Whether it begins again at its end, and how often it has.
    goes_on: bool,
    rounds: u64,
}

/// Pages that are remembered.
const PAGES: usize = 4096;

/// Pages looked up last.
#[derive(Debug)]
struct Pages {
    last: Box<[(u64, u64); PAGES]>,
}

impl Pages {
    #[inline]
    fn place(&mut self, memory: &ProgramMemory, at: u64) -> Result<u64, SourceError> {
        let page = at / PAGE;
        let last = &mut self.last[page as usize % PAGES];
        if last.0 != page {
            let frame = memory.frames.get(&page).ok_or_else(|| {
                SourceError(format!("the trace touches {at:#x}, a page that it does not have"))
            })?;
            *last = (page, *frame);
        }
        Ok(last.1 * PAGE + at % PAGE)
    }
}

/// Pieces of a string instruction's work, up to the end of a word.
#[derive(Debug, Default)]
struct Repeated {
    instr: Option<Instr>,
    block: u32,
    load_end: u64,
    store_end: u64,
}

impl ProgramSource {
    /// The instructions of a thread.
    pub fn new(program: Arc<Program>, memory: Arc<ProgramMemory>, number: u16) -> Self {
        Self {
            thread: program.thread(number),
            program,
            memory,
            number,
            pages: Pages { last: Box::new([(u64::MAX, 0); PAGES]) },
            count: 0,
            waited: 0,
            told: 0,
            branch: None,
            repeated: Repeated::default(),
            instructions: 0,
            goes_on: false,
            rounds: 0,
        }
    }

    /// The instructions of a thread that begins again whenever it is at its end: the same stores to the
    /// same places, over what the rounds before have left.
    pub fn going_on(self) -> Self {
        Self { goes_on: true, ..self }
    }

    /// At the end of a round: whether another one begins. A thread without instructions has one only.
    fn begins_again(&mut self, is_empty: bool) -> bool {
        if !self.goes_on || is_empty && self.count == 0 {
            return false;
        }
        self.thread = self.program.thread(self.number);
        (self.count, self.waited, self.told) = (0, 0, 0);
        self.rounds += 1;
        true
    }
}

/// The state of [`ProgramSource::fill`] besides the thread, which is borrowed by its events.
struct Filling<'a> {
    batch: &'a mut Batch,
    memory: &'a ProgramMemory,
    order: &'a ThreadOrder,
    number: u16,
    rounds: u64,
    pages: &'a mut Pages,
    count: &'a mut u64,
    waited: &'a mut usize,
    told: &'a mut usize,
    branch: &'a mut Option<(Instr, u64)>,
    repeated: &'a mut Repeated,
}

impl Source for ProgramSource {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        while batch.instrs.len() < BATCH {
            let Self {
                thread,
                memory,
                number,
                pages,
                count,
                waited,
                told,
                branch,
                repeated,
                rounds,
                ..
            } = self;
            let order = &memory.order[usize::from(*number)];
            let number = *number;
            let mut filling = Filling {
                batch,
                memory,
                order,
                number,
                rounds: *rounds,
                pages,
                count,
                waited,
                told,
                branch,
                repeated,
            };
            match thread.next().map_err(|error| SourceError(error.to_string()))? {
                Some(Happening::Execution(execution)) => {
                    self.instructions += execution.insns.len() as u64;
                    filling.execution(&execution)?;
                }
                Some(Happening::SystemWrite { at, bytes }) => filling.system_write(at, bytes)?,
                Some(Happening::Call { number, .. }) if is_output(number) => {
                    filling.mark(Mark::Epoch);
                }
                Some(Happening::Call { number, arguments }) => match tx_mark(number, &arguments) {
                    Some(TxMark::Begin) => filling.mark(Mark::TxBegin),
                    Some(TxMark::End) => filling.mark(Mark::TxEnd),
                    Some(TxMark::Ack) => filling.mark(Mark::Ack(TxId(arguments[1]))),
                    None => {}
                },
                Some(_) => {}
                None => {
                    filling.branch_goes(None);
                    filling.repeated_ends();
                    let is_empty = batch.instrs.is_empty();
                    if !self.begins_again(is_empty) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn passed(&self) -> Option<u64> {
        Some(self.instructions)
    }
}

impl Filling<'_> {
    /// A block begins at this address: the branch before it was taken, or not.
    fn branch_goes(&mut self, to: Option<u64>) {
        if let Some((mut instr, next)) = self.branch.take() {
            instr.kind = InstrKind::Branch(to.is_some_and(|to| to != next));
            self.batch.instrs.push(instr);
        }
    }

    fn repeated_ends(&mut self) {
        self.batch.instrs.extend(self.repeated.instr.take());
    }

    fn execution(&mut self, execution: &Execution<'_>) -> Result<(), SourceError> {
        let sites = self.memory.block(execution.block);
        let from = usize::from(execution.insns.start);
        if let Some(first) = sites.get(from) {
            self.branch_goes(Some(first.at));
        }
        let is_repeated = sites.len() == 1 && sites[0].kind == SiteKind::Repeated;
        if is_repeated && self.order.waits.is_empty() && self.order.tells.is_empty() {
            return self.repeated(execution, &sites[0]);
        }
        self.repeated_ends();
        let to = usize::from(execution.insns.end).min(sites.len());
        if self.each_as_one(sites, from..to, execution.accesses)? {
            return Ok(());
        }
        let mut accesses = execution.accesses;
        for number in from..to.max(from + 1) {
            // Accesses behind the last instruction are what the system has caused.
            let number = number.min(sites.len() - 1);
            let is_last = number + 1 >= to;
            self.batch.instrs.push(plain(&sites[number]));
            let mut load_end = u64::MAX;
            while let Some((access, rest)) = accesses.split_first()
                && (is_last || usize::from(access.insn) <= number)
            {
                self.access(access, &sites[number], &mut load_end)?;
                accesses = rest;
            }
            if is_last {
                self.branch_ends(&sites[number]);
            }
        }
        Ok(())
    }

    /// Puts all instructions there at once, with their accesses, where each of them is one of the
    /// machine's and none waits for another thread; else it leaves things as they are. Returns whether it did.
    #[inline]
    fn each_as_one(
        &mut self,
        sites: &[Site],
        insns: Range<usize>,
        accesses: &[Access],
    ) -> Result<bool, SourceError> {
        if insns.is_empty() || !self.order.waits.is_empty() || !self.order.tells.is_empty() {
            return Ok(false);
        }
        let begin = self.batch.instrs.len();
        self.batch.instrs.extend(sites[insns.clone()].iter().map(plain));
        let instrs = &mut self.batch.instrs[begin..];
        let (mut present, mut load_end) = (0, u64::MAX);
        let mut is_one = true;
        for access in accesses {
            // Accesses behind the last instruction are what the system has caused.
            let number = usize::from(access.insn).min(insns.end - 1);
            if number != present {
                (present, load_end) = (number, u64::MAX);
            }
            let Some(instr) = number.checked_sub(insns.start).map(|number| &mut instrs[number])
            else {
                is_one = false;
                break;
            };
            let end = access.at + u64::from(access.len);
            let kind = sites[number].kind;
            if access.stores {
                let is_word = access.at % 8 + u64::from(access.len) <= 8;
                if instr.stores > 0 || !instr.takes_store() || !is_word {
                    is_one = false;
                    break;
                }
                instr.add_store(self.pages.place(self.memory, access.at)?);
                (instr.store_len, instr.value) = (access.len, access.value);
                instr.kind = kind_of_store(kind, access.len).unwrap_or(instr.kind);
            } else if kind != SiteKind::Locked {
                if load_end != access.at || access.at.is_multiple_of(64) {
                    if !instr.takes_load() {
                        is_one = false;
                        break;
                    }
                    instr.add_load(self.pages.place(self.memory, access.at)?);
                }
                if (end - 1) / 64 != access.at / 64 {
                    is_one = false;
                    break;
                }
                load_end = end;
            }
        }
        if !is_one {
            self.batch.instrs.truncate(begin);
            return Ok(false);
        }
        *self.count += accesses.len() as u64;
        self.branch_ends(&sites[insns.end - 1]);
        Ok(true)
    }

    /// The instruction that was put there last is a block's last. Where it is a conditional branch, the
    /// next block tells where it goes.
    #[inline]
    fn branch_ends(&mut self, site: &Site) {
        if site.kind == SiteKind::Conditional {
            let next = site.at + u64::from(site.len);
            *self.branch = self.batch.instrs.pop().map(|instr| (instr, next));
        }
    }

    /// An access of the instruction that was put there last.
    #[inline]
    fn access(
        &mut self,
        access: &Access,
        site: &Site,
        load_end: &mut u64,
    ) -> Result<(), SourceError> {
        let is_ordered = !self.order.waits.is_empty() || !self.order.tells.is_empty();
        if is_ordered {
            self.waits(site);
        }
        let end = access.at + u64::from(access.len);
        if access.stores {
            let bytes = access.value.to_le_bytes();
            if access.at % 8 + u64::from(access.len) <= 8 {
                self.store(site, access.at, access.len, access.value)?;
            } else {
                for (at, len, value) in pieces(access.at, &bytes[..usize::from(access.len)]) {
                    self.store(site, at, len, value)?;
                }
            }
        } else if site.kind != SiteKind::Locked {
            if *load_end != access.at || access.at.is_multiple_of(64) {
                self.load(site, access.at)?;
            }
            if (end - 1) / 64 != access.at / 64 {
                self.load(site, end / 64 * 64)?;
            }
            *load_end = end;
        }
        *self.count += 1;
        if is_ordered {
            self.tells();
        }
        Ok(())
    }

    /// The instruction that was put there last; another one in its place where that is a mark.
    #[inline]
    fn present(&mut self, site: &Site) -> &mut Instr {
        let is_mark = |instr: &Instr| instr.kind == InstrKind::Mark;
        if self.batch.instrs.last().is_none_or(is_mark) {
            self.goes_on(site);
        }
        self.batch.instrs.last_mut().expect("one was put there")
    }

    /// The present instruction goes on as another one.
    fn goes_on(&mut self, site: &Site) {
        self.batch.instrs.push(Instr { pc: site.at, store_len: 8, ..Instr::default() });
    }

    /// Waits of the next access stand before its instruction.
    fn waits(&mut self, site: &Site) {
        while let Some((number, id, count)) = self.order.waits.get(*self.waited)
            && number == self.count
        {
            let present = *self.present(site);
            let is_new = present.loads + present.stores == 0;
            if is_new {
                self.batch.instrs.pop();
            }
            let told = self.memory.order[usize::from(*id)].tells.len() as u64;
            let id = u64::from(self.memory.at.thread + *id);
            let mark = Mark::Wait { id, count: self.rounds * told + *count };
            self.batch.push_mark(mark);
            if is_new {
                self.batch.instrs.push(present);
            }
            *self.waited += 1;
        }
    }

    /// Progress up to now is told, if others wait for it.
    fn tells(&mut self) {
        if self.order.tells.get(*self.told).is_some_and(|number| number + 1 == *self.count) {
            *self.told += 1;
            let id = u64::from(self.memory.at.thread + self.number);
            let count = self.rounds * self.order.tells.len() as u64 + *self.told as u64;
            let mark = Mark::Signal { id, count };
            self.batch.push_mark(mark);
        }
    }

    #[inline]
    fn load(&mut self, site: &Site, at: u64) -> Result<(), SourceError> {
        let place = self.pages.place(self.memory, at)?;
        let present = self.present(site);
        if !present.takes_load() {
            self.goes_on(site);
        }
        self.present(site).add_load(place);
        Ok(())
    }

    #[inline]
    fn store(&mut self, site: &Site, at: u64, len: u8, value: u64) -> Result<(), SourceError> {
        let place = self.pages.place(self.memory, at)?;
        let present = self.present(site);
        if present.stores > 0 || !present.takes_store() {
            self.goes_on(site);
        }
        let present = self.present(site);
        present.add_store(place);
        (present.store_len, present.value) = (len, value);
        present.kind = kind_of_store(site.kind, len).unwrap_or(present.kind);
        Ok(())
    }

    /// The program gives something away, or marks something.
    fn mark(&mut self, mark: Mark) {
        self.branch_goes(None);
        self.repeated_ends();
        self.batch.push_mark(mark);
    }

    fn system_write(&mut self, at: u64, bytes: &[u8]) -> Result<(), SourceError> {
        self.branch_goes(None);
        self.repeated_ends();
        let site = Site::default();
        self.batch.instrs.push(Instr::work());
        self.waits(&site);
        for (at, len, value) in pieces(at, bytes) {
            let place = self.pages.place(self.memory, at)?;
            self.batch.instrs.push(Instr { store_len: len, ..Instr::store(place, value) });
        }
        *self.count += 1;
        self.tells();
        Ok(())
    }

    /// One step of a string instruction: it goes on with the step before where both are of one word.
    fn repeated(&mut self, execution: &Execution<'_>, site: &Site) -> Result<(), SourceError> {
        if execution.accesses.is_empty() {
            self.repeated_ends();
            return Ok(());
        }
        *self.count += execution.accesses.len() as u64;
        let load = execution.accesses.iter().find(|access| !access.stores);
        let store = execution.accesses.iter().find(|access| access.stores);
        let stores = execution.accesses.iter().filter(|access| access.stores).count();
        if stores > 1 || execution.accesses.len() - stores > 1 {
            return self.apart(execution, site);
        }
        let goes_on = |end: u64, access: Option<&Access>| {
            access.is_none_or(|access| access.at == end && access.at % 8 != 0)
        };
        let is_one = self.repeated.instr.is_some()
            && self.repeated.block == execution.block
            && goes_on(self.repeated.store_end, store)
            && (store.is_some() || goes_on(self.repeated.load_end, load))
            && load.is_none_or(|load| load.at == self.repeated.load_end);
        let within = |access: &Access| access.at % 8 + u64::from(access.len) <= 8;
        if !is_one || !store.is_none_or(within) {
            self.repeated_ends();
            if !store.is_none_or(within) || !load.is_none_or(within) {
                return self.apart(execution, site);
            }
            let mut instr = plain(site);
            if let Some(load) = load {
                instr.add_load(self.pages.place(self.memory, load.at)?);
            }
            if let Some(store) = store {
                instr.add_store(self.pages.place(self.memory, store.at)?);
                (instr.store_len, instr.value) = (store.len, store.value);
            }
            self.repeated.instr = Some(instr);
            self.repeated.block = execution.block;
        } else if let (Some(instr), Some(store)) = (&mut self.repeated.instr, store) {
            instr.value |= store.value << (8 * instr.store_len);
            instr.store_len += store.len;
        }
        let end = |access: &Access| access.at + u64::from(access.len);
        self.repeated.load_end = load.map_or(0, end);
        self.repeated.store_end = store.map_or(0, end);
        Ok(())
    }

    /// A step that stands alone.
    fn apart(&mut self, execution: &Execution<'_>, site: &Site) -> Result<(), SourceError> {
        self.repeated_ends();
        self.batch.instrs.push(plain(site));
        // Its accesses were counted.
        *self.count -= execution.accesses.len() as u64;
        let mut load_end = u64::MAX;
        execution.accesses.iter().try_for_each(|access| self.access(access, site, &mut load_end))
    }
}

/// The instruction with the registers that are dependences. Changes of the stack pointer, which
/// processors fold away, and the instruction pointer are none.
fn dependent(site: &Site) -> Site {
    let ignored = outlast_trace::ChampSimInstr::INSTRUCTION_POINTER;
    let stack = outlast_trace::ChampSimInstr::STACK_POINTER;
    let sources = site.sources.map(|register| if register == ignored { 0 } else { register });
    let folds = site.sources.contains(&stack);
    let destinations = site.destinations.map(|register| {
        if register == ignored || register == stack && folds { 0 } else { register }
    });
    Site { sources, destinations, ..*site }
}

/// An instruction that does nothing yet.
#[inline]
fn plain(site: &Site) -> Instr {
    let kind = match site.kind {
        SiteKind::Sfence => InstrKind::Sfence,
        SiteKind::Mfence => InstrKind::Mfence,
        _ => InstrKind::Plain,
    };
    let Site { at: pc, sources, destinations, .. } = *site;
    Instr { pc, kind, sources, destinations, store_len: 8, ..Instr::default() }
}

/// The kind of an instruction with a store of that length, if it is another one.
#[inline]
fn kind_of_store(site: SiteKind, len: u8) -> Option<InstrKind> {
    match site {
        SiteKind::Locked => Some(InstrKind::Rmw),
        SiteKind::StoreNt if len == 8 => Some(InstrKind::StoreNt),
        _ => None,
    }
}

/// The words that some bytes touch: place, length and bytes of each.
fn pieces(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u8, u64)> {
    let mut rest = bytes;
    word_pieces(PoolOffset(at), bytes.len()).map(move |(at, len)| {
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        let mut value = [0; 8];
        value[..len].copy_from_slice(piece);
        (at.0, len as u8, u64::from_le_bytes(value))
    })
}
