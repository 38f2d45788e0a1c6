//! Counting what a transaction executes, by single steps of a child process.
//!
//! The child loads a workload, runs some transactions, and says where the function is that runs one.
//! Before each that counts it raises a signal; from there the parent steps through it, instruction
//! by instruction, on the processor at hand. Nothing is emulated, and nothing is sampled.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use outlast::medium::{CreateOptions, MapOptions, Mapped, OpenOptions};
use outlast::{Lane, Pool, Scheme};
use outlast_pmem::Domain;
use outlast_workloads::{Worker, Workload};

/// Says before each counted transaction that it comes.
const NEXT: Signal = Signal::SIGUSR1;

/// Transactions before those that count: the log has gone round, and the write-back with it.
const BEFORE: u64 = 20_000;

/// The instructions of some transactions.
pub struct Counted {
    /// How often each was executed, by its place in the program; those of libraries are at 0.
    pub by_place: HashMap<u64, u64>,
    transactions: u64,
}

impl Counted {
    /// Instructions a transaction.
    pub fn each(&self) -> f64 {
        self.by_place.values().sum::<u64>() as f64 / self.transactions as f64
    }
}

/// Counts what `transactions` transactions of a child take, which runs [`child`]. `None` where this
/// process may not step through another.
pub fn count(mut child: Command, transactions: u64) -> Result<Option<Counted>, Box<dyn Error>> {
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let counted = step_through(&mut child, transactions);
    let _ = child.kill();
    child.wait()?;
    counted
}

fn step_through(child: &mut Child, transactions: u64) -> Result<Option<Counted>, Box<dyn Error>> {
    let pid = Pid::from_raw(child.id().try_into()?);
    let said = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut places = said.lines().find_map(|line| {
        let line = line.ok()?;
        let place = line.split_once(PLACE)?.1.split(' ').map(str::parse);
        place.collect::<Result<Vec<u64>, _>>().ok()
    });
    let Some([entry, from, to]) = places.as_deref_mut() else {
        return Err("the child has ended before its first transaction".into());
    };
    if ptrace::attach(pid).is_err() {
        return Ok(None);
    }
    waitpid(pid, None)?;
    ptrace::cont(pid, None)?;
    child.stdin.take().ok_or("the child has no input")?.write_all(b"\n")?;
    let mut counted = Counted { by_place: HashMap::new(), transactions };
    let mut left = transactions;
    while left > 0 {
        match waitpid(pid, None)? {
            WaitStatus::Stopped(_, NEXT) => {
                step_through_one(pid, *entry, |at| {
                    let is_inside = (*from..*to).contains(&at);
                    *counted.by_place.entry(if is_inside { at - *from } else { 0 }).or_default() +=
                        1;
                })?;
                left -= 1;
                ptrace::cont(pid, None)?;
            }
            WaitStatus::Stopped(_, other) => ptrace::cont(pid, other)?,
            other => return Err(format!("the child has ended: {other:?}").into()),
        }
    }
    Ok(Some(counted))
}

/// Visits every instruction from the next call of the function at `entry` to its return.
fn step_through_one(pid: Pid, entry: u64, mut visit: impl FnMut(u64)) -> nix::Result<()> {
    let mut stack = None;
    loop {
        ptrace::step(pid, None)?;
        waitpid(pid, None)?;
        let registers = ptrace::getregs(pid)?;
        match stack {
            None if registers.rip != entry => continue,
            None => stack = Some(registers.rsp),
            Some(stack) if registers.rsp > stack => return Ok(()),
            Some(_) => {}
        }
        visit(registers.rip);
    }
}

/// The child's first word before its transactions; then follow the counted function's address, where
/// the program begins in memory, and where it ends.
const PLACE: &str = "runs at ";

/// Loads a workload under a scheme and runs `transactions` of it for a parent that counts.
pub fn child(name: &str, scheme: Scheme, transactions: u64) -> Result<(), Box<dyn Error>> {
    let workload = Workload::named(name).ok_or_else(|| format!("no workload is named {name}"))?;
    let scale = workload.quick_scale();
    // Not tried at opening, so that it is the same in each run.
    let open = OpenOptions { stream_from: Some(1), ..OpenOptions::with_scheme(scheme) };
    let map = MapOptions { domain: Some(Domain::Adr), ..MapOptions::default() };
    let path = std::env::temp_dir().join(format!("outlast-steps-{}.pool", std::process::id()));
    let bytes = (16 << 20) + 2 * workload.heap_bytes(&scale);
    let pool = Pool::create_with(&path, bytes, &CreateOptions::default(), &open, &map)?;
    std::fs::remove_file(&path)?;
    let mut lane = pool.lane()?;
    let loaded = workload.load(&scale, 1, &mut lane, &mut |_, _| {})?;
    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    for _ in 0..BEFORE {
        worker.draw();
        worker.step(&mut lane)?;
    }
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let program = std::env::current_exe()?;
    let own = maps.lines().filter(|line| line.ends_with(&*program.to_string_lossy()));
    let mut ends = own.filter_map(|line| line.split(' ').next()?.split_once('-'));
    let (from, first_to) = ends.next().ok_or("the program is not in its own memory map")?;
    let to = ends.next_back().map_or(first_to, |(_, to)| to);
    let address = |text| u64::from_str_radix(text, 16);
    println!("{PLACE}{} {} {}", counted as *const () as usize, address(from)?, address(to)?);
    stdin().read_line(&mut String::new())?;
    for _ in 0..transactions {
        worker.draw();
        raise(NEXT)?;
        counted(&mut worker, &mut lane);
    }
    Ok(())
}

/// One transaction.
#[inline(never)]
fn counted(worker: &mut Worker, lane: &mut Lane<'_, Mapped>) {
    worker.step(lane).expect("the workload runs");
}
