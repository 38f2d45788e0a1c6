//! Refusals: bad frames, strangers, values that do not fit.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;

use outlast_redis::{Options, ServeError, Server};
use outlast_workloads::Random;

use crate::client::{Answer, Client, Served, folder, ok, open_pool};

/// Bytes that look random and are the same each time.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| *random.pick(b"*$:\r\n0123456789-GETSx \"'")).collect()
}

#[test]
fn a_bad_frame_costs_its_connection_and_nothing_else() {
    let server = Served::new();
    let mut good = server.client();
    good.gets("SET k v", ok());
    for (frame, what) in [
        (&b"*3\r\n$3\r\nSET\r\nfoo\r\n"[..], "expected '$'"),
        (b"*99999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$999999999999\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"\"unbalanced\r\n", "unbalanced"),
    ] {
        let mut bad = server.client();
        bad.send_bytes(frame).unwrap();
        match bad.answer().unwrap() {
            Answer::Error(text) => assert!(text.contains(what), "{text}"),
            other => panic!("{other:?}"),
        }
        assert!(bad.answer().is_err(), "the connection is closed");
    }
    for seed in 0..200 {
        let mut bad = server.client();
        // The server may have closed it before all was sent.
        let _ = bad.send_bytes(&noise(seed, 300));
    }
    good.gets("GET k", "v");
}

#[test]
fn frames_cut_anywhere_are_put_together() {
    let server = Served::new();
    let mut client = server.client();
    let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    for cut in 1..bytes.len() {
        client.send_bytes(&bytes[..cut]).unwrap();
        std::thread::sleep(std::time::Duration::from_micros(300));
        client.send_bytes(&bytes[cut..]).unwrap();
        assert_eq!(client.answer().unwrap(), ok());
        assert_eq!(client.answer().unwrap(), "value".into());
    }
}

/// Answers come in the order of questions, however many are asked at once.
#[test]
fn a_long_pipeline_is_answered_in_order() {
    let server = Served::new();
    let mut client = server.client();
    let lines: String = (0..5000).map(|index| format!("INCR n{}\r\n", index % 3)).collect();
    client.send_bytes(lines.as_bytes()).unwrap();
    for index in 0..5000 {
        assert_eq!(client.answer().unwrap(), (index / 3 + 1).into());
    }
}

#[test]
fn strangers_get_nothing_without_the_password() {
    let server = Served::with(32 << 20, |options| options.password = Some("secret".to_owned()));
    let mut client = server.client();
    client.is_refused("GET k", "NOAUTH");
    client.is_refused("AUTH wrong", "WRONGPASS");
    client.is_refused("AUTH secre", "WRONGPASS");
    client.is_refused("HELLO 3", "NOAUTH");
    client.is_refused("GET k", "NOAUTH");
    client.gets("AUTH default secret", ok());
    client.gets("GET k", Answer::Null);
    let mut other = server.client();
    other.send_bytes(b"*1000\r\n").unwrap();
    assert!(
        matches!(other.answer().unwrap(), Answer::Error(text) if text.contains("unauthenticated"))
    );
}

#[test]
fn a_server_that_others_reach_wants_a_password() {
    let folder = folder();
    let pool = open_pool(&folder.path().join("pool"), 16 << 20, &Default::default());
    let options = Options { addresses: vec!["0.0.0.0:0".parse().unwrap()], ..Options::default() };
    let refused = Server::bind(Arc::new(pool), options).map(|_| ());
    let Err(error @ ServeError::Unprotected(_)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("set a password"), "{error}");
}

/// A pool that is full refuses what needs room and serves everything else; what is freed is room again.
#[test]
fn a_full_pool_refuses_writes_and_loses_nothing() {
    let server = Served::with(16 << 20, |_| {});
    let mut client = server.client();
    let value = "x".repeat(100_000);
    let mut stored = 0;
    loop {
        client.send_words(&[b"SET", format!("k{stored}").as_bytes(), value.as_bytes()]).unwrap();
        match client.answer().unwrap() {
            Answer::Error(text) => {
                assert!(text.starts_with("OOM ") && text.contains("no space left"), "{text}");
                break;
            }
            answer => assert_eq!(answer, ok()),
        }
        stored += 1;
        assert!(stored < 1000, "16 MiB are full some time");
    }
    assert!(stored > 50, "{stored}");
    // In a pipeline, only the one that cannot be done fails.
    client.send("GET k0").unwrap();
    client.send_words(&[b"SET", b"more", value.as_bytes()]).unwrap();
    client.send("STRLEN k1").unwrap();
    assert_eq!(client.answer().unwrap(), value.as_str().into());
    assert!(matches!(client.answer().unwrap(), Answer::Error(_)));
    assert_eq!(client.answer().unwrap(), 100_000.into());
    // A transaction that cannot be done is not done in part.
    client.gets("MULTI", ok());
    client.ask("DEL k0");
    client
        .send_words(&[
            b"MSET",
            b"x",
            value.as_bytes(),
            b"y",
            value.as_bytes(),
            b"z",
            value.as_bytes(),
        ])
        .unwrap();
    client.answer().unwrap();
    client.is_refused("EXEC", "OOM");
    client.gets("EXISTS k0 x y z", 1);
    client.gets("DEL k0 k1 k2", 3);
    client.send_words(&[b"SET", b"more", value.as_bytes()]).unwrap();
    assert_eq!(client.answer().unwrap(), ok());
}

#[test]
fn a_pool_that_may_grow_does() {
    let folder = folder();
    let open = outlast::medium::OpenOptions { grow_limit_bytes: 64 << 20, ..Default::default() };
    let pool = open_pool(&folder.path().join("pool"), 16 << 20, &open);
    let server = Served::of(folder, Arc::new(pool), |_| {});
    let mut client = server.client();
    let value = "x".repeat(100_000);
    for index in 0..300 {
        client.send_words(&[b"SET", format!("k{index}").as_bytes(), value.as_bytes()]).unwrap();
        assert_eq!(client.answer().unwrap(), ok());
    }
}

/// Blocks that a database of 100,000 keys discards are freed meanwhile, and their room is used again.
#[test]
fn what_is_flushed_is_freed() {
    let server = Served::with(16 << 20, |_| {});
    let mut client = server.client();
    for _ in 0..4 {
        let lines: String =
            (0..40_000).map(|index| format!("SET key{index} {}\r\n", "v".repeat(100))).collect();
        client.send_bytes(lines.as_bytes()).unwrap();
        for _ in 0..40_000 {
            assert_eq!(client.answer().unwrap(), ok());
        }
        client.gets("FLUSHALL", ok());
        // It is freed a little at a time, and at once where a command needs the room.
    }
}

#[test]
fn metrics_are_served_over_http() {
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Served::with(32 << 20, |options| options.metrics = Some(metrics));
    server.client().gets("SET k v", ok());
    let get = |path: &str| {
        let mut stream = TcpStream::connect(metrics).unwrap();
        std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = get("/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert!(text.contains("# TYPE outlast_total_commands_processed counter"), "{text}");
    assert!(text.contains("outlast_keys{database=\"0\"} 1"), "{text}");
    assert!(get("/other").starts_with("HTTP/1.1 404"));
}

/// Fills a database with keys until one is refused. Returns how many there are.
fn fill(client: &mut Client, key: &str, value: &str) -> usize {
    for index in 0..1_000_000 {
        let name = format!("{key}{index}");
        client.send_words(&[b"SET", name.as_bytes(), value.as_bytes()]).unwrap();
        match client.answer().unwrap() {
            Answer::Error(text) if text.starts_with("OOM ") => return index,
            answer => assert_eq!(answer, ok()),
        }
    }
    panic!("16 MiB are full some time");
}

/// Collections large enough to have blocks of their own, and a key that expires.
fn fill_with_everything(client: &mut Client) {
    for kind in ["l1", "l2", "l3"] {
        let items = "RPUSH ".to_owned() + kind + &" item-of-some-length".repeat(2000);
        client.gets(&items, 2000);
    }
    for (add, key) in [("SADD", "s"), ("HSET", "h"), ("ZADD", "z")] {
        for index in 0..500 {
            let more = if add == "HSET" { " value" } else { "" };
            let score = if add == "ZADD" { "1 " } else { "" };
            client.gets(&format!("{add} {key} {score}member-of-some-length{index}{more}"), 1);
        }
    }
    client.gets(&("RPUSH small".to_owned() + &" item".repeat(100)), 100);
    client.gets(&("RPUSH gone".to_owned() + &" item-of-some-length".repeat(2000)), 2000);
    client.gets("PEXPIRE gone 300", 1);
    let lens = [100_000, 10_000, 1000, 100, 10, 1];
    for (round, len) in lens.into_iter().enumerate() {
        for index in 0..3 {
            client.gets(&format!("SET fill{round}-{index} {}", "x".repeat(len)), ok());
        }
    }
    fill_up(client, "more");
}

/// Fills a database with values that are smaller and smaller, so that no room is left for anything.
fn fill_up(client: &mut Client, key: &str) {
    for (round, len) in [100_000, 10_000, 1000, 100, 10, 1].into_iter().enumerate() {
        fill(client, &format!("{key}{round}-"), &"x".repeat(len));
    }
}

/// Whatever frees works in a pool that is full: also when the server was started on it.
#[test]
fn a_full_pool_can_be_emptied() {
    let commands: &[(&str, Answer)] = &[
        ("EXISTS gone", 0.into()),
        ("EXPIRE fill3-0 1000", 1.into()),
        ("EXPIRE fill2-0 1000", 1.into()),
        ("EXPIRE fill1-0 1000", 1.into()),
        ("EXPIRE fill0-0 1000", 1.into()),
        ("EXPIRE l1 1000", 1.into()),
        ("PERSIST fill2-0", 1.into()),
        ("EXPIRE fill2-1 0", 1.into()),
        ("LPOP small", "item".into()),
        ("LPOP l1", "item-of-some-length".into()),
        ("LREM small 90 item", 90.into()),
        ("LTRIM small 0 1", ok()),
        ("SREM s member-of-some-length7", 1.into()),
        ("HDEL h member-of-some-length7", 1.into()),
        ("ZREM z member-of-some-length7", 1.into()),
        ("GETDEL fill5-0", "x".into()),
        ("DEL l1", 1.into()),
        ("UNLINK l2 s h z", 4.into()),
        ("RENAME l3 fill4-0", ok()),
        ("EVAL return{redis.call('DEL','fill4-0')} 0", Answer::List(vec![1.into()])),
    ];
    for emptied_by in ["FLUSHALL", "FLUSHDB"] {
        let folder = folder();
        let path = folder.path().join("pool");
        let mut server = Served::on(folder, &path, 16 << 20);
        fill_with_everything(&mut server.client());
        std::thread::sleep(std::time::Duration::from_millis(310));
        for round in 0..2 {
            let mut client = server.client();
            // The blocks of the key that has expired, where it was found already.
            fill_up(&mut client, &format!("late{round}-"));
            client.is_refused("SET another value-that-is-longer-than-a-word", "OOM");
            if round == 1 {
                for (command, answer) in commands {
                    client.gets(command, answer.clone());
                }
                client.gets("MULTI", ok());
                client.gets("DEL fill2-2", Answer::Text("QUEUED".to_owned()));
                client.gets("EXEC", Answer::List(vec![1.into()]));
                client.gets("SET fill4-1 y", ok());
            }
            drop(client);
            server = server.again(&path);
        }
        let mut client = server.client();
        client.gets(emptied_by, ok());
        client.gets("DBSIZE", 0);
        for index in 0..80 {
            client.gets(&format!("SET again{index} {}", "x".repeat(100_000)), ok());
        }
    }
}

/// A command that is refused for want of room takes no other client's answer along.
#[test]
fn a_refused_command_costs_no_others() {
    let server = Served::with(16 << 20, |_| {});
    let mut client = server.client();
    client.gets("INCR n", 1);
    fill(&mut client, "k", &"x".repeat(100_000));
    let (mut one, mut other) = (server.client(), server.client());
    let value = "x".repeat(200_000);
    for round in 0..50 {
        one.send("INCR n").unwrap();
        other.send_words(&[b"SET", b"big", value.as_bytes()]).unwrap();
        assert_eq!(one.answer().unwrap(), (round + 2).into());
        assert!(matches!(other.answer().unwrap(), Answer::Error(text) if text.starts_with("OOM")));
    }
}

/// A server whose commits wait for a disk, and its pool.
fn served_from_disk() -> (Arc<outlast::Pool>, Served) {
    let folder = folder();
    let path = folder.path().join("pool");
    let map =
        outlast::medium::MapOptions { domain: Some(outlast::Domain::Page), ..Default::default() };
    let pool = outlast_redis::create_pool(&path, 64 << 20, &Default::default(), &map).unwrap();
    let pool = Arc::new(pool);
    (Arc::clone(&pool), Served::of(folder, pool, |_| {}))
}

/// Where a commit waits for a disk, a round of the loop waits once: for plain commands, transactions, scripts
/// and what the server answers itself, of several clients.
#[test]
fn a_round_has_one_sync() {
    let (pool, server) = served_from_disk();
    let mut clients = [(); 3].map(|()| server.client());
    let before = pool.medium().syncs();
    let mut expected = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        let mut bytes = String::new();
        for index in 0..1000 {
            bytes += &match index % 5 {
                0 => format!("INCR n{number}\r\n"),
                1 => format!("MULTI\r\nINCR n{number}\r\nLPUSH l{number} x\r\nEXEC\r\n"),
                2 => format!("EVAL \"return redis.call('INCR', KEYS[1])\" 1 n{number}\r\n"),
                3 => "PING\r\nECHO x\r\n".to_owned(),
                _ => format!("BLPOP l{number} 0\r\n"),
            };
        }
        client.send_bytes(bytes.as_bytes()).unwrap();
        expected += 1000 / 5 * (1 + 4 + 1 + 2 + 1);
    }
    let mut answered = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        for _ in 0..expected / 3 {
            assert!(!matches!(client.answer().unwrap(), Answer::Error(_)));
            answered += 1;
        }
        client.gets(&format!("GET n{number}"), "600");
    }
    assert_eq!(answered, expected);
    // As many rounds as packets at most, and some syncs for chunks of the heap.
    let syncs = pool.medium().syncs() - before;
    assert!(syncs < 40, "{syncs} syncs for {expected} requests");
}

/// `INFO` tells how full the pool is, and figures follow what clients store.
#[test]
fn figures_of_the_pool_follow_its_contents() {
    let server = Served::new();
    let mut client = server.client();
    let figure = |client: &mut crate::client::Client, name: &str| -> u64 {
        let Answer::Bulk(text) = client.ask("INFO") else { panic!("a text") };
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name}")).trim().parse().expect("a number")
    };
    let before = figure(&mut client, "used_memory");
    let free = figure(&mut client, "pool_free_bytes");
    assert!(figure(&mut client, "pool_largest_free_bytes") <= free);
    let log_bytes = figure(&mut client, "pool_log_bytes");
    assert!(log_bytes > 0 && figure(&mut client, "pool_log_used_bytes") < log_bytes);
    let value = "x".repeat(4 << 20);
    client.send_words(&[b"SET", b"k", value.as_bytes()]).unwrap();
    client.answer().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let after = figure(&mut client, "used_memory");
    assert!(after >= before + (4 << 20), "{before} {after}");
    assert!(figure(&mut client, "pool_free_bytes") + (4 << 20) <= free);
    assert!(figure(&mut client, "pool_log_used_bytes") > 0, "records of the last commits");
    assert!(figure(&mut client, "command_latency_us_max") > 0);
}

/// `INFO errorstats` counts errors by their first word as redis-server does, those of commands of data, of `EXEC` and
/// of scripts as well, each once however its group was committed.
#[test]
fn errors_are_counted_by_their_codes() {
    let server = Served::new();
    let mut client = server.client();
    let stats = |client: &mut crate::client::Client| {
        let Answer::Bulk(text) = client.ask("INFO errorstats") else { panic!("a text") };
        text
    };
    assert_eq!(stats(&mut client), "# Errorstats\r\n");
    client.gets("SET s x", ok());
    for command in ["LPUSH s x", "LPUSH s", "NO such command", "XADD s * a b"] {
        assert!(matches!(client.ask(command), Answer::Error(_)), "{command}");
    }
    let scripts = [
        "return redis.error_reply('MY_ERR custom')",
        "return {err='nothing'}",
        "return redis.call('LPUSH', 's', 'x')",
        "return redis.pcall('LPUSH', 's', 'x')",
    ];
    for script in scripts {
        let answer = client.ask_words(&[b"EVAL", script.as_bytes(), b"0"]);
        assert!(matches!(answer, Answer::Error(_)), "{script}");
    }
    client.gets("MULTI", ok());
    client.gets("INCR s", Answer::Text("QUEUED".to_owned()));
    client.gets("GET s", Answer::Text("QUEUED".to_owned()));
    client.ask("EXEC");
    let wanted = "# Errorstats\r\nerrorstat_ERR:count=4\r\nerrorstat_MY_ERR:count=1\r\n\
                  errorstat_WRONGTYPE:count=4\r\n";
    assert_eq!(stats(&mut client), wanted);
    let Answer::Bulk(text) = client.ask("INFO stats") else { panic!("a text") };
    assert!(text.contains("total_error_replies:9\r\n"), "{text}");
    client.gets("CONFIG RESETSTAT", ok());
    assert_eq!(stats(&mut client), "# Errorstats\r\n");
}

/// New blocks of nodes are part of a round's record: a round that divides nodes has one sync.
#[test]
fn a_round_that_makes_new_blocks_has_one_sync() {
    let (pool, server) = served_from_disk();
    let mut client = server.client();
    let value = "x".repeat(150);
    let mut rounds = |count: usize| {
        let before = pool.medium().syncs();
        for _ in 0..count {
            // Each of three fills a leaf.
            let bytes = format!("LPUSH list {value}\r\n").repeat(30);
            client.send_bytes(bytes.as_bytes()).unwrap();
            for _ in 0..30 {
                assert!(matches!(client.answer().unwrap(), Answer::Int(_)));
            }
        }
        pool.medium().syncs() - before
    };
    rounds(3);
    let syncs = rounds(50);
    // A few for chunks of the heap, and for what reads a request in two.
    assert!(syncs < 75, "{syncs} syncs for 50 rounds");
}
