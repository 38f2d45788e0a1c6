//! The server beside the real Redis: each in a process of its own, loaded by `redis-benchmark`.
//!
//! [`TESTS`] are all that `redis-benchmark` knows. CPU time is the system's count of a server's process while the clients ran: it depends less than
//! throughput on what else a machine does, and on how fast the clients are.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod redis_benchmark;

pub use redis_benchmark::{TESTS, Test};

/// A server that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name in tables.
    pub name: &'static str,
    kind: Kind,
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Ours, under a scheme.
    Outlast(&'static str),
    /// The real one, with these settings.
    Redis(&'static [&'static str]),
}

/// Ours under two schemes, and the real one with each of its ways to keep data.
pub const SUBJECTS: [Subject; 5] = [
    Subject { name: "outlast swift", kind: Kind::Outlast("swift") },
    Subject { name: "outlast redo", kind: Kind::Outlast("redo") },
    Subject { name: "redis no aof", kind: Kind::Redis(&[]) },
    Subject {
        name: "redis everysec",
        kind: Kind::Redis(&["--appendonly", "yes", "--appendfsync", "everysec"]),
    },
    Subject {
        name: "redis always",
        kind: Kind::Redis(&["--appendonly", "yes", "--appendfsync", "always"]),
    },
];

/// Ours without protection: the bound of what a scheme can reach.
pub const BOUND: Subject = Subject { name: "outlast none", kind: Kind::Outlast("none") };

impl Subject {
    /// Whether it is the server of this crate.
    pub fn is_outlast(&self) -> bool {
        matches!(self.kind, Kind::Outlast(_))
    }
}

/// The command that serves the pool of this path, made where there is none, on a port under a scheme.
pub type Serve<'s> = dyn Fn(&Path, u16, &str) -> Command + 's;

/// The real server, and the program that loads it.
const PROGRAMS: [&str; 2] = ["redis-server", "redis-benchmark"];

/// A comparison that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// A program, a socket or a file.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// A server that was started and is not heard of.
    #[error("{0} does not answer")]
    Silent(&'static str),
    /// The benchmark printed no figure.
    #[error("redis-benchmark printed no figure but: {0}")]
    NoFigure(String),
}

fn named(what: impl Into<String>) -> impl FnOnce(io::Error) -> BesideError {
    move |error| BesideError::Io(what.into(), error)
}

/// The program that the comparison lacks here.
pub fn missing() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        asked.is_err()
    })
}

/// A server in a process of its own, which ends with this, and its folder with it.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub process: Child,
    /// Its files.
    pub folder: PathBuf,
    name: &'static str,
    port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Until a server has to answer.
const START_MAX: Duration = Duration::from_secs(10);

impl Running {
    /// Starts a subject on a free port, its files in a new folder of this directory.
    ///
    /// # Errors
    /// A server that cannot be started or does not answer within ten seconds.
    pub fn start(
        subject: &Subject,
        directory: &Path,
        serve: &Serve<'_>,
    ) -> Result<Self, BesideError> {
        let name = subject.name;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(named("a free port"))?;
        let port = listener.local_addr().map_err(named("a free port"))?.port();
        drop(listener);
        let folder = directory.join(format!("outlast-beside-{}-{port}", std::process::id()));
        std::fs::create_dir(&folder).map_err(named(folder.display().to_string()))?;
        let mut command = match subject.kind {
            Kind::Outlast(scheme) => serve(&folder.join("pool"), port, scheme),
            Kind::Redis(settings) => {
                let mut command = Command::new(PROGRAMS[0]);
                command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(&folder);
                command.args(settings).args(["--auto-aof-rewrite-percentage", "0"]);
                command
            }
        };
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = match spawned.map_err(named(name)) {
            Ok(process) => process,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        let running = Self { process, folder, name, port };
        running.wait_for("PING", "+PONG")?;
        Ok(running)
    }

    /// Starts this server of ours again, on the pool that it has left.
    ///
    /// # Errors
    /// A process that cannot be started.
    pub fn restart(&mut self, mut command: Command) -> Result<(), BesideError> {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = quiet.spawn().map_err(named(self.name))?;
        Ok(())
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn connect(&self) -> Result<TcpStream, BesideError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        TcpStream::connect(address).map_err(named(self.name))
    }

    /// The answer to one line.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self, line: &str) -> Result<String, BesideError> {
        let mut stream = self.connect()?;
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).map_err(named(self.name))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(named(self.name))?;
        Ok(answer)
    }

    /// Waits until a line has an answer that begins so.
    ///
    /// # Errors
    /// When it has none within ten seconds.
    pub fn wait_for(&self, line: &str, answer: &str) -> Result<(), BesideError> {
        let began = Instant::now();
        while !self.ask(line).is_ok_and(|said| said.starts_with(answer)) {
            if began.elapsed() > START_MAX {
                return Err(BesideError::Silent(self.name));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Commands per second by the count of `redis-benchmark`: eight clients, a hundred thousand keys.
    ///
    /// # Errors
    /// A benchmark that cannot be run or prints no figure.
    pub fn load(&self, commands: u32, work: Work) -> Result<f64, BesideError> {
        let bytes = work.bytes.to_string();
        self.benchmark(commands, work.pipeline, 100_000, &["-d", &bytes, "-t", work.test])
    }

    /// Commands per second of one test by `redis-benchmark`, whose keys or members are drawn from `keys`.
    fn benchmark(
        &self,
        commands: u32,
        pipeline: u32,
        keys: u32,
        test: &[&str],
    ) -> Result<f64, BesideError> {
        let output = Command::new(PROGRAMS[1])
            .args(["-p", &self.port.to_string(), "-c", "8", "--csv", "-r", &keys.to_string()])
            .args(["-n", &commands.to_string(), "-P", &pipeline.to_string()])
            .args(test)
            .output()
            .map_err(named(PROGRAMS[1]))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().last().and_then(|row| row.split("\",\"").nth(1));
        let rate = rate.and_then(|rate| rate.parse().ok());
        rate.ok_or_else(|| BesideError::NoFigure(text.trim().to_owned()))
    }

    /// Loads it with a quarter of the commands, then with all of them, which count.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn turn(&self, commands: u32, work: Work) -> Result<Turn, BesideError> {
        self.load((commands / 4).max(1), work)?;
        let before = self.cpu_micros()?;
        let rate = self.load(commands, work)?;
        let after = self.cpu_micros()?;
        let micros = |index: usize| (after[index] - before[index]) / f64::from(commands);
        Ok(Turn { user_us: micros(0), system_us: micros(1), rate })
    }

    /// Microseconds of CPU that it has used until now.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn cpu_us(&self) -> Result<f64, BesideError> {
        self.cpu_micros().map(|[user, system]| user + system)
    }

    /// The same in user mode and in the kernel. The system counts the two in hundredths of a second, their sum for each
    /// thread in nanoseconds.
    fn cpu_micros(&self) -> Result<[f64; 2], BesideError> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(&path).map_err(named(&*path))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
            return Err(BesideError::Io(path, io::Error::from(io::ErrorKind::InvalidData)));
        };
        let both = self.threads_nanos().map_or((user + system) * 1e4, |nanos| nanos / 1e3);
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Ok([both * share, both * (1.0 - share)])
    }

    /// Nanoseconds of CPU that its threads have used, where the system tells.
    fn threads_nanos(&self) -> Option<f64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).ok()?;
        let mut nanos = 0.0;
        for thread in threads {
            let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            nanos += stat.split_whitespace().next()?.parse::<f64>().ok()?;
        }
        Some(nanos)
    }
}

/// A test of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Its test.
    pub test: &'static str,
    /// Bytes of a value.
    pub bytes: u32,
    /// Commands that a client sends before it waits.
    pub pipeline: u32,
}

/// The figures of a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Turn {
    /// The server's microseconds of CPU for a command, in its own code.
    pub user_us: f64,
    /// And in the kernel.
    pub system_us: f64,
    /// Commands per second.
    pub rate: f64,
}

impl Turn {
    /// All microseconds of CPU for a command.
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}
