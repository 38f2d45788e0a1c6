//! The table of commands.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::commands::{
    Ctx, Done, bits, expiry, hashes, keys, lists, scan, serial, sets, sort, streams, strings, zsets,
};

/// A command that the server answers itself, since it concerns clients or the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionRun {
    Acl,
    Auth,
    BgSave,
    BlockingMove,
    BlockingPop,
    Client,
    Command,
    Config,
    Debug,
    Discard,
    Echo,
    Eval,
    Exec,
    Function,
    Hello,
    Info,
    LastSave,
    Latency,
    Lolwut,
    Multi,
    Ping,
    PubSub,
    Publish,
    Quit,
    Reset,
    Role,
    Save,
    Script,
    Select,
    Shutdown,
    SlowLog,
    StreamRead,
    Subscribe,
    Time,
    Unsubscribe,
    Unwatch,
    Wait,
    Watch,
}

/// Who runs a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A function of the data.
    Data(fn(&mut Ctx<'_>) -> Done),
    /// The server.
    Session(SessionRun),
}

/// A row of the table.
pub(crate) struct Command {
    pub name: &'static str,
    /// The number of words, the name included; if negative, the least number is its magnitude.
    pub arity: i32,
    /// Flags as `COMMAND` tells them.
    pub flags: &'static [&'static str],
    /// First key, last key, step.
    pub keys: (i32, i32, i32),
    pub group: &'static str,
    pub run: Run,
}

const READ: &[&str] = &["readonly"];
const READ_FAST: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "denyoom"];
const WRITE_FAST: &[&str] = &["write", "denyoom", "fast"];
const FREE: &[&str] = &["write"];
const FREE_FAST: &[&str] = &["write", "fast"];
const READ_WAITS: &[&str] = &["readonly", "blocking", "movablekeys"];
const WRITE_WAITS: &[&str] = &["write", "blocking", "movablekeys"];
const BLOCKS: &[&str] = &["write", "noscript", "blocking"];
const BLOCKS_WRITE: &[&str] = &["write", "denyoom", "noscript", "blocking"];
const BLOCKS_ANYWHERE: &[&str] = &["write", "blocking"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];
const LOOSE: &[&str] = &["loading", "stale", "fast"];
const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const CHANNEL: &[&str] = &["pubsub", "loading", "stale"];
const LISTEN: &[&str] = &["pubsub", "noscript", "loading", "stale"];
const TRANSACT: &[&str] = &["noscript", "loading", "stale", "fast"];
const SCRIPT: &[&str] = &["noscript", "stale", "movablekeys"];
const SCRIPT_READ: &[&str] = &["readonly", "noscript", "stale", "movablekeys"];

type Keys3 = (i32, i32, i32);
const NONE: Keys3 = (0, 0, 0);
const ONE: Keys3 = (1, 1, 1);
const ALL: Keys3 = (1, -1, 1);
const TWO: Keys3 = (1, 2, 1);

type Row = (&'static str, i32, &'static [&'static str], Keys3, Run);

const fn data(run: fn(&mut Ctx<'_>) -> Done) -> Run {
    Run::Data(run)
}

const GROUPS: &[(&str, &[Row])] = &[
    ("string", STRINGS),
    ("bitmap", BITS),
    ("hash", HASHES),
    ("list", LISTS),
    ("set", SETS),
    ("sorted-set", ZSETS),
    ("stream", STREAMS),
    ("generic", GENERIC),
    ("connection", CONNECTION),
    ("server", SERVER),
    ("pubsub", PUBSUB),
    ("transactions", TRANSACTIONS),
    ("scripting", SCRIPTING),
];

const STRINGS: &[Row] = &[
    ("get", 2, READ_FAST, ONE, data(strings::get)),
    ("set", -3, WRITE, ONE, data(strings::set)),
    ("setnx", 3, WRITE_FAST, ONE, data(strings::setnx)),
    ("setex", 4, WRITE, ONE, data(strings::setex)),
    ("psetex", 4, WRITE, ONE, data(strings::psetex)),
    ("getset", 3, WRITE_FAST, ONE, data(strings::getset)),
    ("getdel", 2, FREE_FAST, ONE, data(strings::getdel)),
    ("getex", -2, FREE_FAST, ONE, data(strings::getex)),
    ("mget", -2, READ_FAST, ALL, data(strings::mget)),
    ("mset", -3, WRITE, (1, -1, 2), data(strings::mset)),
    ("msetnx", -3, WRITE, (1, -1, 2), data(strings::msetnx)),
    ("append", 3, WRITE_FAST, ONE, data(strings::append)),
    ("strlen", 2, READ_FAST, ONE, data(strings::strlen)),
    ("getrange", 4, READ, ONE, data(strings::getrange)),
    ("substr", 4, READ, ONE, data(strings::getrange)),
    ("setrange", 4, WRITE, ONE, data(strings::setrange)),
    ("incr", 2, WRITE_FAST, ONE, data(strings::incr)),
    ("decr", 2, WRITE_FAST, ONE, data(strings::decr)),
    ("incrby", 3, WRITE_FAST, ONE, data(strings::incrby)),
    ("decrby", 3, WRITE_FAST, ONE, data(strings::decrby)),
    ("incrbyfloat", 3, WRITE_FAST, ONE, data(strings::incrbyfloat)),
    ("lcs", -3, READ, TWO, data(strings::lcs)),
];

const BITS: &[Row] = &[
    ("setbit", 4, WRITE, ONE, data(bits::setbit)),
    ("getbit", 3, READ_FAST, ONE, data(bits::getbit)),
    ("bitcount", -2, READ, ONE, data(bits::bitcount)),
    ("bitpos", -3, READ, ONE, data(bits::bitpos)),
    ("bitop", -4, WRITE, (2, -1, 1), data(bits::bitop)),
    ("bitfield", -2, WRITE, ONE, data(bits::bitfield)),
    ("bitfield_ro", -2, READ_FAST, ONE, data(bits::bitfield_ro)),
];

const HASHES: &[Row] = &[
    ("hset", -4, WRITE_FAST, ONE, data(hashes::hset)),
    ("hsetnx", 4, WRITE_FAST, ONE, data(hashes::hsetnx)),
    ("hmset", -4, WRITE_FAST, ONE, data(hashes::hmset)),
    ("hget", 3, READ_FAST, ONE, data(hashes::hget)),
    ("hmget", -3, READ_FAST, ONE, data(hashes::hmget)),
    ("hgetall", 2, READ, ONE, data(hashes::hgetall)),
    ("hkeys", 2, READ, ONE, data(hashes::hkeys)),
    ("hvals", 2, READ, ONE, data(hashes::hvals)),
    ("hlen", 2, READ_FAST, ONE, data(hashes::hlen)),
    ("hstrlen", 3, READ_FAST, ONE, data(hashes::hstrlen)),
    ("hexists", 3, READ_FAST, ONE, data(hashes::hexists)),
    ("hdel", -3, FREE_FAST, ONE, data(hashes::hdel)),
    ("hincrby", 4, WRITE_FAST, ONE, data(hashes::hincrby)),
    ("hincrbyfloat", 4, WRITE_FAST, ONE, data(hashes::hincrbyfloat)),
    ("hrandfield", -2, READ, ONE, data(hashes::hrandfield)),
    ("hscan", -3, READ, ONE, data(scan::hscan)),
];

const LISTS: &[Row] = &[
    ("lpush", -3, WRITE_FAST, ONE, data(lists::lpush)),
    ("rpush", -3, WRITE_FAST, ONE, data(lists::rpush)),
    ("lpushx", -3, WRITE_FAST, ONE, data(lists::lpushx)),
    ("rpushx", -3, WRITE_FAST, ONE, data(lists::rpushx)),
    ("lpop", -2, FREE_FAST, ONE, data(lists::lpop)),
    ("rpop", -2, FREE_FAST, ONE, data(lists::rpop)),
    ("llen", 2, READ_FAST, ONE, data(lists::llen)),
    ("lrange", 4, READ, ONE, data(lists::lrange)),
    ("lindex", 3, READ, ONE, data(lists::lindex)),
    ("lset", 4, WRITE, ONE, data(lists::lset)),
    ("linsert", 5, WRITE, ONE, data(lists::linsert)),
    ("lrem", 4, FREE, ONE, data(lists::lrem)),
    ("ltrim", 4, FREE, ONE, data(lists::ltrim)),
    ("lpos", -3, READ, ONE, data(lists::lpos)),
    ("lmove", 5, WRITE, TWO, data(lists::lmove)),
    ("rpoplpush", 3, WRITE, TWO, data(lists::rpoplpush)),
    ("lmpop", -4, FREE, NONE, data(lists::lmpop)),
    ("blpop", -3, BLOCKS, (1, -2, 1), Run::Session(SessionRun::BlockingPop)),
    ("brpop", -3, BLOCKS, (1, -2, 1), Run::Session(SessionRun::BlockingPop)),
    ("blmpop", -5, BLOCKS_ANYWHERE, NONE, Run::Session(SessionRun::BlockingPop)),
    ("blmove", 6, BLOCKS_WRITE, TWO, Run::Session(SessionRun::BlockingMove)),
    ("brpoplpush", 4, BLOCKS_WRITE, TWO, Run::Session(SessionRun::BlockingMove)),
];

const SETS: &[Row] = &[
    ("sadd", -3, WRITE_FAST, ONE, data(sets::sadd)),
    ("srem", -3, FREE_FAST, ONE, data(sets::srem)),
    ("smove", 4, FREE_FAST, TWO, data(sets::smove)),
    ("sismember", 3, READ_FAST, ONE, data(sets::sismember)),
    ("smismember", -3, READ_FAST, ONE, data(sets::smismember)),
    ("scard", 2, READ_FAST, ONE, data(sets::scard)),
    ("smembers", 2, READ, ONE, data(sets::smembers)),
    ("spop", -2, FREE_FAST, ONE, data(sets::spop)),
    ("srandmember", -2, READ, ONE, data(sets::srandmember)),
    ("sinter", -2, READ, ALL, data(sets::sinter)),
    ("sintercard", -3, READ, NONE, data(sets::sintercard)),
    ("sinterstore", -3, WRITE, ALL, data(sets::sinterstore)),
    ("sunion", -2, READ, ALL, data(sets::sunion)),
    ("sunionstore", -3, WRITE, ALL, data(sets::sunionstore)),
    ("sdiff", -2, READ, ALL, data(sets::sdiff)),
    ("sdiffstore", -3, WRITE, ALL, data(sets::sdiffstore)),
    ("sscan", -3, READ, ONE, data(scan::sscan)),
];

const ZSETS: &[Row] = &[
    ("zadd", -4, WRITE_FAST, ONE, data(zsets::zadd)),
    ("zincrby", 4, WRITE_FAST, ONE, data(zsets::zincrby)),
    ("zrem", -3, FREE_FAST, ONE, data(zsets::zrem)),
    ("zcard", 2, READ_FAST, ONE, data(zsets::zcard)),
    ("zscore", 3, READ_FAST, ONE, data(zsets::zscore)),
    ("zmscore", -3, READ_FAST, ONE, data(zsets::zmscore)),
    ("zrank", 3, READ_FAST, ONE, data(zsets::zrank)),
    ("zrevrank", 3, READ_FAST, ONE, data(zsets::zrevrank)),
    ("zcount", 4, READ_FAST, ONE, data(zsets::zcount)),
    ("zlexcount", 4, READ_FAST, ONE, data(zsets::zlexcount)),
    ("zrange", -4, READ, ONE, data(zsets::zrange)),
    ("zrangestore", -5, WRITE, TWO, data(zsets::zrangestore)),
    ("zrevrange", -4, READ, ONE, data(zsets::zrevrange)),
    ("zrangebyscore", -4, READ, ONE, data(zsets::zrangebyscore)),
    ("zrevrangebyscore", -4, READ, ONE, data(zsets::zrevrangebyscore)),
    ("zrangebylex", -4, READ, ONE, data(zsets::zrangebylex)),
    ("zrevrangebylex", -4, READ, ONE, data(zsets::zrevrangebylex)),
    ("zremrangebyrank", 4, FREE, ONE, data(zsets::zremrangebyrank)),
    ("zremrangebyscore", 4, FREE, ONE, data(zsets::zremrangebyscore)),
    ("zremrangebylex", 4, FREE, ONE, data(zsets::zremrangebylex)),
    ("zpopmin", -2, FREE_FAST, ONE, data(zsets::zpopmin)),
    ("zpopmax", -2, FREE_FAST, ONE, data(zsets::zpopmax)),
    ("zmpop", -4, FREE, NONE, data(zsets::zmpop)),
    ("zrandmember", -2, READ, ONE, data(zsets::zrandmember)),
    ("zunion", -3, READ, NONE, data(zsets::zunion)),
    ("zinter", -3, READ, NONE, data(zsets::zinter)),
    ("zdiff", -3, READ, NONE, data(zsets::zdiff)),
    ("zintercard", -3, READ, NONE, data(zsets::zintercard)),
    ("zunionstore", -4, WRITE, ONE, data(zsets::zunionstore)),
    ("zinterstore", -4, WRITE, ONE, data(zsets::zinterstore)),
    ("zdiffstore", -4, WRITE, ONE, data(zsets::zdiffstore)),
    ("zscan", -3, READ, ONE, data(scan::zscan)),
    ("bzpopmin", -3, BLOCKS, (1, -2, 1), Run::Session(SessionRun::BlockingPop)),
    ("bzpopmax", -3, BLOCKS, (1, -2, 1), Run::Session(SessionRun::BlockingPop)),
    ("bzmpop", -5, BLOCKS_ANYWHERE, NONE, Run::Session(SessionRun::BlockingPop)),
];

/// Those that read may be asked to wait: the server looks at their words.
const STREAMS: &[Row] = &[
    ("xadd", -5, WRITE_FAST, ONE, data(streams::xadd)),
    ("xlen", 2, READ_FAST, ONE, data(streams::xlen)),
    ("xrange", -4, READ, ONE, data(streams::xrange)),
    ("xrevrange", -4, READ, ONE, data(streams::xrevrange)),
    ("xread", -4, READ_WAITS, NONE, data(streams::xread)),
    ("xreadgroup", -7, WRITE_WAITS, NONE, data(streams::xreadgroup)),
    ("xdel", -3, FREE_FAST, ONE, data(streams::xdel)),
    ("xtrim", -4, FREE, ONE, data(streams::xtrim)),
    ("xsetid", -3, WRITE_FAST, ONE, data(streams::xsetid)),
    ("xgroup", -2, WRITE, (2, 2, 1), data(streams::xgroup)),
    ("xack", -4, FREE_FAST, ONE, data(streams::xack)),
    ("xpending", -3, READ, ONE, data(streams::xpending)),
    ("xclaim", -6, FREE_FAST, ONE, data(streams::xclaim)),
    ("xautoclaim", -6, FREE_FAST, ONE, data(streams::xautoclaim)),
    ("xinfo", -2, READ, (2, 2, 1), data(streams::xinfo)),
];

const GENERIC: &[Row] = &[
    ("del", -2, FREE, ALL, data(keys::del)),
    ("unlink", -2, FREE_FAST, ALL, data(keys::del)),
    ("exists", -2, READ_FAST, ALL, data(keys::exists)),
    ("touch", -2, READ_FAST, ALL, data(keys::exists)),
    ("type", 2, READ_FAST, ONE, data(keys::type_of)),
    ("keys", 2, READ, NONE, data(keys::keys)),
    ("scan", -2, READ, NONE, data(scan::scan)),
    ("randomkey", 1, READ, NONE, data(keys::randomkey)),
    ("rename", 3, FREE, TWO, data(keys::rename)),
    ("renamenx", 3, FREE_FAST, TWO, data(keys::renamenx)),
    ("copy", -3, WRITE, TWO, data(keys::copy)),
    ("move", 3, FREE_FAST, ONE, data(keys::move_to)),
    ("dump", 2, READ, ONE, data(serial::dump)),
    ("restore", -4, WRITE, ONE, data(serial::restore)),
    ("object", -2, READ, (2, 2, 1), data(keys::object)),
    ("expire", -3, FREE_FAST, ONE, data(expiry::expire)),
    ("pexpire", -3, FREE_FAST, ONE, data(expiry::pexpire)),
    ("expireat", -3, FREE_FAST, ONE, data(expiry::expireat)),
    ("pexpireat", -3, FREE_FAST, ONE, data(expiry::pexpireat)),
    ("ttl", 2, READ_FAST, ONE, data(expiry::ttl)),
    ("pttl", 2, READ_FAST, ONE, data(expiry::pttl)),
    ("expiretime", 2, READ_FAST, ONE, data(expiry::expiretime)),
    ("pexpiretime", 2, READ_FAST, ONE, data(expiry::pexpiretime)),
    ("persist", 2, FREE_FAST, ONE, data(expiry::persist)),
    ("sort", -2, WRITE, ONE, data(sort::sort)),
    ("sort_ro", -2, READ, ONE, data(sort::sort_ro)),
    ("wait", 3, &["noscript"], NONE, Run::Session(SessionRun::Wait)),
];

const CONNECTION: &[Row] = &[
    ("auth", -2, OPEN, NONE, Run::Session(SessionRun::Auth)),
    ("hello", -1, OPEN, NONE, Run::Session(SessionRun::Hello)),
    ("quit", -1, OPEN, NONE, Run::Session(SessionRun::Quit)),
    ("reset", 1, OPEN, NONE, Run::Session(SessionRun::Reset)),
    ("ping", -1, LOOSE, NONE, Run::Session(SessionRun::Ping)),
    ("echo", 2, LOOSE, NONE, Run::Session(SessionRun::Echo)),
    ("select", 2, LOOSE, NONE, Run::Session(SessionRun::Select)),
    ("client", -2, ADMIN, NONE, Run::Session(SessionRun::Client)),
];

const SERVER: &[Row] = &[
    ("dbsize", 1, READ_FAST, NONE, data(keys::dbsize)),
    ("flushdb", -1, FREE, NONE, data(keys::flushdb)),
    ("flushall", -1, FREE, NONE, data(keys::flushall)),
    ("swapdb", 3, FREE_FAST, NONE, data(keys::swapdb)),
    ("memory", -2, READ, (2, 2, 1), data(keys::memory)),
    ("info", -1, LOOSE, NONE, Run::Session(SessionRun::Info)),
    ("config", -2, ADMIN, NONE, Run::Session(SessionRun::Config)),
    ("command", -1, LOOSE, NONE, Run::Session(SessionRun::Command)),
    ("time", 1, LOOSE, NONE, Run::Session(SessionRun::Time)),
    ("save", 1, ADMIN, NONE, Run::Session(SessionRun::Save)),
    ("bgsave", -1, ADMIN, NONE, Run::Session(SessionRun::BgSave)),
    ("lastsave", 1, LOOSE, NONE, Run::Session(SessionRun::LastSave)),
    ("shutdown", -1, ADMIN, NONE, Run::Session(SessionRun::Shutdown)),
    ("debug", -2, ADMIN, NONE, Run::Session(SessionRun::Debug)),
    ("role", 1, ADMIN, NONE, Run::Session(SessionRun::Role)),
    ("slowlog", -2, ADMIN, NONE, Run::Session(SessionRun::SlowLog)),
    ("latency", -2, ADMIN, NONE, Run::Session(SessionRun::Latency)),
    ("acl", -2, ADMIN, NONE, Run::Session(SessionRun::Acl)),
    ("function", -2, ADMIN, NONE, Run::Session(SessionRun::Function)),
    ("lolwut", -1, LOOSE, NONE, Run::Session(SessionRun::Lolwut)),
];

const PUBSUB: &[Row] = &[
    ("subscribe", -2, LISTEN, NONE, Run::Session(SessionRun::Subscribe)),
    ("psubscribe", -2, LISTEN, NONE, Run::Session(SessionRun::Subscribe)),
    ("unsubscribe", -1, LISTEN, NONE, Run::Session(SessionRun::Unsubscribe)),
    ("punsubscribe", -1, LISTEN, NONE, Run::Session(SessionRun::Unsubscribe)),
    ("publish", 3, CHANNEL, NONE, Run::Session(SessionRun::Publish)),
    ("pubsub", -2, CHANNEL, NONE, Run::Session(SessionRun::PubSub)),
];

const TRANSACTIONS: &[Row] = &[
    ("multi", 1, TRANSACT, NONE, Run::Session(SessionRun::Multi)),
    ("exec", 1, TRANSACT, NONE, Run::Session(SessionRun::Exec)),
    ("discard", 1, TRANSACT, NONE, Run::Session(SessionRun::Discard)),
    ("watch", -2, TRANSACT, ALL, Run::Session(SessionRun::Watch)),
    ("unwatch", 1, TRANSACT, NONE, Run::Session(SessionRun::Unwatch)),
];

const SCRIPTING: &[Row] = &[
    ("eval", -3, SCRIPT, NONE, Run::Session(SessionRun::Eval)),
    ("eval_ro", -3, SCRIPT_READ, NONE, Run::Session(SessionRun::Eval)),
    ("evalsha", -3, SCRIPT, NONE, Run::Session(SessionRun::Eval)),
    ("evalsha_ro", -3, SCRIPT_READ, NONE, Run::Session(SessionRun::Eval)),
    ("script", -2, &["noscript"], NONE, Run::Session(SessionRun::Script)),
];

struct Table {
    rows: Vec<Command>,
    by_name: HashMap<&'static [u8], usize, rustc_hash::FxBuildHasher>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let rows: Vec<Command> = GROUPS
            .iter()
            .flat_map(|(group, rows)| rows.iter().map(move |row| (group, row)))
            .map(|(group, &(name, arity, flags, keys, run))| Command {
                name,
                arity,
                flags,
                keys,
                group,
                run,
            })
            .collect();
        let by_name = rows.iter().enumerate().map(|(index, row)| (row.name.as_bytes(), index));
        Table { by_name: by_name.collect(), rows }
    })
}

/// All commands.
pub(crate) fn commands() -> &'static [Command] {
    &table().rows
}

/// Names are shorter than this.
const NAME_BYTES_MAX: usize = 32;

/// The command of a name in whatever case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let table = table();
    table.by_name.get(&*lower).map(|index| &table.rows[*index])
}

impl Command {
    /// Whether it takes `words` words.
    pub fn takes(&self, words: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(arity) => words == arity,
            Err(_) => words >= self.arity.unsigned_abs() as usize,
        }
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_case_and_are_told_apart() {
        assert_eq!(find(b"ZrAnGe").map(|row| row.name), Some("zrange"));
        assert!(find(b"nothing").is_none() && find(&[b'a'; 100]).is_none());
        let mut names: Vec<_> = commands().iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), commands().len());
        assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX));
    }
}
