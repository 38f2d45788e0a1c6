//! The commands of data without a server: on any transaction, as checkers and measurements want them.

use std::time::Duration;

use outlast::{Abort, Transact};

use crate::commands::{self, Command, Ctx, Run, SessionRun};
use crate::resp::{Args, OwnedArgs, Reply};
#[cfg(fuzzing)]
use crate::resp::{Limits, Parsed, Request};
use crate::script::{Commands, Scripts};
use crate::store::garbage;
use crate::store::{Changes, Keys, Root};
use outlast_workloads::Random;

/// The databases of a pool, for a program that runs transactions itself.
///
/// ```
/// use outlast::{Pool, Runner};
/// use outlast_redis::Engine;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("pool");
/// let pool = Pool::create(&path)?;
/// let mut lane = pool.lane()?;
/// let mut engine = lane.run(|tx| Engine::open(tx))?;
/// let answer = lane.run(|tx| engine.run(tx, &[b"SET", b"key", b"value"]))?;
/// assert_eq!(answer, b"+OK\r\n");
/// # Ok(())
/// # }
/// ```
pub struct Engine {
    root: Root,
    random: Random,
    changes: Changes,
    scripts: Scripts,
    /// The database that commands use.
    pub database: usize,
    /// The time, in ms since 1970.
    pub now_ms: u64,
}

impl Engine {
    /// The databases of the transaction's pool. One without a root gets empty ones.
    ///
    /// # Errors
    /// [`Abort::Cancelled`] when the pool holds something else.
    pub fn open(tx: &mut dyn Transact) -> Result<Self, Abort> {
        let (root, random) = (Root::open(tx)?, Random::from_state(1));
        let (changes, scripts) = Default::default();
        Ok(Self { root, random, changes, scripts, database: 0, now_ms: 0 })
    }

    /// As [`open`](Self::open), where an empty pool's hash gets this secret: a history that is run again
    /// then makes the same tables.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(tx: &mut dyn Transact, secret: (u64, u64)) -> Result<Self, Abort> {
        if tx.root()?.is_none() {
            Root::create(tx, secret)?;
        }
        Self::open(tx)
    }

    /// Runs a command of data or a script in the transaction, and returns its answer in version 2 of the
    /// protocol. A command that is neither is answered with an error.
    ///
    /// # Errors
    /// [`Abort`], after which nothing of the transaction may be committed.
    pub fn run(&mut self, tx: &mut dyn Transact, words: &[&[u8]]) -> Result<Vec<u8>, Abort> {
        let args: OwnedArgs = words.iter().collect();
        let mut reply = Reply::default();
        let command = words.first().and_then(|name| commands::find(name));
        let command = command.filter(|command| command.takes(words.len()));
        let is_script = |run| matches!(run, Run::Session(SessionRun::Eval));
        let command = command.filter(|row| matches!(row.run, Run::Data(_)) || is_script(row.run));
        let Some(command) = command else {
            reply.error("ERR no such command of data");
            return Ok(reply.bytes);
        };
        self.changes.forget();
        if is_script(command.run) {
            let mut scripts = std::mem::take(&mut self.scripts);
            let mut calls = Calls { engine: self, tx };
            let done = scripts.eval(args.view(), Duration::MAX, &mut calls, &mut reply);
            self.scripts = scripts;
            done?;
        } else {
            self.run_data(tx, command, args.view(), &mut reply)?;
        }
        Ok(reply.bytes)
    }

    fn run_data(
        &mut self,
        tx: &mut dyn Transact,
        command: &'static Command,
        args: Args<'_>,
        out: &mut Reply,
    ) -> Result<(), Abort> {
        let mut ctx = Ctx { keys: self.keys(tx), args, out, string_bytes_max: 512 << 20 };
        crate::server::run_data(command, &mut ctx, 0)
    }

    /// Gives a large list or sorted set the structure that former versions gave it: tests of their pools want it.
    /// `false` where the key has no such value.
    ///
    /// # Errors
    /// [`Abort`].
    #[doc(hidden)]
    pub fn make_former(&mut self, tx: &mut dyn Transact, key: &[u8]) -> Result<bool, Abort> {
        crate::store::former::make_former(&mut self.keys(tx), key)
    }

    fn keys<'k>(&'k mut self, tx: &'k mut dyn Transact) -> Keys<'k> {
        Keys {
            mem: tx,
            root: self.root,
            database: self.database,
            now: self.now_ms,
            changes: &mut self.changes,
            random: &mut self.random,
        }
    }

    /// Frees some of what commands have discarded. `false` when nothing is left.
    ///
    /// # Errors
    /// [`Abort`].
    pub fn free_some(&mut self, tx: &mut dyn Transact) -> Result<bool, Abort> {
        garbage::step(tx, &self.root)
    }
}

/// The commands of data that a script calls.
struct Calls<'e, 't> {
    engine: &'e mut Engine,
    tx: &'e mut (dyn Transact + 't),
}

impl Commands for Calls<'_, '_> {
    fn run(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        out: &mut Reply,
    ) -> Result<(), Abort> {
        match command.run {
            Run::Data(_) => self.engine.run_data(self.tx, command, args, out),
            Run::Session(_) => {
                out.error("ERR no such command of data");
                Ok(())
            }
        }
    }
}

/// The requests in bytes that arrive in packets of this length, and the error of a malformed one.
#[cfg(fuzzing)]
pub fn requests(bytes: &[u8], packet: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = Limits { bulk_bytes_max: 1 << 20, words_max: 1 << 10, is_unknown: false };
    let (mut request, mut all, mut from, mut end) = (Request::default(), Vec::new(), 0, 0);
    loop {
        match request.parse(&bytes[from..end], &limits) {
            Ok(Parsed::Partly) if end == bytes.len() => return (all, None),
            Ok(Parsed::Partly) => end = bytes.len().min(end.saturating_add(packet)),
            Ok(Parsed::Whole(len)) => {
                all.push(request.words(&bytes[from..end]).iter().map(<[u8]>::to_vec).collect());
                from += len;
                request.clear();
            }
            Err(error) => return (all, Some(error)),
        }
    }
}
