//! A captured program's transactions as a file of one's own, and such a file as a program's trace.
//!
//! Lines that transactions touch come one behind the other, in their order in the program's memory. Accesses
//! become accesses of whole words: a store of some bytes is one of the word that it leaves.

use std::collections::{BTreeMap, BTreeSet};

use outlast_trace::{
    About, Access, Ending, Event, Execution, LINE_BYTES, Loss, MARK_CALL, PAGE_BYTES,
    ProgramWriter, Site, SiteKind, ThreadEncoder,
};
use outlast_workloads::own::{INSTRUCTIONS_MAX, OwnStep, OwnTransaction, OwnWork};

use super::*;

const WORD_BYTES: u64 = 8;

/// The transactions of a captured program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The file.
    pub work: OwnWork,
    /// Stores outside of transactions, which are not in it.
    pub stores_outside: u64,
    /// Instructions outside of transactions that touch no memory.
    pub instructions_outside: u64,
}

/// The transactions that a captured program marks, with what they load, store and compute.
///
/// # Errors
/// When the trace cannot be read, has several threads or no transactions, when something would be lost that is
/// not named, or when it exceeds a limit of the format.
pub fn listed_work(path: &Path, lose: &[Loss]) -> Result<Listed, Box<dyn std::error::Error>> {
    let shown = path.display();
    let recorded = captured_work(path, u64::MAX, 1)?;
    if recorded.transactions == 0 {
        return Err(format!("{shown}: no transactions in it: mark them (docs/trace.md)").into());
    }
    let mut listing = Listing { memory: recorded.image.to_vec(), ..Listing::default() };
    for (_, op) in recorded.streams.iter().flat_map(|stream| stream.iter()) {
        listing.op(op);
    }
    let lost = [
        (Loss::Sizes, listing.parts, "accesses of less than a word"),
        (Loss::Outside, listing.stores_outside, "stores outside of transactions"),
        (Loss::Outside, listing.instructions_outside, "instructions outside of transactions"),
    ];
    let missing: Vec<_> =
        lost.iter().filter(|(loss, count, _)| *count > 0 && !lose.contains(loss)).collect();
    if let Some((_, count, what)) = missing.first() {
        let mut names: Vec<_> = missing.iter().map(|(loss, ..)| loss.to_string()).collect();
        names.dedup();
        let names = names.join(",");
        return Err(format!(
            "{shown}: work cannot hold {what}, and there are {count}: --lose {names} leaves them out"
        )
        .into());
    }
    let (stores_outside, instructions_outside) =
        (listing.stores_outside, listing.instructions_outside);
    let work = listing.work(&recorded.image).map_err(|bad| format!("{shown}: {bad}"))?;
    Ok(Listed { work, stores_outside, instructions_outside })
}

/// Work that is being listed, with the words of the program's memory.
#[derive(Default)]
struct Listing {
    memory: Vec<u8>,
    transactions: Vec<OwnTransaction>,
    open: Option<OwnTransaction>,
    /// Accesses in transactions of less than a word.
    parts: u64,
    stores_outside: u64,
    instructions_outside: u64,
}

impl Listing {
    fn op(&mut self, op: Op<'_>) {
        match op {
            Op::TxBegin => self.open = Some(OwnTransaction::default()),
            Op::TxEnd => self.transactions.extend(self.open.take()),
            Op::Load { at, .. } => {
                if let Some(open) = &mut self.open {
                    open.steps.push(OwnStep::Load { word: at.0 / WORD_BYTES, words: 1 });
                }
            }
            Op::Store { at, bytes } => self.store(at.0, bytes),
            Op::Compute(count) => match &mut self.open {
                Some(open) => {
                    let parts = (0..count).step_by(INSTRUCTIONS_MAX as usize);
                    let part = |from: u32| OwnStep::Think((count - from).min(INSTRUCTIONS_MAX));
                    open.steps.extend(parts.map(part));
                }
                None => self.instructions_outside += u64::from(count),
            },
            _ => {}
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
        let Some(open) = &mut self.open else {
            self.stores_outside += 1;
            return;
        };
        let end = at + bytes.len() as u64;
        let is_whole = at.is_multiple_of(WORD_BYTES) && end.is_multiple_of(WORD_BYTES);
        self.parts += u64::from(!is_whole);
        let word = at / WORD_BYTES;
        let values = (word..end.div_ceil(WORD_BYTES)).map(|word| word_of(&self.memory, word));
        open.steps.push(OwnStep::Store { word, values: values.collect() });
    }

    /// The file, with the lines that transactions touch; `image` is memory at the begin.
    fn work(mut self, image: &[u8]) -> Result<OwnWork, outlast_workloads::own::BadWork> {
        const LINE_WORDS: u64 = LINE_BYTES / WORD_BYTES;
        let steps = self.transactions.iter().flat_map(|tx| &tx.steps);
        let words: BTreeSet<u64> = steps.flat_map(words_of).collect();
        let lines: BTreeSet<u64> = words.iter().map(|word| word / LINE_WORDS).collect();
        let lines: BTreeMap<u64, u64> = lines.into_iter().zip(0..).collect();
        let moved = |word: u64| lines[&(word / LINE_WORDS)] * LINE_WORDS + word % LINE_WORDS;
        for step in self.transactions.iter_mut().flat_map(|tx| &mut tx.steps) {
            if let OwnStep::Load { word, .. } | OwnStep::Store { word, .. } = step {
                *word = moved(*word);
            }
        }
        let initial = words.iter().map(|word| (moved(*word), word_of(image, *word))).collect();
        let bytes = (lines.len() as u64).max(1) * LINE_BYTES;
        OwnWork::new(bytes, 1, initial, self.transactions)
    }
}

/// Where the file's memory lies in the program's, and its instructions.
const MEMORY_AT: u64 = 0x1000_0000;
const CODE_AT: u64 = 0x40_1000;
/// The blocks, of one instruction each: a load, a store, and one that touches no memory.
const LOAD: u32 = 0;
const STORE: u32 = 1;
const OTHER: u32 = 2;
const INSTRUCTION_BYTES: u8 = 4;

/// Writes the trace of a program that does what a file of one lane lists, with its marks: an instruction for
/// each word that is loaded or stored and for each that the file counts.
///
/// # Errors
/// When the file has several lanes, or the trace cannot be written.
pub fn trace_of_work(path: &Path, out: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let work = OwnWork::read(path)?;
    let shown = path.display();
    if work.lanes() > 1 {
        let lanes = work.lanes();
        return Err(format!("{shown}: has {lanes} lanes: transactions of a trace have one").into());
    }
    let about = About {
        command: vec![shown.to_string()],
        tools: format!("outlast {}; transactions of a file", env!("CARGO_PKG_VERSION")),
        window: "all".to_owned(),
        ..About::default()
    };
    let mut writer = ProgramWriter::create(out, &about)?;
    for block in [LOAD, STORE, OTHER] {
        writer.block(&[Site {
            at: CODE_AT + u64::from(block) * u64::from(INSTRUCTION_BYTES),
            len: INSTRUCTION_BYTES,
            kind: SiteKind::Plain,
            sources: [0; 4],
            destinations: [0; 2],
        }]);
    }
    const PAGE_WORDS: u64 = PAGE_BYTES as u64 / WORD_BYTES;
    let steps = || work.transactions().iter().flat_map(|tx| &tx.steps);
    let touched: BTreeSet<u64> = steps().flat_map(words_of).map(|word| word / PAGE_WORDS).collect();
    let number = |page: u64| MEMORY_AT / PAGE_BYTES as u64 + page;
    let content = |page: u64, word: &dyn Fn(u64) -> u64| {
        let mut bytes = [0; PAGE_BYTES];
        for (place, bytes) in (0..).zip(bytes.as_chunks_mut::<8>().0) {
            *bytes = word(page * PAGE_WORDS + place).to_le_bytes();
        }
        bytes
    };
    for &page in &touched {
        writer.page(number(page), &content(page, &|word| work.initial_of(word)));
    }
    let mut thread = ThreadEncoder::new(0);
    let mut instructions = 0;
    let mut run =
        |thread: &mut ThreadEncoder, writer: &mut ProgramWriter, block, access: &[Access]| {
            let execution =
                Execution { block, insns: 0..1, accesses: access, places: &[], seen: &[] };
            thread.execution(writer, &execution);
            instructions += 1;
        };
    let access = |word: u64, value: u64, stores| {
        [Access {
            at: MEMORY_AT + word * WORD_BYTES,
            value,
            insn: 0,
            len: WORD_BYTES as u8,
            stores,
        }]
    };
    for (tx, transaction) in (1..).zip(work.transactions()) {
        let mark = |thread: &mut ThreadEncoder, writer: &mut ProgramWriter, mark| {
            let arguments = [mark, tx, 0];
            thread.event(writer, Event::Call { number: MARK_CALL, arguments });
        };
        mark(&mut thread, &mut writer, 1);
        for step in &transaction.steps {
            match step {
                OwnStep::Load { .. } => words_of(step)
                    .for_each(|word| run(&mut thread, &mut writer, LOAD, &access(word, 0, false))),
                OwnStep::Store { values, .. } => {
                    words_of(step).zip(values).for_each(|(word, value)| {
                        run(&mut thread, &mut writer, STORE, &access(word, *value, true))
                    })
                }
                OwnStep::Think(count) => {
                    (0..*count).for_each(|_| run(&mut thread, &mut writer, OTHER, &[]));
                }
            }
        }
        mark(&mut thread, &mut writer, 2);
        mark(&mut thread, &mut writer, 3);
    }
    thread.finish(&mut writer);
    let memory = work.memory_at_end();
    for &page in &touched {
        let word = |word| memory.get(word as usize).copied().unwrap_or(0);
        writer.final_page(number(page), &content(page, &word));
    }
    writer.finish(Ending::Whole)?;
    Ok(instructions)
}

/// The words that a step touches.
fn words_of(step: &OwnStep) -> std::ops::Range<u64> {
    match step {
        OwnStep::Load { word, words } => *word..word + words,
        OwnStep::Store { word, values } => *word..word + values.len() as u64,
        OwnStep::Think(_) => 0..0,
    }
}

fn word_of(memory: &[u8], word: u64) -> u64 {
    let bytes = memory.get((word * WORD_BYTES) as usize..).unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
