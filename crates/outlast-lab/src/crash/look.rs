//! One crash as files: the bytes before, at and after it, the journal, and the explorer's page.

use std::fs;
use std::io;
use std::path::Path;

use outlast_crash::runtime::campaign::{Look, stored};
use outlast_sim::Cause;
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
    fs::create_dir_all(folder)?;
    for (name, bytes) in
        [("before", &look.base), ("image", &look.image), ("recovered", &look.recovered)]
    {
        fs::write(folder.join(format!("{name}.bin")), bytes)?;
    }
    fs::write(folder.join("journal.json"), format!("{}\n", journal(look, document)))?;
    fs::write(folder.join("index.html"), html::explained(document))
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
        let at = written.line.start().plus(8 * written.first_word as u64);
        let words = written.words.as_flattened();
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
