//! Has the program recover from a state, and reads its answer.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::{self, Bounds, Strays};
use crate::files::quoted;
use crate::judges::history::History;
use crate::oracle::marked::{Listed, Marked};
use crate::sys;
use crate::tree::{self, Read as Whole, Tree};
use rustc_hash::FxHashMap;

/// The fault of a state, if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The check passed.
    Good,
    /// The check named the last transaction that it found whole.
    Recovered(u64),
    /// The check listed keys with their versions.
    Keys(Listed),
    /// The check failed, with its last words.
    Bad(String),
}

impl Outcome {
    /// The fault, given the transactions begun and acknowledged.
    #[must_use]
    pub fn wrong(&self, issued: u64, acked: u64) -> Option<String> {
        match self {
            Self::Good => None,
            Self::Bad(text) => Some(text.clone()),
            Self::Recovered(found) if *found < acked => {
                Some(format!("lost: {found} recovered, {acked} acknowledged"))
            }
            Self::Recovered(found) if *found > issued => {
                Some(format!("never issued: {found} recovered, {issued} begun"))
            }
            Self::Recovered(_) => None,
            Self::Keys(listed) => listed.judge(issued, acked).err().map(|wrong| wrong.to_string()),
        }
    }

    /// Whether it depends on the state alone, not on what was acknowledged.
    #[must_use]
    pub fn is_of_state(&self) -> bool {
        matches!(self, Self::Recovered(_) | Self::Keys(_))
    }
}

/// How states are checked.
#[derive(Clone, Debug)]
pub enum Checker {
    /// A command of the shell, once a state: its status tells.
    Command(String),
    /// A command that reads a line a state (folder, acknowledged, issued, by tabs) and answers a line.
    Server(String),
    /// The history of a file in the run itself: no command is run.
    History(History),
}

/// Verdicts on directories that the check has left itself: many states lead to the same one.
#[derive(Default)]
pub struct Reopened(Mutex<FxHashMap<(u128, u64, u64), Outcome>>);

/// Directories up to this size are read back after a check, to tell whether one was opened before.
const READ_BACK_BYTES_MAX: u64 = 32 << 20;

/// A checker at work in a folder of its own.
pub struct Judge<'a> {
    checker: &'a Checker,
    time: Duration,
    /// The checker starts here: the caller's folder, but for the directory.
    farm: tempfile::TempDir,
    /// The directory as the command knows it, within the farm.
    dir: PathBuf,
    server: Option<Server>,
    reopened: Arc<Reopened>,
    /// The program's marks.
    marked: Arc<Marked>,
    strays: Strays,
}

struct Server {
    child: Child,
    input: ChildStdin,
    /// Lines; or the fault of one.
    answers: Receiver<Result<String, String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        sys::kill_group(self.child.id() as i32);
        let _ = self.child.wait();
    }
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        self.server = None;
        bounds::is_gone(self.farm.path());
    }
}

/// The environment variable that names another place for states, where memory is short.
pub const SCRATCH: &str = "OUTLAST_CHECK_SCRATCH";

/// Where states are laid out: in memory if there is such a place.
#[must_use]
pub fn scratch() -> PathBuf {
    if let Some(place) = std::env::var_os(SCRATCH) {
        return place.into();
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && tempfile::tempfile_in(memory).is_ok() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

impl<'a> Judge<'a> {
    /// A judge by `checker`, each of whose runs ends within `time`. A relative `dir` is at the same
    /// place below the checker's folder as it is here, beside links to everything else.
    ///
    /// # Errors
    /// Those of making the folder.
    pub fn new(
        checker: &'a Checker,
        dir: &Path,
        time: Duration,
        reopened: Arc<Reopened>,
    ) -> io::Result<Self> {
        let farm = tempfile::Builder::new().prefix("outlast-check-").tempdir_in(scratch())?;
        let inner = dir.is_relative()
            && dir
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let dir = if inner {
            let parts: Vec<&OsStr> = dir
                .components()
                .filter_map(|part| match part {
                    Component::Normal(name) => Some(name),
                    _ => None,
                })
                .collect();
            plant(&std::env::current_dir()?, farm.path(), &parts)?;
            parts.iter().fold(farm.path().to_owned(), |path, part| path.join(part))
        } else {
            farm.path().join("state")
        };
        bounds::begins(farm.path());
        let (strays, marked) = (Strays::default(), Arc::default());
        Ok(Self { checker, time, farm, dir, server: None, reopened, marked, strays })
    }

    /// Judges keys that the check lists by these transactions.
    #[must_use]
    pub fn by(mut self, marked: &Arc<Marked>) -> Self {
        self.marked = Arc::clone(marked);
        self
    }

    /// Lays `tree` out and has it checked. Twice: recovery may heal or harm. A directory that the first check leaves as
    /// it was, or as another one has left it, is known already.
    ///
    /// # Errors
    /// The state cannot be written, or the checker cannot be started.
    pub fn judge(&mut self, tree: &Tree, issued: u64, acked: u64) -> io::Result<Outcome> {
        if let Checker::History(history) = self.checker {
            return Ok(history.judge(tree, issued, acked));
        }
        self.lay_out(tree)?;
        let first = self.check(issued, acked)?;
        if matches!(first, Outcome::Bad(_)) {
            return Ok(first);
        }
        let left = self.left();
        if left == Some(tree.hash(&Whole::default())) {
            return Ok(first);
        }
        let told = if first.is_of_state() { (0, 0) } else { (issued, acked) };
        let key = left.map(|hash| (hash, told.0, told.1));
        let known = || Some(self.reopened.0.lock().ok()?.get(&key?)?.clone());
        let second = match known() {
            Some(known) => known,
            None => {
                let second = self.check(issued, acked)?;
                if let (Some(key), Ok(mut known)) = (key, self.reopened.0.lock()) {
                    known.insert(key, second.clone());
                }
                second
            }
        };
        Ok(match second {
            Outcome::Bad(text) => Outcome::Bad(format!("opened a second time: {text}")),
            second if second != first => {
                Outcome::Bad(format!("opened a second time: {second:?} after {first:?}"))
            }
            _ => first,
        })
    }

    /// The hash of the directory as a check has left it; none of one that is large, or gone.
    fn left(&self) -> Option<u128> {
        let mut bytes = 0;
        let read = tree::read_folder(&self.dir, &mut |path, _| {
            bytes += fs::symlink_metadata(path)?.len();
            let small = bytes <= READ_BACK_BYTES_MAX;
            small.then_some(()).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
        });
        // A check may hold a file open, or leave one that cannot be read: it is opened again then.
        Some(read.ok()?.hash(&Whole::default()))
    }

    /// The folder in which the checker runs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.farm.path()
    }

    /// The place where the last state lies.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.dir
    }

    /// The words that have the state checked which lies at [`Judge::place`], and the folder in which they
    /// run: for a capture of the recovery itself.
    #[must_use]
    pub fn words(&self, issued: u64, acked: u64) -> (Vec<OsString>, &Path) {
        let place = self.dir.display();
        let text = match self.checker {
            Checker::Command(command) => command.replace("{}", &place.to_string()),
            Checker::Server(command) => {
                format!(
                    "printf '%s\\t{acked}\\t{issued}\\n' '{place}' | ( {} )",
                    command.replace("{}", &place.to_string())
                )
            }
            Checker::History(history) => {
                format!("exec cat {}", quoted(&self.dir.join(history.file()).to_string_lossy()))
            }
        };
        let variables = [
            format!("OUTLAST_DIR={place}"),
            format!("OUTLAST_ISSUED={issued}"),
            format!("OUTLAST_ACKED={acked}"),
        ];
        // What it says on the way was heard when it was judged.
        let text = format!("exec 2>/dev/null\n{text}");
        let words = ["env".to_owned()].into_iter().chain(variables);
        let words = words.chain(["/bin/sh".to_owned(), "-c".to_owned(), text]);
        (words.map(OsString::from).collect(), self.farm.path())
    }

    /// Lays `tree` out at [`Judge::place`].
    ///
    /// # Errors
    /// Those of writing.
    pub fn lay_out(&self, tree: &Tree) -> io::Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&self.dir)?;
        tree.write_to(&self.dir)
    }

    fn check(&mut self, issued: u64, acked: u64) -> io::Result<Outcome> {
        match self.checker {
            Checker::Command(command) => self.run(command, issued, acked),
            Checker::Server(command) => self.ask(command, issued, acked),
            // It is judged in memory.
            Checker::History(_) => Ok(Outcome::Good),
        }
    }

    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        let text = command.replace("{}", &self.dir.display().to_string());
        shell.arg("-c").arg(text).current_dir(self.farm.path()).process_group(0);
        shell.env("OUTLAST_DIR", &self.dir);
        shell
    }

    fn run(&mut self, command: &str, issued: u64, acked: u64) -> io::Result<Outcome> {
        let mut output = tempfile::tempfile_in(scratch())?;
        let mut shell = self.command(command);
        shell.env("OUTLAST_ISSUED", issued.to_string()).env("OUTLAST_ACKED", acked.to_string());
        shell.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let mut child = shell.spawn()?;
        let began = Instant::now();
        let mut bounds = Bounds::new(self.farm.path());
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Ok(status);
            }
            if began.elapsed() >= self.time {
                break Err(format!("the check did not end within {:?}", self.time));
            }
            if let Some(excess) = bounds.excess(Some(&output))? {
                break Err(excess);
            }
            // Short runs are many: they are waited for closely, long ones are not.
            thread::sleep(
                (began.elapsed() / 8).clamp(Duration::from_micros(50), Duration::from_millis(20)),
            );
        };
        sys::kill_group(child.id() as i32);
        child.wait()?;
        self.strays.end(self.farm.path());
        let status = match status {
            Ok(status) => status,
            Err(wrong) => return Ok(Outcome::Bad(wrong)),
        };
        let said =
            tail(&mut output, if self.marked.has_keys() { KEYS_BYTES_MAX } else { TAIL_BYTES })?;
        if let Some(signal) = status.signal() {
            return Ok(Outcome::Bad(format!("killed by {}", signal_name(signal))));
        }
        match status.code() {
            Some(0) => Ok(match Listed::in_lines(&self.marked, &said) {
                Some(listed) => Outcome::Keys(listed),
                None => recovered(&said).map_or(Outcome::Good, Outcome::Recovered),
            }),
            Some(127) => {
                Err(io::Error::other(format!("the check cannot be started: {}", last_line(&said))))
            }
            code => {
                let words = last_line(&said);
                let code = code.unwrap_or_default();
                let words = if words.is_empty() { format!("status {code}") } else { words };
                Ok(Outcome::Bad(words))
            }
        }
    }

    fn ask(&mut self, command: &str, issued: u64, acked: u64) -> io::Result<Outcome> {
        let line = format!("{}\t{acked}\t{issued}\n", self.dir.display());
        let server = match self.server.as_mut() {
            Some(server) => server,
            None => {
                let server = self.start(command)?;
                self.server.insert(server)
            }
        };
        let sent = server.input.write_all(line.as_bytes()).and_then(|()| server.input.flush());
        let answer = match sent {
            Ok(()) => wait(&server.answers, self.time, Bounds::new(self.farm.path()))?,
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let outcome = match answer {
            Ok(Err(wrong)) => wrong,
            Ok(Ok(answer)) => {
                let answer = answer.trim();
                return match answer
                    .split_once(' ')
                    .map_or((answer, ""), |(word, rest)| (word, rest))
                {
                    ("ok", _) => Ok(Outcome::Good),
                    ("recovered", number) => {
                        number.trim().parse().map(Outcome::Recovered).map_err(|_| {
                            io::Error::other(format!(
                                "the server answered '{answer}': a number is missing"
                            ))
                        })
                    }
                    ("keys", words) => {
                        let listed = Listed::in_words(&self.marked, words).map(Outcome::Keys);
                        listed.ok_or_else(|| {
                            io::Error::other(format!(
                                "the server answered '{answer}': 'keys NAME=VERSION ...' would be right"
                            ))
                        })
                    }
                    ("bad", text) => Ok(Outcome::Bad(text.to_owned())),
                    _ => Err(io::Error::other(format!(
                        "the server answered '{answer}': 'ok', 'recovered N', 'keys NAME=VERSION ...' or 'bad TEXT' would be right"
                    ))),
                };
            }
            Err(RecvTimeoutError::Timeout) => {
                format!("the check did not answer within {:?}", self.time)
            }
            Err(RecvTimeoutError::Disconnected) => match signal_of(server.child.wait()?) {
                Some(signal) => format!("killed by {}", signal_name(signal)),
                None => "the check ended instead of answering".to_owned(),
            },
        };
        self.server = None;
        Ok(Outcome::Bad(outcome))
    }

    fn start(&self, command: &str) -> io::Result<Server> {
        let mut shell = self.command(command);
        let mut child =
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        let (send, answers) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                match (&mut output).take(bounds::LINE_MAX).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let whole = line.ends_with(b"\n") || (line.len() as u64) < bounds::LINE_MAX;
                let line = match whole {
                    true => Ok(String::from_utf8_lossy(&line).into_owned()),
                    false => Err(format!(
                        "the check's answer has more than {} KiB",
                        bounds::LINE_MAX >> 10
                    )),
                };
                if send.send(line).is_err() || !whole {
                    return;
                }
            }
        });
        Ok(Server { child, input, answers })
    }
}

/// The next answer, or the bound that the check passed before it came.
fn wait(
    answers: &Receiver<Result<String, String>>,
    time: Duration,
    mut bounds: Bounds<'_>,
) -> io::Result<Result<Result<String, String>, RecvTimeoutError>> {
    let began = Instant::now();
    loop {
        let left = time.saturating_sub(began.elapsed());
        match answers.recv_timeout(left.min(bounds.patience())) {
            Err(RecvTimeoutError::Timeout) if began.elapsed() < time => {
                if let Some(excess) = bounds.excess(None)? {
                    return Ok(Ok(Err(excess)));
                }
            }
            answer => return Ok(answer),
        }
    }
}

/// Fills `farm` with links to all of `real`, but for the path of `parts`, whose folders are real.
fn plant(real: &Path, farm: &Path, parts: &[&OsStr]) -> io::Result<()> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    if let Ok(entries) = fs::read_dir(real) {
        for entry in entries {
            let entry = entry?;
            if entry.file_name() != **first {
                symlink(entry.path(), farm.join(entry.file_name()))?;
            }
        }
    }
    fs::create_dir(farm.join(first))?;
    if rest.is_empty() { Ok(()) } else { plant(&real.join(first), &farm.join(first), rest) }
}

/// The end of a check's output that is looked at: it may be megabytes long.
const TAIL_BYTES: u64 = 16 * 1024;

/// The same of a check that lists keys.
const KEYS_BYTES_MAX: u64 = 64 << 20;

/// The last `most` bytes of a check's output.
fn tail(output: &mut File, most: u64) -> io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    output.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    output.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_line(text: &str) -> String {
    let lines: VecDeque<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.back().map_or_else(String::new, |line| line.trim().chars().take(300).collect())
}

/// The number of a line `recovered N`.
fn recovered(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("recovered ")?.trim().parse().ok())
}

/// The signal that killed a command, also where a shell in between tells it by its status.
fn signal_of(status: ExitStatus) -> Option<i32> {
    status
        .signal()
        .or_else(|| status.code().filter(|code| (129..160).contains(code)).map(|code| code - 128))
}

fn signal_name(signal: i32) -> String {
    match signal {
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGBUS => "SIGBUS".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGILL => "SIGILL".to_owned(),
        libc::SIGFPE => "SIGFPE".to_owned(),
        other => format!("signal {other}"),
    }
}
