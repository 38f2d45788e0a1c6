//! Bytes of a Redis client: parsed whole and in packets with the same outcome, then run in one transaction,
//! which is rolled back.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{Abort, Lane, Pool, Runner};
use outlast_fuzz::seeds;
use outlast_pmem::Heap;
use outlast_redis::{Engine, requests};

/// The scripts that an input may run: one written by chance may go on for ever.
const SCRIPTS: &[&str] = &[
    "return cmsgpack.unpack(ARGV[1])",
    "return struct.unpack(ARGV[1], ARGV[2])",
    "return struct.pack(ARGV[1], ARGV[2])",
    "return cjson.encode(cjson.decode(ARGV[1]))",
    "return bit.tohex(ARGV[1])",
    "return redis.call(unpack(ARGV))",
    "return redis.pcall('set', KEYS[1], ARGV[1])",
];

/// Commands of which the fuzzer makes others, one request a line.
const COMMANDS: &[&str] = &[
    "set k v px 100 get",
    "setrange k 10 x\r\ngetrange k 0 -1\r\nbitcount k 0 -1 bit\r\nbitfield k set u8 0 7 incrby i5 100 1",
    "rpush l a b c\r\nlrange l 0 -1\r\nlinsert l before b x\r\nltrim l 1 -1\r\nlpos l b rank -1 count 2",
    "sadd s 1 2 x\r\nsmembers s\r\nspop s 2\r\nsrandmember s -3\r\nsinterstore d s s",
    "hset h f 1 g 2\r\nhgetall h\r\nhincrby h f 5\r\nhincrbyfloat h g 1.5\r\nhrandfield h -2 withvalues",
    "zadd z 1 a 2.5 b inf c\r\nzrange z 0 -1 withscores\r\nzrangebyscore z (1 +inf limit 0 2\r\nzunionstore d 2 z z weights 1 2 aggregate max",
    "zrangebylex z [a (c\r\nzincrby z 1 a\r\nzpopmin z 2\r\nzrank z b withscore",
    "xadd x * f v\r\nxadd x 5-1 f v\r\nxrange x - +\r\nxgroup create x g 0\r\nxreadgroup group g c streams x >\r\nxpending x g",
    "xautoclaim x g c 0 0\r\nxtrim x maxlen ~ 1\r\nxinfo stream x full\r\nxack x g 5-1\r\nxsetid x 9-9",
    "sort l by nosort get # limit 0 5 alpha desc store d",
    "dump k\r\nrestore r 0 \"\\x00\\x01v\\x0b\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"",
    "scan 0 match * count 5 type string\r\nobject encoding k\r\nexpire k 10 nx\r\nrename k q\r\ncopy q k replace",
    "geoadd g 13.3 38.1 p\r\ngeosearch g frommember p byradius 10 km\r\npfadd p a b\r\npfcount p",
    "append k x\r\nincrbyfloat k 1e3\r\nlcs k q idx\r\nmset a 1 b 2\r\ngetex a persist\r\nbitop not d a",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    "eval 0 1 k a b\r\neval 1 0 a b\r\neval 3 0 {\"a\":[1]}\r\neval 5 0 set k v",
];

thread_local! {
    static STATE: RefCell<(Lane<'static, Heap>, Engine)> = {
        let create = CreateOptions { lanes: 2, lane_bytes: 1 << 20, ..CreateOptions::default() };
        let pool = Pool::create_on(Heap::new(16 << 20), &create, &OpenOptions::default());
        let pool = Box::leak(Box::new(pool.expect("a pool of these options can be created")));
        let mut lane = pool.lane().expect("a new pool has a lane");
        let engine = lane.run(|tx| Engine::open_with(tx, (1, 2))).expect("a new pool has room");
        RefCell::new((lane, engine))
    };
}

fuzz_target!(
    init: seeds(COMMANDS.iter().map(|commands| format!("a{commands}\r\n"))),
    |input: &[u8]| {
        let Some((packet, bytes)) = input.split_first() else { return };
        let found = requests(bytes, usize::MAX);
        assert_eq!(found, requests(bytes, usize::from(*packet) + 1), "packets change requests");
        STATE.with_borrow_mut(|(lane, engine)| {
            let _ = lane.run(|tx| -> Result<(), Abort> {
                for request in &found.0 {
                    let mut words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
                    let name = words.first().copied().unwrap_or_default();
                    if name.len() >= 4 && name[..4].eq_ignore_ascii_case(b"eval") && words.len() > 1 {
                        let number = usize::from(words[1].last().copied().unwrap_or_default());
                        words[1] = SCRIPTS[number % SCRIPTS.len()].as_bytes();
                    }
                    engine.now_ms += 1;
                    engine.run(tx, &words)?;
                    engine.free_some(tx)?;
                }
                Err(Abort::cancelled("the next input begins with an empty pool"))
            });
            engine.now_ms = 0;
        });
    }
);
