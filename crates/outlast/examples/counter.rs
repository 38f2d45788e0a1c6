//! A counter that threads share: each has a lane of the pool, and what it has counted is durable when `run` returns.

use std::thread;

use outlast::{Pool, PoolError};

/// Counts to `times` on each of `threads` threads at once, and returns the value of the counter.
pub fn count(pool: &Pool, threads: u32, times: u32) -> Result<u64, PoolError> {
    pool.typed(|pool| {
        // The root is a word. A pointer to it is good for all threads of this closure.
        let counter = pool.run(|tx| tx.root_or_new::<u64>())?;
        let counted = thread::scope(|scope| {
            let work = || {
                let mut lane = pool.lane()?; // kept: a thread that runs many transactions takes one
                for _ in 0..times {
                    // Two threads at once are a conflict: one of them runs again.
                    lane.run(|tx| counter.update(tx, |value| value + 1))?;
                }
                Ok::<_, PoolError>(())
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
        });
        counted?;
        Ok(pool.run(|tx| counter.get(tx))?)
    })
}

fn main() -> Result<(), PoolError> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "counter.pool".to_owned());
    println!("{}", count(&Pool::open_or_create(path)?, 4, 1000)?);
    Ok(())
}
