//! The rollback journal of SQLite, in volatile memory.
//!
//! SQLite writes there what pages held before, to roll back while a transaction runs. After a crash there
//! is none, and none is needed: the pool shows the last committed transaction.

use std::collections::TryReserveError;

/// The start of a journal's header, all zeros: `PERSIST` ends a transaction by writing it.
const HEADER_BYTES: usize = 28;

/// Capacity that is kept from transaction to transaction.
const CAPACITY_KEPT: usize = 4 << 20;

/// A journal; it may exist or not.
#[derive(Default)]
pub(crate) struct Journal {
    bytes: Vec<u8>,
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
        self.bytes.len() as u64
    }

    /// Deletes it.
    pub fn delete(&mut self) {
        self.set_len(0);
        self.exists = false;
    }

    pub fn set_len(&mut self, len: u64) {
        if len == 0 && self.bytes.capacity() > CAPACITY_KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.resize(len as usize, 0);
    }

    /// Writes to it. `true` when that ends its transaction.
    ///
    /// # Errors
    /// When the system has no memory for it. Nothing was written.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<bool, TryReserveError> {
        let (at, end) = (at as usize, at as usize + bytes.len());
        self.bytes.try_reserve(end.saturating_sub(self.bytes.len()))?;
        if at == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
        } else {
            if end > self.bytes.len() {
                self.bytes.resize(end, 0);
            }
            self.bytes[at..end].copy_from_slice(bytes);
        }
        Ok(at == 0 && bytes.len() == HEADER_BYTES && bytes.iter().all(|byte| *byte == 0))
    }

    /// Reads from it; returns how many bytes there were. The rest of `out` is zeros.
    pub fn read(&self, at: u64, out: &mut [u8]) -> usize {
        let there = self.bytes.get(at as usize..).unwrap_or_default();
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        out[len..].fill(0);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_a_file_whose_zeroed_header_ends_a_transaction() {
        let mut journal = Journal::default();
        assert!(!journal.exists());
        journal.create();
        assert_eq!(journal.write(2, b"ab"), Ok(false));
        assert_eq!(journal.write(0, b"xy"), Ok(false));
        let mut out = [7; 6];
        assert_eq!(journal.read(1, &mut out), 3);
        assert_eq!(&out, b"yab\0\0\0");
        assert_eq!(journal.read(9, &mut out), 0);
        assert_eq!(journal.write(0, &[0; 27]), Ok(false));
        assert_eq!(journal.write(4, &[0; HEADER_BYTES]), Ok(false));
        assert_eq!(journal.write(0, &[0; HEADER_BYTES]), Ok(true));
        assert_eq!(journal.len(), 32);
        journal.delete();
        assert!(!journal.exists() && journal.len() == 0);
    }
}
