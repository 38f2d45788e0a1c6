//! A disk that keeps a record of what it was told, and what a crash may leave of it.
//!
//! What was synced is there. Of what was not, every sector of every write, and every cutting-off,
//! is there or not, each on its own: a later one without an earlier one, too. A file gets its name
//! wholly or not at all, and may have it before the call has returned.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::SECTOR_BYTES;
use crate::checkpoint::shelf::{Shelf, Volume};

#[derive(Clone, Debug)]
pub enum Told {
    Write {
        file: usize,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: usize,
        len: u64,
    },
    Sync {
        file: usize,
    },
    PutInPlace {
        file: usize,
    },
    /// The checkpoint was reported as made.
    Returned,
}

/// Files by number, and which of them has the name.
#[derive(Clone, Default)]
pub struct Content {
    pub files: Vec<Vec<u8>>,
    pub named: Option<usize>,
}

#[derive(Default)]
struct State {
    content: Content,
    /// Since the record was begun.
    told: Vec<Told>,
    /// The number of the sync that is left out, counted from the beginning of the record.
    forgotten: Option<usize>,
    syncs: usize,
    /// How many more writes succeed.
    writes_left: Option<usize>,
}

#[derive(Clone, Default)]
pub struct Disk(Rc<RefCell<State>>);

pub struct OnDisk {
    disk: Disk,
    file: usize,
}

impl Disk {
    pub fn of(content: Content) -> Self {
        let disk = Self::default();
        disk.0.borrow_mut().content = content;
        disk
    }

    /// A disk whose only file has these bytes.
    pub fn with_file(bytes: Vec<u8>) -> Self {
        Self::of(Content { files: vec![bytes], named: Some(0) })
    }

    pub fn content(&self) -> Content {
        self.0.borrow().content.clone()
    }

    /// The file's bytes.
    pub fn file(&self) -> Vec<u8> {
        let content = self.content();
        content.files[content.named.expect("there is a file")].clone()
    }

    /// Begins a new record.
    pub fn take_record(&self) -> Vec<Told> {
        let mut state = self.0.borrow_mut();
        state.syncs = 0;
        std::mem::take(&mut state.told)
    }

    pub fn returned(&self) {
        self.0.borrow_mut().told.push(Told::Returned);
    }

    pub fn forget_sync(&self, number: Option<usize>) {
        self.0.borrow_mut().forgotten = number;
    }

    pub fn fail_after_writes(&self, writes: Option<usize>) {
        self.0.borrow_mut().writes_left = writes;
    }
}

impl Volume for OnDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.borrow().content.files[self.file].len() as u64)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.0.borrow();
        let bytes = state.content.files[self.file].get(at as usize..at as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.borrow_mut();
        match &mut state.writes_left {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        write(&mut state.content.files[self.file], at, bytes);
        state.told.push(Told::Write { file: self.file, at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.borrow_mut();
        state.content.files[self.file].truncate(len as usize);
        state.told.push(Told::Truncate { file: self.file, len });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.borrow_mut();
        state.syncs += 1;
        if state.forgotten != Some(state.syncs - 1) {
            state.told.push(Told::Sync { file: self.file });
        }
        Ok(())
    }
}

impl Shelf for Disk {
    type File = OnDisk;

    fn path(&self) -> &Path {
        Path::new("checkpoint")
    }

    fn open(&self) -> Result<Option<OnDisk>, CheckpointError> {
        let named = self.0.borrow().content.named;
        Ok(named.map(|file| OnDisk { disk: self.clone(), file }))
    }

    fn create(&self) -> Result<OnDisk, CheckpointError> {
        let mut state = self.0.borrow_mut();
        state.content.files.push(Vec::new());
        let file = state.content.files.len() - 1;
        Ok(OnDisk { disk: self.clone(), file })
    }

    fn put_in_place(
        &self,
        file: &OnDisk,
        replaced: Option<&OnDisk>,
    ) -> Result<(), CheckpointError> {
        let mut state = self.0.borrow_mut();
        assert_eq!(state.content.named, replaced.map(|replaced| replaced.file));
        state.content.named = Some(file.file);
        state.told.push(Told::PutInPlace { file: file.file });
        Ok(())
    }

    fn discard(&self, _file: OnDisk) {}
}

fn write(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at as usize..end].copy_from_slice(bytes);
}

/// What is kept of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    All,
    Nothing,
    AllBut(usize),
    Only(usize),
    /// Each with one chance in two, drawn from this seed.
    Drawn(u64),
}

impl Keep {
    fn keeps(self, unit: usize) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::AllBut(lost) => unit != lost,
            Self::Only(kept) => unit == kept,
            Self::Drawn(seed) => {
                let x = (seed << 20 ^ unit as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 62 & 1 == 1
            }
        }
    }
}

/// What a crash after these calls leaves of what was there before them, and of how many pieces it
/// could have kept each or not.
pub fn crashed(before: &Content, told: &[Told], keep: Keep) -> (Content, usize) {
    let mut content = before.clone();
    let mut unit = 0;
    let synced_later = |file: usize, from: usize| {
        told[from..].iter().any(|told| matches!(told, Told::Sync { file: f } if *f == file))
    };
    for (index, call) in told.iter().enumerate() {
        let mut survives = |is_synced: bool| {
            if is_synced {
                return true;
            }
            unit += 1;
            keep.keeps(unit - 1)
        };
        match call {
            Told::Write { file, at, bytes } => {
                content.files.resize(content.files.len().max(file + 1), Vec::new());
                let is_synced = synced_later(*file, index);
                let mut at = *at;
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let piece = (SECTOR_BYTES - at % SECTOR_BYTES).min(rest.len() as u64);
                    let (sector, others) = rest.split_at(piece as usize);
                    if survives(is_synced) {
                        write(&mut content.files[*file], at, sector);
                    }
                    (at, rest) = (at + piece, others);
                }
            }
            Told::Truncate { file, len } => {
                if survives(synced_later(*file, index)) {
                    content.files[*file].truncate(*len as usize);
                }
            }
            Told::Sync { .. } | Told::Returned => {}
            Told::PutInPlace { file } => {
                // Durable when the call has returned: when something was told after it.
                if survives(index + 1 < told.len()) {
                    content.files.resize(content.files.len().max(file + 1), Vec::new());
                    content.named = Some(*file);
                }
            }
        }
    }
    (content, unit)
}
