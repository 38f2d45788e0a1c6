//! Scripts in Lua 5.1, as `EVAL` and its kin run them.
//!
//! A script runs in one transaction that its caller commits. An error of a script ends it and keeps what it
//! has stored, as in Redis. A script that runs too long, or needs more than the pool has, ends with
//! [`Abort`]: the transaction is taken back, and nothing of the script has happened.
//!
//! - [`Scripts`] holds the Lua state and the compiled scripts, which a restart forgets, as in Redis.
//! - [`Commands`] is what `redis.call` reaches.
//!
//! `mlua` brings PUC-Rio's Lua 5.1.5; its `debug`, `io` and `package` libraries are never loaded.
//! `sandbox.lua` is the environment that scripts see. No state passes from one script to the next.

mod convert;
mod library;
mod msgpack;
mod structs;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{
    Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState,
};
use outlast::Abort;

use crate::commands::{self, Command, NOT_AN_INTEGER, SYNTAX, is};
use crate::number::{format_double, parse_int};
use crate::resp::{Args, OwnedArgs, Reply};
pub(crate) use crate::server::VERSION;

/// Memory of the Lua state.
const MEMORY_BYTES_MAX: usize = 256 << 20;
/// Beyond this, garbage is collected when a script ends.
const MEMORY_BYTES_KEPT: usize = 32 << 20;
/// Scripts of `EVAL` that are kept compiled; those of `SCRIPT LOAD` are kept until `SCRIPT FLUSH`.
const PASSING_MAX: usize = 500;
/// Instructions between two looks at the clock.
const INSTRUCTIONS_A_LOOK: u32 = 10_000;
/// The name that errors give a script.
const CHUNK: &str = "@user_script";

/// The commands that scripts call.
pub(crate) trait Commands {
    /// Runs a command in the script's transaction. Its answer goes to `out`.
    ///
    /// # Errors
    /// [`Abort`], after which nothing of the transaction may be committed.
    fn run(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        out: &mut Reply,
    ) -> Result<(), Abort>;
}

/// Why a script was ended from outside: its error says all there is to say.
#[derive(Debug, thiserror::Error)]
#[error(
    "ERR script was ended: it ran longer than busy-reply-threshold, {limit_ms} ms. Nothing of it was done."
)]
pub(crate) struct Ended {
    limit_ms: u64,
}

/// Ends a script that runs too long, or whose transaction cannot go on.
struct Guard {
    began: Instant,
    /// In ns since `began`.
    deadline: AtomicU64,
    /// The script is to end.
    is_over: AtomicBool,
}

impl Guard {
    fn begin(&self, limit: Duration) {
        let deadline = self.began.elapsed().saturating_add(limit).as_nanos();
        self.deadline.store(u64::try_from(deadline).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
    }

    fn look(&self) -> bool {
        if self.began.elapsed().as_nanos() > u128::from(self.deadline.load(Ordering::Relaxed)) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.is_over()
    }

    /// The same where the server works for a script, and an error once the script is to end.
    fn check(&self) -> mlua::Result<()> {
        match self.look() {
            true => Err(mlua::Error::runtime("the script is to end")),
            false => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Looks once in `instructions` of them. A script that catches its end meets it again at once.
    fn watch(self: &Arc<Self>, lua: &Lua, instructions: u32) -> mlua::Result<()> {
        let guard = Arc::clone(self);
        let triggers = HookTriggers::new().every_nth_instruction(instructions);
        lua.set_global_hook(triggers, move |lua, _| {
            if !guard.look() {
                return Ok(VmState::Continue);
            }
            guard.watch(lua, 1)?;
            Err(mlua::Error::runtime("the script is to end"))
        })
    }
}

/// A compiled script.
struct Script {
    function: Function,
    reads_only: bool,
    /// `SCRIPT LOAD` has brought it.
    is_loaded: bool,
}

/// The Lua state.
struct Machine {
    lua: Lua,
    /// The sandbox's entry.
    start: Function,
    guard: Arc<Guard>,
}

impl Machine {
    fn new() -> mlua::Result<Self> {
        // Coroutines are part of the base of 5.1.
        let libraries = StdLib::MATH | StdLib::OS | StdLib::STRING | StdLib::TABLE;
        // A panic is a broken invariant of the server's, and not for a script to catch.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let host = library::host(&lua)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
        let start = sandbox.call(host)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let guard = Arc::new(Guard {
            began: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
        });
        guard.watch(&lua, INSTRUCTIONS_A_LOOK)?;
        lua.set_app_data(Arc::clone(&guard));
        Ok(Self { lua, start, guard })
    }

    fn words(&self, args: Args<'_>) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(args.len(), 0)?;
        for (index, word) in (1..).zip(args.iter()) {
            table.raw_set(index, self.lua.create_string(word)?)?;
        }
        Ok(table)
    }
}

/// The scripts of a server. The Lua state is made by the first one.
#[derive(Default)]
pub(crate) struct Scripts {
    machine: Option<Machine>,
    compiled: HashMap<String, Script>,
    /// Names of `EVAL`'s scripts, the oldest first.
    passing: VecDeque<String>,
}

impl Scripts {
    /// How many are compiled.
    pub fn len(&self) -> usize {
        self.compiled.len()
    }

    /// Memory of the Lua state, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.machine.as_ref().map_or(0, |machine| machine.lua.used_memory())
    }

    /// `SCRIPT` with its words.
    pub fn script(&mut self, args: Args<'_>, out: &mut Reply) {
        let sub = args.at(1);
        if is(sub, "LOAD") && args.len() == 3 {
            let name = library::sha1_hex(args.at(2));
            match self.compile(&name, args.at(2), true) {
                Ok(()) => out.bulk(name.as_bytes()),
                Err(text) => out.error(&text),
            }
        } else if is(sub, "EXISTS") && args.len() > 2 {
            out.array(args.len() - 2);
            for name in args.from(2).iter() {
                out.int(i64::from(self.compiled.contains_key(&name_of(name))));
            }
        } else if is(sub, "FLUSH") && args.len() <= 3 {
            let way = args.get(2);
            if way.is_some_and(|way| !is(way, "SYNC") && !is(way, "ASYNC")) {
                return out.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
            }
            *self = Self::default();
            out.ok();
        } else if is(sub, "KILL") && args.len() == 2 {
            // A script that runs is never met: it holds the event loop, and ends by its limit.
            out.error("NOTBUSY No scripts in execution right now.");
        } else {
            out.error("ERR there are SCRIPT LOAD, EXISTS, FLUSH and KILL");
        }
    }

    /// Compiles a script unless that is done.
    fn compile(&mut self, name: &str, text: &[u8], is_loaded: bool) -> Result<(), String> {
        if let Some(script) = self.compiled.get_mut(name) {
            if is_loaded && !script.is_loaded {
                script.is_loaded = true;
                self.passing.retain(|passing| passing != name);
            }
            return Ok(());
        }
        let (text, reads_only) = without_shebang(text)?;
        let machine = self.machine()?;
        let chunk = machine.lua.load(&*text).set_name(CHUNK).set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => {
                let line = message.lines().next().unwrap_or_default();
                format!("ERR Error compiling script (new function): {line}")
            }
            error => refused(&error),
        })?;
        let script = Script { function, reads_only, is_loaded };
        self.compiled.insert(name.to_owned(), script);
        if !is_loaded {
            self.passing.push_back(name.to_owned());
            if self.passing.len() > PASSING_MAX
                && let Some(oldest) = self.passing.pop_front()
            {
                self.compiled.remove(&oldest);
            }
        }
        Ok(())
    }

    fn machine(&mut self) -> Result<&Machine, String> {
        if self.machine.is_none() {
            self.machine = Some(Machine::new().map_err(|error| refused(&error))?);
        }
        self.machine.as_ref().ok_or_else(|| SYNTAX.to_owned())
    }

    /// `EVAL`, `EVALSHA` and those that only read. The answer goes to `out`.
    ///
    /// # Errors
    /// [`Abort`] when the script was ended, or the pool could not do what it wanted: the transaction is to be
    /// taken back.
    pub fn eval(
        &mut self,
        args: Args<'_>,
        limit: Duration,
        host: &mut dyn Commands,
        out: &mut Reply,
    ) -> Result<(), Abort> {
        let (name, keys) = match self.find(args) {
            Ok(found) => found,
            Err(text) => {
                out.error(&text);
                return Ok(());
            }
        };
        let (Some(machine), Some(script)) = (&self.machine, self.compiled.get(&name)) else {
            return Ok(());
        };
        let reads_only = script.reads_only || ends_with(args.at(0), "_RO");
        let mut calls = Calls {
            host,
            guard: Arc::clone(&machine.guard),
            reads_only,
            abort: None,
            args: OwnedArgs::default(),
        };
        machine.guard.begin(limit);
        let before = out.bytes.len();
        let outcome = run(machine, &script.function, (args.from(3), keys), &mut calls);
        let failure = match outcome {
            Ok((true, value, version)) => {
                convert::to_reply(&value, version == 3, &machine.guard, out).err()
            }
            Ok((false, error, _)) => Some(failure(&machine.lua, &error, &name)),
            Err(error) => Some(refused(&error)),
        };
        let abort = calls.abort.take();
        let was_ended = machine.guard.is_over();
        machine.guard.begin(Duration::MAX);
        if was_ended {
            // The clock's look has changed its step.
            let _ = machine.guard.watch(&machine.lua, INSTRUCTIONS_A_LOOK);
        }
        if let Some(abort) = abort {
            return Err(abort);
        }
        if was_ended {
            return Err(Abort::cancelled(Ended { limit_ms: limit.as_millis() as u64 }));
        }
        if let Some(text) = failure {
            out.truncate(before);
            out.error(&text);
        }
        if machine.lua.used_memory() > MEMORY_BYTES_KEPT {
            let _ = machine.lua.gc_collect();
        }
        Ok(())
    }

    /// The name of the script that these words want, compiled, and how many keys it is given.
    fn find(&mut self, args: Args<'_>) -> Result<(String, usize), String> {
        let keys = parse_int(args.at(2)).ok_or(NOT_AN_INTEGER)?;
        if keys > args.len() as i64 - 3 {
            return Err("ERR Number of keys can't be greater than number of args".to_owned());
        }
        let keys = usize::try_from(keys).map_err(|_| "ERR Number of keys can't be negative")?;
        if begins_with(args.at(0), "EVALSHA") {
            let name = name_of(args.at(1));
            return match self.compiled.contains_key(&name) {
                true => Ok((name, keys)),
                false => Err("NOSCRIPT No matching script. Please use EVAL.".to_owned()),
            };
        }
        let name = library::sha1_hex(args.at(1));
        self.compile(&name, args.at(1), false)?;
        Ok((name, keys))
    }
}

/// A script's name in the case that the table has.
fn name_of(text: &[u8]) -> String {
    String::from_utf8_lossy(text).to_lowercase()
}

/// Whether a word begins or ends like that, in whatever case.
fn begins_with(word: &[u8], start: &str) -> bool {
    word.get(..start.len()).is_some_and(|word| is(word, start))
}

fn ends_with(word: &[u8], end: &str) -> bool {
    word.len().checked_sub(end.len()).is_some_and(|at| is(&word[at..], end))
}

fn refused(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => {
            "OOM not enough memory for scripts: SCRIPT FLUSH forgets those that are loaded"
                .to_owned()
        }
        error => format!("ERR {}", root_of(error)),
    }
}

/// The first cause of an error, in one line.
fn root_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => root_of(cause),
        mlua::Error::RuntimeError(text) => text.lines().next().unwrap_or_default().to_owned(),
        error => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// A script without its first line `#!lua name=… flags=…`, and whether it may only read.
fn without_shebang(text: &[u8]) -> Result<(std::borrow::Cow<'_, [u8]>, bool), String> {
    if !text.starts_with(b"#!") {
        return Ok((text.into(), false));
    }
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let line = String::from_utf8_lossy(&text[2..end]).into_owned();
    let mut words = line.split_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
    }
    let mut reads_only = false;
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {word}"));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => reads_only = true,
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
            }
        }
    }
    // The line's end stays: errors count lines.
    Ok((text[end..].into(), reads_only))
}

/// Whether the script has ended well, its value or error, its version of the protocol.
type Outcome = (bool, Value, i64);

fn run(
    machine: &Machine,
    script: &Function,
    (args, keys): (Args<'_>, usize),
    calls: &mut Calls<'_>,
) -> mlua::Result<Outcome> {
    let argv = machine.words(args.from(keys))?;
    let keys = machine.words(args.to(keys))?;
    machine.lua.scope(|scope| {
        let run =
            scope.create_function_mut(|lua, words: Variadic<Value>| calls.call(lua, &words))?;
        machine.start.call((script, keys, argv, run))
    })
}

/// The commands of a running script.
struct Calls<'h> {
    host: &'h mut dyn Commands,
    guard: Arc<Guard>,
    reads_only: bool,
    /// The transaction cannot go on.
    abort: Option<Abort>,
    args: OwnedArgs,
}

impl Calls<'_> {
    /// Runs the command of these words, the first of which is the version of the protocol. Returns its answer,
    /// and whether that is an error.
    fn call(&mut self, lua: &Lua, words: &[Value]) -> mlua::Result<(Value, bool)> {
        let is_resp3 = matches!(words.first(), Some(Value::Integer(3 | -3)));
        let mut reply = Reply { is_resp3, ..Reply::default() };
        self.guard.check()?;
        let told = match words {
            [Value::Integer(..0), Value::Table(words)] => {
                let words = words.sequence_values().collect::<mlua::Result<Vec<Value>>>()?;
                self.answer(&words, &mut reply)
            }
            words => self.answer(words.get(1..).unwrap_or_default(), &mut reply),
        };
        if let Err(text) = told {
            reply.bytes.clear();
            reply.error(&text);
        }
        if self.abort.is_some() {
            self.guard.is_over.store(true, Ordering::Relaxed);
            self.guard.watch(lua, 1)?;
            self.guard.check()?;
        }
        let (value, _) = convert::to_lua(lua, &reply.bytes)?;
        let has_failed = reply.bytes.first() == Some(&b'-');
        if has_failed && let Value::Table(error) = &value {
            place(lua, error)?;
        }
        Ok((value, has_failed))
    }

    fn answer(&mut self, words: &[Value], reply: &mut Reply) -> Result<(), String> {
        self.args.clear();
        for word in words {
            match word {
                Value::String(text) => self.args.push(&text.as_bytes()),
                Value::Integer(number) => self.args.push(number.to_string().as_bytes()),
                Value::Number(number) => self.args.push(format_double(*number).as_bytes()),
                _ => {
                    return Err("ERR Lua redis lib command arguments must be strings or integers"
                        .to_owned());
                }
            }
        }
        let args = self.args.view();
        if args.is_empty() {
            return Err("ERR Please specify at least one argument for this redis.call()".to_owned());
        }
        let Some(command) = commands::find(args.at(0)) else {
            return Err("ERR Unknown Redis command called from script".to_owned());
        };
        if !command.takes(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".to_owned());
        }
        if command.has_flag("noscript") {
            return Err("ERR This Redis command is not allowed from script".to_owned());
        }
        if commands::streams::has_block(args) && matches!(command.name, "xread" | "xreadgroup") {
            let name = command.name;
            return Err(format!(
                "ERR {name} command is not allowed with BLOCK option from scripts"
            ));
        }
        if self.reads_only && (command.has_flag("write") || command.name == "publish") {
            return Err("ERR Write commands are not allowed from read-only scripts.".to_owned());
        }
        self.abort = self.host.run(command, args, reply).err();
        Ok(())
    }
}

/// Notes in an error where its script stands. A call in a function's last place has left no line.
fn place(lua: &Lua, error: &Table) -> mlua::Result<()> {
    // Below are the function that runs commands, the one that gives it words, and `redis.call`.
    const LEVEL: usize = 3;
    let found = lua.inspect_stack(LEVEL, |frame| {
        let source = frame.source().source.map(std::borrow::Cow::into_owned);
        source.zip(frame.current_line())
    });
    if let Some((source, line)) = found.flatten() {
        error.raw_set("source", source)?;
        error.raw_set("line", line)?;
    }
    Ok(())
}

/// The answer for the error that has ended a script.
fn failure(lua: &Lua, error: &Value, name: &str) -> String {
    let at = |source: &str, line: i64| format!(" script: {name}, on {source}:{line}.");
    match error {
        Value::Table(table) => {
            let text = |field: &str| table.raw_get::<LuaString>(field).ok();
            let Some(what) = text("err") else {
                return format!("ERR Error running script {name}, execution failure");
            };
            let what = what.to_string_lossy();
            let line = table.raw_get::<i64>("line").ok();
            let place = text("source").zip(line);
            let place = place.map(|(source, line)| at(&source.to_string_lossy(), line));
            let what = what.trim_start_matches('-');
            format!("{what}{}", place.unwrap_or_else(|| format!(" script: {name}.")))
        }
        Value::Error(error) => format!("{} script: {name}.", refused(error)),
        other => {
            let text = lua.coerce_string(other.clone()).ok().flatten();
            let text = text.map_or_else(|| other.type_name().to_owned(), |t| t.to_string_lossy());
            // Lua begins a message with its place.
            let line = text.strip_prefix("user_script:").and_then(|rest| rest.split_once(':'));
            let line = line.and_then(|(line, _)| line.parse().ok());
            let place = line.map_or_else(|| format!(" script: {name}."), |line| at(CHUNK, line));
            format!("ERR {text}{place}")
        }
    }
}
