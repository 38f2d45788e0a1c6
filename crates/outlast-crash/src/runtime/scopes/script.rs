//! Small programs for the runtime: what each transaction of each lane does, and what it saw.
//!
//! The state is a row of *cells*. A word cell is a word of the root block; a block cell is a
//! pointer in the root block to a block whose first and last words say the same, or an odd word
//! that says who emptied it. What a cell says is a *version*: the number of the transaction that
//! wrote it, 0 before any did. A writer of a cell reads it first, so that the versions of
//! each cell form one chain.

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use outlast_trace::TxId;

/// Where the cells of a script live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Word cells.
    pub words: u64,
    /// Bytes from one word cell to the next: 8 packs them, 64 gives each a line.
    pub stride: u64,
    /// Block cells, behind the word cells.
    pub blocks: u64,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// Bytes of the blocks that `PublishLarge` makes.
    pub large_bytes: u64,
    /// Block cells have a block from the start.
    pub filled: bool,
}

impl Shape {
    /// All cells.
    pub fn cells(&self) -> u64 {
        self.words + self.blocks
    }

    /// Bytes of the root block: the cells and two words for the transaction that goes on after a recovery.
    pub fn root_bytes(&self) -> u64 {
        self.cells() * self.stride + 16
    }

    /// Those two words.
    pub fn after_at(&self, root: PoolOffset) -> PoolOffset {
        root.plus(self.cells() * self.stride)
    }

    /// The word of a cell in the root block.
    pub fn cell_at(&self, root: PoolOffset, cell: u64) -> PoolOffset {
        root.plus(cell * self.stride)
    }

    /// Whether the cell's word points to a block.
    pub fn is_block(&self, cell: u64) -> bool {
        cell >= self.words
    }
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Announces these word cells at once, then writes them.
    Write(Vec<u64>),
    /// Reads a cell.
    Read(u64),
    /// Writes bytes 4 to 11 from a word cell on, which is half of it and half of the next: both
    /// are read first and keep a version each. Needs packed cells.
    WriteAcross(u64),
    /// Puts a new block in place of what a block cell has.
    Publish(u64),
    /// As `Publish`, but the cell points to the new block before that is filled.
    LinkThenFill(u64),
    /// Puts a large one in place.
    PublishLarge(u64),
    /// Puts a large one in place, all of whose lines look like records of the log that spoil
    /// cell 0: what a log must not take for its own when it gets this space.
    Forge {
        /// The block cell.
        cell: u64,
        /// As undo or as redo.
        undo: bool,
        /// The number that the records bear.
        counter: u64,
    },
    /// Gives that block back, with a forged first line.
    ClearForged {
        /// The block cell.
        cell: u64,
        /// As undo or as redo.
        undo: bool,
        /// The number that the record bears.
        counter: u64,
    },
    /// Takes a block, stores to the middle of it and links it nowhere: for what gives up.
    Scribble,
    /// Gives the block of a cell back.
    Clear(u64),
    /// Changes the block of a cell in place.
    Rewrite(u64),
    /// Changes the end of a cell's block and gives the block back.
    ChangeAndClear(u64),
    /// Makes the root block the root again.
    SetRoot,
    /// Gives everything up.
    Abort,
    /// Before all others: the transaction commits asynchronously, and is acknowledged by one of the
    /// next two.
    Later,
    /// Alone, instead of a transaction: makes everything durable that has returned, on all lanes,
    /// and acknowledges it.
    Sync,
    /// Alone, instead of a transaction: acknowledges what has returned and counts as durable.
    Look,
    /// Alone, instead of a transaction: waits until all other lanes have done everything.
    Stay,
    /// Alone, instead of a transaction: lets others run, until this number of transactions of all lanes have
    /// returned.
    After(usize),
}

impl Step {
    /// The step in words.
    pub fn describe(&self) -> String {
        let cells = |cells: &[u64]| {
            let names: Vec<String> = cells.iter().map(u64::to_string).collect();
            match names.len() {
                1 => format!("cell {}", names[0]),
                _ => format!("cells {}", names.join(", ")),
            }
        };
        match self {
            Self::Write(written) => format!("writes {}", cells(written)),
            Self::Read(cell) => format!("reads cell {cell}"),
            Self::WriteAcross(cell) => {
                format!("writes cells {cell} and {} by one unaligned store", cell + 1)
            }
            Self::Publish(cell) => format!("puts a new block into cell {cell}"),
            Self::LinkThenFill(cell) => format!("links a new block in cell {cell}, then fills it"),
            Self::PublishLarge(cell) => format!("puts a large block into cell {cell}"),
            Self::Forge { cell, .. } => {
                format!("puts a block of forged log records into cell {cell}")
            }
            Self::ClearForged { cell, .. } => {
                format!("frees the block of cell {cell} with a forged first line")
            }
            Self::Scribble => "stores into a block that it never links".to_owned(),
            Self::Clear(cell) => format!("frees the block of cell {cell}"),
            Self::Rewrite(cell) => format!("changes the block of cell {cell} in place"),
            Self::ChangeAndClear(cell) => format!("changes the block of cell {cell} and frees it"),
            Self::SetRoot => "sets the root".to_owned(),
            Self::Abort => "gives up".to_owned(),
            Self::Later => "commits asynchronously".to_owned(),
            Self::Sync => "makes everything durable that has returned".to_owned(),
            Self::Look => "acknowledges what has returned and is durable".to_owned(),
            Self::Stay => "waits for all other lanes".to_owned(),
            Self::After(count) => format!("waits until {count} transactions have returned"),
        }
    }
}

/// The epoch in which a trial's scripts run: the second opening of their pool.
const TRIAL_EPOCH: u64 = 3;

/// The number of the records that litter looks like: above all that a trial draws.
const LITTER_COUNTER: u64 = 1000;

/// What forged records would put into cell 0.
const FORGED: u64 = 0xf0f0;

/// The transactions of one lane.
pub type LaneScript = Vec<Vec<Step>>;

/// What a committed transaction read and wrote: `(cell, version)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Facts {
    /// Its number, which is also the version that it writes.
    pub tx: TxId,
    /// What it read, once for each cell.
    pub reads: Vec<(u64, u64)>,
    /// The cells that it wrote.
    pub writes: Vec<u64>,
}

/// The number of the `index`-th transaction of a lane.
pub fn tx_id(lane: usize, index: usize) -> TxId {
    TxId((lane as u64 + 1) << 8 | (index as u64 + 1))
}

/// Makes the root block and what block cells have from the start, all cells at version 0.
pub fn create<R: Runner>(runner: &mut R, shape: &Shape) -> Result<PoolOffset, Abort> {
    runner.run(|tx| {
        let root = tx.alloc(shape.root_bytes(), BlockKind::General)?;
        tx.store(root, &vec![0; shape.root_bytes() as usize])?;
        for cell in shape.words..if shape.filled { shape.cells() } else { 0 } {
            let block = tx.alloc(shape.block_bytes, BlockKind::General)?;
            fill(tx, block, shape.block_bytes, 0)?;
            tx.store_u64(shape.cell_at(root, cell), block.0)?;
        }
        tx.set_root(root, RootKind::Opaque)?;
        Ok(root)
    })
}

/// Leaves free chunks behind that are full of what looks like records of the log, which would
/// spoil cell 0 in a trial.
pub fn litter<R: Runner>(runner: &mut R, shape: &Shape, root: PoolOffset) -> Result<(), Abort> {
    let bytes = shape.large_bytes;
    let block = runner.run(|tx| {
        let block = tx.alloc(bytes, BlockKind::General)?;
        let line = forged(shape, root, false, LITTER_COUNTER);
        (0..bytes / 64).try_for_each(|at| tx.store(block.plus(at * 64), &line))?;
        Ok(block)
    })?;
    runner.run(|tx| tx.free(block))
}

/// What one transaction does, for a runner.
pub fn body<T: Transact>(
    shape: &Shape,
    root: PoolOffset,
    id: TxId,
    steps: &[Step],
) -> impl FnMut(&mut T) -> Result<Facts, Abort> {
    move |tx| {
        let mut facts = Facts { tx: id, ..Facts::default() };
        for step in steps {
            perform(tx, shape, root, step, &mut facts)?;
        }
        Ok(facts)
    }
}

fn perform<T: Transact>(
    tx: &mut T,
    shape: &Shape,
    root: PoolOffset,
    step: &Step,
    facts: &mut Facts,
) -> Result<(), Abort> {
    let version = facts.tx.0;
    match step {
        Step::Write(cells) => {
            let ranges: Vec<_> =
                cells.iter().map(|cell| ByteRange::new(shape.cell_at(root, *cell), 8)).collect();
            tx.will_write(&ranges)?;
            for cell in cells {
                see(tx, shape, root, *cell, facts)?;
                wrote(facts, *cell);
                tx.store_u64(shape.cell_at(root, *cell), version)?;
            }
        }
        Step::Read(cell) => {
            see(tx, shape, root, *cell, facts)?;
        }
        Step::WriteAcross(cell) => {
            for cell in [*cell, *cell + 1] {
                see(tx, shape, root, cell, facts)?;
                wrote(facts, cell);
            }
            // Versions are below 2³²: the upper half of a cell and the lower half of the next
            // are changed by one unaligned store, the other halves by two small ones.
            let (at, low) = (shape.cell_at(root, *cell), (version as u32).to_le_bytes());
            tx.store(at, &low)?;
            let mut across = [0; 8];
            across[4..].copy_from_slice(&low);
            tx.store(at.plus(4), &across)?;
        }
        Step::Publish(cell) => replace(tx, shape, root, *cell, Some(shape.block_bytes), facts)?,
        Step::LinkThenFill(cell) => {
            let old = see(tx, shape, root, *cell, facts)?;
            wrote(facts, *cell);
            let block = tx.alloc(shape.block_bytes, BlockKind::General)?;
            tx.store_u64(shape.cell_at(root, *cell), block.0)?;
            fill(tx, block, shape.block_bytes, version)?;
            old.map_or(Ok(()), |old| tx.free(old))?;
        }
        Step::PublishLarge(cell) => {
            replace(tx, shape, root, *cell, Some(shape.large_bytes), facts)?;
        }
        Step::Forge { cell, undo, counter } => {
            replace(tx, shape, root, *cell, Some(shape.large_bytes), facts)?;
            let block = PoolOffset(tx.load_u64(shape.cell_at(root, *cell))?);
            let line = forged(shape, root, *undo, *counter);
            // The first and the last line say what the block is.
            let lines = (64..shape.large_bytes - 64).step_by(64);
            lines.into_iter().try_for_each(|at| tx.store(block.plus(at), &line))?;
        }
        Step::ClearForged { cell, undo, counter } => {
            if let Some(block) = see(tx, shape, root, *cell, facts)? {
                tx.store(block, &forged(shape, root, *undo, *counter))?;
            }
            replace(tx, shape, root, *cell, None, facts)?;
        }
        Step::Scribble => {
            let block = tx.alloc(shape.block_bytes, BlockKind::General)?;
            tx.store_u64(block.plus(shape.block_bytes / 128 * 64), version)?;
        }
        Step::Clear(cell) => replace(tx, shape, root, *cell, None, facts)?,
        Step::Rewrite(cell) => {
            if let Some(block) = see(tx, shape, root, *cell, facts)? {
                wrote(facts, *cell);
                let bytes = tx.load_u64(block.plus(8))?;
                fill(tx, block, bytes, version)?;
            }
        }
        Step::ChangeAndClear(cell) => {
            if let Some(block) = see(tx, shape, root, *cell, facts)? {
                let bytes = tx.load_u64(block.plus(8))?;
                tx.store_u64(block.plus(bytes - 8), version)?;
            }
            replace(tx, shape, root, *cell, None, facts)?;
        }
        Step::SetRoot => tx.set_root(root, RootKind::Opaque)?,
        Step::Abort => return Err(Abort::cancelled("given up")),
        Step::Later => {}
        Step::Sync | Step::Look | Step::Stay | Step::After(_) => unreachable!("they stand alone"),
    }
    Ok(())
}

/// A line that would spoil cell 0 if it passed for a record.
fn forged(shape: &Shape, root: PoolOffset, undo: bool, counter: u64) -> Vec<u8> {
    let spoiled = shape.cell_at(root, 0);
    let line = outlast::inspect::forged_line(undo, TRIAL_EPOCH, counter, spoiled, FORGED);
    line.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn wrote(facts: &mut Facts, cell: u64) {
    if !facts.writes.contains(&cell) {
        facts.writes.push(cell);
    }
}

/// Puts a new block of that size in place of what a block cell has, or nothing.
fn replace<T: Transact>(
    tx: &mut T,
    shape: &Shape,
    root: PoolOffset,
    cell: u64,
    bytes: Option<u64>,
    facts: &mut Facts,
) -> Result<(), Abort> {
    let version = facts.tx.0;
    let old = see(tx, shape, root, cell, facts)?;
    wrote(facts, cell);
    let word = match bytes {
        Some(bytes) => {
            let block = tx.alloc(bytes, BlockKind::General)?;
            fill(tx, block, bytes, version)?;
            block.0
        }
        None => version << 1 | 1,
    };
    if let Some(old) = old {
        tx.free(old)?;
    }
    tx.store_u64(shape.cell_at(root, cell), word)
}

/// Stores the version at both ends of a block, and its size. What lies between would only
/// multiply images.
fn fill<T: Transact>(tx: &mut T, block: PoolOffset, bytes: u64, version: u64) -> Result<(), Abort> {
    let end = block.plus(bytes - 8);
    tx.will_write(&[ByteRange::new(block, 16), ByteRange::new(end, 8)])?;
    tx.store_u64(block, version)?;
    tx.store_u64(block.plus(8), bytes)?;
    tx.store_u64(end, version)
}

/// Reads a cell's version and notes it. Returns its block, if it has one.
fn see<T: Transact>(
    tx: &mut T,
    shape: &Shape,
    root: PoolOffset,
    cell: u64,
    facts: &mut Facts,
) -> Result<Option<PoolOffset>, Abort> {
    let word = tx.load_u64(shape.cell_at(root, cell))?;
    let block = (shape.is_block(cell) && word != 0 && word % 2 == 0).then_some(PoolOffset(word));
    let version = match block {
        Some(block) => tx.load_u64(block)?,
        None if shape.is_block(cell) => word >> 1,
        None => word,
    };
    let own = facts.writes.contains(&cell);
    if !own && !facts.reads.iter().any(|(seen, _)| *seen == cell) {
        facts.reads.push((cell, version));
    }
    Ok(block)
}
