//! Facts of a trace, and its check.

use std::collections::{HashMap, HashSet};

use super::{PAGE_BYTES, Program, ProgramError, SiteKind, Step, in_order};

/// Counts of a program's events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Instructions.
    pub instructions: u64,
    /// Loads, and their bytes.
    pub loads: u64,
    /// Bytes loaded.
    pub loaded_bytes: u64,
    /// Stores.
    pub stores: u64,
    /// Bytes stored.
    pub stored_bytes: u64,
    /// Accesses that touch two lines.
    pub crossing_lines: u64,
    /// Accesses that touch two pages: each is one access.
    pub crossing_pages: u64,
    /// Conditional branches.
    pub conditional_branches: u64,
    /// All other branches, calls and returns.
    pub other_branches: u64,
    /// Locked instructions.
    pub locked: u64,
    /// Fences.
    pub fences: u64,
    /// Flushes.
    pub flushes: u64,
    /// System calls.
    pub calls: u64,
    /// Bytes that the system wrote.
    pub system_bytes: u64,
    /// Signals whose handlers ran.
    pub signals: u64,
    /// Lines that were touched.
    pub lines: u64,
    /// Pages that were touched.
    pub pages: u64,
    /// Threads.
    pub threads: u16,
}

impl Facts {
    /// Loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Mistakes, a line each; the first of many.
    pub findings: Vec<String>,
    /// How many findings there are.
    pub count: u64,
    /// Pages that were compared with what the program's memory held at its end.
    pub compared: u64,
    /// Its counts.
    pub facts: Facts,
}

/// Findings that are kept.
const FINDINGS_MAX: usize = 20;

impl Checked {
    fn finds(&mut self, finding: impl FnOnce() -> String) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding());
        }
    }
}

/// The program's memory while its trace is read.
pub(super) struct Memory {
    pub(super) pages: HashMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Memory {
    /// Whether all pages are there.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let from = (at % PAGE_BYTES as u64) as usize;
            let (now, tail) = rest.split_at(rest.len().min(PAGE_BYTES - from));
            let Some(page) = self.pages.get_mut(&(at / PAGE_BYTES as u64)) else { return false };
            page[from..from + now.len()].copy_from_slice(now);
            (at, rest) = (at.wrapping_add(now.len() as u64), tail);
        }
        true
    }

    fn has(&self, at: u64, len: u64) -> bool {
        let last = at.saturating_add(len - 1);
        [at, last].iter().all(|at| self.pages.contains_key(&(at / PAGE_BYTES as u64)))
    }
}

/// Reads all of a trace: each access in a page that it has, stores in an order of places without gaps
/// and repetitions, threads with what they ran, and at the end each byte of memory as the program left
/// it.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn check(program: &Program) -> Result<Checked, ProgramError> {
    let mut checked = Checked::default();
    let mut memory = Memory { pages: HashMap::new() };
    for page in program.pages()? {
        if memory.pages.insert(page.number, page.bytes).is_some() {
            checked.finds(|| format!("page {:#x} has two beginnings", page.number * 4096));
        }
    }
    let mut lines = HashSet::new();
    let (mut places, mut last_line) = (Vec::new(), u64::MAX);
    let mut ran = vec![false; program.threads().into()];
    let mut acted = ran.clone();
    in_order(program, |thread, step| {
        let facts = &mut checked.facts;
        acted[usize::from(thread)] |=
            !matches!(step, Step::SystemWrite(..) | Step::Place(_) | Step::Seen(_));
        match step {
            Step::Instructions(block, from, to) => {
                ran[usize::from(thread)] = true;
                let sites = program.block(block);
                let to = usize::from(to).min(sites.len());
                let sites = &sites[usize::from(from).min(to)..to];
                facts.instructions += sites.len() as u64;
                for site in sites {
                    match site.kind {
                        SiteKind::Conditional => facts.conditional_branches += 1,
                        kind if kind.is_branch() => facts.other_branches += 1,
                        SiteKind::Locked => facts.locked += 1,
                        SiteKind::Sfence | SiteKind::Mfence | SiteKind::Lfence => facts.fences += 1,
                        SiteKind::Clwb | SiteKind::ClflushOpt | SiteKind::Clflush => {
                            facts.flushes += 1;
                        }
                        _ => {}
                    }
                }
            }
            Step::Access(access) => {
                let len = u64::from(access.len);
                let last = access.at.saturating_add(len - 1);
                facts.crossing_lines += u64::from(access.at / 64 != last / 64);
                let crosses = access.at / PAGE_BYTES as u64 != last / PAGE_BYTES as u64;
                facts.crossing_pages += u64::from(crosses);
                for line in [access.at / 64, last / 64] {
                    if line != last_line {
                        lines.insert(line);
                        last_line = line;
                    }
                }
                let is_there = if access.stores {
                    facts.stores += 1;
                    facts.stored_bytes += len;
                    memory.write(access.at, &access.value.to_le_bytes()[..usize::from(access.len)])
                } else {
                    facts.loads += 1;
                    facts.loaded_bytes += len;
                    memory.has(access.at, len)
                };
                if !is_there {
                    checked.finds(|| {
                        format!(
                            "thread {thread} touches {:#x}, of which the trace has no page",
                            access.at
                        )
                    });
                }
            }
            Step::SystemWrite(at, bytes) => {
                facts.system_bytes += bytes.len() as u64;
                if !memory.write(at, &bytes) {
                    checked.finds(|| {
                        format!("the system writes to {at:#x}, of which the trace has no page")
                    });
                }
            }
            Step::Call(..) => facts.calls += 1,
            Step::Handler => facts.signals += 1,
            Step::Place(place) => places.push(place),
            Step::Seen(_) | Step::Return(..) => {}
        }
    })?;
    places.sort_unstable();
    for (number, pair) in places.windows(2).enumerate() {
        if pair[0] == pair[1] {
            checked.finds(|| format!("place {} is taken twice", pair[0]));
        } else if pair[0] + 1 != pair[1] && program.ending() == super::Ending::Whole {
            checked.finds(|| format!("place {} of {number} is missing", pair[0] + 1));
        }
    }
    // A part of a trace may have no more of a thread than the end of a block's stores.
    let is_wrong = |thread: &usize| acted[*thread] && !ran[*thread];
    for thread in (0..ran.len()).filter(is_wrong) {
        checked.finds(|| format!("thread {thread} runs nothing"));
    }
    for page in program.final_pages()? {
        checked.compared += 1;
        let held = memory.pages.get(&page.number);
        let same = held.map(|held| (0..PAGE_BYTES).find(|at| held[*at] != page.bytes[*at]));
        match same {
            None => checked.finds(|| format!("page {:#x} is at the end only", page.number * 4096)),
            Some(Some(at)) => checked
                .finds(|| format!("byte {:#x} differs at the end", page.number * 4096 + at as u64)),
            Some(None) => {}
        }
    }
    checked.facts.lines = lines.len() as u64;
    checked.facts.pages = memory.pages.len() as u64;
    checked.facts.threads = program.threads();
    Ok(checked)
}
