//! Histories of commands, crashed wherever a cache may lose something, recovered and judged.
//!
//! The fault model is that of `docs/fault-model.md`: words persist line by line, in any order that fences
//! allow. Each step of a history is one transaction, as a round of the server makes it, and is
//! acknowledged after its commit. After a crash the databases must be those after as many steps as were
//! acknowledged, or after one more. Recoveries are crashed, too.

use outlast::medium::{CreateOptions, Medium, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Pool, Runner, Scheme};
use outlast_crash::front::{Program, by_chance, steps_ahead};
use outlast_crash::{ImageMedium, Violation};
use outlast_pmem::{Mark, Recorder};
use outlast_redis::Engine;
use outlast_trace::TxId;
use outlast_workloads::Random;

/// Executions of recovery for a history of one scheme.
const IMAGES: u64 = 250;

fn open(scheme: Scheme) -> OpenOptions {
    OpenOptions { stream_from: Some(1), lock_stripes: 64, ..OpenOptions::with_scheme(scheme) }
}

/// Commands of one transaction: lines of words, or `free`, which frees what was discarded, or `former` and a key, which
/// gives its value the structure that former versions gave it.
type Step = Vec<String>;

fn run_step(
    engine: &mut Engine,
    tx: &mut dyn outlast::Transact,
    step: &[String],
) -> Result<(), outlast::Abort> {
    for line in step {
        if line == "free" {
            while engine.free_some(tx)? {}
            continue;
        }
        if let Some(key) = line.strip_prefix("former ") {
            engine.make_former(tx, key.as_bytes())?;
            continue;
        }
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let answer = engine.run(tx, &words)?;
        assert!(answer.first() != Some(&b'-'), "{line}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

/// Everything that clients could see, as text.
fn contents(engine: &mut Engine, tx: &mut dyn outlast::Transact) -> Result<String, outlast::Abort> {
    let keys = engine.run(tx, &[b"KEYS", b"*"])?;
    let text = String::from_utf8_lossy(&keys).into_owned();
    let mut names: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
    names.sort_unstable();
    let mut all = String::new();
    for name in names {
        let key = name.as_bytes();
        let kind = engine.run(tx, &[b"TYPE", key])?;
        let value = match &kind[1..kind.len() - 2] {
            b"string" => engine.run(tx, &[b"GET", key])?,
            b"hash" => sorted(engine, tx, &[b"HGETALL", key], 2)?,
            b"list" => engine.run(tx, &[b"LRANGE", key, b"0", b"-1"])?,
            b"set" => sorted(engine, tx, &[b"SMEMBERS", key], 1)?,
            b"stream" => engine.run(tx, &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])?,
            _ => engine.run(tx, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])?,
        };
        let deadline = engine.run(tx, &[b"PEXPIRETIME", key])?;
        for part in [key, &value, &deadline] {
            all.push_str(&String::from_utf8_lossy(part).replace("\r\n", " "));
        }
        all.push('\n');
    }
    let size = engine.run(tx, &[b"DBSIZE"])?;
    Ok(all + &String::from_utf8_lossy(&size))
}

/// The members of an answer in an order that does not depend on the table.
fn sorted(
    engine: &mut Engine,
    tx: &mut dyn outlast::Transact,
    words: &[&[u8]],
    step: usize,
) -> Result<Vec<u8>, outlast::Abort> {
    let answer = engine.run(tx, words)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let items: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
    let mut groups: Vec<String> = items.chunks(step).map(|group| group.join("=")).collect();
    groups.sort_unstable();
    Ok(groups.join(",").into_bytes())
}

/// A pool's secret, so that a history is the same each time.
const SECRET: (u64, u64) = (1, 2);

fn start<M: Medium>(medium: M, scheme: Scheme) -> Result<Pool<M>, outlast::PoolError> {
    UnrecoveredPool::open(medium)?.recover()?.start(&open(scheme))
}

/// The databases after each step: those before the first at 0.
fn states(steps: &[Step]) -> Vec<String> {
    let medium = outlast_pmem::Heap::new(<History as Program>::POOL_BYTES);
    let pool = Pool::create_on(medium, &create(), &open(Scheme::Swift)).unwrap();
    let mut lane = pool.lane().unwrap();
    let mut engine = lane.run(|tx| Engine::open_with(tx, SECRET)).unwrap();
    let mut states = vec![lane.run(|tx| contents(&mut engine, tx)).unwrap()];
    for step in steps {
        lane.run(|tx| run_step(&mut engine, tx, step)).unwrap();
        states.push(lane.run(|tx| contents(&mut engine, tx)).unwrap());
    }
    states
}

fn create() -> CreateOptions {
    CreateOptions {
        lanes: 1,
        lane_bytes: 32 << 10,
        chunk_bytes: Some(4096),
        uuid: Some(uuid::Uuid::from_u128(7)),
        ..CreateOptions::default()
    }
}

/// A history under a scheme.
struct History {
    scheme: Scheme,
    steps: Vec<Step>,
    /// The databases after each step: those before the first at 0.
    states: Vec<String>,
    /// A bug: each step is committed in two parts, a script at its [`CUT`].
    splits: bool,
}

/// Where a script with a bug is committed for the first time.
const CUT: &str = "--[[cut]]";

/// The parts of a step that are transactions of their own.
fn parts(step: &[String], splits: bool) -> [Step; 2] {
    let (first, rest) = step.split_at(if splits { step.len() / 2 } else { 0 });
    match rest {
        [script] if splits && script.contains(CUT) => {
            let words: Vec<&str> = script.splitn(3, ' ').collect();
            let (start, end) = words[1].split_once(CUT).unwrap_or_default();
            [start, end].map(|half| vec![format!("EVAL {half} {}", words[2])])
        }
        _ => [first.to_vec(), rest.to_vec()],
    }
}

impl History {
    fn new(scheme: Scheme, steps: Vec<Step>) -> Self {
        Self { scheme, states: states(&steps), steps, splits: false }
    }
}

impl Program for History {
    type Found = String;

    const POOL_BYTES: u64 = 512 << 10;

    fn prepare(&self, medium: &Recorder) {
        let pool = Pool::create_on(medium, &create(), &open(self.scheme)).unwrap();
        pool.lane().unwrap().run(|tx| Engine::open_with(tx, SECRET)).unwrap();
    }

    fn run(&self, medium: &Recorder) {
        let pool = start(medium, self.scheme).unwrap();
        let mut lane = pool.lane().unwrap();
        let mut engine = lane.run(|tx| Engine::open(tx)).unwrap();
        for (index, step) in (1..).zip(&self.steps) {
            for part in parts(step, self.splits) {
                lane.run(|tx| run_step(&mut engine, tx, &part)).unwrap();
            }
            medium.mark(Mark::Ack(TxId(index)));
        }
    }

    fn recover(&self, image: &ImageMedium) -> Result<String, String> {
        let pool = start(image, self.scheme).map_err(|error| error.to_string())?;
        let mut lane = pool.lane().map_err(|error| error.to_string())?;
        let found = lane.run(|tx| {
            let mut engine = Engine::open(tx)?;
            contents(&mut engine, tx)
        });
        found.map_err(|error| error.to_string())
    }

    fn judge(&self, found: &String, acked: usize) -> Result<(), Violation> {
        match steps_ahead(&self.states, acked, found) {
            Some(_) => Ok(()),
            None => Err(format!("after {acked} steps: {found}").into()),
        }
    }
}

/// A history that a seed draws: steps of one to four commands over few keys, so that they meet.
fn history(seed: u64) -> Vec<Step> {
    let mut random = Random::stream(0x5245_4449, seed);
    (0..16).map(|_| (0..1 + random.below(4)).map(|_| command(&mut random)).collect()).collect()
}

/// A command that no state of the databases refuses: each kind of value has keys of its own.
fn command(random: &mut Random) -> String {
    let (k, n, m) = (random.below(3), random.below(40), random.below(40));
    let long = "x".repeat(if random.below(6) == 0 { 700 } else { random.below(40) as usize });
    let many = |f: &dyn Fn(u64) -> String| -> String { (n..n + 1 + m / 2).map(f).collect() };
    match random.below(49) {
        0 => format!("SET s{k} {n}{long}"),
        1 => format!("SETRANGE s{k} {m} y{long}"),
        2 => format!("APPEND s{k} {n}{long}"),
        3 => format!("SETBIT s{k} {} 1", n * 31),
        4 => format!("INCRBY n{k} {n}"),
        5 => format!("MSET n0 {n} n1 {m} n2 0"),
        6 => format!("GETDEL s{k}"),
        7 => format!("HSET h{k} f{n} v{long} g{m} {n}"),
        8 => format!("HSET h{k}{}", many(&|i| format!(" f{i} {i}{long}"))),
        9 => format!("HINCRBY h{k} n{n} {m}"),
        10 => format!("HDEL h{k}{}", many(&|i| format!(" f{i}"))),
        11 => format!("RPUSH l{k}{}", many(&|i| format!(" i{i}"))),
        12 => format!("LPUSH l{k} {n}{long}"),
        13 => format!("LPOP l{k} {}", n / 4 + 1),
        14 => format!("LREM l{k} 0 i{n}"),
        15 => format!("LTRIM l{k} {} -2", m / 8),
        16 => format!("RPOPLPUSH l{k} l{}", (k + n) % 3),
        17 => format!("SADD t{k}{}", many(&|i| format!(" m{i}"))),
        18 => format!("SREM t{k}{}", many(&|i| format!(" m{i}"))),
        19 => format!("SMOVE t{k} t{} m{m}", (k + 1) % 3),
        20 => format!("SUNIONSTORE t{k} t0 t1"),
        21 => format!("ZADD z{k}{}", many(&|i| format!(" {} m{i}", i * 7 % 11))),
        22 => format!("ZINCRBY z{k} {m} m{n}"),
        23 => format!("ZREMRANGEBYSCORE z{k} {} {}", n / 4, m / 4),
        24 => format!("ZINTERSTORE z{k} 2 z0 z1"),
        25 => format!("PEXPIREAT {}{k} {}", ["s", "h", "l", "t", "z"][m as usize % 5], 5_000 + n),
        26 => format!("PERSIST h{k}"),
        27 => format!("COPY h{k} h{} REPLACE", (k + 1) % 3),
        28 => format!("DEL l{k} z{} h{k}", (k + 1) % 3),
        29..=32 => {
            let keys = format!("4 n{k} l{k} h{k} z{k}");
            format!("EVAL {} {keys} {n}{long}", script([COUNTS, FAILS, MOVES][m as usize % 3]))
        }
        33 | 34 => format!("XADD x{k} * f{n} v{long} g {m}"),
        35 => format!("XADD x{k} MAXLEN {} * f{n} v{long}", m / 2),
        36 => format!("XTRIM x{k} MAXLEN {}", n / 4),
        37 => format!("XDEL x{k} 0-{n} 0-{m}"),
        38 => format!("XACK x{k} g 0-{n} 0-{m}"),
        39 | 40 => format!("EVAL {} 1 x{k} c{} {}", script(DELIVERS), m % 3, 1 + n / 4),
        41 => format!("EVAL {} 1 x{k} c{}", script(CLAIMS), m % 3),
        42 => format!("COPY x{k} x{} REPLACE", (k + 1) % 3),
        43 => format!("former l{k}"),
        44 => format!("former z{k}"),
        45 => format!("RPOP l{k} {}", n / 4 + 1),
        46 => format!("LPUSH l{k}{}", many(&|i| format!(" j{i}{long}"))),
        47 => format!("ZREM z{k}{}", many(&|i| format!(" m{i}"))),
        _ => "free".to_owned(),
    }
}

/// Its key is a stream, which gets entries and a group that is given some.
const DELIVERS: &str = "redis.pcall('xgroup', 'create', KEYS[1], 'g', '0', 'mkstream') --[[cut]]
    for i = 1, ARGV[2] do redis.call('xadd', KEYS[1], '*', 'field', i) end
    redis.call('xreadgroup', 'group', 'g', ARGV[1], 'count', ARGV[2], 'streams', KEYS[1], '>')";

/// Entries of another consumer change hands, or the group goes.
const CLAIMS: &str =
    "redis.pcall('xautoclaim', KEYS[1], 'g', ARGV[1], 0, '-', 'count', 5) --[[cut]]
    redis.pcall('xgroup', 'delconsumer', KEYS[1], 'g', 'c0')
    if ARGV[1] == 'c2' then redis.pcall('xgroup', 'destroy', KEYS[1], 'g') end";

/// Its keys are a counter, a list, a hash and a sorted set.
const COUNTS: &str = "redis.call('incr', KEYS[1]) --[[cut]]
    local n = redis.call('get', KEYS[1])
    redis.call('rpush', KEYS[2], n, ARGV[1])
    redis.call('hset', KEYS[3], ARGV[1], redis.call('llen', KEYS[2]))
    for i = 1, n % 8 do redis.call('zadd', KEYS[4], i, i .. ARGV[1]) end";

/// Its second command is refused, and what the others store stays.
const FAILS: &str = "redis.call('incr', KEYS[1]) --[[cut]]
    assert(not pcall(redis.call, 'incr', KEYS[2]) or redis.call('del', KEYS[2]))
    redis.call('rpush', KEYS[2], ARGV[1])";

/// Its stores depend on the values it finds.
const MOVES: &str = "for _, item in ipairs(redis.call('lrange', KEYS[2], 0, 5)) do
    redis.call('zincrby', KEYS[4], #item, item) redis.call('lrem', KEYS[2], 1, item) end --[[cut]]
    if redis.call('zcard', KEYS[4]) > 9 then redis.call('zpopmin', KEYS[4], 5) end
    redis.call('incr', KEYS[1])";

/// A script as one word of a line.
fn script(text: &str) -> String {
    text.replace([' ', '\n'], "\t")
}

fn steps(lines: &[&str]) -> Vec<Step> {
    lines.iter().map(|line| line.split("; ").map(str::to_owned).collect()).collect()
}

const SCHEMES: [Scheme; 5] =
    [Scheme::Swift, Scheme::Redo, Scheme::Undo, Scheme::RedoArchapt, Scheme::UndoArchapt];

fn crash_all(name: &str, steps: &[Step]) {
    for scheme in SCHEMES {
        let report = History::new(scheme, steps.to_vec()).every_image(IMAGES);
        let failures: Vec<String> = report.failures().map(|found| format!("{found:?}")).collect();
        assert!(failures.is_empty(), "{name} under {scheme}: {failures:?}");
    }
}

#[test]
fn strings_and_deadlines_survive_crashes() {
    let long = "x".repeat(300);
    crash_all(
        "strings",
        &steps(&[
            "SET a 1; SET b 2",
            "INCR a",
            &format!("APPEND b {long}"),
            "SETRANGE b 5 yyy; PEXPIREAT a 5000",
            "PERSIST a; GETDEL b",
            "MSET b 1 c 2 d 3; RENAME c e; COPY e f",
            "DEL a d",
        ]),
    );
}

#[test]
fn collections_survive_crashes_while_they_become_large() {
    let field = "v".repeat(400);
    let item = "i".repeat(170);
    crash_all(
        "hash",
        &steps(&[
            "HSET h a 1 b 2",
            &format!("HSET h c {field} d {field}"),
            &format!("HSET h e {field}; HDEL h a"),
            "HINCRBY h n 5; HDEL h c d",
            "DEL h",
            "free",
        ]),
    );
    crash_all(
        "list",
        &steps(&[
            "RPUSH l a b c; LPUSH l z",
            &format!("RPUSH l {item} {item} {item} {item} {item}"),
            &format!("RPUSH l {item} d; LINSERT l BEFORE b y"),
            "LPOP l; RPOP l; LREM l 0 y",
            "LTRIM l 1 2; LMOVE l m LEFT RIGHT",
            "DEL l m",
            "free",
        ]),
    );
}

#[test]
fn sets_and_tables_survive_crashes_while_they_grow_and_shrink() {
    let members = |from: usize, end: usize| -> String {
        (from..end).map(|index| format!(" member-{index:04}-{}", "m".repeat(30))).collect()
    };
    crash_all(
        "set",
        &steps(&[
            &format!("SADD s{}", members(0, 20)),
            &format!("SADD s{}", members(20, 40)),
            &format!("SREM s{}", members(0, 38)),
            &format!("SMOVE s t{}", members(39, 40)),
            "FLUSHALL",
            "free",
        ]),
    );
    let scored: String =
        (0..30).map(|index| format!(" {} m{index}-{}", index * 7 % 11, "z".repeat(30))).collect();
    crash_all(
        "zset",
        &steps(&[
            "ZADD z 1 a 2 b",
            &format!("ZADD z{scored}"),
            "ZINCRBY z 5 a; ZPOPMIN z",
            "ZREMRANGEBYSCORE z 3 8",
            "ZUNIONSTORE y 1 z; DEL z",
            "free",
        ]),
    );
    // Keys enough that the table of keys splits its buckets.
    let keys: Vec<String> = (0..24).map(|index| format!("SET key{index} {index}")).collect();
    let gone: String = (0..22).map(|index| format!(" key{index}")).collect();
    crash_all(
        "keys",
        &steps(&[
            &keys[..12].join("; "),
            &keys[12..].join("; "),
            &format!("DEL{gone}"),
            "SWAPDB 0 1",
        ]),
    );
}

/// Words of a command, one for each number.
fn words(numbers: std::ops::Range<usize>, word: impl Fn(usize) -> String) -> String {
    numbers.map(|number| format!(" {}", word(number))).collect()
}

#[test]
fn lists_with_open_ends_survive_crashes() {
    let item = |number: usize| format!("item-{number:03}-{}", "i".repeat(50));
    let long = "l".repeat(170);
    let many = format!("RPUSH l{}", words(0..30, item));
    crash_all(
        "ends",
        &steps(&[
            &many,
            &format!("LPUSH l{} {long}", words(30..40, item)),
            "LPOP l 14",
            "RPOP l 9; LPUSH l a",
            &format!("LINSERT l BEFORE {} b; LSET l 2 {long}", item(15)),
            &format!("LREM l 0 {}; LTRIM l 1 -2", item(12)),
            "COPY l m; DEL l",
            "free",
            "LPOP m 40; free",
        ]),
    );
    crash_all(
        "former lists",
        &steps(&[
            &many,
            "former l",
            &format!("LPUSH l c; RPUSH l {long}"),
            "RPOP l 2; LPOP l 3; free",
            "former l; free",
            "LPOP l 2",
            "former l; EXPIREAT l 5000",
            "LPUSH l d; PERSIST l",
            "former l; COPY l m",
            "LPOP l 40; DEL m",
            "free",
        ]),
    );
}

#[test]
fn orders_of_scores_survive_crashes() {
    let member = |number: usize| format!("m{number:03}-{}", "z".repeat(24));
    let scored = |number: usize| format!("{} {}", number * 7 % 45, member(number));
    let many = format!("ZADD z{}", words(0..35, scored));
    crash_all(
        "scores",
        &steps(&[
            &many,
            &format!("ZADD z{}", words(35..70, scored)),
            &format!("ZINCRBY z 0.5 {}; ZADD z 100 {}", member(3), member(4)),
            "ZPOPMIN z 16; ZPOPMAX z 16",
            &format!("ZREM z{}", words(5..30, member)),
            "COPY z y; DEL z",
            "free",
            "ZREMRANGEBYRANK y 0 -1; free",
        ]),
    );
    crash_all(
        "former sorted sets",
        &steps(&[
            &many,
            "former z; free",
            &format!("ZADD z 3.5 {}; ZREM z {}", member(1), member(2)),
            &format!("ZADD z{}; COPY z y", words(35..50, scored)),
            "ZPOPMIN z 20; DEL z",
            "free",
        ]),
    );
}

#[test]
fn streams_and_groups_survive_crashes() {
    let long = "v".repeat(200);
    let many: Vec<String> = (0..24).map(|index| format!("XADD x * field{index} v")).collect();
    crash_all(
        "streams",
        &steps(&[
            "XGROUP CREATE x g 0 MKSTREAM; XADD x * a 1",
            &format!("XADD x * b 2 c 3; XADD x * d {long}"),
            "XREADGROUP GROUP g one COUNT 2 STREAMS x >",
            "XACK x g 0-1; XCLAIM x g two 0 0-2",
            &many.join("; "),
            "XREADGROUP GROUP g one COUNT 20 STREAMS x >; XDEL x 0-4",
            "XTRIM x MAXLEN 3",
            "COPY x y; XGROUP DESTROY x g",
            "DEL x; XGROUP DELCONSUMER y g one",
            "FLUSHALL",
            "free",
        ]),
    );
}

#[test]
fn scripts_survive_crashes_wholly() {
    let line = |text: &str| format!("EVAL {} 4 n l h z argument", script(text));
    crash_all("scripts", &steps(&[&line(COUNTS), &line(FAILS), &line(MOVES), &line(COUNTS)]));
}

#[test]
fn a_script_in_two_transactions_is_found() {
    for text in [COUNTS, FAILS, MOVES] {
        let line = |text: &str| format!("EVAL {} 4 n l h z argument", script(text));
        let steps = steps(&["RPUSH l a b c", &line(text), &line(text)]);
        let mut history = History::new(Scheme::Swift, steps);
        assert!(history.sample(1, 300).failures.is_empty(), "{text}");
        history.splits = true;
        assert!(!history.sample(1, 300).failures.is_empty(), "{text}");
    }
}

#[test]
fn histories_by_chance_survive_crashes_and_crashes_of_recoveries() {
    by_chance("histories", |seed| {
        History::new(SCHEMES[seed as usize % SCHEMES.len()], history(seed))
    });
}

#[test]
fn a_step_in_two_transactions_is_found() {
    let steps = steps(&["SET a 1; SET b 2", "INCR a; HSET h f 1", "DEL a; DEL b"]);
    let history = History { splits: true, ..History::new(Scheme::Swift, steps) };
    assert!(!history.sample(1, 200).failures.is_empty());
}
