//! Files that are mapped: which one has the name, and whether all of it has space.
//!
//! Small file systems in memory are mounted where the user may, as root may; elsewhere a line says
//! that what needs them was left out.
#![cfg(all(target_os = "linux", not(miri), not(outlast_portable)))]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use outlast_pmem::{Domain, GrowError, MapError, MapOptions, Mapped, Medium};
use outlast_trace::PoolOffset;

fn options() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), max_len: 1 << 20, ..MapOptions::default() }
}

fn read_only() -> MapOptions {
    MapOptions { read_only: true, ..options() }
}

/// A file system in memory of a few pages. Unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn of(kib: u64) -> Option<Self> {
        let small = Self(tempfile::tempdir().unwrap());
        let size = format!("size={kib}k");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(small.0.path())
            .output();
        if !mount.is_ok_and(|mount| mount.status.success()) {
            println!("left out: this user cannot mount a small file system");
            return None;
        }
        Some(small)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

/// A file of `len` bytes of which the first page has content and the rest is a hole.
fn sparse(path: &Path, len: u64) {
    fs::write(path, [7; 4096]).unwrap();
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn bytes_of(medium: &Mapped) -> Vec<u8> {
    let mut bytes = vec![1; medium.len() as usize];
    medium.load(PoolOffset(0), &mut bytes);
    bytes
}

#[test]
fn a_name_that_has_gone_to_another_file_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, new) = (dir.path().join("pool"), dir.path().join("new"));
    for round in 0..20u8 {
        fs::write(&path, [0; 4096]).unwrap();
        let old = File::open(&path).unwrap();
        old.lock().unwrap();
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| {
                loop {
                    match Mapped::open(&path, &options()) {
                        Err(MapError::AlreadyOpen { .. }) => {}
                        opened => break opened.unwrap(),
                    }
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(4));
            fs::write(&new, [round + 1; 4096]).unwrap();
            fs::rename(&new, &path).unwrap();
            drop(old);
            let opened = opener.join().unwrap();
            assert_eq!(bytes_of(&opened), [round + 1; 4096]);
        });
    }
    // A name that is gone is no name.
    let old = File::open(&path).unwrap();
    assert!(outlast_pmem::is_named(&path, &old).unwrap());
    fs::remove_file(&path).unwrap();
    let gone = outlast_pmem::is_named(&path, &old).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_file_given_up_is_removed_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let give_up = |ours: &File| outlast_pmem::remove_if_free(&path, ours);
    give_up(Mapped::create(&path, 4096, &options()).unwrap().file().unwrap());
    assert!(!path.exists());
    let ours = Mapped::create(&path, 4096, &options()).unwrap();
    give_up(&File::open(&path).unwrap());
    assert!(path.exists(), "it is locked elsewhere");
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"of another").unwrap();
    give_up(ours.file().unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"of another");
}

#[test]
fn a_file_gets_its_name_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let names = || {
        let entries = fs::read_dir(dir.path()).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        names
    };
    let hidden = || Mapped::create_hidden(&path, 8192, &options(), *b"a magic!").unwrap();
    drop(hidden());
    assert!(names().is_empty(), "it was never shown");
    let shown = hidden();
    assert!(!path.exists());
    assert_eq!(names().len(), 1);
    shown.show().unwrap();
    shown.show().unwrap();
    drop(shown);
    assert_eq!(names(), ["pool"]);
    // What has the name by then keeps it.
    fs::remove_file(&path).unwrap();
    let late = hidden();
    fs::write(&path, b"of another").unwrap();
    assert!(matches!(late.show(), Err(MapError::AlreadyExists { .. })));
    drop(late);
    assert_eq!(names(), ["pool"]);
    assert_eq!(fs::read(&path).unwrap(), b"of another");
    let refused = Mapped::create(&path, 8192, &options());
    assert!(matches!(refused.err(), Some(MapError::AlreadyExists { .. })));
    assert_eq!(names(), ["pool"]);
}

#[test]
fn a_creation_removes_what_a_killed_one_has_left_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let beside = |name: &str| dir.path().join(name);
    let left = ["pool.creating-0123456789abcdef", "pool.creating-00000000000000ff"];
    fs::write(beside(left[0]), b"").unwrap();
    fs::write(beside(left[1]), b"a magic! and more").unwrap();
    let kept = [
        ("pool.creating-0123456789abcde0", "a user's text"),
        ("pool.creating-0123456789ABCDEF", ""),
        ("pool.creating-1", ""),
        ("other.creating-0123456789abcdef", ""),
        ("pool.creating-0123456789abcdee", "a magic! of a process that has it"),
    ];
    kept.iter().for_each(|(name, text)| fs::write(beside(name), text).unwrap());
    let used = File::open(beside(kept[4].0)).unwrap();
    used.lock().unwrap();
    Mapped::create_hidden(&path, 4096, &options(), *b"a magic!").unwrap().show().unwrap();
    assert!(path.exists());
    left.iter().for_each(|name| assert!(!beside(name).exists(), "{name}"));
    for (name, text) in kept {
        assert_eq!(fs::read(beside(name)).unwrap(), text.as_bytes(), "{name}");
    }
}

#[test]
fn holes_are_allocated_for_a_writer() {
    for dir in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")].into_iter().flatten() {
        let path = dir.path().join("pool");
        sparse(&path, 1 << 20);
        let blocks = || fs::metadata(&path).unwrap().blocks() * 512;
        assert!(blocks() < 1 << 20);
        let medium = Mapped::open(&path, &read_only()).unwrap();
        assert!(bytes_of(&medium)[4096..].iter().all(|byte| *byte == 0));
        drop(medium);
        let medium = Mapped::open(&path, &options()).unwrap();
        assert!(blocks() >= 1 << 20);
        medium.store_u64(PoolOffset((1 << 20) - 8), 9);
        let bytes = bytes_of(&medium);
        assert_eq!(bytes[..4096], [7; 4096]);
        assert!(bytes[4096..(1 << 20) - 8].iter().all(|byte| *byte == 0));
    }
}

/// A released part reads as zeros and takes no space until it is allocated again; its neighbours stay.
#[test]
fn a_part_of_a_file_comes_and_goes() {
    for dir in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")].into_iter().flatten() {
        let path = dir.path().join("pool");
        let blocks = || fs::metadata(&path).unwrap().blocks() * 512;
        let medium = Mapped::create(&path, 1 << 20, &options()).unwrap();
        medium.store(PoolOffset(0), &[7; 1 << 20]);
        medium.write_in_place().unwrap();
        let whole = blocks();
        medium.release(PoolOffset(4000), 600 << 10);
        let bytes = bytes_of(&medium);
        let released = 4096..(4000 + (600 << 10)) / 4096 * 4096;
        let is_right = |at: usize| bytes[at] == if released.contains(&at) { 0 } else { 7 };
        assert!((0..1 << 20).all(is_right));
        if blocks() == whole {
            println!("left out: {} gives no part of a file back", path.display());
            continue;
        }
        assert!(blocks() + (590 << 10) < whole, "{} of {whole}", blocks());
        drop(medium);
        let medium = Mapped::open_sparse(&path, &options()).unwrap();
        assert!(blocks() < whole, "opening fills no hole");
        medium.allocate(PoolOffset(4096), 200 << 10).unwrap();
        let part = blocks();
        assert!(part + (390 << 10) < whole && part > whole - (500 << 10), "{part} of {whole}");
        medium.allocate(PoolOffset(0), 1 << 20).unwrap();
        assert!(blocks() >= 1 << 20);
        assert_eq!(bytes_of(&medium), bytes);
    }
}

#[test]
fn holes_without_space_are_refused_to_a_writer_and_read_by_others() {
    let Some(small) = Small::of(64) else { return };
    let path = small.path("pool");
    sparse(&path, 256 << 10);
    let allocated = fs::metadata(&path).unwrap().blocks();
    let error = Mapped::open(&path, &options()).err().expect("there is no space");
    assert!(matches!(error, MapError::Holes { holes: 258_048, free: Some(_), .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("it has holes, whose 258048 bytes do not fit"), "{text}");
    let medium = Mapped::open(&path, &read_only()).unwrap();
    let bytes = bytes_of(&medium);
    assert_eq!(bytes[..4096], [7; 4096]);
    assert!(bytes[4096..].iter().all(|byte| *byte == 0));
    assert_eq!(fs::metadata(&path).unwrap().blocks(), allocated, "reading allocates nothing");
    drop(medium);
    let medium = Mapped::open_sparse(&path, &options()).unwrap();
    let error = medium.allocate(PoolOffset(0), 256 << 10).expect_err("there is no space");
    assert!(matches!(error, MapError::Holes { .. }), "{error}");
    // To read a hole beside stores would take memory.
    let mut first = [0; 4096];
    medium.load(PoolOffset(0), &mut first);
    assert_eq!(first[..], bytes[..4096]);
}

#[test]
fn a_full_disk_leaves_no_file() {
    let Some(small) = Small::of(64) else { return };
    let path = small.path("pool");
    let error = Mapped::create(&path, 128 << 10, &options()).err().expect("there is no space");
    assert!(matches!(error, MapError::NoSpace { needed: 131_072, .. }), "{error}");
    assert!(!path.exists());
    let medium = Mapped::create(&path, 32 << 10, &options()).unwrap();
    let error = medium.grow(128 << 10).unwrap_err();
    assert!(matches!(error, GrowError::Map(MapError::NoSpace { .. })), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 32 << 10);
}

/// A limit ends the process that passes it with a signal. The test runs itself again under one.
#[test]
fn a_limit_for_files_is_an_error_and_no_signal() {
    const PATH: &str = "OUTLAST_PMEM_TEST_LIMITED";
    if let Some(path) = std::env::var_os(PATH) {
        let error = Mapped::create(&path, 1 << 20, &options()).err().expect("past the limit");
        assert!(matches!(error, MapError::FileLimit { len: 1_048_576, .. }), "{error}");
        assert!(!Path::new(&path).exists());
        let medium = Mapped::create(&path, 4096, &options()).unwrap();
        let error = medium.grow(1 << 20).unwrap_err();
        assert!(matches!(error, GrowError::Map(MapError::FileLimit { .. })), "{error}");
        assert_eq!(medium.len(), 4096);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let test = "a_limit_for_files_is_an_error_and_no_signal";
    let again = Command::new("sh")
        .args(["-c", "ulimit -f 64 && exec $OUTLAST_RUNNER \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(PATH, dir.path().join("pool"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{:?}: {said}", again.status);
}

#[test]
fn a_file_cut_off_while_it_is_mapped_cannot_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let medium = Mapped::create(&path, 8192, &options()).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let error = medium.grow(16 << 10).unwrap_err();
    let expected =
        matches!(error, GrowError::Map(MapError::Truncated { mapped: 8192, found: 4096, .. }));
    assert!(expected, "{error}");
}
