//! The rollback journal of SQLite, in volatile memory.
//!
//! SQLite writes there what pages held before, to roll back while a transaction runs. After a crash there
//! is none, and none is needed: the pool shows the last committed transaction.
//!
//! A record of the journal is a page's number, the page as it was, and a sum. That page is what the pool holds until
//! the transaction commits (DATABASE-1). Behind the first [`COPIED_BYTES`] a record therefore takes a few words here:
//! [`Page`] says where the page is. Bytes that the pool does not hold are kept.

use std::collections::TryReserveError;

/// The start of a journal's header, all zeros: `PERSIST` ends a transaction by writing it.
const HEADER_BYTES: usize = 28;

/// Capacity that is kept from transaction to transaction.
const CAPACITY_KEPT: usize = 4 << 20;

/// Bytes up to which a journal is kept as it is: to copy a page takes less time than to compare it.
const COPIED_BYTES: usize = 256 << 10;

/// The smallest page of SQLite.
const PAGE_BYTES_MIN: usize = 512;

/// Bytes of a page's number before the page.
const NUMBER_BYTES: usize = 4;

/// Bytes that are compared at a time.
const STRIDE_BYTES: usize = 512;

/// A page in the journal that is the stored one.
#[derive(Clone, Copy)]
struct Page {
    /// Where it begins in the journal.
    at: u64,
    len: u64,
    /// Where it begins in the database.
    stored_at: u64,
    /// Bytes of such pages before it.
    before: u64,
}

impl Page {
    fn end(&self) -> u64 {
        self.at + self.len
    }
}

/// A journal; it may exist or not.
#[derive(Default)]
pub(crate) struct Journal {
    /// Its content up to `end`, without the pages.
    bytes: Vec<u8>,
    /// In ascending order.
    pages: Vec<Page>,
    /// Bytes that were written; up to `len` zeros follow.
    end: u64,
    len: u64,
    exists: bool,
}

impl Journal {
    /// Whether the file exists, as SQLite sees it.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// It exists from now on.
    pub fn create(&mut self) {
        self.exists = true;
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Deletes it.
    pub fn delete(&mut self) {
        self.clear();
        self.len = 0;
        self.exists = false;
    }

    /// All its bytes become zeros.
    fn clear(&mut self) {
        if self.bytes.capacity() > CAPACITY_KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.pages = Vec::new();
        self.end = 0;
    }

    /// Makes it shorter or longer. `load` loads what is stored of the database.
    pub fn set_len(&mut self, len: u64, load: impl Fn(u64, &mut [u8])) {
        if len == 0 {
            self.clear();
        } else if len < self.end {
            self.keep_bytes(len, len + 1, &load);
            self.pages.truncate(self.pages.partition_point(|page| page.at < len));
            self.bytes.truncate(self.place(len));
            self.end = len;
        }
        self.len = len;
    }

    /// Writes to it. `true` when that ends its transaction. `load` loads what is stored of the database.
    ///
    /// # Errors
    /// When the system has no memory for it. Nothing was written.
    pub fn write(
        &mut self,
        at: u64,
        bytes: &[u8],
        load: impl Fn(u64, &mut [u8]),
    ) -> Result<bool, TryReserveError> {
        let end = at + bytes.len() as u64;
        if at == 0 && bytes.len() == HEADER_BYTES && bytes.iter().all(|byte| *byte == 0) {
            self.clear();
            self.len = self.len.max(end);
            return Ok(true);
        }
        self.bytes.try_reserve(end.saturating_sub(self.end.min(at)) as usize)?;
        self.pages.try_reserve(1)?;
        self.len = self.len.max(end);
        if at >= self.end {
            let gap = (at - self.end) as usize;
            self.bytes.resize(self.bytes.len() + gap, 0);
            self.end = end;
            match self.page_of(at, bytes, &load) {
                Some(page) => self.pages.push(page),
                None => self.bytes.extend_from_slice(bytes),
            }
            return Ok(false);
        }
        self.keep_bytes(at, end, &load);
        let (place, known) = (self.place(at), end.min(self.end) - at);
        let (over, behind) = bytes.split_at(known as usize);
        self.bytes[place..place + over.len()].copy_from_slice(over);
        self.bytes.extend_from_slice(behind);
        self.end = self.end.max(end);
        Ok(false)
    }

    /// Reads from it; returns how many bytes there were. The rest of `out` is zeros.
    pub fn read(&self, at: u64, out: &mut [u8], load: impl Fn(u64, &mut [u8])) -> usize {
        out.fill(0);
        let there = self.len.saturating_sub(at).min(out.len() as u64);
        let (mut from, end) = (at, (at + there).min(self.end));
        while from < end {
            let behind = self.pages.partition_point(|page| page.at <= from);
            let next = self.pages.get(behind).map_or(end, |page| page.at.min(end));
            let page = self.pages[..behind].last().filter(|page| from < page.end());
            let to = page.map_or(next, |page| page.end().min(end));
            let part = &mut out[(from - at) as usize..(to - at) as usize];
            match page {
                Some(page) => load(page.stored_at + (from - page.at), part),
                None => {
                    let place = self.place(from);
                    part.copy_from_slice(&self.bytes[place..place + part.len()]);
                }
            }
            from = to;
        }
        there as usize
    }

    /// Where the byte at `at`, which is in no page, is among those that are kept.
    fn place(&self, at: u64) -> usize {
        let before = self.pages.partition_point(|page| page.at < at);
        let pages = self.pages[..before].last().map_or(0, |page| page.before + page.len);
        (at - pages) as usize
    }

    /// The page that `bytes` are, behind its number, if it is stored.
    fn page_of(&self, at: u64, bytes: &[u8], load: &impl Fn(u64, &mut [u8])) -> Option<Page> {
        let last = self.pages.last();
        let is_record = at >= last.map_or(0, Page::end) + NUMBER_BYTES as u64;
        let is_page = bytes.len() >= PAGE_BYTES_MIN && bytes.len().is_power_of_two();
        if !is_record || !is_page || self.bytes.len() < COPIED_BYTES {
            return None;
        }
        let number = u32::from_be_bytes(*self.bytes.last_chunk::<NUMBER_BYTES>()?);
        let stored_at = u64::from(number).checked_sub(1)? * bytes.len() as u64;
        let mut stored = [0; STRIDE_BYTES];
        for (part, from) in bytes.chunks(STRIDE_BYTES).zip((stored_at..).step_by(STRIDE_BYTES)) {
            load(from, &mut stored[..part.len()]);
            if stored[..part.len()] != *part {
                return None;
            }
        }
        let before = last.map_or(0, |page| page.before + page.len);
        Some(Page { at, len: bytes.len() as u64, stored_at, before })
    }

    /// Pages with bytes from `at` to `end` are kept as bytes from now on.
    fn keep_bytes(&mut self, at: u64, end: u64, load: &impl Fn(u64, &mut [u8])) {
        while let Some(found) = self.pages.iter().position(|page| page.at < end && at < page.end())
        {
            let page = self.pages.remove(found);
            let mut bytes = vec![0; page.len as usize];
            load(page.stored_at, &mut bytes);
            let place = (page.at - page.before) as usize;
            self.bytes.splice(place..place, bytes);
            self.pages[found..].iter_mut().for_each(|behind| behind.before -= page.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_workloads::Random;

    use super::*;

    fn none(_: u64, out: &mut [u8]) {
        out.fill(9);
    }

    #[test]
    fn a_journal_is_a_file_whose_zeroed_header_ends_a_transaction() {
        let mut journal = Journal::default();
        assert!(!journal.exists());
        journal.create();
        assert_eq!(journal.write(2, b"ab", none), Ok(false));
        assert_eq!(journal.write(0, b"xy", none), Ok(false));
        let mut out = [7; 6];
        assert_eq!(journal.read(1, &mut out, none), 3);
        assert_eq!(&out, b"yab\0\0\0");
        assert_eq!(journal.read(9, &mut out, none), 0);
        assert_eq!(journal.write(0, &[0; 27], none), Ok(false));
        assert_eq!(journal.write(4, &[0; HEADER_BYTES], none), Ok(false));
        assert_eq!(journal.write(0, &[0; HEADER_BYTES], none), Ok(true));
        assert_eq!(journal.len(), 32);
        journal.delete();
        assert!(!journal.exists() && journal.len() == 0);
    }

    /// Records of stored and of other pages, writes over them, and cuts, against a file of bytes.
    #[test]
    fn stored_pages_take_no_memory_and_are_read_back() {
        const PAGE: usize = 1024;
        let stored: Vec<u8> = (0..16 * PAGE).map(|at| (at / PAGE + at % 7) as u8).collect();
        let load = |at: u64, out: &mut [u8]| {
            out.copy_from_slice(&stored[at as usize..at as usize + out.len()]);
        };
        let mut spared = 0;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut journal, mut shadow) = (Journal::default(), vec![3; COPIED_BYTES]);
            journal.write(0, &shadow, load).unwrap();
            for _ in 0..40 {
                let (at, bytes) = match random.below(8) {
                    0 => {
                        let all = shadow.len() as u64;
                        let len = all - random.below(6_000).min(all - COPIED_BYTES as u64)
                            + random.below(40);
                        journal.set_len(len, load);
                        shadow.resize(len as usize, 0);
                        continue;
                    }
                    1 => {
                        let at = shadow.len() as u64 + 600 - random.below(9_000);
                        (at, vec![random.below(200) as u8 + 1; random.below(3000) as usize])
                    }
                    kind => {
                        let number = random.below(16);
                        let end = shadow.len() as u64;
                        let bytes = (number as u32 + 1).to_be_bytes();
                        journal.write(end, &bytes, load).unwrap();
                        shadow.extend(bytes);
                        let mut page = stored[number as usize * PAGE..][..PAGE].to_vec();
                        page[PAGE - 1] ^= u8::from(kind == 2);
                        (end + 4, page)
                    }
                };
                assert_eq!(journal.write(at, &bytes, load), Ok(false));
                let (from, to) = (at as usize, at as usize + bytes.len());
                shadow.resize(shadow.len().max(to), 0);
                shadow[from..to].copy_from_slice(&bytes);
                assert_eq!(journal.len(), shadow.len() as u64);
                let from = shadow.len() as u64 - random.below(20_000);
                let mut seen = vec![7; random.below(5000) as usize];
                let there = journal.read(from, &mut seen, load);
                let wanted = &shadow[from as usize..];
                assert_eq!(there, wanted.len().min(seen.len()));
                assert!(seen[..there] == wanted[..there], "seed {seed}");
                assert!(seen[there..].iter().all(|byte| *byte == 0));
            }
            spared += journal.pages.len();
            let kept: u64 = journal.pages.iter().map(|page| page.len).sum();
            assert_eq!(journal.bytes.len() as u64 + kept, journal.end);
        }
        assert!(spared > 1_000, "{spared}");
    }
}
