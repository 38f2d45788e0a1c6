//! A mapped file as a medium: loads, stores, flushes and fences in its domain, and growth.

use std::fs::File;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use outlast_trace::{Domain, FlushKind, LINE_BYTES, LineAddr, PoolOffset};

use super::locked::{allocate, fill_holes};
use super::window::line_start;
use super::{Mapped, WriteBack, os};
use crate::cpu;
use crate::crossover;
use crate::error::{MapError, MediumFailure, PAGE_BYTES};
use crate::fence_log::{FenceLog, FenceRegion};
use crate::medium::{GrowError, Medium};

/// Memory is saturated by fewer threads than large machines run.
const WORKERS_MAX: usize = 8;

impl Mapped {
    #[inline(never)]
    fn flush_otherwise(&self, line: LineAddr) {
        match self.write_back {
            WriteBack::Clwb | WriteBack::Nothing => {}
            WriteBack::ClflushOpt => self.window.flush(FlushKind::ClflushOpt, line),
            WriteBack::Clflush => self.window.flush(FlushKind::Clflush, line),
            WriteBack::Pages => {
                self.window.check_line(line);
                self.pages.note(line.start().0, LINE_BYTES);
            }
        }
    }

    #[inline(never)]
    fn flush_range_otherwise(&self, at: PoolOffset, len: u64) {
        match self.write_back {
            WriteBack::Clwb | WriteBack::Nothing => {}
            WriteBack::ClflushOpt => self.window.flush_range(FlushKind::ClflushOpt, at, len),
            WriteBack::Clflush => self.window.flush_range(FlushKind::Clflush, at, len),
            WriteBack::Pages => {
                self.window.check(at, len);
                self.pages.note(at.0, len);
            }
        }
    }

    /// Behind a stream: its pages are noted; or its lines are flushed, where the processor has but stores.
    #[inline(always)]
    fn end_stream(&self, at: PoolOffset, len: u64) {
        if self.write_back == WriteBack::Pages {
            self.pages.note(at.0, len);
        } else if cpu::STREAMS_ARE_STORES {
            self.flush_range(at, len);
        }
    }

    /// A fence that does more than the store fence: behind that, streams are in the page cache.
    #[inline(never)]
    fn fence_otherwise(&self) -> bool {
        cpu::store_fence();
        if self.write_back == WriteBack::Clflush {
            cpu::full_fence();
            return true;
        }
        self.pages.drain(self)
    }
}

impl Medium for Mapped {
    const OBSERVED: bool = false;

    #[inline]
    fn has_atomic_line(&self) -> bool {
        self.has_atomic_line
    }

    #[inline]
    fn len(&self) -> u64 {
        self.window.len()
    }

    #[inline]
    fn is_paged(&self) -> bool {
        self.write_back == WriteBack::Pages
    }

    #[inline]
    fn is_forked(&self) -> bool {
        !self.owner.is_this_process()
    }

    fn failure(&self) -> Option<MediumFailure> {
        if self.owner.is_this_process() && !self.owner.is_running() {
            // The thread that has failed is about to say why.
            return Some(self.failure.wait().clone());
        }
        self.failure.get().cloned()
    }

    #[inline(always)]
    fn is_usable(&self) -> bool {
        self.owner.is_running()
    }

    fn persistence(&self) -> Option<Domain> {
        Some(self.domain)
    }

    fn sync_count(&self) -> u64 {
        self.syncs()
    }

    fn file(&self) -> Option<&File> {
        Some(self.file.get())
    }

    fn begin_fence_log(&self, region: FenceRegion, first: u64) {
        if self.write_back == WriteBack::Pages {
            self.pages.begin_log(FenceLog::new(region, first, None));
        }
    }

    fn fence_log_used_bytes(&self) -> u64 {
        self.pages.log_used_bytes()
    }

    fn write_in_place(&self) -> Result<(), MapError> {
        if let Some(error) = self.failed_map() {
            return Err(error);
        }
        self.file.get().sync_data().map_err(|error| {
            self.fail_if_paged("sync", &error);
            MapError::Io { path: self.path.clone(), what: "sync", source: error }
        })?;
        self.pages.end_log();
        Ok(())
    }

    fn allocate(&self, at: PoolOffset, len: u64) -> Result<(), MapError> {
        if self.is_forked() {
            return Err(MapError::Forked { path: self.path.clone() });
        }
        if let Some(error) = self.failed_map() {
            return Err(error);
        }
        fill_holes(&self.path, self.file.get(), at.0..at.0 + len)
    }

    fn release(&self, at: PoolOffset, len: u64) {
        let pages = at.0.next_multiple_of(PAGE_BYTES)..(at.0 + len) / PAGE_BYTES * PAGE_BYTES;
        if !pages.is_empty() && self.is_usable() && self.window.is_writable() {
            os::release(self.file.get(), pages);
        }
    }

    #[inline]
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        self.window.load(at, out);
    }

    #[inline]
    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.window.load_u64(at)
    }

    #[inline]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.window.store(at, bytes);
    }

    #[inline]
    fn store_u64(&self, at: PoolOffset, value: u64) {
        self.window.store_u64(at, value);
    }

    #[inline]
    fn store_u64_each(&self, words: impl Iterator<Item = (PoolOffset, u64)>) {
        self.window.store_u64_each(words);
    }

    #[inline]
    fn store_words(&self, line: LineAddr, mask: u8, words: &[u64; 8]) {
        self.window.store_words(line, mask, words);
    }

    #[inline]
    fn store_words_each<'w>(&self, lines: impl Iterator<Item = (LineAddr, u8, &'w [u64; 8])>) {
        self.window.store_words_each(lines);
    }

    #[inline]
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        if self.write_back == WriteBack::Nothing {
            // What is in the caches is durable, and the way past them is longer.
            assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
            return self.window.store(at, bytes);
        }
        self.window.stream(at, bytes);
        self.end_stream(at, bytes.len() as u64);
    }

    /// Words that were just made come in registers.
    #[inline(always)]
    fn store_line_nt(&self, line: LineAddr, words: &[u64; 8]) {
        if self.write_back == WriteBack::Nothing {
            return self.window.store_words(line, !0, words);
        }
        self.window.stream_line(line, words);
        self.end_stream(line.start(), LINE_BYTES);
    }

    #[inline]
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        if self.has_atomic_line {
            self.window.store_line_atomic(line, bytes);
        } else {
            self.window.stream(line_start(line), bytes);
        }
        self.end_stream(line.start(), LINE_BYTES);
    }

    // The usual instruction and the absence of one are inlined; the rest is a call away.

    #[inline]
    fn flush(&self, line: LineAddr) {
        match self.write_back {
            WriteBack::Clwb => self.window.flush(FlushKind::Clwb, line),
            WriteBack::Nothing => self.window.check_line(line),
            _ => self.flush_otherwise(line),
        }
    }

    /// The instruction is chosen once for all of them.
    #[inline]
    fn flush_each(&self, lines: impl Iterator<Item = LineAddr>) {
        match self.write_back {
            WriteBack::Clwb => self.window.flush_each(FlushKind::Clwb, lines),
            WriteBack::ClflushOpt => self.window.flush_each(FlushKind::ClflushOpt, lines),
            _ => lines.for_each(|line| self.flush(line)),
        }
    }

    #[inline]
    fn flush_range(&self, at: PoolOffset, len: u64) {
        match self.write_back {
            WriteBack::Clwb => self.window.flush_range(FlushKind::Clwb, at, len),
            WriteBack::Nothing => self.window.check(at, len),
            _ => self.flush_range_otherwise(at, len),
        }
    }

    #[inline]
    fn fence(&self) {
        let _ = self.try_fence();
    }

    #[inline]
    fn try_fence(&self) -> bool {
        // Behind the fence the question would delay what comes next.
        match self.write_back {
            WriteBack::Clflush | WriteBack::Pages => self.fence_otherwise(),
            _ => {
                cpu::store_fence();
                true
            }
        }
    }

    #[inline]
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        // On memory of x86-64 the instruction orders flushes (rule 7); else it needs help.
        let needs_fence = match self.write_back {
            WriteBack::Pages => !self.pages.is_empty(),
            WriteBack::Nothing => false,
            _ => !cpu::RMW_FENCES,
        };
        if needs_fence {
            self.fence();
        }
        self.window.compare_exchange_u64(at, current, new)
    }

    #[inline]
    fn prefetch_write(&self, line: LineAddr) {
        self.window.prefetch_write(line);
    }

    #[inline]
    fn prefetch_read(&self, line: LineAddr) {
        self.window.prefetch_read(line);
    }

    /// By as many threads as the machine runs at once, up to eight.
    fn share_out(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            let taken = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|part| *part < parts);
            while let Some(part) = taken() {
                work(self, part);
            }
        };
        let workers = if parts > 1 { workers().min(parts) } else { 1 };
        thread::scope(|scope| {
            for _ in 1..workers {
                let work_and_fence = || {
                    work();
                    self.fence();
                };
                // Where there is no other thread to be had, there are fewer.
                let _ = thread::Builder::new().spawn_scoped(scope, work_and_fence);
            }
            work();
        });
    }

    /// Tries it, in less than a millisecond, where lines are flushed one by one. A fence that writes to a
    /// file reads what was flushed, so there nothing is to go past the caches.
    fn stream_from(&self, first: LineAddr, lines: u64) -> u64 {
        match self.write_back {
            WriteBack::Clwb | WriteBack::ClflushOpt | WriteBack::Clflush => {
                crossover::stream_from(self, first, lines)
            }
            WriteBack::Nothing => 1,
            WriteBack::Pages => u64::MAX,
        }
    }

    /// Makes the file at least `len` bytes long, rounded up to whole pages. The base stays where
    /// it is. Fails without any effect when there is no space, on a medium opened for reading
    /// only, and past [`max_len`](Mapped::max_len).
    fn grow(&self, len: u64) -> Result<(), GrowError> {
        if self.is_forked() {
            return Err(MapError::Forked { path: self.path.clone() }.into());
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let old_len = self.window.len();
        if len <= old_len {
            return Ok(());
        }
        if let Some(error) = self.failed_map() {
            return Err(error.into());
        }
        if !self.window.is_writable() {
            return Err(MapError::ReadOnly { path: self.path.clone() }.into());
        }
        if !os::CAN_GROW {
            return Err(GrowError::Fixed);
        }
        let whole = len.checked_next_multiple_of(PAGE_BYTES).filter(|&len| len <= self.max_len);
        let Some(len) = whole else {
            let (path, max_len) = (self.path.clone(), self.max_len);
            return Err(MapError::PastLimit { path, len, max_len }.into());
        };
        let file = self.file.get();
        let found = file.metadata().map_err(|error| MapError::io(&self.path, "read", error))?.len();
        if found < old_len {
            let (path, mapped) = (self.path.clone(), old_len);
            return Err(MapError::Truncated { path, mapped, found }.into());
        }
        allocate(&self.path, file, old_len, len)?;
        let undone = |error| {
            let _ = file.set_len(old_len);
            MapError::io(&self.path, "enlarge", error)
        };
        if self.domain.row().is_power {
            self.sync_length(file, len).map_err(|error| {
                self.fail_if_paged("sync", &error);
                undone(error)
            })?;
        }
        self.window.extend(file, len).map_err(undone)?;
        Ok(())
    }
}

impl Mapped {
    /// Makes the length of the file durable that has just grown to `len`. Where pages wait to be written, a sync of the
    /// whole file would write them all; a synchronous write to the last new bytes needs the length and no other page.
    fn sync_length(&self, file: &File, len: u64) -> io::Result<()> {
        const ZERO: [u8; 8] = [0; 8];
        if self.is_paged() {
            match os::write_through(file, len - ZERO.len() as u64, &ZERO) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                done => return done,
            }
        }
        file.sync_all()
    }
}

fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX)
}
