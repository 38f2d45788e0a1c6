//! Runs a program and records each change of a directory, in order.
//!
//! The program, its threads and children run under `ptrace` with a seccomp filter that stops only at
//! calls that may change files. One such call runs at a time: a thread that comes to one while another
//! is in one waits. So every record is exact, and its order is one in which the program might have run;
//! another schedule is another capture.

mod calls;
mod exact;
pub mod marks;
mod python;
mod stacks;
mod watch;

use std::collections::{HashSet, VecDeque};
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustc_hash::FxHashMap;

use self::calls::Pending;
use self::exact::Guards;
use self::marks::{Lines, Marks};
use self::stacks::{StackId, Stacks};
use self::watch::{Identity, Watch};
use crate::run::{Ended, Run};
use crate::sys::{self, Entry, Processors, Stop, Stops, Tid, Trap};

pub use self::watch::SECTOR;

/// The program to capture, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory that is watched; it is made if it is missing.
    pub dir: PathBuf,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it starts; this process's own folder if none.
    pub folder: Option<PathBuf>,
    /// How it names its transactions.
    pub marks: Marks,
    /// It is stopped then.
    pub time: Duration,
    /// Whether its reads are recorded as well.
    pub reads: bool,
    /// Whether each store through a mapping is recorded, not only the difference between two calls: slow.
    pub exact: bool,
    /// A call that is made to fail.
    pub fault: Option<Fault>,
}

/// A call that is made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The failure.
    pub kind: FaultKind,
    /// The call: among syncs or among writes, from 0.
    pub call: usize,
}

/// The failure of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A sync fails with `EIO` and leaves its pages clean.
    SyncFails,
    /// A write fails with `ENOSPC`.
    NoSpace,
    /// A write takes half of its bytes.
    Short,
    /// A write is interrupted before its first byte: `EINTR`.
    Interrupted,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::SyncFails, Self::NoSpace, Self::Short, Self::Interrupted];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SyncFails => "EIO",
            Self::NoSpace => "ENOSPC",
            Self::Short => "half of the bytes",
            Self::Interrupted => "EINTR",
        }
    }

    /// The error that the call gives.
    fn errno(self) -> Option<i32> {
        match self {
            Self::SyncFails => Some(libc::EIO),
            Self::NoSpace => Some(libc::ENOSPC),
            Self::Interrupted => Some(libc::EINTR),
            Self::Short => None,
        }
    }
}

/// A program that cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The program is not there.
    #[error("no program '{0}'")]
    NoProgram(String),
    /// It would run with other rights, which a traced program does not get.
    #[error(
        "'{0}' is setuid or setgid: a traced program gets no other rights; run it as that user"
    )]
    OtherRights(String),
    /// The kernel or a container refuses.
    #[error(
        "the system refuses to trace ({0}): in a container, allow ptrace (docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined)"
    )]
    Refused(io::Error),
    /// A program of another instruction set.
    #[error("'{0}' runs 32-bit code, whose calls are not followed: use a 64-bit build")]
    Foreign(String),
    /// The directory cannot be read, or a change was missed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A thread of the program.
#[derive(Debug)]
struct Thread {
    process: Tid,
    pending: Option<Pending>,
    /// The stack of the call that it is in.
    stack: Option<StackId>,
}

/// The program while it runs.
struct Tracer<'a> {
    watch: Watch,
    options: &'a Options,
    threads: FxHashMap<Tid, Thread>,
    /// Threads that were announced, and have not come to a stop yet.
    newborn: HashSet<Tid>,
    processes: FxHashMap<Tid, OwnedFd>,
    pipes: FxHashMap<Identity, Lines>,
    /// The thread within a call that changes files.
    inside: Option<Tid>,
    waiting: VecDeque<(Tid, Entry)>,
    /// A write of the only thread, which goes on without a stop where it returns: no other call can come
    /// in between, and its bytes are in the file by the next stop.
    let_go: Option<(Tid, Pending, u64, Option<StackId>)>,
    together: Option<Together>,
    stacks: Stacks,
    guards: Guards,
    /// Stops that came while a thread was stepped.
    put_off: VecDeque<(Tid, Stop)>,
    foreign: bool,
    /// Whether the program has ended.
    over: bool,
    /// Syncs and writes so far.
    calls: (usize, usize),
}

/// Runs the program and records its changes of the directory.
///
/// # Errors
/// See [`CaptureError`]. No process of the program is left running.
pub fn capture(options: &Options) -> Result<Run, CaptureError> {
    // The tracer is a thread of its own: it waits for what it has started, and for no other child.
    thread::scope(|scope| match scope.spawn(|| trace(options)).join() {
        Ok(run) => run,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn trace(options: &Options) -> Result<Run, CaptureError> {
    let program = find_program(&options.command[0])?;
    fs::create_dir_all(&options.dir)?;
    sys::raise_open_files();
    let watch = Watch::new(&options.dir)?;
    let mut words: Vec<CString> = Vec::new();
    words.push(sys::word(program.as_os_str())?);
    for word in &options.command[1..] {
        words.push(sys::word(word)?);
    }
    let (stdout_read, stdout) = sys::pipe()?;
    let (marks_read, marks) = sys::pipe()?;
    let pipes = [&stdout, &marks]
        .iter()
        .map(|pipe| Ok((identity(pipe)?, Lines::default())))
        .collect::<io::Result<_>>()?;
    let leader = sys::start(
        &words,
        stdout.as_raw_fd(),
        (marks.as_raw_fd(), options.marks.descriptor),
        options.folder.as_deref(),
        Stops { reads: options.reads, stores: options.exact },
    )
    .map_err(CaptureError::Refused)?;
    drop((stdout, marks));
    drain(stdout_read);
    drain(marks_read);
    let mut tracer = Tracer {
        watch,
        options,
        threads: FxHashMap::default(),
        newborn: HashSet::new(),
        processes: FxHashMap::default(),
        pipes,
        inside: None,
        waiting: VecDeque::new(),
        let_go: None,
        together: Together::begin(leader),
        stacks: Stacks::default(),
        guards: Guards::default(),
        put_off: VecDeque::new(),
        foreign: false,
        over: false,
        calls: (0, 0),
    };
    let over = Deadline::start(leader, options.time);
    let ended = tracer.run(leader);
    tracer.apart();
    sys::kill_group(leader);
    let late = over.stop();
    let ended = ended?;
    if tracer.watch.is_full() {
        return Err(tracer.watch.too_much().into());
    }
    if tracer.foreign {
        return Err(CaptureError::Foreign(program.display().to_string()));
    }
    let ended = if late { Ended::OutOfTime } else { ended };
    let stacks = tracer.stacks.named();
    Ok(tracer.watch.end(options.dir.clone(), ended, &stacks)?)
}

/// The tracer and the program on one processor: a stop then costs a switch in place of two wake-ups of another
/// processor. It ends where the program has threads, or chooses its processors; one that asks for them hears of all.
#[derive(Debug)]
struct Together {
    before: Processors,
}

/// Threads that share a processor with the tracer: a shell and the program that it waits for.
const THREADS_TOGETHER: usize = 2;

impl Together {
    fn begin(leader: Tid) -> Option<Self> {
        let before = Processors::of(0)?;
        let here = Processors::here();
        here.hold(0);
        here.hold(leader);
        Some(Self { before })
    }

    fn end(&self, threads: impl Iterator<Item = Tid>) {
        for tid in threads.chain([0]) {
            self.before.hold(tid);
        }
    }
}

/// Finds a program as `execvp` does.
fn find_program(word: &OsString) -> Result<PathBuf, CaptureError> {
    let missing = || CaptureError::NoProgram(word.to_string_lossy().into_owned());
    let path = Path::new(word);
    let found = if path.components().count() > 1 {
        path.to_owned()
    } else {
        let places = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&places)
            .map(|place| place.join(path))
            .find(|path| {
                path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
            })
            .ok_or_else(missing)?
    };
    let metadata = found.metadata().map_err(|_| missing())?;
    if metadata.permissions().mode() & 0o6000 != 0 {
        return Err(CaptureError::OtherRights(found.display().to_string()));
    }
    // A name with a slash is looked up from the folder in which the program starts. Links stay: an interpreter
    // finds its packages, and a program of many names its task, by the path that it was started by.
    Ok(std::path::absolute(found)?)
}

fn identity(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Empties a pipe until its last writer is gone: its bytes are read where they are written.
fn drain(mut pipe: File) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
}

/// Kills a program when its time is over.
struct Deadline {
    done: Arc<AtomicBool>,
    thread: thread::JoinHandle<bool>,
}

impl Deadline {
    fn start(leader: Tid, time: Duration) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let thread = thread::spawn(move || {
            let mut left = time;
            while !seen.load(Ordering::Acquire) {
                if left.is_zero() {
                    sys::kill_group(leader);
                    // Its group may be another by now.
                    sys::kill(leader);
                    return true;
                }
                let step = left.min(Duration::from_millis(100));
                thread::park_timeout(step);
                left -= step;
            }
            false
        });
        Self { done, thread }
    }

    /// Whether the time was over.
    fn stop(self) -> bool {
        self.done.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(false)
    }
}

impl Tracer<'_> {
    /// Follows the program to its end.
    fn run(&mut self, leader: Tid) -> io::Result<Ended> {
        self.add(leader);
        sys::resume(leader, false, 0);
        let mut ended = Ended::Status(0);
        while let Some((tid, stop)) = self.next_stop()? {
            self.settle()?;
            // A process whose first stop comes after the program's end is none of those ended then.
            if (self.over || self.watch.is_full())
                && !matches!(stop, Stop::Exited(_) | Stop::Killed(_))
            {
                sys::kill(process_of(tid));
            }
            match stop {
                Stop::Filtered => match sys::entry(tid) {
                    Ok(Entry { trap: Trap::Foreign, .. }) => {
                        self.foreign = true;
                        sys::kill_group(leader);
                        sys::kill(tid);
                    }
                    Ok(entry) => self.entered(tid, entry)?,
                    // It was killed, and says so next.
                    Err(_) => {}
                },
                Stop::Returned => self.returned(tid)?,
                Stop::Forked(new) => {
                    self.guards.forked(self.process_of(tid), process_of(new));
                    if !self.threads.contains_key(&new) {
                        self.newborn.insert(new);
                    }
                    if self.threads.len() + self.newborn.len() > THREADS_TOGETHER {
                        self.apart();
                    }
                    sys::resume(tid, false, 0);
                }
                Stop::Executed(before) => {
                    self.stacks.forget(tid);
                    self.guards.forget(tid);
                    if before != tid {
                        self.forget(before)?;
                    }
                    sys::resume(tid, false, 0);
                }
                Stop::Signal(libc::SIGSEGV) if self.options.exact && self.stored(tid)? => {}
                Stop::Signal(signal) => {
                    let new = !self.threads.contains_key(&tid);
                    self.add(tid);
                    // The first stop of a new thread is the tracer's own doing.
                    let swallowed = new && signal == libc::SIGSTOP;
                    sys::resume(tid, false, if swallowed { 0 } else { signal });
                }
                Stop::Exited(status) => {
                    self.forget(tid)?;
                    if tid == leader {
                        ended = Ended::Status(status);
                        self.end_others();
                    }
                }
                Stop::Killed(signal) => {
                    self.forget(tid)?;
                    if tid == leader {
                        ended = Ended::Signal(signal);
                        self.end_others();
                    }
                }
            }
        }
        Ok(ended)
    }

    /// A program that asks for its processors hears of those that it would have without the tracer.
    fn tell_processors(&self, tid: Tid, address: u64, result: i64) {
        if let (Some(together), Ok(length)) = (&self.together, usize::try_from(result)) {
            let bytes = together.before.bytes();
            sys::write_memory(tid, address, &bytes[..length.min(bytes.len())]);
        }
    }

    fn next_stop(&mut self) -> io::Result<Option<(Tid, Stop)>> {
        match self.put_off.pop_front() {
            Some(stop) => Ok(Some(stop)),
            None => sys::next_stop(true),
        }
    }

    /// Gives all threads the processors that they would have without the tracer.
    fn apart(&mut self) {
        if let Some(together) = self.together.take() {
            together.end(self.threads.keys().chain(&self.newborn).copied());
        }
    }

    fn process_of(&self, tid: Tid) -> Tid {
        self.threads.get(&tid).map_or(tid, |thread| thread.process)
    }

    fn add(&mut self, tid: Tid) {
        self.newborn.remove(&tid);
        self.threads.entry(tid).or_insert_with(|| Thread {
            process: process_of(tid),
            pending: None,
            stack: None,
        });
    }

    /// The program has ended: processes that it left running would change the directory while it is judged.
    fn end_others(&mut self) {
        self.over = true;
        let mut others: Vec<Tid> = self.threads.values().map(|thread| thread.process).collect();
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            self.watch.blind(format!(
                "{} processes outlived the program and were killed at its end",
                others.len()
            ));
        }
        for process in others {
            sys::kill(process);
        }
    }

    fn forget(&mut self, tid: Tid) -> io::Result<()> {
        self.threads.remove(&tid);
        self.newborn.remove(&tid);
        self.processes.remove(&tid);
        self.stacks.forget(tid);
        self.waiting.retain(|&(waiting, _)| waiting != tid);
        if self.inside == Some(tid) {
            self.inside = None;
            self.next()?;
        }
        Ok(())
    }

    /// A handle of the process of a thread.
    fn process(&mut self, tid: Tid) -> io::Result<&OwnedFd> {
        self.add(tid);
        let process = self.threads[&tid].process;
        match self.processes.entry(process) {
            std::collections::hash_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                Ok(place.insert(sys::open_process(process)?))
            }
        }
    }

    fn entered(&mut self, tid: Tid, entry: Entry) -> io::Result<()> {
        self.add(tid);
        if entry.number == libc::SYS_sched_setaffinity {
            self.apart();
        }
        if self.inside.is_some() {
            self.waiting.push_back((tid, entry));
            return Ok(());
        }
        self.begin(tid, entry)
    }

    /// A call begins, while no other runs that changes files.
    fn begin(&mut self, tid: Tid, entry: Entry) -> io::Result<()> {
        self.watch.look_at_mappings()?;
        let calls = self.watch.calls_so_far();
        self.watch.stack = None;
        let mut pending = self.prepare(tid, &entry)?;
        let mut stack = None;
        if pending.is_some() || self.watch.calls_so_far() != calls {
            stack = self.stacks.of(tid, self.process_of(tid));
            self.watch.stand(calls, stack);
        }
        if let Some(pending) = &mut pending {
            self.fault(tid, &entry, pending)?;
        }
        let alone = self.threads.len() == 1 && self.newborn.is_empty();
        if let Some(write) = pending.take_if(|pending| alone && pending.can_be_let_go()) {
            if self.watch.maps_none() {
                self.let_go = Some((tid, write, entry.args[2], stack));
            } else {
                pending = Some(write);
            }
        }
        let counts = pending.is_some();
        if counts {
            self.inside = Some(tid);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.pending = pending;
            thread.stack = stack;
        }
        sys::resume(tid, counts, 0);
        Ok(())
    }

    /// Makes the planned call fail.
    fn fault(&mut self, tid: Tid, entry: &Entry, pending: &mut Pending) -> io::Result<()> {
        let number = match (pending.is_sync(), pending.is_write()) {
            (true, _) => {
                self.calls.0 += 1;
                self.calls.0 - 1
            }
            (_, true) => {
                self.calls.1 += 1;
                self.calls.1 - 1
            }
            _ => return Ok(()),
        };
        let Some(fault) = self.options.fault else { return Ok(()) };
        let fits = (fault.kind == FaultKind::SyncFails) == pending.is_sync();
        if !fits || fault.call != number {
            return Ok(());
        }
        let text = pending.text(&mut self.watch);
        self.watch.fails(text);
        match fault.kind.errno() {
            Some(errno) => {
                sys::skip_call(tid)?;
                pending.failed = Some(errno);
            }
            None if pending.has_count() && entry.args[2] > 1 => {
                sys::set_count(tid, entry.args[2] / 2)?
            }
            None => {}
        }
        Ok(())
    }

    /// Records the write that was let go, now that the thread has stopped again or ended.
    fn settle(&mut self) -> io::Result<()> {
        match self.let_go.take() {
            Some((tid, pending, count, stack)) => {
                self.watch.stack = stack;
                self.finish_let_go(tid, pending, count)
            }
            None => Ok(()),
        }
    }

    fn returned(&mut self, tid: Tid) -> io::Result<()> {
        let pending = self.threads.get_mut(&tid).and_then(|thread| thread.pending.take());
        let result = sys::result(tid);
        if let (Some(pending), Ok(mut result)) = (pending, result) {
            if let Some(errno) = pending.failed {
                result = -i64::from(errno);
                sys::set_result(tid, result)?;
            }
            self.watch.look_at_mappings()?;
            self.watch.stack = self.threads.get(&tid).and_then(|thread| thread.stack);
            self.finish(tid, pending, result)?;
            self.watch.stack = None;
        }
        if self.inside == Some(tid) {
            self.inside = None;
        }
        sys::resume(tid, false, 0);
        self.next()
    }

    /// Threads that waited go on, up to the first whose call counts.
    fn next(&mut self) -> io::Result<()> {
        while self.inside.is_none() {
            let Some((tid, entry)) = self.waiting.pop_front() else { return Ok(()) };
            self.begin(tid, entry)?;
        }
        Ok(())
    }
}

/// The process of a thread.
fn process_of(tid: Tid) -> Tid {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(tid)
}
