//! A check of two closures: the program and its check run in copies of the process that asks.
//!
//! A test that calls [`Closure::check`] is run again by its name, with an environment variable that says
//! which half is wanted: the copy runs up to the same call and carries out that half there. So a crate
//! is checked from its own tests, without a binary. A test may check more than once, if it goes on past
//! the calls before: in a copy, those return an empty report, which is sound.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::CheckError;
use super::plan::{Check, Plan, Source, quoted};
use super::program::Program;
use super::report::Report;
use crate::order::Ordered;
use crate::run::{Ended, Run};
use crate::search::Coverage;
use crate::serve::{Answer, State, serve_on};

/// The half that a copy of the process carries out: `run` or `check`.
const HALF: &str = "OUTLAST_CHECK_HALF";
/// The call of [`Closure::check`] in the test, counted from 0.
const CALL: &str = "OUTLAST_CHECK_CALL";
/// The directory of the half `run`.
const DIR: &str = "OUTLAST_CHECK_DIR";

/// The status of a copy that has carried out its half: one that never came to it has another.
const DONE: i32 = 86;

/// The descriptor on which the check's answers leave, past the harness of tests, which prints too.
const ANSWERS: i32 = 3;

/// A program and its check as closures. Options are those of [`Program`].
///
/// ```
/// use std::fs::{self, File};
/// use std::io;
/// use std::path::Path;
///
/// use outlast_check::{closure, marks};
///
/// fn put(dir: &Path) -> io::Result<()> {
///     for number in 1..=2 {
///         marks::issued(number);
///         fs::write(dir.join("new"), number.to_string())?;
///         File::open(dir.join("new"))?.sync_all()?;
///         fs::rename(dir.join("new"), dir.join("count"))?;
///         File::open(dir)?.sync_all()?;
///         marks::acked(number);
///     }
///     Ok(())
/// }
///
/// # fn main() {
/// let count = |dir: &Path| fs::read_to_string(dir.join("count")).unwrap_or("0".into());
/// # let checked =
/// closure(put, |state| count(&state.dir).parse::<u64>()).check();
/// # if checked.as_ref().is_err_and(|error| error.to_string().contains("refuses to trace")) { return }
/// # checked.unwrap().assert_sound();
/// # }
/// ```
#[must_use = "nothing runs before `check`"]
pub struct Closure<R, C> {
    name: String,
    run: R,
    check: C,
    program: Program,
}

/// A check of `run`, which gets an empty directory and marks its transactions, by `check`, which gets
/// each state that a crash may leave.
pub fn closure<R, E, C, A>(run: R, check: C) -> Closure<R, C>
where
    R: FnOnce(&Path) -> Result<(), E>,
    E: Display,
    C: FnMut(&State) -> A,
    A: Into<Answer>,
{
    let name = test_name(std::any::type_name::<R>());
    Closure { name, run, check, program: Program::new("") }
}

impl<R, E, C, A> Closure<R, C>
where
    R: FnOnce(&Path) -> Result<(), E>,
    E: Display,
    C: FnMut(&State) -> A,
    A: Into<Answer>,
{
    /// Sets options: `closure(…).with(|program| program.twice().sector(512))`.
    pub fn with(mut self, options: impl FnOnce(Program) -> Program) -> Self {
        self.program = options(self.program);
        self
    }

    /// The test's name, where it cannot be told: tests that run on one thread by a function of their own.
    pub fn named(mut self, test: impl Into<String>) -> Self {
        self.name = test.into();
        self
    }

    /// Runs both halves in copies of this process and checks the states.
    ///
    /// # Errors
    /// See [`CheckError`]; the first half has failed, or is not reached by running the test alone.
    pub fn check(self) -> Result<Report, CheckError> {
        let call = next_call(&self.name);
        if let Ok(half) = env::var(HALF) {
            if env::var(CALL).is_ok_and(|wanted| wanted == call.to_string()) {
                process::exit(self.half(&half));
            }
            // A call before the one that is wanted: the test goes on to that.
            return Ok(nothing());
        }
        let folder = tempfile::Builder::new().prefix("outlast-check-").tempdir()?;
        let dir = folder.path().join("data");
        let name = self.name.clone();
        let plan = self.plan(call, &dir)?;
        let mut report = plan.run_to(Some((Ended::Status(DONE), &name)), &mut |_| {})?;
        report.run.ended = Ended::Status(0);
        Ok(report)
    }

    fn plan(self, call: usize, dir: &Path) -> Result<Plan, CheckError> {
        let this = env::current_exe()?;
        let words = |half: &str| -> Vec<OsString> {
            let mut words = vec![OsString::from("env")];
            words.push(format!("{HALF}={half}").into());
            words.push(format!("{CALL}={call}").into());
            if half == "run" {
                words.push(format!("{DIR}={}", dir.display()).into());
            }
            words.push(this.clone().into());
            words.extend([self.name.as_str(), "--exact", "--nocapture"].map(OsString::from));
            words
        };
        let server: Vec<String> =
            words("check").iter().map(|word| quoted(&word.to_string_lossy())).collect();
        let server = format!("exec {ANSWERS}>&1 >/dev/null; exec {}", server.join(" "));
        let plan = self.program.dir(dir).server(server).plan()?;
        let source = Source::Program { dir: dir.to_owned(), words: words("run") };
        Ok(Plan { source, ..plan })
    }

    /// Carries out a half, and returns the status of this process.
    fn half(mut self, half: &str) -> i32 {
        let ended = match half {
            "run" => match env::var_os(DIR) {
                Some(dir) => (self.run)(&PathBuf::from(dir)).map_err(|error| error.to_string()),
                None => Err(format!("{DIR} is not set")),
            },
            _ => OpenOptions::new()
                .write(true)
                .open(format!("/proc/self/fd/{ANSWERS}"))
                .and_then(|answers| serve_on(io::stdin().lock(), answers, &mut self.check))
                .map_err(|error| error.to_string()),
        };
        match ended {
            Ok(()) => DONE,
            Err(error) => {
                eprintln!("{error}");
                1
            }
        }
    }
}

/// The number of this call among those of the same test.
fn next_call(name: &str) -> usize {
    static CALLS: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = calls.get_or_insert_default().entry(name.to_owned()).or_default();
    *count += 1;
    *count - 1
}

/// The name of the running test: its thread's, or on the main thread that of the function in which the
/// first closure stands.
fn test_name(closure: &str) -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => {
            let path = closure.split("::{{closure}}").next().unwrap_or(closure);
            path.split_once("::").map_or(path, |(_, path)| path).to_owned()
        }
    }
}

/// The report of a call that the copy of a test passes by.
fn nothing() -> Report {
    let source = Source::Program { dir: PathBuf::new(), words: Vec::new() };
    let run = Run::empty(PathBuf::new());
    Report {
        plan: Plan::new(source, Check::Server(String::new())),
        ordered: Vec::<Ordered>::new(),
        run,
        coverage: Coverage::default(),
        cases: Vec::new(),
        mutants: Vec::new(),
        captured: Duration::ZERO,
        took: Duration::ZERO,
        recoveries: 0,
        faults: 0,
    }
}
