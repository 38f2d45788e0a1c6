//! The server beside the real Redis: CPU time of a command, throughput, memory of a million small keys.
//!
//! `bench [ROUNDS [COMMANDS]]` wants `redis-server` and `redis-benchmark` in the path and works in
//! `/dev/shm`. Subjects take turns; medians are printed with the least and the most. CPU time is what
//! the system has counted for the server's process while the clients ran.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlast::{MapOptions, UnrecoveredPool};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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
    for one in WORKS {
        work(rounds, commands, one)?;
    }
    Ok(())
}
