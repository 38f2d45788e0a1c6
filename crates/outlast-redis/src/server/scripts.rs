//! Scripts of clients, and the commands that they call.

use std::time::Duration;

use outlast::Abort;

use super::state::State;
use crate::commands::{Command, Run};
use crate::resp::{Args, Reply};
use crate::script::Commands;
use crate::store::mem::Mem;

impl State {
    /// Runs a client's script in a transaction that has begun.
    pub fn eval(&mut self, tx: &mut Mem<'_>, slot: usize, args: Args<'_>) -> Result<(), Abort> {
        let limit = Duration::from_millis(self.options.script_ms_max);
        let Some(client) = self.client(slot) else { return Ok(()) };
        let (mut reply, database) = (std::mem::take(&mut client.reply), client.database);
        // The script's own commands are answered in the version that it has chosen.
        let mut scripts = std::mem::take(&mut self.scripts);
        let mut calls = Calls { state: self, tx, slot };
        let outcome = scripts.eval(args, limit, &mut calls, &mut reply);
        self.scripts = scripts;
        if let Some(client) = self.client(slot) {
            // `SELECT` in a script is the script's.
            (client.reply, client.database) = (reply, database);
        }
        outcome
    }
}

/// The commands that a client's script calls.
struct Calls<'s, 'm> {
    state: &'s mut State,
    tx: &'s mut Mem<'m>,
    slot: usize,
}

impl Calls<'_, '_> {
    /// Has the client's answers go there, and the other way round.
    fn swap(&mut self, out: &mut Reply) {
        if let Some(client) = self.state.client(self.slot) {
            std::mem::swap(&mut client.reply, out);
        }
    }
}

impl Commands for Calls<'_, '_> {
    fn run(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        out: &mut Reply,
    ) -> Result<(), Abort> {
        self.swap(out);
        let done = match command.run {
            Run::Data(_) => self.state.one(self.tx, self.slot, command, args),
            Run::Session(run) => self.state.session(self.tx, self.slot, run, args, false),
        };
        self.swap(out);
        done
    }
}
