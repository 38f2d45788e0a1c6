//! A service of many tasks on one pool: each request is a transaction, durable when it is answered.
//!
//! Tasks come and go by the hundreds, lanes by the number of threads that commit at the same time. So
//! a request takes a lane for its transaction and gives it back; where all are taken it sleeps until
//! one is free. A commit waits for the medium: it belongs to a thread that may block.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use outlast::typed::PHashMap;
use outlast::{Abort, FilePool, Pool, PoolError};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, spawn_blocking};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Abort(#[from] Abort),
}

/// Counts a visit and returns how many there were.
fn visit(pool: &FilePool, page: u64) -> Result<u64, RequestError> {
    pool.typed(|pool| {
        let mut lane = pool.lane()?;
        let visits = lane.run(|tx| {
            let pages = tx.root_or_insert_with(|tx| PHashMap::<u64, u64>::new(tx))?.get(tx)?;
            let visits = pages.get(tx, &page)?.unwrap_or(0) + 1;
            pages.insert(tx, &page, visits)?;
            Ok(visits)
        });
        Ok(visits?)
    })
}

/// Serves that many requests at the same time. Returns how many were answered.
pub fn serve(path: &Path, requests: u64) -> Result<u64, Box<dyn Error>> {
    let pool = Arc::new(Pool::open_or_create(path)?);
    let answered = Runtime::new()?.block_on(async {
        let mut tasks = JoinSet::new();
        for request in 0..requests {
            let pool = Arc::clone(&pool);
            tasks.spawn(async move { spawn_blocking(move || visit(&pool, request % 10)).await });
        }
        let mut answered = 0;
        while let Some(task) = tasks.join_next().await {
            task???;
            answered += 1;
        }
        Ok::<_, Box<dyn Error>>(answered)
    })?;
    if let Some(pool) = Arc::into_inner(pool) {
        pool.try_close()?;
    }
    Ok(answered)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "visits.pool".to_owned());
    println!("{} requests answered", serve(Path::new(&path), 200)?);
    Ok(())
}
