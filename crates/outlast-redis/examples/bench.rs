//! The server beside the real Redis: CPU time of a command, throughput, memory of a million small keys, and YCSB's
//! mix A over sockets.
//!
//! `bench [ROUNDS [COMMANDS]]` wants `redis-server` and `redis-benchmark` in the path and works in
//! `/dev/shm`. Subjects take turns; medians are printed with the least and the most. CPU time is what
//! the system has counted for the server's process while the clients ran.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlast::{MapOptions, UnrecoveredPool};
use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::letters;
use outlast_workloads::zipf::{ScrambledZipfian, fnv_hash};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A server under test.
struct Subject {
    name: &'static str,
    port: u16,
    arguments: Arguments,
}

/// How it is started.
enum Arguments {
    /// Ours, under a scheme.
    Outlast(&'static str),
    /// The real one, with these settings.
    Redis(&'static [&'static str]),
}

const SUBJECTS: [Subject; 5] = [
    Subject { name: "outlast swift", port: 7411, arguments: Arguments::Outlast("swift") },
    Subject { name: "outlast redo", port: 7412, arguments: Arguments::Outlast("redo") },
    Subject { name: "redis no aof", port: 7413, arguments: Arguments::Redis(&[]) },
    Subject {
        name: "redis everysec",
        port: 7414,
        arguments: Arguments::Redis(&["--appendonly", "yes", "--appendfsync", "everysec"]),
    },
    Subject {
        name: "redis always",
        port: 7415,
        arguments: Arguments::Redis(&["--appendonly", "yes", "--appendfsync", "always"]),
    },
];

/// A work: the benchmark's test, bytes of a value, commands in a pipeline.
const WORKS: [(&str, u32, u32); 8] = [
    ("set", 100, 1),
    ("set", 1000, 1),
    ("hset", 100, 1),
    ("hset", 1000, 1),
    ("set", 100, 16),
    ("set", 1000, 16),
    ("hset", 100, 16),
    ("get", 100, 16),
];

struct Running {
    child: Child,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    fn start(&self) -> Outcome<Running> {
        let folder = PathBuf::from(format!("/dev/shm/outlast-bench-{}", self.port));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder)?;
        let port = self.port.to_string();
        let mut command = match self.arguments {
            Arguments::Outlast(scheme) => {
                let serve = std::env::current_exe()?.with_file_name("serve");
                let mut command = Command::new(serve);
                command.arg(folder.join("pool")).args([&port, "1073741824", scheme]);
                command
            }
            Arguments::Redis(settings) => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &port, "--save", "", "--dir"]).arg(&folder).args(settings);
                command.args(["--auto-aof-rewrite-percentage", "0"]);
                command
            }
        };
        let child = command.stdout(Stdio::null()).spawn()?;
        let running = Running { child, folder };
        let began = Instant::now();
        while self.ask("PING").is_err() {
            if began.elapsed() > Duration::from_secs(10) {
                return Err(format!("{} does not answer", self.name).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(running)
    }

    fn ask(&self, line: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// Microseconds of CPU that a process has used, in user and kernel.
fn cpu_micros(process: u32) -> Outcome<[f64; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok());
    Ok([ticks(11).unwrap_or(0.0) * 1e4, ticks(12).unwrap_or(0.0) * 1e4])
}

/// Commands per second that the benchmark reports.
fn benchmark(subject: &Subject, commands: u32, work: (&str, u32, u32)) -> Outcome<f64> {
    let (test, bytes, pipeline) = work;
    let output = Command::new("redis-benchmark")
        .args(["-p", &subject.port.to_string(), "-c", "8", "--csv", "-r", "100000"])
        .args(["-n", &commands.to_string(), "-t", test, "-d", &bytes.to_string()])
        .args(["-P", &pipeline.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().find(|line| line.starts_with(&format!("\"{}", test.to_uppercase())));
    let rate = row.and_then(|row| row.split(',').nth(1)).map(|rate| rate.trim_matches('"'));
    let rate = rate.and_then(|rate| rate.parse().ok());
    rate.ok_or_else(|| format!("the benchmark said: {text}").into())
}

/// The median with the least and the most.
fn spread(values: &mut [f64], digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return "-".to_owned();
    };
    format!("{:.digits$} ({first:.digits$}..{last:.digits$})", values[values.len() / 2])
}

fn work(rounds: usize, commands: u32, work: (&'static str, u32, u32)) -> Outcome<()> {
    let mut figures: Vec<[Vec<f64>; 3]> = SUBJECTS.iter().map(|_| Default::default()).collect();
    for _ in 0..rounds {
        for (subject, figures) in SUBJECTS.iter().zip(&mut figures) {
            let running = subject.start()?;
            let process = running.child.id();
            let commands = if work.2 > 1 { commands * 4 } else { commands };
            benchmark(subject, commands / 4, work)?;
            let before = cpu_micros(process)?;
            let rate = benchmark(subject, commands, work)?;
            let after = cpu_micros(process)?;
            let micros = |index: usize| (after[index] - before[index]) / f64::from(commands);
            figures[0].push(micros(0) + micros(1));
            figures[1].push(micros(0));
            figures[2].push(rate / 1000.0);
        }
    }
    let (test, bytes, pipeline) = work;
    println!("{test} of {bytes} bytes, 8 clients, pipeline {pipeline}");
    for (subject, [cpu, user, rate]) in SUBJECTS.iter().zip(&mut figures) {
        println!(
            "  {:16} {:24} us CPU  {:24} us user  {:24} k/s",
            subject.name,
            spread(cpu, 2),
            spread(user, 2),
            spread(rate, 1)
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
    fn open(subject: &Subject) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", subject.port))?;
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

fn load_records(subject: &Subject) -> Outcome<()> {
    let (mut connection, mut random) = (Connection::open(subject)?, Random::new(1));
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
fn operations(subject: &Subject, number: usize, count: u32) -> Outcome<Vec<u64>> {
    let (mut connection, keys) = (Connection::open(subject)?, ScrambledZipfian::new(RECORDS));
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
            return Err(format!("{}: {answer} instead of {wanted}", subject.name).into());
        }
    }
    Ok(times)
}

/// YCSB's mix A: throughput and latency as its connections see them, CPU time of the server.
fn ycsb(rounds: usize, count: u32) -> Outcome<()> {
    let mut figures: Vec<[Vec<f64>; 4]> = SUBJECTS.iter().map(|_| Default::default()).collect();
    for _ in 0..rounds {
        for (subject, figures) in SUBJECTS.iter().zip(&mut figures) {
            let running = subject.start()?;
            load_records(subject)?;
            let before = cpu_micros(running.child.id())?;
            let began = Instant::now();
            let times: Outcome<Vec<Vec<u64>>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..CONNECTIONS)
                    .map(|number| {
                        scope.spawn(move || operations(subject, number, count / CONNECTIONS as u32))
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| {
                        thread.join().map_err(|_| "a connection's thread has panicked")?
                    })
                    .collect()
            });
            let seconds = began.elapsed().as_secs_f64();
            let after = cpu_micros(running.child.id())?;
            let mut times = times?.concat();
            times.sort_unstable();
            let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize] as f64 / 1e3;
            figures[0].push((after[0] + after[1] - before[0] - before[1]) / times.len() as f64);
            figures[1].push(times.len() as f64 / seconds / 1e3);
            figures[2].push(at(0.5));
            figures[3].push(at(0.99));
        }
    }
    println!("YCSB's mix A, {RECORDS} records of {FIELDS} fields, {CONNECTIONS} connections");
    for (subject, [cpu, rate, p50, p99]) in SUBJECTS.iter().zip(&mut figures) {
        println!(
            "  {:16} {:24} us CPU  {:24} k/s  {:24} us p50  {:24} us p99",
            subject.name,
            spread(cpu, 2),
            spread(rate, 1),
            spread(p50, 0),
            spread(p99, 0)
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
        let mut running = subject.start()?;
        let info = subject.ask("INFO memory")?;
        let before = value_of(&info, "used_memory").ok_or("INFO says nothing of memory")?;
        let mut stream = TcpStream::connect(("127.0.0.1", subject.port))?;
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
        let used = match subject.arguments {
            Arguments::Outlast(_) => {
                running.child.kill()?;
                running.child.wait()?;
                pool_bytes(&running.folder.join("pool"))?
            }
            Arguments::Redis(_) => {
                let info = subject.ask("INFO memory")?;
                value_of(&info, "used_memory").ok_or("INFO says nothing of memory")? - before
            }
        };
        println!("  {:16} {:.1} bytes a key", subject.name, used / KEYS as f64);
    }
    Ok(())
}

/// How long a server takes to its first answer after it was killed with a pool of 1 GiB.
fn restart(rounds: usize) -> Outcome<()> {
    let subject = &SUBJECTS[0];
    let mut millis = Vec::new();
    for _ in 0..rounds {
        let mut running = subject.start()?;
        benchmark(subject, 200_000, ("set", 1000, 16))?;
        running.child.kill()?;
        running.child.wait()?;
        let serve = std::env::current_exe()?.with_file_name("serve");
        let began = Instant::now();
        let mut command = Command::new(serve);
        command.arg(Path::new(&running.folder).join("pool"));
        running.child = command.args([&subject.port.to_string(), "0", "swift"]).spawn()?;
        while !subject.ask("GET key:000000000001").is_ok_and(|answer| answer.starts_with('$')) {
            std::thread::sleep(Duration::from_millis(1));
        }
        millis.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!("first answer after SIGKILL, pool of 1 GiB: {} ms", spread(&mut millis, 1));
    Ok(())
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let rounds = words.next().map_or(Ok(5), |word| word.parse())?;
    let commands = words.next().map_or(Ok(100_000), |word| word.parse())?;
    memory()?;
    restart(rounds)?;
    ycsb(rounds, commands)?;
    for one in WORKS {
        work(rounds, commands, one)?;
    }
    Ok(())
}
