//! System calls that have no safe wrapper: starting a traced child with a seccomp filter, `ptrace`,
//! and descriptors of other processes. The only unsafe code of this crate.

mod filter;

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

pub use self::filter::Stops;
use self::filter::filter;

/// A thread of the traced program.
pub type Tid = libc::pid_t;

/// The trap that a filter's verdict carries to the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// A call that may change files.
    Call = 0,
    /// A call of another instruction set (a 32-bit program).
    Foreign = 1,
}

/// A system call at its entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Why the filter has stopped it.
    pub trap: Trap,
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub args: [u64; 6],
    /// The instruction behind it.
    pub instruction: u64,
}

/// A stop of a traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The filter stopped a call before it ran: see [`entry`].
    Filtered,
    /// A call has returned.
    Returned,
    /// A new process or thread was made.
    Forked(Tid),
    /// Another program runs in the process; the thread had this number before.
    Executed(Tid),
    /// A signal is about to be delivered.
    Signal(i32),
    /// The thread has ended by itself.
    Exited(i32),
    /// The thread was killed by a signal.
    Killed(i32),
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The descriptor on which a program finds the pipe for its marks, if no other is asked for.
pub const MARKS_FD: RawFd = 198;

/// The environment of a program whose pipe for marks has this descriptor: this process's, and the number.
fn environment(marks: RawFd) -> io::Result<Vec<CString>> {
    let ours = std::env::vars_os().filter(|(name, _)| name != crate::marks::VARIABLE);
    let number = (crate::marks::VARIABLE.into(), marks.to_string().into());
    ours.chain([number])
        .map(|(name, value)| {
            let mut text = name;
            text.push("=");
            text.push(value);
            word(&text)
        })
        .collect()
}

/// Starts `command`, traced and stopped before its first instruction, with `stdout` as its standard
/// output and the first of `marks` as the descriptor of the second's number, which its environment names.
///
/// # Errors
/// The kernel refuses a new process, a filter or to be traced.
pub fn start(
    command: &[CString],
    stdout: RawFd,
    marks: (RawFd, RawFd),
    folder: Option<&Path>,
    stops: Stops,
) -> io::Result<Tid> {
    let filter = filter(stops);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let mut argv: Vec<*const libc::c_char> = command.iter().map(|word| word.as_ptr()).collect();
    argv.push(ptr::null());
    let environment = environment(marks.1)?;
    let mut envp: Vec<*const libc::c_char> = environment.iter().map(|word| word.as_ptr()).collect();
    envp.push(ptr::null());
    let folder = match folder {
        None => None,
        Some(folder) => Some(
            CString::new(folder.as_os_str().as_bytes())
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        ),
    };
    // SAFETY: the child calls nothing but async-signal-safe functions until it executes: everything
    // that it needs was allocated before.
    let child = check(libc::c_long::from(unsafe { libc::fork() }))? as Tid;
    if child == 0 {
        // SAFETY: pointers are to memory that lives in this copy of the process until `execvpe`.
        unsafe {
            libc::setpgid(0, 0);
            libc::dup2(stdout, 1);
            libc::dup2(marks.0, marks.1);
            // A copy onto itself keeps the flag that closes it.
            libc::fcntl(marks.1, libc::F_SETFD, 0);
            if folder.as_ref().is_some_and(|folder| libc::chdir(folder.as_ptr()) != 0) {
                libc::_exit(126);
            }
            let traced = libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0;
            if !traced || libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                libc::_exit(125);
            }
            libc::raise(libc::SIGSTOP);
            if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
            {
                libc::_exit(125);
            }
            libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr());
            libc::_exit(127);
        }
    }
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    check(libc::c_long::from(unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) }))?;
    if !libc::WIFSTOPPED(status) {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    let options = libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_EXITKILL;
    // SAFETY: the request has no pointer.
    let set = check(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, options) });
    if let Err(error) = set {
        kill_group(child);
        return Err(error);
    }
    Ok(child)
}

/// Lets a stopped thread go on, to its next stop.
pub fn resume(tid: Tid, to_return: bool, signal: i32) {
    let request = if to_return { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    // SAFETY: the request has no pointer. A thread that has died in between reports it by itself.
    unsafe { libc::ptrace(request, tid, 0, signal) };
}

/// The next stop of any thread that this thread traces: other threads wait for children of their own.
/// None without a thread left, or, with `wait` not set, without
/// a stop by now.
///
/// # Errors
/// Those of `waitpid`.
pub fn next_stop(wait: bool) -> io::Result<Option<(Tid, Stop)>> {
    let mut status = 0;
    // Of this thread's program alone: other threads may capture others.
    let flags = libc::__WALL | libc::__WNOTHREAD | if wait { 0 } else { libc::WNOHANG };
    let tid = loop {
        // SAFETY: `status` is a place for one integer.
        match check(libc::c_long::from(unsafe { libc::waitpid(-1, &raw mut status, flags) })) {
            Ok(0) => return Ok(None),
            Ok(tid) => break tid as Tid,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    };
    Ok(Some((tid, stop_of(tid, status))))
}

fn stop_of(tid: Tid, status: i32) -> Stop {
    if libc::WIFEXITED(status) {
        Stop::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Stop::Killed(libc::WTERMSIG(status))
    } else {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                Stop::Forked(event_message(tid) as Tid)
            }
            libc::PTRACE_EVENT_EXEC => Stop::Executed(event_message(tid) as Tid),
            _ if signal == libc::SIGTRAP | 0x80 => Stop::Returned,
            _ => Stop::Signal(signal),
        }
    }
}

fn event_message(tid: Tid) -> u64 {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request writes one unsigned long.
    unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message) };
    message
}

/// Where a thread stands in a system call: `struct ptrace_syscall_info`, of which this crate reads
/// the parts that entry, filter and exit share.
#[repr(C)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    body: [u64; 8],
}

/// As Linux numbers it; the `libc` crate names it for glibc alone, where requests have another type than for musl.
const PTRACE_GET_SYSCALL_INFO: u16 = 0x420e;

fn syscall_info(tid: Tid) -> io::Result<SyscallInfo> {
    let mut info = MaybeUninit::<SyscallInfo>::zeroed();
    // SAFETY: the kernel writes at most the size that it is told; all bit patterns are valid.
    unsafe {
        check(libc::ptrace(
            PTRACE_GET_SYSCALL_INFO.into(),
            tid,
            mem::size_of::<SyscallInfo>(),
            info.as_mut_ptr(),
        ))?;
        Ok(info.assume_init())
    }
}

/// Bytes of the system's page.
pub fn page_bytes() -> u64 {
    // SAFETY: asks for a number, and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// The call that a filter has stopped.
///
/// # Errors
/// The thread is gone.
pub fn entry(tid: Tid) -> io::Result<Entry> {
    let info = syscall_info(tid)?;
    let [number, args @ .., verdict] = info.body;
    let trap = if verdict as u32 == Trap::Foreign as u32 { Trap::Foreign } else { Trap::Call };
    Ok(Entry { trap, number: number as i64, args, instruction: info.instruction })
}

/// The result of a call that has returned: negative numbers are errors.
///
/// # Errors
/// The thread is gone.
pub fn result(tid: Tid) -> io::Result<i64> {
    Ok(syscall_info(tid)?.body[0] as i64)
}

/// Makes the call that a filter has stopped do nothing: the thread stops again where it returns.
///
/// # Errors
/// The thread is gone, or this processor's registers are not known here.
#[cfg(target_arch = "x86_64")]
pub fn skip_call(tid: Tid) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = u64::MAX;
    set_registers(tid, &registers)
}

/// Sets the result of a call that has returned.
///
/// # Errors
/// As of [`skip_call`].
#[cfg(target_arch = "x86_64")]
pub fn set_result(tid: Tid, result: i64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.rax = result as u64;
    set_registers(tid, &registers)
}

/// Sets the third argument of the call that a filter has stopped: a count of bytes.
///
/// # Errors
/// As of [`skip_call`].
#[cfg(target_arch = "x86_64")]
pub fn set_count(tid: Tid, count: u64) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.rdx = count;
    set_registers(tid, &registers)
}

/// The result of a thread's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stepped {
    /// One instruction, or one turn of a repeated one, has run.
    Done,
    /// It stores to a place that it may not store to.
    Fault(u64),
    /// The thread has stopped for another reason, or ended.
    Other(Stop),
}

/// The place that a thread stores to or reads without being allowed to, if that is why it has stopped.
#[must_use]
pub fn refused_place(tid: Tid) -> Option<u64> {
    const SEGV_ACCERR: i32 = 2;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel writes one structure, of which all bit patterns are valid; a fault has an address.
    unsafe {
        check(libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0, info.as_mut_ptr())).ok()?;
        let info = info.assume_init();
        let refused = info.si_signo == libc::SIGSEGV && info.si_code == SEGV_ACCERR;
        refused.then(|| info.si_addr() as u64)
    }
}

/// Lets a stopped thread run one instruction.
///
/// # Errors
/// The thread is gone.
pub fn step(tid: Tid) -> io::Result<Stepped> {
    // SAFETY: the request has no pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0) })?;
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    check(libc::c_long::from(unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) }))?;
    Ok(match stop_of(tid, status) {
        Stop::Signal(libc::SIGTRAP) => Stepped::Done,
        Stop::Signal(libc::SIGSEGV) => match refused_place(tid) {
            Some(place) => Stepped::Fault(place),
            None => Stepped::Other(Stop::Signal(libc::SIGSEGV)),
        },
        stop => Stepped::Other(stop),
    })
}

/// Has a stopped thread make a call, by the instruction at `with` that enters the kernel, and puts it back to where it was.
///
/// # Errors
/// The thread is gone, the call fails, or this processor's registers are not known here.
#[cfg(target_arch = "x86_64")]
pub fn call_in(tid: Tid, with: u64, number: libc::c_long, args: [u64; 3]) -> io::Result<()> {
    let before = registers(tid)?;
    let mut registers = before;
    registers.rip = with;
    registers.rax = number as u64;
    registers.orig_rax = u64::MAX;
    [registers.rdi, registers.rsi, registers.rdx] = args;
    set_registers(tid, &registers)?;
    let mut stepped = step(tid)?;
    // The filter stops this call as well.
    while stepped == Stepped::Other(Stop::Filtered) {
        stepped = step(tid)?;
    }
    let result = self::registers(tid)?.rax as i64;
    set_registers(tid, &before)?;
    match stepped {
        Stepped::Done if result >= 0 => Ok(()),
        Stepped::Done => Err(io::Error::from_raw_os_error(-result as i32)),
        _ => Err(io::Error::from(io::ErrorKind::Interrupted)),
    }
}

/// The instruction that a stopped thread runs next.
///
/// # Errors
/// As of [`skip_call`].
#[cfg(target_arch = "x86_64")]
pub fn next_instruction(tid: Tid) -> io::Result<u64> {
    Ok(registers(tid)?.rip)
}

/// Puts another call in place of the one that a filter has stopped.
///
/// # Errors
/// As of [`skip_call`].
#[cfg(target_arch = "x86_64")]
pub fn replace_call(tid: Tid, number: libc::c_long, args: [u64; 3]) -> io::Result<()> {
    let mut registers = registers(tid)?;
    registers.orig_rax = number as u64;
    [registers.rdi, registers.rsi, registers.rdx] = args;
    set_registers(tid, &registers)
}

/// Has a thread whose call was replaced make the one that it wanted.
///
/// # Errors
/// As of [`skip_call`].
#[cfg(target_arch = "x86_64")]
pub fn call_again(tid: Tid, entry: &Entry) -> io::Result<()> {
    let mut registers = registers(tid)?;
    // `syscall` has two bytes.
    registers.rip = entry.instruction - 2;
    registers.rax = entry.number as u64;
    [registers.rdi, registers.rsi, registers.rdx, ..] = entry.args;
    set_registers(tid, &registers)
}

#[cfg(target_arch = "x86_64")]
fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: the kernel writes one structure of this type, of which all bit patterns are valid.
    unsafe {
        check(libc::ptrace(libc::PTRACE_GETREGS, tid, 0, registers.as_mut_ptr()))?;
        Ok(registers.assume_init())
    }
}

#[cfg(target_arch = "x86_64")]
fn set_registers(tid: Tid, registers: &libc::user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads one structure of this type.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, ptr::from_ref(registers)) })?;
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
mod no_registers {
    use std::io;

    use super::Tid;

    fn unknown<T>() -> io::Result<T> {
        Err(io::Error::other("--faults and --exact are there on x86-64 alone"))
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn skip_call(_: Tid) -> io::Result<()> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn set_result(_: Tid, _: i64) -> io::Result<()> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn call_in(_: Tid, _: u64, _: libc::c_long, _: [u64; 3]) -> io::Result<()> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn next_instruction(_: Tid) -> io::Result<u64> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn replace_call(_: Tid, _: libc::c_long, _: [u64; 3]) -> io::Result<()> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn call_again(_: Tid, _: &super::Entry) -> io::Result<()> {
        unknown()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn set_count(_: Tid, _: u64) -> io::Result<()> {
        unknown()
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub use no_registers::{
    call_again, call_in, next_instruction, replace_call, set_count, set_result, skip_call,
};

/// The registers of a stopped thread, with which unwinding its stack begins.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// The instruction.
    pub instruction: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The frame pointer.
    pub frame: u64,
    /// The link register, on processors that have one.
    pub link: u64,
}

/// Where a stopped thread is.
///
/// # Errors
/// The thread is gone.
pub fn here(tid: Tid) -> io::Result<Here> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    let mut place = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: mem::size_of::<libc::user_regs_struct>(),
    };
    // SAFETY: the kernel writes at most the bytes that `place` describes; all bit patterns are valid.
    let registers = unsafe {
        check(libc::ptrace(libc::PTRACE_GETREGSET, tid, libc::NT_PRSTATUS, &raw mut place))?;
        registers.assume_init()
    };
    #[cfg(target_arch = "x86_64")]
    let here =
        Here { instruction: registers.rip, stack: registers.rsp, frame: registers.rbp, link: 0 };
    #[cfg(target_arch = "aarch64")]
    let here = Here {
        instruction: registers.pc,
        stack: registers.sp,
        frame: registers.regs[29],
        link: registers.regs[30],
    };
    Ok(here)
}

/// A handle of a process.
///
/// # Errors
/// The process is gone.
pub fn open_process(pid: Tid) -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointer, and nothing else owns its descriptor.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::syscall(libc::SYS_pidfd_open, pid, 0))? as RawFd))
    }
}

/// A copy of a descriptor of another process: the same open file.
///
/// # Errors
/// There is no such descriptor, or the process is gone.
pub fn descriptor_of(process: &OwnedFd, fd: RawFd) -> io::Result<File> {
    // SAFETY: the call has no pointer, and nothing else owns its descriptor.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0))?;
        Ok(File::from_raw_fd(fd as RawFd))
    }
}

/// The flags of an open file.
#[must_use]
pub fn flags(file: &File) -> i32 {
    // SAFETY: the call has no pointer.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) }
}

/// Where the next read or write of an open file begins.
#[must_use]
pub fn place(file: &File) -> u64 {
    // SAFETY: the call has no pointer.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR).max(0) as u64 }
}

/// The processors that a thread may run on.
#[derive(Clone, Copy)]
pub struct Processors(libc::cpu_set_t);

impl Processors {
    /// Those of a thread; 0 is the calling one.
    #[must_use]
    pub fn of(tid: Tid) -> Option<Self> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the kernel writes at most the size that it is told; all bit patterns are valid.
        unsafe {
            let size = mem::size_of::<libc::cpu_set_t>();
            (libc::sched_getaffinity(tid, size, set.as_mut_ptr()) == 0)
                .then(|| Self(set.assume_init()))
        }
    }

    /// The one on which this thread runs now.
    #[must_use]
    pub fn here() -> Self {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: a set of zeros is an empty one; numbers past its end are left out by `CPU_SET`'s bound.
        unsafe {
            let processor = usize::try_from(libc::sched_getcpu()).unwrap_or(0);
            if processor < libc::CPU_SETSIZE as usize {
                libc::CPU_SET(processor, set.assume_init_mut());
            }
            Self(set.assume_init())
        }
    }

    /// As the kernel gives them to a program.
    #[must_use]
    pub fn bytes(&self) -> [u8; mem::size_of::<libc::cpu_set_t>()] {
        // SAFETY: the set is plain words of this size.
        unsafe { mem::transmute(self.0) }
    }

    /// Lets a thread run on these alone; 0 is the calling one. One that is gone needs none.
    pub fn hold(&self, tid: Tid) {
        // SAFETY: the kernel reads one set.
        unsafe {
            libc::sched_setaffinity(tid, mem::size_of::<libc::cpu_set_t>(), &raw const self.0)
        };
    }
}

impl std::fmt::Debug for Processors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Processors")
    }
}

/// Reads memory of another process; less than asked where it ends.
#[must_use]
pub fn read_memory(tid: Tid, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the local vector describes `bytes`; the kernel checks the remote one.
    let read = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    bytes.truncate(read.max(0) as usize);
    bytes
}

/// Writes memory of another process, as far as it is there.
pub fn write_memory(tid: Tid, address: u64, bytes: &[u8]) {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local vector describes `bytes`, which is only read; the kernel checks the remote one.
    unsafe { libc::process_vm_writev(tid, &raw const local, 1, &raw const remote, 1, 0) };
}

/// Kills a process group and everything traced in it.
pub fn kill_group(leader: Tid) {
    // SAFETY: no pointers.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// Kills one process.
pub fn kill(pid: Tid) {
    // SAFETY: no pointers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Whether there is something to read, or the other side has ended, before `time` is over.
///
/// # Errors
/// Those of waiting.
pub fn is_readable(file: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = time.as_millis().min(i32::MAX as u128) as libc::c_int;
    // SAFETY: one descriptor, which the caller keeps open.
    match unsafe { libc::poll(&raw mut wanted, 1, millis) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        count => Ok(count != 0),
    }
}

/// A pipe: its reading end, and its writing end.
///
/// # Errors
/// No descriptors are left.
pub fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which nothing else owns.
    unsafe {
        check(libc::c_long::from(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)))?;
        Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])))
    }
}

/// Raises the limit of open files as far as it goes: each file of the program is kept open, so that
/// its number is not given to another.
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for one limit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// A word of a command line.
///
/// # Errors
/// It has a zero byte.
pub fn word(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// The descriptor to which the handler of interrupts writes.
static INTERRUPTED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn interrupted(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: `write` may be called in a handler; the byte lives until it returns.
    unsafe { libc::write(INTERRUPTED.load(Ordering::Relaxed), (&raw const byte).cast(), 1) };
}

/// A pipe that tells SIGINT, SIGTERM and SIGHUP, each by its number, from now on. They end this process
/// no more: the reader does. Programs that are started have the handlers of the system.
///
/// # Errors
/// No descriptors are left, or they were asked for before.
pub fn interrupts() -> io::Result<File> {
    let (read, write) = pipe()?;
    let write = OwnedFd::from(write);
    let first =
        INTERRUPTED.compare_exchange(-1, write.as_raw_fd(), Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    // It stays open as long as the handler may run.
    mem::forget(write);
    let handler = interrupted as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler calls nothing but `write`, and its descriptor is never closed.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    Ok(read)
}
