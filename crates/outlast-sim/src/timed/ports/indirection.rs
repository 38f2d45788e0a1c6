//! The DIMM's address indirection, on which any scheme may stand: what reads or writes persistent memory
//! is looked up once the scheme has said where it goes, the scheme's own requests as well.
//!
//! Blocks stay at home, so entries are read and never written. Requests of one block that miss the
//! cache of entries share one read of the table.

use super::{ReadTicket, Route, Scheme, WriteRoute, WriteTicket, own::Side, reads::ReadOf};
use crate::{
    hierarchy::Cause,
    timed::{
        causes::ReadCause,
        event::Event,
        lookup::{Lookups, Waiting},
        memory_system::MemorySystem,
        set_assoc::SetAssoc,
        slab::Slab,
        time::Cycle,
    },
};
use outlast_trace::LineAddr;

/// Entries of a line of the table.
const ENTRIES: u64 = 8;

/// A table of where each block lies, and a cache of its entries in the DIMM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indirection {
    /// Sets of the cache.
    pub sets: u64,
    /// Entries of a set.
    pub ways: u64,
    /// What a lookup takes.
    pub latency_cycles: u64,
    /// Lines that an entry maps.
    pub block_lines: u64,
    /// The first line of the table, which is found without itself.
    pub table: LineAddr,
    /// Lines from here on have no entry.
    pub end: LineAddr,
}

/// Which entries are cached, and requests that wait for others.
#[derive(Debug)]
pub(in crate::timed) struct Entries {
    indirection: Indirection,
    cache: SetAssoc<()>,
    pub(super) lookups: Lookups,
    /// Blocks whose entries are read once their lookups say that these are not cached.
    missed_blocks: Slab<u64>,
    pub(in crate::timed) looked_up: u64,
    pub(in crate::timed) missed: u64,
}

impl Entries {
    pub(in crate::timed) fn new(indirection: Indirection) -> Self {
        Self {
            indirection,
            cache: SetAssoc::new(indirection.sets, indirection.ways),
            lookups: Lookups::default(),
            missed_blocks: Slab::default(),
            looked_up: 0,
            missed: 0,
        }
    }
}

impl<S: Scheme> MemorySystem<S> {
    /// Where a read goes that the scheme has routed.
    #[inline]
    pub(super) fn read_is_looked_up(&mut self, number: u32, line: LineAddr, route: Route) -> Route {
        let (line, cycles) = match route {
            _ if self.entries.is_none() => return route,
            Route::Here => (line, 0),
            Route::There(line) => (line, 0),
            Route::After { line, cycles } => (line, cycles),
            Route::Answered { .. } | Route::Wait => return route,
        };
        let waiting = |over| Waiting::Read(ReadTicket(number), line, over);
        match self.look_up(line, cycles, waiting) {
            None => Route::Wait,
            Some(0) => Route::There(line),
            Some(cycles) => Route::After { line, cycles },
        }
    }

    /// Where a write goes that the scheme has routed.
    #[inline]
    pub(super) fn write_is_looked_up(
        &mut self,
        number: u32,
        line: LineAddr,
        route: WriteRoute,
    ) -> WriteRoute {
        let (line, cycles) = match route {
            _ if self.entries.is_none() => return route,
            WriteRoute::Here => (line, 0),
            WriteRoute::There(line) => (line, 0),
            WriteRoute::After { line, cycles } => (line, cycles),
            WriteRoute::Taken | WriteRoute::Wait => return route,
        };
        let waiting = |over| Waiting::Write(WriteTicket(number), line, over, u8::MAX);
        match self.look_up(line, cycles, waiting) {
            None => WriteRoute::Wait,
            Some(0) => WriteRoute::There(line),
            Some(cycles) => WriteRoute::After { line, cycles },
        }
    }

    /// Looks up a line that goes on `cycles` from now; returns when it may, where its entry is cached or
    /// it has none.
    #[cold]
    fn look_up(
        &mut self,
        line: LineAddr,
        cycles: u64,
        waiting: impl FnOnce(Cycle) -> Waiting,
    ) -> Option<u64> {
        let now = self.now();
        let Some(entries) = &mut self.entries else { return Some(cycles) };
        let Indirection { latency_cycles, block_lines, end, .. } = entries.indirection;
        if line >= end {
            return Some(cycles);
        }
        entries.looked_up += 1;
        let (block, cycles) = (line.0 / block_lines, cycles + latency_cycles);
        if let Some(at) = entries.cache.find(block) {
            entries.cache.touch(at);
            return Some(cycles);
        }
        entries.missed += 1;
        let over = now.plus(cycles);
        if entries.lookups.wait(block, waiting(over)) {
            let miss = entries.missed_blocks.put(block);
            self.wheel.schedule(over, Event::EntryMissed { miss });
        }
        None
    }

    /// A block's entry is not cached, as its lookup says now.
    pub(in crate::timed) fn entry_missed(&mut self, miss: u32) {
        let entries = self.entries.as_mut().expect("only lookups miss");
        let block = entries.missed_blocks.take(miss);
        let line = entries.indirection.table.plus(block / ENTRIES);
        let cause = ReadCause::Scheme(Self::INDIRECTION);
        self.send_read_of(line, cause, ReadOf::Entry(block), Side::Memory);
    }

    /// A block's entry has been read: reads that wait for it go on, then writes.
    pub(super) fn has_entry(&mut self, block: u64) {
        let now = self.now();
        let entries = self.entries.as_mut().expect("only lookups miss");
        if entries.cache.find(block).is_none() {
            let at = entries.cache.room(block, |()| Some(0)).expect("a set has a way");
            entries.cache.put(at, block, ());
        }
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        while let Some(waiting) = entries.lookups.next(block) {
            match waiting {
                Waiting::Read(read, line, over) => reads.push((read, line, over.since(now))),
                Waiting::Write(write, line, over, _) => writes.push((write, line, over.since(now))),
            }
        }
        for (read, line, cycles) in reads {
            let late = Route::After { line, cycles };
            self.release_read(read, if cycles == 0 { Route::There(line) } else { late });
        }
        for (write, line, cycles) in writes {
            let late = WriteRoute::After { line, cycles };
            self.release_write(write, if cycles == 0 { WriteRoute::There(line) } else { late });
        }
    }

    /// The cause of reads of the table, behind those that the scheme names.
    pub(in crate::timed) const INDIRECTION: Cause = Cause::Scheme(S::CAUSES.len() as u8);
}
