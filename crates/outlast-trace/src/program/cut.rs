//! Parts of traces.
//!
//! A part is what all threads do between two points of their one order. It begins where a block does,
//! and ends where the next one would begin. In the block that another thread is in at the begin,
//! instructions and loads are left out, and what that block still stores is the system's write, in its
//! place among all stores. At the end such a block breaks off.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use super::facts::Memory;
use super::merge::Merged;
use super::{
    About, Ending, Event, PAGE_BYTES, Program, ProgramError, ProgramWriter, Step, ThreadEncoder,
};

/// A part that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Instructions of all threads before it.
    pub skip: u64,
    /// Its instructions.
    pub count: u64,
    /// Its file.
    pub out: PathBuf,
}

/// Writes a part of a trace: about `count` instructions of all threads behind the first `skip`, with
/// what memory held then. Returns its instructions.
///
/// # Errors
/// When the trace cannot be read or ends before the part, or the file cannot be written.
pub fn cut(program: &Program, part: Part) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(cut_parts(program, &[part])?[0])
}

/// Writes parts of a trace, which may overlap, in one pass. Returns the instructions of each.
///
/// # Errors
/// When the trace cannot be read or ends before one of them, or a file cannot be written.
pub fn cut_parts(
    program: &Program,
    parts: &[Part],
) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let mut memory = Memory {
        pages: program.pages()?.into_iter().map(|page| (page.number, page.bytes)).collect(),
    };
    let mut written = vec![0; parts.len()];
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|number| parts[*number].skip);
    let mut coming = order.into_iter().peekable();
    let mut open: Vec<(usize, Cutter)> = Vec::new();
    let mut passed = 0;
    let mut merged = Merged::new(program);
    while let Some((thread, step)) = merged.next()? {
        if let Step::Instructions(_, 0, _) = step {
            for (number, cutter) in open.extract_if(.., |(_, cutter)| cutter.is_full()) {
                written[number] = cutter.finish(&memory)?;
            }
            while let Some(number) = coming.next_if(|number| parts[*number].skip <= passed) {
                open.push((number, Cutter::new(program, &parts[number], merged.places())?));
            }
        }
        for (_, cutter) in &mut open {
            cutter.step(thread, &step, &memory);
        }
        match step {
            Step::Instructions(_, from, to) => passed += u64::from(to.saturating_sub(from)),
            Step::Access(access) if access.stores => {
                memory.write(access.at, &access.value.to_le_bytes()[..usize::from(access.len)]);
            }
            Step::SystemWrite(at, bytes) => {
                memory.write(at, &bytes);
            }
            _ => {}
        }
        if open.is_empty() && coming.peek().is_none() {
            break;
        }
    }
    if let Some(number) = coming.next() {
        let skip = parts[number].skip;
        return Err(format!("the trace has {passed} instructions, and {skip} are skipped").into());
    }
    for (number, cutter) in open {
        written[number] = cutter.finish(&memory)?;
    }
    Ok(written)
}

/// A thread of a part.
struct Lane {
    encoder: ThreadEncoder,
    /// A block of it has begun in the part.
    has_begun: bool,
    /// The events before its next access.
    between: Vec<Event<'static>>,
}

/// A part that is being written.
struct Cutter {
    writer: ProgramWriter,
    count: u64,
    written: u64,
    /// Places that had been given out when it began; none where the trace has one thread.
    places: Option<u64>,
    lanes: BTreeMap<u16, Lane>,
    touched: Vec<u64>,
    kept: HashSet<u64>,
    last_page: u64,
}

impl Cutter {
    fn new(program: &Program, part: &Part, places: u64) -> Result<Self, ProgramError> {
        let Part { skip, count, out } = part;
        let window = format!("{}; {count} instructions behind {skip}", program.about().window);
        let about = About { window, ..program.about().clone() };
        let mut writer = ProgramWriter::create(out, &about)?;
        (0..program.blocks()).for_each(|block| writer.block(program.block(block)));
        Ok(Self {
            writer,
            count: *count,
            written: 0,
            places: (program.threads() > 1).then_some(places),
            lanes: BTreeMap::new(),
            touched: Vec::new(),
            kept: HashSet::new(),
            last_page: u64::MAX,
        })
    }

    fn is_full(&self) -> bool {
        self.written >= self.count
    }

    /// Writes a step, which `memory` has not seen.
    fn step(&mut self, thread: u16, step: &Step, memory: &Memory) {
        match step {
            Step::Access(access) => self.touch(memory, access.at, access.len.into()),
            Step::SystemWrite(at, bytes) => self.touch(memory, *at, bytes.len() as u64),
            _ => {}
        }
        let Self { writer, lanes, places, .. } = self;
        let lane = lanes.entry(thread).or_insert_with(|| {
            let mut encoder = ThreadEncoder::new(thread);
            // Its first accesses come behind the stores before the part, which the order does not have.
            if let Some(places) = places {
                encoder.event(writer, Event::Seen(*places));
            }
            Lane { encoder, has_begun: false, between: Vec::new() }
        });
        let step = match step {
            Step::Place(place) => return lane.between.push(Event::Place(*place)),
            Step::Seen(places) => return lane.between.push(Event::Seen(*places)),
            Step::Access(access) if lane.has_begun => {
                return lane.encoder.access(writer, access, &mut lane.between);
            }
            Step::Access(access) if !access.stores => return,
            Step::Instructions(_, from, to) if *from > 0 => {
                if lane.has_begun {
                    self.written += u64::from(to.saturating_sub(*from));
                }
                return;
            }
            // Of the block before the part there are stores only.
            Step::Call(..) | Step::Return(..) | Step::Handler if !lane.has_begun => return,
            _ => step,
        };
        for event in lane.between.drain(..) {
            lane.encoder.event(writer, event);
        }
        let bytes;
        let event = match step {
            Step::Instructions(block, _, to) => {
                lane.has_begun = true;
                lane.encoder.begin(writer, *block);
                self.written += u64::from(*to);
                return;
            }
            Step::Access(access) => {
                bytes = access.value.to_le_bytes();
                Event::SystemWrite { at: access.at, bytes: &bytes[..usize::from(access.len)] }
            }
            Step::SystemWrite(at, bytes) => Event::SystemWrite { at: *at, bytes },
            Step::Call(number, arguments) => Event::Call { number: *number, arguments: *arguments },
            Step::Return(number, result) => Event::Return { number: *number, result: *result },
            Step::Handler => Event::Handler,
            Step::Place(_) | Step::Seen(_) => return,
        };
        lane.encoder.event(writer, event);
    }

    /// Writes what the pages of an access hold, if they were not touched before in the part.
    fn touch(&mut self, memory: &Memory, at: u64, len: u64) {
        let page = |at: u64| at / PAGE_BYTES as u64;
        let (first, last) = (page(at), page(at.saturating_add(len.max(1) - 1)));
        if first == last && first == self.last_page {
            return;
        }
        self.last_page = last;
        for page in first..=last {
            if self.kept.insert(page) {
                self.touched.push(page);
                if let Some(bytes) = memory.pages.get(&page) {
                    self.writer.page(page, bytes);
                }
            }
        }
    }

    /// Ends the part where `memory` stands. Returns its instructions.
    fn finish(self, memory: &Memory) -> Result<u64, ProgramError> {
        let Self { mut writer, lanes, touched, written, .. } = self;
        for mut lane in lanes.into_values() {
            for event in lane.between.drain(..) {
                lane.encoder.event(&mut writer, event);
            }
            lane.encoder.finish(&mut writer);
        }
        for page in touched {
            if let Some(bytes) = memory.pages.get(&page) {
                writer.final_page(page, bytes);
            }
        }
        writer.finish(Ending::Whole)?;
        Ok(written)
    }
}
