//! Starts a program under QEMU and records it and its children.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use outlast_trace::{About, Ending, PAGE_BYTES};
use sha2::{Digest, Sha256};

use crate::connection::{RecordError, Recorded, record};

/// The plugin, as the build script has compiled it.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));
/// The program that runs others.
const QEMU: &str = "qemu-x86_64";
/// The processor that programs find: QEMU's plainest, and the flushes that persistent memory needs.
const CPU: &str = "qemu64,+clwb,+clflushopt";
/// What the names of directories under way begin with.
const PREFIX: &str = "outlast-trace-";
/// What a pipe holds that nothing reads yet.
const PIPE_BYTES: usize = 64 << 10;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(200);

/// What is to be captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The trace. Children of fork, and the programs that processes become by exec, get a number
    /// before its extension.
    pub file: PathBuf,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Instructions that run before the capture starts.
    pub skip: u64,
    /// Instructions after which the program is ended.
    pub count: Option<u64>,
    /// The function of the program at whose first begin the capture, or its skipping, starts.
    pub start_at: Option<String>,
    /// Where the program's standard output goes.
    pub output: ProgramOutput,
    /// Where the program runs, and what it finds there.
    pub place: Place,
    /// Where the program comes from, in words, as its package with the version; empty if unknown.
    pub origin: String,
}

/// What a program finds around it, where that is not what we have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Its working directory.
    pub directory: Option<PathBuf>,
    /// What its standard input reads. None where it is ours.
    pub input: Option<PathBuf>,
    /// Behind the end of the input, which is 64 KiB at most then, more may come but does not, as at a
    /// terminal.
    pub input_goes_on: bool,
    /// All of its environment.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

/// Where a program's standard output goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProgramOutput {
    /// To ours.
    #[default]
    Ours,
    /// To our standard error.
    Aside,
    /// Nowhere, and its standard error as well.
    Nowhere,
}

impl Request {
    /// All of a program's run.
    pub fn new<S: Into<OsString>>(
        file: impl Into<PathBuf>,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self {
            file: file.into(),
            command,
            skip: 0,
            count: None,
            start_at: None,
            output: ProgramOutput::Ours,
            place: Place::default(),
            origin: String::new(),
        }
    }

    /// What captures, and what is captured, with versions.
    fn tools(&self, qemu: &str) -> String {
        let mut tools = format!("outlast {}; {qemu}", env!("CARGO_PKG_VERSION"));
        if !self.origin.is_empty() {
            tools += "; ";
            tools += &self.origin;
        }
        tools
    }

    fn window(&self) -> String {
        let mut words = Vec::new();
        if let Some(symbol) = &self.start_at {
            words.push(format!("from {symbol} on"));
        }
        if self.skip > 0 {
            words.push(format!("without the first {} instructions", self.skip));
        }
        if let Some(count) = self.count {
            words.push(format!("{count} instructions"));
        }
        if words.is_empty() { "all".to_owned() } else { words.join(", ") }
    }
}

/// What was captured.
#[derive(Debug)]
pub struct Captured {
    /// The traces: that of the program, then those of its children and of the programs that they
    /// became.
    pub files: Vec<CapturedFile>,
    /// How the program ended.
    pub status: ExitStatus,
}

/// One trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// How its process ended.
    pub ending: Ending,
    /// What there is to say about it.
    pub notes: Vec<String>,
}

/// How far a capture is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Words that the plugin has written: what was not expected of the program's accesses.
    pub words: u64,
}

/// A program cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no QEMU.
    #[error("{QEMU} is missing: install Debian's package qemu-user (apt-get install qemu-user)")]
    NoQemu,
    /// This machine is another.
    #[error("captures run on x86-64 Linux, and this program was built for something else")]
    NotHere,
    /// There is no program.
    #[error("{0}: no such program in PATH")]
    NoProgram(String),
    /// It is of another kind.
    #[error("{0}: {1}")]
    NotAProgram(String, &'static str),
    /// A trace cannot be written, or the plugin not heard.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// Something that it needs of the system.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// The program ended before anything was recorded.
    #[error("nothing was captured: {0}")]
    Nothing(String),
}

/// The version of QEMU; none where it is not installed.
pub fn qemu_version() -> Option<String> {
    let output = Command::new(QEMU).arg("-version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

/// Runs a program and writes its traces. `progress` is told now and then.
///
/// # Errors
/// When QEMU or the program is missing, or a trace cannot be written. Then there is no file.
pub fn capture(
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Captured, CaptureError> {
    let Some((name, arguments)) = request.command.split_first() else {
        return Err(CaptureError::NoProgram(String::new()));
    };
    if PLUGIN.is_empty() {
        return Err(CaptureError::NotHere);
    }
    let program = find(name, request.place.directory.as_deref())?;
    let program = std::path::absolute(&program).unwrap_or(program);
    let digest = digest(&program)?;
    let version = qemu_version().ok_or(CaptureError::NoQemu)?;
    let failed = |what: &Path, error| CaptureError::Io(what.display().to_string(), error);
    // Fails before the program runs where the file cannot be written.
    drop(outlast_trace::WholeFile::create(&request.file).map_err(|e| failed(&request.file, e))?);

    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    sweep(&parent);
    let directory = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(&parent)
        .map_err(|error| failed(&parent, error))?;
    let plugin = directory.path().join("plugin.so");
    std::fs::write(&plugin, PLUGIN).map_err(|error| failed(&plugin, error))?;
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(|error| failed(&socket, error))?;

    let about = About {
        digest: format!("sha256:{digest}"),
        tools: request.tools(&version),
        window: request.window(),
        ..About::default()
    };
    let session = Session {
        directory: directory.path().to_owned(),
        file: request.file.clone(),
        program: program.clone(),
        about,
        words: Arc::new(AtomicU64::new(0)),
    };
    let counted = Arc::clone(&session.words);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || accept(&listener, &session, &tell));
    let child = start(&program, name, arguments, &plugin, directory.path(), request);
    let child = child.map_err(|error| failed(Path::new(QEMU), error))?;
    let mut tick = || progress(Progress { words: counted.load(Ordering::Relaxed) });
    let (recorded, status) = wait(child, &told, &socket, &mut tick)?;
    let mut reason = None;
    let mut files = Vec::new();
    for (path, Recorded { bytes, ending, notes, nothing }) in recorded {
        match nothing {
            None => files.push(CapturedFile { path, bytes, ending, notes }),
            Some(why) => {
                let _ = std::fs::remove_file(&path);
                reason = Some(why);
            }
        }
    }
    if files.is_empty() {
        let ended = || format!("{QEMU} ended with {status}");
        return Err(CaptureError::Nothing(reason.unwrap_or_else(ended)));
    }
    Ok(Captured { files, status })
}

/// Removes directories of captures that were killed: nothing listens in them.
fn sweep(parent: &Path) {
    /// Younger ones may be about to begin.
    const AGE: Duration = Duration::from_secs(60);
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > AGE));
        if is_ours && is_old && UnixStream::connect(entry.path().join("socket")).is_err() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// What all of a capture's connections need.
#[derive(Clone)]
struct Session {
    directory: PathBuf,
    file: PathBuf,
    /// The program that was started. `about` has its digest.
    program: PathBuf,
    about: About,
    words: Arc<AtomicU64>,
}

impl Session {
    /// The file of a process.
    fn file(&self, process: u32) -> PathBuf {
        if process == 0 {
            return self.file.clone();
        }
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = match self.file.extension() {
            Some(extension) => format!("{stem}.{process}.{}", extension.to_string_lossy()),
            None => format!("{stem}.{process}"),
        };
        self.file.with_file_name(name)
    }

    /// What the trace of a process says of it.
    fn about(&self, process: u32, program: &Path, command: Vec<String>) -> About {
        let mut about = About { process, command, ..self.about.clone() };
        if program != self.program {
            let digest = digest(program);
            about.digest =
                digest.map_or_else(|error| error.to_string(), |it| format!("sha256:{it}"));
        }
        about
    }
}

/// What a connection came to. One that says nothing only asks who is there.
enum Told {
    Begun,
    Asked,
    Ended(u32, PathBuf, Box<Result<Recorded, RecordError>>),
}

/// Records whatever connects, each process by a thread.
fn accept(listener: &UnixListener, session: &Session, tell: &mpsc::Sender<Told>) {
    let mut process = 0;
    while let Ok((socket, _)) = listener.accept() {
        if !says_something(&socket) {
            if tell.send(Told::Asked).is_err() {
                return;
            }
            continue;
        }
        if tell.send(Told::Begun).is_err() {
            return;
        }
        let (number, tell, session) = (process, tell.clone(), session.clone());
        process += 1;
        std::thread::spawn(move || {
            let path = session.file(number);
            let about = |program: &Path, command| session.about(number, program, command);
            let recorded = record(socket, &session.directory, &path, about, &session.words);
            let _ = tell.send(Told::Ended(number, path, Box::new(recorded)));
        });
    }
}

/// Whether the other side says anything before it goes away. What it says stays to be read.
fn says_something(socket: &UnixStream) -> bool {
    let mut byte = [0];
    rustix::net::recv(socket, &mut byte, rustix::net::RecvFlags::PEEK).is_ok_and(|(len, _)| len > 0)
}

/// Waits until the program and its recorded children have ended.
fn wait(
    mut child: Child,
    told: &mpsc::Receiver<Told>,
    socket: &Path,
    tick: &mut dyn FnMut(),
) -> Result<(Vec<(PathBuf, Recorded)>, ExitStatus), CaptureError> {
    let (mut files, mut running, mut status) = (Vec::new(), 0u32, None);
    let mut failed = None;
    let mut is_asking = false;
    loop {
        match told.recv_timeout(TICK) {
            Ok(Told::Begun) => running += 1,
            Ok(Told::Asked) if running == 0 => break,
            Ok(Told::Asked) => is_asking = false,
            Ok(Told::Ended(number, path, recorded)) => {
                running -= 1;
                match *recorded {
                    Ok(recorded) => files.push((number, path, recorded)),
                    Err(error) => {
                        // Nothing reads what the program tells any more.
                        let _ = child.kill();
                        failed.get_or_insert(error);
                    }
                }
            }
            Err(_) => tick(),
        }
        if status.is_none() {
            let ended = child.try_wait();
            status = ended.map_err(|error| CaptureError::Io(QEMU.to_owned(), error))?;
        }
        // A child of fork connects before its parent's connection ends, and a program that a process
        // becomes before the connection of the one before it, so behind it no other comes.
        if status.is_some() && running == 0 && !is_asking {
            drop(UnixStream::connect(socket));
            is_asking = true;
        }
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    files.sort_by_key(|(number, ..)| *number);
    let status = status.unwrap_or_else(|| ExitStatus::from_raw(0));
    Ok((files.into_iter().map(|(_, path, recorded)| (path, recorded)).collect(), status))
}

fn start(
    program: &Path,
    name: &OsStr,
    arguments: &[OsString],
    plugin: &Path,
    directory: &Path,
    request: &Request,
) -> io::Result<Child> {
    let mut options = format!(
        "file={},directory={},skip={}",
        plugin.display(),
        directory.display(),
        request.skip
    );
    if let Some(count) = request.count {
        options += &format!(",count={count}");
    }
    if let Some(symbol) = &request.start_at {
        options += &format!(",start={symbol}");
    }
    let mut command = Command::new(QEMU);
    let place = &request.place;
    if let Some(environment) = &place.environment {
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    }
    if let Some(directory) = &place.directory {
        command.current_dir(directory);
    }
    let held_open = match &place.input {
        Some(input) if place.input_goes_on => {
            command.stdin(Stdio::piped());
            Some(std::fs::read(input)?)
        }
        Some(input) => {
            command.stdin(File::open(input)?);
            None
        }
        None => None,
    };
    command.args(["-cpu", CPU, "-plugin", &options, "-0"]).arg(name).arg(program).args(arguments);
    match request.output {
        ProgramOutput::Ours => {}
        ProgramOutput::Aside => {
            command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        }
        ProgramOutput::Nowhere => {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
    }
    let mut child = command.spawn()?;
    if let (Some(bytes), Some(pipe)) = (held_open, &mut child.stdin) {
        // All of it fits into the pipe, which the child's own handle keeps open.
        pipe.write_all(&bytes[..bytes.len().min(PIPE_BYTES)])?;
    }
    Ok(child)
}

/// The file of a program: a path from its directory, or a name to look up in PATH.
fn find(name: &OsStr, directory: Option<&Path>) -> Result<PathBuf, CaptureError> {
    let shown = name.to_string_lossy().into_owned();
    let path = if shown.contains('/') {
        directory.unwrap_or(Path::new("")).join(name)
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&paths).map(|folder| folder.join(name));
        let found = candidates.find(|path| path.is_file());
        found.ok_or_else(|| CaptureError::NoProgram(shown.clone()))?
    };
    let mut start = [0; 20];
    let mut file = File::open(&path).map_err(|error| CaptureError::Io(shown.clone(), error))?;
    let read = file.read_exact(&mut start);
    let is_script = start.starts_with(b"#!");
    let refused = |why| Err(CaptureError::NotAProgram(shown.clone(), why));
    match read {
        _ if is_script => refused("a script: give its interpreter, and the script as its argument"),
        // A 64-bit file of ELF, for x86-64.
        Ok(()) if start.starts_with(b"\x7fELF\x02") && start[18..20] == [62, 0] => Ok(path),
        _ => refused("no program for x86-64 Linux"),
    }
}

/// The digest of a program's file, as traces name it: SHA-256 in hexadecimal digits.
///
/// # Errors
/// When it cannot be read.
pub fn digest(path: &Path) -> Result<String, CaptureError> {
    let failed = |error| CaptureError::Io(path.display().to_string(), error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut buffer) = (Sha256::new(), [0; 16 * PAGE_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            len => hash.update(&buffer[..len]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
