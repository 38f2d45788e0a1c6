//! What write-back by age makes of the log and the cache it is given: whether anything can age, and
//! what becomes of new blocks' contents then.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{BlockKind, Pool, Runner, Scheme, Transact};
use outlast_pmem::{Counted, Counters, Heap};

const LANE_BYTES: u64 = 64 << 10;
const CONTENT: [u8; 1024] = [7; 1024];

fn pool(scheme: Scheme, cache_bytes: u64) -> Pool<Counted<Heap>> {
    // Chunks that blocks of 3 KiB fit into many times.
    let chunk_bytes = Some(64 << 10);
    let create =
        CreateOptions { lanes: 1, lane_bytes: LANE_BYTES, chunk_bytes, ..CreateOptions::default() };
    let open = OpenOptions { cache_bytes: Some(cache_bytes), ..OpenOptions::with_scheme(scheme) };
    Pool::create_on(Counted::new(Heap::new(4 << 20)), &create, &open).unwrap()
}

/// What a transaction asks for that fills a new block of that many bytes.
fn filling(scheme: Scheme, cache_bytes: u64, block_bytes: u64) -> Counters {
    let pool = pool(scheme, cache_bytes);
    let mut lane = pool.lane().unwrap();
    // The first of its class takes a chunk.
    lane.run(|tx| tx.alloc(block_bytes, BlockKind::General)).unwrap();
    let before = pool.medium().counters();
    lane.run(|tx| {
        let block = tx.alloc(block_bytes, BlockKind::General)?;
        tx.store(block, &CONTENT[..CONTENT.len().min(block_bytes as usize)])
    })
    .unwrap();
    pool.medium().counters() - before
}

#[test]
fn contents_of_new_blocks_are_logged_where_the_log_outlives_the_cache() {
    let bytes = CONTENT.len() as u64;
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        let logged = filling(scheme, LANE_BYTES, 1024);
        assert!(logged.stored_bytes > 2 * bytes, "{scheme}: in the log and in place: {logged:?}");
        assert_eq!(logged.fences, 1, "{scheme}: nothing is flushed before the record");
        for (cache_bytes, block_bytes) in [(2 * LANE_BYTES, 1024), (LANE_BYTES, 3 << 10)] {
            let flushed = filling(scheme, cache_bytes, block_bytes);
            assert!(flushed.stored_bytes < 2 * bytes, "{scheme}: in place alone: {flushed:?}");
            assert_eq!(flushed.fences, 2, "{scheme}: contents, then the record");
            assert_eq!(flushed.flushed_lines, bytes / 64, "{scheme}: {flushed:?}");
            assert!(flushed.streamed_lines > 0, "{scheme}: {flushed:?}");
        }
    }
}

#[test]
fn contents_of_small_blocks_stay_out_of_a_seal_where_nothing_ages() {
    let short = |scheme| filling(scheme, 16 * LANE_BYTES + 64, 256);
    let (sealed, redone) = (short(Scheme::UndoArchapt), short(Scheme::RedoArchapt));
    assert_eq!(
        (sealed.fences, sealed.flushed_lines),
        (2, 4),
        "contents, then the seal: {sealed:?}"
    );
    assert!(sealed.stored_bytes < 2 * 256, "{sealed:?}");
    assert_eq!((redone.fences, redone.flushed_lines), (1, 0), "one record: {redone:?}");
    assert!(redone.stored_bytes > 2 * 256, "{redone:?}");
}

#[test]
fn there_is_no_history_where_nothing_can_age() {
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        assert!(pool(scheme, 16 * LANE_BYTES).history_bytes() > 0);
        assert_eq!(pool(scheme, 16 * LANE_BYTES + 64).history_bytes(), 0);
    }
}
