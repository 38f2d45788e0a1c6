use std::sync::Mutex;

use outlast_trace::{ByteRange, Domain};

use super::*;
use crate::{Counted, Delayed, Either, Heap, WriteCost};

/// A medium that notes the methods by which it is called.
struct Heard {
    heap: Heap,
    calls: Mutex<Vec<&'static str>>,
}

impl Heard {
    fn new() -> Self {
        Self { heap: Heap::new(128), calls: Mutex::default() }
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

/// Methods that note their names and return something that no default does.
macro_rules! heard {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $value:expr;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.calls.lock().unwrap().push(stringify!($name));
            let _ = ($($argument,)*);
            $value
        })*
    };
}

impl Medium for Heard {
    const OBSERVED: bool = true;

    heard! {
        planted() -> u16 = 7;
        has_atomic_line() -> bool = true;
        len() -> u64 = 128;
        is_forked() -> bool = true;
        failure() -> Option<MediumFailure> = None;
        is_usable() -> bool = true;
        is_paged() -> bool = true;
        begin_fence_log(region: FenceRegion, first: u64) = ();
        fence_log_used_bytes() -> u64 = 5;
        write_in_place() -> Result<(), MapError> = Ok(());
        allocate(at: PoolOffset, len: u64) -> Result<(), MapError> = Ok(());
        release(at: PoolOffset, len: u64) = ();
        persistence() -> Option<Domain> = Some(Domain::Page);
        sync_count() -> u64 = 11;
        file() -> Option<&std::fs::File> = None;
        load(at: PoolOffset, out: &mut [u8]) = ();
        load_u64(at: PoolOffset) -> u64 = 9;
        verify(at: PoolOffset, len: u64, is_valid: impl Fn(&[u8]) -> bool) -> bool = true;
        store(at: PoolOffset, bytes: &[u8]) = ();
        store_u64(at: PoolOffset, value: u64) = ();
        store_words(line: LineAddr, mask: u8, words: &[u64; 8]) = ();
        store_nt(at: PoolOffset, bytes: &[u8]) = ();
        store_line_nt(line: LineAddr, words: &[u64; 8]) = ();
        store_line(line: LineAddr, bytes: &[u8; 64]) = ();
        flush(line: LineAddr) = ();
        flush_range(at: PoolOffset, len: u64) = ();
        fence() = ();
        try_fence() -> bool = false;
        compare_exchange_u64(at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> = Err(3);
        prefetch_write(line: LineAddr) = ();
        prefetch_read(line: LineAddr) = ();
        stream_from(first: LineAddr, lines: u64) -> u64 = 6;
        grow(len: u64) -> Result<(), GrowError> = Ok(());
        mark(mark: Mark) = ();
        pause() = ();
    }

    fn share_out(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        self.calls.lock().unwrap().push("share_out");
        thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || work(self, part))))
        });
        self.heap.fence();
    }
}

/// Calls each method of a medium once, in the order of the trait.
fn call_all<M: Medium>(medium: &M) {
    let (at, line, words) = (PoolOffset(0), LineAddr(0), [0; 8]);
    assert!(M::OBSERVED);
    assert_eq!(medium.planted(), 7);
    assert!(medium.has_atomic_line());
    assert_eq!(medium.len(), 128);
    assert!(!medium.is_empty());
    assert!(medium.is_forked());
    assert!(medium.failure().is_none());
    assert!(medium.is_usable());
    assert!(medium.is_paged());
    medium.begin_fence_log(FenceRegion { halves: ByteRange::new(at, 0), salt: 0 }, 0);
    assert_eq!(medium.fence_log_used_bytes(), 5);
    medium.write_in_place().unwrap();
    medium.allocate(at, 64).unwrap();
    medium.release(at, 64);
    assert_eq!(medium.persistence(), Some(Domain::Page));
    assert_eq!(medium.sync_count(), 11);
    assert!(medium.file().is_none());
    medium.load(at, &mut [0; 8]);
    assert_eq!(medium.load_u64(at), 9);
    assert!(medium.verify(at, 8, |_| false));
    medium.store(at, &[0; 3]);
    medium.store_u64(at, 1);
    medium.store_words(line, 0b11, &words);
    medium.store_nt(at, &[0; 64]);
    medium.store_line_nt(line, &words);
    medium.store_line(line, &[0; 64]);
    medium.flush(line);
    medium.flush_range(at, 128);
    medium.fence();
    assert!(!medium.try_fence());
    assert_eq!(medium.compare_exchange_u64(at, 0, 1), Err(3));
    medium.prefetch_write(line);
    medium.prefetch_read(line);
    assert_eq!(medium.stream_from(line, 1), 6);
    medium.grow(64).unwrap();
    medium.mark(Mark::TxBegin);
    medium.share_out(0, &|_, _| ());
    medium.pause();
}

/// The methods of the trait that are not made of others, in its order; `is_empty` asks for the length.
fn methods() -> Vec<&'static str> {
    let (_, body) = include_str!("../medium.rs").split_once("pub trait Medium {").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    let names = lines.map(|line| line.split_once('(').unwrap().0);
    // A loop over another one is that one, many times.
    let names = names.filter(|name| !name.contains("_each"));
    names.map(|name| if name == "is_empty" { "len" } else { name }).collect()
}

#[test]
fn a_layer_passes_on_every_method() {
    let medium = Heard::new();
    call_all(&medium);
    assert_eq!(medium.take(), methods(), "each method is called");

    let medium =
        Counted::new(Delayed::new(medium, WriteCost { line_ns: 1, ..WriteCost::default() }));
    call_all(&medium);
    assert_eq!(medium.inner().inner().take(), methods());
    let counted = medium.counters();
    assert_eq!((counted.fences, counted.streamed_lines, counted.flushed_lines), (2, 3, 3));
    assert_eq!(counted.stored_bytes, 3 + 8 + 16 + 3 * 64);

    let but_threads: Vec<_> = methods().into_iter().filter(|name| *name != "share_out").collect();
    let medium = Arc::new(medium);
    call_all(&&medium);
    assert_eq!((*medium).inner().inner().take(), but_threads);

    let medium: Either<_, Heap> = Either::A(Heard::new());
    call_all(&medium);
    let Either::A(medium) = medium else { unreachable!() };
    assert_eq!(medium.take(), but_threads);
}

#[test]
fn threads_of_the_medium_below_fence_through_the_layer() {
    let medium = Counted::new(Heard::new());
    medium.share_out(3, &|medium, part| medium.store_u64(PoolOffset(8 * part as u64), 1));
    assert_eq!((medium.counters().stored_bytes, medium.counters().fences), (24, 3));
}

/// A layer whose accesses go on as it says.
struct Passing(Heard, Pass);

impl Layer for Passing {
    type Inner = Heard;

    fn inner(&self) -> &Heard {
        &self.0
    }

    fn before(&self, _: Access) -> Pass {
        self.1
    }
}

#[test]
fn accesses_go_on_as_the_layer_says() {
    let calls = |pass| {
        let medium = Passing(Heard::new(), pass);
        medium.store_u64(PoolOffset(0), 1);
        medium.store_nt(PoolOffset(0), &[0; 8]);
        medium.store_line_nt(LineAddr(0), &[0; 8]);
        medium.store_line(LineAddr(0), &[0; 64]);
        medium.flush(LineAddr(0));
        assert_eq!(medium.try_fence(), pass == Pass::Off, "a fence that ends in the layer holds");
        medium.0.take()
    };
    assert_eq!(
        calls(Pass::On),
        ["store_u64", "store_nt", "store_line_nt", "store_line", "flush", "try_fence"]
    );
    assert_eq!(
        calls(Pass::Cached),
        ["store_u64", "store", "store_words", "store", "flush", "try_fence"]
    );
    assert_eq!(calls(Pass::Off), ["failure"]);
}
