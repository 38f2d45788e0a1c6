//! Each store through a shared mapping, one by one.
//!
//! Mappings of watched files that the program may store to are kept read-only. A store stops the thread; its page is
//! opened, the one instruction runs, the page is compared and closed again. Calls of the kernel that fill such memory
//! would fail: the memory is opened before them and compared behind.

use std::io;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Tracer;
use crate::run::NodeId;
use crate::sys::{self, Entry, Stepped, Stop, Tid};
use crate::tree::PAGE;

/// Turns of one repeated instruction, within a page or two.
const TURNS_MAX: usize = 1 << 16;

/// Memory that the program believes it may store to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Guard {
    range: Range<u64>,
    node: NodeId,
    /// Where in the file it begins.
    offset: u64,
    /// Whether it is open to a call of the kernel.
    open: bool,
}

/// Guarded memory of each process.
#[derive(Default, Debug)]
pub struct Guards {
    of: FxHashMap<Tid, Vec<Guard>>,
    /// An instruction that enters the kernel, in each process.
    entering: FxHashMap<Tid, u64>,
}

/// A call that guards depend on.
#[derive(Debug)]
pub enum Guarded {
    /// A mapping comes, or its protection changes: of these bytes of memory, at the result if there is no address.
    Protected { at: Option<u64>, length: u64, writable: bool },
    /// Another call runs in its place that opens memory; it comes again.
    Opening { entry: Entry, range: Range<u64> },
    /// The kernel fills memory that was opened.
    Filling { range: Range<u64> },
    /// Memory moves.
    Moved { from: u64, length: u64 },
}

fn pages(range: &Range<u64>) -> Range<u64> {
    range.start & !(PAGE as u64 - 1)..range.end.next_multiple_of(PAGE as u64)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Guards {
    /// A process was made that has the memory of another.
    pub fn forked(&mut self, from: Tid, to: Tid) {
        if from == to {
            return;
        }
        if let Some(guards) = self.of.get(&from).cloned() {
            self.of.insert(to, guards);
        }
        if let Some(&entering) = self.entering.get(&from) {
            self.entering.insert(to, entering);
        }
    }

    /// Another program runs in the process.
    pub fn forget(&mut self, process: Tid) {
        self.of.remove(&process);
        self.entering.remove(&process);
    }

    /// Nothing in `range` is guarded any more.
    fn take(&mut self, process: Tid, range: &Range<u64>) {
        let Some(guards) = self.of.get_mut(&process) else { return };
        let mut left = Vec::new();
        for guard in guards.drain(..) {
            if !overlap(&guard.range, range) {
                left.push(guard);
                continue;
            }
            if guard.range.start < range.start {
                left.push(Guard { range: guard.range.start..range.start, ..guard.clone() });
            }
            if range.end < guard.range.end {
                let offset = guard.offset + (range.end - guard.range.start);
                left.push(Guard { range: range.end..guard.range.end, offset, ..guard });
            }
        }
        *guards = left;
    }

    fn at(&self, process: Tid, address: u64) -> Option<&Guard> {
        self.of.get(&process)?.iter().find(|guard| guard.range.contains(&address))
    }
}

impl Tracer<'_> {
    /// The effect of a call on guards; none if it has none.
    pub(super) fn guarded(&mut self, tid: Tid, entry: &Entry) -> io::Result<Option<Guarded>> {
        let process = self.process_of(tid);
        // The instruction before the place that the call returns to.
        self.guards.entering.entry(process).or_insert(entry.instruction - 2);
        let [a, b, c, d, ..] = entry.args;
        let writable = c & libc::PROT_WRITE as u64 != 0;
        let filled = |address: u64, length: u64| address..address.saturating_add(length);
        Ok(match entry.number {
            libc::SYS_mmap if d & libc::MAP_SHARED as u64 != 0 => {
                self.mmap(tid, entry.args)?;
                Some(Guarded::Protected { at: None, length: b, writable })
            }
            libc::SYS_mprotect => Some(Guarded::Protected { at: Some(a), length: b, writable }),
            libc::SYS_mremap => Some(Guarded::Moved { from: a, length: b }),
            libc::SYS_munmap => {
                self.watch.look_at_mappings()?;
                self.guards.take(process, &pages(&filled(a, b)));
                None
            }
            libc::SYS_read | libc::SYS_pread64 => {
                let range = pages(&filled(b, c));
                let guards = self.guards.of.get(&process);
                let touched = |open: bool| {
                    guards.is_some_and(|guards| {
                        guards
                            .iter()
                            .any(|guard| guard.open == open && overlap(&guard.range, &range))
                    })
                };
                if touched(false) {
                    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                    let length = range.end - range.start;
                    sys::replace_call(tid, libc::SYS_mprotect, [range.start, length, protection])?;
                    Some(Guarded::Opening { entry: *entry, range })
                } else {
                    touched(true).then_some(Guarded::Filling { range })
                }
            }
            libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => {
                self.watch.blind("reads by several buffers, under --exact".to_owned());
                None
            }
            _ => None,
        })
    }

    /// A call has returned that guards depend on.
    pub(super) fn guard_behind(
        &mut self,
        tid: Tid,
        guarded: Guarded,
        result: i64,
    ) -> io::Result<()> {
        let process = self.process_of(tid);
        match guarded {
            Guarded::Protected { .. } | Guarded::Moved { .. } if result < 0 => Ok(()),
            Guarded::Protected { at, length, writable } => {
                let start = at.unwrap_or(result as u64);
                let range = pages(&(start..start.saturating_add(length)));
                self.guards.take(process, &range);
                if writable { self.guard(tid, &range) } else { Ok(()) }
            }
            Guarded::Moved { from, length } => {
                // Its new place has the old one's protection: it is looked up when a store stops there.
                let old = pages(&(from..from.saturating_add(length)));
                let was = self.guards.at(process, from).is_some();
                self.guards.take(process, &old);
                let start = result as u64;
                let range = pages(&(start..start.saturating_add(length)));
                if was { self.guard(tid, &range) } else { Ok(()) }
            }
            Guarded::Opening { entry, range } => {
                for guard in self.guards.of.get_mut(&process).into_iter().flatten() {
                    guard.open |= overlap(&guard.range, &range);
                }
                sys::call_again(tid, &entry)
            }
            Guarded::Filling { range } => self.guard(tid, &range),
        }
    }

    /// Guards the watched files that `range` maps, after their stores until now were recorded.
    fn guard(&mut self, tid: Tid, range: &Range<u64>) -> io::Result<()> {
        let process = self.process_of(tid);
        self.watch.look_at_mappings()?;
        for (node, bytes, memory) in self.watch.mapped_places(tid, range.clone()) {
            self.guards.take(process, &memory);
            self.protect(tid, memory.clone(), false)?;
            let guard = Guard { range: memory, node, offset: bytes.start, open: false };
            self.guards.of.entry(process).or_default().push(guard);
        }
        Ok(())
    }

    fn protect(&self, tid: Tid, range: Range<u64>, open: bool) -> io::Result<()> {
        let process = self.process_of(tid);
        let Some(&entering) = self.guards.entering.get(&process) else { return Ok(()) };
        let write = if open { libc::PROT_WRITE } else { 0 };
        let args = [range.start, range.end - range.start, (libc::PROT_READ | write) as u64];
        sys::call_in(tid, entering, libc::SYS_mprotect, args)
    }

    /// A thread has stopped at a store: has it run, and records it. Returns false if the place is none of ours.
    pub(super) fn stored(&mut self, tid: Tid) -> io::Result<bool> {
        let process = self.process_of(tid);
        let page_of = |address: u64| address & !(PAGE as u64 - 1);
        let Some(place) = sys::refused_place(tid) else { return Ok(false) };
        if self.guards.at(process, place).is_none() {
            return Ok(false);
        }
        let stack = self.stacks.of(tid, process);
        let begins = sys::next_instruction(tid)?;
        let mut opened: Vec<u64> = Vec::new();
        let mut refused = Some(place);
        let mut signal = 0;
        for _ in 0..TURNS_MAX {
            if let Some(place) = refused.take() {
                let page = page_of(place);
                self.protect(tid, page..page + PAGE as u64, true)?;
                opened.push(page);
            }
            match sys::step(tid)? {
                // A repeated instruction goes on at the same place.
                Stepped::Done if sys::next_instruction(tid)? == begins => {}
                Stepped::Done => break,
                Stepped::Fault(place) if self.guards.at(process, place).is_some() => {
                    refused = Some(place);
                }
                Stepped::Fault(_) => {
                    signal = libc::SIGSEGV;
                    break;
                }
                Stepped::Other(Stop::Signal(other)) => {
                    signal = other;
                    break;
                }
                Stepped::Other(stop) => {
                    self.put_off.push_back((tid, stop));
                    return Ok(true);
                }
            }
        }
        self.watch.stack = stack;
        for page in opened {
            if let Some(guard) = self.guards.at(process, page) {
                let (node, at) = (guard.node, guard.offset + (page - guard.range.start));
                self.watch.stored(tid, node, at)?;
            }
            self.protect(tid, page..page + PAGE as u64, false)?;
        }
        self.watch.stack = None;
        sys::resume(tid, false, signal);
        Ok(true)
    }
}
