//! A queue of jobs that outlives its workers. A job and its effect are one transaction: a crash leaves it
//! waiting or done, never both and never neither.
//!
//! `cargo run -p outlast --example job_queue jobs.pool "send the letter"` adds a job, and without one the
//! program does all that wait.

use outlast::typed::{PHashMap, PQueue, PString, Persist, TypedTx};
use outlast::{Abort, Pool, PoolError, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Jobs<'id> {
    waiting: PQueue<'id, PString<'id>>,
    /// How often each job was done.
    done: PHashMap<'id, str, u64>,
}

impl<'id> Jobs<'id> {
    fn of(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Self, Abort> {
        tx.root_or_new()?.get(tx)
    }
}

/// Adds a job. It is durable when this returns.
pub fn add(pool: &Pool, job: &str) -> Result<(), Abort> {
    pool.run_typed(|tx| {
        let jobs = Jobs::of(tx)?;
        let job = PString::new(tx, job)?;
        jobs.waiting.push_back(tx, job)
    })
}

/// Does the oldest job and returns it. Workers of several threads share a queue.
pub fn work(pool: &Pool) -> Result<Option<String>, Abort> {
    pool.run_typed(|tx| {
        let jobs = Jobs::of(tx)?;
        let Some(text) = jobs.waiting.pop_front(tx)? else { return Ok(None) };
        let job = text.to_string(tx)?;
        text.free(tx)?; // the queue gave it back: it is ours to keep or to free
        jobs.done.entry(tx, &job)?.and_modify(|times| times + 1)?.or_insert(1)?;
        Ok(Some(job))
    })
}

fn main() -> Result<(), PoolError> {
    let mut args = std::env::args().skip(1);
    let pool = Pool::open_or_create(args.next().unwrap_or_else(|| "jobs.pool".to_owned()))?;
    if let Some(job) = args.next() {
        return Ok(add(&pool, &job)?);
    }
    while let Some(job) = work(&pool)? {
        println!("done: {job}");
    }
    Ok(())
}
