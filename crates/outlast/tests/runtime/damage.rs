//! Bad input: what is no whole, undamaged pool is refused in one line, and no byte of it changes.
//!
//! Every single bit that a pool's metadata and its live log records consist of is flipped here.
//! Opening notices a flip in the header, in a sealed word it relies on, and in every live log
//! line. A flip in a dead log line, in the directory or in a bitmap is noticed by `check`, and by
//! the heap when it comes to read the word.

use std::ops::Range;

use crate::common::{
    blocks_of_all_kinds, flipped, geometry_of, live_redo_image, live_undo_image,
    live_witnessed_image, word_at,
};
use outlast::inspect::{Finding, sealed_word};
use outlast::medium::{CreateOptions, LINE_BYTES, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{Abort, BlockKind, PoolError, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium, PageCache};

/// Opens an image through recovery. On failure the image must be as it was, and the error one
/// line; returns it.
#[track_caller]
fn refusal(image: &[u8], what: &dyn std::fmt::Display) -> PoolError {
    refusal_of(&Heap::from_bytes(image), image, what)
}

/// The same for a heap that holds the image.
#[track_caller]
fn refusal_of(heap: &Heap, image: &[u8], what: &dyn std::fmt::Display) -> PoolError {
    let error = match UnrecoveredPool::open(heap).and_then(|pool| pool.recover()) {
        Ok(_) => panic!("{what}: not noticed"),
        Err(error) => error,
    };
    let read_only = UnrecoveredPool::open(heap).and_then(|pool| pool.read_only().map(drop));
    assert!(read_only.is_err(), "{what}: refused with {error}, but not for reading only");
    assert!(heap.to_bytes().starts_with(image), "{what}: refused with {error}, and changed");
    assert_one_line(&error);
    error
}

/// Flips every bit of these bytes in turn; each must be refused. Calls back with the errors.
#[track_caller]
fn each_flip_is_refused(image: &[u8], bytes: Range<u64>, mut refused: impl FnMut(&PoolError)) {
    let mut image = image.to_vec();
    let heap = Heap::from_bytes(&image);
    for bit in bytes.start as usize * 8..bytes.end as usize * 8 {
        let flip = |image: &mut [u8]| {
            image[bit / 8] ^= 1 << (bit % 8);
            let word = PoolOffset(bit as u64 / 64 * 8);
            heap.store_u64(word, heap.load_u64(word) ^ 1 << (bit % 64));
        };
        flip(&mut image);
        refused(&refusal_of(&heap, &image, &format_args!("bit {bit}")));
        flip(&mut image);
    }
}

#[track_caller]
fn assert_one_line(error: &PoolError) {
    let text = error.to_string();
    assert!(text.len() > 20 && !text.contains('\n') && text.len() < 200, "{text:?}");
}

#[track_caller]
fn assert_damaged_at(error: &PoolError, within: Range<u64>) {
    match error {
        PoolError::Damaged { at, .. } if within.contains(&at.0) => {}
        other => panic!("{other:?} does not name the damage in {within:?}"),
    }
}

#[test]
fn what_is_no_pool_is_called_so() {
    let mut random = 0x9e37_79b9u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    })
    .take(64 << 10)
    .collect();
    let text = "The quick brown fox jumps over the lazy dog.\n".repeat(1000);
    for image in [&noise[..], &noise[..64], text.as_bytes(), &text.as_bytes()[..4096], &[1]] {
        assert!(matches!(refusal(image, &"no pool"), PoolError::NotAPool { .. }));
    }
    let mut one_bit = vec![0; 8192];
    for bit in 0..1024 {
        // A single bit in a field of zeros: creation leaves some of these, no others.
        one_bit[bit / 8] ^= 1 << (bit % 8);
        refusal(&one_bit, &bit);
        one_bit[bit / 8] = 0;
    }
}

#[test]
fn every_flipped_bit_of_the_header_is_noticed() {
    let image = live_redo_image();
    each_flip_is_refused(&image, 0..128, |error| assert_damaged_at(error, 0..128));
}

#[test]
fn every_flipped_bit_of_floor_root_and_size_is_noticed() {
    for image in [live_redo_image(), live_undo_image()] {
        for word in [128, 192, 256] {
            let bytes = word..word + 8;
            each_flip_is_refused(&image, bytes.clone(), |error| {
                assert_damaged_at(error, bytes.clone());
            });
        }
    }
}

#[test]
fn every_flipped_bit_of_a_lanes_tail_and_floors_is_noticed() {
    for image in [live_redo_image(), live_undo_image()] {
        let geometry = geometry_of(&image);
        for lane in 0..geometry.lanes as usize {
            let at = geometry.lane_at(lane).0;
            each_flip_is_refused(&image, at..at + 24, |error| {
                assert_damaged_at(error, at..at + 24)
            });
        }
    }
}

/// The lines that carry a number of the pool's present generation: in these images all are live.
fn live_lines(image: &[u8]) -> Vec<u64> {
    let geometry = geometry_of(image);
    let generation = |word: u64| word >> 44 & 0xfff;
    let now = generation(word_at(image, 128));
    let mut lines = Vec::new();
    let mut add = |first: PoolOffset, count: u64| {
        let all = (0..count).map(|line| first.0 + line * LINE_BYTES);
        let live: Vec<u64> = all.filter(|at| generation(word_at(image, at + 56)) == now).collect();
        lines.extend(&live);
        live
    };
    for lane in 0..geometry.lanes as usize {
        for at in add(geometry.ring_at(lane), geometry.ring_lines()) {
            let is_header = word_at(image, at + 56) >> 63 == 1;
            let kind = word_at(image, at) & 0xf;
            if is_header && (kind == 5 || kind == 6) {
                // `Detached` and `Continued` name a region of the heap.
                add(PoolOffset(word_at(image, at + 8)), word_at(image, at + 16));
            }
        }
    }
    lines
}

#[test]
fn every_flipped_bit_of_a_live_log_line_is_noticed() {
    let images = [(live_redo_image(), 20), (live_undo_image(), 20), (live_witnessed_image(), 4)];
    for (image, least) in images {
        let lines = live_lines(&image);
        assert!(lines.len() >= least, "{} lines", lines.len());
        for at in lines {
            each_flip_is_refused(&image, at..at + LINE_BYTES, |error| {
                assert!(matches!(error, PoolError::Damaged { .. }), "{error:?}");
            });
        }
    }
}

#[test]
fn check_notices_every_flipped_bit_of_a_dead_lines_tag() {
    let heap = Heap::from_bytes(&live_redo_image());
    UnrecoveredPool::open(&heap).unwrap().recover().unwrap();
    let image = heap.to_bytes();
    let geometry = geometry_of(&image);
    for lane in 0..geometry.lanes as usize {
        for line in 0..geometry.ring_lines() {
            let tag_at = geometry.ring_at(lane).0 + line * LINE_BYTES + 56;
            for bit in tag_at * 8..tag_at * 8 + 64 {
                let heap = Heap::from_bytes(&flipped(&image, bit as usize));
                // Opening reads one line of a lane at least; it may or may not come here.
                match UnrecoveredPool::open(&heap).unwrap().recover() {
                    Ok(pool) => assert_found(&pool, tag_at),
                    Err(error) => assert_damaged_at(&error, tag_at - 56..tag_at + 8),
                }
            }
        }
    }
}

#[track_caller]
fn assert_found(pool: &RecoveredPool<&Heap>, at: u64) {
    let (report, _) = pool.check_metadata();
    let found = |finding: &Finding| matches!(finding, Finding::Damaged { at: a, .. } if a.0 == at);
    assert!(report.findings.iter().any(found), "{at}: {:?}", report.findings);
}

/// The words that say what is allocated: directory words, and the first word of the bitmap of
/// each class chunk; and whether the heap has a reason to read it.
fn allocator_words(image: &[u8]) -> Vec<(u64, bool)> {
    let geometry = geometry_of(image);
    let mut words = Vec::new();
    let mut inside_large = 0;
    for chunk in (0..geometry.chunks_in(image.len() as u64)).filter(|c| !geometry.is_directory(*c))
    {
        let at = geometry.directory_at(chunk).0;
        words.push((at, inside_large == 0));
        let word = word_at(image, at);
        inside_large = match word >> 48 & 0xff {
            1 => {
                words.push((geometry.chunk_at(chunk).0, true));
                0
            }
            2 => (word & 0xffff_ffff) - 1,
            _ => u64::saturating_sub(inside_large, 1),
        };
    }
    words
}

#[test]
fn every_flipped_bit_of_directory_and_bitmaps_is_noticed_by_check_and_by_the_heap() {
    let heap = Heap::from_bytes(&blocks_of_all_kinds());
    UnrecoveredPool::open(&heap).unwrap().recover().unwrap();
    let image = heap.to_bytes();
    let words = allocator_words(&image);
    for (at, is_read) in &words {
        for bit in at * 8..at * 8 + 64 {
            let heap = Heap::from_bytes(&flipped(&image, bit as usize));
            let pool = UnrecoveredPool::open(&heap).unwrap().recover().unwrap();
            assert_found(&pool, *at);
            let pool = pool.start(&OpenOptions::default()).unwrap();
            // A large block makes the heap read every word that matters now.
            match pool.lane().unwrap().run(|tx| tx.alloc(20_000, BlockKind::General)) {
                Err(Abort::Damaged(what)) => assert!(what.contains(&PoolOffset(*at).to_string())),
                Ok(_) if !is_read => {}
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }
    assert!(words.len() > 20 && words.iter().any(|word| !word.1));
}

#[test]
fn another_version_is_named_if_the_header_proves_itself() {
    let image = live_redo_image();
    for version in [0u32, 1, 7, u32::MAX] {
        let mut other = image.clone();
        other[8..12].copy_from_slice(&version.to_le_bytes());
        let error = refusal(&other, &"wrong version, wrong CRC");
        assert_damaged_at(&error, 0..128);
        let crc = crc32c::crc32c(&other[..120]);
        other[120..124].copy_from_slice(&crc.to_le_bytes());
        match refusal(&other, &"wrong version") {
            PoolError::Version { found, expected: 2 } => assert_eq!(found, version),
            error => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_header_that_proves_itself_and_makes_no_sense_is_damage() {
    let image = live_redo_image();
    let fields: &[(usize, &[u8])] = &[
        (12, &0u32.to_le_bytes()),
        (12, &u32::MAX.to_le_bytes()),
        (32, &u64::MAX.to_le_bytes()),
        (32, &100u64.to_le_bytes()),
        (40, &0u64.to_le_bytes()),
        (40, &u64::MAX.to_le_bytes()),
        (48, &0u64.to_le_bytes()),
        (48, &u64::MAX.to_le_bytes()),
    ];
    for (at, field) in fields {
        let mut other = image.clone();
        other[*at..at + field.len()].copy_from_slice(field);
        let crc = crc32c::crc32c(&other[..120]);
        other[120..124].copy_from_slice(&crc.to_le_bytes());
        assert_damaged_at(&refusal(&other, &format_args!("field at {at}")), 0..128);
    }
    // Zero chunks prove themselves; as a size they are none.
    let mut other = image;
    other[256..264].copy_from_slice(&sealed_word(0, PoolOffset(256)).to_le_bytes());
    assert_damaged_at(&refusal(&other, &"no size"), 256..264);
}

#[test]
fn a_truncated_pool_names_both_lengths() {
    let image = live_redo_image();
    let least = geometry_of(&image).heap_at;
    for len in [4096, 8192, least, image.len() as u64 - 4096, image.len() as u64 - 64] {
        match refusal(&image[..len as usize], &format_args!("{len} bytes")) {
            PoolError::Truncated { expected, found } => {
                assert_eq!((expected, found), (image.len() as u64, len));
            }
            error => panic!("{error:?}"),
        }
    }
    assert!(matches!(refusal(&image[..64], &"one line"), PoolError::NotAPool { .. }));
}

/// Creation stores two header lines, floor, root and size, fences, stores lanes and directories, fences,
/// and stores the magic. Before the first fence each line holds some prefix of its words, and what
/// lies behind the page is zero; before the second the page is whole, and any line behind it may be
/// missing.
#[test]
fn a_creation_that_was_cut_short_anywhere_is_called_so() {
    let create = CreateOptions { lanes: 2, lane_bytes: 1024, ..CreateOptions::default() };
    let pool =
        outlast::Pool::create_on(Heap::new(64 << 10), &create, &OpenOptions::default()).unwrap();
    let mut whole = pool.into_medium().to_bytes();
    // Opening has raised the floor, and then a lane saw it; the magic was durable by then.
    let opened = whole.clone();
    whole[4112..4120].copy_from_slice(&sealed_word(0, PoolOffset(4112)).to_le_bytes());
    for first in 0..=7 {
        for second in 0..=8 {
            for others in 0..4 {
                let mut image = vec![0; whole.len()];
                image[8..8 + first * 8].copy_from_slice(&whole[8..8 + first * 8]);
                image[64..64 + second * 8].copy_from_slice(&whole[64..64 + second * 8]);
                if others & 1 != 0 {
                    image[128..136].copy_from_slice(&whole[128..136]);
                }
                if others & 2 != 0 {
                    image[256..264].copy_from_slice(&whole[256..264]);
                }
                let error = refusal(&image, &format_args!("{first} {second} {others}"));
                assert!(matches!(error, PoolError::Unfinished), "{error:?}");
            }
        }
    }
    whole[..8].fill(0);
    for line in 4096 / 64..whole.len() / 64 {
        let mut image = whole.clone();
        image[line * 64..line * 64 + 64].fill(0);
        let error = refusal(&image, &format_args!("line {line}"));
        assert!(matches!(error, PoolError::Unfinished), "{error:?}");
    }
    let mut image = opened;
    image[..8].fill(0);
    assert_damaged_at(&refusal(&image, &"a pool that was opened"), 0..8);
}

/// Whatever of a whole pool's header page is missing, no message says to delete the file.
#[test]
fn a_header_page_of_zeros_before_a_pool_is_damage() {
    for image in [live_redo_image(), live_undo_image(), blocks_of_all_kinds()] {
        for bytes in [0..64, 0..128, 0..256, 0..512, 0..4096, 0..4160] {
            let mut zeroed = image.clone();
            zeroed[bytes.clone()].fill(0);
            let error = refusal(&zeroed, &format_args!("{bytes:?}"));
            assert_damaged_at(&error, 0..128);
        }
    }
    // Zeros before something else are no pool, and zeros alone may be one whose creation was cut short.
    let mut other = vec![0; 64 << 10];
    assert!(matches!(refusal(&other, &"zeros"), PoolError::Unfinished));
    other[32769..32774].copy_from_slice(b"CD001");
    assert!(matches!(refusal(&other, &"another file"), PoolError::NotAPool { .. }));
}

#[test]
fn live_records_must_be_recovered_before_reading_only() {
    for (image, scheme) in [(live_redo_image(), Scheme::Redo), (live_undo_image(), Scheme::Undo)] {
        let heap = Heap::from_bytes(&image);
        match UnrecoveredPool::open(&heap).unwrap().read_only() {
            Err(error @ PoolError::NeedsRecovery { records }) => {
                assert!(records > 0, "{scheme}");
                assert_one_line(&error);
            }
            other => panic!("{scheme}: {:?}", other.map(|pool| pool.report())),
        }
        assert!(heap.to_bytes() == image);
    }
}

/// A pool that was closed, with a typed value behind its root, and the place of its heap.
fn closed(scheme: Scheme, checksums: bool) -> (Vec<u8>, PoolOffset, u64) {
    let create = CreateOptions {
        lanes: 2,
        lane_bytes: 1024,
        checksums,
        fence_log_bytes: Some(8 << 10),
        ..CreateOptions::default()
    };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) };
    let pool = outlast::Pool::create_on(PageCache::new(128 << 10), &create, &open).unwrap();
    let block = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc(64, BlockKind::General)?;
        tx.set_root(block, outlast::RootKind::Opaque)?;
        Ok(block)
    });
    let block = block.unwrap();
    for value in 0..30u64 {
        pool.lane().unwrap().run(|tx| tx.store_u64(block, value)).unwrap();
    }
    let heap_at = pool.header().geometry.heap_at;
    (pool.close().cut(512, || 0, || ()).1, block, heap_at)
}

/// Of a pool that was closed, one flipped bit before the heap is refused, in the header and its three words, or
/// changes nothing: logs and lanes' headers are not needed, `check` names the place, and `repair` mends it.
/// `OUTLAST_EVERY_BIT` tries all of them.
#[test]
#[cfg_attr(miri, ignore = "recovers hundreds of pools")]
fn every_flipped_bit_of_a_closed_pool_is_refused_or_harmless() {
    let step = if std::env::var("OUTLAST_EVERY_BIT").is_ok() { 1 } else { 1009 };
    for (scheme, checksums) in
        [(Scheme::Swift, false), (Scheme::Undo, false), (Scheme::RedoArchapt, true)]
    {
        let (image, block, heap_at) = closed(scheme, checksums);
        let (mut refused, mut harmless) = (0, 0);
        let lines = (0..heap_at as usize / 64).map(|line| line * 512 + line * 37 % 512);
        let words = [0, 20, 128, 192, 256, 4096, 4104, 4112].map(|byte| byte * 8 + 3);
        for bit in (0..heap_at as usize * 8).step_by(step).chain(lines).chain(words) {
            let flipped = flipped(&image, bit);
            let open = || UnrecoveredPool::open(PageCache::from_bytes(&flipped));
            let Ok(pool) = open().and_then(|pool| pool.recover()) else {
                let at = bit / 8;
                let is_header = at < 320 && (at < 128 || at % 64 < 8);
                assert!(is_header, "{scheme}: bit {bit} is refused: {:?}", open().err());
                refused += 1;
                continue;
            };
            harmless += 1;
            let found = open().unwrap().read_only().map(|pool| pool.check().findings.count());
            // Of a ring's dead records only the tags are looked at, and of what pads the lanes to a page nothing.
            let (at, log) =
                (bit / 8, heap_at as usize - geometry_of(&image).fence_log_bytes() as usize);
            let is_ring = (4096..log).contains(&at) && (at >= 4096 + 2048 || at % 1024 >= 64);
            assert!(
                found.is_ok_and(|found| found > 0) || is_ring,
                "{scheme}: bit {bit} is not seen"
            );
            let report = pool.repair().unwrap();
            assert_eq!(report.left, [], "{scheme}: bit {bit}");
            assert_eq!(pool.medium().load_u64(block), 29, "{scheme}: bit {bit}");
        }
        assert!(refused > 3 && harmless > 300, "{scheme}: {refused} refused, {harmless} harmless");
    }
}
