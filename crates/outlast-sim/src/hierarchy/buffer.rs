//! A buffer of volatile memory between the shared level and memory, on the memory's side.
//!
//! All lines that the shared level reads or writes pass it, and each gets a place in it. With
//! write-through, memory gets each write at once, and the buffer is there for reads. With write-back, it
//! is a level below the shared one: it has newer bytes than memory, flushes and scans find them, and a
//! crash loses them. A line that leaves it takes its newest bytes to memory, wherever they are, so that
//! no cache above has any that memory lacks.

use super::{Backing, Cause, Hierarchy};
use crate::{
    cache::{Cache, Contents, Evicted, LineBytes, LineTag},
    config::{CacheConfig, ConfigError},
};
use outlast_trace::{LineAddr, derive};

#[derive(Clone, Debug)]
pub(super) struct Buffer<T> {
    pub(super) cache: Cache<T>,
    writes_back: bool,
    /// Lines from here on pass by it.
    until: LineAddr,
}

impl<T: LineTag> Buffer<T> {
    /// Whether it has newer bytes of a line than memory.
    pub(super) fn is_dirty(&self, line: LineAddr) -> bool {
        self.cache.probe(line).is_some_and(|slot| self.cache.is_dirty(slot))
    }
}

impl<T: LineTag> Hierarchy<T> {
    /// Puts an empty buffer in front of memory, for lines below a limit.
    ///
    /// # Errors
    /// When `config` describes no possible cache.
    pub(crate) fn set_buffer(
        &mut self,
        config: CacheConfig,
        writes_back: bool,
        until: LineAddr,
        seed: u64,
    ) -> Result<(), ConfigError> {
        /// The part of the machine that draws its numbers: behind those of all lanes.
        const PART: u64 = 1 << 32;
        let cache = Cache::new(config, derive(seed, PART))?;
        self.buffer = Some(Buffer { cache, writes_back, until });
        Ok(())
    }

    /// The place of a line in the buffer, if it is there.
    #[inline]
    pub(crate) fn place_in_buffer(&self, line: LineAddr) -> Option<u32> {
        let buffer = self.buffer.as_ref()?;
        buffer.cache.probe(line).map(|slot| buffer.cache.number(slot))
    }

    /// A line for the shared level, from the buffer or from memory.
    pub(super) fn read_below<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        below: &mut B,
    ) -> (LineBytes, T) {
        if let Some(buffer) = self.buffer.as_mut().filter(|buffer| line < buffer.until)
            && let Some(slot) = buffer.cache.access(line)
        {
            let tag = match buffer.cache.is_dirty(slot) {
                true => buffer.cache.tag(slot),
                false => below.tag_of(line),
            };
            return (*buffer.cache.data(slot), tag);
        }
        self.traffic.memory_reads += 1;
        let (data, tag) = (below.read(line), below.tag_of(line));
        if self.buffer.as_ref().is_some_and(|buffer| line < buffer.until) {
            self.put_into_buffer(line, &Contents { data, dirty: false, owned: false, tag }, below);
        }
        (data, tag)
    }

    /// A line leaves the shared level with newer bytes than those below have.
    pub(super) fn write_below<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        contents: &Contents<T>,
        below: &mut B,
    ) {
        let buffer = self.buffer.as_ref().filter(|buffer| line < buffer.until);
        let (is_buffered, writes_back) =
            (buffer.is_some(), buffer.is_some_and(|buffer| buffer.writes_back));
        if is_buffered {
            let contents = Contents { dirty: writes_back, owned: false, ..*contents };
            self.put_into_buffer(line, &contents, below);
        }
        if !writes_back {
            self.traffic.memory_evictions += 1;
            below.write(line, u8::MAX, &contents.data, Cause::Evicted, contents.tag);
        }
    }

    fn put_into_buffer<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        contents: &Contents<T>,
        below: &mut B,
    ) {
        let Some(buffer) = &mut self.buffer else { return };
        let (slot, leaving) = match buffer.cache.probe(line) {
            Some(slot) => {
                match contents.dirty {
                    true => buffer.cache.take_over(slot, contents),
                    false => buffer.cache.clean(slot, &contents.data),
                }
                (slot, None)
            }
            None => buffer.cache.install(line, contents),
        };
        let place = buffer.cache.number(slot);
        if let Some(leaving) = leaving {
            self.leaves_buffer(leaving, place, below);
        }
        below.buffer_accessed(place, true);
    }

    /// A line left its place in the buffer: memory gets the newest bytes, if it has not.
    fn leaves_buffer<B: Backing<T>>(&mut self, leaving: Evicted<T>, place: u32, below: &mut B) {
        let Evicted { line, contents } = leaving;
        if !contents.dirty {
            return;
        }
        let (data, tag) = match self.newest_tagged(line) {
            Some((data, true, tag)) => {
                self.clean_everywhere(line, &data);
                (data, tag)
            }
            _ => {
                below.buffer_accessed(place, false);
                (contents.data, contents.tag)
            }
        };
        if let Some(buffer) = &mut self.buffer {
            buffer.cache.stats.write_backs += 1;
        }
        self.traffic.memory_evictions += 1;
        below.write(line, u8::MAX, &data, Cause::Evicted, tag);
    }

    /// The newest bytes of a line go to memory: a place that the buffer has for it gets them as well, or
    /// they come from there.
    pub(super) fn passes_buffer<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        data: &LineBytes,
        is_from_buffer: bool,
        below: &mut B,
    ) {
        if let Some(buffer) = &mut self.buffer
            && let Some(slot) = buffer.cache.probe(line)
        {
            buffer.cache.clean(slot, data);
            below.buffer_accessed(buffer.cache.number(slot), !is_from_buffer);
        }
    }

    /// Planted: the newest bytes of a line end in its place in the buffer, where they should go to
    /// memory. False where it is not planted, or there is no such place.
    pub(super) fn is_kept_in_buffer<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        data: &LineBytes,
        tag: T,
        below: &mut B,
    ) -> bool {
        if !self.flushes_end_in_buffer {
            return false;
        }
        let buffer = self.buffer.as_mut();
        let buffer = buffer.filter(|buffer| buffer.writes_back && line < buffer.until);
        let Some(buffer) = buffer else { return false };
        // Nothing leaves for it: that write would count as the flush's.
        let Some(slot) = buffer.cache.probe(line) else { return false };
        let contents = Contents { data: *data, dirty: true, owned: false, tag };
        buffer.cache.take_over(slot, &contents);
        below.buffer_accessed(buffer.cache.number(slot), true);
        true
    }
}
