//! A heap that is watched: one medium for the tests that each look at another side of it, since
//! each medium compiles all of the runtime anew.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::ThreadId;

use outlast::PoolOffset;
use outlast::medium::LineAddr;
use outlast_pmem::{GrowError, Heap, Medium};

pub struct Watched {
    heap: Heap,
    /// How often it was to grow, which it never does.
    pub grown: AtomicUsize,
    /// The lines that each thread has flushed and not fenced.
    pub unfenced: Mutex<HashSet<(ThreadId, LineAddr)>>,
    /// Before the next store to this word the thread comes twice to the barrier, and behind it
    /// keeps the image.
    pub stops_at: Mutex<Option<PoolOffset>>,
    pub barrier: Barrier,
    pub image: Mutex<Vec<u8>>,
}

impl Watched {
    pub fn new(bytes: u64) -> Self {
        Self {
            heap: Heap::new(bytes),
            grown: AtomicUsize::new(0),
            unfenced: Mutex::default(),
            stops_at: Mutex::new(None),
            barrier: Barrier::new(2),
            image: Mutex::default(),
        }
    }

    pub fn has_unfenced(&self) -> bool {
        !self.unfenced.lock().unwrap().is_empty()
    }
}

impl Medium for Watched {
    const OBSERVED: bool = false;

    fn has_atomic_line(&self) -> bool {
        false
    }
    fn len(&self) -> u64 {
        self.heap.len()
    }
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        self.heap.load(at, out);
    }
    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.heap.load_u64(at)
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.heap.store(at, bytes);
    }
    fn store_u64(&self, at: PoolOffset, value: u64) {
        let stops = self.stops_at.lock().unwrap().take_if(|word| *word == at).is_some();
        if stops {
            self.barrier.wait();
            self.barrier.wait();
        }
        self.heap.store_u64(at, value);
        if stops {
            *self.image.lock().unwrap() = self.heap.to_bytes();
        }
    }
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        self.heap.store_nt(at, bytes);
    }
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.heap.store_line(line, bytes);
    }
    fn flush(&self, line: LineAddr) {
        self.unfenced.lock().unwrap().insert((std::thread::current().id(), line));
    }
    fn fence(&self) {
        let me = std::thread::current().id();
        self.unfenced.lock().unwrap().retain(|(thread, _)| *thread != me);
    }
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.heap.compare_exchange_u64(at, current, new)
    }
    fn grow(&self, _: u64) -> Result<(), GrowError> {
        self.grown.fetch_add(1, Ordering::Relaxed);
        Err(GrowError::Fixed)
    }
}
