//! `cmsgpack` and `struct` in scripts: as in redis-server, and against a stranger's bytes.

use outlast_workloads::Random;

use crate::client::{Answer, Client, Served};
use crate::peer::Peer;

fn eval(client: &mut Client, script: &str, args: &[&[u8]]) -> Answer {
    let mut words: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"0"];
    words.extend(args);
    client.ask_words(&words)
}

/// Bytes as digits, so that answers are texts.
const HEX: &str = "local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end ";

/// Expressions whose value is a string of bytes.
const PACKED: &[&str] = &[
    "cmsgpack.pack(0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296)",
    "cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649)",
    "cmsgpack.pack(1.5, 0.1, 1e300, -0.25, true, false, nil, 'text')",
    "cmsgpack.pack(string.rep('a', 31), string.rep('b', 32), string.rep('c', 256), string.rep('d', 70000))",
    "cmsgpack.pack({})",
    "cmsgpack.pack({1, 2, {3, 'x'}})",
    "cmsgpack.pack({a=1})",
    "cmsgpack.pack({[1]=1, [3]=3})",
    "cmsgpack.pack({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17})",
    "struct.pack('>I2I4bBhHlL', 1, 2, -3, 4, -5, 6, -7, 8)",
    "struct.pack('<i3i8fd', -2, 77, 1.5, 2.5)",
    "struct.pack('sc3c0', 'abc', 'xyz', 'whole')",
    "struct.pack('!4bI4xx!8bd', 1, 2, 3, 4)",
    "struct.pack('>Bc0', 5, 'hello')",
];

/// Expressions whose values are numbers, texts or tables of them.
const UNPACKED: &[&str] = &[
    "{cmsgpack.unpack(cmsgpack.pack(1, -5, 300, -70000, 'text', {1, 2, {3}}))}",
    "{cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}",
    "{cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 1)}",
    "{cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3, 4), 2)}",
    "{cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3, 4), 2, 1)}",
    "{cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3, 4), 9, 1)}",
    "cmsgpack.unpack(cmsgpack.pack({a=1, b={'c'}})).b",
    "{tostring(cmsgpack.unpack(cmsgpack.pack(0.1))), tostring(cmsgpack.unpack(cmsgpack.pack(1e15)))}",
    "{struct.unpack('>I2I4bBhH', struct.pack('>I2I4bBhH', 1, 2, -3, 4, -5, 6))}",
    "{struct.unpack('<i3', struct.pack('<i3', -2))}",
    "{struct.unpack('sI2', struct.pack('sI2', 'abc', 9))}",
    "{struct.unpack('>Bc0', struct.pack('>Bc0', 5, 'hello'))}",
    "{struct.unpack('!4bI4', struct.pack('!4bI4', 1, 2))}",
    "{struct.unpack('c2', 'abcdef', 3)}",
    "struct.size('!8bdI4h')",
    "struct.size('>I2I4bBhHlLfdTi7')",
    "{bit.band(255, 15), bit.tohex(255), bit.lshift(1, 31), bit.bnot(0)}",
    "cjson.encode({1, 2, 'three', false})",
];

#[test]
fn libraries_are_those_of_redis() {
    let Some(peer) = Peer::start() else { return };
    let server = Served::new();
    let (mut ours, mut theirs) = (server.client(), peer.client());
    for expression in PACKED {
        let script = format!("{HEX} return hex({expression})");
        let (our, their) = (eval(&mut ours, &script, &[]), eval(&mut theirs, &script, &[]));
        assert!(matches!(their, Answer::Bulk(_)), "{expression}: {their:?}");
        assert_eq!(our, their, "{expression}");
    }
    for expression in UNPACKED {
        let script = format!("return {expression}");
        let (our, their) = (eval(&mut ours, &script, &[]), eval(&mut theirs, &script, &[]));
        assert!(!matches!(their, Answer::Error(_)), "{expression}: {their:?}");
        assert_eq!(our, their, "{expression}");
    }
    for refused in [
        "cmsgpack.pack()",
        "cmsgpack.unpack('\\217')",
        "cmsgpack.unpack_one('x', 9)",
        "cmsgpack.unpack_limit('x', -1)",
        "struct.pack('I4')",
        "struct.pack('i99', 1)",
        "struct.pack('?', 1)",
        "struct.unpack('I4', 'abc')",
        "struct.unpack('s', 'abc')",
        "struct.unpack('c0', 'abc')",
        "struct.unpack('>I2', 'abc', 0)",
        "struct.size('s')",
    ] {
        let script =
            format!("local done = pcall(function() return {refused} end) return done and 1 or 0");
        assert_eq!(eval(&mut ours, &script, &[]), 0.into(), "{refused}");
        assert_eq!(eval(&mut theirs, &script, &[]), 0.into(), "{refused}");
    }
}

/// Random bytes are values or an error; numbers and depths that they tell take no memory.
#[test]
fn strange_bytes_are_refused_by_libraries() {
    let server = Served::new();
    let mut client = server.client();
    let mut random = Random::stream(0x4C49_4252, 1);
    let deep = vec![0x91; 100_000];
    let huge: [&[u8]; 4] =
        [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x01\x01", b"\xdb\xff\xff\xff\xff", &deep];
    let script = "pcall(cmsgpack.unpack, ARGV[1]) pcall(cmsgpack.unpack_limit, ARGV[1], 3, 2)
        pcall(struct.unpack, ARGV[2], ARGV[1]) pcall(struct.pack, ARGV[2], 1, 2, 'x', 4)
        pcall(struct.size, ARGV[2]) return 'done'";
    for bytes in huge {
        assert_eq!(eval(&mut client, script, &[bytes, b"i32I9!64bc2147483647"]), "done".into());
    }
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
        let letters = b"<>=!bBhHlLTiIfdscx 0123456789";
        let format: Vec<u8> = (0..random.below(12))
            .map(|_| letters[random.below(letters.len() as u64) as usize])
            .collect();
        assert_eq!(eval(&mut client, script, &[&bytes, &format]), "done".into());
    }
}
