//! The server beside the real Redis: CPU time of a command, throughput, memory of a million small keys.
//!
//! `bench [ROUNDS [COMMANDS]]` wants `redis-server` and `redis-benchmark` in the path and works in
//! `/dev/shm`. Subjects take turns; medians are printed with the least and the most.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use outlast::{MapOptions, UnrecoveredPool};
use outlast_redis::beside::{Running, SUBJECTS, Subject, Turn, Work};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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

/// The example beside this one, with a pool of 1 GiB.
fn serve(pool: &Path, port: u16, scheme: &str) -> Command {
    let this = std::env::current_exe().expect("a program knows its file");
    let mut command = Command::new(this.with_file_name("serve"));
    command.arg(pool).args([&port.to_string(), "1073741824", scheme]);
    command
}

fn start(subject: &Subject) -> Outcome<Running> {
    Ok(Running::start(subject, Path::new("/dev/shm"), &serve)?)
}

/// The median with the least and the most.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return "-".to_owned();
    };
    format!("{:.digits$} ({first:.digits$}..{last:.digits$})", values[values.len() / 2])
}

fn measure(rounds: usize, commands: u32, work: Work) -> Outcome<()> {
    let mut turns: Vec<Vec<Turn>> = SUBJECTS.iter().map(|_| Vec::new()).collect();
    let commands = if work.pipeline > 1 { commands * 4 } else { commands };
    for _ in 0..rounds {
        for (subject, turns) in SUBJECTS.iter().zip(&mut turns) {
            turns.push(start(subject)?.turn(commands, work)?);
        }
    }
    let Work { test, bytes, pipeline } = work;
    println!("{test} of {bytes} bytes, 8 clients, pipeline {pipeline}");
    for (subject, turns) in SUBJECTS.iter().zip(&turns) {
        let of = |figure: &dyn Fn(&Turn) -> f64| turns.iter().map(figure).collect::<Vec<f64>>();
        println!(
            "  {:16} {:24} us CPU  {:24} us user  {:24} k/s",
            subject.name,
            spread(of(&Turn::cpu_us), 2),
            spread(of(&|turn| turn.user_us), 2),
            spread(of(&|turn| turn.rate / 1e3), 1)
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
fn restart(rounds: usize) -> Outcome<()> {
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
    println!("first answer after SIGKILL, pool of 1 GiB: {} ms", spread(millis, 1));
    Ok(())
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let rounds = words.next().map_or(Ok(5), |word| word.parse())?;
    let commands = words.next().map_or(Ok(100_000), |word| word.parse())?;
    memory()?;
    restart(rounds)?;
    for work in WORKS {
        measure(rounds, commands, work)?;
    }
    Ok(())
}
