//! Zero proves nothing: wherever a line or a page of a pool was zeroed, it is refused, or `check` finds
//! it, or all that was committed is there.

use std::ops::Range;

use crate::common::geometry_of;
use outlast::collections::{ByteMap, ByteMapOptions, Dictionary};
use outlast::inspect::Geometry;
use outlast::medium::{CreateOptions, LINE_BYTES, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, Pool, RootKind, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium, Recorder};

const POOL_BYTES: u64 = 256 << 10;
const ENTRIES: u32 = 120;

fn open(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(4096),
        sample_bits: 0,
        ..OpenOptions::with_scheme(scheme)
    }
}

fn value_of(key: u32) -> Vec<u8> {
    key.to_le_bytes().repeat(1 + key as usize % 40)
}

fn insert<R: Runner>(lane: &mut R, map: ByteMap, key: u32) -> Result<(), Abort> {
    lane.run(|tx| map.insert(tx, &key.to_le_bytes(), &value_of(key)).map(|_| ()))
}

/// A pool with a map of `ENTRIES` entries, as a kill leaves it and as closing does.
fn pools(scheme: Scheme, checksums: bool) -> [(&'static str, Vec<u8>); 2] {
    let create = CreateOptions {
        lanes: 2,
        lane_bytes: 4096,
        chunk_bytes: Some(4096),
        checksums,
        ..CreateOptions::default()
    };
    let pool = Pool::create_on(Heap::new(POOL_BYTES), &create, &open(scheme)).unwrap();
    let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let map = one.run(|tx| {
        let map = ByteMap::create(tx, &ByteMapOptions::default())?;
        tx.set_root(map.root(), RootKind::HashMap)?;
        Ok(map)
    });
    let map = map.unwrap();
    for key in 0..ENTRIES {
        let lane = if key % 3 == 0 { &mut two } else { &mut one };
        insert(lane, map, key).unwrap();
    }
    let killed = pool.medium().to_bytes();
    drop((one, two));
    [("killed", killed), ("closed", pool.close().to_bytes())]
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Refused,
    Found,
    Right,
}

/// What becomes of a damaged pool. Where nothing is noticed, everything must be there, also after
/// more was stored.
#[track_caller]
fn judge(image: &[u8], scheme: Scheme, what: &dyn std::fmt::Display) -> Seen {
    let heap = Heap::from_bytes(image);
    let Ok(pool) = UnrecoveredPool::open(heap).and_then(|pool| pool.recover()) else {
        return Seen::Refused;
    };
    if !pool.check().findings.is_empty() {
        return Seen::Found;
    }
    let (root, _) = pool.root().unwrap().unwrap_or_else(|| panic!("{what}: the root is gone"));
    let pool = pool.start(&open(scheme)).unwrap();
    let mut lane = pool.lane().unwrap();
    let map = lane.run(|tx| ByteMap::open(tx, root)).unwrap();
    let added = 1000..1000 + ENTRIES / 4;
    for key in added.clone() {
        match insert(&mut lane, map, key) {
            Ok(()) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    for key in (0..ENTRIES).chain(added) {
        let mut found = Vec::new();
        let there = lane.run(|tx| map.get(tx, &key.to_le_bytes(), &mut found)).unwrap();
        assert!(there && found == value_of(key), "{what}: entry {key} is wrong");
    }
    Seen::Right
}

fn zeroed(image: &[u8], bytes: Range<u64>) -> Vec<u8> {
    let mut image = image.to_vec();
    image[bytes.start as usize..bytes.end as usize].fill(0);
    image
}

fn lines(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    bytes.step_by(LINE_BYTES as usize).map(|at| at..at + LINE_BYTES)
}

/// The lines with words that the format relies on, whether the pool was closed or not: header, floor,
/// root, size, lane headers, directories, bitmaps.
fn sealed_lines(image: &[u8], geometry: &Geometry) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = lines(0..320).collect();
    for lane in 0..geometry.lanes as usize {
        all.extend(lines(geometry.lane_at(lane).0..geometry.ring_at(lane).0));
    }
    let heap = Heap::from_bytes(image);
    for chunk in 0..geometry.chunks_in(image.len() as u64) {
        let word_at = geometry.directory_at(chunk);
        all.extend(lines(word_at.line().start().0..word_at.line().start().0 + 64));
        // State 1: a class chunk, whose bitmap begins with it.
        if heap.load_u64(word_at) >> 48 & 0xff == 1 {
            let at = geometry.chunk_at(chunk).0;
            all.extend(lines(at..at + 64));
        }
    }
    all.dedup();
    all
}

fn cases() -> impl Iterator<Item = (Scheme, bool)> {
    let plain = [Scheme::Undo, Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt, Scheme::Aof];
    let by_age = [Scheme::UndoArchapt, Scheme::RedoArchapt];
    plain.map(|scheme| (scheme, false)).into_iter().chain(by_age.map(|scheme| (scheme, true)))
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of whole pools take minutes there")]
fn a_zeroed_line_of_metadata_is_always_noticed() {
    for (scheme, checksums) in cases() {
        for (state, image) in pools(scheme, checksums) {
            assert_eq!(judge(&image, scheme, &"undamaged"), Seen::Right, "{scheme}, {state}");
            for line in sealed_lines(&image, &geometry_of(&image)) {
                let what = format!("{scheme}, checksums {checksums}, {state}, {line:?}");
                // A lane of a pool that was closed begins anew (CLOSE-1).
                let geometry = geometry_of(&image);
                let lanes = geometry.lane_at(0).0..geometry.lane_at(geometry.lanes as usize).0;
                let is_needed = state != "closed" || !lanes.contains(&line.start);
                let seen = judge(&zeroed(&image, line), scheme, &what);
                assert!(seen != Seen::Right || !is_needed, "{what}: not noticed");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of whole pools take minutes there")]
fn a_zeroed_line_of_a_log_loses_nothing_unnoticed() {
    for (scheme, checksums) in cases() {
        for (state, image) in pools(scheme, checksums) {
            let geometry = geometry_of(&image);
            let mut refused = 0;
            for lane in 0..geometry.lanes as usize {
                let at = geometry.ring_at(lane).0;
                for line in lines(at..at + geometry.ring_lines() * LINE_BYTES) {
                    let what = format!("{scheme}, checksums {checksums}, {state}, {line:?}");
                    let seen = judge(&zeroed(&image, line), scheme, &what);
                    refused += usize::from(seen == Seen::Refused);
                }
            }
            let keeps_log = scheme != Scheme::Undo && state == "killed";
            assert!(!keeps_log || refused > 4, "{scheme}, {state}: {refused} refused");
        }
    }
}

/// With checksums every line and every page counts, data and checksums alike.
#[test]
#[cfg_attr(miri, ignore = "hundreds of whole pools take minutes there")]
fn with_checksums_zeros_lose_nothing_unnoticed_anywhere() {
    let scheme = Scheme::RedoArchapt;
    for (state, image) in pools(scheme, true) {
        let heap_at = geometry_of(&image).heap_at;
        let pages = (0..POOL_BYTES).step_by(4096).map(|at| at..at + 4096);
        // A line of each page that is another from page to page, so that all 64 come.
        let some = lines(heap_at..POOL_BYTES).filter(|line| line.start / 64 % 5 == 0);
        for bytes in pages.chain(some) {
            let what = format!("{state}, {bytes:?}");
            judge(&zeroed(&image, bytes), scheme, &what);
        }
    }
}

/// An older size that hides a part of the heap is refused: growth would give that part away again.
#[test]
fn a_size_from_before_the_heap_grew_is_refused() {
    let create = CreateOptions { lanes: 1, lane_bytes: 1024, ..CreateOptions::default() };
    let open = open(Scheme::Undo);
    let medium = Recorder::new(64 << 10).growing_to(128 << 10);
    let pool = Pool::create_on(medium, &create, &open).unwrap();
    let before = pool.medium().to_bytes()[256..320].to_vec();
    pool.grow(128 << 10).unwrap();
    let mut lane = pool.lane().unwrap();
    while lane.run(|tx| tx.alloc(900, BlockKind::General)).is_ok() {}
    drop(lane);
    let mut image = pool.into_medium().to_bytes();
    image[256..320].copy_from_slice(&before);
    let error = UnrecoveredPool::open(Heap::from_bytes(&image)).map(drop).unwrap_err();
    assert!(error.to_string().contains("size is older than the heap"), "{error}");
}
