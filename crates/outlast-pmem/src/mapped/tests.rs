use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use outlast_trace::LineAddr;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::medium::GrowError;

/// Directories that lie on a disk and, where there is one, in memory.
fn dirs() -> Vec<TempDir> {
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    std::iter::once(tempfile::tempdir().unwrap()).chain(shm).collect()
}

/// The domains that this build can run in.
fn domains() -> impl Iterator<Item = Domain> {
    Domain::ALL.into_iter().filter(|&domain| domain < Domain::Adr || has_line_flush())
}

fn options(domain: Domain) -> MapOptions {
    MapOptions { domain: Some(domain), max_len: 1 << 20, ..MapOptions::default() }
}

fn read_only() -> MapOptions {
    MapOptions { read_only: true, ..MapOptions::default() }
}

/// What a panic in `f` says.
fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it did not panic");
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| {
        (*panic.downcast_ref::<&str>().expect("a panic without words")).to_owned()
    })
}

#[test]
fn lines_are_flushed_by_the_instruction_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, kind) in [FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush]
        .into_iter()
        .filter(|kind| cpu::has_flush(*kind))
        .enumerate()
    {
        let create = |domain: Domain| {
            let path = dir.path().join(format!("{domain}{nth}"));
            Mapped::create(path, 4096, &options(domain)).unwrap().flushing_with(kind)
        };
        let medium = create(Domain::Adr);
        assert_eq!(medium.write_back, WriteBack::new(Domain::Adr, Some(kind)));
        medium.store_u64(PoolOffset(0), 5);
        medium.flush_range(PoolOffset(0), 128);
        medium.flush(LineAddr(3));
        medium.fence();
        assert_eq!(medium.load_u64(PoolOffset(0)), 5);
        assert_eq!(create(Domain::Eadr).write_back, WriteBack::Nothing);
    }
}

#[test]
fn a_new_file_is_zero_and_keeps_what_is_stored_in_every_domain() {
    for dir in dirs() {
        for domain in domains() {
            let path = dir.path().join(domain.name());
            let medium = Mapped::create(&path, 8192, &options(domain)).unwrap();
            assert_eq!((medium.domain(), medium.len()), (domain, 8192));
            assert_eq!(medium.load_u64(PoolOffset(4096)), 0);
            medium.store_u64(PoolOffset(4096), 7);
            medium.flush(LineAddr(64));
            medium.store_nt(PoolOffset(4104), &8u64.to_le_bytes());
            medium.store_line(LineAddr(127), &[9; 64]);
            medium.prefetch_write(LineAddr(u64::MAX));
            medium.prefetch_read(LineAddr(u64::MAX));
            medium.store(PoolOffset(60), &[6; 8]);
            medium.flush_range(PoolOffset(60), 8);
            medium.fence();
            assert_eq!(medium.compare_exchange_u64(PoolOffset(0), 0, 5), Ok(0));
            assert_eq!(medium.compare_exchange_u64(PoolOffset(0), 0, 6), Err(5));
            drop(medium);

            let medium = Mapped::open(&path, &read_only()).unwrap();
            assert_eq!(medium.len(), 8192);
            let mut bytes = vec![0; 8192];
            medium.load(PoolOffset(0), &mut bytes);
            let mut model = vec![0; 8192];
            model[0] = 5;
            model[60..68].fill(6);
            (model[4096], model[4104]) = (7, 8);
            model[8128..].fill(9);
            assert_eq!(bytes, model, "{domain}");
            assert_eq!(fs::read(&path).unwrap(), model, "{domain}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn detection_tells_memory_from_disk() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = dir.path().join("pool");
    let medium = Mapped::create(&path, 4096, &MapOptions::default()).unwrap();
    if medium.detection().backing == crate::Backing::Dram {
        assert_eq!(medium.domain(), Domain::Process);
        assert!(medium.describe().starts_with("process (the file lies on tmpfs"));
        drop(medium);
        let medium = Mapped::open(&path, &options(Domain::Page)).unwrap();
        assert!(medium.describe().starts_with("page emulated on DRAM (the file lies on tmpfs"));
    }
}

#[test]
fn growth_keeps_the_base_and_the_content_and_adds_zeros() {
    if !os::CAN_GROW {
        return;
    }
    for dir in dirs() {
        let path = dir.path().join("pool");
        let options = MapOptions { max_len: 1 << 20, ..MapOptions::default() };
        let medium = Mapped::create(&path, 4096, &options).unwrap();
        let base = medium.window.base_address();
        medium.store(PoolOffset(4000), &[7; 96]);
        // One byte more than there is gives a page more; less than there is gives nothing.
        medium.grow(4097).unwrap();
        medium.grow(1).unwrap();
        assert_eq!((medium.len(), fs::metadata(&path).unwrap().len()), (8192, 8192));
        medium.grow(1 << 20).unwrap();
        assert_eq!(medium.window.base_address(), base);
        let mut bytes = vec![1; 1 << 20];
        medium.load(PoolOffset(0), &mut bytes);
        assert_eq!(bytes[4000..4096], [7; 96]);
        assert!(bytes[4096..].iter().all(|&byte| byte == 0));
        medium.store_u64(PoolOffset((1 << 20) - 8), 9);
        let past = medium.grow((1 << 20) + 1).unwrap_err().to_string();
        assert!(
            past.contains("cannot grow to 1048577 bytes, it was opened for at most 1048576: open")
        );
        drop(medium);
        let medium = Mapped::open(&path, &options).unwrap();
        assert_eq!(medium.load_u64(PoolOffset((1 << 20) - 8)), 9);
    }
}

#[test]
#[cfg(unix)]
fn growth_is_seen_by_other_threads_and_happens_once() {
    if !os::CAN_GROW {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let medium = Mapped::create(dir.path().join("pool"), 4096, &options(Domain::Process)).unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=4u64 {
            let medium = &medium;
            scope.spawn(move || {
                for pages in 2..=64 {
                    medium.grow(pages * 4096).unwrap();
                    medium.store_u64(PoolOffset(pages * 4096 - 8 * thread), pages);
                }
            });
        }
    });
    assert_eq!(medium.len(), 64 * 4096);
    for (page, thread) in (2..=64).flat_map(|page| (1..=4).map(move |thread| (page, thread))) {
        assert_eq!(medium.load_u64(PoolOffset(page * 4096 - 8 * thread)), page);
    }
}

#[test]
#[cfg(unix)]
fn space_is_really_allocated() {
    use std::os::unix::fs::MetadataExt;
    for dir in dirs() {
        let path = dir.path().join("pool");
        let medium = Mapped::create(&path, 1 << 16, &options(Domain::Process)).unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 16);
        if os::CAN_GROW {
            medium.grow(1 << 18).unwrap();
            assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 18);
        }
    }
}

#[test]
#[cfg(all(unix, not(outlast_portable)))]
fn without_space_nothing_is_left_behind() {
    /// No file system of a test machine has this much room.
    const TOO_MUCH: u64 = 1 << 50;
    for dir in dirs() {
        let path = dir.path().join("pool");
        let error = Mapped::create(&path, TOO_MUCH, &MapOptions::default()).err().unwrap();
        assert!(matches!(error, MapError::NoSpace { needed: TOO_MUCH, .. }), "{error}");
        let words = format!("{}: {TOO_MUCH} bytes do not fit on its file system", path.display());
        assert!(error.to_string().starts_with(&words), "{error}");
        assert!(!path.exists());

        // Growth: the same, and the file is as long as before. Addresses are there for 2^46.
        let options = MapOptions { max_len: 1 << 46, ..MapOptions::default() };
        let medium = Mapped::create(&path, 8192, &options).unwrap();
        let error = medium.grow(1 << 46).unwrap_err();
        assert!(matches!(error, GrowError::Map(MapError::NoSpace { .. })), "{error}");
        assert_eq!((medium.len(), fs::metadata(&path).unwrap().len()), (8192, 8192));
        medium.grow(12_288).unwrap();
    }
}

#[test]
fn a_file_that_is_let_go_in_a_moment_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(Mapped::create(&path, 4096, &MapOptions::default()).unwrap());
    let child_s = File::open(&path).unwrap();
    child_s.lock().unwrap();
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| Mapped::open(&path, &MapOptions::default()).map(|_| ()));
        std::thread::sleep(Duration::from_millis(3));
        drop(child_s);
        opener.join().unwrap().unwrap();
    });
}

#[test]
fn a_writer_excludes_everybody_and_readers_exclude_writers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let writable = MapOptions::default();
    let refused = |options: &MapOptions| {
        let error = Mapped::open(&path, options).err().expect("opened twice");
        assert!(matches!(error, MapError::AlreadyOpen { .. }), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("is already open, in this process or another; close it there first")
        );
    };
    let writer = Mapped::create(&path, 4096, &writable).unwrap();
    refused(&writable);
    refused(&read_only());
    drop(writer);
    let reader = Mapped::open(&path, &read_only()).unwrap();
    let second = Mapped::open(&path, &read_only()).unwrap();
    refused(&writable);
    drop((reader, second));
    Mapped::open(&path, &writable).unwrap();
}

/// The lock must hold against another process, not only against this one: the test runs itself
/// again as that process.
#[test]
fn another_process_is_refused_while_the_file_is_mapped() {
    const PATH: &str = "OUTLAST_PMEM_TEST_LOCKED";
    if let Some(path) = std::env::var_os(PATH) {
        let error = Mapped::open(path, &MapOptions::default()).err().map(|e| e.to_string());
        println!("child says: {error:?}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let child = || {
        let test = "mapped::tests::another_process_is_refused_while_the_file_is_mapped";
        let output = crate::process::own_program()
            .args([test, "--exact", "--nocapture"])
            .env(PATH, &path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let medium = Mapped::create(&path, 4096, &MapOptions::default()).unwrap();
    let said = child();
    assert!(said.contains("is already open, in this process or another"), "{said}");
    drop(medium);
    let said = child();
    assert!(said.contains("child says: None"), "{said}");
}

#[test]
fn reading_only_refuses_every_store_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(Mapped::create(&path, 4096, &MapOptions::default()).unwrap());
    let medium = Mapped::open(&path, &read_only()).unwrap();
    let stores: [&dyn Fn(); 5] = [
        &|| medium.store(PoolOffset(1), &[1]),
        &|| medium.store_u64(PoolOffset(8), 1),
        &|| medium.store_nt(PoolOffset(8), &[1; 8]),
        &|| medium.store_line(LineAddr(0), &[1; 64]),
        &|| _ = medium.compare_exchange_u64(PoolOffset(8), 0, 1),
    ];
    for store in stores {
        let words = panic_of(store);
        assert!(words.contains("through a medium opened read-only"), "{words}");
    }
    medium.flush(LineAddr(0));
    medium.fence();
    let error = medium.grow(8192).unwrap_err().to_string();
    assert!(error.contains("opened for reading only"), "{error}");
    assert_eq!(medium.load_u64(PoolOffset(8)), 0);
    assert_eq!(fs::read(&path).unwrap(), [0; 4096]);
}

#[test]
fn accesses_outside_are_refused_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    for domain in domains() {
        let path = dir.path().join(domain.name());
        let medium = Mapped::create(path, 4096, &options(domain)).unwrap();
        let outside: [&dyn Fn(); 11] = [
            &|| medium.load(PoolOffset(4090), &mut [0; 7]),
            &|| medium.load(PoolOffset(u64::MAX - 2), &mut [0; 8]),
            &|| _ = medium.load_u64(PoolOffset(4096)),
            &|| medium.store(PoolOffset(4095), &[0; 2]),
            &|| medium.store_u64(PoolOffset(u64::MAX - 7), 0),
            &|| medium.store_nt(PoolOffset(4088), &[0; 16]),
            &|| medium.store_line(LineAddr(64), &[0; 64]),
            &|| medium.store_line(LineAddr(1 << 58), &[0; 64]),
            &|| medium.flush(LineAddr(64)),
            &|| medium.flush(LineAddr(1 << 58)),
            &|| medium.flush_range(PoolOffset(4000), 97),
        ];
        for (i, access) in outside.into_iter().enumerate() {
            let words = panic_of(access);
            assert!(words.contains("leaves a medium of 4096 bytes"), "{domain} {i}: {words}");
        }
        let crooked: [&dyn Fn(); 3] = [
            &|| _ = medium.load_u64(PoolOffset(4)),
            &|| medium.store_u64(PoolOffset(12), 0),
            &|| _ = medium.compare_exchange_u64(PoolOffset(1), 0, 0),
        ];
        for access in crooked {
            assert!(panic_of(access).contains("is not aligned"));
        }
        assert!(panic_of(|| medium.store_nt(PoolOffset(4), &[0; 8])).contains("whole words"));
        // The last bytes themselves are inside, and empty ranges anywhere up to the end.
        medium.store(PoolOffset(4095), &[1]);
        medium.store_u64(PoolOffset(4088), 1);
        medium.flush(LineAddr(63));
        medium.flush_range(PoolOffset(4096), 0);
        medium.load(PoolOffset(4096), &mut []);
    }
}

#[test]
fn bad_files_and_lengths_get_one_line_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("short"), [1; 100]).unwrap();
    fs::write(at("empty"), []).unwrap();
    let writable = MapOptions::default();
    let created = |name: &str, len| Mapped::create(at(name), len, &writable).err();
    let opened = |name: &str| Mapped::open(at(name), &writable).err();
    let cases = [
        (opened("none"), "none: there is no such file"),
        (opened("short"), "short: a length of 100 bytes is not a positive multiple of 4096"),
        (opened("empty"), "empty: a length of 0 bytes is not a positive multiple of 4096"),
        (opened(""), "is a directory, not a regular file"),
        (created("new", 0), "new: a length of 0 bytes is not a positive multiple of 4096"),
        (created("new", 4097), "new: a length of 4097 bytes is not a positive multiple of 4096"),
        (
            created("short", 4096),
            "exists already and is not overwritten; remove it or take another name",
        ),
        (
            created("none/new", 4096),
            "new: the directory to create it in does not exist; create that first",
        ),
        (created("", 4096), "is a directory, not a regular file"),
        (
            Mapped::create(at("new"), 4096, &read_only()).err(),
            "opened for reading only, a file can be neither created nor enlarged",
        ),
    ];
    for (error, words) in cases {
        let error = error.expect(words).to_string();
        assert!(error.ends_with(words), "{error}");
        assert!(error.starts_with(dir.path().to_str().unwrap()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert_eq!(fs::read(at("short")).unwrap(), [1; 100]);
    assert_eq!(fs::read(at("empty")).unwrap(), []);
    assert!(!at("new").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn permissions_and_devices_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let error = Mapped::open("/dev/null", &MapOptions::default()).err().unwrap().to_string();
    assert_eq!(error, "/dev/null: is a device or a pipe, not a regular file");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(Mapped::create(&path, 4096, &MapOptions::default()).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    match Mapped::open(&path, &MapOptions::default()) {
        // The superuser may do everything.
        Ok(_) => {}
        Err(error) => {
            assert!(error.to_string().ends_with("no permission to read and write it"), "{error}");
        }
    }
    Mapped::open(&path, &read_only()).unwrap();
    let denied = std::io::Error::from(io::ErrorKind::PermissionDenied);
    let error = MapError::io(Path::new("pool"), "create", denied).to_string();
    assert_eq!(error, "pool: no permission to create it");
}

#[test]
#[cfg(outlast_portable)]
fn domains_of_known_processors_only_are_refused_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    for domain in [Domain::Adr, Domain::Eadr] {
        let path = dir.path().join("pool");
        let error = Mapped::create(&path, 4096, &options(domain)).err().unwrap().to_string();
        assert!(error.contains("dc cvap; use page or process here"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn flushed_pages_are_written_back_by_the_fence_of_each_thread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let medium = Mapped::create(&path, 1 << 18, &options(Domain::Page)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let medium = &medium;
            scope.spawn(move || {
                for page in 0..8 {
                    let at = PoolOffset((page * 4 + thread) * 8192);
                    medium.store_u64(at, at.0 + 1);
                    medium.flush(at.line());
                    medium.fence();
                }
            });
        }
    });
    assert!(medium.pages.is_empty());
    // A locked instruction makes durable what was flushed before it.
    medium.store_u64(PoolOffset(0), 0);
    medium.flush(LineAddr(0));
    assert!(!medium.pages.is_empty());
    medium.compare_exchange_u64(PoolOffset(8), 0, 1).unwrap();
    assert!(medium.pages.is_empty());
}

/// Two pages far apart are written back by one call; a fence that finds nothing makes none.
#[test]
fn a_fence_syncs_once() {
    for dir in dirs() {
        let medium = Mapped::create(dir.path().join("m"), 1 << 18, &options(Domain::Page)).unwrap();
        for page in [0, 40] {
            medium.store_u64(PoolOffset(page * 4096), 1);
            medium.flush(LineAddr(page * 64));
        }
        medium.fence();
        medium.fence();
        assert_eq!(medium.syncs(), 1);
    }
}

/// A word that is stored to through a mapping makes all of its folio dirty.
#[test]
#[cfg(target_os = "linux")]
fn the_page_cache_of_a_file_on_disk_is_asked_to_hold_single_pages() {
    let dir = tempfile::tempdir().unwrap();
    let is_random = |medium: &Mapped| {
        let start = format!("{:x}-", medium.window.base_address());
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.lines().skip_while(|line| !line.starts_with(&start));
        let mut flags = own.filter(|line| line.starts_with("VmFlags:"));
        flags.next().unwrap().split(' ').any(|flag| flag == "rr")
    };
    for domain in domains() {
        let medium =
            Mapped::create(dir.path().join(domain.to_string()), 4096, &options(domain)).unwrap();
        assert_eq!(is_random(&medium), domain == Domain::Page);
        medium.grow(1 << 17).unwrap();
        assert_eq!(is_random(&medium), domain == Domain::Page);
    }
}

/// The kernel knows which mapped pages are dirty: after the fence those of the file are not.
#[test]
#[cfg(target_os = "linux")]
fn the_fence_really_writes_pages_back() {
    let dirty_kilobytes = |path: &Path| -> u64 {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let name = path.to_str().unwrap();
        let lines = smaps.lines().skip_while(|line| !line.ends_with(name)).skip(1);
        lines
            .take_while(|line| !line.starts_with("VmFlags"))
            .filter(|line| line.starts_with("Shared_Dirty") || line.starts_with("Private_Dirty"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("pool");
    let medium = Mapped::create(&path, 1 << 18, &options(Domain::Page)).unwrap();
    if medium.detection().backing != crate::Backing::PageCache {
        return;
    }
    for page in [0, 1, 40] {
        medium.store_u64(PoolOffset(page * 4096), 1);
        medium.flush(LineAddr(page * 64));
    }
    assert!(dirty_kilobytes(&path) > 0);
    medium.fence();
    assert_eq!(dirty_kilobytes(&path), 0);
    medium.store_nt(PoolOffset(8192), &[1; 8]);
    assert!(dirty_kilobytes(&path) > 0);
    medium.fence();
    assert_eq!(dirty_kilobytes(&path), 0);
}

/// A word that two values are stored to in turn is never seen as anything else, and later words
/// of one store are never seen before earlier ones.
#[test]
fn racing_copies_tear_between_words_only_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let medium = Mapped::create(dir.path().join("pool"), 4096, &options(Domain::Process)).unwrap();
    let at = PoolOffset(64 - 24);
    let words = |value: u64| [value.wrapping_mul(0x0101_0101_0101_0101).to_le_bytes(); 8].concat();
    std::thread::scope(|scope| {
        let (medium, words) = (&medium, &words);
        scope.spawn(move || (1..=20_000).for_each(|i| medium.store(at, &words(i % 251))));
        scope.spawn(move || {
            for _ in 0..20_000 {
                let mut seen = [0; 64];
                medium.load(at, &mut seen);
                for word in seen.as_chunks::<8>().0 {
                    assert!(word.iter().all(|byte| *byte == word[0]), "torn: {word:?}");
                }
            }
        });
    });
}

/// Something to do to a medium.
#[derive(Clone, Debug)]
enum Step {
    Store(u64, Vec<u8>),
    StoreWord(u64, u64),
    Stream(u64, Vec<u8>),
    StoreLine(u64, u8),
    Exchange(u64, u64, u64),
    Flush(u64, u64),
    Fence,
    Load(u64, usize),
    Grow(u64),
}

const PROPERTY_LEN: u64 = 4 * 4096;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0..PROPERTY_LEN - 200;
    let word = || at().prop_map(|at| at / 8 * 8);
    let step = prop_oneof![
        (at(), proptest::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(at, b)| Step::Store(at, b)),
        (word(), any::<u64>()).prop_map(|(at, value)| Step::StoreWord(at, value)),
        (word(), proptest::collection::vec(any::<[u8; 8]>(), 0..25))
            .prop_map(|(at, words)| Step::Stream(at, words.concat())),
        (0..PROPERTY_LEN / 64, any::<u8>()).prop_map(|(line, byte)| Step::StoreLine(line, byte)),
        (word(), 0..2u64, any::<u64>()).prop_map(|(at, old, new)| Step::Exchange(at, old, new)),
        (at(), 0..200u64).prop_map(|(at, len)| Step::Flush(at, len)),
        Just(Step::Fence),
        (at(), 0..200usize).prop_map(|(at, len)| Step::Load(at, len)),
        (0..2 * PROPERTY_LEN).prop_map(Step::Grow),
    ];
    proptest::collection::vec(step, 1..60)
}

fn play(medium: &Mapped, model: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Store(at, bytes) => {
            medium.store(PoolOffset(*at), bytes);
            model[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Step::StoreWord(at, value) => {
            medium.store_u64(PoolOffset(*at), *value);
            model[*at as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        Step::Stream(at, bytes) => {
            medium.store_nt(PoolOffset(*at), bytes);
            model[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Step::StoreLine(line, byte) => {
            medium.store_line(LineAddr(*line), &[*byte; 64]);
            model[*line as usize * 64..][..64].fill(*byte);
        }
        Step::Exchange(at, current, new) => {
            let word = &mut model[*at as usize..][..8];
            let old = u64::from_le_bytes((&*word).try_into().unwrap());
            let expected = if old == *current { Ok(old) } else { Err(old) };
            assert_eq!(medium.compare_exchange_u64(PoolOffset(*at), *current, *new), expected);
            if expected.is_ok() {
                word.copy_from_slice(&new.to_le_bytes());
            }
        }
        Step::Flush(at, len) => medium.flush_range(PoolOffset(*at), *len),
        Step::Fence => medium.fence(),
        Step::Load(at, len) => {
            let mut out = vec![0xaa; *len];
            medium.load(PoolOffset(*at), &mut out);
            assert_eq!(out, model[*at as usize..][..*len]);
            let word = at / 8 * 8;
            let expected = u64::from_le_bytes(model[word as usize..][..8].try_into().unwrap());
            assert_eq!(medium.load_u64(PoolOffset(word)), expected);
        }
        Step::Grow(len) if os::CAN_GROW => {
            medium.grow(*len).unwrap();
            let len = model.len().max(len.next_multiple_of(4096) as usize);
            model.resize(len, 0);
        }
        Step::Grow(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mapping_is_a_byte_vector(steps in steps(), domain in prop::sample::select(domains().collect::<Vec<_>>())) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let medium = Mapped::create(&path, PROPERTY_LEN, &options(domain)).unwrap();
        let mut model = vec![0; PROPERTY_LEN as usize];
        for step in &steps {
            play(&medium, &mut model, step);
        }
        let mut all = vec![0; model.len()];
        medium.load(PoolOffset(0), &mut all);
        prop_assert_eq!(medium.len(), model.len() as u64);
        prop_assert!(all == model);
        drop(medium);
        prop_assert!(fs::read(&path).unwrap() == model);
    }
}

#[test]
fn each_part_of_shared_work_is_done_once() {
    let dir = tempfile::tempdir().unwrap();
    for domain in domains() {
        let path = dir.path().join(format!("{domain}"));
        let medium = Mapped::create(path, 64 << 10, &options(domain)).unwrap();
        for parts in [0, 1, 2, 1000] {
            medium.share_out(parts, &|medium, part| {
                let at = PoolOffset(part as u64 * 8);
                medium.store_u64(at, medium.load_u64(at) + 1);
                medium.flush(at.line());
            });
        }
        for at in 0..1001 {
            let parts = [1, 2, 1000].into_iter().filter(|parts| at < *parts).count() as u64;
            assert_eq!(medium.load_u64(PoolOffset(at * 8)), parts);
        }
        let work_that_panics = |_: &Mapped, part| assert!(part < 3, "part {part}");
        let panicked = catch_unwind(AssertUnwindSafe(|| medium.share_out(20, &work_that_panics)));
        assert!(panicked.is_err());
    }
}
