//! Values that go to a redis-server and come from one: payloads, and whole files.

use std::path::Path;
use std::time::Duration;

use outlast::medium::OpenOptions;
use outlast::{Runner, Transact};
use outlast_redis::{Engine, import};

use crate::client::{Answer, Client, Served, folder, ok, open_pool};
use crate::peer::Peer;
use crate::streams::without_times;

/// Values of every type, small and large ones, so that every encoding is met.
fn fill(client: &mut Client) {
    let many = |from: usize, end: usize, item: &dyn Fn(usize) -> String| -> String {
        (from..end).map(item).collect()
    };
    let long = "l".repeat(5000);
    let random = many(0, 100, &|n| format!("{:x}", n * 7_919_993 % 100_003));
    for line in [
        "SET number 12345".to_owned(),
        "SET negative -3".to_owned(),
        "SET text hello".to_owned(),
        format!("SET long {long}"),
        format!("SET random {random}"),
        "SET empty ".to_owned(),
        "SET expires v PX 10000000".to_owned(),
        "RPUSH list a b 1 -5 70000 99999999999".to_owned(),
        format!("RPUSH list:large{}", many(0, 2000, &|n| format!(" item{n}"))),
        format!("RPUSH list:long a {long}{long} b"),
        "SADD ints 1 2 3 -4".to_owned(),
        "SADD ints:wide 1 70000 99999999999".to_owned(),
        "SADD set a b c".to_owned(),
        format!("SADD set:large{}", many(0, 2000, &|n| format!(" member{n}"))),
        "HSET hash a 1 b 2 c text".to_owned(),
        format!("HSET hash:large{}", many(0, 2000, &|n| format!(" field{n} {n}"))),
        format!("HSET hash:long field {long}"),
        "ZADD zset 1 a 2.5 b -inf c inf d".to_owned(),
        format!("ZADD zset:large{}", many(0, 2000, &|n| format!(" {}.5 member{n}", n * 37 % 1000))),
        "PEXPIRE hash 20000000".to_owned(),
        "XADD stream 1-1 a 1 b 2".to_owned(),
        "XADD stream 1-2 a 3 b 4".to_owned(),
        "XADD stream 7-0 other fields".to_owned(),
        "XADD stream 8-0 a -5 b 6".to_owned(),
        "XDEL stream 1-2".to_owned(),
        "XGROUP CREATE stream g 0".to_owned(),
        "XGROUP CREATE stream h $".to_owned(),
        "XREADGROUP GROUP g one COUNT 1 STREAMS stream >".to_owned(),
        "XREADGROUP GROUP g two STREAMS stream >".to_owned(),
        "XACK stream g 7-0".to_owned(),
        "XGROUP CREATECONSUMER stream g idle".to_owned(),
        "XGROUP CREATE stream:empty g $ MKSTREAM".to_owned(),
    ] {
        if let Answer::Error(text) = client.ask(&line) {
            panic!("{line}: {text}");
        }
    }
    for n in 0..500 {
        client.ask(&format!("XADD stream:large {n}-1 n {n} text t{n}"));
    }
    client.ask("XGROUP CREATE stream:large g 0");
    client.ask("XREADGROUP GROUP g c COUNT 300 STREAMS stream:large >");
    client.gets("SELECT 3", ok());
    client.gets("SET elsewhere x", ok());
    client.gets("SELECT 0", ok());
}

fn names(client: &mut Client) -> Vec<String> {
    let Answer::List(keys) = client.ask("KEYS *") else { panic!("a list") };
    let names = keys.into_iter().map(|key| match key {
        Answer::Bulk(name) => name,
        other => panic!("{other:?}"),
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn sorted(answer: Answer, step: usize) -> Answer {
    let Answer::List(items) = answer else { return answer };
    let mut groups: Vec<String> = items.chunks(step).map(|group| format!("{group:?}")).collect();
    groups.sort_unstable();
    Answer::List(groups.into_iter().map(Answer::Bulk).collect())
}

/// A client's view of a key.
fn seen(client: &mut Client, key: &str) -> (Answer, Answer) {
    let Answer::Text(kind) = client.ask(&format!("TYPE {key}")) else { panic!("a type") };
    let value = match kind.as_str() {
        "string" => client.ask(&format!("GET {key}")),
        "list" => client.ask(&format!("LRANGE {key} 0 -1")),
        "set" => sorted(client.ask(&format!("SMEMBERS {key}")), 1),
        "hash" => sorted(client.ask(&format!("HGETALL {key}")), 2),
        "zset" => client.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
        "stream" => without_times(client.ask(&format!("XINFO STREAM {key} FULL COUNT 0"))),
        other => panic!("{key}: {other}"),
    };
    (value, client.ask(&format!("PEXPIRETIME {key}")))
}

/// Each value of one server goes to the other.
fn hand_over(from: &mut Client, to: &mut Client) {
    to.gets("FLUSHALL", ok());
    for key in names(from) {
        let payload = from.ask_bytes(&[b"DUMP", key.as_bytes()]);
        let (value, deadline) = seen(from, &key);
        let ttl = match deadline {
            Answer::Int(deadline @ 1..) => deadline.to_string(),
            _ => "0".to_owned(),
        };
        let name = key.as_bytes();
        let words = [b"RESTORE", name, ttl.as_bytes(), &payload, b"ABSTTL"];
        assert_eq!(to.ask_words(&words), ok(), "{key}");
        assert_eq!(seen(to, &key), (value, deadline), "{key}");
    }
}

#[test]
fn payloads_go_to_redis_and_come_back() {
    let Some(peer) = Peer::start() else { return };
    let server = Served::new();
    let (mut ours, mut theirs) = (server.client(), peer.client());
    theirs.gets("CONFIG SET sanitize-dump-payload yes", ok());
    fill(&mut theirs);
    hand_over(&mut theirs, &mut ours);
    hand_over(&mut ours, &mut theirs);
    assert_eq!(names(&mut ours), names(&mut theirs));
    // And what was restored works there.
    for client in [&mut ours, &mut theirs] {
        client.gets("XADD stream 9-0 a 1", "9-0");
        client.gets("XADD stream:large 999-1 n 1", "999-1");
        client.gets("XTRIM stream:large MAXLEN 10", 491);
        client.gets("LPUSH list:large x", 2001);
    }
}

#[test]
fn restore_refuses_what_it_must() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("SET k v", ok());
    let payload = client.ask_bytes(&[b"DUMP", b"k"]);
    let mut restore = |words: &[&[u8]]| {
        let mut all: Vec<&[u8]> = vec![b"RESTORE"];
        all.extend_from_slice(words);
        client.ask_words(&all)
    };
    let error = |text: &str| Answer::Error(text.to_owned());
    assert_eq!(restore(&[b"k", b"0", &payload]), error("BUSYKEY Target key name already exists."));
    assert_eq!(restore(&[b"k", b"0", &payload, b"REPLACE", b"IDLETIME", b"5"]), ok());
    assert_eq!(restore(&[b"k2", b"0", &payload, b"FREQ", b"5"]), ok());
    assert_eq!(restore(&[b"k3", b"-1", &payload]), error("ERR Invalid TTL value, must be >= 0"));
    assert_eq!(
        restore(&[b"k3", b"0", &payload, b"FREQ", b"500"]),
        error("ERR Invalid FREQ value, must be >= 0 and <= 255")
    );
    let wrong = error("ERR DUMP payload version or checksum are wrong");
    assert_eq!(restore(&[b"k3", b"0", b"nonsense"]), wrong);
    for at in 0..payload.len() {
        let mut damaged = payload.clone();
        damaged[at] ^= 1;
        assert_eq!(restore(&[b"k3", b"0", &damaged]), wrong, "byte {at}");
    }
    client.gets("DUMP none", Answer::Null);
    client.gets("EXISTS k k2 k3", 2);
}

/// A pool of what a redis-server has saved.
fn imported(file: &Path, pool: &Path) -> Result<outlast_redis::Imported, String> {
    let pool = open_pool(pool, 32 << 20, &OpenOptions::default());
    import(&pool, file).map_err(|error| error.to_string())
}

#[test]
fn a_file_of_redis_is_taken_over() {
    let Some(peer) = Peer::start() else { return };
    let mut theirs = peer.client();
    fill(&mut theirs);
    theirs.gets("DEBUG SET-ACTIVE-EXPIRE 0", ok());
    theirs.gets("SET gone v PX 1", ok());
    std::thread::sleep(Duration::from_millis(10));
    theirs.gets("SAVE", ok());
    let file = peer.folder.path().join("dump.rdb");
    let folder = folder();
    let count = names(&mut theirs).len() as u64;
    let done = imported(&file, &folder.path().join("pool")).unwrap();
    assert_eq!((done.keys, done.expired), (count + 1, 1), "one key is in another database");
    let again = imported(&file, &folder.path().join("pool")).unwrap_err();
    assert!(again.contains("the pool has keys"), "{again}");
    let path = folder.path().join("pool");
    let server = Served::on(folder, &path, 32 << 20);
    let mut ours = server.client();
    assert_eq!(names(&mut ours), names(&mut theirs));
    for key in names(&mut theirs) {
        assert_eq!(seen(&mut ours, &key), seen(&mut theirs, &key), "{key}");
    }
    ours.gets("SELECT 3", ok());
    ours.gets("GET elsewhere", "x");
}

/// A damaged file changes nothing; a pool too small for it is not served.
#[test]
fn a_file_is_taken_over_whole_or_not_at_all() {
    let mut bytes = b"REDIS0009\xfe\x00".to_vec();
    for index in 0..200 {
        bytes.push(0);
        bytes.extend_from_slice(&[4]);
        bytes.extend_from_slice(format!("k{index:03}").as_bytes());
        bytes.extend_from_slice(&[0x80, 0, 1, 0, 0]);
        bytes.extend_from_slice(&[b'x'; 65_536]);
    }
    bytes.extend_from_slice(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
    let folder = folder();
    let (file, pool) = (folder.path().join("dump.rdb"), folder.path().join("pool"));
    std::fs::write(&file, &bytes[..bytes.len() - 70_000]).unwrap();
    let error = imported(&file, &pool).unwrap_err();
    assert!(error.contains("at byte") && error.contains("nothing was changed"), "{error}");
    std::fs::write(&file, [&bytes[..11], b"\x06\x01k"].concat()).unwrap();
    let error = imported(&file, &pool).unwrap_err();
    assert!(error.contains("the key 'k': a value of a module"), "{error}");
    std::fs::write(&file, &bytes).unwrap();
    let small = folder.path().join("small");
    let is_small = open_pool(&small, 4 << 20, &OpenOptions::default());
    let error = import(&is_small, &file).unwrap_err().to_string();
    assert!(error.contains("is not served until"), "{error}");
    let refused = outlast_redis::Server::bind(
        std::sync::Arc::new(is_small),
        outlast_redis::Options { unix: Some(folder.path().join("s")), ..Default::default() },
    );
    let error = refused.err().expect("a part of a file is not served").to_string();
    assert!(error.contains("an import into this pool has not ended"), "{error}");
    assert_eq!(imported(&file, &pool).unwrap().keys, 200);
    let pool = open_pool(&pool, 0, &OpenOptions::default());
    let mut lane = pool.lane().unwrap();
    let size = lane.run(|tx| Engine::open(tx)?.run(tx, &[b"DBSIZE"])).unwrap();
    assert_eq!(size, b":200\r\n");
}

/// A pool with content that this version does not know is refused as a whole, with the reason.
#[test]
fn a_pool_of_a_newer_version_is_refused() {
    let folder = folder();
    let pool = open_pool(&folder.path().join("pool"), 16 << 20, &OpenOptions::default());
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| Engine::open(tx)).unwrap();
    // The word of features in the root.
    let features = lane.run(|tx| {
        let (root, _) = tx.root()?.expect("a root");
        let before = tx.load_u64(root.plus(48))?;
        tx.store_u64(root.plus(48), before | 1 << 40)?;
        Ok(before)
    });
    assert_eq!(features.unwrap(), 0, "as in pools of older versions");
    let error = lane.run(|tx| Engine::open(tx).map(drop)).unwrap_err().to_string();
    assert!(error.contains("a newer version of outlast"), "{error}");
}
