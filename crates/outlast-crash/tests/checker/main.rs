//! The checker on programs over pools of the runtime.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{BlockKind, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::Recorder;

mod awaiting;
mod blind;
mod pairs;
mod streams;
mod typed;

/// The options of small pools.
fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(256),
        sample_bits: 0,
        ..OpenOptions::with_scheme(scheme)
    }
}

/// A pool of two lanes whose root is a block of zeros, everything durable: its bytes, and the block.
fn small_pool<const BYTES: usize>(scheme: Scheme) -> (Vec<u8>, PoolOffset) {
    let medium = Recorder::new(64 << 10);
    let create = CreateOptions {
        lanes: 2,
        lane_bytes: 1024,
        chunk_bytes: Some(4096),
        uuid: Some(Default::default()),
        ..CreateOptions::default()
    };
    let pool = Pool::create_on(&medium, &create, &options(scheme)).unwrap();
    let block = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc(BYTES as u64, BlockKind::General)?;
        tx.store(block, &[0; BYTES])?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    });
    pool.close();
    (medium.to_bytes(), block.unwrap())
}
