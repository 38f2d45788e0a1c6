//! A service of many tasks on one pool: each request is a transaction, durable when it is answered.
//!
//! Tasks hold a share of the pool, an `Arc`, and no lane: `Pool::run` takes one for each transaction and gives it
//! back. Where all are taken it sleeps until one is free, and a commit waits for the medium: so it belongs to a
//! thread that may block.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use outlast::typed::PHashMap;
use outlast::{Abort, Pool};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, spawn_blocking};

/// Counts a visit and returns how many there were.
fn visit(pool: &Pool, page: u64) -> Result<u64, Abort> {
    pool.run_typed(|tx| {
        let pages = tx.root_or_new::<PHashMap<'_, u64, u64>>()?.get(tx)?;
        pages.entry(tx, &page)?.and_modify(|visits| visits + 1)?.or_insert(1)
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
