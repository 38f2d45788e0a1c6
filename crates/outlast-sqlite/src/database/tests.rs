use super::*;

fn options() -> DatabaseOptions {
    DatabaseOptions { size_bytes: 8 << 20, ..DatabaseOptions::default() }
}

/// The first bytes of a file.
fn begin(database: &Database) -> [u8; 4] {
    let mut bytes = [0; 4];
    database.read_stored(0, &mut bytes);
    bytes
}

/// A pool whose transaction over several databases waits for a super-journal when the process ends.
fn waiting(path: &Path, super_journal: &Path) {
    let (database, can_write) = open(path, &options(), true, true).unwrap();
    assert!(can_write);
    let mut state = database.state();
    database.write(&mut state, 0, b"old!").unwrap();
    database.commit(&mut state).unwrap();
    database.write(&mut state, 0, b"new!").unwrap();
    database.write(&mut state, 100_000, b"far").unwrap();
    database.prepare(&mut state, super_journal.as_os_str().as_bytes()).unwrap();
    drop(state);
    assert_eq!(begin(&database), *b"old!");
    close(database);
}

#[test]
fn the_end_of_a_super_journal_commits_what_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, super_journal) = (directory.path().join("a.pool"), directory.path().join("mj"));
    let stub = directory.path().join("a.pool-journal");
    for is_there in [true, false] {
        waiting(&path, &super_journal);
        assert!(stub.exists());
        let read_only = open(&path, &options(), false, false).map(|_| ());
        assert!(matches!(read_only, Err(OpenError::Unsettled(_))), "{read_only:?}");
        if is_there {
            std::fs::write(&super_journal, "names").unwrap();
        }
        let (database, _) = open(&path, &options(), true, false).unwrap();
        let (wanted, len) = if is_there { (*b"old!", 4) } else { (*b"new!", 100_003) };
        assert_eq!((begin(&database), database.stored_len()), (wanted, len));
        assert!(!stub.exists());
        close(database);
        // It is settled once.
        let _ = std::fs::remove_file(&super_journal);
        let (database, _) = open(&path, &options(), false, false).unwrap();
        assert_eq!(begin(&database), wanted);
        close(database);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_is_not_committed_when_a_lock_is_lowered_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let (database, _) = open(&path, &options(), true, true).unwrap();
    let mut level = Level::None;
    database.raise(&mut level, Level::Exclusive).unwrap();
    {
        let mut state = database.state();
        database.write(&mut state, 0, b"some").unwrap();
        database.prepare(&mut state, b"/nowhere/mj").unwrap();
        state.journal.create();
        database.write_journal(&mut state, 0, b"journal").unwrap();
    }
    assert!(database.is_prepared());
    database.lower(&mut level, Level::Shared);
    assert!(!database.is_prepared() && !database.state().journal.exists());
    assert_eq!(database.stored_len(), 0);
    database.lower(&mut level, Level::None);
    close(database);
}

#[test]
fn a_database_is_one_whatever_the_name_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (directory.path().join("a.pool"), directory.path().join("b.pool"));
    // An empty file is no obstacle.
    std::fs::write(&one, "").unwrap();
    let (database, _) = open(&one, &options(), true, true).unwrap();
    std::fs::hard_link(&one, &two).unwrap();
    let (same, _) = open(&two, &options(), true, false).unwrap();
    assert!(Arc::ptr_eq(&database, &same));
    let known = |path: &Path| with(path.as_os_str().as_bytes(), ".pool", |_| ()).is_some();
    assert!(!known(&one));
    let journal = directory.path().join("b.pool-journal");
    assert!(with(journal.as_os_str().as_bytes(), "-journal", |_| ()).is_some());
    close(same);
    close(database);
    assert!(with(journal.as_os_str().as_bytes(), "-journal", |_| ()).is_none());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// A transaction over several databases that has spilled waits for its super-journal like any other; one that has not
/// come so far is freed at the next opening.
#[test]
fn spilled_changes_wait_for_a_super_journal_too() {
    const LEN: usize = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let (path, super_journal) = (directory.path().join("a.pool"), directory.path().join("mj"));
    let options = DatabaseOptions { spill_bytes: 100_000, ..options() };
    for (is_prepared, is_there) in [(true, true), (true, false), (false, false)] {
        let (database, _) = open(&path, &options, true, true).unwrap();
        let mut state = database.state();
        database.write(&mut state, 0, &[1; 70_000]).unwrap();
        database.commit(&mut state).unwrap();
        for at in (0..LEN).step_by(4096) {
            database.write(&mut state, at as u64, &[2; 4096]).unwrap();
        }
        assert!(database.has_spilled() && state.changes.bytes() < 100_000);
        if is_prepared {
            database.prepare(&mut state, super_journal.as_os_str().as_bytes()).unwrap();
        }
        drop(state);
        assert_eq!((begin(&database), database.stored_len()), ([1; 4], 70_000));
        // Closed in the middle, as a crash leaves it.
        close(database);
        if is_there {
            std::fs::write(&super_journal, "names").unwrap();
        }
        let (database, _) = open(&path, &options, true, false).unwrap();
        let is_committed = is_prepared && !is_there;
        let (byte, len) = if is_committed { (2, LEN) } else { (1, 70_000) };
        let mut bytes = vec![0; len];
        assert_eq!(database.read_stored(0, &mut bytes), len as u64);
        assert!(bytes.iter().all(|found| *found == byte));
        assert!(!database.has_spilled());
        close(database);
        let _ = std::fs::remove_file(&super_journal);
        std::fs::remove_file(&path).unwrap();
    }
}
