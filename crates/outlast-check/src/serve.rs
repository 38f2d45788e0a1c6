//! A check that stays (`--server`), from Rust: a loop that reads states and answers a line each.
//!
//! This file needs the standard library alone: it can be copied into a program. A check that panics is
//! an answer; one that ends the process is a verdict, too, and the checker starts it anew.
//!
//! ```no_run
//! use outlast_check::serve::{Answer, serve};
//!
//! serve(|state| match std::fs::read_to_string(state.dir.join("count")) {
//!     Ok(text) => text.trim().parse().map_or_else(|_| Answer::bad("torn"), Answer::Recovered),
//!     Err(_) => Answer::Recovered(0),
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::any::Any;
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// A state that a crash may have left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The directory: it may be written to.
    pub dir: PathBuf,
    /// The highest transaction acknowledged before the crash; 0 for none.
    pub acked: u64,
    /// The highest transaction begun before it; 0 for none.
    pub issued: u64,
}

/// The verdict on a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is right.
    Good,
    /// It holds all transactions up to this one: lost if fewer than acknowledged, never issued if more
    /// than begun.
    Recovered(u64),
    /// It is wrong: how.
    Bad(String),
}

impl Answer {
    /// A wrong state.
    #[must_use]
    pub fn bad(text: impl Display) -> Self {
        Self::Bad(text.to_string())
    }

    fn line(&self) -> String {
        match self {
            Self::Good => "ok".to_owned(),
            Self::Recovered(number) => format!("recovered {number}"),
            Self::Bad(text) => format!("bad {}", text.replace(['\n', '\r'], " ")),
        }
    }
}

impl From<()> for Answer {
    fn from((): ()) -> Self {
        Self::Good
    }
}

impl From<u64> for Answer {
    fn from(number: u64) -> Self {
        Self::Recovered(number)
    }
}

impl<A: Into<Self>, E: Display> From<Result<A, E>> for Answer {
    fn from(result: Result<A, E>) -> Self {
        match result {
            Ok(answer) => answer.into(),
            Err(error) => Self::bad(error),
        }
    }
}

/// Answers states from standard input on standard output, until there are no more.
///
/// # Errors
/// Those of reading and writing; a line that is no state.
pub fn serve<A: Into<Answer>>(check: impl FnMut(&State) -> A) -> io::Result<()> {
    serve_on(io::stdin().lock(), io::stdout().lock(), check)
}

/// [`serve`] on other streams.
///
/// # Errors
/// See [`serve`].
pub fn serve_on<A: Into<Answer>>(
    states: impl BufRead,
    mut answers: impl Write,
    mut check: impl FnMut(&State) -> A,
) -> io::Result<()> {
    for line in states.lines() {
        let line = line?;
        let state = state_of(&line).ok_or_else(|| {
            io::Error::other(format!("'{line}' is no state: DIR, ACKED, ISSUED with tabs would be"))
        })?;
        let answer = catch_unwind(AssertUnwindSafe(|| check(&state).into()))
            .unwrap_or_else(|panic| Answer::Bad(format!("panicked: {}", words(&*panic))));
        writeln!(answers, "{}", answer.line())?;
        answers.flush()?;
    }
    Ok(())
}

fn state_of(line: &str) -> Option<State> {
    let mut words = line.rsplitn(3, '\t');
    let issued = words.next()?.parse().ok()?;
    let acked = words.next()?.parse().ok()?;
    Some(State { dir: PathBuf::from(words.next()?), acked, issued })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "without words",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_gets_a_line() {
        let states = "/a\tb\t1\t2\n/c\t0\t1\n/d\t0\t0\n/e\t3\t3\n";
        let mut told = Vec::new();
        serve_on(states.as_bytes(), &mut told, |state| match (state.acked, state.issued) {
            (1, 2) => {
                assert_eq!(state.dir.to_str(), Some("/a\tb"));
                Answer::Good
            }
            (0, 1) => Answer::from(7),
            (0, 0) => Err::<(), _>("two\nlines").into(),
            _ => panic!("number {}", state.acked),
        })
        .unwrap();
        let told = String::from_utf8(told).unwrap();
        assert_eq!(told, "ok\nrecovered 7\nbad two lines\nbad panicked: number 3\n");
        assert!(serve_on("x\n".as_bytes(), Vec::new(), |_| ()).is_err());
    }
}
