//! Random commands, answered by this server and by redis-server: the answers must be the same.
//!
//! `OUTLAST_DIFFERENTIAL=COMMANDS[,SEED]` runs more of them. Without redis-server the test says so and passes.

use std::collections::BTreeMap;

use outlast_workloads::Random;

use crate::client::{Answer, Client, Served};
use crate::peer::Peer;

/// The number of commands, and a seed.
const COMMANDS: &str = "OUTLAST_DIFFERENTIAL";
/// Commands after which databases are emptied.
const EPISODE: usize = 300;

/// Commands by their words. `k` to `z` before a number or alone stand for something drawn, see [`word`]; a
/// word behind `?` is there or not, one behind `*` is drawn up to three times.
const TEMPLATES: &[&str] = &[
    "SET $s $v",
    "SET $s $v ?NX ?XX ?GET ?KEEPTTL",
    "SET $s $v EXAT 9999999999",
    "SET $s $v EX $i",
    "SETNX $s $v",
    "SETEX $s $i $v",
    "PSETEX $s 99999999 $v",
    "GET $s",
    "GETSET $s $v",
    "GETDEL $s",
    "GETEX $s ?PERSIST",
    "MGET *s",
    "MSET $s $v $s $v",
    "MSETNX $s $v $s $v",
    "MSET $s $v $s",
    "APPEND $s $v",
    "STRLEN $s",
    "SETRANGE $s $i $v",
    "GETRANGE $s $i $i",
    "SUBSTR $s $i $i",
    "INCR $s",
    "DECR $s",
    "INCRBY $s $i",
    "DECRBY $s $i",
    "SET $d $g",
    "INCRBYFLOAT $d $g",
    "HSET $j $m $g",
    "LCS $s $s ?LEN",
    "LCS $s $s IDX ?WITHMATCHLEN",
    "SETBIT $s $n $b",
    "GETBIT $s $i",
    "BITCOUNT $s",
    "BITCOUNT $s $i $i",
    "BITCOUNT $s $i $i $u",
    "BITPOS $s $b",
    "BITPOS $s $b $i",
    "BITPOS $s $b $i $i",
    "BITPOS $s $b $i $i $u",
    "BITCOUNT $s $i",
    "BITOP $o $s *s",
    "BITFIELD $s GET $t $n",
    "BITFIELD $s SET $t $n $i GET $t #$n",
    "BITFIELD $s OVERFLOW $w INCRBY $t $n $i",
    "BITFIELD_RO $s GET $t $n",
    "DEL *a",
    "UNLINK *a",
    "EXISTS *a",
    "TOUCH *a",
    "TYPE $a",
    "RENAME $a $a",
    "RENAMENX $a $a",
    "COPY $a $a ?REPLACE",
    "COPY $a $a DB $n",
    "EXPIRE $a $i",
    "EXPIREAT $a 9999999999 ?NX ?XX ?GT ?LT",
    "PEXPIREAT $a 9999999999000",
    "EXPIRETIME $a",
    "PEXPIRETIME $a",
    "PERSIST $a",
    "EXPIRE $a 0",
    "TTL nokey",
    "MOVE $a $n",
    "OBJECT REFCOUNT nokey",
    "OBJECT ENCODING nokey",
    "OBJECT what $a",
    "DBSIZE",
    "KEYS $p",
    "LPUSH $l *v",
    "RPUSH $l *v",
    "LPUSHX $l *v",
    "RPUSHX $l $v",
    "LPOP $l",
    "RPOP $l",
    "LPOP $l $n",
    "RPOP $l $i",
    "LLEN $l",
    "LRANGE $l $i $i",
    "LINDEX $l $i",
    "LSET $l $i $v",
    "LREM $l $i $v",
    "LTRIM $l $i $i",
    "LINSERT $l BEFORE $v $v",
    "LINSERT $l after $v $v",
    "LPOS $l $v",
    "LPOS $l $v RANK $i",
    "LPOS $l $v COUNT $n",
    "LPOS $l $v RANK $i COUNT $n MAXLEN $n",
    "RPOPLPUSH $l $l",
    "LMOVE $l $l LEFT RIGHT",
    "LMOVE $l $l $v LEFT",
    "LMPOP $n $l $l LEFT",
    "LMPOP 2 $l $l RIGHT COUNT $n",
    "BLPOP $l $l 0.01",
    "BRPOP $l 0.01",
    "BLMOVE $l $l LEFT LEFT 0.01",
    "BLMPOP 0.01 1 $l LEFT",
    "BRPOPLPUSH $l $l 0.01",
    "BLPOP $l x",
    "BLPOP $l -1",
    "SADD $e *m",
    "SREM $e *m",
    "SCARD $e",
    "SISMEMBER $e $m",
    "SMISMEMBER $e *m",
    "SMEMBERS $e",
    "SINTER *e",
    "SUNION *e",
    "SDIFF *e",
    "SINTERSTORE $e *e",
    "SUNIONSTORE $e *e",
    "SDIFFSTORE $e *e",
    "SMOVE $e $e $m",
    "SINTERCARD $n $e $e",
    "SINTERCARD 2 $e $e LIMIT $i",
    "SPOP $e 99",
    "SRANDMEMBER $e 0",
    "SADD $e $m",
    "SSCAN $e 0 COUNT 1000",
    "SSCAN $e x",
    "HSCAN $h 0 COUNT 1000 MATCH $p",
    "HSET $h $m $v $m $v",
    "HSET $h $m",
    "HSETNX $h $m $v",
    "HGET $h $m",
    "HMGET $h *m",
    "HMSET $h $m $v",
    "HDEL $h *m",
    "HLEN $h",
    "HSTRLEN $h $m",
    "HEXISTS $h $m",
    "HGETALL $h",
    "HKEYS $h",
    "HVALS $h",
    "HINCRBY $h $m $i",
    "HINCRBYFLOAT $j $m $g",
    "HRANDFIELD $h 0",
    "ZADD $z $f $m",
    "ZADD $q 0 $m",
    "ZADD $q 0 $m 0 $m 0 $m",
    "ZADD $z $f $m $f $m",
    "ZADD $z ?NX ?XX ?GT ?LT ?CH $f $m",
    "ZADD $z ?NX ?CH INCR $f $m",
    "ZADD $z $f",
    "ZINCRBY $z $f $m",
    "ZREM $z *m",
    "ZCARD $z",
    "ZSCORE $z $m",
    "ZMSCORE $z *m",
    "ZRANK $z $m",
    "ZREVRANK $z $m",
    "ZCOUNT $z $r $r",
    "ZLEXCOUNT $q $x $x",
    "ZRANGE $z $i $i ?WITHSCORES ?REV",
    "ZRANGE $z $r $r BYSCORE ?REV ?WITHSCORES",
    "ZRANGE $z $r $r BYSCORE LIMIT $i $i",
    "ZRANGE $q $x $x BYLEX ?REV",
    "ZRANGE $q $x $x BYLEX LIMIT $n $i",
    "ZREVRANGE $z $i $i ?WITHSCORES",
    "ZRANGEBYSCORE $z $r $r ?WITHSCORES",
    "ZRANGEBYSCORE $z $r $r LIMIT $i $i",
    "ZREVRANGEBYSCORE $z $r $r",
    "ZRANGEBYLEX $q $x $x",
    "ZREVRANGEBYLEX $q $x $x",
    "ZRANGESTORE $z $z $i $i ?REV",
    "ZRANGESTORE $z $z $r $r BYSCORE",
    "ZREMRANGEBYRANK $z $i $i",
    "ZREMRANGEBYSCORE $z $r $r",
    "ZREMRANGEBYLEX $q $x $x",
    "ZPOPMIN $z",
    "ZPOPMAX $z $n",
    "ZPOPMIN $z $i",
    "ZMPOP 2 $z $z MIN COUNT $n",
    "ZMPOP $n $z MAX",
    "BZPOPMIN $z 0.01",
    "BZMPOP 0.01 1 $z MIN",
    "ZUNION 2 $z $z ?WITHSCORES",
    "ZUNION $n $z $z WEIGHTS $f $f AGGREGATE $y WITHSCORES",
    "ZINTER 2 $z $z AGGREGATE $y WITHSCORES",
    "ZDIFF 2 $z $z WITHSCORES",
    "ZINTERCARD 2 $z $z",
    "ZINTERCARD 2 $z $e LIMIT $i",
    "ZUNIONSTORE $z 2 $z $e WEIGHTS $f $f",
    "ZINTERSTORE $z 2 $z $z AGGREGATE $y",
    "ZDIFFSTORE $z $n $z $z",
    "ZRANDMEMBER $z 0",
    "ZSCAN $z 0 COUNT 1000",
    "ZUNIONSTORE $z 0 $z",
    "ZUNIONSTORE $z 2 $e $l",
    "SORT $l",
    "SORT $l ALPHA ?DESC",
    "SORT $l LIMIT $i $i ALPHA",
    "SORT $e ALPHA",
    "SORT $z ALPHA ?DESC",
    "SORT $l BY nosort",
    "SORT $l ALPHA STORE $l",
    "SORT_RO $l ALPHA",
    "SORT $l DESC",
    "SORT $z BY nosort ?DESC",
    "SORT $l GET h*->m1 GET s* GET # ALPHA",
    "SORT $l STORE $l",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH $a",
    "UNWATCH",
    "ECHO $v",
    "PING",
    "PING $v",
    "SELECT $i",
    "SELECT 0",
    "NOSUCH $v",
    "GET",
    "CONFIG what",
    "CLIENT what",
    "SCRIPT what",
    "CONFIG GET",
    "CLIENT GETNAME",
    "CLIENT SETNAME",
    "OBJECT",
    "MEMORY",
    "PUBSUB what",
    "COMMAND what",
    "COMMAND COUNT x",
    "SLOWLOG what",
    "COMMAND GETKEYS $c",
    "COMMAND GETKEYS SET a b",
    "COMMAND GETKEYS MSET a b c d",
    "COMMAND GETKEYS ZUNIONSTORE $v $n a b",
    "COMMAND GETKEYS ZUNION 2 a b WITHSCORES",
    "COMMAND GETKEYS SORT a STORE b",
    "COMMAND GETKEYS LMPOP 2 a b LEFT",
    "COMMAND GETKEYS BLMPOP 1 2 a b LEFT",
    "COMMAND GETKEYS EVAL x 1 a",
    "COMMAND GETKEYS XREAD STREAMS a $i",
    "COMMAND GETKEYS XREAD COUNT $i STREAMS a b 0 0",
    "COMMAND GETKEYS XREAD BLOCK STREAMS STREAMS a 0",
    "COMMAND GETKEYS XREAD COUNT $i a 0",
    "COMMAND GETKEYS XREADGROUP GROUP STREAMS c STREAMS a b c 0",
    "COMMAND GETKEYS XREADGROUP GROUP g c NOACK STREAMS a",
    "COMMAND GETKEYS XREADGROUP GROUP g c",
    "COMMAND GETKEYS GET",
    "COMMAND GETKEYS PING a b",
    "COMMAND GETKEYS EVAL x $i a b",
    "COMMAND GETKEYS PING",
    "EVAL return{KEYS[1],ARGV[1]} 1 $a $v",
    "EVAL return(redis.call('GET',KEYS[1])) 1 $a",
    "EVAL return(redis.pcall('LPUSH',KEYS[1],ARGV[1])) 1 $a $v",
    "EVAL return $i $a",
    "EVALSHA abc 0",
    "EVAL return({1,2,{3,'x',false,true}}) 0",
    "EVAL return(tonumber(ARGV[1])) 0 $f",
    "SWAPDB $n $n",
    "WAIT 0 0",
];

/// A word by its letter.
fn word(random: &mut Random, letter: &str) -> Vec<u8> {
    let any = |random: &mut Random| *random.pick(&["s", "l", "e", "h", "z"]);
    let key = |random: &mut Random, kind: &str| {
        // One key in eight is of another type.
        let kind = if random.below(8) == 0 { any(random) } else { kind };
        format!("{kind}{}", random.below(3)).into_bytes()
    };
    let from = |random: &mut Random, words: &[&str]| random.pick(words).as_bytes().to_vec();
    match letter {
        "s" | "l" | "e" | "h" | "z" => key(random, letter),
        // Numbers that a double holds exactly: Redis adds long doubles.
        "d" | "j" => {
            let kind = if random.below(8) == 0 { "l" } else { letter };
            format!("{kind}{}", random.below(3)).into_bytes()
        }
        // Sorted sets whose scores are all the same.
        "q" => format!("q{}", random.below(2)).into_bytes(),
        "a" => {
            let kind = any(random);
            key(random, kind)
        }
        "v" => from(
            random,
            &[
                "",
                "a",
                "b",
                "foo",
                "foobar",
                "10",
                "-3",
                "3.5",
                "1e3",
                " 7",
                "0",
                "-0",
                "hello world",
                "007",
                "9223372036854775807",
                "abcabcabc",
                "\u{e4}\r\n",
                "1",
                "2",
                "inf",
                "nan",
                "0x10",
            ],
        ),
        "m" => {
            from(random, &["m1", "m2", "m3", "a", "b", "c", "", "10", "-1", "zz", "m with blank"])
        }
        "i" => from(
            random,
            &[
                "0",
                "1",
                "2",
                "3",
                "5",
                "-1",
                "-2",
                "-3",
                "-100",
                "100",
                "x",
                "",
                "1.5",
                "9223372036854775807",
                "-9223372036854775808",
                "99999999999999999999",
                "+1",
                "01",
                "4294967296",
                "7",
                "-7",
            ],
        ),
        "n" => from(random, &["0", "1", "2", "3", "5", "-1", "7", "8", "13", "x"]),
        "b" => from(random, &["0", "1", "0", "1", "2", "x"]),
        "u" => from(random, &["BIT", "BYTE", "bit", "x"]),
        "o" => from(random, &["AND", "OR", "XOR", "NOT", "nand"]),
        "t" => from(random, &["u8", "i8", "u4", "i16", "u63", "i64", "u64", "i0", "u1", "x8"]),
        "w" => from(random, &["WRAP", "SAT", "FAIL", "none"]),
        "f" => from(
            random,
            &[
                "1",
                "2",
                "-1",
                "3.5",
                "0",
                "-0",
                "inf",
                "-inf",
                "+inf",
                "nan",
                "x",
                "1e3",
                "0.1",
                "1e-7",
                "-1e300",
                "",
                "3",
                "2",
                "0x1p2",
                "123456789012",
                " 1",
                "1 ",
            ],
        ),
        "g" => from(random, &["1", "-1", "0.5", "3.0e3", "x", "1e5", "-2.25", "", "inf", "1 "]),
        "r" => from(
            random,
            &[
                "-inf", "+inf", "0", "1", "(1", "2", "(2", "-1", "3.5", "x", "(", "10", "(-1",
                "(inf",
            ],
        ),
        "x" => from(random, &["-", "+", "[a", "(a", "[m1", "(m2", "[zz", "a", "[", "(", "", "[c"]),
        "y" => from(random, &["SUM", "MIN", "MAX", "AVG"]),
        "p" => from(random, &["*", "s*", "m?", "[a-c]*", "x", "*1", "\\*", "[^a]*", "h[01]"]),
        "c" => from(random, &["GET", "NOSUCH", "ZADD", "DEL"]),
        other => panic!("no such letter: {other}"),
    }
}

fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let template = random.pick(TEMPLATES);
    let mut words = Vec::new();
    for part in template.split(' ') {
        match part.split_at(1) {
            ("$", letter) => words.push(word(random, letter)),
            ("#", letter) if !letter.is_empty() => {
                words.push([b"#", &word(random, &letter[1..])[..]].concat())
            }
            ("*", letter) => {
                for _ in 0..1 + random.below(3) {
                    words.push(word(random, letter));
                }
            }
            ("?", optional) => {
                if random.below(3) == 0 {
                    words.push(optional.as_bytes().to_vec());
                }
            }
            _ => words.push(part.as_bytes().to_vec()),
        }
    }
    words
}

/// An answer without the order that a set or hash does not have. `of_set` says that the key has a set.
fn ordered(command: &[Vec<u8>], answer: Answer, of_set: bool) -> Answer {
    fn sort(answer: Answer, chunk: usize, deep: bool) -> Answer {
        let Answer::List(items) = answer else { return answer };
        let items = match deep {
            true => items.into_iter().map(|item| sort(item, chunk, deep)).collect(),
            false => items,
        };
        let mut chunks: Vec<Vec<Answer>> = items.chunks(chunk).map(<[Answer]>::to_vec).collect();
        chunks.sort_by_key(|chunk| format!("{chunk:?}"));
        Answer::List(chunks.concat())
    }
    let name = String::from_utf8_lossy(&command[0]).to_lowercase();
    match name.as_str() {
        "smembers" | "sinter" | "sunion" | "sdiff" | "hkeys" | "hvals" | "keys" | "spop" => {
            sort(answer, 1, false)
        }
        "hgetall" => sort(answer, 2, false),
        "sscan" | "hscan" | "zscan" | "exec" | "sort" | "sort_ro" if name != "sort" || of_set => {
            sort(answer, 1, true)
        }
        _ => answer,
    }
}

fn ask(client: &mut Client, words: &[Vec<u8>]) -> Answer {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    client.send_words(&words).expect("the server listens");
    client.answer().expect("the server answers")
}

fn empty(client: &mut Client) {
    for line in ["DISCARD", "UNWATCH", "SELECT 0", "FLUSHALL"] {
        client.ask(line);
    }
}

#[test]
fn random_commands_are_answered_as_redis_does() {
    let Some(redis) = Peer::start() else { return };
    let given = std::env::var(COMMANDS).unwrap_or_default();
    let mut given = given.split(',').map(|number| number.parse::<u64>().ok());
    let commands = given.next().flatten().unwrap_or(2000) as usize;
    let seed = given.next().flatten().unwrap_or(1);
    let server = Served::with(64 << 20, |_| {});
    let (mut ours, mut theirs) = (server.client(), redis.client());
    let mut differences: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for episode in 0..commands.div_ceil(EPISODE) {
        let mut random = Random::new(seed << 32 | episode as u64);
        for client in [&mut ours, &mut theirs] {
            empty(client);
        }
        let mut history: Vec<String> = Vec::new();
        for _ in 0..EPISODE {
            let words = command(&mut random);
            let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            history.push(format!("{shown:?}"));
            // Of any name: a set gets another by RENAME and its kin. In a transaction the question is queued, on both.
            let of_set = words[0] == b"SORT" && {
                let kind = [b"TYPE".to_vec(), words[1].clone()];
                [&mut ours, &mut theirs].map(|client| ask(client, &kind))[1]
                    == Answer::Text("set".into())
            };
            let [mine, right] =
                [&mut ours, &mut theirs].map(|client| ordered(&words, ask(client, &words), of_set));
            if mine != right {
                let recent = history[history.len().saturating_sub(12)..].join("\n    ");
                let text = format!("{mine:?}\n  and not {right:?}\n  after\n    {recent}");
                let kind = shown.iter().take(2).map(|word| word.to_uppercase()).collect::<Vec<_>>();
                let kind = if kind[0] == "COMMAND" { kind.join(" ") } else { kind[0].clone() };
                differences.entry(kind).and_modify(|entry| entry.0 += 1).or_insert((1, text));
                // What follows would differ as well.
                break;
            }
        }
    }
    let all: Vec<String> = differences
        .iter()
        .map(|(kind, (count, text))| format!("{kind} ({count} times): {text}"))
        .collect();
    assert!(all.is_empty(), "seed {seed}: {} differences\n{}", all.len(), all.join("\n"));
    println!("{commands} commands of seed {seed} were answered as redis-server does");
}
