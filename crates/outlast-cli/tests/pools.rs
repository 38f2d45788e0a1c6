//! `outlast pool` as a user meets it: statuses, pools in use, and checks in little memory.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output};

use outlast::collections::{ByteMap, Dictionary};
use outlast::medium::{CreateOptions, MapOptions, Mapped, OpenOptions};
use outlast::{Abort, BlockKind, Domain, Pool, RootKind, Runner, Scheme, Transact, Tx};

const OUTLAST: &str = env!("CARGO_BIN_EXE_outlast");

fn map() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), ..MapOptions::default() }
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        command.stdin(std::process::Stdio::null()).output().expect("the program was built");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn pool(command: &str, path: &Path) -> (Option<i32>, String, String) {
    run(Command::new(OUTLAST).args(["pool", command]).arg(path))
}

/// The record of a command that ends in this status.
fn record(command: &str, path: &Path, status: i32) -> serde_json::Value {
    let (code, stdout, stderr) =
        run(Command::new(OUTLAST).args(["pool", command, "--json"]).arg(path));
    assert_eq!(code, Some(status), "{command} {}: {stderr}", path.display());
    let document: serde_json::Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    document["records"][0].clone()
}

/// A pool with a map of some keys, and this many bytes.
fn filled(path: &Path, len: u64, scheme: Scheme) -> Pool {
    let open = OpenOptions::with_scheme(scheme);
    let pool = Pool::create_with(path, len, &CreateOptions::default(), &open, &map()).unwrap();
    let mut lane = pool.lane().unwrap();
    let made = lane.run(|tx| {
        let made = ByteMap::create(tx, &Default::default())?;
        tx.set_root(made.root(), RootKind::HashMap)?;
        Ok(made)
    });
    let made = made.unwrap();
    for n in 0..1000u32 {
        lane.run(|tx| made.insert(tx, &n.to_le_bytes(), &[7; 100])).unwrap();
    }
    drop(lane);
    pool
}

/// Power failed on a disk: the log of fences has a line that is older in place, and no lane has a record.
#[test]
fn a_check_sees_what_the_log_of_fences_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pool");
    let map = MapOptions { domain: Some(Domain::Page), ..map() };
    let open = OpenOptions::with_scheme(Scheme::Swift);
    let create = CreateOptions { fence_log_bytes: Some(64 << 10), ..CreateOptions::default() };
    drop(Pool::create_with(&path, 8 << 20, &create, &open, &map).unwrap());
    assert_eq!(record("check", &path, 0)["live_records"], 0);
    let mut bytes = std::fs::read(&path).unwrap();
    // The line of the floor.
    bytes[128..192].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(record("check", &path, 0)["live_records"], 1);
    let info = record("info", &path, 0);
    assert!(info["fence_log_bytes"].as_u64().unwrap() >= 64 << 10);
    assert_eq!(info["live_records"], 1);
}

#[test]
fn a_check_ends_in_0_for_a_sound_pool_1_for_damage_and_2_for_wrong_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sound.pool");
    drop(filled(&path, 8 << 20, Scheme::Redo).close());
    let sound = record("check", &path, 0);
    assert_eq!(sound["findings"], serde_json::json!([]));
    assert_eq!((&sound["opened"], &sound["live_records"]), (&true.into(), &0.into()));
    let image = std::fs::read(&path).unwrap();

    let findings = |path: &Path| {
        let record = record("check", path, 1);
        let (code, stdout, _) = pool("check", path);
        assert_eq!(code, Some(1));
        let findings = record["findings"].as_array().unwrap();
        assert!(!findings.is_empty());
        for finding in findings {
            assert!(stdout.contains(finding.as_str().unwrap()), "{stdout}");
        }
        assert!(stdout.contains(&format!("; {} findings", findings.len())), "{stdout}");
        record
    };
    let damaged = directory.path().join("damaged.pool");
    let write = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = image.clone();
        change(&mut bytes);
        std::fs::write(&damaged, bytes).unwrap();
    };
    // What keeps a pool from being opened: magic, header, floor, root, size, length.
    for at in [1, 20, 128, 192, 256] {
        write(&|bytes| bytes[at] ^= 4);
        assert_eq!(findings(&damaged)["opened"], false, "byte {at}");
    }
    write(&|bytes| bytes.truncate(6 << 20));
    assert_eq!(findings(&damaged)["opened"], false);
    write(&|bytes| bytes.truncate((6 << 20) + 7));
    assert_eq!(findings(&damaged)["opened"], false);
    write(&|bytes| bytes.push(0));
    assert_eq!(findings(&damaged)["opened"], false);
    // What does not: a lane's header in a pool that was closed, and a word of the directory.
    write(&|bytes| bytes[4096] ^= 4);
    assert_eq!(findings(&damaged)["opened"], true);
    let heap_at = record("info", &path, 0)["heap_at"].as_u64().unwrap() as usize;
    write(&|bytes| bytes[heap_at + 9] ^= 4);
    assert_eq!(findings(&damaged)["opened"], true);
    // Other commands say in one line that the pool is damaged.
    write(&|bytes| bytes[128] ^= 4);
    for command in ["info", "dump", "repair", "checkpoint"] {
        let (code, stdout, stderr) = pool(command, &damaged);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{command}: {stderr}");
        assert!(stderr.starts_with("outlast: ") && stderr.contains("damaged at"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{command}: {stderr}");
    }

    let text = directory.path().join("text");
    std::fs::write(&text, "root:x:0:0:root:/root:/bin/bash\n").unwrap();
    let noise = directory.path().join("noise");
    std::fs::write(&noise, [b'x'; 8192]).unwrap();
    let missing = directory.path().join("missing");
    for path in [&text, &noise, &missing, &directory.path().to_owned()] {
        let (code, stdout, stderr) = pool("check", path);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{}: {stderr}", path.display());
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn findings_are_shown_up_to_a_limit_and_counted_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leaking.pool");
    let pool_file = filled(&path, 8 << 20, Scheme::Redo);
    let mut lane = pool_file.lane().unwrap();
    for _ in 0..12 {
        let leak = |tx: &mut Tx<'_, _>| {
            (0..100).try_for_each(|_| tx.alloc(16, BlockKind::General).map(drop))
        };
        lane.run(leak).unwrap();
    }
    drop(lane);
    drop(pool_file.close());
    let (code, stdout, _) = pool("check", &path);
    assert_eq!(code, Some(1));
    assert!(stdout.contains(": 200 more findings, counted and not kept\n"), "{stdout}");
    assert!(stdout.contains("; 1200 findings") && stdout.lines().count() == 1002, "{stdout}");
    let record = record("check", &path, 1);
    assert_eq!(record["findings"].as_array().unwrap().len(), 1000);
    assert_eq!(record["findings_more"], 200);
}

#[test]
fn the_help_of_each_command_has_its_statuses() {
    for command in
        ["create", "info", "stats", "check", "repair", "dump", "grow", "checkpoint", "restore"]
    {
        let (code, help, _) = run(Command::new(OUTLAST).args(["pool", command, "--help"]));
        assert_eq!(code, Some(0));
        let (_, statuses) = help.split_once("Exit status:").expect(command);
        for status in 0..=2 {
            let stands = statuses.lines().any(|line| line.trim().starts_with(&status.to_string()));
            assert!(stands, "{command}: {status}");
        }
    }
}

#[test]
fn a_pool_in_use_is_looked_at_on_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("busy.pool");
    let busy = filled(&path, 8 << 20, Scheme::Swift);
    let info = record("info", &path, 0);
    assert_eq!((&info["in_use"], &info["bytes"]), (&true.into(), &(8 << 20).into()));
    assert_eq!(info["live_records"], serde_json::Value::Null);
    assert_eq!(info["uuid"], busy.header().uuid.to_string());
    assert!(pool("info", &path).1.contains("the pool is in use"));
    let (code, stdout, stderr) = pool("check", &path);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("a snapshot beside the process that has the pool open"), "{stdout}");
    let (code, blocks, stderr) = pool("dump", &path);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!blocks.is_empty());
    let in_place = directory.path().join("in-place.pool");
    let _alone = filled(&in_place, 8 << 20, Scheme::Undo);
    let (code, _, stderr) = pool("check", &in_place);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no snapshot of the pool"), "{stderr}");
    // Its user has not been disturbed.
    busy.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    drop(busy);
    let info = record("info", &path, 0);
    assert_eq!(info["in_use"], false);
    assert!(info["live_records"].as_u64() > Some(0), "it was not closed: {info}");
    let blocks = pool("dump", &path);
    assert_eq!(blocks.0, Some(0), "{}", blocks.2);
    assert!(blocks.1.lines().count() > 1000, "the blocks of a recovered copy");
}

#[test]
fn chunks_are_chosen_by_size_or_by_the_user() {
    let directory = tempfile::tempdir().unwrap();
    let create = |name: &str, rest: &[&str]| {
        let path = directory.path().join(name);
        let made = run(Command::new(OUTLAST).args(["pool", "create"]).arg(&path).args(rest));
        (path, made)
    };
    for (size, rest, chunk_bytes) in
        [("12M", &[][..], 16 << 10), ("20M", &[], 64 << 10), ("8M", &["--chunk", "1M"], 1 << 20)]
    {
        let (path, (code, _, stderr)) = create(size, &[&["--size", size], rest].concat());
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(record("info", &path, 0)["chunk_bytes"], chunk_bytes);
    }
    let (path, (code, _, stderr)) = create("odd", &["--chunk", "5K"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a power of two from 4 KiB to 1 MiB"), "{stderr}");
    assert!(!path.exists(), "what failed leaves no file");
}

/// The address space has room for the pool, and not for a copy.
#[test]
#[cfg(target_os = "linux")]
fn a_pool_with_a_live_log_is_checked_in_little_memory() {
    const POOL_BYTES: u64 = 320 << 20;
    const REST_BYTES: u64 = 160 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.pool");
    let large = filled(&path, POOL_BYTES, Scheme::Swift);
    large
        .lane()
        .unwrap()
        .run(|tx| {
            let (root, _) = tx.root()?.ok_or_else(|| Abort::cancelled("no root"))?;
            ByteMap::open(tx, root)?.insert(tx, b"long", &vec![1; 200 << 10])
        })
        .unwrap();
    drop(large);
    let before = std::fs::read(&path).unwrap();
    let (code, stdout, stderr) = run(Command::new("sh")
        .args(["-c", r#"ulimit -v "$0" && exec "$1" pool check "$2""#])
        .arg(((POOL_BYTES + REST_BYTES) >> 10).to_string())
        .arg(OUTLAST)
        .arg(&path));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("a recovered copy was checked"), "{stdout}");
    assert!(stdout.contains("; 0 findings"), "{stdout}");
    // Without a terminal, the stages of the check are lines.
    assert!(stderr.contains("chunks of the allocator: 0 of "), "{stderr}");
    assert!(stderr.contains("blocks reached: "), "{stderr}");
    assert!(std::fs::read(&path).unwrap() == before, "a check changes nothing");
}

#[test]
fn a_database_is_imported_and_exported_or_refused_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let sqlite = |arguments: &[&str], from: &Path, to: &Path| {
        run(Command::new(OUTLAST).arg("sqlite").args(arguments).arg(from).arg(to))
    };
    std::fs::write(file("text"), "no database").unwrap();
    let (code, stdout, stderr) = sqlite(&["import"], &file("text"), &file("a.pool"));
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1));
    assert!(stderr.contains("no SQLite database"), "{stderr}");
    assert!(!file("a.pool").exists());
    // An empty file is an empty database.
    std::fs::write(file("empty.db"), "").unwrap();
    let (code, stdout, stderr) = sqlite(&["import"], &file("empty.db"), &file("a.pool"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.ends_with("empty.db (0 bytes)\n"), "{stdout}");
    let (code, _, stderr) = sqlite(&["import"], &file("empty.db"), &file("a.pool"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("exists already"), "{stderr}");
    assert_eq!(pool("check", &file("a.pool")).0, Some(0));
    let (code, stdout, _) = sqlite(&["export", "--json"], &file("a.pool"), &file("b.db"));
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &document["records"][0]["bytes"]), (Some(0), &serde_json::json!(0)));
    assert_eq!(std::fs::read(file("b.db")).unwrap(), b"");
}

/// A command that is refused leaves every file as it was, and no new one.
#[test]
fn what_is_refused_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let live = filled(&at("live.pool"), 8 << 20, Scheme::Swift);
    drop(live);
    drop(filled(&at("other.pool"), 8 << 20, Scheme::Redo).close());
    assert_eq!(pool("checkpoint", &at("other.pool")).0, Some(0));
    std::fs::write(at("text"), "not a pool\n").unwrap();
    let mut damaged = std::fs::read(at("live.pool")).unwrap();
    damaged[128] ^= 4;
    std::fs::write(at("damaged.pool"), &damaged).unwrap();
    // Its log of fences has work for recovery, and a lane refuses it.
    let create = CreateOptions { fence_log_bytes: Some(64 << 10), ..CreateOptions::default() };
    let page = MapOptions { domain: Some(Domain::Page), ..map() };
    let open = OpenOptions::with_scheme(Scheme::Swift);
    let refused = Pool::create_with(at("log.pool"), 8 << 20, &create, &open, &page).unwrap();
    refused.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    let tail = refused.header().geometry.lane_at(0).0 as usize;
    drop(refused);
    let mut damaged = std::fs::read(at("log.pool")).unwrap();
    damaged[256..320].fill(0);
    damaged[tail + 8] ^= 1;
    std::fs::write(at("log.pool"), &damaged).unwrap();

    let cases: &[(&[&str], i32)] = &[
        (&["grow", "live.pool", "--size", "1M"], 2),
        (&["grow", "live.pool", "--size", "9000G"], 2),
        (&["grow", "live.pool", "--size", "much"], 2),
        (&["grow", "text", "--size", "16M"], 2),
        (&["grow", "missing", "--size", "16M"], 2),
        (&["grow", "damaged.pool", "--size", "16M"], 1),
        (&["grow", "log.pool", "--size", "16M"], 1),
        (&["checkpoint", "live.pool", "--to", "text"], 2),
        (&["checkpoint", "live.pool", "--to", "live.pool"], 2),
        (&["checkpoint", "live.pool", "--to", "other.pool.checkpoint"], 2),
        (&["checkpoint", "live.pool", "--to", "."], 2),
        (&["checkpoint", "live.pool", "--to", "no/such/directory"], 2),
        (&["checkpoint", "text"], 2),
        (&["checkpoint", "damaged.pool"], 1),
        (&["checkpoint", "log.pool"], 1),
        (&["create", "live.pool"], 2),
        (&["create", "new.pool", "--size", "1K"], 2),
        (&["create", "new.pool", "--size", "9000G"], 2),
        (&["create", "new.pool", "--lanes", "0"], 2),
        (&["create", "new.pool", "--lanes", "5000"], 2),
        (&["create", "new.pool", "--log", "1"], 2),
        (&["create", "new.pool", "--chunk", "5K"], 2),
        (&["create", "new.pool", "--fence-log", "4K"], 2),
        (&["create", "new.pool", "--domain", "other"], 2),
        (&["create", "no/such/directory", "--size", "8M"], 2),
        (&["restore", "live.pool"], 2),
        (&["restore", "live.pool", "--from", "text"], 2),
        (&["restore", "live.pool", "--from", "missing"], 2),
        (&["restore", "live.pool", "--from", "other.pool.checkpoint"], 2),
        (&["restore", "live.pool", "--aside"], 2),
        (&["restore", "live.pool", "--from", "text", "--aside"], 2),
        (&["restore", "text", "--from", "other.pool.checkpoint"], 2),
        (&["restore", "missing"], 2),
        (&["repair", "live.pool"], 2),
        (&["repair", "text"], 2),
        (&["repair", "damaged.pool"], 1),
        (&["repair", "log.pool"], 1),
        (&["check", "damaged.pool"], 1),
        (&["info", "damaged.pool"], 1),
        (&["dump", "log.pool"], 1),
    ];
    let files = || {
        let entries =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = files();
    for (arguments, status) in cases {
        let command = &mut Command::new(OUTLAST);
        let (code, stdout, stderr) =
            run(command.current_dir(directory.path()).arg("pool").args(*arguments));
        assert_eq!(code, Some(*status), "{arguments:?}: {stdout}{stderr}");
        let after = files();
        assert!(after.keys().eq(before.keys()), "{arguments:?} left a file");
        for (path, bytes) in &after {
            assert!(before[path] == *bytes, "{arguments:?} changed {}", path.display());
        }
    }
}

/// `check` of a pool without its header names a command; that command, word for word, puts the pool back.
#[test]
fn the_advice_for_a_lost_header_can_be_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it's lost.pool");
    drop(filled(&path, 8 << 20, Scheme::Redo).close());
    let sound = std::fs::read(&path).unwrap();
    assert_eq!(pool("checkpoint", &path).0, Some(0));
    for (turn, noise) in [0u8, 0xa5, b'x'].into_iter().enumerate() {
        let mut lost = sound.clone();
        lost[..4096].fill(noise);
        std::fs::write(&path, &lost).unwrap();
        let (code, stdout, stderr) = pool("check", &path);
        if noise != 0 {
            // Nothing says that it ever was a pool.
            assert_eq!(code, Some(2), "{stdout}{stderr}");
        }
        let advice = stdout.lines().find_map(|line| line.split_once(": outlast pool restore "));
        let command = match advice {
            Some((_, arguments)) => format!("\"$0\" pool restore {arguments}"),
            None => "\"$0\" pool restore \"$1\" --from \"$1.checkpoint\" --aside".to_owned(),
        };
        assert_eq!(advice.is_some(), noise == 0, "{stdout}{stderr}");
        let (code, _, stderr) = run(Command::new("sh").args(["-c", &command, OUTLAST]).arg(&path));
        assert_eq!(code, Some(0), "{command}: {stderr}");
        assert_eq!(record("check", &path, 0)["findings"], serde_json::json!([]));
        let kept = match turn {
            0 => "it's lost.pool.damaged".to_owned(),
            turn => format!("it's lost.pool.damaged.{}", turn + 1),
        };
        assert!(std::fs::read(directory.path().join(kept)).unwrap() == lost, "{stderr}");
    }
}

/// One flipped bit in the log of fences of a pool that was closed: it opens and holds what it held, `check` says which
/// bytes and that nothing is lost, `repair` mends, and a later use does, too.
#[test]
fn a_closed_pool_needs_nothing_of_its_log_of_fences() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("closed.pool");
    let page = MapOptions { domain: Some(Domain::Page), ..map() };
    for checksums in [false, true] {
        let create = CreateOptions {
            fence_log_bytes: Some(64 << 10),
            checksums,
            ..CreateOptions::default()
        };
        let open = OpenOptions::default();
        let made = Pool::create_with(&path, 8 << 20, &create, &open, &page).unwrap();
        let words =
            made.lane().unwrap().run(|tx| outlast::collections::Words::create(tx, 9, |n| n));
        let words = words.unwrap();
        made.lane().unwrap().run(|tx| tx.set_root(words.root(), RootKind::Words)).unwrap();
        let heap_at = made.header().geometry.heap_at as usize;
        let log = heap_at - made.header().geometry.fence_log_bytes() as usize..heap_at;
        drop(made.close());
        let sound = std::fs::read(&path).unwrap();
        assert_eq!(record("check", &path, 0)["findings"], serde_json::json!([]));
        let places = [0, 8, 63, 64, 70, 128, 200, 4096, 4100, 4096 + 64, 9000, log.len() - 1];
        for (bit, at) in places.into_iter().enumerate() {
            let mut flipped = sound.clone();
            flipped[log.start + at] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            let finding = record("check", &path, 1)["findings"][0].as_str().unwrap().to_owned();
            let place = format!("{:#x}", (log.start + at) & !7);
            assert!(finding.contains(&place) && finding.contains("nothing is lost"), "{finding}");
            let (code, stdout, stderr) = pool("repair", &path);
            assert_eq!(code, Some(0), "{stdout}{stderr}");
            assert_eq!(record("check", &path, 0)["findings"], serde_json::json!([]), "{at}");
            std::fs::write(&path, &flipped).unwrap();
            let used = Pool::open_with(&path, &open, &page).unwrap();
            assert_eq!(used.lane().unwrap().run(|tx| words.get(tx, 7)).unwrap(), 7);
            drop(used.close());
            assert_eq!(record("check", &path, 0)["findings"], serde_json::json!([]), "{at}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

/// `pool info` says how full a pool is, of a closed one and of one that a crash has left, and changes neither.
#[test]
fn info_tells_how_full_a_pool_is_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let running = filled(&path, 16 << 20, Scheme::Swift);
    let space = running.space();
    let beside = record("info", &path, 0);
    assert_eq!(beside["space"]["used_bytes"], space.used_bytes);
    assert_eq!(beside["space"]["free_bytes"], space.free_bytes);
    assert!(pool("info", &path).1.contains("live records    not known: the pool is in use"));
    // As a crash would leave it.
    let crashed = directory.path().join("crashed");
    std::fs::copy(&path, &crashed).unwrap();
    running.checkpoint(outlast::checkpoint::checkpoint_path(&path)).unwrap();
    running.close();
    for (path, is_closed) in [(&path, true), (&crashed, false)] {
        let before = std::fs::read(path).unwrap();
        let told = record("info", path, 0)["space"].clone();
        let of = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told}"));
        assert_eq!(of("used_bytes"), space.used_bytes);
        assert_eq!(of("free_bytes"), space.heap_bytes - space.used_bytes);
        assert_eq!(of("largest_free_bytes"), space.largest_free_bytes);
        assert_eq!(of("log_bytes"), space.log_bytes);
        // Its records wait for recovery, or nothing does.
        let used = of("log_used_bytes");
        assert_eq!(used == 0, is_closed, "{used}");
        assert!(used <= space.log_used_bytes && space.log_used_bytes < space.log_bytes);
        let (status, text, _) = pool("info", path);
        assert_eq!(status, Some(0));
        for line in [
            format!("used            {} of {} bytes (", space.used_bytes, space.heap_bytes),
            format!("largest free    {} bytes\n", space.largest_free_bytes),
            format!("log in use      {used} of {} bytes\n", space.log_bytes),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(std::fs::read(path).unwrap() == before, "a byte has changed");
    }
    assert!(record("info", &path, 0)["checkpoint"]["age_seconds"].as_u64().is_some());
    assert!(pool("info", &path).1.contains("checkpoint age  "));
    assert!(!pool("info", &crashed).1.contains("checkpoint age  "));
}

/// What the command line tells of a pool and its root, as a document and in lines: the root of each front end by its
/// name, planted leaks by their places.
#[test]
fn roots_of_every_kind_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let create = |name: &str, make: &dyn Fn(&mut Tx<'_, Mapped>) -> Result<(), Abort>| {
        let path = directory.path().join(name);
        let options = CreateOptions { chunk_bytes: Some(64 << 10), ..CreateOptions::default() };
        let pool = Pool::create_with(&path, 8 << 20, &options, &OpenOptions::default(), &map());
        let pool = pool.unwrap();
        pool.lane().unwrap().run(|tx| make(tx)).unwrap();
        drop(pool.close());
        path
    };
    let leak = |path: &Path| {
        let pool = Pool::open_with(path, &OpenOptions::default(), &map()).unwrap();
        pool.lane().unwrap().run(|tx| tx.alloc(100, BlockKind::General)).unwrap();
        drop(pool.close());
    };
    let redis = create("redis.pool", &|tx| {
        let mut engine = outlast_redis::Engine::open(tx)?;
        engine.run(tx, &[b"RPUSH", b"list", b"one"]).map(drop)
    });
    let sqlite = create("sqlite.pool", &|tx| outlast_sqlite::store::Store::create(tx).map(drop));
    let typed = create("typed.pool", &|tx| {
        let root = outlast::typed::set_described_root(tx, "[optional box of u64; 2]", 16)?;
        let number = tx.alloc(8, BlockKind::General)?;
        tx.store_u64(root, number.0)?;
        tx.store_u64(root.plus(8), 0)
    });
    let own = create("own.pool", &|tx| {
        let (root, below) = (tx.alloc(64, BlockKind::General)?, tx.alloc(64, BlockKind::General)?);
        tx.store(root, &[0; 64])?;
        tx.store(below, &[0; 64])?;
        tx.store_u64(root.plus(24), below.0)?;
        tx.set_root(root, RootKind::Opaque)
    });
    for (path, kind, about, line) in [
        (&redis, "redis", "databases of `outlast serve`, 1 keys", "db[0][\"list\"]"),
        (&sqlite, "sqlite", "a SQLite database of 0 bytes", "directory"),
        (&typed, "typed", "[optional box of u64; 2]", "[0]"),
    ] {
        let sound = record("check", path, 0);
        assert_eq!(sound["findings"], serde_json::json!([]));
        assert_eq!(sound["reachable"], sound["blocks"]);
        assert_eq!(sound["root_is"]["kind"], kind);
        let info = record("info", path, 0);
        assert!(info["root_is"]["about"].as_str().unwrap().starts_with(about), "{info}");
        assert!(pool("info", path).1.contains(&format!("root is         {kind}: {about}")));
        let dump = pool("dump", path);
        assert_eq!(dump.0, Some(0), "{}", dump.2);
        assert!(dump.1.lines().any(|row| row.ends_with(&format!(" {line}"))), "{}", dump.1);
        assert!(!dump.1.lines().any(|row| row.ends_with(" -")), "{}", dump.1);
        leak(path);
        let leaking = record("check", path, 1);
        let findings = leaking["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].as_str().unwrap().contains("nothing leads to it"), "{findings:?}");
        assert!(pool("dump", path).1.lines().any(|row| row.ends_with(" -")));
    }
    // Of a program of its own only offsets are known, so a leak is no more than probable.
    leak(&own);
    let probable = record("check", &own, 0);
    assert_eq!(
        (&probable["findings"], &probable["reachable"]),
        (&serde_json::json!([]), &2.into())
    );
    assert_eq!(probable["suspected"].as_array().unwrap().len(), 1);
    let (_, lines, _) = pool("check", &own);
    assert!(lines.contains("no block that the root leads to holds its offset"), "{lines}");
    assert!(
        lines.contains("3 blocks, 256 bytes, 2 reached by offsets from the root, 1 not; 0"),
        "{lines}"
    );
    let strict = run(Command::new(OUTLAST).args(["pool", "check", "--strict"]).arg(&own));
    assert_eq!(strict.0, Some(1), "{}", strict.1);
}

#[test]
fn statistics_of_a_pool_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.pool");
    let busy = filled(&path, 8 << 20, Scheme::Redo);
    let told = record("stats", &path, 0);
    assert_eq!(
        (&told["space_is_known"], &told["counters_are_known"]),
        (&true.into(), &true.into())
    );
    assert_eq!(told["scheme"], "redo");
    assert!(told["pool_used_bytes"].as_u64() > Some(100_000), "{told}");
    assert_eq!((&told["pool_bytes"], &told["lanes"]), (&(8 << 20).into(), &8.into()));
    let (code, text, _) = pool("stats", &path);
    assert_eq!(code, Some(0));
    assert!(text.contains("commits"), "{text}");
    drop(busy);
    let told = record("stats", &path, 0);
    assert_eq!(told["space_is_known"], true);
    assert!(told["pool_used_bytes"].as_u64() > Some(100_000), "{told}");
    assert!(told["pool_log_used_bytes"].as_u64() > Some(0), "it was not closed: {told}");
    assert!(told["promise"].is_string() && told["detected"].is_string(), "{told}");
    let ratio = told["pool_fragmentation_ratio"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&ratio), "{told}");
    let (_, text, _) = pool("stats", &path);
    assert!(text.contains("commits         not known"), "{text}");
    let text = run(Command::new(OUTLAST).args(["pool", "stats", "--prometheus"]).arg(&path)).1;
    assert!(
        text.contains("# TYPE outlast_pool_used_bytes gauge\noutlast_pool_used_bytes "),
        "{text}"
    );
    let (code, _, stderr) =
        run(Command::new(OUTLAST).args(["pool", "stats", "--watch", "0"]).arg(&path));
    assert_eq!(code, Some(2), "{stderr}");

    // Again and again: two documents, then it is ended.
    let mut watching = Command::new(OUTLAST)
        .args(["pool", "stats", "--json", "--watch", "1"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        // A document ends with a brace at the start of a line, or is one line.
        let ends =
            |line: &String| line.starts_with('}') || line.ends_with('}') && line.starts_with('{');
        assert!(lines.by_ref().map_while(Result::ok).any(|line| ends(&line)));
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
}
