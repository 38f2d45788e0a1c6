//! Walks from the server's root: all types of values, streams with groups and what waits to be freed. A sound pool has no
//! findings; a planted leak, a block with two owners and a wrong count are found.

use outlast::inspect::{CheckReport, Finding};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{BlockKind, Pool, PoolOffset, Runner, Transact};
use outlast_pmem::{Heap, Medium};
use outlast_redis::{Engine, WALKER};
use outlast_workloads::Random;

fn open() -> OpenOptions {
    OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::default() }
}

struct Databases {
    pool: Pool<Heap>,
    engine: Engine,
}

impl Databases {
    fn new() -> Self {
        let create = CreateOptions { lanes: 1, lane_bytes: 4 << 20, ..CreateOptions::default() };
        let pool = Pool::create_on(Heap::new(32 << 20), &create, &open()).unwrap();
        let engine = pool.lane().unwrap().run(|tx| Engine::open_with(tx, (1, 2))).unwrap();
        Self { pool, engine }
    }

    fn run(&mut self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let engine = &mut self.engine;
        let answer = self.pool.lane().unwrap().run(|tx| engine.run(tx, &words)).unwrap();
        assert!(answer.first() != Some(&b'-'), "{line}: {}", String::from_utf8_lossy(&answer));
    }

    /// A step of the freeing of what is discarded. `false` when nothing is left.
    fn free_some(&mut self) -> bool {
        let engine = &mut self.engine;
        self.pool.lane().unwrap().run(|tx| engine.free_some(tx)).unwrap()
    }

    /// The pool as it is now.
    fn copy(&self) -> RecoveredPool<Heap> {
        let image = Heap::from_bytes(&self.pool.medium().to_bytes());
        UnrecoveredPool::open(image).unwrap().recover().unwrap()
    }

    /// Gives a key's value the structure that former versions gave it.
    fn make_former(&mut self, key: &str) -> bool {
        let engine = &mut self.engine;
        self.pool.lane().unwrap().run(|tx| engine.make_former(tx, key.as_bytes())).unwrap()
    }

    fn check(&self, when: &str) {
        let report = check(&self.copy());
        assert_eq!(report.findings, [], "{when}");
        assert_eq!(report.reachable, Some(report.blocks), "{when}");
    }
}

fn check(pool: &RecoveredPool<Heap>) -> CheckReport {
    pool.check_by(&[WALKER], &mut |_| {})
}

/// Keys of every type, small and large, in two databases, some with deadlines.
fn fill(databases: &mut Databases) {
    for n in 0..300 {
        databases.run(&format!("SET key:{n} value-{n}"));
    }
    for n in (0..300).step_by(3) {
        databases.run(&format!("EXPIRE key:{n} 1000"));
    }
    databases.engine.database = 5;
    databases.run(&format!("SET long {}", "x".repeat(100_000)));
    for n in 0..200 {
        databases.run(&format!("HSET hash field:{n} {n}"));
        databases.run(&format!("RPUSH list item:{n} {}", "long".repeat(n)));
        databases.run(&format!("SADD set member:{n}"));
        databases.run(&format!("ZADD zset {n} {}", "m".repeat(1 + n)));
        databases.run(&format!("XADD stream {}-1 field {}", n + 1, "v".repeat(n)));
        databases.run(&format!("HSET hash2 field:{n} {n}"));
    }
    databases.run("HSET small a 1 b 2");
    databases.run("XGROUP CREATE stream one 0");
    databases.run("XGROUP CREATE stream two 0");
    databases.run("XREADGROUP GROUP one alice COUNT 70 STREAMS stream >");
    databases.run("XREADGROUP GROUP one bob COUNT 30 STREAMS stream >");
    databases.run("XREADGROUP GROUP two carol COUNT 5 STREAMS stream >");
    databases.engine.database = 0;
}

#[test]
fn a_sound_pool_is_silent_at_every_step() {
    let mut databases = Databases::new();
    databases.check("empty");
    fill(&mut databases);
    databases.check("filled");
    databases.run("COPY key:1 copy");
    databases.engine.database = 5;
    for line in ["COPY list list2", "COPY zset zset2", "LPUSH list2 a", "LPOP list2 150"] {
        databases.run(line);
        databases.check(line);
    }
    for (key, line) in [("list2", "RPUSH list2 b"), ("zset2", "ZADD zset2 1 a")] {
        assert!(databases.make_former(key));
        databases.check(key);
        databases.run(&format!("COPY {key} former-{key}"));
        databases.run(line);
        databases.check(line);
    }
    for line in
        ["XTRIM stream MAXLEN 50", "DEL hash2", "XGROUP DESTROY stream two", "LTRIM list 20 60"]
    {
        databases.run(line);
        databases.check(line);
    }
    databases.run("DEL list set zset stream hash long list2 zset2 former-list2 former-zset2");
    databases.engine.database = 0;
    databases.run("FLUSHDB");
    databases.check("discarded");
    let mut steps = 0;
    while databases.free_some() {
        steps += 1;
        if steps % 20 == 0 {
            databases.check("being freed");
        }
    }
    assert!(steps > 40, "{steps}");
    databases.check("freed");
}

/// Commands by chance, and the freeing in between.
#[test]
fn sound_pools_by_chance_are_silent() {
    let mut random = Random::new(11);
    let mut databases = Databases::new();
    for step in 0..1500 {
        databases.engine.database = random.below(2) as usize;
        let (key, n) = (random.below(6), random.below(90));
        let long = "l".repeat(random.below(400) as usize);
        let line = match random.below(22) {
            0 => format!("SET s{key} {n}{long}"),
            1 => format!("DEL s{key} h{key} l{key} t{key} z{key} x{key}"),
            2 | 3 => format!("HSET h{key} f{n}{long} {n}"),
            4 => format!("HDEL h{key} f{n}"),
            5 | 6 => format!("RPUSH l{key} {n}{long} {n}"),
            7 => format!("LPOP l{key} {n}"),
            8 => format!("SADD t{key} m{n}{long} m{n}"),
            9 => format!("ZADD z{key} {n} m{n}{long}"),
            10 => format!("XADD x{key} MAXLEN 60 * f {n}{long}"),
            11 => format!("EXPIRE h{key} 100000"),
            12 => format!("PERSIST h{key}"),
            13 | 14 => format!("LPUSH l{key} {n}{long} {n}"),
            15 => format!("RPOP l{key} {n}"),
            16 => format!("LINSERT l{key} AFTER {n} {long}"),
            17 => format!("LREM l{key} 0 {n}"),
            18 => format!("ZREM z{key} m{n} m{}", n + 1),
            19 => format!("ZPOPMAX z{key} {n}"),
            20 => {
                databases.make_former(&format!("l{key}"));
                databases.make_former(&format!("z{key}"));
                continue;
            }
            _ => {
                databases.free_some();
                continue;
            }
        };
        databases.engine.now_ms += 1;
        databases.run(&line);
        if step % 300 == 0 {
            databases.check(&line);
        }
    }
    databases.check("at the end");
}

#[test]
fn planted_leaks_are_found() {
    let mut databases = Databases::new();
    fill(&mut databases);
    let leaks = [16, 200, 70_000].map(|bytes| {
        let mut lane = databases.pool.lane().unwrap();
        lane.run(|tx| tx.alloc(bytes, BlockKind::General)).unwrap()
    });
    let report = check(&databases.copy());
    let mut found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| match finding {
            Finding::Leaked { at, .. } => *at,
            other => panic!("{other}"),
        })
        .collect();
    found.sort_unstable();
    let mut leaks = leaks.to_vec();
    leaks.sort_unstable();
    assert_eq!(found, leaks);
    let (kind, about) = report.root.unwrap();
    assert_eq!((kind, about.as_str()), ("redis", "databases of `outlast serve`, 308 keys"));
}

/// The words of the pool that hold one value, wherever they begin.
fn places(pool: &RecoveredPool<Heap>, word: u64) -> Vec<PoolOffset> {
    let bytes = pool.medium().to_bytes();
    let heap_at = pool.header().geometry.heap_at as usize;
    let wanted = word.to_le_bytes();
    let places = bytes[heap_at..].windows(8).enumerate().filter(|(_, window)| *window == wanted);
    places.map(|(at, _)| PoolOffset((heap_at + at) as u64)).collect()
}

#[test]
fn blocks_with_two_owners_are_found() {
    let mut databases = Databases::new();
    fill(&mut databases);
    for (one, other) in [
        ("db[5][\"hash\"]", "db[5][\"hash2\"]"),
        ("db[5][\"set\"]", "db[5][\"zset\"]"),
        (
            "db[5][\"stream\"].groups[\"one\"].consumers[\"alice\"]",
            "db[5][\"stream\"].groups[\"one\"].consumers[\"bob\"]",
        ),
        ("db[5][\"stream\"].groups[\"one\"]", "db[5][\"stream\"].groups[\"two\"]"),
        ("db[5]", "db[0]"),
    ] {
        let pool = databases.copy();
        let all = pool.blocks_by(&[WALKER], &mut CheckReport::default());
        // Of blocks with one path the first that something holds by its whole offset is meant.
        let first = |path: &str| {
            let of_path = all.iter().filter(|block| block.path.as_deref() == Some(path));
            let found = of_path.map(|block| block.at).find(|at| !places(&pool, at.0).is_empty());
            found.unwrap_or_else(|| panic!("no block of {path}"))
        };
        let (from, to) = (first(one), first(other));
        for place in places(&pool, from.0) {
            pool.medium().store(place, &to.0.to_le_bytes());
        }
        let report = check(&pool);
        let twice = |finding: &Finding| *finding == Finding::ReachedTwice { at: to };
        assert!(report.findings.iter().any(twice), "{one} as {other}: {:?}", report.findings);
    }
}

/// Counts that the server goes by are compared with what is there.
#[test]
fn wrong_counts_are_found() {
    let mut databases = Databases::new();
    fill(&mut databases);
    let pool = databases.copy();
    let root = pool.root().unwrap().unwrap().0;
    // Keys with a deadline in database 0.
    let counted = pool.medium().load_u64(root.plus(72));
    assert_eq!(counted, 100);
    pool.medium().store_u64(root.plus(72), 99);
    // Keys of database 5.
    let table = PoolOffset(pool.medium().load_u64(root.plus(64 + 5 * 32)));
    assert_eq!(pool.medium().load_u64(table), 8);
    pool.medium().store_u64(table, 9);
    let found: Vec<_> = check(&pool).findings.iter().map(ToString::to_string).collect();
    let expected = [
        format!("damaged at {}: 99 keys with a deadline are counted, of 100", root.plus(72)),
        format!("damaged at {table}: 9 entries are counted, of 8"),
    ];
    assert_eq!(found, expected);
}

/// A score in the order of a sorted set is compared with the one that its member has.
#[test]
fn a_score_that_its_member_has_not_is_found() {
    let mut databases = Databases::new();
    fill(&mut databases);
    let pool = databases.copy();
    let before = check(&pool).findings.len();
    // The sortable bits of 77, which stand in the order only, become those of the next number above.
    let bits = 77_f64.to_bits() | 1 << 63;
    let found = places(&pool, bits);
    assert_eq!((before, found.len()), (0, 1));
    pool.medium().store(found[0], &(bits + 1).to_le_bytes());
    let found: Vec<_> = check(&pool).findings.iter().map(ToString::to_string).collect();
    assert!(
        found.len() == 1 && found[0].contains("a score in the order that its member has not"),
        "{found:?}"
    );
}

/// Whatever stands in a pool, a walk ends and does not panic.
#[test]
fn no_content_keeps_a_walk_from_its_end() {
    let mut databases = Databases::new();
    fill(&mut databases);
    let image = databases.pool.medium().to_bytes();
    let mut random = Random::new(5);
    for _ in 0..8 {
        let image = Heap::from_bytes(&image);
        let pool = UnrecoveredPool::open(image).unwrap().recover().unwrap();
        let blocks: Vec<_> =
            pool.allocated_blocks(&mut CheckReport::default()).into_iter().collect();
        for _ in 0..30 {
            let (at, bytes) = blocks[random.below(blocks.len() as u64) as usize];
            let word = at.plus(random.below(bytes / 8) * 8);
            let value = match random.below(3) {
                0 => blocks[random.below(blocks.len() as u64) as usize].0.0,
                1 => random.below(u64::MAX),
                _ => random.below(64),
            };
            pool.medium().store_u64(word, value);
        }
        check(&pool);
    }
}
