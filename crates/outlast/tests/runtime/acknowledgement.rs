//! When a client is answered: tickets, waiting for physical commits, and that no client waits for
//! ever.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{
    Abort, Ack, BlockKind, Pool, PoolOffset, RootKind, Runner, Scheme, Ticket, Transact,
};
use outlast_pmem::Heap;

use crate::common::sound_schemes;

/// Those whose data is not durable in place when they commit.
const LAZY: [Scheme; 4] = [Scheme::Redo, Scheme::UndoArchapt, Scheme::RedoArchapt, Scheme::Swift];

fn pool_with(scheme: Scheme, ack: Ack, lanes: u32) -> Pool<Heap> {
    let create = CreateOptions { lanes, lane_bytes: 64 << 10, ..CreateOptions::default() };
    let open = OpenOptions {
        lock_stripes: 1024,
        cache_bytes: Some(1 << 20),
        sample_bits: 0,
        ack,
        ..OpenOptions::with_scheme(scheme)
    };
    Pool::create_on(Heap::new(2 << 20), &create, &open).unwrap()
}

fn root_block(pool: &Pool<Heap>) -> PoolOffset {
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| {
        let block = tx.alloc(1024, BlockKind::General)?;
        tx.store(block, &[0; 1024])?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    })
    .unwrap()
}

/// What recovery would find to apply if the process died now.
fn live_records(pool: &Pool<Heap>) -> usize {
    let image = Heap::from_bytes(&pool.medium().to_bytes());
    UnrecoveredPool::open(image).unwrap().info().unwrap().live_records.expect("it was read")
}

fn store(lane: &mut outlast::Lane<'_, Heap>, at: PoolOffset, value: u64) -> Ticket {
    lane.run_ticketed(|tx| tx.store_u64(at, value)).unwrap().1
}

#[test]
fn tickets_grow_with_what_a_commit_stores_over_and_reading_needs_none() {
    for scheme in sound_schemes() {
        let pool = pool_with(scheme, Ack::Logical, 2);
        let block = root_block(&pool);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        let tickets = [
            store(&mut one, block, 1),
            store(&mut two, block, 2),
            store(&mut two, block.plus(64), 3),
            store(&mut one, block.plus(64), 4),
            store(&mut one, block.plus(128), 5),
        ];
        assert!(tickets.is_sorted_by(|a, b| a < b), "{scheme}: {tickets:?}");
        let (value, read) = one.run_ticketed(|tx| tx.load_u64(block)).unwrap();
        assert_eq!(value, 2);
        assert!(read < tickets[0], "{scheme}");
        assert!(pool.is_physical(read) && pool.has_issued(read), "{scheme}");
    }
}

#[test]
fn a_lazy_commit_is_physical_after_one_wait_and_not_before() {
    for scheme in LAZY {
        let pool = pool_with(scheme, Ack::Logical, 1);
        let block = root_block(&pool);
        let mut lane = pool.lane().unwrap();
        let first = store(&mut lane, block, 1);
        let second = store(&mut lane, block.plus(64), 2);
        assert!(!pool.is_physical(first) && !pool.is_physical(second), "{scheme}");
        assert!(live_records(&pool) > 0, "{scheme}");
        lane.await_physical(first).unwrap();
        assert!(pool.is_physical(first), "{scheme}");
        assert!(pool.is_physical(second), "{scheme}: with nothing under way one sweep does all");
        assert_eq!(live_records(&pool), 0, "{scheme}");
        let third = store(&mut lane, block, 3);
        assert!(!pool.is_physical(third), "{scheme}");
    }
}

#[test]
fn what_is_not_lazy_is_physical_when_it_commits() {
    for scheme in sound_schemes().filter(|scheme| scheme.commits_physically()) {
        let pool = pool_with(scheme, Ack::Logical, 1);
        let block = root_block(&pool);
        let mut lane = pool.lane().unwrap();
        let ticket = store(&mut lane, block, 1);
        assert!(pool.is_physical(ticket), "{scheme}");
        lane.await_physical(ticket).unwrap();
    }
    for scheme in sound_schemes() {
        assert_eq!(scheme.commits_physically(), !LAZY.contains(&scheme), "{scheme}");
    }
}

#[test]
fn a_pool_that_was_closed_and_opened_again_has_nothing_pending() {
    for scheme in LAZY {
        for in_peace in [true, false] {
            let pool = pool_with(scheme, Ack::Logical, 1);
            let block = root_block(&pool);
            let ticket = store(&mut pool.lane().unwrap(), block, 1);
            let medium = if in_peace { pool.close() } else { pool.into_medium() };
            let opened = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
            let pool = opened.start(&OpenOptions::with_scheme(scheme)).unwrap();
            assert!(pool.is_physical(ticket) && pool.has_issued(ticket), "{scheme}");
            let again = Ticket::from_bits(ticket.to_bits());
            pool.lane().unwrap().await_physical(again).unwrap();
            assert!(store(&mut pool.lane().unwrap(), block, 2) > ticket, "{scheme}");
        }
    }
}

#[test]
#[should_panic(expected = "a ticket of another pool")]
fn nobody_waits_for_a_ticket_that_was_never_given() {
    let pool = pool_with(Scheme::RedoArchapt, Ack::Logical, 1);
    let block = root_block(&pool);
    let ticket = store(&mut pool.lane().unwrap(), block, 1);
    let foreign = Ticket::from_bits(ticket.to_bits() + 1);
    pool.lane().unwrap().await_physical(foreign).unwrap();
}

/// ARC-1: a client that waits for its answer before it goes on, alone, is answered.
#[test]
fn a_closed_loop_of_one_client_goes_on() {
    for scheme in sound_schemes() {
        let pool = pool_with(scheme, Ack::Physical, 1);
        let block = root_block(&pool);
        let mut lane = pool.lane().unwrap();
        for round in 1..=200 {
            let ticket = store(&mut lane, block.plus(round % 16 * 64), round);
            assert!(pool.is_physical(ticket), "{scheme}");
        }
        if LAZY.contains(&scheme) {
            assert_eq!(live_records(&pool), 0, "{scheme}");
        }
        let cancelled: Result<(), _> = lane.run(|tx| {
            tx.store_u64(block, 9)?;
            Err(Abort::cancelled("given up"))
        });
        assert!(cancelled.is_err(), "{scheme}");
        lane.run(|tx| tx.load_u64(block)).unwrap();
    }
}

/// Several clients, each waiting for its answer, over common and own words.
#[test]
fn closed_loops_of_several_clients_go_on() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for scheme in sound_schemes() {
        let pool = pool_with(scheme, Ack::Physical, 3);
        let block = root_block(&pool);
        std::thread::scope(|scope| {
            for client in 0..3 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut lane = pool.lane().unwrap();
                    for _ in 0..rounds {
                        let own = block.plus(64 * (client + 1));
                        let add = |at, tx: &mut outlast::Tx<'_, Heap>| {
                            let sum = tx.load_u64(at)? + 1;
                            tx.store_u64(at, sum)
                        };
                        let result = lane.run_ticketed(|tx| add(block, tx).and(add(own, tx)));
                        assert!(pool.is_physical(result.unwrap().1), "{scheme}");
                    }
                });
            }
        });
        let mut lane = pool.lane().unwrap();
        assert_eq!(lane.run(|tx| tx.load_u64(block)).unwrap(), 3 * rounds, "{scheme}");
    }
}

/// Two clients of which each waits for what the other has done.
#[test]
fn lanes_that_wait_for_each_other_end() {
    for scheme in LAZY {
        let pool = pool_with(scheme, Ack::Logical, 2);
        let block = root_block(&pool);
        for _ in 0..if cfg!(miri) { 2 } else { 50 } {
            let both = std::sync::Barrier::new(2);
            let tickets = std::sync::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for client in 0..2 {
                    let (pool, both, tickets) = (&pool, &both, &tickets);
                    scope.spawn(move || {
                        let mut lane = pool.lane().unwrap();
                        let ticket = store(&mut lane, block.plus(client * 64), 1);
                        tickets.lock().unwrap().push(ticket);
                        both.wait();
                        let all = tickets.lock().unwrap().clone();
                        all.iter().for_each(|ticket| lane.await_physical(*ticket).unwrap());
                        assert!(all.iter().all(|ticket| pool.is_physical(*ticket)), "{scheme}");
                    });
                }
            });
        }
    }
}
