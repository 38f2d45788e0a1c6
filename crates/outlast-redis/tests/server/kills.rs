//! A server in a process of its own, killed again and again while clients write.
//!
//! The fault model: the process ends at any instruction; memory that it shares with the file stays.
//! Everything that a client was answered must be there afterwards, a transaction wholly or not at all.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use outlast::OpenOptions;
use outlast_redis::{Options, Server};

use crate::client::{Answer, Client, folder, open_pool};

/// The variable with the folder of the server that the test's own program is to be.
const FOLDER: &str = "OUTLAST_REDIS_TEST_FOLDER";
/// The variable with the number of kills, where more are wanted.
const KILLS: &str = "OUTLAST_REDIS_TEST_KILLS";

/// Not a test of its own: the server process of the one below.
#[test]
fn a_server_to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let pool = open_pool(&folder.join("pool"), 64 << 20, &OpenOptions::default());
    let options = Options { unix: Some(folder.join("socket")), ..Options::default() };
    Server::bind(Arc::new(pool), options).unwrap().run().unwrap();
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &std::path::Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::a_server_to_be_killed", "--nocapture"]);
    command.env(FOLDER, folder).stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

fn connect(folder: &std::path::Path) -> Client {
    let began = Instant::now();
    loop {
        match Client::connect(&folder.join("socket")) {
            Ok(client) => return client,
            Err(error) => {
                assert!(began.elapsed() < Duration::from_secs(20), "no server: {error}");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Writes until the connection ends. Each step stores its number in a counter, a pair, a list, a hash and
/// a sorted set; `acked` is the last step that was answered.
fn write(mut client: Client, name: &str, first: i64, acked: &AtomicI64) {
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
    // The next round begins where all of them agree.
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
    n
}

#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    let kills = std::env::var(KILLS).ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    let folder = folder();
    let mut firsts = [1, 1];
    for round in 0..kills {
        let mut process = start(folder.path());
        let clients: Vec<Client> = (0..2).map(|_| connect(folder.path())).collect();
        let acked: [AtomicI64; 2] = firsts.map(|first| AtomicI64::new(first - 1));
        std::thread::scope(|scope| {
            for (index, client) in clients.into_iter().enumerate() {
                let (acked, first) = (&acked[index], firsts[index]);
                scope.spawn(move || write(client, &format!("c{index}"), first, acked));
            }
            std::thread::sleep(Duration::from_micros(10_000 + round * 7919 % 40_000));
            process.0.kill().unwrap();
        });
        process.0.wait().unwrap();
        let _again = start(folder.path());
        let mut client = connect(folder.path());
        for index in 0..2 {
            let acked = acked[index].load(Ordering::SeqCst);
            firsts[index] = judge(&mut client, &format!("c{index}"), acked) + 1;
        }
    }
    assert!(firsts.iter().all(|first| *first > 1), "something was written: {firsts:?}");
}
