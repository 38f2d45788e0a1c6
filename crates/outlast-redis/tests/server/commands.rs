//! Each family of commands, in short; Redis' own suite has the rest.

use std::time::Duration;

use crate::client::{Answer, Served, ok};

fn list(items: impl IntoIterator<Item = Answer>) -> Answer {
    Answer::List(items.into_iter().collect())
}

#[test]
fn strings_and_counters() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("SET k v", ok());
    client.gets("GET k", "v");
    client.gets("SET k w NX", Answer::Null);
    client.gets("SET k w XX GET", "v");
    client.gets("APPEND k xyz", 4);
    client.gets("GETRANGE k 1 2", "xy");
    client.gets("SETRANGE k 6 !", 7);
    client.gets("STRLEN k", 7);
    client.gets("INCRBY n 41", 41);
    client.gets("INCR n", 42);
    client.gets("INCRBYFLOAT n -0.1", "41.9");
    client.is_refused("INCR n", "not an integer");
    client.gets("MSETNX a 1 n 2", 0);
    client.gets("MSET a 1 b 2", ok());
    client.gets("MGET a b none", list(["1".into(), "2".into(), Answer::Null]));
    client.gets("SETBIT bits 7 1", 0);
    client.gets("BITCOUNT bits", 1);
    client.gets("BITPOS bits 1", 7);
    client.gets("BITOP NOT inverse bits", 1);
    client.gets("GETBIT inverse 0", 1);
    client.gets("GETDEL k", "wxyz\0\0!");
    client.gets("EXISTS k", 0);
    client.is_refused("SET k v EX 0", "invalid expire");
    client.is_refused("SET k v NONSENSE", "syntax");
    client.is_refused("GET", "wrong number of arguments");
    client.is_refused("NOTHING a", "unknown command 'NOTHING'");
}

/// Values of all lengths around the sizes of blocks, lengthened and shortened in place and elsewhere.
#[test]
fn strings_of_all_lengths() {
    let server = Served::new();
    let mut client = server.client();
    for len in (0..300).chain([1000, 5000, 20_000, 100_000]) {
        let value = "x".repeat(len);
        client.send_words(&[b"SET", b"k", value.as_bytes(), b"PX", b"100000"]).unwrap();
        assert_eq!(client.answer().unwrap(), ok());
        client.gets("APPEND k y", len as i64 + 1);
        client.gets("GET k", Answer::Bulk(value.clone() + "y"));
        client.gets("PERSIST k", 1);
        client.gets("GET k", Answer::Bulk(value + "y"));
    }
}

#[test]
fn hashes_small_and_large() {
    let server = Served::new();
    let mut client = server.client();
    for count in [3, 400] {
        client.ask("DEL h");
        for field in 0..count {
            client.gets(&format!("HSET h f{field} v{field}"), 1);
        }
        client.gets("HLEN h", count);
        client.gets("HSET h f1 other", 0);
        client.gets("HGET h f1", "other");
        client.gets("HINCRBY h n 5", 5);
        client.gets("HDEL h n none", 1);
        client.gets("HMGET h f0 none", list(["v0".into(), Answer::Null]));
        let Answer::List(all) = client.ask("HGETALL h") else { panic!("a list") };
        assert_eq!(all.len() as i64, count * 2);
        for field in 0..count {
            client.gets(&format!("HDEL h f{field}"), 1);
        }
        client.gets("EXISTS h", 0);
    }
    client.ask("SET s v");
    client.is_refused("HSET s f v", "WRONGTYPE");
}

#[test]
fn lists_small_and_large() {
    let server = Served::new();
    let mut client = server.client();
    let mut model: Vec<String> = Vec::new();
    for index in 0..600usize {
        let item = format!("item-{index}-{}", "x".repeat(index * 7 % 190));
        if index % 3 == 0 {
            client.gets(&format!("LPUSH l {item}"), model.len() as i64 + 1);
            model.insert(0, item);
        } else {
            client.gets(&format!("RPUSH l {item}"), model.len() as i64 + 1);
            model.push(item);
        }
        if index % 5 == 0 {
            let at = index * 31 % model.len();
            let pivot = model[at].clone();
            client.gets(&format!("LINSERT l BEFORE {pivot} mid{index}"), model.len() as i64 + 1);
            model.insert(at, format!("mid{index}"));
        }
    }
    let all = list(model.iter().map(|item| item.as_str().into()));
    client.gets("LRANGE l 0 -1", all);
    client.gets("LINDEX l 300", model[300].as_str());
    client.gets("LSET l 300 new", ok());
    client.gets("LINDEX l 300", "new");
    client.gets("LREM l 0 new", 1);
    model.remove(300);
    client.gets("LTRIM l 10 -11", ok());
    let model = &model[10..model.len() - 10];
    client.gets("LRANGE l 0 -1", list(model.iter().map(|item| item.as_str().into())));
    client.gets("LMOVE l other LEFT RIGHT", model[0].as_str());
    for item in &model[1..] {
        client.gets("LPOP l", item.as_str());
    }
    client.gets("EXISTS l", 0);
}

#[test]
fn waiting_clients_are_served_in_their_order() {
    let server = Served::new();
    let (mut one, mut two, mut giver) = (server.client(), server.client(), server.client());
    one.send("BLPOP q 0").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    two.send("BRPOP none q 0").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    giver.gets("RPUSH q a b", 2);
    assert_eq!(one.answer().unwrap(), ["q", "a"].into());
    assert_eq!(two.answer().unwrap(), ["q", "b"].into());
    one.gets("BLPOP q 0.05", Answer::Null);
    one.send("BLMOVE q to LEFT RIGHT 0").unwrap();
    two.send("BLPOP to 0").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    giver.gets("LPUSH q c", 1);
    assert_eq!(one.answer().unwrap(), "c".into());
    assert_eq!(two.answer().unwrap(), ["to", "c"].into());
    two.send("BZPOPMIN z 0").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    giver.gets("ZADD z 1 m", 1);
    assert_eq!(two.answer().unwrap(), ["z", "m", "1"].into());
}

#[test]
fn sets_small_and_large() {
    let server = Served::new();
    let mut client = server.client();
    for index in 0..500 {
        client.gets(&format!("SADD a m{index}"), 1);
    }
    client.gets("SADD b m1 m2 x", 3);
    client.gets("SISMEMBER a m499", 1);
    client.gets("SINTERCARD 2 a b", 2);
    client.gets("SDIFF b a", ["x"]);
    client.gets("SUNIONSTORE u a b", 501);
    client.gets("SMOVE b a x", 1);
    client.gets("SCARD a", 501);
    let Answer::List(popped) = client.ask("SPOP a 501") else { panic!("a list") };
    assert_eq!(popped.len(), 501);
    client.gets("EXISTS a", 0);
}

/// Ranks and ranges of a large sorted set, against a sorted vector.
#[test]
fn sorted_sets_small_and_large() {
    let server = Served::new();
    let mut client = server.client();
    for count in [20, 900] {
        client.ask("DEL z");
        let mut model: Vec<(i64, String)> = Vec::new();
        for index in 0..count {
            let (score, member) = (index * 7919 % 101, format!("m{index:04}"));
            client.gets(&format!("ZADD z {score} {member}"), 1);
            model.push((score, member));
        }
        // Some move.
        for index in (0..count).step_by(3) {
            let entry = &mut model[index as usize];
            entry.0 += 50;
            client.gets(&format!("ZINCRBY z 50 {}", entry.1), entry.0.to_string().as_str());
        }
        model.sort();
        let names = |from: usize, end: usize| {
            list(model[from..end].iter().map(|(_, name)| name.as_str().into()))
        };
        client.gets("ZRANGE z 0 -1", names(0, model.len()));
        for at in (0..model.len()).step_by(7) {
            client.gets(&format!("ZRANK z {}", model[at].1), at as i64);
        }
        let from = model.iter().filter(|(score, _)| *score < 30).count();
        let end = model.iter().filter(|(score, _)| *score <= 60).count();
        client.gets("ZRANGEBYSCORE z 30 60", names(from, end));
        client.gets("ZCOUNT z 30 60", (end - from) as i64);
        client.gets("ZREMRANGEBYSCORE z 30 60", (end - from) as i64);
        client.gets("ZCARD z", (model.len() - end + from) as i64);
        client.gets("ZPOPMIN z", [model[0].1.as_str(), &model[0].0.to_string()]);
    }
    client.gets("ZADD w 1 a 2 b", 2);
    client.gets("ZUNIONSTORE out 2 w w WEIGHTS 1 10", 2);
    client.gets("ZSCORE out b", "22");
    client.gets("ZADD lex 0 a 0 b 0 c", 3);
    client.gets("ZRANGE lex [b + BYLEX", ["b", "c"]);
    client.is_refused("ZADD lex NX XX 1 a", "not compatible");
}

#[test]
fn keys_expire_and_are_moved() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("SET k v PX 60", ok());
    client.gets("HSET h f v", 1);
    client.gets("PEXPIRE h 60", 1);
    client.gets("DBSIZE", 2);
    client.gets("TTL none", -2);
    std::thread::sleep(Duration::from_millis(400));
    // Without a lookup: what has expired is searched for.
    client.gets("DBSIZE", 0);
    client.gets("SET k v EX 100", ok());
    client.gets("RENAME k other", ok());
    client.gets("TTL other", 100);
    client.gets("PERSIST other", 1);
    client.gets("TTL other", -1);
    for index in 0..200 {
        client.ask(&format!("RPUSH big {index}-{}", "x".repeat(40)));
    }
    client.gets("COPY big twin", 1);
    client.gets("LLEN twin", 200);
    client.gets("RENAME big other", ok());
    client.gets("TYPE other", Answer::Text("list".to_owned()));
    client.gets("DEL twin", 1);
    client.gets("MOVE other 3", 1);
    client.gets("SELECT 3", ok());
    client.gets("LLEN other", 200);
    client.gets("FLUSHALL", ok());
    client.gets("DBSIZE", 0);
}

#[test]
fn scans_meet_what_is_there_all_the_time() {
    let server = Served::new();
    let mut client = server.client();
    for index in 0..1000 {
        client.ask(&format!("SET stays{index} v"));
    }
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    let mut round = 0;
    loop {
        // The table grows, and then shrinks, meanwhile.
        for index in 0..100 {
            let verb = if round < 20 { "SET" } else { "DEL" };
            let value = if round < 20 { " v" } else { "" };
            let number = (round % 20) * 100 + index;
            client.ask(&format!("{verb} goes{number}{value}"));
        }
        round += 1;
        let Answer::List(answer) = client.ask(&format!("SCAN {cursor} MATCH stays* COUNT 30"))
        else {
            panic!("a list")
        };
        let [Answer::Bulk(next), Answer::List(keys)] = &answer[..] else { panic!("a page") };
        seen.extend(keys.iter().map(|key| format!("{key:?}")));
        cursor.clone_from(next);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1000);
}

#[test]
fn transactions_are_whole_and_watched() {
    let server = Served::new();
    let (mut one, mut two) = (server.client(), server.client());
    one.gets("WATCH k", ok());
    two.gets("SET k other", ok());
    one.gets("MULTI", ok());
    one.gets("SET k mine", Answer::Text("QUEUED".to_owned()));
    one.gets("EXEC", Answer::Null);
    one.gets("GET k", "other");
    one.gets("MULTI", ok());
    one.gets("SET a 1", Answer::Text("QUEUED".to_owned()));
    one.gets("INCR k", Answer::Text("QUEUED".to_owned()));
    one.gets("GET a", Answer::Text("QUEUED".to_owned()));
    let Answer::List(answers) = one.ask("EXEC") else { panic!("a list") };
    assert_eq!((&answers[0], &answers[2]), (&ok(), &"1".into()));
    assert!(matches!(&answers[1], Answer::Error(text) if text.contains("not an integer")));
    one.gets("MULTI", ok());
    one.is_refused("NOTHING", "unknown");
    one.is_refused("EXEC", "EXECABORT");
    one.is_refused("EXEC", "without MULTI");
}

#[test]
fn messages_reach_those_who_listen() {
    let server = Served::new();
    let (mut listener, mut speaker) = (server.client(), server.client());
    listener.gets("SUBSCRIBE news", list(["subscribe".into(), "news".into(), 1.into()]));
    listener.gets("PSUBSCRIBE n?ws", list(["psubscribe".into(), "n?ws".into(), 2.into()]));
    speaker.gets("PUBLISH news hello", 2);
    assert_eq!(listener.answer().unwrap(), ["message", "news", "hello"].into());
    assert_eq!(listener.answer().unwrap(), ["pmessage", "n?ws", "news", "hello"].into());
    listener.is_refused("GET k", "allowed in this context");
    speaker.gets("PUBLISH other hello", 0);
}

#[test]
fn version_three_of_the_protocol() {
    let server = Served::new();
    let mut client = server.client();
    let Answer::List(hello) = client.ask("HELLO 3") else { panic!("a map") };
    assert_eq!(hello[5], 3.into());
    client.gets("GET none", Answer::Null);
    client.gets("ZADD z 1.5 m", 1);
    client.send("ZSCORE z m").unwrap();
    assert_eq!(client.answer().unwrap(), "1.5".into());
    client.gets("HSET h f v", 1);
    client.send("HGETALL h").unwrap();
    assert_eq!(client.answer().unwrap(), ["f", "v"].into());
    client.is_refused("HELLO 4", "NOPROTO");
}

#[test]
fn the_server_speaks_of_itself() {
    let server = Served::new();
    let mut client = server.client();
    client.ask("SET k v");
    let Answer::Bulk(info) = client.ask("INFO") else { panic!("a text") };
    assert!(info.contains("db0:keys=1,expires=0") && info.contains("scheme:swift"), "{info}");
    client.gets("CONFIG GET maxmemory-policy", ["maxmemory-policy", "noeviction"]);
    client.is_refused("CONFIG SET nothing 1", "Unknown option");
    let Answer::Int(count) = client.ask("COMMAND COUNT") else { panic!("a number") };
    assert!(count > 180, "{count}");
    client.gets("CLIENT SETNAME me", ok());
    client.gets("CLIENT GETNAME", "me");
    client.gets("SAVE", ok());
    assert!(server.folder.path().join("checkpoint").exists());
    let Answer::Int(saved) = client.ask("LASTSAVE") else { panic!("a time") };
    assert!(saved > 0);
}
