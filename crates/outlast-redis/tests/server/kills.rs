//! A server in a process of its own, killed again and again while clients write.
//!
//! The fault model: the process ends at any instruction; memory that it shares with the file stays.
//! Everything that a client was answered must be there afterwards, a transaction wholly or not at all.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use outlast::medium::OpenOptions;
use outlast_crash::front::{Process, kills};
use outlast_redis::{Options, Server};

use crate::client::{Answer, Client, folder, open_pool};

/// The variable with the folder of the server that the test's own program is to be.
const FOLDER: &str = "OUTLAST_REDIS_TEST_FOLDER";

/// The variable with the bytes that the server's pool may grow to, where it may.
const GROW_TO: &str = "OUTLAST_REDIS_TEST_GROW_TO";

/// Not a test of its own: the server process of the one below.
#[test]
fn a_server_to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let grow_limit_bytes =
        std::env::var(GROW_TO).map_or(0, |bytes| bytes.parse().expect("a number of bytes"));
    let bytes = if grow_limit_bytes > 0 { 16 << 20 } else { 64 << 20 };
    let open = OpenOptions { grow_limit_bytes, ..OpenOptions::default() };
    let pool = open_pool(&folder.join("pool"), bytes, &open);
    let options = Options { unix: Some(folder.join("socket")), ..Options::default() };
    Server::bind(Arc::new(pool), options).unwrap().run().unwrap();
}

fn start(folder: &std::path::Path) -> Process {
    start_by(Command::new(std::env::current_exe().unwrap()), folder)
}

/// The server that a command starts when the server's arguments are added to its own.
fn start_by(mut command: Command, folder: &std::path::Path) -> Process {
    command.args(["--exact", "kills::a_server_to_be_killed", "--nocapture"]);
    command.env(FOLDER, folder).stdout(Stdio::null());
    Process::start(&mut command).unwrap()
}

fn connect(folder: &std::path::Path) -> Client {
    Client::wait_for(&folder.join("socket"))
}

/// A script that stores a pair, and a hundred numbers between its halves.
const PAIR: &str = "redis.call('set',KEYS[1],ARGV[1])\
    for\ti=1,100\tdo\tredis.call('hset','numbers',i,ARGV[1])end\t\
    redis.call('set',KEYS[2],ARGV[1])";

/// Writes until the connection ends. Each step stores its number in a counter, two pairs, a list, a hash,
/// a sorted set and a stream, whose group delivers and acknowledges it; `acked` is the last step that was answered.
fn write(mut client: Client, name: &str, first: i64, acked: &AtomicI64) {
    // In later rounds it is there.
    if client.send(&format!("XGROUP CREATE {name}:stream g 0 MKSTREAM")).is_err()
        || client.answer().is_err()
    {
        return;
    }
    for step in first.. {
        let commands = [
            format!("SET {name}:n {step}"),
            format!("RPUSH {name}:list {step}"),
            "MULTI".to_owned(),
            format!("SET {name}:a {step}"),
            format!("HSET {name}:hash f{} {step}", step % 100),
            format!("ZADD {name}:zset {step} m{}", step % 300),
            format!("SET {name}:b {step}"),
            "EXEC".to_owned(),
            format!("EVAL {PAIR} 2 {name}:c {name}:d {step}"),
            format!("XADD {name}:stream {step}-0 n {step}"),
            format!("XREADGROUP GROUP g consumer COUNT 1 STREAMS {name}:stream >"),
            format!("XACK {name}:stream g {step}-0"),
        ];
        for command in &commands {
            if client.send(command).is_err() {
                return;
            }
        }
        for _ in &commands {
            match client.answer() {
                Ok(Answer::Error(text)) => panic!("{text}"),
                Ok(_) => {}
                Err(_) => return,
            }
        }
        acked.store(step, Ordering::SeqCst);
    }
}

fn number(client: &mut Client, line: &str) -> i64 {
    match client.ask(line) {
        Answer::Bulk(text) => text.parse().unwrap(),
        Answer::Int(value) => value,
        Answer::Null => 0,
        other => panic!("{line}: {other:?}"),
    }
}

/// Step `acked` was answered, and at most one more was sent.
fn judge(client: &mut Client, name: &str, acked: i64) -> i64 {
    let n = number(client, &format!("GET {name}:n"));
    assert!(n == acked || n == acked + 1, "{name}: {n} after {acked} was acknowledged");
    let len = number(client, &format!("LLEN {name}:list"));
    assert!(len == n || len + 1 == n, "{name}: a list of {len} after {n}");
    let (a, b) =
        (number(client, &format!("GET {name}:a")), number(client, &format!("GET {name}:b")));
    assert_eq!(a, b, "{name}: a transaction in part");
    assert!(a == acked || a == acked + 1 && a <= len, "{name}: {a} after {acked}");
    if a > 0 {
        let field = number(client, &format!("HGET {name}:hash f{}", a % 100));
        let score = number(client, &format!("ZSCORE {name}:zset m{}", a % 300));
        assert_eq!((field, score), (a, a), "{name}: a transaction in part");
        assert_eq!(number(client, &format!("ZCARD {name}:zset")), a.min(300));
        assert_eq!(number(client, &format!("HLEN {name}:hash")), a.min(100));
    }
    let (c, d) =
        (number(client, &format!("GET {name}:c")), number(client, &format!("GET {name}:d")));
    assert_eq!(c, d, "{name}: a script in part");
    assert!(c == acked || c == acked + 1 && c <= a, "{name}: a script of {c} after {acked}");
    let added = number(client, &format!("XLEN {name}:stream"));
    assert!(added == acked || added == acked + 1 && added <= c, "{name}: a stream of {added}");
    let pending = match client.ask(&format!("XPENDING {name}:stream g")) {
        Answer::List(parts) => parts[0] == Answer::Int(1),
        _ => false,
    };
    assert!(!pending || added > acked, "{name}: an acknowledgement of {acked} is lost");
    // The next round begins where all of them agree.
    if added < n {
        client.ask(&format!("XADD {name}:stream {n}-0 n {n}"));
    }
    client.ask(&format!("XREADGROUP GROUP g consumer COUNT 1 STREAMS {name}:stream >"));
    client.ask(&format!("XACK {name}:stream g {n}-0"));
    if len < n {
        client.ask(&format!("RPUSH {name}:list {n}"));
    }
    if a < n {
        for command in [
            format!("SET {name}:a {n}"),
            format!("HSET {name}:hash f{} {n}", n % 100),
            format!("ZADD {name}:zset {n} m{}", n % 300),
            format!("SET {name}:b {n}"),
        ] {
            client.ask(&command);
        }
    }
    if c < n {
        client.ask(&format!("EVAL {PAIR} 2 {name}:c {name}:d {n}"));
    }
    n
}

#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    let folder = folder();
    let mut firsts = [1, 1];
    for round in 0..kills(8) {
        let mut process = start(folder.path());
        let clients: Vec<Client> = (0..2).map(|_| connect(folder.path())).collect();
        let acked: [AtomicI64; 2] = firsts.map(|first| AtomicI64::new(first - 1));
        std::thread::scope(|scope| {
            for (index, client) in clients.into_iter().enumerate() {
                let (acked, first) = (&acked[index], firsts[index]);
                scope.spawn(move || write(client, &format!("c{index}"), first, acked));
            }
            // Every other time once something is there, however slow the machine is.
            let is_waiting = || {
                acked.iter().zip(firsts).any(|(acked, first)| acked.load(Ordering::SeqCst) < first)
            };
            let until = Instant::now() + Duration::from_secs(30);
            while round % 2 == 1 && is_waiting() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(10_000 + round * 7919 % 40_000));
            process.kill();
        });
        let _again = start(folder.path());
        let mut client = connect(folder.path());
        for index in 0..2 {
            let acked = acked[index].load(Ordering::SeqCst);
            firsts[index] = judge(&mut client, &format!("c{index}"), acked) + 1;
        }
    }
    assert!(firsts.iter().all(|first| *first > 1), "something was written: {firsts:?}");
}

/// A disk that is full while the pool grows refuses writes as a full pool does, and nothing else.
#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let folder = folder();
    let mut limited = Command::new("sh");
    // 32 MiB in blocks of 512 bytes.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 65536; exec \"$@\"", "sh"]);
    limited.arg(std::env::current_exe().unwrap()).env(GROW_TO, "268435456");
    let mut process = start_by(limited, folder.path());
    let mut client = connect(folder.path());
    let value = "x".repeat(100_000);
    let mut stored = 0;
    loop {
        let key = format!("k{stored}");
        client.send_words(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap();
        match client.answer().unwrap() {
            Answer::Error(text) => {
                assert!(text.starts_with("OOM"), "{text}");
                break;
            }
            answer => assert_eq!(answer, Answer::Text("OK".to_owned())),
        }
        stored += 1;
        assert!(stored < 1000, "32 MiB are full some time");
    }
    assert!(stored > 150, "it has grown: {stored}");
    client.gets(&format!("STRLEN k{}", stored - 1), 100_000);
    client.gets("DEL k0 k1 k2", 3);
    client.gets("SET small value", Answer::Text("OK".to_owned()));
    process.kill();
    let mut unlimited = Command::new(std::env::current_exe().unwrap());
    unlimited.env(GROW_TO, "268435456");
    let _again = start_by(unlimited, folder.path());
    let mut client = connect(folder.path());
    client.gets("GET small", "value");
    client.gets("DBSIZE", stored - 3 + 1);
    for index in 3..stored {
        client.gets(&format!("STRLEN k{index}"), 100_000);
    }
    for index in stored..stored + 100 {
        client.send_words(&[b"SET", format!("k{index}").as_bytes(), value.as_bytes()]).unwrap();
        assert_eq!(client.answer().unwrap(), Answer::Text("OK".to_owned()));
    }
}
