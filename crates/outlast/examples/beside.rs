//! What readers in other processes cost a writer, and what the writer costs them.
//!
//! `cargo run --release -p outlast --example beside [DIRECTORY [ROUNDS]]`: a process puts values into a map, one a
//! transaction, and two others look values up, one a snapshot. In a round each side works alone, then both work
//! together; and the writer works beside two processes that only compute, which is what the cores themselves cost.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlast::collections::{ByteMap, ByteMapOptions, Dictionary};
use outlast::{Abort, Pool, RootKind, Runner, Transact};
use outlast_measure::Spread;
use outlast_trace::mix;

const KEYS: u64 = 100_000;
const TURN: Duration = Duration::from_millis(700);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path] => print(write(Path::new(path))?),
        ["read", path] => print(read(Path::new(path))?),
        ["compute"] => print(compute()),
        _ => {
            let directory = arguments.first().map_or("/var/tmp", String::as_str);
            let rounds = arguments.get(1).map_or(Ok(7), |rounds| rounds.parse())?;
            compare(Path::new(directory), rounds)
        }
    }
}

fn print(rate: f64) -> Result<()> {
    println!("{rate}");
    Ok(())
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn root<T: Transact>(tx: &mut T) -> std::result::Result<ByteMap, Abort> {
    let (root, _) = tx.root()?.ok_or_else(|| Abort::cancelled("an empty pool"))?;
    ByteMap::open(tx, root)
}

/// Transactions a second.
fn write(path: &Path) -> Result<f64> {
    let pool = Pool::open_or_create(path)?;
    let mut lane = pool.lane()?;
    let mut count = 0;
    let rate = rate(|| {
        count += 1;
        lane.run(|tx| root(tx)?.insert(tx, &key(mix(count) % KEYS), &[count as u8; 100]).map(drop))
    })?;
    Ok(rate)
}

/// Snapshots a second.
fn read(path: &Path) -> Result<f64> {
    let mut reader = Pool::read(path)?;
    let (mut count, mut value) = (u64::from(std::process::id()) << 32, Vec::new());
    Ok(rate(|| {
        count += 1;
        reader.run(|tx| root(tx)?.get(tx, &key(mix(count) % KEYS), &mut value).map(drop))
    })?)
}

/// As often as a turn allows.
fn rate<E>(mut step: impl FnMut() -> std::result::Result<(), E>) -> std::result::Result<f64, E> {
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < TURN {
        (0..16).try_for_each(|_| step())?;
        count += 16;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

fn compute() -> f64 {
    let mut number = 0;
    rate(|| {
        (0..1000).for_each(|_| number = mix(number));
        Ok::<_, Abort>(())
    })
    .map_or(0.0, |rate| std::hint::black_box(rate + (number & 1) as f64))
}

fn start(arguments: &[&str]) -> Result<Child> {
    Ok(Command::new(std::env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()?)
}

fn rate_of(mut child: Child) -> Result<f64> {
    let mut text = String::new();
    child.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
    if !child.wait()?.success() {
        return Err("a process has failed".into());
    }
    Ok(text.trim().parse()?)
}

fn compare(directory: &Path, rounds: usize) -> Result<()> {
    let path = directory.join(format!("beside-{}.pool", std::process::id()));
    let pool = Pool::options().size(64 << 20).create(&path)?;
    let mut lane = pool.lane()?;
    let map = lane.run(|tx| {
        let map = ByteMap::create(tx, &ByteMapOptions::default())?;
        tx.set_root(map.root(), RootKind::HashMap)?;
        Ok(map)
    })?;
    for from in (0..KEYS).step_by(100) {
        lane.run(|tx| {
            (from..from + 100).try_for_each(|at| map.insert(tx, &key(at), &[0; 100]).map(drop))
        })?;
    }
    drop(lane);
    println!("{}", pool.medium().describe());
    pool.try_close()?;
    let file = path.to_str().ok_or("a path of text")?;
    let (mut writers, mut beside_work, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    let mut rates = [0.0; 2];
    for _ in 0..rounds {
        let alone = rate_of(start(&["write", file])?)?;
        let two = [start(&["read", file])?, start(&["read", file])?];
        let reads: f64 = two.into_iter().map(rate_of).sum::<Result<f64>>()?;
        let two = [start(&["compute"])?, start(&["compute"])?];
        let beside_two = rate_of(start(&["write", file])?)?;
        two.into_iter().try_for_each(|child| rate_of(child).map(drop))?;
        let writer = start(&["write", file])?;
        let two = [start(&["read", file])?, start(&["read", file])?];
        let together = rate_of(writer)?;
        let reads_together: f64 = two.into_iter().map(rate_of).sum::<Result<f64>>()?;
        rates = [alone, reads];
        writers.push(together / alone);
        beside_work.push(beside_two / alone);
        readers.push(reads_together / reads);
    }
    println!("alone: {:.0} transactions/s, two readers {:.0} snapshots/s", rates[0], rates[1]);
    println!("writer beside two readers       {}", spread(writers)?);
    println!("writer beside two that compute  {}", spread(beside_work)?);
    println!("two readers beside the writer   {}", spread(readers)?);
    std::fs::remove_file(path)?;
    Ok(())
}

fn spread(shares: Vec<f64>) -> Result<Spread> {
    Spread::of(shares).ok_or_else(|| "no rounds".into())
}
