//! Times transactions that swap two random words, as the *sps1* workload does.
//!
//! `cargo run --release -p outlast-peers --example sps`

use std::time::Instant;

use outlast::{BlockKind, ByteRange, PoolOffset, Runner, Transact};
use outlast_peers::{Granularity, Pmdk, PmdkPool};
use outlast_trace::Random;

const WORDS: u64 = 1 << 20;
const SWAPS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pmdk = Pmdk::load()?;
    println!("libpmemobj API {}", pmdk.version());
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let mut pools = Vec::new();
    for granularity in [Granularity::Range, Granularity::Word] {
        let path = dir.path().join(format!("{granularity:?}"));
        let mut pool = PmdkPool::create(pmdk, &path, 64 << 20, granularity)?;
        let vector = pool.run(|tx| {
            let vector = tx.alloc(WORDS * 8, BlockKind::General)?;
            for i in 0..WORDS {
                tx.store_u64(vector.plus(i * 8), i)?;
            }
            Ok(vector)
        })?;
        pools.push((granularity, pool, vector));
    }
    let mut random = Random::new(1);
    for _round in 0..5 {
        for (granularity, pool, vector) in &mut pools {
            let start = Instant::now();
            for _ in 0..SWAPS {
                let (a, b) = (word(&mut random, *vector), word(&mut random, *vector));
                pool.run(|tx| {
                    tx.will_write(&[ByteRange::new(a, 8), ByteRange::new(b, 8)])?;
                    let (x, y) = (tx.load_u64(a)?, tx.load_u64(b)?);
                    tx.store_u64(a, y)?;
                    tx.store_u64(b, x)
                })?;
            }
            let nanos = start.elapsed().as_nanos() / u128::from(SWAPS);
            print!("{granularity:?} {nanos} ns/tx  ");
        }
        println!();
    }
    Ok(())
}

/// A random word of the vector.
fn word(random: &mut Random, vector: PoolOffset) -> PoolOffset {
    vector.plus(random.below(WORDS) * 8)
}
