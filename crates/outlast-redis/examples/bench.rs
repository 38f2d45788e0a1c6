//! The server beside the real Redis: CPU time of a command, throughput, memory of a million small keys, and YCSB's
//! mix A over sockets.
//!
//! `bench [ROUNDS [COMMANDS]]` wants `redis-server` and `redis-benchmark` in the path and works in
//! `/dev/shm`. Subjects take turns; medians are printed with their quartiles. `bench disk [ROUNDS
//! [COMMANDS]]` puts pipelines of writes on the disk of `/var/tmp` instead, where each commit waits for a sync,
//! beside Redis with an AOF that is synced always, and beside the same server without syncs.
//!
//! `bench table [ROUNDS [COMMANDS [NAMES]]]` prints a table of all tests of `redis-benchmark`, or those named, by pipelines
//! of 16 and 1 in `/dev/shm` and on the disk of `/var/tmp`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use outlast::Pool;
use outlast::medium::{MapOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast_measure::{Rounds, Spread, Times};
use outlast_redis::beside::{
    BOUND, BesideError, Running, SUBJECTS, Subject, TESTS, Test, Turn, Work,
};
use outlast_redis::{Options, Server, create_pool};
use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::letters;
use outlast_workloads::zipf::{ScrambledZipfian, fnv_hash};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const fn work(test: &'static str, bytes: u32, pipeline: u32) -> Work {
    Work { test, bytes, pipeline }
}

const WORKS: [Work; 8] = [
    work("set", 100, 1),
    work("set", 1000, 1),
    work("hset", 100, 1),
    work("hset", 1000, 1),
    work("set", 100, 16),
    work("set", 1000, 16),
    work("hset", 100, 16),
    work("get", 100, 16),
];

/// Bytes of a new pool.
const POOL_BYTES: u64 = 1 << 30;

/// The first word of a command that serves.
const SERVE: &str = "serve";

/// The command that serves a pool: this program again.
fn serve(pool: &Path, port: u16, scheme: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its file"));
    command.arg(SERVE).arg(pool).args([&port.to_string(), scheme]);
    command
}

/// The domain of a pool that is served, where it is not the one that is detected.
const DOMAIN: &str = "OUTLAST_BENCH_DOMAIN";

/// Pipelines of writes on a disk.
const DISK_WORKS: [Work; 6] = [
    work("set", 100, 16),
    work("set", 100, 64),
    work("lpush", 100, 16),
    work("lpush", 100, 64),
    work("zadd", 100, 16),
    work("zadd", 100, 64),
];

/// Throughput of writes of which each is synced before it is answered.
fn disk(rounds: u32, commands: u32) -> Outcome<()> {
    let folder = Path::new("/var/tmp");
    let unsynced = |pool: &Path, port: u16, scheme: &str| {
        let mut command = serve(pool, port, scheme);
        command.env(DOMAIN, "process");
        command
    };
    println!("thousand commands a second on a disk, and the share of Redis with AOF always");
    for work in DISK_WORKS {
        let turns = Rounds::new(rounds, 1).run(3, |number, _| {
            let running = match number {
                0 => Running::start(&SUBJECTS[0], folder, &serve)?,
                1 => Running::start(&SUBJECTS[4], folder, &serve)?,
                _ => Running::start(&SUBJECTS[0], folder, &unsynced)?,
            };
            Ok::<_, BesideError>(running.turn(commands, work)?.rate / 1e3)
        })?;
        let spreads: Vec<Spread> = turns.into_iter().filter_map(Spread::of).collect();
        let [ours, redis, bound] = &spreads[..] else { return Err("no rounds".into()) };
        let share = ours.median / redis.median;
        println!(
            "  {:5} pipeline {:2}: swift {ours:.1}, always {redis:.1}, share {share:.2}; without syncs {bound:.1}",
            work.test, work.pipeline
        );
    }
    Ok(())
}

/// Redis' AOF that is synced always: the same promise as ours.
const ALWAYS: usize = 4;

/// All tests of the benchmark, or those named, in memory and on a disk.
fn table(rounds: u32, commands: u32, names: Option<&str>) -> Outcome<()> {
    let chosen: Vec<&Test> = match names {
        None => TESTS.iter().collect(),
        Some(names) => names
            .split(',')
            .map(|name| {
                let found = TESTS.iter().find(|test| test.name.eq_ignore_ascii_case(name));
                found.ok_or_else(|| format!("no test of redis-benchmark is called {name}"))
            })
            .collect::<Result<_, _>>()?,
    };
    // Ours, and the real one without AOF, with everysec and with always.
    let subjects = [0, 2, 3, ALWAYS].map(|number| &SUBJECTS[number]);
    println!(
        "CPU of the server in us a command, its share of Redis with AOF always; thousand a second"
    );
    for (place, folder) in [("memory", "/dev/shm"), ("disk", "/var/tmp")] {
        for pipeline in [16, 1] {
            println!(
                "\n| {place} ({folder}), pipeline of {pipeline} | swift | no AOF | everysec | always | share | swift | no AOF | everysec | always |"
            );
            println!("|---|---|---|---|---|---|---|---|---|---|");
            for test in &chosen {
                row(rounds, commands, (test, pipeline), Path::new(folder), &subjects)?;
            }
        }
    }
    Ok(())
}

fn row(
    rounds: u32,
    commands: u32,
    (test, pipeline): (&Test, u32),
    folder: &Path,
    subjects: &[&Subject],
) -> Outcome<()> {
    // As many take much longer without a pipeline.
    let commands = if pipeline > 1 { commands } else { (commands / 8).max(1) };
    let turns = Rounds::new(rounds, 1).run(subjects.len(), |number, _| {
        Running::start(subjects[number], folder, &serve)?.turn_of(test, commands, pipeline)
    })?;
    let cells = |figure: &dyn Fn(&Turn) -> f64, digits: usize| -> Vec<String> {
        turns.iter().map(|turns| format!("{:.digits$}", of_turns(turns, figure))).collect()
    };
    let [ours, .., always] = &turns[..] else { return Err("no subjects".into()) };
    let shares = ours.iter().zip(always).map(|(ours, always)| ours.cpu_us() / always.cpu_us());
    let share = Spread::of(shares).ok_or("no rounds")?;
    let (cpu, rate) = (cells(&Turn::cpu_us, 2), cells(&|turn| turn.rate / 1e3, 1));
    println!("| `{}` | {} | {share:.2} | {} |", test.name, cpu.join(" | "), rate.join(" | "));
    Ok(())
}

/// Serves a pool until the process is killed.
fn serve_pool(path: &str, port: &str, scheme: &str) -> Outcome<()> {
    let scheme = Some(scheme.parse()?);
    let open = OpenOptions { scheme, grow_limit_bytes: 16 << 30, ..OpenOptions::default() };
    let domain = std::env::var(DOMAIN).ok().map(|domain| domain.parse()).transpose()?;
    let map = MapOptions { domain, ..MapOptions::default() };
    let pool = match Path::new(path).exists() {
        true => Pool::open_with(path, &open, &map)?,
        false => create_pool(Path::new(path), POOL_BYTES, &open, &map)?,
    };
    let options = Options {
        addresses: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?))],
        checkpoint: outlast::checkpoint::checkpoint_path(path),
        ..Options::default()
    };
    Ok(Server::bind(Arc::new(pool), options)?.run()?)
}

fn start(subject: &Subject) -> Outcome<Running> {
    Ok(Running::start(subject, Path::new("/dev/shm"), &serve)?)
}

/// The spread of a figure over turns.
fn of_turns<T>(turns: &[T], figure: impl Fn(&T) -> f64) -> Spread {
    Spread::of(turns.iter().map(figure)).expect("there are rounds")
}

fn measure(rounds: u32, commands: u32, work: Work) -> Outcome<()> {
    let subjects = [&SUBJECTS[..], &[BOUND]].concat();
    let commands = if work.pipeline > 1 { commands * 4 } else { commands };
    let turns = Rounds::new(rounds, 1).run(subjects.len(), |number, _| -> Outcome<Turn> {
        Ok(start(&subjects[number])?.turn(commands, work)?)
    })?;
    let Work { test, bytes, pipeline } = work;
    println!("{test} of {bytes} bytes, 8 clients, pipeline {pipeline}");
    for (subject, turns) in subjects.iter().zip(&turns) {
        let of = |figure: &dyn Fn(&Turn) -> f64| of_turns(turns, figure);
        println!(
            "  {:16} {:24.2} us CPU  {:24.2} us user  {:24.1} k/s",
            subject.name,
            of(&Turn::cpu_us),
            of(&|turn| turn.user_us),
            of(&|turn| turn.rate / 1e3)
        );
    }
    Ok(())
}

/// Connections of YCSB's load, each with a thread of its own.
const CONNECTIONS: usize = 8;
/// Records of YCSB's load, and what each has.
const RECORDS: u64 = 20_000;
const FIELDS: u64 = 10;
const FIELD_BYTES: usize = 100;

/// A connection that sends commands and reads their answers.
struct Connection {
    reader: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Connection {
    fn open(server: &Running) -> Outcome<Self> {
        let stream = server.connect()?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream), line: Vec::new() })
    }

    fn send(&mut self, words: &[&[u8]]) -> Outcome<()> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        Ok(self.reader.get_mut().write_all(&command)?)
    }

    /// Reads an answer; returns its number, its length, or how many items it has.
    fn answer(&mut self) -> Outcome<usize> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        let number = || line[1..].parse::<usize>().map_err(|_| format!("an answer: {line}"));
        match self.line.first() {
            Some(b':') => Ok(number()?),
            Some(b'$') => {
                let len = number()?;
                self.line.resize(len + 2, 0);
                self.reader.read_exact(&mut self.line)?;
                Ok(len)
            }
            Some(b'*') => {
                let items = number()?;
                (0..items).try_for_each(|_| self.answer().map(drop))?;
                Ok(items)
            }
            _ => Err(format!("an answer: {line}").into()),
        }
    }
}

fn record_key(record: u64) -> Vec<u8> {
    format!("user{:019}", fnv_hash(record)).into_bytes()
}

fn field_value(random: &mut Random) -> Vec<u8> {
    let mut value = vec![0; FIELD_BYTES];
    letters(random, &mut value);
    value
}

fn load_records(server: &Running) -> Outcome<()> {
    let (mut connection, mut random) = (Connection::open(server)?, Random::new(1));
    for record in 0..RECORDS {
        let mut words = vec![b"HSET".to_vec(), record_key(record)];
        for field in 0..FIELDS {
            words.extend([format!("field{field}").into_bytes(), field_value(&mut random)]);
        }
        connection.send(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        connection.answer()?;
    }
    Ok(())
}

/// Half reads of a record, half updates of a field, by Zipf's law. Returns the nanoseconds of each.
fn operations(server: &Running, number: usize, count: u32) -> Outcome<Vec<u64>> {
    let (mut connection, keys) = (Connection::open(server)?, ScrambledZipfian::new(RECORDS));
    let mut random = Random::stream(2, number as u64);
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let key = record_key(keys.draw(&mut random));
        let update = (random.below(2) == 0).then(|| {
            (format!("field{}", random.below(FIELDS)).into_bytes(), field_value(&mut random))
        });
        let began = Instant::now();
        let (answer, wanted) = match &update {
            Some((field, value)) => {
                connection.send(&[b"HSET", &key, field, value])?;
                (connection.answer()?, 0)
            }
            None => {
                connection.send(&[b"HGETALL", &key])?;
                (connection.answer()?, 2 * FIELDS as usize)
            }
        };
        times.push(began.elapsed().as_nanos() as u64);
        if answer != wanted {
            return Err(format!("an answer of {answer} items instead of {wanted}").into());
        }
    }
    Ok(times)
}

/// YCSB's mix A: throughput and latency as its connections see them, CPU time of the server.
fn ycsb(rounds: u32, count: u32) -> Outcome<()> {
    let turns = Rounds::new(rounds, 1).run(SUBJECTS.len(), |number, _| -> Outcome<[f64; 4]> {
        let running = &start(&SUBJECTS[number])?;
        load_records(running)?;
        let before = running.cpu_us()?;
        let began = Instant::now();
        let times: Outcome<Vec<Vec<u64>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS)
                .map(|number| {
                    scope.spawn(move || operations(running, number, count / CONNECTIONS as u32))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a connection's thread has panicked")?)
                .collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        let used = running.cpu_us()? - before;
        let times = times?.concat();
        let count = times.len() as f64;
        let times = Times::of(times);
        let at = |share| times.quantile_ns(share) / 1e3;
        Ok([used / count, count / seconds / 1e3, at(0.5), at(0.99)])
    })?;
    println!("YCSB's mix A, {RECORDS} records of {FIELDS} fields, {CONNECTIONS} connections");
    for (subject, turns) in SUBJECTS.iter().zip(&turns) {
        let [cpu, rate, p50, p99] = [0, 1, 2, 3].map(|n| of_turns(turns, |turn| turn[n]));
        println!(
            "  {:16} {cpu:24.2} us CPU  {rate:24.1} k/s  {p50:24.0} us p50  {p99:24.0} us p99",
            subject.name
        );
    }
    Ok(())
}

/// The number of a line `name:value` of an answer.
fn value_of(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// Bytes of the chunks that a pool uses, whatever is free in them.
fn pool_bytes(path: &Path) -> Outcome<f64> {
    let pool = UnrecoveredPool::open_file(path, &MapOptions::default())?.recover()?;
    let chunk_bytes = pool.header().geometry.chunk_bytes;
    let report = pool.check();
    Ok(((report.chunks_class + report.chunks_large) * chunk_bytes) as f64)
}

/// Bytes that a million keys of 16 bytes with values of 8 take.
fn memory() -> Outcome<()> {
    const KEYS: usize = 1_000_000;
    println!("memory of a million keys of 16 bytes with values of 8");
    for subject in [&SUBJECTS[0], &SUBJECTS[2]] {
        let mut running = start(subject)?;
        let info = running.ask("INFO memory")?;
        let before = value_of(&info, "used_memory").ok_or("INFO says nothing of memory")?;
        let mut stream = running.connect()?;
        let mut answers = vec![0; 5 * 1000];
        for batch in 0..KEYS / 1000 {
            let commands: String = (0..1000)
                .map(|index| {
                    let key = batch * 1000 + index;
                    format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$8\r\n{key:08}\r\n")
                })
                .collect();
            stream.write_all(commands.as_bytes())?;
            stream.read_exact(&mut answers)?;
        }
        let used = if subject.is_outlast() {
            running.process.kill()?;
            running.process.wait()?;
            pool_bytes(&running.folder.join("pool"))?
        } else {
            let info = running.ask("INFO memory")?;
            value_of(&info, "used_memory").ok_or("INFO says nothing of memory")? - before
        };
        println!("  {:16} {:.1} bytes a key", subject.name, used / KEYS as f64);
    }
    Ok(())
}

/// How long a server takes to its first answer after it was killed with a pool of 1 GiB.
fn restart(rounds: u32) -> Outcome<()> {
    let mut millis = Vec::new();
    for _ in 0..rounds {
        let mut running = start(&SUBJECTS[0])?;
        running.load(200_000, work("set", 1000, 16))?;
        running.process.kill()?;
        running.process.wait()?;
        let began = Instant::now();
        let pool = running.folder.join("pool");
        running.restart(serve(&pool, running.port(), "swift"))?;
        running.wait_for("GET key:000000000001", "$")?;
        millis.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let millis = of_turns(&millis, |millis| *millis);
    println!("first answer after SIGKILL, pool of 1 GiB: {millis:.1} ms");
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, path, port, scheme] = &words[..]
        && serve == SERVE
    {
        return serve_pool(path, port, scheme);
    }
    if words.first().is_some_and(|word| word == "disk") {
        let number = |at: usize| words.get(at).map(|word| word.parse()).transpose();
        let (rounds, commands) = (number(1)?.unwrap_or(5), number(2)?.unwrap_or(100_000));
        return disk(rounds, commands);
    }
    if words.first().is_some_and(|word| word == "table") {
        let number = |at: usize| words.get(at).map(|word| word.parse()).transpose();
        let (rounds, commands) = (number(1)?.unwrap_or(3), number(2)?.unwrap_or(80_000));
        return table(rounds, commands, words.get(3).map(String::as_str));
    }
    let mut words = words.into_iter();
    let rounds = words.next().map_or(Ok(5), |word| word.parse())?;
    let commands = words.next().map_or(Ok(100_000), |word| word.parse())?;
    memory()?;
    restart(rounds)?;
    ycsb(rounds, commands)?;
    for work in WORKS {
        measure(rounds, commands, work)?;
    }
    Ok(())
}
