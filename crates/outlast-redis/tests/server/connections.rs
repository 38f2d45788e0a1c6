//! Whole connections: several clients, their requests cut anywhere and damaged here and there. Each client is
//! answered as a parser says that reads its bytes at once, up to the first malformed request.
//!
//! `OUTLAST_CONNECTIONS=SECONDS[,SEED]` goes on for so long, and `OUTLAST_SOCKET` names the socket of a server
//! to ask instead of one of the test's own; its password is `OUTLAST_PASSWORD`, if it has one.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::Served;
use outlast_workloads::Random;

/// How many seconds it goes on, and a seed.
const SECONDS: &str = "OUTLAST_CONNECTIONS";
/// The socket of another server.
const SOCKET: &str = "OUTLAST_SOCKET";
const PASSWORD: &str = "OUTLAST_PASSWORD";
/// How long a client waits for a list that never comes.
const WAIT: &[u8] = b"0.02";

type Words = Vec<Vec<u8>>;

/// The next thing that a client's bytes say.
#[derive(Debug, PartialEq)]
enum Said {
    Words(Words),
    Malformed,
}

/// Reads a request from the front of all bytes of a client; `None` where its end is missing.
fn parse(bytes: &mut &[u8], is_known: bool) -> Option<Said> {
    if bytes.first()? != &b'*' {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = &bytes[..end];
        *bytes = &bytes[end + 1..];
        return Some(split(line.strip_suffix(b"\r").unwrap_or(line)));
    }
    let count = number(&line(bytes)?[1..]).filter(|count| *count <= 1 << 20);
    let Some(count) = count.filter(|count| is_known || *count <= 10) else {
        return Some(Said::Malformed);
    };
    let mut words = Vec::new();
    for _ in 0..count.max(0) {
        if bytes.first()? != &b'$' {
            return Some(Said::Malformed);
        }
        let len = number(&line(bytes)?[1..]).filter(|len| (0..=512 << 20).contains(len));
        let Some(len) = len.filter(|len| is_known || *len <= 16 << 10) else {
            return Some(Said::Malformed);
        };
        let len = len as usize;
        words.push(bytes.get(..len)?.to_vec());
        *bytes = bytes.get(len + 2..)?;
    }
    Some(Said::Words(words))
}

/// The bytes up to a carriage return; the one behind it goes with it.
fn line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let line = &bytes[..end];
    *bytes = bytes.get(end + 2..)?;
    Some(line)
}

fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    // Signs that say nothing and leading zeros are not read.
    text.parse::<i64>().ok().filter(|value| value.to_string() == text)
}

/// The words of a line. The clients here send no escapes but plain quotes.
fn split(mut line: &[u8]) -> Said {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 11;
    let mut words = Vec::new();
    loop {
        while line.first().is_some_and(is_space) {
            line = &line[1..];
        }
        if line.is_empty() {
            return Said::Words(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = line.first().copied().filter(|byte| !is_space(byte)) {
            line = &line[1..];
            if !matches!(byte, b'"' | b'\'') {
                word.push(byte);
                continue;
            }
            let Some(end) = line.iter().position(|other| *other == byte) else {
                return Said::Malformed;
            };
            word.extend_from_slice(&line[..end]);
            line = &line[end + 1..];
            if line.first().is_some_and(|byte| !is_space(byte)) {
                return Said::Malformed;
            }
        }
        words.push(word);
    }
}

/// Part of what a client is to be answered.
#[derive(Debug, Clone)]
enum Due {
    Bytes(Vec<u8>),
    /// A line that begins so.
    Error(&'static str),
}

/// The answers that a client must get, by its requests.
#[derive(Default)]
struct Model {
    password: Option<String>,
    is_known: bool,
    values: HashMap<Vec<u8>, Vec<u8>>,
    multi: Option<(Vec<Words>, bool)>,
    due: Vec<Due>,
    is_closed: bool,
}

impl Model {
    fn says(&mut self, bytes: impl AsRef<[u8]>) {
        self.due.push(Due::Bytes(bytes.as_ref().to_vec()));
    }

    fn bulk(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.says("$-1\r\n"),
            Some(bytes) => {
                self.says([format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat());
            }
        }
    }

    /// All of a client's bytes. `false` when they say something that the model does not know.
    fn hears(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(said) = parse(&mut bytes, self.is_known) {
            match said {
                Said::Malformed => {
                    self.due.push(Due::Error("-ERR Protocol error"));
                    self.is_closed = true;
                    return true;
                }
                Said::Words(words) if words.is_empty() => {}
                Said::Words(words) => {
                    if !self.request(words) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn request(&mut self, words: Words) -> bool {
        let name = String::from_utf8_lossy(&words[0]).to_lowercase();
        let takes = match name.as_str() {
            "ping" => !words.is_empty(),
            "multi" | "exec" | "discard" => words.len() == 1,
            "echo" | "get" | "incr" => words.len() == 2,
            "auth" | "del" => words.len() >= 2,
            "append" => words.len() == 3,
            "set" | "blpop" => words.len() >= 3,
            // Whatever else it may be, it is not known here.
            _ if name
                .chars()
                .any(|letter| letter.is_ascii_digit() || !letter.is_ascii_alphabetic()) =>
            {
                false
            }
            _ => return false,
        };
        if !takes || !self.is_known && name != "auth" {
            let multi = self.multi.as_mut();
            multi.into_iter().for_each(|multi| multi.1 = true);
            self.due.push(Due::Error(if takes { "-NOAUTH" } else { "-ERR " }));
            return true;
        }
        match (name.as_str(), &mut self.multi) {
            ("multi", Some(_)) => {
                self.due.push(Due::Error("-ERR MULTI calls"));
            }
            ("multi", None) => {
                self.multi = Some((Vec::new(), false));
                self.says("+OK\r\n");
            }
            ("exec" | "discard", None) => self.due.push(Due::Error("-ERR ")),
            ("discard", Some(_)) => {
                self.multi = None;
                self.says("+OK\r\n");
            }
            ("exec", Some(_)) => {
                let (all, is_refused) = self.multi.take().unwrap_or_default();
                if is_refused {
                    self.due.push(Due::Error("-EXECABORT"));
                    return true;
                }
                self.says(format!("*{}\r\n", all.len()));
                return all.into_iter().all(|words| self.run(&words));
            }
            (_, Some((all, _))) => {
                all.push(words);
                self.says("+QUEUED\r\n");
            }
            (_, None) => return self.run(&words),
        }
        true
    }

    fn run(&mut self, words: &Words) -> bool {
        let key = words.get(1).cloned().unwrap_or_default();
        let value = self.values.get(&key).cloned();
        match words[0].to_ascii_lowercase().as_slice() {
            b"ping" if words.len() == 1 => self.says("+PONG\r\n"),
            b"ping" if words.len() > 2 => self.due.push(Due::Error("-ERR wrong number")),
            b"ping" | b"echo" => self.bulk(Some(&key)),
            b"get" => self.bulk(value.as_deref()),
            b"set" if words.len() == 3 => {
                self.values.insert(key, words[2].clone());
                self.says("+OK\r\n");
            }
            // Options.
            b"set" => return false,
            b"append" => {
                let value = self.values.entry(key).or_default();
                value.extend_from_slice(&words[2]);
                let len = value.len();
                self.says(format!(":{len}\r\n"));
            }
            b"del" => {
                let count =
                    words[1..].iter().filter(|key| self.values.remove(*key).is_some()).count();
                self.says(format!(":{count}\r\n"));
            }
            b"incr" => {
                let value = value.unwrap_or_else(|| b"0".to_vec());
                match number(&value).and_then(|value| value.checked_add(1)) {
                    Some(value) => {
                        self.values.insert(key, value.to_string().into_bytes());
                        self.says(format!(":{value}\r\n"));
                    }
                    None => self.due.push(Due::Error("-ERR ")),
                }
            }
            b"blpop" => {
                if words.len() != 3 || words[2] != WAIT || value.is_some() {
                    return false;
                }
                self.says("*-1\r\n");
            }
            b"auth" => match (&self.password, words.len()) {
                (None, _) => self.due.push(Due::Error("-")),
                (Some(password), 2) if *password.as_bytes() == key => {
                    self.is_known = true;
                    self.says("+OK\r\n");
                }
                _ => self.due.push(Due::Error("-")),
            },
            _ => return false,
        }
        true
    }
}

/// A client's requests, as bytes.
fn script(random: &mut Random, prefix: &str, password: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let stranger = random.below(4) == 0;
    if let Some(password) = password.filter(|_| !stranger) {
        frame(&mut bytes, &[b"AUTH", password.as_bytes()], false);
    }
    for _ in 0..random.below(30) {
        let key = format!("{prefix}{}", random.pick(&["a", "b"]));
        let value = random.pick(&["1", "x", "", "two words", "*3", "$5\r\n", "41"]);
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let missing = format!("{prefix}none");
        let words: &[&[u8]] = match random.below(16) {
            0 => &[b"PING"],
            1 => &[b"ECHO", value],
            2..5 => &[b"SET", key, value],
            5..8 => &[b"GET", key],
            8 => &[b"APPEND", key, value],
            9 => &[b"DEL", key],
            10 | 11 => &[b"INCR", key],
            12 => &[b"MULTI"],
            13 | 14 => &[b"EXEC"],
            _ if random.below(4) == 0 => &[b"BLPOP", missing.as_bytes(), WAIT],
            _ => match random.below(3) {
                0 => &[b"GET"],
                1 => &[b"DISCARD"],
                _ => &[],
            },
        };
        frame(&mut bytes, words, random.below(4) == 0);
    }
    // Damage: to the framing mostly, at a few places or none.
    for _ in 0..random.below(3).saturating_sub(1) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        let byte = *random.pick(b"*$\r\n07-\"' ");
        match random.below(4) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => {
                let broken = random.pick(&[
                    "*\r\n",
                    "*x\r\n\r\n",
                    "*2\r\n$3\r\nGET\r\n$x\r\n",
                    "$3\r\n",
                    "*1\r\nGET\r\n",
                ]);
                bytes.splice(at..at, broken.bytes());
            }
        }
    }
    bytes
}

fn frame(bytes: &mut Vec<u8>, words: &[&[u8]], inline: bool) {
    let is_plain = |word: &&[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_alphanumeric);
    if inline && words.iter().skip(2).all(is_plain) {
        bytes.extend_from_slice(&words.join(&b' '));
        bytes.extend_from_slice(b"\r\n");
        return;
    }
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Removes every key of the server.
fn empty(socket: &Path, password: Option<&str>) {
    let mut stream = UnixStream::connect(socket).expect("the server listens");
    let mut requests = Vec::new();
    if let Some(password) = password {
        frame(&mut requests, &[b"AUTH", password.as_bytes()], false);
    }
    frame(&mut requests, &[b"FLUSHALL"], false);
    stream.write_all(&requests).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert!(answers.ends_with("+OK\r\n"), "{answers}");
}

/// Several clients at once. Returns how many requests were answered.
fn round(socket: &Path, seed: u64, password: Option<&str>) -> usize {
    let mut random = Random::new(seed);
    empty(socket, password);
    let mut clients = Vec::new();
    for number in 0..1 + random.below(6) {
        // Damage of one byte, of two clients even, leads to no key that both have, and to none of an earlier round.
        let digits = format!("{number}{seed:012}{number}");
        let prefix: String = digits.bytes().map(|digit| char::from(digit + 49)).collect();
        let bytes = script(&mut random, &prefix, password);
        let mut model = Model {
            password: password.map(str::to_owned),
            is_known: password.is_none(),
            ..Model::default()
        };
        if !model.hears(&bytes) {
            continue;
        }
        let stream = UnixStream::connect(socket).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        clients.push((stream, bytes, 0, model));
    }
    // Packets of all clients in an order drawn by chance.
    while clients.iter().any(|(_, bytes, sent, _)| sent < &bytes.len()) {
        let number = random.below(clients.len() as u64) as usize;
        let (stream, bytes, sent, model) = &mut clients[number];
        let most = *random.pick(&[1, 3, 20, 100, 1000]);
        let end = (*sent + 1 + random.below(most) as usize).min(bytes.len());
        match stream.write_all(&bytes[*sent..end]) {
            Ok(()) => *sent = end,
            // The server closes a connection at its first malformed request.
            Err(_) if model.is_closed => *sent = bytes.len(),
            Err(error) => panic!("seed {seed}: {error}"),
        }
        if random.below(8) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(300)));
        }
    }
    let mut answered = 0;
    for (number, (stream, bytes, _, model)) in clients.into_iter().enumerate() {
        let mut reader = BufReader::new(stream);
        let told = |what: String| {
            let bytes = String::from_utf8_lossy(&bytes);
            panic!("seed {seed}, client {number}: {what}\nit sent {bytes:?}")
        };
        for (at, due) in model.due.iter().enumerate() {
            answered += 1;
            match due {
                Due::Bytes(right) => {
                    let mut found = vec![0; right.len()];
                    let read = reader.read_exact(&mut found);
                    if read.is_err() || found != *right {
                        let [found, right] =
                            [&found, right].map(|bytes| String::from_utf8_lossy(bytes));
                        told(format!("answer {at} is {found:?} and not {right:?} ({read:?})"));
                    }
                }
                Due::Error(right) => {
                    let mut found = String::new();
                    let read = reader.read_line(&mut found);
                    if !found.starts_with(right) {
                        told(format!("answer {at} is {found:?} and not {right:?} ({read:?})"));
                    }
                }
            }
        }
        // It may have been closed. What is not whole gets no answer.
        let _ = reader.get_ref().shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        // Bytes that a closed connection has not taken reset it.
        let ended = reader.read_to_end(&mut rest);
        if !rest.is_empty() || ended.is_err() && !model.is_closed {
            let rest = String::from_utf8_lossy(&rest);
            told(format!("{rest:?} follows the last answer ({ended:?})"));
        }
    }
    answered
}

#[test]
fn connections_stay_in_step() {
    let given = std::env::var(SECONDS).ok();
    let mut given =
        given.iter().flat_map(|given| given.split(',')).map(|number| number.parse().ok());
    let seconds: Option<u64> = given.next().flatten();
    let seed = given.next().flatten().unwrap_or(1);
    let began = Instant::now();
    let mut answered = 0;
    let mut rounds = 0;
    if let Some(socket) = std::env::var_os(SOCKET) {
        let password = std::env::var(PASSWORD).ok();
        while began.elapsed() < Duration::from_secs(seconds.unwrap_or(1)) {
            answered += round(Path::new(&socket), seed + rounds, password.as_deref());
            rounds += 1;
        }
    } else {
        for password in [None, Some("secret")] {
            let server =
                Served::with(32 << 20, |options| options.password = password.map(str::to_owned));
            let until = began.elapsed() + Duration::from_secs(seconds.unwrap_or(0)) / 2;
            let mut here = 0;
            while here < 100 || began.elapsed() < until {
                answered += round(&server.socket, seed + rounds, password);
                (here, rounds) = (here + 1, rounds + 1);
            }
        }
    }
    println!("{rounds} rounds, {answered} answers in step");
    assert!(answered as u64 > rounds, "most rounds ask something");
}

/// Inputs that ended the server, or had it answer out of step.
#[test]
fn malformed_requests_behind_others_are_answered() {
    for (bytes, answers) in [
        (&b"GET a\n*\r\n\r\n"[..], "$-1\r\n-ERR Protocol error: invalid multibulk length\r\n"),
        (
            b"GET a\r\n*x\r\n*3\r\n$3\r\nSET\r\n$1\r\nz\r\n$1\r\n1\r\n",
            "$-1\r\n-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            b"MULTI\r\nSET z 1\r\n*1\r\nx\r\nEXEC\r\n",
            "+OK\r\n+QUEUED\r\n-ERR Protocol error: expected '$', got 'x'\r\n",
        ),
        (
            b"GET a\r\nGET 'a\r\nSET z 1\r\n",
            "$-1\r\n-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
    ] {
        let server = Served::new();
        let mut other = server.client();
        other.gets("SET k v", crate::client::ok());
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut found = String::new();
        // What was not read resets the connection, behind the answers.
        let _ = stream.read_to_string(&mut found);
        assert_eq!(found, answers);
        other.gets(
            "MGET k z",
            crate::client::Answer::List(vec!["v".into(), crate::client::Answer::Null]),
        );
    }
}
