//! Checkpoints and restored pools as files among others: whose they are, what they replace, and
//! that nothing is lost with a name.
#![cfg(all(target_os = "linux", not(miri), not(outlast_portable)))]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast::checkpoint::{CheckpointError, checkpoint_path, restore};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::RecoveredPool;
use outlast::{BlockKind, Pool, PoolError, RootKind, Runner, Transact};
use outlast_pmem::{Domain, MapError, MapOptions, Medium};

use crate::common::SmallDisk;

/// Words of the root block, on pages of their own.
const WORDS: u64 = 32;

/// Restorings, and openings, beside each other.
const ROUNDS: u64 = 25;

fn map() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), max_len: 64 << 20, ..MapOptions::default() }
}

/// In memory where there is such a place: the tests are about names and not about disks.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options() -> OpenOptions {
    OpenOptions { lock_stripes: 1024, ..OpenOptions::default() }
}

fn open(path: &Path) -> Result<Pool, PoolError> {
    Pool::open_with(path, &options(), &map())
}

/// A pool whose root is a block of words.
fn create(path: &Path) -> Pool {
    let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
    let pool = Pool::create_with(path, 1 << 20, &create, &options(), &map()).unwrap();
    let root = |tx: &mut outlast::Tx<'_, _>| {
        let block = tx.alloc(WORDS * 4096, BlockKind::General)?;
        (0..WORDS).try_for_each(|word| tx.store_u64(block.plus(word * 4096), 0))?;
        tx.set_root(block, RootKind::Opaque)
    };
    pool.lane().unwrap().run(root).unwrap();
    pool
}

fn exchange(pool: &Pool, value: u64) -> u64 {
    let (root, _) = pool.root().unwrap().unwrap();
    let mut lane = pool.lane().unwrap();
    let exchange = |tx: &mut outlast::Tx<'_, _>| {
        let was = tx.load_u64(root)?;
        (0..WORDS).try_for_each(|word| tx.store_u64(root.plus(word * 4096), value))?;
        Ok(was)
    };
    lane.run(exchange).unwrap()
}

/// A pool with the value 1 and a checkpoint of it, whose paths are returned.
fn with_checkpoint(directory: &Path) -> (PathBuf, PathBuf) {
    let path = directory.join("p");
    let pool = create(&path);
    exchange(&pool, 1);
    let checkpoint = checkpoint_path(&path);
    pool.checkpoint(&checkpoint).unwrap();
    pool.close();
    (path, checkpoint)
}

/// Checkpoints until the file has been written anew.
fn compacted(path: &Path, checkpoint: &Path) {
    let pool = open(path).unwrap();
    for value in 0..100 {
        exchange(&pool, value);
        if pool.checkpoint(checkpoint).unwrap().compacted {
            return;
        }
    }
    panic!("the file is never written anew");
}

fn mode_and_owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.mode() & 0o7777, found.uid(), found.gid())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// One restores again and again; others open, look, and store. What has the name when it is open
/// keeps it, and holds what the last opening or restoring has left: no commit is lost with a name.
#[test]
fn no_commit_goes_to_a_file_that_has_lost_its_name() {
    let directory = directory();
    let (path, _) = with_checkpoint(directory.path());
    let (expected, over) = (Mutex::new(1), AtomicBool::new(false));
    let (restored, stored) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (path, expected, over, stored) = (&path, &expected, &over, &stored);
            scope.spawn(move || {
                for value in (10 + thread..).step_by(2) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let pool = match open(path) {
                        Ok(pool) => pool,
                        Err(PoolError::Map(MapError::AlreadyOpen { .. })) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    let mut expected = expected.lock().unwrap();
                    assert_eq!(exchange(&pool, value), *expected, "what has the name was stored");
                    *expected = value;
                    drop(expected);
                    let file = pool.medium().file().unwrap();
                    assert!(outlast_pmem::is_named(path, file).unwrap(), "the open file has it");
                    pool.close();
                    stored.fetch_add(1, Ordering::Relaxed);
                    // The others get their turn.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
        }
        let _over = OnDrop(&over);
        while restored.load(Ordering::Relaxed) < ROUNDS || stored.load(Ordering::Relaxed) < ROUNDS {
            let mut expected = expected.lock().unwrap_or_else(|failed| {
                panic!("another thread failed: {failed}");
            });
            match restore(&path, None) {
                Ok(_) => {
                    *expected = 1;
                    restored.fetch_add(1, Ordering::Relaxed);
                }
                Err(CheckpointError::InUse { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            drop(expected);
            std::thread::yield_now();
        }
    });
    assert_eq!(names(directory.path()), ["p", "p.checkpoint"]);
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn mode_and_owner_stay() {
    let directory = directory();
    let path = directory.path().join("p");
    let pool = create(&path);
    set_mode(&path, 0o640);
    exchange(&pool, 1);
    let checkpoint = checkpoint_path(&path);
    pool.checkpoint(&checkpoint).unwrap();
    pool.close();
    let (_, uid, gid) = mode_and_owner(&path);
    assert_eq!(mode_and_owner(&checkpoint), (0o640, uid, gid), "a checkpoint is as its pool");

    // Only root may give files away.
    let other =
        if chown(&path, Some(4321), Some(1234)).is_ok() { (4321, 1234) } else { (uid, gid) };
    let _ = chown(&checkpoint, Some(other.0), Some(other.1));
    set_mode(&checkpoint, 0o604);
    set_mode(&path, 0o600);
    restore(&path, None).unwrap();
    assert_eq!(mode_and_owner(&path), (0o600, other.0, other.1));
    compacted(&path, &checkpoint);
    assert_eq!(mode_and_owner(&checkpoint), (0o604, other.0, other.1));

    // A pool that is new has them of the checkpoint.
    let new = directory.path().join("new");
    restore(&new, Some(&checkpoint)).unwrap();
    assert_eq!(mode_and_owner(&new), (0o604, other.0, other.1));
}

#[test]
fn symbolic_links_are_followed_and_stay() {
    let directory = directory();
    let real = directory.path().join("real");
    fs::create_dir(&real).unwrap();
    let (pool, checkpoint) = with_checkpoint(&real);
    let link = directory.path().join("link");
    let checkpoint_link = checkpoint_path(&link);
    symlink(&pool, &link).unwrap();
    symlink(&checkpoint, &checkpoint_link).unwrap();
    exchange(&open(&link).unwrap(), 2);
    restore(&link, None).unwrap();
    assert_eq!(exchange(&open(&pool).unwrap(), 3), 1);
    compacted(&link, &checkpoint_link);
    for link in [&link, &checkpoint_link] {
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    assert_eq!(names(&real), ["p", "p.checkpoint"]);
    assert_eq!(names(directory.path()), ["link", "link.checkpoint", "real"]);

    fs::remove_file(&pool).unwrap();
    let error = restore(&link, Some(&checkpoint)).unwrap_err();
    assert!(matches!(error, CheckpointError::DanglingLink { .. }), "{error}");
}

#[test]
fn hard_links_are_not_parted() {
    let directory = directory();
    let (path, checkpoint) = with_checkpoint(directory.path());
    for linked in [&path, &checkpoint] {
        let second = directory.path().join("second");
        fs::hard_link(linked, &second).unwrap();
        let before = fs::read(linked).unwrap();
        let error = match linked == &path {
            true => restore(&path, None).unwrap_err(),
            false => open(&path).unwrap().checkpoint(&checkpoint).unwrap_err(),
        };
        assert!(matches!(error, CheckpointError::HardLinks { names: 2, .. }), "{error}");
        assert!(fs::read(linked).unwrap() == before);
        assert_eq!(fs::metadata(linked).unwrap().ino(), fs::metadata(&second).unwrap().ino());
        fs::remove_file(&second).unwrap();
    }
    restore(&path, None).unwrap();
}

#[test]
fn files_of_others_beside_are_left_alone_and_our_own_left_overs_are_swept() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    let (path, checkpoint) = with_checkpoint(directory.path());
    let kept = [
        "p.restoring",
        "p.checkpoint.new",
        "p.restoring-mine",
        "p.restoring-0123456789ABCDEF",
        "p.restoring-0123456789abcdef0",
        "p.restoring-0000000000000001",
        "q.restoring-0000000000000002",
    ];
    for name in kept {
        fs::write(at(name), b"dear diary").unwrap();
    }
    let locked = at("p.restoring-0000000000000003");
    fs::write(&locked, b"").unwrap();
    let lock = File::open(&locked).unwrap();
    lock.lock().unwrap();
    let ours = [
        ("p.restoring-0000000000000004", &b""[..]),
        ("p.restoring-0000000000000005", &[0; 5000][..]),
        ("p.restoring-0000000000000006", &b"OUTLAST\x01 and so on"[..]),
        ("p.checkpoint.new-0000000000000007", &b"OUTLCKPT and so on"[..]),
    ];
    for (name, content) in ours {
        fs::write(at(name), content).unwrap();
    }
    restore(&path, None).unwrap();
    compacted(&path, &checkpoint);
    for name in kept {
        assert_eq!(fs::read(at(name)).unwrap(), b"dear diary", "{name}");
    }
    assert!(locked.exists());
    for (name, _) in ours {
        assert!(!at(name).exists(), "{name} is swept");
    }
    assert_eq!(names(directory.path()).len(), 2 + kept.len() + 1);
}

#[test]
fn what_is_no_pool_is_not_overwritten() {
    let directory = directory();
    let (path, checkpoint) = with_checkpoint(directory.path());
    let other = directory.path().join("other");
    for content in [&b"dear diary"[..], &[0; 8192], &[0xff; 8192], &fs::read(&checkpoint).unwrap()]
    {
        fs::write(&other, content).unwrap();
        let error = restore(&other, Some(&checkpoint)).unwrap_err();
        assert!(matches!(error, CheckpointError::NotAPool { .. }), "{error}");
        assert!(fs::read(&other).unwrap() == content);
        if content[0] != b'O' {
            let error = open(&path).unwrap().checkpoint(&other).unwrap_err();
            assert!(matches!(error, CheckpointError::NotACheckpoint { .. }), "{error}");
            let error = restore(&path, Some(&other)).unwrap_err();
            assert!(matches!(error, CheckpointError::NotACheckpoint { .. }), "{error}");
            assert!(fs::read(&other).unwrap() == content);
        }
    }
    // A damaged pool is one, and an empty file has nothing to lose.
    let whole = fs::read(&path).unwrap();
    let zeroed = |from: usize, to: usize| {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0);
        damaged
    };
    for damaged in [zeroed(0, 64), zeroed(8, 4096), whole[..700].to_vec(), Vec::new()] {
        fs::write(&path, damaged).unwrap();
        restore(&path, Some(&checkpoint)).unwrap();
        assert_eq!(exchange(&open(&path).unwrap(), 5), 1);
    }
    assert_eq!(names(directory.path()), ["other", "p", "p.checkpoint"]);
}

/// A pool of 1 MiB and its checkpoint on a disk that is full in the end.
#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let Some(disk) = SmallDisk::of(1024 + 512) else { return };
    let path = disk.path("p");
    let pool = create(&path);
    exchange(&pool, 1);
    let checkpoint = checkpoint_path(&path);
    pool.checkpoint(&checkpoint).unwrap();
    exchange(&pool, 2);
    // What is free is taken.
    let fill = disk.path("fill");
    let full = std::process::Command::new("dd")
        .args(["if=/dev/zero", "bs=4096", &format!("of={}", fill.display())])
        .output();
    assert!(!full.unwrap().status.success(), "the disk has an end");
    let is_full = |error: &CheckpointError| {
        let full = std::io::ErrorKind::StorageFull;
        matches!(error, CheckpointError::Io { error, .. } if error.kind() == full)
    };
    let directory = path.parent().unwrap();
    for target in [&checkpoint, &disk.path("new")] {
        let error = pool.checkpoint(target).unwrap_err();
        assert!(is_full(&error), "{error}");
    }
    drop(pool);
    let error = restore(&path, None).unwrap_err();
    assert!(is_full(&error), "{error}");
    let create = Pool::create_with(
        disk.path("another"),
        1 << 20,
        &CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() },
        &OpenOptions::default(),
        &map(),
    );
    let error = create.expect_err("there is no space");
    assert!(matches!(error, PoolError::Map(MapError::NoSpace { .. })), "{error}");
    assert_eq!(names(directory), ["fill", "p", "p.checkpoint"]);
    assert_eq!(exchange(&open(&path).unwrap(), 3), 2);
    fs::remove_file(&fill).unwrap();
    let pool = open(&path).unwrap();
    pool.checkpoint(&checkpoint).unwrap();
}

/// A limit ends the process that passes it with a signal. The test runs itself again under one.
#[test]
fn a_limit_for_files_leaves_everything_as_it_was() {
    const DIRECTORY: &str = "OUTLAST_TEST_LIMITED";
    let is_past = |error: &CheckpointError| {
        let past = std::io::ErrorKind::FileTooLarge;
        matches!(error, CheckpointError::Io { error, .. } if error.kind() == past)
    };
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let directory = Path::new(&directory);
        let (path, checkpoint) = (directory.join("p"), directory.join("p.checkpoint"));
        let error = restore(&path, None).unwrap_err();
        assert!(is_past(&error), "{error}");
        let pool = open(&path).unwrap();
        assert_eq!(exchange(&pool, 2), 1);
        let error = (0..100).find_map(|value| {
            exchange(&pool, value);
            pool.checkpoint(&checkpoint).err()
        });
        assert!(error.is_none_or(|error| is_past(&error)));
        return;
    }
    let directory = directory();
    with_checkpoint(directory.path());
    let again = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 1024 && exec $OUTLAST_RUNNER \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg("replacing::a_limit_for_files_leaves_everything_as_it_was")
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{:?}: {said}", again.status);
    assert_eq!(names(directory.path()), ["p", "p.checkpoint"]);
    outlast::checkpoint::Checkpoint::open(directory.path().join("p.checkpoint")).unwrap();
}

/// A copy with holes on a disk that has no space for them.
#[test]
fn a_sparse_copy_on_a_full_disk_is_refused_to_a_writer_and_read_by_a_reader() {
    let directory = directory();
    let path = directory.path().join("p");
    let pool = create(&path);
    exchange(&pool, 1);
    pool.close();
    let Some(disk) = SmallDisk::of(512) else { return };
    let copy = disk.path("copy");
    let copied = std::process::Command::new("cp")
        .args(["--sparse=always".as_ref(), path.as_os_str(), copy.as_os_str()])
        .output();
    assert!(copied.unwrap().status.success());
    let error = open(&copy).expect_err("there is no space");
    assert!(matches!(error, PoolError::Map(MapError::Holes { .. })), "{error}");
    let pool = RecoveredPool::open_read_only(&copy, &map()).unwrap();
    let report = pool.check();
    assert_eq!((report.findings.len(), report.blocks), (0, 1));
    drop(pool);
    assert!(fs::read(&copy).unwrap() == fs::read(&path).unwrap(), "nothing has changed");

    // Where there is space the copy gets it.
    let roomy = directory.path().join("copy");
    let copied = std::process::Command::new("cp")
        .args(["--sparse=always".as_ref(), path.as_os_str(), roomy.as_os_str()])
        .output();
    assert!(copied.unwrap().status.success());
    assert_eq!(exchange(&open(&roomy).unwrap(), 2), 1);
    assert!(fs::metadata(&roomy).unwrap().blocks() * 512 >= 1 << 20);
}

/// Two pools of one checkpoint have one identity: both are open at once, and in one checkpoint file the last of either
/// counts.
#[test]
fn a_second_pool_of_a_checkpoint_is_open_beside_the_first() {
    let dir = directory();
    let [first, second] = ["first.pool", "second.pool"].map(|name| dir.path().join(name));
    let target = checkpoint_path(&first);
    let pool = create(&first);
    exchange(&pool, 1);
    pool.checkpoint(&target).unwrap();
    restore(&second, Some(&target)).unwrap();
    let other = open(&second).unwrap();
    assert_eq!(exchange(&pool, 2), 1);
    assert_eq!(exchange(&other, 3), 1, "they change nothing of each other");
    assert_eq!(pool.header().uuid, other.header().uuid);
    pool.checkpoint(&target).unwrap();
    other.checkpoint(&target).unwrap();
    drop(pool);
    restore(&first, None).unwrap();
    assert_eq!(exchange(&open(&first).unwrap(), 4), 3, "the last checkpoint was the other's");
}
