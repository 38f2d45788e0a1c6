//! Captured programs as recorded work: what crash campaigns take, and schemes of transactions.
//!
//! A program marks its transactions by a system call that no kernel has ([`tx_mark`]). The work begins
//! with the first mark; what the program stored before is its image. Without marks it is all of the
//! trace, for schemes of epochs.

use outlast_sim::timed::{Batch, InstrKind, Mark};
use outlast_trace::{Happening, LaneId, OpLog, PoolOffset, Sink, TxId, TxMark, tx_mark};
use outlast_workloads::machine::{Plan, Recorded};
use outlast_workloads::workloads;

use super::*;

/// The recorded work of a captured program: `instructions` of the machine at most, and then up to the
/// end of the transaction.
///
/// # Errors
/// When the trace cannot be read, is none of a program, or has several threads.
pub fn captured_work(
    path: &Path,
    instructions: u64,
    seed: u64,
) -> Result<Recorded, Box<dyn std::error::Error>> {
    let shown = path.display();
    if !is_program_trace(path) {
        return Err(
            format!("{shown}: no trace of a program: capture one with `outlast trace`").into()
        );
    }
    let real = RealPrograms::open(&[path.to_owned()], false)?;
    if real.threads() != 1 {
        let threads = real.threads();
        return Err(format!("{shown}: has {threads} threads: take a program of one").into());
    }
    let mut taking = Taking { image: real.base(), ..Taking::default() };
    taking.has_begun = !has_marks(&real)?;
    let mut batch = Batch::default();
    let mut source = real.sources().remove(0);
    'all: loop {
        batch.clear();
        source.fill(&mut batch)?;
        if batch.instrs.is_empty() {
            break;
        }
        for instr in &batch.instrs {
            if taking.instructions >= instructions && taking.open.is_none() {
                break 'all;
            }
            match instr.kind {
                InstrKind::Mark => taking.mark(batch.mark(instr)),
                _ => taking.instr(instr),
            }
        }
    }
    taking.ends();
    let plan = Plan {
        // A row as good as any: the records are named after the trace.
        workload: &workloads()[0],
        footprint: taking.image.len() as u64,
        threads: 1,
        warm_up: 0,
        transactions: taking.acknowledged,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed,
    };
    Ok(Recorded {
        plan,
        image: Arc::new(taking.image),
        streams: vec![Arc::new(taking.log)],
        transactions: taking.acknowledged,
        aborted: 0,
    })
}

/// Whether a program marks transactions.
fn has_marks(real: &RealPrograms) -> Result<bool, Box<dyn std::error::Error>> {
    let program = &real.programs()[0].program;
    for number in 0..program.threads() {
        let mut thread = program.thread(number);
        while let Some(happening) = thread.next()? {
            if let Happening::Call { number, arguments } = happening
                && tx_mark(number, &arguments) == Some(TxMark::Begin)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Work that is being taken from a program's instructions.
#[derive(Default)]
struct Taking {
    image: Vec<u8>,
    log: OpLog,
    /// The operations of the transaction under way: one that never ends is left out.
    open: Option<OpLog>,
    has_begun: bool,
    is_unacknowledged: bool,
    acknowledged: u64,
    instructions: u64,
    computing: u32,
}

impl Taking {
    fn op(&mut self, op: Op<'_>) {
        let to = self.open.as_mut().unwrap_or(&mut self.log);
        if self.computing > 0 {
            to.op(LaneId(0), Op::Compute(std::mem::take(&mut self.computing)));
        }
        to.op(LaneId(0), op);
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::TxBegin if self.open.is_none() => {
                self.has_begun = true;
                self.acknowledge();
                self.open = Some(OpLog::default());
                self.op(Op::TxBegin);
            }
            Mark::TxEnd if self.open.is_some() => {
                self.op(Op::TxEnd);
                let ended = self.open.take().unwrap_or_default();
                ended.iter().for_each(|(lane, op)| self.log.op(lane, op));
                self.is_unacknowledged = true;
            }
            Mark::Ack(_) => self.acknowledge(),
            Mark::Epoch if self.has_begun => self.op(Op::Epoch),
            _ => {}
        }
    }

    /// The transaction that ended last is acknowledged; at the next one's begin at the latest.
    fn acknowledge(&mut self) {
        if std::mem::take(&mut self.is_unacknowledged) {
            self.acknowledged += 1;
            self.op(Op::Ack(TxId(self.acknowledged)));
        }
    }

    fn instr(&mut self, instr: &outlast_sim::timed::Instr) {
        let bytes = instr.value.to_le_bytes();
        let bytes = &bytes[..usize::from(instr.store_len)];
        if !self.has_begun {
            for &at in instr.store_at() {
                self.image[at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            return;
        }
        self.instructions += 1;
        for &at in instr.load_at() {
            self.op(Op::Load { at: PoolOffset(at), len: 1, depends: None });
        }
        for &at in instr.store_at() {
            self.op(Op::Store { at: PoolOffset(at), bytes });
        }
        match instr.kind {
            InstrKind::Sfence => self.op(Op::Sfence),
            InstrKind::Mfence => self.op(Op::Mfence),
            _ if instr.loads + instr.stores == 0 => self.computing += 1,
            _ => {}
        }
    }

    fn ends(&mut self) {
        self.open = None;
        self.acknowledge();
        if self.computing > 0 {
            let left = std::mem::take(&mut self.computing);
            self.log.op(LaneId(0), Op::Compute(left));
        }
    }
}

/// Runs a captured program under a scheme of transactions: those that it marks.
pub(super) fn run(
    simulation: &Simulation,
    path: &Path,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let Simulation { machine, warm_up, instructions, seed, scheme, options, .. } = simulation;
    let work = captured_work(path, warm_up + instructions, *seed)?;
    if work.transactions == 0 {
        return Err(no_transactions(path, *scheme).into());
    }
    let measured = measure(machine, *scheme, &work, options)?;
    let mut found = scheme_records(machine, &work, &measured);
    found.push(speed_record(machine, &work, &measured));
    name_records(&mut found, path);
    Ok(found)
}

/// Gives records the name of a trace as their work.
pub fn name_records(records: &mut [Record], path: &Path) {
    for record in records {
        record.workload = path.display().to_string();
    }
}

/// Says that a scheme protects transactions, and a trace has none.
pub fn no_transactions(path: &Path, scheme: MachineScheme) -> String {
    format!(
        "{}: no transactions in it, and {} protects nothing else: mark them (docs/trace.md, \
         \"Transactions\"), or take a scheme of epochs",
        path.display(),
        scheme.name()
    )
}
