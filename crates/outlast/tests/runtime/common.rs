//! What tests of the runtime share: the schemes that keep their word, and images of pools.

use outlast::inspect::Geometry;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::scheme::SCHEMES;
use outlast::{Abort, BlockKind, Lane, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::Heap;

/// Every scheme but the literal variants, which lose what they say they keep.
pub fn sound_schemes() -> impl Iterator<Item = Scheme> {
    SCHEMES.iter().map(|row| row.scheme).filter(|scheme| !scheme.is_published())
}

pub fn small_pool(scheme: Scheme, bytes: u64) -> Pool<Heap> {
    let create = CreateOptions { lanes: 2, lane_bytes: 1024, ..CreateOptions::default() };
    let with_scheme = OpenOptions::with_scheme(scheme);
    let open = OpenOptions { lock_stripes: 1024, lock_always: true, ..with_scheme };
    Pool::create_on(Heap::new(bytes), &create, &open).unwrap()
}

/// The root, 4,000 bytes.
fn block_of_ones(lane: &mut Lane<'_, Heap>) -> PoolOffset {
    let made = lane.run(|tx| {
        let block = tx.alloc(4000, BlockKind::General)?;
        tx.store(block, &[1; 4000])?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    });
    made.unwrap()
}

/// A pool that died while its last transaction, which ran alone, had witnesses and no mark.
pub fn live_witnessed_image() -> Vec<u8> {
    let pool = small_pool(Scheme::Undo, 64 << 10);
    let block = block_of_ones(&mut pool.lane().unwrap());
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(Scheme::Undo) };
    let heap = pool.into_medium();
    let pool = UnrecoveredPool::open(heap).unwrap().recover().unwrap().start(&open).unwrap();
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| (0..3).try_for_each(|i| tx.store_u64(block.plus(i * 64), 9))).unwrap();
    pool.medium().to_bytes()
}

/// A pool that died with committed redo records in its log: short ones in both lanes, and one
/// too long for the ring.
pub fn live_redo_image() -> Vec<u8> {
    let pool = small_pool(Scheme::Redo, 64 << 10);
    let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let block = block_of_ones(&mut one);
    for i in 0..3 {
        two.run(|tx| tx.store(block.plus(i * 100), &[i as u8; 90])).unwrap();
    }
    one.run(|tx| tx.store(block.plus(1000), &[9; 2000])).unwrap();
    pool.medium().to_bytes()
}

/// A pool that died in the middle of two undo transactions, one with more records than the
/// ring has room for.
pub fn live_undo_image() -> Vec<u8> {
    let pool = small_pool(Scheme::Undo, 64 << 10);
    let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let block = block_of_ones(&mut one);
    let mut image = Vec::new();
    let _ = one.run(|tx| {
        for i in 0..20 {
            tx.store(block.plus(i * 128), &[7; 64])?;
        }
        let fresh = tx.alloc(100, BlockKind::Value)?;
        tx.free(block)?;
        tx.store(fresh, &[8; 100])?;
        two.run(|tx| {
            let other = tx.alloc(64, BlockKind::Key)?;
            tx.store_u64(other, 1)?;
            // The note of the allocation goes into the log with the next one.
            let result = tx.store(block.plus(3900), &[9; 10]);
            assert!(matches!(result, Err(Abort::Conflict)), "the block is locked: {result:?}");
            Err::<(), _>(Abort::cancelled("given up"))
        })
        .unwrap_err();
        image = pool.medium().to_bytes();
        Err::<(), _>(Abort::cancelled("given up"))
    });
    image
}

/// A pool with blocks of several classes and kinds and one of several chunks.
pub fn blocks_of_all_kinds() -> Vec<u8> {
    let pool = small_pool(Scheme::Undo, 256 << 10);
    let mut lane = pool.lane().unwrap();
    for (bytes, kind) in
        [16, 48, 64, 300, 900, 10_000].into_iter().zip(BlockKind::ALL.iter().cycle())
    {
        for _ in 0..3 {
            lane.run(|tx| tx.alloc(bytes, *kind)).unwrap();
        }
    }
    pool.medium().to_bytes()
}

/// The image with one bit changed.
pub fn flipped(image: &[u8], bit: usize) -> Vec<u8> {
    let mut image = image.to_vec();
    image[bit / 8] ^= 1 << (bit % 8);
    image
}

pub fn word_at(image: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(image[at as usize..at as usize + 8].try_into().unwrap())
}

pub fn geometry_of(image: &[u8]) -> Geometry {
    let heap = Heap::from_bytes(image);
    UnrecoveredPool::open(&heap).unwrap().info().unwrap().header.geometry
}

/// A file system in memory of a few KiB, which a test can fill. Unmounted when dropped.
#[cfg(target_os = "linux")]
pub struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    /// None, with a line that says so, where the user may not mount one.
    pub fn of(kib: u64) -> Option<Self> {
        let small = Self(tempfile::tempdir().unwrap());
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(small.0.path())
            .output();
        if !mount.is_ok_and(|mount| mount.status.success()) {
            println!("left out: this user cannot mount a small file system");
            return None;
        }
        Some(small)
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).output();
    }
}
