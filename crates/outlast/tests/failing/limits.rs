//! How much one transaction may do.

use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::typed::{PQueue, PString, TypedLane};
use outlast::{Abort, BlockKind, Domain, Lane, Pool, Runner, Transact};
use outlast_pmem::{Heap, Medium};

use crate::sound_schemes;

/// Pushes `count` strings, or as many as there is room for. Returns how many are there.
fn fill<'id, M: Medium>(
    lane: &mut TypedLane<'id, Lane<'_, M>>,
    queue: PQueue<'id, PString<'id>>,
    count: u64,
) -> u64 {
    for number in 0..count {
        let pushed = lane.run(|tx| {
            let text = PString::new(tx, &format!("item {number}"))?;
            queue.push_back(tx, text)
        });
        match pushed {
            Ok(()) => {}
            Err(Abort::OutOfSpace { .. } | Abort::LogFull { .. }) => return number,
            Err(other) => panic!("{other}"),
        }
    }
    count
}

/// Pops up to `most` strings in one transaction, and frees them. Returns how many.
fn drain<'id, M: Medium>(
    lane: &mut TypedLane<'id, Lane<'_, M>>,
    queue: PQueue<'id, PString<'id>>,
    most: u64,
) -> Result<u64, Abort> {
    lane.run(|tx| {
        let mut popped = 0;
        while popped < most
            && let Some(text) = queue.pop_front(tx)?
        {
            text.free(tx)?;
            popped += 1;
        }
        Ok(popped)
    })
}

#[test]
fn a_long_queue_of_strings_is_drained_in_one_transaction() {
    for scheme in sound_schemes() {
        let open = OpenOptions::with_scheme(scheme);
        let pool = Pool::create_on(Heap::new(6 << 20), &CreateOptions::default(), &open).unwrap();
        let done = pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            let queue = lane.run(PQueue::new).unwrap();
            assert_eq!(fill(&mut lane, queue, 10_000), 10_000, "{scheme}");
            drain(&mut lane, queue, u64::MAX)
        });
        assert_eq!(done.unwrap(), 10_000, "{scheme}");
    }
}

/// A full pool has no room for a long log, and says what to do; so done, it is emptied.
#[test]
fn a_full_pool_is_emptied_in_several_transactions() {
    for scheme in sound_schemes().filter(|scheme| !matches!(scheme.name(), "none" | "aof")) {
        let create = CreateOptions { lanes: 2, lane_bytes: 64 << 10, ..CreateOptions::default() };
        let open = OpenOptions::with_scheme(scheme);
        let pool = Pool::create_on(Heap::new(1 << 20), &create, &open).unwrap();
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            let queue = lane.run(PQueue::new).unwrap();
            let full = fill(&mut lane, queue, u64::MAX);
            assert!(full > 2000, "{scheme}: {full}");
            if let Err(abort) = drain(&mut lane, queue, u64::MAX) {
                let told = abort.to_string();
                assert!(matches!(abort, Abort::LogFull { .. }), "{scheme}: {told}");
                assert!(told.contains("several transactions"), "{told}");
                let mut popped = 0;
                loop {
                    match drain(&mut lane, queue, 200).unwrap() {
                        0 => break,
                        some => popped += some,
                    }
                }
                assert_eq!(popped, full, "{scheme}");
            }
            // All of it is free again.
            assert!(fill(&mut lane, queue, full) >= full / 10 * 9, "{scheme}");
        });
    }
}

#[test]
fn a_pool_that_may_grow_lends_a_long_log_what_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    for scheme in sound_schemes() {
        let path = directory.path().join(scheme.name().replace(':', "-"));
        let create = CreateOptions { lanes: 2, lane_bytes: 16 << 10, ..CreateOptions::default() };
        let open = OpenOptions { grow_limit_bytes: 64 << 20, ..OpenOptions::with_scheme(scheme) };
        let map = MapOptions { domain: Some(Domain::Process), ..MapOptions::default() };
        let pool = Pool::create_with(&path, 1 << 20, &create, &open, &map).unwrap();
        let done = pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            let queue = lane.run(PQueue::new).unwrap();
            assert_eq!(fill(&mut lane, queue, 6000), 6000, "{scheme}");
            drain(&mut lane, queue, u64::MAX)
        });
        assert_eq!(done.unwrap(), 6000, "{scheme}");
    }
}

/// Blocks that one transaction gives back are told from those that it has given back already, few or
/// many.
#[test]
fn a_block_is_given_back_once_in_a_transaction_of_many() {
    for scheme in sound_schemes() {
        let open = OpenOptions::with_scheme(scheme);
        let pool = Pool::create_on(Heap::new(6 << 20), &CreateOptions::default(), &open).unwrap();
        let mut lane = pool.lane().unwrap();
        for count in [100, 40, 33, 32, 100] {
            let take = |tx: &mut outlast::Tx<'_, _>| {
                let blocks = (0..count).map(|_| tx.alloc(64, BlockKind::General));
                blocks.collect::<Result<Vec<_>, _>>()
            };
            let blocks = lane.run(take).unwrap();
            for twice in [0, 31, blocks.len() - 1] {
                let refused = lane.run(|tx| {
                    blocks.iter().try_for_each(|block| tx.free(*block))?;
                    tx.free(blocks[twice])
                });
                let refused = refused.unwrap_err();
                assert!(matches!(refused, Abort::BadAddress(_)), "{scheme}: {refused}");
                assert!(refused.to_string().contains("already"), "{scheme}: {refused}");
            }
            lane.run(|tx| blocks.iter().try_for_each(|block| tx.free(*block))).unwrap();
        }
    }
}
