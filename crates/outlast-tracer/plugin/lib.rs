//! The plugin that QEMU's user mode loads: it reports what a guest does to its memory.
//!
//! Callbacks append words to a chunk of their vCPU, which the driver reads and encodes on another
//! core; `words.rs` has the words. A store's bytes are read from the guest's memory after it. As soon
//! as there is a second thread, each store first takes its place in the order of all: the last place
//! at an address has the last bytes, because a place is taken before the bytes are read.
//!
//! This file has no dependencies: a build script hands it to the compiler, and the driver carries
//! the library in itself.
#![deny(unsafe_op_in_unsafe_fn)]

mod calls;
mod exec;
mod link;
mod pages;
mod qemu;
#[allow(dead_code)]
mod slot;
mod vcpu;
#[path = "../src/words.rs"]
#[allow(dead_code)]
mod words;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use calls::{Effect, Out, number};
use exec::{Left, Running, become_program};
use link::Link;
use pages::PAGE;
use qemu::{InfoBits, Insn, PluginId, Rights, Tb};
use vcpu::{Vcpu, accessed, block_begins};
use words::{Message, kind};

/// The version of the interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Threads of a process, those that ended included.
const VCPUS: usize = 1 << 16;
/// In a block's number as its callback gets it: where its number of instructions stands.
const COUNT_AT: u32 = 32;
/// The same: the capture starts at this block.
const STARTS: u64 = 1 << 47;
/// Where the number of its instruction stands in what an access's callback gets.
const INSN_AT: u32 = 20;
/// In the same, the number of its block.
const ACCESS_BLOCK_AT: u32 = 32;
/// Blocks whose begin can be marked as a handler's.
const BLOCKS_MAX: usize = 1 << 22;

/// A system call under way.
struct Call {
    number: i64,
    arguments: [u64; 6],
    effect: Effect,
    /// What touched pages held before a call of unknown effect.
    before: Vec<(u64, Box<[u8; PAGE as usize]>)>,
}

static CPUS: [AtomicPtr<Vcpu>; VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; VCPUS];
/// Whether accesses are recorded now.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whether there has been more than one thread.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);
/// Threads that hold still, while it is on, before their next block.
static HOLD: AtomicBool = AtomicBool::new(false);
/// Threads that are inside a block.
static RUNNING: [AtomicBool; VCPUS] = [const { AtomicBool::new(false) }; VCPUS];
/// Places in the order of all threads.
static PLACES: AtomicU64 = AtomicU64::new(0);
/// Instructions until the window opens, or once it is open until it closes.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// One more than the largest number of a vCPU. A number is used again when its thread has ended.
static VCPUS_BEGUN: AtomicU32 = AtomicU32::new(0);
/// Threads that have begun.
static THREADS: AtomicU32 = AtomicU32::new(0);
/// The vCPU that began last.
static LAST: AtomicU32 = AtomicU32::new(0);
/// The bits of QEMU's word about an access that say whether it stores, and its size.
static STORE_BIT: AtomicU32 = AtomicU32::new(0);
static KEY_BITS: AtomicU32 = AtomicU32::new(0);
static SIZE_BIT: AtomicU32 = AtomicU32::new(0);
/// What is added to the guest's addresses.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Whether `BASE` is known and the program's memory was looked at.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Whether the program has handlers of signals.
static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);
/// Whether a block that had run before became a handler: it may be expected somewhere.
static HAS_LATE_HANDLERS: AtomicBool = AtomicBool::new(false);
static HANDLER_BLOCKS: [AtomicU64; BLOCKS_MAX / 64] =
    [const { AtomicU64::new(0) }; BLOCKS_MAX / 64];

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// What only seldom callbacks need.
struct Shared {
    link: Link,
    running: Running,
    options: Options,
    /// Blocks as they were told, for children of fork.
    blocks: Vec<Vec<u8>>,
    /// The numbers of blocks that begin at an address.
    at: HashMap<u64, Vec<u32>>,
    handlers: Vec<u64>,
    is_done: bool,
}

#[derive(Clone, Default)]
struct Options {
    file: String,
    directory: PathBuf,
    skip: i64,
    count: i64,
    start_at: Option<String>,
    /// The connection of the program that this process was before, which stays open until the driver
    /// has heard of this one.
    before: Option<c_int>,
}

impl Options {
    /// Reads an option of QEMU's `-plugin`.
    fn take(&mut self, name: &str, value: &str) {
        match name {
            "directory" => self.directory = PathBuf::from(value),
            "skip" => self.skip = value.parse().unwrap_or(0),
            "count" => self.count = value.parse().unwrap_or(i64::MAX),
            "start" => self.start_at = Some(value.to_owned()),
            "before" => self.before = value.parse().ok(),
            _ => {}
        }
    }

    /// The options as QEMU's `-plugin` takes them.
    fn text(&self) -> String {
        let Self { file, directory, skip, count, start_at, before } = self;
        let mut text =
            format!("{file},directory={},skip={skip},count={count}", directory.display());
        if let Some(symbol) = start_at {
            text += &format!(",start={symbol}");
        }
        if let Some(before) = before {
            text += &format!(",before={before}");
        }
        text
    }
}

fn shared() -> MutexGuard<'static, Option<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the guest: its driver is gone, or something cannot go on.
fn give_up(why: &str) -> ! {
    eprintln!("outlast: the capture ends: {why}");
    std::process::exit(125)
}

/// Eight bytes of the guest's memory.
fn word(at: u64) -> Option<u64> {
    let base = BASE.load(Ordering::Relaxed);
    let (page, from) = (at / PAGE, (at % PAGE) as usize);
    let first = pages::read(page, base)?;
    let mut bytes = [0; 8];
    let here = (PAGE as usize - from).min(8);
    bytes[..here].copy_from_slice(&first[from..from + here]);
    if here < 8 {
        bytes[here..].copy_from_slice(&pages::read(page + 1, base)?[..8 - here]);
    }
    Some(u64::from_le_bytes(bytes))
}

/// The system has put a frame on the stack, or on the one that the program has for signals.
#[cold]
#[inline(never)]
fn handler_begins(number: u32, vcpu: &mut Vcpu) {
    /// More than a frame has with all its registers.
    const FRAME_BYTES: u64 = 4096;
    vcpu.event(kind::THREAD, 0, &[]);
    if let Some(at) = qemu::stack_pointer(number) {
        vcpu.system_wrote(at, FRAME_BYTES, false);
    }
}

/// Counts down to the window.
#[cold]
#[inline(never)]
pub fn before_window(number: c_uint, data: u64) {
    let count = (data >> COUNT_AT & 0x3ff) as i64;
    if !IS_BEGUN.load(Ordering::Acquire) {
        return;
    }
    let mut guard = shared();
    let Some(shared) = guard.as_mut().filter(|shared| !shared.is_done) else { return };
    if IS_ON.load(Ordering::Relaxed) {
        return; // Another thread was faster.
    }
    if shared.options.start_at.is_some() {
        if data & STARTS == 0 {
            return;
        }
        shared.options.start_at = None;
        LEFT.store(shared.options.skip, Ordering::Relaxed);
    }
    let left = LEFT.load(Ordering::Relaxed);
    if left > 0 {
        LEFT.store(left - count, Ordering::Relaxed);
        return;
    }
    LEFT.store(shared.options.count, Ordering::Relaxed);
    drop(guard);
    pages::keep_all(BASE.load(Ordering::Relaxed));
    IS_ON.store(true, Ordering::SeqCst);
    Vcpu::of(number).left = 0;
    block_begins(number, data as *mut c_void);
}

/// The window closes: the program's work is done.
#[cold]
#[inline(never)]
fn window_closes(number: c_uint) -> ! {
    end(number);
    std::process::exit(0)
}

/// Says that a thread is inside a block, and waits while all hold still.
#[inline(always)]
fn hold_still(number: c_uint) {
    let running = &RUNNING[number as usize % VCPUS];
    while HOLD.load(Ordering::SeqCst) {
        running.store(false, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    if !running.load(Ordering::Relaxed) {
        running.store(true, Ordering::SeqCst);
        if HOLD.load(Ordering::SeqCst) {
            hold_still(number);
        }
    }
}

/// Records what all touched pages hold, while no thread runs, and says that this is the end.
fn end(number: c_uint) {
    if HOLD.swap(true, Ordering::SeqCst) {
        loop {
            std::thread::park(); // Another thread ends the process.
        }
    }
    let own = number as usize % VCPUS;
    let others = |running: &AtomicBool| running.load(Ordering::SeqCst);
    let begun = VCPUS_BEGUN.load(Ordering::SeqCst) as usize;
    // Longer than any block runs: one that waits for a page of its file, say.
    for _ in 0..2000 {
        let mut running = RUNNING[..begun.min(VCPUS)].iter().enumerate();
        if !running.any(|(vcpu, running)| vcpu != own && others(running)) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    IS_ON.store(false, Ordering::SeqCst);
    let vcpu = Vcpu::of(number);
    let base = BASE.load(Ordering::Relaxed);
    for page in pages::touched() {
        if qemu::rights(page * PAGE) == Rights::None {
            continue;
        }
        let Some(bytes) = pages::read(page, base) else { continue };
        vcpu.event_with(kind::FINAL, 0, &[page], &bytes);
    }
    let mut guard = shared();
    if let Some(shared) = guard.as_mut() {
        shared.is_done = true;
        for vcpu in &CPUS[..begun.min(VCPUS)] {
            let vcpu = vcpu.load(Ordering::Relaxed);
            if !vcpu.is_null() {
                // SAFETY: as in `Vcpu::of`: the others hold still.
                let vcpu = unsafe { &mut *vcpu };
                if vcpu.has_chunk() {
                    vcpu.last_event(kind::THREAD, 1);
                    vcpu.hand_over(&mut shared.link);
                }
            }
        }
        let _ = shared.link.say(Message::Done, 0, 0, &[]);
    }
    drop(guard);
    HOLD.store(false, Ordering::SeqCst);
}

extern "C" fn translated(_id: PluginId, tb: *mut Tb) {
    // SAFETY: QEMU hands a block over for the time of this call, and instructions below its count.
    let (count, first) =
        unsafe { (qemu::qemu_plugin_tb_n_insns(tb), qemu::qemu_plugin_tb_get_insn(tb, 0)) };
    if first.is_null() {
        return;
    }
    // SAFETY: as above.
    let at = unsafe { qemu::qemu_plugin_insn_vaddr(first) };
    if !IS_BEGUN.load(Ordering::Acquire) {
        // SAFETY: as above.
        let host = unsafe { qemu::qemu_plugin_insn_haddr(first) } as u64;
        BASE.store(host.wrapping_sub(at), Ordering::Relaxed);
        pages::keep_all(host.wrapping_sub(at));
        IS_BEGUN.store(true, Ordering::Release);
    }
    let mut block = Vec::with_capacity(16 * count);
    let insn = |number| {
        // SAFETY: as above.
        unsafe { qemu::qemu_plugin_tb_get_insn(tb, number) }
    };
    for number in 0..count {
        // SAFETY: as above; the bytes are as many as the size says.
        unsafe {
            let insn: *mut Insn = insn(number);
            let size = qemu::qemu_plugin_insn_size(insn);
            block.extend_from_slice(&qemu::qemu_plugin_insn_vaddr(insn).to_le_bytes());
            block.push(size as u8);
            let bytes = qemu::qemu_plugin_insn_data(insn).cast::<u8>();
            block.extend_from_slice(std::slice::from_raw_parts(bytes, size));
        }
    }
    let mut guard = shared();
    let Some(shared) = guard.as_mut() else { return };
    if shared.is_done {
        return;
    }
    let number = shared.blocks.len() as u32;
    if let Err(error) = shared.link.say(Message::Block, number, 0, &block) {
        give_up(&error.to_string());
    }
    shared.blocks.push(block);
    shared.at.entry(at).or_default().push(number);
    if shared.handlers.contains(&at) {
        mark_handler(number);
    }
    let mut data = u64::from(number) | (count as u64) << COUNT_AT;
    if let Some(start_at) = &shared.options.start_at {
        // SAFETY: as above; the symbol is null or a string of the program's.
        let symbol = unsafe { qemu::qemu_plugin_insn_symbol(first) };
        // SAFETY: as above.
        let is_it = !symbol.is_null()
            && unsafe { CStr::from_ptr(symbol) }.to_bytes() == start_at.as_bytes();
        // The symbol holds for the whole function, and the capture starts at its begin: a block
        // inside it cannot come first.
        if is_it {
            data |= STARTS;
        }
    }
    drop(guard);
    // SAFETY: as above; callbacks are of the types that QEMU calls.
    unsafe {
        let block_number = data as u32;
        let data = data as *mut c_void;
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(tb, block_begins, qemu::NO_REGISTERS, data);
        for number in 0..count {
            let data = u64::from(block_number) << ACCESS_BLOCK_AT | (number as u64) << INSN_AT;
            qemu::qemu_plugin_register_vcpu_mem_cb(
                insn(number),
                accessed,
                qemu::NO_REGISTERS,
                qemu::READS_AND_WRITES,
                data as *mut c_void,
            );
        }
    }
}

fn mark_handler(block: u32) {
    if (block as usize) < BLOCKS_MAX {
        HANDLER_BLOCKS[block as usize / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
    }
    HAS_HANDLERS.store(true, Ordering::Relaxed);
}

extern "C" fn vcpu_begins(_id: PluginId, number: c_uint) {
    let vcpu = Box::leak(Box::new(Vcpu::new(number, THREADS.fetch_add(1, Ordering::SeqCst))));
    let begun = VCPUS_BEGUN.fetch_max(number + 1, Ordering::SeqCst);
    if begun > 0 {
        HAS_THREADS.store(true, Ordering::SeqCst);
        RUNNING[0].store(true, Ordering::SeqCst);
    }
    vcpu.next_chunk();
    CPUS[number as usize % VCPUS].store(vcpu, Ordering::SeqCst);
    LAST.store(number, Ordering::SeqCst);
}

extern "C" fn vcpu_ends(_id: PluginId, number: c_uint) {
    RUNNING[number as usize % VCPUS].store(false, Ordering::SeqCst);
    let vcpu = CPUS[number as usize % VCPUS].load(Ordering::Relaxed);
    if vcpu.is_null() || HOLD.load(Ordering::SeqCst) {
        return;
    }
    let vcpu = Vcpu::of(number);
    let mut guard = shared();
    if let Some(shared) = guard.as_mut().filter(|shared| !shared.is_done)
        && vcpu.has_chunk()
    {
        vcpu.last_event(kind::THREAD, 1);
        vcpu.hand_over(&mut shared.link);
    }
}

#[allow(clippy::too_many_arguments)]
extern "C" fn call_begins(
    _id: PluginId,
    vcpu: c_uint,
    call: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _a7: u64,
    _a8: u64,
) {
    let number = vcpu;
    let arguments = [a1, a2, a3, a4, a5, a6];
    let vcpu = Vcpu::of(vcpu);
    if call == number::SIGACTION && a2 != 0 {
        handler_is_set(a2);
    }
    let base = BASE.load(Ordering::Relaxed);
    let effect = calls::effect(call, &arguments, word);
    let mut before = Vec::new();
    if IS_ON.load(Ordering::Relaxed) {
        vcpu.place();
        vcpu.event(kind::CALL, call as u64, &[a1, a2, a3]);
        match &effect {
            Effect::Writes(outs) => {
                for page in outs.iter().flat_map(|out| pages::pages(out.at, reach(out))) {
                    if qemu::rights(page * PAGE) != Rights::None {
                        vcpu.touch(page, None);
                    }
                }
            }
            Effect::Maps => {}
            Effect::Unknown => {
                let pages = pages::touched().into_iter();
                let pages = pages.filter(|page| qemu::rights(page * PAGE) == Rights::Write);
                let kept = |page| Some((page, Box::new(pages::read(page, base)?)));
                before = pages.filter_map(kept).collect();
            }
        }
    }
    vcpu.call = Some(Call { number: call, arguments, effect, before });
    match call {
        number::EXIT_GROUP if IS_ON.load(Ordering::Relaxed) => end(number),
        number::EXIT => thread_exits(vcpu),
        number::SET_TID_ADDRESS => vcpu.clears = a1,
        number::EXECVE => execs(number, &arguments),
        // What follows is another process, or none.
        number::FORK | number::VFORK | number::CLONE | number::EXECVEAT => {
            hand_over_at_call(vcpu);
        }
        _ if HAS_THREADS.load(Ordering::Relaxed) => hand_over_at_call(vcpu),
        _ => {}
    }
    RUNNING[number as usize % VCPUS].store(false, Ordering::SeqCst);
}

/// Becomes the program that an `execve` names: this one's trace ends here, as at its exit.
fn execs(number: c_uint, arguments: &[u64; 6]) {
    hand_over_at_call(Vcpu::of(number));
    let mut guard = shared();
    let Some(shared) = guard.as_mut().filter(|shared| !shared.is_done) else { return };
    let next = match exec::next(arguments, BASE.load(Ordering::Relaxed), &shared.running) {
        Ok(next) => next,
        Err(Left::Refused) => return,
        Err(Left::Bare(file, why)) => {
            let note = format!("{} is not followed: {why}", String::from_utf8_lossy(&file));
            let _ = shared.link.say(Message::Bare, 0, 0, note.as_bytes());
            return;
        }
    };
    let running = shared.running.clone();
    let file = String::from_utf8_lossy(&next.file).into_owned();
    let is_on = IS_ON.load(Ordering::SeqCst);
    let mut options = shared.options.clone();
    match LEFT.load(Ordering::Relaxed) {
        // The window is open.
        left if is_on => {
            let left = left - Vcpu::of(number).uncounted();
            (options.skip, options.count) = (0, left.max(1));
        }
        left if options.start_at.is_none() => options.skip = left.max(0),
        _ => {}
    }
    options.before = Some(shared.link.outlives_exec());
    if !is_on {
        let why = format!("the program became {file} before the window began");
        let _ = shared.link.say(Message::Note, 0, 0, why.as_bytes());
        let _ = shared.link.say(Message::Done, 0, 0, &[]);
        shared.is_done = true;
    }
    drop(guard);
    if is_on {
        end(number);
    }
    let error = become_program(next, &running, &options);
    if let Some(shared) = self::shared().as_mut() {
        let note = format!("{file} is not followed, nor is what comes then: {error}");
        let _ = shared.link.say(Message::Bare, 0, 0, note.as_bytes());
    }
}

/// The most bytes of a place that a call is asked about. Larger buffers are seldom filled.
fn reach(out: &Out) -> u64 {
    if out.at == 0 { 0 } else { out.len.min(1 << 32) }
}

/// A thread may wait in a call for what another does, and that one for room.
fn hand_over_at_call(vcpu: &mut Vcpu) {
    let mut guard = shared();
    if let Some(shared) = guard.as_mut().filter(|shared| !shared.is_done) {
        vcpu.change_chunk(&mut shared.link);
    }
}

/// QEMU clears the word that the thread's joiner waits for, after this.
fn thread_exits(vcpu: &mut Vcpu) {
    let (at, page) = (vcpu.clears, vcpu.clears / PAGE);
    if at == 0 || !IS_ON.load(Ordering::Relaxed) || qemu::rights(at) == Rights::None {
        return;
    }
    if vcpu.touch(page, None) {
        vcpu.place();
        vcpu.event(kind::SYSTEM_WRITE, 0, &[at, 4, 0]);
    }
}

fn handler_is_set(action: u64) {
    let Some(handler) = word(action).filter(|handler| *handler > 1) else { return };
    let mut guard = shared();
    let Some(shared) = guard.as_mut() else { return };
    if !shared.handlers.contains(&handler) {
        shared.handlers.push(handler);
        for block in shared.at.get(&handler).into_iter().flatten() {
            mark_handler(*block);
            HAS_LATE_HANDLERS.store(true, Ordering::SeqCst);
        }
        HAS_HANDLERS.store(true, Ordering::Relaxed);
    }
}

extern "C" fn call_returns(_id: PluginId, number: c_uint, call: i64, result: i64) {
    let vcpu = Vcpu::of(number);
    let begun = vcpu.call.take().filter(|begun| begun.number == call);
    let arguments = begun.as_ref().map_or([0; 6], |begun| begun.arguments);
    let is_fork = matches!(call, number::FORK | number::VFORK | number::CLONE);
    if is_fork && result == 0 {
        return child_begins(vcpu);
    }
    if HAS_THREADS.load(Ordering::Relaxed) {
        hold_still(number);
    }
    /// The thread's word is cleared when it ends (`CLONE_CHILD_CLEARTID`).
    const CLEARS: u64 = 0x20_0000;
    if call == number::CLONE && result > 0 && arguments[0] & CLEARS != 0 {
        let child = LAST.load(Ordering::SeqCst);
        let child = CPUS[child as usize % VCPUS].load(Ordering::SeqCst);
        if !child.is_null() {
            // SAFETY: a leaked vCPU; its thread reads this when it ends, and no other writes it.
            unsafe { (&raw mut (*child).clears).write_volatile(arguments[3]) };
        }
    }
    let base = BASE.load(Ordering::Relaxed);
    if is_success(result) {
        keep_mapped(call, &arguments, result, base);
    }
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    vcpu.event(kind::RETURN, call as u64, &[result as u64]);
    match begun.as_ref().map(|begun| &begun.effect) {
        Some(Effect::Writes(outs)) => {
            for out in outs {
                let len = match out.by_result {
                    None => reach(out),
                    Some(unit) => reach(out).min((result.max(0) as u64).saturating_mul(unit)),
                };
                vcpu.system_wrote(out.at, len, false);
            }
        }
        Some(Effect::Maps) if is_success(result) => {
            let (at, len) = mapped(call, &arguments, result);
            vcpu.system_wrote(at, len, true);
        }
        _ => {}
    }
    for (page, before) in begun.into_iter().flat_map(|begun| begun.before) {
        let Some(now) = pages::read(page, base) else { continue };
        let differs = |at: &usize| before[*at] != now[*at];
        let (Some(from), Some(to)) =
            ((0..PAGE as usize).find(differs), (0..PAGE as usize).rfind(differs))
        else {
            continue;
        };
        vcpu.system_wrote(page * PAGE + from as u64, (to - from) as u64 + 1, true);
    }
}

/// Whether a call's result is none of the errors.
fn is_success(result: i64) -> bool {
    !(-4095..0).contains(&result)
}

/// The range whose bytes a mapping call has changed.
fn mapped(call: i64, arguments: &[u64; 6], result: i64) -> (u64, u64) {
    let [a1, a2, a3, ..] = *arguments;
    match call {
        number::MMAP => (result as u64, a2),
        number::MREMAP => (result as u64, a3),
        number::MADVISE => (a1, a2),
        // All that the break may have passed.
        number::BRK if a1 != 0 => ((result as u64).saturating_sub(1 << 24), 1 << 24),
        _ => (0, 0),
    }
}

/// Keeps what newly mapped pages hold.
fn keep_mapped(call: i64, arguments: &[u64; 6], result: i64, base: u64) {
    let (at, len) = match call {
        // Anonymous pages hold zeros.
        number::MMAP if arguments[4] as i32 >= 0 => (result as u64, arguments[1]),
        number::MREMAP => (result as u64, arguments[2]),
        number::MPROTECT if arguments[2] & 2 != 0 => (arguments[0], arguments[1]),
        _ => return,
    };
    pages::keep(at, len, base);
}

/// A child of fork has a file of its own, which begins here.
fn child_begins(vcpu: &mut Vcpu) {
    let base = BASE.load(Ordering::Relaxed);
    let mut guard = shared();
    let Some(shared) = guard.as_mut() else { return };
    let connected =
        Link::connect(&shared.options.directory, &shared.running).and_then(|mut link| {
            for (number, block) in shared.blocks.iter().enumerate() {
                link.say(Message::Block, number as u32, 0, block)?;
            }
            Ok(link)
        });
    match connected {
        Ok(link) => shared.link = link,
        Err(error) => give_up(&error.to_string()),
    }
    shared.is_done = false;
    *vcpu = Vcpu::new(vcpu.number, 0);
    THREADS.store(1, Ordering::SeqCst);
    vcpu.change_chunk(&mut shared.link);
    drop(guard);
    for (number, other) in CPUS.iter().enumerate().take(VCPUS_BEGUN.load(Ordering::SeqCst) as usize)
    {
        if number as u32 != vcpu.number {
            other.store(std::ptr::null_mut(), Ordering::SeqCst);
            RUNNING[number].store(false, Ordering::SeqCst);
        }
    }
    HAS_THREADS.store(false, Ordering::SeqCst);
    PLACES.store(0, Ordering::SeqCst);
    pages::forget(base);
}

extern "C" fn process_ends(_id: PluginId, _data: *mut c_void) {
    if IS_ON.load(Ordering::Relaxed) {
        // The last thread ended by itself, without `exit_group`.
        let begun = VCPUS_BEGUN.load(Ordering::SeqCst);
        let alive =
            (0..begun).find(|vcpu| !CPUS[*vcpu as usize % VCPUS].load(Ordering::Relaxed).is_null());
        if let Some(vcpu) = alive {
            end(vcpu);
        }
    }
    let mut guard = shared();
    if let Some(shared) = guard.as_mut().filter(|shared| !shared.is_done) {
        let why = match &shared.options.start_at {
            Some(symbol) => format!("the program never came to {symbol}"),
            None => "the program ended before the window began".to_owned(),
        };
        let _ = shared.link.say(Message::Note, 0, 0, why.as_bytes());
        let _ = shared.link.say(Message::Done, 0, 0, &[]);
        shared.is_done = true;
    }
}

/// The plugin's begin. Options are `directory=PATH`, `skip=N`, `count=N`, `start=SYMBOL`.
///
/// # Safety
/// QEMU calls it, with as many strings as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let mut options = Options { count: i64::MAX, ..Options::default() };
    for number in 0..argc as usize {
        // SAFETY: QEMU hands over `argc` strings.
        let argument = unsafe { CStr::from_ptr(*argv.add(number)) }.to_string_lossy();
        if let Some((name, value)) = argument.split_once('=') {
            options.take(name, value);
        }
    }
    let running = Running::find().filter(|_| options.directory.is_absolute());
    let Some(running) = running else {
        eprintln!("outlast: the plugin is started by `outlast trace`");
        return 1;
    };
    options.file = running.plugin();
    let below = |bits: &InfoBits| bits.store | 7 << bits.size_at < 1 << INSN_AT;
    let Some(bits) = InfoBits::find().filter(below) else {
        eprintln!("outlast: this QEMU describes accesses in another way; take version 7.2");
        return 1;
    };
    STORE_BIT.store(bits.store, Ordering::Relaxed);
    KEY_BITS.store(bits.store | 7 << bits.size_at, Ordering::Relaxed);
    SIZE_BIT.store(bits.size_at, Ordering::Relaxed);
    let link = match Link::connect(&options.directory, &running) {
        Ok(link) => link,
        Err(error) => {
            eprintln!("outlast: {}: {error}", options.directory.display());
            return 1;
        }
    };
    if let Some(before) = options.before.take() {
        link::close_file(before);
    }
    LEFT.store(options.skip, Ordering::Relaxed);
    let (blocks, at, handlers) = (Vec::new(), HashMap::new(), Vec::new());
    *shared() = Some(Shared { link, running, options, blocks, at, handlers, is_done: false });
    // SAFETY: QEMU gave the number; the callbacks have the interface's types.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, vcpu_begins);
        qemu::qemu_plugin_register_vcpu_exit_cb(id, vcpu_ends);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, call_begins);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, call_returns);
        qemu::qemu_plugin_register_atexit_cb(id, process_ends, std::ptr::null_mut());
    }
    0
}
