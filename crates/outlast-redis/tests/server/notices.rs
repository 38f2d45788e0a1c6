//! Notifications of key space, as redis-server gives them; pauses; what clients ask and cannot have.

use std::time::{Duration, Instant};

use crate::client::{Answer, Client, Served, ok};
use crate::peer::Peer;

/// The messages that a line of commands causes, those of each command in their order.
fn messages(server: &dyn Fn() -> Client, lines: &[&str]) -> Vec<(String, Vec<String>)> {
    let (mut listener, mut client) = (server(), server());
    client.gets("FLUSHALL", ok());
    client.gets("CONFIG SET notify-keyspace-events KEA", ok());
    listener.ask("PSUBSCRIBE __key*__:*");
    listener.ask("SUBSCRIBE end");
    let mut all = Vec::new();
    for line in lines {
        client.ask(line);
        client.ask("PUBLISH end x");
        let mut of_line = Vec::new();
        loop {
            let Answer::List(parts) = listener.answer().expect("a message") else {
                panic!("a list")
            };
            let text = |part: &Answer| match part {
                Answer::Bulk(text) => text.clone(),
                other => panic!("{other:?}"),
            };
            if text(&parts[0]) == "message" {
                break;
            }
            of_line.push(format!("{} {}", text(&parts[2]), text(&parts[3])));
        }
        all.push(((*line).to_owned(), of_line));
    }
    client.gets("CONFIG SET notify-keyspace-events ", ok());
    all
}

const LINES: &[&str] = &[
    "SET k v",
    "SET k v EX 100",
    "SETEX k 100 v",
    "APPEND k x",
    "INCR n",
    "DECRBY n 2",
    "INCRBYFLOAT n 0.5",
    "MSET a 1 b 2",
    "SETRANGE k 3 yy",
    "SETBIT bits 3 1",
    "BITOP NOT other bits",
    "GETEX k PERSIST",
    "GETEX k EX 10",
    "GETDEL k",
    "GET none",
    "DEL a b none",
    "EXPIRE n 100",
    "PERSIST n",
    "EXPIRE n -1",
    "HSET h a 1 b 2",
    "HINCRBY h a 1",
    "HDEL h a b",
    "RPUSH l a b c d e",
    "LPUSH l z",
    "LSET l 0 y",
    "LINSERT l BEFORE y x",
    "LREM l 0 x",
    "LTRIM l 0 3",
    "LPOP l",
    "RPOP l 2",
    "RPOPLPUSH l m",
    "LMOVE m l LEFT RIGHT",
    "SADD s a b c",
    "SREM s a",
    "SMOVE s t b",
    "SPOP s",
    "SUNIONSTORE u t",
    "SINTERSTORE u t none",
    "ZADD z 1 a 2 b 3 c",
    "ZADD z INCR 1 a",
    "ZINCRBY z 1 a",
    "ZREM z a",
    "ZPOPMIN z",
    "ZUNIONSTORE y 1 z",
    "ZREMRANGEBYSCORE z -inf inf",
    "RENAME y x",
    "COPY x w",
    "MOVE w 3",
    "SORT t STORE sorted ALPHA",
    "XADD stream 1-1 a 1",
    "XADD stream MAXLEN 1 2-1 a 1",
    "XGROUP CREATE stream g 0",
    "XGROUP CREATECONSUMER stream g c",
    "XREADGROUP GROUP g d STREAMS stream >",
    "XACK stream g 2-1",
    "XGROUP SETID stream g 0",
    "XGROUP DELCONSUMER stream g c",
    "XGROUP DESTROY stream g",
    "XTRIM stream MAXLEN 0",
    "XADD stream 3-1 a 1",
    "XDEL stream 3-1",
    "XSETID stream 9-9",
    "EVAL return\tredis.call('set',KEYS[1],'v') 1 script",
    "UNLINK stream script",
];

#[test]
fn notifications_are_those_of_redis() {
    let server = Served::new();
    let ours = messages(&|| server.client(), LINES);
    let of = |line: &str| {
        let found = ours.iter().find(|(other, _)| other == line);
        found.map(|(_, messages)| messages.clone()).unwrap_or_default()
    };
    assert_eq!(of("SET k v"), ["__keyspace@0__:k set", "__keyevent@0__:set k"]);
    assert_eq!(of("GET none"), [""; 0]);
    let Some(peer) = Peer::start() else { return };
    let theirs = messages(&|| peer.client(), LINES);
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their);
    }
}

#[test]
fn expired_keys_and_waiting_clients_are_told() {
    let server = Served::new();
    let (mut listener, mut client) = (server.client(), server.client());
    client.gets("CONFIG SET notify-keyspace-events Exl", ok());
    client.gets("CONFIG GET notify-keyspace-events", ["notify-keyspace-events", "lxE"]);
    client.is_refused("CONFIG SET notify-keyspace-events Q", "Invalid event class character");
    listener.ask("PSUBSCRIBE *");
    client.gets("SET k v PX 5", ok());
    let message = |name: &str, key: &str| {
        let channel = format!("__keyevent@0__:{name}");
        Answer::from(["pmessage", "*", channel.as_str(), key])
    };
    assert_eq!(listener.answer().unwrap(), message("expired", "k"));
    let mut waiter = server.client();
    waiter.send("BLPOP list 0").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    client.gets("RPUSH list x", 1);
    assert_eq!(waiter.answer().unwrap(), ["list", "x"].into());
    assert_eq!(listener.answer().unwrap(), message("rpush", "list"));
    assert_eq!(listener.answer().unwrap(), message("lpop", "list"));
}

#[test]
fn commands_wait_while_clients_are_paused() {
    let server = Served::new();
    let (mut client, mut other) = (server.client(), server.client());
    client.gets("CLIENT PAUSE 60000 WRITE", ok());
    client.gets("GET k", Answer::Null);
    other.send("SET k v").unwrap();
    std::thread::sleep(Duration::from_millis(30));
    client.gets("GET k", Answer::Null);
    client.gets("CLIENT UNPAUSE", ok());
    assert_eq!(other.answer().unwrap(), ok());
    client.gets("GET k", "v");
    let began = Instant::now();
    client.gets("CLIENT PAUSE 100", ok());
    client.gets("GET k", "v");
    assert!(began.elapsed() >= Duration::from_millis(90));
    client.is_refused("CLIENT PAUSE x", "timeout is not an integer");
    client.is_refused("CLIENT PAUSE 1 NONSENSE", "syntax");
    client.is_refused("CLIENT TRACKING ON", "not supported");
    client.gets("CLIENT TRACKING OFF", ok());
    client.gets("CLIENT NO-EVICT ON", ok());
    client.gets("CLIENT NO-TOUCH OFF", ok());
    client.is_refused("CLIENT NO-TOUCH MAYBE", "syntax");
}
