//! One crash as files: the bytes before, at and after it, the journal, and the explorer's page.

use std::fs;
use std::io;
use std::path::Path;

use outlast_crash::machine;
use outlast_crash::runtime::campaign::{Look, stored};
use outlast_sim::timed::Cycle;
use outlast_sim::{Cause, Persisted};
use outlast_trace::{FlushKind, LINE_BYTES, Op, PoolOffset};
use serde_json::{Value, json};

use crate::html;
use crate::record::Document;

/// Writes `before.bin`, `image.bin` and `recovered.bin`, `journal.json` and `index.html` to a folder, which
/// is made if it is missing.
///
/// # Errors
/// Those of writing.
pub fn save(look: &Look, folder: &Path, document: &Document) -> io::Result<()> {
    let images = [("before", &look.base), ("image", &look.image), ("recovered", &look.recovered)];
    write(folder, &images, &journal(look, document), document)
}

/// The same of a crash of the timed machine, and `memory.bin`, the program's memory after recovery, unless
/// that refused. `work` is its name.
///
/// # Errors
/// Those of writing.
pub fn save_of_machine(
    look: &machine::Look,
    work: &str,
    folder: &Path,
    document: &Document,
) -> io::Result<()> {
    let images = [("before", &look.base), ("image", &look.image), ("recovered", &look.recovered)];
    let memory = look.memory.iter().map(|bytes| ("memory", bytes));
    let images: Vec<_> = images.into_iter().chain(memory).collect();
    write(folder, &images, &journal_of_machine(look, work, document), document)
}

fn write(
    folder: &Path,
    images: &[(&str, &Vec<u8>)],
    journal: &Value,
    document: &Document,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in images {
        fs::write(folder.join(format!("{name}.bin")), bytes)?;
    }
    fs::write(folder.join("journal.json"), format!("{journal}\n"))?;
    fs::write(folder.join("index.html"), html::explained(document))
}

/// The work's operations, the writes that reached memory, the transactions, and the lines of data: each a
/// table by columns, which have the same length.
fn journal_of_machine(look: &machine::Look, work: &str, document: &Document) -> Value {
    let campaign = &look.campaign;
    let left = look.left();
    json!({
        "outlast": document.outlast,
        "command": look.explanation.replay,
        "seed": campaign.plan.seed,
        "workload": work,
        "scheme": campaign.scheme.name(),
        "machine": campaign.machine.name,
        "crash_entry": look.at.entry,
        "resume_entry": look.at.resumed,
        "crash_cycle": cycle(look.now()),
        "reported": left.reported,
        "kept": left.kept,
        "wrong": look.violation.as_ref().map(ToString::to_string),
        "operations": operations_of_machine(look),
        "lines": lines_of_machine(look),
        "transactions": transactions_of_machine(look),
        "states": states_of_machine(look),
    })
}

fn operations_of_machine(look: &machine::Look) -> Value {
    let mut rows = Columns::new(&[
        "stream", "op", "lane", "kind", "address", "bytes", "line", "place", "data",
    ]);
    for (stream, log) in look.recorded.streams.iter().enumerate() {
        for (op, (lane, what)) in log.iter().enumerate() {
            let (kind, at, bytes) = told(&what);
            rows.add([
                json!(stream),
                json!(op),
                json!(lane.0),
                json!(kind),
                json!(at.map(|at| at.0)),
                json!(bytes),
                json!(at.map(|at| at.0 / LINE_BYTES)),
                json!(at.map(|at| look.place(at))),
                json!(stored(&what).map(|(_, bytes)| hex(bytes))),
            ]);
        }
    }
    rows.finish()
}

fn lines_of_machine(look: &machine::Look) -> Value {
    let mut rows = Columns::new(&[
        "entry", "cycle", "line", "address", "bytes", "place", "cause", "in_image", "data",
    ]);
    for written in look.writes() {
        let (at, words) = part_of_line(&written.words);
        rows.add([
            json!(written.entry),
            json!(written.at.0),
            json!(written.words.line.0),
            json!(at.0),
            json!(words.len()),
            json!(look.place(at)),
            json!(cause(written.words.cause)),
            json!(written.is_in_image),
            json!(hex(words)),
        ]);
    }
    rows.finish()
}

fn transactions_of_machine(look: &machine::Look) -> Value {
    let mut rows = Columns::new(&["data", "transaction", "acked", "acked_before_crash", "lines"]);
    for tx in look.transactions() {
        rows.add([
            json!(tx.data),
            json!(tx.number),
            json!(tx.acked.map(|at| at.0)),
            json!(tx.acked.is_some_and(|at| at <= look.now())),
            json!(tx.lines.iter().map(|line| line.0).collect::<Vec<_>>()),
        ]);
    }
    rows.finish()
}

fn states_of_machine(look: &machine::Look) -> Value {
    let mut rows = Columns::new(&["line", "place", "is_newest", "words_missing"]);
    for line in look.lines() {
        let missing = line.words.iter().filter(|word| word.image != word.newest).count();
        rows.add([
            json!(line.at / LINE_BYTES),
            json!(line.place),
            json!(missing == 0),
            json!(missing),
        ]);
    }
    rows.finish()
}

/// A cycle; none for the end of the run.
fn cycle(at: Cycle) -> Option<u64> {
    (at != Cycle::NEVER).then_some(at.0)
}

/// The words of a write, and where they lie.
fn part_of_line<'l>(written: &Persisted<'l>) -> (PoolOffset, &'l [u8]) {
    (written.line.start().plus(8 * written.first_word as u64), written.words.as_flattened())
}

/// The run's operations, the lines that became durable, and the transactions: each a table by columns, which
/// have the same length.
fn journal(look: &Look, document: &Document) -> Value {
    let campaign = &look.campaign;
    json!({
        "outlast": document.outlast,
        "command": campaign.command(),
        "seed": campaign.seed,
        "workload": campaign.workload.name,
        "scheme": campaign.scheme.name(),
        "policy": campaign.policies.first().map(ToString::to_string),
        "caches": campaign.caches.first().map(ToString::to_string),
        "domain": campaign.domain.name(),
        "crash_op": campaign.crash_at.map(|at| at.to_string()),
        "wrong": look.failure.as_ref().map(ToString::to_string),
        "operations": operations(look),
        "lines": lines(look),
        "transactions": transactions(look),
    })
}

/// Columns that grow row by row.
struct Columns {
    names: &'static [&'static str],
    columns: Vec<Vec<Value>>,
}

impl Columns {
    fn new(names: &'static [&'static str]) -> Self {
        Self { names, columns: vec![Vec::new(); names.len()] }
    }

    fn add<const N: usize>(&mut self, row: [Value; N]) {
        debug_assert_eq!(N, self.names.len());
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
    }

    fn finish(self) -> Value {
        let columns = self.columns.into_iter().map(Value::from);
        Value::Object(self.names.iter().map(|name| (*name).to_owned()).zip(columns).collect())
    }
}

fn operations(look: &Look) -> Value {
    let mut rows = Columns::new(&[
        "op",
        "lane",
        "kind",
        "address",
        "bytes",
        "line",
        "place",
        "transaction",
        "before_crash",
        "data",
    ]);
    let mut of_lanes: Vec<_> = look.transactions().collect();
    of_lanes.sort_by_key(|tx| (tx.lane, tx.begun));
    for (op, (lane, what)) in look.log.iter().enumerate() {
        let (kind, at, bytes) = told(&what);
        let data = stored(&what).map(|(_, bytes)| hex(bytes));
        let before = of_lanes.partition_point(|tx| (tx.lane, tx.begun) <= (lane.0, op));
        let own = before.checked_sub(1).map(|index| of_lanes[index]);
        let own = own.filter(|tx| tx.lane == lane.0 && op <= tx.acked);
        rows.add([
            json!(op),
            json!(lane.0),
            json!(kind),
            json!(at.map(|at| at.0)),
            json!(bytes),
            json!(at.map(|at| at.0 / LINE_BYTES)),
            json!(at.map(|at| look.place(at))),
            json!(own.map(|tx| tx.number)),
            json!(op < look.crash_op()),
            json!(data),
        ]);
    }
    rows.finish()
}

fn lines(look: &Look) -> Value {
    let mut rows = Columns::new(&[
        "entry", "op", "lane", "line", "address", "bytes", "place", "cause", "in_image", "data",
    ]);
    for (entry, written) in look.journal.iter().enumerate() {
        let (at, words) = part_of_line(&written);
        let lane = (written.op < look.log.len()).then(|| look.log.get(written.op).0.0);
        rows.add([
            json!(entry),
            json!(written.op),
            json!(lane),
            json!(written.line.0),
            json!(at.0),
            json!(words.len()),
            json!(look.place(at)),
            json!(cause(written.cause)),
            json!(entry < look.entries),
            json!(hex(words)),
        ]);
    }
    rows.finish()
}

fn transactions(look: &Look) -> Value {
    let mut rows =
        Columns::new(&["lane", "transaction", "begun", "acked", "acked_before_crash", "keys"]);
    for tx in look.transactions() {
        rows.add([
            json!(tx.lane),
            json!(tx.number),
            json!(tx.begun),
            json!(tx.acked),
            json!(tx.acked < look.crash_op()),
            json!(tx.writes.iter().map(|(key, _)| key).collect::<Vec<_>>()),
        ]);
    }
    rows.finish()
}

/// An operation's kind, and the bytes that it is about.
fn told(op: &Op<'_>) -> (&'static str, Option<PoolOffset>, Option<u64>) {
    if let Some((at, bytes)) = stored(op) {
        let kind = match op {
            Op::StoreNt { .. } => "store_nt",
            Op::Store64 { .. } => "store64",
            Op::Rmw { .. } => "rmw",
            _ => "store",
        };
        return (kind, Some(at), Some(bytes.len() as u64));
    }
    match *op {
        Op::Load { at, len, .. } => ("load", Some(at), Some(u64::from(len))),
        Op::Flush { kind, line } => {
            let kind = match kind {
                FlushKind::Clwb => "clwb",
                FlushKind::ClflushOpt => "clflushopt",
                FlushKind::Clflush => "clflush",
            };
            (kind, Some(line.start()), Some(LINE_BYTES))
        }
        Op::Sfence => ("sfence", None, None),
        Op::Mfence => ("mfence", None, None),
        Op::TxBegin => ("begin", None, None),
        Op::TxEnd => ("end", None, None),
        Op::TxAbort => ("abort", None, None),
        Op::Ack(_) => ("ack", None, None),
        Op::Lock { .. } => ("lock", None, None),
        Op::Unlock { .. } => ("unlock", None, None),
        Op::Signal { .. } => ("signal", None, None),
        Op::Wait { .. } => ("wait", None, None),
        Op::Epoch => ("epoch", None, None),
        Op::Grow { len } => ("grow", None, Some(len)),
        _ => ("compute", None, None),
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Evicted => "evicted",
        Cause::Unasked => "unasked",
        Cause::Flushed => "flushed",
        Cause::Streamed => "streamed",
        Cause::Stored => "stored",
        Cause::Logged => "logged",
        Cause::Forced => "forced",
        Cause::Metadata => "metadata",
        Cause::Scheme(_) => "scheme",
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
