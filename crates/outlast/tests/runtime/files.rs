//! Pool files that cannot be created, opened or enlarged: one line says why, and no file changes.
#![cfg(not(miri))]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{flipped, geometry_of, live_redo_image, live_undo_image};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::RecoveredPool;
use outlast::{BlockKind, Pool, PoolError, Runner, Scheme, Transact};
use outlast_pmem::{Domain, MapOptions};

fn map() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), ..MapOptions::default() }
}

fn open(path: &Path) -> Result<Pool, PoolError> {
    Pool::open_with(path, &OpenOptions::default(), &map())
}

fn create(path: &Path, len: u64) -> Result<Pool, PoolError> {
    let create = CreateOptions { lanes: 2, lane_bytes: 1024, ..CreateOptions::default() };
    Pool::create_with(path, len, &create, &OpenOptions::default(), &map())
}

/// The error's text, which is one line with these words in it.
#[track_caller]
fn one_line<T>(result: Result<T, PoolError>, words: &[&str]) -> String {
    let Err(error) = result else { panic!("accepted what should say {words:?}") };
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 300, "{text:?}");
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
    text
}

/// Opening this content for writing and for reading only fails with these words, and leaves the
/// file as it was.
#[track_caller]
fn refused(dir: &Path, content: &[u8], words: &[&str]) {
    let path = dir.join("bad.pool");
    fs::write(&path, content).unwrap();
    one_line(open(&path), words);
    let read_only = RecoveredPool::open_read_only(&path, &map()).map(drop);
    one_line(read_only, words);
    assert!(fs::read(&path).unwrap() == content, "the file changed: {words:?}");
}

#[test]
fn bad_files_are_refused_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |content: &[u8], words: &[&str]| refused(dir.path(), content, words);
    refused(b"", &["bad.pool", "length of 0 bytes", "multiple of 4096"]);
    refused(b"just some text\n", &["bad.pool: not an Outlast pool"]);
    refused(b"OUTLAST\x01 and no more", &["length of 20 bytes", "multiple of 4096"]);
    refused(&b"noise!! ".repeat(1024), &["bad.pool: not an Outlast pool"]);
    refused(&[0; 8192], &["not a whole pool", "delete the file and create it again"]);

    for image in [live_redo_image(), live_undo_image()] {
        let geometry = geometry_of(&image);
        let at_bit = |at: u64, bit: usize| flipped(&image, at as usize * 8 + bit);
        refused(&at_bit(3, 5), &["damaged at", "magic", "restore"]);
        refused(&at_bit(20, 0), &["damaged at", "CRC"]);
        refused(&at_bit(128, 50), &["damaged at", "floor"]);
        refused(&at_bit(192, 1), &["damaged at", "root"]);
        refused(&at_bit(256, 1), &["damaged at", "size"]);
        refused(&at_bit(geometry.lane_at(1).0, 2), &["damaged at", "lane's tail"]);
        refused(&at_bit(geometry.lane_at(1).0 + 8, 2), &["damaged at", "lane's floor"]);
        refused(&at_bit(geometry.ring_at(0).0 + 9, 4), &["damaged at", "CRC"]);
        refused(&at_bit(geometry.ring_at(0).0 + 56, 4), &["damaged at", "log line"]);
        refused(&image[..image.len() - 4096], &["truncated", "65536", "61440"]);
        refused(&image[..image.len() - 1], &["length of 65535 bytes", "multiple of 4096"]);

        let mut newer = image.clone();
        newer[8] = 3;
        let crc = crc32c::crc32c(&newer[..120]);
        newer[120..124].copy_from_slice(&crc.to_le_bytes());
        refused(&newer, &["version 3", "reads version 2", "create it anew"]);
    }
}

#[test]
fn live_records_are_recovered_by_a_writer_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.pool");
    for image in [live_redo_image(), live_undo_image()] {
        fs::write(&path, &image).unwrap();
        let read_only = || RecoveredPool::open_read_only(&path, &map());
        one_line(read_only().map(drop), &["log records wait", "open the pool for writing"]);
        assert!(fs::read(&path).unwrap() == image);
        drop(open(&path).unwrap());
        assert!(read_only().unwrap().root().unwrap().is_some());
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    one_line(open(dir.path()), &["is a directory, not a regular file"]);
    one_line(create(dir.path(), 1 << 20), &["is a directory, not a regular file"]);
    one_line(open(&dir.path().join("none")), &["none", "there is no such file"]);
    one_line(create(&dir.path().join("no/such"), 1 << 20), &["directory", "does not exist"]);
    if cfg!(unix) {
        one_line(open(Path::new("/dev/null")), &["a device or a pipe, not a regular file"]);
    }
}

#[test]
fn a_pool_that_is_open_elsewhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one.pool");
    let pool = create(&path, 1 << 20).unwrap();
    let busy: &[&str] =
        &["one.pool", "already open, in this process or another", "close it there first"];
    one_line(open(&path), busy);
    one_line(RecoveredPool::open_read_only(&path, &map()).map(drop), busy);
    pool.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    // Closed in peace: a log with records in it wants an opening for writing first.
    drop(pool.close());

    let readers = [(); 2].map(|()| RecoveredPool::open_read_only(&path, &map()).unwrap());
    assert_eq!(readers.each_ref().map(|reader| reader.check().blocks), [1, 1]);
    one_line(open(&path), busy);
    drop(readers);
    drop(open(&path).unwrap());
}

#[test]
fn what_exists_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine");
    fs::write(&path, b"dear diary").unwrap();
    one_line(create(&path, 1 << 20), &["exists already", "not overwritten"]);
    assert_eq!(fs::read(&path).unwrap(), b"dear diary");
}

#[test]
fn a_pool_of_no_possible_size_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("never.pool");
    one_line(create(&path, 0), &["0 bytes are too few", "at least 16384"]);
    one_line(create(&path, 12288), &["12288 bytes are too few", "at least 16384"]);
    one_line(create(&path, u64::MAX), &["are too many for a pool", "at most 8796093022208"]);
    let words = ["never.pool", "do not fit on its file system"];
    one_line(create(&path, 1 << 43), &words);
    let lanes = CreateOptions { lanes: 0, ..CreateOptions::default() };
    let none = Pool::create_with(&path, 1 << 20, &lanes, &OpenOptions::default(), &map());
    one_line(none, &["number of lanes must be 1 to 1024"]);
    let checksums = CreateOptions { checksums: true, ..CreateOptions::default() };
    let undo = OpenOptions::with_scheme(Scheme::Undo);
    let none = Pool::create_with(&path, 8 << 20, &checksums, &undo, &map());
    one_line(none, &["the pool keeps checksums, and undo does not"]);
    assert!(!path.exists());
}

#[test]
fn a_pool_that_cannot_grow_goes_on_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("growing.pool");
    drop(create(&path, 1 << 20).unwrap());
    let mut map = MapOptions { max_len: 1 << 43, ..map() };
    for (max_len, words) in [(1 << 43, "do not fit"), (2 << 20, "opened for at most 2097152")] {
        map.max_len = max_len;
        let pool = Pool::open_with(&path, &OpenOptions::default(), &map).unwrap();
        one_line(pool.grow(1 << 42), &["cannot grow", "growing.pool", words]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
        pool.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        one_line(pool.grow(u64::MAX), &["too many", "at most"]);
        drop(pool.close());
    }
    let read_only = RecoveredPool::open_read_only(&path, &map).unwrap();
    assert_eq!(read_only.check().blocks, 2);
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("closed.pool");
    drop(create(&path, 1 << 20).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        return eprintln!("not tested: this user may do everything");
    }
    one_line(open(&path), &["closed.pool", "no permission to read and write it"]);
    assert!(RecoveredPool::open_read_only(&path, &map()).is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    let read_only = RecoveredPool::open_read_only(&path, &map()).map(drop);
    one_line(read_only, &["closed.pool", "no permission to read it"]);
}
