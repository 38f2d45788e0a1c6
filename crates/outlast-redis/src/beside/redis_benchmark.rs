//! The tests of `redis-benchmark`, each on data that it can work on.

use super::{BesideError, Running, Turn};

/// A test of `redis-benchmark`, by its default values of three bytes.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name in tables.
    pub name: &'static str,
    /// The data that it works on.
    fill: Fill,
    /// The words that name it to the program.
    words: &'static [&'static str],
    /// Its commands are this much longer than others, and as many fewer are run.
    weight: u32,
}

/// The data that a test finds.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// A part of its own commands has run.
    Own,
    /// Another test has run as many commands as it will itself.
    As(&'static str),
    /// Another test has run this many commands.
    Some(u32, &'static str),
}

const fn test(name: &'static str, fill: Fill, words: &'static [&'static str]) -> Test {
    Test { name, fill, words, weight: 1 }
}

const fn range(name: &'static str, last: &'static [&'static str]) -> Test {
    Test { name, fill: Fill::Some(1000, "lpush"), words: last, weight: 20 }
}

/// All of them.
pub const TESTS: [Test; 20] = [
    test("PING_INLINE", Fill::Own, &["-t", "ping_inline"]),
    test("PING_MBULK", Fill::Own, &["-t", "ping_mbulk"]),
    test("SET", Fill::Own, &["-t", "set"]),
    test("GET", Fill::As("set"), &["-t", "get"]),
    test("INCR", Fill::Own, &["-t", "incr"]),
    test("LPUSH", Fill::Own, &["-t", "lpush"]),
    test("RPUSH", Fill::Own, &["-t", "rpush"]),
    test("LPOP", Fill::As("lpush"), &["-t", "lpop"]),
    test("RPOP", Fill::As("lpush"), &["-t", "rpop"]),
    test("SADD", Fill::Own, &["-t", "sadd"]),
    test("HSET", Fill::Own, &["-t", "hset"]),
    test("SPOP", Fill::As("sadd"), &["-t", "spop"]),
    test("ZADD", Fill::Own, &["-t", "zadd"]),
    test("ZPOPMIN", Fill::As("zadd"), &["-t", "zpopmin"]),
    range("LRANGE_100", &["lrange", "mylist", "0", "99"]),
    range("LRANGE_300", &["lrange", "mylist", "0", "299"]),
    range("LRANGE_500", &["lrange", "mylist", "0", "499"]),
    range("LRANGE_600", &["lrange", "mylist", "0", "599"]),
    Test { weight: 4, ..test("MSET", Fill::Own, &["-t", "mset"]) },
    test("XADD", Fill::Own, &["xadd", "mystream", "*", "myfield", "xxx"]),
];

/// Keys or members that tests draw from.
const KEYS: u32 = 100_000;
/// Members to fill a set from that shall have few twice.
const MEMBERS: u32 = 100_000_000;
/// The pipeline by which data is filled in.
const FILL_PIPELINE: u32 = 64;

impl Running {
    /// Loads it with a test, some of its commands first that do not count.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn turn_of(&self, test: &Test, commands: u32, pipeline: u32) -> Result<Turn, BesideError> {
        let commands = (commands / test.weight).max(1);
        match test.fill {
            Fill::Own => {
                self.benchmark((commands / 4).max(1), pipeline, KEYS, test.words)?;
            }
            Fill::As(other) => {
                let keys = if other == "set" { KEYS } else { MEMBERS };
                self.benchmark(commands, FILL_PIPELINE, keys, &["-t", other])?;
            }
            Fill::Some(count, other) => {
                self.benchmark(count, FILL_PIPELINE, KEYS, &["-t", other])?;
            }
        }
        let before = self.cpu_micros()?;
        let rate = self.benchmark(commands, pipeline, KEYS, test.words)?;
        let after = self.cpu_micros()?;
        let micros = |index: usize| (after[index] - before[index]) / f64::from(commands);
        Ok(Turn { user_us: micros(0), system_us: micros(1), rate })
    }
}
