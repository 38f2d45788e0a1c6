//! System calls of another process that fail, or end it: one of them, chosen by its kind and number.
//!
//! The process is traced. Everything else that it does is done by the operating system, so what is
//! tested is a whole program, whatever calls it makes and from whichever library.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The calls that make something durable or a file longer.
pub const DURABLE: &[(&str, u64)] = &[
    ("pwritev2", 328),
    ("msync", 26),
    ("fsync", 74),
    ("fdatasync", 75),
    ("fallocate", 285),
    ("ftruncate", 77),
];

/// The calls of a program that makes a file.
pub const MAKING: &[u64] =
    &[257, 73, 285, 77, 9, 11, 26, 28, 74, 75, 328, 82, 316, 86, 87, 263, 3, 262, 217];

/// What happens to the call.
#[derive(Clone, Copy)]
pub enum Fate {
    /// It does nothing and returns that error.
    Fails(i32),
    /// The process is killed before it.
    Kills,
}

/// The call of that number among those of some kinds.
#[derive(Clone, Copy)]
pub struct Fault<'a> {
    pub kinds: &'a [u64],
    pub number: u64,
    pub fate: Fate,
}

/// How a process has ended.
#[derive(Debug)]
pub struct Ended {
    /// It came to the call.
    pub was_hit: bool,
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program with a fault. `None` where this process may not trace another. `scratch` is a
/// directory for its output.
pub fn run(program: &mut Command, fault: Fault<'_>, scratch: &Path) -> Option<Ended> {
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| scratch.join(name));
    // It waits for a line until it is traced.
    let mut waiting = Command::new("sh");
    waiting.args(["-c", "read -r line; exec \"$0\" \"$@\""]);
    waiting.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        waiting.env(name, value.unwrap_or_default());
    }
    waiting.stdin(Stdio::piped());
    waiting.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
    let mut child = waiting.spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    if ptrace::attach(pid).is_err() {
        let _ = child.kill();
        child.wait().unwrap();
        return None;
    }
    waitpid(pid, None).unwrap();
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).unwrap();
    ptrace::syscall(pid, None).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let (was_hit, code) = trace(pid, fault);
    let _ = child.try_wait();
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    Some(Ended { was_hit, code, stdout: text(&stdout), stderr: text(&stderr) })
}

/// Until the process ends. Whether it came to the call, and its exit code.
fn trace(process: Pid, fault: Fault<'_>) -> (bool, Option<i32>) {
    // Of the threads inside a call: the error that it is to return.
    let mut inside: HashMap<Pid, Option<i32>> = HashMap::new();
    let (mut calls, mut was_hit) = (0, false);
    // Of this thread's children only: other tests have theirs.
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        let goes_on = match waitpid(None, Some(flags)).unwrap() {
            WaitStatus::Exited(pid, code) if pid == process => return (was_hit, Some(code)),
            WaitStatus::Signaled(pid, _, _) if pid == process => return (was_hit, None),
            WaitStatus::PtraceSyscall(pid) => {
                if let Some(error) = inside.remove(&pid) {
                    if let Some(error) = error {
                        set_registers(pid, |registers| {
                            registers.rax = i64::from(-error).cast_unsigned();
                        });
                    }
                } else {
                    let Ok(registers) = ptrace::getregs(pid) else { continue };
                    let is_meant = fault.kinds.contains(&registers.orig_rax);
                    let is_it = is_meant && calls == fault.number;
                    calls += u64::from(is_meant);
                    was_hit |= is_it;
                    let error = match fault.fate {
                        Fate::Kills if is_it => {
                            let _ = nix::sys::signal::kill(process, Signal::SIGKILL);
                            continue;
                        }
                        Fate::Fails(error) if is_it => {
                            // No call has this number.
                            set_registers(pid, |registers| registers.orig_rax = u64::MAX);
                            Some(error)
                        }
                        _ => None,
                    };
                    inside.insert(pid, error);
                }
                Some((pid, None))
            }
            WaitStatus::PtraceEvent(pid, _, _) => Some((pid, None)),
            // How a new thread, and a new program, begins.
            WaitStatus::Stopped(pid, Signal::SIGSTOP | Signal::SIGTRAP) => Some((pid, None)),
            WaitStatus::Stopped(pid, signal) => Some((pid, Some(signal))),
            _ => None,
        };
        if let Some((pid, signal)) = goes_on {
            // A thread may have been killed meanwhile.
            let _ = ptrace::syscall(pid, signal);
        }
    }
}

fn set_registers(pid: Pid, change: impl FnOnce(&mut nix::libc::user_regs_struct)) {
    let Ok(mut registers) = ptrace::getregs(pid) else { return };
    change(&mut registers);
    let _ = ptrace::setregs(pid, registers);
}
