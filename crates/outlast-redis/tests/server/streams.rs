//! Streams: each command, readers that wait, large ones, and a comparison with redis-server.

use std::time::Duration;

use outlast_workloads::Random;

use crate::client::{Answer, Client, Served, ok};
use crate::peer::Peer;

fn list(items: impl IntoIterator<Item = Answer>) -> Answer {
    Answer::List(items.into_iter().collect())
}

fn entry(id: &str, fields: impl Into<Answer>) -> Answer {
    list([id.into(), fields.into()])
}

#[test]
fn entries_are_added_read_deleted_and_trimmed() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("XADD s 1-1 a 1", "1-1");
    client.gets("XADD s 1-* b 2", "1-2");
    client.gets("XADD s 5 c 3 d 4", "5-0");
    client.is_refused("XADD s 5-0 a 1", "equal or smaller");
    client.is_refused("XADD s 0-0 a 1", "must be greater than 0-0");
    client.is_refused("XADD s x a 1", "Invalid stream ID");
    client.is_refused("XADD s * a", "wrong number of arguments");
    client.gets("XADD none NOMKSTREAM * a 1", Answer::Null);
    client.gets("XLEN s", 3);
    client.gets("TYPE s", Answer::Text("stream".to_owned()));
    client.gets("OBJECT ENCODING s", "stream");
    let all =
        [entry("1-1", ["a", "1"]), entry("1-2", ["b", "2"]), entry("5-0", ["c", "3", "d", "4"])];
    client.gets("XRANGE s - +", list(all.clone()));
    client.gets("XREVRANGE s + - COUNT 1", list([all[2].clone()]));
    client.gets("XRANGE s (1-1 (5-0", list([all[1].clone()]));
    client.gets("XREAD COUNT 1 STREAMS s 1-1", list([list(["s".into(), list([all[1].clone()])])]));
    client.gets("XREAD STREAMS s $", Answer::Null);
    client.gets("XREAD STREAMS s +", list([list(["s".into(), list([all[2].clone()])])]));
    client.gets("XDEL s 1-2 9-9", 1);
    client.gets("XTRIM s MAXLEN 1", 1);
    client.gets("XADD s MINID 6 6 e 5", "6-0");
    client.gets("XLEN s", 1);
    client.is_refused("XSETID s 1", "smaller");
    client.gets("XSETID s 100-5", ok());
    client.is_refused("XADD s 100-4 a 1", "equal or smaller");
    client.gets("COPY s t", 1);
    client.gets("RENAME t u", ok());
    client.gets("XRANGE u - +", list([entry("6-0", ["e", "5"])]));
    client.gets("DEL s", 1);
    client.gets("XLEN s", 0);
    client.is_refused("LPUSH u x", "WRONGTYPE");
    client.gets("PEXPIRE u 1", 1);
    std::thread::sleep(Duration::from_millis(20));
    client.gets("EXISTS u", 0);
}

#[test]
fn groups_deliver_acknowledge_and_claim() {
    let server = Served::new();
    let mut client = server.client();
    client.is_refused("XGROUP CREATE s g $", "requires the key to exist");
    client.gets("XGROUP CREATE s g $ MKSTREAM", ok());
    client.is_refused("XGROUP CREATE s g 0", "BUSYGROUP");
    for id in 1..=4 {
        client.gets(&format!("XADD s {id}-0 n {id}"), Answer::Bulk(format!("{id}-0")));
    }
    let of = |ids: &[i64]| {
        let entry = |id: &i64| entry(&format!("{id}-0"), ["n", &id.to_string()]);
        list([list(["s".into(), list(ids.iter().map(entry))])])
    };
    client.gets("XREADGROUP GROUP g a COUNT 2 STREAMS s >", of(&[1, 2]));
    client.gets("XREADGROUP GROUP g b NOACK COUNT 1 STREAMS s >", of(&[3]));
    client.gets("XREADGROUP GROUP g b STREAMS s >", of(&[4]));
    client.gets("XREADGROUP GROUP g b STREAMS s >", Answer::Null);
    client.gets("XREADGROUP GROUP g a STREAMS s 0", of(&[1, 2]));
    client.gets("XACK s g 1-0 3-0", 1);
    let counts = list([["a", "1"].into(), ["b", "1"].into()]);
    client.gets("XPENDING s g", list([2.into(), "2-0".into(), "4-0".into(), counts]));
    client.gets("XCLAIM s g b 0 2-0 JUSTID", ["2-0"]);
    client.gets(
        "XAUTOCLAIM s g c 0 - COUNT 1 JUSTID",
        list(["4-0".into(), ["2-0"].into(), list([])]),
    );
    client.gets("XDEL s 4-0", 1);
    client.gets("XAUTOCLAIM s g c 0 (2-0", list(["0-0".into(), list([]), ["4-0"].into()]));
    client.gets("XGROUP DELCONSUMER s g c", 1);
    client.gets("XGROUP CREATECONSUMER s g c", 1);
    client.gets("XGROUP DESTROY s g", 1);
    client.is_refused("XPENDING s g", "NOGROUP");
    client.is_refused("XGROUP NONSENSE s g", "unknown subcommand 'NONSENSE'");
}

#[test]
fn readers_wait_for_entries_and_for_groups() {
    let server = Served::new();
    let (mut reader, mut writer) = (server.client(), server.client());
    reader.send("XREAD BLOCK 0 STREAMS s t $ $").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    writer.gets("XADD t 7-7 a 1", "7-7");
    let got = |key: &str, id: &str| list([list([key.into(), list([entry(id, ["a", "1"])])])]);
    assert_eq!(reader.answer().unwrap(), got("t", "7-7"));
    reader.gets("XREAD BLOCK 10 STREAMS t $", Answer::Null);
    writer.gets("XGROUP CREATE t g $", ok());
    reader.send("XREADGROUP GROUP g c BLOCK 0 STREAMS t >").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    writer.gets("XADD t 8-0 a 1", "8-0");
    assert_eq!(reader.answer().unwrap(), got("t", "8-0"));
    for (command, error) in [("XGROUP DESTROY t g", "NOGROUP"), ("DEL t", "UNBLOCKED")] {
        writer.ask("XGROUP CREATE t g $");
        reader.send("XREADGROUP GROUP g c BLOCK 0 STREAMS t >").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        writer.gets(command, 1);
        match reader.answer().unwrap() {
            Answer::Error(text) => assert!(text.starts_with(error), "{command}: {text}"),
            other => panic!("{command}: {other:?}"),
        }
    }
    // Between MULTI and EXEC, and in scripts, nothing waits.
    writer.gets("MULTI", ok());
    writer.ask("XREAD BLOCK 0 STREAMS none $");
    writer.gets("EXEC", list([Answer::Null]));
    let script = "return\tredis.call('xread','block','0','streams','none','$')";
    writer.is_refused(&format!("EVAL {script} 0"), "not allowed with BLOCK option");
}

/// Appending, reading and trimming a large stream keeps to small transactions, and what it leaves is freed.
#[test]
fn a_large_stream_is_appended_read_trimmed_and_freed() {
    let server = Served::with(64 << 20, |_| {});
    let mut client = server.client();
    const ENTRIES: usize = 8_000;
    client.gets("XGROUP CREATE s g 0 MKSTREAM", ok());
    for first in (0..ENTRIES).step_by(1000) {
        for index in first..first + 1000 {
            let long = "x".repeat(if index % 50 == 0 { 300 } else { 20 });
            client.send(&format!("XADD s {}-1 field {long}", index + 1)).unwrap();
        }
        for index in first..first + 1000 {
            assert_eq!(client.answer().unwrap(), Answer::Bulk(format!("{}-1", index + 1)));
        }
    }
    match client.ask("XRANGE s 7000 7002") {
        Answer::List(found) => assert_eq!(found.len(), 3),
        other => panic!("{other:?}"),
    }
    for _ in 0..10 {
        match client.ask("XREADGROUP GROUP g c COUNT 100 STREAMS s >") {
            Answer::List(found) => assert_eq!(found.len(), 1),
            other => panic!("{other:?}"),
        }
    }
    client.gets("XTRIM s MAXLEN 2000", ENTRIES as i64 - 2000);
    client.gets("XLEN s", 2000);
    client.gets("XTRIM s MAXLEN ~ 1950", 0);
    client.gets("XTRIM s MINID ~ 6201", 200);
    match client.ask("XRANGE s - + COUNT 1") {
        Answer::List(found) => {
            assert!(matches!(&found[0], Answer::List(entry) if entry[0] == "6201-1".into()))
        }
        other => panic!("{other:?}"),
    }
    client.gets("COPY s t", 1);
    client.gets("XGROUP DESTROY t g", 1);
    client.gets("DEL s t", 2);
    // All of it can be taken again, so all of it was freed.
    let value = "x".repeat(1 << 20);
    for round in 0..100 {
        client
            .send_words(&[b"SET", format!("k{}", round % 40).as_bytes(), value.as_bytes()])
            .unwrap();
        match client.answer().unwrap() {
            Answer::Text(_) => {}
            // What is discarded is freed a little at a time.
            Answer::Error(text) => {
                assert!(text.starts_with("OOM") && round < 90, "round {round}: {text}");
                std::thread::sleep(Duration::from_millis(10));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// How many commands are compared, where more are wanted.
const COMMANDS: &str = "OUTLAST_STREAM_COMMANDS";

fn id(random: &mut Random) -> String {
    match random.below(8) {
        0 => random.below(14).to_string(),
        1 => format!("{}-{}", random.below(3), u64::MAX),
        _ => format!("{}-{}", random.below(14), random.below(4)),
    }
}

fn interval(random: &mut Random) -> String {
    match random.below(6) {
        0 => "-".to_owned(),
        1 => "+".to_owned(),
        2 => format!("({}", id(random)),
        _ => id(random),
    }
}

fn trim(random: &mut Random) -> String {
    let about = ["", " =", " ~"][random.below(3) as usize];
    let what = match random.below(2) {
        0 => format!("MAXLEN{about} {}", random.below(12)),
        // Nodes of Redis keep the IDs of what was deleted, and approximate trimming looks at them.
        _ => format!("MINID{} {}", about.replace('~', "="), id(random)),
    };
    match random.below(6) {
        0 => format!("{what} LIMIT {}", random.below(20)),
        _ => what,
    }
}

/// A command of few keys, groups, consumers and IDs, so that they meet; some are wrong.
fn command(random: &mut Random) -> String {
    let key = format!("s{}", random.below(3));
    let group = format!("g{}", random.below(3));
    let consumer = format!("c{}", random.below(3));
    let ids = |random: &mut Random| {
        (0..1 + random.below(4)).map(|_| id(random)).collect::<Vec<_>>().join(" ")
    };
    let count = |random: &mut Random| match random.below(3) {
        0 => format!("COUNT {} ", random.below(6)),
        _ => String::new(),
    };
    let sub =
        |random: &mut Random, of: &[&str]| of[random.below(of.len() as u64) as usize].to_owned();
    match random.below(40) {
        0..=9 => {
            let option = match random.below(6) {
                0 => format!("{} ", trim(random)),
                1 => "NOMKSTREAM ".to_owned(),
                _ => String::new(),
            };
            let id = match random.below(3) {
                0 => format!("{}-*", random.below(14)),
                _ => id(random),
            };
            let long =
                "v".repeat(random.below(30) as usize + if random.below(9) == 0 { 300 } else { 0 });
            format!("XADD {key} {option}{id} f{} v{long}", random.below(3))
        }
        10 => format!("XDEL {key} {}", ids(random)),
        11 => format!("XTRIM {key} {}", trim(random)),
        12 => format!("XLEN {key}"),
        13 => format!("XRANGE {key} {} {} {}", interval(random), interval(random), count(random))
            .trim_end()
            .to_owned(),
        14 => {
            format!("XREVRANGE {key} {} {} {}", interval(random), interval(random), count(random))
                .trim_end()
                .to_owned()
        }
        15 => match random.below(3) {
            0 => format!(
                "XSETID {key} {} ENTRIESADDED {} MAXDELETEDID {}",
                id(random),
                random.below(20),
                id(random)
            ),
            _ => format!("XSETID {key} {}", id(random)),
        },
        16 => format!(
            "XGROUP CREATE {key} {group} {}{}",
            sub(random, &["0", "$", "3-1"]),
            sub(random, &["", " MKSTREAM", " ENTRIESREAD 3"])
        ),
        17 => format!("XGROUP CREATE {key} {group} {} MKSTREAM", id(random)),
        18 => match random.below(4) {
            0 => format!("XGROUP DESTROY {key} {group}"),
            1 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
            2 => format!("XGROUP SETID {key} {group} {}", interval(random)),
            _ => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
        },
        19..=23 => {
            let no_ack = sub(random, &["", "", "NOACK "]);
            let count = count(random);
            format!("XREADGROUP GROUP {group} {consumer} {no_ack}{count}STREAMS {key} >")
        }
        24 => format!(
            "XREADGROUP GROUP {group} {consumer} {}STREAMS {key} {}",
            count(random),
            id(random)
        ),
        25 => format!(
            "XREAD {}STREAMS {key} s0 {} {}",
            count(random),
            id(random),
            sub(random, &["$", "0", ">", "x"])
        ),
        26..=28 => format!("XACK {key} {group} {}", ids(random)),
        29 => format!("XPENDING {key} {group}"),
        30 => format!(
            "XPENDING {key} {group} {} {} {}{}",
            interval(random),
            interval(random),
            random.below(9),
            sub(random, &["", " c0", " c9"])
        ),
        31 => format!("XPENDING {key} {group} IDLE 0 - + 10 {consumer}"),
        32 | 33 => {
            let options = sub(
                random,
                &[
                    "",
                    " FORCE",
                    " JUSTID",
                    " FORCE JUSTID",
                    " RETRYCOUNT 7",
                    " TIME 5",
                    " LASTID 4-1",
                    " NONSENSE",
                ],
            );
            format!(
                "XCLAIM {key} {group} {consumer} {} {}{options}",
                sub(random, &["0", "0", "100000000"]),
                ids(random)
            )
        }
        34 => format!(
            "XAUTOCLAIM {key} {group} {consumer} {} {} {}{}",
            sub(random, &["0", "100000000"]),
            interval(random),
            count(random),
            sub(random, &["", "JUSTID"])
        )
        .trim_end()
        .to_owned(),
        35 => format!("XINFO STREAM {key} FULL {}", count(random)).trim_end().to_owned(),
        36 => format!("XINFO {} {key}", sub(random, &["STREAM", "GROUPS"])),
        37 => format!("XINFO CONSUMERS {key} {group}"),
        38 => match random.below(8) {
            0 => format!("COPY {key} s{} REPLACE", random.below(3)),
            1 => format!("RENAME {key} s{}", random.below(3)),
            2 => format!("DEL {key}"),
            3 => format!("SET {key} text"),
            4 => format!("XGROUP {key}"),
            5 => format!("XREADGROUP GROUP {group} {consumer} STREAMS {key} {key} >"),
            _ => format!("TYPE {key}"),
        },
        _ => format!("DEL s{}", random.below(30)),
    }
}

/// Answers without times and without what tells of another way of storing.
pub fn without_times(answer: Answer) -> Answer {
    const NAMES: [&str; 4] = ["radix-tree-keys", "radix-tree-nodes", "seen-time", "idle"];
    let Answer::List(items) = answer else { return answer };
    let mut clean: Vec<Answer> = Vec::new();
    for item in items {
        let is_value =
            matches!(clean.last(), Some(Answer::Bulk(name)) if NAMES.contains(&name.as_str()));
        clean.push(if is_value { Answer::Null } else { without_times(item) });
    }
    // A pending entry: its ID, its consumer, its time, its deliveries.
    let is_id = matches!(clean.first(), Some(Answer::Bulk(id)) if id.contains('-'));
    match clean.as_mut_slice() {
        [_, Answer::Bulk(_), time @ Answer::Int(_), Answer::Int(_)] if is_id => {
            *time = Answer::Null
        }
        [_, time @ Answer::Int(_), Answer::Int(_)] if is_id => *time = Answer::Null,
        _ => {}
    }
    Answer::List(clean)
}

/// Where a history is answered otherwise: the line and both answers.
fn difference(ours: &mut Client, theirs: &mut Client, seed: u64, count: u64) -> Option<String> {
    let mut random = Random::stream(0x5354_5245, seed);
    let mut done: Vec<String> = Vec::new();
    for client in [&mut *ours, &mut *theirs] {
        client.gets("FLUSHALL", ok());
    }
    for _ in 0..count {
        let line = command(&mut random);
        done.push(line.clone());
        let (our, their) = (without_times(ours.ask(&line)), without_times(theirs.ask(&line)));
        if our != their {
            let before = done[done.len().saturating_sub(25)..].join("\n");
            return Some(format!(
                "{before}\nseed {seed}: {line}\n  ours   {our:?}\n  theirs {their:?}"
            ));
        }
    }
    None
}

#[test]
fn answers_are_those_of_redis() {
    let Some(peer) = Peer::start() else { return };
    let wanted: u64 = std::env::var(COMMANDS).map_or(4_000, |count| count.parse().unwrap());
    let server = Served::new();
    let (mut ours, mut theirs) = (server.client(), peer.client());
    let of_a_seed = 400;
    let seeds = 0..wanted.div_ceil(of_a_seed);
    let found: Vec<String> =
        seeds.filter_map(|seed| difference(&mut ours, &mut theirs, seed, of_a_seed)).collect();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    println!("{wanted} commands on streams, answered as redis-server does");
}
