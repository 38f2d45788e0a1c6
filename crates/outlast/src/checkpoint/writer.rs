//! Writes one segment, page by page, in any order and some pages more than once.

use outlast_pmem::PAGE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::{Entry, Page, SegmentHeader, is_zero, table_to_bytes, trailer};
use crate::checkpoint::shelf::{Shelf, Volume};

/// Pages that are gathered into one write.
const BATCH_PAGES: u64 = 64;

const PAGE: usize = PAGE_BYTES as usize;

/// A segment in the making. Nothing of it counts before [`finish`](Self::finish).
pub(super) struct SegmentWriter<'a, S: Shelf> {
    shelf: &'a S,
    file: &'a S::File,
    at: u64,
    /// Which page is in each slot.
    slots: Vec<Entry>,
    slot_of: FxHashMap<u64, usize>,
    zero: FxHashSet<u64>,
    /// The last slots, not written yet.
    batch: Vec<u8>,
}

impl<'a, S: Shelf> SegmentWriter<'a, S> {
    pub fn new(shelf: &'a S, file: &'a S::File, at: u64) -> Self {
        let (slot_of, zero) = Default::default();
        Self { shelf, file, at, slots: Vec::new(), slot_of, zero, batch: Vec::new() }
    }

    /// Puts a page into the segment, in place of what it has of it.
    pub fn put(&mut self, page: u64, bytes: &Page) -> Result<(), CheckpointError> {
        let crc = crc32c::crc32c(bytes);
        if let Some(&slot) = self.slot_of.get(&page) {
            self.slots[slot].crc = crc;
            return self.replace(slot, bytes);
        }
        if is_zero(bytes) {
            self.zero.insert(page);
            return Ok(());
        }
        self.zero.remove(&page);
        self.slot_of.insert(page, self.slots.len());
        self.slots.push(Entry { page, is_zero: false, crc });
        self.batch.extend_from_slice(bytes);
        if self.batch.len() as u64 == BATCH_PAGES * PAGE_BYTES {
            self.write_batch()
        } else {
            Ok(())
        }
    }

    fn written(&self) -> usize {
        self.slots.len() - self.batch.len() / PAGE
    }

    fn replace(&mut self, slot: usize, bytes: &Page) -> Result<(), CheckpointError> {
        match slot.checked_sub(self.written()) {
            Some(index) => {
                self.batch[index * PAGE..(index + 1) * PAGE].copy_from_slice(bytes);
                Ok(())
            }
            None => self.write(SegmentHeader::page_at(self.at, slot as u64), bytes),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), CheckpointError> {
        let writing = CheckpointError::io(self.shelf.path(), "write");
        self.file.write_at(at, bytes).map_err(writing)
    }

    fn sync(&self) -> Result<(), CheckpointError> {
        self.file.sync().map_err(CheckpointError::io(self.shelf.path(), "make durable"))
    }

    fn write_batch(&mut self) -> Result<(), CheckpointError> {
        if !self.batch.is_empty() {
            self.write(SegmentHeader::page_at(self.at, self.written() as u64), &self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    /// CHECKPOINT-3: table and header, a sync, the trailer, a sync. Returns the header as it was written and
    /// where the segment ends.
    pub fn finish(
        mut self,
        header: SegmentHeader,
    ) -> Result<(SegmentHeader, u64), CheckpointError> {
        self.write_batch()?;
        let (stored, zero) = (self.slots.len() as u64, self.zero.len() as u64);
        let header = SegmentHeader { stored, zero, ..header };
        let mut zeros: Vec<u64> = self.zero.iter().copied().collect();
        zeros.sort_unstable();
        let crc = crc32c::crc32c(&[0; PAGE]);
        let zeros = zeros.into_iter().map(|page| Entry { page, is_zero: true, crc });
        let table = table_to_bytes(self.slots.iter().copied().chain(zeros));
        let sector = header.to_sector();
        self.write(header.table_at(self.at), &table)?;
        self.write(self.at, &sector)?;
        // A file's first segment is not visible before the file gets its name.
        if self.at > 0 {
            self.sync()?;
        }
        self.write(header.trailer_at(self.at), &trailer(&sector, header.id, &table))?;
        self.sync()?;
        Ok((header, header.end_at(self.at)))
    }
}
