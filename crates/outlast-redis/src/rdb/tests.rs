use super::packed::Listpack;
use super::payload::value;
use super::value::{GroupValue, PendingValue, StreamValue, Value};
use super::write::push_string;
use super::{file, from_payload, kind, packed, to_payload};
use crate::store::blob;
use crate::store::stream::Id;
use outlast_workloads::Random;

/// The number of damaged payloads, where more are wanted.
const MUTANTS: &str = "OUTLAST_RDB_MUTANTS";

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn stream() -> Value {
    let entry = |ms, words: &[&str]| {
        let mut fields = Vec::new();
        words.iter().for_each(|word| blob::push(&mut fields, word.as_bytes()));
        (Id { ms, number: ms % 3 }, fields)
    };
    let entries = (1..250).map(|ms| entry(ms, &["field", &"v".repeat(ms as usize), "g", ""]));
    let id = |ms| Id { ms, number: ms % 3 };
    let pending = |ms, consumer| PendingValue { id: id(ms), consumer, delivered: 7, deliveries: 2 };
    let group = GroupValue {
        name: bytes("group"),
        last: id(9),
        read: -1,
        consumers: vec![(bytes("one"), 5), (bytes("two"), 6)],
        pending: vec![pending(3, 1), pending(4, 0), pending(5, 1)],
    };
    Value::Stream(Box::new(StreamValue {
        entries: entries.collect(),
        last: Id { ms: 1 << 40, number: u64::MAX },
        deleted: id(2),
        added: 300,
        groups: vec![group],
    }))
}

fn values() -> Vec<Value> {
    let items: Vec<Vec<u8>> = (0..300).map(|index| bytes(&format!("item {index}"))).collect();
    vec![
        Value::String(Vec::new()),
        Value::String(vec![b'x'; 100_000]),
        Value::List(items.clone()),
        Value::Set(items.clone()),
        Value::Hash(items.iter().map(|item| (item.clone(), bytes("value"))).collect()),
        Value::Zset(items.iter().map(|item| (item.clone(), item.len() as f64 / 3.0)).collect()),
        stream(),
    ]
}

/// Bodies in the encodings that are read and not written.
fn packed_bodies() -> Vec<Vec<u8>> {
    let mut pack = Listpack::new();
    for item in ["a", "1", "bb", "2", "cc", "-3"] {
        pack.push(item.as_bytes());
    }
    let pack = pack.finish();
    let ziplist = b"\x15\0\0\0\x12\0\0\0\x04\0\0\x01a\x03\xf2\x02\x01b\x03\xfe\xfd\xff".to_vec();
    let intset = b"\x02\0\0\0\x02\0\0\0\xff\xff\x05\0".to_vec();
    let zipmap = b"\x01\x01a\x01\0b\xff".to_vec();
    let of = |kind: u8, bytes: &[u8]| {
        let mut body = vec![kind];
        push_string(&mut body, bytes);
        body
    };
    let quicklist = |kind: u8, form: &[u8], node: &[u8]| {
        let mut body = vec![kind, 1];
        body.extend_from_slice(form);
        push_string(&mut body, node);
        body
    };
    vec![
        of(kind::HASH_LISTPACK, &pack),
        of(kind::ZSET_LISTPACK, &pack),
        of(kind::SET_LISTPACK, &pack),
        of(kind::LIST_ZIPLIST, &ziplist),
        of(kind::HASH_ZIPLIST, &ziplist),
        of(kind::ZSET_ZIPLIST, &ziplist),
        of(kind::SET_INTSET, &intset),
        of(kind::HASH_ZIPMAP, &zipmap),
        quicklist(kind::LIST_QUICKLIST, &[], &ziplist),
        quicklist(kind::LIST_QUICKLIST_2, &[1], b"plain"),
        quicklist(kind::LIST_QUICKLIST_2, &[2], &pack),
        b"\0\xc3\x06\x06\x02abc\x20\x02".to_vec(),
        b"\0\xc1\xff\x7f".to_vec(),
        b"\x03\x01\x01m\x031.5".to_vec(),
    ]
}

#[test]
fn values_come_back_from_their_payloads() {
    for value in values() {
        let payload = to_payload(&value);
        assert!(from_payload(&payload).unwrap().unwrap() == value);
    }
    for body in packed_bodies() {
        assert!(value(&body).is_ok(), "{body:?}: {:?}", value(&body));
    }
    let pairs = vec![(bytes("a"), bytes("1")), (bytes("b"), bytes("-3"))];
    assert_eq!(value(&packed_bodies()[4]).unwrap(), Value::Hash(pairs));
    assert_eq!(value(&packed_bodies()[6]).unwrap(), Value::Set(vec![bytes("-1"), bytes("5")]));
    assert_eq!(value(&packed_bodies()[11]).unwrap(), Value::String(bytes("abcabc")));
    assert_eq!(value(&packed_bodies()[12]).unwrap(), Value::String(bytes("32767")));
}

#[test]
fn numbers_of_listpacks_are_read_in_every_width() {
    let mut pack = Listpack::new();
    let numbers = [0, 127, 128, -1, -32_768, 32_768, i64::MAX, i64::MIN];
    numbers.iter().for_each(|number| pack.push_int(*number));
    pack.push(&[b'l'; 5000]);
    let items = packed::listpack(&pack.finish()).unwrap();
    let texts: Vec<Vec<u8>> = numbers.iter().map(|number| bytes(&number.to_string())).collect();
    assert_eq!(items[..8], texts[..]);
    assert_eq!(items[8].len(), 5000);
}

/// Any bytes are a value or an error, in bounded memory.
#[test]
fn damaged_bytes_are_refused_without_panic() {
    let wanted: u64 = std::env::var(MUTANTS).map_or(20_000, |count| count.parse().unwrap());
    let values = values();
    let written = values.iter().map(to_payload).map(|mut payload| {
        payload.truncate(payload.len() - 10);
        payload
    });
    let bodies: Vec<Vec<u8>> =
        written.filter(|body| body.len() < 50_000).chain(packed_bodies()).collect();
    let mut whole = b"REDIS0010\xfa\x01a\x01b\xfe\x00\xfb\x05\x00".to_vec();
    for body in &bodies {
        whole.push(body[0]);
        push_string(&mut whole, b"key");
        whole.extend_from_slice(&body[1..]);
    }
    whole.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
    let mut random = Random::from_state(wanted);
    let mut refused = 0;
    for round in 0..wanted {
        let of_file = round % 16 == 0;
        let mut mutant = match of_file {
            true => whole.clone(),
            false => bodies[random.below(bodies.len() as u64) as usize].clone(),
        };
        for _ in 0..1 + random.below(4) {
            let at = random.below(mutant.len() as u64) as usize;
            match random.below(4) {
                0 => mutant[at] = random.next_u64() as u8,
                1 => mutant[at] ^= 1 << random.below(8),
                2 => mutant[at] = 0xFF,
                _ => mutant.truncate(at.max(1)),
            }
        }
        refused += u64::from(match of_file {
            true => all(&mutant).is_err(),
            false => value(&mutant).is_err(),
        });
    }
    println!("{wanted} damaged values and files, {refused} refused, none with a panic");
    assert!(refused > wanted / 4);
    assert_eq!(all(&whole).unwrap(), bodies.len());
}

/// How many keys a file has.
fn all(bytes: &[u8]) -> super::Read<usize> {
    let mut file = file::File::open(bytes)?;
    let mut count = 0;
    while let Some(_item) = file.next()? {
        count += 1;
    }
    Ok(count)
}
